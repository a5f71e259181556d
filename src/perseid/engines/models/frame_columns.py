"""Validation of declared frames: the initial changes of models, and the attributes that columns set."""

from __future__ import annotations

from collections.abc import Mapping

from perseid.engines.models.metamodel import Metamodel
from perseid.engines.models.plan import ROLES
from perseid.engines.models.stream import changes_of
from perseid.errors import EventDataError, PerseidError, nearest
from perseid.semantics.graphs import RANK, Change, Element, Graph
from perseid.tables.columns import read_table


def snapshot_of(metamodel: Metamodel, each: object) -> list[Change]:
    """Return the initial changes of every model, in order; raise an error if they do not fit the metamodel."""
    rows = read_table(each)
    changes = changes_of(dict(zip(ROLES, ROLES, strict=True)), rows)
    changes.sort(key=lambda change: RANK.get(change.action, 5))
    graph = Graph(metamodel.queries.kinds)
    for change in changes:
        try:
            graph.apply(change)
        except PerseidError as error:
            raise EventDataError(
                f"Invalid initial changes: {error.message}", hint="Fix the changes in ps.graph.frames(rows, each=…)."
            ) from None
    return changes


def check_frame_columns(
    metamodel: Metamodel, snapshot: list[Change], columns: Mapping[str, tuple[Element, str]]
) -> None:
    """Raise an error unless each column sets a distinct attribute of a node of the snapshot."""
    kinds = {change.element: str(change.kind) for change in snapshot if change.action == "create"}
    column_of: dict[tuple[Element, str], str] = {}
    if not isinstance(columns, Mapping) or not columns:
        raise EventDataError(
            "Frames need a dict from columns to the attributes that they set, with at least one column.",
            hint="Use columns={'right_hand_y': ('right_hand', 'y'), …}.",
        )
    for name, place in columns.items():
        if not isinstance(place, tuple) or len(place) != 2:
            raise EventDataError(
                f"Column {name!r}: expected a pair of element and attribute, got {place!r}.",
                hint=f"Use columns={{{name!r}: ('right_hand', 'y'), …}}.",
            )
        element, attribute = place
        if element not in kinds:
            raise EventDataError(
                f"Column {name!r}: unknown element {element!r} in the initial changes.",
                nearest=nearest(str(element), [str(node) for node in kinds]),
                hint="Create it in each=[{'change': 'create', 'element': …, 'kind': …}, …].",
            )
        metamodel.queries.kinds.attribute_type(kinds[element], attribute)
        if place in column_of:
            raise EventDataError(f"Columns {column_of[place]!r} and {name!r} both set {element}.{attribute}.")
        column_of[place] = name
