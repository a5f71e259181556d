"""The event type of the results of a tree pattern: its identity in plans and states, and its name for a reader."""

from __future__ import annotations

import re
from collections.abc import Iterable

from perseid.lang import ast
from perseid.lang.printer import print_kind, print_name
from perseid.lang.tree_patterns import TreePattern, print_tree

_IDENTITY = re.compile(r"(.* <<.*>>)(?: \S*=\S*)+", re.DOTALL)


def tree_type(stream: str, tree: TreePattern, namespaces: Iterable[tuple[str, str]]) -> str:
    """Return the event type of the results of a tree pattern.

    It includes the namespaces, because they decide what the tree pattern matches. States and match ids depend on this
    text, so it must not change.
    """
    said = "".join(f" {prefix or 'default'}={uri}" for prefix, uri in namespaces)
    return f"{stream} <<{print_tree(tree)}>>{said}"


def describe_type(event_type: str | None) -> str:
    """Return an event type as users wrote it: that of a tree pattern without the namespaces, which the stream declares."""
    if event_type is None:
        return "null"
    found = _IDENTITY.fullmatch(event_type)
    return event_type if found is None else found[1]


def describe_kind(kind: ast.StepKind) -> str:
    """Print the kind of a step for a reader; not for a text that is parsed or compared."""
    return print_name(describe_type(kind.name)) if isinstance(kind, ast.EventType) else print_kind(kind)
