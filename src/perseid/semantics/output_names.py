"""Names of the output columns of matches: standard columns, keys, returned columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

STANDARD_NAMES = ("pattern", "match_id", "kind", "op", "revision", "start", "end")
"""The columns of every row; key columns and returned columns follow."""
EVIDENCE_NAMES = ("evidence", "evidence_dropped")
"""The columns of patterns with evidence."""


@dataclass(frozen=True, slots=True)
class OutputNames:
    """The output columns of one pattern; all names differ."""

    keys: tuple[str, ...]
    returned: tuple[str, ...]


@lru_cache(maxsize=1024)
def output_names(keys: tuple[str, ...], returned: tuple[str, ...], evidence: bool) -> OutputNames:
    """Name the columns of keys and returned values; a name that is taken gets ``key_`` before it or ``_returned`` after."""
    taken = {*STANDARD_NAMES, *(EVIDENCE_NAMES if evidence else ())}
    key_columns = _choose(keys, taken, "key_{}")
    return OutputNames(key_columns, _choose(returned, taken, "{}_returned"))


def free_name(name: str, taken: Iterable[str]) -> str:
    """The name, with underscores appended until it is free."""
    while name in taken:
        name += "_"
    return name


def _choose(names: tuple[str, ...], taken: set[str], otherwise: str) -> tuple[str, ...]:
    """A column name for each name, in order. Free names are unchanged and reserved first; ``taken`` is updated."""
    kept = {name for name in names if name not in taken}
    taken |= kept
    chosen = []
    for name in names:
        if name not in kept:
            name = free_name(otherwise.format(name), taken)  # noqa: PLW2901
            taken.add(name)
        chosen.append(name)
    return tuple(chosen)
