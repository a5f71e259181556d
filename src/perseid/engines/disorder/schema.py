"""The columns of a changelog, known before any event is seen."""

from __future__ import annotations

import pyarrow as pa

from perseid.engines.sequence.schema import free_name
from perseid.runtime.arrays import MOMENT
from perseid.runtime.changelog import OP, REVISION

HORIZON = "horizon"


def with_changes(schema: pa.Schema) -> pa.Schema:
    """The rows of a changelog: those of the matches, and up to when what they say holds."""
    place = schema.get_field_index(REVISION) + 1
    return schema.insert(place, pa.field(free_name(HORIZON, schema.names), MOMENT))


def without_changes(schema: pa.Schema) -> pa.Schema:
    """What a row says whatever became of it."""
    place = schema.get_field_index(REVISION) + 1
    return pa.schema([field for i, field in enumerate(schema) if field.name not in (OP, REVISION) and i != place])
