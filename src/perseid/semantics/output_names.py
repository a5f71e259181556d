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
    used = {*STANDARD_NAMES, *(EVIDENCE_NAMES if evidence else ())}
    key_columns = _choose(keys, used, "key_{}")
    return OutputNames(key_columns, _choose(returned, used, "{}_returned"))


def free_name(name: str, used: Iterable[str]) -> str:
    """The name, with underscores appended until it is free."""
    while name in used:
        name += "_"
    return name


def _choose(names: tuple[str, ...], used: set[str], otherwise: str) -> tuple[str, ...]:
    """A column name for each name, in order. Free names are unchanged and reserved first; ``used`` is updated."""
    free = {name for name in names if name not in used}
    used |= free
    chosen = []
    for name in names:
        if name not in free:
            name = free_name(otherwise.format(name), used)  # noqa: PLW2901
            used.add(name)
        chosen.append(name)
    return tuple(chosen)
