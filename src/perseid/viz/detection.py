"""How a pattern runs on a declared stream, in words: what is decided where, what is left out, what is bounded."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from perseid.compile.plan import OPEN_CAP, PatternPlan, Plan
from perseid.engines.disorder.plan import DisorderPlan
from perseid.engines.disorder.slots import slots_in
from perseid.engines.disorder.strategy import Assemble
from perseid.engines.sequence.bytecode import MATCH_CAP, CompiledPattern
from perseid.engines.sequence.plan import SequencePlan, make_plan
from perseid.lang import expressions as ex
from perseid.lang.printer import print_duration, print_expr, print_kind
from perseid.runtime.search_budget import MATCHES_PER_EVENT, STEPS_PER_EVENT, SearchBudget
from perseid.semantics import types as t
from perseid.viz.words import WIDTH

Row = tuple[str, str]


def section(title: str, rows: Iterable[Row]) -> list[str]:
    """A title and its rows: a word, and a text that is broken where the line ends."""
    kept = [(key, text) for key, text in rows if text]
    if not kept:
        return []
    wide = max(len(key) for key, _ in kept)
    out, before = [title], None
    for key, text in kept:
        lead = f"  {key if key != before else '':<{wide}}  "
        before = key
        out += textwrap.wrap(
            text,
            WIDTH,
            initial_indent=lead,
            subsequent_indent=" " * (len(lead) + 2),
            break_on_hyphens=False,
        )
    return [*out, ""]


class Declared(Protocol):
    """What is asked of a declared stream."""

    @property
    def strictly_later(self) -> bool: ...
    @property
    def dedupe(self) -> bool: ...
    @property
    def budget(self) -> SearchBudget: ...
    def columns(self, role: str, event_type: str | None = None) -> tuple[str, ...]: ...


def describe_max_ahead(max_ahead: int | None) -> str:
    """The bound on times beyond the arrival of a row, in words."""
    if max_ahead is None:
        return "no bound: a row of any time moves the watermark, and all rows behind it are late"
    return f"rows more than {print_duration(max_ahead)} after their arrival are rejected below the watermark: counted as ahead"


def explain_here(plan: Plan, types: Mapping[str, t.Type], stream: Declared) -> str:
    """How a plan runs in this process, over a stream with columns of these types."""
    sequence_plan = make_plan(plan, types, strictly_later=stream.strictly_later)
    dropped = "none: " + all_needed(plan)
    if plan.event_types is not None:
        dropped = f"events of other types than {', '.join(plan.event_types)}"
    rows: list[Row] = [
        *(("engine", text) for text in engines(plan)),
        *fed(plan, "events are made of them one by one"),
        ("order", _order(stream)),
        *(("partitions", text) for text in routes(plan)),
        ("dropped first", dropped),
        ("columns read", columns(plan, types)),
        *kernels(sequence_plan, types),
        *(("caps", text) for text in caps(plan)),
        ("budget", describe_budget(stream.budget)),
    ]
    return "\n".join(section("run here, in this process", rows)).rstrip() + "\n"


def _order(stream: Declared) -> str:
    """What decides between two events."""
    ranks, ids = stream.columns("order_by"), stream.columns("id")
    parts = ["time", *ranks, f"identity ({', '.join(ids) or 'all columns'})"]
    later = "; later steps strictly later" if stream.strictly_later else ""
    once = "; equal events are one" if stream.dedupe else ""
    return ", then ".join(parts) + later + once


def engines(plan: Plan) -> list[str]:
    """Which engine runs each pattern, and why."""
    said = [(f"{p.facts.engines[0]}: {p.facts.engines_why}", p.name) for p in plan.patterns]
    return _shared(said, len(plan.patterns))


def fed(plan: Plan, how: str) -> list[Row]:
    """Which patterns take matches of which."""
    return [("fed", f"{p.name} by matches of {', '.join(p.feeds_on)}; {how}") for p in plan.patterns if p.feeds_on]


def _shared(said: Sequence[tuple[str, str]], patterns: int) -> list[str]:
    """Texts with the patterns they hold for, where not all of them are meant."""
    by_text: dict[str, list[str]] = {}
    for text, name in said:
        by_text.setdefault(text, []).append(name)
    return [text if len(who) == patterns else f"{text} ({', '.join(who)})" for text, who in by_text.items()]


def routes(plan: Plan) -> list[str]:
    """The ways events are partitioned, and which patterns share each."""
    out = []
    for route in plan.routes:
        names = ", ".join(p.name for p in plan.patterns if p.route == route.id)
        by = "by " + ", ".join(route.columns) if route.columns else "none: all events are one sequence"
        out.append(by if len(plan.routes) == 1 else f"{by} ({names})")
    return out


def columns(plan: Plan, types: Mapping[str, t.Type]) -> str:
    """The columns that conditions and outputs read, with their types."""
    if plan.all_columns:
        return "all, for evidence"
    told = [f"{c.name} ({types[c.name]})" if c.name in types else f"{c.name} (not there: null)" for c in plan.columns]
    return ", ".join(told) or "none"


def kernels(plan: SequencePlan, types: Mapping[str, t.Type]) -> list[Row]:
    """For each pattern, whether the compiled kernel decides everything or asks the reference evaluator."""
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
            rows += [("asked there", f"{print_expr(q)}  ({reason(q, types)})") for q in bytecode.questions]
        assembles = isinstance(plan, DisorderPlan) and isinstance(plan.strategy, Assemble)
        rows += [("search", name + text) for text in (assembly(bytecode) if assembles else searches(bytecode))]
        rows += [("asked there", text) for text in _outputs(bytecode)]
    return rows


def searches(bytecode: CompiledPattern) -> list[str]:
    """How the events of steps are found that depend on earlier ones, and what that costs where it is not little."""
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


def assembly(bytecode: CompiledPattern) -> list[str]:
    """How a row of slots is put together, and whether that says all about a match."""
    found = "nothing else is asked of them" if slots_in(bytecode).plain else "each is followed through the pattern then"
    return [f"from each event that comes, through the events of the other slots that have come; {found}"]


def reason(expr: ex.Expr, types: Mapping[str, t.Type]) -> str:
    """What keeps a condition from being a formula of the kernel."""
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


def caps(plan: Plan) -> list[str]:
    """What is given up, and counted, where a pattern would take or keep too much."""
    out = []
    open_ended = [p for p in plan.patterns if p.retention.cap is not None]
    if open_ended:
        out.append(
            f"{_named(open_ended, plan)}at most {OPEN_CAP:,} open attempts a key, the oldest beyond that given up"
        )
    manifold = [p for p in plan.patterns if p.facts.growth != "one per start"]
    if manifold:
        out.append(f"{_named(manifold, plan)}at most {MATCH_CAP:,} matches of one start, the rest given up")
    return out or ["none needed"]


def describe_budget(budget: SearchBudget) -> str:
    """The limits of a search, for each pattern, key and call."""
    return (
        f"for each pattern, key and call: {budget.max_steps:,} steps and {budget.max_matches:,} matches, plus "
        f"{STEPS_PER_EVENT:,} steps and {MATCHES_PER_EVENT} matches for each event; more is a SearchBudgetError"
    )


def _named(chosen: Sequence[PatternPlan], plan: Plan) -> str:
    return "" if len(plan.patterns) == 1 else ", ".join(p.name for p in chosen) + ": "


def all_needed(plan: Plan) -> str:
    """Why no event may be dropped unseen."""
    return next((p.facts.droppable_why for p in plan.patterns if not p.facts.droppable), "a step takes every event")
