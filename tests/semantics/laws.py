"""Paper 2's operator laws (Table 2, Section 4.3 and Appendix 1), and how far each holds here.

A law is two ways to write something. It is about existence: where one finds a match the other does. Whether the two
also find the same events, and what is left of a law under each context, is looked for in random streams; a table of
it is kept in docs/laws.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from perseid.errors import PatternError
from perseid.lang.ast import CONTEXTS, Selection
from perseid.lang.parser import parse_pattern
from perseid.semantics.core import CorePattern
from perseid.semantics.detection import detect, oracle_matcher
from perseid.semantics.events import Event
from perseid.semantics.resolve import resolve

STREAMS = 120


@dataclass(frozen=True)
class Law:
    name: str
    left: str
    right: str
    framed: bool = False
    """Between one S and one E, so that both sides speak of the same stretch."""
    one_way: bool = False
    """The left implies the right, and not the other way round."""


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


def pattern_of(law: Law, side: str, selection: Selection | None = None) -> CorePattern | None:
    """One side of a law as a pattern; None where the selection does not go with it."""
    text = f"S -> {side} -> E" if law.framed else side
    clause = "" if selection is None else f" selection {selection.value}"
    try:
        return resolve(parse_pattern(f"pattern law match {text} within forever{clause}"))
    except PatternError:
        return None


def stream(seed: int, framed: bool) -> list[Event]:
    random = Random(seed)
    kinds = [random.choice("ABCX") for _ in range(random.randrange(0, 7))]
    if framed:
        kinds = ["S", *kinds, "E"]
    return [Event(kind, i, {}, f"{kind}{i}", 0, (0, i)) for i, kind in enumerate(kinds, 1)]


def found(pattern: CorePattern, events: list[Event]) -> set[tuple[str, ...]]:
    """The event sets of all matches; which step an event stands at is not compared."""
    detection = detect([pattern], events, oracle_matcher())
    return {tuple(sorted(e.id for _, e in m.contributing)) for m in detection.matches}


def counterexample(law: Law, selection: Selection | None, *, sets: bool) -> str | None:
    """A stream on which the law fails, or None; 'refused' where it cannot be written."""
    left, right = (pattern_of(law, side, selection) for side in (law.left, law.right))
    if left is None or right is None:
        return "refused"
    for seed in range(STREAMS):
        events = stream(seed, law.framed)
        a, b = found(left, events), found(right, events)
        wrong = a != b if sets else (bool(a) and not b if law.one_way else bool(a) != bool(b))
        if wrong:
            return " ".join(e.type or "" for e in events)
    return None


def table() -> str:
    """docs/laws.md, made from what the oracle does."""
    contexts = [s for s in Selection if s in CONTEXTS]
    head = ["law", "written", "a match exists", "the same matches", *(s.value for s in contexts)]
    lines = [
        "# Laws of the operators",
        "",
        "Paper 2's laws, looked for in random streams of the oracle; made by `tests/semantics/laws.py`. The first column of",
        "answers is the law as the paper means it: where one side finds a match, so does the other. The others ask whether both sides",
        "find the same events without a selection, and whether existence still holds under each context. A stream stands where a law fails, – where",
        "the selection refuses a side. A law that goes one way only is written with ⇒.",
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
    return "\n".join(lines) + "\n"


def _cell(answer: str | None) -> str:
    if answer is None:
        return "yes"
    return "–" if answer == "refused" else f"no: {answer}"
