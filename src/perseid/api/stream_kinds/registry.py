"""All kinds of streams, one line each: for declarations in Python and for job files."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from perseid.api.arguments import declared_kind
from perseid.api.stream_kinds.contract import StreamKind

STREAM_KINDS = {
    "events": "perseid.api.stream_kinds.events:EventStreamKind",
    "documents": "perseid.api.stream_kinds.documents:DocumentStreamKind",
    "subscriptions": "perseid.api.stream_kinds.subscriptions:SubscriptionStreamKind",
    "uncertain": "perseid.api.stream_kinds.uncertain:UncertainStreamKind",
    "model": "perseid.api.stream_kinds.models:ModelStreamKind",
}
"""Classes of kinds, imported on first use, by the name in declarations and job files; the first is the default.

A kind of another package adds itself: ``STREAM_KINDS["name"] = "package.module:Class"``.
"""


def kind_of(stream: object) -> StreamKind:
    """The kind of a declared stream; bare rows are events."""
    return stream_kind(declared_kind(stream) or "events")


def stream_kind(name: str) -> StreamKind:
    """The kind with this name."""
    kind: StreamKind = import_class(STREAM_KINDS[name])()
    return kind


def import_class(path: str) -> Any:
    """Import a class by its path, ``package.module:Class``."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
