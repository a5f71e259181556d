"""Driver side of the engine for uncertain streams: the plan, and one step over the rows of a shard.

The driver only plans; compiled modules are imported where they run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from perseid.engines.uncertain.output import (
    BINDING,
    BINDING_COLUMNS,
    CHANCE,
    DRAWN,
    ERROR,
    EXPECTED,
    GROUP,
    SAMPLED,
    binding_schema,
    numeric_columns,
    output_schema,
)
from perseid.engines.uncertain.output_policies import EVERY, OutputPolicy
from perseid.engines.uncertain.plan import PlannedQuery, UncertainPlan, plan_query
from perseid.engines.uncertain.streams import Streams
from perseid.errors import EventDataError
from perseid.lang.printer import print_duration
from perseid.runtime.contract import Capabilities, Engine, StateReport, StepResult
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.watermark import Watermark
from perseid.semantics import core as c
from perseid.semantics.classes import QueryClass

if TYPE_CHECKING:
    from perseid.engines.uncertain.answers import StepProbabilities
    from perseid.engines.uncertain.traces import CallInput


def make_plan(
    patterns: Sequence[c.CorePattern],
    streams: Streams,
    types: Mapping[str, pa.DataType],
    *,
    output_policy: OutputPolicy = EVERY,
) -> UncertainPlan:
    """Plan patterns over an uncertain stream; ``types`` maps column names to Arrow types."""
    from perseid.engines.uncertain.pattern_nfa import PatternNFA, durations_us

    queries = tuple(plan_query(pattern, streams) for pattern in patterns)
    for query in queries:
        nfa = PatternNFA(query.pattern)  # also rejects unsupported patterns
        if nfa.is_timed and streams.every is None:
            raise EventDataError(
                f"Pattern {query.name} has a time bound, but the stream has no step length.",
                hint="Add it to the stream: ps.uncertain_events(…, every='1 second').",
            )
        for micros in durations_us(query.pattern):
            if streams.every is not None and micros % streams.every:
                raise EventDataError(
                    f"Pattern {query.name} has a time bound of {print_duration(micros)}, which is not a multiple of the step length, "
                    f"{print_duration(streams.every)}.",
                    hint="Use a bound that is a multiple of the step length.",
                )
    return UncertainPlan(queries, streams, output_schema(queries, types, output_policy), output_policy)


def match_all(plan: UncertainPlan, rows: EventBatch) -> StepResult:
    """Match a finite stream in one call. Rows that are not a probability distribution are dropped as bad rows."""
    from perseid.engines.uncertain.answers import join_expected
    from perseid.engines.uncertain.memory import OFF
    from perseid.engines.uncertain.output import binding_table, output_table
    from perseid.engines.uncertain.output_policies import no_open_alerts
    from perseid.engines.uncertain.traces import gather

    schema = binding_schema(plan) if plan.apart else plan.schema
    call_input, impossible = gather(plan.streams, rows)
    tables = []
    counted: Counter[str] = Counter(events=len(rows) - len(call_input.bad), impossible=impossible)
    for number, query in enumerate(plan.queries):
        results, ignored, sampled_steps = evaluate_pattern(query, plan.streams, call_input, plan.apart)
        if plan.output_policy.counts:
            results = join_expected(results, expected_of(query, plan.streams, call_input, plan.apart))
        counted["impossible"] += ignored
        counted[SAMPLED] += sampled_steps
        if plan.apart:
            tables.append(binding_table(query, number, results, plan.streams.every, schema))
        else:
            before = no_open_alerts(int(results.group.max(initial=-1)) + 1, OFF)
            tables.append(output_table(query, results, plan, before, OFF, None, True)[0])
    table = pa.concat_tables([schema.empty_table(), *tables]).combine_chunks()
    counted["matches"] = table.num_rows
    return StepResult(table, None, None, {**counted, "bad": len(call_input.bad)}, bad=call_input.bad)


def evaluate_pattern(
    query: PlannedQuery, streams: Streams, call_input: CallInput, per_binding: bool = False
) -> tuple[StepProbabilities, int, int]:
    """Evaluate a pattern, exactly or by sampling; also count impossible readings, and steps sampled as a fallback."""
    from perseid.engines.uncertain.answers import exactly, sampled
    from perseid.engines.uncertain.automaton import Automaton, StateLimitExceeded
    from perseid.engines.uncertain.reading import SymbolEncoder
    from perseid.engines.uncertain.safe import safely
    from perseid.engines.uncertain.sparse import SparseAutomaton

    rows, is_fallback = call_input.rows, False
    if not query.is_sampled(streams):
        try:
            if query.classified.kind is QueryClass.SAFE:
                return safely(query, streams, call_input)[0], 0, 0
            reader = SymbolEncoder(Automaton(query.pattern, rows.relations, elapsed=streams.every or 0))
            results, impossible = exactly(query, streams, reader, call_input, per_binding)
            return results, impossible, int(results.drawn.sum())
        except StateLimitExceeded:
            is_fallback = True
    elapsed = streams.every or 0
    try:
        drawn = sampled(
            query,
            streams,
            SymbolEncoder(Automaton(query.pattern, rows.relations, elapsed=elapsed)),
            call_input,
            per_binding,
        )
    except StateLimitExceeded:  # the same worlds, advanced event by event
        drawn = sampled(
            query,
            streams,
            SymbolEncoder(SparseAutomaton(query.pattern, rows.relations, elapsed=elapsed)),
            call_input,
            per_binding,
        )
    return drawn, 0, len(drawn.step) if is_fallback else 0


def expected_of(
    query: PlannedQuery, streams: Streams, call_input: CallInput, per_binding: bool = False
) -> StepProbabilities:
    """Return the exact expected number of matches per step, for any query class."""
    from perseid.engines.uncertain.answers import count_limit_error, exactly
    from perseid.engines.uncertain.automaton import StateLimitExceeded
    from perseid.engines.uncertain.counting_automaton import CountingAutomaton
    from perseid.engines.uncertain.reading import SymbolEncoder

    try:
        reader = SymbolEncoder(CountingAutomaton(query.pattern, call_input.rows.relations, elapsed=streams.every or 0))
        return exactly(query, streams, reader, call_input, per_binding)[0]
    except StateLimitExceeded:
        raise count_limit_error(query) from None


def step(plan: UncertainPlan, rows: EventBatch, state: bytes | None, watermark: Watermark) -> StepResult:
    """Advance a shard: match all rows if the input has ended and there is no state, else the complete steps."""
    if not watermark.ended or state is not None:
        from perseid.engines.uncertain.shard import advance

        return advance(plan, rows, state, watermark)
    return match_all(plan, rows)


def report(state: bytes) -> StateReport:
    """Summarize a state."""
    from perseid.engines.uncertain.state import report as reported

    return reported(state)


def finish(plan: UncertainPlan, rows: pa.Table) -> pa.Table:
    """Combine per-binding rows, in any order, into one row per group and step; each group and step is complete."""
    from perseid.engines.sequence.partition_sort import comparable
    from perseid.engines.uncertain.answers import anyone, beginnings, errors, summed
    from perseid.runtime.key_encoding import key_codes

    groups = rows.column_names[: -len(numeric_columns(plan.output_policy)) - len(BINDING_COLUMNS)]
    columns = [comparable(rows[name].combine_chunks()) for name in groups]
    codes, _ = key_codes([*columns, rows[GROUP].combine_chunks()], rows.num_rows)
    order = np.lexsort((rows[BINDING].to_numpy(), codes))  # the order of the one-pass evaluation
    rows, codes = rows.take(pa.array(order)), codes[order]
    at = beginnings([codes])
    error, _ = errors(rows[ERROR].to_numpy(), rows[DRAWN].to_numpy(), at, plan.streams)
    combined = {CHANCE: pa.array(anyone(rows[CHANCE].to_numpy(), at)), ERROR: pa.array(error)}
    if plan.output_policy.counts:
        combined[EXPECTED] = pa.array(summed(rows[EXPECTED].to_numpy(), at))
    first_rows = rows.take(pa.array(at))
    columns = [combined[field.name] if field.name in combined else first_rows[field.name] for field in plan.schema]
    whole = pa.table(columns, schema=plan.schema)
    decides = whole[EXPECTED if plan.output_policy.counts else CHANCE].to_numpy()
    return whole.filter(pa.array(decides > plan.output_policy.rise))


UNCERTAIN = Engine(
    name="uncertain",
    plan=make_plan,
    step=step,
    finish=finish,
    report=report,
    query_kind="beliefs",
    capabilities=Capabilities(row_kinds=("answer",)),
    guide="docs/guides/uncertain.md",
    example="examples/coffee_room.py",
)
