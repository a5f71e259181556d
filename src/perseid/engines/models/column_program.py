"""Expressions over the columns of frames, compiled to steps over arrays; common subexpressions are computed once.

A step receives a block of frames and the results of the steps before it. An expression without an array form raises
:class:`NotVectorizable` with the reason; then frames are evaluated one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias, cast

import numpy as np

from perseid.engines.models import vectors as x
from perseid.engines.models.vectors import BOOLEAN, DOUBLE, INTEGER, KINDS, Values, Vector
from perseid.engines.models.windows import COUNT, MEAN, SUM, moving_extremes, moving_totals
from perseid.lang import expressions as ex
from perseid.lang.printer import print_expr
from perseid.runtime.arrays import BoolArray, IntArray
from perseid.runtime.key_encoding import read_only
from perseid.semantics.evaluate import evaluate
from perseid.semantics.graphs import Element, Graph
from perseid.semantics.model_queries import Moving
from perseid.semantics.model_values import RowScope, moving_value
from perseid.semantics.values import Value

LONGEST = 2**61
"""Upper bound of the distance between two times, in microseconds."""


class NotVectorizable(Exception):  # noqa: N818 - selects another evaluation, not an error
    """Raised with the reason why frames cannot be evaluated as arrays."""


@dataclass(frozen=True, slots=True)
class FrameColumn:
    """A column of the frames that conditions read, with the family of its type."""

    name: str
    family: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A value equal in all frames: an attribute that no column sets, a literal, or a node."""

    value: Value


@dataclass(frozen=True, slots=True)
class ProgramSlot:
    """Result of a step, by the number of the step."""

    number: int
    family: str


Term: TypeAlias = "Constant | ProgramSlot"


@dataclass(frozen=True, slots=True)
class FrameColumns:
    """Frames sorted by model and time: their columns, and for each row the first row of its model."""

    time: IntArray
    first: IntArray
    columns: Mapping[str, Vector]

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True, slots=True)
class FrameRange:
    """A range of consecutive frames, from ``start`` to before ``stop``."""

    frames: FrameColumns
    start: int
    stop: int


Step: TypeAlias = "Callable[[FrameRange, list[Vector]], Vector]"


class ColumnProgram:
    """Steps in dependency order; equal steps are shared."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.known: dict[object, ProgramSlot] = {}
        self.columns: dict[str, FrameColumn] = {}
        """Columns of the frames that steps read."""

    def add(self, key: object, family: str, step: Step) -> ProgramSlot:
        if key not in self.known:
            self.steps.append(step)
            self.known[key] = ProgramSlot(len(self.steps) - 1, family)
        return self.known[key]

    def run(self, block: FrameRange) -> list[Vector]:
        """Return the results of all steps for the rows of a block."""
        found: list[Vector] = []
        for step in self.steps:
            found.append(step(block, found))
        return found

    def add_computed(self, name: str, family: str, run: Callable[..., Vector], *inputs: ProgramSlot) -> ProgramSlot:
        """Add a step that computes a value from the results of others."""
        numbers = tuple(slot.number for slot in inputs)
        return self.add((name, family, numbers), family, lambda block, found: run(*(found[n] for n in numbers)))

    # inputs

    def column(self, column: FrameColumn) -> ProgramSlot:
        self.columns[column.name] = column

        def read(block: FrameRange, found: list[Vector]) -> Vector:
            vector = block.frames.columns[column.name]
            part = slice(block.start, block.stop)
            return Vector(vector.values[part], None if vector.missing is None else vector.missing[part])

        return self.add(("column", column.name), column.family, read)

    def constant(self, value: Value) -> ProgramSlot:
        family = _family_of(value)
        vector = x.constant(value)
        return self.add(("constant", family, repr(value)), family, lambda block, found: vector)

    def window(self, window: Moving, column: FrameColumn) -> ProgramSlot:
        if column.family == BOOLEAN and window.function != "moving_count":
            raise NotVectorizable(f"{window.function} of booleans")
        self.columns[column.name] = column
        family = {"moving_count": INTEGER, "moving_avg": DOUBLE, "moving_sum": DOUBLE}.get(
            window.function, column.family
        )
        return self.add(("window", window, column.name), family, lambda block, found: _moving(block, window, column))

    def window_of_constant(self, window: Moving, value: Value) -> Term:
        """Add the window over an attribute that only the snapshot sets, at the time of the model's first frame."""
        now, later = moving_value(window, [value]), moving_value(window, [])
        if window.microseconds is None:
            return Constant(now)
        micros = min(window.microseconds, LONGEST)

        def since(block: FrameRange, found: list[Vector]) -> Vector:
            part = slice(block.start, block.stop)
            begin = block.frames.time[block.frames.first[part]]
            return Vector(begin > block.frames.time[part] - micros)

        inside = self.add(("since", micros), BOOLEAN, since)
        if now is None:
            return Constant(None)
        return self.add_computed("if", _family_of(now), x.chosen, inside, self.constant(now), self.constant(later))

    def changed(self, columns: Sequence[FrameColumn]) -> ProgramSlot:
        """Add a boolean step: one of the columns differs from the previous frame."""
        self.columns.update((column.name, column) for column in columns)

        def run(block: FrameRange, found: list[Vector]) -> Vector:
            different = np.zeros(block.stop - block.start, np.bool_)
            for column in columns:
                different |= _differs(block.frames.columns[column.name], block.start, block.stop)
            return Vector(different)

        return self.add(("changed", tuple(columns)), BOOLEAN, run)


