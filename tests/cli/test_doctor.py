"""Output of ``perseid doctor``, and the findings of its report."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import perseid as ps
from perseid.spark.doctor import Finding, PythonProcess, Report, findings

GOLDEN = Path(__file__).parent / "golden"
LOCAL = ["--master", "local[1]", "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.memory=512m"]


def run(*arguments: str, code: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    start = ["-m", "perseid"] if not code else ["-c", code]
    done = subprocess.run(
        [sys.executable, *start, "doctor", *arguments],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, **variables},
    )
    assert "Traceback" not in done.stderr
    return done


def check_golden(name: str, text: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("PERSEID_REWRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def normalize_output(text: str) -> str:
    """Replace the parts of the output that differ between machines and runs."""
    text = re.sub(
        r"^  \S+, process \d+, in .*?(, first kernel call [\d.]+ s)?$",
        r"  HOST, process N, in FOLDER, SECONDS",
        text,
        flags=re.M,
    )
    text = re.sub(r"Python [\d.]+ \(.*\)", "Python VERSION (EXECUTABLE)", text)
    text = re.sub(r"\b(perseid|numba|numpy|pyarrow|pandas|pyspark) \d[\w.]*", r"\1 VERSION", text)
    return re.sub(r"(perseid from|cached in) \S+", r"\1 FOLDER", text)


def test_doctor_of_a_local_session() -> None:
    done = run(*LOCAL)
    assert done.returncode == 0, done.stdout + done.stderr
    check_golden(
        "doctor", normalize_output(f"$ perseid doctor --master local[1]\n{done.stdout}(exit {done.returncode})\n")
    )


@pytest.mark.deep
def test_json_report_has_executors_with_another_python(tmp_path: Path) -> None:
    (tmp_path / "perseid.py").write_text("raise RuntimeError('not this one')")
    shadow = f"import os, sys; sys.path.insert(0, {str(tmp_path)!r})"
    (tmp_path / "sitecustomize.py").write_text(shadow + " if 'PERSEID_TEST_SHADOW' in os.environ else None")
    settings = [
        "--conf",
        f"spark.executorEnv.PYTHONPATH={tmp_path}",
        "--conf",
        "spark.executorEnv.PERSEID_TEST_SHADOW=1",
    ]
    done = run("--json", *LOCAL, *settings)
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert not found["ok"]
    assert found["driver"]["versions"]["perseid"] == ps.__version__
    assert {worker["errors"]["perseid"] for worker in found["workers"]} == {"RuntimeError: not this one"}
    assert [finding["serious"] for finding in found["findings"]] == [True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--master", "local[1]", "--remote", "local"], "Use --master or --remote, not both.\n"),
        (["--conf", "spark.x"], "--conf: expected NAME=VALUE, got 'spark.x'.\n"),
    ],
)
def test_invalid_options_are_an_error(arguments: list[str], message: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


def test_missing_pyspark_is_an_error_with_the_install_command() -> None:
    code = "import sys, runpy; sys.modules['pyspark'] = None; runpy.run_module('perseid', run_name='__main__')"
    done = run(code=code)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "perseid doctor needs pyspark.\nInstall it with: pip install 'perseid[spark]'\n"


# --- findings -------------------------------------------------------------------------------------------

VERSIONS = {
    "perseid": "1.2.0",
    "numba": "0.61.0",
    "numpy": "2.1.0",
    "pyarrow": "19.0.0",
    "pandas": "2.2.0",
    "pyspark": "4.0.1",
}
DRIVER = PythonProcess(
    host="desk",
    process=10,
    folder="/home/ann",
    python="3.11.9",
    executable="/opt/env/bin/python",
    versions=VERSIONS,
    errors={},
    source="/opt/env/lib/python3.11/site-packages/perseid",
    cache="/tmp/perseid-ann/1.2.0-0123456789ab",
    writable=True,
    compiled=True,
)
RIGHT = replace(DRIVER, host="node1", process=20, folder="/spark/work/app-1/0", seconds=1.5)


def without(name: str, version: str | None = None) -> dict[str, str | None]:
    return {**VERSIONS, name: version}


WORKERS = {
    "right": [RIGHT, replace(RIGHT, host="node2", process=21, seconds=42.0)],
    "no_perseid": [
        replace(RIGHT, versions=without("perseid"), source=None, cache=None, writable=None, compiled=None, seconds=None)
    ],
    "another_version": [
        RIGHT,
        replace(RIGHT, host="node2", versions=without("perseid", "1.1.0"), writable=None, compiled=None, seconds=None),
    ],
    "no_numba": [replace(RIGHT, versions=without("numba"), compiled=False)],
    "broken_numba": [
        replace(
            RIGHT, versions=without("numba"), errors={"numba": "ImportError: Numba needs NumPy 2.1"}, compiled=False
        )
    ],
    "plain": [replace(RIGHT, compiled=False, plain=True)],
    "unwritable": [replace(RIGHT, writable=False, cache="/nobody/cache")],
    "broken": [
        replace(RIGHT, errors={"perseid": "ModuleNotFoundError: No module named 'lark'"}, versions=without("perseid"))
    ],
    "other_numpy": [replace(RIGHT, versions=without("numpy", "2.0.0"))],
    "no_pandas": [replace(RIGHT, versions=without("pandas"))],
    "none": [],
}


@pytest.mark.parametrize("name", WORKERS)
def test_report_has_the_findings_of_its_workers(name: str) -> None:
    workers = tuple(WORKERS[name])
    report = Report(DRIVER, workers, tuple(findings(DRIVER, workers)))
    assert report.ok == (name in ("right", "plain", "unwritable", "other_numpy", "no_pandas"))
    assert json.loads(json.dumps(report.to_dict()))["ok"] == report.ok
    check_golden(f"doctor_{name}", f"{report}\n")


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        (
            "An exception was thrown from the Python worker: Traceback\n  File x\n"
            "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different "
            "version: 3.12 than that in driver: 3.11.\n\tat org.apache.spark",
            Finding(
                "The job failed: pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in "
                "worker has different version: 3.12 than that in driver: 3.11.",
                "Set PYSPARK_PYTHON: driver and executors need the same minor version of Python.",
            ),
        ),
        (
            'Job aborted\njava.io.IOException: Cannot run program "nopython": error=2, No such file or directory',
            Finding(
                'The job failed: java.io.IOException: Cannot run program "nopython": error=2, No such file or directory',
                "Set PYSPARK_PYTHON (or spark.pyspark.python) to a Python that the executors have.",
            ),
        ),
        (
            "Job aborted\nOSError: disk full",
            Finding(
                "The job failed: OSError: disk full",
                "Check the executor logs; docs/guides/executors.md describes working settings.",
            ),
        ),
    ],
)
def test_failed_job_is_a_finding_with_a_hint(text: str, finding: Finding) -> None:
    assert list(findings(DRIVER, (), RuntimeError(text))) == [finding]
