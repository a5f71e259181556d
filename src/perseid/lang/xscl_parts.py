"""Split subscription texts into the query, the construction of its output, and the name of the result stream.

Subscriptions share queries by text, so SELECT and PUBLISH are split off first. Many have the same parts, and each part
is parsed once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from perseid.errors import PatternError
from perseid.lang.parser import parse_pattern
from perseid.lang.subscription_patterns import subscription_of
from perseid.lang.subscriptions import Construction, Subscription, print_subscription
from perseid.lang.tree_patterns import Constant
from perseid.lang.xscl import cut, parse_subscription
from perseid.lang.xscl_shapes import Shaped, shaped

_PATTERN = re.compile(r"(?:\s|--[^\n]*\n)*pattern\s+[^\W\d]", re.IGNORECASE)


def read_subscription(text: str) -> Subscription:
    """Parse a subscription, in XSCL or in the pattern language."""
    if not isinstance(text, str) or not _PATTERN.match(text):
        return parse_subscription(text)
    try:
        return subscription_of(parse_pattern(text))
    except PatternError as error:
        raise error.locate(text) from None


@dataclass(frozen=True, slots=True)
class Parts:
    """A subscription text, split into clauses."""

    source: str
    """Query text, without SELECT and PUBLISH."""
    select: str | None = None
    """XML template; None for the default output."""
    publish: str | None = None
    built: int | None = None
    """Construction number; None without SELECT and PUBLISH."""


class Cutter:
    """Splits texts and numbers constructions. Subscriptions that differ only in their windows share a number."""

    def __init__(self) -> None:
        self._texts: list[tuple[str, str | None]] = []
        self._read: dict[int, Subscription] = {}
        self._numbers: dict[tuple[str | None, str, tuple[Constant, ...]], int] = {}
        self._checked: set[tuple[str, str | None, str | None]] = set()

    def parts(self, text: str) -> Parts:
        """Split a text. A text with SELECT or PUBLISH is validated first, once per shape."""
        if isinstance(text, str) and _PATTERN.match(text):
            return Parts(print_subscription(read_subscription(text)))
        low = text.lower() if isinstance(text, str) else ""
        if "select" not in low and "publish" not in low:
            return Parts(text)
        select, source, publish = cut(text)
        if select is None and publish is None:
            return Parts(source)
        shape = shaped(source)
        key = (source if shape is None else shape.shape, select, publish)
        if key not in self._checked:
            parse_subscription(text)  # parse the whole text, so that error spans refer to it
            self._checked.add(key)
        return Parts(source, select, publish, self._number(source, select, shape))

    def number(self, source: str) -> int:
        """Return the number of the default construction of a query."""
        return self._number(source, None, shaped(source))

    def _number(self, source: str, select: str | None, shape: Shaped | None) -> int:
        key = (select, source, ()) if shape is None else (select, shape.shape, shape.constants)
        number = self._numbers.setdefault(key, len(self._texts))
        if number == len(self._texts):
            self._texts.append((source, select))
        return number

    def made(self, number: int) -> Subscription:
        """Return a subscription with this construction, parsed on first use because most are never needed."""
        if number not in self._read:
            source, select = self._texts[number]
            made = None if select is None else Construction(select)
            self._read[number] = replace(parse_subscription(source), select=made)
        return self._read[number]
