"""Explanation of how a pattern runs on a declared stream: engines, order, partitions, dropped events and caps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from perseid.compile.plan import OPEN_CAP, PatternPlan, Plan
from perseid.engines.sequence.bytecode import MATCH_CAP
from perseid.engines.sequence.explain import explain_kernels
from perseid.engines.sequence.plan import make_plan
from perseid.lang.tree_types import describe_type
from perseid.runtime.explanation import Row, describe_budget, section
from perseid.runtime.search_budget import SearchBudget
from perseid.semantics import types as t


class Declared(Protocol):
    """The properties of a declared stream that the explanation reads."""

    @property
    def strictly_later(self) -> bool: ...
    @property
    def dedupe(self) -> bool: ...
    @property
    def budget(self) -> SearchBudget: ...
    def columns(self, role: str, event_type: str | None = None) -> tuple[str, ...]: ...


def explain_local(plan: Plan, types: Mapping[str, t.Type], stream: Declared) -> str:
    """Explain how a plan runs locally, over a stream with columns of these types."""
    sequence_plan = make_plan(plan, types, strictly_later=stream.strictly_later)
    dropped = "none: " + all_needed(plan)
    if plan.event_types is not None:
        dropped = f"events of types other than {', '.join(map(describe_type, plan.event_types))}"
    rows: list[Row] = [
        *(("engine", text) for text in describe_engines(plan)),
        *fed(plan, "each match becomes an event"),
        ("order", _order(stream)),
        *(("partition by", text) for text in routes(plan)),
        ("dropped", dropped),
        ("columns read", columns(plan, types)),
        *explain_kernels(sequence_plan, types),
        *(("limits", text) for text in caps(plan)),
        ("budget", describe_budget(stream.budget)),
    ]
    return "\n".join(section("local run, in this process", rows)).rstrip() + "\n"


def _order(stream: Declared) -> str:
    """Describe the order of events."""
    ranks, ids = stream.columns("order_by"), stream.columns("id")
    parts = ["time", *ranks, f"event id ({', '.join(ids) or 'all columns'})"]
    later = "; a later step needs a later time" if stream.strictly_later else ""
    once = "; duplicate events are removed" if stream.dedupe else ""
    return ", then ".join(parts) + later + once


def describe_engines(plan: Plan, engine: str | None = None) -> list[str]:
    """Return the engine of each pattern, with the reason; ``engine`` is the selected one if the stream selects it."""
    texts = [(f"{engine or p.facts.engines[0]}: {p.facts.engines_why}", p.name) for p in plan.patterns]
    return _shared(texts, len(plan.patterns))


def fed(plan: Plan, effect: str) -> list[Row]:
    """Return a row for each pattern that takes matches of other patterns."""
    return [("inputs", f"{p.name}: matches of {', '.join(p.feeds_on)}; {effect}") for p in plan.patterns if p.feeds_on]


def _shared(texts: Sequence[tuple[str, str]], patterns: int) -> list[str]:
    """Return each text once, with the names of its patterns unless it applies to all."""
    by_text: dict[str, list[str]] = {}
    for text, name in texts:
        by_text.setdefault(text, []).append(name)
    return [text if len(names) == patterns else f"{text} ({', '.join(names)})" for text, names in by_text.items()]


def routes(plan: Plan) -> list[str]:
    """Describe each partitioning of events, with the patterns that share it."""
    out = []
    for route in plan.routes:
        names = ", ".join(p.name for p in plan.patterns if p.route == route.id)
        by = ", ".join(route.columns) if route.columns else "none: events form one partition"
        out.append(by if len(plan.routes) == 1 else f"{by} ({names})")
    return out


def columns(plan: Plan, types: Mapping[str, t.Type]) -> str:
    """List the columns that conditions and outputs read, with their types."""
    if plan.all_columns:
        return "all, for evidence"
    names = [f"{c.name} ({types[c.name]})" if c.name in types else f"{c.name} (missing: null)" for c in plan.columns]
    return ", ".join(names) or "none"


def caps(plan: Plan) -> list[str]:
    """Describe the caps on partial matches and matches; the excess is dropped and counted."""
    out = []
    open_ended = [p for p in plan.patterns if p.retention.cap is not None]
    if open_ended:
        out.append(
            f"{_named(open_ended, plan)}at most {OPEN_CAP:,} open partial matches per key; beyond that, the oldest are "
            "dropped"
        )
    manifold = [p for p in plan.patterns if p.facts.growth != "one per start"]
    if manifold:
        out.append(f"{_named(manifold, plan)}at most {MATCH_CAP:,} matches per first event; the rest are dropped")
    return out or ["none"]


def _named(chosen: Sequence[PatternPlan], plan: Plan) -> str:
    return "" if len(plan.patterns) == 1 else ", ".join(p.name for p in chosen) + ": "


def all_needed(plan: Plan) -> str:
    """Return the reason why no event may be dropped before matching."""
    return next((p.facts.droppable_why for p in plan.patterns if not p.facts.droppable), "a step matches every event")
