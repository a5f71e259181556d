"""Compiles expressions to formulas, the bytecode that the kernel evaluates, and collects the columns they load.

The kernel computes numbers, strings, booleans and times itself. A part of an expression that one event decides and that
has no opcode (``lower(b.name)``) becomes a *column*, computed before the search. The rest, such as concatenating the
strings of two events, is left to the reference evaluator: the kernel then runs as plain Python, and ``explain`` reports
it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from perseid.engines.sequence import layout as y
from perseid.lang import expressions as ex
from perseid.lang.printer import print_expr
from perseid.semantics import types as t
from perseid.semantics import values as v
from perseid.semantics.core import CorePattern
from perseid.semantics.evaluate import evaluate
from perseid.semantics.functions import AGGREGATES, literal_fraction
from perseid.semantics.names import STEP_FUNCTIONS, references, strip_step_name
from perseid.semantics.scope import Bindings, MatchScope
from perseid.semantics.typing import infer, member_type

MAX_COLUMNS = 62
MAX_STACK = 60
MAX_ITEMS = 64
"""Longer lists are evaluated as a column."""

_FAMILIES: dict[type, int] = {
    t.Integer: y.INTEGER,
    t.Double: y.DOUBLE,
    t.String: y.STRING,
    t.Boolean: y.BOOLEAN,
    t.Timestamp: y.TIMESTAMP,
    t.Date: y.DATE,
    t.Duration: y.DURATION,
}
_NULL = -1
_OPEN = -2


class NotCompilable(Exception):  # noqa: N818 - control flow, not an error
    """The kernel has no opcode for this."""


@dataclass(frozen=True, slots=True)
class LoadedColumn:
    """A value of one event that formulas load: a column of the data, or an expression over columns."""

    expr: ex.Expr
    family: int
    text: str
    """The printed expression, by which patterns and drivers share computed columns."""
    formula: int | None = None
    """The formula that computes it from other columns; None if it is read or left to the reference evaluator."""


@dataclass
class ExpressionCompiler:
    """Collects the formulas, constants and columns of one pattern during its compilation."""

    pattern: CorePattern
    types: Mapping[str, t.Type]
    tables: list[int]
    """The pattern's tables: formulas and integer constants are appended and addressed by their offset."""
    columns: list[LoadedColumn] = field(default_factory=list)
    code: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    """String constants by the offset in the tables of their code, which is filled in with the data."""
    doubles: list[float] = field(default_factory=list)
    totals: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Running totals: function, column, family, step."""
    python_conditions: list[ex.Expr] = field(default_factory=list)
    """Conditions for the reference evaluator."""
    sorted_texts: bool = False
    _column_numbers: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        named: dict[str, list[int]] = {}
        for step in self.pattern.steps:
            if step.name is not None:
                named.setdefault(step.name, []).append(step.id)
        self.steps = named
        self.variables = {name: i for i, name in enumerate(sorted(self.pattern.unified))}

    # public interface

    def condition(self, expr: ex.Expr, own: int | None) -> int:
        """Compile a condition and return its offset; one without an opcode calls the reference evaluator."""
        try:
            code, family = self._expr(expr, own)
            if family not in (y.BOOLEAN, _NULL):
                code = [(y.F_NULL, 0, 0)]  # Only true satisfies a condition; a number never does.
        except NotCompilable:
            self.python_conditions.append(expr)
            code = [(y.F_PYTHON, len(self.python_conditions) - 1, 0)]
        return self._add(code)

    def value(self, expr: ex.Expr, own: int | None) -> tuple[int, int]:
        """Compile a value and return its offset and family; raise NotCompilable."""
        code, family = self._expr(expr, own)
        return self._add(code), family

    def alone(self, expr: ex.Expr) -> int:
        """Compile a condition that one event decides; ``expr`` names the event's own columns only."""
        return self._add(self._boolean(*self._expr(expr, -1)))

    def column(self, expr: ex.Expr) -> int:
        """The index of the column for ``expr``, added if it is new; ``expr`` names the event's own columns only."""
        key = print_expr(expr)
        if key in self._column_numbers:
            return self._column_numbers[key]
        family = self._family(expr)
        if family in (_OPEN, _NULL):
            raise NotCompilable(key)
        if self._mixes(expr):
            raise NotCompilable("branches of several kinds")
        formula = None
        if not isinstance(expr, ex.Ref):
            try:
                code, formula_family = self._direct(expr, -1)
                if formula_family == family and not any(op == y.F_PYTHON for op, _, _ in code):
                    formula = self._add(code)
            except NotCompilable:
                pass
        if len(self.columns) >= MAX_COLUMNS:
            raise NotCompilable("too many columns")
        self._column_numbers[key] = len(self.columns)
        self.columns.append(LoadedColumn(expr, family, key, formula))
        return self._column_numbers[key]

    def _mixes(self, expr: ex.Expr) -> bool:
        """True if the branches of an expression have values of different families."""
        for part in ex.walk(expr):
            if isinstance(part, ex.Case):
                branches = [result for _, result in part.whens]
                branches += [] if part.otherwise is None else [part.otherwise]
            elif isinstance(part, ex.Call) and part.name in ("coalesce", "if", "nullif", "greatest", "least"):
                branches = list(part.args[1:] if part.name == "if" else part.args)
            else:
                continue
            if len({self._family(branch) for branch in branches} - {_NULL}) > 1:
                return True
        return False

    def unified_column(self, path: ex.Ref, name: str) -> int:
        """The column of a unified value; it holds codes if the families of the name's columns are mixed or unknown."""
        families = {self._family(other) for step in self.pattern.steps for other, of in step.unify if of == name}
        numbers = families <= {y.INTEGER, y.DOUBLE}
        if (len(families) == 1 or numbers) and not families & {_NULL, _OPEN}:
            return self.column(path)
        key = f"opaque {print_expr(path)}"
        if key not in self._column_numbers:
            self._column_numbers[key] = len(self.columns)
            self.columns.append(LoadedColumn(path, y.OPAQUE, print_expr(path)))
        return self._column_numbers[key]

    def _add(self, code: list[tuple[int, int, int]]) -> int:
        if _depth(code) > MAX_STACK:
            raise NotCompilable("too deep")
        at = len(self.tables)
        self.code[at] = [*code, (y.F_END, 0, 0)]
        self.tables.extend(word for op in self.code[at] for word in op)
        return at

    def _constant(self, value: int) -> tuple[int, int, int]:
        self.tables.append(value)
        return y.F_INT, len(self.tables) - 1, 0

    # types

    def _family(self, expr: ex.Expr) -> int:
        try:
            found = infer(expr, ColumnTypes(self.types))
        except Exception:  # an expression without a type is null or left to the evaluator
            return _OPEN
        if isinstance(found, t.Null):
            return _NULL
        return _FAMILIES.get(type(found), _OPEN)

    # expressions; ``own`` is the step of the current event, -1 for any single event, None for no event

    def _expr(self, expr: ex.Expr, own: int | None) -> tuple[list[tuple[int, int, int]], int]:
        try:
            return self._direct(expr, own)
        except NotCompilable:
            return self._as_column(expr, own)

    def _as_column(self, expr: ex.Expr, own: int | None) -> tuple[list[tuple[int, int, int]], int]:
        """Compile a part that one event decides as a column."""
        refs = references(expr)
        if refs.aggregated or isinstance(expr, (ex.Literal, ex.Param, ex.Ref)):
            raise NotCompilable(print_expr(expr))
        if own == -1:
            return self._load(self.column(expr), -1, own)
        heads = {self._owner(ref.parts[0], own) for ref in refs.plain}
        heads |= {self._owner(ref.parts[0], own) for _, ref in refs.steps}
        if any(isinstance(e, ex.Call) and e.name in STEP_FUNCTIONS and not e.args for e in ex.walk(expr)):
            heads.add(own)
        if len(heads) != 1:
            raise NotCompilable(print_expr(expr))
        (step,) = heads
        if step is None:
            raise NotCompilable(print_expr(expr))
        name = None if step == -1 else self.pattern.steps[step].name
        alone = strip_step_name(expr, name)
        code, family = self._load(self.column(alone), step, own)
        if step in (own, -1):
            return code, family
        # A step without an event has no column to load: the part then has its value for null columns.
        empty = evaluate(alone, MatchScope(frozenset(), Bindings(), None))
        if empty is None:
            return code, family
        otherwise, other = self._literal(_literal_of(empty))
        if other != family:
            raise NotCompilable(print_expr(expr))
        return [(y.F_TIME, step, 0), (y.F_IS_NULL, 0, 0), *otherwise, *code, (y.F_IF, 0, 0)], family

    def _owner(self, head: str, own: int | None) -> int | None:
        if head in self.steps:
            ids = self.steps[head]
            if len(ids) > 1:
                raise NotCompilable(f"{head} names several steps")
            return ids[0]
        if head in self.variables:
            raise NotCompilable(head)
        return own

    def _load(self, column: int, step: int | None, own: int | None) -> tuple[list[tuple[int, int, int]], int]:
        family = self.columns[column].family
        if step == own or step is None or step == -1:
            return [(y.F_OWN, column, 0)], family
        return [(y.F_CURRENT, step, column)], family

    def _direct(self, expr: ex.Expr, own: int | None) -> tuple[list[tuple[int, int, int]], int]:
        match expr:
            case ex.Literal():
                return self._literal(expr)
            case ex.Ref():
                return self._ref(expr, own)
            case ex.Unary() if expr.op == "not":
                code, family = self._expr(expr.operand, own)
                if family == _NULL:
                    return [(y.F_NULL, 0, 0)], _NULL
                return [*self._boolean(code, family), (y.F_NOT, 0, 0)], y.BOOLEAN
            case ex.Unary():
                code, family = self._expr(expr.operand, own)
                if family in (y.INTEGER, y.DURATION):
                    return [*code, (y.F_NEG, 0, 0)], family
                if family == y.DOUBLE:
                    return [*code, (y.F_NEG_D, 0, 0)], family
                raise NotCompilable("negation")
            case ex.Binary():
                return self._binary(expr, own)
            case ex.Between():
                low = self._compare(">=", expr.value, expr.low, own)
                high = self._compare("<=", expr.value, expr.high, own)
                return self._negated([*low, *high, (y.F_AND, 0, 0)], expr.negated), y.BOOLEAN
            case ex.InList():
                if len(expr.items) > MAX_ITEMS or any(isinstance(i, ex.Param) for i in expr.items):
                    raise NotCompilable("list")
                code = self._compare("=", expr.value, expr.items[0], own)
                for item in expr.items[1:]:
                    code = [*code, *self._compare("=", expr.value, item, own), (y.F_OR, 0, 0)]
                return self._negated(code, expr.negated), y.BOOLEAN
            case ex.Is():
                code, family = self._expr(expr.value, own)
                if expr.what == "null":
                    return self._negated([*code, (y.F_IS_NULL, 0, 0)], expr.negated), y.BOOLEAN
                if family not in (y.BOOLEAN, _NULL):
                    raise NotCompilable("is")
                op = y.F_IS_TRUE if expr.what == "true" else y.F_IS_FALSE
                return self._negated([*code, (op, 0, 0)], expr.negated), y.BOOLEAN
            case ex.Call():
                return self._call(expr, own)
        raise NotCompilable(type(expr).__name__)

    def _literal(self, expr: ex.Literal) -> tuple[list[tuple[int, int, int]], int]:
        value = expr.value
        match expr.kind:
            case "null":
                return [(y.F_NULL, 0, 0)], _NULL
            case "string":
                constant = self._constant(0)
                self.texts[constant[1]] = str(value)
                return [constant], y.STRING
            case "double":
                assert isinstance(value, float)
                self.doubles.append(value)
                return [(y.F_DOUBLE, len(self.doubles) - 1, 0)], y.DOUBLE
            case "boolean" | "integer" | "timestamp" | "date" | "duration":
                assert isinstance(value, int)
                if not -(2**63) <= value < 2**63:
                    raise NotCompilable("too large")
                family = {"boolean": y.BOOLEAN, "integer": y.INTEGER, "timestamp": y.TIMESTAMP, "date": y.DATE}
                return [self._constant(int(value))], family.get(expr.kind, y.DURATION)
        raise NotCompilable(expr.kind)

    def _ref(self, expr: ex.Ref, own: int | None) -> tuple[list[tuple[int, int, int]], int]:
        head, rest = expr.parts[0], expr.parts[1:]
        if own != -1 and head in self.steps:
            owner = self._owner(head, own)
            if not rest:
                return [(y.F_NULL, 0, 0)], _NULL
            return self._load(self.column(ex.Ref(rest)), owner, own)
        if own != -1 and head in self.variables:
            if rest:
                raise NotCompilable("inside a unified value")
            families = {self._family(path) for step in self.pattern.steps for path, name in step.unify if name == head}
            if len(families) != 1 or families & {_NULL, _OPEN}:
                raise NotCompilable("unified values of several kinds")
            return [(y.F_UNIFIED, self.variables[head], 0)], families.pop()
        if own is None:
            return [(y.F_NULL, 0, 0)], _NULL
        if isinstance(self.types.get(head), t.Null) or head not in self.types:
            return [(y.F_NULL, 0, 0)], _NULL
        return [(y.F_OWN, self.column(expr), 0)], self._family(expr)

    def _boolean(self, code: list[tuple[int, int, int]], family: int) -> list[tuple[int, int, int]]:
        if family not in (y.BOOLEAN, _NULL):
            raise NotCompilable("not a truth value")
        return code

    @staticmethod
    def _negated(code: list[tuple[int, int, int]], negated: bool) -> list[tuple[int, int, int]]:
        return [*code, (y.F_NOT, 0, 0)] if negated else code

    def _binary(self, expr: ex.Binary, own: int | None) -> tuple[list[tuple[int, int, int]], int]:
        if expr.op in ("and", "or"):
            left = self._boolean(*self._expr(expr.left, own))
            right = self._boolean(*self._expr(expr.right, own))
            return [*left, *right, (y.F_AND if expr.op == "and" else y.F_OR, 0, 0)], y.BOOLEAN
        if expr.op in ("=", "<>", "<", "<=", ">", ">=", "<=>"):
            return self._compare(expr.op, expr.left, expr.right, own), y.BOOLEAN
        if expr.op == "||":
            raise NotCompilable("||")
        left, x = self._expr(expr.left, own)
        right, z = self._expr(expr.right, own)
        if x == y.INTEGER and z == y.INTEGER:
            ops = {"+": y.F_ADD, "-": y.F_SUB, "*": y.F_MUL, "/": y.F_DIV, "%": y.F_MOD}
            return [*left, *right, (ops[expr.op], 0, 0)], y.DOUBLE if expr.op == "/" else y.INTEGER
        if {x, z} <= {y.INTEGER, y.DOUBLE}:
            ops = {"+": y.F_ADD_D, "-": y.F_SUB_D, "*": y.F_MUL_D, "/": y.F_DIV_D, "%": y.F_MOD_D}
            return [*_double(left, x), *_double(right, z), (ops[expr.op], 0, 0)], y.DOUBLE
        if expr.op == "-" and {x, z} <= {y.TIMESTAMP, y.DATE}:
            return [*_moment(left, x), *_moment(right, z), (y.F_SUB, 0, 0)], y.DURATION
        raise NotCompilable(expr.op)

    def _compare(self, op: str, a: ex.Expr, b: ex.Expr, own: int | None) -> list[tuple[int, int, int]]:
        for operand, constant, is_swapped in ((a, b, False), (b, a, True)):
            if isinstance(constant, ex.Literal) and constant.kind == "decimal":
                return self._with_decimal(_SWAPPED_OPERATORS[op] if is_swapped else op, operand, constant, own)
        left, x = self._expr(a, own)
        right, z = self._expr(b, own)
        if op == "<=>":
            if _NULL in (x, z):
                return [*left, *right, (y.F_SAME, 0, 0)]
        elif _NULL in (x, z):
            return [(y.F_NULL, 0, 0)]
        double = 0
        if {x, z} <= {y.INTEGER, y.DOUBLE}:
            if x != z or x == y.DOUBLE:
                left, right, double = _double(left, x), _double(right, z), 1
        elif {x, z} == {y.TIMESTAMP, y.DATE}:
            left, right = _moment(left, x), _moment(right, z)
        elif x != z:
            # Families that cannot be compared: null; ``<=>`` is left to the evaluator.
            if op == "<=>":
                raise NotCompilable("<=>")
            return [(y.F_NULL, 0, 0)]
        if x == y.STRING and op in ("<", "<=", ">", ">="):
            self.sorted_texts = True
        if op == "<=>":
            return [*left, *right, (y.F_SAME_D if double else y.F_SAME, 0, 0)]
        if op in (">", ">="):
            left, right = right, left
        code = {"=": y.F_EQ, "<>": y.F_EQ, "<": y.F_LT, ">": y.F_LT, "<=": y.F_LE, ">=": y.F_LE}[op]
        code += y.F_EQ_D - y.F_EQ if double else 0
        return self._negated([*left, *right, (code, 0, 0)], op == "<>")

    def _with_decimal(self, op: str, a: ex.Expr, b: ex.Literal, own: int | None) -> list[tuple[int, int, int]]:
        """Compile a comparison with a decimal constant: exact for integers, as doubles for doubles."""
        assert isinstance(b.value, Decimal)
        code, family = self._expr(a, own)
        if family == _NULL and op != "<=>":
            return [(y.F_NULL, 0, 0)]
        if family == y.DOUBLE:
            return self._compare(op, a, ex.Literal("double", float(b.value)), own)
        if family != y.INTEGER or op == "<=>":
            raise NotCompilable("decimal")
        floor = math.floor(b.value)
        if not -(2**63) <= floor < 2**63 - 1:
            raise NotCompilable("decimal")
        if floor == b.value:
            return self._compare(op, a, ex.Literal("integer", floor), own)
        whole = ex.Literal("integer", floor)
        if op in ("<", "<="):
            return self._compare("<=", a, whole, own)
        if op in (">", ">="):
            return self._compare(">", a, whole, own)
        # Never equal; null if the value is null.
        never = [*self._compare("=", a, whole, own), *code, (y.F_IS_NULL, 0, 0), (y.F_AND, 0, 0)]
        return self._negated(never, op == "<>")

    def _call(self, expr: ex.Call, own: int | None) -> tuple[list[tuple[int, int, int]], int]:
        if expr.name in AGGREGATES:
            return self._aggregate(expr, own)
        if expr.name == "time":
            if not expr.args:
                if own is None:
                    return [(y.F_NULL, 0, 0)], _NULL
                return [(y.F_OWN_TIME, 0, 0)], y.TIMESTAMP
            if own != -1 and isinstance(expr.args[0], ex.Ref) and len(expr.args[0].parts) == 1:
                step = self._owner(expr.args[0].parts[0], own)
                if step == own:
                    return [(y.F_OWN_TIME, 0, 0)], y.TIMESTAMP
                if step is not None:
                    return [(y.F_TIME, step, 0)], y.TIMESTAMP
            raise NotCompilable("time")
        if expr.name == "mod" and len(expr.args) == 2:
            return self._binary(ex.Binary("%", expr.args[0], expr.args[1]), own)
        if expr.name == "abs" and len(expr.args) == 1:
            code, family = self._expr(expr.args[0], own)
            if family in (y.INTEGER, y.DURATION):
                return [*code, (y.F_ABS, 0, 0)], family
            if family == y.DOUBLE:
                return [*code, (y.F_ABS_D, 0, 0)], family
        if expr.name == "if" and len(expr.args) == 3:
            condition = self._boolean(*self._expr(expr.args[0], own))
            then, x = self._expr(expr.args[1], own)
            otherwise, z = self._expr(expr.args[2], own)
            if x == z or _NULL in (x, z):
                return [*condition, *then, *otherwise, (y.F_IF, 0, 0)], x if x != _NULL else z
        raise NotCompilable(expr.name)

    # aggregates

    def _aggregate(self, expr: ex.Call, own: int | None) -> tuple[list[tuple[int, int, int]], int]:
        if own == -1 or expr.distinct or not expr.args:
            raise NotCompilable(expr.name)
        arg = expr.args[0]
        refs = references(arg)
        if refs.aggregated or refs.steps:
            raise NotCompilable(expr.name)
        heads = {ref.parts[0] for ref in refs.plain}
        if len(heads) != 1:
            raise NotCompilable(expr.name)
        (head,) = heads
        if head not in self.steps or len(self.steps[head]) != 1:
            raise NotCompilable(expr.name)
        step = self.steps[head][0]
        if isinstance(arg, ex.Ref) and len(arg.parts) == 1:
            if expr.name != "count":
                raise NotCompilable(expr.name)
            return self._total(y.TOTAL_EVENTS, 0, y.INTEGER, step), y.INTEGER
        inner = strip_step_name(arg, head)
        if self._family(inner) == _NULL or self._missing(inner):
            raise NotCompilable("nothing to add up")
        column = self.column(inner)
        family = self.columns[column].family
        numeric = family in (y.INTEGER, y.DOUBLE)
        match expr.name:
            case "count":
                return self._total(y.TOTAL_COUNT, column, family, step), y.INTEGER
            case "sum" if family == y.DOUBLE:
                return self._total(y.TOTAL_SUM_DOUBLE, column, family, step), y.DOUBLE
            case "sum" if family in (y.INTEGER, y.DURATION):
                return self._total(y.TOTAL_SUM, column, family, step), family
            case "avg" if numeric:
                return self._total(y.TOTAL_AVERAGE, column, family, step), y.DOUBLE
            case "min" | "max":
                if family == y.STRING:
                    self.sorted_texts = True
                function = y.TOTAL_MIN if expr.name == "min" else y.TOTAL_MAX
                return self._total(function, column, family, step), family
            case "first" if len(expr.args) == 1:
                return self._total(y.TOTAL_FIRST, column, family, step), family
            case "last" if len(expr.args) == 1:
                return self._total(y.TOTAL_LAST, column, family, step), family
            case "stddev" if numeric:
                return self._total(y.TOTAL_STDDEV, column, family, step), y.DOUBLE
            case "median" | "percentile" if numeric:
                fraction = 0.5 if expr.name == "median" else literal_fraction(expr.args[-1])
                if fraction is None:
                    raise NotCompilable("percentile")
                self.doubles.append(fraction)
                return [(y.F_PERCENTILE, step, len(self.doubles) - 1 << 8 | column)], y.DOUBLE
            case "any" | "every" if family == y.BOOLEAN:
                function = y.TOTAL_ANY if expr.name == "any" else y.TOTAL_EVERY
                return self._total(function, column, family, step), y.BOOLEAN
            case "prev":
                offset = 1
                if len(expr.args) == 2:
                    if not (isinstance(expr.args[1], ex.Literal) and isinstance(expr.args[1].value, int)):
                        raise NotCompilable("prev")
                    offset = expr.args[1].value
                if not 0 <= offset < 2**40:
                    return [(y.F_NULL, 0, 0)], _NULL
                return [(y.F_PREV, step, offset << 8 | column)], family
        raise NotCompilable(expr.name)

    def _missing(self, expr: ex.Expr) -> bool:
        return any(isinstance(e, ex.Ref) and e.parts[0] not in self.types for e in ex.walk(expr))

    def _total(self, function: int, column: int, family: int, step: int) -> list[tuple[int, int, int]]:
        slot = (function, column, family, step)
        if slot not in self.totals:
            self.totals.append(slot)
        return [(y.F_TOTAL, self.totals.index(slot), 0)]

    def equality(self, formula: int) -> tuple[int, int, int] | None:
        """(own column, step, step's column) if the formula is just the equality of the two columns; else None."""
        code = [word for word in self.code[formula] if word[0] != y.F_END]
        if len(code) != 3 or code[2][0] != y.F_EQ:
            return None
        for (op, own, _), (other, step, earlier) in (code[:2], code[1::-1]):
            if op == y.F_OWN and other == y.F_CURRENT and self.columns[own].family != y.DOUBLE:
                return own, step, earlier
        return None

    def reads_totals_of(self, formula: int, step: int) -> bool:
        """True if a formula may read running totals or earlier iterations of this step."""
        return any(
            (op == y.F_TOTAL and self.totals[a][3] == step)
            or (op in (y.F_PERCENTILE, y.F_PREV) and a == step)
            or op == y.F_PYTHON
            for op, a, _ in self.code[formula]
        )


