"""The function that Spark calls with each batch: searches it once and writes it to all sinks."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from perseid.jobs.job_plan import LoadedRules, RunContext
from perseid.jobs.limits import apply_caps
from perseid.jobs.match_counter import REJECTED, MatchCounter, split_rejected
from perseid.jobs.metrics import BatchStats
from perseid.jobs.spark_errors import is_python_error
from perseid.sinks.contract import Batch, Sink
from perseid.sinks.failures import SinkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger("perseid.jobs")

COALESCE_BELOW_ROWS = 1000
"""A batch with at most this many matches is written by one task: small partitions cost more than they save."""


class QueryEndedError(Exception):
    """Ends the query at the start of a batch, because rules change or the job stops; not a failure."""


class BatchHandler:
    """Searches and writes the batches of one query.

    Rules change between batches. The handler checks for pending rules first and ends the query before anything of the batch
    is searched or written. Spark has planned the batch and does not commit it, so it is retried under the new rules. A batch
    that some sinks may have received already runs under the rules that the batch log records.
    """

    def __init__(self, context: RunContext, rules: LoadedRules) -> None:
        self._context, self.rules = context, rules
        job = context.job
        self.digest = rules[0].digest
        self._counter = MatchCounter(rules[1].versions)
        first = job.sinks[0]
        # Caps need the number of matches before any is written.
        self._single_pass_sink = None if job.caps or not first.supports_single_pass(job.session) else first
        self.busy = threading.Lock()
        self.last_batch: int | None = None
        """The last batch that all sinks have written."""
        self.stopping = False
        """True once the query has to stop: no further batch starts."""
        self.ended = False
        """True if a batch ended the query instead of starting."""
        self.has_written = False
        """True if a sink has received rows under these rules."""
        self.error: Exception | None = None

    def __call__(self, frame: DataFrame, number: int) -> None:
        context, job = self._context, self._context.job
        is_recorded = context.batch_log.rules_of(number) is not None
        if context.pending is not None and not is_recorded:
            self.ended = True
            context.change_began_s = time.monotonic()
            raise QueryEndedError
        if context.change_began_s is not None:
            context.status.reload_pauses_s.append(time.monotonic() - context.change_began_s)
            context.change_began_s = None
        with self.busy:
            if self.stopping:
                self.ended = True
                raise QueryEndedError
            try:
                stats = self._search_and_write(frame, number, is_recorded)
                if job.metrics is not None:
                    job.metrics.batch_written(stats)
                if self.last_batch is None:
                    context.batch_log.save_versions(self.rules[1].versions)
            except Exception as error:
                if isinstance(error, SinkError) and error.interrupted and context.stop.is_set():
                    log.warning("batch %d is retried when the job starts again: %s", number, error)
                    self.ended = True
                else:
                    self.error = error
                raise
            self.last_batch = number
            context.status.batches += 1
            context.status.last_batch = number

    def _search_and_write(self, frame: DataFrame, number: int, is_recorded: bool) -> BatchStats:
        """Search a batch once and write it to all sinks."""
        context, single_pass = self._context, self._sink_of_single_pass()
        job = context.job
        sinks = job.sinks if single_pass is None else job.sinks[1:]
        is_persisted = bool(sinks) or job.dead_letters is not None  # rows that are read once need no cache
        batch = Batch(
            context.job_id,
            number,
            uuid.uuid4().hex,
            frame.persist() if is_persisted else frame,
            context.stop,
            context.batch_log.offsets_digest(number),
        )
        try:
            if single_pass is None:
                # The search runs here, before any sink receives a row: if it fails, nothing is written.
                counted = self._counter(batch.rows)
            if not is_recorded:
                context.batch_log.record(number, self.digest)
            if single_pass is not None:
                counted = self._search_into(single_pass, batch, is_persisted)
            return self._write(batch, sinks, counted)
        finally:
            if is_persisted:
                batch.rows.unpersist()

    def _sink_of_single_pass(self) -> Sink | None:
        """The sink that is written by the Spark job that searches, which saves a job and latency.

        Not for the first batch under these rules: if it fails, nothing may be written, so that the rules can be rejected.
        """
        return self._single_pass_sink if self.last_batch is not None and self._counter.uses_observation else None

    def _search_into(self, sink: Sink, batch: Batch, is_persisted: bool) -> dict[tuple[str, str], int]:
        """Search a batch while a sink writes its matches; return how many there are."""
        self.has_written = True
        try:
            counted = self._counter.count_during(
                batch.rows, lambda rows: sink.write(replace(batch, rows=split_rejected(rows)[0]))
            )
        except SinkError as error:
            cause = error.__context__
            if cause is None or not is_python_error(cause):
                raise
            # The search failed, not the sink. Other rules must be able to run this batch.
            self._context.batch_log.remove_record(batch.number)
            raise cause from None
        if counted is None and is_persisted:
            return self._counter(batch.rows)
        if counted is None:
            log.warning("batch %d is written, but its matches could not be counted", batch.number)
        return counted or {}

    def _write(self, batch: Batch, sinks: Sequence[Sink], counted: Mapping[tuple[str, str], int]) -> BatchStats:
        job = self._context.job
        emitted = {of: count for of, count in counted.items() if of[1] not in REJECTED}
        rejected = sum(counted.values()) - sum(emitted.values())
        matches, letters = split_rejected(batch.rows)
        dropped = 0
        if emitted and sinks:
            self.has_written = True
            capped = apply_caps(matches, job.caps, self.rules[1].keys, emitted)
            dropped = capped.dropped
            if capped.beyond is not None:
                beyond = capped.beyond
                letters = beyond if letters is None else letters.unionByName(beyond, allowMissingColumns=True)
                rejected += dropped
            rows = capped.rows.coalesce(1) if sum(emitted.values()) <= COALESCE_BELOW_ROWS else capped.rows
            for sink in sinks:
                sink.write(replace(batch, rows=rows))
        if job.dead_letters is not None and letters is not None and rejected:
            self.has_written = True
            job.dead_letters.write(replace(batch, rows=letters))
        return BatchStats(batch.number, emitted, rejected if job.dead_letters is not None else 0, dropped)
