"""The schema of a changelog of matches, known at planning time."""

from __future__ import annotations

import pyarrow as pa

from perseid.runtime.arrays import MOMENT
from perseid.runtime.changelog import OP, REVISION
from perseid.semantics.output_names import free_name

HORIZON = "horizon"


def with_changes(schema: pa.Schema) -> pa.Schema:
    """Add the horizon column to a match schema: the event time up to which a changelog row is valid."""
    place = schema.get_field_index(REVISION) + 1
    return schema.insert(place, pa.field(free_name(HORIZON, schema.names), MOMENT))


def without_changes(schema: pa.Schema) -> pa.Schema:
    """Remove the columns ``op``, ``revision`` and horizon from a changelog schema."""
    place = schema.get_field_index(REVISION) + 1
    return pa.schema([field for i, field in enumerate(schema) if field.name not in (OP, REVISION) and i != place])
