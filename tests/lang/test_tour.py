"""The language tour: example files, the page that shows them, and the cheat sheet, which lists every keyword."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perseid.errors import NotYetError
from perseid.lang import ast
from perseid.lang.parser import parse_file
from perseid.lang.printer import KEYWORDS, print_pattern
from perseid.reference.oracle import oracle_matcher
from perseid.semantics.binding import bind
from perseid.semantics.detection import detect
from perseid.semantics.events import Event
from perseid.semantics.functions import FUNCTIONS
from perseid.semantics.resolve import resolve
from perseid.testing.cases import PatternCase, parse_cases

ROOT = Path(__file__).parents[2]
FILES = ("ordered", "disorder", "documents", "subscriptions", "beliefs", "models")
TOUR = (ROOT / "docs" / "language-tour.md").read_text(encoding="utf-8")
SHEET = (ROOT / "docs" / "cheat-sheet.md").read_text(encoding="utf-8")
VALUES: dict[str, dict[str, object]] = {
    "shoplifting": {"exits": ["north", "south"]},
    "copied_item": {"mine": ["https://example.org/a", "https://example.org/b"]},
    "flat_found": {"district": "Mitte"},
    "in_the_room": {"room": "r220"},
    "meeting": {"host": "ann", "guest": "bob"},
}

RUNS = """
== takeover
events
  a Login 0 user=u ip=1; b Login 10 user=u ip=2; t1 Transfer 20 user=u amount=6000
  t2 Transfer 30 user=u amount=5000; o Logout 40 user=u; t3 Transfer 50 user=u amount=9
gives a=a b=b t=t1,t2
why the transfer after the logout does not count

== card_testing
relation HomeCountries (DE) (FR)
events
  p1 Payment 0 card=c amount=1.00 merchant=m country=DE
  p2 Payment 10 card=c amount=2.00 merchant=n country=DE
  p3 Payment 20 card=c amount=1.00 merchant=m country=DE; l Login 25 card=c
  p4 Payment 30 card=c amount=900.00 merchant=z country=US
gives probe=p1,p2,p3 big=p4
why three small ones in a row; the large one need not follow at once

== v_shape
events
  t1 Tick 0 symbol=x price=100; t2 Tick 1 symbol=x price=99; t3 Tick 2 symbol=x price=97
  t4 Tick 3 symbol=x price=99; t5 Tick 4 symbol=x price=101; t6 Tick 5 symbol=x price=100
gives a=t1 down=t2,t3 up=t4,t5
why from 100 to 97 and up to 101

== checkout_funnel
events
  v View 0 session=s; i1 AddToCart 5 session=s price=10; i2 AddToCart 6 session=s price=5
  c Coupon 7 session=s
  o Checkout 8 session=s; p Payment 9 session=s amount=12; v2 View 100 session=s
  i3 AddToCart 110 session=s price=3
gives
  v=v item=i1,i2 c=c o=o p=p
  v=v2 item=i3
why the second visit stops at the cart and is reported as timed out

== warm_pallet
relation DockGates (d1)
relation ShopGates (s1)
events
  g Gate 0 tag=t gate=d1; r1 Reading 60 tag=t celsius=9; r2 Reading 300 tag=t celsius=10
  r3 Reading 2000 tag=t celsius=7; x Gate 3000 tag=t gate=s1
gives entry=g warm=r1 leaves=x
why it cools down only after the quarter of an hour

== shoplifting
events
  s1 Shelf 0 item=1; s2 Shelf 1 item=2; t Till 10 item=2; e1 Exit 20 item=1 door=north
  e2 Exit 21 item=2 door=north
gives s=s1 e=e1
why item 2 was paid

== returned_parcel
events
  a Placed 0 parcel=1; b Packed 1 parcel=1; d Shipped 2 parcel=1; e1 Depot 3 parcel=1; e2 Depot 4 parcel=1
  f Van 5 parcel=1; g Delivered 6 parcel=1; h Returned 7 parcel=1
gives
  placed=a packed=b shipped=d depot=e2 van=f delivered=g back=h
  placed=a packed=b shipped=d depot=e1 van=f delivered=g back=h
why every combination is a match

== silent_device
events
  h1 Heartbeat 0 device=d; h2 Heartbeat 60 device=d; h3 Heartbeat 900 device=d; m Maintenance 960 device=d
gives h=h2
why after h3 comes maintenance

== coffee
relation Rooms (c) (o)
relation CoffeeRooms (c)
events
  a At 0 person=p place=h1; b At 1 person=p place=h2; c At 2 person=p place=c
  d At 3 person=p place=h1; e At 4 person=p place=o; f At 5 person=p place=c
gives a=a b=b c=c
why the second time an office lies between

== straight_to_coffee
relation Office (p,o)
relation Hallways (h1) (h2)
relation CoffeeRooms (c)
events
  a At 0 person=p place=o; b At 1 person=p place=h2; c At 2 person=p place=h1; d At 3 person=p place=c
gives a=a h=b,c c=d
why only hallways lie between

== in_the_room
events
  a At 0 person=p place=r220; b At 10 person=p place=r220; c At 20 person=p place=r220
  d At 30 person=p place=r220
  e At 35 person=p place=x; f At 60 person=p place=r220
