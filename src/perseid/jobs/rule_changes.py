"""Differences between the rules that a checkpoint last ran and those of a new query, and their effect on state.

State belongs to the version of a rule, a hash of its meaning. A rule with another version starts without state, and a
renamed rule continues with it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

MAX_RULES_LOGGED = 20
"""Maximum number of rules in one line of the log."""
RUN_BOTH = (
    "To keep the partial matches of a rule, restore its text and add the new version under another name: "
    "docs/guides/streaming.md#running-both-versions-of-a-pattern"
)


@dataclass(frozen=True)
class RuleChanges:
    """Names of the rules that differ, sorted."""

    added: Sequence[str]
    changed: Mapping[str, tuple[str, str]]
    """Old and new version of each rule that has another meaning."""
    removed: Sequence[str]
    renamed: Sequence[tuple[str, str]]
    """Old and new name of each rule that has another name and the same meaning."""

    def messages(self) -> Iterator[tuple[int, str]]:
        """Lines for the log, each with its level."""
        if self.added:
            yield logging.INFO, f"rules added: {_listed(self.added)}"
        if self.renamed:
            names = [f"{old} to {new}" for old, new in self.renamed]
            yield logging.INFO, f"rules renamed, which keep their open partial matches: {_listed(names)}"
        if self.removed:
            yield logging.INFO, f"rules removed, with their open partial matches: {_listed(self.removed)}"
        if self.changed:
            names = [f"{name} (version {old}, now {new})" for name, (old, new) in self.changed.items()]
            yield (
                logging.WARNING,
                f"rules changed, and their open partial matches are discarded: {_listed(names)}. {RUN_BOTH}",
            )


def compare_rules(before: Mapping[str, str], after: Mapping[str, str], excluded: Collection[str] = ()) -> RuleChanges:
    """Compare versions of rules by name; ``excluded`` are rules that are quarantined, which are reported elsewhere."""
    old_versions, new_versions = set(before.values()), set(after.values())
    new = {name: version for name, version in sorted(after.items()) if version not in old_versions}
    names_by_version = {version: name for name, version in sorted(before.items(), reverse=True)}
    return RuleChanges(
        added=[name for name in new if name not in before],
        changed={name: (before[name], version) for name, version in new.items() if name in before},
        removed=[
            name
            for name, version in sorted(before.items())
            if name not in after and version not in new_versions and name not in excluded
        ],
        renamed=[
            (names_by_version[version], name)
            for name, version in sorted(after.items())
            if version in old_versions and before.get(name) != version
        ],
    )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MAX_RULES_LOGGED
    return ", ".join([*names[:MAX_RULES_LOGGED], *([f"and {more:,} more"] if more > 0 else [])])
