"""Lower a pattern's AST to core elements: steps are numbered, sugar is removed, every arrow has its contiguity.

Elements that have no meaning at their position are rejected.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from perseid.errors import ScopeError, SemanticError
from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.lang.printer import ITERATION_WORDS, print_duration
from perseid.semantics import core as c
from perseid.semantics.names import references, strip_step_name

_PRESET = {
    ast.Selection.SQL: ast.Contiguity.NEXT,
    ast.Selection.STRICT: ast.Contiguity.NEXT,
    ast.Selection.ANY: ast.Contiguity.ANY,
    ast.Selection.FOLLOWED_BY: ast.Contiguity.ANY,
}


@dataclass(slots=True)
class Draft:
    """A step while its conditions are being collected."""

    id: int
    source: ast.Step
    negated: bool
    loops: tuple[int, ...]
    """Repetitions around the step that can bind it more than once, outermost first."""
    repeats: tuple[int, ...]
    """All repetitions around the step, optional ones included, outermost first."""
    optional: bool
    members: tuple[tuple[int, int], ...]
    """(conjunction, member) pairs around the step."""
    branches: tuple[tuple[int, int], ...]
    """(alternation, branch) pairs around the step."""
    absence: int | None
    """Number of the enclosing ``not``."""
    choose: list[c.Condition] = field(default_factory=list)

    @property
    def name(self) -> str | None:
        return self.source.name


@dataclass(frozen=True, slots=True)
class ElementContext:
    """Context of an element during the traversal."""

    loops: tuple[int, ...] = ()
    repeats: tuple[int, ...] = ()
    optional: bool = False
    members: tuple[tuple[int, int], ...] = ()
    branches: tuple[tuple[int, int], ...] = ()
    absence: int | None = None
    started: bool = False
    """Some event of the match certainly precedes the element."""
    group_started: bool = True
    """Some event of the enclosing windowed group certainly precedes the element."""


class Structure:
    """First pass over a pattern: drafts of its steps, and the core elements that refer to them."""

    def __init__(self, pattern: ast.PatternDefinition) -> None:
        self.pattern = pattern
        self.drafts: list[Draft] = []
        self.by_name: dict[str, Draft] = {}
        self.unified: dict[str, int] = {}
        """Unified names by the first step that binds them."""
        self.binders: dict[str, list[Draft]] = {}
        """All steps that bind a unified name, including those under 'not'."""
        self.loop_guards: dict[int, list[ex.Expr]] = {}
        self.all_guards: dict[int, list[ex.Expr]] = {}
        self.all_loops: dict[int, tuple[int, ...]] = {}
        self.guards: list[ex.Expr] = []
        self.counter = 0

    def _next(self) -> int:
        self.counter += 1
        return self.counter

    # structure

    def _split_lead(self, element: ast.Element) -> tuple[list[ast.Absence], ast.Element]:
        """Split off the absences before the first step; they look back in time and are not part of the body."""
        lead: list[ast.Absence] = []
        if isinstance(element, ast.Absence):
            raise SemanticError(
                "A pattern with only 'not' has no event to start from.",
                span=element.span,
                hint="Add a step before it: Login a -> not Logout for 10 minutes.",
            )
        while isinstance(element, ast.Sequence) and isinstance(element.elements[0], ast.Absence):
            absence, rest, link = element.elements[0], element.elements[1:], element.links[0]
            if absence.duration is None:
                raise SemanticError(
                    "'not' before the first step needs a duration to look back.",
                    span=absence.span,
                    hint="Write not Login for 10 minutes -> Transfer t.",
                )
            if link.contiguity is not ast.Contiguity.SKIP or link.after is not None or link.within is not None:
                raise SemanticError(
                    "Expected a plain -> after a leading 'not … for …'.",
                    span=link.span or absence.span,
                    hint="Write not Login for 10 minutes -> Transfer t.",
                )
            lead.append(absence)
            element = rest[0] if len(rest) == 1 else ast.Sequence(rest, element.links[1:], span=element.span)
        if isinstance(element, ast.Absence):
            raise SemanticError(
                "A pattern with only 'not' has no event to start from.",
                span=element.span,
                hint="Add a step after it: not Login for 10 minutes -> Transfer t.",
            )
        return lead, element

    def _contiguity(self, link: ast.Link) -> ast.Contiguity:
        selection = self.pattern.selection
        if selection is None:
            return link.contiguity
        if link.contiguity is not ast.Contiguity.SKIP:
            raise SemanticError(
                f"'selection {selection.value}' already defines how steps follow each other; "
                f"{link.contiguity.value} conflicts with it.",
                span=link.span,
                hint="Use -> everywhere, or remove the selection.",
            )
        return _PRESET.get(selection, ast.Contiguity.SKIP)

    def _convert(self, element: ast.Element, incoming: ast.Contiguity | None, place: ElementContext) -> c.Core:
        match element:
            case ast.Step():
                return c.Take(self._draft(element, place).id)
            case ast.Sequence():
                return self._sequence(element, incoming, place)
            case ast.Alternation():
                number = self._next()
                return c.Alt(
                    tuple(
                        self._convert(b, incoming, replace(place, branches=(*place.branches, (number, i))))
                        for i, b in enumerate(element.branches)
                    )
                )
            case ast.Conjunction():
                return self._conjunction(element, incoming, place)
            case ast.Repeat():
                return self._repeat(element, incoming, place)
            case ast.Absence():
                return self._absence(element, place)
            case ast.Stays():
                return self._stays(element, place)
            case ast.Group():
                inside = place if element.within is None else replace(place, group_started=False)
                body = self._convert(element.element, incoming, inside)
                duration = None if element.holds_for is None else micros(element.holds_for)
                return c.Zone(self._next(), body, element.within, duration)

    def _draft(self, step: ast.Step, place: ElementContext, *, is_until: bool = False) -> Draft:
        draft = Draft(
            id=len(self.drafts),
            source=step,
            negated=place.absence is not None or is_until,
            loops=place.loops,
            repeats=place.repeats,
            optional=place.optional,
            members=place.members,
            branches=place.branches,
            absence=place.absence,
        )
        if step.name is not None:
            if step.name in self.by_name:
                raise ScopeError(
                    f"Duplicate step {step.name!r}.",
                    span=step.span,
                    hint="Use another name, or remove names that no condition uses.",
                )
            self.by_name[step.name] = draft
        for unify in step.unify:
            self.binders.setdefault(unify.name, []).append(draft)
            if not draft.negated:
                self.unified.setdefault(unify.name, draft.id)
        self.drafts.append(draft)
        draft.choose.extend(c.Condition(e) for e in ex.conjuncts(step.condition))
        return draft

    def _sequence(self, element: ast.Sequence, incoming: ast.Contiguity | None, place: ElementContext) -> c.Core:
        contiguities = [self._contiguity(link) for link in element.links]
        items: list[c.Core] = []
        hops: list[c.Hop] = []
        for i, part in enumerate(element.elements):
            before = contiguities[i - 1] if i else incoming
            if before is None and contiguities:
                before = contiguities[0]
            if isinstance(part, ast.Absence):
                self._check_absence_link(element, i)
            elif i > 0 and _begins_with_absence(part):
                self._check_plain_link(element.links[i - 1], part.span)
            some = not all(c.can_be_empty(item) for item in items)
            at = replace(place, started=place.started or some, group_started=place.group_started or some)
            items.append(self._convert(part, before, at))
        for link, contiguity in zip(element.links, contiguities, strict=True):
            after = None if link.after is None else micros(link.after)
            within = None if link.within is None else micros(link.within)
            if after is not None and within is not None and after > within:
                raise longer_than_window(f"after {print_duration(after)}", within, link.span)
            hops.append(c.Hop(contiguity, after, within))
        return c.Seq(tuple(items), tuple(hops))

    def _check_absence_link(self, element: ast.Sequence, i: int) -> None:
        part = element.elements[i]
        assert isinstance(part, ast.Absence)
        if i > 0:
            before = element.links[i - 1]
            if before.contiguity is not ast.Contiguity.SKIP or before.after is not None or before.within is not None:
                raise _only_arrow(before.span or part.span)
        if i + 1 < len(element.elements) and part.duration is None:
            after = self._contiguity(element.links[i])
            if after is ast.Contiguity.NEXT:
                raise SemanticError(
                    "This 'not' has no effect: no event lies between two consecutive events.",
                    span=part.span,
                    hint="Use -> after it, or remove the 'not'.",
                )

    @staticmethod
    def _check_plain_link(link: ast.Link, span: ex.Span | None) -> None:
        if link.contiguity is not ast.Contiguity.SKIP or link.after is not None or link.within is not None:
            raise _only_arrow(link.span or span)

    def _conjunction(self, element: ast.Conjunction, incoming: ast.Contiguity | None, place: ElementContext) -> c.Core:
        number = self._next()
        self.all_loops[number] = place.loops
        members: list[c.Core] = []
        barred: list[c.Core] = []
        for i, member in enumerate(_flat(element)):
            inner = replace(place, members=(*place.members, (number, i)))
            if isinstance(member, ast.Absence):
                if member.duration is not None:
                    raise SemanticError(
                        "A 'not' between & lasts until the other steps match, and does not support 'for'.",
                        span=member.span,
                        hint="Remove 'for', or put the 'not' after the other steps: … -> not Logout for 5 minutes.",
                    )
                barred.append(self._convert(member.element, None, replace(inner, absence=self._next(), started=False)))
            else:
                members.append(self._convert(member, incoming, inner))
        if not members:
            raise SemanticError(
                "'&' needs at least one step without 'not'.",
                span=element.span,
                hint="Add a step, or write not (Logout | Transfer) for 'neither of them'.",
            )
        hop = c.Hop(incoming or self._contiguity(ast.Link()))
        if barred and not place.started:
            raise self._missing_event_before(element.span)
        return c.All(number, tuple(members), hop, (), tuple(barred))

    def _repeat(self, element: ast.Repeat, incoming: ast.Contiguity | None, place: ElementContext) -> c.Core:
        number = self._next()
        contiguity = element.contiguity
        if contiguity is not None and self.pattern.selection is not None:
            raise SemanticError(
                f"'selection {self.pattern.selection.value}' already defines how iterations follow each other.",
                span=element.span,
                hint=f"Remove '{ITERATION_WORDS[contiguity]}', or the selection.",
            )
        if contiguity is None:
            contiguity = incoming or self._contiguity(ast.Link())
        many = element.high != 1
        inner = replace(
            place,
            loops=(*place.loops, number) if many else place.loops,
            repeats=(*place.repeats, number),
            optional=place.optional or element.low == 0,
        )
        first = len(self.drafts)
        body = self._convert(element.element, incoming or contiguity, inner)
        inside = tuple(d.id for d in self.drafts[first:])
        until = None
        if element.until is not None:
            until = self._draft(element.until, inner, is_until=True).id
        return c.Loop(number, body, element.low, element.high, element.reluctant, c.Hop(contiguity), until, (), inside)

    def _absence(self, element: ast.Absence, place: ElementContext) -> c.Core:
        if place.absence is not None and element.duration is not None:
            raise SemanticError(
                "'not … for …' is unsupported inside a 'not': its deadline lies after an event that must not occur.",
                span=element.span,
                hint="Match it in a separate pattern and use that pattern as a step.",
            )
        if not place.started:
            raise self._missing_event_before(element.span)
        if not place.group_started:
            raise SemanticError(
                "A group cannot begin with 'not': its window starts at its first event.",
                span=element.span,
                hint="Put it before the group: A -> not B -> (C -> D within 5 seconds).",
            )
        body = self._convert(element.element, None, replace(place, absence=self._next(), started=False))
        return c.Absent(body, None if element.duration is None else micros(element.duration))

    @staticmethod
    def _missing_event_before(span: ex.Span | None) -> SemanticError:
        return SemanticError(
            "'not' needs an event before it, but no required step precedes it.",
            span=span,
            hint="Add a required step before it, or write not X for 10 minutes -> at the start of the pattern.",
        )

    def _stays(self, element: ast.Stays, place: ElementContext) -> c.Core:
        step = element.step
        if step.condition is None:
            raise SemanticError(
                "'stays' needs a condition.",
                span=element.span,
                hint="Write Reading r [temp > 80] stays 5 minutes.",
            )
        if place.absence is not None:
            raise SemanticError(
                "'stays' is unsupported inside a 'not': its deadline lies after an event that must not occur.",
                span=element.span,
                hint="Match it in a separate pattern and use that pattern as a step.",
            )
        if references(step.condition).aggregated:
            raise SemanticError(
                "The condition of 'stays' is evaluated on one event at a time and does not support aggregates.",
                span=element.span,
                hint="Use columns of the event.",
            )
        take = c.Take(self._draft(step, place).id)
        step_name = step.name
        against = ast.Step(
            step.kind, None, step.unify, ex.Is(strip_step_name(step.condition, step_name), "true", negated=True)
        )
        absent = c.Absent(
            c.Take(self._draft(against, replace(place, absence=self._next())).id), micros(element.duration)
        )
        return c.Seq((take, absent), (c.Hop(ast.Contiguity.SKIP),))


def longer_than_window(what: str, window: int, span: ex.Span | None) -> SemanticError:
    """The error for a bound that its window does not contain."""
    within = f"within {print_duration(window)}"
    return SemanticError(
        f"'{what}' is longer than '{within}': no match is possible.",
        span=span,
        hint=f"Lengthen '{within}', or shorten '{what}'.",
    )


def _only_arrow(span: ex.Span | None) -> SemanticError:
    return SemanticError(
        "Only -> can precede 'not', which matches no event. The arrow after 'not' leads to the next step.",
        span=span,
        hint="Write A -> not B -> C; put 'after' and 'within' on the arrow after the 'not'.",
    )


def _begins_with_absence(element: ast.Element) -> bool:
    """Return True if the element may begin with a 'not'."""
    match element:
        case ast.Absence():
            return True
        case ast.Step() | ast.Stays():
            return False
        case ast.Sequence():
            return _begins_with_absence(element.elements[0])
        case ast.Conjunction():
            return any(_begins_with_absence(m) for m in element.members if not isinstance(m, ast.Absence))
        case _:
            return any(map(_begins_with_absence, ast.parts(element)))


def _flat(conjunction: ast.Conjunction) -> list[ast.Element]:
    """Flatten nested conjunctions: "in any order" is associative (Dávid et al. 2016, Table 2)."""
    out: list[ast.Element] = []
    for member in conjunction.members:
        out.extend(_flat(member) if isinstance(member, ast.Conjunction) else [member])
    return out


def micros(duration: ast.Duration | None) -> int:
    assert isinstance(duration, int), "parameters are bound before a pattern is resolved"
    return duration
