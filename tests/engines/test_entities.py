"""The table of named characters: every name is found, and no similar name."""

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
def call_entity(data: Bytes, begin: int, end: int) -> int:
    """Calls `entity` from compiled code, which an inlined kernel cannot be called from directly."""
    return entity(data, begin, end)


def code(name: bytes) -> int:
    """Looks up a name in the middle of other bytes."""
    return call_entity(np.frombuffer(b"x&" + name + b";amp;", np.uint8), 2, 2 + len(name))


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_every_name(name: str) -> None:
    assert code(name.encode()) == KNOWN[name]


def test_the_table_is_in_order_and_whole() -> None:
    names = [ENTITY_NAMES[a:b].tobytes() for a, b in pairwise(ENTITY_AT)]
    assert names == sorted(names)
    assert len(names) == len(set(names)) == len(ENTITY_CODES) == ENTITIES == len(KNOWN)
    assert ENTITY_AT[-1] == len(ENTITY_NAMES)


def test_similar_names_are_not_found() -> None:
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
def test_invalid_names_are_not_found(name: bytes) -> None:
    assert code(name) == -1


def test_the_end_of_the_bytes_is_the_end_of_the_name() -> None:
    given = np.frombuffer(b"auml", np.uint8)
    assert call_entity(given, 0, 4) == KNOWN["auml"]
    assert call_entity(given, 1, 4) == KNOWN["uml"]
    assert call_entity(given, 0, 3) == call_entity(given, 2, 4) == call_entity(given, 4, 4) == -1
