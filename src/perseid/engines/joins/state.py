"""The state of a query partition: joined documents that are still in a window, buffered documents, and loaded files.

Documents are retained as the reader returned them, without templates and internal numbers: the posting lists are rebuilt
from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid.engines.joins.documents import heights_of
from perseid.engines.joins.plan import (
    BODIES,
    CHAIN_COLUMNS,
    CHAINS,
    COLUMN_PREFIX,
    EPOCH,
    IDENTITY,
    NODES,
    TEXTS,
    TIME,
    JoinsPlan,
)
from perseid.engines.joins.subscription_groups import have_alternatives
from perseid.engines.joins.table import read_file
from perseid.errors import StateError
from perseid.runtime.contract import StateReport
from perseid.runtime.fact_values import TIME_OR_NONE, IntegerValue, ListValue, StateFact, TextValue
from perseid.runtime.state_layout import (
    SHARDS,
    Facts,
    StateColumn,
    StateContent,
    StateLayout,
    StateTable,
    decode,
    encode,
    fit_column,
    malformed,
    single_batch,
)
from perseid.runtime.watermark import ARRIVAL
from perseid.semantics import values as v

DOCUMENTS = StateTable(
    "documents",
    (
        StateColumn(TIME, pa.int64(), low=v.EARLIEST, high=v.LATEST),
        StateColumn(IDENTITY, pa.int64()),
        StateColumn(EPOCH, pa.int32(), low=0),
        *(StateColumn(name, kind, items=StateColumn("item", kind.value_type)) for name, kind in CHAIN_COLUMNS.items()),
        StateColumn(BODIES, optional=True),
        StateColumn("column *"),
    ),
    same_sizes=(CHAINS, TEXTS),
)
"""Documents in order: first the joined ones still in a window, then those buffered for the watermark. The epoch of a
document is the number of files that were loaded when it arrived."""


def _check(content: StateContent) -> str | None:
    facts, table = content.facts, content.tables["documents"]
    joined, horizon = facts["joined"], facts["horizon"]
    if joined > table.num_rows:
        return f"expected at most {table.num_rows} joined documents, got {joined}"
    heights = heights_of(np.asarray(table.column(CHAINS).flatten()))
    sizes, nodes = (np.asarray(pc.list_value_length(table.column(name))) for name in (CHAINS, NODES))
    sums, ends = np.concatenate([[0], np.cumsum(heights)]), np.concatenate([[0], np.cumsum(sizes)])
    if (heights <= 0).any() or (sums[ends[1:]] - sums[ends[:-1]] != nodes).any():
        return f"column {NODES!r} does not match the chains"
    times = np.asarray(table.column(TIME))
    buffered, last = times[joined:], times[joined - 1] if joined else v.EARLIEST
    if joined and facts["order"] != ARRIVAL and (horizon is None or last > horizon):
        return "joined documents after the horizon"
    if (np.diff(times[:joined]) < 0).any() or (buffered < last).any():
        return f"documents are not sorted by {TIME!r}"
    return (
        "buffered documents before or at the horizon" if horizon is not None and (buffered <= horizon).any() else None
    )


SPLIT_ALTERNATIVES_VERSION = 1
"""State version with the alternatives of an OR in different query partitions; otherwise identical to version 2."""
_MISMATCH = "Incompatible checkpoint: expected {} {{now}}, got {{found}}."
_TABLES = "Use ps.xscl.subscription_table(…) for subscriptions that change."
LAYOUT = StateLayout(
    "joins",
    2,
    (
        SHARDS,
        StateFact("order", TextValue(), mismatch=_MISMATCH.format("order"), hint="Restore the order of the stream."),
        StateFact("subscriptions", TextValue(), mismatch=_MISMATCH.format("subscriptions"), hint=_TABLES),
        StateFact("horizon", TIME_OR_NONE),
        StateFact("files", ListValue(items=TextValue())),
        StateFact("joined", IntegerValue(low=0)),
        StateFact("newest", TIME_OR_NONE, optional=True),
    ),
    (DOCUMENTS,),
    {SPLIT_ALTERNATIVES_VERSION: lambda facts, tables: (facts, tables)},
    _check,
)


@dataclass(frozen=True)
class RetainedDocuments:
    """The state of a query partition after a call."""

    horizon: int | None
    files: tuple[str, ...]
    joined: pa.Table
    """Joined documents that are still in a window, in order."""
    buffered: pa.Table
    """Documents buffered until the watermark passes them."""
    newest: int | None = None
    """In arrival order: the time of the newest document so far, before which no further one is accepted."""


def no_documents(plan: JoinsPlan) -> RetainedDocuments:
    """Return the state of a new query partition."""
    empty = plan.retained.empty_table()
    return RetainedDocuments(None, (), empty, empty)


def write_state(plan: JoinsPlan, retained: RetainedDocuments) -> bytes | None:
    """Encode the state of a query partition; None if nothing is left."""
    passed = retained.newest is None or (retained.horizon is not None and retained.horizon >= retained.newest)
    if not retained.joined.num_rows and not retained.buffered.num_rows and not retained.files and passed:
        return None
    facts = {
        "shards": plan.shards,
        "order": plan.order,
        "subscriptions": plan.digest,
        "horizon": retained.horizon,
        "files": list(retained.files),
        "joined": retained.joined.num_rows,
        **({} if retained.newest is None else {"newest": retained.newest}),
    }
    return encode(LAYOUT, facts, {"documents": single_batch(pa.concat_tables([retained.joined, retained.buffered]))})


def open_state(state: bytes, expected: Facts | None = None) -> StateContent:
    """Decode a state of any subscriptions."""
    return decode(LAYOUT, state, expected)


def read_state(plan: JoinsPlan, state: bytes | None) -> RetainedDocuments:
    """Decode the state of a query partition, with the document columns of the plan."""
    if state is None:
        return no_documents(plan)
    content = open_state(state, {"shards": plan.shards, "order": plan.order, "subscriptions": plan.digest})
    _check_alternatives(plan, content)
    table, facts = content.tables["documents"], content.facts
    if plan.results and (BODIES not in table.schema.names or table.column(BODIES).null_count):
        raise malformed(LAYOUT.engine, f"column {BODIES!r} is missing or has nulls")
    columns = [
        fit_column(table, field.name, field.type, f"column {field.name.removeprefix(COLUMN_PREFIX)!r}")
        for field in plan.retained
    ]
    whole, joined = pa.table(columns, schema=plan.retained), facts["joined"]
    parts = whole.slice(0, joined), whole.slice(joined)
    newest: int | None = None
    if plan.order == ARRIVAL:  # the first states lack ``newest``
        last = [facts.get("newest"), *parts[0][TIME].slice(max(joined - 1, 0)).to_pylist()]
        newest = max((one for one in last if one is not None), default=None)
    return RetainedDocuments(facts["horizon"], tuple(facts["files"]), *parts, newest)


def _check_alternatives(plan: JoinsPlan, content: StateContent) -> None:
    """Reject a state without the bindings of alternatives that now run in the query partition of the first one.

    Every query partition rejects it, also one without OR: that of the first alternative may have no state at all.
    """
    if content.version != SPLIT_ALTERNATIVES_VERSION or plan.shards == 1:
        return
    texts: dict[str, str | None] = {}
    for name in content.facts["files"]:
        table = read_file(plan.folder or "", name)
        texts |= dict(zip(table["subscription"].to_pylist(), table["text"].to_pylist(), strict=True))
    has_alternatives = plan.program is not None and plan.program.has_alternatives()
    if has_alternatives or have_alternatives(text for text in texts.values() if text is not None):
        raise StateError(
            f"State version {SPLIT_ALTERNATIVES_VERSION} has the alternatives of an OR in different query partitions. This "
            "version evaluates them in one partition, and would miss pairs with documents of this state.",
            hint="Start with a new checkpoint, or use the version that wrote this one.",
        )


def report(state: bytes) -> StateReport:
    """Summarize a state."""
    content = open_state(state)
    table, facts = content.tables["documents"], content.facts
    times: Sequence[int] = table.column(TIME).to_pylist()
    return StateReport(
        shards=facts["shards"],
        horizon=facts["horizon"],
        events=table.num_rows,
        buffered=table.num_rows - facts["joined"],
        oldest=min(times, default=None),
        open={},
        keys={},
        bytes=len(state),
    )
