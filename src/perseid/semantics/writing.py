"""Serialize the output of SELECT; the result is well-formed XML for any nodes.

Namespaces are written as default declarations, and prefixes are dropped. Comments and processing instructions are
dropped too, as they are not part of the document model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from perseid.errors import UnsupportedError
from perseid.lang.subscriptions import Construction
from perseid.lang.templates import Piece, Slot, TemplateElement
from perseid.semantics.documents import Element, Found, Name, XmlAttribute
from perseid.semantics.trees import XML

BLOCKS = ("left block", "right block")
"""Names of the nodes at the ends of the two blocks' paths; no variable can have such a name."""
DEFAULT = TemplateElement(("", "result"), (), tuple(map(Slot, BLOCKS)))
"""Default output without SELECT: a new root with the nodes of both blocks (Hong et al. 2007, Section 2)."""
LONGEST = 1 << 26
"""Maximum characters of a result: nested elements are copied separately."""

_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_VALUE = str.maketrans({"&": "&amp;", "<": "&lt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"})

_Tag: TypeAlias = tuple[Name, Sequence[tuple[Name, str]], Sequence["Element | TemplateElement | Piece"]]


def result_of(select: Construction | None, nodes: Mapping[str, Sequence[Found]]) -> str:
    """Serialize one result, given the nodes of every variable in document order."""
    parts: list[str] = []
    size = 0
    for part in _written(DEFAULT if select is None else select.template.root, nodes):
        size += len(part)
        if size > LONGEST:
            raise UnsupportedError(
                f"The result of SELECT for one pair has more than {LONGEST >> 20} million characters.",
                hint="Select smaller nodes, or nodes that are not nested.",
            )
        parts.append(part)
    return "".join(parts)


def _written(root: TemplateElement, nodes: Mapping[str, Sequence[Found]]) -> Iterator[str]:
    """Yield the output in pieces, without recursion, as documents may be deep."""
    stack: list[tuple[Element | TemplateElement | Piece, str] | str] = [(root, "")]
    while stack:
        entry = stack.pop()
        if isinstance(entry, str):
            yield entry
            continue
        part, default = entry
        match part:
            case str():
                yield part.translate(_TEXT)
            case Slot():
                found = nodes.get(part.variable, ())
                elements = [one for one in found if isinstance(one, Element)]
                yield " ".join(one.text for one in found if isinstance(one, XmlAttribute)).translate(_TEXT)
                stack.extend((one, default) for one in reversed(elements))
            case Element() | TemplateElement():
                name, attributes, content = _parts_of(part, nodes)
                inside = default if name[0] == XML else name[0]
                tag = f"xml:{name[1]}" if name[0] == XML else name[1]
                yield f"<{tag}{_declared(name, default)}{_attributes(attributes)}" + (">" if content else "/>")
                if content:
                    stack.append(f"</{tag}>")
                    stack.extend((one, inside) for one in reversed(content))


def _parts_of(part: Element | TemplateElement, nodes: Mapping[str, Sequence[Found]]) -> _Tag:
    if isinstance(part, Element):
        return part.name, list(part.attributes.items()), part.content
    return part.name, [(name, _value(pieces, nodes)) for name, pieces in part.attributes], part.content


def _value(pieces: Sequence[Piece], nodes: Mapping[str, Sequence[Found]]) -> str:
    """Return an attribute value, with the texts of several nodes joined by spaces."""
    return "".join(
        one if isinstance(one, str) else " ".join(node.text for node in nodes.get(one.variable, ())) for one in pieces
    )


def _declared(name: Name, default: str) -> str:
    return "" if name[0] in (default, XML) else f' xmlns="{name[0].translate(_VALUE)}"'


def _attributes(attributes: Sequence[tuple[Name, str]]) -> str:
    """Serialize attributes; a namespace needs a prefix here, which the element declares."""
    spaces = list(dict.fromkeys(uri for (uri, _), _ in attributes if uri not in ("", XML)))
    prefixes = {"": "", XML: "xml:"} | {uri: f"n{number}:" for number, uri in enumerate(spaces, 1)}
    declared = "".join(f' xmlns:n{number}="{uri.translate(_VALUE)}"' for number, uri in enumerate(spaces, 1))
    return declared + "".join(
        f' {prefixes[uri]}{local}="{text.translate(_VALUE)}"' for (uri, local), text in attributes
    )
