"""The engine for uncertain streams as drivers know it: a plan, and one step over the rows of a shard.

A driver only plans: what is compiled is imported where it runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from perseid.engines.contract import Clock, Rows, StateReport, Step
from perseid.engines.uncertain.plan import Asked, UncertainPlan, ask
from perseid.engines.uncertain.streams import Streams
from perseid.engines.uncertain.telling import EVERY, Telling
from perseid.errors import EventDataError
from perseid.lang.printer import print_duration
from perseid.semantics import core as c
from perseid.semantics.classes import QueryClass

if TYPE_CHECKING:
    from perseid.engines.uncertain.answers import Answers
    from perseid.engines.uncertain.traces import Given

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


def answer(plan: UncertainPlan, rows: Rows, *, strict: bool = True) -> tuple[pa.Table, dict[str, int], Any]:
    """The rows of all answers, where all rows have come; what was counted; and rows that are no distribution.

    Where it is ``strict`` these are an error.
    """
    from perseid.engines.uncertain.output import told_table
    from perseid.engines.uncertain.traces import gather, refuse_bad

    given, impossible = gather(plan.streams, rows)
    if strict:
        refuse_bad(plan.streams, rows, given.bad)
    tables = []
    counted: Counter[str] = Counter(events=len(rows) - len(given.bad), impossible=impossible)
    for one in plan.asked:
        answers, passed_over, fell = answers_of(one, plan.streams, given)
        counted["impossible"] += passed_over
        counted[SAMPLED] += fell
        tables.append(told_table(one, answers, plan.telling, plan.streams.every, plan.schema))
    table = pa.concat_tables([plan.schema.empty_table(), *tables]).combine_chunks()
    counted["matches"] = table.num_rows
    return table, dict(counted), given.bad


def answers_of(one: Asked, streams: Streams, given: Given) -> tuple[Answers, int, int]:
    """The answers of one pattern, exact where theory allows, else sampled; readings that cannot be; steps that fell to sampling."""
    from perseid.engines.rows import take_rows
    from perseid.engines.uncertain.answers import exactly
    from perseid.engines.uncertain.automaton import Automaton, TooManyStates
    from perseid.engines.uncertain.reading import Reader
    from perseid.engines.uncertain.safe import safely
    from perseid.engines.uncertain.sampling import sampled

    every = streams.every or 0
    kind, rows = one.classified.kind, given.rows
    fell = False
    if kind is not QueryClass.UNSAFE and not streams.sampling.always:
        try:
            if kind is QueryClass.SAFE:
                sound = take_rows(rows, np.setdiff1d(np.arange(len(rows)), given.bad)) if len(given.bad) else rows
                return safely(one, streams, sound), 0, 0
            found, impossible = exactly(
                one, streams, Reader(Automaton(one.pattern, rows.relations, elapsed=every)), given
            )
            return found, impossible, 0
        except TooManyStates:
            fell = True
    drawn = sampled(one, streams, Reader(Automaton(one.pattern, rows.relations, elapsed=every, most=1 << 31)), given)
    return drawn, 0, len(drawn.step) if fell else 0


def step(plan: UncertainPlan, rows: Rows, state: bytes | None, clock: Clock) -> Step:
    """The answers of a shard: of all its rows where they have all come, else of the steps that are complete by now."""
    if not clock.ended or state is not None:
        from perseid.engines.uncertain.shard import advance

        return advance(plan, rows, state, clock)
    table, counted, bad = answer(plan, rows, strict=False)
    return Step(table, None, None, {**counted, "bad": len(bad)})


def report(state: bytes) -> StateReport:
    """What a state of this engine's holds."""
    from perseid.engines.uncertain.state import report as reported

    return reported(state)
