"""A kind of stream is one package and one line of the registry: no other code names a kind or tests for one."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from pyspark.sql import SparkSession

import perseid as ps
from perseid.api.stream_kinds.registry import STREAM_KINDS, stream_kind
from perseid.jobs.assembly import assemble
from perseid.jobs.reading import JobFileError, read_job
from perseid.jobs.replay import replay
from perseid.jobs.runner import JobRunner
from perseid.jobs.schema import job_schema
from perseid.jobs.stream_kinds.settings_by_kind import settings_by_kind
from tests.cli.calling import invoked as call
from tests.contract.toy_stream import TOY_KIND
from tests.contract.toy_stream.declaration import ToyStream

pytestmark = pytest.mark.timeout(240)

SOURCE = Path(__file__).parents[2] / "src" / "perseid"
PATTERN = "pattern pairs match A a -> B b within 1 hour partition by user return a.n as a, b.n as b"
SCHEMA = "at timestamp, type string, user string, n long"
JOB = f"""
job: toys
stream:
  kind: toy
  source: {{files: {{path: in, format: json, schema: "{SCHEMA}", max_files_per_batch: 1}}}}
  at: at
  lateness: 1 hour
  shards: 2
patterns: {{text: "{PATTERN}"}}
sinks: [{{parquet: {{path: out}}}}]
checkpoint: state
trigger: available_now
"""
FILES = [
    [("10:00", "A", "ann", 1), ("10:10", "B", "ann", 2)],
    [("10:05", "B", "ann", 3), ("10:20", "A", "bob", 4)],  # the late B invalidates the match of the first file
    [("10:30", "B", "bob", 5), ("23:00", "Z", "zoe", 6)],
]
EXPECTED = [("ann", 1, 3), ("bob", 4, 5)]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a job file with ``kind: toy`` and its source; the registry has the line of the toy."""
    monkeypatch.setitem(STREAM_KINDS, "toy", TOY_KIND)
    (tmp_path / "in").mkdir()
    for number, rows in enumerate(rows_of_files()):
        file = tmp_path / "in" / f"{number}.json"
        file.write_text("\n".join(map(json.dumps, rows)))
        os.utime(file, (number + 1, number + 1))  # the file source orders files by modification time
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path / "job.yaml"


def rows_of_files() -> list[list[dict[str, Any]]]:
    """Return the rows of each file; a late row invalidates a match of the file before."""
    return [
        [{"at": f"2026-01-01T{time}:00Z", "type": kind, "user": user, "n": n} for time, kind, user, n in rows]
        for rows in FILES
    ]


def pairs(rows: Iterable[Any]) -> list[tuple[str, int, int]]:
    """Return users and events of matches, from a table of any type."""
    return sorted((row["user"], row["a"], row["b"]) for row in rows)


