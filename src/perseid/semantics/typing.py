"""Infer the types of expressions; type errors have a span and a hint.

Without a schema the types of columns are unknown, and no expression is rejected that may be valid; errors that literals
alone cause are still reported.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Protocol

from perseid.errors import Place, ScopeError, TypeMismatchError, UnknownNameError, nearest
from perseid.lang.expressions import (
    Between,
    Binary,
    Call,
    Case,
    Cast,
    Expr,
    InList,
    InRelation,
    Is,
    Item,
    Like,
    Literal,
    Member,
    Param,
    Ref,
    Unary,
    walk,
)
from perseid.lang.printer import print_expr
from perseid.semantics import types as t
from perseid.semantics.constants import check_constant, check_group
from perseid.semantics.functions import (
    AGGREGATES,
    FUNCTIONS,
    NAVIGATION,
    UNITS,
    Function,
    Kind,
    literal_fraction,
    literal_integer,
)
from perseid.semantics.values import decimal_type, sized


class TypeEnv(Protocol):
    """Typing environment; the checker of a pattern implements it over its steps and the schema."""

    def ref(self, ref: Ref) -> t.Type:
        """Return the type of a dotted name, ``Unknown`` without a schema; raise if the name does not exist."""
        ...

    def param(self, param: Param) -> t.Type: ...

    def relation(self, expr: InRelation) -> tuple[t.Type, ...] | None:
        """Return the column types of a relation; None if unknown."""
        ...

    def is_step(self, name: str) -> bool:
        """Return True if this bare name may be a step."""
        ...


_LITERALS: dict[str, t.Type] = {
    "null": t.Null(),
    "boolean": t.Boolean(),
    "integer": t.Integer(),
    "double": t.Double(),
    "string": t.String(),
    "timestamp": t.Timestamp(),
    "date": t.Date(),
    "duration": t.Duration(),
}


def infer(expr: Expr, env: TypeEnv) -> t.Type:
    """Return the type of an expression; raise TypeMismatchError or UnknownNameError with span and hint."""
    match expr:
        case Literal():
            return literal_type(expr)
        case Ref():
            return env.ref(expr)
        case Param():
            return env.param(expr)
        case Member():
            return member_type(infer(expr.base, env), expr.name, expr.span, print_expr(expr.base))
        case Item():
            return _item(expr, env)
        case Unary():
            return _unary(expr, env)
        case Binary():
            return _binary(expr, env)
        case Between():
            value = infer(expr.value, env)
            for bound in (expr.low, expr.high):
                _comparable(value, infer(bound, env), bound.span or expr.span, "'between'")
        case InList():
            _in_list(expr, env)
        case InRelation():
            _in_relation(expr, env)
        case Like():
            _need_string(infer(expr.value, env), expr.value, f"'{expr.op}'")
            kind: Kind = "regular expression" if expr.op == "rlike" else "string"
            _need(kind, infer(expr.pattern, env), expr.pattern, f"'{expr.op}'")
        case Is():
            inner = infer(expr.value, env)
            if expr.what != "null":
                _need_boolean(inner, expr.value, f"'is {expr.what}'")
        case Case():
            return _case(expr, env)
        case Call():
            return _call(expr, env)
        case Cast():
            return _cast(expr, env)
    return t.Boolean()


def check_condition(expr: Expr, env: TypeEnv, where: str = "A condition") -> None:
    """Raise unless the expression may be boolean."""
    _need_boolean(infer(expr, env), expr, where)


def literal_type(expr: Literal) -> t.Type:
    if expr.kind == "decimal":
        found = sized(expr.value) if isinstance(expr.value, Decimal) else None
        if found is None:
            raise TypeMismatchError(
                "This number has more than 38 digits.",
                span=expr.span,
                hint="Write it with an exponent to make it a double: 1e40.",
            )
        return decimal_type(found)
    return _LITERALS[expr.kind]


def member_type(base: t.Type, name: str, span: Place | None = None, of: str | None = None) -> t.Type:
    """Return the type of ``base.name``; a missing field is an error only if the fields are known."""
    owner = "" if of is None else f" of {of}"
    match base:
        case t.Struct():
            known = dict(base.fields)
            if name not in known:
                raise UnknownNameError(
                    f"Unknown field {name!r}{owner}.",
                    span=span,
                    nearest=nearest(name, known),
                    hint=f"Available: {', '.join(known)}.",
                )
            return known[name]
        case t.Map(key=t.String(), value=value):
            return value
        case t.Unknown() | t.Variant() | t.Null():
            return t.Unknown()
        case t.Array():
            raise TypeMismatchError(
                f"An array has no field {name!r}.",
                span=span,
                hint=f"Select an element first, as in items[0].{name}.",
            )
    raise TypeMismatchError(
        f"{_sentence(described(base))} has no field {name!r}.",
        span=span,
        hint="Use a struct, a string map or a variant: only these have fields.",
    )


def _item(expr: Item, env: TypeEnv) -> t.Type:
    base, key = infer(expr.base, env), infer(expr.key, env)
    match base:
        case t.Array():
            if not isinstance(key, t.Integer) and not t.is_open(key):
                raise TypeMismatchError(
                    f"Array index: expected a bigint, got {described(key)}.",
                    span=expr.key.span or expr.span,
                    hint="Use an index that counts from 0, as in items[0].",
                )
            return base.element
        case t.Map():
            _comparable(base.key, key, expr.key.span or expr.span, "A map lookup")
            return base.value
        case t.Unknown() | t.Variant() | t.Null():
            return t.Unknown()
    raise TypeMismatchError(
        f"{_sentence(described(base))} has no elements.",
        span=expr.span,
        hint="Use square brackets for arrays and maps, and a dot for the field of a struct.",
    )


def _unary(expr: Unary, env: TypeEnv) -> t.Type:
    inner = infer(expr.operand, env)
    if expr.op == "not":
        _need_boolean(inner, expr.operand, "'not'")
        return t.Boolean()
    if not (t.is_number(inner) or isinstance(inner, t.Duration) or t.is_open(inner)):
        raise TypeMismatchError(
            f"Minus expects a number or a duration, got {described(inner)}.",
            span=expr.span,
            hint=_minus_hint(inner, expr.operand),
        )
    return inner


_NUMBER_HINT = "Write a number without quotes, or convert: cast(x as double), cast(y as string)."


def described(type_: t.Type) -> str:
    """Format a type with its article."""
    name = str(type_)
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _minus_hint(type_: t.Type, operand: Expr) -> str:
    if isinstance(type_, t.Boolean):
        return f"Write not {print_expr(operand)} for the opposite of a condition."
    if isinstance(type_, t.String):
        return f"Convert it: -cast({print_expr(operand)} as double)."
    return "Use it with a number or a duration."


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _rewritten_hint(expr: Binary, left: t.Type, right: t.Type) -> str | None:
    """The comparison as it can be written with the operands of the pattern; None if there is no one way."""
    for type_, side, other, at_left in ((left, expr.left, right, True), (right, expr.right, left, False)):
        literal = side.value if isinstance(side, Literal) else None
        sign, counterpart = expr.op, print_expr(expr.right if at_left else expr.left)
        if isinstance(type_, t.String):
            if isinstance(literal, str):
                written = _literal_as(literal, other)
                changed = (written, counterpart) if at_left else (counterpart, written)
                if written is not None:
                    return f"Write {changed[0]} {sign} {changed[1]}."
            if t.is_number(other) and sign in ("=", "<>", "<=>"):
                cast = (print_expr(side), f"cast({counterpart} as string)")
                first, second = cast if at_left else cast[::-1]
                return f"Convert one side: {first} {sign} {second}."
            if t.is_number(other) and literal is None:
                # The order of strings is not that of their numbers.
                cast = (f"cast({print_expr(side)} as double)", counterpart)
                first, second = cast if at_left else cast[::-1]
                return f"Convert the string: {first} {sign} {second}."
        if isinstance(type_, t.Boolean) and t.is_number(other) and not isinstance(side, Literal):
            text = print_expr(side)
            return f"Write {text}, or not {text}, or compare cast({text} as bigint)."
    return None


def _literal_as(text: str, type_: t.Type) -> str | None:
    """A string literal as a literal of another type."""
    if t.is_number(type_) and _NUMERAL.fullmatch(text):
        return text
    moment = _MOMENT.fullmatch(text)
    if isinstance(type_, t.Timestamp) and moment is not None:
        clock = moment[2] or "00:00"
        seconds = "" if clock.count(":") == 2 else ":00"
        return f"timestamp '{moment[1]} {clock}{seconds}{moment[3] or 'Z'}'"
    if isinstance(type_, t.Date) and moment is not None and moment[2] is None:
        return f"date '{text}'"
    return None


_NUMERAL = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?))?(Z|[+-]\d\d:\d\d)?")


def _mismatch_hint(left: t.Type, right: t.Type) -> str:
    kinds = (left, right)
    if any(isinstance(k, t.String) for k in kinds):
        if any(t.is_number(k) for k in kinds):
            return _NUMBER_HINT
        if any(isinstance(k, t.Timestamp) for k in kinds):
            return "Write timestamp '2026-01-31 12:30:00Z', or cast(x as timestamp)."
        if any(isinstance(k, t.Date) for k in kinds):
            return "Write date '2026-01-31', or cast(x as date)."
        if any(isinstance(k, t.Duration) for k in kinds):
            return "Write the duration without quotes, as in 5 minutes."
        if any(isinstance(k, t.Boolean) for k in kinds):
            return "Write true or false without quotes, or cast(x as boolean)."
    if any(isinstance(k, t.Duration) for k in kinds) and any(t.is_number(k) for k in kinds):
        return "Add a unit to the number, as in 5 minutes."
    if any(isinstance(k, t.Boolean) for k in kinds):
        return "Write x or 'not x' without a comparison, or cast(x as bigint)."
    return f"Convert one of them, as in cast(x as {left})."


def _comparable(left: t.Type, right: t.Type, span: Place | None, what: str, expr: Binary | None = None) -> t.Type:
    found = t.wider(left, right)
    if found is None:
        raise TypeMismatchError(
            f"{what} cannot compare {described(left)} with {described(right)}.",
            span=span,
            hint=(None if expr is None else _rewritten_hint(expr, left, right)) or _mismatch_hint(left, right),
        )
    for side in (left, right):
        if not t.is_orderable(side):
            raise TypeMismatchError(
                f"{what} cannot compare {described(side)}.",
                span=span,
                hint="Compare its fields or values one by one.",
            )
    return found


def _binary(expr: Binary, env: TypeEnv) -> t.Type:
    left, right = infer(expr.left, env), infer(expr.right, env)
    match expr.op:
        case "and" | "or":
            _need_boolean(left, expr.left, f"{expr.op!r}")
            _need_boolean(right, expr.right, f"{expr.op!r}")
            return t.Boolean()
        case "||":
            for type_, side in ((left, expr.left), (right, expr.right)):
                _need("text", type_, side, "'||'")
            return t.String()
        case "=" | "<>" | "<=>":
            found = _comparable(left, right, expr.span, f"{expr.op!r}", expr)
            if isinstance(found, t.Double) and not isinstance(left, t.Null) and not isinstance(right, t.Null):
                raise TypeMismatchError(
                    f"{expr.op!r} on doubles depends on rounding errors.",
                    span=expr.span,
                    hint=f"Write abs({print_expr(expr.left)} - {print_expr(expr.right)}) < 1e-9, "
                    "use between for a range, or cast both to a decimal.",
                )
            return t.Boolean()
        case "<" | "<=" | ">" | ">=":
            _comparable(left, right, expr.span, f"{expr.op!r}", expr)
            return t.Boolean()
    return _arithmetic(expr, left, right)


def _arithmetic(expr: Binary, left: t.Type, right: t.Type) -> t.Type:
    op = expr.op
    found = t.arithmetic_type(op, _operand_type(expr.left, left, right), _operand_type(expr.right, right, left))
    if found is not None:
        return found
    if op == "+" and isinstance(left, t.String) and isinstance(right, t.String):
        hint = "Use || to join strings."
    elif t.is_moment(left) and t.is_moment(right):
        hint = "Use b - a for the duration between two times."
    elif any(t.is_moment(k) for k in (left, right)) and any(t.is_number(k) for k in (left, right)):
        hint = "Add a unit to the number, as in 5 minutes."
    elif any(isinstance(k, t.String) for k in (left, right)):
        hint = "Convert the string first: cast(x as double), or cast(x as decimal(18,2))."
    else:
        hint = "Use two numbers, a time and a duration, or a duration and a number."
    operands = described(left).partition(" ")[2] + "s" if left == right else f"{described(left)} and {described(right)}"
    raise TypeMismatchError(f"{op!r} does not support {operands}.", span=expr.span, hint=hint)


def _operand_type(expr: Expr, type_: t.Type, other: t.Type) -> t.Type:
    """Return the operand's type; an integer literal next to a decimal counts only its own digits."""
    number = literal_integer(expr)
    if number is None or not isinstance(other, t.Decimal):
        return type_
    return t.Decimal(len(str(abs(number))), 0)


