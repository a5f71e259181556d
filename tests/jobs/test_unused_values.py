"""Unused values and parameters do not reject the rules of a job."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

import perseid as ps
from perseid.jobs.assembly import assemble
from perseid.jobs.reading import read_job
from perseid.jobs.rules import RuleTexts, RuleWatcher

pytestmark = pytest.mark.timeout(240)


class MutableRules:
    """Rules that a test changes."""

    def __init__(self, **texts: str) -> None:
        self.texts = texts

    def read(self) -> RuleTexts:
        return RuleTexts(dict(self.texts))


def test_unused_value_and_unused_parameter_do_not_reject_a_live_rule(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "in").mkdir()
    files = {"path": str(tmp_path / "in"), "format": "json", "schema": "ts timestamp, type string, n bigint"}
    job: dict[str, Any] = {
        "job": "live",
        "stream": {"source": {"files": files}, "lateness": "1 second"},
        "patterns": {"text": "pattern p match A a"},
        "bind": {"least": 5},
        "sinks": [{"parquet": {"path": str(tmp_path / "out")}}],
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    rules = MutableRules(p="pattern p(least bigint) match A a [n > :least]")
    watcher = RuleWatcher(rules, assemble(read_job(tmp_path / "job.yaml"), spark).build_query)
    current, _ = watcher.load()
    assert caplog.messages == []

    rules.texts = {"p": "pattern p(leest bigint = 3) match A a [n > :leest]"}
    with caplog.at_level(logging.WARNING, "perseid.jobs"):
        assert watcher.poll(current) is None  # the change is within the debounce interval
        found = watcher.poll(current)
    assert found is not None
    assert found[0] == rules.read()
    assert watcher.rejected == {}
    assert caplog.messages == [
        "bind: no pattern has a parameter 'least'; its value is unused. Did you mean 'leest'?",
    ]

    rules.texts = {"p": "pattern p(least bigint) match A a [n > 5]"}
    watcher.poll(found[0])
    with pytest.warns(ps.errors.PerseidWarning, match="Pattern p: parameter 'least' is declared but never used"):
        again = watcher.poll(found[0])
    assert again is not None
    assert again[0] == rules.read()
    assert watcher.rejected == {}
