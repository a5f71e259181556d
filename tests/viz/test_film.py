"""Drawings of what is believed: the numbers are the engine's, and a page can be read."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

import perseid as ps
from perseid.engines.uncertain.floor import floor_cells

PLAN = ps.uncertain.floor_plan([("hall", "stairs"), ("hall", "coffee")], stay=0.5)
MODEL = ps.uncertain.hidden_markov(
    transitions=PLAN,
    initial={"hall": 1.0},
    readings={"hall": {"h": 0.5, None: 0.5}, "stairs": {"s": 1.0}, "coffee": {None: 1.0}},
)
COFFEE = ps.pattern(
    "pattern coffee match At [place = 'hall'] -> At [place = 'coffee'] within forever partition by who selection successor"
)


def walked(*read: str | None, who: str = "ann", was: str | None = None) -> list[dict[str, object]]:
    return [{"ts": at, "who": who, "r": reading, "was": was} for at, reading in enumerate(read)]


def stream(rows: list[dict[str, object]], **more: object) -> ps.uncertain.UncertainEvents:
    kind = {"event_type": "At", "key": "who", "value": "place", "reading": "r", "model": MODEL, "every": "1 second"}
    return ps.uncertain_events(rows, **{**kind, **more})  # type: ignore[arg-type]


def words(svg: str) -> list[str]:
    """All texts of a picture, which is well formed."""
    return ["".join(node.itertext()) for node in ElementTree.fromstring(svg).iter() if node.tag.endswith("}text")]


def test_bars() -> None:
    """In the hall; then silence: hall 0.5 * 0.5, coffee 0.25 * 1, each half of it."""
    assert COFFEE.draw(stream=stream(walked("h", None))) == (
        "time      read     hall      stairs    coffee    coffee\n"
        "00:00:00  h        ########                      0.0000\n"
        "00:00:01  nothing  ####                ####      0.5000\n"
    )


def test_a_strip_of_floor_plans() -> None:
    drawn = COFFEE.draw("svg", stream=stream(walked("h", None, was="hall")), truth="was")
    assert words(drawn) == [
        "00:00:00", "hall", "100 %", "stairs", "coffee", "h", "coffee  p=0",
        "00:00:01", "hall", "50 %", "stairs", "coffee", "50 %", "no reading", "coffee  p=0.50",
        "probability, 0 to 100 %", "reading", "true value",
    ]  # fmt: skip
    assert "Probability of each value for who ann" in drawn


def test_the_inference_is_that_of_the_stream() -> None:
    """The next reading is of the stairs, which only the hall leads to."""
    drawn = COFFEE.draw(stream=stream(walked("h", None, "s"), inference="smooth")).splitlines()
    assert drawn[2] == "00:00:01  nothing  ########                      0.0000"


def test_distributions_have_no_doors_and_what_is_missing_is_no_event() -> None:
    rows = [{"ts": 1, "place": "a & b", "p": 0.25}, {"ts": 2, "place": "c", "p": 0.004}]
    both = ps.pattern("pattern p match At [place = 'a & b'] within forever selection successor")
    at = ps.uncertain_events(rows, event_type="At", value="place", every="1 second")
    drawn = both.draw("svg", stream=at)
    assert words(drawn)[:5] == ["00:00:01", "a & b", "25 %", "c", "p  p=0.25"]
    assert "< 1 %" in words(drawn)
    assert both.draw(stream=at).splitlines()[2] == "00:00:02            .         0.0000"


def test_one_key_is_drawn() -> None:
    rows = walked("h") + walked("h", "s", who="bob")
    with pytest.raises(ps.errors.EventDataError, match="the rows have 2 keys") as caught:
        COFFEE.draw(stream=stream(rows))
    assert "key=" in (caught.value.hint or "")
    for key in ("bob", ("bob",), {"who": "bob"}):
        assert len(COFFEE.draw(stream=stream(rows), key=key).splitlines()) == 3
    with pytest.raises(ps.errors.EventDataError, match="Key 'eve' not found in the rows of At"):
        COFFEE.draw(stream=stream(rows), key="eve")


def test_long_names_and_odd_signs() -> None:
    long = "a very long name of a room\x01<>"
    rows = [{"ts": 1, "place": long, "p": 1.0}]
    asked = ps.pattern("pattern p match At within forever selection successor")
    drawn = asked.draw("svg", stream=ps.uncertain_events(rows, event_type="At", value="place", every="1 second"))
    name = words(drawn)[1]
    assert name == "a very long name of a room·<>" + "a very lo…", "the whole name is there to point at"


def test_what_is_not_drawn() -> None:
    at = stream(walked("h"))
    for run, wrong in (
        (lambda: COFFEE.draw("mermaid", stream=at), "Unsupported format 'mermaid'"),
        (lambda: COFFEE.draw("pdf"), "Unsupported drawing format 'pdf'"),
        (lambda: COFFEE.draw(stream=ps.events([])), "this stream is certain"),
        (lambda: COFFEE.draw(stream=at, truth="where"), "Column 'where' not found"),
        (lambda: COFFEE.draw(stream=stream(walked("h", was="moon")), truth="was"), "contains 'moon'"),
        (lambda: COFFEE.draw(stream=stream(walked(*["h"] * 61))), "at most 60 steps, got 61"),
        (lambda: COFFEE.draw(stream=stream([])), "the rows have 0 keys"),
        (lambda: COFFEE.draw(stream=at.combine(stream(walked("h"), event_type="Too"))), "one uncertain stream"),
    ):
        with pytest.raises(ps.PerseidError, match=re.escape(wrong)):
            run()


def test_rooms_with_a_door_between_them_share_a_wall() -> None:
    """A corridor of four, a room on two of them, and one that nothing leads to."""
    cells = floor_cells(7, [(0, 1), (1, 2), (2, 3), (1, 4), (2, 5)])
    assert cells == [(0, 1), (1, 1), (2, 1), (3, 1), (1, 0), (2, 0), (0, 2)]
    ring = floor_cells(5, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)])
    assert len(set(ring)) == 5
