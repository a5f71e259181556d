"""Transcripts of the command line, as golden files."""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import importlib
import io
import json
import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer
from rich.console import Console

import perseid as ps
from perseid.cli import common, running, showing, trying, values
from perseid.jobs.job_plan import RunStatus
from perseid.tables import files
from tests.cli.calling import invoked

HERE = Path(__file__).parent
COMMANDS = {
    "check": "check unpaid.perseid",
    "check_wrong": "check wrong.perseid",
    "check_missing": "check none.perseid",
    "check_several": "check wrong.perseid rules none.perseid",
    "check_exploding": "check exploding.perseid",
    "explain": "explain takeover.perseid",
    "explain_pattern": "explain rules/two.perseid --pattern paid",
    "explain_no_pattern": "explain rules/two.perseid --pattern payd",
    "draw_pattern": "draw rules/two.perseid --pattern paid",
    "draw_text": "draw takeover.perseid",
    "draw_mermaid": "draw takeover.perseid --format mermaid",
    "draw_dot": "draw takeover.perseid -f dot",
    "draw_svg": "draw takeover.perseid --format svg",
    "draw_svg_several": "draw rules/two.perseid --format svg",
    "try_table": "try unpaid.perseid orders.jsonl",
    "try_json": "try unpaid.perseid orders.jsonl --json",
    "try_columns": "try takeover.perseid bank.jsonl --time at --type kind",
    "try_set": "try takeover.perseid bank.jsonl --time at --type kind --set threshold=20000",
    "try_no_matches": "try rules/two.perseid orders.jsonl",
    "try_pattern": "try rules/two.perseid orders.jsonl --pattern paid",
    "try_wrong_column": "try unpaid.perseid orders.jsonl --time at",
    "try_wrong_set": "try takeover.perseid bank.jsonl --time at --type kind --set treshold=20000",
    "try_broken_events": "try unpaid.perseid broken.jsonl",
    "try_not_yet": "try tree.perseid orders.jsonl",
    "try_twice_set": "try takeover.perseid bank.jsonl --set threshold=1 --set threshold=2",
    "try_wrong_value": "try takeover.perseid bank.jsonl --time at --type kind --set threshold=much",
    "try_list_repeated": "try tour.perseid walk.jsonl --set exits=north --set exits=south --relation Staff=staff.csv",
    "try_list_commas": "try tour.perseid walk.jsonl --set exits=north,south --relation Staff=staff.jsonl",
    "try_list_missing": "try tour.perseid walk.jsonl --relation Staff=staff.csv",
    "try_duration": "try tour.perseid walk.jsonl --set exits=south --set span='1 minute' --relation Staff=staff.csv",
    "try_wrong_duration": "try tour.perseid walk.jsonl --set exits=south --set span=long --relation Staff=staff.csv",
    "try_duration_json": "try tour.perseid walk.jsonl --set exits=south --relation Staff=staff.csv --json",
    "try_relation_missing": "try tour.perseid walk.jsonl --set exits=north",
    "try_relation_no_file": "try tour.perseid walk.jsonl --set exits=north --relation Staff=none.csv",
    "try_relation_wrong": "try tour.perseid walk.jsonl --set exits=north --relation Staff",
    "try_csv_events": "try unpaid.perseid staff.csv",
    "try_array_events": "try unpaid.perseid array.json",
    "try_pretty_events": "try unpaid.perseid pretty.json",
    "try_swapped": "try orders.jsonl unpaid.perseid",
    "try_both_from_standard_input": "try - -",
    "why_not": "why-not takeover.perseid bank.jsonl --time at --type kind --set threshold=20000 --key ann",
    "why_not_pattern": "why-not rules/two.perseid orders.jsonl --pattern refunded --key customer=bob",
    "why_not_which": "why-not rules/two.perseid orders.jsonl",
    "why_not_swapped": "why-not orders.jsonl unpaid.perseid",
}


