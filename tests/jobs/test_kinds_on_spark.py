"""Jobs of every kind of stream have the same output on Spark and locally."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from perseid.errors import SettingsError
from perseid.jobs.assembly import assemble
from perseid.jobs.reading import read_job
from perseid.jobs.rule_loading import load_relations, load_rules
from perseid.jobs.runner import JobRunner
from tests.cli.calling import invoked as call
from tests.jobs.test_job_files import FILES

pytestmark = pytest.mark.timeout(240)

Row = dict[str, Any]
RULES = "\nrule alarm on found overcommitted(host) do emit alarm(host, host.used as used)\n"
ENTRY = "<feed><entry><title>one</title></entry><entry><title>two</title></entry></feed>"
ITEM = "<feed><item><author>ann</author></item></feed>"
LATE = 3_600
"""Second of the last row, which advances the watermark past all others."""


def change(second: int, change: str, element: str, **more: Any) -> Row:
    empty = dict.fromkeys(("kind", "attribute", "value", "target"))
    return {"ts": second, "change": change, "element": element, **empty, **more}


CHANGES = [
    change(0, "create", "h", kind="Host"),
    change(0, "set", "h", attribute="total", value="2"),
    *(change(n, "set", "h", attribute="used", value=str(used)) for n, used in enumerate([1, 3, 1, 4], 1)),
    change(LATE, "create", "z", kind="Host"),
]
READINGS = [
    *({"ts": n, "person": "ann", "antenna": one} for n, one in enumerate(["a1", None, None, "a1", "a2", "a2"])),
    {"ts": LATE, "person": "zoe", "antenna": "a1"},
]
INPUTS: dict[str, tuple[list[Row], dict[str, Any], tuple[str, ...]]] = {
    "documents": ([{"ts": 0, "xml": ENTRY}, {"ts": LATE, "xml": "<feed/>"}], {}, ("pattern",)),
    "subscriptions": (
        [*({"ts": n, "feed": "Feed", "xml": ITEM} for n in (0, 1)), {"ts": LATE, "feed": "Feed", "xml": "<feed/>"}],
        {},
        ("subscription",),
    ),
    "uncertain": (READINGS, {}, ("pattern", "person")),
    "model": (CHANGES, {}, ("pattern", "host")),
}
"""By kind: the rows of its source, settings of its stream, and the output columns to compare."""


def job_with(folder: Path, kind: str, rows: list[Row], settings: dict[str, Any]) -> Path:
    """Write the job file of a kind, which reads the rows and writes Parquet."""
    job = yaml.safe_load((FILES / f"{kind}.yaml").read_text(encoding="utf-8"))
    job["stream"] |= {"shards": 2, **settings}
    job |= {"sinks": [{"parquet": {"path": "out"}}], "trigger": "available_now"}
    (folder / "in").mkdir()
    lines = [json.dumps({**row, "ts": f"2026-01-01T{row['ts'] // 3600:02}:00:{row['ts'] % 60:02}Z"}) for row in rows]
    (folder / "in" / "rows.json").write_text("\n".join(lines))
    (folder / "hosts.perseid").write_text((FILES / "hosts.perseid").read_text(encoding="utf-8") + RULES)
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    return folder / "job.yaml"


@pytest.mark.parametrize("kind", INPUTS)
def test_output_on_spark_equals_local_output(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    rows, settings, columns = INPUTS[kind]
    job = read_job(job_with(tmp_path, kind, rows, settings))
    local: Any = job.stream.match(rows, load_rules(job), load_relations(job))
    expected = local if isinstance(local, list) else local.to_dicts()
    JobRunner(assemble(job, spark)).run()
    found = [row.asDict() for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    names = [[tuple(str(row[name]) for name in columns) for row in some] for some in (found, expected)]
    assert sorted(names[0]) == sorted(one for one in names[1] if "zoe" not in one)
    assert names[0]


def test_job_with_reactive_rules_outputs_actions(spark: SparkSession, tmp_path: Path) -> None:
    path = job_with(tmp_path, "model", CHANGES, {"react": True})
    JobRunner(assemble(read_job(path), spark)).run()
    rows = spark.read.parquet(str(tmp_path / "out")).where("what = 'emitted'").collect()
    assert len(rows) == 2, "the host is overcommitted at second 2 and again at second 4"


def test_check_explain_and_try_accept_reactive_rules(tmp_path: Path) -> None:
    path = job_with(tmp_path, "model", CHANGES, {"react": True})
    checked = json.loads(call("check", path, "--json").stdout)
    assert (checked["ok"], checked["patterns"]) == (True, [])
    assert "runs the rules on the model" in call("explain", path).stdout
    done = call("try", path, tmp_path / "in" / "rows.json")
    assert (done.exit_code, "2 rules fired" in done.stdout) == (0, True), done.output
    text = path.read_text()
    path.write_text(text + "patterns: {text: 'pattern p match found overcommitted a'}\n")
    assert "remove patterns or react" in call("check", path).stderr


@pytest.mark.parametrize("kind", ["uncertain", "model"])
def test_dead_letters_of_kinds_without_rejected_rows_are_an_error(kind: str, tmp_path: Path) -> None:
    rows, settings, _ = INPUTS[kind]
    path = job_with(tmp_path, kind, rows, settings)
    path.write_text(path.read_text() + "dead_letters: {parquet: {path: dead}}\n")
    unopened: Any = None
    with pytest.raises(SettingsError, match="dead_letters: unsupported for uncertain streams and models"):
        assemble(read_job(path), unopened)


def test_session_of_spark_connect_is_an_error(tmp_path: Path) -> None:
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    rows, settings, _ = INPUTS["model"]
    session: Any = object.__new__(RemoteSession)  # without a server: the error is raised before the session is used
    with pytest.raises(SettingsError, match="Jobs do not run through Spark Connect"):
        assemble(read_job(job_with(tmp_path, "model", rows, settings)), session)


def test_nested_streams_have_separate_times_and_bounds(tmp_path: Path) -> None:
    beside = {"source": {"files": {"path": "b", "format": "parquet"}}, "lateness": "1 minute", "time": "at"}
    for kind, given, prefix in (
        ("uncertain", [beside], "events[0]."),
        ("model", {**beside, "max_ahead": "none"}, "events."),
    ):
        folder = tmp_path / kind
        folder.mkdir()
        stream = read_job(job_with(folder, kind, [], {"events": given})).stream
        assert stream.time_columns() == {"source": "ts", f"{prefix}source": "at"}
        bound = None if kind == "model" else 3_600_000_000
        assert stream.max_ahead_bounds() == {"source": 3_600_000_000, f"{prefix}source": bound}
