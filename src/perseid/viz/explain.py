"""Textual explanation of a pattern: its meaning, and the resources to run it."""

from __future__ import annotations

from perseid.compile.plan import PatternPlan, Plan
from perseid.lang.ast import Contiguity, Metadata
from perseid.lang.printer import print_duration, print_expr, print_window
from perseid.lang.tree_types import describe_kind
from perseid.semantics import core as c

_THEN = {
    Contiguity.NEXT: "the immediately following event",
    Contiguity.SKIP: "the first later event that matches",
    Contiguity.ANY: "every later event that matches",
}
_KNOWN = {
    "event": "at its last event",
    "deadline": "when the 'not' at its end times out",
    "window": "when a window closes, if a preferred or earlier match is possible until then",
}
_SKIP = {
    "none": "every event that matches the first step starts a partial match",
    "to next": "every event that matches the first step starts a partial match, with at most one match",
    "past last": "after a match, the next partial match starts after its last event",
    "to first": "after a match, the next partial match starts at the first event of",
    "to last": "after a match, the next partial match starts at the last event of",
}
_GROWTH = {
    "one per start": "at most 1 for each event that matches the first step",
    "polynomial": "several, polynomial in the number of events",
    "exponential": "several, exponential in the number of events",
}

_NOTHING = Metadata()


def explain(plan: Plan, name: str, metadata: Metadata = _NOTHING) -> str:
    """Explain one pattern of a plan; its metadata is not part of the plan."""
    pattern_plan = next(pattern for pattern in plan.patterns if pattern.name == name)
    pattern, facts = pattern_plan.pattern, pattern_plan.facts
    out = [f"pattern {name}", ""]
    out += _section("metadata", _for_people(metadata))
    out += _section("steps", _steps(pattern_plan))
    out += _section("conditions", _conditions(plan, pattern_plan))
    out += _section(
        "time and partitioning",
        [
            (
                "partition by",
                ", ".join(".".join(x.parts) for x in pattern.partition) or "none: events form one partition",
            ),
            ("window", _window(pattern)),
            ("equal times", "a later step needs a later time" if pattern.strictly_later
             else "event order decides, unless the stream sets strictly_later"),
            ("final", "a match is final " + ", or ".join(_KNOWN[k] for k in facts.known) + _advice(pattern)),
        ],
    )  # fmt: skip
    out += _section(
        "matches",
        [
            ("start", _starts(pattern)),
            ("number", f"{_GROWTH[facts.growth]}: {facts.growth_why}"),
            ("timed out", "reported" if pattern.report_timeouts else "not reported"),
            ("returns", ", ".join(n for n, _ in pattern.returns) or "no additional columns"),
            *_optional(pattern),
        ],
    )
    out += _section(
        "engine",
        [
            ("runs on", f"{facts.engines[0]} ({facts.engines_why})"),
            ("inputs", "matches of " + ", ".join(pattern_plan.feeds_on) if pattern_plan.feeds_on else "stream"),
            (
                "unmatched events",
                ("dropped before matching: " if facts.droppable else "needed: ") + facts.droppable_why,
            ),
            ("columns read", _columns(plan, pattern_plan)),
            ("state", _state(pattern_plan)),
            ("emits", _emission(pattern_plan)),
            ("pattern hash", pattern.semantic_hash),
        ],
    )
    return "\n".join(out).rstrip() + "\n"


def _section(title: str, rows: list[tuple[str, str]]) -> list[str]:
    if not rows:
        return []
    width = max(len(key) for key, _ in rows)
    return [title, *(f"  {key:<{width}}  {text}".rstrip() for key, text in rows), ""]


def _for_people(metadata: Metadata) -> list[tuple[str, str]]:
    rows = [
        ("description", metadata.description),
        ("severity", metadata.severity),
        ("owner", metadata.owner),
        ("tags", ", ".join(metadata.tags)),
    ]
    # A multi-line text would break the block.
    return [(key, " ".join(text.split())) for key, text in rows if text]