def run(arguments: str, given: bytes = b"") -> str:
    """Run a command in this process, because a new process imports half of the library first, and return its transcript."""
    environment = {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}
    with contextlib.chdir(HERE / "files"):
        done = invoked(*shlex.split(arguments), given=given, environment=environment)
    return f"$ perseid {arguments}\n{done.stdout}{done.stderr}(exit {done.exit_code})\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_transcript(name: str) -> None:
    path = HERE / "golden" / f"{name}.txt"
    printed = run(COMMANDS[name])
    if os.environ.get("PERSEID_REWRITE_GOLDEN"):
        path.write_text(printed, encoding="utf-8")
    assert printed == path.read_text(encoding="utf-8")


def test_patterns_are_read_from_standard_input() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "perseid", "check", "-"],
        input="pattern p match A a",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "-: 1 pattern, OK: p\n")


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_missing_extra_is_an_error_with_the_install_command(missing: str) -> None:
    code = f"import sys, runpy; sys.modules[{missing!r}] = None; runpy.run_module('perseid', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        f"The command line needs {missing}, which is not installed.\nInstall it with: pip install 'perseid[cli]'\n"
    )


def call(*arguments: str, given: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        [sys.executable, "-m", "perseid", *arguments],
        cwd=HERE / "files",
        input=given,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **environment},
    )
    assert b"Traceback" not in done.stderr
    return done


def test_version() -> None:
    assert call("--version").stdout.decode().split() == ["perseid", ps.__version__]


def test_console_script_is_declared() -> None:
    declared = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    module, _, name = declared["project"]["scripts"]["perseid"].partition(":")
    assert callable(getattr(importlib.import_module(module), name))


ORDERS = (HERE / "files" / "orders.jsonl").read_bytes()


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte_order_mark"])
def test_events_are_read_from_standard_input(mark: bytes) -> None:
    done = call("try", "unpaid.perseid", "-", "--json", given=mark + ORDERS)
    assert (done.returncode, json.loads(done.stdout)["customer"]) == (0, "ann")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ORDERS.decode().encode("utf-16"), "Expected UTF-8, got an encoding that looks like UTF-16."),
        (ORDERS.decode().encode("utf-16-le"), "Expected UTF-8, got an encoding that looks like UTF-16."),
        (gzip.compress(ORDERS), "Expected text, got gzip."),
        (b'{"ts": 1}\n{"ts": "\xe4"}', "Invalid UTF-8: line 2 has an unexpected byte."),
        (b'{"ts": 1},\n{"ts": 2}', "Line 1: invalid JSON: Extra data at column 10."),
    ],
    ids=["utf16", "utf16_without_mark", "gzip", "latin1", "commas"],
)
def test_input_that_is_not_utf_8_is_an_error_with_its_encoding(content: bytes, message: str) -> None:
    printed = run("try unpaid.perseid -", content).splitlines()
    assert (printed[1], printed[-1]) == (f"-: EventDataError[event-data]: {message}", "(exit 1)")


def test_json_output_is_valid_json() -> None:
    given = b'{"ts": 1, "type": "A", "x": NaN, "y": 1e999, "z": "\xe2\x80\xa8"}\n'
    text = "pattern p match A a return a.x as x, a.y as y, a.z as z"
    path = HERE / "files" / "values.perseid"
    assert path.read_text(encoding="utf-8").strip() == text
    done = call("try", path.name, "-", "--json", given=given)

    def reject(constant: str) -> None:
        raise AssertionError(constant)

    row = json.loads(done.stdout, parse_constant=reject)
    assert (row["x"], row["y"], row["z"]) == (None, None, "\u2028")


