"""The automaton of a pattern over an uncertain stream: cases worked by hand, and configurations written and read."""

from __future__ import annotations

from collections import Counter

import pytest

from perseid.engines.uncertain.encoding import Encoding
from perseid.engines.uncertain.pattern_nfa import Configuration, PatternNFA
from perseid.engines.uncertain.symbols import Symbols
from perseid.errors import StateError, UnsupportedError
from perseid.lang.parser import parse_pattern
from perseid.semantics.events import Event
from perseid.semantics.resolve import resolve

SECOND_US = 1_000_000


def nfa_of(text: str) -> PatternNFA:
    window = "" if " within " in text else " within forever"
    return PatternNFA(resolve(parse_pattern(f"pattern p {text}{window}")))


def run(text: str, events: str) -> list[int]:
    """Returns the number of runs accepted at each second.

    A second is a word of one-letter types with a digit for ``v``, or ``.``.
    """
    nfa = nfa_of(text)
    symbols = Symbols(nfa.pattern, {})
    complete = []
    configurations: Counter[int] = Counter()
    known: list[Configuration] = []
    numbers: dict[object, int] = {}
    for second, word in enumerate(events.split()):
        letter: tuple = ()
        for at in range(0, len(word) if word != "." else 0, 2):
            event = Event(word[at], second * SECOND_US, {"v": int(word[at + 1])}, "")
            letter = nfa.join_letters(letter, (symbols.of(event),))
        begun, done = nfa.start(letter)
        after = [(one, 1) for one in begun]
        for number, many in configurations.items():
            moved, more = nfa.advance(known[number], letter, SECOND_US)
            after += [(one, many) for one in moved]
            done += more * many
        configurations = Counter()
        for one, many in after:
            number = numbers.setdefault(one.key, len(known))
            known += [one] if number == len(known) else []
            configurations[number] += many
        complete.append(done)
    return complete


@pytest.mark.parametrize(
    ("text", "events", "complete"),
    [
        ("match A a -> B b", "A0 . B0 B0", [0, 0, 1, 0]),
        ("match A a ->> B b", "A0 . B0 B0", [0, 0, 1, 1]),
        ("match A a, B b", "A0 C0 B0", [0, 0, 0]),
        ("match A a -> B b", "A0B0 B0", [0, 1]),
        ("match A a -> B b within 2 seconds", "A0 . B0", [0, 0, 1]),
        ("match A a -> B b within 2 seconds", "A0 . . B0", [0, 0, 0, 0]),
        ("match A a -> not C -> B b", "A0 C0 B0", [0, 0, 0]),
        ("match A a -> not C -> B b", "A0 D0 B0", [0, 0, 1]),
        ("match A+ a -> B b", "A0 A0 B0", [0, 0, 3]),
        ("match A{2} a -> B b", "A0 A0 B0 B0", [0, 0, 1, 0]),
        ("match (A a | B b) -> C c", "A0 B0 C0", [0, 0, 2]),
        ("match A a -> B b [v > a.v]", "A3 B2 B4 B5", [0, 0, 1, 0]),
        ("match A(v as x) a -> B(v as x) b", "A3 B2 B3", [0, 0, 1]),
        ("match A a -> after 2 seconds B b", "A0 B0 B0", [0, 0, 1]),
        ("match A a -> within 1 second B b within 9 seconds", "A0 . B0", [0, 0, 0]),
    ],
)
def test_ways_complete_at_each_second(text: str, events: str, complete: list[int]) -> None:
    assert run(text, events) == complete


def test_a_configuration_is_read_as_it_was_written() -> None:
    nfa = nfa_of("match A(v as x) a -> D+ d -> not C -> B(v as x) b [w > a.w] within 9 seconds")
    symbol = Symbols(nfa.pattern, {}).of(Event("A", 0, {"v": 3, "w": 1}, ""))
    begun, _ = nfa.start((symbol,))
    moved = [later for one in begun for later in nfa.advance(one, (), SECOND_US)[0]]
    encoding = Encoding(nfa)
    assert begun
    for one in (*begun, *moved):
        assert encoding.read(encoding.write(one)).key == one.key


def test_a_move_that_the_pattern_does_not_have_is_a_state_error() -> None:
    nfa = nfa_of("match A a -> B b")
    (begun,), _ = nfa.start((Symbols(nfa.pattern, {}).of(Event("A", 0, {}, "")),))
    written = Encoding(nfa).write(begun)
    written[1] = [7]
    with pytest.raises(StateError, match="this pattern cannot have"):
        Encoding(nfa).read(written)


def test_a_pattern_that_ends_with_a_negation_is_rejected() -> None:
    with pytest.raises(UnsupportedError, match="ends with 'not'"):
        nfa_of("match A a -> not B within 5 seconds")
