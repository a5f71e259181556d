"""Streams of job files are declared as in Python, and their settings and columns are checked."""

from __future__ import annotations

import datetime as dt
import re
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import types as st

import perseid as ps
from perseid.errors import SettingsError
from perseid.jobs.reading import read_job
from perseid.jobs.rule_loading import load_patterns, load_relations, pattern_files
from perseid.jobs.spec import JobFile
from perseid.jobs.stream_kinds.events import EventStream
from perseid.jobs.stream_kinds.subscriptions import SubscriptionStream
from perseid.jobs.stream_kinds.uncertain import UncertainStream
from perseid.semantics.types import Decimal, Double, EventSchema, String, Struct, Timestamp
from perseid.sources.contract import ARRIVED, PAYLOAD, POSITION, WRONG
from perseid.sources.ddl_columns import parse_columns
from tests.jobs.test_job_files import FILES, GOOD, WHOLE, written


class FakeFrame:
    """The parts of a DataFrame that a declaration uses: columns, a watermark, and expressions."""

    mapInArrow = None  # noqa: N815

    def __init__(self, *columns: str, streaming: bool = True) -> None:
        self.columns = [*columns, WRONG, PAYLOAD, POSITION, ARRIVED]
        self.isStreaming = streaming
        self.texts: tuple[str, ...] = ()
        self._marked: tuple[int, str] | None = None

    @property
    def schema(self) -> st.StructType:
        return st.StructType([st.StructField(name, st.TimestampType()) for name in self.columns])

    @property
    def watermark(self) -> tuple[str, int] | None:
        """Column with the watermark, and its delay in seconds."""
        if self._marked is None:
            return None
        place, delay = self._marked
        return self.columns[place], int(delay.removesuffix(" microseconds")) // 1_000_000

    def _with(self, **changes: Any) -> FakeFrame:
        made = copy(self)
        made.__dict__.update(changes)
        return made

    def toDF(self, *names: str) -> FakeFrame:
        assert len(names) == len(self.columns)
        return self._with(columns=list(names))

    def selectExpr(self, *texts: str) -> FakeFrame:
        assert self._marked is None, "the bound applies below the watermark"
        return self._with(columns=[text.rpartition(" ")[2] for text in texts], texts=texts)

    def withWatermark(self, time: str, delay: str) -> FakeFrame:
        return self._with(_marked=(self.columns.index(time), delay))


def stream_of(text: str, folder: Path) -> Any:
    return read_job(written(folder, text)).stream


def test_events_are_declared_with_watermark_and_error_column() -> None:
    job = read_job(FILES / "events.yaml")
    declared = job.stream.declare(FakeFrame("ts", "kind", "user", "ip", "amount"))
    assert isinstance(declared, ps.types.Events)
    assert declared.data.watermark == ("ts", 600)
    assert any("current_timestamp()) + 3600000000L" in text for text in declared.data.texts)
    expected = ps.events(
        declared.data,
        time="ts",
        type="kind",
        id=POSITION,
        key="user",
        options=ps.StreamOptions(idle="1 minute", shards=8),
    )
    assert declared == replace(expected, wrong=WRONG, lateness=600_000_000, max_ahead=3_600_000_000)


def test_finished_table_has_no_watermark() -> None:
    declared = read_job(FILES / "events.yaml").stream.declare(FakeFrame("ts", "kind", streaming=False))
    assert isinstance(declared, ps.types.Events)
    assert declared.data.watermark is None


def test_columns_of_sources_are_not_part_of_the_content(tmp_path: Path) -> None:
    declared = stream_of(WHOLE, tmp_path).declare(FakeFrame("ts", "type", "user"))
    assert isinstance(declared, ps.types.Events)
    assert declared.id == ("ts", "type", "user")


def test_several_sources_are_declared_by_type() -> None:
    stream = read_job(FILES / "several.toml").stream
    declared = stream.declare(
        {"sources.Order": FakeFrame("at", "customer"), "sources.Payment": FakeFrame("paid", "customer")}
    )
    assert isinstance(declared, ps.types.Events)
    assert declared.disorder == ps.disorder.Adaptive(0.05)
    assert [(kind, one.time, one.data.watermark, one.id) for kind, one in declared.inputs()] == [
        ("Order", "at", ("at", 3600), ("at", "customer")),
        ("Payment", "paid", ("paid", 3600), ("customer", "paid")),
    ]


def test_job_files_have_the_strategies_of_the_python_api(tmp_path: Path) -> None:
    ways = {
        "assemble": ps.disorder.Assemble(),
        "{conservative: {punctuation: p, source: s, sources: [a, b]}}": ps.disorder.Conservative("p", "s", ("a", "b")),
        "early": ps.disorder.Early(),
        "aggressive": ps.disorder.Aggressive(),
        "{adaptive: {}}": ps.disorder.Adaptive(),
    }
    for text, way in ways.items():
        stream = stream_of(WHOLE.replace("  lateness", f"  disorder: {text}\n  lateness"), tmp_path)
        declared = stream.declare(FakeFrame("ts", "type"))
        assert isinstance(declared, ps.types.Events)
        assert declared.disorder == way


