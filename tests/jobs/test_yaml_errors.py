"""Errors in YAML have a position, a plain message and a correction."""

from __future__ import annotations

from pathlib import Path

import pytest

from perseid.errors import SettingsError
from perseid.jobs.reading import read_job
from tests.jobs.test_job_files import WHOLE, written

GLOB = ("* begins an alias in YAML, not a string.", 'Put the value in quotes, as in "*.json".')
ALIGNED = "wrong indentation: the line is aligned with no block above it."
BELOW = "wrong indentation: this key is indented below a value."
MISTAKES = {
    "a glob": ("job: a\npatterns: *.perseid\n", 2, 11, *GLOB),
    "a glob of folders": ("path: **/*.json\n", 1, 7, *GLOB),
    "a glob in a list": ("patterns: [*.perseid, b]\n", 1, 12, *GLOB),
    "a star": ("path: *\n", 1, 7, *GLOB),
    "an alias of nothing": ("path: *rules\n", 1, 7, "found undefined alias.", "Put the value in quotes."),
    "a tab": ("job: a\nstream:\n\tkind: events\n", 3, 1, "unexpected tab.", "Use spaces"),
    "a tab after a colon": ("job:\ta\n", 1, 5, "unexpected tab.", "Use spaces"),
    "deeper than its block": ("stream:\n  kind: {}\n   type: b\n", 3, 4, ALIGNED, "Indent with spaces"),
    "less deep than its block": ("stream:\n  kind: {}\n type: b\n", 3, 2, ALIGNED, "Indent with spaces"),
    "an item of no list": ("sinks:\n  - a\n - b\n", 3, 2, ALIGNED, "Indent with spaces"),
    "an indented first line": ("  job: a\nstream: b\n", 2, 1, ALIGNED, "Indent with spaces"),
    "below a value": ("job: a\n stream: b\n", 2, 2, BELOW, "begin all keys or list items of one block"),
    "a colon in a value": ("job: a: b\n", 1, 7, "unexpected colon in a value.", "Put the value in quotes."),
    "no space after a colon": ("job:a\nstream: b\n", 1, 4, "a colon without a space after it.", "NAME: VALUE"),
    "no colon": ("job: a\nstream\nsinks: b\n", 2, 1, "a key has no colon.", "Write NAME: VALUE."),
    "an open bracket": ("job: [a, b\nsinks: c\n", 1, 6, "[ is not closed, or a comma is missing in it.", "Add ]"),
    "an open brace": ("job: {a: b\nsinks: c\n", 1, 6, "{ is not closed, or a comma is missing in it.", "Add }"),
    "a closing brace": ("job: {a: b}}\n", 1, 12, "unexpected }.", "Remove it"),
    "an open quote": ("job: 'abc\nsinks: c\n", 1, 6, "a quote is not closed.", "Add the closing quote."),
    "text after a quote": ("job: 'a' b\n", 1, 10, "unexpected text after a value.", "Put the whole value in quotes."),
    "an unknown escape": ('job: "\\d"\n', 1, 8, "unknown escape sequence in double quotes.", "single quotes"),
    "an at sign": ("job: @a\n", 1, 6, "a value cannot begin with @.", "Put the value in quotes."),
    "an anchor without a name": ("job: &*a\n", 1, 6, "& begins an anchor in YAML, not a string.", "in quotes."),
    "two documents": ("job: a\n---\njob: b\n", 2, 1, "a second document begins here.", "Remove the line ---"),
    "a character of no text": ("job: a\nbind: \x07\n", 2, 7, "special characters are not allowed.", "Remove"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_has_place_reason_and_correction(name: str, tmp_path: Path) -> None:
    text, line, column, said, hint = MISTAKES[name]
    path = written(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        read_job(path)
    assert caught.value.message == f"{path}, line {line}, column {column}: invalid YAML: {said}"
    assert hint in (caught.value.hint or "")


def test_message_has_no_content_of_the_file(tmp_path: Path) -> None:
    for text in ("password: *hunter2", "password: &hunter2*", "password: a: hunter2", "password: @hunter2", "'hunter2"):
        with pytest.raises(SettingsError) as caught:
            read_job(written(tmp_path, text))
        assert "hunter2" not in str(caught.value)


def test_glob_in_quotes_is_a_path(tmp_path: Path) -> None:
    job = read_job(written(tmp_path, WHOLE.replace("path: in", 'path: "in/*.json"')))
    assert getattr(job.stream.sources_by_path()["source"], "path", None) == str(tmp_path / "in/*.json")
