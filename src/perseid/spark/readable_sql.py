"""Make Spark's SQL and messages readable: constants as text, and columns under the caller's names."""

from __future__ import annotations

import re
from collections.abc import Mapping

_CONSTANT = re.compile(r"cast\(X'((?:[0-9a-f]{2})*)' as string\)", re.IGNORECASE)
"""A constant that is written as its bytes, in the SQL that is given to Spark and as Spark prints it."""


def readable_sql(text: str, names: Mapping[str, str] | None = None) -> str:
    """The text with constants as quoted text, and with the names of the caller in place of internal ones."""
    shown = _CONSTANT.sub(_decode, text)
    for internal, name in (names or {}).items():
        shown = shown.replace(f"`{internal}`", "`" + name.replace("`", "``") + "`")
    return shown


def _decode(found: re.Match[str]) -> str:
    try:
        value = bytes.fromhex(found[1]).decode()
    except UnicodeDecodeError:  # not written by us
        return found[0]
    return "'" + value.replace("'", "''") + "'"
