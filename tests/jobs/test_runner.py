"""A running job: rules change, sinks fail, it is stopped, and no match is lost or duplicated."""

from __future__ import annotations

import io
import json
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar
from urllib.request import urlopen

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from rich.console import Console

import perseid as ps
from perseid.cli.running import shown
from perseid.errors import SettingsError
from perseid.jobs.batch_handler import BatchHandler
from perseid.jobs.batch_log import BatchLog, CheckpointLock
from perseid.jobs.folders import Folder
from perseid.jobs.job_plan import JobError, JobPlan, RuleOutput, StoppedError
from perseid.jobs.limits import Caps
from perseid.jobs.metrics import JobMetrics
from perseid.jobs.rules import RuleTexts, read_patterns, versions_of
from perseid.jobs.runner import JobRunner
from perseid.sinks import webhook
from perseid.sinks.contract import Batch, Sink
from perseid.sinks.failures import SinkError, failing
from perseid.sinks.webhook import Webhook

pytestmark = pytest.mark.timeout(240)

PAIRS = "pattern pairs match A a -> B b within 1 hour partition by user return a.n as a, b.n as b"
BIG = "pattern big match A a where a.n >= 5 partition by user return a.n as a"
SCHEMA = "ts timestamp, type string, user string, n long"
WAIT = 60.0


class JsonFileSink(Sink):
    """Writes each batch as one file, replaces it in a retry, and fails if a test creates the file ``fail``."""

    guarantee: ClassVar[str] = "each match once"
    folder: Path
    refuses: str | None = None
    """Column that the sink rejects."""

    def describe(self) -> str:
        return str(self.folder)

    def prepare(self, session: Any, schema: Any, job: str) -> None:
        assert not (self.folder / "writing").exists(), "prepared beside a write"
        if self.refuses in schema.names:
            raise SettingsError(f"There is no column for {self.refuses}.")

    def write(self, batch: Batch) -> None:
        if (self.folder / "fail").exists():
            (self.folder / "fail").unlink()
            raise OSError("The disk is full.")
        (self.folder / "writing").touch()
        try:
            rows = [json.loads(row) for (row,) in batch.rows.selectExpr("to_json(struct(*))").collect()]
            (self.folder / f"{batch.number}.json").write_text(json.dumps(rows))
        finally:
            (self.folder / "writing").unlink()

    def rows(self) -> list[dict[str, Any]]:
        found = sorted(self.folder.glob("*.json"), key=lambda path: int(path.stem))
        return [row for path in found for row in json.loads(path.read_text())]


class AtLeastOnceSink(JsonFileSink):
    """May hold a row more than once, and wraps its errors as the built-in sinks do."""

    def supports_single_pass(self, session: Any) -> bool:
        return True

    def write(self, batch: Batch) -> None:
        with failing(self.describe(), batch):
            super().write(batch)


@dataclass
class EditableRules:
    """Rule texts that a test sets."""

    texts: dict[str, str]

    def read(self) -> RuleTexts:
        return RuleTexts(dict(self.texts))


@dataclass
class JobSetting:
    """Folder of input files, and a job that reads it."""

    spark: SparkSession
    folder: Path
    rules: EditableRules = field(default_factory=lambda: EditableRules({"pairs": PAIRS}))

    def __post_init__(self) -> None:
        for name in ("in", "out"):
            (self.folder / name).mkdir()
        self.sink = JsonFileSink(folder=self.folder / "out")

    def arrive(self, number: int, *rows: tuple[int, str, str, int]) -> None:
        """Write a file of events: second, type, user, number."""
        lines = [
            json.dumps({"ts": f"2026-01-01T00:{s // 60:02}:{s % 60:02}Z", "type": kind, "user": user, "n": n})
            for s, kind, user, n in rows
        ]
        staged = self.folder / f"{number}.staged"
        staged.write_text("\n".join(lines))
        os.utime(staged, (number, number))
        staged.rename(self.folder / "in" / f"{number:05}.json")

    def job(self, **more: Any) -> JobPlan:
        stream = (
            self.spark.readStream.schema(SCHEMA)
            .option("maxFilesPerTrigger", 1)
            .json(str(self.folder / "in"))
            .withWatermark("ts", "1 second")
        )

        def match_rules(texts: RuleTexts) -> RuleOutput:
            patterns = read_patterns(texts.patterns)
            return RuleOutput(
                patterns.match(ps.events(stream, options=ps.StreamOptions(shards=2))), versions_of(patterns), ["user"]
            )

        made = JobPlan("job", self.spark, self.rules, match_rules, [self.sink], str(self.folder / "checkpoint"))
        return replace(made, **more)

    def found(self) -> Counter[tuple[Any, ...]]:
        return Counter((row["pattern"], row["user"], row.get("a"), row.get("b")) for row in self.sink.rows())


