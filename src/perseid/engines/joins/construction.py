"""Construction of a subscription's result from a pair of documents, given their bodies and the numbers of matched nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from xml.parsers import expat

from perseid.engines.joins.graph import TemplateRow
from perseid.engines.joins.program import Constructions, forms_of
from perseid.engines.joins.selection import built
from perseid.engines.joins.subscription_groups import NormalForm, SubscriptionGroups
from perseid.engines.trees.judge import SEPARATOR, RejectedError, safe_parser
from perseid.errors import DocumentError
from perseid.lang.subscriptions import Construction, Subscription
from perseid.lang.tree_patterns import Constant
from perseid.lang.xscl_shapes import fill_marks
from perseid.semantics.documents import Element, Name


def constructed(
    subscription: Subscription,
    left: bytes | str,
    right: bytes | str,
    left_nodes: Sequence[int],
    right_nodes: Sequence[int],
    namespaces: Mapping[str, str] | Iterable[tuple[str, str]] = (),
) -> str:
    """Construct the XML result of a subscription from two documents; without SELECT, ``<result>`` with the matches.

    Nodes have the numbers of the engine's output, assigned to left and right by :func:`nodes_by_side`. The result depends
    only on the arguments; recently parsed documents are cached.
    """
    return built(
        subscription, element_of(left), element_of(right), (tuple(left_nodes), tuple(right_nodes)), dict(namespaces)
    )


class ConstructionIndex:
    """By owner: the subscription that constructs its results."""

    def __init__(self) -> None:
        self._arguments: dict[str, tuple[Construction | None, NormalForm, tuple[Constant, ...]]] = {}
        self._constructed: dict[tuple[Construction | None, int, tuple[Constant, ...]], Subscription] = {}
        """By SELECT, form and constants: equal subscriptions share one object, so their results are constructed once."""
        self._by_owner: dict[str, Subscription] = {}
        """By owner: its subscription, once it is needed."""

    def replace(self, owners: Iterable[str], groups: SubscriptionGroups[str], selects: Constructions[str]) -> None:
        """Remove owners, and add those of subscriptions that construct a result."""
        for owner in owners if self._arguments else ():
            self._arguments.pop(owner, None)
            self._by_owner.pop(owner, None)
        for owner, form, filling in forms_of(groups) if selects else ():
            if owner in selects:
                self._arguments[owner] = selects[owner], form, filling

    def subscription_of(self, owner: str) -> Subscription | None:
        """Return the subscription with the constants of an owner; None if it constructs no result."""
        if owner in self._by_owner:
            return self._by_owner[owner]
        arguments = self._arguments.get(owner)
        if arguments is None:
            return None
        select, form, filling = arguments
        key = select, id(form), filling
        if key not in self._constructed:
            self._constructed[key] = replace(fill_marks(form.subscription, filling), select=select)
        self._by_owner[owner] = self._constructed[key]
        return self._constructed[key]


def nodes_by_side(row: TemplateRow, nodes: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Split the nodes of a result row into those of the left and of the right document, in block order."""
    older_count = len(row.template.shown[0])
    older, newer = (
        tuple(side_nodes[index] for index in order)
        for side_nodes, order in zip((nodes[:older_count], nodes[older_count:]), row.order, strict=True)
    )
    return (newer, older) if row.swapped else (older, newer)


@lru_cache(maxsize=64)
def element_of(body: bytes | str) -> Element:
    """Parse a document into the element tree of the semantics; the encoding declaration of a string is ignored."""
    builder = _ElementBuilder()
    parser = safe_parser("utf-8" if isinstance(body, str) else None)
    parser.ordered_attributes = parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = builder.start, builder.end
    parser.CharacterDataHandler = builder.characters
    try:
        parser.Parse(body.encode() if isinstance(body, str) else body, True)
    except expat.ExpatError as error:
        message = expat.ErrorString(error.code)
        raise DocumentError(message[:1].upper() + message[1:], line=error.lineno, column=error.offset + 1) from None
    except (RejectedError, LookupError, ValueError) as error:  # the latter: an encoding unknown to Python
        raise DocumentError(str(error), line=parser.CurrentLineNumber, column=parser.CurrentColumnNumber + 1) from None
    return builder.roots[0]


class _ElementBuilder:
    """Builds elements from Expat events."""

    def __init__(self) -> None:
        self.roots: list[Element] = []
        self._open: list[tuple[Name, dict[Name, str], list[Element | str]]] = []

    def start(self, name: str, attributes: list[str]) -> None:
        pairs = zip(attributes[::2], attributes[1::2], strict=True)
        self._open.append((_name(name), {_name(one): text for one, text in pairs}, []))

    def characters(self, text: str) -> None:
        content = self._open[-1][2]
        if content and isinstance(content[-1], str):  # a comment separated them
            content[-1] += text
        else:
            content.append(text)

    def end(self, _: str) -> None:
        name, attributes, content = self._open.pop()
        element = Element(name, attributes, tuple(content))
        (self._open[-1][2] if self._open else self.roots).append(element)


def _name(text: str) -> Name:
    uri, _, local = text.rpartition(SEPARATOR)
    return uri, local