def _steps(plan: PatternPlan) -> list[tuple[str, str]]:
    pattern = plan.pattern
    rows: list[tuple[str, str]] = []
    for lead in pattern.lead:
        rows.append(("not", f"{_names(pattern, lead.body)} for {print_duration(lead.duration)} before"))
    rows += _walk(pattern, pattern.body, "")
    return rows


def _names(pattern: c.CorePattern, body: c.Core) -> str:
    return ", ".join(describe_kind(pattern.steps[s].kind) for s in c.takes(body))


def _bounds(hop: c.Hop) -> str:
    after = "" if hop.after is None else f" after {print_duration(hop.after)}"
    return after + ("" if hop.within is None else f" within {print_duration(hop.within)}")


def _walk(pattern: c.CorePattern, element: c.Core, contiguity: str) -> list[tuple[str, str]]:
    match element:
        case c.Take():
            step = pattern.steps[element.step]
            text = describe_kind(step.kind) + (f", {contiguity}" if contiguity else "")
            return [(step.name or "·", text)]
        case c.Seq():
            rows: list[tuple[str, str]] = []
            for i, item in enumerate(element.items):
                hop = element.hops[i - 1] if i else None
                rows += _walk(pattern, item, contiguity if hop is None else _THEN[hop.contiguity] + _bounds(hop))
            return rows
        case c.Alt():
            rows = []
            for i, branch in enumerate(element.branches):
                inner = _walk(pattern, branch, contiguity)
                rows += inner if i == 0 else [("or " + key, text) for key, text in inner]
            return rows
        case c.All():
            rows = []
            for i, member in enumerate(element.members):
                inner = _walk(pattern, member, contiguity if i == 0 else "in any order")
                rows += inner if i == 0 else [("and " + key, text) for key, text in inner]
            together = _labels(pattern, element)
            return rows + [("not", f"{_names(pattern, b)} until {together} have matched") for b in element.barred]
        case c.Loop():
            high = "or more" if element.high is None else f"to {element.high}"
            exact = element.low == element.high
            many = f"{element.low} times" if exact else f"{element.low} {high} times"
            manner = "" if exact else (", reluctant" if element.reluctant else ", greedy")
            each_hop = f", each {_THEN[element.hop.contiguity]}" if element.high != 1 else ""
            until = ""
            if element.until is not None:
                until = f", until {describe_kind(pattern.steps[element.until].kind)}"
            rows = _walk(pattern, element.body, contiguity)
            if len(rows) == 1 or isinstance(element.body, c.Zone):
                (key, text), *inner = rows
                return [(key, f"{text}; {many}{manner}{each_hop}{until}"), *inner]
            return [(_group(pattern, element.body), f"group; {many}{manner}{each_hop}{until}"), *rows]
        case c.Absent():
            when = "in between" if element.duration is None else f"for {print_duration(element.duration)}"
            return [("not", f"{_names(pattern, element.body)} {when}")]
        case c.Zone():
            within = "" if element.within is None else f" within {print_window(element.within)}"
            holds = "" if element.holds_for is None else f" holding for {print_duration(element.holds_for)}"
            rows = _walk(pattern, element.body, contiguity)
            return [(_group(pattern, element.body), f"group{within}{holds}"), *rows]


def _group(pattern: c.CorePattern, body: c.Core) -> str:
    """The label of a group: the names of its steps that take events of the match."""
    return f"({', '.join(_positive_names(pattern, body))})"


def _labels(pattern: c.CorePattern, body: c.Core) -> str:
    names = _positive_names(pattern, body)
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _positive_names(pattern: c.CorePattern, body: c.Core) -> list[str]:
    steps = [pattern.steps[s] for s in c.takes(body) if not pattern.steps[s].negated]
    return [step.name or describe_kind(step.kind) for step in steps]


