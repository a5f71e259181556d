"""A job with canary secrets: they work, and none of them appears in the process list, a log, a page, a file or a message."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pytest

import perseid
from perseid.runtime.jit import cache_place
from tests.sinks.test_webhook import Receiver

pytestmark = pytest.mark.timeout(1800)

COMMAND = [sys.executable, "-c", "from perseid.cli.app import app; app()"]
WAIT_S = 420.0
SAMPLE_S = 0.05
ENVIRONMENT = {
    "CANARY_LAKE": "canary-lake-\"q'7\\z=:# ü",
    "CANARY_HOOK_PATH": "canary-hook-5521",
    "CANARY_OPTION": "canary-option-8812",
}
IN_FILES = {
    "pin": "canary-pin-3391 $HOME;x",
    "header": "canary-header-6620",
    "account": "canary-account-4473",
}
CANARIES = (*ENVIRONMENT.values(), *IN_FILES.values())
JOB = """
job: canary
stream:
  source:
    files:
      path: in
      format: json
      schema: "ts timestamp, type string, user string"
      options: {vendorHint: {env: CANARY_OPTION}, maxFileAge: "1000d"}
  time: ts
  lateness: 1 second
  type: type
patterns: {text: "pattern pair match A a -> B b within 1 hour partition by user"}
sinks:
  - console
  - parquet: {path: out}
  - webhook: {url: {env: CANARY_HOOK}, headers: {X-Vendor: {file: secrets/header}}, retry_for: 0 seconds}
dead_letters: {parquet: {path: dead}}
checkpoint: state
trigger: 1 second
metrics: {log: batches.jsonl}
spark:
  spark.hadoop.fs.lake.signer: {env: CANARY_LAKE}
  spark.hadoop.fs.lake.account: {file: secrets/account}
  spark.vendor.pin: {file: secrets/pin}
  spark.ui.enabled: "true"
  spark.ui.port: "UI_PORT"
  spark.ui.showConsoleProgress: "false"
  spark.eventLog.enabled: "true"
  spark.eventLog.dir: EVENTS
  spark.eventLog.compress: "false"
  spark.log.level: DEBUG
  spark.sql.shuffle.partitions: "2"
  spark.driver.memory: 1g
