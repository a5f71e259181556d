"""Tree pattern parser: text to :class:`~perseid.lang.tree_patterns.TreePattern`.

The text may come from untrusted users: its length and nesting are checked before it is parsed, and nothing here
recurses on it, so the only errors are :class:`PatternSyntaxError` and :class:`LimitError`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import NoReturn, TypeAlias, TypeVar, cast

from lark import Token, v_args
from lark.exceptions import UnexpectedInput, UnexpectedToken
from lark.tree import Meta
from lark.visitors import Transformer_NonRecursive

from perseid.errors import LimitError, PatternError, PatternSyntaxError, SemanticError
from perseid.lang.expressions import Span
from perseid.lang.grammars import load_grammar, read
from perseid.lang.tree_patterns import (
    MAX_EXPONENT,
    MAX_NUMBER_LENGTH,
    Axis,
    Comparison,
    ComparisonOp,
    Constant,
    Exists,
    LastPosition,
    NameTest,
    Position,
    SiblingAlternation,
    SiblingExpr,
    SiblingLink,
    SiblingRepeat,
    SiblingSequence,
    TreeNode,
    TreePattern,
    TreePredicate,
    print_name,
    walk,
)

MAX_LENGTH = 20_000
MAX_DEPTH = 100

_BRACKETS = {"[": "]", "(": ")", "{": "}"}
_DELIMITERS = re.compile(r"""'[^']*'|"[^"]*"|['"\[\](){}]""")
_SHOWN = re.compile(r"[^\W\d]\w*|\d+|[=!<>&|:/*-]+|.", re.DOTALL)
_SIGNS = {"≤": "<=", "≥": ">=", "≠": "!="}
_CALL = re.compile(r"""'[^']*'|"[^"]*"|(?<![\w.@-])([^\W\d][\w.-]*)\s*\(\s*(\))?""")
_COMPARED = re.compile(r"""[=<>≤≥≠]\s*(?:'[^']*'|"[^"]*"|[-+\d.eE]+)\s*\Z""")
_NODE_TESTS = frozenset(("text", "node", "comment", "processing-instruction"))
_FUNCTIONS = frozenset(
    (
        "boolean", "ceiling", "concat", "contains", "count", "empty", "ends-with", "exists", "floor", "local-name",
        "lower-case", "matches", "name", "namespace-uri", "normalize-space", "not", "number", "position", "round",
        "starts-with", "string", "string-length", "substring", "substring-after", "substring-before", "sum", "translate",
        "upper-case",
    )
)  # fmt: skip
"""XPath functions. ``[not(/a)]`` would otherwise be parsed as a child of that name."""
_AXIS_HINT = "begin every step with / (a child) or // (a descendant)"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ParsedTree:
    """A tree pattern, and warnings about text that is read differently from XPath."""

    pattern: TreePattern
    warnings: tuple[str, ...] = ()


def parse_tree(text: str, *, offset: Span | None = None) -> ParsedTree:
    """Parse a tree pattern. ``offset`` is its position in an enclosing text, to which error spans then refer."""
    source = _Source(text, offset)
    try:
        return _parse(source)
    except PatternError as error:
        # The caller attaches the enclosing text.
        raise error if offset is not None else error.locate(text) from None


class _Source:
    """The text, with offsets converted to lines and columns."""

    def __init__(self, text: str, offset: Span | None) -> None:
        self.text = text
        self._offset = offset
        self._lines = [0, *(m.end() for m in re.finditer("\n", text))]

    def span(self, start: int, end: int) -> Span:
        line = bisect_right(self._lines, start)
        return Span(start, end, line, start - self._lines[line - 1] + 1)

    def outer(self, start: int, end: int) -> Span:
        """Return the span in the enclosing text, if there is one."""
        inner, base = self.span(start, end), self._offset
        if base is None:
            return inner
        column = inner.column + (base.column - 1 if inner.line == 1 else 0)
        return Span(base.start + start, base.start + end, base.line + inner.line - 1, column)

    def fail(self, message: str, start: int, end: int, hint: str | None = None) -> NoReturn:
        raise PatternSyntaxError(_sentence(message), span=self.outer(start, end), hint=hint and _sentence(hint))

    def exceed(self, message: str, start: int, end: int, hint: str | None = None) -> NoReturn:
        raise LimitError(_sentence(message), span=self.outer(start, end), hint=hint and _sentence(hint))


