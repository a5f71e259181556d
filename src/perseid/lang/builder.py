"""Patterns from Python: a fluent way to the same tree the parser gives.

::

    takeover = (
        build("takeover")
        .match(step("Login", "a") >> absent(step("Logout")) >> step("Transfer", "t").plus())
        .where("sum(t.amount) > 10000")
        .within("10 minutes")
        .partition_by("user")
        .returns("a.ip as from_ip", transfers="count(t)")
        .build()
    )

``a >> b`` is ``A -> B``, ``a | b`` one of them, ``a & b`` both in any order. Python ties ``>>`` closer than
``&`` and ``&`` closer than ``|``, so a choice inside a sequence needs its parentheses:
``a >> (b | c)``. Where an element is asked for, its text will do: ``step("Login") >> "Transfer t"``.

Nothing here changes: every method gives a new value, and parts can be used again.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal as Choice
from typing import NoReturn, TypeAlias, cast, get_args

from perseid.errors import PatternError, nearest
from perseid.lang import ast, limits
from perseid.lang import expressions as ex
from perseid.lang.parser import (
    parse_constant,
    parse_duration,
    parse_element,
    parse_expression,
    parse_output,
    parse_path,
    parse_pattern,
    parse_skip,
    parse_type,
    parse_window,
)
from perseid.lang.printer import print_element, print_literal, print_pattern
from perseid.lang.tree_parser import parse_tree

PartLike: TypeAlias = "Part | str"
"""A part, or the text of one."""
DurationLike: TypeAlias = str | dt.timedelta
"""``"10 minutes"``, ``":parameter"`` or a timedelta."""
Constant: TypeAlias = bool | int | float | Decimal | str | dt.datetime | dt.date | dt.timedelta | None

_Action = Choice["create", "delete", "set", "link", "unlink"]
_MICRO = dt.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of what a pattern matches; made by :func:`step` and the other functions here."""

    element: ast.Element
    closed: bool = False
    """In parentheses: what joins it to others does not reach inside."""

    def __str__(self) -> str:
        return print_element(self.element)

    # joining

    def __rshift__(self, other: PartLike) -> Part:
        return self.then(other)

    def __rrshift__(self, other: PartLike) -> Part:
        return _part(other).then(self)

    def __or__(self, other: PartLike) -> Part:
        return any_of(self, other) if self.closed else Part(_joined(ast.Alternation, self.element, other))

    def __ror__(self, other: PartLike) -> Part:
        return any_of(other, self)

    def __and__(self, other: PartLike) -> Part:
        return all_of(self, other) if self.closed else Part(_joined(ast.Conjunction, self.element, other))

    def __rand__(self, other: PartLike) -> Part:
        return all_of(other, self)

    def then(self, other: PartLike, *, within: DurationLike | None = None, after: DurationLike | None = None) -> Part:
        """``self -> other``: the first later event that fits."""
        return self._then(ast.Contiguity.SKIP, other, within, after)

    def then_any(
        self, other: PartLike, *, within: DurationLike | None = None, after: DurationLike | None = None
    ) -> Part:
        """``self ->> other``: every later event that fits, each a match of its own."""
        return self._then(ast.Contiguity.ANY, other, within, after)

    def then_next(
        self, other: PartLike, *, within: DurationLike | None = None, after: DurationLike | None = None
    ) -> Part:
        """``self, other``: the very next event and no other."""
        return self._then(ast.Contiguity.NEXT, other, within, after)

    def _then(
        self,
        contiguity: ast.Contiguity,
        other: PartLike,
        within: DurationLike | None,
        after: DurationLike | None,
    ) -> Part:
        right = _part(other).element
        link = ast.Link(contiguity, _maybe_duration(after, "after"), _maybe_duration(within, "within"))
        left = self.element
        if isinstance(left, ast.Sequence) and not self.closed:
            return Part(ast.Sequence((*left.elements, right), (*left.links, link)))
        return Part(ast.Sequence((left, right), (link,)))

    # repeating

    def plus(self) -> Part:
        """Once or more: ``+``."""
        return self._repeat(1, None)

    def star(self) -> Part:
        """Any number of times, none included: ``*``."""
        return self._repeat(0, None)

    def optional(self) -> Part:
        """Once or not at all: ``?``."""
        return self._repeat(0, 1)

    def times(self, low: int, high: int | None = None) -> Part:
        """``times(3)`` is ``{3}``, ``times(2, 5)`` is ``{2,5}``."""
        return self._repeat(low, low if high is None else high)

    def at_least(self, low: int) -> Part:
        """``{low,}``."""
        return self._repeat(low, None)

    def at_most(self, high: int) -> Part:
        """``{,high}``."""
        return self._repeat(0, high)

    def _repeat(self, low: int, high: int | None) -> Part:
        for bound in (low, high):
            if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int)):
                raise PatternError(f"A repetition is a whole number of times, not {bound!r}.")
            if bound is not None and not 0 <= bound <= limits.MAX_ROUNDS:
                raise PatternError(f"A repetition is 0 to {limits.MAX_ROUNDS:,} times, not {bound}.")
        if high == 0:
            raise PatternError(f"A repetition of {low} to 0: no event could fit it.")
        if high is not None and high < low:
            raise PatternError(
                f"A repetition of {low} to {high}: the upper bound is below the lower.",
                hint=f"Write .times({high}, {low}).",
            )
        return Part(ast.Repeat(self.element, low, high))

    def reluctant(self) -> Part:
        """As few rounds as will do: ``+?``."""
        return self._on_repeat("reluctant", lambda repeat: replace(repeat, reluctant=True))

    def consecutive(self) -> Part:
        """Rounds that follow each other with no event between."""
        return self._on_repeat("consecutive", lambda repeat: replace(repeat, contiguity=ast.Contiguity.NEXT))

    def relaxed(self) -> Part:
        """Each round takes the first event that fits."""
        return self._on_repeat("relaxed", lambda repeat: replace(repeat, contiguity=ast.Contiguity.SKIP))

    def combinations(self) -> Part:
        """Each round takes any event that fits, every choice a match of its own."""
        return self._on_repeat("combinations", lambda repeat: replace(repeat, contiguity=ast.Contiguity.ANY))

    def until(self, end: PartLike) -> Part:
        """The rounds end at this event, which is no part of them."""
        last = _part(end).element
        if not isinstance(last, ast.Step) or last.name is not None or last.must is not None:
            raise PatternError(
                f"'until' takes an event without a name and without 'must', not {_shown(last)}.",
                hint="Write .until(step('Logout').where('…')).",
            )
        return self._on_repeat("until", lambda repeat: replace(repeat, until=last))

    def _on_repeat(self, what: str, edit: Callable[[ast.Repeat], ast.Repeat]) -> Part:
        if not isinstance(self.element, ast.Repeat) or self.closed:
            raise PatternError(
                f"'{what}' goes with a repetition, and nothing is repeated here: {_shown(self.element)}.",
                hint=f"Repeat it first: step('Transfer').plus().{what}(…).",
            )
        return Part(edit(self.element))

    # the step's own

    def where(self, condition: str) -> Part:
        """The step's condition, in brackets in the text; several are joined by ``and``."""
        found = _expression(condition, "A condition")
        return self._on_step("where", lambda s: replace(s, condition=_both(s.condition, found)))

    def must(self, condition: str) -> Part:
        """What the chosen event has to fulfil, or the attempt ends; several are joined by ``and``."""
        found = _expression(condition, "A condition")
        return self._on_step("must", lambda s: replace(s, must=_both(s.must, found)))

    def bind(self, *pairs: str, **unified: str) -> Part:
        """``bind(user="u")`` is ``(user as u)``, equal wherever ``u`` stands; ``bind("device.os as o")`` too."""
        found: list[ast.Unify] = []
        for pair in pairs:
            attribute, name = _as_pair(pair)
            found.append(ast.Unify(attribute, name))
        found.extend(ast.Unify(ex.Ref((_name(a),)), _name(u)) for a, u in unified.items())
        if not found:
            raise PatternError("Nothing is bound.", hint='Write .bind(user="u").')
        return self._on_step("bind", lambda s: replace(s, unify=(*s.unify, *found)))

    def stays(self, duration: DurationLike) -> Part:
        """And then no event of its type against it for this long."""
        length = _duration(duration, "stays")
        if not isinstance(self.element, ast.Step):
            raise PatternError(f"'stays' is about one event and what follows it, and this is {_shown(self.element)}.")
        return Part(ast.Stays(self.element, length))

    def _on_step(self, what: str, edit: Callable[[ast.Step], ast.Step]) -> Part:
        element = self.element
        match element:
            case ast.Step():
                return replace(self, element=edit(element))
            case ast.Repeat(element=ast.Step() as inner) if not self.closed:
                return Part(replace(element, element=edit(inner)))
            case ast.Stays() if not self.closed:
                return Part(replace(element, step=edit(element.step)))
        raise PatternError(
            f"'{what}' belongs to one step, and this is {_shown(element)}.",
            hint=f"Say it of the step: step('Login').{what}(…).",
        )

    # what Python would take for something else

    def __bool__(self) -> NoReturn:
        raise PatternError(
            "Python's 'and', 'or' and 'not' do not join parts of a pattern.",
            hint="Write a & b for both, a | b for one of them, absent(a) for none.",
        )

    def __iter__(self) -> NoReturn:
        raise PatternError("A part of a pattern is not a list.", hint="Write a >> b, or seq(a, b).")

    def __gt__(self, other: object) -> NoReturn:
        raise PatternError("Parts of a pattern have no order.", hint="'Followed by' is written a >> b.")

    def __lt__(self, other: object) -> NoReturn:
        raise PatternError("Parts of a pattern have no order.", hint="'Followed by' is written a >> b.")


