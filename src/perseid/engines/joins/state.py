"""What a share of subscriptions keeps: documents that may still be joined, those that wait, and which files it has taken.

Documents are kept as they came from the reader, so a state says nothing of templates or numbers: the lists that they are
joined by are made anew from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid.engines.joins.documents import heights_of
from perseid.engines.joins.plan import BODIES, CHAINS, FOUND, NODES, TEXTS, JoinsPlan
from perseid.engines.joins.register import have_alternatives
from perseid.errors import LimitError, StateError
from perseid.runtime.arrays import IntArray
from perseid.runtime.contract import StateReport
from perseid.runtime.state_codec import (
    GO_BACK,
    DecodedState,
    check_owner,
    check_shards,
    decode_state,
    encode_state,
    format_fact,
    is_time,
)
from perseid.runtime.watermark import ARRIVAL
from perseid.semantics import values as v

NAME, VERSION = "joins", 2
SPLIT_ALTERNATIVES_VERSION = 1
"""A state in which each alternative of an OR has its bindings in a share of its own; all else is as in version 2."""
TIME, IDENTITY, EPOCH = "_time", "_identity", "_epoch"
OWN = pa.schema([(TIME, pa.int64()), (IDENTITY, pa.int64()), (EPOCH, pa.int32()), *FOUND.items()])
"""The columns of a kept document that are ours; its epoch is how many files had been taken when it came."""
_GIVEN = "column "
"""What the names of the others begin with."""


@dataclass(frozen=True)
class Kept:
    """What there was after the last call."""

    horizon: int | None
    files: tuple[str, ...]
    joined: pa.Table
    """Documents that were joined and may be again, in order."""
    waiting: pa.Table
    """Documents whose time has not come."""
    newest: int | None = None
    """Where documents come in turn: the time of the last one that came to any share; none comes before it."""


def kept_schema(plan: JoinsPlan) -> pa.Schema:
    more = [(name, kind) for name, kind in plan.found.items() if name not in FOUND]
    return pa.schema([*OWN, *more, *(field.with_name(_GIVEN + field.name) for field in plan.columns)])


def given_columns(kept: pa.Table, columns: pa.Schema) -> list[pa.ChunkedArray]:
    """Of kept documents, the columns that are the user's."""
    return [kept[_GIVEN + field.name] for field in columns]


def nothing(plan: JoinsPlan) -> Kept:
    none = kept_schema(plan).empty_table()
    return Kept(None, (), none, none)


def write_state(plan: JoinsPlan, kept: Kept) -> bytes | None:
    passed = kept.newest is None or (kept.horizon is not None and kept.horizon >= kept.newest)
    if not kept.joined.num_rows and not kept.waiting.num_rows and not kept.files and passed:
        return None
    facts = {
        "engine": NAME,
        "version": VERSION,
        "shards": plan.shards,
        "order": plan.order,
        "subscriptions": plan.digest,
        "horizon": kept.horizon,
        "files": list(kept.files),
        "joined": kept.joined.num_rows,
        **({} if kept.newest is None else {"newest": kept.newest}),
    }
    whole = pa.concat_tables([kept.joined, kept.waiting]).combine_chunks()
    batches = whole.to_batches() or [pa.RecordBatch.from_pylist([], whole.schema)]
    if len(batches) > 1:
        raise LimitError(
            "The texts of documents that are kept have more than two gigabytes in one share.",
            hint="Use more shares of what is asked, shorter windows, or a smaller max_state.",
        )
    return encode_state(facts, (batches[0],))


def open_state(state: bytes) -> DecodedState:
    """Whatever is not what this engine writes is a StateError: a checkpoint may be anybody's."""
    sealed = decode_state(state)
    check_owner(sealed, NAME, (SPLIT_ALTERNATIVES_VERSION, VERSION))
    if not _is_sound(sealed):
        raise StateError("The state is not what one of subscriptions should be.")
    return sealed


def _is_sound(sealed: DecodedState) -> bool:
    facts, tables = sealed.facts, sealed.tables
    files, joined = facts.get("files"), facts.get("joined")
    if not (isinstance(files, list) and all(isinstance(one, str) for one in files) and type(joined) is int):
        return False
    if "horizon" not in facts or not all(is_time(facts.get(one)) for one in ("horizon", "newest")) or len(tables) != 1:
        return False
    (table,) = tables
    names = table.schema.names
    if names[: len(OWN)] != OWN.names or len({*names}) < len(names) or not 0 <= joined <= table.num_rows:
        return False
    if any(table.schema.field(name).type != OWN.field(name).type for name in OWN.names):
        return False
    if any(table.column(name).null_count or table.column(name).offset for name in OWN.names):
        return False
    return _fit(table, joined) and _in_order(np.asarray(table.column(TIME)), joined, facts)


