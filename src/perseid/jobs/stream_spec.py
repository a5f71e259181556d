"""The words of a job's stream, a class for each kind of stream: those of ``ps.events`` and the others, and a source."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AwareDatetime, BeforeValidator, Field, model_validator

from perseid.declare import MAX_AHEAD_US, micros_of
from perseid.engines.joins.plan import DEFAULT_SHARES
from perseid.errors import PerseidError
from perseid.jobs.choices import ByKey, ByWord
from perseid.runtime.search_budget import MAX_LIMIT, MAX_MATCHES, MAX_STEPS
from perseid.settings import Duration, Settings
from perseid.sources import kinds
from perseid.sources.contract import Source

SourceOf = Annotated[Source, ByKey(lambda: kinds.SOURCES, "source")]
Names = str | list[str]
"""A column, or several."""
POSITIONED = ("kafka",)
"""Sources whose positions are those of single records."""


class Text(Settings):
    """A text that stands in the job's file itself."""

    text: str = Field(min_length=1)
    """The text."""


class Adaptive(Settings):
    """Wait for as long as events are late, all but a share of them."""

    loss: float = Field(default=0.01, ge=0, lt=1)
    """The share of events that may be left out."""


class Conservative(Settings):
    """Tell what promises in the stream have made final."""

    promise: str = "promise"
    """The column that makes a row a promise: ``key`` about its key, ``all`` about every key, null for an event."""
    source: str | None = None
    """The column that says what a promise is about; without one, the type of event."""
    sources: list[str] = Field(default_factory=list)
    """Every source there is, by its value in that column."""


class Buffer(Settings):
    """Wait for the watermark."""


class Assemble(Settings):
    """Tell a match when it is complete and nothing to come can prove it wrong."""


class Early(Settings):
    """Tell a match when it is complete; take it back if it is proved wrong."""


class Aggressive(Settings):
    """Tell at once what holds; take it back when a late event proves it wrong."""


class Auto(Settings):
    """Assemble where that can be, else buffer."""


UNBOUNDED = "none"
"""The word for no bound on times ahead."""
STRATEGIES: dict[str, type[Settings]] = {
    "buffer": Buffer,
    "assemble": Assemble,
    "early": Early,
    "aggressive": Aggressive,
    "adaptive": Adaptive,
    "conservative": Conservative,
    "auto": Auto,
}
"""What is told of records out of order, by the word of ``ps.events(…, disorder=)``."""
DisorderOf = Annotated[Settings, ByKey(lambda: STRATEGIES, "strategy", bare=True)]


def _max_ahead(given: object) -> object:
    if given == UNBOUNDED:
        return given
    hint = "write how far a record's time may lie beyond its arrival, as 1 hour, or none"
    if not isinstance(given, str):
        raise ValueError(hint)
    try:
        micros = micros_of(given, "This")
    except PerseidError as error:
        raise ValueError(f"{error.message} Else {hint}") from None
    if micros is None or not 0 < micros <= MAX_AHEAD_US:
        raise ValueError(f"this is not above zero, or more than 10,000 days; {hint}")
    return given


MaxAhead = Annotated[str, BeforeValidator(_max_ahead), Field(examples=["1 hour", UNBOUNDED])]


class _Kept(Settings):
    """What is said of every stream: when it is complete, and what it may keep."""

    lateness: Duration | None = None
    """How late a record may be: the delay of the watermark. What comes later is told as late."""
    max_ahead: MaxAhead = "1 hour"
    """How far a record's time may lie beyond its arrival, the start of its batch: what lies further is rejected before it moves the watermark; none: no bound."""
    idle: Duration | None = None
    """After so much silence of the source, time goes on by the clock."""
    shards: int = Field(default=16, ge=1, le=4096)
    """How many states keys share."""
    max_state: int = Field(default=1 << 28, ge=1 << 16)
    """Bytes that one of them may have."""


class History(Settings):
    """Records of before, and from when on the live source is asked instead: each moment is read from one of them."""

    source: SourceOf
    """Where they are: files, with the columns of the live source."""
    until: AwareDatetime
    """Records before this moment come from here, those from it on from the live source."""


