"""What users hold in their hands: patterns, sets of patterns, and the stream they are asked of."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from perseid import belief_api
from perseid.belief_api import draw_beliefs, explain_beliefs, match_beliefs, refuse_beliefs, refuse_words
from perseid.compile.compiler import compile_set
from perseid.compile.plan import Plan
from perseid.compile.risks import search_risks
from perseid.declare import microseconds, named_words
from perseid.errors import (
    BindingError,
    MeaningError,
    PatternError,
    PatternSyntaxError,
    PerseidError,
    UnsupportedError,
    did_you_mean,
    nearest,
    warn,
)
from perseid.given import (
    Frame,
    Observation,
    Relations,
    by_name,
    columns_of,
    declared_stream,
    is_streaming,
    names_of,
    on_spark,
    refuse_other_streams,
    refuse_spark,
    tables_of,
)
from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.lang.builder import PatternBuilder
from perseid.lang.parser import parse_file, parse_pattern
from perseid.lang.printer import print_file, print_pattern
from perseid.lang.tree_patterns import TreePattern
from perseid.local.beliefs import Beliefs
from perseid.local.documents import Documents, asked_of, check_variables
from perseid.local.matches import together
from perseid.local.models import Models, describe_rejected
from perseid.local.rows import Events, is_spark
from perseid.model_api import Metamodel, beside_of_model, detect_changes, events_of, explain_model
from perseid.semantics.binding import bind
from perseid.semantics.check import check
from perseid.semantics.core import CorePattern
from perseid.semantics.detection import feeds
from perseid.semantics.model_steps import Group, grouped
from perseid.semantics.resolve import resolve
from perseid.semantics.slips import slips
from perseid.semantics.types import EventSchema, Type
from perseid.semantics.types import schema as make_schema
from perseid.tree_api import check_trees
from perseid.viz.draw import Format, draw
from perseid.viz.explain import explain
from perseid.viz.tree_drawing import draw as draw_tree
from perseid.viz.trees import explain_tree
from perseid.viz.why_not import MAX_EVENTS, WhyNot, key_of, too_many, why_not

if TYPE_CHECKING:
    from perseid.engines.uncertain.telling import Telling
    from perseid.local.counts import Counts
    from perseid.spark.inspection import Inspection
    from perseid.spark.progress import Progress

T = TypeVar("T")


class PatternSet:
    """Patterns that are compiled and run together; a step may name another pattern of the set."""

    def __init__(
        self, tree: ast.PatternFile, source: str | None = None, producers: tuple[ast.Pattern, ...] = ()
    ) -> None:
        self._tree = tree
        self._source = source
        self._producers = producers
        """Other patterns of the file this one came from: it may take their matches, which are not reported."""

    @property
    def tree(self) -> ast.PatternFile:
        """The syntax tree."""
        return self._tree

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(p.name for p in self._tree.patterns)

    def __len__(self) -> int:
        return len(self._tree.patterns)

    def __iter__(self) -> Iterator[Pattern]:
        return (self[name] for name in self.names)

    def __getitem__(self, name: str | int) -> Pattern:
        """A pattern by its name, or by its place in the set."""
        if isinstance(name, int):
            if not -len(self) <= name < len(self):
                raise IndexError(f"{name}: there are {len(self)} patterns.")
            name = self.names[name]
        for pattern in self._tree.patterns:
            if pattern.name == name:
                others = tuple(p for p in self._tree.patterns if p is not pattern)
                return Pattern(pattern, self._source, others)
        near = nearest(str(name), self.names)
        raise KeyError(f"{name!r}: there is " + (f"{near!r}" if near else ", ".join(self.names)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PatternSet) and self._tree == other._tree

    def __hash__(self) -> int:
        return hash(self._tree)

    def __str__(self) -> str:
        """The patterns in canonical layout; parsing it gives them back."""
        return print_file(self._tree)

    def __repr__(self) -> str:
        return f"<patterns {', '.join(self.names)}>"

    def bind(self, **values: object) -> PatternSet:
        """Give parameters their values; a name goes to every pattern of the set that declares it."""
        return PatternSet(ast.PatternFile(self._bound(values)), self._source)

    def _bound(self, values: Mapping[str, object]) -> tuple[ast.Pattern, ...]:
        declared = {p.name for pattern in self._tree.patterns for p in pattern.parameters}
        for name in values:
            if name not in declared:
                raise BindingError(
                    f"No pattern here has a parameter {name!r}."
                    + did_you_mean(name, declared, f" There are: {', '.join(sorted(declared)) or 'none'}.")
                )
        return tuple(
            bind(pattern, {p.name: values[p.name] for p in pattern.parameters if p.name in values})
            for pattern in self._tree.patterns
        )

    def check(
        self, schema: EventSchema | Mapping[str, str | Type | Mapping[str, str | Type]] | None = None
    ) -> PatternSet:
        """Check names and types, against a schema where one is given; raises what is wrong, returns itself.

        A schema is made by :func:`perseid.schema`, or given as the dict it takes. Without one, what may be right and
        reads like a slip of the pen is a warning. A pattern whose search can explode is a warning as well.
        """
        declared = schema if schema is None or isinstance(schema, EventSchema) else make_schema(schema)
        cores = self._located(lambda: check(ast.PatternFile((*self._tree.patterns, *self._producers)), declared))
        for doubt in () if declared else (doubt for pattern in self._tree.patterns for doubt in slips(pattern)):
            warn(doubt)
        own = self._located(lambda: compile_set(cores))
        for risk in search_risks(replace(own, patterns=tuple(p for p in own.patterns if p.name in self.names))):
            warn(risk)
        return self

    def plan(self) -> Plan:
        """The compiled plan of the set."""
        return self._located(lambda: compile_set(self._cores()))

    def _over(self, stream: object) -> tuple[PatternSet, Events]:
        """The patterns, and the stream of events they are asked of: results of tree patterns, where it is of documents."""
        whole = (*self._tree.patterns, *self._producers)
        if isinstance(stream, Models):
            found, _ = self._of_models(stream)
            if len(found) > 1:
                raise UnsupportedError(
                    "These patterns are asked of different events of the model.",
                    hint=f"Ask them one by one: patterns[{self.names[0]!r}].",
                )
            return found[0]
        if not isinstance(stream, Documents):
            return self, declared_stream(stream)
        data = [columns for _, columns in stream.inputs()]
        spark = is_spark(data[0])
        names = [name for one in data for name in (one.columns if spark else names_of(one))]
        self._located(lambda: check_variables(self._tree.patterns, names))
        lowered, asked = asked_of(whole, stream.namespaces)
        self._located(lambda: check_trees((step.tree for step in asked.steps), stream))
        if spark:
            from perseid.spark.documents import documents_as_events as as_events
        else:
            from perseid.local.trees import read_here as as_events
        return self._lowered(lowered, self._located(lambda: as_events(stream, asked)))

    def _apart(self, stream: Models) -> list[tuple[PatternSet, Group]]:
        """The patterns over a model by the events they are asked of; of several patterns some may have others."""
        whole = (*self._tree.patterns, *self._producers)
        found = []
        beside = beside_of_model(stream)
        for group in self._located(lambda: grouped(whole, stream.queries, stream.key, stream.observe, beside)):
            own = tuple(p for p in group.patterns if p.name in self.names)
            rest = tuple(p for p in group.patterns if p.name not in self.names)
            if own:
                found.append((PatternSet(ast.PatternFile(own), self._source, rest), group))
        return found

    def _of_models(self, stream: Models) -> tuple[list[tuple[PatternSet, Events]], list[str]]:
        """The same, with these events, and the reason for each change that the model rejected."""
        found = self._apart(stream)
        events_, rejected = events_of([group for _, group in found], stream)
        return list(zip([one for one, _ in found], events_, strict=True)), rejected

    def _lowered(self, patterns: tuple[ast.Pattern, ...], events_: Events) -> tuple[PatternSet, Events]:
        """The set with its patterns, and those beside them, as they are asked of events."""
        count = len(self._tree.patterns)
        return PatternSet(ast.PatternFile(patterns[:count]), self._source, patterns[count:]), events_

    def explain(self, stream: object = None) -> str:
        """What each pattern means and what running it takes, in words.

        With a declared ``stream`` also how it runs there: what Spark decides, what crosses to Python, what is left
        out on the way. Nothing is run for that.
        """
        if stream is None:
            whole = ast.PatternFile((*self._tree.patterns, *self._feeding()))
            plan = self._located(lambda: compile_set(check(whole)))
            return "\n".join([*self._meanings(plan), *self._explained_trees()])
        if isinstance(stream, Beliefs):
            cores = self._cores()
            meaning = self._meanings(self._located(lambda: compile_set(cores)))
            return "\n".join([*meaning, self._located(lambda: explain_beliefs(cores, stream))])
        if isinstance(stream, Models):
            parts = self._apart(stream)
            said = [over._meanings(over._plan_for(Events([], key=stream.key))) for over, _ in parts]
            return "\n".join(
                [*(line for lines in said for line in lines), explain_model([g for _, g in parts], stream)]
            )
        if isinstance(stream, Documents):
            over, declared = self._over(stream)
            return "\n".join([over.explain(declared), *self._explained_trees(), f"\n{stream.explain()}"])
        declared = declared_stream(stream)
        plan = self._plan_for(declared)
        meaning = self._meanings(plan)
        if on_spark(declared):
            from perseid.spark.explain import explain_detection

            return "\n".join([*meaning, explain_detection(plan, declared)])
        from perseid.local.narrow import column_types
        from perseid.viz.detection import explain_here

        return "\n".join([*meaning, explain_here(plan, column_types(declared), declared)])

    def _meanings(self, plan: Plan) -> list[str]:
        return [explain(plan, pattern.name, pattern.metadata) for pattern in self._tree.patterns]

    def _explained_trees(self) -> list[str]:
        return [f"\n{explain_tree(title, tree)}" for title, tree in self._trees().items()]

    def _trees(self) -> dict[str, TreePattern]:
        """The tree patterns of all steps, by what they are called."""
        _, asked = asked_of(self._tree.patterns)  # by their prefixes: a stream says what these stand for
        return {step.type: step.tree for step in asked.steps}

    @named_words
    def draw(
        self,
        format: Format = "text",
        *,
        stream: object = None,
        relations: Relations | None = None,
        key: object = None,
        truth: str | None = None,
    ) -> str:
        """The automata as ``text``, ``mermaid`` or ``dot``; those of tree patterns after those of the patterns.

        With an uncertain ``stream`` (:func:`beliefs`) what is believed of one key, step by step, beside what the patterns are answered:
        as ``text``, or as ``svg`` for a page, a strip of small floor plans. ``key`` says whose, where there are several, and
        ``truth`` names a column of the rows that has what really was.
        """
        if stream is not None:
            tables = tables_of(relations)
            return self._located(lambda: draw_beliefs(self._cores(), stream, tables, format, key, truth))
        cores = self._located(lambda: check(self._tree))
        trees = [draw_tree(tree, format, title) for title, tree in self._trees().items()]
        return "\n".join([*(draw(core, format) for core in cores), *trees])

    @named_words
    def match(
        self,
        stream: object,
        *,
        relations: Relations | None = None,
        horizon: dt.datetime | None = None,
        tell: Telling | None = None,
    ) -> Any:
        """Find all matches here, in this process: for trying things, for tests, for data that fits a machine.

        ``stream`` comes from :func:`events`, ``p.match(ps.events(rows, time="timestamp"))``; bare rows are taken with the
        default column names. ``relations`` are the tables that ``in Name`` asks for. With a ``horizon`` only what is decided
        up to that time is reported, as on a stream that is complete so far. ``start`` and ``end`` of a match are microseconds
        since 1970 UTC; ``to_dicts()`` and ``to_pandas()`` of what comes back have datetimes.

        Of an uncertain stream (:func:`beliefs`) what comes back are :class:`Answers`: for each group and step the probability that
        the pattern is completed. ``tell`` says which of them: :func:`above`, :func:`alerts`, :func:`spans` or
        :func:`expected`.
        """
        refuse_words(stream, tell)
        if isinstance(stream, Beliefs):
            if horizon is not None:
                raise UnsupportedError("A horizon is for streams of certain events.", hint="Leave out rows after it.")
            return self._located(lambda: match_beliefs(self._cores(), stream, tables_of(relations), tell))
        refuse_spark("match", stream)
        if isinstance(stream, Models):
            found, bad = self._of_models(stream)
            done = together([over.match(own, relations=relations, horizon=horizon) for over, own in found])
            if bad:
                done.add_rejected(len(bad), describe_rejected(bad))
            return done
        over, declared = self._over(stream)
        tables = tables_of(relations)
        plan = over._plan_for(declared)
        from perseid.local.engine import match_here  # its kernels are loaded when they are first needed

        return match_here(
            plan,
            declared,
            tables,
            horizon=None if horizon is None else microseconds(horizon, "A horizon"),
            reported=self.names,
            columns=columns_of(self._tree),
        )

    @named_words
    def count(self, stream: object, *, relations: Relations | None = None) -> list[Counts]:
        """Exactly how many matches each pattern has, in all and by key.

        A chain of ``->>`` is counted without making its matches, of which there may be more than fit anywhere.
        """
        refuse_beliefs("count", stream)
        refuse_spark("count", stream)
        over, declared = self._over(stream)
        tables = tables_of(relations)
        from perseid.local.counts import count_here

        return count_here(over._plan_for(declared), declared, tables)

    @named_words
    def detect(
        self,
        stream: object,
        *,
        relations: Relations | None = None,
        observation: Observation = None,
        rejected: bool | str = False,
        checkpoint: str | None = None,
        tell: Telling | None = None,
    ) -> Frame:
        """Find all matches of a Spark DataFrame, or of several: a DataFrame of matches, made when it is acted upon.

        ``stream`` comes from :func:`events`, ``p.detect(ps.events(df, time="timestamp"))``; of a streaming DataFrame the
        matches are one too. ``relations`` are the tables that ``in Name`` asks for. What is counted beside the matches
        (events, bad rows, suppressed matches, …) goes to an ``Observation`` where one is given; of a stream,
        :func:`perseid.progress` has it. With ``rejected`` the late and bad rows of a stream, and those beyond
        ``max_ahead``, are rows of the output, of the kind ``late``, ``bad`` and ``ahead``, with the ``reason`` as a sentence and all they hold as JSON in ``row``; with ``"bad"`` only bad
        ones have that, and of late ones ``row`` has the ``id`` columns: it costs a stream far less. With the
        ``checkpoint`` that a stream will go on from, what it keeps is looked at now: a stream that was declared otherwise
        is refused before a batch has run. Of an uncertain stream rows are answers, as :meth:`match` has them, and ``tell`` says which.
        """
        refuse_words(stream, tell)
        if isinstance(stream, Beliefs):
            asked = stream, by_name(relations), tell, bool(rejected), checkpoint, observation
            return self._located(lambda: belief_api.detect(self._cores(), *asked))
        if isinstance(stream, Models):
            parts = [(group, over._plan_for(Events([], key=stream.key))) for over, group in self._apart(stream)]
            words = by_name(relations), bool(rejected), checkpoint, observation
            return self._located(lambda: detect_changes(parts, stream, *words))
        over, declared = self._over(stream)
        streaming = is_streaming(declared)
        plan = over._plan_for(declared)
        from perseid.spark.projection import read_relations

        tables = read_relations(by_name(relations))
        if not streaming:
            if checkpoint is not None:
                raise UnsupportedError("A checkpoint is a stream's; this DataFrame is finished.", hint="Leave it out.")
            if rejected:
                raise UnsupportedError(
                    "rejected=True is for streams: nothing of a finished DataFrame is late.",
                    hint="Rows without a time are counted: detect(…, observation=Observation()).",
                )
            from perseid.spark.batch import detect

            return self._located(lambda: detect(plan, declared, tables, observation))
        if observation is not None:
            raise UnsupportedError(
                "An Observation is for one action; a stream counts in every batch.",
                hint="Ask the running query: ps.progress(query).",
            )
        from perseid.spark.stream import detect_stream

        return self._located(lambda: detect_stream(plan, declared, tables, rejected, checkpoint))

    @named_words
    def why_not(
        self, stream: object, *, key: object = None, relations: Relations | None = None, shown: int = 3
    ) -> WhyNot:
        """How far attempts got and what ended them: for the moment when a match was expected and none came.

        ``stream`` is what :meth:`match` and :meth:`detect` take, as long as it is finite. ``key`` is the partition in
        question, a value, a tuple or a dict of what stands behind ``partition by``; without one all are counted.
        Print what comes back; ``shown`` attempts are shown in detail.
        """
        if len(self) != 1:
            raise UnsupportedError(
                "why_not is asked of one pattern.", hint=f"Choose: patterns[{self.names[0]!r}].why_not(…)."
            )
        refuse_beliefs("why_not", stream)
        over, declared = self._over(stream)
        tables = tables_of(relations)
        plan = over._plan_for(declared)
        own = next(p for p in plan.patterns if p.name == self.names[0])
        wanted = key_of(own.pattern, key)
        # Matches that feed the pattern may come from events of any key.
        asked = {} if own.feeds_on or wanted is None else wanted
        paths = {path.parts: ".".join(path.parts) for path in own.pattern.partition}
        narrow = {path: asked[name] for path, name in paths.items() if name in asked}
        if on_spark(declared):
            from perseid.spark.explain import collect_events as few_events
            from perseid.spark.explain import untimed
        else:
            from perseid.local.narrow import few_events
        found = few_events(declared, narrow, MAX_EVENTS)
        if found is None:
            raise too_many(wanted is None)
        return why_not(
            plan,
            own.name,
            found,
            key=wanted,
            strictly_later=declared.strictly_later,
            dedupe=declared.dedupe,
            relations=tables,
            shown=shown,
            said=untimed(declared) if on_spark(declared) else (),
        )

    def _plan_for(self, stream: Events) -> Plan:
        """The plan for a stream whose key partitions the patterns that do not say how."""
        from perseid.local.keys import key_paths

        paths = key_paths(stream)
        cores = self._located(lambda: self._cores(paths))
        refuse_other_streams(cores)
        return self._located(lambda: compile_set(cores))

    def _cores(self, key: tuple[tuple[str, ...], ...] = ()) -> list[CorePattern]:
        whole = ast.PatternFile(tuple(_keyed(p, key) for p in (*self._tree.patterns, *self._producers)))
        check(whole)
        by_name = {pattern.name: pattern for pattern in whole.patterns}
        cores: dict[str, CorePattern] = {}
        wanted = list(self.names)
        while wanted:
            name = wanted.pop(0)
            if name not in cores:
                cores[name] = resolve(bind(by_name[name]))
                wanted.extend(feeds(cores[name], by_name))
        return list(cores.values())

    def _feeding(self) -> list[ast.Pattern]:
        """Those of the other patterns whose matches are taken, by a pattern of the set or by one that feeds it."""
        there = {p.name: p for p in self._producers}
        found: list[ast.Pattern] = []
        wanted = list(self._tree.patterns)
        while wanted:
            kinds = [step.kind for step in ast.steps(wanted.pop().match)]
            names = {kind.name for kind in kinds if isinstance(kind, ast.EventType)}
            fresh = [there.pop(name) for name in sorted(names & there.keys())]
            found += fresh
            wanted += fresh
        return found

    def _located(self, run: Callable[[], T]) -> T:
        """Let an error point into the text the patterns came from."""
        try:
            return run()
        except PatternError as error:
            if self._source is not None:
                error.locate(self._source)
            raise


class Pattern(PatternSet):
    """One pattern: a set of one."""

    def __init__(self, tree: ast.Pattern, source: str | None = None, producers: tuple[ast.Pattern, ...] = ()) -> None:
        super().__init__(ast.PatternFile((tree,)), source, producers)
        self._pattern = tree

    @property
    def name(self) -> str:
        return self._pattern.name

    @property
    def parameters(self) -> tuple[ast.Parameter, ...]:
        return self._pattern.parameters

    @property
    def severity(self) -> str | None:
        return self._pattern.metadata.severity

    @property
    def owner(self) -> str | None:
        return self._pattern.metadata.owner

    @property
    def tags(self) -> tuple[str, ...]:
        return self._pattern.metadata.tags

    @property
    def description(self) -> str | None:
        return self._pattern.metadata.description

    def bind(self, **values: object) -> Pattern:
        """Give parameters their values: ``burst.bind(threshold=5)``."""
        return Pattern(self._bound(values)[0], self._source, self._producers)

    def __str__(self) -> str:
        return print_pattern(self._pattern)

    def __repr__(self) -> str:
        return f"<pattern {self.name}>"


def pattern(source: str | PatternBuilder | ast.Pattern) -> Pattern:
    """A pattern from its text, or from the builder (:mod:`perseid.builder`)."""
    if isinstance(source, PatternBuilder):
        source = source.build()
    if isinstance(source, ast.Pattern):
        return Pattern(source, print_pattern(source))
    _refuse_path(source)
    return Pattern(parse_pattern(source), source)


PatternLike: TypeAlias = str | PatternSet | PatternBuilder | ast.Pattern | Metamodel
"""What patterns are made from, and patterns."""


def fold(changes: Frame) -> Frame:
    """What stands of a changelog of matches: those that were told and not taken back, a row for each.

    ``changes`` is a finished DataFrame of what a stream told that takes back, in any order; :func:`fold_into` is for one
    that goes on.
    """
    from perseid.spark.changes import fold as folded

    return folded(changes)


def fold_into(table: str, *, using: str | None = None) -> Callable[[Frame, int], None]:
    """A function for ``writeStream.foreachBatch`` that keeps, in a table, what stands of a changelog of matches.

    Of each batch the last change of every match is merged into ``table``: a match that was told is inserted, or replaces
    what stood, and one that was taken back is deleted. A batch that comes again changes nothing. The table has the
    changelog's columns and takes ``MERGE``, as those of Delta do; where there is none it is created in the
    format ``using``, if one is named. It belongs to one checkpoint: a query that starts anew needs an empty one.
    """
    from perseid.spark.changes import FoldInto

    return FoldInto(table, using)


def explode_evidence(matches: Frame) -> Frame:
    """One row for each contributing event of a DataFrame of matches whose pattern returns ``evidence``."""
    from perseid.spark.evidence import explode_evidence as explode

    return explode(matches)


def counters(observation: Observation) -> dict[str, int]:
    """The counters of a batch, from the ``Observation`` given to ``detect``, after an action on its DataFrame.

    Beside the names of the guide there is ``events of T`` for each event type T that a step names. Warns with
    :class:`InputWarning` where a pattern has no match because no row of a type that it requires reached it, or where
    every counted row is bad.
    """
    from perseid.spark.input_counts import read_observation

    return read_observation(observation)


def progress(query: Any, pattern: str | None = None) -> Progress:
    """What a running, or ended, stream of matches has counted: rows read, filtered, late and bad, matches, state.

    Where a query holds several detections, ``pattern`` names a pattern of the one that is meant. Print what comes back.
    Warns with :class:`InputWarning` as :func:`counters` does; of absent types only if Spark still has the progress of
    every batch, there is no match so far, and no event is in state.
    """
    from perseid.spark.progress import progress as read

    return read(query, pattern)


def inspect(session: Any, checkpoint: str = "") -> Inspection:
    """What a stream keeps in its checkpoint: how many events, of which keys, and which attempts are open.

    Print what comes back; ``busiest`` has the keys with the most events.
    """
    if not checkpoint or isinstance(session, str):
        raise BindingError(
            "inspect reads a checkpoint with a Spark session, and needs both.",
            hint="Write: ps.inspect(spark, 'path/of/the/checkpoint').",
        )
    from perseid.spark.inspection import inspect as read

    return read(session, checkpoint)


def patterns(*given: PatternLike | Iterable[PatternLike]) -> PatternSet:
    """All patterns of a text; or of several texts, patterns, sets and builders, one by one or in a list, as one set."""
    parts = [part for one in given for part in _one_by_one(one)]
    text = "\n".join(map(_text_of, parts))
    tree = parse_file(text)
    known = {p.name: p for p in tree.patterns}
    producers: list[ast.Pattern] = []
    for other in (p for part in parts if isinstance(part, PatternSet) for p in part._feeding()):
        if other.name not in known:
            producers.append(other)
        if known.setdefault(other.name, other) != other:
            raise MeaningError(
                f"Two patterns are called {other.name!r}: one of them feeds another pattern.",
                hint="Give each pattern of a set a name of its own.",
            )
    return PatternSet(tree, text, tuple(producers))


def _one_by_one(given: PatternLike | Iterable[PatternLike]) -> Iterable[PatternLike]:
    single = isinstance(given, str | PatternSet | PatternBuilder | Metamodel) or not isinstance(given, Iterable)
    return [given] if single else given  # type: ignore[list-item, return-value]


def _text_of(given: PatternLike) -> str:
    match given:
        case Metamodel():
            return print_file(ast.PatternFile(given.patterns))
        case PatternSet():
            return str(given)
        case PatternBuilder():
            return print_pattern(given.build())
        case ast.Pattern():
            return print_pattern(given)
    _refuse_path(given)
    if not isinstance(given, str):
        raise PatternSyntaxError(f"A pattern is text, not {type(given).__name__}.")
    return given


def _refuse_path(given: object) -> None:
    """A file's name is no pattern, though both are text."""
    if isinstance(given, Path) or (isinstance(given, str) and re.fullmatch(r"\s*\S+\.perseid\s*", given)):
        raise PatternSyntaxError(
            f"This is the name of a file, not a pattern: {str(given).strip()}.",
            hint="A file is read with ps.load(path).",
        )


def load(path: str | Path) -> PatternSet:
    """All patterns of a ``.perseid`` file."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise PerseidError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise PerseidError(f"{path} is not UTF-8 text.") from None
    return patterns(text)


def _keyed(pattern: ast.Pattern, key: tuple[tuple[str, ...], ...]) -> ast.Pattern:
    return pattern if pattern.partition_by else replace(pattern, partition_by=tuple(ex.Ref(path) for path in key))
