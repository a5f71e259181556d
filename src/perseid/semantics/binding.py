"""Bind parameters: ``:threshold`` becomes a constant before a pattern is compiled."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from decimal import Decimal
from typing import cast

from perseid.errors import BindingError, UnknownNameError, nearest, warn
from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.lang.parser import parse_duration
from perseid.semantics.values import EPOCH, MICROSECOND, has_lone_surrogate

_KINDS: dict[str, tuple[str, ...]] = {
    "int": ("integer",),
    "integer": ("integer",),
    "bigint": ("integer",),
    "long": ("integer",),
    "double": ("double", "integer", "decimal"),
    "float": ("double", "integer", "decimal"),
    "decimal": ("decimal", "integer"),
    "string": ("string",),
    "boolean": ("boolean",),
    "bool": ("boolean",),
    "timestamp": ("timestamp",),
    "date": ("date",),
    "duration": ("duration",),
}


def literal_of(value: object) -> ex.Literal:
    """Convert a Python value to a literal."""
    match value:
        case None:
            return ex.Literal("null", None)
        case bool():
            return ex.Literal("boolean", value)
        case int():
            if not -(2**63) <= value < 2**63:
                raise BindingError(f"{value} does not fit in 64 bits.")
            return ex.Literal("integer", value)
        case Decimal() if value.is_finite():
            return ex.Literal("decimal", value)
        case float():
            return ex.Literal("double", value)
        case str():
            if has_lone_surrogate(value):
                raise BindingError("The string contains a lone surrogate.")
            return ex.Literal("string", value)
        case dt.datetime():
            aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
            return ex.Literal("timestamp", (aware - EPOCH) // MICROSECOND)
        case dt.date():
            return ex.Literal("date", (value - EPOCH.date()).days)
        case dt.timedelta():
            return ex.Literal("duration", value // MICROSECOND)
    raise BindingError(
        f"Unsupported parameter type {type(value).__name__}.",
        hint="Use a number, a string, a boolean, a time, a duration, or a list of these.",
    )


def bind(pattern: ast.PatternDefinition, values: Mapping[str, object] | None = None) -> ast.PatternDefinition:
    """Replace the parameters of a pattern by values or defaults; raise if one has neither."""
    values = dict(values or {})
    declared = {p.name: p for p in pattern.parameters}
    for name in values:
        if name not in declared:
            raise BindingError(
                f"Unknown parameter :{name} of pattern {pattern.name}.",
                nearest=nearest(name, declared),
                hint=f"Available: {', '.join(declared) or 'none'}.",
            )
    bound: dict[str, tuple[ex.Literal, ...]] = {}
    for name, parameter in declared.items():
        if name in values:
            bound[name] = _value(pattern, parameter, values[name])
        elif parameter.default is not None:
            bound[name] = (parameter.default,)
        else:
            raise BindingError(
                f"Missing value for parameter :{name} ({parameter.type}) of pattern {pattern.name}.",
                hint=f"Use .bind({name}=…).",
            )
    check_declared(pattern)
    substituted = cast(ast.PatternDefinition, _substitute(pattern, bound))
    return replace(substituted, parameters=())


def check_declared(pattern: ast.PatternDefinition) -> None:
    """Raise if a ``:name`` is not declared in the head of the pattern; warn about declared names without a use."""
    declared = {p.name for p in pattern.parameters}
    for param in _params(pattern):
        if param.name not in declared:
            raise UnknownNameError(
                f"Unknown parameter :{param.name}.",
                span=param.span,
                nearest=nearest(param.name, declared),
                hint=f"Declare it in the pattern head: pattern {pattern.name}({param.name} double).",
            )
    used = {param.name for param in _params(pattern)}
    for parameter in pattern.parameters:
        if parameter.name not in used:
            warn(
                f"Pattern {pattern.name}: parameter {parameter.name!r} is declared but never used. "
                f"Write it with a colon, :{parameter.name}; without a colon, the name is a column."
            )


def _params(node: object) -> list[ex.Param]:
    if isinstance(node, ex.Param):
        return [node]
    if isinstance(node, tuple):
        return [p for child in node for p in _params(child)]
    if is_dataclass(node):
        return [p for f in fields(node) if f.name != "span" for p in _params(getattr(node, f.name))]
    return []


def _value(pattern: ast.PatternDefinition, parameter: ast.Parameter, value: object) -> tuple[ex.Literal, ...]:
    is_list = parameter.type.startswith(("list of ", "array<"))
    if is_list != isinstance(value, (list, tuple, set, frozenset)):
        raise BindingError(
            f"Parameter :{parameter.name} of pattern {pattern.name} expects {_type_name(parameter)}, "
            f"got {'one value' if is_list else 'a list'}."
        )
    literals: tuple[ex.Literal, ...]
    expected = parameter.type.removeprefix("list of ").removeprefix("array<").removesuffix(">").split("(")[0]
    if isinstance(value, (set, frozenset)):
        literals = tuple(_as(expected, v) for v in sorted(value, key=repr))
    elif isinstance(value, (list, tuple)):
        literals = tuple(_as(expected, v) for v in value)
    else:
        literals = (_as(expected, value),)
    for literal in literals:
        if literal.kind != "null" and expected in _KINDS and literal.kind not in _KINDS[expected]:
            raise BindingError(
                f"Parameter :{parameter.name} of pattern {pattern.name} expects {_type_name(parameter)}, "
                f"got {literal.value!r}."
            )
    return literals


def _as(type_name: str, value: object) -> ex.Literal:
    """Convert common notations of a type: 899.5 for a decimal, '10 minutes' for a duration."""
    if type_name == "decimal" and isinstance(value, float) and math.isfinite(value):
        return literal_of(Decimal(repr(value)))
    if type_name == "duration" and isinstance(value, str):
        length = parse_duration(value)
        if isinstance(length, int):
            return ex.Literal("duration", length)
    return literal_of(value)


def _type_name(parameter: ast.Parameter) -> str:
    kind = {"integer": "bigint"}.get(parameter.type, parameter.type)
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def signed(literal: ex.Literal, span: ex.Span | None = None) -> ex.Expr:
    """Return a constant as the parser builds it: a negative one is a unary minus."""
    if literal.kind in ("integer", "decimal", "double", "duration") and str(literal.value).startswith("-"):
        value = literal.value
        positive = value.copy_negate() if isinstance(value, Decimal) else -value  # type: ignore[operator]
        return ex.Unary("-", ex.Literal(literal.kind, positive, span=span), span=span)
    return replace(literal, span=span)


def _substitute(node: object, bound: Mapping[str, tuple[ex.Literal, ...]]) -> object:
    if isinstance(node, ex.InList) and len(node.items) == 1 and isinstance(node.items[0], ex.Param):
        literals = bound[node.items[0].name]
        items = tuple(signed(v) for v in literals) or (ex.Literal("null", None),)
        return replace(node, value=cast(ex.Expr, _substitute(node.value, bound)), items=items)
    if isinstance(node, ex.Param):
        literals = bound[node.name]
        if len(literals) != 1:
            raise BindingError(f"List parameter :{node.name} is allowed only after 'in'.")
        return signed(literals[0])
    if isinstance(node, tuple):
        return tuple(_substitute(child, bound) for child in node)
    if isinstance(node, ast.Link):
        return replace(node, after=_duration(node.after, bound), within=_duration(node.within, bound))
    if isinstance(node, ast.TimeWindow):
        return replace(node, duration=_duration(node.duration, bound))  # type: ignore[arg-type]
    if is_dataclass(node) and not isinstance(node, (ex.Span, ex.Literal, ex.Ref)):
        changes: dict[str, object] = {}
        for f in fields(node):
            value = getattr(node, f.name)
            if f.name in ("duration", "holds_for"):
                changes[f.name] = _duration(value, bound)
            elif f.name != "span" and (isinstance(value, tuple) or is_dataclass(value)):
                changes[f.name] = _substitute(value, bound)
        return replace(node, **changes) if changes else node  # type: ignore[type-var]
    return node


def _duration(value: ast.Duration | None, bound: Mapping[str, tuple[ex.Literal, ...]]) -> ast.Duration | None:
    if not isinstance(value, ex.Param):
        return value
    literal = bound[value.name][0] if bound[value.name] else ex.Literal("null", None)
    if literal.kind != "duration" or not isinstance(literal.value, int) or literal.value < 0:
        raise BindingError(
            f"Parameter :{value.name}: expected a non-negative duration, got {literal.value!r}.",
            hint="Use a datetime.timedelta, or declare the parameter as 'duration = 10 minutes'.",
        )
    return literal.value
