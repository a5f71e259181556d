"""Fluent Python API for patterns; it builds the same AST as the parser.

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

``a >> b`` is ``A -> B``, ``a | b`` one of them, ``a & b`` both in any order. In Python ``>>`` binds tighter than ``&``,
and ``&`` tighter than ``|``, so an alternative inside a sequence needs parentheses: ``a >> (b | c)``. Text is accepted
wherever an element is: ``step("Login") >> "Transfer t"``.

Builders are immutable: every method returns a new value, and parts can be reused.
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
"""A part, or its text."""
DurationLike: TypeAlias = str | dt.timedelta
"""``"10 minutes"``, ``":parameter"`` or a timedelta."""
Constant: TypeAlias = bool | int | float | Decimal | str | dt.datetime | dt.date | dt.timedelta | None

_Action = Choice["create", "delete", "set", "link", "unlink"]
_MICRO = dt.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Part:
    """An element of a pattern, built by :func:`step` and the other functions here."""

    element: ast.Element
    closed: bool = False
    """Parenthesized: joining it to other parts does not flatten it."""

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
        """``self -> other``: the first later event that matches."""
        return self._then(ast.Contiguity.SKIP, other, within, after)

    def then_any(
        self, other: PartLike, *, within: DurationLike | None = None, after: DurationLike | None = None
    ) -> Part:
        """``self ->> other``: every later event that matches, each in its own match."""
        return self._then(ast.Contiguity.ANY, other, within, after)

    def then_next(
        self, other: PartLike, *, within: DurationLike | None = None, after: DurationLike | None = None
    ) -> Part:
        """``self, other``: the very next event only."""
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
        """One or more times: ``+``."""
        return self._repeat(1, None)

    def star(self) -> Part:
        """Zero or more times: ``*``."""
        return self._repeat(0, None)

    def optional(self) -> Part:
        """Zero or one time: ``?``."""
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
                raise PatternError(f"Expected a whole number of repetitions, got {bound!r}.")
            if bound is not None and not 0 <= bound <= limits.MAX_ROUNDS:
                raise PatternError(f"Expected a number of repetitions from 0 to {limits.MAX_ROUNDS:,}, got {bound}.")
        if high == 0:
            raise PatternError(f"Invalid repetition {low} to 0: it matches no event.")
        if high is not None and high < low:
            raise PatternError(
                f"Invalid repetition {low} to {high}: the upper bound is below the lower bound.",
                hint=f"Write .times({high}, {low}).",
            )
        return Part(ast.Repeat(self.element, low, high))

    def reluctant(self) -> Part:
        """As few iterations as possible: ``+?``."""
        return self._on_repeat("reluctant", lambda repeat: replace(repeat, reluctant=True))

    def consecutive(self) -> Part:
        """Require consecutive iterations, with no event in between."""
        return self._on_repeat("consecutive", lambda repeat: replace(repeat, contiguity=ast.Contiguity.NEXT))

    def relaxed(self) -> Part:
        """Each iteration takes the first event that matches."""
        return self._on_repeat("relaxed", lambda repeat: replace(repeat, contiguity=ast.Contiguity.SKIP))

    def combinations(self) -> Part:
        """Each iteration takes any event that matches, every choice in its own match."""
        return self._on_repeat("combinations", lambda repeat: replace(repeat, contiguity=ast.Contiguity.ANY))

    def until(self, end: PartLike) -> Part:
        """End the repetition at this event, which is not part of it."""
        last = _part(end).element
        if not isinstance(last, ast.Step) or last.name is not None or last.must is not None:
            raise PatternError(
                f"'until' expects an event without a name and without 'must', got {_shown(last)}.",
                hint="Write .until(step('Logout').where('…')).",
            )
        return self._on_repeat("until", lambda repeat: replace(repeat, until=last))

    def _on_repeat(self, method: str, edit: Callable[[ast.Repeat], ast.Repeat]) -> Part:
        if not isinstance(self.element, ast.Repeat) or self.closed:
            raise PatternError(
                f"'{method}' requires a repetition, got {_shown(self.element)}.",
                hint=f"Repeat it first: step('Transfer').plus().{method}(…).",
            )
        return Part(edit(self.element))

    # the step's own

    def where(self, condition: str) -> Part:
        """Add a condition to the step, ``[ ]`` in the text; several are joined by ``and``."""
        found = _expression(condition, "A condition")
        return self._on_step("where", lambda s: replace(s, condition=_both(s.condition, found)))

    def must(self, condition: str) -> Part:
        """Add a condition that the selected event must meet, or the run ends; several are joined by ``and``."""
        found = _expression(condition, "A condition")
        return self._on_step("must", lambda s: replace(s, must=_both(s.must, found)))

    def bind(self, *pairs: str, **unified: str) -> Part:
        """``bind(user="u")`` is ``(user as u)``, equal at every ``u``; ``bind("device.os as o")`` works too."""
        found: list[ast.Unify] = []
        for pair in pairs:
            attribute, name = _as_pair(pair)
            found.append(ast.Unify(attribute, name))
        found.extend(ast.Unify(ex.Ref((_name(a),)), _name(u)) for a, u in unified.items())
        if not found:
            raise PatternError("'bind' needs at least one attribute.", hint='Write .bind(user="u").')
        return self._on_step("bind", lambda s: replace(s, unify=(*s.unify, *found)))

    def stays(self, duration: DurationLike) -> Part:
        """Require that for this long no event of the step's type violates its condition."""
        length = _duration(duration, "stays")
        if not isinstance(self.element, ast.Step):
            raise PatternError(f"'stays' applies to one step, got {_shown(self.element)}.")
        return Part(ast.Stays(self.element, length))

    def _on_step(self, method: str, edit: Callable[[ast.Step], ast.Step]) -> Part:
        element = self.element
        match element:
            case ast.Step():
                return replace(self, element=edit(element))
            case ast.Repeat(element=ast.Step() as inner) if not self.closed:
                return Part(replace(element, element=edit(inner)))
            case ast.Stays() if not self.closed:
                return Part(replace(element, step=edit(element.step)))
        raise PatternError(
            f"'{method}' applies to one step, got {_shown(element)}.",
            hint=f"Apply it to the step: step('Login').{method}(…).",
        )

    # operators that Python would interpret otherwise

    def __bool__(self) -> NoReturn:
        raise PatternError(
            "Python's 'and', 'or' and 'not' do not join parts of a pattern.",
            hint="Use a & b for both, a | b for one of them, absent(a) for none.",
        )

    def __iter__(self) -> NoReturn:
        raise PatternError("A part of a pattern is not iterable.", hint="Use a >> b, or seq(a, b).")

    def __gt__(self, other: object) -> NoReturn:
        raise PatternError("Parts of a pattern cannot be compared.", hint="Use a >> b for 'followed by'.")

    def __lt__(self, other: object) -> NoReturn:
        raise PatternError("Parts of a pattern cannot be compared.", hint="Use a >> b for 'followed by'.")


