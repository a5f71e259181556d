"""Result types of queries by kind of stream. mypy checks this file; nothing runs it."""

from __future__ import annotations

from typing import assert_type

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import perseid as ps
from perseid.engines.sequence.match_counts import Counts
from perseid.engines.uncertain.learning import Learnt
from perseid.spark.inspection import Inspection
from perseid.spark.progress import Progress
from perseid.viz.why_not import WhyNot
from tests.contract.toy_stream.declaration import ToyStream

Rows = list[dict[str, object]]


def events(rows: Rows, frame: DataFrame, pattern: ps.Pattern, several: ps.PatternSet) -> None:
    assert_type(pattern.match(rows), ps.types.Matches)
    assert_type(pattern.match({"A": rows, "B": rows}), ps.types.Matches)
    assert_type(pattern.match(ps.events(rows)), ps.types.Matches)
    assert_type(pattern.match(ps.events([{"ts": 1, "type": "A"}])), ps.types.Matches)
    assert_type(pattern.match([{"ts": 1, "type": "A"}]), ps.types.Matches)
    assert_type(several.match(ps.events(rows), relations={"Office": [("ann", 1)]}), ps.types.Matches)
    assert_type(several["one"].match(rows)[0], ps.types.Match)
    assert_type(pattern.count(ps.events(rows)), list[Counts])
    assert_type(pattern.explain(ps.events(frame)), str)
    assert_type(pattern.why_not(rows), WhyNot)
    assert_type(pattern.match(ps.events(frame, time=frame.ts, key=[frame.user])), DataFrame)
    assert_type(pattern.match(ps.events(frame), observation=Observation("counts")), DataFrame)
    assert_type(ps.disorder.current_matches(pattern.match(frame)).count(), int)


def documents(rows: Rows, frame: DataFrame, pattern: ps.Pattern) -> None:
    assert_type(pattern.match(ps.documents(rows, body="xml")), ps.types.Matches)
    assert_type(pattern.match(ps.documents(frame, body="xml")), DataFrame)
    table: pa.Table = ps.xml.tree_patterns("//a->x").match(ps.documents(rows, body="xml"))
    assert_type(ps.xml.tree_patterns("//a->x").match(ps.documents(frame, body="xml")), DataFrame)
    pairs: pa.Table = ps.xscl.subscriptions("S//a->x JOIN{x = y, 1 day} S//b->y").match(ps.documents(rows, body="xml"))
    assert_type(ps.xscl.subscription_table("folder").match(ps.documents(frame, body="xml")), DataFrame)
    print(table, pairs)


def uncertain_events(rows: Rows, frame: DataFrame, pattern: ps.Pattern) -> None:
    stream = ps.uncertain_events(rows, event_type="At", value="place").combine(ps.events(rows))
    assert_type(stream, ps.uncertain.UncertainEvents[Rows])
    assert_type(pattern.match(stream, emit=ps.uncertain.above(0.2)), ps.uncertain.UncertainMatches)
    assert_type(
        pattern.match(ps.uncertain_events(frame, event_type="At", value="place"), emit=ps.uncertain.spans(0.5)),
        DataFrame,
    )
    assert_type(pattern.draw(stream=stream), str)
    assert_type(ps.uncertain.learn(stream), Learnt)


def models(rows: Rows, frame: DataFrame, pattern: ps.Pattern, metamodel: ps.graph.Metamodel) -> None:
    local, on_spark = ps.graph.model(rows, metamodel, events=rows), ps.graph.model(frame, metamodel)
    assert_type(pattern.match(local), ps.types.Matches)
    assert_type(pattern.match(on_spark), DataFrame)
    assert_type(ps.graph.react(local), ps.graph.Reaction)
    assert_type(ps.graph.react(on_spark, checkpoint="folder"), DataFrame)
    assert_type(ps.graph.react(ps.graph.frames(rows, metamodel, each=rows, columns={})), ps.graph.Reaction)
    assert_type(ps.graph.find_repairs(local, objectives="overcommitted"), ps.graph.QuickFixes)
    assert_type(ps.graph.select_emitted(ps.graph.react(on_spark), metamodel, "alarm"), DataFrame)


def kind_of_another_package(rows: Rows, frame: DataFrame, pattern: ps.Pattern) -> None:
    assert_type(pattern.match(ToyStream(rows)), ps.types.Matches)
    assert_type(pattern.match(ToyStream(frame)), DataFrame)


def running(session: SparkSession, query: StreamingQuery, observation: Observation) -> None:
    assert_type(ps.progress(query), Progress)
    assert_type(ps.inspect_state(session, "checkpoint"), Inspection)
    assert_type(ps.counters(observation), dict[str, int])
