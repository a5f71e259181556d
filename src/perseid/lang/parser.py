"""Text to tree. Whatever is wrong with the text ends in an error of :mod:`perseid.errors`."""

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


def parse_models(text: str) -> m.ModelFile:
    """A text about a model: what it may contain, queries over it, and patterns over what they find."""
    tree: m.ModelFile = _parse(text, "model_file")
    return tree


_STARTS = ("start", "expr", "element", "duration", "window", "output", "path", "skip", "type", "constant")


def _grammar(models: bool) -> Lark:
    """The parser of patterns, or of models: apart, so that words of models are names in patterns."""
    # Without ASCII a long s (U+017F) is an s and a kelvin sign a k where case does not matter, and digits are
    # those of every script.
    if models:
        return load_grammar("grammar.lark", "model.lark", "rule.lark", start=("model_file",), regex_flags=re.ASCII)
    return load_grammar("grammar.lark", start=_STARTS, regex_flags=re.ASCII)


def _parse(text: str, start: str) -> Any:
    if not isinstance(text, str):
        raise PatternSyntaxError(f"A pattern is text, not {type(text).__name__}.")
    scan_limits(text)
    models = start == "model_file"
    reader = ModelReader() if models else PatternReader()
    try:
        tree = read(_grammar(models), text, reader, partial(explain_unexpected, text=text, start=start), start)
    except PatternError as error:
        raise error.locate(text) from None
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