gives first_seen=a still=b,c,d
why half a minute is full at d, and no later start gets so far

== meeting
relation MeetingRooms (m)
events
  a At 0 person=ann place=m; b At 5 person=bob place=m; c At 30 person=ann place=m; d At 80 person=ann place=x
gives h=a g=b
why ann leaves more than a minute after bob came
"""


def _text(file: str) -> str:
    return (ROOT / "examples" / "patterns" / f"{file}.perseid").read_text(encoding="utf-8")


def _blocks(file: str) -> list[tuple[str, str]]:
    """Return the description and the text of each pattern; blank lines separate them."""
    out = []
    for block in _text(file).strip().split("\n\n"):
        comment, _, text = block.partition("\n")
        assert comment.startswith("-- "), f"{file}: a pattern has no description above it"
        out.append((comment.removeprefix("-- "), text))
    return out


BLOCKS = [(file, sentence, text) for file in FILES for sentence, text in _blocks(file)]
PATTERNS = [(file, p) for file in FILES for p in parse_file(_text(file)).patterns]


def _name(value: object) -> str | None:
    return value.name if isinstance(value, ast.PatternDefinition) else None


def test_all_example_files_are_listed() -> None:
    assert {path.stem for path in (ROOT / "examples" / "patterns").glob("*.perseid")} == set(FILES)


@pytest.mark.parametrize("file", FILES)
def test_each_file_has_four_patterns(file: str) -> None:
    assert len(parse_file(_text(file)).patterns) == len(_blocks(file)) == 4


def test_names_are_unique() -> None:
    assert len({p.name for _, p in PATTERNS}) == len(PATTERNS) == 24


@pytest.mark.parametrize(("file", "pattern"), PATTERNS, ids=_name)
def test_printed_pattern_parses_back(file: str, pattern: ast.PatternDefinition) -> None:
    assert parse_file(print_pattern(pattern)).patterns == (pattern,)


@pytest.mark.parametrize(("file", "pattern"), PATTERNS, ids=_name)
def test_pattern_resolves(file: str, pattern: ast.PatternDefinition) -> None:
    assert resolve(bind(pattern, VALUES.get(pattern.name))).name == pattern.name


@pytest.mark.parametrize("case", parse_cases(RUNS), ids=lambda c: c.title)
def test_oracle_finds_the_expected_matches(case: PatternCase) -> None:
    pattern = next(p for _, p in PATTERNS if p.name == case.title)
    core = resolve(bind(pattern, VALUES.get(pattern.name)))
    found = detect([core], case.events, oracle_matcher(), relations=case.relations).matches
    written = [" ".join(f"{k}={','.join(str(e.id) for e in v)}" for k, v in m.bindings.items()) for m in found]
    assert written == list(case.expected), case.why


@pytest.mark.parametrize("file", ["documents", "subscriptions", "models"])
def test_unsupported_pattern_is_a_not_yet_error(file: str) -> None:
    event = Event("Anything", 0, {}, "e", 0, ())
    for pattern in (p for f, p in PATTERNS if f == file and p.name != "repaired"):
        core = resolve(bind(pattern, VALUES.get(pattern.name)))
        with pytest.raises(NotYetError, match="no engine runs it"):
            detect([core], [event], oracle_matcher())


@pytest.mark.parametrize(("file", "sentence", "text"), BLOCKS, ids=lambda v: v if v in FILES else "")
def test_tour_shows_the_pattern(file: str, sentence: str, text: str) -> None:
    assert f"\n\n{sentence}\n\n```perseid\n{text}\n```\n" in TOUR


def test_all_code_blocks_of_the_tour_parse() -> None:
    shown = re.findall(r"```perseid\n(.*?)```", TOUR, re.DOTALL)
    assert len(shown) == len(BLOCKS) + 1
    for text in shown:
        parse_file(text)


def test_every_details_element_is_closed() -> None:
    assert TOUR.count("<details>") == TOUR.count("</details>") == len(BLOCKS)


def _code(text: str) -> str:
    """Return the text in backticks, with the escaped bars of tables."""
    return " ".join(re.findall(r"`([^`\n]+)`", text)).replace("\\|", "|")


def test_cheat_sheet_has_every_keyword() -> None:
    words = set(re.findall(r"[a-z]+", _code(SHEET)))
    # The plural of a unit and of "event" has the same meaning as the singular.
    missing = {word for word in KEYWORDS if not (word.endswith("s") and word[:-1] in KEYWORDS)}
    missing = {word for word in missing if word not in words and f"{word}s" not in words}
    assert not missing


def test_cheat_sheet_has_every_function() -> None:
    words = set(re.findall(r"\w+", SHEET[SHEET.index("## Functions") :]))
    assert not set(FUNCTIONS) - words


def test_cheat_sheet_has_every_selection_and_skip_mode() -> None:
    code = _code(SHEET)
    for selection in ast.Selection:
        assert f"`{selection.value}`" in SHEET
    for mode in ("none", "to next", "past last", "to first", "to last"):
        assert mode in code


def test_cheat_sheet_fits_two_screens() -> None:
    assert len(SHEET.splitlines()) <= 150
