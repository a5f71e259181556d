"""Adversarial documents, tree patterns and subscriptions for the engines of trees and joins, from a seed."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import pyarrow as pa

from perseid.engines.joins.engine import JOINS
from perseid.engines.joins.plan import JoinsPlan
from perseid.engines.joins.shard import _SHARDS
from perseid.engines.trees.engine import TREES, TreesPlan
from perseid.reference.subscriptions import Document
from perseid.runtime.contract import StepResult
from perseid.runtime.document_columns import BODY, STREAM
from perseid.runtime.watermark import ARRIVAL, Watermark
from perseid.semantics import values as v
from tests.contract.subscriptions import SubscriptionWorkload, draw_workload, plan_of, rows_of
from tests.contract.test_subscription_states import TEXTS_ASKED, WORKLOAD
from tests.engines.test_scan import mutate
from tests.engines.tree_texts import compile_texts
from tests.security.adversarial_states import mutate_state
from tests.security.progress import RESULT, Adversarial, Calls, run_calls
from tests.security.test_mutated_documents import make_malformed_document
from tests.security.test_tree_output import PATTERN, nested, nested_json, random_shape, random_steps
from tests.semantics.join_documents import element

SECOND = 1_000_000
BAD_DOCUMENT = "bad document"
"""Outcome of an input with a document that is a bad record with a typed reason; no error is raised."""


# Trees


def make_tree_input(seed: int) -> Adversarial:
    """Return malformed, deep or wide documents, or documents with many results, and an adversarial tree pattern."""
    chance = random.Random(f"tree {seed}")
    pattern = PATTERN if chance.random() < 0.15 else random_steps(chance, chance.choice((1, 2, 3)))
    format_ = "json" if chance.random() < 0.3 else "xml"
    write = _json_body if format_ == "json" else _xml_body
    bodies = [write(chance) for _ in range(chance.choice((1, 1, 3)))]
    trusted = chance.random() < 0.3
    variables = tuple(dict.fromkeys(re.findall(r"->(\w+)", pattern)))
    whole = chance.choice((None, "whole"))

    def make_plan() -> TreesPlan:
        return TreesPlan(
            compile_texts([pattern], (), trusted, format_),
            ("found",),
            ("S",),
            variables,
            whole=whole,
        )

    return Adversarial(
        "document", lambda: f"{pattern}\n{[body[:2_000] for body in bodies]}", _prepare(make_plan, bodies)
    )


def _prepare(make_plan: Callable[[], TreesPlan], bodies: Sequence[bytes]) -> Calls:
    assert TREES.prepare is not None
    prepared = yield lambda: list(TREES.prepare(make_plan(), {BODY: pa.array(bodies, pa.binary())}))  # type: ignore[misc]
    return BAD_DOCUMENT if any(one.bad for one in prepared) else RESULT


def _xml_body(chance: random.Random) -> bytes:
    roll = chance.random()
    if roll < 0.35:
        return make_malformed_document(chance.randrange(1 << 40))
    if roll < 0.4:
        depth = chance.choice((100, 1_000, 9_999, 10_000, 10_001, 20_000))
        return b"<a>" * depth + b"<b/>" + b"</a>" * depth
    text = nested(chance.choice((3, 30, 100, 200))) if roll < 0.5 else random_shape(chance)
    data = bytearray(text.encode())
    for _ in range(chance.choice((0, 0, 0, 1, 3))):
        mutate(chance, data)
    return bytes(data)


def _json_body(chance: random.Random) -> bytes:
    roll = chance.random()
    if roll < 0.2:
        text = nested_json(chance.choice((3, 30, 100, 200)))
    elif roll < 0.3:
        depth = chance.choice((100, 900, 1_100, 9_999, 20_000))
        text = chance.choice(('{"a":', "[")) * depth
    else:
        text = json.dumps(_value(chance, 4))
    data = bytearray(text.encode())
    for _ in range(chance.choice((0, 0, 1, 3))):
        mutate(chance, data)
    return bytes(data)


def _value(chance: random.Random, depth: int) -> Any:
    leaves = (None, True, 0, -1, 1e308, 10**40, "", "z", "\ud83d\ude00", "<a>", "\x00")
    if not depth or chance.random() < 0.2:
        return chance.choice(leaves)
    inner = [_value(chance, depth - 1) for _ in range(chance.randint(0, 4))]
    return inner if chance.random() < 0.4 else dict(zip("abca", inner, strict=False))


# Joins


EXPLODING = (
    "S//a->x JOIN{x = y, forever} S//a->y",
    "S//a->x FOLLOWED BY{x = y, 20 seconds} S//a->y",
    "S//r[//a->x][//b->y] FOLLOWED BY{x = u AND y = w, 1 hour} S//r[//a->u][//b->w]",
    "S//a->x[//a->z] JOIN{x = u, forever} S//a->u[//a->w]",
    "S//*->x JOIN{x = y, 0 seconds} S//*->y",
    "S//r[//a->x][//b->y] JOIN{x = u OR y = w OR x = w, forever} S//r[//a->u][//b->w]",
    "SELECT <pair>{x}{y}</pair> FROM S//a->x JOIN{x = y, 9 seconds} S//a->y",
    "S//a->x JOIN{x = y AND x < y, forever} S//a->y",
)
WIDTHS = ((4, 12), (8, 6), (12, 3), (16, 2))
"""Number of equal values of a document, and of documents. With two variables on each side, a pair of documents has width ** 4
notifications, and the engine has no limit on them: wider documents exceed any time bound."""


def _equal_document(chance: random.Random, number: int, second: int, width: int) -> Document:
    """Return a document with many equal values, as siblings or nested."""
    if chance.random() < 0.3:
        root = element("a", "1")
        for _ in range(min(width, 25)):
            root = element("a", root, element("b", "1"))
        return Document(number, second, "S", element("r", root))
    leaves = [element(chance.choice("aab"), "1") for _ in range(width)]
    return Document(number, second, "S", element("r", *leaves))


def make_join_input(seed: int) -> Adversarial:
    """Return subscriptions and documents with many equal values, malformed documents, or a modified state."""
    chance = random.Random(f"join {seed}")
    roll = chance.random()
    if roll < 0.45:
        return _changed_join_state(chance)
    if roll < 0.6:
        return _broken_join_documents(chance)
    if roll < 0.75:
        workload = draw_workload(chance.randrange(2_000))
    else:
        width, count = chance.choice(WIDTHS)
        texts = {f"q{i}": chance.choice(EXPLODING) for i in range(chance.choice((1, 3, 6)))}
        times = [chance.choice((0, 0, SECOND, 20 * SECOND, v.EARLIEST, v.LATEST)) for _ in range(count)]
        documents = [_equal_document(chance, i, time, width) for i, time in enumerate(times)]
        workload = SubscriptionWorkload(texts, tuple(documents))
    settings = {"expand": chance.random() < 0.7, "order": chance.choice(("watermark", "watermark", ARRIVAL))}
    return Adversarial(
        "document",
        lambda: f"{settings}\n{dict(workload.texts)}\n{len(workload.documents)} documents",
        _join(workload, chance, settings),
    )


def _join(workload: SubscriptionWorkload, chance: random.Random, settings: dict[str, Any]) -> Calls:
    plan: JoinsPlan = yield partial(plan_of, workload, **settings)
    rows = yield partial(rows_of, plan, workload.documents)
    if chance.random() < 0.4:
        yield partial(JOINS.run_step, plan, rows, None, Watermark(ended=True))
        return None
    left, state, now = list(workload.documents), None, None
    while left:
        size = chance.randint(1, len(left))
        rows = yield partial(rows_of, plan, left[:size])
        left = left[size:]
        step: StepResult = yield partial(JOINS.run_step, plan, rows, state, Watermark(None, now, False))
        state = step.state
        if chance.random() < 0.5:
            now = max(now or v.EARLIEST, chance.choice((0, SECOND, 30 * SECOND, v.LATEST)))
        if chance.random() < 0.3:
            _SHARDS.clear()
    yield partial(JOINS.run_step, plan, rows_of(plan, []), state, Watermark(now, None, True))
    return None


def _broken_join_documents(chance: random.Random) -> Adversarial:
    texts = {"q": chance.choice((*EXPLODING, *TEXTS_ASKED.values()))}
    bodies = [make_malformed_document(chance.randrange(1 << 40)) for _ in range(3)]
    return Adversarial("document", lambda: f"{texts}\n{bodies}", _read_broken(texts, bodies))


def _read_broken(texts: dict[str, str], bodies: list[bytes]) -> Calls:
    plan = yield partial(plan_of, SubscriptionWorkload(texts, ()))
    columns = {BODY: pa.array(bodies, pa.binary()), STREAM: pa.array(["S"] * len(bodies), pa.string())}
    assert JOINS.prepare is not None
    prepared = yield lambda: list(JOINS.prepare(plan, columns))  # type: ignore[misc]
    return BAD_DOCUMENT if any(one.bad for one in prepared) else RESULT


@cache
def base_join_states() -> list[tuple[JoinsPlan, Any, bytes]]:
    """Return plans with their next rows and mid-stream states."""
    found = []
    chance = random.Random(1)
    exploding = SubscriptionWorkload(
        {f"q{i}": text for i, text in enumerate(EXPLODING)},
        tuple(_equal_document(chance, i, SECOND * i, 6) for i in range(12)),
    )
    for workload in (WORKLOAD, exploding):
        for settings in ({}, {"results": True}, {"order": ARRIVAL}):
            plan = plan_of(workload, **settings)
            state = None
            for documents, now in ((workload.documents[:10], None), ((), 6 * SECOND)):
                state = JOINS.run_step(plan, rows_of(plan, documents), state, Watermark(None, now, False)).state
            assert state is not None
            found.append((plan, rows_of(plan, workload.documents[10:]), state))
    return found


def _changed_join_state(chance: random.Random) -> Adversarial:
    plan, rows, state = chance.choice(base_join_states())
    what, changed = mutate_state(state, chance)

    def calls() -> Calls:
        _SHARDS.clear()
        assert JOINS.report is not None
        yield partial(JOINS.report, changed)
        step: StepResult = yield partial(JOINS.run_step, plan, rows, changed, Watermark(None, 10 * SECOND, False))
        _SHARDS.clear()
        yield partial(JOINS.run_step, plan, rows_of(plan, []), step.state, Watermark(None, None, True))
        return None

    return Adversarial("state", lambda: what, calls())


def warm_up_documents() -> None:
    """Load the kernels of both engines, so that loading does not count toward the time of an input."""
    run_calls(_prepare(lambda: TreesPlan(compile_texts([PATTERN]), ("found",), ("S",), ("a", "b")), [b"<a><b/></a>"]))
    base_join_states()
