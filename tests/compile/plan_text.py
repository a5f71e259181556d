"""Prints a plan as text, for golden files."""

from __future__ import annotations

from perseid.compile import program as p
from perseid.compile.plan import PatternPlan, Plan
from perseid.lang.printer import print_duration, print_expr, print_window
from tests.compile.core_text import hop_text, step_text


def plan_text(plan: Plan) -> str:
    """Return the whole plan as text, pattern by pattern."""
    lines = [f"plan version {plan.version}: {plan.state_kind} state, {plan.passes}, "
             + ("can take back" if plan.retractable else "never takes back")]  # fmt: skip
    lines.append("events: " + ("all" if plan.event_types is None else ", ".join(plan.event_types)))
    lines.append("identity: " + ", ".join(plan.identity))
    for route in plan.routes:
        lines.append(f"route {route.id}: " + (", ".join(route.columns) or "one partition"))
    for column in plan.columns:
        of = "every event" if column.event_types is None else ", ".join(column.event_types)
        lines.append(f"column {column.name} of {of}" + (", kept" if column.retained else ""))
    if plan.all_columns:
        lines.append("all columns, for evidence")
    for predicate in plan.predicates:
        where = "one event" if predicate.event_local else "engine"
        event_type = f" of {predicate.event_type}" if predicate.event_type else ""
        lines.append(f"predicate {predicate.id} ({where}{event_type}): {print_expr(predicate.expr)}")
    for pattern in plan.patterns:
        lines += ["", *_pattern(pattern)]
    return "\n".join(lines) + "\n"


def _pattern(plan: PatternPlan) -> list[str]:
    pattern, retention = plan.pattern, plan.retention
    limit: str = retention.kind
    if retention.micros is not None:
        limit += f" {print_duration(retention.micros)}"
    if retention.events is not None:
        limit += f" {retention.events} events"
    if retention.cap is not None:
        limit += f" (at most {retention.cap:,} open per key)"
    lines = [
        f"pattern {plan.name}",
        f"  route {plan.route}, retention {limit}, wake {' and '.join(plan.timer_reasons) or 'never'}, rows {', '.join(plan.row_kinds)}",
    ]
    if pattern.within is not None:
        lines.append(f"  within {print_window(pattern.within)}")
    if pattern.holds_for is not None:
        lines.append(f"  holds for {print_duration(pattern.holds_for)}")
    if pattern.context is not None:
        lines.append(f"  context {pattern.context.value}")
    else:
        lines.append(f"  skip {pattern.skip.mode}" + (f" {pattern.skip.step}" if pattern.skip.step else ""))
    if plan.feeds_on:
        lines.append("  fed by " + ", ".join(plan.feeds_on))
    for step, numbers in zip(pattern.steps, plan.steps, strict=True):
        bare = step_text(step).split(" [")[0].split(" must")[0]
        predicates = [
            f"choose {n}" + (f" once {', '.join(f'#{x}' for x in needs)}" if needs else "")
            for n, needs in numbers.choose
        ]
        predicates += [f"must {n}" for n in numbers.must]
        lines.append(f"  step {bare}" + (": " + ", ".join(predicates) if predicates else ""))
    lines.extend(f"  before the start: none of program {number} for {print_duration(d)}" for number, d in plan.leads)
    lines.extend(f"  at the end: predicate {number}" for number in plan.guards)
    for number, program in enumerate(plan.programs):
        lines.append(f"  program {number}")
        lines.extend(f"    {i:>3}  {instruction_text(x)}" for i, x in enumerate(program.instructions))
    lines.extend(f"  return {name} = {print_expr(expr)}" for name, expr in pattern.returns)
    return lines


def instruction_text(instruction: p.Instruction) -> str:
    match instruction:
        case p.TakeEvent():
            return f"take #{instruction.step}"
        case p.SetHop():
            return f"hop {hop_text(instruction.hop)}"
        case p.Split():
            return "split " + ", ".join(map(str, instruction.targets))
        case p.Jump():
            return f"jump {instruction.target}"
        case p.LoopEnter():
            return f"loop r{instruction.register}"
        case p.LoopTurn():
            high = "" if instruction.high is None else instruction.high
            until = "" if instruction.until is None else f", until #{instruction.until}"
            guards = "".join(f", leave if {g}" for g in instruction.guards)
            manner = "reluctant" if instruction.reluctant else "greedy"
            return (
                f"turn r{instruction.register} {instruction.low}..{high} {manner} ({hop_text(instruction.hop)}): "
                f"body {instruction.body}, exit {instruction.exit}{until}{guards}"
            )
        case p.LoopBack():
            return f"back r{instruction.register} to {instruction.target}"
        case p.AllEnter():
            barred = "".join(f", without program {b}" for b in instruction.barred)
            return f"all r{instruction.register} of {instruction.members}{barred}"
        case p.AllTurn():
            guards = "".join(f", leave if {g}" for g in instruction.guards)
            members = ", ".join(map(str, instruction.members))
            return f"any order r{instruction.register} ({hop_text(instruction.hop)}): members {members}, exit {instruction.exit}{guards}"
        case p.AllBack():
            return f"done r{instruction.register} member {instruction.member}, to {instruction.target}"
        case p.WatchFor():
            how = "" if instruction.duration is None else f" for {print_duration(instruction.duration)}"
            return f"none of program {instruction.program}{how}"
        case p.ZoneEnter():
            within = "" if instruction.within is None else f" within {print_window(instruction.within)}"
            holds = "" if instruction.holds_for is None else f" holds for {print_duration(instruction.holds_for)}"
            return f"zone{within}{holds}"
        case p.ZoneLeave():
            return "leave zone"
        case p.AcceptMatch():
            return "accept"
