"""Paper 2's operator laws (Table 2, Section 4.3 and Appendix 1), and to which extent each holds in Perseid.

A law is a pair of equivalent patterns. It is about existence: one pattern has a match if the other one does. Random
streams show whether both also match the same events, and how much of a law holds under each context; docs/laws.md has a
table of the results. A second table replaces the operands, which are single events in the first, by patterns of one
class.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from random import Random

from perseid.errors import PatternError
from perseid.lang.ast import CONTEXTS, Selection
from perseid.lang.parser import parse_pattern
from perseid.reference.oracle import oracle_matcher
from perseid.semantics.core import CorePattern
from perseid.semantics.detection import detect
from perseid.semantics.events import Event
from perseid.semantics.resolve import resolve

STREAMS = 120
COMPOSITE_STREAMS = 40
LETTERS = "ABCX"
"""Event types of the streams: those of the laws, and one that no law names."""
OPERAND = re.compile(r"\b[ABC]\b")
CLASSES = {
    "sequences": "({} -> {})",
    "alternations": "({} | {})",
    "conjunctions": "({} & {})",
    "repetitions": "({}{{2}})",
}
"""Composite operands: a pattern of two events each, by the operator that makes it."""


@dataclass(frozen=True)
class Law:
    name: str
    left: str
    right: str
    framed: bool = False
    """Both operands are enclosed by an S and an E, so that both sides refer to the same interval."""
    one_way: bool = False
    """The left side implies the right side, but not the converse."""


LAWS = (
    Law("following is associative", "(A -> B) -> C", "A -> (B -> C)"),
    Law("or is associative", "(A | B) | C", "A | (B | C)"),
    Law("and is associative", "(A & B) & C", "A & (B & C)"),
    Law("or is commutative", "A | B", "B | A"),
    Law("and is commutative", "A & B", "B & A"),
    Law("following distributes over or, from the left", "A -> (B | C)", "(A -> B) | (A -> C)"),
    Law("following distributes over or, from the right", "(A | B) -> C", "(A -> C) | (B -> C)"),
    Law("and distributes over or", "A & (B | C)", "(A & B) | (A & C)"),
    Law("following is transitive", "A -> B -> C", "A -> C", one_way=True),
    Law("and is transitive", "A & B & C", "A & C", one_way=True),
    Law("and is or of both orders", "A & B", "(A -> B) | (B -> A)"),
    Law("n times is a sequence", "A{3}", "A -> A -> A"),
    Law("once or more is once, then any number", "A+ -> B", "A -> A* -> B"),
    Law("not of a sequence", "not (A -> B)", "(not A | (A -> not B))", framed=True),
    Law("not of an alternation", "not (A | B)", "not A -> not B", framed=True),
    Law("not of n times is fewer", "not A{2}", "(not A | (A -> not A))", framed=True),
    Law("not of once or more is not", "not A+", "not A", framed=True),
)


@cache
def pattern_of(law: Law, side: str, selection: Selection | None = None) -> CorePattern | None:
    """Returns one side of a law as a pattern, or None if it does not support the selection."""
    text = f"S -> {side} -> E" if law.framed else side
    clause = "" if selection is None else f" selection {selection.value}"
    try:
        return resolve(parse_pattern(f"pattern law match {text} within forever{clause}"))
    except PatternError:
        return None


def composites(law: Law, operator: str) -> list[Law]:
    """The law with patterns of a class for its operands: one of them, all of them, and all over the same events."""
    names = sorted({name for side in (law.left, law.right) for name in OPERAND.findall(side)})
    second = dict(zip(names, "DFG", strict=False))
    made = [{name: operator.format(name, second[name])} for name in names]
    made.append({name: operator.format(name, second[name]) for name in names})
    made.append({name: operator.format(name, other) for name, other in zip(names, [*names[1:], names[0]], strict=True)})
    return [replace(law, left=_with(law.left, one), right=_with(law.right, one)) for one in made]


def _with(side: str, operands: dict[str, str]) -> str:
    return OPERAND.sub(lambda name: operands.get(name[0], name[0]), side)


def stream(seed: int, framed: bool, letters: str = LETTERS) -> list[Event]:
    random = Random(seed)
    kinds = [random.choice(letters) for _ in range(random.randrange(0, 7))]
    if framed:
        kinds = ["S", *kinds, "E"]
    return [Event(kind, i, {}, f"{kind}{i}", 0, (0, i)) for i, kind in enumerate(kinds, 1)]


@cache
def found_on(law: Law, side: str, selection: Selection | None, letters: str, seed: int) -> frozenset[tuple[str, ...]]:
    """The matches of one side of a law on one stream. Existence and equality compare the same ones."""
    pattern = pattern_of(law, side, selection)
    assert pattern is not None
    return frozenset(found(pattern, stream(seed, law.framed, letters)))


def found(pattern: CorePattern, events: list[Event]) -> set[tuple[str, ...]]:
    """Returns the event sets of all matches, without the steps of the events."""
    detection = detect([pattern], events, oracle_matcher())
    return {tuple(sorted(e.id for _, e in m.contributing)) for m in detection.matches}


def counterexample(law: Law, selection: Selection | None, *, sets: bool) -> str | None:
    """Returns a stream that violates the law, or None; 'refused' if a side is no valid pattern."""
    if not is_accepted(law, selection):
        return "refused"
    return failing_stream(law, selection, LETTERS, STREAMS, sets=sets)


def is_accepted(law: Law, selection: Selection | None = None) -> bool:
    return all(pattern_of(law, side, selection) is not None for side in (law.left, law.right))


def failing_stream(law: Law, selection: Selection | None, letters: str, streams: int, *, sets: bool) -> str | None:
    """Returns the first of so many random streams that violates the law."""
    for seed in range(streams):
        a, b = (found_on(law, side, selection, letters, seed) for side in (law.left, law.right))
        wrong = a != b if sets else (bool(a) and not b if law.one_way else bool(a) != bool(b))
        if wrong:
            return " ".join(e.type or "" for e in stream(seed, law.framed, letters))
    return None


def composite_counterexample(law: Law, operator: str, *, sets: bool) -> str | None:
    """Returns a law of the class and a stream that violates it, or None; 'refused' if no law of the class is valid."""
    written = 0
    for one in composites(law, operator):
        if not is_accepted(one):
            continue
        written += 1
        letters = "".join(sorted({name for name in "ABCDFG" if name in one.left + one.right}))
        wrong = failing_stream(one, None, letters, COMPOSITE_STREAMS, sets=sets)
        if wrong is not None:
            return f"`{one.left}` on {wrong}".replace("|", "\\|")
    return None if written else "refused"


def composite_cell(law: Law, operator: str) -> str:
    """Returns the table cell for a law with operands of a class."""
    wrong = composite_counterexample(law, operator, sets=False)
    if wrong is not None:
        return _cell(wrong)
    if law.one_way:
        return "a match exists"
    other = composite_counterexample(law, operator, sets=True)
    return "the same matches" if other is None else f"a match exists; other matches: {other}"


def table() -> str:
    """Returns the text of docs/laws.md, computed with the oracle."""
    contexts = [s for s in Selection if s in CONTEXTS]
    head = ["law", "written", "a match exists", "the same matches", *(s.value for s in contexts)]
    lines = [
        "# Laws of the operators",
        "",
        "These are the laws of [paper 2](semantics.md#language-semantics) (VIATRA-CEP). `tests/semantics/laws.py` runs both sides of each on the [oracle](glossary.md#oracle) and writes this page; the tests compare the page with a new run.",
        "A *yes* means that no counterexample was found in the trials below, not that the law is proved. A *no* gives a stream on which the law fails.",
        "",
        "## Operands that are single events",
        "",
        f"`A`, `B` and `C` are event types. Each cell was tried on {STREAMS} random streams of up to six events. *A match exists* is the law as the paper means it: where one side",
        "finds a match, so does the other. *The same matches* compares the events of the matches. The last six columns test *a match exists* under each [context](semantics.md#contexts).",
        "In the streams, `X` is an event of another type. A law about `not` is tried between two more events: `S -> … -> E`.",
        "– means that the context rejects one side. ⇒ is a law in one direction only, for which the matches are not compared (empty cell). **Do not apply these rows to longer operands: see the second table.**",
        "",
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
    ]
    for law in LAWS:
        sign = "⇒" if law.one_way else "≡"
        sides = [f"`{side}`".replace("|", "\\|") for side in (law.left, law.right)]
        cells = [law.name, f" {sign} ".join(sides)]
        cells.append(_cell(counterexample(law, None, sets=False)))
        cells.append("" if law.one_way else _cell(counterexample(law, None, sets=True)))
        cells += [_cell(counterexample(law, context, sets=False)) for context in contexts]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        "## Composite operands",
        "",
        "Here operands are patterns of one class: sequences `(A -> D)`, alternations `(A | D)`, conjunctions `(A & D)` or repetitions `(A{2})`.",
        f"For each law and class, the operands are replaced in these ways: each operand alone, all operands, and all operands with shared event types. Each way was tried on {COMPOSITE_STREAMS} random streams of up to six events, without a selection.",
        "*The same matches* and *a match exists* have the same meaning as in the first table. *no* gives the left side and a stream on which only one side finds a match. *Other matches* gives the left side and a stream on which both sides find matches, and the matches differ.",
        "",
        "| law | " + " | ".join(CLASSES) + " |",
        "|" + "---|" * (1 + len(CLASSES)),
    ]
    for law in LAWS:
        cells = [law.name, *(composite_cell(law, operator) for operator in CLASSES.values())]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(answer: str | None) -> str:
    if answer is None:
        return "yes"
    return "–" if answer == "refused" else f"no: {answer}"
