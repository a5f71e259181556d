"""The social media case of TTC 2018: both queries are correct after the load and after each of the 20 change sets."""

from __future__ import annotations

from datetime import datetime

import pytest

from bench.models import ttc
from perseid.engines.models.live import LiveModel
from perseid.reference.models import Recomputed
from perseid.semantics.graphs import Change

SMALL = (1, 2, 4)


@pytest.mark.parametrize("which", ttc.TEXTS)
@pytest.mark.parametrize(
    "size", [size if size in SMALL else pytest.param(size, marks=pytest.mark.deep) for size in ttc.SIZES]
)
def test_results_are_the_published_ones(size: int, which: str) -> None:
    if not ttc.ARCHIVE.exists():
        pytest.skip(f"no models/{ttc.ARCHIVE.name} in the folder of real data, which PERSEID_DATA names")
    case = ttc.read([size])[size]
    model = LiveModel(ttc.queries(which))
    for time, changes in enumerate([case.initial, *case.changes]):
        assert not model.transact(time, changes).refused
        for query, right in case.right.items():
            if query in which:
                standing = model.matches[query.lower()].standing
                assert ttc.first_three(standing, model.graph) == right[time], (query, time)


def test_scores_of_a_hand_worked_model() -> None:
    """Post 10 has comment 20, which has reply 21; users 1 and 2 are friends, user 3 has no friends."""
    rows = [
        *(("Users", [str(user), "name"]) for user in (1, 2, 3)),
        ("Posts", ["10", "2010-01-01 00:00:00", "text", "1"]),
        ("Posts", ["11", "2010-01-02 00:00:00", "", "1"]),
        ("Comments", ["20", "2010-01-03 00:00:00", "text", "2", "10"]),
        ("Comments", ["21", "2010-01-04 00:00:00", "text", "3", "20"]),
        *(("Likes", [str(user), "20"]) for user in (1, 2, 3)),
        ("Likes", ["1", "21"]),
        ("Friends", ["1", "2"]),
        ("Friends", ["2", "1"]),
    ]
    reader = ttc.RowReader()
    changes = [change for table, row in rows for change in reader.changes(table, row)]
    assert Change("link", 21, "root", target=10) in changes
    assert Change("set", 10, attribute="at", value=datetime(2010, 1, 1)) in changes
    for model in (Recomputed(ttc.queries("Q1 and Q2")), LiveModel(ttc.queries("Q1 and Q2"))):
        found = {(c.query, c.match) for c in model.transact(0, changes).changes if c.query in ("q1", "q2")}
        # Two comments and four likes; {1, 2} and {3} like comment 20: four and one.
        assert found == {("q1", (10, 24)), ("q1", (11, 0)), ("q2", (20, 5)), ("q2", (21, 1))}
    result = model.transact(1, [Change("unlink", 1, "friends", target=2), Change("unlink", 2, "friends", target=1)])
    assert [(c.change, c.match) for c in result.changes if c.query == "q2"] == [("lost", (20, 5)), ("found", (20, 3))]
