"""Malformed states, generated from the declaration of their layout: every declared place is violated in every declared way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from perseid.runtime.fact_values import (
    FactValue,
    FlagValue,
    IntegerValue,
    ListValue,
    MapValue,
    NumberValue,
    RecordValue,
    TextValue,
    UnionValue,
)
from perseid.runtime.state_codec import decode_state, encode_state
from perseid.runtime.state_layout import StateColumn, StateContent, StateLayout, StateTable, decode

OWN = ("engine", "version")
"""Facts of every state; a wrong one is another error than a malformed state."""


@dataclass(frozen=True)
class MalformedState:
    """A state with one violation."""

    place: str
    """The fact, the column or the table, as errors name it."""
    violation: str
    state: bytes


def malformed_states(layout: StateLayout, state: bytes) -> Iterator[MalformedState]:
    """Yield a malformed state for every violation of a layout that applies to a valid state."""
    found, content = decode_state(state), decode(layout, state)
    for fact in layout.facts:
        if fact.name not in found.facts:
            continue
        others = {name: value for name, value in found.facts.items() if name != fact.name}
        if not fact.optional:
            yield MalformedState(fact.name, "missing", encode_state(others, found.tables))
        for violation, value in wrong_values(fact.value, found.facts[fact.name]):
            yield MalformedState(fact.name, violation, encode_state({**others, fact.name: value}, found.tables))
    yield MalformedState("extra", "unknown fact", encode_state({**found.facts, "extra": 1}, found.tables))
    declared = {table.name: table for table in layout.tables_of(content.facts)}
    assert len(content.tables) == len(found.tables)
    for i, name in enumerate(content.tables):
        table = declared[name if name in declared else name.rsplit(" ", 1)[0]]
        before, after = found.tables[:i], found.tables[i + 1 :]
        if not table.optional and not after and not table.repeated:
            yield MalformedState(table.name, "missing table", encode_state(found.facts, before))
        for place, violation, batch in wrong_tables(table, content.tables[name], content):
            yield MalformedState(place, violation, encode_state(found.facts, (*before, batch, *after)))
    if not any(table.repeated for table in declared.values()):
        yield MalformedState(
            "unknown", "unknown table", encode_state(found.facts, (*found.tables, *found.tables[-1:] * 2))
        )


def wrong_values(declared: FactValue, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield values that a type does not accept, derived from a valid one."""
    if not declared.nullable and type(declared) is not FactValue:
        yield "null", None
    if value is None:
        value = {IntegerValue: 0, TextValue: ""}.get(type(declared))
    match declared:
        case IntegerValue(low=low, high=high):
            yield from [("type", wrong) for wrong in (True, 1.5, "1", [], {})]
            yield from [("range", low - 1), ("range", high + 1), ("range", 10**30)]
        case NumberValue(limit=limit):
            yield from [("type", wrong) for wrong in (True, "1", [], {})]
            yield from [("range", wrong) for wrong in (limit, -limit, float("nan"), float("inf"), 10**400)]
        case TextValue():
            yield from [("type", wrong) for wrong in (1, True, [], {}, ["x"])]
        case UnionValue(options=options):
            option = next(option for option in options if option.accepts(value))
            yield from ((what, wrong) for what, wrong in wrong_values(option, value) if what != "null")
        case FlagValue():
            yield from [("type", wrong) for wrong in (0, 1, "true", [])]
        case ListValue(items=items, size=size, unique=unique):
            yield from [("type", wrong) for wrong in ("x", 1, {}, True)]
            if size is not None:
                yield from [("length", value[1:]), ("length", [*value, *value[:1]])]
            if unique:
                yield "repeated", [*value, *value, "x", "x"]
            rest, first = value[1:], value[0] if value else _example(items)
            yield from ((f"item {violation}", [wrong, *rest]) for violation, wrong in wrong_values(items, first))
        case MapValue(items=items, numbered=numbered):
            yield from [("type", wrong) for wrong in ("x", 1, [], True)]
            key, first = next(iter(value.items()), ("0", _example(items)))
            for wrong in ("x", "-1", "1.0", "", str(2**31), "9" * 5000) if numbered else ():
                yield "key", {**value, wrong: first}
            yield from ((f"item {violation}", {**value, key: wrong}) for violation, wrong in wrong_values(items, first))
        case RecordValue(facts=facts):
            yield from [("type", wrong) for wrong in ("x", 1, [], True)]
            yield "extra", {**value, "extra": 1}
            for fact in facts:
                others = {name: item for name, item in value.items() if name != fact.name}
                if not fact.optional:
                    yield f"{fact.name} missing", others
                if fact.name in value:
                    found = wrong_values(fact.value, value[fact.name])
                    yield from (
                        (f"{fact.name} {violation}", {**others, fact.name: wrong}) for violation, wrong in found
                    )


