"""Typed columns of the rows that rules emit."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from perseid.engines.models.action_log import AFTER, BEFORE
from perseid.engines.models.plan import ROLES
from perseid.engines.models.rule_engine import emitted_types
from perseid.errors import EventDataError, nearest
from perseid.semantics.rules import Rules


def emitted_columns(
    rules: Rules, types: Mapping[str, pa.DataType], name: str
) -> tuple[list[str], Mapping[str, pa.DataType]]:
    """Return the time and key columns of rows emitted under one name, and the types of their other columns.

    ``types`` are the column types of the rules' output.
    """
    names = list(types)
    if list(BEFORE + AFTER) != [n for n in names if n in BEFORE + AFTER] or len(names) <= len(BEFORE + ROLES + AFTER):
        raise EventDataError(
            "Unexpected columns: expected the output of ps.graph.react.",
            hint="Use ps.graph.select_emitted(ps.graph.react(stream), metamodel, …), with all columns unchanged.",
        )
    place = names.index(BEFORE[0])
    leading, element = names[:place], names[place + len(BEFORE) + ROLES.index("element")]
    known = emitted_types(rules, {**types, "element": types[element]}, leading[1:])
    if name not in known:
        raise EventDataError(
            f"No rule emits {name!r}.",
            nearest=nearest(name, known),
            hint=f"Available: {', '.join(known)}." if known else "Add an action to a rule: do emit alarm(host).",
        )
    return leading, known[name]
