"""A pattern that exceeds its search budget is quarantined; the other patterns continue without lost matches."""

from __future__ import annotations

import io
import json
import logging
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession
from rich.console import Console

import perseid as ps
from perseid.cli.running import shown
from perseid.errors import SettingsError, StateError
from perseid.jobs.assembly import assemble
from perseid.jobs.batch_log import BatchLog
from perseid.jobs.folders import Folder
from perseid.jobs.job_plan import JobError, JobPlan, RuleOutput
from perseid.jobs.metrics import JobMetrics
from perseid.jobs.quarantine import (
    QUARANTINE_FILE,
    Quarantine,
    QuarantiningSource,
    budget_error_in,
    without_quarantined,
)
from perseid.jobs.reading import read_job
from perseid.jobs.rules import RuleTexts, RuleWatcher, read_patterns, versions_of
from perseid.jobs.runner import JobRunner
from tests.jobs.test_runner import BIG, PAIRS, AtLeastOnceSink, EditableRules, JobSetting, RunnerThread, setting, until

pytestmark = pytest.mark.timeout(240)

__all__ = ["setting"]

TRIPLES = "pattern triples match E a ->> E b ->> E c within 1 hour partition by user return a.n as a, c.n as b"
FED = "pattern fed match triples x partition by user"
MANY = 30
"""Events of one user with 4,060 triples: more than the limit of 1,300."""


def job_of(setting: JobSetting, **more: Any) -> JobPlan:
    """Return the job of the setting, with a small search budget."""
    made = setting.job(limits=(2_500_000, 1_000), **more)
    stream = (
        setting.spark.readStream.schema("ts timestamp, type string, user string, n long")
        .option("maxFilesPerTrigger", 1)
        .json(str(setting.folder / "in"))
        .withWatermark("ts", "1 second")
    )

    def match_rules(texts: RuleTexts) -> RuleOutput:
        rules, excluded = without_quarantined(read_patterns(texts.patterns), texts.quarantined)
        frame = rules.match(ps.events(stream, options=ps.StreamOptions(shards=2, max_matches=1_000)))
        return RuleOutput(frame, versions_of(rules), ["user"], excluded)

    return replace(made, build_query=match_rules)


def explode(setting: JobSetting, number: int, *rows: tuple[int, str, str, int]) -> None:
    """Write a file with too many triples, and other rows."""
    setting.arrive(number, *((i, "E", "eve", i) for i in range(MANY)), *rows)


def status_of(setting: JobSetting) -> dict[str, Any]:
    own = Folder(str(setting.folder / "checkpoint")) / "perseid"
    found: dict[str, Any] = json.loads(own.read("status.json") or b"{}")
    return found


def test_exceeding_pattern_is_quarantined_and_the_others_continue_in_the_same_batch(
    setting: JobSetting, caplog: pytest.LogCaptureFixture
) -> None:
    setting.rules.texts = {"pairs": PAIRS, "big": BIG, "more": f"{TRIPLES}\n{FED}"}
    explode(setting, 1, (40, "A", "ann", 6), (41, "B", "ann", 7))
    setting.arrive(2, (300, "Z", "zoe", 0))
    own = Folder(str(setting.folder / "checkpoint")) / "perseid"
    metrics = JobMetrics("job", own)
    with caplog.at_level(logging.WARNING, "perseid.jobs"), RunnerThread(job_of(setting, metrics=metrics)) as runner:
        until(lambda: setting.found()["pairs", "ann", 6, 7] == 1)
        until(lambda: bool(status_of(setting).get("last")))
        assert runner.status.quarantines == 1
        assert sorted(runner.status.quarantined) == ["fed", "triples"]
        status = status_of(setting)
        assert status["quarantines"] == 1
        assert "triples exceeded its search budget: more than 1,300 matches" in status["quarantined"]["triples"]
        assert "takes matches of triples" in status["quarantined"]["fed"]
        assert status["rules"] == ["big", "pairs"]
        assert metrics.registry.get_sample_value("perseid_rules_quarantined") == 2
        assert metrics.registry.get_sample_value("perseid_quarantines_total") == 1
        console = Console(file=io.StringIO(), width=200)
        console.print(shown(status, 0.0))
        assert "quarantined: triples: Pattern triples exceeded" in console.file.getvalue()  # type: ignore[attr-defined]
    assert any("pattern triples is quarantined" in message for message in caplog.messages)
    assert setting.found() == Counter({("pairs", "ann", 6, 7): 1, ("big", "ann", 6, None): 1})


