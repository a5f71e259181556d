"""Trino with SQL:2016 row patterns over the Parquet file, on a server that ``.ci/trino`` starts and stops."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import MissingToolError
from bench.report.engines import Call, OpenEngine, Run, Workload, just
from bench.workload import ABSENCE_MS, WINDOW_MS, Query

SCRIPT = Path(__file__).parents[2] / ".ci" / "trino"
START_SECONDS = 1800.0
"""The first start downloads 820 MB."""
HEAP = "3G"
_WINDOW = f"interval '{WINDOW_MS // 1000}' second"
_ABSENCE = f"interval '{ABSENCE_MS // 1000}' second"
_IN_WINDOW = f"ts - a.ts < {_WINDOW}"
_RISING_ROWS = (
    f"a as a.type = 'A', b as b.type = 'B' and b.v > a.v and b.{_IN_WINDOW}, c as c.type = 'C' and c.{_IN_WINDOW}"
)
_BETWEEN = f", x as x.{_IN_WINDOW}, y as y.{_IN_WINDOW}"
_PAST_LAST = "past last row"
_EVERY_START = "to next row"


def _recognize(types: str, pattern: str, define: str, skip: str) -> str:
    where = f" where type in ({types})" if types else ""
    return (
        f"select aid from (select * from events{where}) match_recognize (partition by key order by ts "
        f"measures a.id as aid one row per match after match skip {skip} pattern ({pattern}) define {define})"
    )


SQL: dict[str, str] = {
    "Q1": _recognize("'A', 'B', 'C'", "a x*? b y*? c", _RISING_ROWS + _BETWEEN, _PAST_LAST),
    "Q1n": _recognize("'A', 'B', 'C'", "a x*? b y*? c", _RISING_ROWS + _BETWEEN, _EVERY_START),
    "Q2": _recognize("", "a b c", _RISING_ROWS, _PAST_LAST),
    "Q3": _recognize(
        "",
        "a b+ c",
        f"a as a.type = 'A', b as b.type = 'B', c as c.type = 'C' and c.{_IN_WINDOW} and sum(b.v) > 100",
        _PAST_LAST,
    ),
    "Q4": _recognize(
        "'A', 'B'",
        "a x* (z | $)",
        f"a as a.type = 'A', x as x.type <> 'B' and x.ts - a.ts < {_ABSENCE}, z as z.ts - a.ts >= {_ABSENCE}",
        _EVERY_START,
    ),
}


def _script(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words],
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PERSEID_TRINO_HEAP": HEAP},
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["no reason given"]
        raise MissingToolError(said[-1].removeprefix("trino: "))
    return done.stdout.strip()


class _Trino:
    def __init__(self, connection: Any, version: str) -> None:
        self._cursor = connection.cursor()
        self._version = version

    def versions(self) -> dict[str, str]:
        return {"Trino": self._version}

    def prepare(self, query: Query) -> AbstractContextManager[Call]:
        return just(partial(self._run, SQL[query.name]))

    def _run(self, sql: str) -> Run:
        started = time.perf_counter()
        self._cursor.execute(sql)
        ids = np.array([row[0] for row in self._cursor.fetchall()], np.int64)
        return Run(time.perf_counter() - started, ids)

    def stop(self) -> None:
        self._cursor.cancel()


@contextmanager
def open_trino(workload: Workload) -> Iterator[OpenEngine]:
    try:
        import trino.dbapi
    except ImportError:
        raise MissingToolError("the package `trino` is missing: pip install -r requirements/slow.txt") from None
    folder = workload.data / f"trino-{workload.count}"
    (folder / "events").mkdir(parents=True, exist_ok=True)
    copy = folder / "events" / workload.path.name
    if not copy.exists():
        copy.hardlink_to(workload.path)
    port = _script("start", str(folder))
    try:
        with trino.dbapi.connect(
            host="127.0.0.1", port=int(port), user="perseid", catalog="files", schema="bench"
        ) as connection:
            cursor = connection.cursor()
            for statement in (
                "create schema if not exists files.bench",
                "drop table if exists files.bench.events",
                "create table files.bench.events (id bigint, ts timestamp(6), key integer, type varchar, v double) "
                "with (format = 'PARQUET', external_location = 'local:///events')",
            ):
                cursor.execute(statement).fetchall()
            version = cursor.execute("select version()").fetchall()[0][0]
            yield _Trino(connection, str(version))
    finally:
        _script("stop", port)
