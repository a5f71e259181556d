"""A standalone master and two workers, and Python environments for them; each test module has its own cluster.

Workers find ``perseid-python`` on a path of their own, so that each can have another environment. Environments are
based on the environment that runs the tests: they have its packages, but not its perseid.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.request
import venv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
APPLICATION = Path(__file__).with_name("application.py")
OTHER = "0.0.7"
"""Version of perseid in one of the environments."""


def spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).resolve().parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# --- environments ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Environments:
    """Environments by name, and the packaged files of perseid."""

    folder: Path
    wheel: Path

    def python(self, name: str) -> Path:
        return self.folder / name / "bin" / "python"

    def make(self, name: str, wheel: Path | None = None) -> None:
        """Create an environment with the packages of this one, and with perseid from that wheel."""
        venv.create(self.folder / name, symlinks=True, with_pip=False)
        (site,) = (self.folder / name / "lib").glob("python*/site-packages")
        (site / "below.pth").write_text(f"{self.folder / 'below'}\n")
        if wheel is not None:
            command = [sys.executable, "-m", "pip", "--python", str(self.python(name)), "install", "-q"]
            subprocess.run([*command, "--no-deps", "--no-index", "--no-compile", str(wheel)], check=True)


def build_wheel(source: Path, out: Path) -> Path:
    command = [sys.executable, "-m", "build", "-q", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    subprocess.run(command, check=True)
    (wheel,) = out.glob("*.whl")
    return wheel


@pytest.fixture(scope="session")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Environments:
    folder = tmp_path_factory.mktemp("environments")
    below = folder / "below"
    below.mkdir()
    for place in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(place).iterdir():
            if not entry.name.lower().startswith(("perseid", "_perseid", "__pycache__")) and entry.suffix != ".pth":
                (below / entry.name).symlink_to(entry)
    copy = folder / "copy"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
    wheel = build_wheel(copy, folder / "dist")
    (copy / "src/perseid/_version.py").write_text(f'__version__ = "{OTHER}"\n')
    other = build_wheel(copy, folder / "other-dist")
    made = Environments(folder, wheel)
    made.make("bare")
    made.make("first", wheel)
    made.make("second", wheel)
    made.make("other", other)
    return made


# --- the cluster ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cluster:
    """A master and two workers, with a method that runs an application on them."""

    master: str
    folder: Path
    environments: Environments
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    """Processes of the master and the workers, by name."""

    def variables(self) -> dict[str, str]:
        foreign = ("SPARK_", "PYSPARK_", "PERSEID_", "PYTHON")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        return {
            **kept,
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PERSEID_CACHE": str(self.folder / "cache"),
        }

    def settings(self, **more: str) -> dict[str, str]:
        return {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            # Failures are detected immediately, and small shuffles use both executors.
            "spark.task.maxFailures": "1",
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            "spark.executorEnv.PERSEID_CACHE": str(self.folder / "cache"),
            **{name.replace("__", "."): value for name, value in more.items()},
        }

    def give(self, *names: str) -> None:
        """Set the environment of each worker's ``perseid-python``."""
        for number, name in enumerate(names):
            script = self.folder / f"worker{number}" / "bin" / "perseid-python"
            script.write_text(f'#!/bin/sh\nexec "{self.environments.python(name)}" "$@"\n')
            script.chmod(0o755)

    def command(self, application: Path, *arguments: Path, **settings: str) -> list[str]:
        """Return the command that starts an application; the driver has the first environment."""
        given = self.folder / "settings.json"
        given.write_text(json.dumps(self.settings(**settings)))
        return [str(self.environments.python("first")), str(application), self.master, *map(str, (given, *arguments))]

    def run(self, python: str = "perseid-python", **settings: str) -> dict[str, Any]:
        """Run the application and return its output."""
        out = self.folder / "out.json"
        out.unlink(missing_ok=True)
        done = subprocess.run(
            self.command(APPLICATION, out, **settings),
            env={**self.variables(), "PYSPARK_PYTHON": python},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=400,
        )
        assert done.returncode == 0, done.stderr[-5_000:]
        found: dict[str, Any] = json.loads(out.read_text())
        print(found["text"])
        return found


@pytest.fixture(scope="module")
def cluster(environments: Environments, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    port, web = free_port(), free_port()
    made = Cluster(f"spark://127.0.0.1:{port}", folder, environments)
    started = made.processes
    # A signal that ends this run must end the cluster too: otherwise SIGTERM would leave three processes behind.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)

    def start(name: str, *arguments: str, **variables: str) -> None:
        home = folder / name
        (home / "bin").mkdir(parents=True)
        with (home / "log").open("wb") as log:
            started[name] = subprocess.Popen(
                [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{arguments[0]}", *arguments[1:]],
                env={**made.variables(), "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOG_DIR": str(home), **variables},
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    try:
        start("master", "master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web))
        for number in range(2):
            home = folder / f"worker{number}"
            options = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g"]
            start(
                home.name,
                *("worker.Worker", *options, "--work-dir", str(home / "work"), made.master),
                PATH=f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}",
            )
        deadline = time.monotonic() + 90
        while alive(web) < 2:
            dead = [process.args for process in started.values() if process.poll() is not None]
            logs = "\n".join(path.read_text(errors="replace")[-2_000:] for path in folder.glob("*/log"))
            assert not dead, f"{dead}\n{logs}"
            assert time.monotonic() < deadline, logs
            time.sleep(0.5)
        yield made
    finally:
        for process in reversed(started.values()):
            process.terminate()
        for process in started.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        signal.signal(signal.SIGTERM, before)


def alive(web: int) -> int:
    """Return the number of workers that the master has registered."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{web}/json/", timeout=5) as reply:
            return int(json.load(reply)["aliveworkers"])
    except (OSError, ValueError):
        return 0
