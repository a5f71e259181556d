"""Regular expressions of ``rlike`` and ``regexp_extract``, matched by RE2 in linear time.

The engine is the RE2 of Arrow. It does not backtrack: a match takes at most the length of the text times the size of
the program. Arrow compiles a program on each call, so :func:`matches` and :func:`extract` take many texts at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from perseid.semantics.values import Value, has_lone_surrogate

if TYPE_CHECKING:
    import pyarrow as pa

MAX_EXPRESSION = 1_000
"""Limit in characters."""
MAX_PROGRAM = 10_000
"""Limit of the estimated size of a program, in instructions; it bounds the time of a compilation."""
MAX_CACHED_TEXT = 200
"""Maximum length of a text, in characters, for which results of evaluation row by row are cached."""
CACHED_TEXTS = 10_000

_UNICODE_CLASS, _ANY_CHARACTER = 1_000, 10
"""Instructions of ``\\pL`` and of ``.``: UTF-8 has several lengths, and a class several ranges of each."""
_REPETITION = re.compile(r"\{(\d{1,9})(?:(,)(\d{0,9}))?\}")
_ESCAPE = re.compile(r"\\(?:[pP](?:\{[^}]*\}|.)|x(?:\{[^}]*\}|[0-9A-Fa-f]{2})|.)?", re.DOTALL)
_CLASS = re.compile(r"\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]?", re.DOTALL)
_WIDE = re.compile(r"\A\[\^|\\[DSWpP]|\[:\^")
"""A class with characters beyond ASCII, written in ASCII."""
_NAMED = re.compile(r"\(\?P?<(?![=!])[^>]*>")
_ANCHORS = frozenset("^$")
_SPECIAL = frozenset("\\.+*?()|[]{}^$")
_RESULT = "found"


@dataclass(frozen=True, slots=True)
class ExpressionProblem:
    """A reason to reject a regular expression; ``part`` is the text in it that is wrong, or empty."""

    message: str
    hint: str
    part: str = ""
    is_limit: bool = False


@dataclass(frozen=True, slots=True)
class Outline:
    """The estimated size of a program, and the capturing groups: start and end of their opening in the text."""

    size: int
    groups: tuple[tuple[int, int], ...]
    ends_quoted: bool = False
    """The text ends inside of ``\\Q``."""


def outline(expression: str) -> Outline:
    """Estimate the size of the program and find the groups; any text is read, valid or not."""
    groups: list[tuple[int, int]] = []
    # Of each open group: the size of the terms so far, and of the last one, which a repetition multiplies.
    open_: list[list[int]] = [[0, 0]]
    at, end, ends_quoted = 0, len(expression), False
    while at < end:
        char, top, size, stop = expression[at], open_[-1], 1, at + 1
        if char == "(":
            stop, captures = _opening(expression, at)
            if captures:
                groups.append((at, stop))
            if expression[stop - 1] != ")":  # flags alone, as in (?i), open no group
                open_.append([0, 0])
            at = stop
            continue
        if char == ")" and len(open_) > 1:
            open_.pop()
            top[0] += top[1] + 2
            open_[-1][0] += open_[-1][1]
            open_[-1][1] = top[0]
            at = stop
            continue
        found = _REPETITION.match(expression, at) if char == "{" else None
        if found is not None or char in "*+?":
            top[1] = top[1] * (1 if found is None else _most(found)) + 1
            at = stop if found is None else found.end()
            continue
        if expression.startswith("\\Q", at):
            close = expression.find("\\E", at)
            stop, ends_quoted = end if close < 0 else close + 2, close < 0
            size = 4 * (stop - at)
        elif char == "\\":
            stop, size = _escape(expression, at)
        elif char == "[":
            bracket = _CLASS.match(expression, at)
            assert bracket is not None
            stop = bracket.end()
            size = _size_of_class(bracket[0])
        elif char == ".":
            size = _ANY_CHARACTER
        elif char not in _ANCHORS:
            size = len(char.encode(errors="replace"))
        top[0], top[1] = top[0] + top[1], size
        at = stop
    return Outline(sum(map(sum, open_)), tuple(groups), ends_quoted)


def _opening(expression: str, at: int) -> tuple[int, bool]:
    """The end of the opening of a group, and whether the group captures."""
    named = _NAMED.match(expression, at)
    if named is not None:
        return named.end(), True
    if not expression.startswith("(?", at):
        return at + 1, True
    flags = re.compile(r"\(\?[imsU-]*[:)]?").match(expression, at)
    assert flags is not None
    return flags.end(), False


def _escape(expression: str, at: int) -> tuple[int, int]:
    found = _ESCAPE.match(expression, at)
    assert found is not None
    kind = found[0][1:2]
    return found.end(), _UNICODE_CLASS if kind in ("p", "P") else _ANY_CHARACTER if kind in ("D", "S", "W") else 4


def _size_of_class(bracket: str) -> int:
    is_wide = not bracket.isascii() or _WIDE.search(bracket) is not None
    return len(bracket) // 2 + _ANY_CHARACTER * is_wide + _UNICODE_CLASS * len(re.findall(r"\\[pP]", bracket))


def _most(repetition: re.Match[str]) -> int:
    low, comma, high = repetition.groups()
    return max(int(high) if high else int(low) + (comma is not None), 1)


# Validation


@lru_cache(maxsize=512)
def problem_of(expression: str) -> ExpressionProblem | None:
    """The reason why RE2 cannot run an expression within the limits; None if it can."""
    if len(expression) > MAX_EXPRESSION:
        return ExpressionProblem(
            f"The regular expression has {len(expression):,} characters, at most {MAX_EXPRESSION:,} are allowed.",
            "Split it into several conditions, joined by 'or'.",
            is_limit=True,
        )
    if has_lone_surrogate(expression):
        return ExpressionProblem("The regular expression contains a lone surrogate.", "Remove it.")
    size = outline(expression).size
    if size > MAX_PROGRAM:
        return ExpressionProblem(
            f"The regular expression is too large: about {size:,} instructions, at most {MAX_PROGRAM:,} are allowed.",
            "Lower the bounds of its repetitions, or use fewer Unicode classes such as \\pL.",
            is_limit=True,
        )
    if _matches_bytes(expression):
        return ExpressionProblem(
            "Regular expressions match characters, not bytes: \\C is unsupported.", "Use '.' for one character.", "\\C"
        )
    complaint = _complaint(expression)
    return None if complaint is None else _explained(complaint)


def _complaint(expression: str) -> str | None:
    """The error message of RE2; None if the expression is valid."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.array([""]), expression)
    except pa.ArrowInvalid as error:
        return str(error).removeprefix("Invalid regular expression: ")
    return None


