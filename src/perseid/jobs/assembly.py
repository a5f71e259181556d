"""From a job's file to a job that runs: sources opened, the stream declared, rules asked of it, sinks in their order."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perseid.api import PatternSet
from perseid.declare import micros_of
from perseid.jobs.asking import (
    METAMODEL,
    bound,
    load_relations,
    load_subscriptions,
    patterns_of,
    texts_of,
    unused_values,
)
from perseid.jobs.eyes import Eyes
from perseid.jobs.folders import Folder
from perseid.jobs.history import Past, past_of
from perseid.jobs.ledger import OWN, Ledger
from perseid.jobs.limits import Caps
from perseid.jobs.quarantine import without_quarantined
from perseid.jobs.rules import Texts, keys_of, versions_of
from perseid.jobs.runner import Answers, Job
from perseid.jobs.spec import AVAILABLE_NOW, JobFile
from perseid.jobs.stream_spec import (
    AnyStream,
    BeliefStream,
    DocumentStream,
    EventStream,
    ModelStream,
    SubscriptionStream,
    Text,
    sources_of,
)
from perseid.jobs.streams import Words, declare, max_ahead_of, telling_of
from perseid.local.documents import Documents
from perseid.local.models import Models
from perseid.model_api import react
from perseid.settings import SettingsError, seconds_of
from perseid.sources.rules import Counts, StopRule
from perseid.spark.inputs import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VERSION = "version"
log = logging.getLogger("perseid.jobs")


@dataclass(frozen=True)
class JobTexts:
    """The rules of a job, read from where its file says, whenever they are asked for."""

    job: JobFile

    def read(self) -> Texts:
        relations = {name: _rows_as_text(name, rows) for name, rows in load_relations(self.job).items()}
        return Texts(texts_of(self.job), relations)


def _rows_as_text(name: str, rows: list[tuple[object, ...]]) -> str:
    """A relation as the ledger keeps it."""
    try:
        return json.dumps(rows, ensure_ascii=False)
    except (TypeError, ValueError):
        raise SettingsError(
            f"relations.{name}: a job keeps its relations as JSON, and a value in it has no such form.",
            hint="Use numbers, texts, true and false; write times as texts.",
        ) from None


class _Asked:
    """What is asked of the declared stream: by the rules of the moment."""

    def __init__(self, job: JobFile, frames: dict[str, DataFrame], from_history: bool = False) -> None:
        self._job = job
        stream = job.stream
        self._frames = frames
        self.past: Past | None = None
        if from_history:
            assert isinstance(stream, EventStream | DocumentStream)
            assert stream.history is not None
            assert isinstance(stream.time, str)
            assert stream.lateness is not None
            live = self._frames["source"]
            bound = micros_of(max_ahead_of(stream), "max_ahead")
            self.past = past_of(live, stream.history, stream.time, stream.lateness, job.checkpoint, bound)
            stream = stream.model_copy(update={"lateness": None})  # what is joined has its watermark already
        self._stream = stream
        streaming = any(frame.isStreaming for frame in frames.values())
        self._checkpoint: str | None = job.checkpoint if streaming else None
        """Looked at once, at the start; later it is in use."""
        self._unused: set[str] = set()
        """Parameters of the file's values that were logged as unused."""

    def answers(self, texts: Texts) -> Answers:
        checkpoint, self._checkpoint = self._checkpoint, None
        stream = self._stream
        if self.past is not None:
            self._frames["source"] = self.past.joined()
        if isinstance(stream, SubscriptionStream):
            return Answers(self._subscribed(stream, checkpoint), {})
        if isinstance(stream, ModelStream):
            stream = stream.model_copy(update={METAMODEL: Text(text=texts.patterns[METAMODEL])})
        declared = declare(stream, self._frames)
        if isinstance(stream, ModelStream) and stream.react:
            assert isinstance(declared, Models)
            return Answers(react(declared, checkpoint=checkpoint), {})
        rules = self._bound(patterns_of(texts.patterns))
        relations = {name: [tuple(row) for row in json.loads(text)] for name, text in texts.relations.items()}
        words: Words = {"relations": relations or None, "checkpoint": checkpoint}
        if self._job.dead_letters is not None:
            words["rejected"] = True  # else rows cross without what they hold, and are only counted
        if isinstance(stream, BeliefStream):
            words["tell"] = telling_of(stream)
        rules, excluded = without_quarantined(rules, texts.quarantined)
        versions = versions_of(rules)
        frame = _versioned(rules.detect(declared, **words), versions)
        return Answers(frame, versions, keys_of(rules, frame.columns), excluded)

    def _bound(self, rules: PatternSet) -> PatternSet:
        """The rules with the values of the job's file.

        Rules that change must not stop a job because the last one with a parameter is gone: an unused value is a warning.
        """
        unused = unused_values(rules, self._job.bind)
        for name, sentence in unused.items():
            if name not in self._unused:
                log.warning("%s", sentence)
        self._unused = set(unused)
        return bound(rules, {name: value for name, value in self._job.bind.items() if name not in unused})

    def _subscribed(self, stream: SubscriptionStream, checkpoint: str | None) -> DataFrame:
        declared = declare(stream, self._frames)
        assert isinstance(declared, Documents)
        asked = load_subscriptions(self._job)
        words: Words = {"expand": stream.expand, "results": stream.results, "shares": stream.shares}
        rejected = self._job.dead_letters is not None
        found: DataFrame = asked.detect(declared, rejected=rejected, checkpoint=checkpoint, **words)
        return found


