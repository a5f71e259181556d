"""Prescan of a text before parsing: enforces limits on length, token count and nesting."""

from __future__ import annotations

import re

from perseid.errors import LimitError, PatternSyntaxError
from perseid.lang.expressions import Span
from perseid.lang.limits import MAX_NESTING, MAX_TEXT, MAX_TOKENS

# An unclosed quote or comment extends to the end: retrying at each later quote would take quadratic time.
LEXEME = re.compile(
    r"""
      '[^']*+ (?: '' [^']*+ )*+ (?: ' | \Z )
    | ` (?: [^`]++ | `` )*+ (?: ` | \Z )
    | -- [^\n]*+
    | /\* (?: [^*]++ | \*(?!/) )*+ (?: \*/ | \Z )
    | << (?: '[^']*+ (?: ' | \Z ) | "[^"]*+ (?: " | \Z ) | [^>'"]++ | >(?!>) )*+ (?: >> | \Z )
    | (?: \bnot\b \s*+ ){2,}+
    | (?: - \s++ ){2,}+
    | \w++
    | \s++
    | .
    """,
    re.DOTALL | re.IGNORECASE | re.VERBOSE,
)


_NAME = r"(?:\w++ | `[^`]++`)"
_BEGINNING = re.compile(
    rf"""
      pattern \s++ {_NAME} \s*+ (?: \( | (?:
          description | match | owner | partition | report | return | selection | severity | suppress | tags ) \b )
    | query \s++ {_NAME} \s*+ \(
    | (?: rule | repair ) \s++ {_NAME} \s++ on \b
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""The beginning of a definition. Inside one, columns and event types may be named ``rule`` or ``pattern``."""


def scan_limits(text: str) -> None:
    """Reject text that is too long, not encodable, or too deeply nested, in one pass and without recursion."""
    if len(text) > MAX_TEXT:
        raise LimitError(f"The text has more than {MAX_TEXT:,} characters.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = ord(text[error.start])
        # No source text in the error: text that cannot be encoded cannot be displayed.
        raise PatternSyntaxError(
            f"U+{half:04X} is an unpaired surrogate, not a character.", span=span_at(text, error.start)
        ) from None
    stack: list[int] = []
    count = 0
    for found in LEXEME.finditer(text):
        lexeme = found.group()
        if lexeme in "([{":
            stack.append(found.start())
            if len(stack) > MAX_NESTING:
                raise _too_deep(text, stack[MAX_NESTING])
        elif lexeme in ")]}":
            if stack:
                stack.pop()
        elif lexeme.isspace() or lexeme.startswith(("--", "/*")):
            continue
        elif len(lexeme) > 1 and (lexeme[0] == "-" or lexeme[:3].lower() == "not"):
            # A run of prefix operators nests like brackets.
            if len(lexeme.split()) > MAX_NESTING:
                raise _too_deep(text, found.start())
        elif not stack and _BEGINNING.match(text, found.start()):
            count = 0
        count += 1
        if count > MAX_TOKENS:
            raise LimitError(
                f"A pattern, query or rule has more than {MAX_TOKENS:,} tokens.",
                span=span_at(text, found.start()),
                source=text,
                hint="Bind a long list of values at run time: x in :values.",
            )


def _too_deep(text: str, start: int) -> LimitError:
    return LimitError(
        f"Brackets or prefix operators are nested more than {MAX_NESTING} deep.",
        span=span_at(text, start),
        source=text,
        hint="Remove brackets that are not needed, or split the condition over steps or patterns.",
    )


def span_at(text: str, start: int, width: int = 1) -> Span:
    before = text[:start]
    return Span(start, start + width, before.count("\n") + 1, start - (before.rfind("\n") + 1) + 1)