def _matches_bytes(expression: str) -> bool:
    unquoted = re.sub(r"\\Q.*?(?:\\E|\Z)", "", expression, flags=re.DOTALL)
    return any(found == "\\C" for found in re.findall(r"\\.", unquoted, re.DOTALL))


_UNSUPPORTED = (
    (
        re.compile(r"\(\?<?[=!]"),
        "lookahead and lookbehind",
        "Join two conditions by 'and': x rlike 'a' and not x rlike 'b'.",
    ),
    (re.compile(r"\\[1-9k]"), "backreferences", "Compare two values of regexp_extract(x, '…', 1)."),
    (re.compile(r"\(\?>|[*+?}]\+"), "possessive repetitions and atomic groups", "Remove the '+' or '?>': RE2 never backtracks."),
)  # fmt: skip


def _explained(complaint: str) -> ExpressionProblem:
    about, _, part = complaint.partition(": ")
    for form, feature, hint in _UNSUPPORTED:
        if form.match(part) or (form.search(part) and "repetition" in about):
            return ExpressionProblem(
                f"Unsupported in regular expressions, which run in linear time by RE2: {feature}.", hint, part
            )
    hint = "Write a character with a special meaning after a backslash, as in '10\\.0\\.' or '\\('."
    if about == "invalid repetition size":
        hint = "Repeat at most 1,000 times."
    if about.startswith("pattern too large"):
        return ExpressionProblem(
            "The regular expression is too large.", "Lower the bounds of its repetitions.", is_limit=True
        )
    context = f" in {part!r}" if part else ""
    return ExpressionProblem(f"Invalid regular expression: {about}{context}.", hint, part)