_SWAPPED_OPERATORS = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "<=>": "<=>"}


def _double(code: list[tuple[int, int, int]], family: int) -> list[tuple[int, int, int]]:
    return code if family == y.DOUBLE else [*code, (y.F_TO_DOUBLE, 0, 0)]


def _moment(code: list[tuple[int, int, int]], family: int) -> list[tuple[int, int, int]]:
    return code if family == y.TIMESTAMP else [*code, (y.F_TO_TIMESTAMP, 0, 0)]


def _depth(code: list[tuple[int, int, int]]) -> int:
    depth = most = 0
    for op, _, _ in code:
        if op <= y.F_PREV or op == y.F_PYTHON:
            depth += 1
        elif op == y.F_IF:
            depth -= 2
        elif op not in _IN_PLACE:
            depth -= 1
        most = max(most, depth)
    return most


_IN_PLACE = frozenset(
    {y.F_NOT, y.F_NEG, y.F_NEG_D, y.F_TO_DOUBLE, y.F_TO_TIMESTAMP, y.F_ABS, y.F_ABS_D, y.F_IS_NULL, y.F_IS_TRUE,
     y.F_IS_FALSE}
)  # fmt: skip


class ColumnTypes:
    """Column types for :func:`perseid.semantics.typing.infer`: an event's own, or those of named steps too."""

    def __init__(self, types: Mapping[str, t.Type], steps: Collection[str] = ()) -> None:
        self.types = types
        self.steps = steps

    def ref(self, ref: ex.Ref) -> t.Type:
        parts = ref.parts[1:] if ref.parts[0] in self.steps else ref.parts
        found = self.types.get(parts[0], t.Null()) if parts else t.Unknown()
        for part in parts[1:]:
            found = member_type(found, part)
        return found

    def param(self, param: ex.Param) -> t.Type:
        return t.Unknown()

    def relation(self, expr: ex.InRelation) -> tuple[t.Type, ...] | None:
        return None

    def is_step(self, name: str) -> bool:
        return name in self.steps


def _literal_of(value: v.Value) -> ex.Literal:
    match value:
        case bool():
            return ex.Literal("boolean", value)
        case int():
            return ex.Literal("integer", value)
        case float():
            return ex.Literal("double", value)
        case str():
            return ex.Literal("string", value)
    raise NotCompilable(repr(value))
