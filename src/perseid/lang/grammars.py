"""Cached LALR parsers from grammar files, and a function that parses and transforms a text."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

from lark import Lark, Transformer
from lark.exceptions import UnexpectedInput, VisitError

from perseid.errors import PatternError


@cache
def load_grammar(*files: str, start: tuple[str, ...] = ("start",), regex_flags: int = 0) -> Lark:
    """Return the LALR parser of the concatenated grammar files."""
    folder = resources.files("perseid.lang")
    return Lark(
        "\n".join(folder.joinpath(file).read_text("utf-8") for file in files),
        parser="lalr",
        lexer="contextual",
        start=list(start),
        propagate_positions=True,
        maybe_placeholders=False,
        g_regex_flags=regex_flags,
    )


def read(
    grammar: Lark,
    text: str,
    transformer: Transformer[Any, Any],
    explain: Callable[[UnexpectedInput], PatternError],
    start: str = "start",
) -> Any:
    """Parse and transform a text; ``explain`` converts a grammar error to a pattern error."""
    try:
        return transformer.transform(grammar.parse(text, start=start))
    except UnexpectedInput as error:
        raise explain(error) from None
    except VisitError as error:
        raise error.orig_exc from None
