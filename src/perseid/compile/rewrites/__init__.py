"""Rewrites of the core form: one per file, each preserves the meaning. Their order is that of the tuple below."""

from __future__ import annotations

from collections.abc import Callable

from perseid.compile.rewrites.drop_single_rounds import drop_single_rounds
from perseid.compile.rewrites.drop_true_conditions import drop_true_conditions
from perseid.compile.rewrites.flatten_alternations import flatten_alternations
from perseid.compile.rewrites.flatten_sequences import flatten_sequences
from perseid.semantics.core import CorePattern

Rewrite = Callable[[CorePattern], CorePattern]

REWRITES: tuple[Rewrite, ...] = (
    drop_true_conditions,
    drop_single_rounds,
    flatten_sequences,
    flatten_alternations,
)


def rewrite(pattern: CorePattern) -> CorePattern:
    """Apply all rewrites, once each, in order."""
    for rule in REWRITES:
        pattern = rule(pattern)
    return pattern
