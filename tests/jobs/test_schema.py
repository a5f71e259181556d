"""The published schema is current, accepts every valid file, and rejects the invalid files that a schema can detect."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from perseid.jobs.schema import job_schema, schema_text
from perseid.sinks.kinds import SINKS
from perseid.sources.kinds import SOURCES
from tests.jobs.test_job_files import BROKEN, GOOD, WHOLE

PUBLISHED = Path(__file__).parents[2] / "docs" / "job.schema.json"
ONLY_THE_READER_KNOWS = {
    "no source", "both sources", "no lateness", "arrival without lateness", "lateness in no unit", "arrival and disorder", "position of files",
    "time by type of one source", "trigger", "dead letters nowhere", "retry_for without end",
    "an unknown type in the schema", "a type of another language in the schema", "a column without a type",
}  # fmt: skip
"""Invalid files that the schema accepts: their error is outside the structure, or in the meaning of a string."""


def checker() -> Any:
    made = job_schema()
    jsonschema.Draft202012Validator.check_schema(made)
    return jsonschema.Draft202012Validator(made)


def test_the_published_schema_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    for kinds in (SOURCES, SINKS):
        for name, kind in list(kinds.items()):
            if kind.__module__.startswith("tests."):
                monkeypatch.delitem(kinds, name)
    if os.environ.get("PERSEID_REWRITE_GOLDEN"):
        PUBLISHED.write_text(schema_text(), encoding="utf-8")
    assert PUBLISHED.read_text(encoding="utf-8") == schema_text()


def loaded(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    return tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_schema_accepts_valid_files(path: Path) -> None:
    checker().validate(loaded(path))


def test_schema_rejects_invalid_files() -> None:
    check = checker()
    assert check.is_valid(yaml.safe_load(WHOLE))
    taken = set()
    for name, (change, _, _) in BROKEN.items():
        if isinstance(change, str):
            text = WHOLE + change
        else:
            old, new = change
            text = WHOLE.replace(old, new) if isinstance(old, str) else old.sub(new, WHOLE)
        if check.is_valid(yaml.safe_load(text)):
            taken.add(name)
    assert taken == ONLY_THE_READER_KNOWS


def test_every_key_has_a_description() -> None:
    made = job_schema()
    silent = [
        f"{name}.{word}"
        for name, part in {**made["$defs"], "job": made}.items()
        for word, said in part.get("properties", {}).items()
        if "description" not in said
    ]
    assert silent == []