def step(event: str, name: str | None = None) -> Part:
    """An event of this type, or a match of the pattern of this name."""
    return _step(ast.EventType(_name(event)), name)


def any_event(name: str | None = None) -> Part:
    """Any event at all."""
    return _step(ast.AnyEvent(), name)


def tree(stream: str, pattern: str, name: str | None = None) -> Part:
    """A document of the stream that the tree pattern matches: ``tree("Orders", "//order->o")``."""
    _text(pattern, "A tree pattern")
    return _step(ast.TreeMatch(_name(stream), parse_tree(pattern).pattern), name)


def found(query: str, name: str | None = None) -> Part:
    """A match of the model query appeared."""
    return _step(ast.QueryEvent("found", _name(query)), name)


def updated(query: str, name: str | None = None) -> Part:
    """A match of the model query changed."""
    return _step(ast.QueryEvent("updated", _name(query)), name)


def lost(query: str, name: str | None = None) -> Part:
    """A match of the model query went away."""
    return _step(ast.QueryEvent("lost", _name(query)), name)


def change(action: str, element: str, name: str | None = None) -> Part:
    """An elementary change of a model: ``change("set", "Host.cpu")``, ``change("create", "Host")``."""
    if action not in get_args(_Action):
        raise PatternError(f"{action!r} is no change of a model.", hint=f"There are: {', '.join(get_args(_Action))}.")
    parts = _path(element).parts
    if len(parts) > 2:
        raise PatternError(f"A change is of an element or of one feature of it, not of {element!r}.")
    feature = parts[1] if len(parts) == 2 else None
    return _step(ast.ModelChange(cast(_Action, action), parts[0], feature), name)


