"""What a result looks like as columns."""

from __future__ import annotations

import pyarrow as pa

NODE = (
    pa.field("variable", pa.string()),
    pa.field("level", pa.int32()),
    pa.field("uri", pa.string()),
    pa.field("name", pa.string()),
    pa.field("text", pa.string()),
)
"""A node of a result: its return name (null for a run), how deep in the result, its name, and its text."""