def _in_list(expr: InList, env: TypeEnv) -> None:
    value = infer(expr.value, env)
    for item in expr.items:
        found = infer(item, env)
        if len(expr.items) == 1 and isinstance(item, Param) and isinstance(found, t.Array):
            found = found.element
        _comparable(value, found, item.span or expr.span, "'in'")


def _in_relation(expr: InRelation, env: TypeEnv) -> None:
    found = [infer(x, env) for x in expr.values]
    columns = env.relation(expr)
    if columns is None:
        return
    if len(columns) != len(found):
        raise TypeMismatchError(
            f"Relation {expr.relation}: expected {counted(len(columns), 'value')}, got {len(found)}.",
            span=expr.span,
            hint=f"Write ({', '.join('abcdefgh'[: len(columns)])}) in {expr.relation}.",
        )
    for x, type_, column in zip(expr.values, found, columns, strict=True):
        _comparable(type_, column, x.span or expr.span, "'in'")


def _case(expr: Case, env: TypeEnv) -> t.Type:
    operand = None if expr.operand is None else infer(expr.operand, env)
    results: list[tuple[Expr, t.Type]] = []
    for when, then in expr.whens:
        test = infer(when, env)
        if operand is None:
            _need_boolean(test, when, "'when'")
        else:
            _comparable(operand, test, when.span or expr.span, "'case'")
        results.append((then, infer(then, env)))
    if expr.otherwise is not None:
        results.append((expr.otherwise, infer(expr.otherwise, env)))
    return _together(results, "The branches of a case", expr.span)


