"""Document model: elements with attributes, text and children, in document order.

Comments and processing instructions are dropped, and adjacent text is merged. This module does not parse XML; callers
convert from other representations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

Name: TypeAlias = tuple[str, str]
"""Namespace URI, empty for none, and local name."""


@dataclass(frozen=True, eq=False)
class Element:
    """One element, compared by identity."""

    name: Name
    attributes: Mapping[Name, str] = field(default_factory=dict)
    content: tuple[Element | str, ...] = ()

    @cached_property
    def children(self) -> tuple[Element, ...]:
        return tuple(part for part in self.content if isinstance(part, Element))

    @cached_property
    def text(self) -> str:
        """All descendant text in document order: XPath's string value."""
        texts: list[str] = []
        stack: list[Element | str] = [self]
        while stack:
            part = stack.pop()
            if isinstance(part, str):
                texts.append(part)
            else:
                stack.extend(reversed(part.content))
        return "".join(texts)

    def walk(self) -> Iterator[Element]:
        """Yield the element and all its descendants in document order, without recursion."""
        stack = [self]
        while stack:
            one = stack.pop()
            yield one
            stack.extend(reversed(one.children))


@dataclass(frozen=True)
class XmlAttribute:
    """One attribute of an element."""

    owner: Element
    name: Name

    @property
    def text(self) -> str:
        return self.owner.attributes[self.name]


Found: TypeAlias = Element | XmlAttribute
ATTRIBUTE_BITS = 14
"""Low bits of a node number that hold the attribute index."""


def node_numbers(root: Element) -> dict[Found, int]:
    """Number every node: the element's index in document order from 1, and the index of the attribute in it."""
    found: dict[Found, int] = {}
    for number, element in enumerate(root.walk(), 1):
        found[element] = number << ATTRIBUTE_BITS
        for place, name in enumerate(element.attributes, 1):
            found[XmlAttribute(element, name)] = (number << ATTRIBUTE_BITS) + place
    return found
