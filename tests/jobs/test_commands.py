"""Job commands: check, explain, try and new."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from perseid.cli.app import app
from perseid.cli.starter import FILES as STARTER
from perseid.jobs.reading import read_job
from perseid.jobs.rule_loading import load_rules
from perseid.jobs.rules import versions_of
from perseid.jobs.schema import schema_text
from tests.cli.calling import invoked as call
from tests.jobs.test_job_files import FILES, GOOD, HIDDEN, WHOLE, written


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_check_accepts_valid_jobs(path: Path) -> None:
    done = call("check", path, "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["ok"]
    assert [sink["guarantee"] for sink in report["writes"]]


def test_check_prints_a_summary_of_the_job() -> None:
    lines = call("check", FILES / "events.yaml").stdout.splitlines()
    version = versions_of(load_rules(read_job(FILES / "events.yaml")))["takeover"]
    assert lines[3] == f"  versions: takeover {version}"
    assert json.loads(call("check", FILES / "events.yaml", "--json").stdout)["versions"] == {"takeover": version}
    assert f"  versions: takeover {version}\n" in call("explain", FILES / "events.yaml").stdout
    assert lines[0] == f"{FILES / 'events.yaml'}: job takeover is OK"
    assert lines[2] == "  patterns: takeover (checked against the columns of the source)"
    assert lines[-1].startswith("  dead letters: ")
    assert sum("writes: " in line for line in lines) == 2


RULES = "patterns: {text: 'pattern p match A a [amont > 5]'}"
SCHEMA = 'format: json, schema: "ts timestamp, type string, amount double"'
WRONG_JOBS = {
    "words": (WHOLE.replace("sinks", "sink"), "sink: unknown key. Did you mean 'sinks'?"),
    "no patterns": (WHOLE, "rules cannot be read: No such file or directory."),
    "a wrong pattern": (WHOLE.replace("rules/", "{text: pattern p match}"), "In patterns[0]."),
    "a column that is not there": (
        WHOLE.replace("patterns: rules/", RULES).replace("format: parquet", SCHEMA),
        "Did you mean 'amount'?",
    ),
    "a time that is not there": (
        WHOLE.replace("rules/", "{text: pattern p match A a}").replace("format: parquet", SCHEMA.replace("ts ", "at ")),
        "Column 'ts' not found in the source; it is configured as the time column.",
    ),
    "a parameter that is not there": (
        WHOLE.replace("rules/", "{text: pattern p match A a}\nbind: {n: 1}"),
        "Unknown parameter :n.",
    ),
    "a relation that is not there": (
        WHOLE.replace("rules/", "{text: 'pattern p match A a [user in Staff]'}\nrelations: {Staff: {file: staff.csv}}"),
        "relations.Staff: ",
    ),
    "no YAML": ("job: [", "line 1, column 7: invalid YAML: the file ends before a bracket is closed."),
}


@pytest.mark.parametrize("name", WRONG_JOBS)
def test_check_reports_errors_with_a_correction(name: str, tmp_path: Path) -> None:
    text, said = WRONG_JOBS[name]
    path = written(tmp_path, text)
    done = call("check", path)
    assert (done.exit_code, done.stdout) == (1, "")
    assert said in done.stderr
    report = json.loads(call("check", path, "--json").stdout)
    assert not report["ok"]
    assert call("explain", path).exit_code == 1


def test_check_prints_problems_as_json(tmp_path: Path) -> None:
    report = json.loads(call("check", written(tmp_path, WHOLE + "metric: {}\n"), "--json").stdout)
    (problem,) = report["problems"]
    assert (problem["at"], problem["line"]) == ("metric", 8)


def test_verbose_option_shows_the_traceback(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["-v", "check", str(written(tmp_path, WHOLE))])
    assert (done.exit_code, "Traceback" in done.stderr) == (1, True)
    assert "Traceback" not in call("check", written(tmp_path, WHOLE)).stderr


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_explain_accepts_every_valid_job(path: Path) -> None:
    done = call("explain", path)
    assert done.exit_code == 0, done.output
    assert "  state: " in done.stdout
    assert "  late: records at least " in done.stdout


def test_try_uses_the_settings_of_the_job(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    rows = [
        {"ts": 0, "kind": "Login", "user": "ann", "ip": "x"},
        {"ts": 1, "kind": "Login", "user": "ann", "ip": "y"},
        {"ts": 2, "kind": "Transfer", "user": "ann", "amount": 15000.0},
        {"ts": 3, "kind": "Transfer", "user": "ann", "amount": 25000.0},
    ]
    events.write_text("\n".join(map(json.dumps, rows)))
    done = call("try", FILES / "events.yaml", events, "--json")
    assert [json.loads(line)["amount"] for line in done.stdout.splitlines()] == [25000.0]
    assert call("try", FILES / "events.yaml", events, "--time", "at").exit_code == 2
    assert call("try", FILES / "events.yaml", tmp_path / "none.jsonl").exit_code == 1


def test_malformed_records_are_skipped_and_counted(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    lines = [
        '{"ts": 0, "kind"',
        '{"ts": 0, "kind": "Login", "user": "ann", "ip": "x"}',
        '[{"ts": 1}]',
        '{"kind": "Login", "user": "ann", "ip": "z"}',
        '{"ts": 1, "kind": "Login", "user": "ann", "ip": "y"}',
        '{"ts": "noon", "kind": "Login", "user": "ann", "ip": "z"}',
        '{"ts": 3, "kind": "Transfer", "user": "ann", "amount": 25000.0}',
    ]
    events.write_text("\n".join(lines))
    done = call("try", FILES / "events.yaml", events, "--json")
    assert done.exit_code == 0, done.output
    assert [json.loads(line)["amount"] for line in done.stdout.splitlines()] == [25000.0]
    assert done.stderr.splitlines()[-1] == (
        "note: 4 of 7 records are malformed and skipped: line 1: invalid JSON: Expecting ':' delimiter at column 17; "
        "line 3: expected a JSON object; line 4: column 'ts' has no readable time; and 1 more"
    )
    events.write_text(lines[0])
    assert "Line 1: invalid JSON" in call("try", FILES / "events.yaml", events).stderr
    events.write_text('{"at": 0, "kind": "Login"}')
    assert "Column 'ts' not found" in call("try", FILES / "events.yaml", events).stderr


def test_try_runs_one_rule_of_a_job(tmp_path: Path) -> None:
    rules = "patterns: [{text: pattern one match A a}, {text: 'pattern two match A a [user not in Staff]'}]"
    job = written(tmp_path, WHOLE.replace("patterns: rules/", f"{rules}\nrelations: {{Staff: {{file: staff.csv}}}}"))
    (tmp_path / "staff.csv").write_text("user\nann\n")
    events = tmp_path / "events.jsonl"
    events.write_text('{"ts": 0, "type": "A", "user": "bob"}\n')
    for chosen, found in (([], ["one", "two"]), (["one"], ["one"]), (["two"], ["two"])):
        done = call("try", job, events, "--json", *(f"--pattern={name}" for name in chosen))
        assert [json.loads(line)["pattern"] for line in done.stdout.splitlines()] == found, done.output
    unknown = call("try", job, events, "--pattern", "tow")
    assert (unknown.exit_code, "Did you mean 'two'?" in unknown.stderr) == (2, True)
    subscriptions = call("try", FILES / "subscriptions.yaml", events, "--pattern", "one")
    assert (subscriptions.exit_code, "a job without patterns" in subscriptions.stderr) == (2, True)


def test_try_runs_a_job_with_several_sources(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    rows = [
        {"at": 0, "type": "Order", "customer": "ann"},
        {"at": 5, "type": "Order", "customer": "bob"},
        {"paid": 9, "type": "Payment", "customer": "bob"},
    ]
    events.write_text("\n".join(map(json.dumps, rows)))
    done = call("try", FILES / "several.toml", events, "--json")
    assert [json.loads(line)["customer"] for line in done.stdout.splitlines()] == ["ann"], done.output


def test_try_prints_rows_of_other_stream_kinds(tmp_path: Path) -> None:
    events = tmp_path / "rows.jsonl"
    entry = "<feed><item><author>ann</author></item></feed>"
    events.write_text("\n".join(json.dumps({"ts": n, "feed": "Feed", "xml": entry}) for n in range(2)))
    done = call("try", FILES / "subscriptions.yaml", events)
    assert [json.loads(line)["subscription"] for line in done.stdout.splitlines()] == ["ann"], done.output


def test_the_schema_is_printed() -> None:
    assert call("schema").stdout == schema_text()


def test_new_project_runs_unchanged(tmp_path: Path) -> None:
    folder = tmp_path / "fraud"
    assert call("new", folder).exit_code == 0
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == set(STARTER)
    assert call("check", folder / "job.yaml").exit_code == 0
    tested = call("test", folder / "job.yaml", "--whole")
    assert (tested.exit_code, tested.stdout) == (0, "4 cases, OK\n")
    tried = call("try", folder / "job.yaml", folder / "events" / "sample.jsonl", "--json")
    assert [json.loads(line)["user"] for line in tried.stdout.splitlines()] == ["ann"]
    again = call("new", folder)
    assert again.exit_code == 2
    assert "not an empty folder" in again.stderr


def test_missing_extra_names_the_package_to_install() -> None:
    code = "import sys; sys.modules['yaml'] = None; from perseid.cli.app import app; app(['check', 'job.yaml'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "pip install 'perseid[jobs]'" in done.stderr


def test_no_command_shows_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAAS", HIDDEN)
    for command in (["check"], ["check", "--json"], ["explain"], ["-v", "check"]):
        assert HIDDEN not in CliRunner().invoke(app, [*command, str(FILES / "events.yaml")]).output
    text = (FILES / "events.yaml").read_text(encoding="utf-8").replace("{env: JAAS}", HIDDEN)
    assert HIDDEN not in CliRunner().invoke(app, ["-v", "check", str(written(tmp_path, text))]).output
