"""Print patterns and expressions as text. ``parse(print(p)) == p`` for every tree."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal

from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.lang.tree_patterns import print_tree

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

KEYWORDS = frozenset(
    (
        "pattern", "match", "where", "within", "holds", "for", "partition", "by", "selection",
        "after", "skip", "report", "timeouts", "return", "suppress", "severity", "owner", "tags",
        "description", "to", "next", "past", "first", "last", "as", "limit", "event", "events",
        "not", "change", "must", "until", "stays", "or", "and", "between", "like", "ilike", "rlike", "in", "is",
        "distinct", "cast", "case", "when", "then", "else", "end", "of", "none", "evidence",
        "forever", "any", "true", "false", "null", "sql", "strict", "followed", "successor",
        "chronicle", "recent", "continuous", "cumulative", "immediate", "found", "updated", "lost",
        "create", "delete", "set", "link", "unlink", "consecutive", "relaxed", "combinations",
        "microsecond", "microseconds", "millisecond", "milliseconds", "second", "seconds", "minute",
        "minutes", "hour", "hours", "day", "days", "week", "weeks",
    )
)  # fmt: skip
"""Keywords anywhere in the language; the printer quotes names that are keywords."""

# Keywords at positions where a column is allowed.
_WORDS_OF_EXPRESSIONS = frozenset(
    (
        "or", "and", "not", "between", "like", "ilike", "rlike", "in", "is", "distinct", "cast", "case", "when", "then",
        "else", "end", "true", "false", "null", "evidence", "as",
    )
)  # fmt: skip

_UNITS = (
    (7 * 24 * 3600 * 1_000_000, "week"),
    (24 * 3600 * 1_000_000, "day"),
    (3600 * 1_000_000, "hour"),
    (60 * 1_000_000, "minute"),
    (1_000_000, "second"),
    (1_000, "millisecond"),
    (1, "microsecond"),
)
ITERATION_WORDS = {
    ast.Contiguity.NEXT: "consecutive",
    ast.Contiguity.SKIP: "relaxed",
    ast.Contiguity.ANY: "combinations",
}
_EPOCH = dt.datetime(1970, 1, 1)


_MORE_WORDS: ContextVar[frozenset[str]] = ContextVar("_MORE_WORDS", default=frozenset())


@contextmanager
def quoting(words: frozenset[str]) -> Iterator[None]:
    """Treat these words as keywords too within the context: the printer quotes such names in backticks."""
    token = _MORE_WORDS.set(words)
    try:
        yield
    finally:
        _MORE_WORDS.reset(token)


def print_name(name: str, *, column: bool = False) -> str:
    """Return the name, in backticks where it would be parsed as something else."""
    reserved = (_WORDS_OF_EXPRESSIONS if column else KEYWORDS) | _MORE_WORDS.get()
    if _PLAIN_NAME.match(name) and name.lower() not in reserved:
        return name
    return "`" + name.replace("`", "``") + "`"


def print_string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def print_duration(duration: ast.Duration) -> str:
    if isinstance(duration, ex.Param):
        return f":{duration.name}"
    for size, unit in _UNITS:
        if duration % size == 0 and (duration >= size or size == 1):
            count = duration // size
            return f"{count} {unit}" + ("" if count == 1 else "s")
    raise AssertionError("every duration is a whole number of microseconds")


_LEVEL = {"or": 1, "and": 2, "not": 3, "compare": 4, "sum": 5, "product": 6, "sign": 7, "postfix": 8}
_SUM_OPS = frozenset({"+", "-", "||"})
_PRODUCT_OPS = frozenset({"*", "/", "%"})


def _level(expr: ex.Expr) -> int:
    match expr:
        case ex.Binary(op="or"):
            return _LEVEL["or"]
        case ex.Binary(op="and"):
            return _LEVEL["and"]
        case ex.Unary(op="not"):
            return _LEVEL["not"]
        case ex.Binary(op=op) if op in _SUM_OPS:
            return _LEVEL["sum"]
        case ex.Binary(op=op) if op in _PRODUCT_OPS:
            return _LEVEL["product"]
        case ex.Binary() | ex.Between() | ex.InList() | ex.InRelation() | ex.Like() | ex.Is():
            return _LEVEL["compare"]
        case ex.Unary(op="-"):
            return _LEVEL["sign"]
        case _:
            return _LEVEL["postfix"]


def _at(expr: ex.Expr, level: int) -> str:
    text = print_expr(expr)
    return text if _level(expr) >= level else f"({text})"


def print_expr(expr: ex.Expr) -> str:
    """Print an expression with minimal parentheses."""
    no = "not " if getattr(expr, "negated", False) else ""
    sum_level = _LEVEL["sum"]
    match expr:
        case ex.Literal():
            return print_literal(expr)
        case ex.Ref():
            return ".".join(print_name(part, column=True) for part in expr.parts)
        case ex.Member():
            return f"{_at(expr.base, 8)}.{print_name(expr.name, column=True)}"
        case ex.Item():
            return f"{_at(expr.base, 8)}[{print_expr(expr.key)}]"
        case ex.Param():
            return f":{expr.name}"
        case ex.Unary(op="not"):
            return f"not {_at(expr.operand, _LEVEL['not'])}"
        case ex.Unary():
            # A second minus right after the first would start a comment.
            inner = _at(expr.operand, _LEVEL["sign"])
            return f"-({inner})" if inner.startswith("-") else f"-{inner}"
        case ex.Binary(op=("or" | "and") as op):
            level = _LEVEL[op]
            return f"{_at(expr.left, level)} {op} {_at(expr.right, level + 1)}"
        case ex.Binary():
            level = _level(expr)
            left = level if level > _LEVEL["compare"] else level + 1
            return f"{_at(expr.left, left)} {expr.op} {_at(expr.right, level + 1)}"
        case ex.Between():
            low, high = _at(expr.low, sum_level), _at(expr.high, sum_level)
            return f"{_at(expr.value, sum_level)} {no}between {low} and {high}"
        case ex.Like():
            return f"{_at(expr.value, sum_level)} {no}{expr.op} {_at(expr.pattern, sum_level)}"
        case ex.InList(items=(ex.Param() as only,)):
            return f"{_at(expr.value, sum_level)} {no}in {print_expr(only)}"
        case ex.InList():
            return f"{_at(expr.value, sum_level)} {no}in ({', '.join(map(print_expr, expr.items))})"
        case ex.InRelation(values=(only,)):
            return f"{_at(only, sum_level)} {no}in {print_name(expr.relation)}"
        case ex.InRelation():
            return f"({', '.join(map(print_expr, expr.values))}) {no}in {print_name(expr.relation)}"
        case ex.Is():
            return f"{_at(expr.value, sum_level)} is {no}{expr.what}"
        case ex.Case():
            head = "case" if expr.operand is None else f"case {print_expr(expr.operand)}"
            whens = "".join(f" when {print_expr(c)} then {print_expr(v)}" for c, v in expr.whens)
            tail = "" if expr.otherwise is None else f" else {print_expr(expr.otherwise)}"
            return f"{head}{whens}{tail} end"
        case ex.Call():
            inside = ", ".join(map(print_expr, expr.args))
            return f"{print_name(expr.name, column=True)}({'distinct ' if expr.distinct else ''}{inside})"
        case ex.Cast():
            return f"cast({print_expr(expr.value)} as {expr.type})"


def print_literal(literal: ex.Literal) -> str:
    value = literal.value
    match literal.kind:
        case "null":
            return "null"
        case "boolean":
            return "true" if value else "false"
        case "decimal":
            assert isinstance(value, Decimal)
            text = format(value, "f")
            return text if "." in text else text + ".0"
        case "double":
            assert isinstance(value, float)
            text = repr(value)
            return text if "e" in text else text + "e0"
        case "string":
            assert isinstance(value, str)
            return print_string(value)
        case "timestamp":
            assert isinstance(value, int)
            moment = _EPOCH + dt.timedelta(microseconds=value)
            return f"timestamp '{moment.isoformat(sep=' ')}Z'"
        case "date":
            assert isinstance(value, int)
            return f"date '{(_EPOCH + dt.timedelta(days=value)).date().isoformat()}'"
        case "duration":
            assert isinstance(value, int)
            return print_duration(value)
        case "integer":
            return str(value)


def _is_unit(element: ast.Element) -> bool:
    """Return True if the element needs no parentheses in a sequence, alternation or conjunction."""
    return isinstance(element, (ast.Step, ast.Repeat, ast.Group, ast.Stays))


def print_element(element: ast.Element) -> str:
    match element:
        case ast.Step():
            return _step(element, "")
        case ast.Sequence():
            text = _in_sequence(element.elements[0])
            for link, part in zip(element.links, element.elements[1:], strict=True):
                space = "" if link.contiguity is ast.Contiguity.NEXT else " "
                text += f"{space}{_link(link)} {_in_sequence(part)}"
            return text
        case ast.Alternation():
            return " | ".join(
                print_element(b) if _is_unit(b) or isinstance(b, (ast.Conjunction, ast.Absence)) else _parens(b)
                for b in element.branches
            )
        case ast.Conjunction():
            return " & ".join(
                print_element(m) if _is_unit(m) or isinstance(m, ast.Absence) else _parens(m) for m in element.members
            )
        case ast.Repeat():
            return _repeat(element)
        case ast.Absence():
            inner = element.element
            body = print_element(inner) if _is_unit(inner) else _parens(inner)
            return f"not {body}" + ("" if element.duration is None else f" for {print_duration(element.duration)}")
        case ast.Stays():
            return f"{_step(element.step, '')} stays {print_duration(element.duration)}"
        case ast.Group():
            return f"({print_element(element.element)}{_window_suffix(element)})"


def _window_suffix(group: ast.Group) -> str:
    within = "" if group.within is None else f" within {print_window(group.within)}"
    holds = "" if group.holds_for is None else f" holds for {print_duration(group.holds_for)}"
    return within + holds


def _parens(element: ast.Element) -> str:
    return f"({print_element(element)})"


def _in_sequence(element: ast.Element) -> str:
    return _parens(element) if isinstance(element, ast.Sequence) else print_element(element)


def _link(link: ast.Link) -> str:
    after = "" if link.after is None else f" after {print_duration(link.after)}"
    within = "" if link.within is None else f" within {print_duration(link.within)}"
    return link.contiguity.value + after + within


def print_kind(kind: ast.StepKind) -> str:
    match kind:
        case ast.EventType():
            return print_name(kind.name)
        case ast.AnyEvent():
            return "any"
        case ast.TreeMatch():
            return f"{print_name(kind.stream)} << {print_tree(kind.tree)} >>"
        case ast.QueryEvent():
            return f"{kind.change} {print_name(kind.query)}"
        case ast.ModelChange():
            feature = "" if kind.feature is None else f".{print_name(kind.feature)}"
            return f"change {kind.action} {print_name(kind.element)}{feature}"


def _unify(step: ast.Step) -> str:
    if not step.unify:
        return ""
    return "(" + ", ".join(f"{print_path(u.attribute)} as {print_name(u.name)}" for u in step.unify) + ")"


def print_path(path: ex.Ref) -> str:
    return ".".join(map(print_name, path.parts))


def _step(step: ast.Step, quantifier: str) -> str:
    name = "" if step.name is None else f" {print_name(step.name)}"
    condition = "" if step.condition is None else f" [{print_expr(step.condition)}]"
    must = "" if step.must is None else f" must ({print_expr(step.must)})"
    return f"{print_kind(step.kind)}{_unify(step)}{quantifier}{name}{condition}{must}"


def _quantifier(repeat: ast.Repeat) -> str:
    match (repeat.low, repeat.high):
        case (0, 1):
            text = "?"
        case (0, None):
            text = "*"
        case (1, None):
            text = "+"
        case (low, None):
            text = f"{{{low},}}"
        case (low, high) if low == high:
            text = f"{{{low}}}"
        case (0, high):
            text = f"{{,{high}}}"
        case (low, high):
            text = f"{{{low},{high}}}"
    return text + ("?" if repeat.reluctant else "")


def _repeat(repeat: ast.Repeat) -> str:
    quantifier = _quantifier(repeat)
    rounds = "" if repeat.contiguity is None else f" {ITERATION_WORDS[repeat.contiguity]}"
    until = ""
    if repeat.until is not None:
        condition = "" if repeat.until.condition is None else f" [{print_expr(repeat.until.condition)}]"
        until = f" until {print_kind(repeat.until.kind)}{_unify(repeat.until)}{condition}"
    inner = repeat.element
    if isinstance(inner, ast.Step):
        return _step(inner, quantifier) + rounds + until
    body = print_element(inner) if isinstance(inner, ast.Group) else _parens(inner)
    return f"{body}{quantifier}{rounds}{until}"


def print_window(window: ast.Window) -> str:
    match window:
        case ast.TimeWindow():
            return print_duration(window.duration)
        case ast.CountWindow():
            return f"{window.events} event" + ("" if window.events == 1 else "s")
        case ast.Forever():
            return "forever"


def _skip(skip: ast.Skip) -> str:
    return skip.mode if skip.step is None else f"{skip.mode} {print_name(skip.step)}"


def _word(text: str) -> str:
    reserved = KEYWORDS | _MORE_WORDS.get()
    return text if _PLAIN_NAME.match(text) and text.lower() not in reserved else print_string(text)


def _parameters(parameters: tuple[ast.Parameter, ...]) -> str:
    if not parameters:
        return ""
    texts = []
    for p in parameters:
        default = "" if p.default is None else f" = {_constant(p.default)}"
        texts.append(f"{print_name(p.name)} {p.type}{default}")
    return "(" + ", ".join(texts) + ")"


def _constant(literal: ex.Literal) -> str:
    value = literal.value
    if literal.kind in ("integer", "decimal", "double", "duration") and str(value).startswith("-"):
        assert isinstance(value, (int, float, Decimal))
        # Unary minus would round a Decimal to the 28 digits of the context.
        positive = value.copy_negate() if isinstance(value, Decimal) else -value
        return "-" + print_literal(ex.Literal(literal.kind, positive))
    return print_literal(literal)


def print_pattern(pattern: ast.PatternDefinition) -> str:
    """Print a pattern in the canonical layout: one clause per line, in a fixed order."""
    meta = pattern.metadata
    lines: list[tuple[str, str]] = []
    if meta.description is not None:
        lines.append(("description", print_string(meta.description)))
    if meta.severity is not None:
        lines.append(("severity", _word(meta.severity)))
    if meta.owner is not None:
        lines.append(("owner", _word(meta.owner)))
    if meta.tags:
        lines.append(("tags", ", ".join(map(_word, meta.tags))))
    lines.append(("match", print_element(pattern.match)))
    if pattern.where is not None:
        lines.append(("where", print_expr(pattern.where)))
    if pattern.within is not None:
        lines.append(("within", print_window(pattern.within)))
    if pattern.holds_for is not None:
        lines.append(("holds for", print_duration(pattern.holds_for)))
    if pattern.partition_by:
        lines.append(("partition by", ", ".join(map(print_path, pattern.partition_by))))
    if pattern.selection is not None:
        lines.append(("selection", pattern.selection.value))
    if pattern.skip is not None:
        lines.append(("after match skip", _skip(pattern.skip)))
    if pattern.report_timeouts:
        lines.append(("report", "timeouts"))
    outputs = [print_output(o) for o in pattern.returns]
    if pattern.evidence is not None:
        limit = pattern.evidence.limit
        outputs.append("evidence" if limit == ast.Evidence().limit else f"evidence limit {limit}")
    if outputs:
        lines.append(("return", ", ".join(outputs)))
    if pattern.suppress is not None:
        by = "" if not pattern.suppress.by else " by " + ", ".join(map(print_name, pattern.suppress.by))
        lines.append(("suppress", print_duration(pattern.suppress.duration) + by))
    head = f"pattern {print_name(pattern.name)}{_parameters(pattern.parameters)}"
    return head + "\n" + "".join(f"{key} {text}\n" for key, text in lines)


def print_output(output: ast.Output) -> str:
    return print_expr(output.expr) + ("" if output.name is None else f" as {print_name(output.name)}")


def print_file(file: ast.PatternFile) -> str:
    return "\n".join(print_pattern(p) for p in file.patterns)
