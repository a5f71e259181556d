"""Rules that differ from those of the checkpoint: log messages, and effects on partial matches."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from perseid.jobs.batch_log import BatchLog
from perseid.jobs.rule_changes import RUN_BOTH, compare_rules
from perseid.jobs.rules import read_patterns, versions_of
from perseid.jobs.runner import JobRunner
from tests.jobs.test_runner import BIG, PAIRS, JobSetting

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def setting(spark: SparkSession, tmp_path: Path) -> JobSetting:
    return JobSetting(spark, tmp_path)


def test_versions_are_compared_by_name_and_by_meaning() -> None:
    before = {"same": "1", "changed": "2", "old": "3", "gone": "4", "quarantined": "5"}
    after = {"same": "1", "changed": "20", "new": "3", "more": "6"}
    found = compare_rules(before, after, {"quarantined"})
    assert (found.added, found.removed, found.renamed) == (["more"], ["gone"], [("old", "new")])
    assert found.changed == {"changed": ("2", "20")}
    assert list(found.messages()) == [
        (logging.INFO, "rules added: more"),
        (logging.INFO, "rules renamed, which keep their open partial matches: old to new"),
        (logging.INFO, "rules removed, with their open partial matches: gone"),
        (
            logging.WARNING,
            f"rules changed, and their open partial matches are discarded: changed (version 2, now 20). {RUN_BOTH}",
        ),
    ]
    assert not list(compare_rules(before, before).messages())


def test_long_lists_of_rules_are_cut() -> None:
    (message,) = compare_rules({}, {f"rule{n:04}": str(n) for n in range(1000)}).messages()
    assert message[1].endswith("rule0019, and 980 more")


def test_changes_since_the_last_run_are_logged_and_a_changed_rule_loses_its_partial_matches(
    setting: JobSetting, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "perseid.jobs")
    longer = PAIRS.replace("1 hour", "2 hours")
    small = BIG.replace("big", "small")

    def run(**texts: str) -> list[str]:
        setting.rules.texts = texts
        caplog.clear()
        JobRunner(setting.job(trigger={"availableNow": True})).run()
        return [record.getMessage() for record in caplog.records if record.getMessage().startswith("rules ")]

    gone = BIG.replace("big", "gone").replace(">= 5", ">= 6")
    setting.arrive(1, (0, "A", "ann", 1), (10, "Z", "zoe", 0))
    assert run(pairs=PAIRS, big=BIG, gone=gone) == []
    assert BatchLog(setting.job().checkpoint).versions() == versions_of(
        read_patterns({"pairs": PAIRS, "big": BIG, "gone": gone})
    )
    old, new = (versions_of(read_patterns({"pairs": text}))["pairs"] for text in (PAIRS, longer))
    setting.arrive(2, (20, "B", "ann", 2), (40, "Z", "zoe", 0))
    more = BIG.replace("big", "more").replace(">= 5", ">= 7")
    assert run(pairs=longer, small=small, more=more) == [
        "rules added: more",
        "rules renamed, which keep their open partial matches: big to small",
        "rules removed, with their open partial matches: gone",
        f"rules changed, and their open partial matches are discarded: pairs (version {old}, now {new}). {RUN_BOTH}",
    ]
    assert not setting.sink.rows()  # the A of ann was an open partial match
    assert run(pairs=longer, small=small, more=more) == []
