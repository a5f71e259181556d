"""Keywords of public functions: errors for unknown ones, and the deprecated ones with their replacements."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from perseid.api.stream_options import StreamOptions
from perseid.deprecated import OPTION_NAMES, RENAMED_PARAMETERS, warn_deprecated
from perseid.errors import EventDataError, nearest

P = ParamSpec("P")
R = TypeVar("R")

COMMON_PARAMETERS = (
    "time", "id", "order_by", "strictly_later", "key", "dedupe", "order", "disorder", "lateness", "max_ahead", "options",
)  # fmt: skip
"""Parameters that documents and events have in common."""
DOCUMENT_PARAMETERS = ("body", "path", "namespaces", "trusted", "format")
"""Parameters of documents that events do not have."""
_COMMON_MISTAKES = {"partition_by": "key", "strategy": "disorder", "timestamp": "time"}
"""Common wrong names of parameters, with the right ones."""
_DECLARES_STREAM = {"events", "documents", "uncertain_events", "model", "frames"}
"""Functions that declare a stream: a hint lists their own parameters."""
_STREAM_FUNCTIONS = {
    "perseid.api.models": "graph.model",
    "perseid.api.subscription_table": "documents",
    "perseid.api.subscriptions": "documents",
    "perseid.api.trees": "documents",
    "perseid.api.uncertain": "uncertain_events",
}
"""The declaration of the streams that the functions of a module take; for all others it is ``events``."""
_NOT_DECLARED = {
    "graph.model": {"id", "dedupe", "order", "disorder", "strictly_later"},
    "uncertain_events": {"id", "order_by", "dedupe", "order", "disorder", "strictly_later"},
}
"""Common parameters that a declaration does not have."""
_OTHER_NAMES = {
    "uncertain_events": {"partition_by": "key", "type": "event_type"},
    "model": {"type": "kind", "id": "element"},
}
"""Names of parameters of other functions, with the names that a function has for them."""


@dataclass(frozen=True)
class Collected:
    """Deprecated keywords that are fields of one object now."""

    names: tuple[str, ...]
    new: str
    """The expression of the object, for the warning."""
    build: Callable[[Mapping[str, Any]], object]


OPTIONS = Collected(OPTION_NAMES, "ps.StreamOptions", lambda found: StreamOptions(**found))


def check_keywords(run: Callable[P, R]) -> Callable[P, R]:
    """Raise an error for an unknown keyword, with the nearest parameter or the function that takes it.

    Deprecated keywords are replaced by the new ones, with a warning.
    """
    return check_keywords_with({"options": OPTIONS})(run)


def check_keywords_with(collected: Mapping[str, Collected]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """:func:`check_keywords`, with deprecated keywords that one parameter replaces together."""

    def decorate(run: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(run).parameters
        available = [name for name, one in signature.items() if one.kind is one.KEYWORD_ONLY]
        stream_function = _STREAM_FUNCTIONS.get(run.__module__, "events")
        renamed = {old: new for old, new in RENAMED_PARAMETERS.get(run.__name__, {}).items() if new in signature}
        groups = {parameter: one for parameter, one in collected.items() if parameter in signature}

        @wraps(run)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            if not kwargs.keys() <= signature.keys():
                _replace_deprecated(run.__name__, kwargs, renamed, groups)
                for name in kwargs:
                    if name not in signature:
                        raise _unknown_parameter(run.__name__, name, available, stream_function)
            return run(*args, **kwargs)

        return checked

    return decorate


def _replace_deprecated(
    function: str, arguments: dict[str, object], renamed: Mapping[str, str], groups: Mapping[str, Collected]
) -> None:
    """Replace deprecated keywords in place."""
    for old, new in renamed.items():
        if old in arguments:
            warn_deprecated(f"{old}= of {function}", f"{new}=")
            _require_absent(function, arguments, old, new)
            arguments[new] = arguments.pop(old)
    for parameter, group in groups.items():
        deprecated = {name: arguments.pop(name) for name in group.names if name in arguments}
        for name in deprecated:
            warn_deprecated(f"{name}= of {function}", f"{parameter}={group.new}(…)")
            _require_absent(function, arguments, name, parameter)
        if deprecated:
            arguments[parameter] = group.build(deprecated)


def _require_absent(function: str, arguments: Mapping[str, object], old: str, new: str) -> None:
    if new in arguments:
        raise EventDataError(
            f"{function}: {old}= and {new}= are given, and {old}= is an old name.", hint=f"Use {new}=."
        )


def _unknown_parameter(function: str, name: str, available: list[str], stream_function: str) -> EventDataError:
    intended = _COMMON_MISTAKES.get(name, name)
    if intended not in available:
        intended = _OTHER_NAMES.get(function, {}).get(name, intended)
    declares = function in _DECLARES_STREAM
    declared = _OTHER_NAMES.get(stream_function.rpartition(".")[2], {}).get(intended, intended)
    if name == "watermark":
        hint = "Set the watermark on the DataFrame, df.withWatermark('ts', '10 minutes'), or with lateness=."
    elif intended in DOCUMENT_PARAMETERS and intended not in available:
        hint = f"It is a parameter of the stream: ps.documents(data, {intended}=…)."
    elif (
        intended in (*COMMON_PARAMETERS, "type")
        and intended not in available
        and not declares
        and declared not in _NOT_DECLARED.get(stream_function, ())
    ):
        hint = f"It is a parameter of the stream: ps.{stream_function}(data, {declared}=…)."
    else:
        hint = f"Available: {', '.join(available)}." if available else "It has no keyword parameters."
        if not declares:
            hint += f" Columns are named on the stream: ps.{stream_function}(data, time=…)."
    # A parameter of other declarations is no misspelling of one of these.
    similar = None if declares and name in COMMON_PARAMETERS else nearest(name, available)
    return EventDataError(
        f"{function} has no parameter {name!r}.", hint=hint, nearest=intended if intended in available else similar
    )