def _conditions(plan: Plan, pattern_plan: PatternPlan) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for step, numbers in zip(pattern_plan.pattern.steps, pattern_plan.steps, strict=True):
        label = step.name or describe_kind(step.kind)
        for number, needs in numbers.choose:
            predicate = plan.predicates[number]
            scope = "reads one event" if predicate.event_local else "reads earlier events"
            later = ", evaluated once its steps are bound" if needs else ""
            rows.append((f"{label} where", f"{print_expr(predicate.expr)}  ({scope}{later})"))
        for number in numbers.must:
            rows.append(
                (f"{label} must", f"{print_expr(plan.predicates[number].expr)}  (ends the partial match unless true)")
            )
        for path, shared in step.unify:
            rows.append(
                (f"{label} where", f"{'.'.join(path.parts)} = {shared}  (one value for all steps with 'as {shared}')")
            )
    stack: list[c.Core] = [pattern_plan.pattern.body]
    while stack:
        element = stack.pop(0)
        if isinstance(element, c.Loop):
            label = f"{_labels(pattern_plan.pattern, element.body)}, when the repetition ends"
            rows.extend((label, print_expr(guard)) for guard in element.guards)
        if isinstance(element, c.All):
            label = f"when {_labels(pattern_plan.pattern, element)} have matched"
            rows.extend((label, print_expr(guard)) for guard in element.guards)
        stack.extend(c.core_parts(element))
    rows.extend(("at the end", print_expr(guard)) for guard in pattern_plan.pattern.guards)
    return rows


def _advice(pattern: c.CorePattern) -> str:
    """Return advice for earlier detection if a greedy repetition at the end delays the match."""
    waits = any(isinstance(e, c.Loop) and not e.reluctant and e.high != e.low for e in c.ends(pattern.body))
    return (
        " (the repetition at the end is greedy; with +? it is reluctant, and the match is final at once)"
        if waits
        else ""
    )


_COMPLETED = 'when a match completes (with order="watermark": when the watermark passes its last event)'


def _emission(pattern_plan: PatternPlan) -> str:
    reasons = {"deadline": "a 'not' times out", "window": "a window closes"}
    if not pattern_plan.timer_reasons:
        return _COMPLETED
    return f"{_COMPLETED}; by timer when " + " or ".join(reasons[w] for w in pattern_plan.timer_reasons)


def _window(pattern: c.CorePattern) -> str:
    text = "none needed: every wait is bounded" if pattern.within is None else print_window(pattern.within)
    holds = "" if pattern.holds_for is None else f", at least {print_duration(pattern.holds_for)}"
    return text + holds


def _starts(pattern: c.CorePattern) -> str:
    if pattern.context is not None:
        return f"selection {pattern.context.value}: it defines which partial match uses an event"
    return _SKIP[pattern.skip.mode] + (f" {pattern.skip.step}" if pattern.skip.step else "")


def _optional(pattern: c.CorePattern) -> list[tuple[str, str]]:
    rows = []
    if pattern.evidence is not None:
        rows.append(("evidence", f"at most {pattern.evidence.limit} events per match; the rest are counted"))
    if pattern.suppress is not None:
        by = ", ".join(pattern.suppress.by) or "the partition key"
        rows.append(
            ("suppress", f"for {print_duration(pattern.suppress.duration)} by {by}; suppressed matches are counted")
        )
    return rows


def _columns(plan: Plan, pattern_plan: PatternPlan) -> str:
    names = sorted({name for step in pattern_plan.facts.steps for name in step.columns})
    retained = {name for step in pattern_plan.facts.steps for name in step.retained}
    keys = [path.parts[0] for path in pattern_plan.pattern.partition]
    shown = [f"{n} (retained)" if n in retained else n for n in names] + [f"{k} (key)" for k in keys if k not in names]
    return "all, for evidence" if pattern_plan.facts.all_columns else ", ".join(shown) or "none"


def _state(pattern_plan: PatternPlan) -> str:
    retention = pattern_plan.retention
    if retention.kind == "empty":
        return "none: each event is matched on its own"
    if retention.kind == "unbounded":
        return (
            f"events of open partial matches, until they end: at most {retention.cap:,} partial matches per key; "
            "beyond that, the oldest are dropped and counted"
        )
    if retention.events is not None:
        return f"the last {retention.events} events of each key"
    return f"events of each key for {print_duration(retention.micros or 0)}, then evicted"
