"""Matches of a local run: a sequence that prints readably and converts to tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import pyarrow as pa

from perseid.errors import MissingExtraError
from perseid.lang.printer import print_duration
from perseid.lang.tree_types import describe_type
from perseid.semantics import values as v
from perseid.semantics.detection import Match
from perseid.semantics.output_names import output_names
from perseid.tables.html import matches_html

if TYPE_CHECKING:
    import pandas as pd

Row: TypeAlias = dict[str, Any]
"""A match as a row of a table."""

_SHOWN = 20
_STANDARD = ("pattern", "match_id", "kind", "start", "end")


class Matches(Sequence[Match]):
    """Matches of a local run, ordered by their end; a sequence of :class:`Match`."""

    def __init__(
        self,
        matches: Sequence[Match],
        counters: Mapping[str, int],
        reported: Sequence[str] | None = None,
        columns: Sequence[str] = (),
        notes: Sequence[str] = (),
    ) -> None:
        if reported is not None and hasattr(matches, "chosen"):
            self._matches: Sequence[Match] = matches.chosen(reported)
        else:
            self._matches = tuple(m for m in matches if reported is None or m.pattern in reported)
        self._columns = tuple(columns)
        self.notes = tuple(notes)
        """Hints at mistakes: event types and columns that occur in no event."""
        self.suppressed = counters.get("suppressed", 0)
        """Number of matches that ``suppress`` dropped."""
        self.evidence_dropped = counters.get("evidence_dropped", 0)
        """Number of contributing events that an evidence limit dropped."""
        self.capped = counters.get("capped", 0)
        """Number of runs dropped by a limit: too many open without a bound, or too many matches of one start."""
        self.bad = counters.get("bad", 0)
        """Number of rejected input rows: changes that do not fit their model."""

    def add_rejected(self, count: int, note: str) -> None:
        """Add rejected input rows to the ``bad`` counter and to the notes."""
        self.bad += count
        self.notes = (*self.notes, note)

    @overload
    def __getitem__(self, index: int) -> Match: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Match, ...]: ...
    def __getitem__(self, index: int | slice) -> Match | tuple[Match, ...]:
        found: Match | tuple[Match, ...] = self._matches[index]  # type: ignore[assignment]
        return found

    def __len__(self) -> int:
        return len(self._matches)

    def __iter__(self) -> Iterator[Match]:
        return iter(self._matches)

    def __repr__(self) -> str:
        shown = (describe(match) for match in self._matches[:_SHOWN])
        return "\n  ".join([self._head(), *shown, *self._tail()])

    def _repr_html_(self) -> str:
        """The first matches as an HTML table with a timeline, for notebooks."""
        return matches_html(self._head(), [_row(match) for match in self._matches[:_SHOWN]], self._tail())

    def _head(self) -> str:
        late = self._timed_out()
        count = len(self) - late
        return f"{count} match" + ("" if count == 1 else "es") + (f", {late} timed out" if late else "")

    def _tail(self) -> list[str]:
        """The lines below the displayed matches."""
        lines = [f"… and {len(self) - _SHOWN} more"] if len(self) > _SHOWN else []
        if self.suppressed:
            lines.append(f"({self.suppressed} suppressed)")
        if self.capped:
            lines.append(f"({self.capped} partial matches dropped: limit exceeded)")
        return lines + [f"note: {note}" for note in self.notes]

    def _timed_out(self) -> int:
        counted: int | None = getattr(self._matches, "timed_out", None)
        return counted if counted is not None else sum(1 for match in self._matches if match.kind != "match")

    def to_dicts(self) -> list[Row]:
        """One flat row per match: pattern, match_id, kind, start and end, the key, the returned columns."""
        return [_row(match) for match in self._matches]

    def to_pandas(self) -> pd.DataFrame:
        """The rows of :meth:`to_dicts` as a pandas frame."""
        return self._frame(self._matches)

    def _frame(self, matches: Sequence[Match]) -> pd.DataFrame:
        try:
            import pandas
        except ImportError:
            raise MissingExtraError("pandas is not installed. Install it with: pip install 'perseid[pandas]'") from None
        rows = [_row(match) for match in matches]
        return pandas.DataFrame(rows) if rows else pandas.DataFrame(columns=[*_STANDARD, *self._columns])

    def to_arrow(self) -> pa.Table:
        """The rows of :meth:`to_dicts` as an Arrow table."""
        if len(self) and hasattr(self._matches, "table"):
            return self._matches.table()
        rows = self.to_dicts()
        if rows:
            return pa.Table.from_pylist(rows)
        return pa.table({name: pa.nulls(0) for name in (*_STANDARD, *self._columns)})


def _row(match: Match) -> Row:
    row: Row = {
        "pattern": match.pattern,
        "match_id": match.match_id,
        "kind": match.kind,
        "start": match.start,
        "end": match.end,
    }
    names = output_names(tuple(match.key), tuple(match.values), match.evidence is not None)
    row.update(zip(names.keys, match.key.values(), strict=True))
    row.update(zip(names.returned, match.values.values(), strict=True))
    if match.evidence is not None:
        row["evidence"] = [dict(event) for event in match.evidence]
        row["evidence_dropped"] = match.evidence_dropped
    return row


def merge_results(found: Sequence[Matches]) -> Matches:
    """Merge the results of several runs, ordered by end and start."""
    if len(found) == 1:
        return found[0]
    matches = sorted((match for one in found for match in one), key=lambda match: (match.end_us, match.start_us))
    counted = {
        name: sum(getattr(one, name) for one in found) for name in ("suppressed", "evidence_dropped", "capped", "bad")
    }
    columns = dict.fromkeys(name for one in found for name in one._columns)
    return Matches(matches, counted, None, list(columns), [note for one in found for note in one.notes])


def describe(match: Match) -> str:
    """Format a match on one line."""
    parts = [match.pattern if match.kind == "match" else f"{match.pattern} ({match.kind})"]
    parts.extend(f"{name}={_text(value)}" for name, value in match.key.items())
    parts.append(f"[{v.clock(match.start_us)} → {v.clock(match.end_us)}]")
    for name, events in match.bindings.items():
        shown = ", ".join(f"{describe_type(event.type)}@{v.clock(event.time)}" for event in events[:4])
        parts.append(f"{name}: {shown}" + (f", … {len(events)} in all" if len(events) > 4 else ""))
    parts.extend(f"{name}={_text(value)}" for name, value in match.values.items())
    return "  ".join(parts)


def _text(value: object) -> str:
    if isinstance(value, timedelta) and value >= timedelta(0):
        return print_duration(value // timedelta(microseconds=1))
    shown = v.text(value) if value is not None else "null"
    text = str(value) if shown is None else shown
    return text if len(text) <= 60 else text[:57] + "…"
