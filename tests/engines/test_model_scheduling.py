"""The cost of a transaction depends on its changes: operators without changed inputs do not run."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from bench.models import ttc
from perseid.engines.models.live import LiveModel
from perseid.engines.models.ranks import in_order
from perseid.engines.models.top import TopRows
from perseid.errors import UnknownNameError
from perseid.lang.parser import parse_models
from perseid.reference.models import Recomputed
from perseid.semantics.graphs import Change
from perseid.semantics.metamodels import kinds_of
from perseid.semantics.model_queries import check_queries
from perseid.semantics.model_values import ordered

LOAD = [
    Change("create", 1, "User"),
    Change("create", 2, "User"),
    Change("create", 10, "Post"),
    Change("create", 20, "Comment"),
    Change("link", 20, "root", target=10),
    Change("link", 1, "likes", target=20),
]


def test_only_selected_queries_report_changes() -> None:
    queries = ttc.queries("Q1 and Q2")
    all_of_them, some, oracle = LiveModel(queries), LiveModel(queries, ["q2", "q1"]), Recomputed(queries)
    more = [Change("link", 2, "likes", target=20), Change("set", 10, attribute="at", value=datetime(2020, 1, 1))]
    for time, changes in enumerate((LOAD, more, [Change("delete", 2)])):
        everything = all_of_them.transact(time, changes).changes
        assert everything == oracle.transact(time, changes).changes
        changes_ = some.transact(time, changes).changes
        assert changes_ == [change for change in everything if change.query in ("q1", "q2")]
        assert changes_
    assert set(some.matches) == {"q1", "q2"}


def test_a_query_that_is_not_there_cannot_be_wanted() -> None:
    with pytest.raises(UnknownNameError, match="q3"):
        LiveModel(ttc.queries("Q1"), ["q3"])


def noted(own: Any, kind: str, ran: list[str]) -> Any:
    def run(*given: Any) -> Any:
        ran.append(kind)
        return own(*given)

    return run


def test_operators_run_only_if_an_input_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = LiveModel(ttc.queries("Q1 and Q2"))
    model.transact(0, LOAD)
    ran: list[str] = []
    for operator in model.network.operators:
        name = "step" if operator.inputs else "read"
        monkeypatch.setattr(operator, name, noted(getattr(operator, name), type(operator).__name__, ran))
    model.transact(1, [])
    model.transact(2, [Change("set", 1, attribute="name", value="no query asks for names")])
    assert ran == []
    model.transact(3, [Change("link", 1, "friends", target=2)])
    # The join that finds friends among those who like a comment; user 1 is the only one who likes this comment.
    assert ran == ["EdgeRows", "Join"]


def test_matches_are_ordered_as_in_the_oracle() -> None:
    for matches in (
        {(3, "b"), (3, "a"), (-1, "z")},
        {(None, 2), (1, 2), (None, 1)},
        {(1.5, True), (float("-inf"), False), (2.0, True)},
        {(10**15,), (9,)},
    ):
        assert list(in_order(matches)) == ordered(matches)


def test_changes_below_the_top_rows_do_not_grow_the_heap() -> None:
    text = "model m node Player (points bigint) query best(player) find player: Player top 2 by player.points"
    file = parse_models(text)
    assert file.metamodel is not None
    model = LiveModel(check_queries(kinds_of(file.metamodel), file.queries))
    model.transact(0, [Change("create", player, "Player") for player in (1, 2, 3)])
    model.transact(1, [Change("set", player, attribute="points", value=10_000) for player in (1, 2)])
    for time in range(2, 500):
        assert not model.transact(time, [Change("set", 3, attribute="points", value=time)]).changes[1:]
    (top,) = (operator for operator in model.network.operators if isinstance(operator, TopRows))
    assert len(top.groups[()].heap) < 100
    assert model.matches["best"].standing == {(1,), (2,)}
    changes_ = model.transact(500, [Change("set", 2, attribute="points", value=0)])
    assert [(change.change, change.match) for change in changes_.changes] == [("lost", (2,)), ("found", (3,))]