def test_local_batch_stream_and_job_find_the_same(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    def declare(rows: object) -> ToyStream:
        return ToyStream(rows, "at", shards=2, lateness="1 hour", max_ahead="1 hour")

    pattern = ps.pattern(PATTERN)
    local = pairs(pattern.match(declare([row for rows in rows_of_files() for row in rows])).to_dicts())

    files = str(tmp_path / "in")
    batch = pairs(pattern.match(declare(spark.read.schema(SCHEMA).json(files))).collect())

    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(files)
    changes = pattern.match(declare(source))
    table, state = str(tmp_path / "changes"), str(tmp_path / "checkpoint")
    written = changes.writeStream.format("parquet").option("path", table).option("checkpointLocation", state)
    written.trigger(availableNow=True).start().awaitTermination()
    stream = pairs(ps.disorder.current_matches(spark.read.schema(changes.schema).parquet(table)).collect())

    JobRunner(assemble(read_job(path), spark)).run()
    job = pairs(ps.disorder.current_matches(spark.read.parquet(str(tmp_path / "out"))).collect())

    assert (local, batch, stream, job) == (EXPECTED, EXPECTED, EXPECTED, EXPECTED)


def test_toy_is_explained(spark: SparkSession, path: Path) -> None:
    pattern = ps.pattern(PATTERN)
    local = pattern.explain(ToyStream([], "at", lateness="1 hour"))
    assert "pairs" in local
    assert "searched by brute force" in local
    frame = spark.createDataFrame([], SCHEMA)
    assert "searched by brute force" in pattern.explain(ToyStream(frame, "at", lateness="1 hour"))


def test_queries_that_the_kind_does_not_support_are_errors(path: Path) -> None:
    stream = ToyStream([], "at")
    wrong: Any = stream  # as a program without type checks gives it
    with pytest.raises(ps.errors.EventDataError, match="documents"):
        ps.xml.tree_patterns("//a->x").match(wrong)
    with pytest.raises(ps.errors.EventDataError, match="model"):
        ps.graph.react(wrong)
    with pytest.raises(ps.errors.EventDataError, match="ToyStream"):
        ps.uncertain.learn(wrong)
    with pytest.raises(ps.errors.UnsupportedError, match="draw"):
        ps.pattern(PATTERN).draw(stream=stream)


def test_toy_is_checked_and_explained(path: Path) -> None:
    done = call("check", path, "--json")
    assert done.exit_code == 0, done.output
    checked = json.loads(done.stdout)
    assert (checked["stream"], list(checked["reads"]), checked["patterns"]) == ("toy", ["source"], ["pairs"])
    done = call("explain", path)
    assert done.exit_code == 0, done.output
    assert "late: records at least 1 hour older than the newest record of earlier batches" in done.stdout
    assert "pairs" in done.stdout


def test_toy_runs_without_spark(path: Path, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text("\n".join(json.dumps(row) for rows in rows_of_files() for row in rows))
    done = call("try", path, events, "--json")
    assert done.exit_code == 0, done.output
    assert pairs(map(json.loads, done.stdout.splitlines())) == EXPECTED


def test_toy_is_replayed_as_a_batch(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    done = replay(read_job(path), spark, str(tmp_path / "matches"))
    assert pairs(done.rows.collect()) == EXPECTED
    assert (done.records, done.bad) == (6, 0)


def test_toy_runs_as_a_job_that_retracts(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    JobRunner(assemble(read_job(path), spark)).run()
    changes = spark.read.parquet(str(tmp_path / "out"))
    rows = [(row["op"], row["user"], row["a"], row["b"]) for row in changes.collect()]
    assert ("+", "ann", 1, 2) in rows
    assert ("-", "ann", 1, 2) in rows


def test_toy_is_in_the_schema_and_in_messages(path: Path) -> None:
    validator = jsonschema.Draft202012Validator(job_schema())
    validator.validate(yaml.safe_load(path.read_text()))
    assert not validator.is_valid(yaml.safe_load(JOB.replace("  at: at", "  as: at")))
    path.write_text(JOB.replace("kind: toy", "kind: toys"))
    with pytest.raises(JobFileError, match="Did you mean 'toy'"):
        read_job(path)
    path.write_text(JOB.replace("  at: at", "  att: at"))
    with pytest.raises(JobFileError, match=r"stream\.att: .* Did you mean 'at'"):
        read_job(path)


def test_toy_settings_equal_the_python_declaration(path: Path) -> None:
    stream = read_job(path).stream
    rows = [row for rows in rows_of_files() for row in rows]
    assert stream.declare(rows) == ToyStream(rows, "at", shards=2, lateness="1 hour", max_ahead="1 hour")


@cache
def _nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def _imports(path: Path) -> frozenset[str]:
    found = set()
    for node in _nodes(path):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
    return frozenset(found)


def test_only_the_registry_names_kinds() -> None:
    """Modules of one folder of kinds use each other; all other code finds a kind in the registry."""
    kinds = {value.partition(":")[0] for value in STREAM_KINDS.values()}
    settings = {kind.__module__ for kind in settings_by_kind().values()}
    assert len(kinds) == len(settings) == len(STREAM_KINDS)
    folders = {SOURCE / "api" / "stream_kinds": kinds, SOURCE / "jobs" / "stream_kinds": settings}
    for folder, modules in folders.items():
        files = [path for path in SOURCE.rglob("*.py") if not path.is_relative_to(folder)]
        assert {path.name: sorted(modules & _imports(path)) for path in files if modules & _imports(path)} == {}


def test_declarations_name_their_kind() -> None:
    declared = [
        ps.types.Events,
        ps.xml.Documents,
        ps.uncertain.UncertainEvents,
        ps.graph.Models,
        ps.graph.Frames,
        ToyStream,
    ]
    assert {one.stream_kind for one in declared} - set(STREAM_KINDS) == {"toy"}
    assert {name: stream_kind(name).name for name in STREAM_KINDS} == {name: name for name in STREAM_KINDS}


def test_no_code_tests_for_a_kind_of_stream() -> None:
    """``isinstance`` on a declared stream, or on its settings, is a branch that a new kind would have to add."""
    streams = {kind.__name__ for kind in settings_by_kind().values()}
    streams |= {"Events", "Documents", "UncertainEvents", "Models", "Frames", "StreamSettings", "StreamKind"}
    found = [
        f"{path.name}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        for node in _nodes(path)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("isinstance", "issubclass")
        if {getattr(one, "id", getattr(one, "attr", "")) for one in ast.walk(node.args[1])} & streams
    ]
    assert found == []


def test_declarations_import_no_settings_of_jobs() -> None:
    code = (
        "import sys, perseid as ps; ps.pattern('pattern p match A a').explain(ps.events([]));"
        "print(*sorted({'pydantic', 'perseid.jobs', 'pyspark'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