def _versioned(frame: DataFrame, versions: Mapping[str, str]) -> DataFrame:
    """Every answer says which version of its pattern found it."""
    if VERSION in frame.columns:
        return frame  # a pattern returns a value of that name
    cases = " ".join(f"when {literal(name)} then {literal(version)}" for name, version in versions.items())
    return frame.selectExpr("*", f"case {quoted('pattern')} {cases} end as {VERSION}")


def _with_history(job: JobFile, wanted: bool) -> bool:
    """Whether history is part of the query: as it was when the checkpoint was begun."""
    begun = Ledger(job.checkpoint).has_history()
    declared = getattr(job.stream, "history", None) is not None
    if wanted and not declared:
        raise SettingsError(
            "The job's file says nothing of a history.",
            hint="Write it: stream.history: {source: {files: …}, until: …}.",
        )
    if wanted and begun is False:
        raise SettingsError(
            f"The checkpoint {job.checkpoint} was begun without history.", hint="Give the job a checkpoint of its own."
        )
    if begun and not declared:
        raise SettingsError(
            f"The checkpoint {job.checkpoint} was begun with history, and the job's file has none.",
            hint="Leave stream.history as it was.",
        )
    return wanted or bool(begun)


def assemble(job: JobFile, session: SparkSession, *, once: bool = False, from_history: bool = False) -> Job:
    """Everything a run needs. ``once``: read what is there and end, whatever the file says."""
    stream = job.stream
    if job.dead_letters is not None and isinstance(stream, BeliefStream | ModelStream):
        raise SettingsError(
            "dead_letters: of uncertain streams and models, records that cannot be read are counted and not told.",
            hint="Leave out dead_letters; the metrics have how many there are.",
        )
    frames = {place: source.open(session, streaming=True) for place, source in sources_of(stream).items()}
    asked = _Asked(job, frames, _with_history(job, from_history))
    now = once or job.trigger == AVAILABLE_NOW
    limits = job.limits
    caps = Caps(limits.per_batch, limits.per_pattern, limits.per_key, limits.policy)
    watched = not now and not isinstance(stream, SubscriptionStream)
    return Job(
        name=job.job,
        session=session,
        rules=JobTexts(job),
        answers=asked.answers,
        sinks=tuple(job.sinks),
        checkpoint=job.checkpoint,
        dead_letters=job.dead_letters,
        trigger={"availableNow": True} if now else {"processingTime": job.trigger},
        retry_for_s=seconds_of(job.retry_for),
        watched=watched,
        caps=caps,
        past=asked.past,
        stop_rule=_judge(limits.bad) if limits.bad is not None else lambda _read, _bad: None,
        late_rule=_judge(limits.late) if limits.late is not None else lambda _reached, _late: None,
        eyes=Eyes(job.job, Folder(job.checkpoint) / OWN, job.metrics.log),
        limits=_search_limits(stream),
    )


def _search_limits(stream: AnyStream) -> tuple[int, ...]:
    """The limits of a search that the file sets."""
    return (stream.max_steps, stream.max_matches) if isinstance(stream, EventStream | DocumentStream) else ()


def replayed(job: JobFile, frames: dict[str, DataFrame]) -> Answers:
    """What the rules of the moment find in finished tables, by the places of their sources; nothing is remembered."""
    told = job.model_copy(update={"dead_letters": None})
    return _Asked(told, frames).answers(JobTexts(job).read())


def _judge(rule: StopRule) -> Callable[[int, int], str | None]:
    """A stop rule over the batches of this run."""
    batches: list[Counts] = []

    def why(rows: int, counted: int) -> str | None:
        batches.append((rows, counted))
        batches[:] = rule.counted(batches)
        return rule.why_stop(batches)

    return why


def told(job: JobFile) -> list[str]:
    """What a job reads and where it writes, a line each."""
    lines = [f"reads {source.told()}" for source in sources_of(job.stream).values()]
    for sink in job.sinks:
        lines.append(f"writes {sink.told()}: {sink.guarantee}")
    if job.dead_letters is not None:
        lines.append(f"dead letters to {job.dead_letters.told()}: {job.dead_letters.guarantee}")
    return lines
