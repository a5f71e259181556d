"""DuckDB with SQL written by hand: Parquet to the number of matches and the sum of ids."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt

from bench.truth import MatchChecksum
from bench.workload import ABSENCE_MS, WINDOW_MS

_WINDOW_US = WINDOW_MS * 1000
_ABSENCE_US = ABSENCE_MS * 1000
_EVENTS = "(select id, epoch_us(ts) as ts, key, type, v from read_parquet($path))"

_Q1N = f"""
with e as (select * from {_EVENTS} where type in ('A', 'B', 'C')),
a as (select * from e where type = 'A'),
b as (select * from e where type = 'B'),
c as (select key, ts from e where type = 'C'),
ab as (
  select a.key, a.id, a.ts, min(b.ts) as b_ts
  from a join b on a.key = b.key and b.ts > a.ts and b.ts < a.ts + {_WINDOW_US} and b.v > a.v
  group by all),
abc as (
  select ab.id from ab asof join c on ab.key = c.key and ab.b_ts < c.ts where c.ts < ab.ts + {_WINDOW_US})
select id as aid from abc
"""

_Q2 = f"""
select id as aid from (
  select id, ts, type, v, lead(type, 1) over w as type1, lead(type, 2) over w as type2, lead(v, 1) over w as v1,
    lead(ts, 2) over w as ts2
  from {_EVENTS} window w as (partition by key order by ts))
where type = 'A' and type1 = 'B' and type2 = 'C' and v1 > v and ts2 - ts < {_WINDOW_US}
"""

_Q3 = f"""
with numbered as (
  select id, ts, type, key, row_number() over w as place, sum(case when type = 'B' then v else 0 end) over w as b_sum
  from {_EVENTS} window w as (partition by key order by ts)),
paired as (
  select *, lead(type) over w as type1, lead(ts) over w as ts1, lead(place) over w as place1, lead(b_sum) over w as b_sum1
  from numbered where type <> 'B' window w as (partition by key order by ts))
select id as aid from paired
where type = 'A' and type1 = 'C' and place1 - place >= 2 and b_sum1 - b_sum > 100 and ts1 - ts < {_WINDOW_US}
"""

_Q4 = f"""
select id as aid from (
  select id, ts, type, min(case when type = 'B' then ts end) over (
    partition by key order by ts desc rows between unbounded preceding and 1 preceding) as next_b
  from {_EVENTS})
where type = 'A' and (next_b is null or next_b - ts >= {_ABSENCE_US})
"""

_Q4_FILTERED = _Q4.replace(f"from {_EVENTS})", f"from {_EVENTS} where type in ('A', 'B'))")

_Q4_ASOF = f"""
with e as (select id, ts, key, type from {_EVENTS} where type in ('A', 'B'))
select a.id as aid
from (select * from e where type = 'A') a asof left join (select key, ts from e where type = 'B') b
  on a.key = b.key and a.ts < b.ts
where b.ts is null or b.ts - a.ts >= {_ABSENCE_US}
"""

SQL: dict[str, str] = {"Q1n": _Q1N, "Q2": _Q2, "Q3": _Q3, "Q4": _Q4}
"""The forms that targets refer to."""
OTHER_FORMS: dict[str, dict[str, str]] = {"Q4": {"duckdb_filtered": _Q4_FILTERED, "duckdb_asof": _Q4_ASOF}}
"""Further forms, reported without targets."""


class DuckDB:
    """An in-memory database on all cores that reads the Parquet file again for each query."""

    def __init__(self) -> None:
        self._connection = duckdb.connect()
        self._connection.execute("set memory_limit = '8GB'")

    def run(self, sql: str, path: Path) -> MatchChecksum:
        """Run one form of a query over a file."""
        counted = f"select count(*), sum(aid) from ({sql})"
        row = self._connection.execute(counted, {"path": str(path)}).fetchone()
        if row is None:
            return MatchChecksum(0, 0)
        return MatchChecksum(int(row[0]), int(row[1] or 0))

    def ids(self, sql: str, path: Path) -> npt.NDArray[np.int64]:
        """Ids of the matches of one form of a query over a file."""
        found = self._connection.execute(sql, {"path": str(path)}).fetchnumpy()["aid"]
        return np.asarray(found, np.int64)

    def interrupt(self) -> None:
        """End the running query, from another thread."""
        self._connection.interrupt()

    def close(self) -> None:
        """Release the memory."""
        self._connection.close()
