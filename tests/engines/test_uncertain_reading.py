"""Encoding of rows as symbols of a pattern: their order, and the number of condition evaluations."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import perseid as ps
from perseid.engines.uncertain.ordering import begins, by_step, ordered
from perseid.engines.uncertain.symbols import Symbols
from perseid.runtime.key_encoding import numbered


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 200])
def test_rows_are_ordered_by_ranks_and_then_by_a_number(rows: int) -> None:
    chance = np.random.default_rng(rows)
    for most in (1, 3, 50):
        ranks = [chance.integers(0, most, rows) for _ in range(3)]
        last = chance.integers(0, 4, rows).astype(np.float64)
        assert ordered(ranks, last).tolist() == np.lexsort((last, *ranks[::-1])).tolist()


@pytest.mark.parametrize("width", [1, 1_000_000_000])
def test_steps_are_numbered_in_the_order_of_groups(width: int) -> None:
    chance = np.random.default_rng(width % 7)
    for shuffled in (True, False):
        unit, step = chance.integers(0, 5, 60), chance.integers(-4, 9, 60) * width
        if not shuffled:
            order = np.lexsort((step, unit))
            unit, step = unit[order], step[order]
        which, at = by_step(unit, step)
        pairs = sorted({*zip(unit.tolist(), step.tolist(), strict=True)})
        assert [*zip(unit[at].tolist(), step[at].tolist(), strict=True)] == pairs
        assert [pairs[i] for i in which] == [*zip(unit.tolist(), step.tolist(), strict=True)]
        counts = Counter(which.tolist())
        assert np.diff(begins(which, len(at))).tolist() == [counts[i] for i in range(len(at))]


def test_keys_are_numbered_by_the_first_row_that_has_them() -> None:
    for column in (pa.array(["b", None, "a", "b", None]), pa.array([10**12, None, 5, 10**12, None])):
        first, which = numbered([column], 5)
        assert sorted(first.tolist()) == [0, 1, 2]
        assert [column[int(first[i])] for i in which] == list(column)
    assert numbered([], 3)[1].tolist() == [0, 0, 0]
    assert numbered([], 0)[0].tolist() == []


def test_condition_is_evaluated_once_for_equal_symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each person in each place: a key variable only has to be present."""
    evaluated: list[Any] = []
    holds = Symbols.holds
    monkeypatch.setattr(Symbols, "holds", lambda *arguments: evaluated.append(arguments) or holds(*arguments))
    people, places = [f"p{i}" for i in range(50)], list("abcdef")
    rows = [{"ts": ts, "who": who, "place": place, "p": 0.1} for ts in range(3) for who in people for place in places]
    stream = ps.uncertain_events(rows, event_type="At", key="who", value="place", probability="p")
    pattern = ps.pattern(
        "pattern p match At(who as w) [place = 'a'] -> At(who as w) [place != 'b'] within forever after match skip none"
    )
    assert len(pattern.match(stream))
    assert len(evaluated) <= 2 * len(places) + 2 * 2
