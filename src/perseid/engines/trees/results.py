"""Results of tree patterns as columns: one row per result, and one per document that cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from perseid.engines.trees.fields import NODE
from perseid.engines.trees.match_layout import ELEMENT_BITS, O_ORDINAL, O_PATTERN
from perseid.lang.tree_patterns import TreePattern, return_names
from perseid.runtime.contract import BadRecord

if TYPE_CHECKING:
    from perseid.engines.trees.reader import DocumentReader, Findings

ERROR, PATTERN = "error", "pattern"
_ERROR_TYPE = pa.struct([("what", pa.string()), ("line", pa.int64()), ("column", pa.int64())])


def result_fields(patterns: Sequence[TreePattern]) -> list[pa.Field]:
    """Return the result columns: pattern, number of the element, texts of nodes by return name, nodes, and error."""
    variables = dict.fromkeys(name for pattern in patterns for name in return_names(pattern))
    return [
        pa.field(PATTERN, pa.string()),
        pa.field("place", pa.int64()),
        *(pa.field(name, pa.list_(pa.string())) for name in variables),
        pa.field("nodes", pa.list_(pa.struct(NODE))),
        pa.field(ERROR, _ERROR_TYPE),
    ]


def result_columns(names: Sequence[str], reader: DocumentReader, findings: Findings) -> dict[str, pa.Array]:
    """Return the columns of results, one row per result."""
    steps = reader.plan.steps
    columns = {
        PATTERN: pa.array(names, pa.string()).take(pa.array(findings.rows[findings.firsts, O_PATTERN])),
        "place": pa.array(findings.rows[findings.firsts, O_ORDINAL] >> ELEMENT_BITS, pa.int64()),
        "nodes": findings.nodes([step.returns for step in steps]),
    }
    for name in dict.fromkeys(step.returns for step in steps if step.returns is not None):
        columns[name] = findings.all_texts([number for number, step in enumerate(steps) if step.returns == name])
    return columns


def error_column(refused: Sequence[BadRecord]) -> pa.Array:
    """Return the errors of unreadable documents as a column."""
    return pa.array([{"what": one.reason, "line": one.line, "column": one.column} for one in refused], _ERROR_TYPE)
