"""The core form as text, for golden files."""

from __future__ import annotations

from perseid.lang.printer import print_duration, print_expr, print_kind, print_window
from perseid.semantics import core as c


def core_text(pattern: c.CorePattern) -> str:
    """Return one line for each element, indented by nesting."""
    lines: list[str] = []
    for lead in pattern.lead:
        lines.append(f"before: none for {print_duration(lead.duration)} of")
        _element(pattern, lead.body, 1, lines)
    _element(pattern, pattern.body, 0, lines)
    lines.extend(f"finally {print_expr(guard)}" for guard in pattern.guards)
    return "\n".join(lines) + "\n"


def hop_text(hop: c.Hop) -> str:
    after = "" if hop.after is None else f" after {print_duration(hop.after)}"
    within = "" if hop.within is None else f" within {print_duration(hop.within)}"
    return hop.contiguity.value + after + within


def step_text(step: c.CoreStep) -> str:
    unify = "".join(f" ({'.'.join(path.parts)} as {name})" for path, name in step.unify)
    choose = "".join(
        f" [{print_expr(k.expr)}]" + (f" once {','.join(f'#{n}' for n in k.needs)}" if k.needs else "")
        for k in step.choose
    )
    must = "".join(f" must ({print_expr(test)})" for test in step.must)
    name = "" if step.name is None else f" {step.name}"
    return f"#{step.id} {print_kind(step.kind)}{name}{unify}{choose}{must}"


def _element(pattern: c.CorePattern, element: c.Core, depth: int, lines: list[str], before: str = "") -> None:
    pad = "  " * depth + (f"{before} " if before else "")
    match element:
        case c.Take():
            lines.append(pad + step_text(pattern.steps[element.step]))
        case c.Seq():
            lines.append(pad + "sequence")
            for i, item in enumerate(element.items):
                hop = "" if i == 0 or isinstance(item, c.Absent) else hop_text(element.hops[i - 1])
                _element(pattern, item, depth + 1, lines, hop)
        case c.Alt():
            lines.append(pad + "one of")
            for branch in element.branches:
                _element(pattern, branch, depth + 1, lines)
        case c.All():
            lines.append(pad + f"all of, in any order ({hop_text(element.hop)})")
            for member in element.members:
                _element(pattern, member, depth + 1, lines)
            for barred in element.barred:
                _element(pattern, barred, depth + 1, lines, "without")
            lines.extend("  " * (depth + 1) + f"then {print_expr(guard)}" for guard in element.guards)
        case c.Loop():
            high = "" if element.high is None else str(element.high)
            manner = "reluctant" if element.reluctant else "greedy"
            lines.append(pad + f"repeat {element.low}..{high} {manner} ({hop_text(element.hop)})")
            _element(pattern, element.body, depth + 1, lines)
            if element.until is not None:
                lines.append("  " * (depth + 1) + f"until {step_text(pattern.steps[element.until])}")
            lines.extend("  " * (depth + 1) + f"leave if {print_expr(guard)}" for guard in element.guards)
        case c.Absent():
            how = "" if element.duration is None else f" for {print_duration(element.duration)}"
            lines.append(pad + f"none{how} of")
            _element(pattern, element.body, depth + 1, lines)
        case c.Zone():
            within = "" if element.within is None else f" within {print_window(element.within)}"
            holds = "" if element.holds_for is None else f" holds for {print_duration(element.holds_for)}"
            lines.append(pad + f"zone{within}{holds}")
            _element(pattern, element.body, depth + 1, lines)
