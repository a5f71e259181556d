"""The engine for uncertain streams as drivers know it: a plan, and one step over the rows of a shard.

A driver only plans: what is compiled is imported where it runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from perseid.engines.contract import Clock, Rows, Step
from perseid.engines.uncertain.plan import Asked, UncertainPlan, ask
from perseid.engines.uncertain.streams import Streams
from perseid.engines.uncertain.telling import EVERY, Telling
from perseid.errors import EventDataError
from perseid.lang.printer import print_duration
from perseid.semantics import core as c
from perseid.semantics.classes import QueryClass

if TYPE_CHECKING:
    from perseid.engines.uncertain.answers import Answers

SAMPLED = "sampled"
"""What is counted of steps that were sampled though their pattern could have had an exact answer: it has too many states."""


def make_plan(
    patterns: Sequence[c.CorePattern],
    streams: Streams,
    types: Mapping[str, Any],
    *,
    telling: Telling = EVERY,
    expected: bool = False,
) -> UncertainPlan:
    """Patterns over an uncertain stream; ``types`` are Arrow's, of columns by name."""
    from perseid.engines.uncertain.output import output_schema
    from perseid.engines.uncertain.situations import Situations

    asked = tuple(ask(pattern, streams) for pattern in patterns)
    for one in asked:
        timed = Situations(one.pattern)  # which also refuses what has no answer
        if timed.timed and streams.every is None:
            raise EventDataError(
                f"Pattern {one.name} has bounds on time, and nothing says how long a step of the stream is.",
                hint="Say it of the stream: ps.beliefs(…, every='1 second').",
            )
        for micros in timed.durations():
            if streams.every is not None and micros % streams.every:
                raise EventDataError(
                    f"Pattern {one.name} has a bound of {print_duration(micros)}, which is no whole number of steps of "
                    f"{print_duration(streams.every)}.",
                    hint="Make one a multiple of the other.",
                )
    return UncertainPlan(asked, streams, output_schema(asked, types, telling, expected), telling, expected)


def answer(plan: UncertainPlan, rows: Rows) -> tuple[pa.Table, dict[str, int]]:
    """The rows of all answers, where all rows have come, and what was counted."""
    from perseid.engines.uncertain.output import told_table
    from perseid.engines.uncertain.traces import refuse_bad

    tables = []
    counted: Counter[str] = Counter(events=len(rows))
    for one in plan.asked:
        answers, bad, impossible, fell = answers_of(one, plan.streams, rows)
        refuse_bad(plan.streams, rows, bad)
        counted["impossible"] += impossible
        counted[SAMPLED] += fell
        tables.append(told_table(one, rows, answers, plan.telling, plan.streams.every, plan.schema))
    table = pa.concat_tables([plan.schema.empty_table(), *tables]).combine_chunks()
    counted["matches"] = table.num_rows
    return table, dict(counted)


def answers_of(one: Asked, streams: Streams, rows: Rows) -> tuple[Answers, Any, int, int]:
    """The answers of one pattern: exact where theory allows, else sampled; and how many fell to sampling."""
    from perseid.engines.uncertain.answers import exactly
    from perseid.engines.uncertain.automaton import Automaton, TooManyStates
    from perseid.engines.uncertain.reading import Reader
    from perseid.engines.uncertain.safe import safely
    from perseid.engines.uncertain.sampling import sampled

    every = streams.every or 0
    kind = one.classified.kind
    fell = 0
    if kind is not QueryClass.UNSAFE and not streams.sampling.always:
        try:
            if kind is QueryClass.SAFE:
                return *safely(one, streams, rows), 0
            return *exactly(one, streams, Reader(Automaton(one.pattern, rows.relations, elapsed=every)), rows), 0
        except TooManyStates:
            fell = 1
    found = sampled(one, streams, Reader(Automaton(one.pattern, rows.relations, elapsed=every, most=1 << 31)), rows)
    return *found, fell * len(found[0].step)


def step(plan: UncertainPlan, rows: Rows, state: bytes | None, clock: Clock) -> Step:
    """The answers of a shard: of all its rows where they have all come."""
    table, counted = answer(plan, rows)
    return Step(table, None, None, counted)
