"""JSON Schema of job files, for editors."""

from __future__ import annotations

import json
from typing import Any

from perseid.jobs.spec import JobFile
from perseid.jobs.stream_kinds.settings_by_kind import settings_by_kind

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def job_schema() -> dict[str, object]:
    """Return the schema with all registered sources, sinks and kinds of streams."""
    JobFile.model_rebuild(force=True)
    schema = JobFile.model_json_schema(by_alias=True)
    schema["title"] = "Perseid job file"
    optional = [word for word, kind in settings_by_kind().items() if not kind.requires_patterns]
    without_patterns = {"properties": {"stream": {"properties": {"kind": {"enum": optional}}, "required": ["kind"]}}}
    schema["anyOf"] = [{"required": ["patterns"]}, without_patterns]
    return {"$schema": DIALECT, **_simplify(schema)}


def schema_text() -> str:
    """Return the schema as text, as docs/job.schema.json has it."""
    return json.dumps(job_schema(), indent=2, ensure_ascii=False) + "\n"


def _simplify(value: object, inside: str = "") -> Any:
    """Remove titles that repeat a name, and nulls of settings that are optional."""
    if isinstance(value, list):
        return [_simplify(one) for one in value]
    if not isinstance(value, dict):
        return value
    has_names = inside in ("properties", "$defs")
    out = {
        name: _simplify(one, "" if has_names else name)
        for name, one in value.items()
        if has_names or not (name == "title" and "properties" not in value and isinstance(one, str))
    }
    alternatives = out.get("anyOf")
    if not has_names and isinstance(alternatives, list) and {"type": "null"} in alternatives:
        non_null = [alternative for alternative in alternatives if alternative != {"type": "null"}]
        out.pop("anyOf")
        if out.get("default", 0) is None:
            out.pop("default")
        out = {**non_null[0], **out} if len(non_null) == 1 else {"anyOf": non_null, **out}
    return out
