"""Rule texts of a job, their versions, and reloading them while the job runs.

Rules are read as named texts. A reload accepts each changed text on its own: an invalid text is rejected and its
previous version continues to run, while valid changes apply.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from perseid.api.patterns import PatternSet, patterns
from perseid.errors import PatternError, PerseidError
from perseid.semantics.resolve import semantic_hash

VERSION_DIGITS = 12
T = TypeVar("T")


@dataclass(frozen=True)
class RuleTexts:
    """Texts of all rules of a job at one time; equal texts are equal rules."""

    patterns: Mapping[str, str]
    """Pattern texts, by the file, table row or setting that they were read from."""
    relations: Mapping[str, str] = field(default_factory=dict)
    """Rows of relations as JSON, by name."""
    quarantined: Mapping[str, str] = field(default_factory=dict)
    """Quarantined version of each quarantined pattern; a pattern with this version does not run."""

    @property
    def digest(self) -> str:
        return hashlib.blake2b(json.dumps(self.to_stored(), sort_keys=True).encode(), digest_size=16).hexdigest()

    def to_stored(self) -> dict[str, dict[str, str]]:
        """Return the form that the batch log stores."""
        stored = {"patterns": dict(self.patterns), "relations": dict(self.relations)}
        return stored | ({"quarantined": dict(self.quarantined)} if self.quarantined else {})

    @staticmethod
    def from_stored(stored: Mapping[str, Mapping[str, str]]) -> RuleTexts:
        """Inverse of :meth:`to_stored`."""
        return RuleTexts(dict(stored["patterns"]), dict(stored["relations"]), dict(stored.get("quarantined", {})))

    def with_quarantined(self, versions: Mapping[str, str]) -> RuleTexts:
        """Return these texts with other quarantined versions."""
        return replace(self, quarantined=dict(versions))

    def with_part(self, other: RuleTexts, part: tuple[str, str]) -> RuleTexts:
        """Return these texts with one part replaced by that of ``other``, or removed if ``other`` has none."""
        parts = {kind: dict(getattr(self, kind)) for kind in ("patterns", "relations")}
        kind, name = part
        other_parts = getattr(other, kind)
        if name in other_parts:
            parts[kind][name] = other_parts[name]
        else:
            parts[kind].pop(name, None)
        return RuleTexts(**parts, quarantined={**self.quarantined, **other.quarantined})

    def differing(self, other: RuleTexts) -> list[tuple[str, str]]:
        """Kind and name of each part that differs, sorted within its kind."""
        differences = []
        for kind in ("patterns", "relations"):
            parts, other_parts = getattr(self, kind), getattr(other, kind)
            differences += [
                (kind, name) for name in sorted({*parts, *other_parts}) if parts.get(name) != other_parts.get(name)
            ]
        return differences


class TextSource(Protocol):
    """Reads the rule texts of a job."""

    def read(self) -> RuleTexts:
        """Read the current texts; raises a :class:`PerseidError` if one cannot be read."""


@dataclass(frozen=True)
class RejectedText:
    """A changed text that was not applied, with its error."""

    name: str
    error: str

    def __str__(self) -> str:
        return f"{self.name}: {self.error}"


class RuleWatcher(Generic[T]):
    """Polls the rule texts of a job and compiles valid changes.

    ``compile_rules`` compiles texts for the job and raises a :class:`PerseidError` for invalid texts.
    """

    def __init__(self, source: TextSource, compile_rules: Callable[[RuleTexts], T]) -> None:
        self._source, self._compile = source, compile_rules
        self._last_read: RuleTexts | None = None
        self._last_compiled: RuleTexts | None = None
        self.rejected: dict[str, RejectedText] = {}
        """Texts that are currently rejected, by name."""

    def load(self) -> tuple[RuleTexts, T]:
        """Read and compile the initial rules; raises if any text is invalid."""
        texts = self._source.read()
        self._last_read = self._last_compiled = texts
        return texts, self._compile(texts)

    def poll(self, current: RuleTexts) -> tuple[RuleTexts, T] | None:
        """Return changed rules once two consecutive reads are equal; None if there is no valid change."""
        try:
            texts = self._source.read()
        except PerseidError as error:
            self.rejected = {"rules": RejectedText("rules", str(error))}
            return None
        is_stable, self._last_read = texts == self._last_read, texts
        if not is_stable or texts == self._last_compiled:
            return None
        self._last_compiled = texts
        found = self._compile_valid(current, texts)
        return None if found is None or found[0] == current else found

    def reject(self, texts: RuleTexts, previous: RuleTexts, error: PerseidError) -> None:
        """Record that an applied change failed when it first ran."""
        names = [name for _, name in previous.differing(texts)] or ["rules"]
        self.rejected |= {name: RejectedText(name, str(error)) for name in names}

    def _compile_valid(self, current: RuleTexts, texts: RuleTexts) -> tuple[RuleTexts, T] | None:
        """Compile all changes; if that fails, add the changed parts one by one and reject the invalid ones."""
        self.rejected = {}
        try:
            return texts, self._compile(texts)
        except PerseidError as error:
            error_of_all = error
        found: tuple[RuleTexts, T] | None = None
        best = current
        for part in current.differing(texts):
            candidate = best.with_part(texts, part)
            try:
                compiled = self._compile(candidate)
            except PerseidError as error:
                self.rejected[part[1]] = RejectedText(part[1], str(error))
            else:
                best, found = candidate, (candidate, compiled)
        if not self.rejected:  # each part is valid on its own, and all of them together are not
            self.rejected["rules"] = RejectedText("rules", str(error_of_all))
        return found


def read_patterns(texts: Mapping[str, str]) -> PatternSet:
    """Parse texts into one set of patterns; an error names the text that it is in."""
    parts = []
    for name, text in sorted(texts.items()):
        try:
            parts.append(patterns(text))
        except PatternError as error:
            error.locate(text).add_note(f"In {name}.")
            raise
    # A set of one text can show the position of later errors in it; a set of several texts cannot.
    return parts[0] if len(parts) == 1 else patterns(parts)


def key_columns(rules: PatternSet, columns: Sequence[str]) -> tuple[str, ...]:
    """Output columns that hold the ``partition by`` keys of the patterns."""
    named = (".".join(path.parts) for one in rules.tree.patterns for path in one.partition_by)
    return tuple(dict.fromkeys(name for name in named if name in columns))


def versions_of(rules: PatternSet) -> dict[str, str]:
    """Version of each pattern by name: a hash that changes when the meaning of the pattern changes."""
    return {one.name: semantic_hash(one)[:VERSION_DIGITS] for one in rules.tree.patterns}
