"""Rules from tables: one per row, read again while a job runs; an invalid table is rejected."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from perseid.errors import SettingsError
from perseid.jobs.reading import read_job
from perseid.jobs.rule_loading import JobTexts
from perseid.jobs.rules import RuleWatcher
from tests.jobs.test_commands import call
from tests.jobs.test_job_files import HIDDEN, WHOLE, written

ASKED = WHOLE.replace("patterns: rules/", "patterns: [{text: 'pattern own match X x'}, {table: {file: {path: FILE}}}]")
CSV = 'name,text,owner\npairs,"pattern pairs\nmatch A a -> B b\nwithin 1 minute",ann\nlone,pattern lone match C c,bob\n'


def job_with(folder: Path, name: str, body: str | bytes) -> Path:
    (folder / name).write_bytes(body.encode() if isinstance(body, str) else body)
    return written(folder, ASKED.replace("FILE", name))


@pytest.mark.parametrize("name", ["rules.csv", "rules.jsonl", "rules.parquet"])
def test_rules_come_from_a_table(name: str, tmp_path: Path) -> None:
    rows = [{"name": "pairs", "text": "pattern pairs match A a -> B b within 1 minute"}]
    rows += [{"name": "lone", "text": "pattern lone match C c"}]
    body: str | bytes = CSV
    if name.endswith("jsonl"):
        body = "".join(f'{{"name": "{row["name"]}", "text": "{row["text"]}"}}\n' for row in rows)
    elif name.endswith("parquet"):
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(rows), sink)
        body = sink.getvalue().to_pybytes()
    done = call("check", job_with(tmp_path, name, body))
    assert done.exit_code == 0, done.output
    assert "patterns: own, lone, pairs" in done.stdout


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "name,rule\na,pattern a match A a\n",
            "patterns: column 'text' not found in table rules.csv. = Available: name, rule.",
        ),
        ("name,text\n", "has no rows"),
        ("name,text\na,pattern a match A a\na,pattern b match B b\n", "duplicate rule 'a'"),
        ("name,text\na,\n", "rule 'a' has no 'text'"),
        ("name,text\n,pattern a match A a\n", "a row has no 'name'"),
        ("name,text\n1,pattern a match A a\n", "a row has no 'name'"),
        ("name,text\nbroken,pattern a match\n", "rules.csv: broken"),
        ("name,text\na,pattern a match A a,more\n", "Row 1: expected 2 cells as in the header, got 3"),
        (b"name,text\na,\xff\xfe", "Invalid UTF-8: line 2"),
    ],
)
def test_invalid_rule_table_is_an_error(body: str | bytes, said: str, tmp_path: Path) -> None:
    done = call("check", job_with(tmp_path, "rules.csv", body))
    assert done.exit_code == 1
    assert said in " ".join(done.stderr.split()).replace(f"{tmp_path}/", ""), done.stderr


def test_table_change_is_detected_and_only_the_invalid_row_is_rejected(tmp_path: Path) -> None:
    job = read_job(job_with(tmp_path, "rules.csv", "name,text\na,pattern a match A a\n"))
    watcher = RuleWatcher(JobTexts(job), lambda texts: job.stream.parse_patterns(texts.patterns).names)
    now, names = watcher.load()
    assert names == ("own", "a")
    (tmp_path / "rules.csv").write_text("name,text\na,pattern a match A x\nb,pattern b match\nc,pattern c match C c\n")
    assert watcher.poll(now) is None  # the change is within the debounce interval
    found = watcher.poll(now)
    assert found is not None
    assert found[1] == ("own", "a", "c")
    assert [name.rpartition(": ")[2] for name in watcher.rejected] == ["b"]
    (tmp_path / "rules.csv").write_text("name,text\n")
    watcher.poll(found[0])
    assert "has no rows" in str(watcher.rejected["rules"])


def test_literal_password_is_rejected(tmp_path: Path) -> None:
    address = f"patterns: {{table: {{postgres: {{host: db, password: {HIDDEN}, table: rules}}}}}}"
    with pytest.raises(SettingsError, match="a secret must not be in the file") as error:
        read_job(written(tmp_path, WHOLE.replace("patterns: rules/", address)))
    assert HIDDEN not in str(error.value)


def test_errors_name_the_configured_table(tmp_path: Path) -> None:
    for words, said in {
        "{table: {fil: {path: a.csv}}}": "unknown table 'fil'. Did you mean 'file'?",
        "{table: {file: {pth: a.csv}}}": "patterns.table.file.pth: unknown key.",
        "{table: {postgres: {table: rules}}}": "expected exactly one of url and host",
        "{tabel: {file: {path: a.csv}}}": "tabel: unknown key",
    }.items():
        with pytest.raises(SettingsError) as error:
            read_job(written(tmp_path, WHOLE.replace("rules/", words)))
        assert said in str(error.value)
