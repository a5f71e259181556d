"""Subscriptions of the product agree with a brute force over all pairs of documents."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache
from random import Random

import pytest

import perseid as ps
from tests.second_opinion.subscriptions import (
    Notifications,
    StreamDocument,
    Subscription,
    SubscriptionMaker,
    find_notifications,
    print_subscription,
    random_documents,
)

CASES = int(os.environ.get("PERSEID_SECOND_OPINION_CASES", "500"))
DEEP_CASES = 50_000
BLOCKS = 10
BATCH_SEEDS = 25  # seeds that share documents and one call of the product
SHARED_ROWS_EVERY = 3  # batches; rows that name several subscriptions are compared in one of these
MAX_FAILURES_SHOWN = 3
MIN_COMPARED_SHARE = 0.6
MIN_NONEMPTY_SHARE = 0.25

Values = tuple[tuple[str, str], ...]
Found = dict[str, Counter[tuple[int, int, Values]]]


@dataclass
class SubscriptionTally:
    """Counts of a block."""

    cases: int = 0
    rejected: int = 0
    nonempty: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def compared(self) -> int:
        return self.cases - self.rejected

    def check(self) -> None:
        """Require that nothing differs."""
        shown = "\n\n".join(self.failures[:MAX_FAILURES_SHOWN])
        assert not self.failures, f"{len(self.failures)} of {self.compared} cases differ.\n{shown}"


def check_shares(tallies: list[SubscriptionTally]) -> None:
    """Require that enough cases were compared and enough of them have notifications."""
    compared = sum(tally.compared for tally in tallies)
    assert compared >= MIN_COMPARED_SHARE * sum(tally.cases for tally in tallies)
    assert sum(tally.nonempty for tally in tallies) >= MIN_NONEMPTY_SHARE * compared


def make_documents(seed: int) -> list[StreamDocument]:
    """Documents of the batch that a seed belongs to."""
    return random_documents(Random(f"documents {seed // BATCH_SEEDS}"))


def make_subscription(seed: int) -> Subscription:
    """Subscription of a seed."""
    return SubscriptionMaker(Random(f"subscription {seed}")).make()


def make_owners(seed: int) -> list[str]:
    """Names under which the subscription of a seed is registered."""
    return [f"s{seed}"] if seed % 7 else [f"s{seed}", f"s{seed} again", f"s{seed} third"]


def run_product(
    texts: dict[str, str], documents: list[StreamDocument], *, shared_rows: bool = False
) -> tuple[Found, Counter[tuple[str, int, int]] | None]:
    """Notifications by subscription with their values, and those of rows that name several subscriptions."""
    given = ps.documents(
        [{"n": each.number, "at": each.time_s, "stream": each.stream, "xml": each.xml} for each in documents],
        body="xml",
        type="stream",
        time="at",
        id="n",
    )
    subscriptions = ps.xscl.subscriptions(texts)
    expanded: Found = defaultdict(Counter)
    for row in subscriptions.match(given, expand=True).to_pylist():
        values = tuple(sorted(dict(row["values"]).items()))
        expanded[row["subscription"]][row["left"]["n"], row["right"]["n"], values] += 1
    if not shared_rows:
        return expanded, None
    together: Counter[tuple[str, int, int]] = Counter()
    for row in subscriptions.match(given).to_pylist():
        for name in row["subscriptions"]:
            together[name, row["left"]["n"], row["right"]["n"]] += 1
    return expanded, together


def find_difference(expected: Notifications, actual: Counter[tuple[int, int, Values]]) -> str | None:
    """A sentence on the first difference, or None."""
    return None if actual == expected.exact else "The notifications differ."


def compare_batch(seeds: list[int], tally: SubscriptionTally) -> None:
    """Compare all subscriptions of a batch with the product."""
    documents = make_documents(seeds[0])
    cases = {seed: make_subscription(seed) for seed in seeds}
    texts = {name: print_subscription(case) for seed, case in cases.items() for name in make_owners(seed)}
    tally.cases += len(seeds)
    shared_rows = seeds[0] // BATCH_SEEDS % SHARED_ROWS_EVERY == 0
    try:
        expanded, together = run_product(texts, documents, shared_rows=shared_rows)
    except ps.PerseidError:
        for seed in list(cases):
            try:
                ps.xscl.subscriptions(texts[f"s{seed}"])
            except ps.PerseidError:
                tally.rejected += 1
                del cases[seed]
                for name in make_owners(seed):
                    del texts[name]
        if not texts:
            return
        expanded, together = run_product(texts, documents, shared_rows=shared_rows)
    for seed, case in cases.items():
        expected = find_notifications(case, documents)
        tally.nonempty += bool(expected.exact)
        for name in make_owners(seed):
            actual = expanded.get(name, Counter())
            difference = find_difference(expected, actual)
            if difference is None and together is not None:
                pairs = Counter({(left, right): n for (owner, left, right), n in together.items() if owner == name})
                if pairs != expected.pairs():
                    difference = f"Rows that name several subscriptions differ: {sorted(pairs.items())}"
            if difference is not None:
                tally.failures.append(
                    describe_difference(seed, name, texts[name], documents, expected, actual, difference)
                )


def describe_difference(
    seed: int,
    name: str,
    text: str,
    documents: list[StreamDocument],
    expected: Notifications,
    actual: Counter[tuple[int, int, Values]],
    difference: str,
) -> str:
    """Seed, subscription, documents and both results of a case."""
    alone = run_product({name: text}, documents)[0].get(name, Counter())
    lines = [
        f"seed {seed}, registered as {name!r}: {difference}",
        f"subscription  {text}",
        f"the product gives {'the same' if alone == actual else 'ANOTHER RESULT'} for the subscription alone",
    ]
    lines += [f"document {each.number} of {each.stream} at {each.time_s}  {each.xml}" for each in documents]
    lines += ["brute force", *(f"  {count} x {key}" for key, count in sorted(expected.exact.items()))]
    lines += ["product", *(f"  {count} x {key}" for key, count in sorted(actual.items()))]
    return "\n".join(lines)


def compare_block(first: int, last: int) -> SubscriptionTally:
    """Compare the seeds from first to before last."""
    tally = SubscriptionTally()
    batches: dict[int, list[int]] = defaultdict(list)
    for seed in range(first, last):
        batches[seed // BATCH_SEEDS].append(seed)
    for members in batches.values():
        compare_batch(members, tally)
    return tally


@cache
def compare_default_block(block: int) -> SubscriptionTally:
    """Compare one block of the default cases; a second call returns the same tally."""
    return compare_block(CASES * block // BLOCKS, CASES * (block + 1) // BLOCKS)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_subscriptions_agree_with_brute_force(block: int) -> None:
    compare_default_block(block).check()


def test_enough_random_subscriptions_are_compared_and_have_notifications() -> None:
    check_shares([compare_default_block(block) for block in range(BLOCKS)])


@pytest.mark.deep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_subscriptions_agree_with_brute_force_deep(block: int) -> None:
    tally = compare_block(DEEP_CASES * block // BLOCKS, DEEP_CASES * (block + 1) // BLOCKS)
    tally.check()
    check_shares([tally])


@pytest.mark.parametrize("fragment", ["JOIN{", "FOLLOWED BY{", " OR ", " AND (", "contains", "forever", "/@k", " < "])
def test_random_subscriptions_cover_the_language(fragment: str) -> None:
    texts = [print_subscription(make_subscription(seed)) for seed in range(500)]
    assert sum(fragment in text for text in texts) >= 10
