"""States of earlier versions: every later version must continue from them, or reject them with a StateError.

Next to each state is a JSON file with the patterns, the remaining rows, and the expected output.
``PERSEID_ADD_STATES=1`` writes the states of cases that have none. Nothing overwrites a state, because users have such
states on disk. The name of a state that a version cannot load goes into ``REFUSED``.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from perseid.engines.disorder.strategy import STRATEGIES
from perseid.errors import StateError
from perseid.runtime.contract import Engine
from perseid.runtime.registry import engines, engines_for
from perseid.runtime.state_codec import decode_state
from tests.contract.golden import CASES, KINDS, OTHERS, OUT_OF_ORDER, GoldenStream
from tests.contract.inputs import EPOCH, PatternWorkload, inputs_of
from tests.contract.shards import ChangelogShard, shard_of
from tests.contract.streams import SECOND, Shard

FOLDER = Path(__file__).parent / "states"
REFUSED: frozenset[str] = frozenset()
"""Names of states that this version does not load any more."""


def value_of(kind: Any, value: Any) -> Any:
    """Return a value of the JSON file as a value of its type."""
    if value is None:
        return None
    if pa.types.is_timestamp(kind):
        return EPOCH + dt.timedelta(microseconds=value)
    if pa.types.is_duration(kind):
        return dt.timedelta(microseconds=value)
    if pa.types.is_date(kind):
        return dt.date.fromisoformat(value)
    if pa.types.is_decimal(kind):
        return Decimal(value)
    if pa.types.is_struct(kind):
        return {field.name: value_of(field.type, value[field.name]) for field in kind}
    if pa.types.is_map(kind):
        return [(key, inner) for key, inner in value]
    return value


def question_of(engine: Engine, about: Mapping[str, Any], patterns: list[str]) -> PatternWorkload:
    """Return the patterns over all rows of the file."""
    schema = pa.schema({name: KINDS[kind] for name, kind in about["columns"].items()})
    kinds = dict(zip(schema.names, schema.types, strict=True))
    rows = [
        {name: value_of(kinds[name], value) if name in kinds else value for name, value in row.items()}
        for row in about["rows"]
    ]
    workload = inputs_of(engine).write(patterns, rows, schema)
    marks = ({name: value[name] for name in ("promise", "any_type") if name in value} for value in rows)
    data = tuple({**row, **more} for row, more in zip(workload.data, marks, strict=True))
    return replace(workload, data=data, id=tuple(about["id"]), order_by=tuple(about["order_by"]))


def loaded(engine: Engine, about: Mapping[str, Any], state: bytes | None) -> Shard:
    workload = question_of(engine, about, about["patterns"])
    now = None if about["now"] is None else about["now"] * SECOND
    settings = about.get("settings")
    options = {"strategy": STRATEGIES[engine.name](**settings)} if settings else {}
    shard = shard_of(engine, workload, about["order"], options, routed=about["routed"], state=state, now=now)
    if isinstance(shard, ChangelogShard) and "said" in about:
        shard.apply_changes((op, revision, horizon, tuple(row)) for op, revision, horizon, row in about["said"])
        shard.horizon = about["horizon"]
    return shard


def continue_stream(shard: Shard) -> dict[str, Any]:
    """Process the remaining rows, then advance the watermark; return the output, its size after each call, and late rows."""
    before = len(emitted_rows(shard))
    counts = []
    for row in shard.workload.data:
        shard.call([row], shard.now)
        counts.append(len(emitted_rows(shard)) - before)
    for second in (10, 15, 45, 95):
        shard.call((), max(shard.now or 0, second * SECOND))
        counts.append(len(emitted_rows(shard)) - before)
    shard.finish()
    late = [row["number"] for row in shard.late]
    return {"expected": sorted(plain(emitted_rows(shard)[before:]), key=repr), "counts": counts, "late": late}


def emitted_rows(shard: Shard) -> list[Any]:
    """Return the emitted matches, or changes of them."""
    return shard.changes if isinstance(shard, ChangelogShard) else shard.emitted


def plain(value: Any) -> Any:
    """Return a value as JSON stores it."""
    return json.loads(json.dumps(value))


def encode_case(engine: Engine, case: GoldenStream) -> tuple[bytes, dict[str, Any]]:
    """Return the state of a case, and its JSON file."""
    rows = [{**row, "number": row.get("number", i)} for i, row in enumerate(case.rows)]
    about = {
        "engine": engine.name, "patterns": list(case.patterns), "columns": dict(case.columns), "id": list(case.id),
        "order_by": list(case.order_by), "order": case.order, "routed": case.routed, "now": case.now,
        "rows": rows, **({"settings": dict(case.settings)} if case.settings else {}),
    }  # fmt: skip
    whole = loaded(engine, about, None)
    data, now = whole.workload.data, whole.now
    shard = replace(whole, now=None)
    if case.before:
        first = replace(shard, workload=question_of(engine, about, list(case.before)))
        first.call(data[:2], None)
        first.call((), 2 * SECOND)
        shard = replace(first, workload=shard.workload)
        shard.call(data[2 : case.cut], shard.now)
    else:
        for at in range(0, case.cut, case.batch):
            shard.call(data[at : min(at + case.batch, case.cut)], None)
    if now is not None:
        shard.call((), now)
    assert shard.state is not None
    about["rows"] = rows[case.cut :]
    if isinstance(shard, ChangelogShard):
        about |= {"said": plain(shard.changes), "horizon": shard.horizon}
    rest = loaded(engine, about, shard.state)
    about |= continue_stream(rest)
    if not case.before:
        current = rest.rows if isinstance(rest, ChangelogShard) else sorted([*shard.emitted, *rest.emitted], key=repr)
        received = replace(whole.workload, data=(*shard.accepted, *rest.accepted))
        assert len(received.data) + len(rest.late) == sum("promise" not in row for row in data)
        assert current == inputs_of(engine).expected(received)
    return shard.state, about


def states() -> list[str]:
    """Return the states of patterns; those of subscriptions are tested in ``test_subscription_states``."""
    return sorted(path.stem for path in FOLDER.glob("*.bin") if path.stem.split("-")[0] in engines_for("patterns"))


def every_case() -> Iterator[tuple[Engine, str, GoldenStream]]:
    """Yield the cases: engines that accept any pattern and never retract share one list, others have their own."""
    for engine in engines_for("patterns").values():
        ordered = not engine.capabilities.retracts and inputs_of(engine).whole
        for title, case in (CASES if ordered else (OUT_OF_ORDER | OTHERS).get(engine.name, {})).items():
            yield engine, title, case


def name_of(engine: Engine, name: str) -> str:
    return f"{engine.name} {name}".replace(" ", "-")


if os.environ.get("PERSEID_ADD_STATES"):
    for each, title, what in every_case():
        path = FOLDER / f"{name_of(each, title)}.bin"
        if not path.exists() and not path.with_suffix(".json").exists():
            blob, value = encode_case(each, what)
            path.write_bytes(blob)
            path.with_suffix(".json").write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


@pytest.mark.parametrize("name", states())
def test_stream_continues_from_state_of_earlier_version(name: str) -> None:
    state = (FOLDER / f"{name}.bin").read_bytes()
    about = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    shard = loaded(engines()[about["engine"]], about, state)
    if name in REFUSED:
        with pytest.raises(StateError):
            continue_stream(shard)
    else:
        found = continue_stream(shard)
        # The oldest files have no counts.
        assert found == {name: about.get(name, found[name]) for name in found}


@pytest.mark.parametrize(
    ("engine", "case"), [pytest.param(engine, case, id=name_of(engine, title)) for engine, title, case in every_case()]
)
def test_every_case_has_a_state(engine: Engine, case: GoldenStream, request: pytest.FixtureRequest) -> None:
    """PERSEID_ADD_STATES=1 adds a new case; a state of this version has the expected output too."""
    name = request.node.callspec.id
    assert name in states()
    _, about = encode_case(engine, case)
    value = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert about["expected"] == value["expected"]


def test_every_pattern_engine_has_states() -> None:
    assert {engine.name for engine, _, _ in every_case()} == {*engines_for("patterns")}


def test_states_contain_the_features_of_their_names() -> None:
    """Otherwise a case could exist without testing anything."""
    columns: set[str] = set()
    for name in states():
        sealed = decode_state((FOLDER / f"{name}.bin").read_bytes())
        if sealed.facts["engine"] != "sequence":
            continue
        if "links" in sealed.facts:
            columns |= {"links"}
            continue
        columns |= {column.split(" ")[0] for column in sealed.tables[0].schema.names}
        beside = [one.to_pydict() for one in sealed.tables[1:]]
        columns |= {"groups"} if any("high" in one for one in beside) else set()
        for one in beside:
            if "taken" in one:
                ways = {taken["way"] for some in one["taken"] for taken in some}
                columns |= {"partials", f"partials of {sealed.facts['order']}"}
                columns |= {"another way"} if len(ways) > 1 else set()
                columns |= {"went on"} if any(one["went on"]) else set()
                columns |= {"untold"} if any(end is not None for end in one["end"]) else set()
        columns |= (
            {"since"} if any(value["since"] is not None for value in sealed.facts["patterns"].values()) else set()
        )
        columns |= {f"order {sealed.facts['order']}"}
    assert columns >= {
        "time",
        "kind",
        "route",
        "occurrence",
        "rank",
        "key",
        "column",
        "open",
        "groups",
        "since",
        "links",
    }
    assert columns >= {"order arrival", "order watermark"}
    assert columns >= {"partials of watermark", "partials of arrival", "another way", "went on", "untold"}


def test_disorder_states_contain_the_features_of_their_names() -> None:
    parts: set[str] = set()
    changes: Counter[str] = Counter()
    for name in states():
        sealed = decode_state((FOLDER / f"{name}.bin").read_bytes())
        if "strategy" not in sealed.facts:
            continue
        about = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
        facts, (body, *emitted) = sealed.facts, sealed.tables
        strategy, (searched, punctuations) = facts["strategy"], body.column(0).to_pylist()
        assert (strategy, facts["version"]) == (about["engine"], 1)
        parts |= {strategy, *(f"{strategy} {fact}" for fact in facts if facts[fact])}
        parts |= {f"{strategy} told"} if emitted else set()
        parts |= {f"{strategy} promised"} if punctuations is not None else set()
        parts |= {f"{strategy} alone"} if searched is None else set()
        parts |= {f"{strategy} links"} if searched is not None and "links" in decode_state(searched).facts else set()
        parts |= {f"{strategy} late"} if about["late"] else set()
        if engines()[strategy].capabilities.retracts:
            stored = {tuple(row[:3]) for _, _, _, row in about["said"]}
            changes.update(
                "again" if op == "+" else "of it" for op, _, _, row in about["expected"] if tuple(row[:3]) in stored
            )
            changes.update(op for op, *_ in about["expected"])
    assert parts >= {*OUT_OF_ORDER}
    assert parts >= {"aggressive told", "aggressive horizon", "aggressive revision", "aggressive links"}
    assert parts >= {"early horizon", "early alone"}
    assert parts >= {"conservative promised", "conservative everywhere", "conservative late"}
    assert parts >= {"adaptive delays", "adaptive newest", "adaptive owed", "adaptive horizon", "adaptive late"}
    assert changes["of it"] > 5, "matches emitted before are retracted"
    assert changes["again"] > 1, "and emitted again"
    assert changes["+"] > 20


def test_states_are_small() -> None:
    sizes = [path.stat().st_size for path in FOLDER.iterdir()]
    assert max(sizes) < 20_000
    assert sum(sizes) < 600_000
