"""XSCL parser: text to :class:`~perseid.lang.subscriptions.Subscription`.

The text is split at keywords outside quotes and brackets. Blocks use the tree pattern parser and braces have their own
grammar, so an error in a block is a tree pattern error with its span in the whole text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NoReturn

from lark import Token, v_args
from lark.exceptions import UnexpectedInput
from lark.tree import Meta
from lark.visitors import Transformer_NonRecursive

from perseid.errors import LimitError, PatternError, PatternSyntaxError, SemanticError, UnknownNameError, nearest
from perseid.lang import ast, limits
from perseid.lang.expressions import Span
from perseid.lang.grammars import load_grammar, read
from perseid.lang.parser import parse_window
from perseid.lang.subscriptions import (
    MIRRORED,
    AllOf,
    AnyOf,
    Block,
    Comparator,
    Compared,
    Construction,
    Operand,
    Pairing,
    Predicate,
    Subscription,
    TemporalRelation,
    comparisons,
    read_constant,
)
from perseid.lang.templates import Template, read_template
from perseid.lang.tree_parser import parse_tree
from perseid.lang.tree_patterns import Constant, TreeNode

MAX_LENGTH = 100_000
MAX_COMPARISONS = 64
_SIGNS = re.compile(
    r"""'[^']*'|"[^"]*"|[\[\](){}]|(?<![\w/@>.:-])(?:SELECT|FROM|PUBLISH|JOIN(?=\s*\{)|FOLLOWED\s+BY(?=\s*\{))(?!\w)""",
    re.IGNORECASE,
)
_TAG = re.compile(r"<(/?)[^<>]*?(/?)>|\bFROM\b", re.IGNORECASE | re.DOTALL)
_STREAM = re.compile(r"\s*(?:`([^`]+)`|([^\W\d][\w.-]*))")
_NAME = re.compile(r"[^\W\d]\w*\Z")
_OPERATORS: dict[str, Comparator] = {"==": "=", "<>": "!=", "≤": "<=", "≥": ">=", "≠": "!="}
_SHAPE = "S//book->b[//author->a] FOLLOWED BY{a = c, 1 day} S//blog->d[//author->c]"


def parse_subscription(text: str) -> Subscription:
    """Parse one subscription."""
    try:
        return _XsclReader(text).read()
    except PatternError as error:
        raise error.locate(text) from None


def cut(text: str) -> tuple[str | None, str, str | None]:
    """Split a text into the SELECT template, the FROM query and the PUBLISH name; absent clauses are None.

    ``SELECT *`` also gives None, as it is the default. Only SELECT and PUBLISH are validated, not the query.
    """
    try:
        return _XsclReader(text).parts()
    except PatternError as error:
        raise error.locate(text) from None


