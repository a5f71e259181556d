"""The one way from a grammar file to a tree: LALR parsers, and texts read with them."""

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
    """The parser of the grammar in these files, one after the other."""
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
    """What the transformer makes of a text; ``explain`` words what the grammar rejects."""
    try:
        return transformer.transform(grammar.parse(text, start=start))
    except UnexpectedInput as error:
        raise explain(error) from None
    except VisitError as error:
        raise error.orig_exc from None
