"""Flink's queries: for each query the fastest form found that returns the correct matches.

If a query lets other events pass, events of types that it does not name are dropped before the shuffle, as an
experienced user would write it; otherwise ``MATCH_RECOGNIZE`` and Flink CEP would buffer, sort and check all of them.

Flink's ``within`` excludes its bound: within 60 seconds means less than 60 seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.workload import ABSENCE_MS, PAIR_WINDOW_MS, QUERIES, WINDOW_MS, Query

DELAY_MS = 1000
"""Lateness of events, as in the stream that Flink is compared with."""

_WINDOWS = {"Q4": ABSENCE_MS, "Q5": PAIR_WINDOW_MS}
_FIELDS = {"id": "bigint", "ts": "timestamp_ltz(3)", "key": "int", "type": "string", "v": "double"}


# Flink CEP


@dataclass(frozen=True)
class CepForm:
    """A pattern of ``Patterns.java`` and the parameters of its job."""

    query: str
    window_ms: int
    types: str
    """First letters of the event types that are not filtered out; empty if all types matter."""
    reads_v: bool
    long_keys: bool


def cep_form(query: Query) -> CepForm:
    """Flink CEP form of a query; CEP can express every query."""
    return CepForm(
        query.name,
        _WINDOWS.get(query.name, WINDOW_MS),
        types="" if query.strict else "".join(query.types),
        reads_v="v" in query.columns,
        long_keys=query.dataset == "wide",
    )


# Flink SQL


def table(query: Query, folder: str) -> str:
    """The table of a query: only the columns it reads, with the stream's watermark."""
    kinds = _FIELDS | ({"key": "string"} if query.dataset == "wide" else {})
    columns = ", ".join(f"`{name}` {kinds[name]}" for name in query.columns)
    return (
        f"create table events ({columns}, watermark for ts as ts - interval '{DELAY_MS / 1000:.3f}' second(3)) "
        f"with ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'parquet', 'parquet.utc-timezone' = 'true')"
    )


def _recognize(query: Query, pattern: str, define: str, skip: str) -> str:
    window = _WINDOWS.get(query.name, WINDOW_MS)
    kept = ", ".join(f"'{name}'" for name in query.types)
    events = "events" if query.strict else f"(select * from events where type in ({kept}))"
    return (
        f"select aid from {events} match_recognize (partition by `key` order by ts measures a.id as aid "
        f"one row per match after match skip {skip} pattern ({pattern}) within interval '{window // 1000}' second(3) "
        f"define {define})"
    )


# Between its steps, a row is any row that the next step does not take: Flink follows one thread; with `x*?` it would
# follow all.
_RISING = "a x* b y* c"
_RISING_ROWS = (
    "a as a.type = 'A', x as x.type <> 'B' or x.v <= a.v, b as b.type = 'B' and b.v > a.v, "
    "y as y.type <> 'C', c as c.type = 'C'"
)
_STRICT_ROWS = "a as a.type = 'A', b as b.type = 'B' and b.v > a.v, c as c.type = 'C'"
_RUN_ROWS = "a as a.type = 'A', b as b.type = 'B', c as c.type = 'C' and sum(b.v) > 100"
_EVERY_START = "to next row"
_PAST_LAST = "past last row"

# A MATCH_RECOGNIZE match ends with a row, but an absence has no row; an outer join within time bounds expresses it.
_ABSENCE = f"""\
select a.id as aid from (select * from events where type = 'A') a left join (select * from events where type = 'B') b
on a.`key` = b.`key` and b.ts between a.ts and a.ts + interval '{(ABSENCE_MS - 1) / 1000:.3f}' second(3)
where b.id is null"""

SQL: dict[str, str] = {
    "Q1": _recognize(QUERIES["Q1"], _RISING, _RISING_ROWS, _PAST_LAST),
    "Q1n": _recognize(QUERIES["Q1n"], _RISING, _RISING_ROWS, _EVERY_START),
    "Q2": _recognize(QUERIES["Q2"], "a b c", _STRICT_ROWS, _PAST_LAST),
    "Q3": _recognize(QUERIES["Q3"], "a b+ c", _RUN_ROWS, _PAST_LAST),
    "Q4": _ABSENCE,
    "Q1w": _recognize(QUERIES["Q1w"], _RISING, _RISING_ROWS, _PAST_LAST),
    "Q5": _recognize(QUERIES["Q5"], "a b", "a as a.type = 'A'", _EVERY_START),
}
