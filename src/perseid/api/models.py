"""Live models: metamodels with queries and rules, declared streams of changes, reactions and repairs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import overload

from perseid.api.arguments import Frame, Observation, declare, require_no_observation
from perseid.api.keywords import check_keywords
from perseid.api.stream_kinds.contract import SparkMatchOptions
from perseid.api.stream_kinds.registry import kind_of
from perseid.api.stream_options import StreamOptions, require_options
from perseid.api.streams import Data, bound_data, lateness_us, max_ahead_us
from perseid.compile.plan import Plan
from perseid.engines.models.explain import explain_models
from perseid.engines.models.frame_columns import check_frame_columns, snapshot_of
from perseid.engines.models.frame_stream import Frames
from perseid.engines.models.metamodel import Metamodel, require_metamodel
from perseid.engines.models.plan import ROLES
from perseid.engines.models.quick_fixes import QuickFixes, search_quick_fixes
from perseid.engines.models.reactions import Reaction, check_columns, react_local, require_rules_on_spark
from perseid.engines.models.repair import STRATEGIES
from perseid.engines.models.stream import Models, bind_rules, joined_types, local_events, require_equal_keys
from perseid.engines.sequence.stream import Events
from perseid.errors import EventDataError, PatternError
from perseid.runtime.search_budget import SearchBudget
from perseid.semantics.durations import microseconds
from perseid.semantics.graphs import Element
from perseid.semantics.model_repair import Aims
from perseid.semantics.model_rules import CHANGES, ROUNDS
from perseid.semantics.model_steps import EventStreamGroup, JoinedEvents
from perseid.semantics.rules import Rules
from perseid.tables.column_names import require_name, require_names
from perseid.tables.rows import is_spark, require_local_rows, require_spark


@check_keywords
def model(
    data: Data,
    metamodel: Metamodel,
    *,
    time: str = "ts",
    key: str | Iterable[str] = (),
    order_by: str | Iterable[str] = (),
    change: str = "change",
    element: str = "element",
    kind: str = "kind",
    attribute: str = "attribute",
    value: str = "value",
    target: str = "target",
    observe: str | Iterable[str] = (),
    events: object = None,
    lateness: str | dt.timedelta | None = None,
    max_ahead: str | dt.timedelta | None = None,
    options: StreamOptions | None = None,
) -> Models[Data]:
    """Declare changes of live models: one row for each elementary change, and the meaning of its columns.

    ``change`` is the operation: ``create`` a node of a ``kind``, ``delete`` it, ``set`` an ``attribute`` to a ``value``,
    ``link`` an ``element`` to a ``target`` by an edge of a ``kind``, ``unlink`` it. ``key`` names the columns that identify a
    model: each model has its own nodes, and patterns match events of one model. All changes of a model at one time are one
    transaction, in the order of ``order_by``; queries are evaluated at its end. Without ``order_by`` edges are removed first,
    then nodes; then nodes are created, attributes set and edges created.

    The events of a model are the matches of queries found, updated and lost, for the queries that patterns name and those
    in ``observe``, and the elementary changes that patterns name. Ordinary ``events``, declared by
    :func:`perseid.events` and with the same key columns, are steps of patterns too: at equal times they follow the events of
    the model.

    On a stream a transaction is applied when the watermark is past its time; ``lateness``, ``max_ahead`` and ``options`` are
    as of :func:`perseid.events`. For a pattern that triggers a rule, each search step counts as
    50 steps of ``max_steps``.
    """
    require_metamodel(metamodel)
    stream_options = require_options(options)
    names = zip(ROLES, (change, element, kind, attribute, value, target), strict=True)
    columns = {role: require_name("model", role, name) for role, name in names}
    time = require_name("model", "time", time)
    keys = require_names("model", "key", key)
    named = keys, require_names("model", "order_by", order_by), columns, _names(observe)
    bound = max_ahead_us(max_ahead)
    bounded = bound_data(data, time, bound, lateness_us(lateness))
    additional = _additional_events(events, keys)
    return Models(
        bounded, metamodel.queries, time, *named, stream_options.idle_us, stream_options.shards, stream_options.max_state, metamodel.rules, additional, bound,
        SearchBudget(stream_options.max_steps, stream_options.max_matches),
    )  # fmt: skip


def _additional_events(events: object, key: str | Iterable[str]) -> Events | None:
    """Additional events of a model, with the key columns of the model unless they declare their own."""
    if events is None:
        return None
    error = EventDataError("events= expected declared events.", hint="Use events=ps.events(…).")
    rows = declare(events)
    declared = kind_of(rows).as_events(rows, error)
    return declared if declared.key else replace(declared, key=_names(key))


def additional_events_of(stream: Models) -> JoinedEvents | None:
    """The ordinary events that patterns over a model may name."""
    if stream.additional_events is None:
        return None
    stream.require_same_place()
    if not is_spark(stream.data):
        return stream.additional_event_types()
    from perseid.spark.inputs import column_types

    return joined_types(stream.additional_events, column_types(stream.additional_events.tables()))


@check_keywords
def frames(
    data: Data,
    metamodel: Metamodel,
    *,
    each: object,
    columns: Mapping[str, tuple[Element, str]],
    time: str = "ts",
    key: str | Iterable[str] = (),
    observe: str | Iterable[str] = (),
    lateness: str | dt.timedelta | None = None,
    max_ahead: str | dt.timedelta | None = None,
    options: StreamOptions | None = None,
) -> Frames[Data]:
    """Declare frames of live models: one row for each model and time, and the attributes that its columns set.

    ``each`` is the initial content of every model: rows of changes as :func:`model` takes them, without a time. ``columns``
    maps each column to an element and its attribute: ``{"right_hand_y": ("right_hand", "y")}``. A row
    is a transaction that sets all of them; a null sets null. ``each`` is applied before the first row of a
    model. Several rows of one model and time are one frame, with the greatest value of each column.

    The events are those of :func:`model`, and patterns match them in the same way. Since nodes and edges do not change, most
    queries are evaluated for all frames at once; ``explain`` names those that are not, with the reason. On a stream a frame
    is evaluated when the watermark is past its time; ``lateness``, ``max_ahead`` and ``options`` are as of
    :func:`perseid.events`.
    """
    require_metamodel(metamodel)
    stream_options = require_options(options)
    time = require_name("frames", "time", time)
    keys = require_names("frames", "key", key)
    bound = max_ahead_us(max_ahead)
    snapshot = snapshot_of(metamodel, each)
    check_frame_columns(metamodel, snapshot, columns)
    return Frames(
        bound_data(data, time, bound, lateness_us(lateness)), metamodel.queries, time, keys, observe=_names(observe),
        idle=stream_options.idle_us, shards=stream_options.shards, max_state=stream_options.max_state, max_ahead=bound,
        budget=SearchBudget(stream_options.max_steps, stream_options.max_matches), each=tuple(snapshot),
        sets={name: (place[0], place[1]) for name, place in columns.items()},
    )  # fmt: skip


@overload
def react(  # type: ignore[overload-overlap]  # a DataFrame is an object, too: rows are all that are none
    stream: Models[Frame],
    *,
    until: dt.datetime | None = None,
    max_iterations: int = ROUNDS,
    max_changes: int = CHANGES,
    checkpoint: str | None = None,
    observation: Observation | None = None,
) -> Frame: ...


@overload
def react(
    stream: Models[object],
    *,
    until: dt.datetime | None = None,
    max_iterations: int = ROUNDS,
    max_changes: int = CHANGES,
) -> Reaction: ...


@check_keywords
def react(
    stream: Models[object],
    *,
    until: dt.datetime | None = None,
    max_iterations: int = ROUNDS,
    max_changes: int = CHANGES,
    checkpoint: str | None = None,
    observation: Observation | None = None,
) -> Frame | Reaction:
    """Run the rules of a metamodel on changes of its models: a :class:`Reaction`, on Spark a DataFrame.

    Rules act at the time of the event that activates them: their changes take effect at the same time, in the next iteration,
    and can activate further rules. At one time, rules may take at most ``max_iterations`` iterations
    and make at most ``max_changes`` changes; beyond that, an error names the rule. Patterns with a timeout are decided as time passes, up to ``until``, or until no timeout is pending;
    changes after ``until`` are left out.

    For a DataFrame of changes, finished or streaming, the result is a DataFrame with one row for each action. ``what`` is the action:
    a match ``appeared``, was ``updated`` or ``disappeared``, a rule ``fired``, a change was applied (``changed``),
    ``rejected``, or ``requested`` of another model (add this row, which has the key of that model, to the stream), a row was ``emitted`` (:func:`select_emitted` selects those
    of one name). ``id`` is the same whenever a row is output again. On a stream time advances with the watermark;
    ``checkpoint`` and ``observation`` are as of ``match``.
    """
    no_rules = EventDataError(
        "react requires changes of a model with rules.", hint="Use ps.graph.model(rows, metamodel)."
    )
    models = kind_of(stream).as_models(stream, no_rules)
    rules = models.rules
    if rules is None:
        raise no_rules
    end = None if until is None else microseconds(until, "until=")
    try:
        if is_spark(models.data):
            require_no_observation(models.data.isStreaming, observation)
            return _react_on_spark(models, rules, end, max_iterations, max_changes, checkpoint, observation)
        if checkpoint is not None or observation is not None:
            raise EventDataError(
                "checkpoint= and observation= require a Spark DataFrame, and these changes are local.",
                hint="Remove them.",
            )
        return react_local(models, rules, until=end, rounds=max_iterations, changes=max_changes)
    except PatternError as error:
        if rules.source is not None:
            error.locate(rules.source)
        raise


def select_emitted(done: Frame, metamodel: Metamodel, name: str) -> Frame:
    """The rows that rules emit under one name, selected from the DataFrame that :func:`react` returns on Spark.

    They have the time, the key, and the emitted values in columns of their own types, as ``emitted[name]`` of a
    :class:`Reaction` has. Works on finished and streaming DataFrames, and in ``foreachBatch``.
    """
    require_metamodel(metamodel)
    if not is_spark(done):
        raise EventDataError(
            f"select_emitted requires a Spark DataFrame, got {type(done).__name__}.",
            hint=f"For local changes, use ps.graph.react(stream).emitted[{name!r}].",
        )
    from perseid.engines.models.emitted import emitted_columns  # its kernels are compiled on first use
    from perseid.spark.arrow import arrow_types
    from perseid.spark.emitted import select_emitted as select_rows

    time_and_keys, types = emitted_columns(metamodel.rules, arrow_types(done), name)
    return select_rows(done, name, time_and_keys, types)


@check_keywords
def find_repairs(
    model: Models | Reaction,
    *,
    objectives: str | Iterable[str],
    soft: str | Iterable[str] = (),
    constraints: str | Iterable[str] = (),
    key: object = (),
    at: dt.datetime | None = None,
    strategy: str = STRATEGIES[0],
    max_depth: int = 5,
    max_cost: float | Decimal | None = None,
    max_states: int = 10_000,
    max_fixes: int = 10,
) -> QuickFixes:
    """Search for ways to make a model valid by the repairs of its text: at most ``max_fixes`` quick fixes, the best first.

    After a fix no query of ``objectives`` has a match. Fixes are ranked by cost, then by how many matches the queries of ``soft`` have
    after them, then by their steps. No query of ``constraints`` may have a match after any step. A fix has at most
    ``max_depth`` steps and costs at most ``max_cost``.

    ``model`` is a stream of changes, applied up to the moment ``at`` or its end, or a :class:`Reaction`;
    ``key`` selects one of several models. The search is ``best first``, ``breadth first``, ``depth first`` or
    ``hill climbing``; it visits no model twice and at most ``max_states`` models.
    ``complete`` is false if the search reached ``max_states``, and for ``hill climbing``.
    """
    no_model = EventDataError("find_repairs requires changes of a model.", hint="Use ps.graph.model(rows, metamodel).")
    reaction = model if isinstance(model, Reaction) else None
    stream = kind_of(model).as_models(model, no_model) if reaction is None else reaction.models
    aims = Aims(
        _names(objectives),
        _names(soft),
        _names(constraints),
        max_depth,
        None if max_cost is None else Decimal(str(max_cost)),
    )
    until = None if at is None else microseconds(at, "at=")
    name = key if isinstance(key, tuple) else (key,)
    return search_quick_fixes(stream, reaction, aims, name, until, strategy=strategy, states=max_states, most=max_fixes)


def _names(names: str | Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def events_of(groups: Sequence[EventStreamGroup], stream: Models) -> tuple[list[Events], list[str]]:
    """The events of a model for each group of patterns, and the reason for each rejected change."""
    require_local_rows("match", stream.data)
    return local_events(stream, [group.watched for group in groups])


def explain_model(groups: Sequence[EventStreamGroup], stream: Models) -> str:
    """An explanation of the queries and patterns over a model."""
    if not is_spark(stream.data):
        return explain_models(groups, stream, None)
    from perseid.spark.arrow import arrow_types

    return explain_models(groups, stream, arrow_types(stream.data))


def detect_changes(
    groups: Sequence[tuple[EventStreamGroup, Plan]], stream: Models, options: SparkMatchOptions
) -> Frame:
    """The DataFrame of matches of patterns over models with changes in a DataFrame."""
    require_spark(stream.data)
    require_no_observation(stream.data.isStreaming, options.observation)
    from perseid.spark.projection import read_relations
    from perseid.spark.query_driver import RunOptions, SparkTables, require_no_rejected

    tables = read_relations(options.relations)
    require_no_rejected(bool(options.rejected), "streams of changes of a model", "changes")
    data = SparkTables.of(stream.tables_of([group.watched for group, _ in groups]))
    require_equal_keys(stream, data.schemas)
    query = stream.bind(groups, data.schemas)
    return data.run(query, RunOptions(tables, options.checkpoint, options.observation))


def _react_on_spark(
    stream: Models, rules: Rules, until: int | None, rounds: int, changes: int, checkpoint: str | None,
    observation: Observation | None,
) -> Frame:  # fmt: skip
    """The DataFrame of the actions of rules over a DataFrame of changes."""
    check_columns(stream, rules)
    require_rules_on_spark(stream, until)
    from perseid.spark.query_driver import RunOptions, SparkTables

    data = SparkTables.of(stream.tables())
    query = bind_rules(stream, rules, data.schemas, until=until, rounds=rounds, changes=changes)
    return data.run(query, RunOptions(checkpoint=checkpoint, observation=observation))
