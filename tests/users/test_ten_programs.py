"""Ten programs of ten kinds of users: correct results, and error messages that help with common mistakes.

They use only the public API and the session of the fixture, classic or through Spark Connect.
"""

from __future__ import annotations

import json
import pickle
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f
from typer.testing import CliRunner, Result

import perseid as ps
from perseid.builder import absent, build, step
from perseid.cli.app import app
from perseid.reference.oracle import oracle_matcher
from perseid.testing import assert_matches
from perseid.testing.cases import read_cases, run_case
from tests.sessions import CONNECT, session
from tests.spark.streaming import MOMENT, WAIT, Streams, at

ORDERS = pa.schema({"ts": MOMENT, "type": pa.string(), "user": pa.string(), "amount": pa.float64()})
UNPAID = ps.pattern("pattern unpaid match Order o -> not Payment for 1 hour partition by user return o.amount")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with session(tmp_path_factory.mktemp("warehouse")) as started:
        if not CONNECT:
            started.sparkContext.setLogLevel("OFF")
        yield started


@pytest.fixture
def streams(spark: SparkSession, tmp_path: Path) -> Streams:
    return Streams(spark, tmp_path)


def error_of(call: Callable[..., object], *arguments: Any, **options: Any) -> str:
    """Return the message of the PerseidError that a call raises."""
    with pytest.raises(ps.PerseidError) as caught:
        call(*arguments, **options)
    return str(caught.value)


def order(minute: float | None, user: str, kind: str = "Order") -> dict[str, object]:
    return {"ts": at(None if minute is None else minute * 60), "type": kind, "user": user, "amount": 20.0}


def test_notebook() -> None:
    takeover = ps.pattern("""
        pattern takeover match Login a -> Login b [ip <> a.ip] -> not Logout -> Transfer+ t where sum(t.amount) > 10000
        within 10 minutes partition by user return b.ip, count(t) as transfers
    """)
    rows = [
        ("2026-03-01 09:00", "Login", "ann", "10.0.0.1", None),
        ("2026-03-01 09:02", "Login", "ann", "203.0.113.9", None),
        ("2026-03-01 09:03", "Transfer", "ann", None, 6000),
        ("2026-03-01 09:05", "Transfer", "ann", None, 7500),
        ("2026-03-01 09:06", "Login", "bob", "10.0.0.7", None),
    ]
    frame = pd.DataFrame(rows, columns=["at", "type", "user", "ip", "amount"])
    assert "Available: at, type, user, ip, amount.\n  = Use ps.events(rows, time=…)" in error_of(takeover.match, frame)
    assert "It is a parameter of the stream: ps.events(data, time=…)." in error_of(takeover.match, frame, time="at")
    assert "Use df.reset_index(): the column is in the index." in error_of(
        takeover.match, ps.events(frame.set_index("at"), time="at")
    )

    events = ps.events(frame, time="at")
    found = takeover.match(events)
    assert found.to_pandas()[["user", "ip", "transfers"]].to_numpy().tolist() == [["ann", "203.0.113.9", 2]]
    assert str(found._repr_html_()).startswith("<p>1 match</p>\n<table")
    with pytest.warns(ps.errors.PerseidWarning, match="All events share one null key: .* Did you mean 'user_id'"):
        takeover.match(ps.events(frame.rename(columns={"user": "user_id"}), time="at"))
    empty = takeover.match(ps.events(frame[frame.user == "bob"], time="at"))
    assert empty.notes == ("no event has the type 'Transfer'.",)
    assert {"start", "user", "ip", "transfers"} <= set(empty.to_pandas().columns)
    why = " ".join(str(takeover.why_not(events, key="bob")).split())
    assert "no Transfer has this key; 2 have other keys" in why
    assert "the events end at 2026-03-01 09:06:00, before the window closes at 2026-03-01 09:16:00" in why
    assert "Available: key, relations, shown." in error_of(takeover.why_not, events, user="bob")