class _Rows(_Kept):
    """What is said of rows with a time, events and documents alike."""

    source: SourceOf | None = None
    """Where the rows come from."""
    sources: Annotated[dict[str, SourceOf], Field(min_length=1)] | None = None
    """In place of one source: several, by the type of their events."""
    history: History | None = None
    """What was before: read first by a job that is started with --from-history."""
    time: str | dict[str, str] = "ts"
    """The column with the time; for several sources it may be told for each type."""
    id: Literal["content", "position"] | list[str] | dict[str, Names] = "content"
    """What makes a record this one and no other: all its columns, its position in the topic, or the columns named."""
    order_by: Names | dict[str, Names] = Field(default_factory=list)
    """Columns that decide among records of one time."""
    strictly_later: bool = False
    """Demand that later steps have later times."""
    key: Names | dict[str, Names] = Field(default_factory=list)
    """Columns that partition the stream for patterns that do not say ``partition by``."""
    dedupe: bool = False
    """Records of equal time, key and identity are one."""
    order: Literal["watermark", "arrival"] = "watermark"
    """What time goes by: the watermark, or the order in which the records of a key arrive."""
    max_steps: int = Field(default=MAX_STEPS, ge=1, le=MAX_LIMIT)
    """Search steps that a pattern may take for one key in one batch, beside 2,500 for each event of the key."""
    max_matches: int = Field(default=MAX_MATCHES, ge=1, le=MAX_LIMIT)
    """Matches that a pattern may have for one key in one batch, beside 10 for each event of the key."""
    disorder: DisorderOf = Buffer()
    """What is told of records that arrive in the wrong order, before the watermark has made them final."""

    @model_validator(mode="after")
    def _fits(self) -> _Rows:
        if (self.source is None) == (self.sources is None):
            raise ValueError("say source: {…}, or sources: {Type: {…}, …} by event type, one of them")
        if self.lateness is None:
            # Also with order: arrival: absences end, and keys are forgotten, when the watermark has passed them.
            raise ValueError("nothing says how late a record may be; write lateness: 10 minutes")
        if self.order == "arrival" and not isinstance(self.disorder, Buffer):
            raise ValueError(
                "order: arrival trusts that records come in order, and disorder that they do not; leave one out"
            )
        if self.history is not None and (self.source is None or not isinstance(self.time, str)):
            raise ValueError("history is of one source; with sources by event type, leave it out")
        if self.history is not None and self.order == "arrival":
            raise ValueError(
                "order: arrival trusts the order of one source, and history is another; write lateness: instead"
            )
        by_type = [name for name in ("time", "id", "order_by", "key") if isinstance(getattr(self, name), dict)]
        if by_type and self.sources is None:
            raise ValueError(f"{by_type[0]} is told by event type, and there is one source; name columns alone")
        for name in by_type:
            unknown = next((one for one in getattr(self, name) if one not in (self.sources or {})), None)
            if unknown is not None:
                raise ValueError(f"{name} names the event type {unknown!r}, and sources has none of that name")
        if self.id == "position":
            opened = [self.source] if self.source is not None else list((self.sources or {}).values())
            known = [kinds.SOURCES[word] for word in POSITIONED if word in kinds.SOURCES]
            if not all(isinstance(one, tuple(known)) for one in opened):
                raise ValueError(
                    "positions tell records of Kafka apart; write id: content, or name columns: id: [order_no]"
                )
        return self


class EventStream(_Rows):
    """Events: rows with a time and a type, in order or out of it."""

    kind: Literal["events"] = "events"
    """What the stream is."""
    type: str = "type"
    """The column with the type of event, where there is one source."""