def test_output_to_a_terminal_without_unicode_is_ascii() -> None:
    done = call("try", "takeover.perseid", "bank.jsonl", "--time", "at", "--type", "kind", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"a b t?2" in done.stdout


def test_notes_are_written_to_standard_error() -> None:
    done = call("try", "rules/two.perseid", "orders.jsonl", "--json")
    assert [json.loads(line)["customer"] for line in done.stdout.splitlines()] == ["bob"]
    assert done.stderr == b"note: no event has the type 'Refund'.\n"


def print_wide_match(width: int, columns: int, value: str = "north") -> str:
    names = ", ".join(f"a.x as column{i}" for i in range(columns))
    found = ps.pattern(f"pattern p match A a return {names}").match([{"ts": 1, "type": "A", "x": value}])
    console = Console(width=width, file=io.StringIO(), markup=False, emoji=False)
    showing.print_matches(found, ["p"], console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_narrow_terminal_shows_matches_as_blocks() -> None:
    assert print_wide_match(40, 4) == (
        "p: 1 match\n\nstart: 00:00:01\nend: 00:00:01\nevents: a\n"
        "column0: north\ncolumn1: north\ncolumn2: north\ncolumn3: north\n"
    )
    assert "┃" in print_wide_match(100, 4)


def test_markup_in_cells_is_not_interpreted() -> None:
    assert "[red]:smile:" in print_wide_match(100, 1, "[red]:smile:")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (dt.timedelta(minutes=90), "90 minutes"),
        (dt.timedelta(seconds=-5), "-5 seconds"),
        (dt.timedelta(0), "0 seconds"),
        ([dt.timedelta(hours=1), float("nan")], '["1 hour", null]'),
        ("", ""),
    ],
)
def test_cell_text(value: object, text: str) -> None:
    assert showing.plain(value) == text


def test_parameter_values_are_parsed_by_type() -> None:
    rules = ps.patterns(
        "pattern p(names list of string, ns list of integer, name string = '', n integer = 1, d duration = 1 minute) match A a"
    )
    settings = ["names=1,'a,b', it", "names=z", "ns=-1,2", "name=007", "n=-5", "d=10 minutes"]
    assert values.values_of(settings, rules) == {
        "names": ["1", "a,b", "it", "z"],
        "ns": [-1, 2],
        "name": "007",
        "n": -5,
        "d": dt.timedelta(minutes=10),
    }
    assert values.values_of(["names="], rules) == {"names": []}


def test_keys_are_parsed() -> None:
    rule = ps.pattern("pattern p match A a partition by user, a.b")
    assert trying.key_of([], rule) is None
    assert trying.key_of(["ann", "7"], rule) == ("ann", 7)
    assert trying.key_of(["x=y", "'7'"], rule) == ("x=y", "7")
    assert trying.key_of(["a.b=7", "user=ann"], rule) == {"a.b": 7, "user": "ann"}
    with pytest.raises(typer.Exit):
        trying.key_of(["user=ann", "7"], rule)


def test_folder_without_patterns_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ps.PerseidError, match=r"no \.perseid files"):
        common.pattern_files(tmp_path)


def test_csv_columns_have_inferred_types() -> None:
    text = 'id,n,zip,x,big\na,1,01234,1.5,1234567890123456789012\n"b,c",,9,2,1\n'
    assert files.csv_table(text) == (
        ["id", "n", "zip", "x", "big"],
        [("a", 1, "01234", 1.5, "1234567890123456789012"), ("b,c", None, "9", 2.0, "1")],
    )


def test_last_batch_has_the_number_of_spark_in_run_and_status() -> None:
    assert running.describe_batches(RunStatus(batches=3, last_batch=2)) == "3 batches, the last is batch 2"
    assert running.describe_batches(RunStatus(batches=1, last_batch=0)) == "1 batch, the last is batch 0"
    assert running.describe_batches(RunStatus()) == "no batch"


def test_status_file_of_another_version_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "perseid"
    folder.mkdir()
    (folder / "status.json").write_text('{"job": "old", "since": 1.0, "last": null}', encoding="utf-8")
    done = invoked("status", tmp_path)
    assert done.exit_code == 1
    assert "is of another version of Perseid: totals, gauges, matches_by_pattern, rejected not found." in done.output
    assert "restart the job with this version" in done.output


def test_main_file_runs_as_a_script(tmp_path: Path) -> None:
    """spark-submit runs the file itself: the folder of the package must not be on the path, where it hides ``types``."""
    import perseid.__main__ as main

    done = subprocess.run(
        [sys.executable, str(main.__file__), "run", "--help"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "job.yaml" in done.stdout
