"""States as some version wrote them: every later version must load these and go on, or refuse with a StateError.

Beside each state lies what it is of: the patterns, the rows that were still to come, and what is told from there on.
``PERSEID_ADD_STATES=1`` writes the states of cases that have none yet. Nothing writes over one that is there: it is
what lies on somebody's disk. Where a version can no longer load one, it says so: its name goes into ``REFUSED``.
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
from tests.contract.golden import CASES, KINDS, OTHERS, OUT_OF_ORDER, Case
from tests.contract.inputs import EPOCH, Question, inputs_of
from tests.contract.shards import Changing, shard_of
from tests.contract.streams import SECOND, Shard

FOLDER = Path(__file__).parent / "states"
REFUSED: frozenset[str] = frozenset()
"""States that this version does not load any more, by name."""


def value_of(kind: Any, said: Any) -> Any:
    """What stands in JSON for a value of a type, as that value."""
    if said is None:
        return None
    if pa.types.is_timestamp(kind):
        return EPOCH + dt.timedelta(microseconds=said)
    if pa.types.is_duration(kind):
        return dt.timedelta(microseconds=said)
    if pa.types.is_date(kind):
        return dt.date.fromisoformat(said)
    if pa.types.is_decimal(kind):
        return Decimal(said)
    if pa.types.is_struct(kind):
        return {field.name: value_of(field.type, said[field.name]) for field in kind}
    if pa.types.is_map(kind):
        return [(key, inner) for key, inner in said]
    return said


def question_of(engine: Engine, about: Mapping[str, Any], patterns: list[str]) -> Question:
    """The patterns, over all rows that are said."""
    schema = pa.schema({name: KINDS[kind] for name, kind in about["columns"].items()})
    kinds = dict(zip(schema.names, schema.types, strict=True))
    rows = [
        {name: value_of(kinds[name], said) if name in kinds else said for name, said in row.items()}
        for row in about["rows"]
    ]
    question = inputs_of(engine).write(patterns, rows, schema)
    marks = ({name: said[name] for name in ("promise", "any_type") if name in said} for said in rows)
    data = tuple({**row, **more} for row, more in zip(question.data, marks, strict=True))
    return replace(question, data=data, id=tuple(about["id"]), order_by=tuple(about["order_by"]))


def loaded(engine: Engine, about: Mapping[str, Any], state: bytes | None) -> Shard:
    question = question_of(engine, about, about["patterns"])
    now = None if about["now"] is None else about["now"] * SECOND
    settings = about.get("settings")
    options = {"strategy": STRATEGIES[engine.name](**settings)} if settings else {}
    shard = shard_of(engine, question, about["order"], options, routed=about["routed"], state=state, now=now)
    if isinstance(shard, Changing) and "said" in about:
        shard.hear((op, revision, horizon, tuple(row)) for op, revision, horizon, row in about["said"])
        shard.horizon = about["horizon"]
    return shard


def go_on(shard: Shard) -> dict[str, Any]:
    """Give the rest one by one, then let time go on: what is told, after how many calls, and what is late."""
    before = len(said_by(shard))
    counts = []
    for row in shard.question.data:
        shard.call([row], shard.now)
        counts.append(len(said_by(shard)) - before)
    for second in (10, 15, 45, 95):
        shard.call((), max(shard.now or 0, second * SECOND))
        counts.append(len(said_by(shard)) - before)
    shard.finish()
    late = [row["number"] for row in shard.late]
    return {"expected": sorted(plain(said_by(shard)[before:]), key=repr), "counts": counts, "late": late}


def said_by(shard: Shard) -> list[Any]:
    """Matches, or changes of them."""
    return shard.changes if isinstance(shard, Changing) else shard.told


def plain(said: Any) -> Any:
    """As JSON has it."""
    return json.loads(json.dumps(said))


def written(engine: Engine, case: Case) -> tuple[bytes, dict[str, Any]]:
    """The state of a case, and what is to be known of it."""
    rows = [{**row, "number": row.get("number", i)} for i, row in enumerate(case.rows)]
    about = {
        "engine": engine.name, "patterns": list(case.patterns), "columns": dict(case.columns), "id": list(case.id),
        "order_by": list(case.order_by), "order": case.order, "routed": case.routed, "now": case.now,
        "rows": rows, **({"settings": dict(case.settings)} if case.settings else {}),
    }  # fmt: skip
    whole = loaded(engine, about, None)
    data, now = whole.question.data, whole.now
    shard = replace(whole, now=None)
    if case.before:
        first = replace(shard, question=question_of(engine, about, list(case.before)))
        first.call(data[:2], None)
        first.call((), 2 * SECOND)
        shard = replace(first, question=shard.question)
        shard.call(data[2 : case.cut], shard.now)
    else:
        for at in range(0, case.cut, case.batch):
            shard.call(data[at : min(at + case.batch, case.cut)], None)
    if now is not None:
        shard.call((), now)
    assert shard.state is not None
    about["rows"] = rows[case.cut :]
    if isinstance(shard, Changing):
        about |= {"said": plain(shard.changes), "horizon": shard.horizon}
    rest = loaded(engine, about, shard.state)
    about |= go_on(rest)
    if not case.before:
        stands = rest.rows if isinstance(rest, Changing) else sorted([*shard.told, *rest.told], key=repr)
        come = replace(whole.question, data=(*shard.accepted, *rest.accepted))
        assert len(come.data) + len(rest.late) == sum("promise" not in row for row in data)
        assert stands == inputs_of(engine).expected(come)
    return shard.state, about


def states() -> list[str]:
    """Of patterns; those of subscriptions are tested in ``test_subscription_states``."""
    return sorted(path.stem for path in FOLDER.glob("*.bin") if path.stem.split("-")[0] in engines_for("patterns"))


def every_case() -> Iterator[tuple[Engine, str, Case]]:
    """Engines that can be asked any pattern, and tell a match once and for all, have all of one list; others their own."""
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
            blob, said = written(each, what)
            path.write_bytes(blob)
            path.with_suffix(".json").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


@pytest.mark.parametrize("name", states())
def test_a_state_of_an_earlier_version(name: str) -> None:
    state = (FOLDER / f"{name}.bin").read_bytes()
    about = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    shard = loaded(engines()[about["engine"]], about, state)
    if name in REFUSED:
        with pytest.raises(StateError):
            go_on(shard)
    else:
        found = go_on(shard)
        # The oldest states do not say after which call what was told.
        assert found == {name: about.get(name, found[name]) for name in found}


@pytest.mark.parametrize(
    ("engine", "case"), [pytest.param(engine, case, id=name_of(engine, title)) for engine, title, case in every_case()]
)
def test_every_case_has_its_state(engine: Engine, case: Case, request: pytest.FixtureRequest) -> None:
    """A new case is added with PERSEID_ADD_STATES=1; what this version writes for it still reads as it should."""
    name = request.node.callspec.id
    assert name in states()
    _, about = written(engine, case)
    said = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert about["expected"] == said["expected"]


def test_every_engine_has_states() -> None:
    assert {engine.name for engine, _, _ in every_case()} == {*engines_for("patterns")}


def test_the_states_have_what_they_are_there_for() -> None:
    """Without this a case could be there and say nothing."""
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
        columns |= {"since"} if any(said["since"] is not None for said in sealed.facts["patterns"].values()) else set()
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


def test_the_states_out_of_order_have_what_they_are_there_for() -> None:
    parts: set[str] = set()
    changes: Counter[str] = Counter()
    for name in states():
        sealed = decode_state((FOLDER / f"{name}.bin").read_bytes())
        if "strategy" not in sealed.facts:
            continue
        about = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
        facts, (body, *told) = sealed.facts, sealed.tables
        strategy, (searched, promised) = facts["strategy"], body.column(0).to_pylist()
        assert (strategy, facts["version"]) == (about["engine"], 1)
        parts |= {strategy, *(f"{strategy} {fact}" for fact in facts if facts[fact])}
        parts |= {f"{strategy} told"} if told else set()
        parts |= {f"{strategy} promised"} if promised is not None else set()
        parts |= {f"{strategy} alone"} if searched is None else set()
        parts |= {f"{strategy} links"} if searched is not None and "links" in decode_state(searched).facts else set()
        parts |= {f"{strategy} late"} if about["late"] else set()
        if engines()[strategy].capabilities.retracts:
            kept = {tuple(row[:3]) for _, _, _, row in about["said"]}
            changes.update(
                "again" if op == "+" else "of it" for op, _, _, row in about["expected"] if tuple(row[:3]) in kept
            )
            changes.update(op for op, *_ in about["expected"])
    assert parts >= {*OUT_OF_ORDER}
    assert parts >= {"aggressive told", "aggressive horizon", "aggressive revision", "aggressive links"}
    assert parts >= {"early horizon", "early alone"}
    assert parts >= {"conservative promised", "conservative everywhere", "conservative late"}
    assert parts >= {"adaptive delays", "adaptive newest", "adaptive owed", "adaptive horizon", "adaptive late"}
    assert changes["of it"] > 5, "what was told before is taken back"
    assert changes["again"] > 1, "and told again"
    assert changes["+"] > 20


def test_the_states_are_small() -> None:
    sizes = [path.stat().st_size for path in FOLDER.iterdir()]
    assert max(sizes) < 20_000
    assert sum(sizes) < 600_000
