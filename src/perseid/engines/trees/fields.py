"""Arrow fields of the nodes in a result."""

from __future__ import annotations

import pyarrow as pa

NODE = (
    pa.field("variable", pa.string()),
    pa.field("level", pa.int32()),
    pa.field("uri", pa.string()),
    pa.field("name", pa.string()),
    pa.field("text", pa.string()),
)
"""A node of a result: return name (null for a sibling run), nesting level, namespace, local name, and text."""