def test_streaming_job(streams: Streams) -> None:
    arrivals = (
        [order(0, "ann"), order(5, "bob")],
        [order(30, "bob", "Payment"), order(None, "eve")],
        [order(100, "dan")],
    )
    raw = streams.stream(ORDERS, *arrivals, delay=None)
    assert 'df.withWatermark("ts", "10 minutes")' in error_of(UNPAID.match, raw)
    assert "Set the watermark on the DataFrame" in error_of(ps.events, raw, watermark="10 minutes")
    stream = raw.withWatermark("ts", "10 minutes")
    assert "Remove the rows after it instead." in error_of(UNPAID.match, stream, horizon=at(0))
    assert "with spark.read instead of spark.readStream" in error_of(UNPAID.why_not, stream)

    first = streams.start(UNPAID.match(stream, rejected=True))
    run = first.finish()
    assert [row["user"] for row in run.rows] == ["ann"]
    assert [(row["kind"], row["user"], row["reason"]) for row in run.rejected] == [("bad", "eve", "It has no time.")]
    observed = ps.progress(first.query)
    assert (observed.read, observed.events, observed.bad, observed.matches) == (5, 4, 1, 1)

    streams.add("input", ORDERS, [order(175, "ann")], [order(176, "ann"), order(-4, "old")])
    run = streams.run(UNPAID.match(stream, rejected=True, checkpoint=str(streams.checkpoint())))
    assert sorted(row["user"] for row in run.rows) == ["ann", "dan"]
    assert {row["user"]: row["reason"] for row in run.rejected}["old"] == "Its time is at or before the watermark."
    saved = ps.inspect_state(streams.spark, str(streams.checkpoint()))
    assert saved.busiest == [("user=ann", 2)]
    assert "2 events buffered until the watermark passes" in str(saved)


def test_unit_test_of_a_rule(tmp_path: Path) -> None:
    rule = ps.pattern("""
        pattern brute match LoginFailed{3,} failed -> LoginOk ok within 5 minutes partition by user
        after match skip past last return count(failed) as failures, ok.ip
    """)
    tries: list[dict[str, object]] = [{"ts": i, "type": "LoginFailed", "user": "ann"} for i in range(5)]
    rows = [*tries, {"ts": 9, "type": "LoginOk", "user": "ann", "ip": "1"}]
    assert_matches(rule, rows, 1)
    assert rule.match(rows)[0].values == {"failures": 5, "ip": "1"}
    with pytest.raises(AssertionError, match=r"expected 1, found:\n0 matches\n(.|\n)*no later LoginOk occurred"):
        assert_matches(rule, tries, 1)
    columns = {"LoginFailed": {"user": "string"}, "LoginOk": {"user": "string", "ipp": "string"}}
    assert "Did you mean 'ok.ipp'?" in error_of(rule.check, columns)
    with pytest.warns(ps.errors.PerseidWarning, match=r"no step is named 'frst'.* Did you mean first\.ip\?"):
        ps.pattern("pattern p match Login first -> Login b [ip <> frst.ip] within 1 hour").check()

    cases = tmp_path / "brute.cases"
    cases.write_text("""== three are enough
        of brute
        events
          f1 LoginFailed 0 user=ann; f2 LoginFailed 1 user=ann; f3 LoginFailed 2 user=ann; o1 LoginOk 3 user=ann
        gives
          failed=f1,f2,f3 ok=o1
        why the rule says so
    """)
    (case,) = read_cases(str(cases), rules=rule)
    assert run_case(case, oracle_matcher()) == list(case.expected)
    with pytest.raises(ValueError, match=r"unknown rule 'brute'; use read_cases\(path, rules=…\)"):
        read_cases(cases)


