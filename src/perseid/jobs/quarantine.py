"""Patterns that a job does not run because their search exceeded its budget, stored in the checkpoint.

A pattern is quarantined under its version, so it returns when its text changes its meaning. It also returns when the
limits of the stream change.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from perseid.api.patterns import PatternSet
from perseid.errors import SettingsError, StateError
from perseid.jobs.folders import Folder
from perseid.jobs.rules import RuleTexts, TextSource, versions_of
from perseid.lang import ast

QUARANTINE_FILE = "quarantine.json"
_EXCEEDED = re.compile(r"SearchBudgetError: (Pattern (\S+) exceeded its search budget: .+)$", re.MULTILINE)


@dataclass(frozen=True)
class QuarantinedPattern:
    """A pattern, the version of it that exceeded its budget, and why."""

    pattern: str
    version: str
    reason: str
    at: str
    """When it was quarantined, in UTC."""
    limits: list[int]
    """The limits of the stream at that time."""


class Quarantine:
    """The quarantined patterns of a job."""

    def __init__(self, folder: Folder, limits: tuple[int, ...] = ()) -> None:
        self._folder, self._limits = folder, list(limits)
        self._patterns = {one.pattern: one for one in self._read() if one.limits == self._limits}

    def _read(self) -> Iterator[QuarantinedPattern]:
        body = self._folder.read(QUARANTINE_FILE)
        if body is None:
            return
        try:
            for one in json.loads(body)["patterns"]:
                yield QuarantinedPattern(**one)
        except (ValueError, TypeError, KeyError):
            raise StateError(
                f"The checkpoint file {QUARANTINE_FILE} is damaged.",
                hint=f"Remove {self._folder.where}/{QUARANTINE_FILE}; its patterns then run again.",
            ) from None

    def versions(self) -> dict[str, str]:
        """The quarantined version of each pattern."""
        return {name: one.version for name, one in sorted(self._patterns.items())}

    def reasons(self, excluded: Mapping[str, str]) -> dict[str, str]:
        """Reason for each excluded pattern; ``excluded`` has the quarantined pattern that caused it."""
        by_pattern = {}
        for name, cause in excluded.items():
            reason = self._patterns[cause].reason if cause in self._patterns else "It exceeded its search budget."
            by_pattern[name] = (
                reason if name == cause else f"It takes matches of {cause}, which is quarantined. {reason}"
            )
        return by_pattern

    def contains(self, pattern: str, version: str) -> bool:
        """True if this version is quarantined."""
        return self.versions().get(pattern) == version

    def add(self, pattern: str, version: str, reason: str) -> None:
        """Quarantine a version of a pattern; it is on disk when this returns."""
        now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        self._patterns[pattern] = QuarantinedPattern(pattern, version, reason, now, self._limits)
        content: dict[str, object] = {"patterns": [asdict(one) for one in self._patterns.values()]}
        self._folder.write(QUARANTINE_FILE, json.dumps(content, ensure_ascii=False).encode())


@dataclass(frozen=True)
class QuarantiningSource:
    """Reads the texts of a source and adds the quarantined versions."""

    source: TextSource
    quarantine: Quarantine

    def read(self) -> RuleTexts:
        return self.source.read().with_quarantined(self.quarantine.versions())


def without_quarantined(rules: PatternSet, quarantined: Mapping[str, str]) -> tuple[PatternSet, dict[str, str]]:
    """The rules that run, and the excluded ones, each with the quarantined pattern that caused it.

    A pattern that takes matches of an excluded one is excluded as well.
    """
    versions = versions_of(rules)
    excluded = {name: name for name, version in quarantined.items() if versions.get(name) == version}
    if not excluded:
        return rules, {}
    changed = True
    while changed:
        changed = False
        for pattern in rules.tree.patterns:
            kinds = (step.kind for step in ast.steps(pattern.match))
            consumed = [kind.name for kind in kinds if isinstance(kind, ast.EventType) and kind.name in excluded]
            if pattern.name not in excluded and consumed:
                excluded[pattern.name] = excluded[consumed[0]]
                changed = True
    remaining = tuple(pattern for pattern in rules.tree.patterns if pattern.name not in excluded)
    if not remaining:
        raise SettingsError(
            f"All patterns of the job are quarantined: {', '.join(sorted(excluded))}.",
            hint="Change their text, or raise stream.max_steps or stream.max_matches.",
        )
    return PatternSet(ast.PatternFile(remaining)), excluded


def budget_error_in(error: BaseException | None) -> tuple[str, str] | None:
    """The pattern that exceeded its budget and the sentence about it, from an error of Spark; None for other errors."""
    while error is not None:
        found = _EXCEEDED.findall(str(error))
        if found:
            sentence, pattern = found[-1]
            return pattern, sentence.strip()
        error = error.__cause__ or error.__context__
    return None
