"""How a strategy for disorder searches, in words."""

from __future__ import annotations

from collections.abc import Mapping

from perseid.engines.disorder.plan import DisorderPlan
from perseid.engines.disorder.slots import slots_in
from perseid.engines.disorder.strategy import Assemble
from perseid.engines.sequence.bytecode import CompiledPattern
from perseid.engines.sequence.explain import explain_kernels
from perseid.runtime.explanation import Row
from perseid.semantics import types as t


def explain_search(plan: DisorderPlan, types: Mapping[str, t.Type]) -> list[Row]:
    """For each pattern, what is compiled, and how matches are found among events out of order."""
    return explain_kernels(plan, types, explain_assembly if isinstance(plan.strategy, Assemble) else None)


def explain_assembly(bytecode: CompiledPattern) -> list[str]:
    """How a row of slots is put together, and whether that says all about a match."""
    found = "nothing else is asked of them" if slots_in(bytecode).plain else "each is followed through the pattern then"
    return [f"from each event that comes, through the events of the other slots that have come; {found}"]