def test_siem_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rules").mkdir()
    Path("rules/logins.perseid").write_text("""
        pattern brute(office list of string)
        match LoginFailed{3,} f -> LoginOk ok [ip not in :office] within 5 minutes partition by user
        severity high tags 'attack.t1110', credentials owner soc description 'Many failed logins, then one that works'

        pattern beacon match Dns d -> Dns e [domain = d.domain] within 5 minutes partition by host
    """)
    Path("rules/slip.perseid").write_text("pattern slip match A first -> B b [x = frst.x] within 1 hour")
    Path("twice.perseid").write_text("pattern twice match A a -> B a within 1 hour")
    kinds = [*["LoginFailed"] * 3, "LoginOK", "Dns"]
    events = [{"ts": i, "type": kind, "user": "ann", "host": "h", "ip": "9"} for i, kind in enumerate(kinds)]
    Path("events.jsonl").write_text("\n".join(map(json.dumps, events)))

    def perseid(command: str) -> Result:
        return CliRunner().invoke(app, command.split())

    checked = perseid("check rules twice.perseid none.perseid")
    assert (checked.exit_code, checked.stdout.count(", OK: ")) == (1, 2)
    assert "rules/logins.perseid: 2 patterns, OK: brute, beacon" in checked.stdout
    assert "note: Pattern slip: no step is named 'frst'" in checked.stderr
    assert "twice.perseid: ScopeError[scope]: Duplicate step 'a'." in checked.stderr
    assert "none.perseid: PerseidError[error]: The file cannot be read" in checked.stderr

    arguments = "rules/logins.perseid events.jsonl"
    tried = perseid(f"try {arguments} --bind office=1,2")
    assert tried.stdout == "brute: no matches\nbeacon: no matches\n"
    assert "note: no event has the type 'LoginOk'. Did you mean 'LoginOK'?" in tried.stderr
    assert perseid(f"try {arguments} --set office=1 --json").stdout == ""
    assert "several patterns: brute, beacon. Choose one with --pattern." in perseid(f"why-not {arguments}").stderr
    why = perseid(f"why-not {arguments} --bind office=1 --pattern brute --key ann").stdout
    assert why.startswith("brute, user = 'ann': no match. 5 events")
    assert "Did you mean 'LoginOK'?" in why
    assert perseid("explain rules/logins.perseid --pattern beacon").stdout.startswith("pattern beacon\n")
    assert (
        "Unknown pattern 'beacn'.\n  = Did you mean 'beacon'?"
        in perseid("draw rules/logins.perseid --pattern beacn").stderr
    )

    rule = ps.load("rules/logins.perseid")[0]
    assert (rule.severity, rule.owner, rule.tags) == ("high", "soc", ("attack.t1110", "credentials"))
    assert str(rule.description).startswith("Many failed logins")
    assert "severity     high" in rule.explain()


def test_rfid_gate(streams: Streams) -> None:
    schema = pa.schema({"ts": MOMENT, "reader": pa.string(), "tag": pa.string()})
    arrivals = (
        [("Shelf", "gin", 0), ("Shelf", "soap", 2)],
        [("Door", "gin", 7), ("Door", "soap", 8)],
        [("Till", "soap", 5)],
    )
    batches = [[{"ts": at(m * 60), "reader": reader, "tag": tag} for reader, tag, m in batch] for batch in arrivals]
    reads = streams.stream(schema, *batches, delay="15 minutes")
    stolen = ps.pattern("pattern stolen match Shelf s -> not Till -> Door d within 30 minutes partition by tag")
    assert "Did you mean 'aggressive'?" in error_of(ps.events, reads, disorder="agressive")
    assert "Use disorder=ps.disorder.Aggressive()" in error_of(ps.events, reads, disorder=ps.disorder.Aggressive)
    assert "ps.events(data, disorder=…)" in error_of(stolen.match, reads, disorder="aggressive")
    assert "use '->>' to take every event" in error_of(
        stolen.match, ps.events(reads, type="reader", disorder="assemble")
    )
    assert "ps.disorder.merge_into(…, using='delta')" in error_of(ps.disorder.merge_into, "alarms", using="parquet")

    changes = stolen.match(ps.events(reads, type="reader", disorder="aggressive"))
    assert "foreachBatch(ps.disorder.merge_into(table))" in error_of(ps.disorder.current_matches, changes)
    running = streams.start(changes)
    rows = sorted((row["revision"], row["op"], row["tag"]) for row in running.finish().rows)
    assert [change[1:] for change in rows] == [("+", "gin"), ("+", "soap"), ("-", "soap")]
    assert (ps.progress(running.query).matches, ps.progress(running.query).retracted) == (2, 1)
    assert [row.tag for row in ps.disorder.current_matches(streams.spark.read.parquet(running.out)).collect()] == [
        "gin"
    ]
    assert ps.inspect_state(streams.spark, str(streams.checkpoint())).busiest == [("tag=soap", 3), ("tag=gin", 2)]


