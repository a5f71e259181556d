"""Split subscription texts into the query, the construction of its output, and the name of the result stream.

Subscriptions share queries by text, so SELECT and PUBLISH are split off first. Many have the same parts, and each part
is parsed once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from perseid.errors import PatternError
from perseid.lang.parser import parse_pattern
from perseid.lang.subscription_patterns import subscription_of
from perseid.lang.subscriptions import Subscription, print_subscription
from perseid.lang.xscl import cut, parse_subscription
from perseid.lang.xscl_shapes import shaped

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
    """Name of the result stream."""

    @property
    def constructs(self) -> bool:
        """True if the subscription constructs a result: it has SELECT or PUBLISH."""
        return self.select is not None or self.publish is not None


class Cutter:
    """Splits texts."""

    def __init__(self) -> None:
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
        return Parts(source, select, publish)
