"""Patterns that consume matches of other patterns of the same key: stages that run in order.

A stage has the patterns that consume the matches of the same patterns. It is searched like any set, over the rows and
over the matches that earlier stages emitted. These are events: their time is the end of the match, and they sort after
the rows of that time. The horizon of a stage is the time up to which its producers have emitted all matches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid.compile.plan import PatternPlan, Plan
from perseid.engines.sequence import layout as y
from perseid.engines.sequence.bytecode import CompiledPattern, compile_pattern, names_of
from perseid.engines.sequence.columns import arrow_type
from perseid.engines.sequence.schema import arrow_of, join_schemas, output_schema
from perseid.errors import TypeMismatchError, UnsupportedError
from perseid.lang import expressions as ex
from perseid.runtime.arrays import Int8Array, IntArray
from perseid.runtime.contract import StepResult
from perseid.runtime.event_batch import EventBatch, concat_batches, take_events
from perseid.runtime.watermark import Watermark
from perseid.semantics import types as t
from perseid.semantics import values as v
from perseid.semantics.core import CorePattern

if TYPE_CHECKING:
    from perseid.engines.sequence.plan import SequencePlan, Stage

MATCH_ID = "match_id"


# Planning


def compile_stages(
    plan: Plan, types: Mapping[str, t.Type], arrow: Mapping[str, pa.DataType], strictly_later: bool
) -> tuple[tuple[CompiledPattern, ...], pa.Schema, tuple[Stage, ...]]:
    """Compile every pattern; return them, the schema of their matches, and the stages in execution order."""
    from perseid.engines.sequence.plan import Stage

    by_name = {pattern.name: pattern for pattern in plan.patterns}
    groups: dict[tuple[str, ...], list[PatternPlan]] = {}
    for pattern in plan.patterns:
        _reject_unsupported(pattern, [by_name[name] for name in pattern.feeds_on])
        groups.setdefault(tuple(sorted(pattern.feeds_on)), []).append(pattern)
    bytecode: dict[str, CompiledPattern] = {}
    returned_types: dict[str, dict[str, pa.DataType]] = {}
    schema, stages = pa.schema([]), []
    # Producers precede consumers in the plan, so the producers of a stage are compiled before it.
    for consumed, patterns in groups.items():
        columns = _columns(consumed, returned_types, types, arrow)
        known = {**types, **{name: arrow_type(kind) for name, kind in columns.items()}}
        exact = {**columns, **arrow}
        members = tuple(compile_pattern(plan, pattern, known, strictly_later) for pattern in patterns)
        for member in members:
            bytecode[member.pattern.name] = member
            own_schema = output_schema([member], known, exact)
            returned_types[member.pattern.name] = {
                name: own_schema.field(shown).type for name, shown in _event_columns(member.pattern.pattern)
            }
            schema = join_schemas(schema, own_schema)
        routes = tuple(route for route in plan.routes if not consumed or route.id == patterns[0].route)
        wanted = None if plan.event_types is None else (*plan.event_types, *consumed)
        part = replace(plan, patterns=tuple(patterns), routes=routes, event_types=wanted)
        hashes = (by_name[name].pattern.semantic_hash for name in consumed)
        stages.append(Stage(part, members, consumed, columns, " ".join(hashes)))
    _reject_changed_types({name for consumed in groups for name in consumed}, returned_types, schema, by_name)
    return tuple(bytecode[pattern.name] for pattern in plan.patterns), schema, tuple(stages)


def _event_columns(core: CorePattern) -> Iterable[tuple[str, str]]:
    """Yield the columns of a match as an event, each with its name in the table of matches."""
    keys = [".".join(path.parts) for path in core.partition]
    names = names_of(core)
    yield from zip(keys, names.keys, strict=True)
    yield from (
        (name, shown) for (name, _), shown in zip(core.returns, names.returned, strict=True) if name not in keys
    )
    if MATCH_ID not in keys and MATCH_ID not in dict(core.returns):
        yield MATCH_ID, MATCH_ID


def _columns(
    consumed: Sequence[str],
    returned_types: Mapping[str, Mapping[str, pa.DataType]],
    types: Mapping[str, t.Type],
    arrow: Mapping[str, pa.DataType],
) -> dict[str, pa.DataType]:
    """Types of the columns of consumed matches; raises an error if a column of that name has another type."""
    columns: dict[str, pa.DataType] = {}
    for producer in consumed:
        for name, returned_type in returned_types[producer].items():
            kind = pa.string() if name == MATCH_ID else returned_type
            existing = columns.get(name)
            if name in types:
                existing = arrow.get(name) or arrow_of(types[name])
            if existing is not None and existing != kind:
                raise TypeMismatchError(
                    f"Column {name!r} has type {kind} in matches of {producer}, but {existing} in other events of a "
                    "pattern that consumes them.",
                    hint=f"Use another name: return … as {name}_of_{producer}.",
                )
            columns[name] = kind
    return columns


def _reject_unsupported(pattern: PatternPlan, producers: Sequence[PatternPlan]) -> None:
    for producer in producers:
        recipe = (
            f"Use two queries: match {producer.name}, and pass its DataFrame to the second as an input: "
            f"ps.events({{{producer.name!r}: matches, …}}, time='end', …)."
        )
        keys = [".".join(path.parts) for path in producer.pattern.partition]
        if producer.route != pattern.route:
            own_keys = ", ".join(".".join(path.parts) for path in pattern.pattern.partition)
            raise UnsupportedError(
                f"Pattern {pattern.name} consumes matches of {producer.name} across keys: {pattern.name} is "
                f"partitioned by {own_keys or 'nothing'}, {producer.name} by {', '.join(keys) or 'nothing'}.",
                hint=recipe,
            )
        if any("." in key for key in keys):
            raise UnsupportedError(
                f"Pattern {pattern.name} consumes matches of {producer.name}, which are partitioned by a nested field "
                f"({', '.join(keys)}); matches have no such field.",
                hint="Use a top-level column: add the field to the input as a column first.",
            )
        for name, expr in producer.pattern.returns:
            if name in keys and not (isinstance(expr, ex.Ref) and expr.parts[1:] == (name,)):
                raise UnsupportedError(
                    f"Pattern {producer.name} returns {name!r}, which is also the name of its key; {pattern.name} "
                    "consumes its matches, and would read the returned value as the key.",
                    hint=f"Use another name: return … as {name}_of_{producer.name}.",
                )
    if producers and pattern.pattern.evidence is not None:
        raise UnsupportedError(
            f"Pattern {pattern.name} consumes matches of {producers[0].name} and returns evidence: "
            "input rows and matches have different columns.",
            hint="Return the columns that you need, or return the evidence in the first pattern.",
        )


def _reject_changed_types(
    producers: Iterable[str],
    returned_types: Mapping[str, Mapping[str, pa.DataType]],
    schema: pa.Schema,
    by_name: Mapping[str, PatternPlan],
) -> None:
    """Raise an error if merging the schemas changed the type of a column that consumers read."""
    for producer in sorted(producers):
        for name, shown in _event_columns(by_name[producer].pattern):
            if returned_types[producer][name] != schema.field(shown).type:
                raise TypeMismatchError(
                    f"Patterns of one set return {shown!r} with different types, and another pattern consumes it from "
                    f"{producer}.",
                    hint=f"Use another name in one of them: return … as {shown}_of_{producer}.",
                )


# Running


def advance_stages(plan: SequencePlan, rows: EventBatch, state: bytes | None, watermark: Watermark) -> StepResult:
    """Run one call: every stage in order, with the matches that earlier stages emitted."""
    from perseid.engines.sequence.output import joined
    from perseid.engines.sequence.shard import newest_before, next_timer, run
    from perseid.engines.sequence.state import join_states, split_state

    before = split_state(state)
    newest = newest_before(plan, watermark)
    emitted: dict[str, pa.Table] = {}
    emitted_upto: dict[str, int] = {}
    tables: list[pa.Table] = []
    timers: list[int] = []
    after: dict[str, bytes | None] = {}
    counters: Counter[str] = Counter()
    late: IntArray | Sequence[int] = ()
    late_reasons: Int8Array | Sequence[int] = ()
    for stage in plan.stages:
        stage_plan = replace(plan, plan=stage.plan, patterns=stage.patterns, stages=())
        stage_rows, fed, stage_watermark = rows, None, watermark
        if stage.consumes:
            stage_rows = _widen(rows, stage)
            fed = _events(
                stage_rows,
                plan,
                [(index, emitted[name]) for index, name in _places(plan, stage.consumes) if name in emitted],
            )
            # A producer that was not searched has decided nothing: the horizon does not advance.
            upto = min(emitted_upto.get(name, y.NONE) for name in stage.consumes)
            stage_watermark = (
                watermark if watermark.ended else replace(watermark, current=None if upto == y.NONE else upto)
            )
        fresh = bool(before) and stage.label not in before
        done = run(
            stage_plan, stage_rows, before.get(stage.label), clock=stage_watermark, fed=fed, newest=newest, fresh=fresh
        )
        tables += done.tables.values()
        emitted.update(done.tables)
        emitted_upto.update(done.emitted_upto)
        after[stage.label] = done.step.state
        timers += [] if done.step.next_timer is None else [done.step.next_timer]
        counted = Counter(done.step.counters)
        if stage.consumes:
            del counted["events"], counted["late"], counted["duplicates"]
            counted["live_keys"] = max(counted["live_keys"] - counters["live_keys"], 0)
        else:
            late, late_reasons = done.step.late, done.step.late_reasons
            rows = take_events(rows, np.setdiff1d(np.arange(len(rows)), late)) if len(late) else rows
        counters.update(counted)
    written = join_states(after)
    counters["state_bytes"] = 0 if written is None else len(written)
    return StepResult(
        joined(tables, plan.schema), written, next_timer(timers, watermark.current), dict(counters), late, late_reasons
    )


def _places(plan: SequencePlan, consumed: Iterable[str]) -> list[tuple[int, str]]:
    """The consumed patterns with their index in the set, which orders matches that end together."""
    return [
        (i, bytecode.pattern.name) for i, bytecode in enumerate(plan.patterns) if bytecode.pattern.name in set(consumed)
    ]


def _widen(rows: EventBatch, stage: Stage) -> EventBatch:
    """The rows of the stage's route, with null columns added for those that only matches have."""
    (route,) = (pattern.route for pattern in stage.plan.patterns[:1])
    if rows.route is not None:
        rows = take_events(rows, np.flatnonzero(rows.route == route))
    size = len(rows)
    missing_columns = {name: pa.nulls(size, kind) for name, kind in stage.columns.items() if name not in rows.columns}
    return replace(
        rows,
        columns={**rows.columns, **missing_columns},
        keys={route: rows.keys[route]},
        # Matches sort after rows of their time, and among each other by pattern, start and id.
        tie_breakers=[
            pa.array(np.zeros(size, np.int32)),
            *rows.tie_breakers,
            pa.nulls(size, pa.int64()),
            pa.nulls(size, pa.string()),
        ],
        route=None,
        computed_columns={},
    )