def test_quarantine_survives_a_restart_and_ends_with_a_new_text(setting: JobSetting) -> None:
    setting.rules.texts = {"big": BIG, "triples": TRIPLES}
    explode(setting, 1, (40, "A", "ann", 6))
    setting.arrive(2, (300, "Z", "zoe", 0))
    job = job_of(setting, trigger={"availableNow": True}, reloads_rules=False)
    assert JobRunner(job).run().quarantines == 1
    setting.arrive(3, (400, "E", "kim", 1), (401, "E", "kim", 2), (402, "E", "kim", 3), (403, "A", "ann", 8))
    setting.arrive(4, (600, "Z", "zoe", 0))
    again = JobRunner(job).run()
    assert (again.quarantines, list(again.quarantined)) == (0, ["triples"])
    assert setting.found() == Counter({("big", "ann", 6, None): 1, ("big", "ann", 8, None): 1})
    setting.rules.texts["triples"] = TRIPLES.replace("1 hour", "2 hours")
    with RunnerThread(job_of(setting)) as runner:
        setting.arrive(5, (700, "E", "lou", 1), (701, "E", "lou", 2), (702, "E", "lou", 3))
        setting.arrive(6, (900, "Z", "zoe", 0))
        until(lambda: setting.found()["triples", "lou", 1, 3] == 1)
        assert runner.status.quarantined == {}


def test_text_that_changes_while_the_job_runs_ends_the_quarantine(setting: JobSetting) -> None:
    setting.rules.texts = {"big": BIG, "triples": TRIPLES}
    explode(setting, 1)
    with RunnerThread(job_of(setting)) as runner:
        setting.arrive(2, (300, "Z", "zoe", 0))
        until(lambda: "triples" in runner.status.quarantined)
        setting.rules.texts["triples"] = f"{TRIPLES}\n-- the same meaning"
        until(lambda: runner.status.last_batch is not None)
        setting.rules.texts["triples"] = TRIPLES.replace("within 1 hour", "within 10 seconds")
        until(lambda: not runner.status.quarantined)
        setting.arrive(3, (400, "E", "lou", 1), (401, "E", "lou", 2), (402, "E", "lou", 3))
        setting.arrive(4, (500, "Z", "zoe", 0))
        until(lambda: setting.found()["triples", "lou", 1, 3] == 1)
        assert runner.status.quarantines == 1


def test_new_rule_that_explodes_does_not_revert_other_changes(setting: JobSetting) -> None:
    setting.rules.texts = {"big": BIG}
    setting.arrive(1, (0, "A", "ann", 6), (30, "Z", "zoe", 0))
    with RunnerThread(job_of(setting)) as runner:
        until(lambda: setting.found()["big", "ann", 6, None] == 1)
        setting.rules.texts |= {"pairs": PAIRS, "triples": TRIPLES}
        until(lambda: runner.status.changes == 1)
        setting.arrive(2, *((60 + i, "E", "eve", i) for i in range(MANY)), (100, "A", "bob", 8), (101, "B", "bob", 9))
        setting.arrive(3, (300, "Z", "zoe", 0))
        until(lambda: setting.found()["pairs", "bob", 8, 9] == 1)
        assert list(runner.status.quarantined) == ["triples"]
        assert runner.status.rejected == {}