# Matching


def matches(texts: Sequence[object], expression: str) -> list[bool | None]:
    """For each text, whether the expression matches a part of it; null for null and for a value that is no string."""
    import pyarrow.compute as pc

    if problem_of(expression) is not None:
        return [None] * len(texts)
    found: list[bool | None] = pc.match_substring_regex(_array(texts), expression).to_pylist()
    return found


def extract(texts: Sequence[object], expression: str, group: int) -> list[str | None]:
    """For each text, a group of the first match (0 is the whole match); an empty string without a match."""
    import pyarrow.compute as pc

    if problem_of(expression) is not None or not 0 <= group <= count_groups(expression):
        return [None] * len(texts)
    known = _array(texts)
    found = pc.struct_field(pc.extract_regex(known, _capturing(expression, group)), _RESULT)
    results = zip(known.is_valid().to_pylist(), found.to_pylist(), strict=True)
    return [(text or "") if is_valid else None for is_valid, text in results]


def _array(texts: Sequence[object]) -> pa.Array:
    """Texts in UTF-8; null for values that are no string, and for a lone surrogate, which UTF-8 does not have."""
    import pyarrow as pa

    known = [text if isinstance(text, str) else None for text in texts]
    try:
        return pa.array(known, pa.large_string())
    except UnicodeEncodeError:
        return pa.array(
            [None if text is None or has_lone_surrogate(text) else text for text in known], pa.large_string()
        )


def count_groups(expression: str) -> int:
    return len(outline(expression).groups)


@lru_cache(maxsize=512)
def _capturing(expression: str, group: int) -> str:
    """The expression with one capturing group, in the form that Arrow requires: its name is ``found``."""
    if group == 0:
        unquoted = r"\E" if outline(expression).ends_quoted else ""
        return f"(?P<{_RESULT}>{_capturing(expression, -1)}{unquoted})"
    parts, at = [], 0
    for number, (start, end) in enumerate(outline(expression).groups, 1):
        parts += [expression[at:start], f"(?P<{_RESULT}>" if number == group else "(?:"]
        at = end
    return "".join([*parts, expression[at:]])


@lru_cache(maxsize=CACHED_TEXTS)
def _match_cached(text: str, expression: str) -> bool | None:
    return matches([text], expression)[0]


@lru_cache(maxsize=CACHED_TEXTS)
def _extract_cached(text: str, expression: str, group: int) -> str | None:
    return extract([text], expression, group)[0]


def rlike(value: Value, expression: Value) -> bool | None:
    """``value rlike expression``: whether the expression matches a part of the value."""
    if not isinstance(value, str) or not isinstance(expression, str):
        return None
    return _match_cached(value, expression) if len(value) <= MAX_CACHED_TEXT else matches([value], expression)[0]


def regexp_extract(value: Value, expression: Value, group: Value = 1) -> Value:
    """``regexp_extract(value, expression, group)``: the group of the first match."""
    if not isinstance(value, str) or not isinstance(expression, str):
        return None
    if not isinstance(group, int) or isinstance(group, bool):
        return None
    if len(value) <= MAX_CACHED_TEXT:
        return _extract_cached(value, expression, group)
    return extract([value], expression, group)[0]


# Expressions that are searches for a fixed string


@dataclass(frozen=True, slots=True)
class FixedSearch:
    """A search for a fixed string, which may have to be at the start or at the end of the text."""

    text: str
    at_start: bool
    at_end: bool


def fixed_search(expression: str) -> FixedSearch | None:
    """The search that an expression without operators amounts to; None for any other expression."""
    at_start, at_end = expression.startswith("^"), False
    rest = expression[1:] if at_start else expression
    chars: list[str] = []
    at = 0
    while at < len(rest):
        char = rest[at]
        if char == "\\" and at + 1 < len(rest) and not rest[at + 1].isalnum() and rest[at + 1].isascii():
            at += 1
            chars.append(rest[at])
        elif char == "$" and at == len(rest) - 1:
            at_end = True
        elif char in _SPECIAL:
            return None
        else:
            chars.append(char)
        at += 1
    return FixedSearch("".join(chars), at_start, at_end)
