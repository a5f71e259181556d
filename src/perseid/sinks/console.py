"""Print matches in the terminal, to try out a job."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field
from pyspark.sql import functions as f

from perseid.sinks.contract import Batch, Sink
from perseid.sinks.failures import failing
from perseid.spark.inputs import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

WIDEST = 60
"""Maximum characters shown of a value."""

FOR_MACHINES = ("match_id", "version", "horizon")
USUAL = {"kind": "match", "op": "+", "revision": "0"}
"""Values of these columns in a match that is not retracted."""


class Console(Sink):
    """A table in the terminal of the driver."""

    guarantee: ClassVar[str] = "At least once: a retried batch is shown again."

    rows: int = Field(default=20, ge=1, le=1000)
    """The number of rows shown per batch; the number of further rows is printed."""

    whole: bool = False
    """Show every column: also ids and versions, and columns with only default values in the rows shown."""

    def describe(self) -> str:
        return "the console"

    def write(self, batch: Batch) -> None:
        with failing(self.describe(), batch):
            show(batch.rows, f"batch {batch.number}", self.rows, self.whole)


def show(rows: DataFrame, title: str, most: int, all_columns: bool = False) -> None:
    """Print the first rows as a table, and the number of further rows; nothing if there are none."""
    shown = texts(rows).take(most + 1)
    if not shown:
        return
    more = rows.count() - most if len(shown) > most else 0
    below = f"and {more:,} more" if more > 0 else ""
    cells = [[_visible(value) for value in row] for row in shown[:most]]
    names = rows.columns
    shown_columns = [
        k for k in range(len(names)) if all_columns or _is_informative(names[k], [row[k] for row in cells])
    ]
    _show(title, [names[k] for k in shown_columns], [[row[k] for k in shown_columns] for row in cells], below)


def _is_informative(name: str, cells: list[str]) -> bool:
    """True if a column has information for a reader."""
    if name in FOR_MACHINES:
        return False
    usual = USUAL.get(name)
    return any(cell and cell != usual for cell in cells)


def texts(rows: DataFrame) -> DataFrame:
    """Convert every value to text, truncated beyond the width that is shown."""

    def cut(field: StructField) -> Column:
        column, kind = f.col(quoted(field.name)), field.dataType
        text = f.to_json(column) if kind.typeName() in ("struct", "array", "map", "variant") else column.cast("string")
        return f.substring(f.make_valid_utf8(text), 1, WIDEST + 1).alias(field.name)

    return rows.select(*(cut(field) for field in rows.schema))


def _visible(value: str | None) -> str:
    """Truncate a value and escape characters that are not printable."""
    if value is None:
        return ""
    text = value if len(value) <= WIDEST else value[:WIDEST] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _show(title: str, names: list[str], cells: list[list[str]], below: str) -> None:
    heads = [_visible(name) for name in names]
    try:
        import rich.console
        import rich.table
        import rich.text
    except ImportError:
        lines = ["  ".join(row) for row in (heads, *cells)]
        sys.stdout.write("\n".join([title, *lines, *([below] if below else [])]) + "\n")
        return
    # As text: brackets in a value are no markup.
    table = rich.table.Table(
        title=title, caption=below or None, title_justify="left", caption_justify="left", box=None, pad_edge=False
    )
    for head in heads:
        table.add_column(rich.text.Text(head))
    for row in cells:
        table.add_row(*map(rich.text.Text, row))
    rich.console.Console(file=sys.stdout).print(table)