def seq(*parts: PartLike) -> Part:
    """One after the other: ``seq(a, b, c)`` is ``a >> b >> c``."""
    elements = _several(parts, "seq")
    return Part(ast.Sequence(elements, (ast.Link(),) * (len(elements) - 1)))


def any_of(*parts: PartLike) -> Part:
    """One of these; the first is preferred where one event fits several."""
    return Part(ast.Alternation(_several(parts, "any_of")))


def all_of(*parts: PartLike) -> Part:
    """All of these, in any order."""
    return Part(ast.Conjunction(_several(parts, "all_of")))


def absent(part: PartLike, for_: DurationLike | None = None) -> Part:
    """``not part``: nothing of it here; ``for_`` ends it at a deadline."""
    return Part(ast.Absence(_part(part).element, _maybe_duration(for_, "for_")))


def group(part: PartLike, *, within: DurationLike | None = None, holds_for: DurationLike | None = None) -> Part:
    """Parentheses, with a window of their own or only to keep what is inside together."""
    element = _part(part).element
    if within is None and holds_for is None:
        return Part(element, closed=True)
    window = None if within is None else _window(within)
    return Part(ast.Group(element, window, _maybe_duration(holds_for, "holds_for")))


def build(name: str) -> PatternBuilder:
    """Begin a pattern of this name."""
    return PatternBuilder(ast.Pattern(_name(name), _NOTHING))


