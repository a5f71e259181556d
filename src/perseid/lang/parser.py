"""Parse text to the AST. Every error in the text raises an error of :mod:`perseid.errors`."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from lark import Lark

from perseid.errors import LimitError, PatternError, PatternSyntaxError
from perseid.lang import ast, limits
from perseid.lang import expressions as ex
from perseid.lang import models as m
from perseid.lang.first_look import scan_limits
from perseid.lang.grammars import load_grammar, read
from perseid.lang.model_reader import ModelReader
from perseid.lang.pattern_reader import PatternReader
from perseid.lang.syntax_errors import explain_unexpected


def parse_file(text: str) -> ast.PatternFile:
    """Parse all patterns of a text, in order."""
    tree = _parse(text, "start")
    assert isinstance(tree, ast.PatternFile)
    return tree


def parse_pattern(text: str) -> ast.PatternDefinition:
    """Parse a text with exactly one pattern; more are an error."""
    file = parse_file(text)
    if len(file.patterns) != 1:
        second = file.patterns[1]
        raise PatternSyntaxError(
            f"Expected one pattern, got {len(file.patterns)}.",
            span=second.span,
            source=text,
            hint="Use ps.patterns(…) for several patterns.",
        )
    return file.patterns[0]


def parse_expression(text: str) -> ex.Expr:
    """Parse a single expression, as the builder accepts it."""
    tree: ex.Expr = _parse(text, "expr")
    return tree


def parse_element(text: str) -> ast.Element:
    """Parse a single element, the operand of ``match``, as the builder accepts it."""
    tree: ast.Element = _parse(text, "element")
    return tree


def parse_duration(text: str) -> ast.Duration:
    """``10 minutes``, ``1 hour 30 minutes`` or ``:parameter``."""
    tree: ast.Duration = _parse(text, "duration")
    return tree


def parse_window(text: str) -> ast.Window:
    """Parse the operand of ``within``: a duration, ``5 events`` or ``forever``."""
    tree: ast.Window = _parse(text, "window")
    return tree


def parse_output(text: str) -> ast.Output | ast.Evidence:
    """Parse one item of ``return``: ``a.ip as from_ip``."""
    tree: ast.Output | ast.Evidence = _parse(text, "output")
    return tree


def parse_path(text: str) -> ex.Ref:
    """Parse a dotted name, as in ``partition by``."""
    tree: ex.Ref = _parse(text, "path")
    return tree


def parse_skip(text: str) -> ast.Skip:
    """Parse the operand of ``after match skip``."""
    tree: ast.Skip = _parse(text, "skip")
    return tree


def parse_type(text: str) -> str:
    """Parse a type name to its canonical spelling."""
    tree: str = _parse(text, "type")
    return tree


def parse_constant(text: str) -> ex.Literal:
    """Parse the default of a parameter: a literal, with or without a sign."""
    tree: ex.Literal = _parse(text, "constant")
    return tree


def parse_models(text: str) -> m.ModelFile:
    """Parse a model file: metamodel, queries, patterns, rules and repairs."""
    tree: m.ModelFile = _parse(text, "model_file")
    return tree


_STARTS = ("start", "expr", "element", "duration", "window", "output", "path", "skip", "type", "constant")


def _grammar(models: bool) -> Lark:
    """Return the parser of patterns or of models; two parsers leave model keywords usable as names in patterns."""
    # Without ASCII, case-insensitive matching takes U+017F (long s) for s and U+212A (kelvin sign) for k, and digits
    # of every script match.
    if models:
        return load_grammar("grammar.lark", "model.lark", "rule.lark", start=("model_file",), regex_flags=re.ASCII)
    return load_grammar("grammar.lark", start=_STARTS, regex_flags=re.ASCII)


def _parse(text: str, start: str) -> Any:
    if not isinstance(text, str):
        raise PatternSyntaxError(f"Expected a string, got {type(text).__name__}.")
    scan_limits(text)
    models = start == "model_file"
    reader = ModelReader(text) if models else PatternReader()
    try:
        tree = read(_grammar(models), text, reader, partial(explain_unexpected, text=text, start=start), start)
    except PatternError as error:
        raise error.locate(text) from None
    _check_depth(tree, text)
    return tree


def _check_depth(tree: object, text: str) -> None:
    """Reject trees too deep for later recursive passes; the check itself is iterative."""
    stack: list[tuple[object, int]] = [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        span = getattr(node, "span", None)
        if depth > limits.MAX_DEPTH:
            raise LimitError(
                f"The text is nested more than {limits.MAX_DEPTH} levels deep.",
                span=span,
                source=text,
                hint="Replace a long chain of 'or' over one column by x in (…) or x in :values.",
            )
        if isinstance(node, tuple):
            stack.extend((child, depth) for child in node)
        elif hasattr(node, "__dataclass_fields__") and not isinstance(node, ex.Span):
            stack.extend((getattr(node, name), depth + 1) for name in node.__dataclass_fields__)
