"""The claims of paper 4's evaluation, checked against the measurements of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench.disorder.measurements import MethodMeasurement

K_SLACK, CONSERVATIVE, AGGRESSIVE, INFA_HTS = "K-slack", "conservative", "aggressive", "INFA-HTS"
OTHERS = (K_SLACK, CONSERVATIVE, AGGRESSIVE)
TIE = 0.05
"""Times that differ by less than this share are tied; bytes, arrivals and shares are exact."""
CROSSING_PERCENT = 40
HOLDS, TIED, FAILS = "holds", "tied", "fails"
NOT_MEASURED = "not measured"

Lookup = Callable[[str, int], MethodMeasurement]
"""Measurement of a role of the paper at a percentage of delayed events."""
Check = Callable[[Lookup, Sequence[int]], list[str]]


@dataclass(frozen=True)
class PaperClaim:
    """A sentence of the paper, and a check that gives one verdict for each point it is about."""

    figure: int
    text: str
    check: Check


def _compare(small: float, large: float, tie: float) -> str:
    """Verdict on ``small`` being less than ``large``."""
    if abs(large - small) <= tie * max(abs(small), abs(large)):
        return TIED
    return HOLDS if small < large else FAILS


def _least(measure: str, role: str, others: Sequence[str], tie: float, sign: int = 1) -> Check:
    """A role has the least of a measure among others, at each percentage; the greatest if ``sign`` is -1."""

    def check(at: Lookup, percents: Sequence[int]) -> list[str]:
        return [
            _compare(
                sign * getattr(at(role, percent), measure),
                min(sign * getattr(at(other, percent), measure) for other in others),
                tie,
            )
            for percent in percents
        ]

    return check


def _cross(measure: str, tie: float) -> Check:
    """Aggressive has less than conservative below the crossing, and more from there on."""

    def check(at: Lookup, percents: Sequence[int]) -> list[str]:
        found = []
        for percent in percents:
            pair = [getattr(at(role, percent), measure) for role in (AGGRESSIVE, CONSERVATIVE)]
            small, large = pair if percent < CROSSING_PERCENT else reversed(pair)
            found.append(_compare(small, large, tie))
        return found

    return check


def _falls(measure: str, role: str, tie: float, sign: int = 1) -> Check:
    """A measure of a role falls from one percentage to the next; rises if ``sign`` is -1."""

    def check(at: Lookup, percents: Sequence[int]) -> list[str]:
        values = [sign * getattr(at(role, percent), measure) for percent in percents]
        return [_compare(after, before, tie) for before, after in pairwise(values)]

    return check


def _all_rise(at: Lookup, percents: Sequence[int]) -> list[str]:
    """The time of each of the four is greater at the highest percentage than at the lowest."""
    ends = [(at(role, percents[0]).seconds, at(role, percents[-1]).seconds) for role in (*OTHERS, INFA_HTS)]
    return [_compare(first, last, TIE) for first, last in ends]


def _flattest(at: Lookup, percents: Sequence[int]) -> list[str]:
    """The time of INFA-HTS grows by a smaller factor than that of each other."""
    growth = {role: at(role, percents[-1]).seconds / at(role, percents[0]).seconds for role in (*OTHERS, INFA_HTS)}
    return [_compare(growth[INFA_HTS], growth[other], TIE) for other in OTHERS]


def _most_memory(at: Lookup, percents: Sequence[int]) -> list[str]:
    """Aggressive and K-slack both need more memory than conservative and INFA-HTS."""
    return [
        _compare(
            max(at(role, percent).peak_bytes for role in (CONSERVATIVE, INFA_HTS)),
            min(at(role, percent).peak_bytes for role in (AGGRESSIVE, K_SLACK)),
            0.0,
        )
        for percent in percents
    ]


def _similar_recall(at: Lookup, percents: Sequence[int]) -> list[str]:
    found = []
    for percent in percents:
        values = [at(role, percent).quality.emitted_recall for role in (K_SLACK, CONSERVATIVE, INFA_HTS)]
        found.append(HOLDS if max(values) - min(values) <= 0.01 else FAILS)
    return found


def _worst(measure: str) -> Check:
    """Aggressive has the least of a measure of quality."""

    def check(at: Lookup, percents: Sequence[int]) -> list[str]:
        found = []
        for percent in percents:
            values = [getattr(at(role, percent).quality, measure) for role in (K_SLACK, CONSERVATIVE, INFA_HTS)]
            found.append(_compare(getattr(at(AGGRESSIVE, percent).quality, measure), min(values), 0.0))
        return found

    return check


CLAIMS = (
    PaperClaim(4, "INFA-HTS has the least execution time", _least("seconds", INFA_HTS, OTHERS, TIE)),
    PaperClaim(4, "Aggressive follows", _least("seconds", AGGRESSIVE, (K_SLACK, CONSERVATIVE), TIE)),
    PaperClaim(4, "K-slack has the largest execution time", _least("seconds", K_SLACK, (CONSERVATIVE, AGGRESSIVE, INFA_HTS), TIE, -1)),
    PaperClaim(4, "Aggressive is faster than conservative below 40 %, slower from 40 %", _cross("seconds", TIE)),
    PaperClaim(5, "INFA-HTS needs the least memory", _least("peak_bytes", INFA_HTS, OTHERS, 0.0)),
    PaperClaim(5, "Conservative follows", _least("peak_bytes", CONSERVATIVE, (K_SLACK, AGGRESSIVE), 0.0)),
    PaperClaim(5, "Aggressive and K-slack need the most memory", _most_memory),
    PaperClaim(6, "INFA-HTS has the least latency", _least("latency", INFA_HTS, OTHERS, 0.0)),
    PaperClaim(6, "K-slack has the largest latency", _least("latency", K_SLACK, (CONSERVATIVE, AGGRESSIVE, INFA_HTS), 0.0, -1)),
    PaperClaim(6, "Aggressive has less latency than conservative below 40 %, more from 40 %", _cross("latency", 0.0)),
    PaperClaim(6, "The latency of conservative falls with more delayed events", _falls("latency", CONSERVATIVE, 0.0)),
    PaperClaim(7, "INFA-HTS, conservative and K-slack have similar accuracy (recall)", _similar_recall),
    PaperClaim(7, "Aggressive has the worst accuracy, as recall of the emitted matches", _worst("emitted_recall")),
    PaperClaim(7, "Aggressive has the worst accuracy, as precision of the emitted matches", _worst("emitted_precision")),
    PaperClaim(8, "INFA-HTS has the highest throughput", _least("rate", INFA_HTS, OTHERS, TIE, -1)),
    PaperClaim(8, "K-slack has the lowest throughput", _least("rate", K_SLACK, (CONSERVATIVE, AGGRESSIVE, INFA_HTS), TIE)),
    PaperClaim(8, "The times of all four grow with the share of delayed events", _all_rise),
    PaperClaim(8, "The time of INFA-HTS grows least", _flattest),
)  # fmt: skip
GROUPS: Mapping[str, Mapping[str, str]] = {
    "others over stacks": {role: f"{role}, stacks" for role in OTHERS} | {INFA_HTS: "assemble"},
    "all over the shared search": {role: role for role in OTHERS} | {INFA_HTS: "assemble"},
}
"""By comparison: the measured method that has a role of the paper."""


def verdict(found: Sequence[str]) -> str:
    """One verdict of several points."""
    if not found:
        return NOT_MEASURED
    held, tied = found.count(HOLDS), found.count(TIED)
    if held == len(found):
        return "holds"
    if not held:
        return "does not hold" if not tied else f"does not hold (tied at {tied} of {len(found)})"
    return f"holds at {held} of {len(found)}" + (f", tied at {tied}" if tied else "")


def check_claims(measurements: Sequence[MethodMeasurement]) -> Iterator[tuple[PaperClaim, list[str]]]:
    """Each claim with its verdict by comparison; a claim about a method that failed is not measured."""
    known = {(one.method, one.disorder): one for one in measurements}
    percents = sorted({one.disorder for one in measurements})
    for claim in CLAIMS:
        verdicts = []
        for names in GROUPS.values():

            def at(role: str, percent: int, names: Mapping[str, str] = names) -> MethodMeasurement:
                return known[names[role], percent]

            try:
                verdicts.append(verdict(claim.check(at, percents) if percents else []))
            except KeyError:
                verdicts.append(NOT_MEASURED)
        yield claim, verdicts
