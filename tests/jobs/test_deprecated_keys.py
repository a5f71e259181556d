"""Old keys of job files work throughout 0.1; each warns once and names the new key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perseid.deprecated import RENAMED_JOB_KEYS, RENAMED_KINDS, RENAMED_STRATEGY_KEYS
from perseid.errors import DeprecatedNameWarning
from perseid.jobs import JobFileError, read_job
from perseid.jobs.stream_kinds.disorder import STRATEGY_SETTINGS
from perseid.jobs.stream_kinds.settings_by_kind import settings_by_kind

UNCERTAIN = Path(__file__).parent / "files" / "uncertain.yaml"
CHANGELOG = (Path(__file__).parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")
MODEL = """
job: site
stream:
  kind: model
  source: {files: {path: in, format: parquet}}
  lateness: 1 minute
  metamodel: {text: "model m node Host (cpu bigint) query busy(host) find host: Host"}
  beside: {source: {files: {path: other, format: parquet}}, lateness: 1 minute}
patterns: {text: "pattern p match found busy a"}
sinks: [console]
checkpoint: state
"""
SUBSCRIPTIONS = """
job: feeds
stream:
  kind: subscriptions
  source: {files: {path: in, format: parquet}}
  lateness: 1 minute
  body: xml
  type: feed
  shares: 3
  subscriptions: {texts: {ann: "Feed//a->x JOIN{x = y, 1 day} Feed//b->y"}}
sinks: [console]
checkpoint: state
"""


def old_uncertain() -> str:
    """Return the job file with old keys; ``given``, ``p`` and other keys that it lacks are tested by their table."""
    text = UNCERTAIN.read_text(encoding="utf-8")
    for old, new in RENAMED_JOB_KEYS["uncertain"].items():
        text = re.sub(rf"^  {new}:", f"  {old}:", text, flags=re.MULTILINE)
    return text.replace("kind: uncertain", "kind: beliefs").replace("  every:", "  patience: 2 seconds\n  every:")


def test_old_keys_of_uncertain_streams(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(old_uncertain())
    with pytest.warns(DeprecatedNameWarning, match="in a job file") as caught:
        stream = read_job(path).stream
    new = tmp_path / "new.yaml"
    new.write_text(UNCERTAIN.read_text(encoding="utf-8").replace("  every:", "  reading_timeout: 2 seconds\n  every:"))
    assert stream == read_job(new).stream
    messages = {str(one.message).partition(" ")[0] for one in caught}
    assert messages == {"kind:", "event:", "of:", "about:", "tell:", "patience:"}


@pytest.mark.parametrize(
    ("text", "old", "new", "value"),
    [(MODEL, "beside", "events", None), (SUBSCRIPTIONS, "shares", "query_partitions", 3)],
)
def test_old_keys_of_other_kinds(tmp_path: Path, text: str, old: str, new: str, value: int | None) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    with pytest.warns(DeprecatedNameWarning, match=f"^{old}: in a job file is deprecated .* Use {new}:") as caught:
        stream = read_job(path).stream
    assert len(caught) == 1
    assert getattr(stream, new) is not None
    assert value is None or getattr(stream, new) == value


def test_old_keys_of_strategies(tmp_path: Path) -> None:
    for strategy, keys in RENAMED_STRATEGY_KEYS.items():
        for old, new in keys.items():
            with pytest.warns(DeprecatedNameWarning, match=f"^{old}: in a job file is deprecated .* Use {new}:"):
                settings = STRATEGY_SETTINGS[strategy].model_validate({old: "mark"})
            assert getattr(settings, new) == "mark"
            assert f"| `{old}:` in `disorder: {{{strategy}: …}}` | `{new}:` |" in CHANGELOG


def test_old_and_new_key_together_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(SUBSCRIPTIONS.replace("  shares: 3", "  shares: 3\n  query_partitions: 4"))
    with pytest.raises(JobFileError, match="shares and query_partitions are given"):
        read_job(path)


def test_new_keys_exist_and_the_changelog_has_the_old_ones() -> None:
    kinds = settings_by_kind()
    assert set(RENAMED_KINDS.values()) <= set(kinds)
    for kind, keys in RENAMED_JOB_KEYS.items():
        fields = kinds[kind].model_fields
        for old, new in keys.items():
            assert new in fields
            assert old not in fields
            assert f"| `{old}:` in `kind: {kind}` | `{new}:` |" in CHANGELOG
    for old, new in RENAMED_KINDS.items():
        assert f"| `kind: {old}` | `kind: {new}` |" in CHANGELOG
