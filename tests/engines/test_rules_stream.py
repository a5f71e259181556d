"""Rules over models in shards: any batches, restarts and number of shards act as rules in one process do."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import perseid as ps
from perseid.engines.models import shard
from perseid.engines.models.action_log import text_of
from perseid.engines.models.engine import RULES, rules_step
from perseid.engines.models.pattern_trigger import PatternTrigger
from perseid.engines.models.plan import ROLES
from perseid.engines.models.reactions import Reaction, react_local
from perseid.engines.models.rule_engine import ReactingPlan, Running, emitted_types, make_rules_plan
from perseid.engines.models.stream import Models
from perseid.engines.models.trigger_state import decode_triggers
from perseid.errors import EventDataError, LimitError, StateError
from perseid.runtime.contract import StepResult
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.state_codec import decode_state, encode_state
from perseid.runtime.watermark import Watermark
from perseid.semantics import values as v
from perseid.semantics.events import Event
from perseid.semantics.model_rules import CHANGES, ROUNDS
from perseid.semantics.rules import Rules
from tests.blocks import blocks
from tests.engines.watermarks import step_up_to
from tests.generators.random_models import make_model_case
from tests.generators.random_patterns import SECOND, SeededChooser
from tests.generators.random_rules import make_rules
from tests.semantics.test_model_rules import TEXT

MORE = """
pattern steady match found over a -> updated over b -> lost over c within 6 seconds selection chronicle partition by host
  return a.host as who
pattern newest match found on a -> lost on b within 5 seconds selection recent return b.app as app, b.host as host
pattern every match change set Host.load a ->> change set Host.most b within 2 seconds return a.element as who, b.new as n
pattern unled match not found bare for 1 second -> found over a partition by host return a.host as who
pattern zone match (found over a -> updated over b within 1 second) -> not lost over for 1 second partition by host

