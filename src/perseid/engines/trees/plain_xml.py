"""Names and texts of other formats, converted to XML."""

from __future__ import annotations

import re
from functools import lru_cache
from xml.parsers import expat

_SPECIAL = re.compile("[&<>\r\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_WRITTEN = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
"""A literal carriage return would be read as the end of a line."""
_REPLACEMENT = "\ufffd"
_DOUBTFUL = re.compile(r"[^A-Za-z0-9_.-]")
_FIRST_CHARACTER = re.compile(r"[A-Za-z_]")
_SHORT = 100
"""Length up to which names are cached."""


def xml_text(text: str) -> str:
    """Escape a text as the content of an element; characters that XML does not allow become U+FFFD."""
    return _SPECIAL.sub(lambda found: _WRITTEN.get(found[0], _REPLACEMENT), text)


def xml_name(name: str) -> str:
    """Convert a name to that of an element: other characters become ``_``, and ``_`` precedes a wrong first one."""
    return _short_name(name) if len(name) <= _SHORT else _name(name)


def _name(name: str) -> str:
    cleaned = _DOUBTFUL.sub(lambda found: found[0] if _is_of_names(found[0]) else "_", name)
    is_name = bool(cleaned) and (
        _FIRST_CHARACTER.match(cleaned) is not None or (cleaned[0] >= "\x80" and _is_name(cleaned[0]))
    )
    return cleaned if is_name else f"_{cleaned}"


_short_name = lru_cache(maxsize=4096)(_name)


@lru_cache(maxsize=1 << 16)
def _is_of_names(sign: str) -> bool:
    """Return whether a character beyond ASCII may be in a name, according to expat, which validates documents."""
    return sign >= "\x80" and _is_name(f"_{sign}")


def _is_name(name: str) -> bool:
    try:
        expat.ParserCreate().Parse(f"<{name}/>".encode(), True)
    except (expat.ExpatError, UnicodeEncodeError):
        return False
    return True