def step(event: str, name: str | None = None) -> Part:
    """An event of this type, or a match of the pattern with this name."""
    return _step(ast.EventType(_name(event)), name)


def any_event(name: str | None = None) -> Part:
    """Any event."""
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
    """A match of the model query disappeared."""
    return _step(ast.QueryEvent("lost", _name(query)), name)


def change(action: str, element: str, name: str | None = None) -> Part:
    """An elementary change of a model: ``change("set", "Host.cpu")``, ``change("create", "Host")``."""
    if action not in get_args(_Action):
        raise PatternError(f"Unknown model change {action!r}.", hint=f"Available: {', '.join(get_args(_Action))}.")
    parts = _path(element).parts
    if len(parts) > 2:
        raise PatternError(f"Expected an element or one feature of it, got {element!r}.")
    feature = parts[1] if len(parts) == 2 else None
    return _step(ast.ModelChange(cast(_Action, action), parts[0], feature), name)


def seq(*parts: PartLike) -> Part:
    """A sequence: ``seq(a, b, c)`` is ``a >> b >> c``."""
    elements = _several(parts, "seq")
    return Part(ast.Sequence(elements, (ast.Link(),) * (len(elements) - 1)))


def any_of(*parts: PartLike) -> Part:
    """One of these; the first is preferred where one event matches several."""
    return Part(ast.Alternation(_several(parts, "any_of")))


