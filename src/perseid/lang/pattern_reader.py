"""Transform parse trees of patterns to the AST: steps, elements and clauses. The base class transforms expressions."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from lark import Token, v_args
from lark.tree import Meta

from perseid.errors import LimitError, PatternSyntaxError, ScopeError
from perseid.lang import ast, limits
from perseid.lang import expressions as ex
from perseid.lang.expression_reader import ExpressionReader, OptionalPart, integer, place, token_place, unquote
from perseid.lang.tree_parser import parse_tree

_ROUNDS = {
    "consecutive": ast.Contiguity.NEXT,
    "relaxed": ast.Contiguity.SKIP,
    "combinations": ast.Contiguity.ANY,
}


class _Clause(NamedTuple):
    name: str
    value: Any
    span: ex.Span


class _Quantifier(NamedTuple):
    low: int
    high: int | None
    reluctant: bool


@v_args(inline=True, meta=True)
class PatternReader(ExpressionReader):
    """One method per grammar rule, called from the leaves up."""

    # elements

    def kind_event(self, meta: Meta, name: Token) -> ast.StepKind:
        return ast.EventType(str(name))

    def kind_any(self, meta: Meta, _: Token) -> ast.StepKind:
        return ast.AnyEvent()

    def kind_tree(self, meta: Meta, stream: Token, tree: Token) -> ast.StepKind:
        start = (tree.start_pos or 0) + 2
        place = ex.Span(start, (tree.end_pos or start) - 2, tree.line or 1, (tree.column or 1) + 2)
        return ast.TreeMatch(str(stream), parse_tree(str(tree)[2:-2], offset=place).pattern)

    def kind_query(self, meta: Meta, change: Token, query: Token) -> ast.StepKind:
        return ast.QueryEvent(change.lower(), str(query))  # type: ignore[arg-type]

    def kind_change(self, meta: Meta, action: Token, element: Token, feature: Token | None = None) -> ast.StepKind:
        of = None if feature is None else str(feature)
        return ast.ModelChange(action.lower(), str(element), of)  # type: ignore[arg-type]

    def unify(self, meta: Meta, path: ex.Ref, name: Token) -> ast.Unify:
        return ast.Unify(path, str(name))

    def unifies(self, meta: Meta, *items: ast.Unify) -> OptionalPart:
        return OptionalPart("unify", items)

    def step_name(self, meta: Meta, name: Token) -> OptionalPart:
        return OptionalPart("name", str(name))

    def condition(self, meta: Meta, expr: ex.Expr) -> OptionalPart:
        return OptionalPart("condition", expr)

    def must(self, meta: Meta, expr: ex.Expr) -> OptionalPart:
        return OptionalPart("must", expr)

    def rounds(self, meta: Meta, token: Token) -> OptionalPart:
        return OptionalPart("rounds", _ROUNDS[token.lower()])

    def until(self, meta: Meta, kind: ast.StepKind, *slots: OptionalPart) -> OptionalPart:
        return OptionalPart("until", ast.Step(kind, **{s.role: s.value for s in slots}, span=place(meta)))

    def stays(self, meta: Meta, duration: ast.Duration) -> OptionalPart:
        return OptionalPart("stays", duration)

    def _quantifier(self, meta: Meta, low: int, high: int | None, reluctant: tuple[Token, ...]) -> OptionalPart:
        if high is not None and (high < low or high == 0):
            message = (
                "A repetition of zero events matches no event."
                if high == 0
                else "The upper bound is below the lower bound."
            )
            hint = (
                "Write not Logout for no event, Logout? for at most one." if high == 0 else f"Write {{{high},{low}}}."
            )
            raise PatternSyntaxError(message, span=place(meta), hint=hint)
        return OptionalPart("quantifier", _Quantifier(low, high, bool(reluctant)))

    def quantifier_plus(self, meta: Meta, *reluctant: Token) -> OptionalPart:
        return self._quantifier(meta, 1, None, reluctant)

    def quantifier_star(self, meta: Meta, *reluctant: Token) -> OptionalPart:
        return self._quantifier(meta, 0, None, reluctant)

    def quantifier_optional(self, meta: Meta, _: Token, *reluctant: Token) -> OptionalPart:
        return self._quantifier(meta, 0, 1, reluctant)

    def quantifier_exactly(self, meta: Meta, count: Token, *reluctant: Token) -> OptionalPart:
        n = integer(count, limits.MAX_ROUNDS, "repetition bound")
        return self._quantifier(meta, n, n, reluctant)

    def quantifier_at_least(self, meta: Meta, low: Token, *reluctant: Token) -> OptionalPart:
        return self._quantifier(meta, integer(low, limits.MAX_ROUNDS, "repetition bound"), None, reluctant)

    def quantifier_at_most(self, meta: Meta, high: Token, *reluctant: Token) -> OptionalPart:
        return self._quantifier(meta, 0, integer(high, limits.MAX_ROUNDS, "repetition bound"), reluctant)

    def quantifier_between(self, meta: Meta, low: Token, high: Token, *reluctant: Token) -> OptionalPart:
        bounds = [integer(t, limits.MAX_ROUNDS, "repetition bound") for t in (low, high)]
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
                    f"'{word}' requires a repetition, but the element is not repeated.",
                    span=span,
                    hint="Add + * ? or {n,m} after the event type: Transfer+ t until Logout.",
                )
        return element

    def step(self, meta: Meta, kind: ast.StepKind, *parts: OptionalPart) -> ast.Element:
        slots = {slot.role: slot.value for slot in parts}
        step_parts = {role: slots[role] for role in ("unify", "name", "condition", "must") if role in slots}
        step = ast.Step(kind, **step_parts, span=place(meta))
        if "stays" in slots:
            if "quantifier" in slots:
                raise PatternSyntaxError(
                    "'stays' applies to one event and the events after it; it cannot be repeated.",
                    span=place(meta),
                    hint="Remove the quantifier, or repeat a group: (Reading r [v > 5] stays 1 minute){2}.",
                )
            return ast.Stays(step, slots["stays"], span=place(meta))
        return self._repeated(step, slots, place(meta))

    def group_within(self, meta: Meta, window: ast.Window) -> OptionalPart:
        return OptionalPart("within", window)

    def group_holds(self, meta: Meta, duration: ast.Duration) -> OptionalPart:
        return OptionalPart("holds_for", duration)

    def group(self, meta: Meta, element: ast.Element, *parts: OptionalPart) -> ast.Element:
        slots = {slot.role: slot.value for slot in parts}
        if "within" in slots or "holds_for" in slots:
            element = ast.Group(element, slots.get("within"), slots.get("holds_for"), span=place(meta))
        return self._repeated(element, slots, place(meta))

    def absence(self, meta: Meta, element: ast.Element, duration: ast.Duration | None = None) -> ast.Element:
        return ast.Absence(element, duration, span=place(meta))

    def conjunction(self, meta: Meta, *members: ast.Element) -> ast.Element:
        return ast.Conjunction(members, span=place(meta))

    def alternation(self, meta: Meta, *branches: ast.Element) -> ast.Element:
        return ast.Alternation(branches, span=place(meta))

    def link(self, meta: Meta, arrow: Token, *bounds: ast.Duration | OptionalPart) -> ast.Link:
        within = next((b.value for b in bounds if isinstance(b, OptionalPart)), None)
        after = next((b for b in bounds if not isinstance(b, OptionalPart)), None)
        return ast.Link(ast.Contiguity(str(arrow)), after, within, span=place(meta))

    def sequence(self, meta: Meta, *items: ast.Element | ast.Link) -> ast.Element:
        elements, links = cast("tuple[ast.Element, ...]", items[::2]), cast("tuple[ast.Link, ...]", items[1::2])
        return ast.Sequence(elements, links, span=place(meta))

    # clauses

    def skip_none(self, meta: Meta, _: Token) -> ast.Skip:
        return ast.Skip("none", span=place(meta))

    def skip_to_next(self, meta: Meta) -> ast.Skip:
        return ast.Skip("to next", span=place(meta))

    def skip_past_last(self, meta: Meta) -> ast.Skip:
        return ast.Skip("past last", span=place(meta))

    def skip_to_first(self, meta: Meta, name: Token) -> ast.Skip:
        return ast.Skip("to first", str(name), span=token_place(name))

    def skip_to_last(self, meta: Meta, name: Token) -> ast.Skip:
        return ast.Skip("to last", str(name), span=token_place(name))

    def output_plain(self, meta: Meta, expr: ex.Expr) -> ast.Output:
        return ast.Output(expr, span=place(meta))

    def output_named(self, meta: Meta, expr: ex.Expr, name: Token) -> ast.Output:
        return ast.Output(expr, str(name), span=place(meta))

    def output_evidence(self, meta: Meta, _: Token, limit: Token | None = None) -> ast.Evidence:
        if limit is None:
            return ast.Evidence()
        return ast.Evidence(integer(limit, limits.MAX_EVIDENCE, "evidence limit"))

    def clause_match(self, meta: Meta, element: ast.Element) -> _Clause:
        return _Clause("match", element, place(meta))

    def clause_where(self, meta: Meta, expr: ex.Expr) -> _Clause:
        return _Clause("where", expr, place(meta))

    def clause_within(self, meta: Meta, window: ast.Window) -> _Clause:
        return _Clause("within", window, place(meta))

    def clause_holds_for(self, meta: Meta, duration: ast.Duration) -> _Clause:
        return _Clause("holds for", duration, place(meta))

    def clause_partition(self, meta: Meta, *paths: ex.Ref) -> _Clause:
        return _Clause("partition by", paths, place(meta))

    def clause_selection(self, meta: Meta, token: Token) -> _Clause:
        return _Clause("selection", ast.Selection(" ".join(token.lower().split())), place(meta))

    def clause_skip(self, meta: Meta, skip: ast.Skip) -> _Clause:
        return _Clause("after match skip", skip, place(meta))

    def clause_timeouts(self, meta: Meta) -> _Clause:
        return _Clause("report timeouts", True, place(meta))

    def clause_return(self, meta: Meta, *outputs: ast.Output | ast.Evidence) -> _Clause:
        return _Clause("return", outputs, place(meta))

    def clause_suppress(self, meta: Meta, duration: ast.Duration, *by: Token) -> _Clause:
        span = place(meta)
        return _Clause("suppress", ast.Suppress(duration, tuple(map(str, by)), span=span), span)

    def clause_severity(self, meta: Meta, word: str) -> _Clause:
        return _Clause("severity", word, place(meta))

    def clause_owner(self, meta: Meta, word: str) -> _Clause:
        return _Clause("owner", word, place(meta))

    def clause_tags(self, meta: Meta, *words: str) -> _Clause:
        return _Clause("tags", words, place(meta))

    def clause_description(self, meta: Meta, text: Token) -> _Clause:
        return _Clause("description", unquote(text), place(meta))

    def parameter(self, meta: Meta, name: Token, type_: str, default: ex.Literal | None = None) -> ast.Parameter:
        return ast.Parameter(str(name), type_, default, span=place(meta))

    def parameters(self, meta: Meta, *parameters: ast.Parameter) -> tuple[ast.Parameter, ...]:
        return parameters

    def pattern(self, meta: Meta, name: Token, *rest: _Clause | tuple[ast.Parameter, ...]) -> ast.PatternDefinition:
        span = token_place(name)
        parameters = rest[0] if not isinstance(rest[0], _Clause) else ()
        clauses: dict[str, Any] = {}
        for clause in rest:
            if not isinstance(clause, _Clause):
                continue
            if clause.name in clauses:
                raise PatternSyntaxError(
                    f"Duplicate clause '{clause.name}' in pattern {name}.",
                    span=clause.span,
                    hint="Remove one of them." if clause.name != "where" else "Join the conditions with 'and'.",
                )
            clauses[clause.name] = clause.value
        if "match" not in clauses:
            raise PatternSyntaxError(
                f"Pattern {name} has no 'match' clause.",
                span=span,
                hint="Add one: match Login a -> Transfer t.",
            )
        outputs = clauses.get("return", ())
        evidence = [o for o in outputs if isinstance(o, ast.Evidence)]
        if len(evidence) > 1:
            raise ScopeError("Duplicate column 'evidence' in 'return'.", span=span, hint="Remove one of them.")
        return ast.PatternDefinition(
            name=str(name),
            match=clauses["match"],
            parameters=parameters,
            metadata=ast.Metadata(
                clauses.get("severity"), clauses.get("owner"), clauses.get("tags", ()), clauses.get("description")
            ),
            where=clauses.get("where"),
            within=clauses.get("within"),
            holds_for=clauses.get("holds for"),
            partition_by=clauses.get("partition by", ()),
            selection=clauses.get("selection"),
            skip=clauses.get("after match skip"),
            report_timeouts=clauses.get("report timeouts", False),
            returns=tuple(o for o in outputs if isinstance(o, ast.Output)),
            evidence=evidence[0] if evidence else None,
            suppress=clauses.get("suppress"),
            span=span,
        )

    def start(self, meta: Meta, *patterns: ast.PatternDefinition) -> ast.PatternFile:
        if len(patterns) > limits.MAX_PATTERNS:
            raise LimitError(f"The text has more than {limits.MAX_PATTERNS:,} patterns.")
        seen: dict[str, ast.PatternDefinition] = {}
        for pattern in patterns:
            if pattern.name in seen:
                raise ScopeError(f"Duplicate pattern {pattern.name!r}.", span=pattern.span, hint="Use another name.")
            seen[pattern.name] = pattern
        return ast.PatternFile(patterns)