def test_documents_and_beliefs_are_declared() -> None:
    documents = read_job(FILES / "documents.yaml").stream.declare(FakeFrame("ts", "xml"))
    assert isinstance(documents, ps.xml.Documents)
    assert (documents.body, documents.events.data.watermark) == ("xml", ("ts", 60))
    stream = read_job(FILES / "uncertain.yaml").stream
    beliefs = stream.declare(FakeFrame("ts", "person", "antenna"))
    assert isinstance(beliefs, ps.uncertain.UncertainEvents)
    (part,) = beliefs.parts
    assert (part.stream.type, part.stream.of, part.reading, part.data.watermark) == (
        "At", ("person",), "antenna", ("ts", 60),
    )  # fmt: skip
    assert isinstance(stream, UncertainStream)
    assert stream.output_policy() == ps.uncertain.alerts(rise=0.6, fall=0.3)
    assert stream.model_copy(update={"emit": None}).output_policy() is None


def test_tables_of_documents_have_one_identity(tmp_path: Path) -> None:
    text = (FILES / "documents.yaml").read_text(encoding="utf-8")
    one = "{files: {path: in, format: parquet}}"
    several = re.sub(r"  source: .*", f"  sources: {{Feed: {one}, Blog: {one}}}", text)
    frames = {"sources.Feed": FakeFrame("ts", "xml", "no"), "sources.Blog": FakeFrame("ts", "xml")}
    documents = stream_of(several, tmp_path).declare(frames)
    assert isinstance(documents, ps.xml.Documents)
    assert documents.events.id == ("ts", "xml")
    with pytest.raises(SettingsError, match="time must be the same for all tables of documents"):
        stream_of(several.replace("  body", "  time: {Feed: ts, Blog: at}\n  body"), tmp_path)


def test_uncertain_job_matches_as_in_python() -> None:
    job = read_job(FILES / "uncertain.yaml")
    rows = [
        {"ts": second, "person": "ann", "antenna": antenna}
        for second, antenna in enumerate(["a1", None, None, "a1", "a2", "a2"])
    ]
    model = ps.uncertain.hidden_markov(
        transitions=ps.uncertain.floor_plan([("hall", "office"), ("hall", "kitchen")], 0.7),
        readings={"hall": {"a1": 0.8, None: 0.2}, "office": {None: 1}, "kitchen": {"a2": 0.6, None: 0.4}},
    )
    same = ps.uncertain_events(
        rows, event_type="At", key="person", value="place", reading="antenna", every="1 second", model=model
    )
    rules = load_patterns(job)
    found = rules.match(job.stream.declare(rows)).to_dicts()
    assert found == rules.match(same).to_dicts()
    assert found


def test_model_job_matches_the_patterns_of_its_metamodel() -> None:
    job = read_job(FILES / "model.yaml")
    rules = load_patterns(job)
    change = {"kind": None, "attribute": None, "value": None, "target": None, "element": "h"}
    rows = [{**change, "ts": 0, "change": "create", "kind": "Host"}]
    for second, used in enumerate([1, 3, 1, 4], 1):
        rows += [{**change, "ts": second, "change": "set", "attribute": "used", "value": str(used)}]
    rows += [{**change, "ts": 0, "change": "set", "attribute": "total", "value": "2"}]
    assert [match.end_us for match in rules.match(job.stream.declare(rows))] == [4_000_000]


def test_subscriptions_match_documents() -> None:
    job = read_job(FILES / "subscriptions.yaml")
    entry = "<feed><item><author>{}</author></item></feed>"
    rows = [{"ts": n, "feed": "Feed", "xml": entry.format(who)} for n, who in enumerate(["ann", "bob", "ann"])]
    assert isinstance(job.stream, SubscriptionStream)
    asked = job.stream.subscriptions.load()
    assert isinstance(asked, ps.xscl.SubscriptionSet)
    declared = job.stream.declare(rows)
    assert isinstance(declared, ps.xml.Documents)
    assert asked.match(declared, expand=True).num_rows == 1


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_settings_are_checked_without_opening_sources(path: Path) -> None:
    read_job(path).stream.check_settings()


def test_contradicting_settings_are_errors(tmp_path: Path) -> None:
    text = (FILES / "uncertain.yaml").read_text(encoding="utf-8").replace("reading: antenna", "probability: chance")
    with pytest.raises(SettingsError, match="stream: Rows have probabilities, or readings with a model=, not both"):
        stream_of(text, tmp_path).check_settings()
    with pytest.raises(SettingsError, match=r"Missing table for sources\.Payment"):
        read_job(FILES / "several.toml").stream.declare({"sources.Order": FakeFrame("at")})
    with pytest.raises(ps.errors.EventDataError, match=r"Column 'ts' not found in .*; it is configured as the time"):
        stream_of(WHOLE, tmp_path).declare(FakeFrame("at", "type"))


