"""Text to tree. Whatever is wrong with the text ends in an error of :mod:`perseid.errors`."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from lark import Lark, Token, UnexpectedInput, v_args
from lark.exceptions import VisitError
from lark.visitors import Transformer_NonRecursive

from perseid.errors import LimitError, PatternError, PatternSyntaxError
from perseid.lang import ast, limits
from perseid.lang import expressions as ex
from perseid.lang.printer import print_name
from perseid.lang.syntax_errors import explain_unexpected, scan_limits
from perseid.lang.tree_parser import parse_tree

_UNIT_MICROS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICRO = dt.timedelta(microseconds=1)
_MOMENTS = range(
    (dt.datetime.min.replace(tzinfo=dt.UTC) - _EPOCH) // _MICRO,
    (dt.datetime.max.replace(tzinfo=dt.UTC) - _EPOCH) // _MICRO + 1,
)
MAX_NAME = 200
_ROUNDS = {
    "consecutive": ast.Contiguity.NEXT,
    "relaxed": ast.Contiguity.SKIP,
    "combinations": ast.Contiguity.ANY,
}


def parse_file(text: str) -> ast.PatternFile:
    """All patterns of a text, in order."""
    tree = _parse(text, "start")
    assert isinstance(tree, ast.PatternFile)
    return tree


def parse_pattern(text: str) -> ast.Pattern:
    """The one pattern of a text; more than one is an error."""
    file = parse_file(text)
    if len(file.patterns) != 1:
        second = file.patterns[1]
        raise PatternSyntaxError(
            f"This text holds {len(file.patterns)} patterns and one was asked for.",
            span=second.span,
            source=text,
            hint="Read it with ps.patterns(…), which takes any number of them.",
        )
    return file.patterns[0]


def parse_expression(text: str) -> ex.Expr:
    """An expression on its own, as the builder takes it."""
    tree: ex.Expr = _parse(text, "expr")
    return tree


def parse_element(text: str) -> ast.Element:
    """What may stand after ``match``, on its own, as the builder takes it."""
    tree: ast.Element = _parse(text, "element")
    return tree


def parse_duration(text: str) -> ast.Duration:
    """``10 minutes``, ``1 hour 30 minutes`` or ``:parameter``."""
    tree: ast.Duration = _parse(text, "duration")
    return tree


def parse_window(text: str) -> ast.Window:
    """What may stand after ``within``: a duration, ``5 events`` or ``forever``."""
    tree: ast.Window = _parse(text, "window")
    return tree


def parse_output(text: str) -> ast.Output | ast.Evidence:
    """What may stand after ``return``, one at a time: ``a.ip as from_ip``."""
    tree: ast.Output | ast.Evidence = _parse(text, "output")
    return tree


def parse_path(text: str) -> ex.Ref:
    """A dotted name, as ``partition by`` takes it."""
    tree: ex.Ref = _parse(text, "path")
    return tree


def parse_skip(text: str) -> ast.Skip:
    """What may stand after ``after match skip``."""
    tree: ast.Skip = _parse(text, "skip")
    return tree


def parse_type(text: str) -> str:
    """The name of a type in its one spelling."""
    tree: str = _parse(text, "type")
    return tree


def parse_constant(text: str) -> ex.Literal:
    """What may be a parameter's default: a literal, with a sign or without."""
    tree: ex.Literal = _parse(text, "constant")
    return tree


_STARTS = ["start", "expr", "element", "duration", "window", "output", "path", "skip", "type", "constant"]


@cache
def _lark() -> Lark:
    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return Lark(
        grammar,
        parser="lalr",
        lexer="contextual",
        start=_STARTS,
        propagate_positions=True,
        maybe_placeholders=False,
        # Otherwise a long s (U+017F) is an s and a kelvin sign a k where case does not matter, and digits are
        # those of every script.
        g_regex_flags=re.ASCII,
    )


