"""Hand-worked cases of all completions of a pattern, which uncertain streams count."""

from __future__ import annotations

import pytest

from perseid.lang.parser import parse_pattern
from perseid.reference.oracle import completions
from perseid.semantics.events import Event, arrange
from perseid.semantics.resolve import resolve

SECOND = 1_000_000


def stream(text: str) -> list[Event]:
    """Parses a stream of one word per second: events joined by ``/``, each a type and an optional value; ``.`` is
    none."""
    events = []
    for second, word in enumerate(text.split(), 1):
        for one in word.split("/") if word != "." else ():
            columns = {"v": int(one[1:]) if one[1:] else None}
            events.append(Event(one[0], second * SECOND, columns, one))
    return arrange(events)


def ways(text: str, events: str) -> list[str]:
    """Returns completions as the events they take, each with its second."""
    pattern = resolve(parse_pattern(f"pattern p match {text}" + ("" if "within" in text else " within 1 hour")))
    happened = stream(events)
    found = []
    for way in completions(pattern, happened):
        taken = [happened[position] for _, position in way.path.bound_events]
        assert way.end == taken[-1].time
        found.append(" ".join(f"{event.id}@{event.time // SECOND}" for event in taken))
    return found


CASES = {
    # all completions count
    "both starts meet the same successor": ("A -> B", "A A B", ["A@1 B@3", "A@2 B@3"]),
    "the successor is the first that fits": ("A -> B", "A B B", ["A@1 B@2"]),
    "each later event is another completion": ("A ->> B", "A B B", ["A@1 B@2", "A@1 B@3"]),
    "a match consumes no event": ("A -> A", "A A A", ["A@1 A@2", "A@2 A@3"]),
    "either branch": ("A -> (B | C)", "A B/C", ["A@1 B@2", "A@1 C@2"]),
    # Events of one time are simultaneous: none is before another, and a step takes each that fits.
    "all events of one time count": ("A -> B", "A B1/B2", ["A@1 B1@2", "A@1 B2@2"]),
    "those after them do not": ("A -> B", "A B1/B2 B3", ["A@1 B1@2", "A@1 B2@2"]),
    "two starts of one time": ("A -> B", "A1/A2 B", ["A1@1 B@2", "A2@1 B@2"]),
    # Later is strictly later.
    "the same time is not later": ("A -> B", "A/B", []),
    "a simultaneous event is no successor of the start": ("A -> B", "A/B B", ["A@1 B@2"]),
    "nor is it the next event": ("A, B", "A/C B", ["A@1 B@2"]),
    # A comma requires the very next time that has events.
    "nothing in between": ("A, B", "A B", ["A@1 B@2"]),
    "an event in between": ("A, B", "A C B", []),
    "a second without events is no time of the stream": ("A, B", "A . B", ["A@1 B@3"]),
    "another event at the next time is ignored": ("A, B", "A C/B", ["A@1 B@2"]),
    # Example 3.11: in brackets a condition chooses the successor, must tests the one that was chosen.
    "brackets skip an event that does not fit": ("A [v = 1] -> A [v = 2]", "A1 A3 A2", ["A1@1 A2@3"]),
    "a failed must ends the run": ("A [v = 1] -> A a must (v = 2)", "A1 A3 A2", []),
    "must accepts an event that fits": ("A [v = 1] -> A a must (v = 2)", "A1 A2", ["A1@1 A2@2"]),
    # At one time both A2 and A3 are successors: the run of A2 continues although A3 fails the test.
    "must fails one of two at once": ("A [v = 1] -> A a must (v = 2)", "A1 A2/A3", ["A1@1 A2@2"]),
    "must of the first step": ("A a must (v = 1) -> B", "A2 A1 B", ["A1@2 B@3"]),
    "brackets with a value that is null": ("A [v = 1] -> B [v > 0]", "A1 B B2", ["A1@1 B2@3"]),
    # A repetition at the end completes at every iteration: each is a completion.
    "every iteration completes": ("A -> B+", "A B B", ["A@1 B@2", "A@1 B@2 B@3"]),
    "from every start": ("A+", "A A", ["A@1", "A@1 A@2", "A@2"]),
    "an iteration that fails must ends the run": ("A -> B+ b must (v = 1)", "A B1 B2 B1", ["A@1 B1@2"]),
    "a condition in brackets selects iterations": ("A -> B+ [v = 1]", "A B1 B2 B1", ["A@1 B1@2", "A@1 B1@2 B1@4"]),
    "exactly two": ("A -> B{2}", "A B B B", ["A@1 B@2 B@3"]),
    # Another iteration and the exit are two branches, each with a separate next event (the union of Figure 2).
    "a repetition ends after any iteration": ("A -> B+ -> C", "A B B C", ["A@1 B@2 B@3 C@4", "A@1 B@2 C@4"]),
    "an optional step is taken and skipped": ("A -> B? -> C", "A B C", ["A@1 B@2 C@3", "A@1 C@3"]),
    "an optional step may come later": ("A -> B? -> C", "A C B C", ["A@1 C@2", "A@1 B@3 C@4"]),
    # An optional iteration does not delay the exit: with and without it are two completions.
    "a reluctant repetition ends after any iteration": ("A -> B+? -> C", "A B B C", ["A@1 B@2 B@3 C@4", "A@1 B@2 C@4"]),
    # The bound is part of a window.
    "as late as the window allows": ("A -> B within 2 seconds", "A . B", ["A@1 B@3"]),
    "later than the window allows": ("A -> B within 2 seconds", "A . . B", []),
    "a window between two steps": ("A -> B -> within 1 second C within forever", "A B C", ["A@1 B@2 C@3"]),
    "a step too late": ("A -> B -> within 1 second C within forever", "A B . C", []),
    "not before": ("A -> after 2 seconds B", "A B B B", ["A@1 B@3"]),
    # No event of that type strictly in between.
    "absent": ("A -> not C -> B", "A D B", ["A@1 B@3"]),
    "present": ("A -> not C -> B", "A C B", []),
    "simultaneous with the first is not in between": ("A -> not C -> B", "A/C B", ["A@1 B@2"]),
    "simultaneous with the last is not in between": ("A -> not C -> B", "A C/B", ["A@1 B@2"]),
    "ruled out for one start of two": ("A -> not C -> B", "A C A B", ["A@3 B@4"]),
    "absent for some time": ("A -> not C for 2 seconds -> B", "A B B B", ["A@1 B@4"]),
    # Minimum duration from the first event to the last.
    "holds for the minimum duration": ("A+ within 1 hour holds for 2 seconds", "A A A", ["A@1 A@2 A@3"]),
    "holds for longer than the minimum duration": (
        "A -> B+ within 1 hour holds for 2 seconds", "A B B B", ["A@1 B@2 B@3", "A@1 B@2 B@3 B@4"],
    ),
    # Steps that refer to earlier ones: each completion has separate values.
    "a condition on two events": ("A a -> B [v > a.v]", "A1 A3 B2 B4", ["A1@1 B2@3", "A3@2 B4@4"]),
    "a variable": ("A(v as x) -> B(v as x)", "A1 A2 B2 B1", ["A2@2 B2@3", "A1@1 B1@4"]),
    "a variable does not equal null": ("A(v as x) -> B(v as x)", "A B", []),
    "one event alone": ("A", "A B A", ["A@1", "A@3"]),
    "no event": ("A -> B", ". .", []),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_ways(case: str) -> None:
    text, events, expected = CASES[case]
    assert ways(text, events) == expected


def test_ways_are_in_order_of_their_end() -> None:
    found = ways("A ->> B", "A A B B")
    assert [way[-1] for way in found] == ["3", "3", "4", "4"]


def test_skip_and_selection_do_not_change_completions() -> None:
    """A probability is about all completions, so skip and selection clauses have no effect."""
    for clause in ("after match skip past last", "selection successor", "selection chronicle"):
        assert ways(f"A -> B within 1 hour {clause}", "A A B") == ["A@1 B@3", "A@2 B@3"]
