"""A million distinct subscriptions over items of feeds.

Every subscription joins two items by author, channel or title, and has conditions on texts or prices; these constants
differ, so no two subscriptions are merged. The benchmark measures the cost of a million subscriptions compared with ten
thousand, when both have the same notifications: the other subscriptions have constants that do not occur, and half of
them combine one that occurs with one that does not.
"""

from __future__ import annotations

import gc
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count as counted
from itertools import islice
from math import gcd
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import numpy as np
import pyarrow as pa

from bench import harness
from bench.trees.feeds import EntryGenerator
from perseid.engines.joins import layout as y
from perseid.engines.joins.index import Subscriptions
from perseid.engines.joins.joiner import ChainBindings, Joiner, notified
from perseid.engines.joins.program import compile_chains
from perseid.engines.joins.reading import ChainReader
from perseid.engines.joins.register import IndexBuilder
from perseid.engines.joins.values import Values

DAY = 24 * 3600 * 1_000_000
BASE_COUNT, CHANGED, PART, ROUNDS = 10_000, 10_000, 200, 3
PRICES = 5_000
"""Subscriptions that differ only in a price, in the test with very many notifications."""
LETTERS, WORDS = 5, 1_000
"""Words in subscriptions that occur: some of those in titles."""
SHAPES = (
    # same title, an earlier item by another author
    "F//item->a[/title->t][/author->p] FOLLOWED BY{{t = u AND u contains '{word}' AND p = '{author}', {days} days}} F//item->b[/title->u]",
    # same author
    "F//item->a[/author->p][/price->e] FOLLOWED BY{{p = q AND u contains '{word}' AND e < {price}, {days} days}} "
    "F//item->b[/author->q][/title->u]",
    # same channel
    "F//item->a[/channel_url->c][/title->t] FOLLOWED BY{{c = d AND u contains '{word}' AND t contains '{other}', {days} days}} "
    "F//item->b[/channel_url->d][/title->u]",
    # same author, and cheaper than the earlier item
    "F//item->a[/author->p][/price->e] FOLLOWED BY{{p = q AND d = '{channel}' AND f < e AND f < {price}, {days} days}} "
    "F//item->b[/author->q][/channel_url->d][/price->f]",
)
BURST = (
    "F//item->a[/title->t][/price->e] FOLLOWED BY{{t = u AND s = '{section}' AND e < {price}, {days} days}} "
    "F//item->b[/title->u][/section->s]"
)


@dataclass(frozen=True)
class MillionSize:
    many: int
    items: int
    """Items that are joined and timed, after as many that are not."""
    burst_items: int


SIZES = {
    "quick": MillionSize(100_000, 1_000, 200),
    "standard": MillionSize(1_000_000, 10_000, 1_000),
    "full": MillionSize(1_000_000, 40_000, 2_000),
}


class Vocabulary(NamedTuple):
    """Vocabulary of items and subscriptions."""

    words: Sequence[str]
    missing: Sequence[str]
    """Words that occur in no item."""
    channels: Sequence[str]


def items(count: int, sections: int) -> Iterator[tuple[int, bytes]]:
    """Items with their times, in order."""
    generator, chance = EntryGenerator(random.Random(11), count), random.Random(12)
    for _ in range(count):
        entry = generator.next_of(generator.channel())
        body = (
            f"<item><item_url>{escape(entry.item_url)}</item_url><channel_url>{entry.channel_url}</channel_url>"
            f"<title>{escape(entry.title)}</title><author>{entry.author}</author><section>s{chance.randrange(sections)}</section>"
            f"<price>{chance.randrange(100, 100_000) / 100:.2f}</price><description>{entry.description}</description></item>"
        )
        yield int(entry.timestamp.timestamp() * 1_000_000), body.encode()


def make_vocabulary() -> Vocabulary:
    generator = EntryGenerator(random.Random(11), 1)
    known = list(dict.fromkeys(generator.words))
    # Short words are substrings of many others.
    words = [word for word in known if len(word) > LETTERS][:WORDS]
    missing = [f"{word[:-1]}{c}q" for word in known for c in "xyzjkvw"]
    return Vocabulary(
        words, [word for word in missing if word not in known], [f"{host}/feed" for host in generator.hosts]
    )


def subscriptions(count: int) -> Iterator[tuple[str, str]]:
    """``count`` subscriptions by name: the constants of the first ten thousand occur."""
    return ((f"subscriber-{number:07}", text) for number, text in enumerate(texts(0, count)))


def texts(begin: int, end: int, all_live: bool = False) -> Iterator[str]:
    """Subscriptions with these numbers: no two have the same constants."""
    made, chance = make_vocabulary(), random.Random(begin)
    for number in range(begin, end):
        live = all_live or number < BASE_COUNT
        place, shape = divmod(number, len(SHAPES))
        first = made.words if live or place % 2 else made.missing
        second = made.words if live else made.missing
        # No item has a price below these, so the condition never holds.
        prices = range(100_00, 100_000_00, 37) if live else range(1, 99_00)
        some: Sequence[Any] = made.channels if shape == 3 else first
        others: Sequence[Any] = prices if shape in (1, 3) else second
        total = len(some) * len(others)
        one, other = divmod(place * _step(total) % total, len(others))
        yield SHAPES[shape].format(
            word=some[one],
            channel=some[one],
            other=others[other],
            author=str(others[other]).title(),
            price=f"{others[other] / 10_000:.4f}" if shape in (1, 3) else "",
            days=chance.randrange(1, 31),
        )


