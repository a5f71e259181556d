"""A job that runs: one streaming query, started again on the same checkpoint whenever its rules change.

Rules change between batches. The function that Spark calls with a batch looks first whether other rules wait; if so it
ends the query before anything was searched or written. Spark has planned that batch and does not commit it, so it comes
again, whole, under the new rules. What was searched and not yet written is finished with the rules the ledger names.
"""

from __future__ import annotations

import logging
import re
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from perseid.errors import PerseidError
from perseid.jobs.eyes import Eyes, Written
from perseid.jobs.folders import Folder
from perseid.jobs.history import Past
from perseid.jobs.ledger import OWN, Ledger, Lock
from perseid.jobs.limits import Caps, within
from perseid.jobs.quarantine import Quarantine, QuarantiningSource, budget_error_in
from perseid.jobs.rules import Refusal, Texts, TextSource, Watch
from perseid.jobs.tally import REJECTED, Tally, split
from perseid.redaction import redact, safe_cause
from perseid.sinks.contract import Batch, Sink
from perseid.sinks.failures import SinkError
from perseid.sinks.transience import is_transient
from perseid.spark.progress import batch_counts
from perseid.spark.readable_sql import readable_sql
from perseid.spark.worker_errors import worker_hint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("perseid.jobs")

_SAID = re.compile(r"^((?:\w+\.)*\w*(?:Error|Exception)): (.+)$", re.MULTILINE)
"""The last line of a trace of Python."""
_HINT = re.compile(r"^perseid\.\S*Error: .+\n {2}= (.+)$", re.MULTILINE)
"""The hint below the last line of a trace."""
_CALLING = "An error occurred while calling "
"""How the bridge between Python and Java begins whatever it tells."""
_TASK = re.compile(r"^.* most recent failure: Lost task .*?executor [^)]*\): ")
LOOK = 0.2
"""Seconds between two looks at the query, its rules and whether to stop."""
REST = 0.5
"""Seconds that rules have to be the same before they are taken: an editor saves, a copy goes on, in many steps."""
MAX_WAIT = 60.0
"""Seconds between two tries, at most."""
SETTLE = 30.0
"""Seconds that a batch has to be committed after its sinks are done."""
FEW = 1000
"""Answers that one task writes."""


class JobError(PerseidError):
    """A job cannot go on: a sink, a source or Spark said why."""


class StoppedError(PerseidError):
    """The job's own rule says that it should not go on."""


@dataclass(frozen=True)
class Answers:
    """What is run of rules: the DataFrame of answers, and what tells the versions of patterns apart."""

    frame: DataFrame
    versions: Mapping[str, str]
    keys: Sequence[str] = ()
    """The columns that say of which key an answer is; caps by key go by them."""
    excluded: Mapping[str, str] = field(default_factory=dict)
    """Patterns that do not run, each with the quarantined pattern that caused it."""


@dataclass(frozen=True)
class Job:
    """Everything a run needs; :mod:`perseid.jobs.assembly` makes one from a file."""

    name: str
    session: SparkSession
    rules: TextSource
    answers: Callable[[Texts], Answers]
    """Builds the DataFrame for rules; nothing is run for that, and what is wrong with them is raised."""
    sinks: Sequence[Sink]
    checkpoint: str
    dead_letters: Sink | None = None
    trigger: Mapping[str, Any] = field(default_factory=dict)
    """As ``DataStreamWriter.trigger`` takes it; without, a batch follows the other."""
    retry_for_s: float = 0.0
    """Seconds that a query is restarted for after transient failures; they begin anew with every batch that is written."""
    retry_wait: float = 1.0
    """Seconds before the first of them; twice as many before each that follows."""
    watched: bool = True
    """Whether rules are looked at again while the job runs."""
    caps: Caps = field(default_factory=Caps)
    eyes: Eyes | None = None
    past: Past | None = None
    """History that is read first."""
    stop_rule: Callable[[int, int], str | None] = lambda _read, _bad: None
    """Asked after every batch with the rows it read and the bad ones among them: why to stop, or None."""
    late_rule: Callable[[int, int], str | None] = lambda _reached, _late: None
    """Called after every batch with the rows that reached the patterns and the late ones among them: why to stop, or None."""
    limits: tuple[int, ...] = ()
    """The limits of searches. A quarantined pattern runs again when they change."""


Running: TypeAlias = tuple[Texts, Answers]
"""Rules, and what is run of them."""


class _EndedError(Exception):
    """Ends the query at the start of a batch, for other rules or because the job is asked to stop; not an error of anybody's."""


