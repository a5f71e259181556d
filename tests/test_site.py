"""The site: generated pages and pictures are current, every public thing is documented, and words are spelled right."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import perseid as ps
from website import pictures, reference, spelling

DOCS = Path(__file__).parents[1] / "docs"


def check_file(path: Path, expected: str) -> None:
    if os.environ.get("PERSEID_REWRITE_GOLDEN"):
        path.write_text(expected, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == expected


@pytest.mark.parametrize("name", reference.PAGES)
def test_reference_page_is_current(name: str) -> None:
    check_file(DOCS / "reference" / name, reference.PAGES[name]())


def test_picture_of_the_readme_is_current() -> None:
    check_file(pictures.FILE, pictures.picture())


def test_every_public_name_has_a_docstring_and_an_entry() -> None:
    page = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    names = reference.public_names()
    assert sum(map(len, names.values())) > 60
    for module, members in names.items():
        for name in members:
            value = getattr(ps if module == "perseid" else getattr(ps, module.partition(".")[2]), name)
            assert value.__doc__, f"{module}.{name} has no docstring"
            assert f"::: {value.__module__}.{value.__qualname__}\n" in page


def test_every_key_of_a_job_file_has_a_description() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| [^|]+ \| ([^|]*) \|", (DOCS / "reference" / "job-file.md").read_text(), re.MULTILINE
    )
    assert len(rows) > 150
    missing = {key for key, text in rows if not text.strip()}
    assert missing == {"kind"} | UNDESCRIBED


def test_every_option_of_the_command_line_has_a_description() -> None:
    rows = re.findall(r"^\| (`[^|]+`) \| ([^|]*) \|", (DOCS / "reference" / "cli.md").read_text(), re.MULTILINE)
    assert len(rows) > 50
    assert [names for names, text in rows if not text.strip()] == []


def test_words_are_spelled_right() -> None:
    assert spelling.misspelled() == {}


def test_words_of_the_list_are_used() -> None:
    text = " ".join(spelling.prose(page).lower() for page in spelling.pages())
    used = set(re.findall(r"[a-z]+", text))
    assert set(spelling.WORDS.read_text().split()) - used == set()


UNDESCRIBED: set[str] = set()
