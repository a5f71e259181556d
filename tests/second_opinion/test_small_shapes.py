"""Oracle, interpreter, kernel and second opinion agree on all small patterns over all short streams.

Patterns, and the streams of each pattern, are sampled at equal distances: the numbers are reproducible, and the streams
of successive patterns cover all streams. The slow set has all patterns of one and two nodes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from perseid.compile.compiler import compile_set
from perseid.engines.sequence.bytecode import compile_pattern
from perseid.engines.sequence.matcher import batch_of
from perseid.engines.sequence.run import find
from perseid.errors import PerseidError
from perseid.lang.parser import parse_pattern
from perseid.reference.oracle import oracle_matcher
from perseid.reference.plan_matcher import plan_matcher
from perseid.semantics.core import CorePattern
from perseid.semantics.detection import Matcher
from perseid.semantics.events import Event as ProductEvent
from perseid.semantics.resolve import resolve
from tests.second_opinion import sequences, shapes
from tests.second_opinion.pattern_tree import Event, Pattern

SECOND_US = 1_000_000
STREAMS_PER_PATTERN = 11
SAMPLED_PATTERNS = int(os.environ.get("PERSEID_SMALL_SHAPES", "400"))
"""Patterns of each size in the ordinary suite."""
DEEP_PATTERNS = 20_000
"""Patterns of each size in the slow set: all of one and two nodes."""
LARGEST_SIZE = 4
BLOCKS = 10
CUT_SHARE = 0.05
"""Largest share of patterns on which the brute-force search may exceed its budget."""

Taken = tuple[tuple[str, int], ...]


def sample(total: int, wanted: int, block: int) -> Iterator[int]:
    """Numbers below ``total`` at equal distances; ``block`` is every tenth of them."""
    wanted = min(total, wanted)
    for i in range(block, wanted, BLOCKS):
        yield i * total // wanted


def streams_of(case: int) -> list[Sequence[Event]]:
    """The streams of the pattern with this number in its block."""
    streams = shapes.short_streams()
    step = len(streams) // STREAMS_PER_PATTERN
    return [streams[(case + i * step) % len(streams)] for i in range(STREAMS_PER_PATTERN)]


def product_events(stream: Sequence[Event]) -> list[ProductEvent]:
    return [ProductEvent(event.type, event.time * SECOND_US, {}, f"e{i}", 0, (0, i)) for i, event in enumerate(stream)]


def by_matcher(core: CorePattern, matcher: Matcher, streams: list[list[ProductEvent]]) -> list[list[Taken]]:
    return [
        sorted(
            named(core, raw.bound_events)
            for raw in matcher(core, events, horizon=None, strictly_later=False, relations={}).found
        )
        for events in streams
    ]


def by_kernel(core: CorePattern, streams: list[list[ProductEvent]]) -> list[list[Taken]]:
    """All streams in one call of the kernel, each a partition."""
    plan = compile_set([core])
    batch = batch_of([event for events in streams for event in events], {})
    offsets = np.cumsum([0, *map(len, streams)]).astype(np.int64)
    raw, _ = find(
        compile_pattern(plan, plan.patterns[0], batch.types(), False), batch, offsets, horizon=None, compiled=True
    )
    found: list[list[Taken]] = [[] for _ in streams]
    for i in range(len(raw)):
        taken = raw.bound_events(i)
        partition = int(np.searchsorted(offsets, taken[0][1], side="right")) - 1
        found[partition].append(named(core, [(step, at - int(offsets[partition])) for step, at in taken]))
    return [sorted(matches) for matches in found]


def named(core: CorePattern, taken: Sequence[tuple[int, int]]) -> Taken:
    return tuple((str(core.steps[step].name), at) for step, at in taken)


def by_second_opinion(pattern: Pattern, stream: Sequence[Event]) -> list[sequences.Match]:
    return sorted(sequences.matches(pattern, list(stream)))


def grouped(matches: list[Taken]) -> list[sequences.Match]:
    return sorted(sequences.grouped(match) for match in matches)


def compare(size: int, numbers: Iterator[int]) -> tuple[int, int, int]:
    """Returns how many patterns were compared, rejected, and too large for the brute-force search."""
    compared = rejected = cut = 0
    for case, index in enumerate(numbers):
        pattern = shapes.shape_at(size, index)
        text = f"pattern p\n{pattern.text()}"
        try:
            core = resolve(parse_pattern(text))
        except PerseidError:
            rejected += 1
            continue
        streams = streams_of(case)
        events = [product_events(stream) for stream in streams]
        oracle = by_matcher(core, oracle_matcher(), events)
        others = {
            "interpreter": by_matcher(core, plan_matcher(compile_set([core])), events),
            "kernel": by_kernel(core, events),
        }
        for i, stream in enumerate(streams):
            letters = "".join(event.type for event in stream)
            for who, matches in others.items():
                assert matches[i] == oracle[i], (
                    f"size {size}, number {index}, {who} against oracle\n{text}\non {letters}"
                )
            try:
                opinion = by_second_opinion(pattern, stream)
            except sequences.SearchTooLargeError:
                cut += 1
                break
            assert opinion == grouped(oracle[i]), (
                f"size {size}, number {index}, second opinion against oracle\n{text}\non {letters}"
            )
        compared += 1
    return compared, rejected, cut


def check(size: int, wanted: int, block: int) -> None:
    compared, rejected, cut = compare(size, sample(shapes.count_shapes(size), wanted, block))
    assert 10 * compared >= rejected > 0
    assert cut <= CUT_SHARE * compared


@pytest.mark.parametrize("size", range(1, LARGEST_SIZE + 1))
@pytest.mark.parametrize("block", range(BLOCKS))
def test_sampled_patterns_agree(size: int, block: int) -> None:
    check(size, SAMPLED_PATTERNS, block)


@pytest.mark.deep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("size", range(1, LARGEST_SIZE + 1))
@pytest.mark.parametrize("block", range(BLOCKS))
def test_all_small_patterns_and_a_large_sample_agree(size: int, block: int) -> None:
    check(size, DEEP_PATTERNS, block)