@pytest.fixture
def setting(spark: SparkSession, tmp_path: Path) -> JobSetting:
    return JobSetting(spark, tmp_path)


def until(ready: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT
    while not ready():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


class RunnerThread:
    """Runs a job in a thread, and stops it at the end."""

    def __init__(self, job: JobPlan) -> None:
        self.runner = JobRunner(job)
        self.failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.runner.run()
        except BaseException as error:
            self.failed = error

    def __enter__(self) -> JobRunner:
        self._thread.start()
        return self.runner

    def __exit__(self, *_: object) -> None:
        self.runner.stop()
        self._thread.join(WAIT)
        assert not self._thread.is_alive()
        if self.failed is not None:
            raise self.failed


def test_rules_change_between_batches_without_lost_matches(setting: JobSetting) -> None:
    setting.arrive(1, (0, "A", "ann", 1), (1, "A", "bob", 7))
    with RunnerThread(setting.job()) as runner:
        until(lambda: runner.status.last_batch is not None)
        setting.rules.texts["big"] = BIG
        until(lambda: runner.status.changes == 1)
        setting.arrive(2, (10, "B", "ann", 2), (11, "A", "cat", 9))
        setting.arrive(3, (30, "B", "bob", 3), (31, "Z", "zoe", 0))
        until(lambda: setting.found()[("big", "cat", 9, None)] == 1)
        setting.rules.texts["big"] = "pattern big match A a where a.m >= 5"
        until(lambda: "big" in runner.status.rejected)
        setting.arrive(4, (60, "A", "dan", 8), (80, "Z", "zoe", 0))
        until(lambda: setting.found()[("big", "dan", 8, None)] == 1)
        del setting.rules.texts["big"]
        until(lambda: runner.status.changes == 2)
        setting.arrive(5, (90, "A", "eve", 8), (91, "B", "dan", 4), (120, "Z", "zoe", 0))
        until(lambda: setting.found()[("pairs", "dan", 8, 4)] == 1)
        assert not runner.status.rejected
    assert setting.found() == Counter(
        {
            ("pairs", "ann", 1, 2): 1,
            ("pairs", "bob", 7, 3): 1,
            ("pairs", "dan", 8, 4): 1,
            ("big", "cat", 9, None): 1,
            ("big", "dan", 8, None): 1,
        }
    )
    assert len(runner.status.reload_pauses_s) == 2


def test_partly_written_batch_finishes_with_its_rules(setting: JobSetting) -> None:
    setting.arrive(1, (0, "A", "ann", 6), (30, "Z", "zoe", 0))
    setting.arrive(2, (60, "Z", "zoe", 0))
    setting.rules.texts = {"big": BIG}
    (setting.folder / "out" / "fail").touch()
    job = setting.job(trigger={"availableNow": True}, reloads_rules=False)
    with pytest.raises(JobError, match="The disk is full"):
        JobRunner(job).run()
    batch = BatchLog(job.checkpoint).unfinished()
    assert batch is not None
    assert not setting.found()
    # The rules change while the job is down. The batch is in the batch log, so it runs with the old rules.
    setting.rules.texts = {"big": BIG.replace(">= 5", ">= 7")}
    setting.arrive(3, (90, "A", "bob", 7), (91, "A", "cat", 6))
    setting.arrive(4, (120, "Z", "zoe", 0))
    seen = JobRunner(job).run()
    assert seen.changes == 1
    assert setting.found() == Counter({("big", "ann", 6, None): 1, ("big", "bob", 7, None): 1})


def test_rule_change_that_a_sink_rejects_continues_with_the_previous_rules(setting: JobSetting) -> None:
    setting.sink = JsonFileSink(folder=setting.folder / "out", refuses="huge")
    setting.rules.texts = {"big": BIG}
    setting.arrive(1, (0, "A", "ann", 6), (30, "Z", "zoe", 0))
    own = Folder(str(setting.folder / "checkpoint")) / "perseid"
    with RunnerThread(setting.job(metrics=JobMetrics("job", own))) as runner:
        until(lambda: setting.found()[("big", "ann", 6, None)] == 1)
        setting.rules.texts["more"] = "pattern more match A a partition by user return a.n as huge"
        until(lambda: "more" in runner.status.rejected)
        assert "no column for huge" in str(runner.status.rejected["more"])
        until(lambda: "no column for huge" in json.loads(own.read("status.json") or b"{}")["rejected"].get("more", ""))
        setting.arrive(2, (40, "A", "bob", 7), (60, "Z", "zoe", 0))
        until(lambda: setting.found()[("big", "bob", 7, None)] == 1)


class StoppingQuery:
    """Query that has planned a batch when it is stopped; like Spark, it waits for the batch function."""

    isActive = True  # noqa: N815 (as Spark spells it)
    lastProgress: ClassVar[dict[str, int]] = {"batchId": 0}  # noqa: N815

    def __init__(self, handle: BatchHandler) -> None:
        self._handle = handle
        self.said: list[str] = []

    def _call(self) -> None:
        try:
            self._handle(None, 1)
        except Exception as error:
            self.said.append(type(error).__name__)

    def stop(self) -> None:
        call = threading.Thread(target=self._call, daemon=True)
        call.start()
        call.join(5)
        assert not call.is_alive(), "both wait for each other"
        self.isActive = False


def test_batch_during_shutdown_is_left_for_the_next_run(setting: JobSetting) -> None:
    job = setting.job()
    runner = JobRunner(job)
    handle = BatchHandler(runner.context, (job.rules.read(), RuleOutput(None, {})))
    handle.last_batch = 0
    runner.query = query = StoppingQuery(handle)
    runner._stop_gracefully(handle)
    assert query.said == ["QueryEndedError"]
    runner._raise_cause(handle, RuntimeError("the query ended with it"))
    assert handle.last_batch == 0


class ProgressQuery:
    """Query with a list of progress events."""

    def __init__(self) -> None:
        self.recent: list[dict[str, Any]] = []
        self.full_reads = 0

    def add_progress(self, number: int, *, idle: bool = False) -> None:
        did = {} if idle else {"addBatch": 1}
        event = {"batchId": number, "durationMs": did, "numInputRows": 10 + number, "observedMetrics": {}}
        self.recent.append(event)

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        return self.recent[-1] if self.recent else None

    @property
    def recentProgress(self) -> list[dict[str, Any]]:
        self.full_reads += 1
        return self.recent


def test_each_batch_is_reported_once_and_full_progress_is_read_only_after_a_gap(setting: JobSetting) -> None:
    progress: list[int] = []
    runner = JobRunner(setting.job(stop_rule=lambda read, _bad: progress.append(read)))
    runner.query = query = ProgressQuery()
    runner._poll_progress()
    for number in (0, 1):
        query.add_progress(number)
        runner._poll_progress()
        runner._poll_progress()
    query.add_progress(2, idle=True)
    runner._poll_progress()
    assert (progress, query.full_reads) == ([10, 11], 0)
    for number in (2, 3, 4):
        query.add_progress(number)
    query.add_progress(5, idle=True)
    runner._poll_progress()
    runner._poll_progress()
    assert (progress, query.full_reads) == ([10, 11, 12, 13, 14], 1)


def test_idle_query_reads_its_full_progress_once(setting: JobSetting) -> None:
    runner = JobRunner(setting.job())
    runner.query = query = ProgressQuery()
    for _ in range(3):
        query.add_progress(58, idle=True)
        runner._poll_progress()
    assert query.full_reads == 1


def test_failure_is_retried(setting: JobSetting) -> None:
    setting.arrive(1, (0, "A", "ann", 6), (30, "Z", "zoe", 0))
    setting.rules.texts = {"big": BIG}
    (setting.folder / "out" / "fail").touch()
    seen = JobRunner(setting.job(trigger={"availableNow": True}, retry_for_s=60, retry_wait_s=0.1)).run()
    assert seen.retries == 1
    assert setting.found() == Counter({("big", "ann", 6, None): 1})


class _Failing(Sink):
    """Fails every batch with the error that a test sets."""

    guarantee: ClassVar[str] = "none"
    folder: Path
    transient: bool = True

    def describe(self) -> str:
        return "failing"

    def write(self, batch: Batch) -> None:
        with (self.folder / "attempts").open("a") as file:
            file.write(".")
        raise SinkError("The server is gone.", sink="failing", batch=batch.number, transient=self.transient)

    def attempts(self) -> int:
        return len((self.folder / "attempts").read_text())


def test_transient_failure_is_retried_for_a_time(setting: JobSetting) -> None:
    setting.arrive(1, (0, "A", "ann", 6), (30, "Z", "zoe", 0))
    setting.rules.texts = {"big": BIG}
    sink = _Failing(folder=setting.folder)
    runner = JobRunner(setting.job(trigger={"availableNow": True}, sinks=[sink], retry_for_s=3.0, retry_wait_s=0.2))
    begun = time.monotonic()
    with pytest.raises(JobError, match="The server is gone"):
        runner.run()
    assert time.monotonic() - begun >= 3.0
    assert sink.attempts() == runner.status.retries + 1 >= 2


def test_permanent_failure_is_not_retried(setting: JobSetting) -> None:
    setting.arrive(1, (0, "A", "ann", 6), (30, "Z", "zoe", 0))
    setting.rules.texts = {"big": BIG}
    sink = _Failing(folder=setting.folder, transient=False)
    with pytest.raises(JobError, match="The server is gone"):
        JobRunner(setting.job(trigger={"availableNow": True}, sinks=[sink], retry_for_s=600)).run()
    assert sink.attempts() == 1


class _Broken(_Failing):
    """Fails every batch with an error that is neither from Perseid nor from a connection."""

    def write(self, batch: Batch) -> None:
        with suppress(SinkError):
            super().write(batch)
        raise ValueError("This value cannot be written.")


def test_unknown_failure_ends_the_job_at_once(setting: JobSetting) -> None:
    setting.arrive(1, (0, "A", "ann", 6), (30, "Z", "zoe", 0))
    setting.rules.texts = {"big": BIG}
    sink = _Broken(folder=setting.folder)
    begun = time.monotonic()
    with pytest.raises(JobError, match="This value cannot be written"):
        JobRunner(setting.job(trigger={"availableNow": True}, sinks=[sink], retry_for_s=600)).run()
    assert sink.attempts() == 1
    assert time.monotonic() - begun < WAIT


def test_stop_interrupts_the_wait_before_a_restart(setting: JobSetting) -> None:
    setting.arrive(1, (0, "A", "ann", 6), (30, "Z", "zoe", 0))
    setting.rules.texts = {"big": BIG}
    sink = _Failing(folder=setting.folder)
    runner = JobRunner(setting.job(sinks=[sink], retry_for_s=600, retry_wait_s=600))
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(runner.run)
        _wait_for(lambda: runner._failing_since_s is not None)
        begun = time.monotonic()
        runner.stop()
        with pytest.raises(JobError, match="The server is gone"):
            run.result(30)
    assert time.monotonic() - begun < 10


def test_stop_interrupts_the_wait_of_a_webhook(setting: JobSetting, caplog: pytest.LogCaptureFixture) -> None:
    setting.arrive(1, (0, "A", "ann", 6), (30, "Z", "zoe", 0))
    setting.rules.texts = {"big": BIG}
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # the port does not listen: connections are refused
        address = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        runner = JobRunner(setting.job(sinks=[Webhook.model_validate({"url": address})]))
        with ThreadPoolExecutor(1) as pool, pytest.MonkeyPatch.context() as patch:
            patch.setattr(webhook, "FIRST_WAIT_S", 600.0)
            patch.setattr(webhook, "MAX_WAIT_S", 600.0)
            run = pool.submit(runner.run)
            _wait_for(lambda: "; next in" in caplog.text)
            begun = time.monotonic()
            runner.stop()
            run.result(60)
            assert "is retried when the job starts again" in caplog.text
    assert time.monotonic() - begun < 20


def _wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def single_pass_batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list of batches that are written during their search."""
    seen: list[int] = []
    search = BatchHandler._search_into

    def spied(self: BatchHandler, sink: Sink, batch: Batch, kept: bool) -> dict[tuple[str, str], int]:
        seen.append(batch.number)
        return search(self, sink, batch, kept)

    monkeypatch.setattr(BatchHandler, "_search_into", spied)
    return seen


def test_at_least_once_sink_is_written_in_a_single_pass(setting: JobSetting, single_pass_batches: list[int]) -> None:
    setting.rules.texts = {"big": BIG, "pairs": PAIRS}
    for number in range(4):
        setting.arrive(number + 1, (60 * number, "A", "ann", 6), (60 * number + 30, "B", "ann", 7))
    setting.arrive(9, (600, "Z", "zoe", 0))
    kept = setting.sink
    setting.sink = AtLeastOnceSink(folder=setting.folder / "sent")
    for folder in ("sent", "dead"):
        (setting.folder / folder).mkdir()
    dead = JsonFileSink(folder=setting.folder / "dead")
    metrics = JobMetrics("job", log=setting.folder / "log.jsonl")
    job = setting.job(trigger={"availableNow": True}, metrics=metrics, dead_letters=dead)
    JobRunner(replace(job, sinks=[setting.sink, kept])).run()
    metrics.close()
    assert single_pass_batches == [1, 2, 3, 4, 5], "of the first batch nothing is written before all of it is searched"
    by_batch = sorted(kept.rows(), key=lambda row: row["match_id"])
    assert by_batch == sorted(setting.sink.rows(), key=lambda row: row["match_id"])
    lines = [json.loads(line) for line in (setting.folder / "log.jsonl").read_text().splitlines()]
    counts = Counter(row["pattern"] for row in by_batch)
    assert counts == {"big": 4, "pairs": 4}
    assert sum(sum(line["matches_by_pattern"].values()) for line in lines) == 8


def test_rules_that_fail_in_a_single_pass_do_not_block_their_batch(
    setting: JobSetting, single_pass_batches: list[int]
) -> None:
    @udf("boolean", useArrow=False)
    def no_66(number: int) -> bool:
        if number == 66:
            raise ValueError("cannot be: 66")
        return True

    (setting.folder / "sent").mkdir()
    setting.sink = AtLeastOnceSink(folder=setting.folder / "sent")
    setting.rules.texts = {"big": BIG}
    for number in range(3):
        setting.arrive(number + 1, (60 * number, "A", "ann", 6 + 30 * number), (60 * number + 30, "Z", "zoe", 0))
    setting.arrive(4, (600, "Z", "zoe", 0))
    made = setting.job(trigger={"availableNow": True}, reloads_rules=False)

    def fails(texts: RuleTexts) -> RuleOutput:
        found = made.build_query(texts)
        return replace(found, frame=found.frame.where(no_66("a")))

    job = replace(made, build_query=fails)
    with pytest.raises(JobError, match="cannot be: 66"):
        JobRunner(job).run()
    batch = BatchLog(job.checkpoint).unfinished()
    assert batch == single_pass_batches[-1]
    assert BatchLog(job.checkpoint).rules_of(batch) is None
    setting.rules.texts = {"big": BIG.replace(">= 5", ">= 67")}
    setting.arrive(5, (660, "A", "bob", 70), (690, "Z", "zoe", 0))
    setting.arrive(6, (800, "Z", "zoe", 0))
    JobRunner(job).run()
    assert sorted(row["a"] for row in setting.sink.rows()) == [6, 36, 70]


@pytest.mark.parametrize(
    ("caps", "kept", "letters"),
    [
        (Caps(pattern=2, policy="drop_oldest"), [8, 9], 0),
        (Caps(pattern=2, policy="dead_letter"), [6, 7], 2),
        (Caps(key=1, batch=3, policy="dead_letter"), [6, 8], 2),
        (Caps(key=1, batch=1, policy="drop_oldest"), [9], 0),
    ],
)
def test_caps_truncate_a_batch_with_a_warning(setting: JobSetting, caps: Caps, kept: list[int], letters: int) -> None:
    setting.arrive(1, (0, "A", "ann", 6), (1, "A", "ann", 7), (2, "A", "bob", 8), (3, "A", "bob", 9), (30, "Z", "z", 0))
    setting.rules.texts = {"big": BIG}
    (setting.folder / "dead").mkdir()
    dead = JsonFileSink(folder=setting.folder / "dead")
    metrics = JobMetrics("job", log=setting.folder / "log.jsonl")
    JobRunner(setting.job(trigger={"availableNow": True}, caps=caps, dead_letters=dead, metrics=metrics)).run()
    assert sorted(row["a"] for row in setting.sink.rows()) == kept
    assert len(dead.rows()) == letters
    assert all(
        row["kind"] == "capped" and "The batch has more than" in row["reason"] and '"pattern"' in row["row"]
        for row in dead.rows()
    )
    lines = [json.loads(line) for line in (setting.folder / "log.jsonl").read_text().splitlines()]
    assert sum(line["dropped"] for line in lines) == 4 - len(kept)
    assert sum(line["dead_letters"] for line in lines) == letters
    assert sum(line["events"] for line in lines) == 4
    assert metrics.registry.get_sample_value("perseid_dropped_total") == 4 - len(kept)
    metrics.close()


def test_cap_can_fail_the_job_before_a_write(setting: JobSetting) -> None:
    setting.arrive(1, (0, "A", "ann", 6), (1, "A", "ann", 7), (30, "Z", "z", 0))
    setting.rules.texts = {"big": BIG}
    with pytest.raises(JobError, match="more than 1 matches of one pattern"):
        JobRunner(setting.job(trigger={"availableNow": True}, caps=Caps(pattern=1))).run()
    assert not setting.sink.rows()


def test_metrics_and_status_of_a_job(setting: JobSetting) -> None:
    setting.arrive(1, (0, "A", "ann", 6), (1, "A", "bob", 7), (30, "Z", "z", 0))
    setting.rules.texts = {"big": BIG, "pairs": PAIRS}
    job = setting.job(trigger={"availableNow": True})
    metrics = JobMetrics("job", Folder(job.checkpoint) / "perseid")
    port = metrics.serve("127.0.0.1", 0)
    JobRunner(replace(job, metrics=metrics)).run()
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    metrics.close()
    assert 'perseid_matches_total{kind="match",pattern="big"} 2.0' in text
    assert "perseid_rows_read_total 3.0" in text
    assert "perseid_retained_events 2.0" in text  # both wait for their B event
    status = json.loads((Path(job.checkpoint) / "perseid" / "status.json").read_text())
    assert status["matches_by_pattern"] == {"big match": 2}
    assert status["totals"]["read"] == 3
    assert status["gauges"]["live_keys"] == 2


def test_status_after_a_restart_is_that_of_the_new_process(setting: JobSetting) -> None:
    own = Folder(str(setting.folder / "checkpoint")) / "perseid"

    def status() -> tuple[dict[str, Any], str]:
        read = json.loads(own.read("status.json") or b"{}")
        console = Console(width=200, record=True, file=io.StringIO())
        console.print(shown(read, time.time()))
        return read, console.export_text()

    setting.arrive(1, (0, "A", "ann", 6), (30, "Z", "z", 0))
    setting.rules.texts = {"big": BIG}
    JobRunner(replace(setting.job(trigger={"availableNow": True}), metrics=JobMetrics("job", own))).run()
    before, text = status()
    assert before["rules"] == ["big"]
    assert before["matches_by_pattern"] == {"big match": 1}
    assert "big match" in text

    setting.rules.texts = {"pairs": PAIRS}
    runner = JobRunner(replace(setting.job(), metrics=JobMetrics("job", own)))
    running = threading.Thread(target=runner.run)
    running.start()
    found = [(before, text)]
    try:
        until(lambda: found.append(status()) or found[-1][0]["since"] > before["since"])  # type: ignore[func-returns-value]
    finally:
        runner.stop()
        running.join(WAIT)
    after, text = found[-1]
    assert after["rules"] == ["pairs"]
    assert after["last"] is None
    assert after["matches_by_pattern"] == {}
    assert after["since"] > before["since"]
    assert "no batch yet" in text
    assert "rules: pairs" in text
    assert "big" not in text


def test_bad_rows_above_the_limit_fail_the_job(setting: JobSetting) -> None:
    setting.arrive(1, (0, "A", "ann", 6))
    (setting.folder / "in" / "00002.json").write_text('{"type": "A"}')
    rule = lambda read, bad: f"{bad} of {read} rows were bad." if bad else None  # noqa: E731
    with pytest.raises(StoppedError, match="1 of 1 rows were bad"):
        JobRunner(setting.job(stop_rule=rule)).run()


def test_second_job_on_a_checkpoint_is_rejected(setting: JobSetting) -> None:
    job = setting.job(trigger={"availableNow": True})
    with CheckpointLock(job.checkpoint), pytest.raises(SettingsError, match=r"Another job .* \(process \d+\)"):
        JobRunner(job).run()
    JobRunner(job).run()


def test_checkpoint_of_another_query_is_rejected(setting: JobSetting) -> None:
    (setting.folder / "checkpoint" / "offsets").mkdir(parents=True)
    (setting.folder / "checkpoint" / "offsets" / "0").touch()
    with pytest.raises(ps.errors.StateError, match="not started as a job"):
        JobRunner(setting.job()).run()
