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

from importlib import import_module
from typing import TYPE_CHECKING

from perseid._version import __version__

if TYPE_CHECKING:
    from perseid.api.models import emitted, frames, model, react, repairs
    from perseid.api.patterns import (
        Pattern,
        PatternSet,
        counters,
        explode_evidence,
        fold,
        fold_into,
        inspect,
        load,
        pattern,
        patterns,
        progress,
    )
    from perseid.api.streams import beliefs, documents, events
    from perseid.api.subscription_table import SubscriptionTable, subscription_table
    from perseid.api.subscriptions import SubscriptionSet, subscriptions
    from perseid.api.trees import TreePatterns, trees
    from perseid.api.uncertain import above, alerts, expected, learn, spans
    from perseid.engines.disorder.strategy import Adaptive, Aggressive, Assemble, Buffer, Conservative, Early
    from perseid.engines.models.frame_stream import Frames
    from perseid.engines.models.metamodel import Metamodel, metamodel
    from perseid.engines.models.quick_fixes import QuickFix, QuickFixes
    from perseid.engines.models.reactions import Reaction
    from perseid.engines.models.stream import Models
    from perseid.engines.sequence.results import Matches
    from perseid.engines.sequence.stream import Events
    from perseid.engines.trees.stream import Documents
    from perseid.engines.uncertain.results import Answers
    from perseid.engines.uncertain.stream import Beliefs
    from perseid.errors import (
        BindingError,
        DocumentError,
        EventDataError,
        InputWarning,
        LimitError,
        MeaningError,
        MissingExtraError,
        NotYetError,
        PatternError,
        PatternSyntaxError,
        PerseidError,
        PerseidWarning,
        ScopeError,
        SearchBudgetError,
        StateError,
        TypeMismatchError,
        UnknownNameError,
        UnsupportedError,
        VersionMismatchError,
    )
    from perseid.semantics.detection import Match
    from perseid.semantics.hidden import HiddenMarkov, floor_plan, hidden_markov
    from perseid.semantics.types import EventSchema, schema

__all__ = [
    "Adaptive",
    "Aggressive",
    "Answers",
    "Assemble",
    "Beliefs",
    "BindingError",
    "Buffer",
    "Conservative",
    "DocumentError",
    "Documents",
    "Early",
    "EventDataError",
    "EventSchema",
    "Events",
    "Frames",
    "HiddenMarkov",
    "InputWarning",
    "LimitError",
    "Match",
    "Matches",
    "MeaningError",
    "Metamodel",
    "MissingExtraError",
    "Models",
    "NotYetError",
    "Pattern",
    "PatternError",
    "PatternSet",
    "PatternSyntaxError",
    "PerseidError",
    "PerseidWarning",
    "QuickFix",
    "QuickFixes",
    "Reaction",
    "ScopeError",
    "SearchBudgetError",
    "StateError",
    "SubscriptionSet",
    "SubscriptionTable",
    "TreePatterns",
    "TypeMismatchError",
    "UnknownNameError",
    "UnsupportedError",
    "VersionMismatchError",
    "__version__",
    "above",
    "alerts",
    "beliefs",
    "counters",
    "documents",
    "emitted",
    "events",
    "expected",
    "explode_evidence",
    "floor_plan",
    "fold",
    "fold_into",
    "frames",
    "hidden_markov",
    "inspect",
    "learn",
    "load",
    "metamodel",
    "model",
    "pattern",
    "patterns",
    "progress",
    "react",
    "repairs",
    "schema",
    "spans",
    "subscription_table",
    "subscriptions",
    "trees",
]

_NAMES = {
    "perseid.api.models": "emitted frames model react repairs",
    "perseid.api.patterns": "Pattern PatternSet counters explode_evidence fold fold_into inspect load pattern patterns progress",
    "perseid.api.streams": "beliefs documents events",
    "perseid.api.subscription_table": "SubscriptionTable subscription_table",
    "perseid.api.subscriptions": "SubscriptionSet subscriptions",
    "perseid.api.trees": "TreePatterns trees",
    "perseid.api.uncertain": "above alerts expected learn spans",
    "perseid.engines.disorder.strategy": "Adaptive Aggressive Assemble Buffer Conservative Early",
    "perseid.engines.models.frame_stream": "Frames",
    "perseid.engines.models.metamodel": "Metamodel metamodel",
    "perseid.engines.models.quick_fixes": "QuickFix QuickFixes",
    "perseid.engines.models.reactions": "Reaction",
    "perseid.engines.models.stream": "Models",
    "perseid.engines.sequence.results": "Matches",
    "perseid.engines.sequence.stream": "Events",
    "perseid.engines.trees.stream": "Documents",
    "perseid.engines.uncertain.results": "Answers",
    "perseid.engines.uncertain.stream": "Beliefs",
    "perseid.errors": "BindingError DocumentError EventDataError InputWarning LimitError MeaningError MissingExtraError NotYetError PatternError PatternSyntaxError PerseidError PerseidWarning ScopeError SearchBudgetError StateError TypeMismatchError UnknownNameError UnsupportedError VersionMismatchError",
    "perseid.semantics.detection": "Match",
    "perseid.semantics.hidden": "HiddenMarkov floor_plan hidden_markov",
    "perseid.semantics.types": "EventSchema schema",
}
"""Public names by the module that defines them: ``import perseid`` loads none of these modules."""

_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Import a public name on its first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
