"""Secrets that this process has read, and their redaction in texts."""

from __future__ import annotations

import json
import threading
import traceback
from collections.abc import Collection
from urllib.parse import quote, quote_plus

HIDDEN = "***"
MIN_REDACTED_CHARS = 4
"""Minimum length of a secret that is redacted; replacing a shorter one would make texts unreadable."""
_lock = threading.Lock()
_forms: set[str] = set()
"""All encodings in which a text may contain a secret that was read."""


def register_secret(value: str) -> None:
    """Make :func:`redact` replace the value from now on."""
    lines = [line.strip() for line in value.splitlines()] if "\n" in value else []
    with _lock:
        for one in (value, value.strip(), *lines):
            if len(one) >= MIN_REDACTED_CHARS:
                _forms.update((one, quote(one), quote(one, safe=""), quote_plus(one), repr(one)[1:-1]))
                _forms.update(json.dumps(one, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False))


def redact(text: str, more: Collection[str] = ()) -> str:
    """The text with ``***`` in place of secrets that were read, and of ``more`` values."""
    with _lock:
        forms = _forms.union(filter(None, more))
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, HIDDEN)
    return text


def holds_secret(text: str) -> bool:
    """True if the text contains a secret that was read."""
    return redact(text) != text


def safe_cause(error: BaseException) -> BaseException | None:
    """The error as the cause of another one, or None if a trace of it would show a secret."""
    return None if holds_secret("".join(traceback.format_exception(error))) else error