def _parse(source: _Source) -> ParsedTree:
    _measure(source)
    _refuse_functions(source)
    builder = _TreeBuilder(source)
    root: SiblingExpr = read(load_grammar("tree.lark"), source.text, builder, partial(_explain, source))
    builder.check_names()
    pattern = TreePattern(root, span=source.span(0, len(source.text)))
    _check_depth(source, pattern)
    return ParsedTree(pattern, builder.warnings())


def _measure(source: _Source) -> None:
    """Check length, quotes and brackets before anything is built."""
    text = source.text
    if len(text) > MAX_LENGTH:
        source.exceed(f"the tree pattern is longer than {MAX_LENGTH:,} characters", MAX_LENGTH, len(text))
    if not text.strip():
        source.fail("the tree pattern is empty", 0, len(text), "write a path, such as //order->o")
    opened: list[re.Match[str]] = []
    for found in _DELIMITERS.finditer(text):
        sign = found.group()
        if sign in ("'", '"'):
            source.fail("unclosed quote", found.start(), len(text), f"close it with {sign}")
        elif sign in _BRACKETS:
            opened.append(found)
            if len(opened) > MAX_DEPTH:
                source.exceed(f"brackets are nested more than {MAX_DEPTH} deep", *found.span())
        elif sign in _BRACKETS.values():
            _close(source, opened, found)
    if opened:
        sign = opened[-1].group()
        source.fail(f"unclosed '{sign}'", *opened[-1].span(), f"close it with {_BRACKETS[sign]}")


def _close(source: _Source, opened: list[re.Match[str]], found: re.Match[str]) -> None:
    if not opened:
        source.fail(f"unmatched '{found.group()}'", *found.span(), "remove it, or open it before")
    expected = _BRACKETS[opened.pop().group()]
    if found.group() != expected:
        source.fail(f"expected '{expected}', got '{found.group()}'", *found.span(), f"close with {expected} first")


def _refuse_functions(source: _Source) -> None:
    """Reject XPath function calls, which would otherwise be parsed as steps with children."""
    for found in _CALL.finditer(source.text):
        name, is_empty = found[1], found[2] is not None
        if name is None or name == "last" or not (is_empty or name in _FUNCTIONS):
            continue
        before = source.text[: found.start(1)].rstrip()
        if is_empty and name in _NODE_TESTS and before.endswith(("/", "[", "(")):
            source.fail(f"unsupported node test {name}()", *found.span(1), _node_hint(name, before))
        if before.endswith(("[", "(", ",", "=", "<", ">")) and not before.endswith("->"):
            hint = _function_hint(name)
            if source.text.startswith("/", found.end()):
                hint += f"; write a child of that name as /{name}"
            source.fail(f"unsupported function {name}(…) in a tree pattern", *found.span(1), hint)


def _node_hint(name: str, before: str) -> str:
    if name != "text":
        return "use /* for any element, and ->name to return a node"
    if before.endswith("["):
        return "use a dot for the text of the node itself: [. = 'x']"
    return "use ->name to return the text of a node, and [/a = 'x'] to compare it"


def _function_hint(name: str) -> str:
    if name == "position":
        return "use [1] for the first, [last()] for the last"
    if name == "not":
        return "return the optional node, (/title->title?), and test it after the step: [title is null]"
    if name in ("count", "sum"):
        return "return the nodes, [/b->b], and count them in the output: the column is a list of their texts"
    return "return the node, [/title->title], and test it after the step: [title like '%W%']"


def _check_depth(source: _Source, pattern: TreePattern) -> None:
    """Limit the depth, as later passes walk, compare and print the tree recursively."""
    for part, depth in walk(pattern):
        if depth > MAX_DEPTH and part.span is not None:
            source.exceed(
                f"the tree pattern is nested more than {MAX_DEPTH} levels deep", part.span.start, part.span.end
            )


