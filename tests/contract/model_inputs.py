"""Cases of the engines for live models, with patterns and with rules; the oracle computes every query anew after each transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import perseid as ps
from perseid.engines.models import frame_shard, shard
from perseid.engines.models.events import EventRows
from perseid.engines.models.pattern_trigger import PatternTrigger, plan_triggers
from perseid.engines.models.plan import ModelsPlan
from perseid.engines.models.reactions import Reaction
from perseid.engines.models.rule_engine import ReactingPlan
from perseid.engines.models.stream import event_stream
from perseid.engines.sequence.stream import read_events
from perseid.reference.models import Recomputed
from perseid.reference.oracle import oracle_matcher
from perseid.runtime.arrays import IntArray
from perseid.semantics import values as v
from perseid.semantics.detection import detect
from perseid.semantics.graphs import Change, Happening
from perseid.semantics.model_queries import Queries
from perseid.semantics.model_rules import CHANGES, ROUNDS, Reacting, RuleIteration
from tests.contract.cases import SECOND, EngineCase, EngineInputs, GoldenCase, Output
from tests.engines import test_frames_stream as frames
from tests.engines import test_models_stream as models
from tests.engines import test_rules_stream as rules
from tests.engines.interpreted_automaton import interpreted

Key = tuple[Any, ...]
Transaction = tuple[Key, int, Sequence[Change | Happening]]


def drop_caches() -> None:
    shard._DECODED.clear()
    frame_shard._ANSWERED.clear()


def read(tables: Sequence[pa.Table]) -> Output:
    return sorted(repr(row) for table in tables for row in table.to_pylist())


def _moments(times: Sequence[int]) -> list[int]:
    """Return times at which a match may become final: whole seconds after a change, for rules one microsecond later."""
    return sorted(
        {time + span + after for time in {*times} for span in range(0, 21 * SECOND, SECOND) for after in (0, 1)}
    )


def _owners(keys: Sequence[object]) -> IntArray:
    return np.array([sorted({*map(str, keys)}).index(str(key)) for key in keys], np.int64)


# Patterns over models


def _check(
    plan: ModelsPlan, stream: Any, element: pa.DataType, keys: Sequence[pa.DataType], tables: Sequence[pa.Table]
) -> int:
    """Compare with queries that are computed anew, and their events matched by the oracle of patterns."""
    expected = []
    gathered = [EventRows(plan.queries, one.watched, plan.key) for one in plan.groups]
    for key, time, told in _recomputed(plan.queries, stream.transactions()):
        for one in gathered:
            one.add(key, time, told)
    for asked, rows in zip(plan.groups, gathered, strict=True):
        events = read_events(event_stream(rows.table(element, list(keys)), stream, asked.watched))
        patterns = [one.pattern for one in asked.sequence.plan.patterns]
        expected += [(m.pattern, m.match_id) for m in detect(patterns, events, oracle_matcher()).matches]
    found = [(row["pattern"], row["match_id"]) for table in tables for row in table.to_pylist()]
    assert sorted(found) == sorted(expected)
    return len(expected)


def _recomputed(queries: Queries, transactions: Iterator[Transaction]) -> Iterator[tuple[Key, int, Any]]:
    live: dict[Key, Recomputed] = {}
    for key, time, changes in transactions:
        yield key, time, live.setdefault(key, Recomputed(queries)).transact(time, changes)


def _changes_case(seed: int) -> EngineCase:
    rows = models.random_rows(seed)
    plan = models.plan_of()
    site = ps.graph.metamodel(models.TEXT)
    listed = [{**dict.fromkeys(models.ROLES), "ts": v.moment(time), **row} for time, row in rows]
    stream = ps.graph.model(listed, site, key="site")
    check = partial(_check, plan, stream, pa.string(), [pa.string()])
    times = [time for time, _ in rows]
    return EngineCase(
        plan, models.rows_of(rows), read, check, _owners([row["site"] for _, row in rows]), moments=_moments(times)
    )


def _frames_case(seed: int) -> EngineCase:
    rows = frames.random_frames(seed)[:60]
    plan = frames.plan_of()
    columns = {"ts": pa.array([v.moment(row["time"]) for row in rows], pa.timestamp("us", "UTC"))}
    columns |= {name: pa.array([row[name] for row in rows], kind) for name, kind in frames.TYPES.items()}
    _, stream = frames.declared(pa.table(columns))
    check = partial(_check, plan, stream, plan.element, [pa.string()])
    times = [row["time"] for row in rows]
    return EngineCase(
        plan, frames.rows_of(rows), read, check, _owners([row["who"] for row in rows]), moments=_moments(times)
    )


def make_models_case(seed: int) -> EngineCase:
    return _frames_case(seed) if seed % 3 == 2 else _changes_case(seed)


def _golden(case: EngineCase, now: int) -> GoldenCase:
    """Rows of two more seconds wait in the state."""
    return GoldenCase(case, np.flatnonzero(case.rows.time <= now + 2 * SECOND), now)


MODELS = EngineInputs(
    make_models_case,
    drop_caches,
    seeds=6,
    golden={
        "changes": lambda: _golden(_changes_case(3), 5 * SECOND),
        "frames": lambda: _golden(_frames_case(3), 3 * SECOND),
    },
)


# Rules


@interpreted()
def _recomputed_reaction(plan: ReactingPlan, stream: Any) -> Reaction:
    """Return each transaction and the actions of the rules, with recomputed queries and the interpreter."""
    plans = plan_triggers(plan.rules, plan.key)
    running: dict[Key, Reacting] = {}
    found: list[tuple[Key, int, list[RuleIteration]]] = []
    for key, time, changes in stream.transactions():
        if key not in running:
            watch = PatternTrigger(plan.queries, plans, dict(zip(plan.key, key, strict=True)))
            running[key] = Reacting(plan.rules, Recomputed(plan.queries), watch, ROUNDS, CHANGES)
        found += [(key, moment, found_match) for moment, found_match in running[key].until(time)]
        found.append((key, time, running[key].transact(time, changes)))
    for key, reacting in running.items():
        found += [(key, moment, found_match) for moment, found_match in reacting.until(None)]
    return Reaction(stream, plan.rules, found, (), 0, {})


def _check_rules(plan: ReactingPlan, rows: list[rules.Row], tables: Sequence[pa.Table]) -> int:
    expected = rules.actions_of_reaction(_recomputed_reaction(plan, rules.models_of(rows, plan.rules)))
    assert rules.actions_of_log(pa.concat_tables(tables)) == expected
    return sum(map(len, expected.values()))


def make_rules_case(seed: int) -> EngineCase:
    rows, plan = rules.random_rows(seed), rules.whole_plan()
    check = partial(_check_rules, plan, rows)
    owners, times = _owners([row["site"] for _, row in rows]), [time for time, _ in rows]
    return EngineCase(plan, rules.rows_of(rows), read, check, owners, moments=_moments(times))


RULES = EngineInputs(
    make_rules_case, drop_caches, seeds=6, golden={"reactions": lambda: _golden(make_rules_case(3), 3 * SECOND)}
)
