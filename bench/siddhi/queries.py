"""Siddhi's apps: for each query the form that is nearest to its meaning.

One partition per key, and Siddhi's clock is that of the events (``@app:playback``). Its ``within`` includes its bound.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.workload import ABSENCE_MS, WINDOW_MS

_WITHIN = f"within {WINDOW_MS - 1} milliseconds"
SUMMED = 8
"""Q3: Siddhi has no aggregate over the events of a repetition. The callback adds up the first of them, by position."""


@dataclass(frozen=True)
class SiddhiForm:
    """A query in Siddhi's language; the stream Out has ``aid``, and for Q3 the values to add up."""

    app: str
    minimum_sum: float = float("-inf")
    """A match counts if the values after ``aid`` add up to more."""


def _app(body: str) -> str:
    return (
        "@app:playback define stream S (id long, ts long, key int, type string, v double); "
        f"partition with (key of S) begin from {body} insert into Out; end;"
    )


_VALUES = "".join(f", b[{i}].v as b{i}" for i in range(SUMMED))

FORMS: dict[str, SiddhiForm] = {
    # No clause skips past a match. A group under `every` starts again after a match, the nearest that there is.
    "Q1": SiddhiForm(
        _app(f"every (a=S[type=='A'] -> b=S[type=='B' and v>a.v] -> c=S[type=='C']) {_WITHIN} select a.id as aid")
    ),
    # The condition on the time makes the window exact: `within` alone returns matches that are longer.
    "Q1n": SiddhiForm(
        _app(
            f"every a=S[type=='A'] -> b=S[type=='B' and v>a.v] -> c=S[type=='C' and ts-a.ts<{WINDOW_MS}L] {_WITHIN} "
            "select a.id as aid"
        )
    ),
    "Q2": SiddhiForm(
        _app(f"every a=S[type=='A'], b=S[type=='B' and v>a.v], c=S[type=='C'] {_WITHIN} select a.id as aid")
    ),
    "Q3": SiddhiForm(
        _app(f"every a=S[type=='A'], b=S[type=='B']+, c=S[type=='C'] {_WITHIN} select a.id as aid{_VALUES}"),
        minimum_sum=100,
    ),
    "Q4": SiddhiForm(
        _app(f"every a=S[type=='A'] -> not S[type=='B'] for {ABSENCE_MS} milliseconds select a.id as aid")
    ),
}