def _parse(text: str, start: str) -> Any:
    if not isinstance(text, str):
        raise PatternSyntaxError(f"A pattern is text, not {type(text).__name__}.")
    scan_limits(text)
    try:
        tree = _Builder().transform(_lark().parse(text, start=start))
    except UnexpectedInput as error:
        raise explain_unexpected(error, text, start) from None
    except VisitError as error:
        cause = error.orig_exc
        if isinstance(cause, PatternError):
            raise cause.locate(text) from None
        raise
    _check_depth(tree, text)
    return tree


def _check_depth(tree: object, text: str) -> None:
    """Refuse trees that later walks, which recurse, could not carry; itself it does not recurse."""
    stack: list[tuple[object, int]] = [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        span = getattr(node, "span", None)
        if depth > limits.MAX_DEPTH:
            raise LimitError(
                f"This is nested more than {limits.MAX_DEPTH} levels deep.",
                span=span,
                source=text,
                hint="A long chain of 'or' over one column is shorter as x in (…) or x in :values.",
            )
        if isinstance(node, tuple):
            stack.extend((child, depth) for child in node)
        elif hasattr(node, "__dataclass_fields__") and not isinstance(node, ex.Span):
            stack.extend((getattr(node, name), depth + 1) for name in node.__dataclass_fields__)


class _Clause(NamedTuple):
    name: str
    value: Any
    span: ex.Span


class _Quantifier(NamedTuple):
    low: int
    high: int | None
    reluctant: bool


class _Slot(NamedTuple):
    """An optional part of a step or group, by its role."""

    role: str
    value: Any


def _span(meta: Any) -> ex.Span:
    return ex.Span(meta.start_pos, meta.end_pos, meta.line, meta.column)


def _token_span(token: Token) -> ex.Span:
    return ex.Span(token.start_pos or 0, token.end_pos or 0, token.line or 1, token.column or 1)


def _name(token: Token) -> str:
    return token[1:-1].replace("``", "`") if token.type == "QUOTED" else str(token)


def _check_name(name: str, token: Token) -> None:
    if len(name) > MAX_NAME:
        raise LimitError(
            f"A name is longer than {MAX_NAME} characters.", span=_token_span(token), hint="Give it a shorter one."
        )


def _lower(token: Token) -> str:
    """In small letters, of which a name may have more than of large ones."""
    name = token.lower()
    _check_name(name, token)
    return name


def _unquote(token: Token) -> str:
    return token[1:-1].replace("''", "'")


_LARGE = {
    "A whole number": "Write it as a double, 1e20, or as a text.",
    "A repetition": "Ask for {1000,} and bound the match with 'within'.",
    "A window": "Write: within forever.",
    "An evidence limit": "Ask for fewer, and look the events up by their ids.",
    "A size": "A decimal has at most 38 digits.",
}
"""What to write instead of a number that is too large, by what it was for."""


def _integer(token: Token, limit: int, what: str) -> int:
    if len(token) > 25 or int(token) > limit:
        raise LimitError(f"{what} is larger than {limit:,}.", span=_token_span(token), hint=_LARGE[what])
    return int(token)


def _binary(op: str) -> Callable[[_Builder, Any, ex.Expr, ex.Expr], ex.Expr]:
    def build(_: _Builder, meta: Any, left: ex.Expr, right: ex.Expr) -> ex.Expr:
        return ex.Binary(op, left, right, span=_span(meta))  # type: ignore[arg-type]

    return build


@v_args(inline=True, meta=True)
class _Builder(Transformer_NonRecursive[Token, Any]):
    """One method a grammar rule; called from the leaves up, without recursion: depth is measured after."""

    def __init__(self) -> None:
        super().__init__(visit_tokens=False)

    # names and words

    def name(self, meta: Any, token: Token) -> Token:
        renamed = Token.new_borrow_pos("NAME", _name(token), token)
        _check_name(renamed, token)
        return renamed

    def word(self, meta: Any, token: Token) -> str:
        return _unquote(token) if token.type == "STRING" else str(token)

    def path(self, meta: Any, *parts: Token) -> ex.Ref:
        return ex.Ref(tuple(map(str, parts)), span=_span(meta))

    # durations and windows

    def quantity(self, meta: Any, number: Token, unit: Token) -> int:
        if len(number) > 25:
            raise LimitError(
                "A duration is longer than a million years.", span=_span(meta), hint="Write: within forever."
            )
        micros = Fraction(number) * _UNIT_MICROS[unit.lower().removesuffix("s")]
        if micros.denominator != 1:
            raise PatternSyntaxError(
                "A duration is a whole number of microseconds.", span=_span(meta), hint="Use a smaller unit."
            )
        if micros > limits.MAX_DURATION:
            raise LimitError(
                "A duration is longer than a million years.", span=_span(meta), hint="Write: within forever."
            )
        return int(micros)

    def duration(self, meta: Any, *quantities: int) -> int:
        total = sum(quantities)
        if total > limits.MAX_DURATION:
            raise LimitError(
                "A duration is longer than a million years.", span=_span(meta), hint="Write: within forever."
            )
        return total

    def duration_param(self, meta: Any, token: Token) -> ex.Param:
        return ex.Param(token[1:], span=_span(meta))

    def gap(self, meta: Any, duration: ast.Duration) -> _Slot:
        return _Slot("within", duration)

    def window_time(self, meta: Any, duration: ast.Duration) -> ast.Window:
        return ast.TimeWindow(duration, span=_span(meta))

    def window_count(self, meta: Any, count: Token) -> ast.Window:
        events = _integer(count, limits.MAX_INTEGER, "A window")
        if events < 1:
            raise PatternSyntaxError(
                "A window of 0 events holds no match.", span=_span(meta), hint="The smallest window is: within 1 event."
            )
        return ast.CountWindow(events, span=_span(meta))

    def window_forever(self, meta: Any, _: Token) -> ast.Window:
        return ast.Forever(span=_span(meta))

    # elements

    def kind_event(self, meta: Any, name: Token) -> ast.StepKind:
        return ast.EventType(str(name))

    def kind_any(self, meta: Any, _: Token) -> ast.StepKind:
        return ast.AnyEvent()

    def kind_tree(self, meta: Any, stream: Token, tree: Token) -> ast.StepKind:
        start = (tree.start_pos or 0) + 2
        place = ex.Span(start, (tree.end_pos or start) - 2, tree.line or 1, (tree.column or 1) + 2)
        return ast.TreeMatch(str(stream), parse_tree(str(tree)[2:-2], offset=place).pattern)

    def kind_query(self, meta: Any, change: Token, query: Token) -> ast.StepKind:
        return ast.QueryEvent(change.lower(), str(query))  # type: ignore[arg-type]

    def kind_change(self, meta: Any, action: Token, element: Token, feature: Token | None = None) -> ast.StepKind:
        of = None if feature is None else str(feature)
        return ast.ModelChange(action.lower(), str(element), of)  # type: ignore[arg-type]

    def unify(self, meta: Any, path: ex.Ref, name: Token) -> ast.Unify:
        return ast.Unify(path, str(name))

    def unifies(self, meta: Any, *items: ast.Unify) -> _Slot:
        return _Slot("unify", items)

    def step_name(self, meta: Any, name: Token) -> _Slot:
        return _Slot("name", str(name))

    def condition(self, meta: Any, expr: ex.Expr) -> _Slot:
        return _Slot("condition", expr)

    def must(self, meta: Any, expr: ex.Expr) -> _Slot:
        return _Slot("must", expr)

    def rounds(self, meta: Any, token: Token) -> _Slot:
        return _Slot("rounds", _ROUNDS[token.lower()])

    def until(self, meta: Any, kind: ast.StepKind, *slots: _Slot) -> _Slot:
        return _Slot("until", ast.Step(kind, **{s.role: s.value for s in slots}, span=_span(meta)))

    def stays(self, meta: Any, duration: ast.Duration) -> _Slot:
        return _Slot("stays", duration)

    def _quantifier(self, meta: Any, low: int, high: int | None, reluctant: tuple[Token, ...]) -> _Slot:
        if high is not None and (high < low or high == 0):
            message = "no event could fit it" if high == 0 else "the upper bound is below the lower"
            hint = "Write not B for 'none', B? for 'at most one'." if high == 0 else f"Write {{{high},{low}}}."
            raise PatternSyntaxError(f"A repetition of {low} to {high}: {message}.", span=_span(meta), hint=hint)
        return _Slot("quantifier", _Quantifier(low, high, bool(reluctant)))

    def quantifier_plus(self, meta: Any, *reluctant: Token) -> _Slot:
        return self._quantifier(meta, 1, None, reluctant)

    def quantifier_star(self, meta: Any, *reluctant: Token) -> _Slot:
        return self._quantifier(meta, 0, None, reluctant)

    def quantifier_optional(self, meta: Any, _: Token, *reluctant: Token) -> _Slot:
        return self._quantifier(meta, 0, 1, reluctant)

    def quantifier_exactly(self, meta: Any, count: Token, *reluctant: Token) -> _Slot:
        n = _integer(count, limits.MAX_ROUNDS, "A repetition")
        return self._quantifier(meta, n, n, reluctant)

    def quantifier_at_least(self, meta: Any, low: Token, *reluctant: Token) -> _Slot:
        return self._quantifier(meta, _integer(low, limits.MAX_ROUNDS, "A repetition"), None, reluctant)

    def quantifier_at_most(self, meta: Any, high: Token, *reluctant: Token) -> _Slot:
        return self._quantifier(meta, 0, _integer(high, limits.MAX_ROUNDS, "A repetition"), reluctant)

    def quantifier_between(self, meta: Any, low: Token, high: Token, *reluctant: Token) -> _Slot:
        bounds = [_integer(t, limits.MAX_ROUNDS, "A repetition") for t in (low, high)]
        return self._quantifier(meta, bounds[0], bounds[1], reluctant)

    def _repeated(self, element: ast.Element, slots: dict[str, Any], span: ex.Span) -> ast.Element:
        quantifier = slots.get("quantifier")
        if quantifier is not None:
            rounds, until = slots.get("rounds"), slots.get("until")
            low, high, reluctant = quantifier
            return ast.Repeat(element, low, high, reluctant, rounds, until, span=span)
        for role, word in (("rounds", "consecutive, relaxed or combinations"), ("until", "until")):
            if role in slots:
                raise PatternSyntaxError(
                    f"'{word}' goes with a repetition, and nothing is repeated here.",
                    span=span,
                    hint="Put + * ? or {n,m} behind the event type: Transfer+ t until Logout.",
                )
        return element

    def step(self, meta: Any, kind: ast.StepKind, *given: _Slot) -> ast.Element:
        slots = {slot.role: slot.value for slot in given}
        own = {role: slots[role] for role in ("unify", "name", "condition", "must") if role in slots}
        step = ast.Step(kind, **own, span=_span(meta))
        if "stays" in slots:
            if "quantifier" in slots:
                raise PatternSyntaxError(
                    "'stays' is about one event and what follows it; it cannot be repeated.",
                    span=_span(meta),
                    hint="Leave the quantifier out, or repeat a group: (Reading r [v > 5] stays 1 minute){2}.",
                )
            return ast.Stays(step, slots["stays"], span=_span(meta))
        return self._repeated(step, slots, _span(meta))

    def group_within(self, meta: Any, window: ast.Window) -> _Slot:
        return _Slot("within", window)

    def group_holds(self, meta: Any, duration: ast.Duration) -> _Slot:
        return _Slot("holds_for", duration)

    def group(self, meta: Any, element: ast.Element, *given: _Slot) -> ast.Element:
        slots = {slot.role: slot.value for slot in given}
        if "within" in slots or "holds_for" in slots:
            element = ast.Group(element, slots.get("within"), slots.get("holds_for"), span=_span(meta))
        return self._repeated(element, slots, _span(meta))

    def absence(self, meta: Any, element: ast.Element, duration: ast.Duration | None = None) -> ast.Element:
        return ast.Absence(element, duration, span=_span(meta))

    def conjunction(self, meta: Any, *members: ast.Element) -> ast.Element:
        return ast.Conjunction(members, span=_span(meta))

    def alternation(self, meta: Any, *branches: ast.Element) -> ast.Element:
        return ast.Alternation(branches, span=_span(meta))

    def link(self, meta: Any, arrow: Token, *bounds: Any) -> ast.Link:
        within = next((b.value for b in bounds if isinstance(b, _Slot)), None)
        after = next((b for b in bounds if not isinstance(b, _Slot)), None)
        return ast.Link(ast.Contiguity(str(arrow)), after, within, span=_span(meta))

    def sequence(self, meta: Any, *items: Any) -> ast.Element:
        return ast.Sequence(items[::2], items[1::2], span=_span(meta))

    # clauses

    def skip_none(self, meta: Any, _: Token) -> ast.Skip:
        return ast.Skip("none", span=_span(meta))

    def skip_to_next(self, meta: Any) -> ast.Skip:
        return ast.Skip("to next", span=_span(meta))

    def skip_past_last(self, meta: Any) -> ast.Skip:
        return ast.Skip("past last", span=_span(meta))

    def skip_to_first(self, meta: Any, name: Token) -> ast.Skip:
        return ast.Skip("to first", str(name), span=_token_span(name))

    def skip_to_last(self, meta: Any, name: Token) -> ast.Skip:
        return ast.Skip("to last", str(name), span=_token_span(name))

    def output_plain(self, meta: Any, expr: ex.Expr) -> ast.Output:
        return ast.Output(expr, span=_span(meta))

    def output_named(self, meta: Any, expr: ex.Expr, name: Token) -> ast.Output:
        return ast.Output(expr, str(name), span=_span(meta))

    def output_evidence(self, meta: Any, _: Token, limit: Token | None = None) -> ast.Evidence:
        if limit is None:
            return ast.Evidence()
        return ast.Evidence(_integer(limit, limits.MAX_EVIDENCE, "An evidence limit"))

    def clause_match(self, meta: Any, element: ast.Element) -> _Clause:
        return _Clause("match", element, _span(meta))

    def clause_where(self, meta: Any, expr: ex.Expr) -> _Clause:
        return _Clause("where", expr, _span(meta))

    def clause_within(self, meta: Any, window: ast.Window) -> _Clause:
        return _Clause("within", window, _span(meta))

    def clause_holds_for(self, meta: Any, duration: ast.Duration) -> _Clause:
        return _Clause("holds for", duration, _span(meta))

    def clause_partition(self, meta: Any, *paths: ex.Ref) -> _Clause:
        return _Clause("partition by", paths, _span(meta))

    def clause_selection(self, meta: Any, token: Token) -> _Clause:
        return _Clause("selection", ast.Selection(" ".join(token.lower().split())), _span(meta))

    def clause_skip(self, meta: Any, skip: ast.Skip) -> _Clause:
        return _Clause("after match skip", skip, _span(meta))

    def clause_timeouts(self, meta: Any) -> _Clause:
        return _Clause("report timeouts", True, _span(meta))

    def clause_return(self, meta: Any, *outputs: Any) -> _Clause:
        return _Clause("return", outputs, _span(meta))

    def clause_suppress(self, meta: Any, duration: ast.Duration, *by: Token) -> _Clause:
        span = _span(meta)
        return _Clause("suppress", ast.Suppress(duration, tuple(map(str, by)), span=span), span)

    def clause_severity(self, meta: Any, word: str) -> _Clause:
        return _Clause("severity", word, _span(meta))

    def clause_owner(self, meta: Any, word: str) -> _Clause:
        return _Clause("owner", word, _span(meta))

    def clause_tags(self, meta: Any, *words: str) -> _Clause:
        return _Clause("tags", words, _span(meta))

    def clause_description(self, meta: Any, text: Token) -> _Clause:
        return _Clause("description", _unquote(text), _span(meta))

    def parameter(self, meta: Any, name: Token, type_: str, default: ex.Literal | None = None) -> ast.Parameter:
        return ast.Parameter(str(name), type_, default, span=_span(meta))

    def parameters(self, meta: Any, *parameters: ast.Parameter) -> tuple[ast.Parameter, ...]:
        return parameters

    def pattern(self, meta: Any, name: Token, *rest: Any) -> ast.Pattern:
        span = _token_span(name)
        parameters = rest[0] if not isinstance(rest[0], _Clause) else ()
        given: dict[str, Any] = {}
        for clause in rest:
            if not isinstance(clause, _Clause):
                continue
            if clause.name in given:
                raise PatternSyntaxError(
                    f"'{clause.name}' is given twice in pattern {name}.",
                    span=clause.span,
                    hint="Keep one of them." if clause.name != "where" else "Join the conditions with 'and'.",
                )
            given[clause.name] = clause.value
        if "match" not in given:
            raise PatternSyntaxError(
                f"Pattern {name} has no 'match' clause.",
                span=span,
                hint="Add one: match Login a -> Transfer t.",
            )
        outputs = given.get("return", ())
        evidence = [o for o in outputs if isinstance(o, ast.Evidence)]
        if len(evidence) > 1:
            raise PatternSyntaxError("'evidence' is returned twice.", span=span, hint="Keep one of them.")
        return ast.Pattern(
            name=str(name),
            match=given["match"],
            parameters=parameters,
            metadata=ast.Metadata(
                given.get("severity"), given.get("owner"), given.get("tags", ()), given.get("description")
            ),
            where=given.get("where"),
            within=given.get("within"),
            holds_for=given.get("holds for"),
            partition_by=given.get("partition by", ()),
            selection=given.get("selection"),
            skip=given.get("after match skip"),
            report_timeouts=given.get("report timeouts", False),
            returns=tuple(o for o in outputs if isinstance(o, ast.Output)),
            evidence=evidence[0] if evidence else None,
            suppress=given.get("suppress"),
            span=span,
        )

    def start(self, meta: Any, *patterns: ast.Pattern) -> ast.PatternFile:
        if len(patterns) > limits.MAX_PATTERNS:
            raise LimitError(f"More than {limits.MAX_PATTERNS:,} patterns in one text.")
        seen: dict[str, ast.Pattern] = {}
        for pattern in patterns:
            if pattern.name in seen:
                raise PatternSyntaxError(
                    f"Two patterns are called {pattern.name!r}.",
                    span=pattern.span,
                    hint="Give each pattern of a file a name of its own.",
                )
            seen[pattern.name] = pattern
        return ast.PatternFile(patterns)

    # expressions

    or_ = _binary("or")
    and_ = _binary("and")

    def not_(self, meta: Any, operand: ex.Expr) -> ex.Expr:
        return ex.Unary("not", operand, span=_span(meta))

    def minus(self, meta: Any, operand: ex.Expr) -> ex.Expr:
        return ex.Unary("-", operand, span=_span(meta))

    def binary(self, meta: Any, left: ex.Expr, op: Token, right: ex.Expr) -> ex.Expr:
        return ex.Binary(str(op), left, right, span=_span(meta))  # type: ignore[arg-type]

    def compare(self, meta: Any, left: ex.Expr, op: Token, right: ex.Expr) -> ex.Expr:
        sign = "<>" if op == "!=" else str(op)
        return ex.Binary(sign, left, right, span=_span(meta))  # type: ignore[arg-type]

    def between(self, meta: Any, value: ex.Expr, low: ex.Expr, high: ex.Expr) -> ex.Expr:
        return ex.Between(value, low, high, span=_span(meta))

    def not_between(self, meta: Any, value: ex.Expr, low: ex.Expr, high: ex.Expr) -> ex.Expr:
        return ex.Between(value, low, high, True, span=_span(meta))

    def like(self, meta: Any, value: ex.Expr, pattern: ex.Expr) -> ex.Expr:
        return ex.Like(value, pattern, span=_span(meta))

    def not_like(self, meta: Any, value: ex.Expr, pattern: ex.Expr) -> ex.Expr:
        return ex.Like(value, pattern, True, span=_span(meta))

    def in_list(self, meta: Any, value: ex.Expr, items: tuple[ex.Expr, ...]) -> ex.Expr:
        return ex.InList(value, items, span=_span(meta))

    def not_in_list(self, meta: Any, value: ex.Expr, items: tuple[ex.Expr, ...]) -> ex.Expr:
        return ex.InList(value, items, True, span=_span(meta))

    def in_param(self, meta: Any, value: ex.Expr, token: Token) -> ex.Expr:
        return ex.InList(value, (ex.Param(token[1:], span=_token_span(token)),), span=_span(meta))

    def not_in_param(self, meta: Any, value: ex.Expr, token: Token) -> ex.Expr:
        return ex.InList(value, (ex.Param(token[1:], span=_token_span(token)),), True, span=_span(meta))

    def in_relation(self, meta: Any, value: ex.Expr, relation: Token) -> ex.Expr:
        return ex.InRelation((value,), str(relation), span=_span(meta))

    def not_in_relation(self, meta: Any, value: ex.Expr, relation: Token) -> ex.Expr:
        return ex.InRelation((value,), str(relation), True, span=_span(meta))

    def tuple_in(self, meta: Any, first: ex.Expr, rest: tuple[ex.Expr, ...], relation: Token) -> ex.Expr:
        return ex.InRelation((first, *rest), str(relation), span=_span(meta))

    def tuple_not_in(self, meta: Any, first: ex.Expr, rest: tuple[ex.Expr, ...], relation: Token) -> ex.Expr:
        return ex.InRelation((first, *rest), str(relation), True, span=_span(meta))

    def is_(self, meta: Any, value: ex.Expr, what: Token) -> ex.Expr:
        return ex.Is(value, what.lower(), span=_span(meta))  # type: ignore[arg-type]

    def is_not(self, meta: Any, value: ex.Expr, what: Token) -> ex.Expr:
        return ex.Is(value, what.lower(), True, span=_span(meta))  # type: ignore[arg-type]

    def ref(self, meta: Any, name: Token) -> ex.Expr:
        return ex.Ref((str(name),), span=_span(meta))

    def param(self, meta: Any, token: Token) -> ex.Expr:
        return ex.Param(token[1:], span=_span(meta))

    def member(self, meta: Any, base: ex.Expr, name: Token) -> ex.Expr:
        if isinstance(base, ex.Ref):
            return ex.Ref((*base.parts, str(name)), span=_span(meta))
        return ex.Member(base, str(name), span=_span(meta))

    def item(self, meta: Any, base: ex.Expr, key: ex.Expr) -> ex.Expr:
        return ex.Item(base, key, span=_span(meta))

    def parens(self, meta: Any, expr: ex.Expr) -> ex.Expr:
        return expr

    def arguments(self, meta: Any, *items: ex.Expr) -> tuple[ex.Expr, ...]:
        return items

    def call(self, meta: Any, name: Token, args: tuple[ex.Expr, ...] = ()) -> ex.Expr:
        return ex.Call(_lower(name), args, span=_span(meta))

    def call_distinct(self, meta: Any, name: Token, arg: ex.Expr) -> ex.Expr:
        return ex.Call(_lower(name), (arg,), True, span=_span(meta))

    def cast(self, meta: Any, value: ex.Expr, type_: str) -> ex.Expr:
        return ex.Cast(value, type_, span=_span(meta))

    def when(self, meta: Any, condition: ex.Expr, value: ex.Expr) -> tuple[ex.Expr, ex.Expr]:
        return (condition, value)

    def otherwise(self, meta: Any, value: ex.Expr) -> _Slot:
        return _Slot("else", value)

    def _case(self, meta: Any, operand: ex.Expr | None, items: tuple[Any, ...]) -> ex.Expr:
        whens = tuple(i for i in items if not isinstance(i, _Slot))
        otherwise = next((i.value for i in items if isinstance(i, _Slot)), None)
        return ex.Case(operand, whens, otherwise, span=_span(meta))

    def case(self, meta: Any, *items: Any) -> ex.Expr:
        return self._case(meta, None, items)

    def case_of(self, meta: Any, operand: ex.Expr, *items: Any) -> ex.Expr:
        return self._case(meta, operand, items)

    # literals

    def integer(self, meta: Any, token: Token) -> ex.Literal:
        return ex.Literal("integer", _integer(token, limits.MAX_INTEGER, "A whole number"), span=_span(meta))

    def decimal(self, meta: Any, token: Token) -> ex.Literal:
        if len(token) > 39:
            raise LimitError(
                "A decimal has more than 38 digits.", span=_span(meta), hint="Write it as a double: 1.5e40."
            )
        return ex.Literal("decimal", Decimal(token), span=_span(meta))

    def double(self, meta: Any, token: Token) -> ex.Literal:
        if len(token) > 1000:
            raise LimitError("A number is longer than 1,000 characters.", span=_span(meta))
        value = float(token)
        if value in (float("inf"), float("-inf")):
            raise LimitError(
                "This number is too large for a double.", span=_span(meta), hint="The largest is about 1.8e308."
            )
        return ex.Literal("double", value, span=_span(meta))

    def string(self, meta: Any, token: Token) -> ex.Literal:
        return ex.Literal("string", _unquote(token), span=_span(meta))

    def true(self, meta: Any, _: Token) -> ex.Literal:
        return ex.Literal("boolean", True, span=_span(meta))

    def false(self, meta: Any, _: Token) -> ex.Literal:
        return ex.Literal("boolean", False, span=_span(meta))

    def null(self, meta: Any, _: Token) -> ex.Literal:
        return ex.Literal("null", None, span=_span(meta))

    def timestamp(self, meta: Any, token: Token) -> ex.Literal:
        text = token[token.index("'") + 1 : -1].strip()
        try:
            moment = dt.datetime.fromisoformat(text)
        except ValueError:
            raise PatternSyntaxError(
                f"{text!r} is not a point in time.",
                span=_span(meta),
                hint="Write it as timestamp '2026-01-31 12:30:00Z'.",
            ) from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=dt.UTC)
        micros = (moment - _EPOCH) // _MICRO
        if micros not in _MOMENTS:
            raise PatternSyntaxError(
                f"{text!r} is not a point in time.",
                span=_span(meta),
                hint="In UTC it is outside the years 1 to 9999.",
            )
        return ex.Literal("timestamp", micros, span=_span(meta))

    def date(self, meta: Any, token: Token) -> ex.Literal:
        text = token[token.index("'") + 1 : -1].strip()
        try:
            day = dt.date.fromisoformat(text)
        except ValueError:
            raise PatternSyntaxError(
                f"{text!r} is not a date.", span=_span(meta), hint="Write it as date '2026-01-31'."
            ) from None
        return ex.Literal("date", (day - _EPOCH.date()).days, span=_span(meta))

    def duration_literal(self, meta: Any, *quantities: int) -> ex.Literal:
        return ex.Literal("duration", self.duration(meta, *quantities), span=_span(meta))

    def negative(self, meta: Any, literal: ex.Literal) -> ex.Literal:
        if literal.kind not in ("integer", "decimal", "double", "duration"):
            raise PatternSyntaxError("Only a number can be negative.", span=_span(meta))
        value = literal.value
        # The minus sign of a decimal would round it to 28 digits.
        negative = value.copy_negate() if isinstance(value, Decimal) else -value  # type: ignore[operator]
        return ex.Literal(literal.kind, negative, span=_span(meta))

    # types, kept as text in one spelling

    def type_plain(self, meta: Any, name: Token) -> str:
        return print_name(_lower(name))

    def type_sized(self, meta: Any, name: Token, *sizes: Token) -> str:
        inside = ",".join(str(_integer(s, 1000, "A size")) for s in sizes)
        return f"{print_name(_lower(name))}({inside})"

    def type_of(self, meta: Any, name: Token, inner: str) -> str:
        return f"{print_name(_lower(name))} of {inner}"

    def type_field(self, meta: Any, name: Token, inner: str) -> str:
        return f"{print_name(name)}:{inner}"

    def type_generic(self, meta: Any, name: Token, *inner: str) -> str:
        return f"{print_name(_lower(name))}<{','.join(inner)}>"
