"""The types of what queries return, by the kind of the stream: mypy checks this file and nothing runs it."""

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
    assert_type(pattern.match(rows), ps.Matches)
    assert_type(pattern.match({"A": rows, "B": rows}), ps.Matches)
    assert_type(pattern.match(ps.events(rows)), ps.Matches)
    assert_type(several.match(ps.events(rows), relations={"Office": [("ann", 1)]}), ps.Matches)
    assert_type(several["one"].match(rows)[0], ps.Match)
    assert_type(pattern.count(ps.events(rows)), list[Counts])
    assert_type(pattern.explain(ps.events(frame)), str)
    assert_type(pattern.why_not(rows), WhyNot)
    assert_type(pattern.detect(ps.events(frame), observation=Observation("counts")), DataFrame)
    assert_type(ps.fold(pattern.detect(frame)).count(), int)


def documents(rows: Rows, frame: DataFrame, pattern: ps.Pattern) -> None:
    assert_type(pattern.match(ps.documents(rows, body="xml")), ps.Matches)
    assert_type(pattern.detect(ps.documents(frame, body="xml")), DataFrame)
    table: pa.Table = ps.trees("//a->x").match(ps.documents(rows, body="xml"))
    assert_type(ps.trees("//a->x").detect(ps.documents(frame, body="xml")), DataFrame)
    pairs: pa.Table = ps.subscriptions("S//a->x JOIN{x = y, 1 day} S//b->y").match(ps.documents(rows, body="xml"))
    assert_type(ps.subscription_table("folder").detect(ps.documents(frame, body="xml")), DataFrame)
    print(table, pairs)


def beliefs(rows: Rows, frame: DataFrame, pattern: ps.Pattern) -> None:
    stream = ps.beliefs(rows, event="At", about="place").beside(ps.events(rows))
    assert_type(stream, ps.Beliefs)
    assert_type(pattern.match(stream, tell=ps.above(0.2)), ps.Answers)
    assert_type(pattern.detect(ps.beliefs(frame, event="At", about="place"), tell=ps.spans(0.5)), DataFrame)
    assert_type(pattern.draw(stream=stream), str)
    assert_type(ps.learn(stream), Learnt)


def models(rows: Rows, frame: DataFrame, pattern: ps.Pattern, metamodel: ps.Metamodel) -> None:
    local, on_spark = ps.model(rows, metamodel, beside=rows), ps.model(frame, metamodel)
    assert_type(pattern.match(local), ps.Matches)
    assert_type(pattern.detect(on_spark), DataFrame)
    assert_type(ps.react(local), ps.Reaction)
    assert_type(ps.react(on_spark, checkpoint="folder"), DataFrame)
    assert_type(ps.react(ps.frames(rows, metamodel, each=rows, columns={})), ps.Reaction)
    assert_type(ps.repairs(local, objectives="overcommitted"), ps.QuickFixes)
    assert_type(ps.emitted(ps.react(on_spark), metamodel, "alarm"), DataFrame)


def a_kind_of_another_package(rows: Rows, frame: DataFrame, pattern: ps.Pattern) -> None:
    assert_type(pattern.match(ToyStream(rows)), ps.Matches)
    assert_type(pattern.detect(ToyStream(frame)), DataFrame)


def running(session: SparkSession, query: StreamingQuery, observation: Observation) -> None:
    assert_type(ps.progress(query), Progress)
    assert_type(ps.inspect(session, "checkpoint"), Inspection)
    assert_type(ps.counters(observation), dict[str, int])
