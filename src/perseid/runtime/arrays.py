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
"""Integers of any width."""
ObjectArray: TypeAlias = NDArray[np.object_]
"""Python values of a column without a fixed width."""
ArrowColumn: TypeAlias = pa.Array | pa.ChunkedArray
"""An Arrow column, in one chunk or several; pyarrow has no types for a type checker."""
MOMENT = pa.timestamp("us", "UTC")
"""The type of every time column."""
