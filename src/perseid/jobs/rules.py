"""The rules of a job: patterns, values for their parameters, and the tables they ask; read again whenever they change.

Rules come as texts by name, each text its own fate: one that is wrong is refused and the one before it goes on, while
the others change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

import perseid as ps
from perseid.errors import PatternError, PerseidError
from perseid.semantics.resolve import semantic_hash

VERSION_DIGITS = 12
T = TypeVar("T")


@dataclass(frozen=True)
class Texts:
    """Everything that rules are made from, as it was read; two that are equal are the same rules."""

    patterns: Mapping[str, str]
    """Texts of patterns, by the name of what they were read from."""
    relations: Mapping[str, str] = field(default_factory=dict)
    """Texts of the tables that patterns ask, by name: JSON lines or CSV."""
    quarantined: Mapping[str, str] = field(default_factory=dict)
    """Patterns that do not run as long as they have this version."""

    @property
    def digest(self) -> str:
        return hashlib.blake2b(json.dumps(self.kept(), sort_keys=True).encode(), digest_size=16).hexdigest()

    def kept(self) -> dict[str, dict[str, str]]:
        """As the ledger keeps it."""
        kept = {"patterns": dict(self.patterns), "relations": dict(self.relations)}
        return kept | ({"quarantined": dict(self.quarantined)} if self.quarantined else {})

    @staticmethod
    def of(kept: Mapping[str, Mapping[str, str]]) -> Texts:
        """From the ledger."""
        return Texts(dict(kept["patterns"]), dict(kept["relations"]), dict(kept.get("quarantined", {})))

    def with_quarantined(self, versions: Mapping[str, str]) -> Texts:
        """These texts, with other quarantined versions."""
        return replace(self, quarantined=dict(versions))

    def with_part(self, other: Texts, part: tuple[str, str]) -> Texts:
        """These, with one part as the others have it, or without it where they have none."""
        made = {kind: dict(getattr(self, kind)) for kind in ("patterns", "relations")}
        kind, name = part
        theirs = getattr(other, kind)
        if name in theirs:
            made[kind][name] = theirs[name]
        else:
            made[kind].pop(name, None)
        return Texts(**made, quarantined={**self.quarantined, **other.quarantined})

    def differing(self, other: Texts) -> list[tuple[str, str]]:
        """The parts in which they differ, in order."""
        found = []
        for kind in ("patterns", "relations"):
            mine, theirs = getattr(self, kind), getattr(other, kind)
            found += [(kind, name) for name in sorted({*mine, *theirs}) if mine.get(name) != theirs.get(name)]
        return found


class TextSource(Protocol):
    """Where rules are read from."""

    def read(self) -> Texts:
        """All there is now; an error where it cannot be read."""


@dataclass(frozen=True)
class Refusal:
    """A change of rules that was not taken."""

    name: str
    error: str

    def __str__(self) -> str:
        return f"{self.name}: {self.error}"


class Watch(Generic[T]):
    """Rules that may change: what holds, and what was refused.

    ``accepts`` makes of texts whatever is run, and raises what is wrong with them.
    """

    def __init__(self, source: TextSource, accepts: Callable[[Texts], T]) -> None:
        self._source, self._accepts = source, accepts
        self._last_seen: Texts | None = None
        self._weighed: Texts | None = None
        self.refused: dict[str, Refusal] = {}
        """By name, what is refused at the moment."""

    def first(self) -> tuple[Texts, T]:
        """The rules to begin with: all of them have to be right."""
        texts = self._source.read()
        self._last_seen = self._weighed = texts
        return texts, self._accepts(texts)

    def look(self, current: Texts) -> tuple[Texts, T] | None:
        """Other rules, and what is run of them, where there are any and they have come to rest."""
        try:
            seen = self._source.read()
        except PerseidError as error:
            self.refused = {"rules": Refusal("rules", str(error))}
            return None
        resting, self._last_seen = seen == self._last_seen, seen
        if not resting or seen == self._weighed:
            return None
        self._weighed = seen
        found = self._best(current, seen)
        return None if found is None or found[0] == current else found

    def refuse(self, texts: Texts, before: Texts, error: PerseidError) -> None:
        """Say of a change that was taken that it turned out to be wrong."""
        names = [name for _, name in before.differing(texts)] or ["rules"]
        self.refused |= {name: Refusal(name, str(error)) for name in names}

    def _best(self, current: Texts, seen: Texts) -> tuple[Texts, T] | None:
        """All that changed, or where something in it is wrong, as much of it as is right."""
        self.refused = {}
        try:
            return seen, self._accepts(seen)
        except PerseidError as error:
            whole = error
        parts = current.differing(seen)
        found: tuple[Texts, T] | None = None
        best = current
        for part in parts:
            tried = best.with_part(seen, part)
            try:
                made = self._accepts(tried)
            except PerseidError as error:
                self.refused[part[1]] = Refusal(part[1], str(error))
            else:
                best, found = tried, (tried, made)
        if not self.refused:  # each by itself is right, and the whole is not
            self.refused["rules"] = Refusal("rules", str(whole))
        return found


def read_patterns(texts: Mapping[str, str]) -> ps.PatternSet:
    """The patterns of texts as one set; an error says in which of them it is."""
    parts = []
    for name, text in sorted(texts.items()):
        try:
            parts.append(ps.patterns(text))
        except PatternError as error:
            error.locate(text).add_note(f"In {name}.")
            raise
    # One text keeps the place of what is wrong in it; several are one set.
    return parts[0] if len(parts) == 1 else ps.patterns(parts)


def keys_of(patterns: ps.PatternSet, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of answers that say of which key they are."""
    named = (".".join(path.parts) for one in patterns.tree.patterns for path in one.partition_by)
    return tuple(dict.fromkeys(name for name in named if name in columns))


def versions_of(patterns: ps.PatternSet) -> dict[str, str]:
    """What tells versions of a pattern apart, by its name: the same as long as it means the same."""
    return {one.name: semantic_hash(one)[:VERSION_DIGITS] for one in patterns.tree.patterns}