@cache
def _step(total: int) -> int:
    """A step that visits all of ``total`` places, and soon some in each region."""
    return next(step for step in counted(int(total * 0.618)) if gcd(step, total) == 1)


def burst(count: int) -> Iterator[tuple[str, str]]:
    """Subscriptions of which very many match at once: on a section, each with another price."""
    chance = random.Random(4)
    for number in range(count):
        section, step = divmod(number, PRICES)
        price = (step + 1) * 1_000 / PRICES + section / 1_000_000
        yield (
            f"subscriber-{number:07}",
            BURST.format(section=f"s{section}", price=f"{price:.6f}", days=chance.randrange(1, 31)),
        )


def build_index(texts_by_name: Iterator[tuple[str, str]]) -> tuple[Subscriptions, IndexBuilder]:
    """Build an index of subscriptions, without their texts."""
    index = Subscriptions(Values())
    register = IndexBuilder(index)
    while some := dict(islice(texts_by_name, 10_000)):
        register.add(some)
    return index, register


class Run(NamedTuple):
    """Result of joining items with an index."""

    read: float
    joined: float
    expanded: float
    rows: int
    due: int
    joiner: Joiner


class ItemStream:
    """Items that arrive in parts; the first half is loaded before the timed part."""

    def __init__(self, count: int, sections: int, timed: int) -> None:
        timed_items = list(items(count, sections))
        self.times = np.array([at for at, _ in timed_items], np.int64)
        self.bodies = [body for _, body in timed_items]
        self.first = count - timed

    def run(self, index: Subscriptions, expand: bool = False) -> Run:
        index.values.retain(np.zeros(0, np.int64))  # the value dictionary is part of the measurement
        joiner, reader = Joiner(index), ChainReader(compile_chains(list(index.chains)))
        joiner.index = index.compiled()
        read = joined = expanded = 0.0
        rows = due = 0
        for begin in range(0, len(self.bodies), PART):
            start = time.perf_counter()
            times, bindings = self.part(reader, begin)
            middle = time.perf_counter()
            found = joiner.add(times, bindings)
            end = time.perf_counter()
            if begin < self.first:
                continue
            if expand:
                for _ in notified(found, index):
                    pass
                expanded += time.perf_counter() - end
            read, joined = read + middle - start, joined + end - middle
            rows, due = rows + len(found.rows), due + int(found.rows[:, y.O_COUNT].sum())
        return Run(read, joined, expanded, rows, due, joiner)

    def part(self, reader: ChainReader, begin: int) -> tuple[Any, ChainBindings]:
        some = self.bodies[begin : begin + PART]
        bindings, _ = reader.read(pa.array(some, pa.binary()), ["F"] * len(some))
        return self.times[begin : begin + len(some)], bindings

    @property
    def timed(self) -> int:
        return len(self.bodies) - self.first


def run(size: str, report: harness.Report) -> None:
    """Run all measurements with a million subscriptions."""
    chosen = SIZES[size]
    start = time.perf_counter()
    few, _ = build_index(subscriptions(BASE_COUNT))
    many, register = build_index(subscriptions(chosen.many))
    harness.progress(f"{chosen.many:,} subscriptions are read in {time.perf_counter() - start:.1f} s")
    harness.print_line(f"million: {_describe_index(few)}; {_describe_index(many)}")
    stream = ItemStream(2 * chosen.items, 10, chosen.items)
    last = _against(stream, few, many, report)
    _changes(stream, many, register, last, chosen.many, report)
    del few, many, register, last
    gc.collect()
    _bursts(chosen, report)
    _memory(chosen.many, report)


def _describe_index(index: Subscriptions) -> str:
    groups = int(np.count_nonzero(np.diff(index.compiled().ends, axis=1)))
    return f"{len(index.numbers):,} subscriptions, {groups:,} distinct, {len(index.templates)} templates, {index.prefixes:,} prefixes"


def _against(stream: ItemStream, few: Subscriptions, many: Subscriptions, report: harness.Report) -> Joiner:
    alone, together = [], []
    for turn in range(ROUNDS + 1):
        small, large = stream.run(few), stream.run(many)
        if turn:
            alone.append(small.joined / large.joined)
            together.append((small.read + small.joined) / (large.read + large.joined))
    for name, one in ((BASE_COUNT, small), (len(many.numbers), large)):
        harness.print_line(
            f"million: {name:>9,} subscriptions: {stream.timed / one.joined:,.0f} items/s joined, "
            f"{stream.timed / (one.read + one.joined):,.0f} read and joined, {one.due / stream.timed:.3f} notifications an item, "
            f"{one.rows / stream.timed:.3f} pairs"
        )
    if abs(small.due - large.due) > 0.05 * small.due:
        raise AssertionError(f"{small.due} and {large.due} notifications are not the same")
    report.add("million.against_ten_thousand", statistics.median(alone))
    report.add("million.read_and_joined_against_ten_thousand", statistics.median(together))
    report.add("million.items_per_second", stream.timed / large.joined)
    return large.joiner


