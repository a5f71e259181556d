"""All errors that Perseid raises deliberately, in one hierarchy.

An error has the problem, its position, the available names, and a correction. Its text shows the line with a caret; the
same facts are attributes, for tools.
"""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import ClassVar, Protocol

__all__ = [
    "BindingError",
    "DeprecatedNameWarning",
    "DocumentError",
    "EventDataError",
    "InputWarning",
    "LimitError",
    "MissingExtraError",
    "NotYetError",
    "PatternError",
    "PatternSyntaxError",
    "PerseidError",
    "PerseidWarning",
    "ScopeError",
    "SearchBudgetError",
    "SemanticError",
    "SettingsError",
    "StateError",
    "TypeMismatchError",
    "UnknownNameError",
    "UnsupportedError",
    "VersionMismatchError",
]


class Place(Protocol):
    """A stretch of source text; lines and columns count from 1."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


class PerseidError(Exception):
    """The base class of all errors that Perseid raises deliberately."""

    code: ClassVar[str] = "error"
    """The code of the error, for ``perseid explain-error``."""

    def __init__(self, message: str, *, hint: str | None = None, nearest: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.nearest = nearest
        """The name that the caller probably meant."""

    def __str__(self) -> str:
        return "\n".join([self.message, *self._corrections()])

    def _corrections(self) -> list[str]:
        lines = [] if self.nearest is None else [f"  = Did you mean {self.nearest!r}?"]
        return lines if self.hint is None else [*lines, f"  = {self.hint}"]


class PatternError(PerseidError):
    """An error in a pattern; the text shows the position."""

    code = "pattern"

    def __init__(
        self,
        message: str,
        *,
        span: Place | None = None,
        hint: str | None = None,
        nearest: str | None = None,
        source: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, nearest=nearest)
        self.span = span
        self.source = source

    @property
    def line(self) -> int | None:
        return None if self.span is None else self.span.line

    @property
    def column(self) -> int | None:
        return None if self.span is None else self.span.column

    def locate(self, source: str) -> PatternError:
        """Attach the source text of the span, if none is attached yet."""
        if self.source is None:
            self.source = source
        return self

    def __str__(self) -> str:
        lines = [self.message]
        if self.span is not None:
            lines.append(f" --> line {self.span.line}, column {self.span.column}")
            lines.extend(self._excerpt())
        return "\n".join([*lines, *self._corrections()])

    def _excerpt(self) -> list[str]:
        if self.source is None or self.span is None:
            return []
        rows = self.source.split("\n")
        if not 1 <= self.span.line <= len(rows):
            return []
        row = rows[self.span.line - 1].rstrip("\r")
        first = self.span.column - 1
        width = max(1, min(self.span.end - self.span.start, max(1, len(row) - first)))
        # Of a very long line, show only a part around the caret.
        left = max(0, first - 60) if len(row) > 140 else 0
        shown = row[left : left + 140].replace("\t", " ")
        number = str(self.span.line)
        gutter = " " * len(number)
        dots = "…" if left else ""
        pad = " " * (first - left + len(dots))
        return [f"{gutter} |", f"{number} | {dots}{shown}", f"{gutter} | {pad}{'^' * min(width, 60)}"]


class PatternSyntaxError(PatternError):
    """The text is not a pattern."""

    code = "pattern-syntax"


class UnknownNameError(PatternError):
    """A name that neither the pattern nor its schema defines."""

    code = "unknown-name"


class ScopeError(PatternError):
    """A name that exists but cannot be used here."""

    code = "scope"


class TypeMismatchError(PatternError):
    """An operation that does not support the types of its values."""

    code = "type-mismatch"


class SemanticError(PatternError):
    """A syntactically valid pattern that can never match, or has no definite meaning."""

    code = "semantic"


class LimitError(PatternError):
    """Input that is larger or deeper than the limits that protect against adversarial input."""

    code = "limit"


_BUDGET_ADVICE = {
    "steps": (
        "Bound the pattern: a shorter 'within', a condition on each repeated step, an upper bound such as A{1,5}, or "
        "'after match skip past last'. If the search must be that large, raise max_steps of the stream: "
        "ps.StreamOptions(max_steps=…)."
    ),
    "matches": (
        "Bound the pattern: a shorter 'within', '->' in place of '->>', or 'after match skip past last'. If the pattern must "
        "return that many, raise max_matches of the stream: ps.StreamOptions(max_matches=…); count() only counts them."
    ),
    "bytes": ("Bound the pattern: a shorter 'within', an upper bound such as A{1,5}, or 'after match skip past last'."),
}


class SearchBudgetError(PerseidError):
    """The search of a pattern exceeded its budget for one key in one call."""

    code = "search-budget"

    def __init__(self, pattern: str, exceeded: str, limit: int, events: int) -> None:
        what = "bytes of working memory" if exceeded == "bytes" else exceeded
        super().__init__(
            f"Pattern {pattern} exceeded its search budget: more than {limit:,} {what} for one key with {events:,} "
            f"event{'' if events == 1 else 's'}.",
            hint=_BUDGET_ADVICE[exceeded],
        )
        self.pattern = pattern
        """The name of the pattern."""
        self.exceeded = exceeded
        """``"steps"``, ``"matches"`` or ``"bytes"``."""
        self.limit = limit
        self.events = events
        """Events of the key in this call."""

    def __reduce__(self) -> tuple[object, ...]:
        # An exception is pickled by its message alone, and executors send it to the driver.
        return SearchBudgetError, (self.pattern, self.exceeded, self.limit, self.events)


class UnsupportedError(PerseidError):
    """A valid pattern that this engine cannot run, with the reason."""

    code = "unsupported"


class SettingsError(PerseidError):
    """Invalid settings of a job."""

    code = "settings"


class NotYetError(UnsupportedError):
    """A step of a type that no engine runs."""

    code = "not-yet"


class BindingError(PerseidError):
    """Parameters, lists or relations that do not fit the declarations of the pattern."""

    code = "binding"


class EventDataError(PerseidError):
    """Events that cannot be read: a missing time, an unknown column, a wrong shape."""

    code = "event-data"


class DocumentError(PerseidError):
    """A malformed document; lines and columns count from 1."""

    code = "document"

    def __init__(self, message: str, *, line: int, column: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.line = line
        self.column = column

    def __str__(self) -> str:
        said = f"{self.message} (line {self.line}, column {self.column})"
        return said if self.hint is None else f"{said}\n  = {self.hint}"

    def __reduce__(self) -> tuple[object, ...]:
        # Executors send it to the driver, and an exception is pickled by its message alone.
        return _document_error, (self.message, self.line, self.column, self.hint)


class StalledMatcherError(DocumentError):
    """The tree matcher made no progress in a document: a bug. The document counts as malformed; the query continues."""

    code = "stalled-matcher"

    def __reduce__(self) -> tuple[object, ...]:
        return _stalled_error, (self.message, self.line, self.column)


def _stalled_error(message: str, line: int, column: int) -> StalledMatcherError:
    return StalledMatcherError(message, line=line, column=column)


def _document_error(message: str, line: int, column: int, hint: str | None) -> DocumentError:
    return DocumentError(message, line=line, column=column, hint=hint)


class VersionMismatchError(PerseidError):
    """Driver and executor run different versions."""

    code = "version-mismatch"


class StateError(PerseidError):
    """State from a checkpoint that cannot be resumed: damaged, of another layout, or of another query."""

    code = "state"


class MissingExtraError(PerseidError):
    """An optional dependency is not installed; the hint is the command that installs it."""

    code = "missing-extra"


class PerseidWarning(UserWarning):
    """A configuration that works poorly; the text names the setting to change."""


class DeprecatedNameWarning(PerseidWarning, DeprecationWarning):
    """A name that 0.2 removes; the text has the new one."""


class InputWarning(PerseidWarning):
    """A pattern has no match so far: no row of a type that it requires reached it, or every counted row is bad."""


_INTERNAL = ("_perseid_", "__perseid_")


def is_internal(name: str) -> bool:
    """True for a column that Perseid adds to the caller's; messages do not list it."""
    return name.lower().startswith(_INTERNAL)


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate most similar to ``name``; None if no candidate is similar."""
    pool = sorted({one for one in candidates if is_internal(name) or not is_internal(one)})
    by_lower = {c.lower(): c for c in pool}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def did_you_mean(name: str, candidates: Iterable[str], otherwise: str = "") -> str:
    """A suggestion to append to a sentence about an unknown name; ``otherwise`` if no candidate is similar."""
    near = nearest(name, candidates)
    return f" Did you mean {near!r}?" if near else otherwise


def missing_column(where: str, name: str, role: str, there: Sequence[str], say: str) -> EventDataError:
    """The error for a table or row without the column of a role; ``say`` is the way to name another column."""
    there = [one for one in there if not is_internal(one)]
    return EventDataError(
        f"Column {name!r} not found in {where[:1].lower()}{where[1:]}; it is configured as the {role}. "
        f"Available: {', '.join(there) or 'none'}.",
        hint=f"Use {say}.",
        nearest=nearest(name, there),
    )


def type_name(value: object) -> str:
    """The name of a value's type in messages: ``list``, ``pandas.DataFrame``."""
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.split('.')[0]}.{kind.__name__}"


def warn(message: str, category: type[PerseidWarning] = PerseidWarning) -> None:
    """Issue a warning at the line that called Perseid, regardless of the calls inside Perseid."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and f"{frame.f_globals.get('__name__', '')}.".startswith("perseid."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
