"""From the tree as written to the core form, refusing what has no meaning.

Three passes: number the steps and desugar; move each conjunct of ``where`` to the place that decides it;
check every name against what is bound where it is used.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

from perseid.errors import LimitError, MeaningError, ScopeError, UnknownNameError, nearest
from perseid.lang import ast, limits
from perseid.lang import expressions as ex
from perseid.lang.printer import print_expr, print_pattern
from perseid.semantics import core as c
from perseid.semantics.names import References, references, without_own
from perseid.semantics.shape import check_shape

_PRESET = {
    ast.Selection.SQL: ast.Contiguity.NEXT,
    ast.Selection.STRICT: ast.Contiguity.NEXT,
    ast.Selection.ANY: ast.Contiguity.ANY,
    ast.Selection.FOLLOWED_BY: ast.Contiguity.ANY,
}
_STRICTLY_LATER = {ast.Selection.FOLLOWED_BY: True, ast.Selection.SUCCESSOR: True, ast.Selection.SQL: False}


@dataclass(slots=True)
class _Draft:
    """A step while its conditions are still being gathered."""

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
    """Which ``not`` it stands under."""
    is_until: bool = False
    choose: list[c.Condition] = field(default_factory=list)

    @property
    def name(self) -> str | None:
        return self.source.name


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the pattern the walk is."""

    loops: tuple[int, ...] = ()
    repeats: tuple[int, ...] = ()
    optional: bool = False
    members: tuple[tuple[int, int], ...] = ()
    branches: tuple[tuple[int, int], ...] = ()
    absence: int | None = None
    started: bool = False
    """Some event of the match has certainly come before."""
    group_started: bool = True
    """Some event of the windowed group around it has certainly come before."""


def semantic_hash(pattern: ast.Pattern) -> str:
    """What a pattern means, as 128 bits: name, metadata and layout do not count, bound parameters do."""
    bare = replace(pattern, name="p", metadata=ast.Metadata(), parameters=())
    return hashlib.blake2b(print_pattern(bare).encode(), digest_size=16).hexdigest()


def resolve(pattern: ast.Pattern) -> c.CorePattern:
    """The core form of a pattern whose parameters are bound."""
    return _Resolver(pattern).resolve()


