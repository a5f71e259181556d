"""Contract of a kind of stream: its settings under ``stream:`` of a job file, and the methods of jobs and commands.

A kind of :mod:`perseid.api.stream_kinds.registry` names its subclass of :class:`StreamSettings` in ``job_settings``.
Jobs and commands call the methods below; they never test the kind of a stream. A kind of streams that take patterns, as
``ps.events`` does, implements ``sources_by_path``, ``time_columns`` and ``declare``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeAlias, TypeVar, cast

from pydantic import AwareDatetime, BeforeValidator, Field

from perseid.api.arguments import Relations
from perseid.api.patterns import PatternSet
from perseid.api.stream_options import StreamOptions
from perseid.api.streams import MAX_AHEAD_US
from perseid.engines.sequence.results import Matches
from perseid.errors import PerseidError, SettingsError, UnsupportedError, is_internal, missing_column
from perseid.jobs.choices import ByKey
from perseid.jobs.rules import read_patterns
from perseid.lang.ast import PatternFile
from perseid.semantics.durations import micros_of
from perseid.semantics.types import EventSchema
from perseid.settings import Duration, Settings
from perseid.sources import kinds
from perseid.sources.contract import Source
from perseid.tables.rows import is_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from perseid.runtime.declaration import StreamDeclaration

T = TypeVar("T")
Table: TypeAlias = Any
"""Rows of one source. Any: a Spark DataFrame, or any table that ``ps.events`` accepts."""
Tables: TypeAlias = Mapping[str, Table]
"""Tables by the path of their source below ``stream:``, as :meth:`StreamSettings.sources_by_path` has it."""
Row: TypeAlias = dict[str, object]
LocalResult: TypeAlias = Matches | list[Row] | str
"""Result of a run without Spark: matches, other output rows, or a text to print."""

SourceOf = Annotated[Source, ByKey(lambda: kinds.SOURCES, "source")]
Names = str | list[str]
"""A column, or several."""
UNBOUNDED = "none"
"""The value of ``max_ahead`` for no bound."""
NO_PATTERNS = PatternSet(PatternFile(()))
"""Empty set of patterns, for kinds of streams that do not evaluate patterns."""


def _max_ahead(value: object) -> object:
    if value == UNBOUNDED:
        return value
    expected = "expected the maximum time by which a record may be ahead of its arrival, such as 1 hour, or none"
    if not isinstance(value, str):
        raise ValueError(expected)
    try:
        micros = micros_of(value, "max_ahead")
    except PerseidError as error:
        raise ValueError(f"{error.message} Use a duration such as 1 hour, or none") from None
    if micros is None or not 0 < micros <= MAX_AHEAD_US:
        raise ValueError(f"{expected}; a duration is above zero and at most 10,000 days")
    return value


MaxAhead = Annotated[str, BeforeValidator(_max_ahead), Field(examples=["1 hour", UNBOUNDED])]


class History(Settings):
    """Historical records, and the time from which records come from the live source instead."""

    source: SourceOf
    """The historical records: files with the columns of the live source."""
    until: AwareDatetime
    """Records before this time come from here, all others from the live source."""


@dataclass(frozen=True)
class JobQueryOptions:
    """Options of a query on Spark."""

    relations: Relations = field(default_factory=dict)
    checkpoint: str | None = None
    """The checkpoint that the query resumes from; None for finished tables."""
    rejected: bool = False
    """Output late and bad rows and rows too far ahead, too, with all their columns."""


class StreamSettings(Settings):
    """Settings that every kind of stream has, and the methods that jobs and commands call."""

    requires_patterns: ClassVar[bool] = True
    """False if a job file may leave out ``patterns``."""
    supports_dead_letters: ClassVar[bool] = True
    """False if rejected rows are counted and never output."""
    reloads_rules: ClassVar[bool] = True
    """False if the query itself follows changes of its rules."""

    lateness: Duration | None = None
    """The maximum lateness of a record: the delay of the watermark. Later records are rejected as late."""
    max_ahead: MaxAhead = "1 hour"
    """The limit on how far the time of a record may be after its arrival, the start of its batch; none: no limit.

    Records further ahead are rejected before they move the watermark.
    """
    idle: Duration | None = None
    """After the source is idle for this long, time advances by the clock."""
    shards: int = Field(default=16, ge=1, le=4096)
    """Number of states that keys are spread over."""
    max_state: int = Field(default=1 << 28, ge=1 << 16)
    """Maximum size of one state, in bytes."""

    @abstractmethod
    def sources_by_path(self) -> dict[str, Source]:
        """Sources by their path below ``stream:``: ``source``, ``sources.Login``, ``events[0].source``."""

    @abstractmethod
    def time_columns(self) -> dict[str, str]:
        """Time column of each source, by path."""

    @abstractmethod
    def declare(self, tables: Tables | Table) -> object:
        """Declare the stream over the opened tables of its sources, or over the only table.

        Tables are streaming or batch DataFrames, or tables of this process.
        """

    @property
    def max_ahead_us(self) -> int | None:
        """``max_ahead`` in microseconds; None for no bound."""
        return micros_of(self.max_ahead_or_none, "max_ahead")

    @property
    def max_ahead_or_none(self) -> str | None:
        """``max_ahead`` as declarations take it."""
        return None if self.max_ahead == UNBOUNDED else self.max_ahead

    def stream_options(self) -> StreamOptions:
        """The options of the declared stream; :meth:`search_limits` are ``max_steps`` and ``max_matches``, if it has them."""
        limits = dict(zip(("max_steps", "max_matches"), self.search_limits(), strict=False))
        return StreamOptions(idle=self.idle, shards=self.shards, max_state=self.max_state, **limits)

    def max_ahead_bounds(self) -> dict[str, int | None]:
        """``max_ahead`` of each source in microseconds, by path."""
        return dict.fromkeys(self.sources_by_path(), self.max_ahead_us)

    def backfill_source(self) -> History | None:
        """Historical records that the job can read first."""
        return None

    def without_watermark(self) -> Self:
        """Return these settings for tables that have their watermark already."""
        return self.model_copy(update={"lateness": None, "max_ahead": UNBOUNDED})

    def search_limits(self) -> tuple[int, ...]:
        """Limits of a search. A quarantined pattern runs again when they change."""
        return ()

    # Rules

    @property
    def evaluates_patterns(self) -> bool:
        """True if the job evaluates patterns; otherwise the kind has its own queries, and ``rules`` below is empty."""
        return True

    def check_patterns_setting(self, has_patterns: bool) -> None:
        """Raise a ValueError if ``patterns`` is missing from a job file or must not be in it."""
        if self.requires_patterns and not has_patterns:
            raise ValueError("missing patterns; add patterns: rules/")

    def rule_texts(self) -> dict[str, str]:
        """Read the rule texts that these settings name, by name; ``patterns`` of the job file come in addition."""
        return {}

    def with_rule_texts(self, texts: Mapping[str, str]) -> Self:
        """Return these settings with the given texts in place of those that :meth:`rule_texts` reads."""
        return self

    def parse_patterns(self, texts: Mapping[str, str]) -> PatternSet:
        """Parse the patterns of all rule texts, with their parameters unbound."""
        return require_patterns(read_patterns(texts))

    # Commands

    def event_schema(self) -> EventSchema | None:
        """Columns of the events, if the sources declare them all."""
        return None

    def check_settings(self) -> None:
        """Raise a :class:`SettingsError` for settings that contradict each other; nothing is opened."""
        try:
            self.declare(self.empty_tables())
        except SettingsError:
            raise
        except PerseidError as error:
            raise SettingsError(f"stream: {error}") from None

    def check(self, rules: PatternSet) -> None:
        """Check the rules against the settings; nothing is opened."""
        rules.check(self.event_schema())

    def explain_output(self) -> str | None:
        """Explain when matches are emitted, in one line; None if the explanation of the rules includes it."""
        return None

    def explain(self, rules: PatternSet) -> str:
        """Explain the rules over this stream."""
        return rules.explain()

    def rows_by_source(self, rows: Iterable[Row]) -> dict[str, list[Row]]:
        """Assign the rows of one file to the sources, by path."""
        if list(self.sources_by_path()) != ["source"]:
            raise UnsupportedError(
                "This job reads several sources; the rows of one file cannot be assigned to them.",
                hint="Run its patterns in Python: read_job(FILE).stream.declare takes a table for each source.",
            )
        return {"source": list(rows)}

    # Queries

    def match(self, tables: Tables | Table, rules: PatternSet, relations: Relations) -> LocalResult:
        """Run the rules over tables of this process."""
        found: Matches = rules.match(self.declare(tables), relations=relations)
        return found

    def match_on_spark(self, tables: Tables, rules: PatternSet, options: JobQueryOptions) -> DataFrame:
        """Return the output DataFrame of the rules over DataFrames."""
        declared = cast("StreamDeclaration[object, DataFrame]", self.declare(tables))
        found: DataFrame = rules.match(
            declared,
            relations=options.relations or None,
            checkpoint=options.checkpoint,
            rejected=options.rejected,
        )
        return found

    # For subclasses

    def empty_tables(self) -> dict[str, list[Row]]:
        """An empty table for each source: settings can be checked without opening anything."""
        return {path: [] for path in self.sources_by_path()}

    def require_tables(self, tables: Tables | Table) -> dict[str, Table]:
        """Return the table of each source by path; raises if one is missing."""
        opened = dict(tables) if isinstance(tables, Mapping) else {"source": tables}
        missing = [path for path in self.sources_by_path() if path not in opened]
        if missing:
            raise SettingsError(f"Missing table for {missing[0]}.", hint=f"Available: {', '.join(opened) or 'none'}.")
        return opened


def join_paths(by_path: Mapping[str, T], nested: Mapping[str, Mapping[str, T]]) -> dict[str, T]:
    """Combine values by path with those of nested streams; each nested path gets the prefix of its stream."""
    return {
        **by_path,
        **{
            f"{prefix}{path}": value
            for prefix, nested_values in nested.items()
            for path, value in nested_values.items()
        },
    }


def require_patterns(rules: PatternSet) -> PatternSet:
    """Return the patterns; raises if there are none."""
    if not len(rules):
        raise SettingsError("The job has no patterns.", hint="Add patterns: rules/")
    return rules


def require_time(table: Table, time: str, path: str) -> Table:
    """Return the table; raises if it is a DataFrame without the time column."""
    if is_spark(table) and time not in table.columns:
        available = [name for name in table.columns if not is_internal(name)]
        raise missing_column(f"stream.{path}", time, "time", available, "stream.time in the job file")
    return table
