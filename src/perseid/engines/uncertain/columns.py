"""The types of columns in signatures."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa

Column: TypeAlias = pa.Array | pa.ChunkedArray
"""Of Arrow, in one piece or in several."""