def _example(declared: FactValue) -> Any:
    """Return a value that a type accepts."""
    match declared:
        case IntegerValue(low=low, high=high):
            return min(max(0, low), high)
        case ListValue(items=items, size=size):
            return [_example(items)] * (size or 0)
        case RecordValue(facts=facts):
            return {fact.name: _example(fact.value) for fact in facts if not fact.optional}
        case UnionValue(options=options):
            return _example(options[0])
        case MapValue():
            return {}
        case NumberValue() | FlagValue():
            return 0.0 if isinstance(declared, NumberValue) else False
    return "x"


def wrong_tables(
    table: StateTable, batch: pa.RecordBatch, content: StateContent
) -> Iterator[tuple[str, str, pa.RecordBatch]]:
    """Yield tables that violate the declaration of one table, each with the place and the violation."""
    names, columns = batch.schema.names, batch.columns
    yield names[0], "column twice", pa.record_batch([*columns, columns[0]], names=[*names, names[0]])
    if "*" not in table.by_name:
        yield "unknown", "unknown column", pa.record_batch([*columns, columns[0]], names=[*names, "unknown"])
    if table.rows is not None:
        yield table.name, "rows", pa.concat_batches([batch, batch.slice(0, 1)])
        yield table.name, "rows", batch.slice(1)
    for i, name in enumerate(names):
        declared = table.column(name)
        assert declared is not None
        if name in table.required and not table.optional:
            others = [n for n in range(len(names)) if n != i]
            others_columns = [columns[n] for n in others] or [pa.nulls(batch.num_rows)]
            yield (
                name,
                "missing column",
                pa.record_batch(others_columns, names=[names[n] for n in others] or ["unknown"]),
            )
        for violation, column in _wrong_columns(declared, columns[i], content):
            yield name, violation, batch.set_column(i, name, column)
    for name in table.same_sizes:
        i, lists = names.index(name), batch.column(name).to_pylist()
        place = next((row for row, one in enumerate(lists) if one), None)
        if place is not None:
            changed = [one[1:] if row == place else one for row, one in enumerate(lists)]
            yield name, "sizes", batch.set_column(i, name, pa.array(changed, columns[i].type))


def _wrong_columns(declared: StateColumn, column: pa.Array, content: StateContent) -> Iterator[tuple[str, pa.Array]]:
    rows = len(column)
    if declared.type is not None:
        other = pa.int64() if declared.type != pa.int64() else pa.string()
        yield "type", pa.nulls(rows, other)
    if declared.plain:
        yield "type", pa.array(["x"] * rows).dictionary_encode()
        yield "type", pa.StructArray.from_arrays([pa.array(["x"] * rows).dictionary_encode()], names=["x"])
    if declared.dated and rows:
        yield "date", pa.array([2**62] * rows, pa.timestamp("us"))
        yield "date", pa.array([[2**31 - 1]] * rows, pa.list_(pa.date32()))
    values = column.to_pylist()
    for violation, wrong in _wrong_rows(declared, values, content):
        yield violation, pa.array(wrong, column.type)


def _wrong_rows(declared: StateColumn, values: list[Any], content: StateContent) -> Iterator[tuple[str, list[Any]]]:
    if not values:
        return
    if declared.type is not None and not declared.nullable:
        yield "null", [None, *values[1:]]
    for wrong in _out_of_range(declared, content):
        yield "range", [wrong, *values[1:]]
    if declared.adds_up_to:
        yield "sum", [values[0] + 1, *values[1:]]
    if declared.min_size:
        yield "size", [values[0][: declared.min_size - 1], *values[1:]]
    place = next((row for row, value in enumerate(values) if value), None)
    if declared.items is not None and place is not None:
        for violation, wrong in _wrong_rows(declared.items, values[place], content):
            yield f"item {violation}", [wrong if row == place else value for row, value in enumerate(values)]
    for field in declared.fields:
        for violation, wrong in _wrong_rows(field, [values[0][field.name]], content):
            yield f"field {field.name} {violation}", [{**values[0], field.name: wrong[0]}, *values[1:]]


def _out_of_range(declared: StateColumn, content: StateContent) -> Iterator[Any]:
    kind = declared.type
    if kind is not None and pa.types.is_floating(kind):
        yield from (float("nan"), float("inf"), -float("inf"))
    least, most = (-np.inf, np.inf)
    if kind is not None and pa.types.is_integer(kind):
        bounds = np.iinfo(kind.to_pandas_dtype())
        least, most = int(bounds.min), int(bounds.max)
    if declared.low is not None and declared.low > least:
        yield from (declared.low - 1, *([] if least == -np.inf else [least]))
    if declared.high is not None and declared.high < most:
        yield from (declared.high + 1, *([] if most == np.inf else [most]))
    if declared.into:
        target = content.tables.get(declared.into, content.facts.get(declared.into))
        if isinstance(target, Mapping):
            yield from (value for value in (-1, 99, most) if str(value) not in target)
        else:
            many = target.num_rows if isinstance(target, pa.RecordBatch) else len(target or ())
            yield from (many, most, *([] if declared.low is not None else [-1]))
