"""Types of arrays and columns in signatures."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

IntArray: TypeAlias = NDArray[np.int64]
Int32Array: TypeAlias = NDArray[np.int32]
Int8Array: TypeAlias = NDArray[np.int8]
UIntArray: TypeAlias = NDArray[np.uint64]
FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
ByteArray: TypeAlias = NDArray[np.uint8]
IntegerArray: TypeAlias = NDArray[np.integer]
"""Integers of whatever width."""
ObjectArray: TypeAlias = NDArray[np.object_]
"""Python values, where a column has no fixed width."""
ArrowColumn: TypeAlias = pa.Array | pa.ChunkedArray
"""A column of Arrow, in one piece or in several; pyarrow has no types for a checker."""
MOMENT = pa.timestamp("us", "UTC")
"""The type of every time column."""