_NOTHING = ast.Step(ast.AnyEvent())
_UNSET = object()


@dataclass(frozen=True, slots=True)
class PatternBuilder:
    """A pattern on its way; every method gives a new one, :meth:`build` the pattern."""

    draft: ast.Pattern
    given: frozenset[str] = frozenset()

    def _with(self, clause: str, draft: ast.Pattern) -> PatternBuilder:
        if clause in self.given:
            raise PatternError(f"'{clause}' is given twice in pattern {self.draft.name}.", hint="Keep one of them.")
        return PatternBuilder(draft, self.given | {clause})

    def parameter(self, name: str, type_: str, default: Constant | object = _UNSET) -> PatternBuilder:
        """A typed parameter, used as ``:name``; a default that is None is null."""
        _text(type_, "A type")
        literal = None if default is _UNSET else _constant(default)
        made = ast.Parameter(_name(name), parse_type(type_), literal)
        return replace(self, draft=replace(self.draft, parameters=(*self.draft.parameters, made)))

    def severity(self, severity: str) -> PatternBuilder:
        """How grave a match is."""
        return self._meta("severity", replace(self.draft.metadata, severity=_text(severity, "A severity")))

    def owner(self, owner: str) -> PatternBuilder:
        """Whose the pattern is."""
        return self._meta("owner", replace(self.draft.metadata, owner=_text(owner, "An owner")))

    def tags(self, *tags: str) -> PatternBuilder:
        """Words to find the pattern by."""
        if not tags:
            raise PatternError("'tags' takes one tag or more.")
        return self._meta("tags", replace(self.draft.metadata, tags=tuple(_text(t, "A tag") for t in tags)))

    def description(self, description: str) -> PatternBuilder:
        """What the pattern is for."""
        text = _text(description, "A description")
        return self._meta("description", replace(self.draft.metadata, description=text))

    def _meta(self, clause: str, metadata: ast.Metadata) -> PatternBuilder:
        return self._with(clause, replace(self.draft, metadata=metadata))

    def match(self, part: PartLike) -> PatternBuilder:
        """What is looked for."""
        return self._with("match", replace(self.draft, match=_part(part).element))

    def where(self, *conditions: str) -> PatternBuilder:
        """Conditions on the whole match; several are joined by ``and``."""
        if not conditions:
            raise PatternError("'where' takes one condition or more.")
        where = self.draft.where
        for condition in conditions:
            where = _both(where, _expression(condition, "A condition"))
        return replace(self, draft=replace(self.draft, where=where))

    def within(self, window: DurationLike) -> PatternBuilder:
        """``"10 minutes"``, a timedelta, ``"5 events"`` or ``"forever"``."""
        return self._with("within", replace(self.draft, within=_window(window)))

    def holds_for(self, duration: DurationLike) -> PatternBuilder:
        """The match counts only once it has stood this long."""
        return self._with("holds for", replace(self.draft, holds_for=_duration(duration, "holds_for")))

    def partition_by(self, *columns: str) -> PatternBuilder:
        """Matches never cross these columns."""
        if not columns:
            raise PatternError("'partition_by' takes one column or more.")
        if any(isinstance(column, list | tuple) for column in columns):
            raise PatternError(
                "'partition_by' takes names of columns, not a list of them.",
                hint="Give them one by one: partition_by('a', 'b').",
            )
        return self._with("partition by", replace(self.draft, partition_by=tuple(map(_path, columns))))

    def selection(self, selection: str | ast.Selection) -> PatternBuilder:
        """Which events and matches count, by its name: ``"strict"``, ``"followed by"``, ``"recent"`` …"""
        names = {s.value: s for s in ast.Selection}
        if isinstance(selection, ast.Selection):
            chosen = selection
        else:
            word = " ".join(_text(selection, "A selection").lower().split())
            if word not in names:
                raise PatternError(
                    f"{selection!r} is not a selection.",
                    nearest=nearest(word, names),
                    hint=f"There are: {', '.join(names)}.",
                )
            chosen = names[word]
        return self._with("selection", replace(self.draft, selection=chosen))

    def skip(self, where: str) -> PatternBuilder:
        """Where the next attempt starts: ``"none"``, ``"to next"``, ``"past last"``, ``"to first b"`` …"""
        return self._with("after match skip", replace(self.draft, skip=parse_skip(_text(where, "What 'skip' takes"))))

    def report_timeouts(self) -> PatternBuilder:
        """Report attempts that ran out of time as well."""
        return self._with("report timeouts", replace(self.draft, report_timeouts=True))

    def returns(self, *outputs: str, **named: str) -> PatternBuilder:
        """What a match gives: ``returns("a.ip as from_ip", transfers="count(t)")``."""
        draft = self
        found: list[ast.Output] = []
        for text in outputs:
            output = parse_output(_text(text, "What is returned"))
            if isinstance(output, ast.Evidence):
                draft = draft._with("evidence", replace(draft.draft, evidence=output))
            else:
                found.append(output)
        found.extend(ast.Output(_expression(text, "What is returned"), _name(n)) for n, text in named.items())
        if not outputs and not named:
            raise PatternError("Nothing is returned.", hint='Write .returns("a.ip as from_ip").')
        return replace(draft, draft=replace(draft.draft, returns=(*draft.draft.returns, *found)))

    def evidence(self, limit: int = ast.Evidence().limit) -> PatternBuilder:
        """Return the contributing events themselves, at most ``limit`` of them."""
        if isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit <= limits.MAX_EVIDENCE:
            raise PatternError(f"An evidence limit is 0 to {limits.MAX_EVIDENCE:,}, not {limit!r}.")
        return self._with("evidence", replace(self.draft, evidence=ast.Evidence(limit)))

    def suppress(self, duration: DurationLike, *, by: str | tuple[str, ...] | list[str] = ()) -> PatternBuilder:
        """For this long after a match, further ones with equal values of ``by`` are counted, not reported."""
        columns = (by,) if isinstance(by, str) else tuple(by)
        made = ast.Suppress(_duration(duration, "suppress"), tuple(map(_name, columns)))
        return self._with("suppress", replace(self.draft, suppress=made))

    def build(self) -> ast.Pattern:
        """The pattern. It is read from its own printed text: that is what places in errors point into."""
        if "match" not in self.given:
            raise PatternError(
                f"Pattern {self.draft.name} has no 'match'.",
                hint="Add one: .match(step('Login', 'a') >> step('Transfer', 't')).",
            )
        return parse_pattern(print_pattern(self.draft))


