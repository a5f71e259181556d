"""Types of NumPy arrays in signatures, by what an element is."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
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