def _events(shape: EventBatch, plan: SequencePlan, emitted: Iterable[tuple[int, pa.Table]]) -> EventBatch:
    """Convert matches to rows of ``shape``; timed-out ones are dropped."""
    found = take_events(shape, np.zeros(0, np.int64))
    for index, table in emitted:
        matches = table.filter(pc.equal(table["kind"], "match")) if "kind" in table.column_names else table
        found = concat_batches(found, _as_rows(shape, plan.patterns[index].pattern, index, matches.combine_chunks()))
    return found


def _as_rows(shape: EventBatch, pattern: PatternPlan, index: int, table: pa.Table) -> EventBatch:
    from perseid.runtime.hashing import match_identities

    size = table.num_rows
    ids = _texts(table[MATCH_ID])
    event_columns = {name: table[shown].combine_chunks() for name, shown in _event_columns(pattern.pattern)}
    if table.schema.field(MATCH_ID).type != pa.string() and MATCH_ID in event_columns:
        event_columns[MATCH_ID] = ids
    filled = {
        name: event_columns[name].cast(column.type) if name in event_columns else pa.nulls(size, column.type)
        for name, column in shape.columns.items()
    }
    ((route, keys),) = shape.keys.items()
    start, end = (table[name].cast(pa.int64()) for name in ("start", "end"))
    first, *ranks, _, _ = shape.tie_breakers
    return replace(
        shape,
        time=np.asarray(end.fill_null(v.LATEST + 1).combine_chunks()),
        type_codes=np.zeros(size, np.int32),
        type_names=[pattern.name],
        columns=filled,
        keys={route: {name: event_columns[name].cast(column.type) for name, column in keys.items()}},
        identity=match_identities(ids),
        tie_breakers=[
            pa.array(np.full(size, index + 1, np.int32)).cast(first.type),
            *(pa.nulls(size, rank.type) for rank in ranks),
            start.combine_chunks(),
            ids,
        ],
        predicate_masks={n: np.zeros(size, bool) for n in shape.predicate_masks},
    )


def _texts(ids: pa.ChunkedArray) -> pa.Array:
    ids = ids.combine_chunks()
    return ids if pa.types.is_string(ids.type) else pa.array([one.hex() for one in ids.to_pylist()], pa.string())