def test_nested_sources_have_paths(tmp_path: Path) -> None:
    beside = "  events: [{source: {files: {path: b, format: parquet}}, lateness: 1 minute}]\n"
    text = (FILES / "uncertain.yaml").read_text(encoding="utf-8").replace("  emit:", beside + "  emit:")
    stream = stream_of(text, tmp_path)
    assert list(stream.sources_by_path()) == ["source", "events[0].source"]
    declared = stream.declare({"source": FakeFrame("ts"), "events[0].source": FakeFrame("ts", "type")})
    assert isinstance(declared, ps.uncertain.UncertainEvents)
    assert [one.wrong for one in declared.certain] == [WRONG]


def job_of(folder: Path, text: str) -> JobFile:
    return read_job(written(folder, text))


def test_patterns_come_from_files_folders_and_the_job_itself(tmp_path: Path) -> None:
    (tmp_path / "rules" / "deep").mkdir(parents=True)
    (tmp_path / "rules" / "a.perseid").write_text("pattern a match A x")
    (tmp_path / "rules" / "deep" / "b.perseid").write_text("pattern b(d duration) match B x within :d")
    (tmp_path / "c.perseid").write_text("pattern c match C x")
    text = WHOLE.replace(
        "patterns: rules/", "patterns: [rules, c.perseid, {text: pattern d match D x}]\nbind: {d: 5 minutes}"
    )
    job = job_of(tmp_path, text)
    assert set(load_patterns(job).names) == {"a", "b", "c", "d"}
    assert [path.name for path in pattern_files(job)] == ["a.perseid", "b.perseid", "c.perseid"]
    assert "5 minutes" in str(load_patterns(job)["b"])
    with pytest.raises(ps.errors.BindingError, match=r"bind\.d: expected a duration"):
        load_patterns(job_of(tmp_path, text.replace("5 minutes", "long")))
    with pytest.raises(ps.errors.BindingError, match="Unknown parameter :e"):
        load_patterns(job_of(tmp_path, text.replace("{d: 5", "{e: 5")))


def test_missing_or_invalid_patterns_are_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"rules cannot be read: No such file"):
        load_patterns(job_of(tmp_path, WHOLE))
    (tmp_path / "rules").mkdir()
    with pytest.raises(SettingsError, match=r"has no \.perseid files"):
        load_patterns(job_of(tmp_path, WHOLE))
    (tmp_path / "rules" / "a.perseid").write_text("pattern a match")
    with pytest.raises(ps.errors.PatternError) as raised:
        load_patterns(job_of(tmp_path, WHOLE))
    assert raised.value.__notes__ == [f"In {tmp_path / 'rules' / 'a.perseid'}."]


def test_relations_are_read(tmp_path: Path) -> None:
    (tmp_path / "blocked.csv").write_text("user,level\nann,3\n")
    assert load_relations(job_of(tmp_path, WHOLE + "relations: {Blocked: {file: blocked.csv}}\n")) == {
        "Blocked": [("ann", 3)]
    }
    with pytest.raises(ps.errors.BindingError, match=r"relations\.Blocked: .*none\.csv: The file cannot be read"):
        load_relations(job_of(tmp_path, WHOLE + "relations: {Blocked: {file: none.csv}}\n"))


def test_columns_in_ddl_are_parsed() -> None:
    assert parse_columns("ts timestamp NOT NULL, `my user` string COMMENT 'it''s', a: decimal(10,2), s struct<x:double>") == {
        "ts": Timestamp(), "my user": String(), "a": Decimal(10, 2), "s": Struct((("x", Double()),)),
    }  # fmt: skip
    assert parse_columns("ts timestamp_ntz") is None
    assert parse_columns(None) is None


def test_columns_of_roles_are_in_the_schema(tmp_path: Path) -> None:
    job = read_job(FILES / "events.yaml")
    assert isinstance(job.stream, EventStream)
    schema = job.stream.event_schema()
    assert isinstance(schema, EventSchema)
    job.stream.check_columns(schema)
    text = (FILES / "events.yaml").read_text(encoding="utf-8").replace("key: user", "key: usr")
    with pytest.raises(
        ps.errors.EventDataError, match=r"Column 'usr' not found in the source; .*\n  = Did you mean 'user'"
    ):
        stream_of(text, tmp_path).check_columns(schema)
    several = read_job(FILES / "several.toml").stream
    assert isinstance(several, EventStream)
    known = several.event_schema()
    assert known is not None
    several.check_columns(known)
    assert known.event_types == ("Order", "Payment")


def test_durations_are_bound(tmp_path: Path) -> None:
    text = WHOLE.replace("rules/", "{text: 'pattern p(d duration) match A a within :d'}\nbind: {d: 90 seconds}")
    rules = load_patterns(job_of(tmp_path, text))
    assert rules == ps.patterns("pattern p(d duration) match A a within :d").bind(d=dt.timedelta(seconds=90))
