"""The headline result of each paper next to ours, as quoted from the pages of ``docs/experiments``.

A test finds every quoted figure on its page.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Headline:
    """One comparison; ``quotes`` are the texts of the page that it rests on."""

    paper: str
    page: str
    result: str
    theirs: str
    ours: str
    difference: str
    quotes: tuple[str, ...]


HEADLINES = (
    Headline(
        "1, CEDMFT",
        "trees.md",
        "throughput of tree patterns over XMark",
        "3.3 GB/s for normal tree patterns and comparisons, 1.2 GB/s for regular tree patterns",
        "0.69 to 0.88 GB/s for every kind of query",
        "paper: a 2.5 GHz Core i7, Java 1.8, number of cores not stated; here: one core, generated documents",
        ("3.3 GB/s", "1.2 GB/s", "0.69 to 0.88 GB/s", "2.5 GHz Intel Core i7", "Java 1.8", "own generators"),
    ),
    Headline(
        "2, VIATRA-CEP",
        "gestures.md",
        "atomic events/s with 24 bodies in one model",
        "145,322",
        "201",
        "paper: other hardware; here: one process, the general engine in Python",
        ("| 24 | 201 | 0.67 | 145,322 |", "on other hardware"),
    ),
    Headline(
        "2, VIATRA-CEP",
        "gestures.md",
        "the same with 24 bodies, for Perseid one model per body",
        "145,322",
        "1,890,000",
        "another task: each body has its own model, and a table of frames is evaluated at once by two processes",
        ("| 24 | 1,890,000 | 4,510,000 | 145,322 |", "The task differs from that of the paper"),
    ),
    Headline(
        "3, MMQJP",
        "joins.md",
        "speed relative to one query at a time, 100,000 queries, two levels (Figure 8)",
        "two orders of magnitude",
        "493.2 times",
        "paper: one SQL statement per query; here: a compiled loop, which has no such fixed cost",
        (
            "two orders of magnitude",
            "100,000 queries, Sequential by ours: no views 493.2",
            "Ours has no such fixed cost",
        ),
    ),
    Headline(
        "3, MMQJP",
        "joins.md",
        "the same with three levels (Figure 11)",
        "two orders of magnitude",
        "51.1 times",
        "as above, and the paper has fewer templates",
        ("100,000 queries, Sequential by ours: no views 51.1", "fewer templates than we have"),
    ),
    Headline(
        "4, INFA-HTS",
        "out-of-order.md",
        "speed of INFA-HTS relative to the fastest other method",
        "INFA-HTS is the fastest",
        "0.93 to 0.99 times the fastest method",
        "here: all methods in one program on one core; INFA-HTS is `assemble`, with the faults of the printed algorithm "
        "fixed",
        ("The paper reports that INFA-HTS is the fastest", "0.93 to 0.99 times"),
    ),
    Headline(
        "4, INFA-HTS",
        "out-of-order.md",
        "memory of INFA-HTS",
        "the least",
        "the largest state of all methods",
        "as above",
        ("The paper reports that INFA-HTS needs the least memory", "the largest state of all methods"),
    ),
    Headline(
        "5, Lahar",
        "uncertain.md",
        "real time: gain over the most likely place, in points of precision and recall",
        "up to +16, +11",
        "−3.5 ± 3.0, +24.4 ± 3.3",
        "the paper's traces are not published: a simulator uses its numbers; the threshold is chosen on other traces",
        ("−3.5 ± 3.0 | +24.4 ± 3.3", "up to +16, +11", "The traces of the paper are not published"),
    ),
    Headline(
        "5, Lahar",
        "uncertain.md",
        "archived, at ρ 0.12: gain over the most likely path, in points of precision and recall",
        "+20, +47",
        "−5.7 ± 1.9, +11.4 ± 2.5",
        "as above",
        ("+20, +47 at ρ 0.12", "−5.7 ± 1.9 points of precision and +11.4 ± 2.5 points of recall"),
    ),
    Headline(
        "5, Lahar",
        "uncertain.md",
        "tuples/s of a Regular query",
        "100 thousand",
        "68,210,000 (the kernel alone), 1,639,000 (with reading the rows)",
        "here: one core, 20 places, independent rows",
        ("the paper: 100 thousand", "68,210,000", "1,639,000"),
    ),
)
