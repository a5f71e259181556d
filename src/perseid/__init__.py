"""Perseid: complex event processing for Apache Spark, in Python.

>>> import perseid as ps
>>> late = ps.pattern('''
...     pattern late
...     match   Order o -> not Payment for 1 hour
...     partition by customer
...     return  o.total
... ''')
>>> late.match([
...     {"ts": "2026-01-01T10:00:00Z", "type": "Order", "customer": "ann", "total": 20},
...     {"ts": "2026-01-01T10:05:00Z", "type": "Order", "customer": "bob", "total": 30},
...     {"ts": "2026-01-01T10:30:00Z", "type": "Payment", "customer": "bob", "total": 30},
... ])
1 match
  late  customer=ann  [2026-01-01 10:00:00 → 2026-01-01 11:00:00]  o: Order@2026-01-01 10:00:00  total=20
"""

from __future__ import annotations

from functools import reduce
from importlib import import_module
from typing import TYPE_CHECKING

from perseid._version import __version__

if TYPE_CHECKING:
    from perseid import disorder, errors, graph, jobs, testing, types, uncertain, xml, xscl
    from perseid.api.patterns import (
        Pattern,
        PatternSet,
        counters,
        explode_evidence,
        inspect_state,
        load,
        pattern,
        patterns,
        progress,
    )
    from perseid.api.stream_options import StreamOptions
    from perseid.api.streams import documents, events
    from perseid.api.uncertain_events import uncertain_events
    from perseid.errors import PerseidError
    from perseid.semantics.types import schema
    from perseid.spark.doctor import examine

__all__ = [
    "Pattern",
    "PatternSet",
    "PerseidError",
    "StreamOptions",
    "__version__",
    "counters",
    "disorder",
    "documents",
    "errors",
    "events",
    "examine",
    "explode_evidence",
    "graph",
    "inspect_state",
    "jobs",
    "load",
    "pattern",
    "patterns",
    "progress",
    "schema",
    "testing",
    "types",
    "uncertain",
    "uncertain_events",
    "xml",
    "xscl",
]

_NAMESPACES = frozenset({"disorder", "errors", "graph", "jobs", "testing", "types", "uncertain", "xml", "xscl"})
_MODULES = {
    name: module
    for module, names in {
        "perseid.api.patterns": (
            "Pattern PatternSet counters explode_evidence inspect_state load pattern patterns progress"
        ),
        "perseid.api.stream_options": "StreamOptions",
        "perseid.api.streams": "documents events",
        "perseid.api.uncertain_events": "uncertain_events",
        "perseid.errors": "PerseidError",
        "perseid.semantics.types": "schema",
        "perseid.spark.doctor": "examine",
    }.items()
    for name in names.split()
}
"""Public names by the module that defines them: ``import perseid`` loads none of these modules."""


if not TYPE_CHECKING:  # type checkers take the imports above, and report deprecated names

    def __getattr__(name: str) -> object:
        """Import a public name on its first use; a deprecated name warns on each use."""
        if name in _NAMESPACES:
            return import_module(f"perseid.{name}")
        if name in _MODULES:
            value: object = getattr(import_module(_MODULES[name]), name)
            globals()[name] = value
            return value
        from perseid.deprecated import MOVED_NAMES, warn_deprecated

        if name in MOVED_NAMES:
            warn_deprecated(f"perseid.{name}", f"perseid.{MOVED_NAMES[name]}")
            return reduce(getattr, MOVED_NAMES[name].split("."), import_module("perseid"))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