def all_of(*parts: PartLike) -> Part:
    """All of these, in any order."""
    return Part(ast.Conjunction(_several(parts, "all_of")))


def absent(part: PartLike, for_: DurationLike | None = None) -> Part:
    """``not part``: no match of it here; ``for_`` ends it at a deadline."""
    return Part(ast.Absence(_part(part).element, _maybe_duration(for_, "for_")))


def group(part: PartLike, *, within: DurationLike | None = None, holds_for: DurationLike | None = None) -> Part:
    """Parentheses, with their own window or only for grouping."""
    element = _part(part).element
    if within is None and holds_for is None:
        return Part(element, closed=True)
    window = None if within is None else _window(within)
    return Part(ast.Group(element, window, _maybe_duration(holds_for, "holds_for")))


def build(name: str) -> PatternBuilder:
    """Start building a pattern with this name."""
    return PatternBuilder(ast.PatternDefinition(_name(name), _NOTHING))


_NOTHING = ast.Step(ast.AnyEvent())
_UNSET = object()


@dataclass(frozen=True, slots=True)
class PatternBuilder:
    """Immutable pattern builder; every method returns a new one, and :meth:`build` returns the pattern."""

    draft: ast.PatternDefinition
    defined_clauses: frozenset[str] = frozenset()

    def _with(self, clause: str, draft: ast.PatternDefinition) -> PatternBuilder:
        if clause in self.defined_clauses:
            raise PatternError(f"Duplicate clause '{clause}' in pattern {self.draft.name}.", hint="Remove one of them.")
        return PatternBuilder(draft, self.defined_clauses | {clause})

    def parameter(self, name: str, type_: str, default: Constant | object = _UNSET) -> PatternBuilder:
        """Add a typed parameter, used as ``:name``; a default of None is null."""
        _text(type_, "A type")
        literal = None if default is _UNSET else _constant(default)
        parameter = ast.Parameter(_name(name), parse_type(type_), literal)
        return replace(self, draft=replace(self.draft, parameters=(*self.draft.parameters, parameter)))

    def severity(self, severity: str) -> PatternBuilder:
        """Set the severity of a match."""
        return self._meta("severity", replace(self.draft.metadata, severity=_text(severity, "A severity")))

    def owner(self, owner: str) -> PatternBuilder:
        """Set the owner of the pattern."""
        return self._meta("owner", replace(self.draft.metadata, owner=_text(owner, "An owner")))

    def tags(self, *tags: str) -> PatternBuilder:
        """Set tags to find the pattern by."""
        if not tags:
            raise PatternError("'tags' needs at least one tag.")
        return self._meta("tags", replace(self.draft.metadata, tags=tuple(_text(t, "A tag") for t in tags)))

    def description(self, description: str) -> PatternBuilder:
        """Set the description of the pattern."""
        text = _text(description, "A description")
        return self._meta("description", replace(self.draft.metadata, description=text))

    def _meta(self, clause: str, metadata: ast.Metadata) -> PatternBuilder:
        return self._with(clause, replace(self.draft, metadata=metadata))

    def match(self, part: PartLike) -> PatternBuilder:
        """Set the element to match."""
        return self._with("match", replace(self.draft, match=_part(part).element))

    def where(self, *conditions: str) -> PatternBuilder:
        """Add conditions on the whole match; several are joined by ``and``."""
        if not conditions:
            raise PatternError("'where' needs at least one condition.")
        where = self.draft.where
        for condition in conditions:
            where = _both(where, _expression(condition, "A condition"))
        return replace(self, draft=replace(self.draft, where=where))

    def within(self, window: DurationLike) -> PatternBuilder:
        """Set the window: ``"10 minutes"``, a timedelta, ``"5 events"`` or ``"forever"``."""
        return self._with("within", replace(self.draft, within=_window(window)))

    def holds_for(self, duration: DurationLike) -> PatternBuilder:
        """Require the match to span at least this long."""
        return self._with("holds for", replace(self.draft, holds_for=_duration(duration, "holds_for")))

    def partition_by(self, *columns: str) -> PatternBuilder:
        """Match separately per value of these columns."""
        if not columns:
            raise PatternError("'partition_by' needs at least one column.")
        if any(isinstance(column, list | tuple) for column in columns):
            raise PatternError(
                "'partition_by' expects column names, got a list of them.",
                hint="Pass them one by one: partition_by('a', 'b').",
            )
        return self._with("partition by", replace(self.draft, partition_by=tuple(map(_path, columns))))

    def selection(self, selection: str | ast.Selection) -> PatternBuilder:
        """Set the event selection by name: ``"strict"``, ``"followed by"``, ``"recent"`` …"""
        names = {s.value: s for s in ast.Selection}
        if isinstance(selection, ast.Selection):
            chosen = selection
        else:
            word = " ".join(_text(selection, "A selection").lower().split())
            if word not in names:
                raise PatternError(
                    f"Unknown selection {selection!r}.",
                    nearest=nearest(word, names),
                    hint=f"Available: {', '.join(names)}.",
                )
            chosen = names[word]
        return self._with("selection", replace(self.draft, selection=chosen))

    def skip(self, where: str) -> PatternBuilder:
        """Set the after-match skip: ``"none"``, ``"to next"``, ``"past last"``, ``"to first b"`` …"""
        return self._with("after match skip", replace(self.draft, skip=parse_skip(_text(where, "'skip'"))))

    def report_timeouts(self) -> PatternBuilder:
        """Also emit runs that time out."""
        return self._with("report timeouts", replace(self.draft, report_timeouts=True))

    def returns(self, *outputs: str, **named: str) -> PatternBuilder:
        """Add output columns: ``returns("a.ip as from_ip", transfers="count(t)")``."""
        draft = self
        found: list[ast.Output] = []
        for text in outputs:
            output = parse_output(_text(text, "An output"))
            if isinstance(output, ast.Evidence):
                draft = draft._with("evidence", replace(draft.draft, evidence=output))
            else:
                found.append(output)
        found.extend(ast.Output(_expression(text, "An output"), _name(n)) for n, text in named.items())
        if not outputs and not named:
            raise PatternError("'returns' needs at least one output.", hint='Write .returns("a.ip as from_ip").')
        return replace(draft, draft=replace(draft.draft, returns=(*draft.draft.returns, *found)))

    def evidence(self, limit: int = ast.Evidence().limit) -> PatternBuilder:
        """Return the contributing events, at most ``limit`` of them."""
        if isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit <= limits.MAX_EVIDENCE:
            raise PatternError(f"Expected an evidence limit from 0 to {limits.MAX_EVIDENCE:,}, got {limit!r}.")
        return self._with("evidence", replace(self.draft, evidence=ast.Evidence(limit)))

    def suppress(self, duration: DurationLike, *, by: str | tuple[str, ...] | list[str] = ()) -> PatternBuilder:
        """For this long after a match, count further ones with equal values of ``by`` without emitting them."""
        columns = (by,) if isinstance(by, str) else tuple(by)
        suppress = ast.Suppress(_duration(duration, "suppress"), tuple(map(_name, columns)))
        return self._with("suppress", replace(self.draft, suppress=suppress))

    def build(self) -> ast.PatternDefinition:
        """Return the pattern, parsed from its printed text so that error spans refer to that text."""
        if "match" not in self.defined_clauses:
            raise PatternError(
                f"Pattern {self.draft.name} has no 'match'.",
                hint="Add one: .match(step('Login', 'a') >> step('Transfer', 't')).",
            )
        return parse_pattern(print_pattern(self.draft))


