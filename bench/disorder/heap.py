"""Binary heap of numbers for compiled loops; the first word is the number of entries."""

from __future__ import annotations

from perseid.engines.sequence.layout import Ints, compiled

FACTOR = 1 << 24
"""An entry is a time in units, times this, plus a position."""


@compiled
def push(H: Ints, number: int) -> None:
    H[0] += 1
    i = H[0]
    while i > 1 and H[i // 2] > number:
        H[i] = H[i // 2]
        i //= 2
    H[i] = number


@compiled
def pop(H: Ints) -> int:
    least, number = H[1], H[H[0]]
    H[0] -= 1
    i = 1
    while 2 * i <= H[0]:
        child = 2 * i
        if child < H[0] and H[child + 1] < H[child]:
            child += 1
        if H[child] >= number:
            break
        H[i] = H[child]
        i = child
    H[i] = number
    return int(least)
