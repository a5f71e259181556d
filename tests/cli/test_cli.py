"""The command line as people see it: transcripts in golden files."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
COMMANDS = {
    "check": "check unpaid.perseid",
    "check_wrong": "check wrong.perseid",
    "check_missing": "check none.perseid",
    "explain": "explain takeover.perseid",
    "draw_text": "draw takeover.perseid",
    "draw_mermaid": "draw takeover.perseid --format mermaid",
    "draw_dot": "draw takeover.perseid -f dot",
    "try_table": "try unpaid.perseid orders.jsonl",
    "try_json": "try unpaid.perseid orders.jsonl --json",
    "try_columns": "try takeover.perseid bank.jsonl --time at --type kind",
    "try_set": "try takeover.perseid bank.jsonl --time at --type kind --set threshold=20000",
    "try_wrong_column": "try unpaid.perseid orders.jsonl --time at",
    "try_wrong_set": "try takeover.perseid bank.jsonl --time at --type kind --set treshold=20000",
    "try_broken_events": "try unpaid.perseid broken.jsonl",
    "try_not_yet": "try tree.perseid orders.jsonl",
}


def run(arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "perseid", *shlex.split(arguments)],
        cwd=HERE / "files",
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"},
    )
    assert "Traceback" not in done.stderr
    return f"$ perseid {arguments}\n{done.stdout}{done.stderr}(exit {done.returncode})\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_transcript(name: str) -> None:
    path = HERE / "golden" / f"{name}.txt"
    printed = run(COMMANDS[name])
    if os.environ.get("PERSEID_REWRITE_GOLDEN"):
        path.write_text(printed, encoding="utf-8")
    assert printed == path.read_text(encoding="utf-8")


def test_patterns_from_standard_input() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "perseid", "check", "-"],
        input="pattern p match A a",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "-: 1 pattern, all right: p\n")


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_it_says_what_to_install(missing: str) -> None:
    code = f"import sys, runpy; sys.modules[{missing!r}] = None; runpy.run_module('perseid', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        f"The command line needs {missing}, which is not installed.\nInstall it with: pip install 'perseid[cli]'\n"
    )
