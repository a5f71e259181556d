"""Arrays inside kernels, as bare addresses.

Numba passes an array as seven words, which is slow for the many calls inside a kernel. It also checks every index for a
negative position, which a kernel never uses. The functions of a kernel therefore pass addresses to each other. This
module defines for Numba how to read and write through an address. Functions that Python calls take arrays, which are
converted to addresses implicitly.
"""
# mypy: ignore-errors
# Numba's insides are not annotated.

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.typeconv import Conversion
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, lower_cast, register_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llvmlite import ir
    from numba.core.base import BaseContext
    from numba.core.datamodel.manager import DataModelManager
    from numba.core.typing.context import BaseContext as TypingContext
    from numba.core.typing.templates import Signature


class Row(types.CPointer):
    """The address of a flat array."""

    def __init__(self, dtype: types.Type) -> None:
        super().__init__(dtype)
        self.name = f"Row({dtype})"

    def can_convert_from(self, typingctx: TypingContext, other: types.Type) -> Conversion | None:
        same = isinstance(other, types.Array) and other.ndim == 1 and other.layout == "C" and other.dtype == self.dtype
        return Conversion.safe if same else None


class Grid(types.Type):
    """The address of a two-dimensional array, and the length of its rows."""

    def __init__(self, dtype: types.Type) -> None:
        self.dtype = dtype
        super().__init__(f"Grid({dtype})")

    def can_convert_from(self, typingctx: TypingContext, other: types.Type) -> Conversion | None:
        same = isinstance(other, types.Array) and other.ndim == 2 and other.layout == "C" and other.dtype == self.dtype
        return Conversion.safe if same else None


class Memory(types.NamedTuple):
    """The kernel's arrays by name, as addresses."""

    def can_convert_from(self, typingctx: TypingContext, other: types.Type) -> Conversion | None:
        if not isinstance(other, types.NamedTuple) or other.instance_class is not self.instance_class:
            return None
        kinds = [typingctx.can_convert(a, b) for a, b in zip(other.types, self.types, strict=True)]
        return None if None in kinds else max(kinds)


def memory_of(arrays: types.NamedTuple) -> Memory:
    """The type that holds the addresses of a named tuple of arrays."""
    return Memory([Row(a.dtype) if a.ndim == 1 else Grid(a.dtype) for a in arrays.types], arrays.instance_class)


register_model(Row)(models.PointerModel)
register_model(Memory)(models.TupleModel)


@register_model(Grid)
class GridModel(models.StructModel):
    def __init__(self, dmm: DataModelManager, fe_type: Grid) -> None:
        super().__init__(dmm, fe_type, [("data", types.CPointer(fe_type.dtype)), ("length", types.intp)])


@lower_cast(types.Array, Row)
def array_to_row(
    context: BaseContext, builder: ir.IRBuilder, fromty: types.Array, toty: Row, val: ir.Value
) -> ir.Value:
    return context.make_array(fromty)(context, builder, val).data


@lower_cast(types.Array, Grid)
def array_to_grid(
    context: BaseContext, builder: ir.IRBuilder, fromty: types.Array, toty: Grid, val: ir.Value
) -> ir.Value:
    array = context.make_array(fromty)(context, builder, val)
    grid = cgutils.create_struct_proxy(toty)(context, builder)
    grid.data = array.data
    grid.length = builder.extract_value(array.shape, 1)
    return grid._getvalue()


@lower_cast(types.NamedTuple, Memory)
def arrays_to_memory(
    context: BaseContext, builder: ir.IRBuilder, fromty: types.NamedTuple, toty: Memory, val: ir.Value
) -> ir.Value:
    arrays = cgutils.unpack_tuple(builder, val, len(fromty))
    items = [context.cast(builder, v, a, b) for v, a, b in zip(arrays, fromty.types, toty.types, strict=True)]
    return context.make_tuple(builder, toty, items)


def _is_place(idx: types.Type) -> bool:
    return isinstance(idx, types.BaseTuple) and len(idx) == 2 and all(isinstance(n, types.Integer) for n in idx)


PLACE = types.UniTuple(types.intp, 2)


@infer_global(operator.getitem)
class GetFromGrid(AbstractTemplate):
    def generic(self, args: tuple[types.Type, ...], kws: dict[str, types.Type]) -> Signature | None:
        grid, place = args
        return signature(grid.dtype, grid, PLACE) if isinstance(grid, Grid) and _is_place(place) else None


@infer_global(operator.setitem)
class SetInGrid(AbstractTemplate):
    def generic(self, args: tuple[types.Type, ...], kws: dict[str, types.Type]) -> Signature | None:
        grid, place, _ = args
        return signature(types.none, grid, PLACE, grid.dtype) if isinstance(grid, Grid) and _is_place(place) else None


def _address(context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
    grid = cgutils.create_struct_proxy(sig.args[0])(context, builder, args[0])
    row, column = cgutils.unpack_tuple(builder, args[1], 2)
    return builder.gep(grid.data, [builder.add(builder.mul(row, grid.length, flags=["nsw"]), column, flags=["nsw"])])


@lower_builtin(operator.getitem, Grid, types.BaseTuple)
def get_from_grid(context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
    return builder.load(_address(context, builder, sig, args))


@lower_builtin(operator.setitem, Grid, types.BaseTuple, types.Any)
def set_in_grid(context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
    builder.store(args[2], _address(context, builder, sig, args))
    return context.get_dummy_value()
