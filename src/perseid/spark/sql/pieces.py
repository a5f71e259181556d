"""A fragment of Spark SQL with the type of its values, and variables for operands that are used several times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import types as st

from perseid.semantics import types as t

MAX_COPY = 120
"""Limit in characters: a shorter operand is repeated in the text, a longer one is bound to a variable."""
MICROSECOND = "interval '0 00:00:00.000001' day to second"


class InexpressibleError(Exception):
    """Spark SQL cannot express this expression exactly."""


@dataclass(frozen=True, slots=True)
class Sql:
    """A fragment of Spark SQL and the type of its values.

    ``micros`` is the same moment or duration as a bigint of microseconds, if it was made from one. ``raw`` is the Spark
    type of an array, map or struct, with the contents as in the column. A *loose* value equals the reference's but may
    be of another type: ``coalesce(price, 0)`` is a double here, and the integer 0 in the reference if the price is
    null.
    """

    text: str
    type: t.Type
    micros: str | None = None
    raw: st.DataType | None = None
    loose: bool = False


def type_name(type_: t.Type) -> str:
    return "interval day to second" if isinstance(type_, t.Duration) else str(type_)


def null(type_: t.Type) -> Sql:
    return Sql("null" if isinstance(type_, t.Null) else f"cast(null as {type_name(type_)})", type_)


NO_TRUTH = null(t.Boolean()).text


def boolean(text: str) -> Sql:
    return Sql(text, t.Boolean())


def integer(text: str) -> Sql:
    return Sql(text, t.Integer())


def double(text: str) -> Sql:
    return Sql(text, t.Double())


def string(text: str) -> Sql:
    return Sql(text, t.String())


def moment(micros: str) -> Sql:
    return Sql(f"timestamp_micros({micros})", t.Timestamp(), micros)


def duration(micros: str) -> Sql:
    return Sql(f"({MICROSECOND} * {micros})", t.Duration(), micros)


def firm(value: Sql) -> Sql:
    if value.loose:
        raise InexpressibleError
    return value


def need(value: Sql, *kinds: type[t.Type]) -> str:
    if not isinstance(value.type, kinds):
        raise InexpressibleError
    return firm(value).text


def truth(value: Sql) -> str:
    """A value as a condition; a value that is not boolean counts as null."""
    return value.text if isinstance(value.type, t.Boolean) else NO_TRUTH


class Names:
    """Lambda variables of one SQL text, with names that no column has."""

    def __init__(self, columns: Iterable[str]) -> None:
        column_names = [name.lower() for name in columns]
        self.prefix = "perseid_"
        while any(name.startswith(self.prefix) for name in column_names):
            self.prefix += "_"
        self.bound = 0

    def shared(self, value: Sql, body: Callable[[Sql], str]) -> str:
        """SQL that uses a value several times; a long one is bound to a variable, as copies would double per level."""
        source = value.micros or value.text
        if len(source) <= MAX_COPY:
            return body(value)
        self.bound += 1
        name = f"{self.prefix}{self.bound}"
        match value:
            case Sql(type=t.Timestamp(), micros=str()):
                inner = replace(moment(name), loose=value.loose)
            case Sql(type=t.Duration(), micros=str()):
                inner = duration(name)
            case _:
                inner = replace(value, text=name)
        return f"get(transform(array({source}), {name} -> {body(inner)}), 0)"

    def shared_text(self, text: str, body: Callable[[str], str]) -> str:
        return self.shared(Sql(text, t.Unknown()), lambda x: body(x.text))

    def shared_texts(self, texts: Sequence[str], body: Callable[..., str]) -> str:
        """``shared_text`` for several texts, each an argument of the body."""
        if not texts:
            return body()
        return self.shared_text(texts[0], lambda x: self.shared_texts(texts[1:], lambda *rest: body(x, *rest)))
