"""Output schema: the columns of result rows and their types, inferred before any event is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from perseid.engines.sequence import layout as y
from perseid.engines.sequence.bytecode import CompiledPattern
from perseid.engines.sequence.expression_compiler import ColumnTypes
from perseid.errors import PatternError, TypeMismatchError
from perseid.lang import expressions as ex
from perseid.runtime.arrays import MOMENT
from perseid.semantics import types as t
from perseid.semantics.core import CorePattern, guards_of
from perseid.semantics.output_names import STANDARD_NAMES
from perseid.semantics.typing import infer

ARROW = {
    y.INTEGER: pa.int64(),
    y.DOUBLE: pa.float64(),
    y.STRING: pa.string(),
    y.BOOLEAN: pa.bool_(),
    y.TIMESTAMP: MOMENT,
    y.DATE: pa.date32(),
    y.DURATION: pa.duration("us"),
}
_STANDARD_TYPES = (pa.string(), pa.string(), pa.string(), pa.string(), pa.int32(), MOMENT, MOMENT)
STANDARD = tuple(zip(STANDARD_NAMES, _STANDARD_TYPES, strict=True))


def arrow_of(type_: t.Type) -> pa.DataType | None:
    """The Arrow type of a value; None if it is unknown."""
    match type_:
        case t.Integer():
            return pa.int64()
        case t.Double():
            return pa.float64()
        case t.String():
            return pa.string()
        case t.Boolean():
            return pa.bool_()
        case t.Timestamp():
            return MOMENT
        case t.Date():
            return pa.date32()
        case t.Duration():
            return pa.duration("us")
        case t.BinaryType():
            return pa.binary()
        case t.Decimal():
            return pa.decimal128(type_.precision, type_.scale)
        case t.Array():
            inner = arrow_of(type_.element)
            return None if inner is None else pa.list_(inner)
        case t.Struct():
            fields = [(name, arrow_of(inner)) for name, inner in type_.fields]
            return None if any(kind is None for _, kind in fields) else pa.struct(fields)
        case t.Null():
            return pa.null()
    return None


def output_schema(
    patterns: Sequence[CompiledPattern], types: Mapping[str, t.Type], arrow: Mapping[str, pa.DataType]
) -> pa.Schema:
    """The schema of a pattern set: standard, key and returned columns; a row is null in those its pattern lacks."""
    fields = _Fields()
    for bytecode in patterns:
        core = bytecode.pattern.pattern
        for path, name in zip(core.partition, bytecode.names.keys, strict=True):
            fields.add(name, _key_type(path.parts, types, arrow), core)
        for (name, formula, family), (_, expr), shown in zip(
            bytecode.outputs, core.returns, bytecode.names.returned, strict=True
        ):
            column = bytecode.output_columns.get(name)
            if column is not None:
                kind = arrow.get(column[1]) or arrow_of(types[column[1]])
            else:
                kind = ARROW[family] if formula is not None else arrow_of(_inferred(expr, core, types))
            fields.add(shown, kind, core)
    kinds = fields.kinds
    if any(bytecode.pattern.pattern.evidence is not None for bytecode in patterns):
        columns = [(name, arrow.get(name) or arrow_of(kind)) for name, kind in types.items()]
        known = all(kind is not None for _, kind in columns)
        kinds["evidence"] = pa.list_(pa.struct(columns)) if known else pa.null()
        kinds["evidence_dropped"] = pa.int64()
    return pa.schema(list(kinds.items()))


def join_schemas(first: pa.Schema, second: pa.Schema) -> pa.Schema:
    """Merge two schemas; different numeric types widen, other scalars become strings, the rest must be equal."""
    kinds = dict(zip(first.names, first.types, strict=True))
    for field in second:
        before = kinds.get(field.name, pa.null())
        if pa.types.is_null(before) or pa.types.is_null(field.type) or before == field.type:
            kinds[field.name] = field.type if pa.types.is_null(before) else before
        elif _has_text(before) and _has_text(field.type):
            kinds[field.name] = common_type(before, field.type)
        else:
            raise TypeMismatchError(
                f"Patterns of the set have an output column {field.name!r} with incompatible types: {before} and "
                f"{field.type}.",
                hint=f"Use another name in one of them: return … as {field.name}_2.",
            )
    return pa.schema(list(kinds.items()))


class _Fields:
    """Collects the output columns of a pattern set."""

    def __init__(self) -> None:
        self.kinds: dict[str, pa.DataType] = dict(STANDARD)
        self.owners: dict[str, str] = {}

    def add(self, name: str, kind: pa.DataType | None, core: CorePattern) -> None:
        """Add a column of a pattern; None is an unknown type."""
        kind = pa.null() if kind is None else kind
        before = self.kinds.get(name, pa.null())
        if pa.types.is_null(before):
            self.kinds[name], self.owners[name] = kind, core.name
        elif kind != before and not pa.types.is_null(kind):
            if not (_has_text(before) and _has_text(kind)):
                raise TypeMismatchError(
                    f"Patterns {self.owners[name]} and {core.name} have an output column {name!r} with incompatible "
                    f"types: {before} and {kind}.",
                    hint=f"Use another name in one of them: return … as {name}_{core.name}.",
                )
            self.kinds[name] = common_type(before, kind)


def _has_text(kind: pa.DataType) -> bool:
    return not (pa.types.is_nested(kind) or pa.types.is_binary(kind))


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The common type of a column that two patterns return: numeric if both are, otherwise string."""
    if pa.types.is_integer(left) and pa.types.is_integer(right):
        return pa.int64()
    numbers = all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in (left, right))
    return pa.float64() if numbers else pa.string()


def _key_type(
    parts: Sequence[str], types: Mapping[str, t.Type], arrow: Mapping[str, pa.DataType]
) -> pa.DataType | None:
    if len(parts) == 1 and parts[0] in arrow:
        return arrow[parts[0]]
    found = types.get(parts[0], t.Null())
    for part in parts[1:]:
        found = dict(found.fields).get(part, t.Null()) if isinstance(found, t.Struct) else t.Unknown()
    return arrow_of(found)


def _inferred(expr: ex.Expr, core: CorePattern, types: Mapping[str, t.Type]) -> t.Type:
    try:
        return returned_type(expr, core, types)
    except PatternError:  # an expression that cannot be computed is null
        return t.Null()


def returned_type(expr: ex.Expr, core: CorePattern, types: Mapping[str, t.Type]) -> t.Type:
    """Infer the type of an expression of a pattern; raise its type error."""
    unified: dict[str, t.Type] = {}
    for path, name in (pair for step in core.steps for pair in step.unify):
        found = ColumnTypes(types).ref(path)
        unified[name] = t.wider(unified.get(name, found), found) or t.Unknown()
    return infer(expr, ColumnTypes({**types, **unified}, {s.name for s in core.steps if s.name is not None}))


def check_conditions(core: CorePattern, types: Mapping[str, t.Type]) -> None:
    """Raise the type error of a condition that cannot hold for any event."""
    for step in core.steps:
        for expr in (*(condition.expr for condition in step.choose), *step.must):
            returned_type(expr, core, types)
    for expr in guards_of(core):
        returned_type(expr, core, types)
