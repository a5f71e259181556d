"""Documents as their meaning sees them: elements with attributes, text and children, in document order.

Comments and processing instructions mean nothing, and text next to text is one text. Nothing here reads XML: whoever
has a document in another form makes one of these from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

Name: TypeAlias = tuple[str, str]
"""The URI of a namespace, empty for none, and a local name."""


@dataclass(frozen=True, eq=False)
class Element:
    """One element; two that say the same are two."""

    name: Name
    attributes: Mapping[Name, str] = field(default_factory=dict)
    content: tuple[Element | str, ...] = ()

    @cached_property
    def children(self) -> tuple[Element, ...]:
        return tuple(part for part in self.content if isinstance(part, Element))

    @cached_property
    def text(self) -> str:
        """All text in it, however deep, in document order: XPath's string value."""
        texts: list[str] = []
        waiting: list[Element | str] = [self]
        while waiting:
            part = waiting.pop()
            if isinstance(part, str):
                texts.append(part)
            else:
                waiting.extend(reversed(part.content))
        return "".join(texts)

    def walk(self) -> Iterator[Element]:
        """The element and all below it, in document order; without recursion."""
        waiting = [self]
        while waiting:
            one = waiting.pop()
            yield one
            waiting.extend(reversed(one.children))


@dataclass(frozen=True)
class Attribute:
    """One attribute of an element."""

    owner: Element
    name: Name

    @property
    def text(self) -> str:
        return self.owner.attributes[self.name]


Found: TypeAlias = Element | Attribute
ATTRIBUTE_BITS = 14
"""So many bits of a number are the attribute's."""


def node_numbers(root: Element) -> dict[Found, int]:
    """The number of every node: that of its element in document order, from 1, and of the attribute in it."""
    found: dict[Found, int] = {}
    for number, element in enumerate(root.walk(), 1):
        found[element] = number << ATTRIBUTE_BITS
        for place, name in enumerate(element.attributes, 1):
            found[Attribute(element, name)] = (number << ATTRIBUTE_BITS) + place
    return found