"""


def forms(value: str) -> set[str]:
    """Return the encodings in which a value may appear."""
    return {value, quote(value), quote(value, safe=""), json.dumps(value)[1:-1], repr(value)[1:-1], value[:14]}


def leaks(text: str) -> list[str]:
    return [value for value in CANARIES if any(form in text for form in forms(value))]


@dataclass
class Processes:
    """Samples the command lines of all processes."""

    found: set[str] = field(default_factory=set)
    java: bool = False
    samples: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)

    def sample(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
                except OSError:
                    continue
                self.java |= "org.apache.spark.deploy.SparkSubmit" in line
                self.found.update(leaks(line))
            self.samples += 1

    @contextmanager
    def watched(self) -> Iterator[None]:
        thread = threading.Thread(target=self.sample, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def events(folder: Path, number: int, *rows: tuple[int, str]) -> None:
    lines = [
        json.dumps({"ts": f"2026-01-01T00:{minute:02}:00Z", "type": kind, "user": f"u{number}"})
        for minute, kind in rows
    ]
    hidden = folder / f".{number}"
    hidden.write_text("\n".join([*lines, "no JSON"]))
    hidden.rename(folder / f"{number}.json")


def page(port: int, path: str) -> str:
    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        text: str = answer.read().decode(errors="replace")
    return text


def wait_until(child: subprocess.Popen[bytes], done: Any, what: str) -> None:
    end = time.monotonic() + WAIT_S
    while not done():
        assert child.poll() is None, f"the job ended before {what}"
        assert time.monotonic() < end, what
        time.sleep(0.1)


@dataclass(frozen=True)
class Project:
    folder: Path
    port: int
    environment: dict[str, str]

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        out, err = ((self.folder / name).open("ab") for name in ("stdout.txt", "stderr.txt"))
        with out, err:
            return subprocess.Popen(
                [*COMMAND, *arguments],
                cwd=self.folder,
                env=self.environment,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def files(self) -> Iterator[Path]:
        for path in self.folder.rglob("*"):
            if path.is_file() and path.parent.name != "secrets":
                yield path

    def text(self, name: str) -> str:
        return (self.folder / name).read_text(errors="replace")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def project(tmp_path: Path, receiver: Receiver) -> Project:
    for name in ("in", "secrets", "events", "tmp"):
        (tmp_path / name).mkdir()
    for name, value in IN_FILES.items():
        (tmp_path / "secrets" / name).write_text(value + "\n")
    port = free_port()
    (tmp_path / "job.yaml").write_text(
        JOB.replace("UI_PORT", str(port)).replace("EVENTS", (tmp_path / "events").as_uri())
    )
    environment = {
        **os.environ,
        **ENVIRONMENT,
        "CANARY_HOOK": f"http://127.0.0.1:{receiver.server_port}/{ENVIRONMENT['CANARY_HOOK_PATH']}",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TMPDIR": str(tmp_path / "tmp"),
        "PERSEID_CACHE": str(cache_place()),  # reuses compiled kernels, independent of TMPDIR
        "PYTHONPATH": os.pathsep.join(
            [str(Path(perseid.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        ),
    }
    return Project(tmp_path, port, environment)


def test_secrets_are_in_no_process_list_log_status_file_message_or_page_of_spark(
    project: Project, receiver: Receiver
) -> None:
    folder, processes = project.folder, Processes()
    events(folder / "in", 1, (1, "A"), (2, "B"), (30, "A"))
    pages: dict[str, str] = {}
    with processes.watched():
        child = project.start("-v", "run", "job.yaml", "--master", "local[2]")
        try:
            wait_until(child, lambda: receiver.got, "the webhook had a post")
            assert receiver.got[0][1]["X-Vendor"] == IN_FILES["header"], "secrets reach the sink"
            wait_until(child, (folder / "batches.jsonl").read_text, "a batch was logged")
            application = json.loads(page(project.port, "/api/v1/applications"))[0]["id"]
            api = f"/api/v1/applications/{application}"
            executions = json.loads(page(project.port, f"{api}/sql?length=1000"))
            for path in (
                "/environment/", "/jobs/", "/stages/", "/storage/", "/executors/", "/SQL/", "/StreamingQuery/",
                f"{api}/environment", f"{api}/sql?details=true&planDescription=true&length=1000", f"{api}/jobs",
                f"{api}/executors", *(f"/SQL/execution/?id={one['id']}" for one in executions[:20]),
            ):  # fmt: skip
                pages[path] = page(project.port, path)
            status = subprocess.run(
                [*COMMAND, "status", "job.yaml"],
                cwd=folder,
                env=project.environment,
                capture_output=True,
                text=True,
                check=True,
            )
            # The webhook rejects the post, with all secrets in its response.
            receiver.answers, receiver.said = [403] * 9, " ".join(CANARIES).encode()
            events(folder / "in", 2, (40, "A"), (41, "B"), (59, "A"))
            assert child.wait(WAIT_S) == 1
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait(60)
    assert processes.java
    assert processes.samples > 20
    assert not processes.found, "in the list of processes"
    assert "fs.lake.signer" in pages[f"{api}/environment"]
    assert "fs.lake.account" in pages[f"{api}/environment"]
    assert {path: leaks(text) for path, text in pages.items() if leaks(text)} == {}
    assert executions
    assert "canary" in status.stdout
    assert not leaks(status.stdout + status.stderr)
    errors = project.text("stderr.txt")
    assert "Batch 1 was not written" in errors or re.search(r"Batch \d+ was not written", errors)
    assert "403" in errors
    assert "***" in errors
    assert " DEBUG " in errors, "the log of Spark was not searched"
    written = {
        str(path.relative_to(folder)): leaks(path.read_bytes().decode(errors="replace")) for path in project.files()
    }
    assert {"stdout.txt", "stderr.txt", "batches.jsonl", "state/perseid/status.json"} <= set(written)
    assert any(name.startswith("events/") for name in written), "Spark's event log"
    assert any(name.startswith("dead/") for name in written), "dead letters"
    assert {name: found for name, found in written.items() if found} == {}


PROBE = """
import hashlib, json, pathlib
from perseid.cli.running import session_of_job
from perseid.jobs.reading import read_job
job = read_job("job.yaml")
with session_of_job("probe", job, "local[1]") as spark:
    conf = spark.sparkContext.getConf()
    names = ["spark.hadoop.fs.lake.signer", "spark.hadoop.fs.lake.account", "spark.vendor.pin"]
    found = {name: hashlib.sha256(conf.get(name).encode()).hexdigest() for name in names}
    hadoop = spark._jsc.hadoopConfiguration().get("fs.lake.signer")
    found["hadoop"] = hashlib.sha256(hadoop.encode()).hexdigest()
    found["memory"] = conf.get("spark.driver.memory")
    found["redaction"] = conf.get("spark.redaction.regex")
    pathlib.Path("found.json").write_text(json.dumps(found))
"""


def test_spark_has_the_exact_values_and_the_redaction_pattern_of_its_defaults(project: Project) -> None:
    conf = project.folder / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text("spark.redaction.regex corporate[.]word\n")
    environment = {**project.environment, "SPARK_CONF_DIR": str(conf)}
    subprocess.run([sys.executable, "-c", PROBE], cwd=project.folder, env=environment, check=True, timeout=WAIT_S)
    found = json.loads(project.text("found.json"))
    digests = {
        "spark.hadoop.fs.lake.signer": ENVIRONMENT["CANARY_LAKE"],
        "hadoop": ENVIRONMENT["CANARY_LAKE"],
        "spark.hadoop.fs.lake.account": IN_FILES["account"],
        "spark.vendor.pin": IN_FILES["pin"],
    }
    assert {name: found[name] for name in digests} == {
        name: hashlib.sha256(value.encode()).hexdigest() for name, value in digests.items()
    }
    assert found["memory"] == "1g"
    assert "corporate[.]word" in found["redaction"]


def test_source_that_fails_shows_no_secret(project: Project) -> None:
    text = project.text("job.yaml").replace('maxFileAge: "1000d"', "latestFirst: {env: CANARY_OPTION}")
    (project.folder / "job.yaml").write_text(text.replace("spark.log.level: DEBUG", "spark.log.level: ERROR"))
    events(project.folder / "in", 1, (1, "A"))
    assert project.start("-v", "run", "job.yaml", "--once", "--master", "local[1]").wait(WAIT_S) == 1
    errors = project.text("stderr.txt")
    assert "Invalid value '***' for option 'latestFirst'" in errors
    assert not leaks(errors + project.text("stdout.txt"))
