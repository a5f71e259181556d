"""Blocks of seeds: every run tries the first ones, and the slow set the rest."""

from __future__ import annotations

from typing import Any

import pytest


def blocks(ordinary: int, whole: int) -> list[Any]:
    """The numbers below ``whole``; those from ``ordinary`` on are marked ``deep``."""
    return [n if n < ordinary else pytest.param(n, marks=pytest.mark.deep) for n in range(whole)]
