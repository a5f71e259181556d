"""POST matches to a web address, as JSON."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import http.client
import logging
import re
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, urlsplit

from pydantic import Field, field_validator, model_validator

from perseid.errors import SettingsError
from perseid.settings import Duration, RetryDuration, Secret, reject_removed_word, revealed, seconds_of
from perseid.sinks.contract import Batch, Sink
from perseid.sinks.failures import SinkError, error_summary, failing, without_literal_secrets
from perseid.sinks.rows import identity_of, json_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

log = logging.getLogger("perseid.sinks")

TRANSIENT_CLIENT_ERRORS = (408, 425, 429)
"""Status codes below 500 that are retried: request timeout, too early, too many requests."""
FIRST_WAIT_S, MAX_WAIT_S = 0.2, 30.0
"""Seconds before the first retry; they double up to the maximum."""
LONGEST_TIMEOUT = 600
"""Maximum seconds of the ``timeout`` setting."""
MAX_RESPONSE_BYTES = 500
"""Bytes of a response that are read for messages."""
MIN_HIDDEN_CHARS = 6
"""Minimum length of a part of a secret address that is redacted on its own."""
_OURS = ("content-type", "content-length", "idempotency-key", "host")


class _NoDetour(urllib.request.HTTPRedirectHandler):
    """Disable redirects: a redirected POST would become a GET, and headers would go to the new address."""

    def redirect_request(self, *_args: object, **_named: object) -> None:
        return None


class Webhook(Sink):
    """POSTs JSON arrays of rows sequentially, from the driver.

    Each has an ``Idempotency-Key``: job, batch, part, and a hash of the body, the same whenever the same rows are sent
    again.
    """

    guarantee: ClassVar[str] = (
        "At least once: a request without a 2xx response is sent again with the same Idempotency-Key. "
        "A receiver that deduplicates by this key has every match once."
    )

    url: str | Secret
    """The http or https address; an address that is itself a secret as ``{env: NAME}`` or ``{file: PATH}``."""
    headers: dict[str, str | Secret] = Field(default_factory=dict)
    """Further headers; secret ones, such as ``Authorization``, as ``{env: NAME}`` or ``{file: PATH}``."""
    rows: int = Field(default=100, ge=1, le=10_000)
    """Maximum number of rows per request."""
    timeout: Duration = "10 seconds"
    """The time limit of one request as a whole: connecting, sending and the response."""
    retry_for: RetryDuration = "10 minutes"
    """The time for which a request is retried after connection errors, timeouts, 408, 425, 429 or 5xx; 0: never."""

    @model_validator(mode="before")
    @classmethod
    def _reject_tries(cls, value: object) -> object:
        reject_removed_word(value, "tries", "retry_for: 10 minutes, the time for which a request is retried")
        return value

    @field_validator("url")
    @classmethod
    def _address(cls, url: str | Secret) -> str | Secret:
        if isinstance(url, str):
            _checked_address(url)
        return url

    @field_validator("timeout")
    @classmethod
    def _bounded(cls, timeout: str) -> str:
        if not 0 < seconds_of(timeout) <= LONGEST_TIMEOUT:
            raise ValueError("expected a timeout above 0 seconds and up to 10 minutes")
        return timeout

    @field_validator("headers")
    @classmethod
    def _checked(cls, headers: dict[str, str | Secret]) -> dict[str, str | Secret]:
        for name, value in headers.items():
            if name.lower() in _OURS:
                raise ValueError(f"the header {name!r} is set by the sink")
            if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
                raise ValueError(f"invalid header name {name!r}")
            if isinstance(value, str) and not _sendable(value):
                raise ValueError(f"invalid characters in the header {name!r}")
        return without_literal_secrets(headers)

    def describe(self) -> str:
        if isinstance(self.url, Secret):
            return "webhook at a secret address"
        parts = urlsplit(self.url)
        return f"webhook {parts.scheme}://{parts.netloc}{parts.path}"

    def prepare(self, session: SparkSession, schema: StructType, job: str) -> None:
        self._open()

    def _open(self) -> tuple[str, dict[str, str], list[str]]:
        """The address, the headers, and the secrets in both."""
        url = self.url if isinstance(self.url, str) else self.url.reveal()
        try:
            _checked_address(url)
        except ValueError as error:
            raise SettingsError(f"{self.describe()}: {error}.") from None
        headers = revealed(self.headers)
        for name, value in headers.items():
            if not _sendable(value):
                raise SettingsError(f"{self.describe()}: invalid characters in the header {name!r}.")
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
        with failing(self.describe(), batch, secrets):
            # Sorted, so that the same rows are in the same part on every retry.
            named = batch.rows.selectExpr(f"{identity_of(batch.rows)} as name", f"{json_of(batch.rows)} as text")
            sent = named.sort("name", "text").toLocalIterator()
            for number, part in enumerate(_parts((row.text for row in sent), self.rows)):
                body = f"[{','.join(part)}]".encode()
                digest = hashlib.sha256(body).hexdigest()[:16]
                key = f"{quote(batch.job, safe='')}/{batch.number}/{number}-{digest}"
                self._post(url, {**headers, "Idempotency-Key": key}, body, secrets, batch)

    def _post(self, url: str, headers: dict[str, str], body: bytes, secrets: list[str], batch: Batch) -> None:
        """Post until a 2xx response, a permanent failure or the end of ``retry_for``, when the last request is sent."""
        all_headers = {**headers, "Content-Type": "application/json"}
        started_s, number = time.monotonic(), 0
        while True:
            # Only http and https pass the check of the address.
            attempt = _Attempt(urllib.request.Request(url, body, all_headers, method="POST"), seconds_of(self.timeout))  # noqa: S310
            outcome = attempt.finish()
            if outcome is None:
                return
            number += 1
            reason = error_summary(Exception(outcome.message), secrets)
            passed = time.monotonic() - started_s
            seconds_left = seconds_of(self.retry_for) - passed
            if not outcome.transient or seconds_left <= 0:
                raise self._failed(f"the request failed after {_counted(number)} in {passed:.1f} s: {reason}", batch)
            wait = min(seconds_left, outcome.wait_s(number))
            log.warning(
                "%s: batch %d: attempt %d failed: %s; next in %.1f s",
                self.describe(),
                batch.number,
                number,
                reason,
                wait,
            )
            if batch.stopping.wait(wait):
                text = f"the job was stopped after {_counted(number)}; the last failure was: {reason}"
                raise self._failed(text, batch, interrupted=True)

    def _failed(self, reason: str, batch: Batch, interrupted: bool = False) -> SinkError:
        return SinkError(
            f"{self.describe()}: Batch {batch.number} was not written: {reason}",
            sink=self.describe(),
            batch=batch.number,
            interrupted=interrupted,
        )


def _counted(attempts: int) -> str:
    return "1 attempt" if attempts == 1 else f"{attempts} attempts"


@dataclass(frozen=True)
class _FailedAttempt:
    """A request without a 2xx response."""

    message: str
    transient: bool
    retry_after_s: float | None = None

    def wait_s(self, number: int) -> float:
        """Seconds until the next request, after ``number`` failed ones: from the server, or doubling."""
        if self.retry_after_s is not None:
            return max(FIRST_WAIT_S, self.retry_after_s)
        return min(FIRST_WAIT_S * 2.0 ** min(number - 1, 30), MAX_WAIT_S)


class _Attempt(threading.Thread):
    """One request in its own thread: a socket timeout restarts with every byte, and name resolution has none."""

    def __init__(self, request: urllib.request.Request, timeout_s: float) -> None:
        super().__init__(name="perseid-webhook", daemon=True)
        self._request, self._timeout_s = request, timeout_s
        self._guard = threading.Lock()
        self._socket: socket.socket | None = None
        self._abandoned = False
        self._failure: _FailedAttempt | None = None
        self._has_result = False

    def finish(self) -> _FailedAttempt | None:
        """Run the request for no longer than its timeout; None after a 2xx response."""
        self.start()
        self.join(self._timeout_s)
        with self._guard:
            self._abandoned = self.is_alive()
            if self._abandoned and self._socket is not None:
                with contextlib.suppress(OSError):  # the server has closed it
                    # Not the method of a TLS socket, which must not be called from another thread.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
            if not self._has_result:
                return _FailedAttempt(f"no response within {self._timeout_s:g} s", transient=True)
            return self._failure

    def run(self) -> None:
        opener = urllib.request.build_opener(_NoDetour, _TimedHTTP(self), _TimedHTTPS(self))
        try:
            with opener.open(self._request, timeout=self._timeout_s):
                self._set_result(None)
        except urllib.error.HTTPError as error:
            with error:
                failure = _failure_of(error.code, error.headers)
                self._set_result(failure)  # a result even if reading its text takes too long
                with contextlib.suppress(OSError, http.client.HTTPException):  # the server has closed it
                    text = error.read(MAX_RESPONSE_BYTES).decode(errors="replace")
                    self._set_result(replace(failure, message=f"{error.code} {text}"))
        except Exception as error:  # of sockets, of TLS, of HTTP; the thread must not lose it
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            permanent = isinstance(reason, ssl.SSLCertVerificationError)
            is_network_error = isinstance(error, OSError | http.client.HTTPException)
            if not self._has_result:
                self._set_result(
                    _FailedAttempt(str(error) or type(error).__name__, transient=is_network_error and not permanent)
                )

    def _set_result(self, failure: _FailedAttempt | None) -> None:
        with self._guard:
            if not self._abandoned:
                self._failure, self._has_result = failure, True

    def connected(self, connection_socket: socket.socket) -> None:
        """Store the socket before anything is sent; raise if the time is over, so that nothing is sent."""
        with self._guard:
            if self._abandoned:
                raise TimeoutError
            self._socket = connection_socket


class _TimedConnection(http.client.HTTPConnection):
    attempt: _Attempt

    def connect(self) -> None:
        super().connect()
        self.attempt.connected(self.sock)


class _TimedSecureConnection(http.client.HTTPSConnection):
    attempt: _Attempt

    def connect(self) -> None:
        super().connect()
        self.attempt.connected(self.sock)


class _TimedHTTP(urllib.request.HTTPHandler):
    def __init__(self, attempt: _Attempt) -> None:
        super().__init__()
        self._attempt = attempt

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._connection, request)

    def _connection(self, host: str, **named: Any) -> _TimedConnection:
        connection = _TimedConnection(host, **named)
        connection.attempt = self._attempt
        return connection


class _TimedHTTPS(urllib.request.HTTPSHandler):
    def __init__(self, attempt: _Attempt) -> None:
        super().__init__()
        self._attempt = attempt

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._connection, request)

    def _connection(self, host: str, **named: Any) -> _TimedSecureConnection:
        connection = _TimedSecureConnection(host, **named)
        connection.attempt = self._attempt
        return connection


def _failure_of(status: int, headers: Message) -> _FailedAttempt:
    transient = status in TRANSIENT_CLIENT_ERRORS or status >= 500
    return _FailedAttempt(str(status), transient, _retry_after_s(headers.get("Retry-After")))


def _retry_after_s(value: str | None) -> float | None:
    """Seconds from a ``Retry-After`` header, as a number or as a date; None if it has neither."""
    if value is None:
        return None
    if re.fullmatch(r"[0-9]{1,9}", value.strip()):
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, OverflowError):
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return max(0.0, (aware - dt.datetime.now(dt.UTC)).total_seconds())


def _checked_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError("invalid url") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("expected a url with http:// or https:// and a host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("unsupported user or password in the url; use the header Authorization as a secret")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("invalid characters in the url")


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
