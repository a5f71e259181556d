"""Detect literal secrets in a job file, by the name of their key or by the form of the value."""

from __future__ import annotations

import re
from itertools import pairwise
from urllib.parse import SplitResult, unquote, urlsplit

REFERENCE = "use {env: NAME} or {file: PATH}"
NAMED = f"a secret must not be in the file; {REFERENCE}"
_SECRET = re.compile(
    r"passw|passphrase|secret|token|credential|jaas|authorization|cookie|signature|(api|access|private|account)[._-]?key",
    re.IGNORECASE,
)
_NO_SECRET = re.compile(
    r"(url|uri|endpoint|location|path|file|dir|enabled|class|type|provider|algorithm|column|ms)$", re.IGNORECASE
)
_MEASURE = frozenset(
    [
        "max",
        "min",
        "num",
        "count",
        "size",
        "length",
        "limit",
        "ttl",
        "timeout",
        "interval",
        "lifetime",
        "expiry",
        "expires",
        "expiration",
        "seconds",
        "minutes",
        "hours",
        "days",
        "ms",
        "port",
        "version",
        "retries",
        "attempts",
        "renewal",
        "ratio",
        "window",
        "period",
        "tokens",
        "bytes",
        "rows",
    ]
)
"""Parts of a key that show that its number is a measure: ``max.tokens``, ``token.lifetime.seconds``."""
_PLAIN = re.compile(r"(?i)true|false|")
_NUMBER = re.compile(r"[+-]?[0-9][0-9_.]*")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PASSWORD_IN_ADDRESS = re.compile(r"://[^/\s@:]*:[^/\s@]+@")
_HEADER = re.compile(r"\s*(?:authorization\s*:\s*)?(?:bearer|basic|token|apikey|digest)\s+\S{6,}\s*", re.IGNORECASE)
_SETTING = re.compile(
    r"""(?:^|[?&;,\s])(?:password|passwd|pwd|accountkey|sharedaccesskey|sharedaccesssignature|client_secret)\s*=\s*["']?[^\s"'&;{$]""",
    re.IGNORECASE,
)
_SIGNATURE = re.compile(r"(?:^|[?&])(?:sig|signature|x-amz-signature|x-goog-signature)=[^&\s]{6,}", re.IGNORECASE)
_QUERY_WORDS = frozenset(
    [
        "token",
        "secret",
        "password",
        "passwd",
        "pwd",
        "apikey",
        "sig",
        "signature",
        "credential",
        "auth",
        "authorization",
    ]
)
_WEB_ADDRESS = re.compile(r"\bhttps?://[^\s'\"<>]+", re.IGNORECASE)
_TOKEN_PATHS = (
    re.compile(r"^hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/.+/\w{8,}"),
    re.compile(r"^(?:\w+\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d+/.{8,}"),
    re.compile(r"^\S*\.?office\.com/webhook"),
    re.compile(r"^api\.telegram\.org/bot\d+:"),
    re.compile(r"^hooks\.zapier\.com/hooks/catch/\d+/\w+"),
)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
MIN_TOKEN_CHARS = 16
"""Minimum length in characters of mixed letters and digits that count as a token, in one part of a path."""


def is_secret_name(name: str) -> bool:
    """True for the key of a secret, as ``password`` or ``spark.hadoop.fs.s3a.secret.key``."""
    return _SECRET.search(name) is not None and _NO_SECRET.search(name) is None


def literal_secret(name: str, value: object) -> str | None:
    """The reason why a value counts as a secret, with the correction; None for others. Never contains the value."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return NAMED if is_secret_name(name) and not _is_measure(name) else None
    if not isinstance(value, str):
        return None
    number = _NUMBER.fullmatch(value) is not None
    if is_secret_name(name) and not _PLAIN.fullmatch(value) and not (number and _is_measure(name)):
        return NAMED
    return _in_value(value)


def _is_measure(name: str) -> bool:
    return any(word.lower() in _MEASURE for word in _WORD.findall(name))


def _in_value(value: str) -> str | None:
    if _PASSWORD_IN_ADDRESS.search(value):
        return (
            "an address with a password must not be in the file; remove user and password from it, "
            "and set them as {env: NAME} or {file: PATH}"
        )
    if _HEADER.fullmatch(value):
        return f"a header with a credential must not be in the file; {REFERENCE}"
    if _SIGNATURE.search(value):
        return f"a signature must not be in the file; {REFERENCE} for the whole value"
    if _SETTING.search(value):
        return f"a string with a password or a key must not be in the file; {REFERENCE} for the whole value"
    for address in _WEB_ADDRESS.findall(value):
        if (reason := _in_address(address)) is not None:
            return f"{reason} must not be in the file; {REFERENCE} for the whole address"
    return None


def _in_address(address: str) -> str | None:
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    for pair in re.split(r"[&;]", parts.query):
        name, _, value = pair.partition("=")
        if value and (_names_secret(name) or (_last_word(name) == "key" and _is_random(unquote(value)))):
            return "an address with a token in its query"
    return "an address with a token in its path" if _has_token_path(parts) else None


def _last_word(name: str) -> str:
    words = _WORD.findall(name)
    return words[-1].lower() if words else ""


def _names_secret(name: str) -> bool:
    words = [word.lower() for word in _WORD.findall(name)]
    joined = "".join(words)
    return any(word in _QUERY_WORDS for word in words) or joined.endswith(("apikey", "accesskey", "privatekey"))


def _has_token_path(parts: SplitResult) -> bool:
    place = f"{(parts.hostname or '').lower()}{parts.path}"
    return any(pattern.search(place) for pattern in _TOKEN_PATHS) or any(
        map(_is_random, unquote(parts.path).split("/"))
    )


def _is_random(part: str) -> bool:
    """True for a part of an address that looks random: a long run of mixed letters and digits, or mixed cases."""
    if _UUID.fullmatch(part):
        return False  # ordinary ids of resources have this form
    runs = re.findall(r"[A-Za-z0-9]+", part)
    longest = max(runs, key=len, default="")
    letters, digits = sum(map(str.isalpha, longest)), sum(map(str.isdigit, longest))
    turns = sum(a.isdigit() != b.isdigit() for a, b in pairwise(longest))
    mixed = sum(a.islower() and b.isupper() for a, b in pairwise(longest))
    return len(longest) >= MIN_TOKEN_CHARS and letters >= 3 and ((digits >= 3 and turns >= 3) or mixed >= 5)