def _part(given: object) -> Part:
    if isinstance(given, Part):
        return given
    if isinstance(given, str):
        return Part(parse_element(given), closed=True)
    hint = "Write step('Login'), or its text: 'Login a [ip is not null]'."
    if isinstance(given, PatternBuilder):
        hint = "Name the other pattern: step('takeover', 't')."
    elif _are_events(given):
        hint = "To run it: ps.pattern(build(…)).match(events)."
    elif isinstance(given, list | tuple | set):
        hint = "Give the parts one by one: any_of(a, b), or any_of(*parts)."
    raise PatternError(f"A part of a pattern cannot be a {type(given).__name__}.", hint=hint)


def _are_events(given: object) -> bool:
    """Is it data, a list of dicts or a frame? A builder's ``match`` takes what is looked for, not where."""
    rows = isinstance(given, list | tuple) and bool(given) and isinstance(given[0], Mapping)
    return rows or hasattr(given, "columns")


def _several(parts: tuple[PartLike, ...], what: str) -> tuple[ast.Element, ...]:
    elements = tuple(_part(part).element for part in parts)
    if len(elements) < 2:
        raise PatternError(f"'{what}' takes two parts or more.")
    return elements


def _joined(kind: type[ast.Alternation] | type[ast.Conjunction], left: ast.Element, other: PartLike) -> ast.Element:
    """One flat node for ``a | b | c``."""
    right = _part(other).element
    return kind((*ast.parts(left), right)) if isinstance(left, kind) else kind((left, right))


