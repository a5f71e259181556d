"""Declaration of an uncertain stream, and the query of patterns over it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import pyarrow as pa

from perseid.deprecated import deprecated_method
from perseid.engines.sequence.stream import Events
from perseid.engines.uncertain.engine import make_plan
from perseid.engines.uncertain.output import binding_schema, numeric_columns
from perseid.engines.uncertain.output_policies import EVERY, OutputPolicy
from perseid.engines.uncertain.plan import UncertainPlan
from perseid.engines.uncertain.results import UncertainMatches
from perseid.engines.uncertain.streams import CHANCE, GIVEN, LIKELIHOOD, READING, Known, Sampling, Stream, Streams
from perseid.engines.uncertain.symbols import condition_columns
from perseid.errors import EventDataError, UnsupportedError, missing_column
from perseid.lang import ast
from perseid.runtime.declaration import Data_co, StreamDeclaration
from perseid.runtime.query import DeclaredTable, HashIdentity, Input, Query, RouteColumn, StateOptions, TableSchema
from perseid.semantics.core import CorePattern

FIXED_TYPES = {LIKELIHOOD: pa.list_(pa.float64()), CHANCE: pa.float64()}
"""Columns that are always cast to one type."""


@dataclass(frozen=True)
class Belief:
    """One table of an uncertain stream, with its column names."""

    stream: Stream
    data: Any
    time: str
    chance: str | None = None
    given: tuple[str, ...] = ()
    reading: str | None = None
    likelihood: str | None = None

    def sources(self) -> dict[str, str]:
        """Source columns by their name in the engine."""
        own = {name: name for name in (*self.stream.of, *self.stream.about) if self.reading_only(name)}
        named = {CHANCE: self.chance, READING: self.reading, LIKELIHOOD: self.likelihood}
        own |= {ours: theirs for ours, theirs in named.items() if theirs is not None}
        return own | {GIVEN + about: given for about, given in zip(self.stream.about, self.given, strict=False)}

    def reading_only(self, name: str) -> bool:
        """Return True if the table has this column; the values behind readings are hidden."""
        return self.stream.known is not Known.READ or name not in self.stream.about


@runtime_checkable
class CombinableStream(Protocol):
    """A declared stream that can be evaluated together with an uncertain one."""

    @property
    def parts(self) -> tuple[Belief, ...]:
        """The uncertain tables."""

    @property
    def certain(self) -> tuple[Events, ...]:
        """The certain events."""


@dataclass(frozen=True)
class UncertainEvents(StreamDeclaration[UncertainMatches, Data_co]):
    """Declaration of an uncertain stream; create it with :func:`perseid.uncertain_events`."""

    stream_kind: ClassVar[str] = "uncertain"
    parts: tuple[Belief, ...]
    certain: tuple[Events, ...] = ()
    every: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    prune: float = 0.0
    idle: int | None = None
    shards: int = 16
    max_state: int = 1 << 28
    max_ahead: int | None = None
    """Microseconds by which an event time may exceed its arrival time on a stream."""

    def combine(self, *others: CombinableStream) -> UncertainEvents[Data_co]:
        """Add other streams: uncertain ones, which are independent of these, and ordinary events.

        Step length, sampling and state options are those of this declaration.
        """
        parts, certain = list(self.parts), list(self.certain)
        for other in others:
            if not isinstance(other, CombinableStream):
                raise EventDataError(
                    f"combine(…): expected a stream, got {type(other).__name__}.",
                    hint="Use ps.uncertain_events(…) or ps.events(…).",
                )
            parts += other.parts
            certain += other.certain
        names = [part.stream.type for part in parts]
        for name in names:
            if names.count(name) > 1:
                raise EventDataError(
                    f"Two uncertain streams have the event type {name!r}.",
                    hint="Use another event_type=… for one of them.",
                )
        return replace(self, parts=tuple(parts), certain=tuple(certain))

    beside = deprecated_method("beside", combine)

    def streams(self, types: Iterable[str]) -> Streams:
        """Stream descriptions for the engine; ``types`` are the types of the certain events."""
        own = tuple(part.stream for part in self.parts)
        uncertain_types = {part.type for part in own}
        certain_streams = tuple(Stream(name, Known.CERTAIN) for name in types if name not in uncertain_types)
        return Streams((*own, *certain_streams), self.every, self.sampling, self.prune)

    def tables(self) -> list[DeclaredTable]:
        """The tables of the stream: one for each uncertain part, then those of the certain events."""
        uncertain = [Events({part.stream.type: part.data}, time=part.time) for part in self.parts]
        return [table for events in (*uncertain, *self.certain) for table in events.tables()]

    def frames(self) -> list[object]:
        """Data of all tables."""
        return [table.data for table in self.tables()]

    def bind(
        self, patterns: Sequence[CorePattern], schemas: Sequence[TableSchema], output_policy: OutputPolicy = EVERY
    ) -> Query:
        """Bind patterns to tables with these schemas; return the query."""
        return bind_patterns(self, patterns, schemas, output_policy)

    def __repr__(self) -> str:
        described = ", ".join(f"{part.stream.type} of {', '.join(part.stream.of) or 'one key'}" for part in self.parts)
        return f"<uncertain events: {described}{' and certain events' if self.certain else ''}>"


def role_of(ours: str) -> str:
    """Role of a column in messages, by column name in the engine."""
    roles = {CHANCE: "probability", READING: "reading", LIKELIHOOD: "likelihood"}
    return f"{roles.get(ours, 'previous value' if ours.startswith(GIVEN) else 'key or value')} column"


def bind_patterns(
    stream: UncertainEvents,
    patterns: Sequence[CorePattern],
    schemas: Sequence[TableSchema],
    output_policy: OutputPolicy,
) -> Query:
    """Bind patterns to tables with these schemas, in the order of :meth:`UncertainEvents.tables`; return the query.

    Rows with different bindings of a pattern may be in different shards, so bindings are combined by ``finish``.
    """
    streams = streams_for(patterns, stream, event_types(patterns, stream))
    sources = [(part, part.sources()) for part in stream.parts]
    for (part, named), schema in zip(sources, schemas, strict=False):
        _require_columns(part, named, schema)
    columns_read = columns_of(patterns)
    named_columns = [named for _, named in sources] + [{} for _ in schemas[len(sources) :]]
    columns = _column_types(columns_read, schemas, named_columns, streams)
    plan = make_plan(patterns, streams, columns, output_policy=output_policy)
    plan = replace(plan, shards=stream.shards, max_state=stream.max_state)
    if len({repr(one.unit) for one in plan.queries}) > 1:
        raise UnsupportedError(
            "These patterns partition events differently.", hint="Run patterns with different partitions separately."
        )
    plan.refuse_apart()
    plan = replace(plan, apart=any(one.groups < len(one.unit) for one in plan.queries))
    step_schema = binding_schema(plan) if plan.apart else plan.schema
    return Query(
        name=", ".join(one.name for one in plan.queries),
        engine="uncertain",
        plan=plan,
        inputs=tuple(
            _input(schema, named, columns, plan) for schema, named in zip(schemas, named_columns, strict=True)
        ),
        columns=columns,
        type_names=tuple(part.type for part in streams.parts),
        step_schema=step_schema,
        schema=plan.schema,
        state=StateOptions(stream.shards, stream.max_state, stream.idle),
        finish_by=tuple(plan.schema.names[: -len(numeric_columns(output_policy))]) if plan.apart else None,
    )


def event_types(patterns: Sequence[CorePattern], stream: UncertainEvents) -> list[str]:
    """Types of certain events in the patterns."""
    own = {part.stream.type for part in stream.parts}
    kinds = {s.kind.name for core in patterns for s in core.steps if isinstance(s.kind, ast.EventType)}
    return sorted(kinds - own)


def columns_of(patterns: Sequence[CorePattern]) -> set[str]:
    """Columns that the patterns read, or that they are partitioned by."""
    names: set[str] = set()
    for core in patterns:
        names |= condition_columns(core)
        names |= {path.parts[0] for path in core.partition}
    return names


def streams_for(patterns: Sequence[CorePattern], stream: UncertainEvents, certain: Sequence[str]) -> Streams:
    """Stream descriptions for the engine; raise an error for patterns that cannot be evaluated over them."""
    streams = stream.streams(certain)
    names = {core.name for core in patterns}
    for core in patterns:
        for path in core.partition:
            if len(path.parts) > 1:
                raise UnsupportedError(
                    f"Pattern {core.name} is partitioned by {'.'.join(path.parts)}, a nested field, which is unsupported on uncertain streams.",
                    hint="Add a column with the value of the field.",
                )
            _reject_hidden(core, streams, path.parts[0])
        fed = next(
            (s.kind.name for s in core.steps if isinstance(s.kind, ast.EventType) and s.kind.name in names), None
        )
        if fed is not None:
            raise UnsupportedError(
                f"Pattern {core.name} takes matches of {fed} as events, which is unsupported on uncertain streams.",
                hint="Write one pattern for both.",
            )
    return streams


def _reject_hidden(core: CorePattern, streams: Streams, column: str) -> None:
    for part in streams.parts:
        if column in part.about and part.known in (Known.LINKED, Known.READ):
            raise UnsupportedError(
                f"Pattern {core.name} is partitioned by {column}, which is uncertain and depends on the previous step.",
                hint=f"Use a condition on one {column}, or partition by {' or '.join(part.of) or 'a key'}.",
            )


def _require_columns(part: Belief, named: Mapping[str, str], schema: TableSchema) -> None:
    for ours, name in named.items():
        if name not in schema.columns:
            table = f"The DataFrame of {part.stream.type}"
            raise missing_column(table, name, role_of(ours), list(schema.columns), "ps.uncertain_events(df, …)")


def _column_types(
    wanted: set[str], schemas: Sequence[TableSchema], named_columns: Sequence[Mapping[str, str]], streams: Streams
) -> dict[str, pa.DataType]:
    """Column types by name in the engine; tables with the same column must agree on its type."""
    types: dict[str, pa.DataType] = {}
    type_names: dict[str, str] = {}
    for schema, named in zip(schemas, named_columns, strict=True):
        own = {name: name for name in sorted(wanted) if name in schema.columns}
        for ours, name in {**own, **named}.items():
            column = schema.columns[name]
            type_ = FIXED_TYPES.get(ours, column.type)
            if type_ is None:
                raise EventDataError(
                    f"Column {name!r} is {column.type_name}, which cannot be converted to Python.",
                    hint="Cast it: df.withColumn(…).",
                )
            if types.setdefault(ours, type_) != type_:
                raise EventDataError(
                    f"Column {name!r} is {type_names[ours]} in one table and {column.type_name} in another.",
                    hint="Cast one of them.",
                )
            type_names.setdefault(ours, column.type_name)
    for part in streams.parts:
        for name in part.about:
            if part.known is Known.READ and part.model is not None:
                types.pop(name, None)
    return dict(sorted(types.items()))


def _input(
    schema: TableSchema, named: Mapping[str, str], columns: Mapping[str, pa.DataType], plan: UncertainPlan
) -> Input:
    own = {name: named.get(name, name) for name in columns}
    own = {name: source for name, source in own.items() if source in schema.columns}
    route = (component.column(schema.event_type or "") for component in plan.queries[0].unit)
    return Input(
        columns=own,
        identity=HashIdentity(tuple(sorted({*own.values()})), schema.event_type or ""),
        route=tuple(
            RouteColumn((name,), as_text=True) if name is not None and name in schema.columns else None
            for name in route
        ),
    )
