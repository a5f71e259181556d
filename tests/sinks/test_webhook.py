"""The webhook sink: requests, retries after failures, and error messages."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pyspark.sql import SparkSession

import perseid.sinks.webhook as room
from perseid.errors import SettingsError
from perseid.sinks.contract import Batch
from perseid.sinks.failures import SinkError
from perseid.sinks.webhook import Webhook
from tests.sinks.match_changes import ADVERSARIAL_TEXTS, batch, match_changes, matches


class Receiver(ThreadingHTTPServer):
    """HTTP server that records posts; a test can set the next responses."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.got: list[tuple[str, dict[str, str], list[Any]]] = []
        self.answers: list[int] = []
        self.said = b""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"

    def ids(self) -> list[list[str]]:
        return [[row["match_id"] for row in rows] for _, _, rows in self.got]


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.command, dict(self.headers), json.loads(body)))
        answer = self.server.answers.pop(0) if self.server.answers else 204
        self.send_response(answer)
        if answer == 302:
            self.send_header("Location", self.server.url)
        self.send_header("Content-Length", str(len(self.server.said) if answer != 204 else 0))
        self.end_headers()
        if answer != 204:
            self.wfile.write(self.server.said)

    do_GET = do_POST  # noqa: N815 - the name that the server asks for

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setattr(room, "FIRST_WAIT_S", 0.01)
    with Receiver() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def test_retried_posts_have_the_same_keys(spark: SparkSession, receiver: Receiver) -> None:
    sink = Webhook.model_validate({"url": receiver.url, "rows": 2})
    rows = matches(spark, "c", "a", "b")
    sink.write(batch(rows.repartition(3)))
    assert receiver.ids() == [["a", "b"], ["c"]]
    keys = [headers["Idempotency-Key"] for _, headers, _ in receiver.got]
    assert [key.split("-")[:2] for key in keys] == [["job", "1/0/0"], ["job", "1/0/1"]]
    receiver.got.clear()
    receiver.answers = [204, 400]
    receiver.said = b"no \x1b[2J thanks"
    with pytest.raises(
        SinkError, match=r"Batch 0 was not written: the request failed after 1 attempt in .*400 no .* thanks"
    ) as caught:
        sink.write(batch(rows.repartition(2), attempt="b"))
    assert "\x1b" not in str(caught.value)
    assert [headers["Idempotency-Key"] for _, headers, _ in receiver.got] == keys
    receiver.got.clear()
    sink.write(batch(rows.limit(0), 1))
    assert receiver.got == []


def test_retries_are_limited(spark: SparkSession, receiver: Receiver) -> None:
    sink = Webhook.model_validate({"url": receiver.url, "retry_for": "1 second"})
    receiver.answers = [503, 429, 500, 599]
    sink.write(batch(matches(spark, "a")))
    assert receiver.ids() == [["a"]] * 5
    receiver.answers = [503] * 1000
    with pytest.raises(SinkError, match=r"after \d+ attempts in 1\.\d s: 503") as caught:
        sink.write(batch(matches(spark, "a")))
    assert not caught.value.transient, "the job does not repeat what was retried here"
    receiver.got.clear()
    receiver.answers = [302]
    with pytest.raises(SinkError, match=r"after 1 attempt in .* s: 302"):
        sink.write(batch(matches(spark, "a")))
    assert len(receiver.got) == 1, "nobody is followed to another address"