def _differs(column: Vector, start: int, stop: int) -> BoolArray:
    now, before = slice(start, stop), slice(max(start - 1, 0), stop - 1)

    def other(values: Values) -> BoolArray:
        found = values[now][stop - start - (before.stop - before.start) :] != values[before]
        return np.concatenate([[False], found]) if start == 0 else found

    different = other(column.values)
    if column.values.dtype == np.float64:
        unknown = np.isnan(column.values[now])
        if unknown.any():
            different &= ~(unknown & ~other(np.isnan(column.values)))
    if column.missing is not None:
        different = (different & ~column.missing[now]) | other(column.missing)
    return different


_TOTALS = {"moving_sum": SUM, "moving_avg": MEAN, "moving_count": COUNT}


def _moving(block: FrameRange, window: Moving, column: FrameColumn) -> Vector:
    frames, vector = block.frames, block.frames.columns[column.name]
    missing = read_only(np.zeros(0, np.bool_) if vector.missing is None else vector.missing)
    count, micros = window.values or 0, min(window.microseconds or 0, LONGEST)
    shared = (read_only(vector.values), missing, read_only(frames.first), read_only(frames.time), block.start, count)
    rows = block.stop - block.start
    none = np.empty(rows, np.bool_)
    if window.function in _TOTALS:
        found: Values = np.empty(rows)
        anywhere = moving_totals(*shared, micros, _TOTALS[window.function], found, none)
        if window.function == "moving_count":
            return Vector(found.astype(np.int64))
    else:
        found = np.empty(rows, KINDS[column.family])
        anywhere = moving_extremes(*shared, micros, window.function == "moving_max", found, none)
    return Vector(found, none if anywhere else None)


def _family_of(value: Value) -> str:
    match value:
        case None:
            return BOOLEAN
        case bool():
            return BOOLEAN
        case int():
            return INTEGER
        case float():
            return DOUBLE
    raise NotVectorizable(f"unsupported constant {value!r} with changing values")


def _one_family(families: Sequence[str]) -> str:
    if len(set(families)) > 1:
        raise NotVectorizable("branches of several types")
    return families[0]


