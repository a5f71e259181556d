"""The JSON Schema of a job's file, for editors: every word with what it says."""

from __future__ import annotations

import json
from typing import Any

from perseid.jobs.spec import JobFile

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def job_schema() -> dict[str, object]:
    """The schema, with the sources and sinks that are known now."""
    JobFile.model_rebuild(force=True)
    made = JobFile.model_json_schema(by_alias=True)
    made["title"] = "A job of Perseid"
    # Subscriptions, and the text of a model, take the place of patterns.
    asks_nothing = {
        "properties": {"stream": {"properties": {"kind": {"enum": ["subscriptions", "model"]}}, "required": ["kind"]}}
    }
    made["anyOf"] = [{"required": ["patterns"]}, asks_nothing]
    return {"$schema": DIALECT, **_plain(made)}


def schema_text() -> str:
    """The schema as it is published."""
    return json.dumps(job_schema(), indent=2, ensure_ascii=False) + "\n"


def _plain(value: object, inside: str = "") -> Any:
    """Without the titles that repeat a word, and the nulls of words that are left out instead."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    words = inside in ("properties", "$defs")
    out = {
        name: _plain(one, "" if words else name)
        for name, one in value.items()
        if words or not (name == "title" and "properties" not in value and isinstance(one, str))
    }
    ways = out.get("anyOf")
    if not words and isinstance(ways, list) and {"type": "null"} in ways:
        left = [way for way in ways if way != {"type": "null"}]
        out.pop("anyOf")
        if out.get("default", 0) is None:
            out.pop("default")
        out = {**left[0], **out} if len(left) == 1 else {"anyOf": left, **out}
    return out