def _step(kind: ast.StepKind, name: str | None) -> Part:
    return Part(ast.Step(kind, None if name is None else _name(name)))


def _text(given: object, what: str) -> str:
    if not isinstance(given, str):
        raise PatternError(f"{what} is text, not {type(given).__name__}.")
    try:
        given.encode()
    except UnicodeEncodeError:
        raise PatternError(f"{what} holds half a character: {given!r}.") from None
    return given


def _name(given: object) -> str:
    name = _text(given, "A name")
    if not 0 < len(name) <= limits.MAX_NAME:
        raise PatternError(f"A name has 1 to {limits.MAX_NAME} characters.")
    return name


def _path(given: object) -> ex.Ref:
    return parse_path(_text(given, "A column"))


def _as_pair(given: object) -> tuple[ex.Ref, str]:
    pair = parse_output(_text(given, "What is bound"))
    if not isinstance(pair, ast.Output) or not isinstance(pair.expr, ex.Ref) or pair.name is None:
        raise PatternError(f"{given!r} does not say what is bound as what.", hint='Write .bind("device.os as o").')
    return pair.expr, pair.name


def _expression(given: object, what: str) -> ex.Expr:
    return parse_expression(_text(given, what))


def _both(first: ex.Expr | None, second: ex.Expr) -> ex.Expr:
    return second if first is None else ex.Binary("and", first, second)


def _duration(given: object, what: str) -> ast.Duration:
    if isinstance(given, str):
        return parse_duration(_text(given, f"What '{what}' takes"))
    if isinstance(given, dt.timedelta):
        if given < dt.timedelta(0):
            raise PatternError(f"What '{what}' takes is not negative.")
        return given // _MICRO
    raise PatternError(
        f"What '{what}' takes is a duration, not {given!r}.",
        hint='Write "10 minutes", or a timedelta: a number alone has no unit.',
    )


def _maybe_duration(given: object, what: str) -> ast.Duration | None:
    return None if given is None else _duration(given, what)


def _window(given: object) -> ast.Window:
    if isinstance(given, str):
        return parse_window(_text(given, "What 'within' takes"))
    return ast.TimeWindow(_duration(given, "within"))


def _constant(given: object) -> ex.Literal:
    """A Python value as it would be written."""
    text: str | None = None
    match given:
        case None:
            text = "null"
        case bool():
            text = str(given).lower()
        case int():
            text = str(given)
        case float() if given - given == 0:
            text = repr(given) if "e" in repr(given) else f"{given!r}e0"
        case Decimal() if given.is_finite():
            text = format(given, "f")
            text = text if "." in text else f"{text}.0"
        case str():
            text = print_literal(ex.Literal("string", _text(given, "A default")))
        case dt.datetime():
            aware = given if given.tzinfo is not None else given.replace(tzinfo=dt.UTC)
            text = f"timestamp '{aware.isoformat(sep=' ')}'"
        case dt.date():
            text = f"date '{given.isoformat()}'"
        case dt.timedelta():
            sign = "-" if given < dt.timedelta(0) else ""
            text = sign + print_literal(ex.Literal("duration", abs(given) // _MICRO))
    if text is None:
        raise PatternError(
            f"A default cannot be {given!r}.",
            hint="Give a number, a text, a truth value, a time or a duration.",
        )
    return parse_constant(text)


def _shown(element: ast.Element) -> str:
    text = print_element(element)
    return text if len(text) <= 60 else f"{text[:57]}…"
