"""Cases in plain text: a pattern, events, the matches to expect, and why.

::

    == the first B that fits is taken
    match A a -> B b
    within 1 minute
    events
      a1 A 1 v=5; b1 B 2 v=7; b2 B 3
    gives
      a=a1 b=b1 end=2
    why skip to next never looks past the first event that fits

Times are seconds. A line under ``gives`` lists the events of each named step, optionally ``end=`` (seconds),
``kind=timed_out``, ``key=`` and, behind a bar, returned columns; ``none`` is no match at all. ``horizon 5``,
``strictly later``, ``relation Office (ann, 220) (bob, 221)`` and ``bind threshold=5`` may precede ``events``. A case
with several patterns has every ``pattern NAME`` line, and ``in NAME`` on each expected line. A case of an external rule
has ``of NAME`` in place of a pattern, and the caller passes the rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from perseid.lang.ast import EventType, PatternDefinition, PatternFile, steps
from perseid.lang.parser import parse_file
from perseid.lang.printer import print_pattern
from perseid.semantics.binding import bind
from perseid.semantics.detection import Match, Matcher, detect
from perseid.semantics.events import Event
from perseid.semantics.resolve import resolve

SECOND = 1_000_000
_MATCH = re.compile(r"(?<!after )\bmatch\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PatternCase:
    """One case as read from a file."""

    title: str
    text: str
    """The pattern or patterns, complete."""
    events: tuple[Event, ...]
    expected: tuple[str, ...]
    why: str
    horizon: int | None = None
    strictly_later: bool = False
    relations: Mapping[str, tuple[tuple[object, ...], ...]] | None = None
    bound: Mapping[str, object] | None = None
    source: str = ""


def read_cases(path: str | Path, rules: object = "") -> list[PatternCase]:
    """Read all cases of a file; ``rules`` are the patterns for ``of NAME``, as text or an object that prints as it."""
    path = Path(path)
    return parse_cases(path.read_text(encoding="utf-8"), path.name, rules)


def parse_cases(text: str, source: str = "", rules: object = "") -> list[PatternCase]:
    rules_by_name = {pattern.name: pattern for pattern in parse_file(str(rules)).patterns} if str(rules) else {}
    out = []
    for number, block in enumerate(re.split(r"(?m)^== ", text)[1:], 1):
        title, _, body = block.partition("\n")
        try:
            out.append(_case(title.strip(), body, source, rules_by_name))
        except (ValueError, IndexError) as error:
            where = f"{source}, case" if source else "Case"
            raise ValueError(f"{where} {number} ({title.strip()}): {error}") from error
    return out


def _case(title: str, body: str, source: str, rules: Mapping[str, PatternDefinition]) -> PatternCase:
    options: dict[str, Any] = {}
    sections: dict[str, list[str]] = {"pattern": [], "events": [], "gives": [], "why": []}
    section = "pattern"
    for line in body.split("\n"):
        word, _, argument = line.strip().partition(" ")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if section == "pattern" and word == "horizon":
            options["horizon"] = _seconds(argument)
        elif section == "pattern" and line.strip() == "strictly later":
            options["strictly_later"] = True
        elif section == "pattern" and word == "relation":
            name, _, rows = argument.partition(" ")
            table = tuple(tuple(map(_value, _split(row))) for row in re.findall(r"\(([^)]*)\)", rows))
            options.setdefault("relations", {})[name] = table
        elif section == "pattern" and word == "of":
            sections["pattern"] += [print_pattern(pattern) for pattern in _needed(argument, rules)]
        elif section == "pattern" and word == "bind":
            options["bound"] = {k: _value(v) for k, _, v in (part.partition("=") for part in argument.split())}
        elif word in ("events", "gives", "why"):
            section = word
            if argument:
                sections[section].append(argument)
        else:
            sections[section].append(line.strip())
    pattern = "\n".join(sections["pattern"])
    if not pattern.startswith("pattern "):
        pattern = "pattern p\n" + pattern
    missing = [name for name in ("gives", "why") if not sections[name]]
    if missing:
        none = "; for no match, write 'none' below 'gives'" if "gives" in missing else ""
        raise ValueError(f"no {' and no '.join(map(repr, missing))} section{none}")
    expected = [] if sections["gives"] == ["none"] else sections["gives"]
    written = [part.strip() for line in sections["events"] for part in line.split(";") if part.strip()]
    events = tuple(_event(part, i) for i, part in enumerate(written))
    return PatternCase(title, pattern, events, tuple(expected), " ".join(sections["why"]), source=source, **options)


def _needed(name: str, rules: Mapping[str, PatternDefinition]) -> list[PatternDefinition]:
    """The rule, and the rules that produce matches for it, in their original order."""
    if name not in rules:
        available = f"available: {', '.join(rules)}" if rules else "use read_cases(path, rules=…)"
        raise ValueError(f"unknown rule {name!r}; {available}")
    needed = [name]
    for rule_name in needed:
        kinds = [step.kind for step in steps(rules[rule_name].match)]
        needed += [k.name for k in kinds if isinstance(k, EventType) and k.name in rules and k.name not in needed]
    return [pattern for pattern in rules.values() if pattern.name in needed]


def _event(row: str, number: int) -> Event:
    parts = _split(row, " ")
    if len(parts) < 3:
        raise ValueError(f"event {row!r}: expected a name, a type and a time in seconds, as in 'l1 Login 60 user=ann'")
    name, kind, time, *attributes = parts
    values = {k: _value(v) for k, _, v in (a.partition("=") for a in attributes)}
    # Events of equal time are ordered as they are written.
    return Event(kind, _seconds(time), {**values, "name": name}, name, 0, (0, number))


def _split(text: str, sign: str = ",") -> list[str]:
    """Split at the separator, but not inside quotes."""
    parts = re.findall(rf"(?:[^{sign}']|'[^']*')+", text)
    return [p.strip() for p in parts if p.strip()]


def _seconds(text: str) -> int:
    return int(Decimal(text) * SECOND)


def _value(text: str) -> object:
    text = text.strip()
    if text in ("null", "true", "false"):
        return {"null": None, "true": True, "false": False}[text]
    if text.startswith("'"):
        return text[1:-1]
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if re.fullmatch(r"-?\d+\.\d+", text):
        return Decimal(text)
    if re.fullmatch(r"-?\d+(\.\d+)?e-?\d+", text):
        return float(text)
    return text


def run_case(case: PatternCase, matcher: Matcher) -> list[str]:
    """The matches of a case, formatted like its expected lines."""
    bound = case.bound or {}
    patterns = []
    for p in _parsed(case).patterns:
        values = {k: v for k, v in bound.items() if k in {q.name for q in p.parameters}}
        patterns.append(resolve(bind(p, values)))
    detection = detect(
        patterns,
        case.events,
        matcher,
        horizon=case.horizon,
        strictly_later=case.strictly_later,
        relations=case.relations,
    )
    several = len(patterns) > 1
    return [
        _written(match, expected, several)
        for match, expected in zip(detection.matches, _padded(case.expected, len(detection.matches)), strict=True)
    ]


def _parsed(case: PatternCase) -> PatternFile:
    """The patterns of a case; raises without a match clause, which the parser would report less clearly."""
    if not _MATCH.search(case.text):
        where = f"{case.source}, " if case.source else ""
        raise ValueError(
            f"{where}case {case.title!r} has no match clause: add a pattern above its events, or 'of NAME'"
        )
    return parse_file(case.text)


def picture(case: PatternCase, matcher: Matcher) -> str:
    """Draw a case: a line of events, and for each match a line with the names of its steps below them.

    A bar marks the end of a match that lies behind its last event.
    """
    patterns = [resolve(bind(p, case.bound if p.parameters else None)) for p in _parsed(case).patterns]
    detection = detect(
        patterns,
        case.events,
        matcher,
        horizon=case.horizon,
        strictly_later=case.strictly_later,
        relations=case.relations,
    )
    ends = [m.end_us for m in detection.matches if m.end_us not in {e.time for e in case.events}]
    times = [_short(t) for t in sorted({*(e.time for e in case.events), *ends})]
    columns: list[tuple[str, Event | None]] = []
    for event in sorted(case.events, key=lambda e: e.time):
        columns.append((_short(event.time), event))
    for end in sorted(set(ends)):
        at = sum(1 for e in case.events if e.time <= end)
        at += sum(1 for earlier in sorted(set(ends)) if earlier < end)
        columns.insert(at, (_short(end), None))
    width = max([len(t) for t in times] + [len(e.type or "") for e in case.events] + [1]) + 2
    lines = ["time    " + "".join(time.ljust(width) for time, _ in columns)]
    lines.append("events  " + "".join((e.type or "").ljust(width) if e else " " * width for _, e in columns))
    for match in detection.matches:
        names = {
            (event.time, event.id): patterns[0].steps[step].name or "*" for step, event in match.contributing
        } if len(patterns) == 1 else {}  # fmt: skip
        cells = []
        for time, shown in columns:
            step_name = (
                names.get((shown.time, shown.id), "") if shown else ("|" if time == _short(match.end_us) else "")
            )
            cells.append(step_name.ljust(width))
        lines.append(("match   " if match.kind == "match" else "timeout ") + "".join(cells))
    if not detection.matches:
        lines.append("no match")
    return "\n".join(line.rstrip() for line in lines)


def _padded(expected: tuple[str, ...], count: int) -> list[str]:
    return [*expected[:count], *([""] * (count - len(expected)))]


def _written(match: Match, like: str, several: bool) -> str:
    """Format a match like an expected line, without the parts that this line does not have."""
    parts = [f"in {match.pattern}"] if several else []
    parts.extend(f"{name}={','.join(_name(e) for e in events)}" for name, events in match.bindings.items())
    if match.kind != "match":
        parts.append(f"kind={match.kind.replace(' ', '_')}")
    if "key=" in like:
        parts.append("key=" + ",".join(_text(v) for v in match.key.values()))
    if "end=" in like or match.kind != "match":
        parts.append(f"end={_short(match.end_us)}")
    text = " ".join(parts)
    if match.values and ("|" in like or not like):
        text += " | " + " ".join(f"{k}={_text(v)}" for k, v in match.values.items())
    return text


def _name(event: Event) -> str:
    return str(event.attributes.get("name", event.id))


def _short(micros: int) -> str:
    return str(micros // SECOND) if micros % SECOND == 0 else format(Decimal(micros) / SECOND, "f")


def _text(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
