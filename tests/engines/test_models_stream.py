"""Live models on a stream: matches equal those over finished data, for any batches, restarts and shards."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pytest

import perseid as ps
from perseid.api.stream_kinds.models import group_patterns
from perseid.engines.models import shard
from perseid.engines.models.engine import MODELS, step
from perseid.engines.models.plan import ROLES, ModelsPlan, make_plan
from perseid.engines.sequence.stream import Events
from perseid.errors import StateError
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.watermark import Watermark
from tests.engines.watermarks import step_up_to

TEXT = """
model site
node Host (cpu bigint, load double)
node App
edge runs_on App -> Host one
edge calls App -> App

query hot(host)   find host: Host where moving_avg(host.load, 2) > 0.5
query warm(host)  find host: Host where moving_max(host.load, 3 seconds) > 0.5
query busy(host, n)
find host: Host let n = count of on(host, _) where n >= 2
query on(host, app)    find app -runs_on-> host
query loop(app)        find app -calls+-> app
query best(host)       find host: Host top 1 by host.cpu

pattern heated  match found hot(host as h) a -> lost hot(host as h) b within 10 seconds partition by host
pattern shaky   match (found warm | updated warm){2} within forever selection immediate partition by host
pattern crowd   match found busy a -> lost busy b within 5 seconds return a.host as host, a.n as n
pattern circle  match found loop(app as x) a -> not change set Host.cpu -> lost loop(app as x) b within 20 seconds
pattern gone    match change delete Host a -> not found best for 3 seconds within 10 seconds return a.element as host
"""
TYPES = {**dict.fromkeys(ROLES, pa.string()), "site": pa.string()}


@cache
def plan_of(shards: int = 1) -> ModelsPlan:
    site = ps.graph.metamodel(TEXT)
    stream = ps.graph.model([], site, key="site")
    parts = group_patterns(ps.patterns(site).sources, stream)
    groups = [(group.watched, over.compile(Events([], key=("site",)))) for over, group in parts]
    return replace(make_plan(groups, site.queries, TYPES, key=("site",)), shards=shards)


Row = tuple[int, dict[str, Any]]


def random_rows(seed: int) -> list[Row]:
    """Returns changes of two sites, dense enough that every query gains and loses matches."""
    rng = random.Random(seed)
    named = [(f"h{i}", "Host") for i in (1, 2, 3)] + [(f"a{i}", "App") for i in (1, 2, 3, 4)]
    first = [{"change": "create", "element": name, "kind": kind} for name, kind in named]
    rows: list[Row] = [(0, {"site": site, **one}) for site in ("north", "south") for one in first]
    for second in range(rng.randint(10, 40)):
        for _ in range(rng.randint(0, 4)):
            rows.append((second * 500_000, _random_change(rng)))
    return rows


def _random_change(rng: random.Random) -> dict[str, Any]:
    made: dict[str, Any] = {"site": rng.choice(["north", "south"])}
    host, app = f"h{rng.randint(1, 3)}", f"a{rng.randint(1, 4)}"
    match rng.randint(0, 9):
        case 0:
            return made | {"change": "create", "element": host, "kind": "Host"}
        case 1:
            return made | {"change": "create", "element": app, "kind": "App"}
        case 2:
            return made | {"change": "delete", "element": rng.choice([host, app])}
        case 3 | 4:
            return made | {
                "change": "set",
                "element": host,
                "attribute": "load",
                "value": str(rng.choice([0.1, 0.4, 0.9])),
            }
        case 5:
            return made | {"change": "set", "element": host, "attribute": "cpu", "value": str(rng.randint(1, 3))}
        case 6 | 7:
            action = rng.choice(["link", "link", "unlink"])
            return made | {"change": action, "element": app, "kind": "runs_on", "target": host}
    action = rng.choice(["link", "link", "unlink"])
    return made | {"change": action, "element": app, "kind": "calls", "target": f"a{rng.randint(1, 4)}"}


def rows_of(rows: list[Row]) -> EventBatch:
    columns = {name: pa.array([row.get(name) for _, row in rows], type_) for name, type_ in TYPES.items()}
    times = np.array([time for time, _ in rows], np.int64)
    return EventBatch(times, np.zeros(len(rows), np.int32), ["Change"], columns, {}, np.arange(len(rows)))


def match_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(zip(*(table[name].to_pylist() for name in ("match_id", "pattern", "site")), strict=True))


def whole(rows: list[Row]) -> list[tuple[Any, ...]]:
    return match_rows(step(plan_of(), rows_of(rows), None, Watermark(ended=True)).rows)


def run_in_batches(
    plan: ModelsPlan, rows: list[Row], rng: random.Random, *, forget: bool
) -> tuple[list[tuple[Any, ...]], int]:
    """Runs the rows in batches, each with the watermark of the previous one."""
    state, before, found, largest = None, None, [], 0
    at = 0
    while at < len(rows):
        end = min(len(rows), at + rng.randint(1, 12))
        while end < len(rows) and rows[end][0] == rows[end - 1][0]:
            end += 1
        now = None if at == 0 else rows[at - 1][0]
        if forget:
            shard._DECODED.clear()
        done = step(plan, rows_of(rows[at:end]), state, Watermark(before, now))
        assert not len(done.late)
        found.append(done.rows)
        state, before, at = done.state, now, end
        largest = max(largest, len(state or b""))
    found.append(step(plan, rows_of([]), state, Watermark(before, None, ended=True)).rows)
    return match_rows(pa.concat_tables(found)), largest


@pytest.mark.parametrize("seed", range(20))
def test_matches_do_not_depend_on_batches_or_restarts(seed: int) -> None:
    rows = random_rows(seed)
    rng = random.Random(seed)
    expected = whole(rows)
    assert run_in_batches(plan_of(), rows, rng, forget=False)[0] == expected
    assert run_in_batches(plan_of(), rows, rng, forget=True)[0] == expected


def test_the_cases_find_something() -> None:
    found = [pattern for seed in range(30) for _, pattern, _ in whole(random_rows(seed))]
    assert {name: found.count(name) > 0 for name in ("heated", "shaky", "crowd", "circle", "gone")} == dict.fromkeys(
        ("heated", "shaky", "crowd", "circle", "gone"), True
    )


@pytest.mark.parametrize("seed", range(5))
def test_local_matches_equal_those_of_a_shard(seed: int) -> None:
    site = ps.graph.metamodel(TEXT)
    rows = random_rows(seed)
    listed = [{**dict.fromkeys(ROLES), "ts": time / 1_000_000, **row} for time, row in rows]
    with pytest.warns(ps.errors.PerseidWarning, match="changes rejected by the model"):
        found = ps.patterns(site).match(ps.graph.model(listed, site, key="site")).to_dicts()
    assert sorted(m["match_id"] for m in found) == [match_id for match_id, _, _ in whole(rows)]


def test_unknown_words_are_counted_as_bad() -> None:
    rows = [
        (0, {"site": "n", "change": "add", "element": "h", "kind": "Host"}),
        (0, {"site": "n", "change": "create", "element": "h", "kind": "Hst"}),
        (0, {"site": "n", "change": "create", "element": "h", "kind": "Host"}),
        (1, {"site": "n", "change": "set", "element": "h", "attribute": "lod", "value": "1"}),
    ]
    plan = plan_of()
    first = step(plan, rows_of(rows), None, Watermark())
    second = step(plan, rows_of([]), first.state, Watermark(None, 5_000_000))
    assert first.counters["bad"] + second.counters["bad"] == 3


def test_changes_behind_the_watermark_are_late() -> None:
    plan = plan_of()
    first = step(
        plan, rows_of([(0, {"site": "n", "change": "create", "element": "h", "kind": "Host"})]), None, Watermark()
    )
    second = step(plan, rows_of([]), first.state, Watermark(None, 5_000_000))
    rows = [
        (5_000_000, {"site": "n", "change": "delete", "element": "h"}),
        (6_000_000, {"site": "n", "change": "delete", "element": "h"}),
        (6_000_001, {"site": "n", "change": "delete", "element": "h"}),
    ]
    third = step(plan, rows_of(rows), second.state, Watermark(5_000_000, 6_000_000))
    assert list(third.late) == [0, 1]
    assert third.counters["bad"] == 0


def test_states_of_other_models_and_damaged_ones_are_refused() -> None:
    plan = plan_of()
    state = step_up_to(step, plan, rows_of(random_rows(1)), None, 3_000_000).state
    assert state is not None
    shard._DECODED.clear()
    for wrong in (state[:-3], state[:40], b"PRSD", state[:30] + b"x" + state[31:]):
        with pytest.raises(StateError):
            step(plan, rows_of([]), wrong, Watermark(3_000_000, 4_000_000))
    with pytest.raises(StateError, match="shards"):
        step(replace(plan, shards=2), rows_of([]), state, Watermark(3_000_000, 4_000_000))
    report = MODELS.report(state)  # type: ignore[misc]
    assert report.events > 0
    assert len(report.keys) == 2


def small_plan(text: str) -> ModelsPlan:
    site = ps.graph.metamodel(text)
    parts = group_patterns(ps.patterns(site).sources, ps.graph.model([], site, key="site"))
    groups = [(group.watched, over.compile(Events([], key=("site",)))) for over, group in parts]
    return make_plan(groups, site.queries, TYPES, key=("site",))


def test_attributes_of_one_name_have_different_types_per_node_type() -> None:
    """The state encodes each value with the type of its own node, though the types have nothing in common."""
    plan = small_plan(
        "model x node A (n bigint) node B (n string) query q(b) find b: B where b.n = 'two' "
        "pattern p match found q a -> lost q b within 1 hour"
    )
    rows: list[Row] = [(0, {"site": "s", "change": "create", "element": name, "kind": name.upper()}) for name in "ab"]
    rows += [(0, {"site": "s", "change": "set", "element": "a", "attribute": "n", "value": "2"})]
    rows += [(0, {"site": "s", "change": "set", "element": "b", "attribute": "n", "value": "two"})]
    first = step(plan, rows_of(rows), None, Watermark())
    second = step(plan, rows_of([]), first.state, Watermark(None, 5))
    shard._DECODED.clear()
    gone: list[Row] = [(9, {"site": "s", "change": "delete", "element": "b"})]
    third = step(plan, rows_of(gone), second.state, Watermark(5, None, ended=True))
    assert third.rows.num_rows == 1


@pytest.mark.parametrize("boundary", [1, 2, 3])
@pytest.mark.parametrize("values", [["9", "10", None], ["10", None, "9"], [None, "9", "10"]])
def test_greatest_of_several_values_for_one_attribute_counts(values: list[str | None], boundary: int) -> None:
    """Values are compared with the type of the attribute, in one call or in two with a state between."""
    plan = small_plan(
        "model x node A (n bigint) node B (n string) query q(a) find a: A where a.n = 10 "
        "query b(b) find b: B where b.n = '9' pattern p match found q pattern r match found b"
    )
    rows: list[Row] = [(0, {"site": "s", "change": "create", "element": name, "kind": name.upper()}) for name in "ab"]
    sets: list[Row] = [
        (1, {"site": "s", "change": "set", "element": name, "attribute": "n", "value": value})
        for value in values
        for name in "ab"
    ]
    first = step(plan, rows_of(rows + sets[:boundary]), None, Watermark())
    shard._DECODED.clear()
    second = step(plan, rows_of(sets[boundary:]), first.state, Watermark(None, None, ended=True))
    assert sorted(second.rows["pattern"].to_pylist()) == ["p", "r"]


def test_state_of_another_plan_is_rejected() -> None:
    """Two sets of patterns over the same queries, with equal states while no event is buffered."""
    text = (
        "model x node A (n bigint) query q(a) find a: A query r(a) find a: A where a.n > 1 pattern p match found {} a"
    )
    rows: list[Row] = [(0, {"site": "s", "change": "create", "element": "a", "kind": "A"})]
    last: list[Row] = [(9, {"site": "s", "change": "set", "element": "a", "attribute": "n", "value": "2"})]
    states = {}
    for name in ("q", "r"):
        first = step(small_plan(text.format(name)), rows_of(rows), None, Watermark())
        states[name] = step(small_plan(text.format(name)), rows_of([]), first.state, Watermark(None, 5)).state
    done = step(small_plan(text.format("r")), rows_of(last), states["r"], Watermark(5, None, ended=True))
    assert done.rows.num_rows == 1
    with pytest.raises(StateError, match="other queries"):
        step(small_plan(text.format("r")), rows_of(last), states["q"], Watermark(5, None, ended=True))


SIDE_STREAM = """
model site
node Host (load double)
query hot(host) find host: Host where moving_max(host.load, 3 seconds) > 0.5
pattern entered match found hot(host as h) a -> Login(host as h) b within 5 seconds return b.user as user, b.host as host
pattern silent  match Login a -> not found hot for 2 seconds within 5 seconds return a.user as user
"""
SideStreamRows: TypeAlias = "list[tuple[int, str, dict[str, Any]]]"
SIDE_STREAM_TYPES = {**TYPES, "event host": pa.string(), "event user": pa.int32()}


def side_stream_rows(rows: SideStreamRows) -> EventBatch:
    columns = {
        name: pa.array([row.get(name) for _, _, row in rows], type_) for name, type_ in SIDE_STREAM_TYPES.items()
    }
    kinds = np.array([["Change", "Login"].index(kind) for _, kind, _ in rows], np.int32)
    times = np.array([time for time, _, _ in rows], np.int64)
    return EventBatch(times, kinds, ["Change", "Login"], columns, {}, np.arange(len(rows)))


def side_stream_case(rng: random.Random) -> tuple[ModelsPlan, SideStreamRows, list[str]]:
    """Returns a plan of patterns over a model and a side stream of events, with its rows and the expected match ids."""
    rows: SideStreamRows = [
        (0, "Change", {"site": site, "change": "create", "element": "h1", "kind": "Host"}) for site in ("n", "s")
    ]
    for second in range(1, 30):
        one = {"site": rng.choice("ns"), "change": "set", "element": "h1", "attribute": "load"}
        rows.append((second * 1_000_000, "Change", one | {"value": str(rng.choice([0.1, 0.9]))}))
        login = {"site": rng.choice("ns"), "event host": rng.choice(["h1", "h2"]), "event user": rng.randint(1, 9)}
        rows.append((second * 1_000_000 + rng.choice([0, 500_000]), "Login", login))
    site = ps.graph.metamodel(SIDE_STREAM)
    changes = [{**dict.fromkeys(ROLES), "ts": t / 1e6, **row} for t, kind, row in rows if kind == "Change"]
    named = ("site", "host", "user")
    logins = [(t, [row["site"], row["event host"], row["event user"]]) for t, kind, row in rows if kind == "Login"]
    side_stream = ps.events({"Login": [{"ts": t / 1e6, **dict(zip(named, row, strict=True))} for t, row in logins]})
    declared = ps.graph.model(changes, site, key="site", events=side_stream)
    expected = sorted(match["match_id"] for match in ps.patterns(site).match(declared).to_dicts())
    assert expected
    parts = group_patterns(ps.patterns(site).sources, declared)
    groups = [(group.watched, over.compile(Events([], key=("site",)))) for over, group in parts]
    columns = {"host": "event host", "site": "site", "user": "event user"}
    return make_plan(groups, site.queries, SIDE_STREAM_TYPES, key=("site",), event_columns=columns), rows, expected


@pytest.mark.parametrize("seed", range(8))
def test_side_stream_matches_do_not_depend_on_batch_boundaries(seed: int) -> None:
    """Events of the side stream are buffered until their time, as changes are; the matches equal those of a local
    run."""
    rng = random.Random(seed)
    plan, rows, expected = side_stream_case(rng)
    state, before, found = None, None, []
    for at in range(0, len(rows), 7):
        now = None if at == 0 else rows[at - 1][0] - 1_000_000
        shard._DECODED.clear()
        done = step(
            plan, side_stream_rows(rng.sample(rows[at : at + 7], len(rows[at : at + 7]))), state, Watermark(before, now)
        )
        found.append(done.rows)
        state, before = done.state, now
    found.append(step(plan, side_stream_rows([]), state, Watermark(before, None, ended=True)).rows)
    assert sorted(pa.concat_tables(found)["match_id"].to_pylist()) == expected