class RawServer:
    """Server on a free port that calls a function with each connection after reading the request."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self.serve, self.connections, self.closing = serve, 0, threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self._accept)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}/hook"

    def _accept(self) -> None:
        while not self.closing.is_set():
            connection, _ = self.listener.accept()
            with connection, contextlib.suppress(OSError):
                self.connections += 1
                connection.recv(65536)
                self.serve(connection)

    def drip(self, connection: socket.socket, head: bytes) -> None:
        connection.sendall(head)
        while not self.closing.wait(0.1):
            connection.sendall(b"x")

    def __enter__(self) -> RawServer:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        with contextlib.suppress(OSError), socket.create_connection(self.listener.getsockname()[:2]):
            pass
        self.thread.join()
        self.listener.close()


def post(sink: Webhook, stopping: threading.Event | None = None) -> None:
    """Post one row, without Spark."""
    there = Batch("job", 0, "a", None) if stopping is None else Batch("job", 0, "a", None, stopping)
    sink._post(str(sink.url), {}, b"[{}]", [], there)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"HTTP/1.1 20", "no response within 0.5 s"),
        (b"HTTP/1.1 200 OK\r\nX-Long: ", "no response within 0.5 s"),
        (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 1000\r\n\r\n", "400"),
    ],
    ids=["status", "headers", "body"],
)
def test_timeout_bounds_an_attempt_with_a_dripping_response(head: bytes, said: str) -> None:
    with RawServer(lambda connection: server.drip(connection, head)) as server:
        sink = Webhook.model_validate({"url": server.url, "timeout": "0.5 seconds", "retry_for": "0 seconds"})
        begun = time.monotonic()
        with pytest.raises(SinkError, match=f"after 1 attempt in .* s: {said}"):
            post(sink)
        assert 0.4 < time.monotonic() - begun < 3


def test_connection_that_is_reset_within_an_error_response_is_that_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression test: the thread of the request raised ConnectionResetError."""
    raised: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)

    def serve(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 1000\r\n\r\nx")
        time.sleep(0.2)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with RawServer(serve) as server:
        sink = Webhook.model_validate({"url": server.url, "retry_for": "0 seconds"})
        with pytest.raises(SinkError, match=r"after 1 attempt in .* s: 400"):
            post(sink)
    assert raised == []


def test_failing_server_is_retried_until_it_responds_by_default() -> None:
    def serve(connection: socket.socket) -> None:
        ready = time.monotonic() - begun > 2
        if server.connections % 2 or ready:  # every second time it only closes the connection
            status = b"204 No Content" if ready else b"503 Service Unavailable"
            connection.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")

    begun = time.monotonic()
    with RawServer(serve) as server:
        post(Webhook.model_validate({"url": server.url}))
        assert 2 < time.monotonic() - begun < 8
        assert 4 <= server.connections <= 7, "the waits double"


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_is_honored(form: str) -> None:
    def serve(connection: socket.socket) -> None:
        times.append(time.monotonic())
        if len(times) > 1:
            connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
            return
        after = "2" if form == "seconds" else format_datetime(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=3), True)
        connection.sendall(
            f"HTTP/1.1 429 Too Many Requests\r\nRetry-After: {after}\r\nContent-Length: 0\r\n\r\n".encode()
        )

    times: list[float] = []
    with RawServer(serve) as server:
        post(Webhook.model_validate({"url": server.url}))
    assert 1.9 < times[1] - times[0] < 4


def test_retry_after_is_honored_up_to_the_remaining_time() -> None:
    busy = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n"
    with RawServer(lambda connection: connection.sendall(busy)) as server:
        begun = time.monotonic()
        with pytest.raises(SinkError, match="after 2 attempts in 1"):
            post(Webhook.model_validate({"url": server.url, "retry_for": "1 second"}))
        assert 1 <= time.monotonic() - begun < 4
        assert server.connections == 2


@pytest.mark.parametrize("value", ["", "soon", "-5", "9" * 400, "Mon, 99 Foo 2026 00:00:00 GMT", "1.5"])
def test_unreadable_retry_after_is_ignored(value: str) -> None:
    assert room._retry_after_s(value) is None


@pytest.mark.parametrize("status", [400, 401, 404, 410, 422])
def test_client_error_is_not_retried(status: int) -> None:
    refused = f"HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n".encode()
    with RawServer(lambda connection: connection.sendall(refused)) as server:
        with pytest.raises(SinkError, match=f"after 1 attempt in .* s: {status}"):
            post(Webhook.model_validate({"url": server.url}))
        assert server.connections == 1


