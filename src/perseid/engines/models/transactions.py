"""Buffered changes and events, and their grouping into transactions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from perseid.semantics.graphs import Change, Happening, have_equal_ranks, in_turn, is_tied
from perseid.semantics.values import Value

Key: TypeAlias = "tuple[Value, ...]"
Transaction: TypeAlias = "tuple[Key, int, Sequence[Change | Happening]]"
"""All changes of one model at one time, in order."""


@dataclass(slots=True)
class BufferedChange:
    """A buffered change of a model, or an event next to it; ``rank`` orders those of one time."""

    key: Key
    time: int
    rank: tuple[Value, ...]
    change: Change | Happening


def transactions(buffered: Iterable[BufferedChange]) -> Iterator[Transaction]:
    """Group the changes of one model and time: models in order of first occurrence, each in time order."""
    models: dict[Key, list[BufferedChange]] = {}
    for one in buffered:
        models.setdefault(one.key, []).append(one)
    for key, model_changes in models.items():
        model_changes.sort(key=lambda one: (one.time, *in_turn(one.rank, one.change)))
        start = 0
        for end in range(1, len(model_changes) + 1):
            if end == len(model_changes) or model_changes[end].time != model_changes[start].time:
                yield key, model_changes[start].time, _mark_ties(model_changes[start:end])
                start = end


def _mark_ties(buffered: list[BufferedChange]) -> list[Change | Happening]:
    """Return the changes of one transaction in order; assignments that their ranks do not order are marked as tied."""
    found: list[Change | Happening] = []
    for number, one in enumerate(buffered):
        change, before = one.change, buffered[number - 1]
        if number and is_tied(before.change, change) and have_equal_ranks(before.rank, one.rank):
            change = replace(change, tied=True)  # type: ignore[arg-type]
        found.append(change)
    return found
