"""The names that cases use: rows, documents, models and, with a session, DataFrames and streams."""

from __future__ import annotations

import datetime as dt
import tempfile
from pathlib import Path
from typing import Any

import perseid as ps
from perseid.jobs.reading import read_job

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
METAMODEL = """
model cps
node Host (cpu bigint, name string)
node App
edge runs_on App -> Host one
query busy(host) find host: Host where host.cpu > 8
query named(host, name) find host: Host let name = host.name
"""
MODEL = ps.uncertain.hidden_markov(
    transitions={"a": {"a": 0.75, "b": 0.25}, "b": {"a": 0.25, "b": 0.75}},
    readings={"a": {"A": 0.8, "B": 0.2}, "b": {"A": 0.2, "B": 0.8}},
)
JOB = """\
job: takeover
stream:
  source: {files: {path: in, format: parquet}}
  lateness: 10 minutes
patterns: rules/
sinks: [console]
checkpoint: state
"""
AT = {"event_type": "At", "key": "who", "value": "place", "every": "1 second"}


def pattern(text: str) -> Any:
    """Return a pattern from the text after ``pattern p``, or a set of patterns from a complete text."""
    return ps.patterns(text) if text.startswith("pattern ") else ps.pattern(f"pattern p {text}")


def believed(**more: Any) -> Any:
    return ps.uncertain_events([{"ts": START, "who": "ann", "place": "a", "p": 0.5}], **{**AT, **more})


def readings(data: Any = None, **more: Any) -> Any:
    rows = [{"ts": START, "who": "ann", "r": "A"}] if data is None else data
    return ps.uncertain_events(rows, **{**AT, "reading": "r", "model": MODEL, **more})


def model(text: str = "", nodes: str = "", **more: Any) -> Any:
    rows = [{"ts": START, "change": "create", "element": "h1", "kind": "Host", "site": "s"}]
    return ps.graph.model(
        more.pop("data", rows),
        ps.graph.metamodel(METAMODEL.replace("node App\n", f"node App\n{nodes}\n") + text),
        **more,
    )


def job(change: str, by: str = "") -> Any:
    """Read a job file in which a text is replaced by another, or to which a line is appended."""
    text = JOB.replace(change, by) if change in JOB else JOB + change
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "job.yaml")
        path.write_text(text, encoding="utf-8")
        return read_job(path)


def names() -> dict[str, Any]:
    """Return the names that local cases use."""
    item = {"ts": START, "s": "S", "xml": "<a>1</a>"}
    nested = "<a>" * 1500 + "<b/>" * 1500 + "</a>" * 1500
    return {
        "ps": ps,
        "job": job,
        "pattern": pattern,
        "believed": believed,
        "readings": readings,
        "model": model,
        "rows": [{"ts": START, "type": "A"}],
        "documents": ps.documents([item], body="xml", type="s", time="ts"),
        "big": ps.documents([{**item, "xml": "<a><b/></a>"}], body="xml", type="s", time="ts"),
        "nested": ps.documents([{**item, "xml": nested}], body="xml", type="s", time="ts"),
        "START": START,
    }


def spark_names(spark: Any) -> dict[str, Any]:
    """Return the names that Spark cases use: ``df`` is bounded, ``stream`` has a watermark, ``unmarked`` has none."""
    from pyspark.sql import Observation

    columns = ("ts", "'A' as type", "1L as user", "1L as host", "'x' as xml", "'A' as r", "'ann' as who", "'s' as site")
    df = spark.sql("select timestamp'2026-01-01 00:00:00' as ts").selectExpr(*columns)
    rate = spark.readStream.format("rate").load().selectExpr("timestamp as ts")
    change = ("'create' as change", "'h' as element", "'Host' as kind", "cast(null as string) as attribute")
    values = ("cast(null as string) as value", "cast(null as string) as target")
    return {
        **names(),
        "df": df,
        "stream": rate.withWatermark("ts", "1 second").selectExpr(*columns),
        "unmarked": rate.selectExpr(*columns),
        "changes": rate.withWatermark("ts", "1 second").selectExpr("ts", *change, *values, "'s' as site"),
        "past_changes": df.selectExpr("ts", *change, *values, "'s' as site"),
        "believed_df": ps.uncertain_events(df.selectExpr("*", "'a' as place", "0.5D as p"), **AT),
        "Observation": Observation,
    }
