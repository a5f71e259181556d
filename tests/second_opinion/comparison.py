"""Runs blocks of cases through the product and through the second opinion, and compares the matches."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby

import perseid as ps
from tests.second_opinion.generate import SEEDS_PER_PATTERN
from tests.second_opinion.pattern_tree import Event, Pattern
from tests.second_opinion.sequences import Match, SearchTooLargeError

DEFAULT_CASES = int(os.environ.get("PERSEID_SECOND_OPINION_CASES", "500"))
DEEP_CASES = 50_000
BLOCKS = 10

Case = tuple[Pattern, list[list[Event]]]


def product_matches(pattern: Pattern, streams: list[list[Event]]) -> list[Counter[Match]]:
    """The product's matches of each stream; the streams are partitions of one input."""
    rows = [
        {"at": event.time, "kind": event.type, "v": event.v, "k": key, "n": 100 * key + position}
        for key, stream in enumerate(streams)
        for position, event in enumerate(stream)
    ]
    declared = ps.events(rows, time="at", type="kind", id="n", strictly_later=pattern.is_strictly_later)
    results: list[Counter[Match]] = [Counter() for _ in streams]
    for match in ps.pattern(f"pattern p\n{pattern.text()}\npartition by k").match(declared):
        bindings = {
            name: tuple(event.attributes["n"] % 100 for event in events) for name, events in match.bindings.items()
        }
        results[match.key["k"]][tuple(sorted((name, places) for name, places in bindings.items() if places))] += 1
    return results


@dataclass
class Tally:
    cases: int = 0
    compared: int = 0
    with_matches: int = 0
    differences: list[str] = field(default_factory=list)


def compare(
    seeds: range, generate: Callable[[int], Case], evaluate: Callable[[Pattern, list[Event]], list[Match]]
) -> Tally:
    """Compares every case of the block; a pattern that the product rejects counts as not compared."""
    tally = Tally()
    for _, group in groupby(seeds, key=lambda seed: seed // SEEDS_PER_PATTERN):
        cases = {seed: generate(seed) for seed in group}
        pattern = next(iter(cases.values()))[0]
        streams = [(seed, stream) for seed, (_, streams) in cases.items() for stream in streams]
        tally.cases += len(cases)
        try:
            actual = product_matches(pattern, [stream for _, stream in streams])
            expected = [Counter(evaluate(pattern, stream)) for _, stream in streams]
        except (ps.PerseidError, SearchTooLargeError):
            continue
        tally.compared += len(cases)
        tally.with_matches += len({seed for (seed, _), ours in zip(streams, expected, strict=True) if ours})
        for (seed, stream), ours, theirs in zip(streams, expected, actual, strict=True):
            if ours != theirs:
                tally.differences.append(describe(seed, pattern, stream, ours, theirs))
    return tally


def describe(seed: int, pattern: Pattern, stream: list[Event], ours: Counter[Match], theirs: Counter[Match]) -> str:
    events = " ".join(f"{e.type}{i}@{e.time}" + ("" if e.v is None else f"v{e.v}") for i, e in enumerate(stream))
    later = "\nstrictly_later=True" if pattern.is_strictly_later else ""
    only_ours = "\n".join(f"  second opinion only: {match}" for match in (ours - theirs).elements())
    only_theirs = "\n".join(f"  product only:        {match}" for match in (theirs - ours).elements())
    common = "\n".join(f"  both:                {match}" for match in (ours & theirs).elements())
    parts = [f"seed {seed}\n{pattern.text()}{later}\nevents {events}", only_ours, only_theirs, common]
    return "\n".join(part for part in parts if part)


def check(tally: Tally) -> None:
    """Fails on any difference and on a block that compares too little."""
    assert not tally.differences, f"{len(tally.differences)} differences\n\n" + "\n\n".join(tally.differences[:5])
    assert tally.compared >= 0.6 * tally.cases, tally
    assert tally.with_matches >= 0.25 * tally.compared, tally


def block(number: int, cases: int) -> range:
    return range(number * cases // BLOCKS, (number + 1) * cases // BLOCKS)