def _part(value: object) -> Part:
    if isinstance(value, Part):
        return value
    if isinstance(value, str):
        return Part(parse_element(value), closed=True)
    hint = "Use step('Login'), or its text: 'Login a [ip is not null]'."
    if isinstance(value, PatternBuilder):
        hint = "Name the other pattern: step('takeover', 't')."
    elif _are_events(value):
        hint = "Run it with ps.pattern(build(…)).match(events)."
    elif isinstance(value, list | tuple | set):
        hint = "Pass the parts one by one: any_of(a, b), or any_of(*parts)."
    raise PatternError(f"Expected a part of a pattern, got {type(value).__name__}.", hint=hint)


def _are_events(value: object) -> bool:
    """Return True for data, such as a list of dicts or a DataFrame, mistaken for an element of a pattern."""
    rows = isinstance(value, list | tuple) and bool(value) and isinstance(value[0], Mapping)
    return rows or hasattr(value, "columns")


def _several(parts: tuple[PartLike, ...], function: str) -> tuple[ast.Element, ...]:
    elements = tuple(_part(part).element for part in parts)
    if len(elements) < 2:
        raise PatternError(f"'{function}' needs at least two parts.")
    return elements


def _joined(kind: type[ast.Alternation] | type[ast.Conjunction], left: ast.Element, other: PartLike) -> ast.Element:
    """Join ``a | b | c`` into one flat node."""
    right = _part(other).element
    return kind((*ast.parts(left), right)) if isinstance(left, kind) else kind((left, right))


