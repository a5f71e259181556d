"""The oracle and Trino find the same matches of patterns that both the language and SQL:2016 row patterns can express.

    .ci/trino run pytest -m trino tests/trino

A failure has its seed; ``PERSEID_TRINO_SEEDS=123:124`` runs only this seed, ``0:20000`` runs more seeds.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from sql import Query, Row, UntranslatableError, rows_of, step_of, translate
from strategies import SECOND, STREAMS, Sample, sample

from perseid.errors import SemanticError
from perseid.lang import ast
from perseid.lang.parser import parse_pattern
from perseid.lang.printer import print_pattern
from perseid.reference.oracle import oracle_matcher
from perseid.semantics import core as c
from perseid.semantics.detection import detect
from perseid.semantics.events import Event
from perseid.semantics.resolve import resolve

PORT = os.environ.get("PERSEID_TRINO_PORT")
FIRST, LAST = map(int, os.environ.get("PERSEID_TRINO_SEEDS", "0:1000").split(":"))
BLOCK = 25

Found = tuple[tuple[int, int], ...]
"""One match, as pairs of a step and the number of its event."""

needs_trino = [
    pytest.mark.trino,
    pytest.mark.skipif(PORT is None, reason="PERSEID_TRINO_PORT is not set: run with .ci/trino run …"),
]


# both engines


def execute_on_trino(query: str) -> list[list[object]]:
    import trino.dbapi

    with trino.dbapi.connect(host="127.0.0.1", port=int(PORT or 0), user="perseid") as connection:
        cursor = connection.cursor()
        cursor.execute(query)
        return cursor.fetchall()


def match_with_trino(query: Query, rows: Sequence[Row]) -> dict[int, list[Found]]:
    """Return the matches of the SQL query, by stream."""
    if not rows:
        return {}
    matches: dict[tuple[int, object, int], list[tuple[int, int]]] = {}
    for stream, key, number, variable, seq in execute_on_trino(query.over(rows)):
        matches.setdefault((stream, key, number), []).append((seq, step_of(variable)))
    found: dict[int, list[Found]] = {}
    for (stream, _, _), events in matches.items():
        found.setdefault(stream, []).append(tuple((step, seq) for seq, step in sorted(events)))
    return {stream: sorted(matches) for stream, matches in found.items()}


def match_with_oracle(pattern: c.CorePattern, stream: Iterable[Row]) -> list[Found]:
    events = [
        Event(kind, time * SECOND, {"k": key, "v": value, "seq": seq}, str(seq), 0, (seq,))
        for _, key, time, seq, kind, value in stream
    ]
    matches = detect([pattern], events, oracle_matcher()).matches
    return sorted(tuple((step, event.attributes["seq"]) for step, event in m.contributing) for m in matches)


def shrink(query: Query, pattern: c.CorePattern, stream: Sequence[Row]) -> list[Row]:
    """Remove events from the stream as long as the results still differ."""
    rows = sorted(stream, key=lambda row: row[3])
    i = 0
    while i < len(rows):
        fewer = rows[:i] + rows[i + 1 :]
        if match_with_oracle(pattern, fewer) != match_with_trino(query, fewer).get(stream[0][0], []):
            rows, i = fewer, 0
        else:
            i += 1
    return rows


def explain(case: Sample, pattern: c.CorePattern, stream: Sequence[Row]) -> str:
    rows = shrink(case.query, pattern, stream)
    written = "; ".join(f"{seq}: {kind} time={t} k={k} v={v}" for _, k, t, seq, kind, v in rows)
    return (
        f"seed {case.seed}\n{print_pattern(case.pattern)}events {written}\n"
        f"oracle {match_with_oracle(pattern, rows)}\ntrino  {match_with_trino(case.query, rows).get(stream[0][0], [])}\n"
        f"{case.query.over(rows)}"
    )


# random pairs


@pytest.mark.parametrize("first", range(FIRST, LAST, BLOCK), ids=lambda first: f"seeds-from-{first}")
class TestRandomPairs:
    pytestmark = needs_trino

    def test_oracle_and_trino_find_the_same_matches(self, first: int) -> None:
        cases = [sample(seed) for seed in range(first, min(first + BLOCK, LAST))]
        wrong, pairs, matched, matches = [], 0, 0, 0
        with ThreadPoolExecutor(2) as pool:
            results = [pool.submit(match_with_trino, case.query, rows_of(case.streams)) for case in cases]
            for case, result in zip(cases, results, strict=True):
                pattern = resolve(case.pattern)
                expected = [match_with_oracle(pattern, stream) for stream in case.streams]
                actual = result.result()
                for number, (stream, mine) in enumerate(zip(case.streams, expected, strict=True)):
                    pairs += 1
                    matched += bool(mine)
                    matches += len(mine)
                    if mine != actual.get(number, []):
                        wrong.append(explain(case, pattern, stream))
                        break
        print(f"pairs {pairs}, with matches {matched}, matches {matches}, patterns that differ {len(wrong)}")
        assert not wrong, f"{len(wrong)} patterns differ\n\n" + "\n\n".join(wrong[:5])
        assert matched * 10 > pairs or pairs < STREAMS * BLOCK, "too few streams have matches"


# known differences

# Each is explained in docs/sql-differences.md. Rows are types with a value: "A1 B C3".
DIFFERENCES = {
    "an empty iteration beyond the minimum does not end a repetition": (
        "match (A*? a)*, A b after match skip past last",
        "A A",
        [((0, 0), (1, 1))],
        [((1, 0),), ((1, 1),)],
    ),
    "an empty iteration counts for all remaining required iterations": (
        "match (A?? a, C? b){1,3}, C c after match skip past last",
        "A C C C",
        [((0, 0), (1, 1), (1, 2), (2, 3))],
        [((0, 0), (1, 1), (2, 2)), ((2, 3),)],
    ),
    "members of a conjunction are chosen one by one": (
        "match B? a & any b & C c selection sql",
        "B C A",
        [((0, 0), (2, 1), (1, 2))],
        [((1, 0), (2, 1))],
    ),
    "a name in a repetition is the event of the current iteration": (
        "match (A? a, B b [a.v is null or v > a.v])+ consecutive after match skip past last",
        "A1 B2 B0",
        [((0, 0), (1, 1), (1, 2))],
        [((0, 0), (1, 1)), ((1, 2),)],
    ),
}
ERRORS = {
    "a skip to the start": ("match A a, B b after match skip to first a", "A B", [((0, 0), (1, 1))]),
    "a skip to a step without events": (
        "match A a, B? b, C c after match skip to last b",
        "A C",
        [((0, 0), (2, 1))],
    ),
}


def stream_of(text: str) -> tuple[Row, ...]:
    return tuple(
        (0, 1, number, number, word[0], int(word[1:]) if word[1:] else None) for number, word in enumerate(text.split())
    )


class TestDifferences:
    pytestmark = needs_trino

    @pytest.mark.parametrize(("text", "rows", "mine", "sql"), DIFFERENCES.values(), ids=DIFFERENCES)
    def test_known_difference(self, text: str, rows: str, mine: list[Found], sql: list[Found]) -> None:
        pattern, stream = parse_pattern(f"pattern p {text}"), stream_of(rows)
        assert match_with_oracle(resolve(pattern), stream) == mine
        assert match_with_trino(translate(pattern, anyway=True), stream)[0] == sql

    def test_trino_has_two_rules_for_empty_iterations(self) -> None:
        pattern = parse_pattern("pattern p match (C? a | A b)*, A c after match skip past last")
        query = translate(pattern, anyway=True)
        assert match_with_trino(query, stream_of("A A"))[0] == [((2, 0),), ((2, 1),)]
        assert match_with_trino(query, stream_of("C A A"))[0] == [((0, 0), (1, 1), (2, 2))]
        assert match_with_oracle(resolve(pattern), stream_of("A A")) == [((1, 0), (2, 1))]
        assert match_with_oracle(resolve(pattern), stream_of("C A A")) == [((0, 0), (1, 1), (2, 2))]

    @pytest.mark.parametrize(("text", "rows", "mine"), ERRORS.values(), ids=ERRORS)
    def test_skip_that_is_an_error_only_in_sql(self, text: str, rows: str, mine: list[Found]) -> None:
        from trino.exceptions import TrinoQueryError

        pattern, stream = parse_pattern(f"pattern p {text}"), stream_of(rows)
        assert match_with_oracle(resolve(pattern), stream) == mine
        with pytest.raises(TrinoQueryError, match="AFTER MATCH SKIP"):
            match_with_trino(translate(pattern, anyway=True), stream)

    def test_empty_match_is_rejected_by_perseid_and_returned_by_sql(self) -> None:
        with pytest.raises(SemanticError, match="no event at all"):
            resolve(parse_pattern("pattern p match A* a consecutive after match skip past last"))
        query = Query("S0*", (("S0", "S0.type = 'A'"),), "PAST LAST ROW", partitioned=False)
        assert [row[3] for row in execute_on_trino(query.over(stream_of("B")))] == [None]

    def test_patterns_with_a_difference_are_untranslatable(self) -> None:
        for text in [case[0] for case in (*DIFFERENCES.values(), *ERRORS.values())]:
            with pytest.raises(UntranslatableError):
                translate(parse_pattern(f"pattern p {text}"))


# the generator itself


WORDS = (
    "where", "within", "must", "any(", "every(", "count(", "sum(", "avg(", "min(", "max(", "first(", "last(",
    "prev(", "as x", " or ", "<=>", "is null",
)  # fmt: skip


def test_every_construct_is_generated() -> None:
    counts: Counter[str] = Counter()
    for seed in range(200):
        pattern = sample(seed, streams=0).pattern
        text = print_pattern(pattern)
        parts = list(elements(pattern.match))
        counts.update({type(part).__name__ for part in parts})
        counts.update({"reluctant" for part in parts if isinstance(part, ast.Repeat) and part.reluctant})
        counts.update({"nested" for p in parts if isinstance(p, ast.Repeat) and not isinstance(p.element, ast.Step)})
        counts.update(word for word in WORDS if word in text)
        counts[f"skip {pattern.skip.mode if pattern.skip else pattern.selection}"] += 1
    expected = {"Alternation", "Conjunction", "reluctant", "nested", *WORDS} | {
        f"skip {mode}" for mode in ("none", "to next", "past last", "to first", "to last", ast.Selection.SQL)
    }
    assert not {word for word in expected if counts[word] < 2}, counts


def elements(element: ast.Element) -> Iterable[ast.Element]:
    yield element
    for part in ast.parts(element):
        yield from elements(part)


def test_samples_are_deterministic() -> None:
    assert sample(7) == sample(7)
    assert len(sample(7).streams) == STREAMS