class _XsclReader:
    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise PatternSyntaxError(f"Expected a string, got {type(text).__name__}.")
        self.text = text
        self._slots: list[tuple[str, int, int]] = []
        if len(text) > MAX_LENGTH:
            raise LimitError(f"The subscription is longer than {MAX_LENGTH:,} characters.")

    def span(self, start: int, end: int) -> Span:
        line = self.text.count("\n", 0, start) + 1
        return Span(start, end, line, start - (self.text.rfind("\n", 0, start) + 1) + 1)

    def fail(self, message: str, start: int, end: int, hint: str | None = None) -> NoReturn:
        raise PatternSyntaxError(message, span=self.span(start, end), hint=hint)

    def read(self) -> Subscription:
        begin, select = self._select()
        joins: list[tuple[TemporalRelation, int, int, int]] = []
        publish: tuple[int, int] | None = None
        for word, start, end in self._words(begin):
            if word in ("SELECT", "FROM"):
                self.fail(f"Unexpected {word}.", start, end, f"Write {_SHAPE}")
            elif publish is not None:
                self.fail(f"Unexpected {word} after PUBLISH.", start, end, "Put PUBLISH and a name last.")
            elif word == "PUBLISH":
                publish = start, end
            else:
                opened = self.text.index("{", end)
                relation = TemporalRelation.JOIN if word == "JOIN" else TemporalRelation.FOLLOWED_BY
                joins.append((relation, start, opened + 1, self._closed(opened)))
        if not joins:
            self.fail(
                "Missing JOIN{…} or FOLLOWED BY{…}: a subscription joins two documents.",
                begin,
                len(self.text),
                f"Write {_SHAPE}. For conditions on one document, use ps.xml.tree_patterns(…).",
            )
        if len(joins) > 1:
            self.fail(
                f"Expected two blocks, got {len(joins) + 1}.",
                joins[1][1],
                joins[1][3],
                "PUBLISH the first pair under a name, and join that stream with the third block.",
            )
        ((relation, start, inner, close),) = joins
        last = len(self.text) if publish is None else publish[0]
        left, right = self._block(begin, start), self._block(close + 1, last)
        predicate, window = self._braces(inner, close)
        span = self.span(begin, last)
        try:
            source = Pairing(relation, left, right, predicate, window, span=span)
        except SemanticError as error:
            self.fail(f"{error.message[0].upper()}{error.message[1:]}.", begin, last, error.hint)
        self._check_names(source)
        return Subscription(source, select, None if publish is None else self._publish(publish[1]), span=span)

    def parts(self) -> tuple[str | None, str, str | None]:
        begin, select = self._select()
        last, publish = len(self.text), None
        for word, start, end in self._words(begin) if "publish" in self.text.lower() else ():
            if word == "PUBLISH":
                last, publish = start, self._publish(end)
                break
        made = None if select is None else select.text
        return made, self.text[begin:last], publish

    # clauses

    def _words(self, begin: int) -> Iterator[tuple[str, int, int]]:
        """Yield keywords outside quotes and brackets, with their offsets."""
        depth = 0
        for found in _SIGNS.finditer(self.text, begin):
            sign = found.group()
            if sign in "[({":
                depth += 1
                if depth > limits.MAX_NESTING:
                    raise LimitError(
                        f"Brackets are nested more than {limits.MAX_NESTING} deep.", span=self.span(*found.span())
                    )
            elif sign in "])}":
                depth -= 1
            elif sign[0] not in "'\"" and depth <= 0:
                yield re.sub(r"\s+", " ", sign).upper(), *found.span()

    def _closed(self, opened: int) -> int:
        depth = 0
        for found in _SIGNS.finditer(self.text, opened):
            depth += {"{": 1, "}": -1}.get(found.group(), 0)
            if not depth:
                return found.start()
        self.fail("Unclosed '{'.", opened, opened + 1, "Close it with }: JOIN{a = b, 10 minutes}.")

    def _select(self) -> tuple[int, Construction | None]:
        """Return the offset of the FROM query and the SELECT construction; without SELECT, FROM is optional."""
        head = re.compile(r"\s*(SELECT|FROM)(?!\w)", re.IGNORECASE).match(self.text)
        if head is None:
            return 0, None
        if head[1].upper() == "FROM":
            return head.end(), None
        depth, inside = 0, None
        for found in _TAG.finditer(self.text, head.end()):
            if found.group().upper() == "FROM":
                inside = found.start()
                if depth <= 0:
                    return found.end(), self._construction(head.end(), found.start())
            elif found.group()[1:2] in ("!", "?"):
                self._template(found.group(), found.start())
            elif found[1]:
                depth -= 1
            elif not found[2]:
                depth += 1
        if inside is not None:  # a tag is not closed: report the error in the template before the last FROM
            self._construction(head.end(), inside)
        self.fail("Missing FROM after SELECT.", *head.span(1), f"Write SELECT * FROM {_SHAPE}")  # noqa: S608  no SQL

    def _construction(self, start: int, end: int) -> Construction | None:
        made = self.text[start:end].strip()
        if made == "*":
            return None
        start = self.text.index(made, start) if made else start
        if not made.startswith("<"):
            self.fail(
                "Expected XML or * after SELECT.",
                start,
                end,
                "Write <alert>{a}{b}</alert>: {a} is the node of variable a.",
            )
        read = self._template(made, start)
        self._slots = [(name, start + first, start + last) for name, first, last in read.slots]
        return Construction(made)

    def _template(self, text: str, start: int) -> Template:
        return read_template(text, lambda first, last: self.span(start + first, start + last))

    def _publish(self, start: int) -> str:
        name = self.text[start:].strip()
        if not _NAME.fullmatch(name):
            self.fail(f"Invalid name {name!r} after PUBLISH.", start, len(self.text))
        return name

    def _block(self, start: int, end: int) -> Block:
        found = _STREAM.match(self.text, start, end)
        if found is None:
            shown = self.text[start:end].strip()
            hint = f"Add it before the path: S{shown}" if shown.startswith("/") else f"Write {_SHAPE}"
            self.fail("Missing stream name at the beginning of a block.", start, end, hint)
        at = found.end()
        if not self.text[at:end].strip():
            self.fail(
                "Missing path after the stream of a block.",
                start,
                end,
                f"Write {found.group().strip()}//item->i[/title->t]",
            )
        tree = parse_tree(self.text[at:end], offset=self.span(at, end)).pattern
        if not isinstance(tree.root, TreeNode):
            self.fail(
                "A block must be one path, got a sibling expression.", at, end, "Put it below a step: S//item(…)."
            )
        return Block(found[1] or found[2], tree, span=self.span(start, end))

    def _braces(self, start: int, end: int) -> tuple[Predicate, int | None]:
        def explain(error: UnexpectedInput) -> NoReturn:
            place = start + max(error.pos_in_stream or 0, 0)
            self.fail(
                "Unexpected text between the braces.",
                min(place, end),
                min(place + 1, end),
                "Write comparisons and a window: {a = c AND b contains 'x', 10 minutes}, or …, forever}.",
            )

        builder = _XsclBuilder(self, start)
        predicate, (window, at) = read(load_grammar("xscl.lark"), self.text[start:end], builder, explain)
        try:
            found = parse_window(window.strip())
        except PatternError as error:  # its span is relative to the window text
            near = "" if error.nearest is None else f"Did you mean {error.nearest!r}? "
            hint = near + (error.hint or "Use 10 minutes, or forever.")
            self.fail(f"Invalid window: {window.strip()}.", at, end, hint)
        match found:
            case ast.TimeWindow(int() as micros):
                length: int | None = micros
            case ast.Forever():
                length = None
            case _:
                self.fail("The window must be a duration or forever.", at, end)
        many = sum(1 for _ in comparisons(predicate))
        if many > MAX_COMPARISONS:
            raise LimitError(
                f"The subscription has {many} comparisons; the limit is {MAX_COMPARISONS}.", span=self.span(start, end)
            )
        return predicate, length

    def _check_names(self, source: Pairing) -> None:
        known = (*source.left.variables, *source.right.variables)
        references = [
            (o.variable, o.span)
            for c in comparisons(source.predicate)
            for o in (c.left, c.right)
            if isinstance(o, Operand)
        ]
        references += [(name, self.span(*place)) for name, *place in self._slots if name not in known]
        for name, span in references:
            if name not in known:
                raise UnknownNameError(
                    f"Unknown node {name!r}.",
                    span=span,
                    nearest=nearest(name, known),
                    hint=f"Available: {', '.join(known)}." if known else "Name nodes with ->: //author->a.",
                )