def _step(kind: ast.StepKind, name: str | None) -> Part:
    return Part(ast.Step(kind, None if name is None else _name(name)))


def _text(value: object, role: str) -> str:
    if not isinstance(value, str):
        raise PatternError(f"{role} must be a string, got {type(value).__name__}.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise PatternError(f"{role} contains an unpaired surrogate: {value!r}.") from None
    return value


def _name(value: object) -> str:
    name = _text(value, "A name")
    if not 0 < len(name) <= limits.MAX_NAME:
        raise PatternError(f"A name must have 1 to {limits.MAX_NAME} characters.")
    return name


def _path(value: object) -> ex.Ref:
    return parse_path(_text(value, "A column"))


def _as_pair(value: object) -> tuple[ex.Ref, str]:
    pair = parse_output(_text(value, "A binding"))
    if not isinstance(pair, ast.Output) or not isinstance(pair.expr, ex.Ref) or pair.name is None:
        raise PatternError(f"Expected 'attribute as name', got {value!r}.", hint='Write .bind("device.os as o").')
    return pair.expr, pair.name


def _expression(value: object, role: str) -> ex.Expr:
    return parse_expression(_text(value, role))


def _both(first: ex.Expr | None, second: ex.Expr) -> ex.Expr:
    return second if first is None else ex.Binary("and", first, second)


def _duration(value: object, role: str) -> ast.Duration:
    if isinstance(value, str):
        return parse_duration(_text(value, f"'{role}'"))
    if isinstance(value, dt.timedelta):
        if value < dt.timedelta(0):
            raise PatternError(f"'{role}' must not be negative.")
        return value // _MICRO
    raise PatternError(
        f"'{role}' must be a duration, got {value!r}.",
        hint='Use "10 minutes" or a timedelta: a number alone has no unit.',
    )


def _maybe_duration(value: object, role: str) -> ast.Duration | None:
    return None if value is None else _duration(value, role)


def _window(value: object) -> ast.Window:
    if isinstance(value, str):
        return parse_window(_text(value, "'within'"))
    return ast.TimeWindow(_duration(value, "within"))


def _constant(value: object) -> ex.Literal:
    """Convert a Python value to a literal."""
    text: str | None = None
    match value:
        case None:
            text = "null"
        case bool():
            text = str(value).lower()
        case int():
            text = str(value)
        case float() if value - value == 0:
            text = repr(value) if "e" in repr(value) else f"{value!r}e0"
        case Decimal() if value.is_finite():
            text = format(value, "f")
            text = text if "." in text else f"{text}.0"
        case str():
            text = print_literal(ex.Literal("string", _text(value, "A default")))
        case dt.datetime():
            aware = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
            text = f"timestamp '{aware.isoformat(sep=' ')}'"
        case dt.date():
            text = f"date '{value.isoformat()}'"
        case dt.timedelta():
            sign = "-" if value < dt.timedelta(0) else ""
            text = sign + print_literal(ex.Literal("duration", abs(value) // _MICRO))
    if text is None:
        raise PatternError(
            f"Unsupported default {value!r}.",
            hint="Use a number, a string, a boolean, a time or a duration.",
        )
    return parse_constant(text)


def _shown(element: ast.Element) -> str:
    text = print_element(element)
    return text if len(text) <= 60 else f"{text[:57]}…"