class _Resolver:
    def __init__(self, pattern: ast.Pattern) -> None:
        self.pattern = pattern
        self.drafts: list[_Draft] = []
        self.by_name: dict[str, _Draft] = {}
        self.unified: dict[str, int] = {}
        """Unified names by the first step that binds them."""
        self.binders: dict[str, list[_Draft]] = {}
        """All steps that bind a unified name, those under 'not' too."""
        self.loop_guards: dict[int, list[ex.Expr]] = {}
        self.all_guards: dict[int, list[ex.Expr]] = {}
        self.all_loops: dict[int, tuple[int, ...]] = {}
        self.guards: list[ex.Expr] = []
        self.counter = 0

    def resolve(self) -> c.CorePattern:
        pattern = self.pattern
        lead, element = self._split_lead(pattern.match)
        first: list[c.Lead] = []
        for absence in lead:
            place = _Place(absence=self._next())
            body = self._convert(absence.element, None, place)
            first.append(c.Lead(body, _micros(absence.duration)))
        self.lead_steps = len(self.drafts)
        body = self._convert(element, None, _Place())
        if len(self.drafts) > limits.MAX_STEPS:
            raise LimitError(f"A pattern has at most {limits.MAX_STEPS} steps.", span=pattern.span)
        self._check_names()
        for conjunct in ex.conjuncts(pattern.where):
            self._place_conjunct(conjunct)
        returns = self._returns()
        self._check_conditions()
        body = self._with_guards(body)
        core = c.CorePattern(
            name=pattern.name,
            steps=tuple(self._step(d) for d in self.drafts),
            body=body,
            lead=tuple(replace(x, body=self._with_guards(x.body)) for x in first),
            within=pattern.within,
            holds_for=None if pattern.holds_for is None else _micros(pattern.holds_for),
            guards=tuple(self.guards),
            partition=pattern.partition_by,
            context=pattern.selection if pattern.selection and pattern.selection.is_context else None,
            skip=self._skip(),
            strictly_later=_STRICTLY_LATER.get(pattern.selection) if pattern.selection else None,
            report_timeouts=pattern.report_timeouts,
            returns=returns,
            evidence=pattern.evidence,
            suppress=pattern.suppress,
            unified=frozenset(self.binders),
            semantic_hash=semantic_hash(pattern),
        )
        check_shape(core, pattern)
        return core

    def _next(self) -> int:
        self.counter += 1
        return self.counter

    # --- structure -------------------------------------------------------------------------------------------

    def _split_lead(self, element: ast.Element) -> tuple[list[ast.Absence], ast.Element]:
        """Absences before the first step look back in time; they are no part of the body."""
        lead: list[ast.Absence] = []
        if isinstance(element, ast.Absence):
            raise MeaningError(
                "A pattern of nothing but absence has no event to start from.",
                span=element.span,
                hint="Say after what: Login a -> not Logout for 10 minutes.",
            )
        while isinstance(element, ast.Sequence) and isinstance(element.elements[0], ast.Absence):
            absence, rest, link = element.elements[0], element.elements[1:], element.links[0]
            if absence.duration is None:
                raise MeaningError(
                    "'not' before the first step needs to know how far back it looks.",
                    span=absence.span,
                    hint="Write not Login for 10 minutes -> Transfer t.",
                )
            if link.contiguity is not ast.Contiguity.SKIP or link.after is not None or link.within is not None:
                raise MeaningError(
                    "After a leading 'not … for …' stands a plain ->.",
                    span=link.span or absence.span,
                    hint="Write not Login for 10 minutes -> Transfer t.",
                )
            lead.append(absence)
            element = rest[0] if len(rest) == 1 else ast.Sequence(rest, element.links[1:], span=element.span)
        if isinstance(element, ast.Absence):
            raise MeaningError(
                "A pattern of nothing but absence has no event to start from.",
                span=element.span,
                hint="Add a step that happens: not Login for 10 minutes -> Transfer t.",
            )
        return lead, element

    def _contiguity(self, link: ast.Link) -> ast.Contiguity:
        selection = self.pattern.selection
        if selection is None:
            return link.contiguity
        if link.contiguity is not ast.Contiguity.SKIP:
            raise MeaningError(
                f"'selection {selection.value}' already says how steps follow each other; "
                f"{link.contiguity.value} says it differently.",
                span=link.span,
                hint="Write -> everywhere, or leave the selection out.",
            )
        return _PRESET.get(selection, ast.Contiguity.SKIP)

    def _convert(self, element: ast.Element, incoming: ast.Contiguity | None, place: _Place) -> c.Core:
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
                holds = None if element.holds_for is None else _micros(element.holds_for)
                return c.Zone(self._next(), body, element.within, holds)

    def _draft(self, step: ast.Step, place: _Place, *, is_until: bool = False) -> _Draft:
        draft = _Draft(
            id=len(self.drafts),
            source=step,
            negated=place.absence is not None or is_until,
            loops=place.loops,
            repeats=place.repeats,
            optional=place.optional,
            members=place.members,
            branches=place.branches,
            absence=place.absence,
            is_until=is_until,
        )
        if step.name is not None:
            if step.name in self.by_name:
                raise ScopeError(
                    f"Two steps are called {step.name!r}.",
                    span=step.span,
                    hint="Give each step a name of its own; leave out the names nothing asks for.",
                )
            self.by_name[step.name] = draft
        for unify in step.unify:
            self.binders.setdefault(unify.name, []).append(draft)
            if not draft.negated:
                self.unified.setdefault(unify.name, draft.id)
        self.drafts.append(draft)
        draft.choose.extend(c.Condition(e) for e in ex.conjuncts(step.condition))
        return draft

    def _sequence(self, element: ast.Sequence, incoming: ast.Contiguity | None, place: _Place) -> c.Core:
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
            here = replace(place, started=place.started or some, group_started=place.group_started or some)
            items.append(self._convert(part, before, here))
        for link, contiguity in zip(element.links, contiguities, strict=True):
            after = None if link.after is None else _micros(link.after)
            within = None if link.within is None else _micros(link.within)
            if after is not None and within is not None and after > within:
                raise MeaningError(
                    "No event fits here: 'after' is longer than 'within'.",
                    span=link.span,
                    hint="Make 'within' the longer of the two: -> after 5 minutes within 10 minutes.",
                )
            hops.append(c.Hop(contiguity, after, within))
        return c.Seq(tuple(items), tuple(hops))

    def _check_absence_link(self, element: ast.Sequence, i: int) -> None:
        part = element.elements[i]
        assert isinstance(part, ast.Absence)
        if i > 0:
            before = element.links[i - 1]
            if before.contiguity is not ast.Contiguity.SKIP or before.after is not None or before.within is not None:
                raise MeaningError(
                    "Before 'not' stands a plain ->: how the next step follows is said by the arrow behind it.",
                    span=before.span or part.span,
                    hint="Write -> here.",
                )
        if i + 1 < len(element.elements) and part.duration is None:
            after = self._contiguity(element.links[i])
            if after is ast.Contiguity.NEXT:
                raise MeaningError(
                    "Nothing can lie between two events that follow each other directly, so this 'not' says nothing.",
                    span=part.span,
                    hint="Use -> behind it, or leave the 'not' out.",
                )

    @staticmethod
    def _check_plain_link(link: ast.Link, span: ex.Span | None) -> None:
        if link.contiguity is not ast.Contiguity.SKIP or link.after is not None or link.within is not None:
            raise MeaningError(
                "Before 'not' stands a plain ->: how the next step follows is said by the arrow behind it.",
                span=link.span or span,
                hint="Write A -> not B -> C; bounds go on the arrow behind the 'not'.",
            )

    def _conjunction(self, element: ast.Conjunction, incoming: ast.Contiguity | None, place: _Place) -> c.Core:
        number = self._next()
        self.all_loops[number] = place.loops
        members: list[c.Core] = []
        barred: list[c.Core] = []
        for i, member in enumerate(_flat(element)):
            inner = replace(place, members=(*place.members, (number, i)))
            if isinstance(member, ast.Absence):
                if member.duration is not None:
                    raise MeaningError(
                        "A 'not' among steps in any order lasts until the others are there; it takes no 'for'.",
                        span=member.span,
                        hint="Leave 'for' out, or put it behind the others: … -> not Logout for 5 minutes.",
                    )
                barred.append(self._convert(member.element, None, replace(inner, absence=self._next(), started=False)))
            else:
                members.append(self._convert(member, incoming, inner))
        if not members:
            raise MeaningError(
                "All members of this are absences: one of them has to be a step that happens.",
                span=element.span,
                hint="For 'neither of them' write not (Logout | Transfer).",
            )
        hop = c.Hop(incoming or self._contiguity(ast.Link()))
        if barred and not place.started:
            raise self._nothing_before(element.span)
        return c.All(number, tuple(members), hop, (), tuple(barred))

    def _repeat(self, element: ast.Repeat, incoming: ast.Contiguity | None, place: _Place) -> c.Core:
        number = self._next()
        contiguity = element.contiguity
        if contiguity is not None and self.pattern.selection is not None:
            raise MeaningError(
                f"'selection {self.pattern.selection.value}' already says how rounds follow each other.",
                span=element.span,
                hint="Leave 'consecutive', 'relaxed' or 'combinations' out, or the selection.",
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

    def _absence(self, element: ast.Absence, place: _Place) -> c.Core:
        if place.absence is not None and element.duration is not None:
            raise MeaningError(
                "A 'not … for …' inside a 'not' would have to wait for the future of something that must not be.",
                span=element.span,
                hint="Feed it from a pattern of its own.",
            )
        if not place.started:
            raise self._nothing_before(element.span)
        if not place.group_started:
            raise MeaningError(
                "This 'not' stands before the first event of its group, where the group's window has not begun.",
                span=element.span,
                hint="Put it before the group: A -> not B -> (C -> D within 5 seconds).",
            )
        body = self._convert(element.element, None, replace(place, absence=self._next(), started=False))
        return c.Absent(body, None if element.duration is None else _micros(element.duration))

    @staticmethod
    def _nothing_before(span: ex.Span | None) -> MeaningError:
        return MeaningError(
            "'not' looks for what comes after an event, and nothing certainly comes before it here.",
            span=span,
            hint="Begin with a step that has to come, or write not X for 10 minutes -> before all of it.",
        )

    def _stays(self, element: ast.Stays, place: _Place) -> c.Core:
        step = element.step
        if step.condition is None:
            raise MeaningError(
                "'stays' needs a condition that can stay true.",
                span=element.span,
                hint="Write Reading r [temp > 80] stays 5 minutes.",
            )
        if place.absence is not None:
            raise MeaningError(
                "'stays' inside a 'not' would have to wait for the future of something that must not be.",
                span=element.span,
                hint="Feed it from a pattern of its own.",
            )
        if references(step.condition).aggregated:
            raise MeaningError(
                "The condition of 'stays' is asked of one event at a time; an aggregate has no meaning in it.",
                span=element.span,
                hint="Compare the event's own columns.",
            )
        take = c.Take(self._draft(step, place).id)
        own = step.name
        against = ast.Step(step.kind, None, step.unify, ex.Is(without_own(step.condition, own), "true", negated=True))
        absent = c.Absent(
            c.Take(self._draft(against, replace(place, absence=self._next())).id), _micros(element.duration)
        )
        return c.Seq((take, absent), (c.Hop(ast.Contiguity.SKIP),))

    # --- where -----------------------------------------------------------------------------------------------

    def _place_conjunct(self, conjunct: ex.Expr) -> None:
        refs = references(conjunct)
        plain = {d.id for d in self._steps_of(refs)}
        many = {d.id for d in self._aggregated(refs)}
        shared = {ref.parts[0] for ref in refs.plain if ref.parts[0] in self.unified}
        if shared and self._place_on_binders(conjunct, refs, shared):
            return
        if not plain and not many:
            first = next(d for d in self.drafts if not d.negated)
            first.choose.append(c.Condition(conjunct))
            return
        last = self.drafts[max(plain | many)]
        self._check_branches([self.drafts[i] for i in sorted(plain | many)], conjunct)
        negated = [self.drafts[i] for i in plain | many if self.drafts[i].negated]
        if negated:
            last = negated[-1]
            self._check_whose(refs, last)
        together = {i for i in plain | many if i == last.id or self._in_any_order(self.drafts[i], last)}
        if len(together) > 1:
            number = self._common_conjunction([self.drafts[i] for i in together])
            self.all_guards.setdefault(number, []).append(conjunct)
            if not many & together:
                for i in together:
                    self.drafts[i].choose.append(c.Condition(conjunct, tuple(sorted(together - {i}))))
        elif last.id in plain:
            last.choose.append(c.Condition(conjunct))
        elif last.repeats:
            number = last.loops[0] if last.loops else last.repeats[-1]
            self.loop_guards.setdefault(number, []).append(conjunct)
        else:
            self.guards.append(conjunct)

    @staticmethod
    def _check_branches(drafts: list[_Draft], conjunct: ex.Expr) -> None:
        taken: dict[int, tuple[int, _Draft]] = {}
        for draft in drafts:
            for number, branch in draft.branches:
                if number in taken and taken[number][0] != branch:
                    raise ScopeError(
                        f"{taken[number][1].name!r} and {draft.name!r} are in different branches: never both are matched.",
                        span=conjunct.span,
                        hint="Put a condition on each branch.",
                    )
                taken[number] = (branch, draft)

    def _place_on_binders(self, conjunct: ex.Expr, refs: References, shared: set[str]) -> bool:
        """A unified name that several steps can be the first to bind: asked wherever it is bound.

        True where that is all there is to do; with other names beside it, a name that may stay unbound is refused.
        """
        loose = [n for n in shared if self.drafts[self.unified[n]].optional or self.drafts[self.unified[n]].branches]
        if not loose:
            return False
        alone = len(shared) == 1 and len({ref.parts for ref in refs.plain}) == 1 and not refs.aggregated
        if not alone or refs.steps:
            ref = next(r for r in refs.plain if r.parts[0] in loose)
            raise ScopeError(
                f"{ref.parts[0]!r} is bound by different steps, and which of them comes first is not known here.",
                span=ref.span,
                hint="Put the condition in square brackets behind each step that binds it.",
            )
        for draft in self.binders[loose[0]]:
            if not draft.negated:
                draft.choose.append(c.Condition(conjunct))
        return True

    def _check_whose(self, refs: References, last: _Draft) -> None:
        """Where a condition is asked of one event, a bare column of another would be read as that event's."""
        for ref in refs.plain:
            head = ref.parts[0]
            if head not in self.by_name and head not in self.unified and self._only_step(ref) is not last:
                owner = self._only_step(ref).name or "a"
                hint = f"Name the step and write {owner}.{head}."
                raise ScopeError(f"Which step's {head!r} is meant?", span=ref.span, hint=hint)

    def _steps_of(self, refs: References) -> list[_Draft]:
        """The steps that plain names of a conjunct of ``where`` stand for."""
        found = []
        for ref in refs.plain:
            head = ref.parts[0]
            if head in self.by_name:
                if len(ref.parts) == 1:
                    raise self._whole_event(ref)
                found.append(self.by_name[head])
            elif head in self.unified:
                found.append(self.drafts[self.unified[head]])
            else:
                found.append(self._only_step(ref))
        for _, ref in refs.steps:
            found.append(self._named(ref))
        return found

    def _aggregated(self, refs: References) -> list[_Draft]:
        if refs.nested is not None:
            raise MeaningError(
                "An aggregate of an aggregate has no meaning.",
                span=refs.nested.span,
                hint=f"Keep one of the two: {print_expr(refs.nested)}.",
            )
        for call, ref in refs.aggregated:
            if len(ref.parts) == 1 and ref.parts[0] not in self.by_name:
                raise self._not_of_a_step(call, ref)
        return [self._named(ref) for _, ref in refs.aggregated]

    def _not_of_a_step(self, call: ex.Call, ref: ex.Ref) -> UnknownNameError:
        """``sum(amount)``: an aggregate has to know whose."""
        name = ref.parts[0]
        names = [n for n, d in self.by_name.items() if d.loops and not d.negated] or list(self.by_name)
        return UnknownNameError(
            f"{call.name}(…) runs over the events of a step, and no step is called {name!r}.",
            span=ref.span,
            hint=f"Say whose: {call.name}({names[0]}.{name})."
            if names
            else f"Name the step, Transfer+ t, and write {call.name}(t.{name}).",
        )

    def _steps_hint(self) -> str:
        if not self.by_name:
            return "Name a step to ask for its columns: Login a."
        return f"The steps are {', '.join(self.by_name)}."

    def _named(self, ref: ex.Ref) -> _Draft:
        head = ref.parts[0]
        if head not in self.by_name:
            raise UnknownNameError(
                f"No step is called {head!r}.",
                span=ref.span,
                nearest=nearest(head, self.by_name),
                hint=self._steps_hint(),
            )
        return self.by_name[head]

    def _only_step(self, ref: ex.Ref) -> _Draft:
        """A bare column in ``where`` or ``return``: clear only where one step can have it."""
        positive = [d for d in self.drafts if not d.negated]
        head = ref.parts[0]
        if len(positive) == 1 and (len(ref.parts) == 1 or nearest(head, self.by_name) is None):
            return positive[0]
        if len(ref.parts) > 1:
            raise UnknownNameError(
                f"No step is called {head!r}.",
                span=ref.span,
                nearest=nearest(head, self.by_name),
                hint=self._steps_hint(),
            )
        names = [d.name for d in positive if d.name]
        near = nearest(head, [*self.by_name, *self.unified])
        choices = " or ".join(f"{name}.{head}" for name in names[:3])
        hint = f"Write {choices}." if names else f"Name a step and ask for its column: Login a … a.{head}."
        raise ScopeError(f"Which step's {head!r} is meant?", span=ref.span, nearest=near, hint=hint)

    def _whole_event(self, ref: ex.Ref) -> ScopeError:
        name = ref.parts[0]
        return ScopeError(
            f"{name!r} is a whole event, not a value.",
            span=ref.span,
            hint=f"Name one of its columns, as in {name}.amount; time({name}) is its time.",
        )

    @staticmethod
    def _in_any_order(a: _Draft, b: _Draft) -> bool:
        mine = dict(a.members)
        return any(number in mine and mine[number] != member for number, member in b.members)

    @staticmethod
    def _common_conjunction(drafts: list[_Draft]) -> int:
        for number, _ in drafts[0].members:
            if len({dict(d.members).get(number) for d in drafts}) > 1:
                return number
        raise AssertionError("steps in any order share a conjunction")

    # --- names -----------------------------------------------------------------------------------------------

    def _check_names(self) -> None:
        for name in self.unified:
            if name in self.by_name:
                raise ScopeError(
                    f"{name!r} is the name of a step and of a unified value.",
                    span=self.by_name[name].source.span,
                    hint="Rename one of the two.",
                )
        for name, binders in self.binders.items():
            for draft in binders:
                if draft.negated:
                    self._check_negated_binder(name, draft)

    def _check_negated_binder(self, name: str, draft: _Draft) -> None:
        """What stands under 'not' can compare with a unified value only once something else has bound it."""
        first = self.unified.get(name)
        if first is None:
            return
        binder = self.drafts[first]
        in_lead = draft.id < self.lead_steps
        if (first != self._first_step() if in_lead else first > draft.id) or self._in_any_order(binder, draft):
            raise ScopeError(
                f"{name!r} is not bound yet where this 'not' is watched.",
                span=draft.source.span,
                hint="Bind it in a step before the 'not', or put the condition on the step behind it.",
            )

    def _check_conditions(self) -> None:
        for draft in self.drafts:
            for condition in draft.choose:
                self._check_expr(condition.expr, draft)
            for conjunct in ex.conjuncts(draft.source.must):
                if draft.negated:
                    raise MeaningError(
                        "'must' tests an event that was chosen; under 'not' none is.",
                        span=draft.source.span,
                        hint=f"Say in square brackets which events must not come: [{print_expr(conjunct)}].",
                    )
                self._check_expr(conjunct, draft)
        for guards in (*self.loop_guards.values(), self.guards):
            for guard in guards:
                self._check_expr(guard, None)
        for number, guards in self.all_guards.items():
            for guard in guards:
                self._check_expr(guard, None, self.all_loops[number])

    def _check_expr(self, expr: ex.Expr, at: _Draft | None, loops: tuple[int, ...] = ()) -> None:
        refs = references(expr)
        self._aggregated(refs)
        for ref in refs.plain:
            draft = self.by_name.get(ref.parts[0])
            if draft is None:
                continue
            if len(ref.parts) == 1:
                raise self._whole_event(ref)
            self._check_visible(draft, ref, at)
            self._check_single(draft, ref, at, loops)
        for _, ref in refs.steps:
            draft = self._named(ref)
            self._check_visible(draft, ref, at)
            self._check_single(draft, ref, at, loops)
        for call, ref in refs.aggregated:
            draft = self._named(ref)
            self._check_visible(draft, ref, at)
            self._check_many(draft, call, at)

    def _check_visible(self, draft: _Draft, ref: ex.Ref, at: _Draft | None) -> None:
        name = ref.parts[0]
        if draft.negated and (at is None or at.absence != draft.absence):
            raise ScopeError(
                f"{name!r} stands under 'not': where the pattern matches there is no such event.",
                span=ref.span,
                hint="Ask for a step that happens; conditions on this one go in square brackets behind it.",
            )
        if at is not None and at.negated and not draft.negated and self._in_any_order(draft, at):
            raise ScopeError(
                f"{name!r} may come before or after what must not be, so it cannot be asked for there.",
                span=ref.span,
                hint="Ask for steps before the conjunction, or write the steps in their order.",
            )
        if at is None or draft is at or self._in_any_order(draft, at):
            return
        if at.id < self.lead_steps:
            if draft.id > self._first_step():
                raise ScopeError(
                    f"{name!r} is bound later; a leading 'not' can ask for the first step only.",
                    span=ref.span,
                    hint="Leave the condition out, or ask for a column of the first step.",
                )
            return
        if draft.id > at.id:
            where = at.name or "this step"
            raise ScopeError(
                f"{name!r} comes after {where}, so it has no event yet.",
                span=ref.span,
                hint=f"Put the condition on {name}, or in 'where'.",
            )
        if dict(draft.branches).keys() & dict(at.branches).keys():
            mine = dict(at.branches)
            if any(mine.get(number, branch) != branch for number, branch in draft.branches):
                raise ScopeError(
                    f"{name!r} is in another branch: where this step is matched it never is.",
                    span=ref.span,
                    hint="Ask for a step of the same branch, or for one before the |.",
                )

    def _first_step(self) -> int:
        return next(d.id for d in self.drafts if not d.negated)

    def _check_single(self, draft: _Draft, ref: ex.Ref, at: _Draft | None, loops: tuple[int, ...]) -> None:
        here = loops if at is None else at.loops
        if draft is at or draft.loops == here[: len(draft.loops)]:
            return
        name, column = ref.parts[0], ".".join(ref.parts[1:])
        inside = f"{name}.{column}" if column else name
        raise MeaningError(
            f"{name!r} is repeated: it can stand for several events.",
            span=ref.span,
            hint=f"Say which: last({inside}), first({inside}), or an aggregate such as sum({inside}), count({name}).",
        )

    def _check_many(self, draft: _Draft, call: ex.Call, at: _Draft | None) -> None:
        if call.name == "prev" and draft is not at:
            raise MeaningError(
                "prev(…) asks for the round before, so it belongs to the repeated step's own condition.",
                span=call.span,
                hint=f"Write it in the square brackets behind {draft.name}.",
            )
        cumulative = self.pattern.selection is ast.Selection.CUMULATIVE
        if not draft.loops and not draft.optional and not cumulative:
            raise MeaningError(
                f"{call.name}(…) is over a repetition, and {draft.name!r} is a single event.",
                span=call.span,
                hint=f"Use the column itself, or repeat the step: {_kind_text(draft)}+ {draft.name}.",
            )

    # --- clauses ---------------------------------------------------------------------------------------------

    def _returns(self) -> tuple[tuple[str, ex.Expr], ...]:
        out: list[tuple[str, ex.Expr]] = []
        for output in self.pattern.returns:
            name = output.name
            if name is None:
                if not isinstance(output.expr, ex.Ref):
                    raise MeaningError(
                        "A computed column needs a name.",
                        span=output.span,
                        hint=f"Write {print_expr(output.expr)} as total.",
                    )
                name = output.expr.parts[-1]
            if name in dict(out):
                raise MeaningError(
                    f"Two returned columns are called {name!r}.", span=output.span, hint="Rename one with 'as'."
                )
            refs = references(output.expr)
            steps = self._steps_of(refs)
            self._check_bare_output(refs, steps)
            self._check_expr(output.expr, None)
            out.append((name, output.expr))
        suppress = self.pattern.suppress
        if suppress is not None:
            known = [n for n, _ in out] + [".".join(p.parts) for p in self.pattern.partition_by]
            for by in suppress.by:
                if by not in known:
                    raise UnknownNameError(
                        f"'suppress by' asks for {by!r}, which is neither a returned nor a partition column.",
                        span=suppress.span,
                        nearest=nearest(by, known),
                        hint=f"Available: {', '.join(known) or 'none'}.",
                    )
        return tuple(out)

    def _check_bare_output(self, refs: References, steps: list[_Draft]) -> None:
        """A bare column of a repeated step would stand for several events, like any other name of it."""
        for ref, draft in zip(refs.plain, steps, strict=False):
            if ref.parts[0] not in self.by_name and ref.parts[0] not in self.unified and draft.loops:
                name = draft.name or "a"
                raise MeaningError(
                    "The step is repeated: a bare column can stand for several events.",
                    span=ref.span,
                    hint=f"Say which: last({name}.{ref.parts[0]}), first({name}.{ref.parts[0]}), or an aggregate.",
                )

    def _skip(self) -> ast.Skip:
        skip, selection = self.pattern.skip, self.pattern.selection
        if skip is None:
            return ast.Skip("past last") if selection is ast.Selection.SQL else ast.Skip("none")
        if selection is not None:
            already = "already decides what a match uses up" if selection.is_context else "already says where to go on"
            raise MeaningError(
                f"'selection {selection.value}' {already}; 'after match skip' would contradict it.",
                span=skip.span or self.pattern.span,
                hint="Keep one of the two.",
            )
        if skip.step is not None:
            draft = self._named(ex.Ref((skip.step,), span=skip.span))
            if draft.negated:
                raise ScopeError(
                    f"{skip.step!r} stands under 'not': there is no such event.",
                    span=skip.span,
                    hint="Skip to a step that happens.",
                )
        return skip

    # --- finishing -------------------------------------------------------------------------------------------

    def _step(self, draft: _Draft) -> c.CoreStep:
        source = draft.source
        return c.CoreStep(
            id=draft.id,
            name=source.name,
            kind=source.kind,
            unify=tuple((u.attribute, u.name) for u in source.unify),
            choose=tuple(draft.choose),
            must=tuple(ex.conjuncts(source.must)),
            negated=draft.negated,
            repeated=bool(draft.loops),
            span=source.span,
        )

    def _with_guards(self, core: c.Core) -> c.Core:
        match core:
            case c.Take():
                return core
            case c.Seq():
                return replace(core, items=tuple(map(self._with_guards, core.items)))
            case c.Alt():
                return replace(core, branches=tuple(map(self._with_guards, core.branches)))
            case c.All():
                return replace(
                    core,
                    members=tuple(map(self._with_guards, core.members)),
                    barred=tuple(map(self._with_guards, core.barred)),
                    guards=tuple(self.all_guards.get(core.id, ())),
                )
            case c.Loop():
                guards = tuple(self.loop_guards.get(core.id, ()))
                return replace(core, body=self._with_guards(core.body), guards=guards)
            case c.Absent() | c.Zone():
                return replace(core, body=self._with_guards(core.body))


def _begins_with_absence(element: ast.Element) -> bool:
    """Can a 'not' be the first thing in the element?"""
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
    """A conjunction directly inside another is part of it: "in any order" is associative (paper 2, Table 2)."""
    out: list[ast.Element] = []
    for member in conjunction.members:
        out.extend(_flat(member) if isinstance(member, ast.Conjunction) else [member])
    return out


def _kind_text(draft: _Draft) -> str:
    kind = draft.source.kind
    return kind.name if isinstance(kind, ast.EventType) else "any"


def _micros(duration: ast.Duration | None) -> int:
    assert isinstance(duration, int), "parameters are bound before a pattern is resolved"
    return duration
