"""The hashes of :mod:`perseid.semantics.hashing` as Spark SQL, computed in the JVM.

A column is its name (or the path of a field) and its type. The hash depends on neither the ANSI mode, the time zone nor
the collation of the session. A VARIANT is hashed as its JSON text; a value that no expression can read counts as null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from pyspark.sql import types as st

from perseid.semantics.hashing import NULL_BITS, SEED, hash_long, hash_values

Column: TypeAlias = "tuple[str | tuple[str, ...], st.DataType]"


def hash_text(columns: Sequence[Column], leading: int | None = None) -> str:
    """``hash_values`` of these columns as SQL, with ``leading`` as an additional first word."""
    return _hash([(_quoted(name), kind) for name, kind in columns], leading, 0)


def identity_text(id_columns: Sequence[Column], all_columns: Sequence[Column]) -> str:
    """A row's identity: by its ``id`` columns or, without any, by all columns in the order of their names."""
    if not id_columns:
        return hash_text(sorted(all_columns, key=lambda column: column[0]))
    if len(id_columns) == 1 and isinstance(id_columns[0][1], st.IntegralType):
        return f"coalesce(cast({_quoted(id_columns[0][0])} as bigint), {_NULL})"
    return hash_text(id_columns)


_NULL = f"{hash_values([None])}L"


def _quoted(name: str | tuple[str, ...]) -> str:
    parts = (name,) if isinstance(name, str) else name
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def _hash(columns: Sequence[tuple[str, st.DataType]], leading: int | None, depth: int) -> str:
    if not columns:
        return f"{SEED if leading is None else hash_long(leading, SEED)}L"
    hash_arguments = [] if leading is None else [f"{leading}L"]
    bits = []
    for index, (text, kind) in enumerate(columns):
        bit = 1 << index % NULL_BITS
        canonical = _canonical(text, kind, depth)
        if canonical is not None:
            hash_arguments.append(canonical)
        bits.append(f"{bit}L" if canonical is None else f"if(isnull({text}), {bit}L, 0L)")
    hash_arguments.extend(" | ".join(bits[at : at + NULL_BITS]) for at in range(0, len(bits), NULL_BITS))
    return f"xxhash64({', '.join(hash_arguments)})"


def _canonical(text: str, kind: st.DataType, depth: int) -> str | None:
    """The argument of ``xxhash64`` for a value; None if every value of the type counts as null.

    ``xxhash64`` hashes timestamps and intervals by their microseconds, and all zeros and all NaNs of a double alike.
    """
    match kind:
        case st.LongType() | st.DoubleType() | st.TimestampType() | st.TimestampNTZType() | st.BinaryType():
            return text
        case st.DayTimeIntervalType():
            return text
        case st.IntegralType() | st.BooleanType():
            return f"cast({text} as bigint)"
        case st.FloatType():
            return f"cast({text} as double)"
        case st.DateType():
            return f"cast(unix_date({text}) as bigint)"
        case st.StringType() | st.CharType() | st.VarcharType():
            # As bytes: a collation would hash its own form of the text.
            return text if kind == st.StringType() else f"cast({text} as binary)"
        case st.DecimalType():
            return f"try_cast({text} as string)"  # plain cast writes exponents where ANSI is off
        case st.VariantType():
            return f"to_json({text})"
        case st.ArrayType():
            inner = f"transform({text}, x{depth} -> {_hash([(f'x{depth}', kind.elementType)], None, depth + 1)})"
        case st.MapType():
            key = _hash([(f"x{depth}.key", kind.keyType)], None, depth + 1)
            value = _hash([(f"x{depth}.value", kind.valueType)], None, depth + 1)
            inner = f"array_sort(transform(map_entries({text}), x{depth} -> struct({key} as k, {value} as v)))"
        case st.StructType():
            fields = sorted(
                (hash_values([field.name]), _hash([(f"{text}.{_quoted(field.name)}", field.dataType)], None, depth + 1))
                for field in kind.fields
            )
            inner = ", ".join(f"{name}L, {value}" for name, value in fields) or "array()"
        case _:
            return None
    return f"if(isnull({text}), null, xxhash64({inner}))"