rule held on steady do emit held(who), set who.most = who.most + 1
rule left on newest do emit left(app, host)
rule each on every do emit each(who, n, n + 1 as next)
rule alone on unled do emit alone(who, who.load as load)
rule zoned on zone do emit zoned(host)
rule ask on found full(host, n) do emit asked(host, n)
for model 'copies' do create c: Copy named 'copy ' || host, set c.seen = n
"""
TYPES = {**dict.fromkeys(ROLES, pa.string()), "site": pa.string()}
COLUMNS = dict(zip(ROLES, ROLES, strict=True))
Row = tuple[int, dict[str, Any]]


@cache
def cps() -> ps.graph.Metamodel:
    return ps.graph.metamodel(TEXT + MORE)


def plan_of(rules: Rules, types: dict[str, Any] = TYPES, **words: Any) -> ReactingPlan:
    return make_rules_plan(rules, types, time="ts", columns=COLUMNS, key=("site",), **words)


@cache
def whole_plan() -> ReactingPlan:
    return plan_of(cps().rules)


def random_rows(seed: int) -> list[Row]:
    """Returns changes of two sites every half second, some of them invalid."""
    chance = random.Random(seed)
    hosts, apps = ["h1", "h2", "h3"], ["a", "b", "c", "d"]
    rows: list[Row] = []
    for site in ("north", "south"):
        for name in hosts + apps:
            rows.append(
                (0, {"change": "create", "element": name, "kind": "Host" if name in hosts else "App", "site": site})
            )
    for moment in range(chance.randint(5, 30)):
        for _ in range(chance.randint(0, 3)):
            match chance.choice(["set", "set", "set", "most", "link", "unlink", "delete", "create"]):
                case "set" | "most" as what:
                    attribute = "load" if what == "set" else "most"
                    row = {"change": "set", "attribute": attribute, "value": str(chance.randint(0, 5))}
                case "link" | "unlink" as what:
                    ends = {"element": chance.choice(apps), "target": chance.choice(hosts)}
                    row = {"change": what, "kind": "runs_on", **ends}
                case what:
                    row = {"change": what, "kind": "Host"}
            site = chance.choice(["north", "south"])
            rows.append((moment * SECOND // 2, {"element": chance.choice(hosts), **row, "site": site}))
    return rows


def rows_of(rows: list[Row], types: dict[str, Any] = TYPES) -> EventBatch:
    columns = {name: pa.array([row.get(name) for _, row in rows], kind) for name, kind in types.items()}
    times = np.array([time for time, _ in rows], np.int64)
    return EventBatch(times, np.zeros(len(rows), np.int32), ["Change"], columns, {}, np.arange(len(rows)))


def models_of(rows: list[Row], rules: Rules) -> Models:
    listed = [{**dict.fromkeys(ROLES), **row, "ts": v.moment(time)} for time, row in rows]
    return Models(listed, rules.queries, "ts", ("site",), rules=rules)


def here(rows: list[Row], rules: Rules, until: int | None = None, rounds: int = ROUNDS) -> Reaction:
    return react_local(models_of(rows, rules), rules, until=until, rounds=rounds, changes=CHANGES)


# emitted rows, in the form of a reaction


def texts(values: dict[str, Any]) -> dict[str, str | None]:
    return {name: text_of(value) for name, value in values.items()}


def actions_of_reaction(done: Reaction) -> dict[str, list[Any]]:
    """Returns the actions of a reaction in one process, by model where the order is defined within the model."""
    found: dict[str, list[Any]] = {}
    for what, rows in (("changed", done.changes), ("rejected", done.rejected), ("lives", done.lives)):
        for row in rows:
            entry = {name: value for name, value in row.items() if name != "site"}
            entry = entry | ({"match": texts(row["match"])} if what == "lives" else {"value": text_of(row["value"])})
            found.setdefault(f"{what} of {row['site']}", []).append(entry)
    for name, rows in done.emitted.items():
        for row in rows:
            entry = {n: value for n, value in row.items() if n not in ("ts", "site")}
            found.setdefault(f"{name} of {row['site']}", []).append((row["ts"], texts(entry)))
    requests = [{**row, "value": text_of(row["value"])} for row in done.elsewhere]
    if requests:
        found["requested"] = sorted(requests, key=repr)
    return found


def actions_of_log(table: pa.Table) -> dict[str, list[Any]]:
    """Returns the actions in an action log, the rows of each model in the order of time and place."""
    found: dict[str, list[Any]] = {}
    assert len(set(table["id"].to_pylist())) == table.num_rows
    for row in sorted(table.to_pylist(), key=lambda row: (row["ts"], row["site"], row["place"])):
        change = {name: row[name] for name in ("ts", *ROLES)}
        match row["what"]:
            case "changed":
                found.setdefault(f"changed of {row['site']}", []).append(
                    {**change, "rule": row["rule"], "round": row["round"]}
                )
            case "rejected":
                entry = {**change, "rule": row["rule"], "round": row["round"], "why": row["why"]}
                found.setdefault(f"rejected of {row['site']}", []).append(entry)
            case "emitted":
                found.setdefault(f"{row['name']} of {row['site']}", []).append((row["ts"], dict(row["values"])))
            case "requested":
                found.setdefault("requested", []).append({"ts": row["ts"], "site": row["site"], **change})
            case state:
                life = {"ts": row["ts"], "rule": row["rule"], "match": dict(row["match"]), "state": state}
                found.setdefault(f"lives of {row['site']}", []).append({**life, "round": row["round"]})
    if "requested" in found:
        found["requested"].sort(key=repr)
    return found


def whole(plan: ReactingPlan, rows: list[Row], types: dict[str, Any] = TYPES) -> StepResult:
    return rules_step(plan, rows_of(rows, types), None, Watermark(ended=True))


def run_in_batches(
    plan: ReactingPlan,
    rows: list[Row],
    rng: random.Random,
    *,
    forgetful: bool,
    types: dict[str, Any] = TYPES,
    shards: int = 1,
) -> Iterator[pa.Table]:
    """Runs the rows in batches, each with the watermark of the previous one, and fires requested timers."""
    plan = replace(plan, shards=shards)
    own = [[row for row in rows if hash_of(row[1]["site"], shards) == number] for number in range(shards)]
    for part in own:
        state: bytes | None = None
        timer: int | None = None
        at, now = 0, None
        while at < len(part):
            end = min(len(part), at + rng.randint(1, 12))
            while end < len(part) and part[end][0] == part[end - 1][0]:
                end += 1
            before, now = now, None if at == 0 else part[at][0] - rng.choice([1, 1, SECOND // 4])
            if before is not None and now is not None:
                now = max(before, now)
            if forgetful:
                shard._DECODED.clear()
            step = rules_step(plan, rows_of(part[at:end], types), state, Watermark(before, now))
            assert not len(step.late)
            yield step.rows
            state, timer, at = step.state, step.next_timer, end
            assert timer is None or now is None or timer > now
        if forgetful:
            shard._DECODED.clear()
        yield rules_step(plan, rows_of([], types), state, Watermark(now, None, ended=True)).rows


def hash_of(site: str, shards: int) -> int:
    return sum(site.encode()) % shards


@pytest.mark.parametrize("seed", range(12))
def test_shard_acts_as_one_process(seed: int) -> None:
    rows = random_rows(seed)
    done = whole(whole_plan(), rows)
    assert actions_of_log(done.rows) == actions_of_reaction(here(rows, cps().rules))
    outside = sum(1 for row in done.rows.to_pylist() if row["what"] == "rejected" and row["rule"] is None)
    assert done.counters["bad"] == outside


@pytest.mark.parametrize("seed", range(16))
def test_actions_do_not_depend_on_batches_restarts_or_shards(seed: int) -> None:
    rows = random_rows(seed)
    rng = random.Random(seed)
    every = sorted(whole(whole_plan(), rows).rows.to_pylist(), key=lambda row: str(row["id"]))
    for forgetful, shards in ((False, 1), (True, 1), (True, 2)):
        found = pa.concat_tables(run_in_batches(whole_plan(), rows, rng, forgetful=forgetful, shards=shards))
        assert sorted(found.to_pylist(), key=lambda row: str(row["id"])) == every


@pytest.mark.parametrize("seed", range(6))
def test_up_to_the_watermark_and_up_to_a_moment(seed: int) -> None:
    rows = random_rows(seed)
    horizon = random.Random(seed).randint(0, 12) * SECOND // 2
    done = actions_of_reaction(here(rows, cps().rules, until=horizon))
    assert actions_of_log(step_up_to(rules_step, whole_plan(), rows_of(rows), None, horizon).rows) == done
    assert actions_of_log(whole(plan_of(cps().rules, until=horizon), rows).rows) == done


def test_random_rows_cover_every_action_and_rule() -> None:
    tables = [whole(whole_plan(), random_rows(seed)).rows for seed in range(20)]
    rows = pa.concat_tables(tables).to_pylist()
    assert {row["what"] for row in rows} == set(RULES.capabilities.row_kinds)
    assert {row["rule"] for row in rows if row["what"] == "fired"} == {rule.name for rule in cps().rules.rules}


def test_shard_requests_a_timer_for_the_end_of_an_absence() -> None:
    rows: list[Row] = [(0, {"site": "n", "change": "create", "element": "h", "kind": "Host"})]
    rows += [(0, {"site": "n", "change": "set", "element": "h", "attribute": "most", "value": "1"})]
    rows += [(0, {"site": "n", "change": "set", "element": "h", "attribute": "load", "value": "5"})]
    first = step_up_to(rules_step, whole_plan(), rows_of(rows), None, 0)
    assert first.next_timer is not None
    timers, state, nudged = [], first.state, []
    timer = first.next_timer
    while timer is not None and timer < 4 * SECOND:
        timers.append(timer)
        shard._DECODED.clear()
        step = rules_step(whole_plan(), rows_of([]), state, Watermark(None, timer))
        nudged += [row["rule"] for row in step.rows.to_pylist() if row["what"] == "fired"]
        state, timer = step.state, step.next_timer
    assert 2 * SECOND + 1 in timers
    assert "nudge" in nudged
    assert len(timers) < 20


def test_state_is_released_when_no_rule_needs_it() -> None:
    """The state is bounded by the models and the open runs, however long the stream is."""
    plan = whole_plan()
    rows: list[Row] = [(0, {"site": "n", "change": "create", "element": "h", "kind": "Host"})]
    state, sizes = rules_step(plan, rows_of(rows), None, Watermark()).state, []
    for number in range(1, 60):
        time = number * 20 * SECOND
        row = {"site": "n", "change": "set", "element": "h", "attribute": "load", "value": str(number % 3)}
        step = rules_step(plan, rows_of([(time, row)]), state, Watermark(None, time - 1))
        state = step.state
        assert state is not None
        sizes.append(len(state))
    assert max(sizes[-20:]) <= max(sizes[:20]) + 64


def test_simultaneous_decisions_have_a_deterministic_order() -> None:
    """Two hosts are over the limit for equally long: which one an earlier call met first does not decide the order."""
    rules = ps.graph.metamodel(TEXT.split("rule copy")[0] + "rule told on stays do emit told(who)").rules
    plan = plan_of(rules)

    def load(time: int, host: str, value: int) -> Row:
        return time * SECOND, {"site": "n", "change": "set", "element": host, "attribute": "load", "value": str(value)}

    rows: list[Row] = [(0, {"site": "n", "change": "create", "element": host, "kind": "Host"}) for host in ("h1", "h2")]
    rows += [(0, {"site": "n", "change": "set", "element": h, "attribute": "most", "value": "1"}) for h in ("h1", "h2")]
    rows += [load(1, "h2", 5), load(2, "h2", 0), load(9, "h1", 5), load(9, "h2", 5)]
    expected_ = whole(plan, rows).rows.to_pylist()
    first = step_up_to(rules_step, plan, rows_of(rows[:-2]), None, 8 * SECOND)
    shard._DECODED.clear()
    second = rules_step(plan, rows_of(rows[-2:]), first.state, Watermark(None, None, ended=True))
    assert [*first.rows.to_pylist(), *second.rows.to_pylist()] == expected_
    assert [dict(row["values"])["who"] for row in expected_ if row["what"] == "emitted"] == ["h1", "h2"]


def test_events_are_read_as_they_were_written() -> None:
    plan, again_at_once = whole_plan(), 0
    for seed in range(12):
        shard._DECODED.clear()
        same = {"site": "north", "change": "set", "element": "h1", "attribute": "load", "value": "1"}
        given = rows_of([*random_rows(seed), *[(4 * SECOND, same)] * 3])
        step_up_to(rules_step, plan, given, None, 4 * SECOND)
        (kept,) = shard._DECODED.values()
        assert isinstance(kept, Running)
        known = plan.queries, plan.patterns, plan.types, plan.key
        read = decode_triggers(*known, list(kept.models), kept.sequences)
        for key, trigger in kept.triggers.items():
            assert retained_events(read[key]) == retained_events(trigger)
            again_at_once += sum(event.occurrence for _, _, _, events in retained_events(trigger) for event in events)
    assert again_at_once


def retained_events(trigger: PatternTrigger) -> list[tuple[Any, int | None, int, list[Event]]]:
    """Returns the events that the automata of a model retain, each with its partition."""
    return [
        (key, one.passed, automaton.events.first, automaton.events.retained)
        for stream in trigger.streams
        for one in stream.patterns
        for key, automaton in one.automata.items()
    ]


# random rules over random models


@pytest.mark.parametrize("block", blocks(4, 8))
def test_random_rules_over_random_models(block: int) -> None:
    fired = 0
    for seed in range(block * 25, block * 25 + 25):
        case = make_model_case(seed)
        chooser = SeededChooser(seed)
        named = [change.element for _, changes in case.transactions for change in changes]
        in_words = any(isinstance(element, str) for element in named)
        rules = make_rules(chooser, case.checked, texts=in_words, others=("copies",))
        types = TYPES | ({} if in_words else {"element": pa.int64(), "target": pa.int64()})
        rows: list[Row] = []
        for time, changes in case.transactions:
            for change in changes:
                entry = (
                    change.action,
                    change.element,
                    change.kind,
                    change.attribute,
                    text_of(v.scalar(change.value)),
                    change.target,
                )
                rows.append((time, {**dict(zip(ROLES, entry, strict=True)), "site": chooser.pick(("north", "south"))}))
        plan = plan_of(rules, types, rounds=12)
        try:
            done = here(rows, rules, rounds=12)
        except LimitError as error:
            with pytest.raises(LimitError, match=error.message.split("'")[1]):
                whole(plan, rows, types)
            continue
        assert actions_of_log(whole(plan, rows, types).rows) == actions_of_reaction(done)
        rng = random.Random(seed)
        assert actions_of_log(
            pa.concat_tables(run_in_batches(plan, rows, rng, forgetful=True, types=types))
        ) == actions_of_reaction(done)
        fired += sum(life["state"] == "fired" for life in done.lives)
    assert fired > 20


# states that are not as they were written


def some_state() -> bytes:
    state = step_up_to(rules_step, whole_plan(), rows_of(random_rows(3)), None, 3 * SECOND).state
    assert state is not None
    return state


def test_damaged_states_are_refused() -> None:
    state = some_state()
    for wrong in (state[:-3], state[:40], b"PRSD", state[:30] + b"x" + state[31:]):
        shard._DECODED.clear()
        with pytest.raises(StateError):
            rules_step(whole_plan(), rows_of([]), wrong, Watermark(None, 4 * SECOND))
    with pytest.raises(StateError, match="shards"):
        rules_step(replace(whole_plan(), shards=2), rows_of([]), state, Watermark(None, 4 * SECOND))
    assert RULES.report is not None
    assert len(RULES.report(state).keys) == 2


def test_corrupted_states_are_rejected_or_read() -> None:
    """A state with a corrupted machine value either continues or raises a StateError."""
    rng = random.Random(1)
    decoded = decode_state(some_state())
    groups = decoded.tables[4].column("state").to_pylist()
    odd: list[Any] = [None, -1, 2**40, "x", [], {}, 0, True]
    refused = 0
    for _ in range(400):
        number = rng.randrange(len(groups))
        inner = decode_state(groups[number])
        events, retained_events = inner.tables
        machines = retained_events.column("machine").to_pylist()
        if not machines:
            continue
        at = rng.randrange(len(machines))
        machines[at] = json.dumps(changed(json.loads(machines[at]), rng, odd))
        broken = pa.RecordBatch.from_pydict(
            {"model": retained_events.column("model"), "machine": pa.array(machines, pa.large_string())}
        )
        states = [*groups[:number], encode_state(inner.facts, (events, broken)), *groups[number + 1 :]]
        table = pa.RecordBatch.from_pydict({"state": pa.array(states, pa.large_binary())})
        shard._DECODED.clear()
        try:
            made = encode_state(decoded.facts, (*decoded.tables[:4], table, *decoded.tables[5:]))
            rules_step(whole_plan(), rows_of([]), made, Watermark(None, 9 * SECOND))
        except StateError:
            refused += 1
    assert refused > 100


def changed(value: Any, rng: random.Random, odd: list[Any]) -> Any:
    """Returns the value with a different value at one place."""
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        return [*value[:at], changed(value[at], rng, odd), *value[at + 1 :]]
    if isinstance(value, dict) and value and rng.random() < 0.9:
        at = rng.choice(sorted(value))
        return {**value, at: changed(value[at], rng, odd)}
    return rng.choice(odd)


def test_states_of_other_triggers_are_rejected() -> None:
    text = (
        "model x node A (n bigint) query q(a) find a: A query p(a) find a: A where a.n > 1 rule r on found {}(a) do {}"
    )
    rows: list[Row] = [(0, {"site": "s", "change": "create", "element": "a", "kind": "A"})]
    plan = plan_of(ps.graph.metamodel(text.format("q", "emit seen(a)")).rules)
    state = step_up_to(rules_step, plan, rows_of(rows), None, 5).state
    with pytest.raises(StateError, match="other queries"):
        rules_step(
            plan_of(ps.graph.metamodel(text.format("p", "emit seen(a)")).rules), rows_of([]), state, Watermark(5, 6)
        )
    # The actions after that are not part of this test.
    other = plan_of(ps.graph.metamodel(text.format("q", "delete a")).rules)
    last: list[Row] = [(9, {"site": "s", "change": "create", "element": "b", "kind": "A"})]
    done = rules_step(other, rows_of(last), state, Watermark(5, None, ended=True)).rows.to_pylist()
    assert [(row["what"], row["element"]) for row in done if row["what"] == "changed"] == [("changed", "b")]


# values


def test_values_are_logged_as_strings_that_read_back() -> None:
    rules = ps.graph.metamodel(
        "model x node A (n bigint, x double, at timestamp, yes boolean, word string) node B (at timestamp) "
        "query q(a) find a: A "
        "rule r on found q(a) do emit e(a, a.n as n, a.x as x, a.at as moment, a.yes as yes, a.word as word, null as none), "
        "create b: B named 'b ' || a, set b.at = a.at"
    ).rules
    given = {"n": "7", "x": "1e300", "at": "2026-01-01 10:00:00.5", "yes": "true", "word": "é"}
    rows: list[Row] = [(0, {"site": "s", "change": "create", "element": "a", "kind": "A"})]
    rows += [(0, {"site": "s", "change": "set", "element": "a", "attribute": n, "value": x}) for n, x in given.items()]
    done = whole(plan_of(rules), rows).rows.to_pylist()
    (emitted,) = [dict(row["values"]) for row in done if row["what"] == "emitted"]
    assert emitted == {
        "a": "a", "n": "7", "x": "1.0E300", "moment": "2026-01-01 10:00:00.5Z", "yes": "true", "word": "é", "none": None,
    }  # fmt: skip
    (at,) = [row["value"] for row in done if row["what"] == "changed" and row["attribute"] == "at"]
    assert v.read_timestamp(at) == dt.datetime(2026, 1, 1, 10, 0, 0, 500_000, dt.UTC)


def test_mistyped_names_are_reported_with_their_rule() -> None:
    text = "model x node A (n bigint) query q(a) find a: A rule r on found q(a) do {}"
    rows: list[Row] = [(0, {"site": "s", "change": "create", "element": "a", "kind": "A"})]
    with pytest.raises(EventDataError, match="Rule r uses 5 as the name of a node, expected a string"):
        whole(plan_of(ps.graph.metamodel(text.format("create b: A named 5")).rules), rows)
    requests = "emit e(a) for model 5 do create b: A named 'x'"
    with pytest.raises(EventDataError, match="Rule r identifies a model by 5, expected a value of type string"):
        whole(plan_of(ps.graph.metamodel(text.format(requests)).rules), rows)


def test_types_of_emitted_rows() -> None:
    """Node columns have the type of node names, pattern columns the declared types; where rules differ, a common
    type."""
    text = """
    model x node A (n bigint, x double, at timestamp)
    query q(a) find a: A
    pattern p match found q+ a within 1 hour partition by a return count(a) as many, max(a.a) as last
    rule one on found q(node) do emit e(node, node.n as n, node.n as mixed, null as none)
    rule two on lost q(node) do emit e(node, node.x as n, 'text' as mixed, node.at as none)
    rule tri on p do emit f(a, many, many + 0.5 as more), create b: A named 'b', emit g(b)
    """
    rules = ps.graph.metamodel(text).rules
    types = TYPES | {"element": pa.int64(), "target": pa.int64()}
    assert emitted_types(rules, types, ("site",)) == {
        "e": {"node": pa.int64(), "n": pa.float64(), "mixed": pa.string(), "none": pa.timestamp("us", "UTC")},
        "f": {"a": pa.int64(), "many": pa.int64(), "more": pa.decimal128(22, 1)},
        "g": {"b": pa.int64()},
    }