def _fit(table: pa.RecordBatch, joined: int) -> bool:
    """Do the lists of a document belong together?"""
    lists = {name: table.column(name) for name in FOUND}
    if any(one.flatten().null_count for one in lists.values()):
        return False
    rows, texts, nodes = (np.asarray(pc.list_value_length(lists[name])) for name in (CHAINS, TEXTS, NODES))
    heights = heights_of(np.asarray(lists[CHAINS].flatten()))
    ends = np.concatenate([[0], np.cumsum(rows)])
    sums = np.concatenate([[0], np.cumsum(heights)])
    times = np.asarray(table.column(TIME))
    return bool(
        (rows == texts).all()
        and (heights > 0).all()
        and (sums[ends[1:]] - sums[ends[:-1]] == nodes).all()
        and ((times >= v.EARLIEST) & (times <= v.LATEST)).all()
        and (np.asarray(table.column(EPOCH)) >= 0).all()
    )


def _in_order(times: IntArray, joined: int, facts: Mapping[str, Any]) -> bool:
    """Do documents that were joined lie in order, and those that wait behind all that has passed?"""
    horizon, last = facts["horizon"], times[joined - 1] if joined else v.EARLIEST
    passed = facts.get("order") == ARRIVAL or not joined or (horizon is not None and last <= horizon)
    waiting = times[joined:]
    return bool(
        passed
        and (np.diff(times[:joined]) >= 0).all()
        and (waiting >= last).all()
        and (horizon is None or (waiting > horizon).all())
    )


def read_state(plan: JoinsPlan, state: bytes | None) -> Kept:
    if state is None:
        return nothing(plan)
    sealed = open_state(state)
    check_shards(sealed, plan.shards)
    for what, there, here in (
        ("order", sealed.facts.get("order"), plan.order),
        ("subscriptions", sealed.facts.get("subscriptions"), plan.digest),
    ):
        if there != here:
            raise StateError(
                f"The {what} of the checkpoint's query is not that of this one: {format_fact(there)}, and here {format_fact(here)}.",
                hint=f"Subscriptions that come and go are kept in ps.subscription_table(…). {GO_BACK}",
            )
    _check_alternatives(plan, sealed)
    (table,) = sealed.tables
    whole = _fitted(pa.Table.from_batches([table]), plan)
    facts, joined = sealed.facts, sealed.facts["joined"]
    parts = whole.slice(0, joined), whole.slice(joined)
    newest: int | None = None
    if plan.order == ARRIVAL:  # the first states did not say it
        last = [facts.get("newest"), *parts[0][TIME].slice(max(joined - 1, 0)).to_pylist()]
        newest = max((one for one in last if one is not None), default=None)
    return Kept(facts["horizon"], tuple(facts["files"]), *parts, newest)


def _check_alternatives(plan: JoinsPlan, sealed: DecodedState) -> None:
    """Reject a state without the bindings of alternatives that now run in the share of the first one.

    Every share rejects it, also one without OR: the share of the first alternative may have no state at all.
    """
    if sealed.facts["version"] != SPLIT_ALTERNATIVES_VERSION or plan.shards == 1:
        return
    texts: dict[str, str | None] = {}
    given: list[str | None] = [] if plan.listed is None else [None]
    for name in [*given, *sealed.facts["files"]]:
        table = plan.table(name)
        texts |= dict(zip(table["subscription"].to_pylist(), table["text"].to_pylist(), strict=True))
    if have_alternatives(text for text in texts.values() if text is not None):
        raise StateError(
            f"The state is of version {SPLIT_ALTERNATIVES_VERSION}, which kept alternatives of an OR in different shares. "
            "This version evaluates them in one share and would miss pairs with documents of this state.",
            hint="Start with a new checkpoint, or go on with the version that wrote this one.",
        )


def _fitted(table: pa.Table, plan: JoinsPlan) -> pa.Table:
    """With the columns that documents have now: what they had not is null, what they have no more is gone."""
    made: list[pa.Array | pa.ChunkedArray] = []
    for field in (wanted := kept_schema(plan)):
        if field.name == BODIES and (field.name not in table.column_names or table[field.name].null_count):
            raise StateError("The state is not what one of subscriptions should be.")
        if field.name not in table.column_names:
            made.append(pa.nulls(table.num_rows, field.type))
        elif table.schema.field(field.name).type != field.type:
            raise StateError(
                f"The column {field.name.removeprefix(_GIVEN)!r} of documents was {table.schema.field(field.name).type}, "
                f"and is {field.type}.",
                hint=f"Cast it to what it was. {GO_BACK}",
            )
        else:
            made.append(table[field.name])
    return pa.table(made, schema=wanted)


def report(state: bytes) -> StateReport:
    """What a state holds, for people."""
    sealed = open_state(state)
    (table,) = sealed.tables
    facts = sealed.facts
    times: Sequence[int] = table.column(TIME).to_pylist()
    shards = facts.get("shards")
    return StateReport(
        shards=shards if type(shards) is int else 0,
        horizon=facts["horizon"],
        events=table.num_rows,
        buffered=table.num_rows - facts["joined"],
        oldest=min(times, default=None),
        open={},
        keys={},
        bytes=len(state),
    )