def test_atom_feed() -> None:
    atom = "http://www.w3.org/2005/Atom"
    entry = f"<feed xmlns='{atom}'><entry><title>%s</title><author><name>ann</name></author></entry></feed>"
    feeds = [{"ts": i, "xml": entry % title} for i, title in enumerate(["Hello", "Retraction: Hello"])]
    entries = ps.xml.tree_patterns("//entry->entry[/title->title][/author/name->who]")
    assert "ps.documents(df, body='xml')" in error_of(entries.match, feeds)
    undeclared = ps.documents(feeds, body="xml")
    with pytest.warns(ps.errors.PerseidWarning, match=re.escape(f"ps.documents(…, namespaces={{'': '{atom}'}})")):
        entries.match(undeclared)
    assert "ps.documents(…, namespaces={'a': " in error_of(ps.xml.tree_patterns("//a:entry->e").match, undeclared)

    documents = ps.documents(feeds, body="xml", namespaces={"": atom})
    broken = ps.documents([*feeds, {"ts": 2, "xml": "<feed><entry></feed>"}], body="xml", namespaces={"": atom})
    *found, bad = entries.match(broken).to_pylist()
    assert [row["title"] for row in found] == [["Hello"], ["Retraction: Hello"]]
    assert bad["error"] == {"what": "Mismatched tag", "line": 1, "column": 16}
    retracted = ps.pattern("""
        pattern retracted match Feed << //entry->entry[/title->title][/author/name->who] >> x
        -> Feed << //entry->entry[/title->title][/author/name->who] >> y [title like 'Retraction%']
        within 1 hour partition by who return x.title
    """)
    assert "Use ps.xml.tree_patterns(…).match(…) to list all" in error_of(retracted.match, broken)
    assert [(match.key, match.values) for match in retracted.match(documents)] == [({"who": "ann"}, {"title": "Hello"})]
    habits = {
        "//entry/title/text()->t": "->name to return the text of a node",
        "//entry[contains(title, 'H')]->e": "[title like '%W%']",
        "//entry[position() = 1]->e": "Use [1] for the first, [last()] for the last.",
        "//entry[not(/title)]->e": "[title is null]",
        "//entry[/title and /author]->e": "each in its own [ ]",
        "//entry[/title or /author]->e": "Join alternatives with one |",
    }
    for habit, instead in habits.items():
        assert instead in error_of(ps.xml.tree_patterns, habit)
    assert "matches: any entry (->entry) that has a child title (->title)" in entries.explain()


def test_spark_connect_client(streams: Streams) -> None:
    rows = [order(0, "ann"), order(1, "bob"), order(5, "bob", "Payment"), order(90, "dan", "Click")]
    frame = streams.spark.createDataFrame(pd.DataFrame(rows))
    observed = Observation("unpaid")
    assert [row.user for row in UNPAID.match(frame, observation=observed).collect()] == ["ann"]
    assert (observed.get["events"], observed.get["matches"]) == (3, 1)
    assert [row.user for row in UNPAID.match(ps.events(frame, time=f.col("ts"), type=frame.type)).collect()] == ["ann"]
    assert "Payment at 2024-03-10 07:04:00 occurred; 'not Payment' forbids it." in str(UNPAID.why_not(frame, key="bob"))
    with pytest.warns(DeprecationWarning, match="detect is deprecated and will be removed in 0.2. Use match."):
        assert [row.user for row in UNPAID.detect(frame).collect()] == ["ann"]
    assert "is unsupported on Spark DataFrames." in error_of(UNPAID.match, frame, horizon=at(0))
    assert "Column 'when' not found" in error_of(UNPAID.match, ps.events(frame, time="when"))
    german = frame.selectExpr("'01.03.2026 09:00' as ts", "type", "user", "amount")
    message = "4 of 4 rows are dropped: 'ts' has no readable time, such as '01.03.2026"
    assert UNPAID.why_not(german).notes[0].startswith(message)

    running = streams.start(UNPAID.match(streams.stream(ORDERS, rows[:2], rows[2:], delay="10 minutes")))
    assert [row["user"] for row in running.finish().rows] == ["ann"]
    assert (ps.progress(running.query).read, ps.progress(running.query).filtered) == (4, 1)
    assert str(ps.inspect_state(streams.spark, str(streams.checkpoint()))).startswith("No state: no window is open")


