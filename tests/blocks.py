"""Blocks of seeds: the ordinary run uses the first ones, the slow set all of them."""

from __future__ import annotations

from typing import Any

import pytest


def blocks(ordinary: int, whole: int) -> list[Any]:
    """Return the numbers below ``whole``; those from ``ordinary`` on have the mark ``deep``."""
    return [n if n < ordinary else pytest.param(n, marks=pytest.mark.deep) for n in range(whole)]
