"""Drawings of uncertain streams: they show the probabilities of the engine in a readable layout."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

import perseid as ps
from perseid.engines.uncertain.floor_plan import floor_cells

PLAN = ps.uncertain.floor_plan([("hall", "stairs"), ("hall", "coffee")], stay=0.5)
MODEL = ps.uncertain.hidden_markov(
    transitions=PLAN,
    initial={"hall": 1.0},
    readings={"hall": {"h": 0.5, None: 0.5}, "stairs": {"s": 1.0}, "coffee": {None: 1.0}},
)
COFFEE = ps.pattern(
    "pattern coffee match At [place = 'hall'] -> At [place = 'coffee'] within forever partition by who selection successor"
)


def readings_of(*read: str | None, who: str = "ann", was: str | None = None) -> list[dict[str, object]]:
    return [{"ts": at, "who": who, "r": reading, "was": was} for at, reading in enumerate(read)]


def stream(rows: list[dict[str, object]], **more: object) -> ps.uncertain.UncertainEvents:
    kind = {"event_type": "At", "key": "who", "value": "place", "reading": "r", "model": MODEL, "every": "1 second"}
    return ps.uncertain_events(rows, **{**kind, **more})  # type: ignore[arg-type]


def texts_of(svg: str) -> list[str]:
    """Parse an SVG picture and return all its texts."""
    return ["".join(node.itertext()) for node in ElementTree.fromstring(svg).iter() if node.tag.endswith("}text")]


def test_text_drawing_has_a_bar_for_each_probability() -> None:
    """In the hall, then no reading: hall 0.5 * 0.5 and coffee 0.25 * 1, so each has probability 0.5."""
    assert COFFEE.draw(stream=stream(readings_of("h", None))) == (
        "time      read     hall      stairs    coffee    coffee\n"
        "00:00:00  h        ########                      0.0000\n"
        "00:00:01  nothing  ####                ####      0.5000\n"
    )


def test_svg_drawing_has_a_floor_plan_for_each_step() -> None:
    drawn = COFFEE.draw("svg", stream=stream(readings_of("h", None, was="hall")), truth="was")
    assert texts_of(drawn) == [
        "00:00:00", "hall", "100 %", "stairs", "coffee", "h", "coffee  p=0",
        "00:00:01", "hall", "50 %", "stairs", "coffee", "50 %", "no reading", "coffee  p=0.50",
        "probability, 0 to 100 %", "reading", "true value",
    ]  # fmt: skip
    assert "Probability of each value for who ann" in drawn


def test_drawing_uses_the_inference_of_the_stream() -> None:
    """The next reading is of the stairs, which are reached only from the hall."""
    drawn = COFFEE.draw(stream=stream(readings_of("h", None, "s"), inference="smooth")).splitlines()
    assert drawn[2] == "00:00:01  nothing  ########                      0.0000"


def test_distributions_are_drawn_without_doors_and_with_no_event_as_the_rest() -> None:
    rows = [{"ts": 1, "place": "a & b", "p": 0.25}, {"ts": 2, "place": "c", "p": 0.004}]
    both = ps.pattern("pattern p match At [place = 'a & b'] within forever selection successor")
    at = ps.uncertain_events(rows, event_type="At", value="place", every="1 second")
    drawn = both.draw("svg", stream=at)
    assert texts_of(drawn)[:5] == ["00:00:01", "a & b", "25 %", "c", "p  p=0.25"]
    assert "< 1 %" in texts_of(drawn)
    assert both.draw(stream=at).splitlines()[2] == "00:00:02            .         0.0000"


def test_only_one_key_is_drawn() -> None:
    rows = readings_of("h") + readings_of("h", "s", who="bob")
    with pytest.raises(ps.errors.EventDataError, match="the rows have 2 keys") as caught:
        COFFEE.draw(stream=stream(rows))
    assert "key=" in (caught.value.hint or "")
    for key in ("bob", ("bob",), {"who": "bob"}):
        assert len(COFFEE.draw(stream=stream(rows), key=key).splitlines()) == 3
    with pytest.raises(ps.errors.EventDataError, match="Key 'eve' not found in the rows of At"):
        COFFEE.draw(stream=stream(rows), key="eve")


def test_long_names_are_shortened_and_control_characters_replaced() -> None:
    long = "a very long name of a room\x01<>"
    rows = [{"ts": 1, "place": long, "p": 1.0}]
    pattern = ps.pattern("pattern p match At within forever selection successor")
    drawn = pattern.draw("svg", stream=ps.uncertain_events(rows, event_type="At", value="place", every="1 second"))
    name = texts_of(drawn)[1]
    assert name == "a very long name of a room·<>" + "a very lo…", "the title has the whole name"


def test_unsupported_drawing_is_an_error() -> None:
    at = stream(readings_of("h"))
    for run, wrong in (
        (lambda: COFFEE.draw("mermaid", stream=at), "Unsupported format 'mermaid'"),
        (lambda: COFFEE.draw("pdf"), "Unsupported drawing format 'pdf'"),
        (lambda: COFFEE.draw(stream=ps.events([])), "this stream is certain"),
        (lambda: COFFEE.draw(stream=at, truth="where"), "Column 'where' not found"),
        (lambda: COFFEE.draw(stream=stream(readings_of("h", was="moon")), truth="was"), "contains 'moon'"),
        (lambda: COFFEE.draw(stream=stream(readings_of(*["h"] * 61))), "at most 60 steps, got 61"),
        (lambda: COFFEE.draw(stream=stream([])), "the rows have 0 keys"),
        (lambda: COFFEE.draw(stream=at.combine(stream(readings_of("h"), event_type="Too"))), "one uncertain stream"),
    ):
        with pytest.raises(ps.PerseidError, match=re.escape(wrong)):
            run()


def test_rooms_with_a_door_between_them_are_adjacent() -> None:
    """A corridor of four cells, rooms on two of them, and one unconnected room."""
    cells = floor_cells(7, [(0, 1), (1, 2), (2, 3), (1, 4), (2, 5)])
    assert cells == [(0, 1), (1, 1), (2, 1), (3, 1), (1, 0), (2, 0), (0, 2)]
    ring = floor_cells(5, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)])
    assert len(set(ring)) == 5
