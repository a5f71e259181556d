"""Checked metamodels: type hierarchy, inherited attributes, and edge ends."""

from __future__ import annotations

from dataclasses import dataclass, field

from perseid.errors import LimitError, PatternError, Place, ScopeError, UnknownNameError, nearest
from perseid.lang.limits import MAX_DEPTH
from perseid.lang.models import EdgeType, MetamodelDefinition, NodeType
from perseid.semantics import types as t


@dataclass(frozen=True, slots=True)
class Kinds:
    """A checked metamodel."""

    metamodel: MetamodelDefinition
    nodes: dict[str, NodeType] = field(default_factory=dict)
    edges: dict[str, EdgeType] = field(default_factory=dict)
    above: dict[str, frozenset[str]] = field(default_factory=dict)
    """Every type with all its supertypes, including itself."""
    carried: dict[str, dict[str, t.Type]] = field(default_factory=dict)
    """Attributes of each type, including those of its supertypes."""

    def is_a(self, kind: str, ancestor: str) -> bool:
        return ancestor in self.above[kind]

    def below(self, ancestor: str) -> list[str]:
        """Return this type and all its subtypes."""
        return [kind for kind, above in self.above.items() if ancestor in above]

    def attributes(self, kind: str) -> dict[str, t.Type]:
        return self.carried[kind]

    def creatable(self, kind: str | None) -> str:
        found = self.node(kind)
        if found.abstract:
            raise UnknownNameError(
                f"Node type {kind} is abstract.", hint=f"Use a subtype: {_listing(self.below(found.name)[1:])}"
            )
        return found.name

    def node(self, kind: str | None) -> NodeType:
        if kind not in self.nodes:
            raise unknown("node type", kind, list(self.nodes))
        return self.nodes[kind]

    def edge(self, edge: str | None) -> EdgeType:
        if edge not in self.edges:
            raise unknown("edge", edge, list(self.edges))
        return self.edges[edge]

    def attribute_type(self, kind: str, attribute: str | None) -> t.Type:
        carried = self.carried[kind]
        if attribute not in carried:
            raise unknown(f"attribute of {kind}", attribute, list(carried))
        return carried[attribute]


def kinds_of(metamodel: MetamodelDefinition) -> Kinds:
    """Check a metamodel: unique names, existing types, no cycles in the hierarchy."""
    kinds = Kinds(metamodel)
    for node in metamodel.nodes:
        if node.name in kinds.nodes:
            raise ScopeError(f"Duplicate node type {node.name!r}.", span=node.span, hint="Use another name.")
        kinds.nodes[node.name] = node
    for edge in metamodel.edges:
        if edge.name in kinds.edges:
            raise ScopeError(f"Duplicate edge {edge.name!r}.", span=edge.span, hint="Use another name.")
        for end in (edge.source, edge.target):
            if end not in kinds.nodes:
                raise unknown("node type", end, list(kinds.nodes), edge.span)
        kinds.edges[edge.name] = edge
    for node in metamodel.nodes:
        _above(kinds, node, ())
    for node in metamodel.nodes:
        kinds.carried[node.name] = _carried(kinds, node)
    return kinds


def _above(kinds: Kinds, node: NodeType, descendants: tuple[str, ...]) -> frozenset[str]:
    if node.name in kinds.above:
        return kinds.above[node.name]
    if node.name in descendants:
        raise PatternError(
            f"Node type {node.name} inherits from itself.", span=node.span, hint="Remove one 'is' of the cycle."
        )
    if len(descendants) > MAX_DEPTH:
        raise LimitError(
            f"The type hierarchy is more than {MAX_DEPTH} levels deep.", span=node.span, hint="Remove some levels."
        )
    found = frozenset({node.name})
    for name in node.above:
        if name not in kinds.nodes:
            raise unknown("node type", name, list(kinds.nodes), node.span)
        found |= _above(kinds, kinds.nodes[name], (*descendants, node.name))
    kinds.above[node.name] = found
    return found


def _carried(kinds: Kinds, node: NodeType) -> dict[str, t.Type]:
    found: dict[str, t.Type] = {}
    for kind in (node.name, *sorted(kinds.above[node.name] - {node.name})):
        for attribute in kinds.nodes[kind].attributes:
            if attribute.type not in t.TYPE_WORDS and attribute.name.lower() in t.SPELLINGS:
                raise UnknownNameError(
                    f"Unknown type {attribute.type!r}.",
                    span=attribute.span,
                    hint=f"Write the name before the type: {attribute.type} {attribute.name}.",
                )
            type_ = t.parse_type(attribute.type, attribute.span)
            if found.setdefault(attribute.name, type_) != type_:
                raise PatternError(
                    f"Node type {node.name} has two attributes {attribute.name!r} of different types.",
                    span=attribute.span,
                    hint="Rename one of them.",
                )
    return found


def unknown(what: str, name: str | None, known: list[str], span: Place | None = None) -> UnknownNameError:
    """Return the error for an unknown name, with the nearest name or the available names."""
    close = nearest(str(name), known)
    hint = None if close else f"Available: {_listing(known)}"
    noun, of, owner = what.partition(" of ")
    return UnknownNameError(f"Unknown {noun} {name!r}{of}{owner}.", span=span, hint=hint, nearest=close)


def _listing(names: list[str]) -> str:
    shown = ", ".join(names[:8]) or "none"
    return f"{shown}, …" if len(names) > 8 else f"{shown}."
