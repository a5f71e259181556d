"""Rows of ``explain()`` about the search of a disorder strategy."""

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
    """Describe the compiled kernels of each pattern, and how matches are assembled if the strategy assembles them."""
    return explain_kernels(plan, types, explain_assembly if isinstance(plan.strategy, Assemble) else None)


def explain_assembly(bytecode: CompiledPattern) -> list[str]:
    """Describe the assembly of a slot sequence, and whether each match is validated by the automaton afterwards."""
    validation = "no further validation" if slots_in(bytecode).plain else "the automaton validates each combination"
    return [f"each new event is combined with the received events of the other slots; {validation}"]
