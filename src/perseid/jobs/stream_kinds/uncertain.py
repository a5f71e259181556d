"""``kind: uncertain``: uncertain events, as distributions or as readings with a hidden Markov model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal, cast

from pydantic import Field, model_validator

from perseid.api.arguments import Relations
from perseid.api.patterns import PatternSet
from perseid.api.uncertain_events import uncertain_events
from perseid.deprecated import RENAMED_JOB_KEYS
from perseid.engines.uncertain import output_policies
from perseid.engines.uncertain.output_policies import OutputPolicy
from perseid.engines.uncertain.results import UncertainMatches
from perseid.engines.uncertain.stream import UncertainEvents
from perseid.engines.uncertain.streams import Sampling
from perseid.jobs.stream_kinds.additional_events import StreamWithAdditionalEvents
from perseid.jobs.stream_kinds.contract import (
    JobQueryOptions,
    Names,
    Row,
    SourceOf,
    Table,
    Tables,
    require_time,
)
from perseid.jobs.stream_kinds.events import EventStream
from perseid.semantics.hidden import HiddenMarkov, Value, floor_plan, hidden_markov
from perseid.settings import Duration, Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class FloorPlan(Settings):
    """Rooms and doors: the hidden value stays, or moves to any neighbor with equal probability."""

    doors: list[tuple[str, str]] = Field(min_length=1)
    """Pairs of rooms with a door between them."""
    stay: float = Field(default=0.8, ge=0, le=1)
    """The probability to stay."""


class HiddenModel(Settings):
    """Hidden Markov model that produces the readings."""

    floor_plan: FloorPlan | None = None
    """Rooms and doors, instead of transitions."""
    transitions: dict[str, dict[str, float]] | None = None
    """The probability of each next value, by value."""
    initial: dict[str, float] | None = None
    """The initial distribution; by default all values are equally probable."""
    readings: dict[str, dict[str | None, float]] | None = None
    """The probability of each reading, by value; an empty text is no reading."""

    @model_validator(mode="after")
    def _check_one(self) -> HiddenModel:
        if (self.floor_plan is None) == (self.transitions is None):
            raise ValueError("expected exactly one of floor_plan: {doors: […]} and transitions: {…}")
        return self

    def create(self) -> HiddenMarkov:
        """Create the model."""
        if self.floor_plan is not None:
            transitions = floor_plan(self.floor_plan.doors, self.floor_plan.stay)
        else:
            transitions = cast("dict[Value, dict[Value, float]]", self.transitions)
        readings = self.readings and {
            value: {(name or None): chance for name, chance in row.items()} for value, row in self.readings.items()
        }
        return hidden_markov(
            transitions=transitions,
            initial=cast("dict[Value, float] | None", self.initial),
            readings=cast("dict[Value, dict[Value, float]] | None", readings),
        )


class AlertSettings(Settings):
    """Emit when a probability rises to a bound, and not again until it has fallen."""

    rise: float = Field(ge=0, le=1)
    """Emit when the probability rises to this."""
    fall: float | None = Field(default=None, gt=0, le=1)
    """Do not emit again until the probability has been below this."""


class OutputSettings(Settings):
    """Output policy of an uncertain stream."""

    above: float | None = Field(default=None, ge=0, le=1)
    """Emit steps with a probability above this."""
    alerts: AlertSettings | None = None
    """Emit once when the probability rises to a bound."""
    spans: float | None = Field(default=None, gt=0, le=1)
    """Emit spans of time in which the probability is at least this."""
    expected: float | None = Field(default=None, ge=0)
    """Also emit the expected number of matches, for steps at which it is above this."""

    @model_validator(mode="after")
    def _check_one(self) -> OutputSettings:
        if sum(getattr(self, name) is not None for name in ("above", "alerts", "spans", "expected")) != 1:
            raise ValueError("expected exactly one of above, alerts, spans and expected")
        return self

    def create(self) -> OutputPolicy:
        """Create the output policy."""
        if self.above is not None:
            return output_policies.above(self.above)
        if self.alerts is not None:
            return output_policies.alerts(self.alerts.rise, self.alerts.fall)
        if self.spans is not None:
            return output_policies.spans(self.spans)
        return output_policies.expected(cast("float", self.expected))


class UncertainStream(StreamWithAdditionalEvents):
    """Uncertain events: distributions, or readings with a model; each match has a probability."""

    supports_dead_letters: ClassVar[bool] = False
    renamed_keys: ClassVar[Mapping[str, str]] = RENAMED_JOB_KEYS["uncertain"]

    kind: Literal["uncertain"]
    """The kind of stream."""
    source: SourceOf
    """The source of the rows."""
    lateness: Duration
    """The maximum lateness of a record: the delay of the watermark."""
    event_type: str
    """The event type that steps of patterns name."""
    key: Names = Field(default_factory=list)
    """The key columns."""
    value: Names
    """The columns that are uncertain."""
    probability: str | None = None
    """The column with the probability of each value."""
    previous: Names | None = None
    """The columns with the value before."""
    reading: str | None = None
    """The column with the reading, null for none."""
    likelihood: str | None = None
    """Instead of ``reading``: the column with the probability of the reading under each value."""
    model: HiddenModel | None = None
    """The model that produces the readings."""
    inference: str = "filter"
    """The inference over readings: filter, lag(5), smooth, viterbi, likeliest or particles(1000)."""
    correlated: bool = True
    """A step depends on the step before; false: steps are independent."""
    reading_timeout: Duration | None = None
    """The time for which a missing reading counts as a reading."""
    time: str = "ts"
    """The column with the time."""
    every: Duration | None = None
    """The length of a step; without it, each distinct time is one."""
    method: Literal["auto", "sample"] = "auto"
    """``sample``: sample possible worlds even where exact inference is possible."""
    epsilon: float = Field(default=0.1, gt=0, lt=1)
    """The maximum error of a sampled probability."""
    delta: float = Field(default=0.1, gt=0, lt=1)
    """The probability that the error is larger."""
    seed: int = 0
    """The seed of sampling."""
    prune: float = Field(default=0.0, ge=0, lt=1)
    """Drop states of a pattern whose probability is below this."""
    emit: OutputSettings | None = None
    """The output policy; by default every step is emitted."""
    events: list[EventStream] = Field(default_factory=list)
    """Additional streams of certain events."""

    def additional_streams(self) -> list[tuple[str, EventStream]]:
        return [(f"events[{number}].", one) for number, one in enumerate(self.events)]

    def declare(self, tables: Tables | Table) -> UncertainEvents:
        opened = self.require_tables(tables)
        declared = uncertain_events(
            require_time(opened["source"], self.time, "source"),
            event_type=self.event_type,
            key=self.key,
            value=self.value,
            probability=self.probability,
            previous=self.previous,
            reading=self.reading,
            likelihood=self.likelihood,
            model=None if self.model is None else self.model.create(),
            inference=self.inference,
            correlated=self.correlated,
            reading_timeout=self.reading_timeout,
            time=self.time,
            every=self.every,
            sampling=Sampling(self.epsilon, self.delta, self.seed, self.method == "sample"),
            prune=self.prune,
            lateness=self.lateness,
            max_ahead=self.max_ahead_or_none,
            options=self.stream_options(),
        )
        additional = [one.declare_at(prefix, opened) for prefix, one in self.additional_streams()]
        return declared.combine(*additional) if additional else declared

    def output_policy(self) -> OutputPolicy | None:
        """The output policy; None for the default."""
        return None if self.emit is None else self.emit.create()

    def explain(self, rules: PatternSet) -> str:
        return rules.explain(self.declare(self.empty_tables()))

    def match(self, tables: Tables | Table, rules: PatternSet, relations: Relations) -> list[Row]:
        found: UncertainMatches = rules.match(self.declare(tables), relations=relations, emit=self.output_policy())
        return found.to_dicts()

    def match_on_spark(self, tables: Tables, rules: PatternSet, options: JobQueryOptions) -> DataFrame:
        found: DataFrame = rules.match(
            self.declare(tables),
            relations=options.relations or None,
            checkpoint=options.checkpoint,
            emit=self.output_policy(),
        )
        return found
