"""The types of facts in a state: JSON values with their ranges.

Values are the results of ``json.loads`` on bytes that others may have written, so a type accepts exact types only: a
boolean is no integer, and an integer outside its range is no number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from perseid.runtime.state_codec import format_fact


@dataclass(frozen=True, kw_only=True)
class FactValue:
    """Any JSON value; the engine that reads it validates it."""

    nullable: bool = False

    def accepts(self, value: object) -> bool:
        """Check a value."""
        return True

    def accepts_all(self, values: Collection[object]) -> bool:
        """Check many values."""
        return all(map(self.accepts, values))

    def expected(self) -> str:
        """Description of the accepted values."""
        return "a value"

    def problem(self, value: object, path: str) -> str:
        """Describe where a value that is not accepted differs from the expected type."""
        return f"{path} is {format_fact(value)}, expected {self.expected()}{' or null' if self.nullable else ''}"


@dataclass(frozen=True, kw_only=True)
class IntegerValue(FactValue):
    """An integer from ``low`` to ``high``, both included."""

    low: int = -(2**63)
    high: int = 2**63 - 1

    def accepts(self, value: object) -> bool:
        return (type(value) is int and self.low <= value <= self.high) or (value is None and self.nullable)

    def accepts_all(self, values: Collection[Any]) -> bool:
        # Histograms and automaton states have many: checking types and bounds of all at once takes a tenth of the time.
        if self.nullable or not values:
            return super().accepts_all(values)
        return {*map(type, values)} == {int} and self.low <= min(values) and max(values) <= self.high

    def expected(self) -> str:
        return f"an integer from {self.low:,} to {self.high:,}"


TIME = IntegerValue()
"""A time in microseconds."""
TIME_OR_NONE = IntegerValue(nullable=True)


@dataclass(frozen=True, kw_only=True)
class NumberValue(FactValue):
    """A finite number with an absolute value below ``limit``."""

    limit: float = 2.0**63

    def accepts(self, value: object) -> bool:
        return type(value) in (int, float) and abs(value) < self.limit  # type: ignore[arg-type]

    def expected(self) -> str:
        return f"a number between {-self.limit:g} and {self.limit:g}"


@dataclass(frozen=True, kw_only=True)
class TextValue(FactValue):
    """A string."""

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) or (value is None and self.nullable)

    def expected(self) -> str:
        return "a string"


@dataclass(frozen=True, kw_only=True)
class FlagValue(FactValue):
    """A boolean."""

    def accepts(self, value: object) -> bool:
        return isinstance(value, bool)

    def expected(self) -> str:
        return "true or false"


@dataclass(frozen=True, kw_only=True)
class ListValue(FactValue):
    """A list of values of one type."""

    items: FactValue
    size: int | None = None
    unique: bool = False
    """No item occurs twice."""

    def accepts(self, value: object) -> bool:
        if not isinstance(value, list) or (self.size is not None and len(value) != self.size):
            return False
        return self.items.accepts_all(value) and not (self.unique and len(set(value)) < len(value))

    def expected(self) -> str:
        size = "" if self.size is None else f"{self.size} "
        return f"a list of {size}{'unique ' if self.unique else ''}items"

    def problem(self, value: object, path: str) -> str:
        for i, item in enumerate(value if isinstance(value, list) else ()):
            if not self.items.accepts(item):
                return self.items.problem(item, f"{path}[{i}]")
        return super().problem(value, path)


@dataclass(frozen=True, kw_only=True)
class MapValue(FactValue):
    """An object with values of one type."""

    items: FactValue
    numbered: bool = False
    """Its keys are numbers of 31 bits, as text."""

    def accepts(self, value: object) -> bool:
        if not isinstance(value, dict) or not self.items.accepts_all(value.values()):
            return False
        return not self.numbered or all(map(_is_number, value))

    def expected(self) -> str:
        return f"an object{' with numbers as keys' if self.numbered else ''}"

    def problem(self, value: object, path: str) -> str:
        for key, item in value.items() if isinstance(value, dict) else ():
            if not self.items.accepts(item):
                return self.items.problem(item, f"{path}[{format_fact(key)}]")
        return super().problem(value, path)


def _is_number(key: str) -> bool:
    return key.isdecimal() and key.isascii() and len(key) <= 10 and int(key) < 2**31


@dataclass(frozen=True)
class StateFact:
    """A fact of a state, or of a record in it."""

    name: str
    value: FactValue
    optional: bool = False
    mismatch: str = ""
    """The error for a query that needs another value than this one: a sentence with ``{found}`` and ``{now}``."""
    hint: str = ""


@dataclass(frozen=True, kw_only=True)
class RecordValue(FactValue):
    """An object with these facts and no others."""

    facts: tuple[StateFact, ...]

    @cached_property
    def _values(self) -> Mapping[str, FactValue]:
        return {fact.name: fact.value for fact in self.facts}

    @cached_property
    def _required(self) -> frozenset[str]:
        return frozenset(fact.name for fact in self.facts if not fact.optional)

    def accepts(self, value: object) -> bool:
        if not isinstance(value, dict) or not value.keys() >= self._required:
            return False
        values = self._values
        return all(name in values and values[name].accepts(item) for name, item in value.items())

    def expected(self) -> str:
        return "an object with " + ", ".join(self._values)

    def problem(self, value: object, path: str) -> str:
        if not isinstance(value, dict):
            return super().problem(value, path)
        return next(self._problems(value, path))

    def _problems(self, value: Mapping[str, object], path: str) -> Iterator[str]:
        yield from (f"{path}[{name!r}] is missing" for name in sorted(self._required - value.keys()))
        yield from (f"{path} has the unknown fact {format_fact(name)}" for name in value if name not in self._values)
        for name, found in self._values.items():
            if name in value and not found.accepts(value[name]):
                yield found.problem(value[name], f"{path}[{name!r}]")


@dataclass(frozen=True, kw_only=True)
class UnionValue(FactValue):
    """A value of one of several types."""

    options: tuple[FactValue, ...]

    def accepts(self, value: object) -> bool:
        return any(option.accepts(value) for option in self.options)

    def expected(self) -> str:
        return " or ".join(option.expected() for option in self.options)
