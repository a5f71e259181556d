"""Streams of documents in job files with many subscriptions; in Python, subscriptions take any stream of documents."""

from __future__ import annotations

from typing import ClassVar

from perseid.api.stream_kinds.documents import DocumentStreamKind


class SubscriptionStreamKind(DocumentStreamKind):
    """A stream of documents with many subscriptions."""

    name = "subscriptions"
    job_settings: ClassVar[str | None] = "perseid.jobs.stream_kinds.subscriptions:SubscriptionStream"
