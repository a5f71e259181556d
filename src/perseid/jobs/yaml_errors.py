"""Errors of the YAML parser in plain words: the place of the mistake, and what to write instead.

A message never has content of the file, which may be secret; single characters with a meaning in YAML are shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perseid.errors import SettingsError

if TYPE_CHECKING:
    import yaml

_QUOTE = "Put the value in quotes."
_ALIGN = "Indent with spaces, and begin all keys or list items of one block in the same column."


@dataclass(frozen=True)
class _Mistake:
    """A mistake at a place of the file, with the correction."""

    line: int
    column: int
    message: str
    hint: str | None = None


@dataclass(frozen=True)
class _Place:
    """A place of the file; both numbers start at 1."""

    line: int
    column: int

    def mistake(self, message: str, hint: str | None = None) -> _Mistake:
        return _Mistake(self.line, self.column, message, hint)


def yaml_error(error: yaml.YAMLError, text: str, path: Path) -> SettingsError:
    """Return the error for a text that the YAML parser rejects."""
    mistake = _mistake(error, text)
    where = "" if mistake is None else f", line {mistake.line}, column {mistake.column}"
    message = "it cannot be parsed" if mistake is None else mistake.message
    return SettingsError(f"{path}{where}: invalid YAML: {message}.", hint=None if mistake is None else mistake.hint)


def _mistake(error: yaml.YAMLError, text: str) -> _Mistake | None:
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or ""
    context = getattr(error, "context", None) or ""
    position = getattr(error, "position", None)
    if isinstance(position, int):  # a character that no text has; the reader has no line of it
        before = text[:position]
        place = _Place(before.count("\n") + 1, position - before.rfind("\n"))
        return place.mistake(str(problem), "Remove the character.")
    context_place, problem_place = (
        _place(getattr(error, "context_mark", None)),
        _place(getattr(error, "problem_mark", None)),
    )
    problem_place = problem_place or context_place
    if problem_place is None:
        return None
    context_place = context_place or problem_place
    if "'\\t'" in problem:
        return problem_place.mistake("unexpected tab", "Use spaces: YAML does not allow tabs for indentation.")
    if context.startswith("while scanning an a"):  # an alias or an anchor
        sign, element = ("*", "an alias") if context.endswith("alias") else ("&", "an anchor")
        example = ', as in "*.json"' if sign == "*" else ""
        return context_place.mistake(
            f"{sign} begins {element} in YAML, not a string", f"Put the value in quotes{example}."
        )
    if problem.startswith("found undefined alias"):
        return problem_place.mistake("found undefined alias", f"* begins an alias in YAML, not a string. {_QUOTE}")
    if found := re.search(r"found character '(.)' that cannot start any token", problem):
        return problem_place.mistake(f"a value cannot begin with {found[1]}", _QUOTE)
    if "quoted scalar" in context:
        if "escape" in problem:
            return problem_place.mistake(
                "unknown escape sequence in double quotes", "Write \\\\ for a backslash, or use single quotes."
            )
        return context_place.mistake("a quote is not closed", "Add the closing quote.")
    if "flow mapping" in context or "flow sequence" in context:
        sign, end = ("{", "}") if "mapping" in context else ("[", "]")
        return context_place.mistake(
            f"{sign} is not closed, or a comma is missing in it", f"Add {end}, or separate the values with commas."
        )
    if problem.startswith("could not find expected ':'"):
        return context_place.mistake("a key has no colon", "Write NAME: VALUE.")
    if problem.startswith("mapping values are not allowed"):
        return _unexpected_colon(problem_place, text)
    if problem.startswith("expected <block end>") or problem.startswith("expected '<document start>'"):
        return _unexpected_block(problem_place, problem)
    if problem == "expected the node content, but found '<stream end>'":
        return problem_place.mistake("the file ends before a bracket is closed", "Add the closing bracket: ] or }.")
    if problem == "but found another document":
        return problem_place.mistake("a second document begins here", "Remove the line ---; a file has one job.")
    return problem_place.mistake(re.sub(r"(tag) .*", r"\1", problem) or "it cannot be parsed")


def _place(mark: yaml.Mark | None) -> _Place | None:
    return None if mark is None else _Place(mark.line + 1, mark.column + 1)


def _unexpected_colon(place: _Place, text: str) -> _Mistake:
    """A colon after a value: in the value itself, or in a key that the parser takes for more of the value before it."""
    lines = text.split("\n")
    line = lines[place.line - 1]
    if re.search(r":\s", line[: place.column - 1]):
        return place.mistake("unexpected colon in a value", _QUOTE)
    before = next((one for one in reversed(lines[: place.line - 1]) if one.strip()), "")
    if re.fullmatch(r"\s*(- +)?[\w.-]+:[^\s:/]\S*\s*", before):
        return _Mistake(
            place.line - 1,
            before.index(":") + 1,
            "a colon without a space after it",
            "Write NAME: VALUE, with a space.",
        )
    first = len(line) - len(line.lstrip()) + 1
    return _Mistake(place.line, first, "wrong indentation: this key is indented below a value", _ALIGN)


def _unexpected_block(place: _Place, problem: str) -> _Mistake:
    token = problem.rpartition("but found ")[2].strip("'")
    if token in ("<block mapping start>", "<block sequence start>", "<block end>", "-", "?"):
        return place.mistake("wrong indentation: the line is aligned with no block above it", _ALIGN)
    if token in ("}", "]", ","):
        return place.mistake(f"unexpected {token}", f"Remove it, or put the value in quotes if {token} is part of it.")
    return place.mistake("unexpected text after a value", "Put the whole value in quotes.")