@dataclass(frozen=True, slots=True)
class _Return:
    name: str


@dataclass(frozen=True, slots=True)
class _Bracket:
    predicate: TreePredicate


@dataclass(frozen=True, slots=True)
class _Siblings:
    expr: SiblingExpr


_Modifier: TypeAlias = "_Return | _Bracket | _Siblings"
_Bounds: TypeAlias = "tuple[int, int | None]"


@v_args(meta=True)
class _TreeBuilder(Transformer_NonRecursive[Token, object]):
    """Builds the tree from the leaves up; one instance per text, as it collects names and warnings."""

    def __init__(self, source: _Source) -> None:
        super().__init__()
        self._source = source
        self._names: list[tuple[int, Token]] = []
        self._warnings: list[tuple[int, str]] = []

    def warnings(self) -> tuple[str, ...]:
        return tuple(text for _, text in sorted(self._warnings))

    def check_names(self) -> None:
        seen: set[str] = set()
        for start, name in sorted(self._names):
            if name in seen:
                self._source.fail(
                    f"duplicate return name {str(name)!r}",
                    start,
                    start + len(name),
                    "use a unique name for each returned node",
                )
            seen.add(name)

    def _build(self, meta: Meta, create: Callable[[Span], T]) -> T:
        """Build a node; errors of its constructor are raised with its span."""
        try:
            return create(self._source.span(meta.start_pos, meta.end_pos))
        except SemanticError as error:
            self._source.fail(error.message, meta.start_pos, meta.end_pos, error.hint)
        except LimitError as error:
            self._source.exceed(error.message, meta.start_pos, meta.end_pos, error.hint)

    def start(self, meta: Meta, found: list[SiblingExpr]) -> SiblingExpr:
        return found[0]

    def alternation(self, meta: Meta, found: list[SiblingExpr]) -> SiblingExpr:
        return self._build(meta, lambda span: SiblingAlternation(tuple(found), span=span))

    def sequence(self, meta: Meta, found: list[SiblingExpr | Token]) -> SiblingExpr:
        items = cast("list[SiblingExpr]", found[::2])
        links = tuple(SiblingLink(link) for link in cast("list[Token]", found[1::2]))
        return self._build(meta, lambda span: SiblingSequence(tuple(items), links, span=span))

    def repeat(self, meta: Meta, found: tuple[SiblingExpr, _Bounds]) -> SiblingExpr:
        item, (low, high) = found
        return self._build(meta, lambda span: SiblingRepeat(item, low, high, span=span))

    def star(self, meta: Meta, found: list[Token]) -> _Bounds:
        return 0, None

    def plus(self, meta: Meta, found: list[Token]) -> _Bounds:
        return 1, None

    def optional(self, meta: Meta, found: list[Token]) -> _Bounds:
        return 0, 1

    def exactly(self, meta: Meta, found: list[Token]) -> _Bounds:
        bound = self._integer(found[0], "a repetition")
        return bound, bound

    def at_least(self, meta: Meta, found: list[Token]) -> _Bounds:
        return self._integer(found[0], "a repetition"), None

    def at_most(self, meta: Meta, found: list[Token]) -> _Bounds:
        return 0, self._integer(found[1], "a repetition")

    def between(self, meta: Meta, found: list[Token]) -> _Bounds:
        return self._integer(found[0], "a repetition"), self._integer(found[2], "a repetition")

    def path(self, meta: Meta, found: list[TreeNode]) -> TreeNode:
        if len(found) > MAX_DEPTH:
            self._source.exceed(f"a path has more than {MAX_DEPTH} steps", meta.start_pos, meta.end_pos)
        rest: TreeNode | None = None
        for node in reversed(found):
            rest = self._chain(node, rest)
        assert rest is not None
        return rest

    def _chain(self, node: TreeNode, rest: TreeNode | None) -> TreeNode:
        if rest is None:
            return node
        if node.is_attribute and rest.span is not None:
            self._source.fail(
                f"unexpected step after the attribute @{print_name(node.test)}",
                rest.span.start,
                rest.span.end,
                "end the path at the attribute: it has no children",
            )
        return replace(node, next=rest)

    def dotted(self, meta: Meta, found: tuple[Token, TreeNode]) -> TreeNode:
        return replace(found[1], span=self._source.span(meta.start_pos, meta.end_pos))

    def bare_step(self, meta: Meta, found: list[Token | NameTest | _Modifier]) -> TreeNode:
        """A step without its axis: directly after ``[`` it is a child, elsewhere a syntax error."""
        node = self._node(meta, Axis.CHILD, found)
        name = ("@" if node.is_attribute else "") + print_name(node.test)
        start = meta.start_pos
        before = self._source.text[:start].rstrip()[-1:]
        if before != "[":
            hint = f"{_AXIS_HINT}: //{name}"
            if before == ":":
                hint = f"write :/{name} for a sibling, or p:{name} without spaces for a namespace prefix"
            self._source.fail(f"missing / or // before {name}", start, start + len(name), hint)
        # XPath also writes [@id], and it has no other meaning.
        if not node.is_attribute:
            place = self._source.outer(start, start + len(name))
            text = f"line {place.line}, column {place.column}: [{name} is parsed as [/{name}, a child"
            self._warnings.append((start, text))
        return node

    def step(self, meta: Meta, found: list[Token | NameTest | _Modifier]) -> TreeNode:
        return self._node(meta, Axis(cast(Token, found[0])), found[1:])

    def _node(self, meta: Meta, axis: Axis, found: list[Token | NameTest | _Modifier]) -> TreeNode:
        is_attribute = isinstance(found[0], Token)
        test, *modifiers = found[1:] if is_attribute else found
        names: list[str] = []
        predicates: list[TreePredicate] = []
        siblings: list[SiblingExpr] = []
        for modifier in modifiers:
            match modifier:
                case _Return(name):
                    names.append(name)
                case _Siblings(expr):
                    siblings.append(expr)
                case _Bracket(predicate):
                    self._check_order(predicate, siblings)
                    predicates.append(predicate)
        self._at_most_one(meta, names, "return name", "remove one of the names")
        self._at_most_one(meta, siblings, "( )", "write a second one as a predicate: [/a:/b]")
        return self._build(
            meta,
            lambda span: TreeNode(
                axis,
                cast(NameTest, test),
                is_attribute,
                names[0] if names else None,
                tuple(predicates),
                siblings[0] if siblings else None,
                span=span,
            ),
        )

    def _check_order(self, predicate: TreePredicate, siblings: list[SiblingExpr]) -> None:
        # A pattern stores [ ] before ( ): moving a position there could change the siblings it counts.
        if siblings and isinstance(predicate, Position | LastPosition) and predicate.span is not None:
            self._source.fail(
                "unexpected position after ( )",
                predicate.span.start,
                predicate.span.end,
                "write the position before the parentheses: /a[1](/b:/c)",
            )

    def _at_most_one(self, meta: Meta, found: list[T], what: str, hint: str) -> None:
        if len(found) > 1:
            self._source.fail(f"a step has more than one {what}", meta.start_pos, meta.end_pos, hint)

    def test(self, meta: Meta, found: list[Token]) -> NameTest:
        prefix, colon, local = str(found[0]).rpartition(":")
        return self._build(meta, lambda span: NameTest(local, prefix if colon else None, span=span))

    def return_name(self, meta: Meta, found: list[Token]) -> _Return:
        name = found[1]
        self._names.append((meta.end_pos - len(name), name))
        return _Return(str(name))

    def bracket(self, meta: Meta, found: list[TreePredicate]) -> _Bracket:
        return _Bracket(found[0])

    def siblings(self, meta: Meta, found: list[SiblingExpr]) -> _Siblings:
        return _Siblings(found[0])

    def exists(self, meta: Meta, found: list[SiblingExpr]) -> Exists:
        return self._build(meta, lambda span: Exists(found[0], span=span))

    def comparison(self, meta: Meta, found: tuple[TreeNode | Token, Token, Constant]) -> Comparison:
        left, sign, value = found
        path = None if isinstance(left, Token) else left
        op = cast(ComparisonOp, _SIGNS.get(sign, str(sign)))
        return self._build(meta, lambda span: Comparison(path, op, value, span=span))

    def position(self, meta: Meta, found: list[Token]) -> Position:
        index = self._integer(found[0], "a position")
        return self._build(meta, lambda span: Position(index, span=span))

    def last_position(self, meta: Meta, found: list[Token]) -> LastPosition:
        return self._build(meta, lambda span: LastPosition(span=span))

    def constant(self, meta: Meta, found: list[Token]) -> Constant:
        token = found[0]
        if token.type == "STRING":
            quote = token[0]
            return token[1:-1].replace(quote * 2, quote)
        return self._number(token)

    def _number(self, token: Token) -> int | Decimal:
        start = token.start_pos or 0
        _, _, exponent = token.lower().partition("e")
        # Python rejects conversions that are far too long; the nodes check the value itself.
        if len(token) > 2 * MAX_NUMBER_LENGTH or len(exponent.lstrip("+-0")) > len(str(MAX_EXPONENT)):
            self._source.exceed("the number is too long", start, start + len(token))
        return Decimal(token) if {".", "e", "E"} & set(token) else int(token)

    def _integer(self, token: Token, what: str) -> int:
        value = self._number(token)
        if not isinstance(value, int):
            start = token.start_pos or 0
            self._source.fail(f"{what} must be a whole number, got {token}", start, start + len(token))
        return value


