"""Changes of a model: the effect of each, the reasons of rejections, and that a rejection changes nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

from perseid.errors import PatternError, PerseidError
from perseid.lang.parser import parse_models
from perseid.semantics.graphs import NAN, AppliedChange, Change, Graph, canonical, same
from perseid.semantics.metamodels import kinds_of
from perseid.semantics.model_changes import applied, touched

TEXT = """
model site
abstract node Thing (n bigint)
node Host is Thing (x double, at timestamp, on boolean, cost decimal(6,2))
node Task is Thing
edge near Host -> Host
edge on Task -> Host one
edge about Thing -> Thing
"""


def graph(*changes: Change) -> Graph:
    metamodel = parse_models(TEXT).metamodel
    assert metamodel is not None
    made = Graph(kinds_of(metamodel))
    for change in changes:
        made.apply(change)
    return made


def create(kind: str, *elements: str) -> list[Change]:
    return [Change("create", element, kind) for element in elements]


def link(source: str, edge: str, target: str | None) -> Change:
    return Change("link", source, edge, target=target)


def put(element: str, attribute: str, value: object) -> Change:
    return Change("set", element, None, attribute, value)


SOME = (*create("Host", "a", "b"), *create("Task", "t"), link("a", "near", "b"), link("t", "on", "a"))


def snapshot(made: Graph) -> tuple[Any, ...]:
    edges = {(edge, *ends) for edge in made.kinds.edges for ends in made.edges(edge)}
    return dict(made.nodes), dict(made.values), edges


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (Change("create", "a", "Host"), "Node 'a' already exists, with type Host."),
        (Change("create", "c", "Thing"), "Node type Thing is abstract."),
        (Change("create", "c", "Hots"), "Unknown node type 'Hots'."),
        (Change("create", "c"), "Unknown node type None."),
        (Change("create", None, "Host"), "Cannot create a node without a name."),  # type: ignore[arg-type]
        (Change("delete", "c"), "Node 'c' not found in the model."),
        (put("c", "n", 1), "Node 'c' not found in the model."),
        (put("a", "m", 1), "Unknown attribute 'm' of Host."),
        (put("t", "x", 1.0), "Unknown attribute 'x' of Task."),
        (put("a", "n", "one"), "Host.n: expected bigint, got 'one'."),
        (put("a", "n", 1.5), "Host.n: expected bigint, got 1.5."),
        (put("a", "n", True), "Host.n: expected bigint, got True."),
        (put("a", "n", 2**63), "Host.n: expected bigint, got 9223372036854775808."),
        (put("a", "n", Graph), f"Host.n: expected bigint, got {Graph!r}."),
        (put("a", "at", "once"), "Host.at: expected timestamp, got 'once'."),
        (put("a", "on", 1), "Host.on: expected boolean, got 1."),
        (link("a", "near", "b"), "Edge 'a' -near-> 'b' already exists."),
        (link("a", "neer", "b"), "Unknown edge 'neer'."),
        (link("a", "near", "t"), "Edge near: expected a Host, got 't', a Task."),
        (link("t", "near", "a"), "Edge near: expected a Host, got 't', a Task."),
        (link("a", "near", "c"), "Node 'c' not found in the model."),
        (link("a", "near", None), "Node None not found in the model."),
        (link("t", "on", "b"), "'t' already has an edge on; at most one is allowed."),
        (Change("unlink", "b", "near", target="a"), "Edge 'b' -near-> 'a' not found."),
        (Change("unlink", "a", "near"), "Edge 'a' -near-> None not found."),
        (Change("unlink", "a", "neer", target="b"), "Unknown edge 'neer'."),
        (Change("rename", "a"), "Unknown change 'rename'. Available: create, delete, set, link, unlink."),  # type: ignore[arg-type]
    ],
)
def test_invalid_change_is_rejected_without_effect(change: Change, reason: str) -> None:
    made = graph(*SOME)
    before = snapshot(made)
    with pytest.raises(PerseidError) as caught:
        made.apply(change)
    assert caught.value.message == reason
    assert snapshot(made) == before
    # A rejected change does not prevent a valid one.
    assert made.apply(link("b", "near", "a")) == [AppliedChange("link", "b", "near", target="a")]


def test_rejected_change_does_not_end_a_transaction() -> None:
    made = graph()
    good, bad = create("Host", "a", "b"), Change("delete", "z")
    done, refused = applied(made, [good[0], bad, good[1]])
    assert [one.element for one in done] == ["a", "b"]
    assert refused == [(bad, "Node 'z' not found in the model.")]


def test_deleting_takes_the_edges_first_in_one_order() -> None:
    made = graph(*SOME, link("a", "near", "a"), link("b", "near", "a"), link("a", "about", "t"), put("a", "n", 3))
    assert made.apply(Change("delete", "a")) == [
        AppliedChange("unlink", "a", "about", target="t"),
        AppliedChange("unlink", "a", "near", target="a"),
        AppliedChange("unlink", "a", "near", target="b"),
        AppliedChange("unlink", "b", "near", target="a"),
        AppliedChange("unlink", "t", "on", target="a"),
        AppliedChange("delete", "a", "Host"),
    ]
    assert snapshot(made) == ({"b": "Host", "t": "Task"}, {}, set())


def test_a_node_of_an_old_name_starts_anew() -> None:
    made = graph(*SOME, put("a", "n", 3), Change("delete", "a"), *create("Task", "a"))
    assert made.value("a", "n") is None
    assert made.apply(link("a", "on", "b")) == [AppliedChange("link", "a", "on", target="b")]


def test_an_edge_that_is_one_can_be_moved() -> None:
    made = graph(*SOME, Change("unlink", "t", "on", target="a"), link("t", "on", "b"))
    assert list(made.edges("on")) == [("t", "b")]


@pytest.mark.parametrize(
    ("attribute", "given", "held"),
    [
        ("n", 3, 3),
        ("x", 3, 3.0),
        ("x", -0.0, 0.0),
        ("x", math.nan, NAN),
        ("x", math.inf, math.inf),
        ("on", False, False),
        ("at", datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC)),
        ("at", date(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC)),
        ("n", None, None),
        ("n", pd.NA, None),
        ("at", pd.NaT, None),
        ("at", np.datetime64("NaT"), None),
        ("at", np.datetime64("2020-01-01"), datetime(2020, 1, 1, tzinfo=UTC)),
        ("x", np.float32(0.5), 0.5),
    ],
)
def test_values_are_held_in_the_type_of_the_attribute(attribute: str, given: object, held: object) -> None:
    made = graph(*SOME)
    (done,) = made.apply(put("a", attribute, given))
    assert (done.old, repr(done.new)) == (None, repr(held))
    assert same(made.value("a", attribute), held)  # type: ignore[arg-type]
    (again,) = made.apply(put("a", attribute, None))
    assert same(again.old, held)  # type: ignore[arg-type]
    assert (again.new, made.values) == (None, {})


def test_one_nan_and_one_zero() -> None:
    assert canonical(math.inf - math.inf) is NAN
    assert math.copysign(1, canonical(-0.0)) == 1.0  # type: ignore[arg-type]
    assert {(canonical(math.nan),)} == {(canonical(-math.nan),)}


def test_changed_attributes_of_a_transaction() -> None:
    made = graph(*SOME)
    done, _ = applied(
        made,
        [
            put("a", "n", 1), put("a", "n", None),  # as it was
            put("b", "n", 1),
            link("b", "near", "a"), Change("unlink", "b", "near", target="a"),  # as it was
            Change("unlink", "t", "on", target="a"),
        ],
    )  # fmt: skip
    assert touched(done) == {"a", "b", "t"}
    assert touched(done[:2]) == set()
    assert touched(done[3:5]) == set()
    assert touched(done[5:]) == {"t", "a"}


# metamodels


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node A node A", "Duplicate node type 'A'."),
        ("node A edge e A -> A edge e A -> A", "Duplicate edge 'e'."),
        ("node A edge e A -> B", "Unknown node type 'B'."),
        ("node A is B", "Unknown node type 'B'."),
        ("node A is B node B is C node C is A", "Node type A inherits from itself."),
        ("node A is A", "Node type A inherits from itself."),
        ("node A (x bigint) node B is A (x double)", "Node type B has two attributes 'x' of different types."),
        (
            "node A (x bigint) node B (x double) node C is A, B",
            "Node type C has two attributes 'x' of different types.",
        ),
        ("node A (x bigint, x double)", "Node type A has two attributes 'x' of different types."),
    ],
)
def test_a_metamodel_that_cannot_be(text: str, message: str) -> None:
    metamodel = parse_models(f"model m {text}").metamodel
    assert metamodel is not None
    with pytest.raises(PatternError) as caught:
        kinds_of(metamodel)
    assert caught.value.message == message
    assert caught.value.span is not None
    assert caught.value.hint


def test_subtypes_inherit_attributes() -> None:
    text = "model m node A (x bigint) node B is A (y double) node C is A (x bigint) node D is B, C"
    metamodel = parse_models(text).metamodel
    assert metamodel is not None
    kinds = kinds_of(metamodel)
    assert set(kinds.attributes("D")) == {"x", "y"}
    assert kinds.above["D"] == {"A", "B", "C", "D"}
    assert kinds.below("A") == ["A", "B", "C", "D"]
    assert kinds.creatable("D") == "D"
    assert replace(metamodel) == metamodel
