"""Patterns over a stream of events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from perseid.api.arguments import (
    Frame,
    columns_of,
    inputs,
    is_streaming,
    on_spark,
    require_no_observation,
    tables_of,
)
from perseid.api.pattern_meanings import meanings
from perseid.api.pattern_sources import PatternSources
from perseid.api.stream_kinds.contract import MatchOptions, Relations, SparkMatchOptions, StreamKind, WhyNotOptions
from perseid.compile.plan import Plan
from perseid.engines.disorder.strategy import Buffer
from perseid.engines.sequence.narrowing import column_types
from perseid.engines.sequence.narrowing import select_events as few_local_events
from perseid.engines.sequence.results import Matches
from perseid.engines.sequence.stream import Events, read_events
from perseid.errors import EventDataError, PerseidError, UnsupportedError
from perseid.runtime.cold_start import small_input
from perseid.semantics.detection import check_relations
from perseid.tables.columns import count_rows
from perseid.tables.rows import require_local_rows
from perseid.viz.detection import explain_local
from perseid.viz.why_not import MAX_EVENTS, WhyNot, event_limit_error, key_of, why_not

if TYPE_CHECKING:
    from perseid.engines.sequence.match_counts import Counts


BAD = "bad"
"""Value of ``rejected``: all columns of bad rows, and only the identity of the others."""


class EventStreamKind(StreamKind):
    """A stream of events, and streams that become one."""

    name = "events"
    job_settings: ClassVar[str | None] = "perseid.jobs.stream_kinds.events:EventStream"

    def events_of(self, patterns: PatternSources, stream: Any) -> tuple[PatternSources, Events]:
        """The patterns over events, and the events."""
        return patterns, stream

    def as_events(self, stream: Any, otherwise: PerseidError) -> Events:
        """The declared events."""
        events: Events = stream
        return events

    def require_local(self, method: str, stream: object) -> None:
        """Raise an error for data of Spark."""
        for data in self.data_of(stream):
            require_local_rows(method, data)

    def data_of(self, stream: Any) -> Iterable[object]:
        """The rows of every input."""
        return inputs(stream)

    def match(self, patterns: PatternSources, stream: Any, options: MatchOptions) -> Matches:
        """The matches in local events."""
        over, events = self.events_of(patterns, stream)
        return match_events(over, events, options)

    def count(self, patterns: PatternSources, stream: Any, relations: Relations) -> list[Counts]:
        """The number of matches of each pattern, in all and by key."""
        from perseid.engines.sequence.match_counts import count_locally  # its kernels are compiled on first use

        self.require_local("count", stream)
        over, events = self.events_of(patterns, stream)
        return count_locally(over.compile(events), events, tables_of(relations))

    def match_on_spark(self, patterns: PatternSources, stream: Any, options: SparkMatchOptions) -> Frame:
        """The DataFrame of matches."""
        over, events = self.events_of(patterns, stream)
        streaming = is_streaming(events)
        plan = over.compile(events)
        _require_options(options, streaming)
        return over.locate(lambda: detect_events(plan, events, options))

    def explain(self, patterns: PatternSources, stream: Any) -> str:
        """The meaning of each pattern, then how it runs over these events."""
        events: Events = stream
        plan = patterns.compile(events)
        if on_spark(events):
            return "\n".join([*meanings(patterns, plan), explain_on_spark(plan, events)])
        return "\n".join([*meanings(patterns, plan), explain_local(plan, column_types(events), events)])

    def why_not(self, patterns: PatternSources, stream: Any, options: WhyNotOptions) -> WhyNot:
        """The reasons why the partial matches of the pattern ended."""
        over, events = self.events_of(patterns, stream)
        tables = tables_of(options.relations)
        plan = over.compile(events)
        pattern_plan = next(one for one in plan.patterns if one.name == patterns.names[0])
        key = key_of(pattern_plan.pattern, options.key)
        # Matches that feed the pattern may come from events of any key.
        required_key = {} if pattern_plan.feeds_on or key is None else key
        paths = {path.parts: ".".join(path.parts) for path in pattern_plan.pattern.partition}
        narrow = {path: required_key[name] for path, name in paths.items() if name in required_key}
        if on_spark(events):
            from perseid.spark.explain import collect_rows, untimed

            rows = collect_rows(events.tables(), narrow, MAX_EVENTS)
            batch = None if rows is None else read_events(replace(events, data=rows.get(None, rows)))
            notes: Sequence[str] = untimed(events.tables())
        else:
            batch, notes = few_local_events(events, narrow, MAX_EVENTS), ()
        if batch is None:
            raise event_limit_error(key is None)
        return why_not(
            plan,
            pattern_plan.name,
            batch,
            key=key,
            strictly_later=events.strictly_later,
            dedupe=events.dedupe,
            relations=tables,
            shown=options.shown,
            earlier_notes=notes,
        )


def match_events(patterns: PatternSources, events: Events, options: MatchOptions) -> Matches:
    """The matches in declared events of this process."""
    from perseid.engines.sequence.local import match_locally  # its kernels are compiled on first use

    tables = tables_of(options.relations)
    with small_input("sequence", count_rows(events.data)):
        return match_locally(
            patterns.compile(events),
            events,
            tables,
            horizon=options.horizon,
            reported=patterns.names,
            columns=columns_of(patterns.tree),
        )


def detect_events(plan: Plan, events: Events, options: SparkMatchOptions) -> Frame:
    """The DataFrame of matches of a compiled plan in declared events on Spark."""
    from perseid.engines.sequence.bind import BindOptions, bind_events
    from perseid.spark.projection import read_relations
    from perseid.spark.query_driver import RunOptions, SparkTables

    relations = read_relations(options.relations)
    check_relations([pattern.pattern for pattern in plan.patterns], relations)
    data = SparkTables.of(events.tables())
    binding = BindOptions(data.streaming, bool(options.rejected), options.rejected == BAD)
    query = bind_events(events, plan, data.schemas, data.columns, data.evaluator, binding)
    return data.run(query, RunOptions(relations, options.checkpoint, options.observation))


def explain_on_spark(plan: Plan, events: Events) -> str:
    """Describe the execution of a compiled plan over declared events on Spark."""
    from perseid.engines.sequence.bind import BindOptions, bind_events, strategy_for
    from perseid.spark.explain import explain_query
    from perseid.spark.query_driver import SparkTables

    data = SparkTables.of(events.tables())
    schemas = data.schemas
    query = bind_events(events, plan, schemas, data.columns, data.evaluator, BindOptions(data.streaming))
    disorder = None
    if not isinstance(events.disorder, Buffer):
        strategy, emission = strategy_for(events, plan, max(schema.delay for schema in schemas), data.streaming)
        disorder = f"{strategy.name}: emits {emission}"
    return explain_query(plan, query, data, disorder)


def _require_options(options: SparkMatchOptions, streaming: bool) -> None:
    """Raise an error for options that this kind of data, streaming or finished, does not support."""
    require_no_observation(streaming, options.observation)
    if streaming:
        if options.rejected not in (True, False, BAD):
            raise EventDataError(f"rejected={options.rejected!r}: expected True, False or {BAD!r}.")
        return
    if options.checkpoint is not None:
        raise UnsupportedError(
            "checkpoint= requires a streaming DataFrame, got a batch DataFrame.", hint="Remove checkpoint=."
        )
    if options.rejected:
        raise UnsupportedError(
            "rejected=True requires a streaming DataFrame: a batch DataFrame has no late rows.",
            hint="To count rows without a time, use match(…, observation=Observation()).",
        )
