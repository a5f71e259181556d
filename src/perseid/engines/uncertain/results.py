"""Results of a local match over an uncertain stream, with text, notebook and table output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import pyarrow as pa

from perseid.errors import MissingExtraError
from perseid.semantics import values as v
from perseid.tables.html import matches_html

if TYPE_CHECKING:
    import pandas as pd

Row: TypeAlias = dict[str, Any]
"""One result row, by column name."""

_SHOWN = 20
_TIMES = ("time", "start", "end")


class UncertainMatches(Sequence[Row]):
    """Match probabilities in time order: pattern, group, time, ``p``, ``error`` and, if counted, ``expected``."""

    def __init__(self, table: pa.Table, counters: Mapping[str, int], notes: Sequence[str] = ()) -> None:
        when = "start" if "start" in table.column_names else "time"
        self._table = table.sort_by([(when, "ascending")]) if table.num_rows else table
        self.notes = tuple(notes)
        """Hints about unexpected results: event types that occur in no row."""
        self.impossible = counters.get("impossible", 0)
        """Number of readings that no value of the model explains; they were ignored."""
        self.sampled = counters.get("sampled", 0)
        """Number of steps that were sampled because the automaton of their pattern has too many states."""

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self._table.to_pylist()[index]
        if not -len(self) <= index < len(self):
            raise IndexError(f"Index {index} is out of range: {len(self)} result{'' if len(self) == 1 else 's'}.")
        return self._table.slice(index % len(self), 1).to_pylist()[0]

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._table.to_pylist())

    def __repr__(self) -> str:
        rows = self._table.slice(0, _SHOWN).to_pylist()
        return "\n  ".join([self._head(), *map(_line, rows), *self._tail()])

    def _repr_html_(self) -> str:
        """Render the first results as a table for notebooks."""
        return matches_html(self._head(), self._table.slice(0, _SHOWN).to_pylist(), self._tail())

    def _head(self) -> str:
        return f"{len(self)} result" + ("" if len(self) == 1 else "s")

    def _tail(self) -> list[str]:
        lines = [f"… and {len(self) - _SHOWN} more"] if len(self) > _SHOWN else []
        if self.impossible:
            lines.append(f"({self.impossible} readings that no value of the model explains were ignored)")
        if self.sampled:
            lines.append(f"({self.sampled} steps were sampled: the automaton has too many states)")
        return lines + [f"note: {note}" for note in self.notes]

    def to_dicts(self) -> list[Row]:
        """Return one flat dict per result."""
        rows: list[Row] = self._table.to_pylist()
        return rows

    def to_arrow(self) -> pa.Table:
        """Return the results as an Arrow table."""
        return self._table

    def to_pandas(self) -> pd.DataFrame:
        """Return the results as a pandas DataFrame."""
        try:
            import pandas  # noqa: F401
        except ImportError:
            raise MissingExtraError("pandas is not installed. Install it with: pip install 'perseid[pandas]'") from None
        frame: pd.DataFrame = self._table.to_pandas()
        return frame


def _line(row: Row) -> str:
    """Format a result on one line."""
    parts = [row["pattern"]]
    for name, value in row.items():
        if name in ("pattern", "p", "error", "expected", *_TIMES) or value is None:
            continue
        parts.append(f"{name}={v.text(v.plain(value))}")
    moments = [v.clock(_micros(row[name])) for name in _TIMES if row.get(name) is not None]
    parts.append(f"[{' → '.join(moments)}]")
    parts.append(f"p={row['p']:.4f}" + (f" ± {row['error']:.2g}" if row["error"] else ""))
    if "expected" in row:
        parts.append(f"expected={row['expected']:.4g}")
    return "  ".join(parts)


def _micros(moment: datetime) -> int:
    return int((moment - v.EPOCH).total_seconds() * 1_000_000)