def test_search_that_explodes_while_a_sink_is_written_is_quarantined(setting: JobSetting) -> None:
    """A sink that is written during the search receives the batch again, without the pattern."""
    setting.sink = AtLeastOnceSink(folder=setting.folder / "out")
    setting.rules.texts = {"big": BIG, "triples": TRIPLES}
    setting.arrive(1, (0, "A", "ann", 6), (30, "Z", "zoe", 0))
    with RunnerThread(job_of(setting)) as runner:
        until(lambda: setting.found()["big", "ann", 6, None] == 1)
        setting.arrive(2, *((60 + i, "E", "eve", i) for i in range(MANY)), (100, "A", "bob", 8), (300, "Z", "zoe", 0))
        setting.arrive(3, (600, "Z", "zoe", 0))
        until(lambda: setting.found()["big", "bob", 8, None] == 1)
        assert list(runner.status.quarantined) == ["triples"]
    assert setting.found() == Counter({("big", "ann", 6, None): 1, ("big", "bob", 8, None): 1})


def test_job_with_only_a_quarantined_pattern_fails_with_the_reason(setting: JobSetting) -> None:
    setting.rules.texts = {"triples": TRIPLES}
    explode(setting, 1)
    setting.arrive(2, (300, "Z", "zoe", 0))
    job = job_of(setting, trigger={"availableNow": True}, reloads_rules=False)
    with pytest.raises(JobError, match="All patterns of the job are quarantined: triples"):
        JobRunner(job).run()
    with pytest.raises(SettingsError, match="All patterns of the job are quarantined: triples"):
        JobRunner(job).run()


def test_other_limits_end_the_quarantine(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    Quarantine(folder, (1, 2)).add("p", "v1", "too much")
    assert Quarantine(folder, (1, 2)).versions() == {"p": "v1"}
    assert Quarantine(folder, (1, 3)).versions() == {}


def test_damaged_file_is_a_state_error(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    for body in (b"{", b"[]", b'{"patterns": [1]}', b'{"patterns": [{"pattern": "p"}]}'):
        folder.write(QUARANTINE_FILE, body)
        with pytest.raises(StateError, match="is damaged"):
            Quarantine(folder)


def test_batch_log_names_the_quarantined_patterns_of_a_batch(tmp_path: Path) -> None:
    texts = RuleTexts({"p": "pattern p match A"}, {}, {"p": "v1"})
    assert RuleTexts.from_stored(texts.to_stored()) == texts
    assert texts.digest != RuleTexts(texts.patterns).digest
    assert "quarantined" not in RuleTexts(texts.patterns).to_stored()
    batch_log = BatchLog(str(tmp_path))
    batch_log.save_rules(texts.digest, texts.to_stored())
    batch_log.record(0, texts.digest)
    assert RuleTexts.from_stored(batch_log.rules_of(0) or {}) == texts


def test_rules_in_quarantine_are_not_read_as_a_change(tmp_path: Path) -> None:
    quarantine = Quarantine(Folder(str(tmp_path)))
    quarantine.add("p", "v1", "too much")
    watcher = RuleWatcher(
        QuarantiningSource(EditableRules({"p": "pattern p match A"}), quarantine), lambda texts: texts
    )
    current, _ = watcher.load()
    assert [watcher.poll(current) for _ in range(3)] == [None] * 3


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "perseid.errors.SearchBudgetError: Pattern p exceeded its search budget: more than 5 steps.\n  = Bound it",
            "p",
        ),
        ("LimitError: Pattern p exceeded", None),
    ],
)
def test_pattern_is_read_from_the_error_of_a_worker(text: str, found: str | None) -> None:
    error = JobError("The query failed.")
    error.__cause__ = RuntimeError(f"Traceback (most recent call last):\n{text}\n\tat org.apache.spark")
    named = budget_error_in(error)
    assert (None if named is None else named[0]) == found


def test_limits_of_the_job_file_reach_the_search(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    files = {"path": str(tmp_path / "in"), "format": "json", "schema": "ts timestamp, type string, n bigint"}
    job: dict[str, Any] = {
        "job": "live",
        "stream": {"source": {"files": files}, "lateness": "1 second", "max_steps": 77, "max_matches": 88},
        "patterns": {"text": "pattern p match A a"},
        "sinks": [{"parquet": {"path": str(tmp_path / "out")}}],
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    assert assemble(read_job(tmp_path / "job.yaml"), spark).limits == (77, 88)
    job["stream"]["max_steps"] = 0
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    with pytest.raises(SettingsError, match="max_steps"):
        read_job(tmp_path / "job.yaml")