def test_stop_interrupts_the_wait_between_attempts() -> None:
    busy = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 300\r\nContent-Length: 0\r\n\r\n"
    stopping = threading.Event()
    with RawServer(lambda connection: connection.sendall(busy)) as server:
        timer = threading.Timer(0.5, stopping.set)
        timer.start()
        begun = time.monotonic()
        with pytest.raises(SinkError, match="the job was stopped after 1 attempt") as caught:
            post(Webhook.model_validate({"url": server.url}), stopping)
        timer.join()
    assert caught.value.interrupted
    assert time.monotonic() - begun < 5


def test_posted_values_are_unchanged(spark: SparkSession, receiver: Receiver) -> None:
    rows = match_changes(spark, *((str(n), "-", 3, text) for n, text in enumerate(ADVERSARIAL_TEXTS)))
    Webhook.model_validate({"url": receiver.url}).write(batch(rows))
    ((_, _, got),) = receiver.got
    assert [row["note"] for row in got] == ADVERSARIAL_TEXTS
    assert got[0]["evidence"] == [{"at": "2026-03-01T09:00:00.000000Z", "took": "INTERVAL '90' SECOND"}]
    assert (got[0]["odd"], got[0]["counts"], got[0]["op"], "nothing" in got[0]) == ("NaN", {"k": 1}, "-", False)


def test_messages_contain_no_secret(spark: SparkSession, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", f"{receiver.url}/T0K3N42?key=s3cret")
    monkeypatch.setenv("BEARER", "Bearer pa55")
    sink = Webhook.model_validate(
        {"url": {"env": "HOOK"}, "headers": {"Authorization": {"env": "BEARER"}}, "retry_for": "0 seconds"}
    )
    sink.prepare(spark, None, "j")
    receiver.answers = [403]
    receiver.said = b"Bearer pa55 may not post to /hook/T0K3N42 with key=s3cret; T0K3N42 and s3cret are known"
    with pytest.raises(SinkError) as caught:
        sink.write(batch(matches(spark, "a")))
    assert receiver.got[0][1]["Authorization"] == "Bearer pa55"
    for text in (str(caught.value), repr(sink), sink.describe(), repr(caught.value)):
        assert not any(secret in text for secret in ("pa55", "T0K3N42", "s3cret"))
    receiver.server_close()
    with pytest.raises(SinkError, match="a secret address: Batch 7") as caught:
        sink.model_copy(update={"timeout": "1 second"}).write(batch(matches(spark, "a"), 7))
    monkeypatch.setenv("HOOK", "ftp://s3cret")
    with pytest.raises(SettingsError, match="http:// or https://") as refused:
        sink.prepare(spark, None, "j")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"url": "file:///etc/passwd"}, "http:// or https://"),
        ({"url": "https://ann:pa55@host/"}, "Authorization as a secret"),
        ({"url": "https://host/", "headers": {"X-Api-Key": "pa55"}}, "must not be in the file"),
        ({"url": "https://host/", "headers": {"X": "pa55\r\nEvil: 1"}}, "invalid characters in the header 'X'"),
        ({"url": "https://host/", "headers": {"Content-Length": "1"}}, "set by the sink"),
        ({"url": "https://host/", "timeout": "2 days"}, "up to 10 minutes"),
        ({"url": "https://host/", "retry_for": "2 days"}, "to 24 hours"),
        ({"url": "https://host/", "retry_for": "forever"}, "Unexpected 'forever'"),
        ({"url": "https://host/", "tries": 3}, "use retry_for: 10 minutes"),
    ],
)
def test_invalid_webhook_options_are_rejected(words: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why) as caught:
        Webhook.model_validate(words)
    assert "pa55" not in str(caught.value)
