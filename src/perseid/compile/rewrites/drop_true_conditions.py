"""Drop conditions that are the constant true."""

from __future__ import annotations

from dataclasses import replace

from perseid.lang.expressions import Expr, Literal
from perseid.semantics import core as c


def drop_true_conditions(pattern: c.CorePattern) -> c.CorePattern:
    steps = tuple(
        replace(
            step,
            choose=tuple(k for k in step.choose if not _is_true(k.expr)),
            must=tuple(test for test in step.must if not _is_true(test)),
        )
        for step in pattern.steps
    )
    return replace(pattern, steps=steps, guards=tuple(g for g in pattern.guards if not _is_true(g)))


def _is_true(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.kind == "boolean" and expr.value is True
