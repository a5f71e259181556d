"""The oracle against Trino: where the language and SQL:2016 row patterns overlap, they find the same matches.

    .ci/trino run .venv/bin/pytest -m trino tests/trino

A failure names its seed; ``PERSEID_TRINO_SEEDS=123:124`` runs that one alone, ``0:20000`` goes on for longer.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from sql import Query, Row, rows_of, step_of, translate
from strategies import SECOND, STREAMS, Sample, sample

from perseid.errors import MeaningError
from perseid.lang import ast
from perseid.lang.parser import parse_pattern
from perseid.lang.printer import print_pattern
from perseid.semantics import core as c
from perseid.semantics.detection import detect, oracle_matcher
from perseid.semantics.events import Event
from perseid.semantics.resolve import resolve

PORT = os.environ.get("PERSEID_TRINO_PORT")
FIRST, LAST = map(int, os.environ.get("PERSEID_TRINO_SEEDS", "0:1000").split(":"))
BLOCK = 25

Found = tuple[tuple[int, int], ...]
"""One match: which event (by number) stands at which step."""

needs_trino = [
    pytest.mark.trino,
    pytest.mark.skipif(PORT is None, reason="PERSEID_TRINO_PORT is not set: run with .ci/trino run …"),
]


# --- both sides -----------------------------------------------------------------------------------------------


def ask_trino(query: str) -> list[list[object]]:
    import trino.dbapi

    with trino.dbapi.connect(host="127.0.0.1", port=int(PORT or 0), user="perseid") as connection:
        cursor = connection.cursor()
        cursor.execute(query)
        return cursor.fetchall()


def theirs(query: Query, rows: Sequence[Row]) -> dict[int, list[Found]]:
    """What SQL finds, by stream."""
    if not rows:
        return {}
    matches: dict[tuple[int, object, int], list[tuple[int, int]]] = {}
    for stream, key, number, variable, seq in ask_trino(query.over(rows)):
        matches.setdefault((stream, key, number), []).append((seq, step_of(variable)))
    found: dict[int, list[Found]] = {}
    for (stream, _, _), events in matches.items():
        found.setdefault(stream, []).append(tuple((step, seq) for seq, step in sorted(events)))
    return {stream: sorted(matches) for stream, matches in found.items()}


def ours(pattern: c.CorePattern, stream: Iterable[Row]) -> list[Found]:
    events = [
        Event(kind, time * SECOND, {"k": key, "v": value, "seq": seq}, str(seq), 0, (seq,))
        for _, key, time, seq, kind, value in stream
    ]
    matches = detect([pattern], events, oracle_matcher()).matches
    return sorted(tuple((step, event.attributes["seq"]) for step, event in m.contributing) for m in matches)


def shrink(query: Query, pattern: c.CorePattern, stream: Sequence[Row]) -> list[Row]:
    """The stream without every event that the difference does not need."""
    rows = sorted(stream, key=lambda row: row[3])
    i = 0
    while i < len(rows):
        fewer = rows[:i] + rows[i + 1 :]
        if ours(pattern, fewer) != theirs(query, fewer).get(stream[0][0], []):
            rows, i = fewer, 0
        else:
            i += 1
    return rows


def explain(case: Sample, pattern: c.CorePattern, stream: Sequence[Row]) -> str:
    rows = shrink(case.query, pattern, stream)
    written = "; ".join(f"{seq}: {kind} time={t} k={k} v={v}" for _, k, t, seq, kind, v in rows)
    return (
        f"seed {case.seed}\n{print_pattern(case.pattern)}events {written}\n"
        f"ours   {ours(pattern, rows)}\ntheirs {theirs(case.query, rows).get(stream[0][0], [])}\n"
        f"{case.query.over(rows)}"
    )


# --- random pairs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", range(FIRST, LAST, BLOCK), ids=lambda first: f"seeds-from-{first}")
class TestRandomPairs:
    pytestmark = needs_trino

    def test_the_same_matches(self, first: int, record_property) -> None:
        cases = [sample(seed) for seed in range(first, min(first + BLOCK, LAST))]
        wrong, pairs, matched, matches = [], 0, 0, 0
        with ThreadPoolExecutor(2) as pool:
            answers = [pool.submit(theirs, case.query, rows_of(case.streams)) for case in cases]
            for case, answer in zip(cases, answers, strict=True):
                pattern = resolve(case.pattern)
                expected = [ours(pattern, stream) for stream in case.streams]
                given = answer.result()
                for number, (stream, mine) in enumerate(zip(case.streams, expected, strict=True)):
                    pairs += 1
                    matched += bool(mine)
                    matches += len(mine)
                    if mine != given.get(number, []):
                        wrong.append(explain(case, pattern, stream))
                        break
        record_property("pairs", pairs)
        record_property("pairs_with_matches", matched)
        record_property("matches", matches)
        assert not wrong, f"{len(wrong)} patterns differ\n\n" + "\n\n".join(wrong[:5])