def _together(found: list[tuple[Expr, t.Type]], what: str, span: Place | None) -> t.Type:
    result: t.Type = t.Null()
    for expr, type_ in found:
        wider = t.wider(result, type_)
        if wider is None:
            raise TypeMismatchError(
                f"{what} have incompatible types: {described(result)} and {described(type_)}.",
                span=expr.span or span,
                hint=f"Convert them to one type, as in cast(x as {result}).",
            )
        result = wider
    return result


def _cast(expr: Cast, env: TypeEnv) -> t.Type:
    source, target = infer(expr.value, env), _target(expr)
    if isinstance(target, t.Array | t.Map | t.Struct | t.Variant | t.BinaryType):
        raise TypeMismatchError(
            f"Unsupported cast to {target}.",
            span=expr.span,
            hint="Cast to boolean, bigint, double, decimal(p,s), string, timestamp, date or duration.",
        )
    if not t.is_open(source) and not _castable(source, target):
        raise TypeMismatchError(
            f"Cannot cast {described(source)} to {described(target)}.",
            span=expr.span,
            hint="Cast between numbers, to and from strings, between times, or from numbers to times.",
        )
    return target


def _target(expr: Cast) -> t.Type:
    try:
        return t.parse_type(expr.type, expr.span)
    except UnknownNameError as error:
        error.hint = "Available: boolean, int, bigint, double, decimal(p,s), string, timestamp, date, duration."
        raise