@v_args(meta=True, inline=True)
class _XsclBuilder(Transformer_NonRecursive[Token, tuple[Predicate, tuple[str, int]]]):
    def __init__(self, reader: _XsclReader, at: int) -> None:
        super().__init__()
        self._reader, self._at = reader, at

    def _span(self, meta: Meta) -> Span:
        return self._reader.span(self._at + meta.start_pos, self._at + meta.end_pos)

    def start(self, meta: Meta, predicate: Predicate, window: Token) -> tuple[Predicate, tuple[str, int]]:
        return predicate, (str(window), self._at + (window.start_pos or 0))

    def any_of(self, meta: Meta, *parts: Predicate) -> AnyOf:
        return AnyOf(tuple(q for p in parts for q in (p.parts if isinstance(p, AnyOf) else (p,))))

    def all_of(self, meta: Meta, *parts: Predicate) -> AllOf:
        return AllOf(tuple(q for p in parts for q in (p.parts if isinstance(p, AllOf) else (p,))))

    def compared(self, meta: Meta, left: Operand | Constant, op: Token, right: Operand | Constant) -> Compared:
        said = _OPERATORS.get(op, str(op))
        if not isinstance(left, Operand):
            assert isinstance(right, Operand)
            left, right, said = right, left, MIRRORED[said]
        return Compared(left, said, right, span=self._span(meta))  # type: ignore[arg-type]

    def contains(self, meta: Meta, left: Operand, text: Token) -> Compared:
        try:
            return Compared(left, "contains", read_constant(str(text)), span=self._span(meta))
        except SemanticError as error:
            raise PatternSyntaxError(f"{error.message.capitalize()}.", span=self._span(meta), hint=error.hint) from None

    def operand(self, meta: Meta, variable: Token, path: Token | None = None) -> Operand:
        tree = None
        if path is not None:
            begin = self._at + (path.start_pos or 0)
            root = parse_tree(str(path), offset=self._reader.span(begin, begin + len(path))).pattern.root
            assert isinstance(root, TreeNode)
            tree = root
        return Operand(str(variable), tree, span=self._span(meta))

    def constant(self, meta: Meta, token: Token) -> Constant:
        return read_constant(str(token))
