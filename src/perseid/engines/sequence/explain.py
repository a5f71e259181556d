"""Describes how the kernel runs each pattern: compiled conditions, and the search for events."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from perseid.engines.sequence.bytecode import CompiledPattern
from perseid.engines.sequence.plan import SequencePlan
from perseid.lang import expressions as ex
from perseid.lang.printer import print_expr
from perseid.lang.tree_types import describe_kind
from perseid.runtime.explanation import Row
from perseid.semantics import types as t


def explain_kernels(
    plan: SequencePlan,
    types: Mapping[str, t.Type],
    explain_search: Callable[[CompiledPattern], list[str]] | None = None,
) -> list[Row]:
    """Report for each pattern if the compiled kernel evaluates every condition, and how it searches."""
    many = len(plan.patterns) > 1
    rows: list[Row] = []
    for bytecode in plan.patterns:
        name = f"{bytecode.pattern.name}: " if many else ""
        if bytecode.compiled:
            rows.append(("execution", f"{name}compiled, with all conditions"))
        else:
            count = len(bytecode.python_conditions)
            rows.append(
                (
                    "execution",
                    f"{name}compiled, except {count} condition{'' if count == 1 else 's'}: evaluated in Python",
                )
            )
            rows += [
                ("in Python", f"{print_expr(q)}  ({_why_not_compiled(q, types)})") for q in bytecode.python_conditions
            ]
        rows += [("event lookup", name + text) for text in (explain_search or explain_steps)(bytecode)]
        rows += [("in Python", text) for text in _outputs(bytecode)]
    return rows


def explain_steps(bytecode: CompiledPattern) -> list[str]:
    """Describe the search for events of steps with conditions on earlier ones, and its cost if it scans."""
    out = []
    for step in bytecode.pattern.pattern.steps:
        name, posting = step.name or describe_kind(step.kind), bytecode.posting_of(step.id)
        if posting is not None:
            values = ", ".join(print_expr(bytecode.columns[column].expr) for column in posting.own)
            out.append(
                f"{name} by index: events with the {values} of an earlier event, for any number of partial matches"
            )
        if bytecode.looks_back(step.id):
            which = "of its type" if posting is None else "with that value"
            out.append(f"{name} by scan: each partial match tests every event {which} in the window until one matches")
    return out or ["every step jumps to the next event that matches"]


def _why_not_compiled(expr: ex.Expr, types: Mapping[str, t.Type]) -> str:
    """The reason why a condition has no formula in the kernel."""
    named = [ref.parts[-1] for ref in ex.walk(expr) if isinstance(ref, ex.Ref)]
    missing = [name for name in named if name not in types]
    if missing:
        return f"column {missing[0]!r} is missing, or of unknown type"
    calls = sorted({call.name for call in ex.walk(expr) if isinstance(call, ex.Call)})
    if any(isinstance(e, ex.InRelation) for e in ex.walk(expr)):
        return "it reads a relation"
    return f"the kernel does not support {', '.join(calls)}(…)" if calls else "the kernel does not support it"


def _outputs(bytecode: CompiledPattern) -> list[str]:
    evaluated = [
        name for name, formula, _ in bytecode.outputs if formula is None and name not in bytecode.output_columns
    ]
    return [f"returned columns: {', '.join(evaluated)}"] if evaluated else []
