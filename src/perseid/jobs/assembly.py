"""Assemble a runnable job from its file: open sources, declare the stream, compile rules, configure sinks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from perseid.api.patterns import PatternSet
from perseid.errors import SettingsError
from perseid.jobs.backfill import Backfill, create_backfill
from perseid.jobs.batch_log import JOB_FOLDER, BatchLog
from perseid.jobs.folders import Folder
from perseid.jobs.job_plan import JobPlan, RuleOutput
from perseid.jobs.limits import Caps
from perseid.jobs.metrics import JobMetrics
from perseid.jobs.quarantine import without_quarantined
from perseid.jobs.rule_loading import JobTexts, bind_values, decode_relations, unused_values
from perseid.jobs.rules import RuleTexts, key_columns, versions_of
from perseid.jobs.spec import AVAILABLE_NOW, JobFile
from perseid.jobs.stream_kinds.contract import NO_PATTERNS, JobQueryOptions
from perseid.settings import seconds_of
from perseid.sources.rules import Counts, StopRule
from perseid.spark.inputs import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VERSION = "version"
log = logging.getLogger("perseid.jobs")


class QueryBuilder:
    """Builds the output DataFrame of a job for any version of its rules, over tables that are opened once."""

    def __init__(self, job: JobFile, frames: dict[str, DataFrame], with_backfill: bool = False) -> None:
        self._job, self._frames = job, frames
        self._stream = job.stream
        self.backfill: Backfill | None = None
        if with_backfill:
            self.backfill = create_backfill(frames["source"], self._stream, job.checkpoint)
            self._stream = self._stream.without_watermark()  # the union of both sources has its watermark already
        streaming = any(frame.isStreaming for frame in frames.values())
        self._checkpoint: str | None = job.checkpoint if streaming else None
        """Validated with the first query only; afterwards the checkpoint is in use."""
        self._unused: set[str] = set()
        """Parameters of the file's values that were logged as unused."""

    def build(self, texts: RuleTexts) -> RuleOutput:
        """Build the output DataFrame of these rules; raises if they are invalid."""
        checkpoint, self._checkpoint = self._checkpoint, None
        if self.backfill is not None:
            self._frames["source"] = self.backfill.union()
        stream = self._stream.with_rule_texts(texts.patterns)
        # Without rejected, the columns that only dead letters have are not transferred to Python.
        options = JobQueryOptions(decode_relations(texts), checkpoint, rejected=self._job.dead_letters is not None)
        if not stream.evaluates_patterns:
            return RuleOutput(stream.match_on_spark(self._frames, NO_PATTERNS, options), {})
        rules, excluded = without_quarantined(self._bind(stream.parse_patterns(texts.patterns)), texts.quarantined)
        versions = versions_of(rules)
        frame = _add_version(stream.match_on_spark(self._frames, rules, options), versions)
        return RuleOutput(frame, versions, key_columns(rules, frame.columns), excluded)

    def _bind(self, rules: PatternSet) -> PatternSet:
        """Bind the values of the job's file.

        An unused value is a warning: a reload that removes the last rule with a parameter must not stop the job.
        """
        unused = unused_values(rules, self._job.bind)
        for name, sentence in unused.items():
            if name not in self._unused:
                log.warning("%s", sentence)
        self._unused = set(unused)
        return bind_values(rules, {name: value for name, value in self._job.bind.items() if name not in unused})


def _add_version(frame: DataFrame, versions: Mapping[str, str]) -> DataFrame:
    """Add the version of its pattern to every match."""
    if VERSION in frame.columns:
        return frame  # a pattern returns a value of that name
    cases = " ".join(f"when {literal(name)} then {literal(version)}" for name, version in versions.items())
    return frame.selectExpr("*", f"case {quoted('pattern')} {cases} end as {VERSION}")


def _has_backfill(job: JobFile, requested: bool) -> bool:
    """True if the query includes historical records; an existing checkpoint determines this."""
    started = BatchLog(job.checkpoint).has_history()
    declared = job.stream.backfill_source() is not None
    if requested and not declared:
        raise SettingsError(
            "The job file has no stream.history.",
            hint="Add stream.history: {source: {files: …}, until: …}.",
        )
    if requested and started is False:
        raise SettingsError(
            f"The checkpoint {job.checkpoint} was started without history.", hint="Use a new checkpoint."
        )
    if started and not declared:
        raise SettingsError(
            f"The checkpoint {job.checkpoint} was started with history, and the job file has no stream.history.",
            hint="Restore stream.history in the job file.",
        )
    return requested or bool(started)


def assemble(job: JobFile, session: SparkSession, *, once: bool = False, from_history: bool = False) -> JobPlan:
    """Assemble everything a run needs. With ``once``, the job reads the available records and ends."""
    stream = job.stream
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise SettingsError(
            "Jobs do not run through Spark Connect: the function that writes a batch must run in the driver's process.",
            hint="Unset SPARK_REMOTE, and run the job where a driver can start, for example with spark-submit.",
        )
    if job.dead_letters is not None and not stream.supports_dead_letters:
        raise SettingsError(
            "dead_letters: unsupported for uncertain streams and models; their rejected records are only counted.",
            hint="Remove dead_letters; the metrics have the counts.",
        )
    frames = {path: source.open(session, streaming=True) for path, source in stream.sources_by_path().items()}
    builder = QueryBuilder(job, frames, _has_backfill(job, from_history))
    ends = once or job.trigger == AVAILABLE_NOW
    limits = job.limits
    return JobPlan(
        name=job.job,
        session=session,
        rules=JobTexts(job),
        build_query=builder.build,
        sinks=tuple(job.sinks),
        checkpoint=job.checkpoint,
        dead_letters=job.dead_letters,
        trigger={"availableNow": True} if ends else {"processingTime": job.trigger},
        retry_for_s=seconds_of(job.retry_for),
        reloads_rules=stream.reloads_rules and not ends,
        caps=Caps(limits.per_batch, limits.per_pattern, limits.per_key, limits.policy),
        backfill=builder.backfill,
        stop_rule=_over_batches(limits.bad) if limits.bad is not None else lambda _read, _bad: None,
        late_rule=_over_batches(limits.late) if limits.late is not None else lambda _reached, _late: None,
        metrics=JobMetrics(job.job, Folder(job.checkpoint) / JOB_FOLDER, job.metrics.log),
        limits=stream.search_limits(),
    )


def build_finished(job: JobFile, frames: dict[str, DataFrame]) -> RuleOutput:
    """Build the output of the current rules over finished DataFrames by source path; no state is stored."""
    without_letters = job.model_copy(update={"dead_letters": None})
    return QueryBuilder(without_letters, frames).build(JobTexts(job).read())


def _over_batches(rule: StopRule) -> Callable[[int, int], str | None]:
    """Apply a stop rule to all batches of this run."""
    batches: list[Counts] = []

    def stop_reason(rows: int, counted: int) -> str | None:
        batches.append((rows, counted))
        batches[:] = rule.counted(batches)
        return rule.stop_reason(batches)

    return stop_reason


def describe_job(job: JobFile) -> list[str]:
    """Sources and sinks of a job, one line each."""
    lines = [f"reads {source.describe()}" for source in job.stream.sources_by_path().values()]
    lines += [f"writes {sink.describe()}: {sink.guarantee}" for sink in job.sinks]
    if job.dead_letters is not None:
        lines.append(f"dead letters to {job.dead_letters.describe()}: {job.dead_letters.guarantee}")
    return lines
