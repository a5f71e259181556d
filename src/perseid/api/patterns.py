"""Patterns, sets of patterns, and their queries over declared streams."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar, overload

from perseid.api.arguments import (
    Frame,
    Observation,
    Relations,
    SparkData,
    by_name,
    declare,
    require_no_spark_options,
)
from perseid.api.keywords import check_keywords
from perseid.api.pattern_meanings import explain_trees, meanings, trees_of
from perseid.api.pattern_sources import PatternSources
from perseid.api.stream_kinds.contract import DrawOptions, MatchOptions, SparkMatchOptions, WhyNotOptions
from perseid.api.stream_kinds.registry import kind_of
from perseid.api.uncertain import require_probabilities
from perseid.compile.compiler import compile_set
from perseid.compile.plan import Plan
from perseid.compile.risks import search_risks
from perseid.deprecated import deprecated_method
from perseid.engines.models.metamodel import Metamodel
from perseid.engines.sequence.results import Matches
from perseid.errors import (
    BindingError,
    PatternSyntaxError,
    PerseidError,
    SemanticError,
    UnsupportedError,
    nearest,
    warn,
)
from perseid.lang import ast
from perseid.lang.builder import PatternBuilder
from perseid.lang.parser import parse_file, parse_pattern
from perseid.lang.printer import print_file, print_pattern
from perseid.runtime.declaration import StreamDeclaration
from perseid.semantics.binding import bind
from perseid.semantics.check import check
from perseid.semantics.durations import microseconds
from perseid.semantics.slips import slips
from perseid.semantics.types import EventSchema, Type
from perseid.semantics.types import schema as make_schema
from perseid.tables.html import DisplayedText, text_html
from perseid.viz.draw import Format, draw
from perseid.viz.tree_drawing import draw as draw_tree
from perseid.viz.why_not import WhyNot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from perseid.engines.sequence.match_counts import Counts
    from perseid.engines.uncertain.output_policies import OutputPolicy
    from perseid.spark.inspection import Inspection
    from perseid.spark.progress import Progress

LocalResult = TypeVar("LocalResult")
"""Type of the results over local rows of a kind of stream."""


class PatternSet:
    """Patterns that are compiled and run together; a step may name another pattern of the set."""

    def __init__(
        self, tree: ast.PatternFile, source: str | None = None, producers: tuple[ast.PatternDefinition, ...] = ()
    ) -> None:
        self._tree = tree
        self._sources = PatternSources(tree.patterns, producers, source)
        """The patterns with others of their file that may feed them; matches of those are not part of results."""

    @property
    def sources(self) -> PatternSources:
        """The syntax trees of the set, and of other patterns whose matches its steps may take."""
        return self._sources

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
        """The pattern with this name, or at this position."""
        if isinstance(name, int):
            if not -len(self) <= name < len(self):
                raise IndexError(f"{name}: there are {len(self)} patterns.")
            name = self.names[name]
        for pattern in self._tree.patterns:
            if pattern.name == name:
                other_patterns = tuple(p for p in self._tree.patterns if p is not pattern)
                return Pattern(pattern, self._sources.text, other_patterns)
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

    def _repr_html_(self) -> str:
        """The text and the drawing, for notebooks."""
        return text_html(f"{self}\n\n{self.draw()}")

    def bind(self, **values: object) -> PatternSet:
        """Give parameters their values; a name goes to every pattern of the set that declares it."""
        return PatternSet(ast.PatternFile(self._bound(values)), self._sources.text)

    def _bound(self, values: Mapping[str, object]) -> tuple[ast.PatternDefinition, ...]:
        declared = {p.name for pattern in self._tree.patterns for p in pattern.parameters}
        for name in values:
            if name not in declared:
                raise BindingError(
                    f"Unknown parameter :{name}.",
                    nearest=nearest(name, declared),
                    hint=f"Available: {', '.join(sorted(declared)) or 'none'}.",
                )
        return tuple(
            bind(pattern, {p.name: values[p.name] for p in pattern.parameters if p.name in values})
            for pattern in self._tree.patterns
        )

    def check(
        self, schema: EventSchema | Mapping[str, str | Type | Mapping[str, str | Type]] | None = None
    ) -> PatternSet:
        """Check names and types, against a schema if one is given; raises the first error, returns the set itself.

        ``schema`` is the result of :func:`perseid.schema`, or a dict in the form that this function accepts. Without a
        schema, likely mistakes are warnings. A search that can explode is a warning as well.
        """
        declared = schema if schema is None or isinstance(schema, EventSchema) else make_schema(schema)
        cores = self._sources.locate(
            lambda: check(ast.PatternFile((*self._tree.patterns, *self._sources.producers)), declared)
        )
        for doubt in () if declared else (doubt for pattern in self._tree.patterns for doubt in slips(pattern)):
            warn(doubt)
        plan = self._sources.locate(lambda: compile_set(cores))
        for risk in search_risks(replace(plan, patterns=tuple(p for p in plan.patterns if p.name in self.names))):
            warn(risk)
        return self

    def plan(self) -> Plan:
        """The compiled plan of the set."""
        return self._sources.locate(lambda: compile_set(self._sources.resolve()))

    def explain(self, stream: object = None) -> str:
        """An explanation of each pattern and of the cost of running it.

        With a declared ``stream`` it includes the execution over this stream: the predicates that Spark evaluates, the
        columns that are transferred to Python, the rows that are filtered. Nothing runs.
        """
        if stream is not None:
            stream = declare(stream)
            return DisplayedText(kind_of(stream).explain(self._sources, stream))
        all_patterns = ast.PatternFile((*self._tree.patterns, *self._sources.feeding()))
        plan = self._sources.locate(lambda: compile_set(check(all_patterns)))
        return DisplayedText("\n".join([*meanings(self._sources, plan), *explain_trees(self._sources)]))

    @check_keywords
    def draw(
        self,
        format: Format = "text",
        *,
        stream: object = None,
        relations: Relations | None = None,
        key: object = None,
        truth: str | None = None,
    ) -> str:
        """The automata as ``text``, ``mermaid``, ``dot`` or ``svg``: first of the patterns, then of tree patterns.

        With an uncertain ``stream`` (:func:`uncertain_events`) it draws the distribution of one key at each step with the probabilities
        of the patterns: as ``text``, or as ``svg``, a strip of small floor plans. ``key`` selects one of several keys, and
        ``truth`` names the column with the true value.
        """
        if stream is not None:
            options = DrawOptions(format, by_name(relations), key, truth)
            return DisplayedText(kind_of(stream).draw(self._sources, stream, options))
        cores = self._sources.locate(lambda: check(self._tree))
        trees = [draw_tree(tree, format, title) for title, tree in trees_of(self._sources).items()]
        return DisplayedText("\n".join([*(draw(core, format) for core in cores), *trees]))

    @overload
    def match(  # type: ignore[overload-overlap]  # a DataFrame is an object, too: rows are all that are none
        self,
        stream: StreamDeclaration[object, SparkData] | SparkData,
        *,
        relations: Relations | None = None,
        emit: OutputPolicy | None = None,
        observation: Observation | None = None,
        rejected: bool | str = False,
        checkpoint: str | None = None,
    ) -> Frame: ...

    @overload
    def match(  # type: ignore[overload-overlap]  # a declaration is an object, too: rows are all that are none
        self,
        stream: StreamDeclaration[LocalResult],
        *,
        relations: Relations | None = None,
        horizon: dt.datetime | None = None,
        emit: OutputPolicy | None = None,
    ) -> LocalResult: ...

    @overload
    def match(
        self, stream: object, *, relations: Relations | None = None, horizon: dt.datetime | None = None
    ) -> Matches: ...

    @check_keywords
    def match(
        self,
        stream: object,
        *,
        relations: Relations | None = None,
        horizon: dt.datetime | None = None,
        emit: OutputPolicy | None = None,
        observation: Observation | None = None,
        rejected: bool | str = False,
        checkpoint: str | None = None,
    ) -> object:
        """Find all matches: in local rows at once, in Spark DataFrames as a DataFrame, batch or streaming.

        ``stream`` comes from :func:`events` or another declaration, ``p.match(ps.events(rows, time="timestamp"))``.
        Rows and DataFrames without a declaration must have the default column names, ``ts`` and ``type``.
        ``relations`` are the tables of ``in Name``. For an uncertain stream (:func:`uncertain_events`) results are
        probabilities: for each group and step the probability that the pattern is completed. ``emit`` is their output
        policy, such as :func:`perseid.uncertain.above`.

        Over local rows the result is :class:`perseid.types.Matches` or :class:`perseid.uncertain.UncertainMatches`. With a
        ``horizon`` only matches that are final at that time are returned, as on a stream that is complete up to it.

        Over a DataFrame the result is a DataFrame that is computed by its actions; it is streaming if an input is. Counters
        (events, bad rows, suppressed matches, …) go to an ``Observation`` if one is given; for a stream
        :func:`perseid.progress` has them. With ``rejected`` the late and bad rows of a stream, and those beyond
        ``max_ahead``, are rows of the output, of the kind ``late``, ``bad`` and ``ahead``, with the ``reason`` as a sentence
        and all their columns as JSON in ``row``. With ``"bad"`` only bad rows have all columns, and ``row`` of late ones has
        the ``id`` columns, which costs far less on a stream. With the ``checkpoint`` that a stream resumes from, its state is
        validated now: an incompatible declaration is an error before the first batch.
        """
        stream = declare(stream)
        kind = kind_of(stream)
        require_probabilities(kind, emit)
        tables = by_name(relations)
        if kind.is_on_spark(stream):
            if horizon is not None:
                raise UnsupportedError(
                    "horizon= (a fixed watermark) is unsupported on Spark DataFrames.",
                    hint="Remove the rows after it instead.",
                )
            options = SparkMatchOptions(tables, observation, rejected, checkpoint, emit)
            return kind.match_on_spark(self._sources, stream, options)
        require_no_spark_options(observation=observation, rejected=rejected, checkpoint=checkpoint)
        until = None if horizon is None else microseconds(horizon, "horizon=")
        return kind.match(self._sources, stream, MatchOptions(tables, until, emit))

    detect = deprecated_method("detect", match)

    @check_keywords
    def count(self, stream: object, *, relations: Relations | None = None) -> list[Counts]:
        """The exact number of matches of each pattern, in total and by key.

        A chain of ``->>`` is counted without materializing its matches, which may not fit in memory.
        """
        stream = declare(stream)
        return kind_of(stream).count(self._sources, stream, by_name(relations))

    @check_keywords
    def why_not(
        self, stream: object, *, key: object = None, relations: Relations | None = None, shown: int = 3
    ) -> WhyNot:
        """The progress of partial matches and the reason why each ended: for an expected match that was not found.

        ``stream`` is finite and declared as for :meth:`match`. ``key`` selects one partition by the value,
        the tuple or the dict of the columns of ``partition by``; without it the result covers all partitions. Print
        the result; ``shown`` partial matches are shown in detail.
        """
        if len(self) != 1:
            raise UnsupportedError(
                "why_not requires one pattern, and this set has several.",
                hint=f"Use patterns[{self.names[0]!r}].why_not(…).",
            )
        stream = declare(stream)
        return kind_of(stream).why_not(self._sources, stream, WhyNotOptions(key, by_name(relations), shown))


class Pattern(PatternSet):
    """One pattern, with the methods of :class:`PatternSet`."""

    def __init__(
        self, tree: ast.PatternDefinition, source: str | None = None, producers: tuple[ast.PatternDefinition, ...] = ()
    ) -> None:
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
        return Pattern(self._bound(values)[0], self._sources.text, self._sources.producers)

    def __str__(self) -> str:
        return print_pattern(self._pattern)

    def __repr__(self) -> str:
        return f"<pattern {self.name}>"


def pattern(source: str | PatternBuilder | ast.PatternDefinition) -> Pattern:
    """A pattern from its text, or from the builder (:mod:`perseid.builder`)."""
    if isinstance(source, PatternBuilder):
        source = source.build()
    if isinstance(source, ast.PatternDefinition):
        return Pattern(source, print_pattern(source))
    _refuse_path(source)
    return Pattern(parse_pattern(source), source)


PatternLike: TypeAlias = str | PatternSet | PatternBuilder | ast.PatternDefinition | Metamodel
"""A pattern, or a source of patterns."""


def explode_evidence(matches: Frame) -> Frame:
    """One row for each contributing event of a DataFrame of matches of patterns that return ``evidence``."""
    from perseid.spark.evidence import explode_evidence as explode

    return explode(matches)


def counters(observation: Observation) -> dict[str, int]:
    """The counters of a batch, from the ``Observation`` given to ``match``, after an action on its DataFrame.

    In addition to the names in the guide, there is ``events of T`` for each event type T that a step names. Warns with
    :class:`InputWarning` if a pattern has no match because no row of a type that it requires reached it, or if every
    counted row is bad.
    """
    from perseid.spark.input_counts import read_observation

    return read_observation(observation)


def progress(query: StreamingQuery, pattern: str | None = None) -> Progress:
    """The counters of a running or ended stream of matches: rows read, filtered, late and bad, matches, state.

    If a query combines the output of several calls of ``match``, ``pattern`` selects one call: pass one of its patterns.
    Print the result.
    Warns with :class:`InputWarning` as :func:`counters` does. It warns about absent types only if Spark still has the
    progress of every batch, there is no match so far, and no event is in state.
    """
    from perseid.spark.progress import progress as read

    return read(query, pattern)


def inspect_state(session: SparkSession, checkpoint: str = "") -> Inspection:
    """The state of a stream in its checkpoint: the number of events by key, and the open partial matches.

    Print the result; ``busiest`` has the keys with the most events.
    """
    if not checkpoint or isinstance(session, str):
        raise BindingError(
            "inspect_state requires a Spark session and the path of a checkpoint.",
            hint="Use ps.inspect_state(spark, 'path/of/the/checkpoint').",
        )
    from perseid.spark.inspection import inspect as read

    return read(session, checkpoint)


def patterns(*given: PatternLike | Iterable[PatternLike]) -> PatternSet:
    """All patterns of a text; or of several texts, patterns, sets and builders, one by one or in a list, as one set."""
    parts = [part for one in given for part in _one_by_one(one)]
    text = "\n".join(map(_text_of, parts))
    tree = parse_file(text)
    by_name = {p.name: p for p in tree.patterns}
    producers: list[ast.PatternDefinition] = []
    for producer in (p for part in parts if isinstance(part, PatternSet) for p in part.sources.feeding()):
        if producer.name not in by_name:
            producers.append(producer)
        if by_name.setdefault(producer.name, producer) != producer:
            raise SemanticError(
                f"Two patterns are named {producer.name!r}, and one of them feeds another pattern.",
                hint="Rename one of them.",
            )
    return PatternSet(tree, text, tuple(producers))


def _one_by_one(pattern: PatternLike | Iterable[PatternLike]) -> Iterable[PatternLike]:
    single = isinstance(pattern, str | PatternSet | PatternBuilder | Metamodel) or not isinstance(pattern, Iterable)
    return [pattern] if single else pattern  # type: ignore[list-item, return-value]


def _text_of(pattern: PatternLike) -> str:
    match pattern:
        case Metamodel():
            return print_file(ast.PatternFile(pattern.patterns))
        case PatternSet():
            return str(pattern)
        case PatternBuilder():
            return print_pattern(pattern.build())
        case ast.PatternDefinition():
            return print_pattern(pattern)
    _refuse_path(pattern)
    if not isinstance(pattern, str):
        raise PatternSyntaxError(f"A pattern: expected a string, got {type(pattern).__name__}.")
    return pattern


def _refuse_path(pattern: object) -> None:
    """Raise if the name of a file is given as a pattern."""
    if isinstance(pattern, Path) or (isinstance(pattern, str) and re.fullmatch(r"\s*\S+\.perseid\s*", pattern)):
        raise PatternSyntaxError(
            f"Expected the text of a pattern, got the name of a file: {str(pattern).strip()}.",
            hint="Use ps.load(path) to read a file.",
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
