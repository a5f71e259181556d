"""Run a job: one streaming query, restarted on its checkpoint after rule changes and transient failures."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from perseid.errors import PerseidError
from perseid.jobs.batch_handler import BatchHandler
from perseid.jobs.batch_log import JOB_FOLDER, BatchLog, CheckpointLock
from perseid.jobs.folders import Folder
from perseid.jobs.job_plan import JobError, JobPlan, LoadedRules, RuleOutput, RunContext, RunStatus, StoppedError
from perseid.jobs.match_counter import split_rejected
from perseid.jobs.quarantine import Quarantine, QuarantiningSource, budget_error_in
from perseid.jobs.rule_changes import compare_rules
from perseid.jobs.rules import RuleTexts, RuleWatcher
from perseid.jobs.spark_errors import first_line, hint_of
from perseid.redaction import redact, safe_cause
from perseid.sinks.contract import Sink
from perseid.sinks.transience import is_transient
from perseid.spark.progress import batch_counts

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("perseid.jobs")

POLL_INTERVAL_S = 0.2
"""Interval at which the runner polls the query and the stop request."""
DEBOUNCE_S = 0.5
"""Interval at which rules are read; they load once two reads are equal, because editors write in several steps."""
MAX_RETRY_WAIT_S = 60.0
COMMIT_TIMEOUT_S = 30.0
"""Time for Spark to commit a batch after its sinks have written it."""


class JobRunner:
    """Runs a job's streaming query until it ends, fails or is stopped, and restarts it when its rules change."""

    def __init__(self, job: JobPlan) -> None:
        self.job = job
        self.query: StreamingQuery | None = None
        self.context = RunContext(job, BatchLog(job.checkpoint))
        self._batch_log, self._stop = self.context.batch_log, self.context.stop
        self._quarantine = Quarantine(Folder(job.checkpoint) / JOB_FOLDER, job.limits)
        self._watcher = RuleWatcher(QuarantiningSource(job.rules, self._quarantine), job.build_query)
        self._idle_since_s: float | None = None
        self._previous: LoadedRules | None = None
        """The rules before the last change, which have run."""
        self._announced: dict[str, str] | None = None
        """Versions of the rules whose changes are logged."""
        self._tries = 0
        self._failing_since_s: float | None = None
        """Time of the first failure since a batch was written, on the monotonic clock."""
        self._rebuilt_after_backfill = False
        self._resumed = False
        """True once sinks have compared their records with the checkpoint."""
        self._last_polled = -1
        """The last batch with processed progress."""

    @property
    def status(self) -> RunStatus:
        return self.context.status

    def stop(self) -> None:
        """Request the end of the job after its current batch; may be called from a signal handler."""
        self._stop.set()

    def run(self) -> RunStatus:
        """Run until the query ends or is stopped; raises a :class:`JobError` if the job cannot continue."""
        with CheckpointLock(self.job.checkpoint):
            self.context.job_id = self._batch_log.job_id(self.job.name, self.job.backfill is not None)
            requested: LoadedRules | None = self._watcher.load()
            try:
                while requested is not None:
                    requested = self._run_until_change(requested)
            finally:
                for sink in self._all_sinks():
                    sink.close()
        return self.status

    def _run_until_change(self, requested: LoadedRules) -> LoadedRules | None:
        """Run the query until it ends; return the rules for the next query, or None if the job has ended."""
        running = self._rules_to_resume(requested)
        if running is not requested:
            self.context.pending = requested
        if self.job.backfill is not None and self.job.backfill.ended and not self._rebuilt_after_backfill:
            running = running[0], self.job.build_query(running[0])  # after the backfill, a query has one watermark
            self._rebuilt_after_backfill = True
        self._log_rule_changes(running[1])
        if self.job.metrics is not None:
            self.job.metrics.query_started(running[1].versions)
        self.status.quarantined = self._quarantine.reasons(running[1].excluded)
        self._publish_rules()
        handler = BatchHandler(self.context, running)
        try:
            self._prepare_sinks(running[1])
            self._run_query(handler)
        except JobError as error:
            return self._rules_after_failure(error, handler)
        if self._stop.is_set():
            return None
        following, self.context.pending = self.context.pending, None
        if following is None and not handler.ended:
            self._end_backfill(all_read=True)
        if following is None:
            # If rules changed and changed back while the query ended, the same rules run again.
            return running if handler.ended else None
        if self.context.change_began_s is None:
            self.context.change_began_s = time.monotonic()
        self.status.changes += 1
        self._previous = running
        return following

    def _log_rule_changes(self, output: RuleOutput) -> None:
        """Log how rules differ from those that wrote the last batch, in this process or in an earlier one."""
        versions = dict(output.versions)
        if versions == self._announced:
            return  # a restart after a failure
        self._announced = versions
        before = self._batch_log.versions()
        if before is not None:
            for level, message in compare_rules(before, versions, output.excluded).messages():
                log.log(level, "%s", message)

    def _rules_to_resume(self, requested: LoadedRules) -> LoadedRules:
        """Return the rules that must run next.

        A batch that some sinks have already written must finish under the rules that started it. The batch log
        records them. Without such a batch, the requested rules run.
        """
        unfinished = self._batch_log.unfinished()
        stored = None if unfinished is None else self._batch_log.rules_of(unfinished)
        if stored is None or (texts := RuleTexts.from_stored(stored)) == requested[0]:
            return requested
        return texts, self.job.build_query(texts)

    def _rules_after_failure(self, error: JobError, handler: BatchHandler) -> LoadedRules:
        """Return the rules after a failure: without an exceeding pattern, the previous ones, or the same again."""
        if self._stop.is_set() or self.query is None:
            raise error  # a failure before the first query is an error of the job
        if (remaining := self._quarantine_exceeding(error, handler)) is not None:
            return remaining
        texts, _ = handler.rules
        previous = self._previous
        if handler.last_batch is None and previous is not None and previous[0] != texts and not handler.has_written:
            self._watcher.reject(texts, previous[0], error)
            log.warning("rule update failed when it first ran and is rejected; keeping the previous rules: %s", error)
            return previous
        now = time.monotonic()
        if handler.last_batch is not None or self._failing_since_s is None:
            self._tries, self._failing_since_s = 0, now
        self._tries += 1
        seconds_left = self._failing_since_s + self.job.retry_for_s - now
        if seconds_left <= 0 or not is_transient(error.__cause__):
            raise error
        wait = min(MAX_RETRY_WAIT_S, self.job.retry_wait_s * 2.0 ** min(self._tries - 1, 30), seconds_left)
        log.warning(
            "attempt %d failed; next in %.0f s, retrying for %.0f s more: %s", self._tries, wait, seconds_left, error
        )
        if self._stop.wait(wait):
            raise error
        self.status.retries += 1
        return handler.rules

    def _quarantine_exceeding(self, error: JobError, handler: BatchHandler) -> LoadedRules | None:
        """Quarantine the pattern that exceeded its search budget and return the other rules; None for other errors.

        Nothing of the batch is written or committed, so it is searched again with the other rules.
        """
        exceeded = budget_error_in(error)
        texts, output = handler.rules
        if exceeded is None or exceeded[0] not in output.versions:
            return None
        pattern, reason = exceeded
        version = output.versions[pattern]
        if self._quarantine.contains(pattern, version):
            return None  # the batch must finish under the rules that the batch log records
        self._quarantine.add(pattern, version, reason)
        self.status.quarantines += 1
        log.warning(
            "pattern %s is quarantined until its text or the limits change; other patterns continue: %s",
            pattern,
            reason,
        )
        remaining = texts.with_quarantined(self._quarantine.versions())
        try:
            return remaining, self.job.build_query(remaining)
        except PerseidError as none_left:
            self.status.quarantined = self._quarantine.reasons({pattern: pattern})
            self._publish_rules()
            raise JobError(f"Job {self.job.name!r} cannot continue: {none_left}") from error

    def _all_sinks(self) -> list[Sink]:
        return [*self.job.sinks, *([] if self.job.dead_letters is None else [self.job.dead_letters])]

    def _prepare_sinks(self, output: RuleOutput) -> None:
        """Prepare all sinks for the output; between two queries, none of them is writing."""
        matches, letters = split_rejected(output.frame)
        frames = [(sink, matches) for sink in self.job.sinks]
        if self.job.dead_letters is not None and letters is not None:
            frames.append((self.job.dead_letters, letters))
        try:
            for sink, rows in frames:
                sink.prepare(self.job.session, rows.schema, self.context.job_id)
            if not self._resumed:
                self._resume_sinks([sink for sink, _ in frames])
        except PerseidError as error:
            raise JobError(redact(f"Job {self.job.name!r} cannot continue: {error}")) from safe_cause(error)

    def _resume_sinks(self, sinks: Sequence[Sink]) -> None:
        """Compare the records of the sinks with the checkpoint, once: the lock protects it while the job runs."""
        for sink in sinks:
            warning = sink.resume(self.job.session, self.context.job_id, self._batch_log)
            if warning is not None:
                log.warning("the checkpoint was restored from an older copy: %s: %s", sink.describe(), warning)
        self._resumed = True

    def _run_query(self, handler: BatchHandler) -> None:
        """Run the query until it is done, is stopped, or ends for pending rules."""
        texts, output = handler.rules
        self._batch_log.save_rules(handler.digest, texts.to_stored())
        self.status.rules = handler.digest
        writer = output.frame.writeStream.queryName(self.job.name).foreachBatch(handler)
        writer = writer.option("checkpointLocation", self.job.checkpoint)
        if self.job.trigger:
            writer = writer.trigger(**self.job.trigger)
        self.query = writer.start()
        rules_read_s = time.monotonic()
        try:
            while self.query.isActive and not self._stop.is_set():
                self.query.awaitTermination(cast("int", POLL_INTERVAL_S))  # it accepts fractions of a second
                self._poll_progress()
                self._end_backfill()
                if self.context.pending is not None and self._is_idle(handler):
                    break
                if self.job.reloads_rules and time.monotonic() - rules_read_s >= DEBOUNCE_S:
                    rules_read_s = time.monotonic()
                    self._poll_rules(texts)
            if self.query.isActive:
                self._stop_gracefully(handler)
        except StoppedError:
            self._stop_gracefully(handler)
            raise
        except Exception as error:  # Spark raises many types, and each of them ends the query
            self._raise_cause(handler, error)
        finally:
            if self.query.isActive:
                self.query.stop()
            self._poll_progress()
        if (ended_with := self.query.exception()) is not None:
            self._raise_cause(handler, ended_with)

    def _raise_cause(self, handler: BatchHandler, error: BaseException) -> None:
        """Raise a :class:`JobError` for a failed query; return if the handler itself ended the query."""
        if handler.ended:
            return
        if handler.error is not None:
            is_ours = isinstance(handler.error, PerseidError)
            message = redact(str(handler.error)) if is_ours else first_line(handler.error)
            hint = None if is_ours else hint_of(handler.error)
            raise JobError(f"Job {self.job.name!r} cannot continue: {message}", hint=hint) from safe_cause(
                handler.error
            )
        message = first_line(error)
        raise JobError(f"The query of job {self.job.name!r} failed: {message}", hint=hint_of(error)) from safe_cause(
            error
        )

    def _is_idle(self, handler: BatchHandler) -> bool:
        """True if no batch has run for a while, so that pending rules need not wait for the next one."""
        assert self.query is not None
        if handler.busy.locked() or self.query.status["isTriggerActive"]:
            self._idle_since_s = None
        elif self._idle_since_s is None:
            self._idle_since_s = time.monotonic()
        return self._idle_since_s is not None and time.monotonic() - self._idle_since_s >= DEBOUNCE_S

    def _end_backfill(self, all_read: bool = False) -> None:
        """End the backfill once all historical records are read; ``all_read``: the query has read everything."""
        backfill = self.job.backfill
        if backfill is None or backfill.ended:
            return
        if all_read or (self.query is not None and backfill.is_read(self.query)):
            backfill.end()

    def _poll_progress(self) -> None:
        """Process the progress of newly committed batches; raises a :class:`StoppedError` if a limit stops the job."""
        for progress in self._new_progress():
            number = int(progress["batchId"])
            if number <= self._last_polled:
                continue
            if "addBatch" not in progress["durationMs"]:
                self._last_polled = number - 1  # an idle source reports the number of the next batch
                continue
            self._last_polled = number
            counted = batch_counts(progress) or {}
            if self.job.metrics is not None:
                self.job.metrics.batch_committed(progress)
            reason = self.job.stop_rule(int(progress["numInputRows"] or 0), int(counted.get("bad") or 0))
            if reason is None:
                late = int(counted.get("late") or 0)
                reason = self.job.late_rule(int(counted.get("events") or 0) + late, late)
            if reason is not None:
                raise StoppedError(reason)

    def _new_progress(self) -> Sequence[StreamingQueryProgress]:
        """Progress that may be new. Spark retains 100 batches; reading all of them takes 100 times as long."""
        assert self.query is not None
        last = self.query.lastProgress
        if last is None:
            return ()
        return (last,) if int(last["batchId"]) <= self._last_polled + 1 else self.query.recentProgress

    def _publish_rules(self) -> None:
        """Publish changed, rejected and quarantined rules."""
        if self.job.metrics is not None:
            status = self.status
            rejected = {name: redact(str(one)) for name, one in status.rejected.items()}
            self.job.metrics.rules_changed(status.changes, status.retries, rejected)
            self.job.metrics.patterns_quarantined(status.quarantines, status.quarantined)

    def _poll_rules(self, running: RuleTexts) -> None:
        """Read the rules; changed ones apply from the next batch on."""
        pending = self.context.pending
        found = self._watcher.poll(running if pending is None else pending[0])
        for name, rejected in self._watcher.rejected.items():
            if self.status.rejected.get(name) != rejected:
                log.warning("rule update rejected; keeping the previous version: %s", rejected)
        self.status.rejected = dict(self._watcher.rejected)
        self._publish_rules()
        if found is not None:
            self.context.pending = None if found[0] == running else found
            self._idle_since_s = None

    def _stop_gracefully(self, handler: BatchHandler) -> None:
        """Stop the query between two batches: the running batch is committed first, and no other batch starts.

        Spark waits for the function that it calls with a batch, so the lock is not held while Spark stops.
        """
        assert self.query is not None
        end = time.monotonic() + COMMIT_TIMEOUT_S
        while self.query.isActive and not handler.stopping:
            with handler.busy:
                last = self.query.lastProgress
                is_committed = handler.last_batch is None or (
                    last is not None and last["batchId"] >= handler.last_batch
                )
                handler.stopping = is_committed or time.monotonic() > end
            time.sleep(0 if handler.stopping else 0.05)
        self.query.stop()
