"""Answers posted to an address, as JSON."""

from __future__ import annotations

import hashlib
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar
from urllib.parse import quote, urlsplit

from pydantic import Field, field_validator

from perseid.declare import micros_of
from perseid.settings import Duration, Secret, SettingsError, revealed
from perseid.sinks.contract import Batch, Sink
from perseid.sinks.failures import SinkError, failing, without_literal_secrets, words
from perseid.sinks.rows import identity_of, json_of

AGAIN = (408, 425, 429, 500, 502, 503, 504)
"""Answers after which it is worth trying again."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
"""Seconds before the second try; they double up to the longest."""
LONGEST_TIMEOUT = 600
"""Seconds that a try may be given."""
HEARD = 500
"""Bytes of an answer that are read where it is told on."""
MIN_HIDDEN_CHARS = 6
"""Characters from which on a part of a secret address is cut out of messages by itself."""
_OURS = ("content-type", "content-length", "idempotency-key", "host")


class _NoDetour(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET, and headers would go to whoever is named."""

    def redirect_request(self, *_args: Any, **_named: Any) -> None:
        return None


class Webhook(Sink):
    """POSTs of JSON arrays of rows, one after the other, from the driver.

    Each has an ``Idempotency-Key``: job, batch, part, and a hash of the body, the same whenever the same rows are sent again.
    """

    guarantee: ClassVar[str] = (
        "At least once: what was not answered with 2xx is sent again, with the same Idempotency-Key. "
        "A receiver that keeps those keys has every answer once."
    )

    url: str | Secret
    """Where to post: http or https. Where the address is itself a secret: ``{env: NAME}`` or ``{file: PATH}``."""
    headers: dict[str, str | Secret] = Field(default_factory=dict)
    """More headers; those that are secrets, as ``Authorization``, as ``{env: NAME}`` or ``{file: PATH}``."""
    rows: int = Field(default=100, ge=1, le=10_000)
    """Rows of a post at most."""
    timeout: Duration = "10 seconds"
    """How long a try may take to connect, and then to be answered."""
    tries: int = Field(default=5, ge=1, le=20)
    """How often a post is tried before the batch fails; pauses between tries double, up to ten seconds."""

    @field_validator("url")
    @classmethod
    def _address(cls, url: str | Secret) -> str | Secret:
        if isinstance(url, str):
            _checked_address(url)
        return url

    @field_validator("timeout")
    @classmethod
    def _bounded(cls, timeout: str) -> str:
        if not 0 < (micros_of(timeout, "This") or 0) <= LONGEST_TIMEOUT * 1_000_000:
            raise ValueError("a try may take from a moment up to ten minutes")
        return timeout

    @field_validator("headers")
    @classmethod
    def _checked(cls, headers: dict[str, str | Secret]) -> dict[str, str | Secret]:
        for name, value in headers.items():
            if name.lower() in _OURS:
                raise ValueError(f"the header {name!r} is set by the sink")
            if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
                raise ValueError(f"{name!r} is no name of a header")
            if isinstance(value, str) and not _sendable(value):
                raise ValueError(f"the header {name!r} has characters that no header may have")
        return without_literal_secrets(headers)

    def told(self) -> str:
        if isinstance(self.url, Secret):
            return "webhook at a secret address"
        parts = urlsplit(self.url)
        return f"webhook {parts.scheme}://{parts.netloc}{parts.path}"

    def prepare(self, session: Any, schema: Any, job: str) -> None:
        self._open()

    def _open(self) -> tuple[str, dict[str, str], list[str]]:
        """The address, the headers, and what of both nobody is told."""
        url = self.url if isinstance(self.url, str) else self.url.reveal()
        try:
            _checked_address(url)
        except ValueError as error:
            raise SettingsError(f"{self.told()}: {error}.") from None
        headers = revealed(self.headers)
        for name, value in headers.items():
            if not _sendable(value):
                raise SettingsError(f"{self.told()}: the header {name!r} has characters that no header may have.")
        secrets = [headers[name] for name, value in self.headers.items() if isinstance(value, Secret)]
        if isinstance(self.url, Secret):
            parts = urlsplit(url)
            secrets += [url, parts.path if len(parts.path) > 1 else "", parts.query, parts.netloc]
            values = [one.rpartition("=")[2] for one in parts.query.split("&")]
            secrets += [one for one in (*parts.path.split("/"), *values) if len(one) >= MIN_HIDDEN_CHARS]
        elif urlsplit(url).query:
            secrets += [url, urlsplit(url).query]
        return url, headers, secrets

    def write(self, batch: Batch) -> None:
        url, headers, secrets = self._open()
        with failing(self.told(), batch, secrets):
            # Sorted: then the same rows are in the same part whenever the batch comes.
            named = batch.rows.selectExpr(f"{identity_of(batch.rows)} as name", f"{json_of(batch.rows)} as text")
            sent = named.sort("name", "text").toLocalIterator()
            for number, part in enumerate(_parts((row.text for row in sent), self.rows)):
                body = f"[{','.join(part)}]".encode()
                digest = hashlib.sha256(body).hexdigest()[:16]
                key = f"{quote(batch.job, safe='')}/{batch.number}/{number}-{digest}"
                self._post(url, {**headers, "Idempotency-Key": key}, body, secrets, batch)

    def _post(self, url: str, headers: dict[str, str], body: bytes, secrets: list[str], batch: Batch) -> None:
        opener = urllib.request.build_opener(_NoDetour)
        said, seconds = "", (micros_of(self.timeout, "timeout") or 0) / 1e6
        for number in range(self.tries):
            if number:
                time.sleep(min(FIRST_PAUSE * 2 ** (number - 1), LONGEST_PAUSE))
            whole = {**headers, "Content-Type": "application/json"}
            # Only http and https pass the check of the address.
            request = urllib.request.Request(url, body, whole, method="POST")  # noqa: S310
            try:
                with opener.open(request, timeout=seconds):
                    return
            except urllib.error.HTTPError as error:
                with error:
                    said = f"{error.code} {words(Exception(error.read(HEARD).decode(errors='replace')), secrets)}"
                if error.code not in AGAIN:
                    break
            except OSError as error:
                said = words(error, secrets)
        raise SinkError(
            f"{self.told()}: Batch {batch.number} was not written: after {number + 1} of {self.tries} tries the answer was: {said}",
            sink=self.told(),
            batch=batch.number,
        )


def _checked_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError("the url is no address") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("the url has to begin with http:// or https:// and name a host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a url with a user or a password is not taken; give the header Authorization as a secret")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("the url has characters that no address may have")


def _sendable(value: str) -> bool:
    return value.isprintable() and all(ord(c) < 256 for c in value)


def _parts(texts: Iterable[str], most: int) -> Iterator[list[str]]:
    part: list[str] = []
    for text in texts:
        part.append(text)
        if len(part) == most:
            yield part
            part = []
    if part:
        yield part
