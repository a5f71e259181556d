"""Describes how the kernel runs each pattern: compiled conditions, and the search for events."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from perseid.engines.sequence.bytecode import CompiledPattern
from perseid.engines.sequence.plan import SequencePlan
from perseid.lang import expressions as ex
from perseid.lang.printer import print_expr, print_kind
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
            rows.append(("kernel", f"{name}compiled; every condition is a formula in it"))
        else:
            asked = len(bytecode.questions)
            rows.append(
                ("kernel", f"{name}asks the reference evaluator for {asked} condition{'' if asked == 1 else 's'}")
            )
            rows += [("asked there", f"{print_expr(q)}  ({_why_not_compiled(q, types)})") for q in bytecode.questions]
        rows += [("search", name + text) for text in (explain_search or explain_steps)(bytecode)]
        rows += [("asked there", text) for text in _outputs(bytecode)]
    return rows


def explain_steps(bytecode: CompiledPattern) -> list[str]:
    """Describe the search for events of steps with conditions on earlier ones, and its cost if it scans."""
    out = []
    for step in bytecode.pattern.pattern.steps:
        name, posting = step.name or print_kind(step.kind), bytecode.posting_of(step.id)
        if posting is not None:
            values = ", ".join(print_expr(bytecode.columns[column].expr) for column in posting.own)
            out.append(f"{name} by value: events with the {values} of an earlier one, however many wait")
        if bytecode.looks_back(step.id):
            which = "of its kind" if posting is None else "of that value"
            out.append(f"{name} one by one: each partial match asks every event {which} in the window until one fits")
    return out or ["every step jumps to the next event that fits"]


def _why_not_compiled(expr: ex.Expr, types: Mapping[str, t.Type]) -> str:
    """The reason why a condition has no formula in the kernel."""
    named = [ref.parts[-1] for ref in ex.walk(expr) if isinstance(ref, ex.Ref)]
    missing = [name for name in named if name not in types]
    if missing:
        return f"no column {missing[0]!r} of a known type"
    calls = sorted({call.name for call in ex.walk(expr) if isinstance(call, ex.Call)})
    if any(isinstance(e, ex.InRelation) for e in ex.walk(expr)):
        return "it asks a relation"
    return f"the kernel has no formula for {', '.join(calls)}(…)" if calls else "the kernel has no formula for it"


def _outputs(bytecode: CompiledPattern) -> list[str]:
    made = [name for name, formula, _ in bytecode.outputs if formula is None and name not in bytecode.output_columns]
    return [f"returned: {', '.join(made)}"] if made else []
