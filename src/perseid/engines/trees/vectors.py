"""Several bytes of a document at once, by SIMD instructions that Numba does not expose.

All functions may read REACH bytes from an offset, wherever their input ends: the caller makes sure that these exist.
"""
# mypy: ignore-errors
# Numba's internals are not annotated.

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from perseid.engines.trees.layout import Bytes, compiled
from perseid.runtime.jit import build_with

if TYPE_CHECKING:
    from llvmlite import ir
    from numba.core.types import Type
    from numba.core.typing.templates import Signature

REACH = 16
WORD = 7
"""Bytes of a word: one fewer than an int64 has, so that no word is negative."""
WORD_BITS = (1 << 8 * WORD) - 1


def _plain_word(D: Bytes, at: int) -> int:
    return int.from_bytes(D[at : at + WORD].tobytes(), "little")


def _word_intrinsic() -> object:
    from numba.core import types
    from numba.extending import intrinsic

    ir = _ir()

    @intrinsic
    def word(typingctx: object, row: Type, at: Type) -> tuple[Signature, Callable[..., ir.Value]]:
        def code(context: object, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]) -> ir.Value:
            return builder.and_(_load(builder, *args, ir.IntType(64)), ir.Constant(ir.IntType(64), WORD_BITS))

        return types.int64(row, types.int64), code

    return word


def _bytes_before(signs: bytes, least: int, most: int, also: bytes = b"") -> Callable[[Bytes, int], int]:
    """Count the bytes, up to ``REACH``, before the first that is not between two bounds or ``also``, or is in ``signs``."""
    fits = np.array([(least <= b <= most and b not in signs) or b in also for b in range(256)])

    def count(D: Bytes, at: int) -> int:
        odd = np.flatnonzero(~fits[D[at : at + REACH]])
        return int(odd[0]) if len(odd) else REACH

    def build() -> object:
        from numba.core import types
        from numba.extending import intrinsic

        ir = _ir()
        flags_type = ir.IntType(REACH)

        def code(context: object, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]) -> ir.Value:
            values = _load(builder, *args, ir.VectorType(ir.IntType(8), REACH))
            # From the least on, those below it lie above all others.
            odd = builder.icmp_unsigned(">", builder.sub(values, _all(least)), _all(most - least))
            for sign in also:
                odd = builder.and_(odd, builder.icmp_unsigned("!=", values, _all(sign)))
            for sign in signs:
                odd = builder.or_(odd, builder.icmp_unsigned("==", values, _all(sign)))
            flags = builder.zext(builder.bitcast(odd, flags_type), ir.IntType(64))
            flags = builder.or_(flags, ir.Constant(ir.IntType(64), 1 << REACH))
            return builder.cttz(flags, ir.Constant(ir.IntType(1), 1))

        def count(typingctx: object, row: Type, at: Type) -> tuple[Signature, Callable[..., ir.Value]]:
            return types.int64(row, types.int64), code

        return intrinsic(count)

    return build_with(count, build)


def _ir() -> ModuleType:
    from llvmlite import ir

    return ir


def _load(builder: ir.IRBuilder, row: ir.Value, at: ir.Value, kind: ir.Type) -> ir.Value:
    pointer = builder.bitcast(builder.gep(row, [at]), kind.as_pointer())
    return builder.load(pointer, align=1)


def _all(byte: int) -> ir.Constant:
    ir = _ir()
    return ir.Constant(ir.VectorType(ir.IntType(8), REACH), [byte] * REACH)


word = build_with(_plain_word, _word_intrinsic)
"""``WORD`` bytes as one number, the first of them the lowest."""
plain_bytes = _bytes_before(b"<&]", 0x20, 0x7F, also=b"\t\n")
"""Count leading bytes of text that need no processing."""
value_bytes = _bytes_before(b"\"'<&", 0x20, 0x7F)
"""Count leading bytes of an attribute value that need no processing."""
name_bytes = _bytes_before(b"/=>", 0x21, 0xFF)
"""Count leading bytes up to one that ends a name: white space, ``/``, ``=`` or ``>``."""


@compiled
def same_bytes(D: Bytes, at: int, N: Bytes, other_at: int, length: int) -> bool:
    """Return whether ``length`` bytes of two arrays are equal."""
    if length < WORD:
        return (word(D, at) ^ word(N, other_at)) & ((1 << 8 * length) - 1) == 0
    for k in range(0, length - WORD, WORD):
        if word(D, at + k) != word(N, other_at + k):
            return False
    last = length - WORD
    return word(D, at + last) == word(N, other_at + last)
