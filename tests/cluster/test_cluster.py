"""Executors in separate processes, and each way of distributing perseid to them."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

import perseid as ps
from tests.cluster.application import USERS
from tests.cluster.conftest import OTHER, Cluster, Environments

UNWRITABLE = "/dev/null/cache"
"""Path below a file, which not even root can write to."""
MATCHES = sorted([f"u{n}", f"10.0.1.{n}", 1_000] for n in range(0, USERS, 2))

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


def workers_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the Python workers of the report, and assert that they are those of two executors."""
    workers: list[dict[str, Any]] = found["report"]["workers"]
    assert len({worker["folder"] for worker in workers}) == 2
    assert found["report"]["driver"]["process"] not in {worker["process"] for worker in workers}
    return workers


def notes_of(found: dict[str, Any]) -> list[str]:
    return [finding["what"] for finding in found["report"]["findings"]]


def test_wheel_in_the_environment_of_each_worker(cluster: Cluster, environments: Environments) -> None:
    cluster.give("first", "second")
    found = cluster.run()
    assert found["matches"] == MATCHES
    assert found["report"]["ok"], found["text"]
    assert notes_of(found) == []
    workers = workers_of(found)
    sources = {Path(worker["source"]).relative_to(environments.folder).parts[0] for worker in workers}
    assert sources == {"first", "second"}
    for worker in workers:
        assert worker["versions"] == found["report"]["driver"]["versions"]
        assert worker["versions"]["perseid"] == ps.__version__
        assert worker["compiled"]
        assert worker["writable"]
        assert worker["cache"].startswith(str(cluster.folder / "cache"))
        # The same source has the same cache folder, independent of its import path.
        assert worker["cache"] == found["report"]["driver"]["cache"]
        assert worker["seconds"] > 0


def test_an_archive_with_the_environment(cluster: Cluster, environments: Environments) -> None:
    cluster.give("bare", "bare")
    archive = cluster.folder / "environment.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(environments.folder / "second", arcname=".")
    found = cluster.run("./environment/bin/python", spark__archives=f"{archive}#environment")
    assert found["matches"] == MATCHES
    assert found["report"]["ok"], found["text"]
    for worker in workers_of(found):
        assert worker["executable"] == "./environment/bin/python"
        assert worker["source"].startswith("./environment/lib/")
        assert worker["compiled"]
        assert worker["writable"]
        assert worker["cache"] == found["report"]["driver"]["cache"]


def test_a_zip_of_the_package(cluster: Cluster, environments: Environments) -> None:
    cluster.give("bare", "bare")
    package = cluster.folder / "perseid.zip"
    shutil.copy(environments.wheel, package)
    found = cluster.run(spark__submit__pyFiles=str(package))
    assert found["matches"] == MATCHES
    assert found["report"]["ok"], found["text"]
    for worker in workers_of(found):
        assert worker["source"] == "./perseid.zip/perseid"
        assert worker["versions"]["perseid"] == ps.__version__
        assert worker["compiled"]
        assert worker["writable"]
        assert worker["cache"] == found["report"]["driver"]["cache"]


def test_executors_without_a_writable_cache(cluster: Cluster) -> None:
    cluster.give("first", "second")
    found = cluster.run(spark__executorEnv__PERSEID_CACHE=UNWRITABLE, spark__executorEnv__HOME="/dev/null/home")
    assert found["matches"] == MATCHES
    assert found["report"]["ok"], found["text"]
    workers = workers_of(found)
    for worker in workers:
        assert worker["compiled"]
        assert not worker["writable"]
        assert worker["cache"] == UNWRITABLE
    (note,) = found["report"]["findings"]
    said = f"Kernel cache {UNWRITABLE} is not writable: every new Python worker compiles its kernels again."
    assert note["what"] == said
    assert len(note["where"]) == len(workers)


def test_different_version_on_one_worker(cluster: Cluster, environments: Environments) -> None:
    cluster.give("first", "other")
    found = cluster.run(spark__executorEnv__PERSEID_NUMBA="0")  # This test needs no compiled kernels.
    assert "matches" not in found
    assert "VersionMismatchError" in found["failure"]
    assert f"The driver runs perseid {ps.__version__}, this executor runs {OTHER}." in found["failure"]
    assert not found["report"]["ok"]
    assert {worker["versions"]["perseid"] for worker in workers_of(found)} == {ps.__version__, OTHER}
    wrong = [finding for finding in found["report"]["findings"] if finding["serious"]]
    assert [finding["what"] for finding in wrong] == [f"The worker has perseid {OTHER}, the driver {ps.__version__}."]


def test_doctor_command_reports_a_worker_without_perseid(cluster: Cluster, environments: Environments) -> None:
    cluster.give("first", "bare")
    options = [text for name, value in cluster.settings().items() for text in ("--conf", f"{name}={value}")]
    done = subprocess.run(
        [str(environments.python("first")), "-m", "perseid", "doctor", "--master", cluster.master, *options],
        env={**cluster.variables(), "PYSPARK_PYTHON": "perseid-python"},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    print(done.stdout)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert f"ERROR: perseid is not installed for {environments.python('bare')}." in done.stdout
    assert "perseid missing, numba " in done.stdout
    assert "OK" not in done.stdout