class DocumentStream(_Rows):
    """Documents: XML or JSON in a column, files by their paths, or rows themselves; steps may be tree patterns."""

    kind: Literal["documents"]
    """What the stream is."""
    body: str | None = None
    """The column with the document."""
    path: str | None = None
    """In place of it, the column with the path or URI of a document."""
    type: str | None = None
    """The column with the name that stands before ``<<`` in a step; without it every document is asked."""
    namespaces: dict[str, str] = Field(default_factory=dict)
    """What prefixes in tree patterns stand for."""
    trusted: bool = False
    """Leave out the proof that documents are well formed: for those that you wrote."""
    format: Literal["xml", "json", "row"] = "xml"
    """What documents are; ``row``: every row is one, with its columns as elements."""

    @model_validator(mode="after")
    def _placed(self) -> DocumentStream:
        by_type = next(
            (word for word in ("time", "id", "order_by", "key") if isinstance(getattr(self, word), dict)), None
        )
        if by_type is not None:
            raise ValueError(f"{by_type} is the same for all tables of documents; name columns alone")
        if self.format == "row" and (self.body or self.path):
            raise ValueError("with format: row a document is the row itself; leave out body and path")
        if self.format != "row" and (self.body is None) == (self.path is None):
            raise ValueError("documents have a body or a path; write body: and the column, or path: and the column")
        if self.format == "json" and self.path is not None:
            raise ValueError("JSON is read from a column; write body: and the column")
        if self.namespaces and self.format != "xml":
            raise ValueError("namespaces are of XML; leave them out, or leave out format")
        return self


class Subscriptions(Settings):
    """Who asks for which pairs of documents."""

    texts: dict[str, str] = Field(default_factory=dict)
    """Subscriptions in XSCL, by whose they are."""
    table: Path | None = None
    """In place of texts, the folder of a table of subscriptions that come and go while the job runs."""

    @model_validator(mode="after")
    def _one(self) -> Subscriptions:
        if bool(self.texts) == (self.table is not None):
            raise ValueError("say texts: {whose: …}, or table: FOLDER, one of them")
        return self


class SubscriptionStream(DocumentStream):
    """Documents of which very many subscriptions each ask for pairs."""

    kind: Literal["subscriptions"]  # type: ignore[assignment]
    """What the stream is."""
    subscriptions: Subscriptions
    """The subscriptions."""
    expand: bool = False
    """A row for each subscription, in place of a list of all that a pair is due to."""
    results: bool | None = None
    """Make the XML of SELECT: true always, false never; unless said, where a subscription has one."""
    shares: int = Field(default=DEFAULT_SHARES, ge=1, le=4096)
    """Into how many shares subscriptions are split: about as many as there are cores."""


class FloorPlan(Settings):
    """Rooms and doors: stay where one is, or go to any neighbour alike."""

    doors: list[tuple[str, str]] = Field(min_length=1)
    """Pairs of rooms with a door between them."""
    stay: float = Field(default=0.8, ge=0, le=1)
    """The probability to stay."""


class HiddenModel(Settings):
    """What is behind readings, a hidden Markov model."""

    floor_plan: FloorPlan | None = None
    """Rooms and doors, in place of transitions."""
    transitions: dict[str, dict[str, float]] | None = None
    """For each value, with which probability it goes on to which."""
    initial: dict[str, float] | None = None
    """What it is at the start; unless said, all values alike."""
    readings: dict[str, dict[str | None, float]] | None = None
    """For each value, what is read there with which probability; an empty text is no reading."""

    @model_validator(mode="after")
    def _one(self) -> HiddenModel:
        if (self.floor_plan is None) == (self.transitions is None):
            raise ValueError("say floor_plan: {doors: […]} or transitions: {…}, one of them")
        return self


class Alerts(Settings):
    """Tell when a probability rises, and not again until it has fallen."""

    rise: float = Field(ge=0, le=1)
    """Tell when it rises to this."""
    fall: float | None = Field(default=None, gt=0, le=1)
    """Do not tell again until it has been below this."""


class Tell(Settings):
    """Which answers of an uncertain stream are told."""

    above: float | None = Field(default=None, ge=0, le=1)
    """Steps with a probability above this."""
    alerts: Alerts | None = None
    """When it rises to a bound, once."""
    spans: float | None = Field(default=None, gt=0, le=1)
    """From when to when it was this or above."""
    expected: float | None = Field(default=None, ge=0)
    """Beside the probability, how many matches to expect; of steps with more than this."""

    @model_validator(mode="after")
    def _one(self) -> Tell:
        if sum(getattr(self, name) is not None for name in ("above", "alerts", "spans", "expected")) != 1:
            raise ValueError("say one of above, alerts, spans and expected")
        return self


