"""What patterns over a model are asked of, in words: which events there are, and what keeping its queries takes."""

from __future__ import annotations

from collections.abc import Sequence

from perseid.engines.models.network import Network
from perseid.lang.printer import print_kind
from perseid.runtime.search_budget import SearchBudget
from perseid.semantics.model_queries import Queries
from perseid.semantics.model_steps import Group, Watched
from perseid.viz.detection import Row, describe_budget, section


def explain_models(
    queries: Queries,
    groups: Sequence[Group],
    key: Sequence[str],
    budget: SearchBudget,
    one_by_one: Sequence[str | None] | None = None,
) -> str:
    """The model and its events; of frames, what keeps each group from being answered for all of them at once."""
    kinds = queries.kinds
    name = kinds.metamodel.name
    rows: list[Row] = [
        ("contains", f"{len(kinds.nodes)} types of node, {len(kinds.edges)} of edge"),
        *((f"events of {', '.join(p.name for p in group.patterns)}", _events(group.watched)) for group in groups),
        ("models", f"one for each {', '.join(key)}: patterns look at one at a time" if key else "one"),
        ("time", "all changes of a model at one time are one transaction; queries see its end"),
        (
            "queries",
            f"{len(queries.queries)}, kept as the model changes by {len(Network(queries).operators)} operators that they share; "
            "the cost follows what changed (closures and components: what hangs together with it)",
        ),
        *(() if one_by_one is None else map(_way, groups, one_by_one)),
        ("state", "the model itself, and the matches of every query and of its parts"),
        ("budget", describe_budget(budget)),
    ]
    return "\n".join(section(f"the model {name}", rows)).rstrip() + "\n"


def _events(watched: Watched) -> str:
    events = [f"{query} found, updated and lost" for query in watched.queries]
    beside = [f"ordinary events {', '.join(watched.happenings)}"] if watched.happenings else []
    return "; ".join([*events, *map(print_kind, watched.changes), *beside]) or "none"


def _way(group: Group, why: str | None) -> Row:
    names = ", ".join(pattern.name for pattern in group.patterns)
    if why is None:
        return f"frames of {names}", "all at once: each match the structure allows is a condition over columns"
    return f"frames of {names}", f"one by one, because of {why}"
