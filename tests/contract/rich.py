"""Random streams with columns of every type, and random patterns with conditions on them."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from perseid.errors import PatternError
from perseid.lang.parser import parse_pattern
from perseid.semantics.core import CorePattern
from perseid.semantics.resolve import resolve
from tests.generators.random_patterns import SeededChooser

UTC = dt.UTC
SECOND = 1_000_000
INTEGERS = (0, 1, 1, 2, 2, 3, -1, 7, 2**62, -(2**63))
DOUBLES = (0.0, -0.0, 0.5, 1.0, 2.0, -1.5, 3.25, math.nan, math.inf, -math.inf, 1e300)
TEXTS = ("", "a", "a", "b", "ab", "B", "é", "😀", "\uffff")
MOMENTS = tuple(dt.datetime(2024, 1, 1, 0, 0, s, us, tzinfo=UTC) for s, us in ((0, 0), (1, 0), (2, 500_000), (59, 1)))
DAYS = tuple(dt.date(2024, 1, d) for d in (1, 1, 2, 3))
SPANS = tuple(dt.timedelta(seconds=s) for s in (0, 1, 1, 2, -3))
COLUMNS: dict[str, Sequence[Any]] = {
    "i": INTEGERS,
    "d": DOUBLES,
    "s": TEXTS,
    "f": (True, False),
    "t": MOMENTS,
    "day": DAYS,
    "span": SPANS,
}
"""Columns and their values besides null."""
MOMENT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    {
        "ts": MOMENT,
        "type": pa.string(),
        "i": pa.int64(),
        "d": pa.float64(),
        "s": pa.string(),
        "f": pa.bool_(),
        "t": MOMENT,
        "day": pa.date32(),
        "span": pa.duration("us"),
        "n": pa.struct({"x": pa.int64(), "s": pa.string()}),
        "k": pa.int64(),
        "v": pa.int64(),
        "number": pa.int64(),
    }
)
"""Return the rows of :func:`make_rows` as an Arrow table."""

SHAPES = (
    "A a{0} -> B b{1} -> C c{2}",
    "A a{0}, B b{1}",
    "A a{0} ->> B b{1} -> C c{2}",
    "A a{0} -> B+ b{1} -> C c{2}",
    "A a{0} -> B+? b{1} -> C c{2}",
    "A a{0} -> B* b{1} -> C c{2}",
    "A a{0} -> B{{2}} b{1} -> C c{2}",
    "A+ a{0} -> B b{1} -> C c{2}",
    "A a{0} ->> B+ b{1} combinations -> C c{2}",
    "A a{0} -> B+ b{1} consecutive -> C c{2}",
    "A a{0} -> not B{1} -> C c{2}",
    "A a{0} -> not B{1} for 2 seconds",
    "A a{0} -> (B b{1} | C c{2})",
    "A a{0} -> B? b{1} -> C c{2}",
    "(A a{0} -> B b{1})+ -> C c{2}",
    "A a{0} & B b{1} & C c{2}",
    "A a{0} -> any b{1} -> B c{2}",
    "B+ b{1}",
    "A({u} as u) a{0} -> B({u} as u) b{1} -> C c{2}",
    "A({u} as u) a{0} -> not B({w} as u){1} -> C({u} as u) c{2}",
)


def make_rows(chooser: SeededChooser, longest: int = 10, keys: int = 2) -> list[dict[str, Any]]:
    """Return rows with all columns; times and whole rows may repeat."""
    rows = []
    second = 0
    for _ in range(chooser.number(0, longest)):
        if rows and chooser.chance(5):
            rows.append(dict(rows[-1]))
            continue
        second += chooser.pick((0, 1, 1, 1, 2))
        row: dict[str, Any] = {"ts": dt.datetime.fromtimestamp(second, UTC), "type": chooser.pick("AAABBBCCX")}
        for name, values in COLUMNS.items():
            row[name] = None if chooser.chance(12) else chooser.pick(values)
        inner = {"x": None if chooser.chance(15) else chooser.number(0, 2), "s": chooser.pick(TEXTS)}
        row["n"] = None if chooser.chance(10) else inner
        row["k"] = None if chooser.chance(8) else chooser.number(0, keys - 1)
        row["v"] = None if chooser.chance(8) else chooser.number(0, 3)
        row["number"] = len(rows)
        rows.append(row)
    return rows


class Conditions:
    """Random expressions of a required type, at a step that can refer to some other steps."""

    def __init__(self, chooser: SeededChooser, own: bool, singles: Sequence[str], repeated: Sequence[str]) -> None:
        self.ch = chooser
        self.heads = [*(["", ""] if own else []), *(f"{name}." for name in singles)]
        self.repeated = repeated

    def truth(self, depth: int = 2) -> str:
        ch = self.ch
        roll = ch.number(0, 19)
        if depth and roll < 4:
            joined = f"{self.truth(depth - 1)} {ch.pick(('and', 'or'))} {self.truth(depth - 1)}"
            return f"not ({joined})" if ch.chance(25) else f"({joined})"
        if roll == 4:
            return self.column("f") + ch.pick(("", " is true", " is not false", " is null", " is not null"))
        if roll == 5:
            return f"{self.any_column()} is {ch.pick(('', 'not '))}null"
        if roll == 6:
            return f"{self.number(1)} {ch.pick(('', 'not '))}between {self.number(0)} and {self.number(1)}"
        if roll == 7:
            items = ", ".join(ch.pick(("0", "1", "2", "-1", "null", "1.0e0")) for _ in range(ch.number(1, 3)))
            return f"{self.number(1)} {ch.pick(('', 'not '))}in ({items})"
        if roll == 8:
            return f"{self.text()} {ch.pick(('', 'not '))}in ('a', 'b', {self.text()})"
        if roll == 9 and self.repeated:
            name = ch.pick(self.repeated)
            inner = ch.pick((f"{name}.f", f"{name}.i > 1", f"{name}.s = 'a'", f"{name}.d is null"))
            return f"{ch.pick(('any', 'every'))}({inner})"
        if roll == 10:
            return f"{self.column('f')} {ch.pick(('=', '<>', '<=>', '<'))} {self.column('f')}"
        sides = ch.pick((self.number, self.number, self.number, self.text, self.moment, self.span))
        op = ch.pick(("=", "<>", "<", "<=", ">", ">=", "<=>"))
        return f"{sides()} {op} {sides()}"

    def column(self, name: str) -> str:
        """Return a column of the current event, or of one event of a repetition."""
        ch = self.ch
        if self.repeated and (not self.heads or ch.chance(25)):
            call = ch.pick(("first", "last", "prev", "min", "max"))
            return f"{call}({ch.pick(self.repeated)}.{name})"
        return ch.pick(self.heads) + name if self.heads else "null"

    def any_column(self) -> str:
        return self.column(self.ch.pick((*COLUMNS, "n.x", "n.s", "n")))

    def number(self, depth: int = 2) -> str:
        ch = self.ch
        roll = ch.number(0, 15)
        if depth and roll < 3:
            return f"({self.number(depth - 1)} {ch.pick('+-*/%')} {self.number(depth - 1)})"
        if depth and roll == 3:
            return f"abs({self.number(depth - 1)})"
        if depth and roll == 4:
            return f"if({self.truth(0)}, {self.number(depth - 1)}, {self.number(depth - 1)})"
        if depth and roll == 14:
            return f"coalesce({self.number(depth - 1)}, {self.number(depth - 1)})"
        if roll == 5:
            return ch.pick(("0", "1", "2", "1.5", "0.5e0", "-1", "null", "9223372036854775807"))
        if roll < 9 and self.repeated:
            name = ch.pick(self.repeated)
            inner = ch.pick((f"{name}.i", f"{name}.d", f"{name}.n.x", f"{name}.i + {name}.d", f"abs({name}.i)"))
            function, fraction = ch.pick(("count", "sum", "avg", "stddev", "min", "max")), ""
            # Without another draw, so that all other choices of a seed stay the same.
            if function == "avg" and inner.endswith("d"):
                function = "median"
            elif function == "stddev" and inner.endswith(("x", "d")):
                function, fraction = "percentile", f", {('0', '0.25', '0.9', '1e-1')[len(name + inner) % 4]}"
            return ch.pick((f"count({name})", f"{function}({inner}{fraction})"))
        if roll == 9:
            return f"length({self.text()})"
        return self.column(ch.pick(("i", "i", "d", "d", "n.x")))

    def text(self) -> str:
        ch = self.ch
        if ch.chance(15):
            return ch.pick(("'a'", "'b'", "''", "'zz'"))
        if ch.chance(10):
            return f"{ch.pick(('lower', 'upper'))}({self.column('s')})"
        return self.column(ch.pick(("s", "s", "n.s")))

    def moment(self) -> str:
        ch = self.ch
        if ch.chance(20):
            return ch.pick(("timestamp '2024-01-01 00:00:01'", "date '2024-01-02'", "null"))
        return self.column(ch.pick(("t", "day")))

    def span(self) -> str:
        ch = self.ch
        roll = ch.number(0, 5)
        if roll == 0:
            return f"({self.moment()} - {self.moment()})"
        if roll == 1:
            return ch.pick(("0 seconds", "1 second", "1500 milliseconds"))
        if roll == 2 and self.repeated:
            return f"sum({ch.pick(self.repeated)}.span)"
        if roll == 3:
            return f"abs({self.column('span')})"
        return self.column("span")


def _repeated(shape: str, name: str) -> bool:
    before = shape.split(f" {name}{{", maxsplit=1)[0].rsplit(" ", 1)[-1]
    return before.endswith(("+", "*", "?", "}")) or (shape.startswith("(A") and name in "ab")


def _drawn(ch: SeededChooser) -> str:
    shape = ch.pick(SHAPES)
    names = [name for name in "abc" if f" {name}{{" in shape]
    singles = [name for name in names if not _repeated(shape, name)]
    repeated = [name for name in names if _repeated(shape, name)]
    slots = []
    for i, name in enumerate("abc"):
        bound = names[:i] if name in names else names[:1]
        seen = [n for n in repeated if n in names[: i + 1]]
        maker = Conditions(ch, True, [n for n in bound if n in singles], seen)
        bracket = f" [{maker.truth()}]" if ch.chance(60) else ""
        must = f" must ({maker.truth(1)})" if name in names and ch.chance(8) else ""
        slots.append(bracket + must)
    unified = ch.pick(("i", "d", "s", "f", "t", "n.x", "v", "n"))
    whole = Conditions(ch, False, singles, repeated)
    lines = ["pattern p", "match " + shape.format(*slots, u=unified, w=ch.pick((unified, "i", "d")))]
    if ch.chance(40):
        lines.append(f"where {whole.truth()}")
    lines.append(f"within {ch.pick(('4 seconds', '10 seconds', '5 events', 'forever'))}")
    if ch.chance(40):
        lines.append(f"partition by {ch.pick(('k', 'k', 'k, s', 'n.x', 'd', 'f', 'day'))}")
    if ch.chance(20) and "," not in shape and ">>" not in shape and "combin" not in shape and "consec" not in shape:
        contexts = ("chronicle", "immediate", "continuous", "recent", "cumulative", "strict immediate")
        lines.append(f"selection {ch.pick(contexts)}")
    elif ch.chance(40):
        lines.append(f"after match skip {ch.pick(('past last', 'to next', 'none'))}")
    if ch.chance(20):
        lines.append("report timeouts")
    given = []
    for i in range(ch.number(1, 4)):
        kind = ch.pick((whole.number, whole.text, whole.moment, whole.span, whole.truth, whole.any_column))
        given.append(f"{kind()} as r{i}")
    if repeated and ch.chance(40):
        given.append(f"collect({ch.pick(repeated)}.{ch.pick(tuple(COLUMNS))}) as r_all")
    if ch.chance(10):
        given.append("evidence limit 2")
    lines.append("return " + ", ".join(given))
    if ch.chance(10):
        lines.append("suppress 3 seconds")
    return "\n".join(lines)


def make_rich_pattern(chooser: SeededChooser) -> tuple[CorePattern, str]:
    """Return a pattern that compiles, and its text."""
    while True:
        text = _drawn(chooser)
        try:
            return resolve(parse_pattern(text)), text
        except PatternError:
            continue


def make_rich_pair(seed: int, longest: int = 10) -> tuple[CorePattern, str, list[dict[str, Any]]]:
    """Return a pattern, its text and rows; the same seed gives the same result."""
    chooser = SeededChooser(seed)
    pattern, text = make_rich_pattern(chooser)
    return pattern, text, make_rows(chooser, longest)
