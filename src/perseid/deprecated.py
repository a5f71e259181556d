"""Names of 0.0 with their replacements: they work throughout 0.1, with a ``DeprecationWarning``.

The changelog has these tables for readers, and a test compares both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from perseid.errors import DeprecatedNameWarning, warn

F = TypeVar("F", bound=Callable[..., object])

MOVED_NAMES = {
    "Adaptive": "disorder.Adaptive",
    "Aggressive": "disorder.Aggressive",
    "Answers": "uncertain.UncertainMatches",
    "Assemble": "disorder.Assemble",
    "Beliefs": "uncertain.UncertainEvents",
    "BindingError": "errors.BindingError",
    "Buffer": "disorder.Buffer",
    "Conservative": "disorder.Conservative",
    "DocumentError": "errors.DocumentError",
    "Documents": "xml.Documents",
    "Early": "disorder.Early",
    "EventDataError": "errors.EventDataError",
    "EventSchema": "types.EventSchema",
    "Events": "types.Events",
    "Frames": "graph.Frames",
    "HiddenMarkov": "uncertain.HiddenMarkov",
    "InputWarning": "errors.InputWarning",
    "LimitError": "errors.LimitError",
    "Match": "types.Match",
    "Matches": "types.Matches",
    "MeaningError": "errors.SemanticError",
    "Metamodel": "graph.Metamodel",
    "MissingExtraError": "errors.MissingExtraError",
    "Models": "graph.Models",
    "NotYetError": "errors.NotYetError",
    "PatternError": "errors.PatternError",
    "PatternSyntaxError": "errors.PatternSyntaxError",
    "PerseidWarning": "errors.PerseidWarning",
    "QuickFix": "graph.QuickFix",
    "QuickFixes": "graph.QuickFixes",
    "Reaction": "graph.Reaction",
    "ScopeError": "errors.ScopeError",
    "SearchBudgetError": "errors.SearchBudgetError",
    "StateError": "errors.StateError",
    "SubscriptionSet": "xscl.SubscriptionSet",
    "SubscriptionTable": "xscl.SubscriptionTable",
    "TreePatterns": "xml.TreePatterns",
    "TypeMismatchError": "errors.TypeMismatchError",
    "UnknownNameError": "errors.UnknownNameError",
    "UnsupportedError": "errors.UnsupportedError",
    "VersionMismatchError": "errors.VersionMismatchError",
    "above": "uncertain.above",
    "alerts": "uncertain.alerts",
    "beliefs": "uncertain_events",
    "emitted": "graph.select_emitted",
    "expected": "uncertain.expected",
    "floor_plan": "uncertain.floor_plan",
    "fold": "disorder.current_matches",
    "fold_into": "disorder.merge_into",
    "frames": "graph.frames",
    "hidden_markov": "uncertain.hidden_markov",
    "inspect": "inspect_state",
    "learn": "uncertain.learn",
    "metamodel": "graph.metamodel",
    "model": "graph.model",
    "react": "graph.react",
    "repairs": "graph.find_repairs",
    "spans": "uncertain.spans",
    "subscription_table": "xscl.subscription_table",
    "subscriptions": "xscl.subscriptions",
    "trees": "xml.tree_patterns",
}
"""New names below ``perseid``, by the old ones."""

MOVED_METHODS = {
    "detect": "match",
    "refused": "rejected",
    "standing": "current",
    "beside": "combine",
}
"""New names of methods and attributes, by the old ones."""

OPTION_NAMES = ("idle", "shards", "max_state", "max_steps", "max_matches")
"""Parameters of functions that declare streams; they are fields of ``StreamOptions`` now."""
SAMPLING_NAMES = ("epsilon", "delta", "seed", "method")
"""Parameters of ``beliefs``; they are fields of ``Sampling`` now."""

RENAMED_PARAMETERS = {
    "uncertain_events": {
        "event": "event_type",
        "of": "key",
        "about": "value",
        "p": "probability",
        "given": "previous",
        "correlations": "correlated",
        "patience": "reading_timeout",
    },
    "match": {"tell": "emit", "shares": "query_partitions"},
    "model": {"beside": "events"},
    "react": {"rounds": "max_iterations", "changes": "max_changes"},
    "find_repairs": {"depth": "max_depth", "cost": "max_cost", "states": "max_states", "most": "max_fixes"},
    "learn": {"rounds": "max_iterations"},
}
"""New names of parameters by the old ones, by function."""


RENAMED_KINDS = {"beliefs": "uncertain"}
"""New values of ``kind:`` in job files, by the old ones."""
RENAMED_JOB_KEYS = {
    "uncertain": {
        "event": "event_type",
        "of": "key",
        "about": "value",
        "p": "probability",
        "given": "previous",
        "correlations": "correlated",
        "patience": "reading_timeout",
        "tell": "emit",
        "beside": "events",
    },
    "model": {"beside": "events"},
    "subscriptions": {"shares": "query_partitions"},
}
"""New names of keys below ``stream:`` in job files by the old ones, by the kind of the stream."""
RENAMED_STRATEGY_KEYS = {"conservative": {"promise": "punctuation"}}
"""New names of keys below ``disorder:`` in job files by the old ones, by the strategy."""


def warn_deprecated(old: str, new: str) -> None:
    """Warn at the line that called Perseid that a name is deprecated."""
    warn(f"{old} is deprecated and will be removed in 0.2. Use {new}.", DeprecatedNameWarning)


def deprecated_method(old: str, run: F) -> F:
    """Return a method under its old name; each call warns with the name of the new one."""

    def alias(*args: object, **kwargs: object) -> object:
        warn_deprecated(old, run.__name__)
        return run(*args, **kwargs)

    alias.__doc__ = f"The deprecated name of :meth:`{run.__name__}`."
    return cast("F", alias)