@dataclass(frozen=True, slots=True)
class Formulas:
    """Compiles query expressions to terms over a column program; each call receives the terms of the variables."""

    program: ColumnProgram
    graph: Graph
    columns: Mapping[tuple[Element, str], FrameColumn]
    windows: Mapping[str, Moving]

    def term(self, expr: ex.Expr, env: Mapping[str, Term]) -> Term:
        """Compile an expression to a constant or to the slot of a step."""
        refs = {part.parts: self._ref(part, env) for part in ex.walk(expr) if isinstance(part, ex.Ref)}
        if all(isinstance(term, Constant) for term in refs.values()):
            return Constant(evaluate(expr, RowScope(lambda parts: refs[parts].value)))  # type: ignore[union-attr]
        return self._direct(expr, env)

    def _ref(self, ref: ex.Ref, env: Mapping[str, Term]) -> Term:
        term = env[ref.parts[0]]
        if len(ref.parts) == 1:
            return term
        assert isinstance(term, Constant)
        element, attribute = cast("Element", term.value), ref.parts[1]
        window = self.windows.get(attribute)
        name = attribute if window is None else window.attribute
        column = self.columns.get((element, name))
        if column is None:
            known = (element, name) in self.graph.values
            value = self.graph.value(element, name)
            if window is None:
                return Constant(value)
            return self.program.window_of_constant(window, value) if known else Constant(moving_value(window, []))
        if column.family not in KINDS:
            raise NotVectorizable(f"{element}.{name} is not a number or boolean")
        return self.program.column(column) if window is None else self.program.window(window, column)

    def _direct(self, expr: ex.Expr, env: Mapping[str, Term]) -> Term:
        add = self.program.add_computed
        match expr:
            case ex.Ref():
                return self._ref(expr, env)
            case ex.Binary(op="and" | "or"):
                sides = [self._boolean(side, env) for side in (expr.left, expr.right)]
                return add(expr.op, BOOLEAN, x.conjunction if expr.op == "and" else x.disjunction, *sides)
            case ex.Binary():
                return self._binary(expr.op, self.term(expr.left, env), self.term(expr.right, env))
            case ex.Unary(op="not"):
                return add("not", BOOLEAN, x.negation, self._boolean(expr.operand, env))
            case ex.Unary():
                operand = self._number(expr.operand, env)
                return add("minus", operand.family, x.negated, operand)
            case ex.Between():
                value, low, high = (self.term(e, env) for e in (expr.value, expr.low, expr.high))
                sides = [self._lifted(self._binary(">=", value, low)), self._lifted(self._binary("<=", value, high))]
                return self._signed(add("and", BOOLEAN, x.conjunction, *sides), expr.negated)
            case ex.InList():
                value = self.term(expr.value, env)
                found, *rest = (self._lifted(self._binary("=", value, self.term(i, env))) for i in expr.items)
                for item in rest:
                    found = add("or", BOOLEAN, x.disjunction, found, item)
                return self._signed(found, expr.negated)
            case ex.Is():
                return self._signed(self._is(expr, env), expr.negated)
            case ex.Case(operand=None):
                return self._case(expr, env)
            case ex.Call():
                return self._call(expr, env)
        raise NotVectorizable(print_expr(expr))

    def _lifted(self, term: Term) -> ProgramSlot:
        return term if isinstance(term, ProgramSlot) else self.program.constant(term.value)

    def _boolean(self, expr: ex.Expr, env: Mapping[str, Term]) -> ProgramSlot:
        found = self._lifted(self.term(expr, env))
        if found.family != BOOLEAN:
            raise NotVectorizable(f"{print_expr(expr)} as a boolean")
        return found

    def _number(self, expr: ex.Expr, env: Mapping[str, Term]) -> ProgramSlot:
        found = self._lifted(self.term(expr, env))
        if found.family == BOOLEAN:
            raise NotVectorizable(f"{print_expr(expr)} as a number")
        return found

    def _double(self, term: Term) -> ProgramSlot:
        if isinstance(term, Constant) and isinstance(term.value, Decimal | int) and not isinstance(term.value, bool):
            term = Constant(float(term.value))
        found = self._lifted(term)
        if found.family == INTEGER:
            return self.program.add_computed("double", DOUBLE, x.as_double, found)
        if found.family != DOUBLE:
            raise NotVectorizable("a boolean as a number")
        return found

    def _signed(self, found: ProgramSlot, negated: bool) -> ProgramSlot:
        return self.program.add_computed("not", BOOLEAN, x.negation, found) if negated else found

    def _is(self, expr: ex.Is, env: Mapping[str, Term]) -> ProgramSlot:
        if expr.what == "null":
            return self.program.add_computed("is null", BOOLEAN, x.is_null, self._lifted(self.term(expr.value, env)))
        run = x.is_true if expr.what == "true" else x.is_false
        return self.program.add_computed(f"is {expr.what}", BOOLEAN, run, self._boolean(expr.value, env))

    def _binary(self, op: str, left: Term, right: Term) -> Term:
        add = self.program.add_computed
        if op != "<=>" and any(isinstance(side, Constant) and side.value is None for side in (left, right)):
            return Constant(None)
        a, b = self._in_one_family(left, right)
        if op in ("=", "<>", "<", "<=", ">", ">="):
            return add(op, BOOLEAN, lambda p, q: x.comparison(op, p, q), a, b)
        if op == "<=>":
            return add(op, BOOLEAN, x.null_safe_equal, a, b)
        if op not in ("+", "-", "*", "/", "%") or a.family == BOOLEAN:
            raise NotVectorizable(f"unsupported operator {op}")
        if a.family == DOUBLE:
            return add(op, DOUBLE, lambda p, q: x.arithmetic_of_doubles(op, p, q), a, b)
        family = DOUBLE if op == "/" else INTEGER
        return add(op, family, lambda p, q: x.arithmetic_of_integers(op, p, q), a, b)

    def _in_one_family(self, left: Term, right: Term) -> tuple[ProgramSlot, ProgramSlot]:
        """Return both sides in one family; if one is a double, the other is cast to double."""
        families = {term.family for term in (left, right) if isinstance(term, ProgramSlot)}
        floats = any(isinstance(term, Constant) and isinstance(term.value, float) for term in (left, right))
        if DOUBLE in families or (floats and families):
            return self._double(left), self._double(right)
        a, b = self._lifted(left), self._lifted(right)
        if a.family != b.family:
            raise NotVectorizable("a comparison of different types")
        return a, b

    def _case(self, expr: ex.Case, env: Mapping[str, Term]) -> Term:
        last = ex.Literal("null", None) if expr.otherwise is None else expr.otherwise
        found = self.term(last, env)
        for when, then in reversed(expr.whens):
            found = self._chosen(self._boolean(when, env), self.term(then, env), found)
        return found

    def _chosen(self, condition: ProgramSlot, then: Term, otherwise: Term) -> ProgramSlot:
        sides = [self._lifted(then), self._lifted(otherwise)]
        # A constant null is compatible with every family.
        kinds = [s.family for s, term in zip(sides, (then, otherwise), strict=True) if term != Constant(None)]
        return self.program.add_computed("if", _one_family(kinds or [BOOLEAN]), x.chosen, condition, *sides)

    def _call(self, expr: ex.Call, env: Mapping[str, Term]) -> Term:
        add, args = self.program.add_computed, expr.args
        match expr.name:
            case "abs":
                number = self._number(args[0], env)
                return add("abs", number.family, x.absolute, number)
            case "sqrt":
                return add("sqrt", DOUBLE, x.square_root, self._double(self.term(args[0], env)))
            case "floor" | "ceil":
                number, toward = self._number(args[0], env), np.floor if expr.name == "floor" else np.ceil
                if number.family == INTEGER:
                    return number
                return add(expr.name, INTEGER, lambda a: x.rounded(toward, a), number)
            case "mod":
                return self._binary("%", self.term(args[0], env), self.term(args[1], env))
            case "angle":
                terms = [self.term(arg, env) for arg in args]
                if Constant(None) in terms:
                    return Constant(None)
                return add("angle", DOUBLE, lambda *p: x.angle(p), *map(self._double, terms))
            case "if":
                return self._chosen(self._boolean(args[0], env), self.term(args[1], env), self.term(args[2], env))
            case "coalesce":
                return self._first_known([self.term(arg, env) for arg in args])
            case "greatest" | "least":
                return self._extreme(">" if expr.name == "greatest" else "<", [self.term(arg, env) for arg in args])
        raise NotVectorizable(f"function {expr.name} has no array form")

    def _first_known(self, terms: list[Term]) -> Term:
        found = terms[-1]
        for term in reversed(terms[:-1]):
            slot = self._lifted(term)
            known = self.program.add_computed(
                "not", BOOLEAN, x.negation, self.program.add_computed("is null", BOOLEAN, x.is_null, slot)
            )
            found = self._chosen(known, term, found)
        return found

    def _extreme(self, op: str, terms: list[Term]) -> Term:
        known = [term for term in terms if term != Constant(None)]
        if any(isinstance(term, ProgramSlot) and term.family == DOUBLE for term in known):
            slots = [self._double(term) for term in known]
        else:
            slots = [self._lifted(term) for term in known]
            _one_family([slot.family for slot in slots])
        found, *rest = slots
        for slot in rest:
            found = self.program.add_computed(
                f"extreme {op}", slot.family, lambda a, b: x.extreme(op, a, b), found, slot
            )
        return found