class BeliefStream(_Kept):
    """An uncertain stream: distributions, or readings with a model; patterns are answered with a probability."""

    kind: Literal["beliefs"]
    """What the stream is."""
    source: SourceOf
    """Where the rows come from."""
    lateness: Duration
    """How late a record may be: the delay of the watermark."""
    event: str
    """What steps of patterns call its events."""
    of: Names = Field(default_factory=list)
    """The columns of its key: whose events they are."""
    about: Names
    """The columns that are uncertain."""
    p: str | None = None
    """The column with the probability of each value."""
    given: Names | None = None
    """The columns with what the value was before."""
    reading: str | None = None
    """The column with what was read, null for nothing."""
    likelihood: str | None = None
    """In place of it, the column with how probable each value makes what was read."""
    model: HiddenModel | None = None
    """What is behind readings."""
    inference: str = "filter"
    """What is made of readings: filter, lag(5), smooth, viterbi, likeliest or particles(1000)."""
    correlations: bool = True
    """Whether a step depends on the one before."""
    patience: Duration | None = None
    """For how long silence is a reading too."""
    time: str = "ts"
    """The column with the time."""
    every: Duration | None = None
    """How long a step is; without it every distinct time is one."""
    method: Literal["auto", "sample"] = "auto"
    """``sample``: draw worlds even where answers could be exact."""
    epsilon: float = Field(default=0.1, gt=0, lt=1)
    """By how much a sampled answer may be off."""
    delta: float = Field(default=0.1, gt=0, lt=1)
    """With which probability it may be off by more."""
    seed: int = 0
    """What decides which worlds are drawn."""
    prune: float = Field(default=0.0, ge=0, lt=1)
    """Leave out weights below this."""
    tell: Tell | None = None
    """Which answers are told; unless said, all."""
    beside: list[EventStream] = Field(default_factory=list)
    """Certain events beside it, each a stream of its own."""


class Columns(Settings):
    """Which columns of a row of changes mean what."""

    change: str = "change"
    """What is done: create, delete, set, link or unlink."""
    element: str = "element"
    """The node."""
    kind: str = "kind"
    """What kind of node or edge it is."""
    attribute: str = "attribute"
    """The attribute that is set."""
    value: str = "value"
    """What it is set to."""
    target: str = "target"
    """The node that an edge leads to."""


class ModelStream(_Kept):
    """Changes of live models: matches of graph queries found, updated and lost are the events."""

    kind: Literal["model"]
    """What the stream is."""
    source: SourceOf
    """Where the changes come from."""
    lateness: Duration
    """How late a change may be: the delay of the watermark."""
    metamodel: Path | Text
    """The file, or the text, of what models may contain, queries, patterns and rules."""
    time: str = "ts"
    """The column with the time."""
    key: Names = Field(default_factory=list)
    """The columns that tell models apart."""
    order_by: Names = Field(default_factory=list)
    """The order of changes within a transaction."""
    columns: Columns = Columns()
    """Which columns of a change mean what."""
    observe: Names = Field(default_factory=list)
    """Queries whose matches are told though no pattern names them."""
    react: bool = False
    """Let the rules of the text act; what they did is what the job tells."""
    beside: EventStream | None = None
    """Ordinary events beside the model."""


STREAMS: dict[str, type[Settings]] = {
    "events": EventStream,
    "documents": DocumentStream,
    "subscriptions": SubscriptionStream,
    "beliefs": BeliefStream,
    "model": ModelStream,
}
"""The kinds of streams, by the word that names them."""
AnyStream = EventStream | DocumentStream | SubscriptionStream | BeliefStream | ModelStream
StreamOf = Annotated[AnyStream, ByWord(lambda: STREAMS, "stream")]


def sources_of(stream: AnyStream) -> dict[str, Source]:
    """Every source of a stream, by where it stands in it: ``source``, ``sources.Login``, ``beside[0].source``."""
    found: dict[str, Source] = {}
    if stream.source is not None:
        found["source"] = stream.source
    if isinstance(stream, EventStream | DocumentStream):
        found |= {f"sources.{name}": one for name, one in (stream.sources or {}).items()}
    elif isinstance(stream, BeliefStream):
        for number, other in enumerate(stream.beside):
            found |= {f"beside[{number}].{place}": one for place, one in sources_of(other).items()}
    elif stream.beside is not None:
        found |= {f"beside.{place}": one for place, one in sources_of(stream.beside).items()}
    return found
