"""The table of named characters: every name, and nothing that is almost one."""

from __future__ import annotations

import string
from html.entities import name2codepoint
from itertools import pairwise

import numpy as np
import pytest

from perseid.engines.trees.entities import ENTITIES, ENTITY_AT, ENTITY_CODES, ENTITY_NAMES, entity
from perseid.engines.trees.layout import Bytes, entry

KNOWN = {**name2codepoint, "apos": ord("'")}


@entry
def looked_up(data: Bytes, begin: int, end: int) -> int:
    """Kernels alone can call what is no entry."""
    return entity(data, begin, end)


def code(name: bytes) -> int:
    """Looked up where it mostly is: in the middle of other bytes."""
    return looked_up(np.frombuffer(b"x&" + name + b";amp;", np.uint8), 2, 2 + len(name))


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_every_name(name: str) -> None:
    assert code(name.encode()) == KNOWN[name]


def test_the_table_is_in_order_and_whole() -> None:
    names = [ENTITY_NAMES[a:b].tobytes() for a, b in pairwise(ENTITY_AT)]
    assert names == sorted(names)
    assert len(names) == len(set(names)) == len(ENTITY_CODES) == ENTITIES == len(KNOWN)
    assert ENTITY_AT[-1] == len(ENTITY_NAMES)


def test_what_is_almost_a_name() -> None:
    letters = string.ascii_letters + string.digits
    for name in KNOWN:
        near = {name[:length] for length in range(len(name))}
        near |= {name + letter for letter in letters} | {letter + name for letter in letters}
        near |= {name.upper(), name.lower(), name.swapcase(), name + "\x00", name + ";", "&" + name, name * 2}
        for other in near:
            assert code(other.encode()) == KNOWN.get(other, -1), other


@pytest.mark.parametrize(
    "name",
    [b"", b"\x00", b"\xff", b"\xc3\xbc", b"#252", b"#xFC", b" uuml", b"uuml ", b"NOBODY", b"zzzz", b"a" * 1_000_000],
    ids=lambda name: repr(name[:10]),
)
def test_what_is_no_name(name: bytes) -> None:
    assert code(name) == -1


def test_the_end_of_the_bytes_is_the_end_of_the_name() -> None:
    given = np.frombuffer(b"auml", np.uint8)
    assert looked_up(given, 0, 4) == KNOWN["auml"]
    assert looked_up(given, 1, 4) == KNOWN["uml"]
    assert looked_up(given, 0, 3) == looked_up(given, 2, 4) == looked_up(given, 4, 4) == -1