def _explain(source: _Source, error: UnexpectedInput) -> NoReturn:
    at_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    start = len(source.text.rstrip()) if at_end else (error.pos_in_stream or 0)
    expected: set[str] = set(getattr(error, "accepts", None) or getattr(error, "allowed", None) or ())
    found = _SHOWN.match(source.text, start)
    if at_end or found is None:
        source.fail("unexpected end of the tree pattern", start, start, _due(expected))
    word = found.group()
    if word == ">" and source.text[start - 1 : start] == "=":
        start, word = start - 1, "=>"
    hint = _hint(source.text, start, word) or _due(expected)
    source.fail(f"unexpected {word!r}", start, start + len(word), hint)


def _hint(text: str, start: int, word: str) -> str | None:
    """Return a hint for a common mistake."""
    before = text[:start].rstrip()[-1:]
    if word == "=" and before == "=":
        return "use one = for equality"
    if word == "=>":
        return "write >= for 'at least', and / before a child: [/price >= 5]"
    if word == ">" and before == "<":
        return "use != for 'not equal'"
    if word.lower() in ("and", "&", "&&"):
        return "write conditions side by side, each in its own [ ]: [/a > 1][/b]"
    if word.lower() in ("or", "||") and _COMPARED.search(text, 0, start):
        return "use two tree patterns, or return the nodes and test them after the step: | does not join comparisons"
    if word.lower() in ("or", "||"):
        return "join alternatives with one |: [/a|/b]"
    if word in ("\u2018", "\u2019", "\u201c", "\u201d"):
        return "write strings in straight quotes, 'x' or \"x\""
    if word in ("*", "+", "?", "{", "**") and before in ("*", "+", "?", "}"):
        return "put parentheses around the inner repetition: (/a*)+"
    if word.startswith("/") and before in ("*", "+", "?", "}", ")"):
        return "write the rest of the path inside: a path cannot continue after a group or a repetition"
    return None


def _due(expected: set[str]) -> str:
    """Return a hint on the expected syntax, from the most specific to the most general."""
    if "VARIABLE" in expected:
        return "add the name of the returned node after ->: ->total"
    if "STRING" in expected:
        return "compare with a number or a quoted string: /total > 100, /city = 'Paris'"
    if "QNAME" in expected and "AXIS" not in expected:
        return "add a tag name after /, * for any, or @ and an attribute name"
    if "COMMA" in expected or ("NUMBER" in expected and "AXIS" not in expected):
        return "write a repetition as {2}, {2,}, {,5} or {2,5}"
    if "QNAME" in expected or expected == {"AXIS"}:
        return _AXIS_HINT
    return "continue a step with ->name, [ ], ( ), / or //, and join it to others with : :: or |"


def _sentence(text: str) -> str:
    """Capitalize and punctuate a message, as messages are composed of clauses."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")