@dataclass
class Seen:
    """What became of a run so far; :mod:`perseid.jobs.eyes` shows it."""

    batches: int = 0
    last_batch: int | None = None
    changes: int = 0
    pauses: list[float] = field(default_factory=list)
    """Seconds from the end of the old query to the first batch under the new rules, of each change."""
    retries: int = 0
    refused: dict[str, Refusal] = field(default_factory=dict)
    quarantined: dict[str, str] = field(default_factory=dict)
    """Patterns that do not run because their search exceeded its budget, with the reason."""
    quarantines: int = 0
    """How often a pattern was quarantined in this run."""
    rules: str = ""


class Runner:
    """Runs a job until it ends, fails, or is asked to stop."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.seen = Seen()
        self.query: StreamingQuery | None = None
        self._ledger = Ledger(job.checkpoint)
        self._quarantine = Quarantine(Folder(job.checkpoint) / OWN, job.limits)
        self._watch = Watch(QuarantiningSource(job.rules, self._quarantine), job.answers)
        self._stop = threading.Event()
        self._waiting: Running | None = None
        """Rules that wait for the start of a batch."""
        self._changed_at: float | None = None
        self._quiet_since: float | None = None
        self._good: Running | None = None
        """The rules before, that ran."""
        self._tried = 0
        self._failing_since: float | None = None
        """The time of the first failure since a batch was written."""
        self._history_ended = False
        self._resumed = False
        """Whether sinks have compared their records with the checkpoint."""
        self._last_seen = -1
        """The batch up to which all were told of."""

    def stop(self) -> None:
        """Ask the job to end after the batch it is in; may be called from a signal handler."""
        self._stop.set()

    def run(self) -> Seen:
        """Run until the query ends or is stopped; raises :class:`JobError` where it cannot go on."""
        with Lock(self.job.checkpoint):
            self._identity = self._ledger.job(self.job.name, self.job.past is not None)
            wanted: Running | None = self._watch.first()
            try:
                while wanted is not None:
                    wanted = self._go_on(wanted)
            finally:
                for sink in self._all_sinks():
                    sink.close()
        return self.seen

    def _go_on(self, wanted: Running) -> Running | None:
        """Run with rules until the query ends; with which to go on then, or None."""
        running = self._to_begin_with(wanted)
        if running is not wanted:
            self._waiting = wanted
        if self.job.past is not None and self.job.past.ended and not self._history_ended:
            running = running[0], self.job.answers(running[0])  # a query that starts after history reads it otherwise
            self._history_ended = True
        if self.job.eyes is not None:
            self.job.eyes.started(running[1].versions)
        self.seen.quarantined = self._quarantine.reasons(running[1].excluded)
        self._tell_changes()
        handle = _Handle(self, running)
        try:
            self._prepare(running[1])
            self._run_with(handle)
        except JobError as error:
            return self._after(error, handle)
        if self._stop.is_set():
            return None
        following, self._waiting = self._waiting, None
        if following is None and not handle.ended:
            self._end_history(done=True)
        if following is None:
            # Rules that were changed, and back again while the query ended, are those that ran.
            return running if handle.ended else None
        if self._changed_at is None:
            self._changed_at = time.monotonic()
        self.seen.changes += 1
        self._good = running
        return following

    def _to_begin_with(self, wanted: Running) -> Running:
        """Rules of the batch that sinks have seen in part: it is finished as it was begun. Otherwise those that are wanted."""
        unfinished = self._ledger.unfinished()
        kept = None if unfinished is None else self._ledger.rules_of(unfinished)
        if kept is None or (before := Texts.of(kept)) == wanted[0]:
            return wanted
        return before, self.job.answers(before)

    def _after(self, error: JobError, handle: _Handle) -> Running:
        """With what to go on after a failure: the rules before, where new ones never got through a batch; or the same again."""
        if self._stop.is_set() or self.query is None:
            raise error  # what is wrong before anything ran is wrong with the job
        if (remaining := self._without_exceeding(error, handle)) is not None:
            return remaining
        texts, _ = handle.running
        if handle.number is None and self._good is not None and self._good[0] != texts and not handle.wrote:
            self._watch.refuse(texts, self._good[0], error)
            log.warning("rules refused when they first ran, those before go on: %s", error)
            return self._good
        now = time.monotonic()
        if handle.number is not None or self._failing_since is None:
            self._tried, self._failing_since = 0, now
        self._tried += 1
        left = self._failing_since + self.job.retry_for_s - now
        if left <= 0 or not is_transient(error.__cause__):
            raise error
        wait = min(MAX_WAIT, self.job.retry_wait * 2.0 ** min(self._tried - 1, 30), left)
        log.warning("attempt %d failed; next in %.0f s, retried for %.0f s more: %s", self._tried, wait, left, error)
        if self._stop.wait(wait):
            raise error
        self.seen.retries += 1
        return handle.running

    def _without_exceeding(self, error: JobError, handle: _Handle) -> Running | None:
        """The rules without the pattern whose search exceeded its budget, which is quarantined; None for other errors.

        The batch is searched again with the others: nothing of it is written or committed.
        """
        exceeded = budget_error_in(error)
        texts, answers = handle.running
        if exceeded is None or exceeded[0] not in answers.versions:
            return None
        pattern, reason = exceeded
        version = answers.versions[pattern]
        if self._quarantine.contains(pattern, version):
            return None  # the batch has to be finished with the rules that the ledger names
        self._quarantine.add(pattern, version, reason)
        self.seen.quarantines += 1
        log.warning(
            "pattern %s is quarantined until its text or the limits change, the others go on: %s", pattern, reason
        )
        remaining = texts.with_quarantined(self._quarantine.versions())
        try:
            return remaining, self.job.answers(remaining)
        except PerseidError as none_left:
            self.seen.quarantined = self._quarantine.reasons({pattern: pattern})
            self._tell_changes()
            raise JobError(f"Job {self.job.name!r} cannot go on: {none_left}") from error

    def _all_sinks(self) -> list[Sink]:
        return [*self.job.sinks, *([] if self.job.dead_letters is None else [self.job.dead_letters])]

    def _prepare(self, answers: Answers) -> None:
        """Let sinks refuse what they cannot write; only here, between two queries, is none of them writing."""
        told, letters = split(answers.frame)
        given = [(sink, told) for sink in self.job.sinks]
        if self.job.dead_letters is not None and letters is not None:
            given.append((self.job.dead_letters, letters))
        try:
            for sink, rows in given:
                sink.prepare(self.job.session, rows.schema, self._identity)
            if not self._resumed:
                self._resume([sink for sink, _ in given])
        except PerseidError as error:
            raise JobError(redact(f"Job {self.job.name!r} cannot go on: {error}")) from safe_cause(error)

    def _resume(self, sinks: Sequence[Sink]) -> None:
        """Let sinks find out that the checkpoint was restored; while the job runs, nobody else may replace it."""
        for sink in sinks:
            said = sink.resume(self.job.session, self._identity, self._ledger)
            if said is not None:
                log.warning("the checkpoint was restored from an older copy: %s: %s", sink.told(), said)
        self._resumed = True

    def _run_with(self, handle: _Handle) -> None:
        """Run the query until it ends: because it is done, is asked to, or other rules wait."""
        texts, answers = handle.running
        self._ledger.keep(handle.digest, texts.kept())
        self.seen.rules = handle.digest
        writer = answers.frame.writeStream.queryName(self.job.name).foreachBatch(handle)
        writer = writer.option("checkpointLocation", self.job.checkpoint)
        if self.job.trigger:
            writer = writer.trigger(**self.job.trigger)
        self.query = writer.start()
        looked = time.monotonic()
        try:
            while self.query.isActive and not self._stop.is_set():
                self.query.awaitTermination(cast("int", LOOK))  # it takes parts of a second as well
                self._see()
                self._end_history()
                if self._waiting is not None and self._idle(handle):
                    break
                if self.job.watched and time.monotonic() - looked >= REST:
                    looked = time.monotonic()
                    self._look(texts)
            if self.query.isActive:
                self._leave(handle)
        except StoppedError:
            self._leave(handle)
            raise
        except Exception as error:  # Spark has many kinds, and all of them end the query.
            self._judge(handle, error)
        finally:
            if self.query.isActive:
                self.query.stop()
            self._see()
        if (said := self.query.exception()) is not None:
            self._judge(handle, said)

    def _judge(self, handle: _Handle, error: BaseException) -> None:
        """Whether a query ended because of us, because of a sink, or because of something else."""
        if handle.ended:
            return
        if handle.failed is not None:
            known = isinstance(handle.failed, PerseidError)
            said = redact(str(handle.failed)) if known else first_line(handle.failed)
            hint = None if known else hint_of(handle.failed)
            raise JobError(f"Job {self.job.name!r} cannot go on: {said}", hint=hint) from safe_cause(handle.failed)
        said = first_line(error)
        raise JobError(f"The query of job {self.job.name!r} failed: {said}", hint=hint_of(error)) from safe_cause(error)

    def _idle(self, handle: _Handle) -> bool:
        """Whether nothing comes that rules could wait for."""
        assert self.query is not None
        if handle.busy.locked() or self.query.status["isTriggerActive"]:
            self._quiet_since = None
        elif self._quiet_since is None:
            self._quiet_since = time.monotonic()
        return self._quiet_since is not None and time.monotonic() - self._quiet_since >= REST

    def _end_history(self, done: bool = False) -> None:
        """Let live go on once history was read. ``done``: the query read all there is."""
        past = self.job.past
        if past is not None and not past.ended and (done or (self.query is not None and past.is_read(self.query))):
            past.end()

    def _see(self) -> None:
        """Tell what batches were committed since."""
        for progress in self._unseen():
            number = int(progress["batchId"])
            if number <= self._last_seen:
                continue
            if "addBatch" not in progress["durationMs"]:
                self._last_seen = number - 1  # a source that has nothing tells of the batch to come, now and then
                continue
            self._last_seen = number
            counted = batch_counts(progress) or {}
            if self.job.eyes is not None:
                self.job.eyes.progressed(progress)
            why = self.job.stop_rule(int(progress["numInputRows"] or 0), int(counted.get("bad") or 0))
            late = int(counted.get("late") or 0)
            why = self.job.late_rule(int(counted.get("events") or 0) + late, late) if why is None else why
            if why is not None:
                raise StoppedError(why)

    def _unseen(self) -> Sequence[StreamingQueryProgress]:
        """Progress that may be new. Spark keeps that of a hundred batches, and to read it all takes a hundred times as long."""
        assert self.query is not None
        last = self.query.lastProgress
        if last is None:
            return ()
        return (last,) if int(last["batchId"]) <= self._last_seen + 1 else self.query.recentProgress

    def _tell_changes(self) -> None:
        if self.job.eyes is not None:
            refused = {name: redact(str(one)) for name, one in self.seen.refused.items()}
            self.job.eyes.changed(self.seen.changes, self.seen.retries, refused)
            self.job.eyes.quarantined(self.seen.quarantines, self.seen.quarantined)

    def _look(self, texts: Texts) -> None:
        """See whether there are other rules; the next batch begins with them."""
        found = self._watch.look(texts if self._waiting is None else self._waiting[0])
        for name, refusal in self._watch.refused.items():
            if self.seen.refused.get(name) != refusal:
                log.warning("rules refused, those before go on: %s", refusal)
        self.seen.refused = dict(self._watch.refused)
        self._tell_changes()
        if found is not None:
            self._waiting = None if found[0] == texts else found
            self._quiet_since = None

    def _leave(self, handle: _Handle) -> None:
        """End between two batches: the one that runs is committed first, and none begins after it.

        Spark waits for the function that it calls with a batch, so the lock is not held while Spark is asked to stop.
        """
        assert self.query is not None
        end = time.monotonic() + SETTLE
        while self.query.isActive and not handle.leaving:
            with handle.busy:
                last = self.query.lastProgress
                committed = handle.number is None or (last is not None and last["batchId"] >= handle.number)
                handle.leaving = committed or time.monotonic() > end
            time.sleep(0 if handle.leaving else 0.05)
        self.query.stop()


class _Handle:
    """What Spark calls with each batch."""

    def __init__(self, runner: Runner, running: Running) -> None:
        self._runner, self.running = runner, running
        self.digest = running[0].digest
        self._tally = Tally(running[1].versions)
        first, caps = runner.job.sinks[0], runner.job.caps
        self._goes_along = None if caps or not first.along(runner.job.session) else first
        """The sink that may be written while a batch is searched; caps have to know how many answers there are before any is written."""
        self.busy = threading.Lock()
        self.number: int | None = None
        """The last batch whose sinks are done."""
        self.leaving = False
        """Whether the query is asked to stop: no batch begins any more."""
        self.ended = False
        """Whether a batch came that was not begun, and ended the query."""
        self.wrote = False
        """Whether any sink was given anything under these rules."""
        self.failed: Exception | None = None

    def __call__(self, frame: DataFrame, number: int) -> None:
        runner, job = self._runner, self._runner.job
        recorded = runner._ledger.rules_of(number) is not None
        if runner._waiting is not None and not recorded:
            self.ended = True
            runner._changed_at = time.monotonic()
            raise _EndedError
        if runner._changed_at is not None:
            runner.seen.pauses.append(time.monotonic() - runner._changed_at)
            runner._changed_at = None
        with self.busy:
            if self.leaving:
                self.ended = True
                raise _EndedError
            try:
                written = self._search_and_write(frame, number, recorded)
                if job.eyes is not None:
                    job.eyes.wrote(written)
            except Exception as error:
                if isinstance(error, SinkError) and error.interrupted and runner._stop.is_set():
                    log.warning("batch %d comes again when the job is started again: %s", number, error)
                    self.ended = True
                else:
                    self.failed = error
                raise
            self.number = number
            runner.seen.batches += 1
            runner.seen.last_batch = number

    def _search_and_write(self, frame: DataFrame, number: int, recorded: bool) -> Written:
        """Search a batch once, and give sinks what was found."""
        job, along = self._runner.job, self._along()
        sinks = job.sinks if along is None else job.sinks[1:]
        kept = bool(sinks) or job.dead_letters is not None  # what is read once need not be
        batch = Batch(
            self._runner._identity,
            number,
            uuid.uuid4().hex,
            frame.persist() if kept else frame,
            self._runner._stop,
            self._runner._ledger.offsets_digest(number),
        )
        try:
            if along is None:
                # Searched here, before any sink has seen a row: what fails in it has written nothing.
                counted = self._tally(batch.rows)
            if not recorded:
                self._runner._ledger.record(number, self.digest)
            if along is not None:
                counted = self._search_into(along, batch, kept)
            return self._write(batch, sinks, counted)
        finally:
            if kept:
                batch.rows.unpersist()

    def _along(self) -> Sink | None:
        """The sink that is written by the job that searches: Spark then has one job less, and answers are there the sooner.

        Not in the first batch under these rules, which are refused where it fails and nothing was written.
        """
        return None if self.number is None or not self._tally.goes_by else self._goes_along

    def _search_into(self, sink: Sink, batch: Batch, kept: bool) -> dict[tuple[str, str], int]:
        """Search a batch while a sink is given its answers; how many there are."""
        self.wrote = True
        try:
            counted = self._tally.along(batch.rows, lambda found: sink.write(replace(batch, rows=split(found)[0])))
        except SinkError as error:
            if (said := error.__context__) is None or not of_python(said):
                raise
            # The search failed, not the sink. Rules that fail whenever they are tried must not hold the batch for ever.
            self._runner._ledger.forget(batch.number)
            raise said from None
        if counted is None and kept:
            return self._tally(batch.rows)
        if counted is None:
            log.warning("batch %d was written, and its answers could not be counted", batch.number)
        return counted or {}

    def _write(self, batch: Batch, sinks: Sequence[Sink], counted: Mapping[tuple[str, str], int]) -> Written:
        job = self._runner.job
        told = {of: count for of, count in counted.items() if of[1] not in REJECTED}
        rejected = sum(counted.values()) - sum(told.values())
        answers, letters = split(batch.rows)
        dropped = 0
        if told and sinks:
            self.wrote = True
            kept = within(answers, job.caps, self.running[1].keys, told)
            dropped = kept.dropped
            if kept.beyond is not None:
                letters = kept.beyond if letters is None else letters.unionByName(kept.beyond, allowMissingColumns=True)
                rejected += dropped
            # A task for each share of a handful costs more than they do.
            out = kept.rows.coalesce(1) if sum(told.values()) <= FEW else kept.rows
            for sink in sinks:
                sink.write(replace(batch, rows=out))
        if job.dead_letters is not None and letters is not None and rejected:
            self.wrote = True
            job.dead_letters.write(replace(batch, rows=letters))
        return Written(batch.number, told, rejected if job.dead_letters is not None else 0, dropped)


def of_python(error: BaseException) -> bool:
    """Whether an error of Spark was one of Python first: of a search, and not of a connector of Spark's."""
    return _SAID.search(str(error)) is not None and "Traceback" in str(error)


def hint_of(error: BaseException) -> str | None:
    """What to do about an error of Spark: for workers that cannot run perseid, or as an error of perseid in it says."""
    found = _HINT.findall(redact(readable_sql(str(error))))
    return worker_hint(error) or (found[-1] if found else None)


def first_line(error: BaseException) -> str:
    """What an error of Spark says, without the stacks of Java and Python around it: ours where there is one."""
    text = redact(readable_sql(str(error)))
    said = _SAID.findall(text)
    if said:
        ours = [line for name, line in said if name.startswith("perseid.")]
        name, line = said[-1]
        return ours[-1] if ours else f"{name.rpartition('.')[2]}: {line}"
    lines = [line for line in text.strip().splitlines() if not line.startswith(_CALLING)]
    # Of a task that failed, Spark says first which one it was.
    line = _TASK.sub("", next(iter(lines), "")).removeprefix(": ")
    return line or type(error).__name__
