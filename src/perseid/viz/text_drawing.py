"""Text drawing of a pattern for terminals, from top to bottom."""

from __future__ import annotations

from perseid.lang.ast import Contiguity
from perseid.lang.printer import print_duration, print_expr, print_window
from perseid.semantics import core as c
from perseid.viz.graph import footer_of, name, rounds_text, step_label

_ARROW = {
    Contiguity.NEXT: "the immediately following event",
    Contiguity.SKIP: "then",
    Contiguity.ANY: "then any later",
}


def draw_text(pattern: c.CorePattern) -> str:
    lines = ["(start)"]
    for lead in pattern.lead:
        lines.append(f"  ┊ no {name(pattern, lead.body)} for {print_duration(lead.duration)} before")
    lines += _Drawer(pattern).element(pattern.body, None)
    lines.extend(f"  ┊ if {print_expr(guard)}" for guard in pattern.guards)
    lines += ["  │", "  ▼", f"(({pattern.name}))" + (f"  {footer_of(pattern)}" if footer_of(pattern) else "")]
    return "\n".join(lines) + "\n"


class _Drawer:
    def __init__(self, pattern: c.CorePattern) -> None:
        self.pattern = pattern

    def element(self, element: c.Core, hop: c.Hop | None) -> list[str]:
        """Return the lines of an element, including the arrow into it."""
        match element:
            case c.Take():
                step = self.pattern.steps[element.step]
                lines = [*self._arrow(hop), f"[{step_label(step)}]"]
                lines.extend(f"  where {print_expr(k.expr)}" for k in step.choose)
                lines.extend(f"  must  {print_expr(test)}" for test in step.must)
                return lines
            case c.Seq():
                lines = []
                for i, item in enumerate(element.items):
                    incoming = hop if i == 0 else element.hops[i - 1]
                    lines += self.element(item, incoming)
                return lines
            case c.Absent():
                duration = "" if element.duration is None else f" for {print_duration(element.duration)}"
                return [f"  ┊ no {name(self.pattern, element.body)}{duration}"]
            case c.Alt():
                return self._box("one of", element.branches, hop)
            case c.All():
                lines = self._box("all of, in any order", element.members, hop)
                lines.extend(f"  ┊ no {name(self.pattern, b)} until all have matched" for b in element.barred)
                lines.extend(f"  ┊ if {print_expr(guard)}" for guard in element.guards)
                return lines
            case c.Loop():
                return self._loop(element, hop)
            case c.Zone():
                bounds = [] if element.within is None else [f"within {print_window(element.within)}"]
                bounds += [] if element.holds_for is None else [f"holds for {print_duration(element.holds_for)}"]
                return self._box(" ".join(bounds), (element.body,), hop)

    def _arrow(self, hop: c.Hop | None) -> list[str]:
        if hop is None:
            return ["  │", "  ▼"]
        after = "" if hop.after is None else f" after {print_duration(hop.after)}"
        within = "" if hop.within is None else f" within {print_duration(hop.within)}"
        return [f"  │ {_ARROW[hop.contiguity]}{after}{within}", "  ▼"]

    def _loop(self, loop: c.Loop, hop: c.Hop | None) -> list[str]:
        rounds = _rounds(loop)
        if isinstance(loop.body, c.Take):
            lines = self.element(loop.body, hop)
            at = next(i for i, line in enumerate(lines) if line.startswith("["))
            lines[at] += f"  ↺ {rounds}"
        else:
            lines = self._box(f"↺ {rounds}", (loop.body,), hop)
        if loop.until is not None:
            lines.append(f"  ┊ until {step_label(self.pattern.steps[loop.until])}")
        lines.extend(f"  ┊ if {print_expr(guard)}" for guard in loop.guards)
        return lines

    def _box(self, title: str, parts: tuple[c.Core, ...], hop: c.Hop | None) -> list[str]:
        lines = [*self._arrow(hop), f"┌ {title}"]
        for i, part in enumerate(parts):
            inner = self.element(part, None)
            while inner and inner[0] in ("  │", "  ▼"):
                inner = inner[1:]
            lines += [f"│ {line}" for line in inner]
            if i + 1 < len(parts):
                lines.append("├ or" if title == "one of" else "├ and")
        return [*lines, "└"]


def _rounds(loop: c.Loop) -> str:
    between = {Contiguity.NEXT: ", consecutive", Contiguity.SKIP: "", Contiguity.ANY: ", every combination"}
    return rounds_text(loop) + ("" if loop.high == 1 else between[loop.hop.contiguity])
