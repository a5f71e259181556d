"""Parse values and relations of the command line."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

import perseid as ps
from perseid.cli.common import fail, misuse
from perseid.lang.expressions import Literal, Unary
from perseid.lang.parser import parse_expression
from perseid.semantics.evaluate import literal_value
from perseid.tables.files import read_rows


def _declared(rules: ps.PatternSet) -> dict[str, set[str]]:
    """Types of each parameter in the patterns that declare it."""
    out: dict[str, set[str]] = {}
    for pattern in rules.tree.patterns:
        for parameter in pattern.parameters:
            out.setdefault(parameter.name, set()).add(parameter.type)
    return out


def in_options(
    error: ps.errors.BindingError, file: Path, rules: ps.PatternSet
) -> tuple[ps.errors.BindingError, Path, *tuple[str, ...]]:
    """The error of a missing or invalid value and its file, with a hint at the option in place of Python code."""
    relation = re.search(r"[Rr]elation '([^']+)'", error.message)
    named = [n for n in _declared(rules) if re.search(rf":{re.escape(n)}\b", error.message)]
    hints = [f"Use --relation {relation[1]}=FILE."] if relation else [f"Use --set {name}=…." for name in named]
    if hints and (error.hint or "").startswith(("Use .bind(", "Use relations=")):
        error.hint = None
    return (error, file, *hints)


def values_of(settings: list[str], rules: ps.PatternSet) -> dict[str, object]:
    """Parse ``--set threshold=5``: the value is a constant of the language, otherwise text."""
    declared = _declared(rules)
    out: dict[str, Any] = {}
    for setting in settings:
        name, sign, text = setting.partition("=")
        if not sign or not name:
            raise ps.errors.BindingError(f"--set: expected NAME=VALUE, got {setting!r}.")
        types = declared.get(name, set())
        if any(kind.startswith(("list of ", "array<")) for kind in types):
            kinds = {kind.removeprefix("list of ").removeprefix("array<").removesuffix(">") for kind in types}
            items = re.findall(r"(?:'(?:[^']|'')*'|[^,])+", text)
            out.setdefault(name, []).extend(constant(item.strip(), kinds) for item in items)
        elif name in out:
            raise ps.errors.BindingError(
                f"--set sets {name} twice, but it is not a list." if types else f"--set sets {name} twice."
            )
        else:
            out[name] = constant(text, types)
            if types == {"duration"} and not isinstance(out[name], dt.timedelta):
                raise ps.errors.BindingError(
                    f"Parameter :{name} expects a duration, got {text!r}.",
                    hint="Use a number and a unit: '10 minutes'.",
                )
    return out


def constant(text: str, types: set[str]) -> object:
    """Parse a value for the declared types: for a string, digits are text."""
    try:
        parsed = parse_expression(text)
    except ps.errors.PatternError:
        return text
    if isinstance(parsed, Literal) and (parsed.kind == "string" or "string" not in types):
        return literal_value(parsed)
    if isinstance(parsed, Unary) and parsed.op == "-" and "string" not in types and isinstance(parsed.operand, Literal):
        value: Any = literal_value(parsed.operand)
        return text if value is None or isinstance(value, (str, bool, dt.date)) else -value
    return text


def named_file(setting: str) -> tuple[str, Path]:
    name, sign, file = setting.partition("=")
    if not (name and sign and file):
        raise misuse(f"--relation: expected NAME=FILE, got {setting!r}.")
    return name, Path(file)


def read_relation(path: Path) -> list[tuple[object, ...]]:
    """The rows of a file as tuples, in the order of its columns."""
    try:
        return read_rows(path)
    except ps.errors.EventDataError as error:
        raise fail(error, path) from None
