"""The examples of the guide to sources are valid settings of a job file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from perseid.jobs.reading import read_job

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "sources.md"
EXAMPLES = [
    block
    for block in re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    if block.startswith("source:")
]


def test_the_guide_has_examples_of_both_sources() -> None:
    assert [next(iter(yaml.safe_load(example)["source"])) for example in EXAMPLES] == ["kafka", "files"]


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_is_read(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_LOGIN", "login")
    job = {
        "job": "examples",
        "stream": {**yaml.safe_load(example), "lateness": "10 minutes"},
        "patterns": {"text": "pattern p match A a -> B b within 1 hour"},
        "sinks": [{"parquet": {"path": str(tmp_path / "out")}}],
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    assert read_job(file).stream.source is not None