def _castable(source: t.Type, target: t.Type) -> bool:
    if source == target:
        return True
    match source, target:
        case ((t.Array() | t.Map() | t.Struct() | t.BinaryType()), _):
            return False
        case (_, t.String()) | (t.String(), _) | (t.Date(), t.Timestamp()) | (t.Timestamp(), t.Date()):
            return True
        case t.Boolean(), _:
            return t.is_number(target)
        case t.Timestamp(), _:
            return t.is_number(target)
    return t.is_number(source) and not isinstance(target, t.Date | t.Duration)


def counted(number: int, noun: str) -> str:
    """Format a number with its noun: ``1 argument``, ``2 arguments``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


_ELSEWHERE = {
    "approx_percentile": "percentile",
    "average": "avg",
    "ceiling": "ceil",
    "cidr_match": "in_cidr",
    "cidrmatch": "in_cidr",
    "ifnull": "coalesce",
    "isnull": "coalesce",
    "iif": "if",
    "lag": "prev",
    "len": "length",
    "log": "ln",
    "mean": "avg",
    "nvl": "coalesce",
    "pow": "power",
    "percentile_approx": "percentile",
    "percentile_cont": "percentile",
    "previous": "prev",
    "quantile": "percentile",
    "std": "stddev",
    "substr": "substring",
}
"""Function names of other languages."""


def _call(expr: Call, env: TypeEnv) -> t.Type:
    function = FUNCTIONS.get(expr.name)
    if function is None:
        near = _ELSEWHERE.get(expr.name) or nearest(expr.name, FUNCTIONS)
        hint = None if near else f"Available: {', '.join(sorted(FUNCTIONS))}."
        if expr.name.startswith(("regex", "rlike", "match")):
            near, hint = None, "Use x rlike '^a' for a regular expression, regexp_extract(x, '^(a+)', 1) for a part."
        elif expr.name in ("now", "current_timestamp", "current_date", "sysdate", "getdate"):
            near, hint = None, "Use the times of events: time(a) is the time of step a."
        raise UnknownNameError(f"Unknown function {expr.name!r}.", span=expr.span, nearest=near, hint=hint)
    _check_arity(function, expr)
    if expr.distinct and not function.distinct:
        raise TypeMismatchError(
            f"{expr.name}(…) does not support 'distinct'.",
            span=expr.span,
            hint="Remove it, or use count(distinct x), sum(distinct x) or collect(distinct x).",
        )
    if function.aggregate:
        _check_aggregate(expr)
    found: list[t.Type] = []
    for index, arg in enumerate(expr.args):
        kind = function.parameters[min(index, len(function.parameters) - 1)]
        bare_step = isinstance(arg, Ref) and len(arg.parts) == 1 and env.is_step(arg.parts[0])
        if kind == "step" or (expr.name == "count" and bare_step):
            _need_step(arg, expr, bare_step)
            found.append(t.Unknown())
            continue
        try:
            type_ = infer(arg, env)
        except ScopeError:
            if bare_step and isinstance(arg, Ref):
                raise _whole_step(expr, arg) from None
            raise
        _need(kind, type_, arg, f"{expr.name}(…)")
        common = t.widest(found) or t.Unknown()
        if kind == "like first" and t.wider(common, type_) is None:
            raise TypeMismatchError(
                f"{expr.name}(…) has incompatible types: {described(common)} and {described(type_)}.",
                span=arg.span or expr.span,
                hint=_mismatch_hint(common, type_),
            )
        found.append(type_)
    if expr.name == "regexp_extract":
        check_group(expr)
    if expr.name == "if":
        return _together(list(zip(expr.args, found, strict=True))[1:], "The branches of an if", expr.span)
    if expr.name == "mod":
        return _arithmetic(Binary("%", expr.args[0], expr.args[1], span=expr.span), found[0], found[1])
    return function.result(found, expr.args)


def _check_arity(function: Function, expr: Call) -> None:
    count, low, high = len(expr.args), function.low, function.high
    if low <= count and (high is None or count <= high):
        return
    between = "or" if high == low + 1 else "to"
    expected = f"at least {low}" if high is None else str(low) if low == high else f"{low} {between} {high}"
    example = f"Write it as in {function.examples[0].partition(' is ')[0]}." if function.examples else None
    noun = "argument" if expected == "1" else "arguments"
    raise TypeMismatchError(f"{expr.name}(…) expects {expected} {noun}, got {count}.", span=expr.span, hint=example)


def _check_aggregate(expr: Call) -> None:
    inside = list(walk(expr.args[0]))
    for inner in inside:
        if isinstance(inner, Call) and inner.name in AGGREGATES - NAVIGATION:
            raise TypeMismatchError(
                f"Unexpected {inner.name}(…) inside {expr.name}(…).",
                span=inner.span or expr.span,
                hint="Use only first, last and prev inside an aggregate, which runs over the events of one repetition.",
            )
    if not any(isinstance(inner, Ref) for inner in inside):
        raise TypeMismatchError(
            f"{expr.name}(…) has no events to aggregate.",
            span=expr.span,
            hint=f"Use a column of a repeated step inside, as in {FUNCTIONS[expr.name].examples[0]}.",
        )


def _whole_step(expr: Call, arg: Ref) -> ScopeError:
    name = arg.parts[0]
    return ScopeError(
        f"{expr.name}(…) expects a column, got the event {name!r}.",
        span=arg.span or expr.span,
        hint=f"Write {expr.name}({name}.COLUMN); count({name}) is the number of events.",
    )


def _need_step(arg: Expr, expr: Call, is_step: bool) -> None:
    if not is_step:
        raise TypeMismatchError(
            f"{expr.name}(…) expects the name of a step.",
            span=arg.span or expr.span,
            hint=f"Write {FUNCTIONS[expr.name].examples[0]}.",
        )


def _need_boolean(type_: t.Type, expr: Expr, where: str) -> None:
    if not (isinstance(type_, t.Boolean) or t.is_open(type_)):
        other = "> 0" if t.is_number(type_) else "= 'yes'"
        hint = f"Compare it with a value, as in {print_expr(expr)} {other}."
        raise TypeMismatchError(f"{where} expects a boolean, got {described(type_)}.", span=expr.span, hint=hint)


def _need_string(type_: t.Type, expr: Expr, where: str) -> None:
    _need("string", type_, expr, where)


_WANTED: dict[Kind, tuple[str, str]] = {
    "number": ("a number", "Use cast(x as double) to convert a string."),
    "amount": ("a number or a duration", "Use cast(x as double) to convert a string."),
    "integer": ("a bigint", "Use cast(x as bigint) to convert it."),
    "constant integer": ("an integer literal", "Write the number, as in round(x, 2)."),
    "fraction": ("a constant from 0 to 1", "Write 0.9 for the 90th percentile."),
    "string": ("a string", "Use cast(x as string) to convert it."),
    "regular expression": (
        "a constant regular expression",
        "Write it in quotes, as in '^adm[0-9]+', or as a parameter.",
    ),
    "network": ("a constant network", "Write it in quotes, as in '10.0.0.0/8', or as a parameter."),
    "text": ("a value with a text form", "Select an element or a field of it."),
    "moment": ("a timestamp or a date", "Use cast(x as timestamp) to convert an ISO 8601 string."),
    "unit": ("a unit of time", "Write one in quotes: " + ", ".join(f"'{unit}'" for unit in UNITS) + "."),
    "array": ("an array", "Use square brackets for maps and a dot for structs."),
    "collection": ("an array or a map", "Use length(x) for the size of a string."),
    "orderable": ("an orderable value", "Select a field or a value of it."),
    "boolean": ("a boolean", "Compare it with a value."),
}


def _need(kind: Kind, type_: t.Type, expr: Expr, where: str) -> None:
    if kind in ("any", "like first", "step") or (_fits(kind, type_) and _is_constant(kind, expr)):
        if isinstance(expr, Literal):
            check_constant(kind, expr)
        return
    if kind == "boolean":
        _need_boolean(type_, expr, where)
    expected, hint = _WANTED[kind]
    actual = described(type_) if not _fits(kind, type_) else print_expr(expr)
    raise TypeMismatchError(f"{where} expects {expected}, got {actual}.", span=expr.span, hint=hint)


def _fits(kind: Kind, type_: t.Type) -> bool:
    if t.is_open(type_):
        return True
    match kind:
        case "number" | "fraction":
            return t.is_number(type_)
        case "amount":
            return t.is_number(type_) or isinstance(type_, t.Duration)
        case "integer" | "constant integer":
            return isinstance(type_, t.Integer)
        case "string" | "unit" | "regular expression" | "network":
            return isinstance(type_, t.String)
        case "text":
            return not isinstance(type_, t.Array | t.Map | t.Struct | t.BinaryType)
        case "moment":
            return t.is_moment(type_)
        case "array":
            return isinstance(type_, t.Array)
        case "collection":
            return isinstance(type_, t.Array | t.Map)
        case "orderable":
            return t.is_orderable(type_)
        case "boolean":
            return isinstance(type_, t.Boolean)
    return True


def _is_constant(kind: Kind, expr: Expr) -> bool:
    if kind == "constant integer":
        return literal_integer(expr) is not None or isinstance(expr, Param)
    if kind in ("regular expression", "network"):
        return isinstance(expr, Param) or (isinstance(expr, Literal) and isinstance(expr.value, str))
    if kind == "fraction":
        return literal_fraction(expr) is not None or isinstance(expr, Param)
    if kind == "unit" and isinstance(expr, Literal):
        return isinstance(expr.value, str) and expr.value.lower() in UNITS
    return True
