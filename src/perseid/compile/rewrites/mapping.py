"""Apply a function to every core element, innermost first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from perseid.semantics import core as c


def map_core(element: c.Core, change: Callable[[c.Core], c.Core]) -> c.Core:
    match element:
        case c.Take():
            inner: c.Core = element
        case c.Seq():
            inner = replace(element, items=tuple(map_core(i, change) for i in element.items))
        case c.Alt():
            inner = replace(element, branches=tuple(map_core(b, change) for b in element.branches))
        case c.All():
            inner = replace(
                element,
                members=tuple(map_core(m, change) for m in element.members),
                barred=tuple(map_core(b, change) for b in element.barred),
            )
        case c.Loop() | c.Absent() | c.Zone():
            inner = replace(element, body=map_core(element.body, change))
    return change(inner)


def map_pattern(pattern: c.CorePattern, change: Callable[[c.Core], c.Core]) -> c.CorePattern:
    leads = tuple(replace(lead, body=map_core(lead.body, change)) for lead in pattern.lead)
    return replace(pattern, body=map_core(pattern.body, change), lead=leads)