def test_library_that_embeds_perseid() -> None:
    body = step("Login", "a") >> step("Login", "b").where("ip <> a.ip") >> absent(step("Transfer"), for_="2 minutes")
    silent = ps.pattern(build("silent").match(body).within("1 hour").partition_by("user").severity("high"))
    assert (silent.name, silent.severity, silent.owner) == ("silent", "high", None)
    for same in (ps.pattern(str(silent)), pickle.loads(pickle.dumps(silent))):
        assert (same, hash(same)) == (silent, hash(silent))
    rules = ps.patterns([silent, build("two").match("B b")], "pattern three match C pattern four match D")
    assert rules.names == ("silent", "two", "three", "four")
    assert (rules[0], rules[-1].name) == (silent, "four")
    assert "Use ps.patterns(…)" in error_of(ps.pattern, str(rules))
    assert "Use ps.load(path) to read a file." in error_of(ps.patterns, Path("rules.perseid"))
    assert "partition_by('a', 'b')" in error_of(build("x").partition_by, ["user"])
    assert "a number alone has no unit" in error_of(build("x").within, 3600)
    assert "Run it with ps.pattern(build(…)).match(events)." in error_of(build("x").match, [{"ts": 0}])
    with pytest.raises(ps.errors.PatternError) as caught:
        ps.pattern("pattern p match A first -> B b where frst.x > 1 within 1 hour").check()
    error = caught.value
    assert (error.line, error.column, error.nearest, error.hint) == (1, 38, "first", "Available: first, b.")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_upgrade_with_a_checkpoint(streams: Streams) -> None:
    stream = streams.stream(ORDERS, [order(0, "ann"), order(5, "bob")], [order(30, "dan")], delay="10 minutes")
    streams.run(UNPAID.match(stream))
    checkpoint = streams.checkpoint()
    saved = {path: path.read_bytes() for path in checkpoint.rglob("*") if path.is_file() and path.name[0] != "."}
    shutil.copytree(checkpoint, streams.checkpoint("changed"))
    streams.add("input", ORDERS, [order(100, "ann")])
    otherwise: dict[str, dict[str, Any]] = {
        "The checkpoint was made with 16 shards, and the query now has 4.": {"options": ps.StreamOptions(shards=4)},
        "The checkpoint was made with order='watermark', and the query now has order='arrival'.": {"order": "arrival"},
        "its state is of engine 'sequence', expected 'disorder'.": {"disorder": "aggressive"},
    }
    for sentence, options in otherwise.items():
        message = error_of(UNPAID.match, ps.events(stream, **options), checkpoint=str(checkpoint))
        assert sentence in message
        assert "restore a copy of the checkpoint" in message
    assert saved == {path: path.read_bytes() for path in saved}
    renamed = ps.pattern(str(UNPAID).replace("unpaid", "owing"))
    continued = streams.start(renamed.match(stream, checkpoint=str(checkpoint)))
    assert sorted(row["user"] for row in continued.finish().rows) == ["ann", "bob", "dan"]
    assert ps.progress(continued.query).incomplete == 0
    changed = streams.start(ps.pattern(str(UNPAID).replace("1 hour", "30 minutes")).match(stream), "changed").query
    assert changed.awaitTermination(WAIT)
    assert ps.progress(changed).incomplete > 0


