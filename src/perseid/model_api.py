"""Live models as users declare them: what they may contain, what is asked of them, and the rows of their changes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from perseid.compile.plan import Plan
from perseid.declare import bound_data, events, microseconds, named_words, require_name, require_names
from perseid.engines.models.plan import ROLES
from perseid.engines.models.repair import STRATEGIES, search
from perseid.errors import (
    EventDataError,
    PatternError,
    PatternSyntaxError,
    PerseidError,
    UnsupportedError,
    did_you_mean,
)
from perseid.given import Frame, Observation, Relations
from perseid.lang import ast
from perseid.lang.models import ModelFile
from perseid.lang.parser import parse_models
from perseid.local.frames import Frames
from perseid.local.models import Models, changes_of, events_here
from perseid.local.reactions import Reaction, react_here
from perseid.local.repairs import QuickFixes
from perseid.local.rows import Events, is_spark, require_here, require_spark
from perseid.local.tables import read_table
from perseid.semantics.graphs import RANK, Change, Element, Graph
from perseid.semantics.metamodels import kinds_of, unknown
from perseid.semantics.model_queries import Queries, check_queries
from perseid.semantics.model_repair import Aims
from perseid.semantics.model_rules import CHANGES, ROUNDS
from perseid.semantics.model_steps import Beside, Group
from perseid.semantics.rules import Rules, check_rules
from perseid.viz.models import explain_models

if TYPE_CHECKING:
    import pyarrow as pa


class Metamodel:
    """What models may contain and what is asked of them; make one with :func:`perseid.metamodel`."""

    def __init__(self, file: ModelFile, source: str) -> None:
        if file.metamodel is None:
            raise PatternSyntaxError(
                "This text does not say what a model may contain.",
                source=source,
                hint="Begin it with: model name, node …, edge ….",
            )
        self._file = file
        self.queries: Queries = check_queries(kinds_of(file.metamodel), file.queries)
        self.rules: Rules = check_rules(self.queries, file, source)

    @property
    def name(self) -> str:
        assert self._file.metamodel is not None
        return self._file.metamodel.name

    @property
    def patterns(self) -> tuple[ast.Pattern, ...]:
        """The patterns of the text; :func:`perseid.patterns` makes a set of them."""
        return self._file.patterns

    def __repr__(self) -> str:
        return f"<model {self.name}: {', '.join(self.queries.queries) or 'no queries'}>"


def metamodel(text: str) -> Metamodel:
    """Read what a model may contain, queries over it, patterns over what these find and lose, rules and repairs."""
    try:
        return Metamodel(parse_models(text), text)
    except PatternError as error:
        error.locate(text)
        raise


@named_words
def model(
    data: object,
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
    beside: object = None,
    idle: str | dt.timedelta | None = None,
    shards: int = 16,
    max_state: int = 1 << 28,
    lateness: str | dt.timedelta | None = None,
    max_ahead: str | dt.timedelta | None = None,
) -> Models:
    """Declare changes of live models: a row for each elementary change, and which of its columns mean what.

    ``change`` says what is done: ``create`` a node of a ``kind``, ``delete`` it, ``set`` an ``attribute`` to a ``value``,
    ``link`` an ``element`` to a ``target`` by an edge of a ``kind``, ``unlink`` it. ``key`` tells models apart: each has its own
    nodes, and patterns look at one model at a time. All changes of a model at one time are one transaction, in the order of
    ``order_by``; queries see its end. Without ``order_by`` edges are taken away first, then nodes; then nodes are made,
    attributes set and edges made.

    The events of a model are the matches of queries found, updated and lost, for the queries that patterns name and those
    in ``observe``, and the elementary changes that patterns name. Ordinary events ``beside`` them, declared by
    :func:`events` and with the same key columns, are steps of patterns too: at one time they come after what the model tells.

    On a stream a transaction is made when the watermark is past its time; ``idle``, ``shards``, ``max_state``, ``lateness``
    and ``max_ahead`` are as of :func:`events`.
    """
    _require_metamodel(metamodel)
    columns = dict(zip(ROLES, (change, element, kind, attribute, value, target), strict=True))
    for role, name in {"time": time, **columns}.items():
        require_name("model", role, name)
    rows = events([], idle=idle, shards=shards, max_state=max_state, lateness=lateness, max_ahead=max_ahead)
    keys = require_names("model", "key", key)
    named = keys, require_names("model", "order_by", order_by), columns, _names(observe)
    bounded = bound_data(data, time, rows.max_ahead, rows.lateness)
    others = _beside(beside, keys)
    return Models(
        bounded, metamodel.queries, time, *named, rows.idle, shards, max_state, metamodel.rules, others, rows.max_ahead
    )


def _beside(given: object, key: str | Iterable[str]) -> Events | None:
    """Events beside a model; they are told apart by the columns that tell models apart."""
    if given is None:
        return None
    declared = given if isinstance(given, Events) else events(given)
    return declared if declared.key else replace(declared, key=_names(key))


def beside_of_model(stream: Models) -> Beside | None:
    """The ordinary events that patterns over a model may name."""
    if stream.beside is None:
        return None
    given = [one.data for _, one in stream.beside.inputs()]
    if is_spark(stream.data) != all(is_spark(data) for data in given) or len({is_spark(data) for data in given}) > 1:
        raise EventDataError(
            "The model and the events beside it are not in the same place.",
            hint="Give DataFrames of Spark's for both, or for none.",
        )
    if not is_spark(stream.data):
        return stream.shape_of_beside()
    from perseid.spark.models import shape_of_beside

    return shape_of_beside(stream.beside)


@named_words
def frames(
    data: object,
    metamodel: Metamodel,
    *,
    each: object,
    columns: Mapping[str, tuple[Element, str]],
    time: str = "ts",
    key: str | Iterable[str] = (),
    observe: str | Iterable[str] = (),
    idle: str | dt.timedelta | None = None,
    shards: int = 16,
    max_state: int = 1 << 28,
    lateness: str | dt.timedelta | None = None,
    max_ahead: str | dt.timedelta | None = None,
) -> Frames:
    """Declare frames of live models: a row for each model and time, and which of its columns set what.

    ``each`` is what every model begins with: rows of changes as :func:`model` takes them, without a time. ``columns`` says
    for each column which element of it has the value as which attribute: ``{"right_hand_y": ("right_hand", "y")}``. A row
    is a transaction that sets all of them; a null sets null. The first of a model makes what ``each`` says before. Several
    rows of one model and time are one frame: of each column the greatest value counts.

    The events are those of :func:`model`, and patterns are asked of them in the same way. Since nodes and edges stay, most
    queries are answered for all frames at once; ``explain`` says which are not, and why. On a stream a frame is told of
    when the watermark is past its time; ``idle``, ``shards``, ``max_state``, ``lateness`` and ``max_ahead`` are as of
    :func:`events`.
    """
    _require_metamodel(metamodel)
    require_name("frames", "time", time)
    keys = require_names("frames", "key", key)
    rows = events([], idle=idle, shards=shards, max_state=max_state, lateness=lateness, max_ahead=max_ahead)
    snapshot = _snapshot(metamodel, each)
    _check_columns(metamodel, snapshot, columns)
    return Frames(
        bound_data(data, time, rows.max_ahead, rows.lateness),
        metamodel.queries,
        time,
        keys,
        observe=_names(observe),
        idle=rows.idle,
        shards=shards,
        max_state=max_state,
        max_ahead=rows.max_ahead,
        each=tuple(snapshot),
        sets={name: (place[0], place[1]) for name, place in columns.items()},
    )


def _require_metamodel(metamodel: object) -> None:
    if not isinstance(metamodel, Metamodel):
        raise EventDataError(
            f"A model is one of a metamodel, and this is {type(metamodel).__name__}.",
            hint="ps.model(rows, ps.metamodel('''model cps node Host (cpu bigint) …''')).",
        )


@named_words
def react(
    stream: Models,
    *,
    until: dt.datetime | None = None,
    rounds: int = ROUNDS,
    changes: int = CHANGES,
    checkpoint: str | None = None,
    observation: Observation = None,
) -> Any:
    """Let the rules of the text about a model act on it as it changes: a :class:`Reaction`, on Spark a DataFrame.

    Rules act inside the moment of what they wait for: what they change is there at the same time, in the next round, and
    may make rules active in its turn. A moment of more than so many ``rounds``, or so many ``changes`` by rules, is an error
    that names the rule. Patterns that wait for nothing to happen are decided as time passes, up to ``until``, or
    for as long as something waits; changes after ``until`` are left out.

    Of a DataFrame of changes, finished or a stream, the answer is one of all that rules did, a row each. ``what`` says it:
    a match ``appeared``, was ``updated`` or ``disappeared``, a rule ``fired``, a change was ``changed`` or ``refused``, or
    ``asked`` of another model (the row has its key: add it to the stream), a row was ``emitted`` (:func:`emitted` takes those
    of one name). ``id`` is the same whenever a row is told again. On a stream time passes with the watermark;
    ``checkpoint`` and ``observation`` are as of ``detect``.
    """
    if not isinstance(stream, Models) or stream.rules is None:
        raise EventDataError("Rules react to the changes of a model.", hint="ps.react(ps.model(rows, metamodel, …)).")
    end = None if until is None else microseconds(until, "Until when rules act")
    try:
        if is_spark(stream.data):
            _refuse_observed_stream(stream, observation)
            from perseid.spark.reactions import react_models

            words = {"rounds": rounds, "changes": changes, "checkpoint": checkpoint, "observation": observation}
            return react_models(stream, stream.rules, until=end, **words)
        if checkpoint is not None or observation is not None:
            raise EventDataError(
                "A checkpoint and an observation are Spark's, and these changes are in this process.",
                hint="Leave them out: ps.react(stream) has everything in hand.",
            )
        return react_here(stream, stream.rules, until=end, rounds=rounds, changes=changes)
    except PatternError as error:
        if stream.rules.source is not None:
            error.locate(stream.rules.source)
        raise


def emitted(done: Frame, metamodel: Metamodel, name: str) -> Frame:
    """The rows that rules of a text emit by one name, out of the DataFrame that :func:`react` answers on Spark.

    They have the time, the key, and what is emitted in columns of their own types: what ``emitted[name]`` of a
    :class:`Reaction` has. Here and in ``foreachBatch``, of a batch and of a stream.
    """
    _require_metamodel(metamodel)
    if not is_spark(done):
        raise EventDataError(
            f"Emitted rows are taken out of a DataFrame of Spark's, and this is {type(done).__name__}.",
            hint=f"In one process: ps.react(stream).emitted[{name!r}].",
        )
    from perseid.spark.reactions import emitted_rows

    return emitted_rows(done, metamodel.rules, name)


@named_words
def repairs(
    model: Models | Reaction,
    *,
    objectives: str | Iterable[str],
    soft: str | Iterable[str] = (),
    constraints: str | Iterable[str] = (),
    key: object = (),
    at: dt.datetime | None = None,
    strategy: str = STRATEGIES[0],
    depth: int = 5,
    cost: float | Decimal | None = None,
    states: int = 10_000,
    most: int = 10,
) -> QuickFixes:
    """Search for ways to make a model valid by the repairs of its text: at most ``most`` quick fixes, the best first.

    After a fix no query of ``objectives`` has a match. Fixes are ranked by cost, then by how many matches the queries of ``soft`` have
    after them, then by their steps. After no step may a query of ``constraints`` have a match. A fix has at most ``depth``
    steps and costs at most ``cost``.

    ``model`` is a stream of changes, taken up to the moment ``at`` or its end, or what rules have made of one; ``key`` says
    which model is meant where there are several. The search goes ``best first``, ``breadth first``, ``depth first`` or by ``hill climbing``;
    no model is looked at twice, and at most ``states`` are: ``complete`` says whether that was all of them.
    """
    if not isinstance(model, Models | Reaction):
        raise EventDataError("Repairs are of a model.", hint="ps.repairs(ps.model(rows, metamodel, …), objectives=…).")
    stream = model if isinstance(model, Models) else model.models
    assert stream.rules is not None
    if strategy not in STRATEGIES:
        raise EventDataError(f"There is no strategy {strategy!r}.", hint=f"There are: {', '.join(STRATEGIES)}.")
    limit = None if cost is None else Decimal(str(cost))
    aims = Aims(_names(objectives), _names(soft), _names(constraints), depth, limit)
    for name in (*aims.hard, *aims.soft, *aims.never):
        if name not in stream.queries.queries:
            raise unknown("query", name, list(stream.queries.queries))
    if not aims.hard or not stream.rules.repairs:
        what = "an objective" if not aims.hard else "a repair"
        raise EventDataError(
            f"Without {what} there is nothing to search for.",
            hint="objectives='overcommitted'; in the text: repair lower on overcommitted(host) do set …",
        )
    graph = _one_model(model, key, at)
    found = search(stream.queries, stream.rules.repairs, graph, aims, strategy, states)
    return QuickFixes(found, stream, _key(key), most)


def _one_model(model: Models | Reaction, key: object, at: dt.datetime | None) -> Graph:
    if isinstance(model, Models):
        require_here("repairs", model.data)
        live = model.live(None if at is None else microseconds(at, "The moment of a model"))
    elif at is not None:
        raise EventDataError("What rules made of a model is its end.", hint="Say it there: ps.react(…, until=…).")
    else:
        live = model.live
    if _key(key) not in live:
        known = ", ".join(repr(one[0] if len(one) == 1 else one) for one in list(live)[:8])
        raise EventDataError(f"There is no model {key!r}.", hint=f"Say which: key=…. There are: {known or 'none'}.")
    return live[_key(key)].graph


def _key(given: object) -> tuple[object, ...]:
    return given if isinstance(given, tuple) else (given,)


def _snapshot(metamodel: Metamodel, each: object) -> list[Change]:
    """What every model begins with, in order; it must fit the metamodel, whole."""
    rows = read_table(each)
    changes = changes_of(dict(zip(ROLES, ROLES, strict=True)), rows)
    changes.sort(key=lambda change: RANK.get(change.action, 5))
    graph = Graph(metamodel.queries.kinds)
    for change in changes:
        try:
            graph.apply(change)
        except PerseidError as error:
            raise EventDataError(
                f"No model can begin so: {error.message}", hint="Mend the changes in ps.frames(rows, each=…)."
            ) from None
    return changes


def _check_columns(metamodel: Metamodel, snapshot: list[Change], columns: Mapping[str, tuple[Element, str]]) -> None:
    kinds = {change.element: str(change.kind) for change in snapshot if change.action == "create"}
    taken: dict[tuple[Element, str], str] = {}
    if not isinstance(columns, Mapping) or not columns:
        raise EventDataError(
            "Frames have columns that set attributes, and none is named.",
            hint="columns={'right_hand_y': ('right_hand', 'y'), …}.",
        )
    for name, place in columns.items():
        if not isinstance(place, tuple) or len(place) != 2:
            raise EventDataError(
                f"The column {name!r} sets an attribute of an element, and {place!r} does not say which.",
                hint=f"columns={{{name!r}: ('right_hand', 'y'), …}}.",
            )
        element, attribute = place
        if element not in kinds:
            raise EventDataError(
                f"The column {name!r} sets an attribute of {element!r}, which no model begins with."
                + did_you_mean(str(element), [str(there) for there in kinds]),
                hint="Create it in each=[{'change': 'create', 'element': …, 'kind': …}, …].",
            )
        metamodel.queries.kinds.attribute_type(kinds[element], attribute)
        if place in taken:
            raise EventDataError(f"The columns {taken[place]!r} and {name!r} both set {element}.{attribute}.")
        taken[place] = name


def _names(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def events_of(groups: Sequence[Group], stream: Models) -> tuple[list[Events], list[str]]:
    """The events of a model for each group of patterns, and the reason for each rejected change."""
    require_here("match", stream.data)
    return events_here(stream, [group.watched for group in groups])


def explain_model(groups: Sequence[Group], stream: Models) -> str:
    """The model that patterns are asked of, in words."""
    one_by_one = None
    if isinstance(stream, Frames):
        types = _column_types(stream.data) if is_spark(stream.data) else None
        one_by_one = [stream.why_one_by_one(group.watched, types) for group in groups]
    said = explain_models(stream.queries, groups, stream.key, one_by_one)
    if stream.max_ahead is None:
        return said
    from perseid.viz.detection import describe_max_ahead

    return f"{said}max_ahead: {describe_max_ahead(stream.max_ahead)}\n"


def detect_changes(
    groups: Sequence[tuple[Group, Plan]],
    stream: Models,
    relations: Relations,
    rejected: bool,
    checkpoint: str | None,
    observation: Observation,
) -> Frame:
    """Matches of patterns over models whose changes are a DataFrame."""
    require_spark(stream.data)
    _refuse_observed_stream(stream, observation)
    from perseid.spark.models import detect_models
    from perseid.spark.projection import read_relations

    tables = read_relations(relations)
    return detect_models(groups, stream, tables, rejected=rejected, checkpoint=checkpoint, observation=observation)


def _column_types(frame: Frame) -> dict[str, pa.DataType]:
    from perseid.spark.models import column_types

    return column_types(frame)


def _refuse_observed_stream(stream: Models, observation: Observation) -> None:
    """That an observation is asked of what never ends."""
    if observation is not None and stream.data.isStreaming:
        raise UnsupportedError(
            "An Observation is for one action; a stream counts in every batch.",
            hint="Ask the running query: ps.progress(query).",
        )
