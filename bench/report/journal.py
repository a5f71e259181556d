"""The journal of a report: one line of JSON for each call, engine, round and failure, so that a later call continues."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Entry = dict[str, Any]
RoundId = tuple[int, int]
"""The number of the call of the benchmark, from 1, and that of the round, from 0. Only rounds of one call are paired:
between calls, the load of the machine may differ."""


class Journal:
    """Entries of all calls, in the order in which they were written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        self.entries: list[Entry] = list(_parse(text))
        self._is_cut = bool(text) and not text.endswith("\n")

    def add(self, kind: str, **values: Any) -> None:
        """Append an entry, at once and on disk."""
        entry = {"kind": kind, **values}
        self.entries.append(entry)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write("\n" * self._is_cut + json.dumps(entry) + "\n")
        self._is_cut = False

    def rounds(self, engine: str, query: str) -> dict[RoundId, float]:
        """Seconds of the rounds of an engine, by call and number of the round."""
        return {
            (entry["call"], entry["round"]): entry["seconds"]
            for entry in self.entries
            if entry["kind"] == "round" and (entry["engine"], entry["query"]) == (engine, query)
        }

    def has_round(self, engine: str, query: str, number: int) -> bool:
        """Whether any call has this round of an engine."""
        return any(found == number for _, found in self.rounds(engine, query))

    def failure(self, engine: str, query: str) -> Entry | None:
        """The failure of an engine, unless it has run since."""
        last = None
        for entry in self.entries:
            if (entry.get("engine"), entry.get("query")) == (engine, query):
                if entry["kind"] == "failure":
                    last = entry
                elif last is not None and last["failure"] != "other matches":
                    last = None
        return last

    def engine(self, name: str) -> Entry | None:
        """The last entry about opening an engine."""
        found = [entry for entry in self.entries if entry["kind"] == "engine" and entry["engine"] == name]
        return found[-1] if found else None

    def calls(self) -> list[Entry]:
        """Calls that wrote to this journal."""
        return [entry for entry in self.entries if entry["kind"] == "call"]

    def is_done(self, engine: str, query: str, rounds: int) -> bool:
        """Whether a later call has nothing to run: all rounds are there, or the matches are not equal."""
        failure = self.failure(engine, query)
        if failure is not None:
            return bool(failure["failure"] == "other matches")
        return all(self.has_round(engine, query, number) for number in range(rounds))


def _parse(text: str) -> Iterator[Entry]:
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue  # the call ended while it wrote this line