PAIR = "pattern p match Login a -> Login b [ip <> a.ip] within 5 minutes partition by user"
ROW: dict[str, Any] = {"ts": 0, "type": "Login", "user": "ann", "ip": "1"}
MISTAKES: list[tuple[Callable[[Any], object], str, str]] = [
    (lambda df: ps.pattern(PAIR.replace("ip <>", "ipp <>")).match(df), "Column 'ipp' not found in the DataFrame", "Did you mean 'ip'?"),
    (lambda df: ps.pattern(f"{PAIR} where b.amount > 'x'").match(df), "cannot compare a double with a string", "line 1, column 90"),
    (lambda df: ps.pattern(PAIR).match(df, horizon=at(0)), "is unsupported on Spark DataFrames.", "Remove the rows after it"),
    (lambda _: ps.pattern(PAIR).match([ROW], rejected=True), "rejected= requires a Spark DataFrame, and these rows are local.", "Remove rejected=."),
    (lambda _: ps.pattern(PAIR).match([ROW], checkpoint="c"), "checkpoint= requires a Spark DataFrame, and these rows are local.", "Remove checkpoint=."),
    (lambda _: ps.pattern(PAIR).match([ROW], observation=Observation()), "observation= requires a Spark DataFrame, and these rows are local.", "Remove observation=."),
    (lambda df: ps.pattern(PAIR).match(ps.events({"Login": df, "Logout": [ROW]})), "The inputs mix Spark DataFrames and local rows: got list.", "Use spark.createDataFrame(rows)"),
    (lambda df: ps.pattern(PAIR).match(ps.events({"Login": [ROW], "Logout": df})), "The inputs mix Spark DataFrames and local rows: got list.", "or local rows for all inputs."),
    (lambda df: ps.pattern(PAIR).match(df, time="ts"), "match has no parameter 'time'.", "ps.events(data, time=…)"),
    (lambda df: ps.events(df, time=f.lower("type")), "time= expected a column name, got the computed column Column<'lower(type)'>.", "use time='name'"),
    (lambda df: ps.events(df, key=df.user.substr(1, 2)), "key= expected a column name, got the computed column", "use key='name'"),
    (lambda df: ps.events(df, timestamp="ts"), "events has no parameter 'timestamp'.", "Did you mean 'time'?"),
    (lambda df: ps.xml.tree_patterns("//a->x").match(ps.documents(df, body="xml")), "Column 'xml' not found", "Available: ts, type, user, ip, amount."),
    (lambda _: ps.pattern(PAIR).match(ROW), "got one event", "[{…}]"),
    (lambda _: ps.pattern(PAIR).match([{**ROW, "ts": "01/03/2026"}]), "Row 1, column 'ts': expected a time, got", "ISO 8601"),
    (lambda _: ps.pattern(PAIR).match([{**ROW, "ts": 1_772_355_600_000}]), "Row 1", "divide milliseconds by 1000"),
    (lambda _: ps.pattern(PAIR.replace("match", "mtach")), "Unknown clause 'mtach'", "Did you mean 'match'?"),
    (lambda _: ps.pattern(PAIR.replace("partition", "group")), "Unexpected 'group'", "partition by user"),
    (lambda _: ps.pattern(PAIR.replace("5 minutes", "5 min")), "Unknown unit 'min'.", "Did you mean 'minutes'?"),
    (lambda _: ps.pattern("pattern p(n integer = 3) match A{:n,} a"), "Use numbers as the bounds", "A+ a … where count(a) >= :n"),
    (lambda _: ps.pattern("pattern p match A a -> B b").match([]), "it has no 'within'", "such as: within 10 minutes."),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message_part", "instead"), MISTAKES, ids=[message_part for _, message_part, _ in MISTAKES]
)
def test_mistake_is_an_error_with_a_hint(
    spark: SparkSession, call: Callable[[DataFrame], object], message_part: str, instead: str
) -> None:
    columns = "ts long, type string, user string, ip string, amount double"
    message = error_of(call, spark.createDataFrame([(0, "Login", "ann", "1", 5.0)], columns))
    assert message_part in message
    assert instead in message