def _changes(
    stream: ItemStream, index: Subscriptions, register: IndexBuilder, joiner: Joiner, many: int, report: harness.Report
) -> None:
    """Add and remove subscriptions between documents: time until the first documents are joined with the new ones."""
    reader = ChainReader(compile_chains(list(index.chains)))
    times, bindings = stream.part(reader, len(stream.bodies) - PART)
    late = times + (times[-1] - times[0]) + 1
    new = {f"late-{number}": text for number, text in enumerate(texts(BASE_COUNT, BASE_COUNT + CHANGED, all_live=True))}
    start = time.perf_counter()
    register.add(new)
    joiner.changed()
    joiner.add(late, bindings)
    added = time.perf_counter() - start
    start = time.perf_counter()
    gone = index.remove(set(new))
    joiner.changed()
    joiner.add(late + (late[-1] - late[0]) + 1, bindings)
    removed = time.perf_counter() - start
    if gone != CHANGED:
        raise AssertionError(f"{gone} were removed")
    harness.print_line(
        f"million: {CHANGED:,} added to {many:,} in {added:.2f} s, removed in {removed:.2f} s, {PART} items being joined each time"
    )
    report.add("million.adding", 2 / added)
    report.add("million.removing", 2 / removed)


def _bursts(size: MillionSize, report: harness.Report) -> None:
    """Cost of a notification when very many subscriptions match."""
    taken: dict[int, list[Run]] = {BASE_COUNT: [], size.many: []}
    indexes = {count: build_index(burst(count))[0] for count in taken}
    streams = {count: ItemStream(2 * size.burst_items, count // PRICES, size.burst_items) for count in taken}
    for _ in range(ROUNDS + 1):
        for count, runs in taken.items():
            runs.append(streams[count].run(indexes[count], expand=True))
    for count, runs in taken.items():
        one, timed = runs[-1], streams[count].timed
        harness.print_line(
            f"million: {count:>9,} subscriptions of which very many are due: {one.due / timed:,.0f} notifications an item, "
            f"{1e6 * statistics.median(each.joined / each.due for each in runs[1:]):.3f} us each, "
            f"{1e6 * statistics.median((each.joined + each.expanded) / each.due for each in runs[1:]):.3f} us with whose each is "
            f"({_describe_index(indexes[count])})"
        )
    for name, cost in (("compact", lambda one: one.joined), ("expanded", lambda one: one.joined + one.expanded)):
        ratios = [
            (cost(small) / small.due) / (cost(large) / large.due)
            for small, large in zip(taken[BASE_COUNT][1:], taken[size.many][1:], strict=True)
        ]
        report.add(f"million.cost_per_notification.{name}", statistics.median(ratios))


def _memory(count: int, report: harness.Report) -> None:
    memory: Mapping[str, Any] = json.loads(
        subprocess.run(
            [sys.executable, "-m", "bench.joins.million", str(count)],
            check=True,
            capture_output=True,
            text=True,
            env=dict(os.environ),
        ).stdout
    )
    harness.print_line(
        f"million: {memory['bytes']:.0f} bytes for each of {memory['distinct']:,} distinct subscriptions, of these {memory['names']:.0f} "
        f"the text of its name; {memory['peak']:.0f} at the peak, while they are read"
    )
    report.add("million.memory", 200 / memory["bytes"])


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _peak() -> int:
    (line,) = (one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def measure_memory(count: int) -> dict[str, float]:
    """Memory of subscriptions in this process, as the difference of resident memory."""
    warm, _ = build_index(subscriptions(1_000))
    joiner = Joiner(warm)
    stream = ItemStream(PART, 10, 0)
    times, bindings = stream.part(ChainReader(compile_chains(list(warm.chains))), 0)
    joiner.add(times, bindings)
    names = sum(len(name) for name, _ in islice(subscriptions(count), 1_000)) / 1_000
    del warm, joiner, bindings
    gc.collect()
    before = _resident()
    index, register = build_index(subscriptions(count))
    joiner = Joiner(index)
    times, bindings = stream.part(ChainReader(compile_chains(list(index.chains))), 0)
    joiner.add(times, bindings)
    assert joiner.index is not None
    groups = int(np.count_nonzero(np.diff(joiner.index.ends, axis=1)))
    gc.collect()
    after = _resident()
    del register
    return {
        "bytes": (after - before) / groups,
        "distinct": groups,
        "names": names,
        "peak": (_peak() - before) / groups,
    }


if __name__ == "__main__":
    harness.print_line(json.dumps(measure_memory(int(sys.argv[1]))))
