"""Explanation of patterns over a model: its events, and the cost of its queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perseid.engines.models.network import Network
from perseid.engines.models.stream import Models
from perseid.lang.printer import print_kind
from perseid.runtime.explanation import Row, describe_budget, describe_max_ahead, section
from perseid.semantics.model_steps import EventStreamFilter, EventStreamGroup

if TYPE_CHECKING:
    import pyarrow as pa


def explain_models(groups: Sequence[EventStreamGroup], stream: Models, types: Mapping[str, pa.DataType] | None) -> str:
    """Describe the model and its events; for frames, also the reason if they are evaluated one by one.

    ``types`` are the column types of a DataFrame; None for local rows.
    """
    queries, key = stream.queries, stream.key
    evaluation_rows = (
        [_evaluation_row(group, stream.why_one_by_one(group.watched, types)) for group in groups]
        if stream.has_frames
        else []
    )
    kinds = queries.kinds
    name = kinds.metamodel.name
    rows: list[Row] = [
        ("contains", f"{len(kinds.nodes)} node types, {len(kinds.edges)} edge types"),
        *((f"events of {', '.join(p.name for p in group.patterns)}", _events(group.watched)) for group in groups),
        ("models", f"one for each {', '.join(key)}; patterns match each model separately" if key else "one"),
        ("time", "all changes of a model at one time are one transaction; queries are evaluated after it"),
        (
            "queries",
            f"{len(queries.queries)}, maintained incrementally by {len(Network(queries).operators)} shared operators; "
            "the cost depends on the size of the change (closures and components: of the connected part)",
        ),
        *evaluation_rows,
        ("state", "the model itself, and the matches of every query and of its parts"),
        ("budget", describe_budget(stream.budget)),
    ]
    text = "\n".join(section(f"model {name}", rows)).rstrip() + "\n"
    return text if stream.max_ahead is None else f"{text}max_ahead: {describe_max_ahead(stream.max_ahead)}\n"


def _events(watched: EventStreamFilter) -> str:
    events = [f"{query} found, updated and lost" for query in watched.queries]
    additional = [f"additional events {', '.join(watched.happenings)}"] if watched.happenings else []
    return "; ".join([*events, *map(print_kind, watched.changes), *additional]) or "none"


def _evaluation_row(group: EventStreamGroup, reason: str | None) -> Row:
    names = ", ".join(pattern.name for pattern in group.patterns)
    if reason is None:
        return f"frames of {names}", "all at once: each structural match is a condition over columns"
    return f"frames of {names}", f"one by one: {reason}"
