"""Webhooks: what a receiver gets, also where it fails, and what is told of that."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pyspark.sql import SparkSession

import perseid.sinks.webhook as room
from perseid.settings import SettingsError
from perseid.sinks.failures import SinkError
from perseid.sinks.webhook import Webhook
from tests.sinks.answers import HOSTILE, answers, batch, matches


class Receiver(ThreadingHTTPServer):
    """Takes posts; the next answers may be said beforehand."""

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
    monkeypatch.setattr(room, "FIRST_PAUSE", 0.01)
    with Receiver() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def test_posts_come_again_with_their_keys(spark: SparkSession, receiver: Receiver) -> None:
    sink = Webhook.model_validate({"url": receiver.url, "rows": 2})
    rows = matches(spark, "c", "a", "b")
    sink.write(batch(rows.repartition(3)))
    assert receiver.ids() == [["a", "b"], ["c"]]
    keys = [headers["Idempotency-Key"] for _, headers, _ in receiver.got]
    assert [key.split("-")[:2] for key in keys] == [["job", "1/0/0"], ["job", "1/0/1"]]
    receiver.got.clear()
    receiver.answers = [204, 400]
    receiver.said = b"no \x1b[2J thanks"
    with pytest.raises(SinkError, match=r"Batch 0 was not written: after 1 of 5 tries.*400 no .* thanks") as caught:
        sink.write(batch(rows.repartition(2), attempt="b"))
    assert "\x1b" not in str(caught.value)
    assert [headers["Idempotency-Key"] for _, headers, _ in receiver.got] == keys
    receiver.got.clear()
    sink.write(batch(rows.limit(0), 1))
    assert receiver.got == []


def test_it_tries_again_and_not_for_ever(spark: SparkSession, receiver: Receiver) -> None:
    sink = Webhook.model_validate({"url": receiver.url, "tries": 3})
    receiver.answers = [503, 429]
    sink.write(batch(matches(spark, "a")))
    assert receiver.ids() == [["a"]] * 3
    receiver.answers = [503, 503, 503]
    with pytest.raises(SinkError, match=r"after 3 of 3 tries the answer was: 503"):
        sink.write(batch(matches(spark, "a")))
    receiver.got.clear()
    receiver.answers = [302]
    with pytest.raises(SinkError, match="after 1 of 3 tries the answer was: 302"):
        sink.write(batch(matches(spark, "a")))
    assert len(receiver.got) == 1, "nobody is followed to another address"


def test_values_arrive_as_they_are(spark: SparkSession, receiver: Receiver) -> None:
    rows = answers(spark, *((str(n), "-", 3, text) for n, text in enumerate(HOSTILE)))
    Webhook.model_validate({"url": receiver.url}).write(batch(rows))
    ((_, _, got),) = receiver.got
    assert [row["note"] for row in got] == HOSTILE
    assert got[0]["evidence"] == [{"at": "2026-03-01T09:00:00.000000Z", "took": "INTERVAL '90' SECOND"}]
    assert (got[0]["odd"], got[0]["counts"], got[0]["op"], "nothing" in got[0]) == ("NaN", {"k": 1}, "-", False)


def test_no_secret_is_told(spark: SparkSession, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", f"{receiver.url}/T0K3N42?key=s3cret")
    monkeypatch.setenv("BEARER", "Bearer pa55")
    sink = Webhook.model_validate({"url": {"env": "HOOK"}, "headers": {"Authorization": {"env": "BEARER"}}, "tries": 1})
    sink.prepare(spark, None, "j")
    receiver.answers = [403]
    receiver.said = b"Bearer pa55 may not post to /hook/T0K3N42 with key=s3cret; T0K3N42 and s3cret are known"
    with pytest.raises(SinkError) as caught:
        sink.write(batch(matches(spark, "a")))
    assert receiver.got[0][1]["Authorization"] == "Bearer pa55"
    for text in (str(caught.value), repr(sink), sink.told(), repr(caught.value)):
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
        ({"url": "https://host/", "headers": {"X-Api-Key": "pa55"}}, "does not stand in the file"),
        ({"url": "https://host/", "headers": {"X": "pa55\r\nEvil: 1"}}, "no header may have"),
        ({"url": "https://host/", "headers": {"Content-Length": "1"}}, "set by the sink"),
        ({"url": "https://host/", "timeout": "2 days"}, "up to ten minutes"),
    ],
)
def test_words_that_cannot_be_are_refused(words: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why) as caught:
        Webhook.model_validate(words)
    assert "pa55" not in str(caught.value)
