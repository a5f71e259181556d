"""Parse payloads into columns, and describe the malformed ones.

Spark's own functions do all of it, in generated code: no row is transferred to Python. Good records cost one parse and
a few tests of bytes; the reason is computed for malformed records only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql import types as st

from perseid.errors import SettingsError
from perseid.sources.contract import ARRIVED, OURS, PAYLOAD, POSITION, WRONG
from perseid.spark.inputs import literal, quoted, type_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Test = tuple[str, str]
"""A condition under which a record is malformed, and the sentence that describes it; both SQL."""
Format = Literal["json", "avro", "csv", "text", "bytes"]

LONGEST_PAYLOAD = 65_536
"""Characters of a malformed payload that are retained."""
BASE64 = "base64:"
VALUE = "value"
"""The only column of records that are not parsed."""

_VALUE, _TEXT, _READ = (OURS + name for name in ("value", "text", "read"))
_RECORD, _END, _CORRUPT = "record", "end", "corrupt"
_SPACES = literal(" \t\r\n")
_FIRST = {"timestamp": "timestamp'0001-01-01 00:00:00Z'", "timestamp_ntz": "timestamp_ntz'0001-01-01 00:00:00'"}
_LAST = {
    "timestamp": "timestamp'9999-12-31 23:59:59.999999Z'",
    "timestamp_ntz": "timestamp_ntz'9999-12-31 23:59:59.999999'",
}

NO_PAYLOAD = "No payload."
EMPTY = "The payload is empty."
NO_TEXT = "The payload is not UTF-8 text."
NO_JSON = "The payload is not a JSON object."
AFTER_END = "Unexpected text after the end of the JSON object."
NO_AVRO = "The payload is not a record of the Avro schema, or all its fields are null."
NO_CLOSING_QUOTE = "Unclosed quote."
INSIDE = "A field does not have the type of the schema."


@dataclass(frozen=True)
class PayloadFormat:
    """The format of payloads, and the columns that they are parsed into."""

    format: Format
    columns: st.StructType = field(default_factory=lambda: st.StructType([]))
    """The columns; none for Avro, text and bytes, since they follow from the format."""
    required: tuple[str, ...] = ()
    avro: str | None = None
    """The Avro schema, as JSON."""
    skip: int = 0
    """Bytes before an Avro record."""
    separator: str = ","


def columns_of(session: SparkSession, ddl: str, subject: str) -> st.StructType:
    """The columns of a schema in SQL; NOT NULL columns remain so, and are required."""
    try:
        columns: st.StructType = session.createDataFrame([], ddl).schema
    except PySparkException as error:
        # The message of a parser error begins with an empty line.
        message = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise SettingsError(
            f"The schema of {subject} cannot be parsed: {message}",
            hint="Use columns as in SQL: 'ts TIMESTAMP, user STRING'.",
        ) from None
    check_names(columns.names, subject)
    return columns


def check_names(names: Sequence[str], subject: str) -> None:
    """Raise if names differ in case only, or if one has the prefix of internal columns."""
    lower_names: set[str] = set()
    for name in names:
        if name.lower() in lower_names:
            raise SettingsError(
                f"{subject} has two columns named {name!r}.", hint="Rename one; Spark ignores case in names."
            )
        if name.lower().startswith(OURS):
            raise SettingsError(
                f"{subject} has a column {name!r}; names that begin with {OURS} are reserved.", hint="Rename it."
            )
        lower_names.add(name.lower())


def required_of(columns: st.StructType, named: Sequence[str]) -> tuple[str, ...]:
    """The columns that must have a value: the given ones, and those that are NOT NULL in the schema."""
    unknown = next((name for name in named if name not in columns.names), None)
    if unknown is not None:
        raise SettingsError(
            f"Column {unknown!r} in required not found in the source.",
            hint=f"Available: {', '.join(columns.names)}.",
        )
    strict = [field.name for field in columns.fields if not field.nullable]
    return tuple(dict.fromkeys([*strict, *named]))


def read(
    frame: DataFrame,
    reading: PayloadFormat,
    *,
    value: str,
    position: str,
    arrived: str,
    keep: Mapping[str, str] | None = None,
    refuse: Iterable[tuple[str, str]] = (),
) -> DataFrame:
    """Parse a DataFrame of payloads into columns, with the reason for each malformed record.

    The other arguments are SQL over the frame: ``keep`` are further columns by name, and ``refuse`` are further
    conditions of malformed records, with a sentence each.
    """
    extra_columns = {name: (f"{OURS}keep{i}", text) for i, (name, text) in enumerate((keep or {}).items())}
    refused = [(f"{OURS}refuse{i}", text, sentence) for i, (text, sentence) in enumerate(refuse)]
    raw = frame.selectExpr(
        f"{value} as {_VALUE}",
        f"cast({value} as string) as {_TEXT}",
        f"{position} as {POSITION}",
        f"{arrived} as {ARRIVED}",
        *(f"{text} as {alias}" for alias, text in extra_columns.values()),
        *(f"{text} as {alias}" for alias, text, _ in refused),
    )
    parsed = _PARSERS[reading.format](raw, reading)
    check_names([*parsed.fields, *extra_columns], "The source")
    required = required_of(parsed.columns, reading.required)
    tests = [
        *parsed.tests,
        *((alias, literal(sentence)) for alias, _, sentence in refused),
        *unfit(parsed.columns, required, parsed.fields),
    ]
    checked = parsed.frame.selectExpr("*", f"{first_of(tests)} as {WRONG}")
    good = {**parsed.fields, **{name: alias for name, (alias, _) in extra_columns.items()}}
    return checked.selectExpr(
        *(f"if({WRONG} is null, {text}, null) as {quoted(name)}" for name, text in good.items()),
        WRONG,
        f"case when {WRONG} is not null then {_shown()} end as {PAYLOAD}",
        POSITION,
        ARRIVED,
    )


def unfit(columns: st.StructType, required: Sequence[str], fields: Mapping[str, str]) -> Iterable[Test]:
    """Tests of a parsed record: times in range and required values; ``fields`` are its columns as SQL."""
    for column in columns.fields:
        kind, text = column.dataType.typeName(), fields[column.name]
        if kind in _FIRST:
            # Spark multiplies numbers of seconds without a range check, and a watermark would follow the result.
            yield (
                f"{text} < {_FIRST[kind]} or {text} > {_LAST[kind]}",
                literal(f"{column.name} is outside the years 1 to 9999."),
            )
    for name in required:
        yield f"{fields[name]} is null", literal(f"Required column {name} has no value.")


def first_of(tests: Sequence[Test]) -> str:
    """The sentence of the first condition that holds, as SQL; null if none does."""
    if not tests:
        return "cast(null as string)"
    return f"case {' '.join(f'when {condition} then {sentence}' for condition, sentence in tests)} end"


def is_blank(text: str) -> str:
    """Condition that a text has only spaces and line ends."""
    return f"trim(both {_SPACES} from {text}) = ''"


def _one_line(text: str) -> str:
    return f"replace(replace({text}, char(13), ''), char(10), '')"


def _shown() -> str:
    """The payload as text: truncated if it is long, in base64 if it is not UTF-8."""
    cut = f"concat(' … (truncated; ', octet_length({_VALUE}), ' bytes in total)')"
    prefix_bytes = LONGEST_PAYLOAD * 3 // 4
    text = f"if(char_length({_TEXT}) > {LONGEST_PAYLOAD}, concat(substring({_TEXT}, 1, {LONGEST_PAYLOAD}), {cut}), {_TEXT})"
    base = f"concat('{BASE64}', {_one_line(f'base64(substring(cast({_VALUE} as binary), 1, {prefix_bytes}))')}, if(octet_length({_VALUE}) > {prefix_bytes}, {cut}, ''))"
    return f"if({_VALUE} is null, null, if(is_valid_utf8({_TEXT}), {text}, {base}))"


@dataclass(frozen=True)
class _Parsed:
    """Parsed payloads, with the tests that find malformed ones."""

    frame: DataFrame
    columns: st.StructType
    fields: dict[str, str]
    """The columns as SQL over the frame."""
    tests: list[Test]
    """Tests for malformed records, in the order of their evaluation."""


_ABSENT = (f"{_VALUE} is null", literal(NO_PAYLOAD))
_NO_TEXT = (f"not is_valid_utf8({_TEXT})", literal(NO_TEXT))
_OF_TEXT = [_ABSENT, (is_blank(_TEXT), literal(EMPTY)), _NO_TEXT]


def _json(raw: DataFrame, reading: PayloadFormat) -> _Parsed:
    """Parse each record inside a wrapper object: text behind its end then breaks the wrapper, or hides ``end``."""
    wrapped = f.concat(f.lit(f'{{"{_RECORD}":'), f.col(_TEXT), f.lit(f',"{_END}":1}}'))
    end = st.StructField(_END, st.IntegerType())
    wrapper_type = st.StructType(
        [st.StructField(_RECORD, _nullable(reading.columns)), end, st.StructField(_CORRUPT, st.StringType())]
    )
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = raw.select("*", f.from_json(wrapped, wrapper_type, options).alias(_READ))
    fields = {name: f"{_READ}.{_RECORD}.{quoted(name)}" for name in reading.columns.names}
    texts = f"from_json(concat('{{\"{_RECORD}\":', {_TEXT}, ',\"{_END}\":1}}'), '{_RECORD} map<string, string>, {_END} int')"
    raw_fields = {name: f"try_element_at(found.{_RECORD}, {literal(name)})" for name in reading.columns.names}
    reason = f"case when found.{_RECORD} is null then {literal(NO_JSON)} else {_mistyped(reading.columns, raw_fields, fields, INSIDE)} end"
    # A blank payload breaks the wrapper: the expensive test for it runs only on broken ones.
    broken = first_of(
        [
            (is_blank(_TEXT), literal(EMPTY)),
            (f"{_READ}.{_CORRUPT} is null", literal(NO_JSON)),
            ("true", f"transform(array({texts}), found -> {reason})[0]"),
        ]
    )
    tests = [
        _ABSENT,
        _NO_TEXT,
        (f"{_READ}.{_CORRUPT} is not null or {_READ}.{_RECORD} is null", broken),
        (f"{_READ}.{_END} is null", literal(AFTER_END)),
    ]
    return _Parsed(parsed, reading.columns, fields, tests)


def _mistyped(columns: st.StructType, raw_fields: Mapping[str, str], fields: Mapping[str, str], else_: str) -> str:
    """A sentence, as SQL, about the fields with a value that is not of their type."""
    sentences = [
        f"if({raw_fields[column.name]} is not null and {fields[column.name]} is null, "
        f"{literal(f'{column.name} is not of type {column.dataType.simpleString().upper()}')}, null)"
        for column in columns.fields
    ]
    named = f"concat_ws(', ', {', '.join(sentences)})"
    return f"transform(array({named}), named -> if(named = '', {literal(else_)}, concat(named, '.')))[0]"


def _csv(raw: DataFrame, reading: PayloadFormat) -> _Parsed:
    nested = next((c.name for c in reading.columns.fields if _is_nested(c.dataType)), None)
    if nested is not None:
        raise SettingsError(f"Unsupported column {nested!r}: CSV has no arrays, maps or structs.")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, "sep": reading.separator, "escape": '"'}
    ddl = ", ".join(f"{quoted(c.name)} {type_text(c.dataType)}" for c in reading.columns.fields)
    parsed = raw.select("*", f.from_csv(f.col(_TEXT), f"{ddl}, {_CORRUPT} string", options).alias(_READ))
    fields = {name: f"{_READ}.{quoted(name)}" for name in reading.columns.names}
    texts = ", ".join(f"{quoted(name)} string" for name in reading.columns.names)
    csv_options = f"map('sep', {literal(reading.separator)}, 'escape', '\"')"
    raw_record = f"from_csv({_TEXT}, {_sql_string(texts)}, {csv_options})"
    raw_fields = {name: f"found.{quoted(name)}" for name in reading.columns.names}
    count = f"Expected the {len(fields)} fields of the schema."
    reason = f"transform(array({raw_record}), found -> {_mistyped(reading.columns, raw_fields, fields, count)})[0]"
    quotes = f"""length({_TEXT}) - length(replace({_TEXT}, '"', ''))"""
    tests = [
        *_OF_TEXT,
        (f"({quotes}) % 2 = 1", literal(NO_CLOSING_QUOTE)),
        (f"{_READ}.{_CORRUPT} is not null", reason),
    ]
    return _Parsed(parsed, reading.columns, fields, tests)


def _avro(raw: DataFrame, reading: PayloadFormat) -> _Parsed:
    """Parse Avro; a malformed record has null in every field, as spark-avro reports no reason."""
    assert reading.avro is not None
    body = f.expr(f"substring({_VALUE}, {reading.skip + 1})") if reading.skip else f.col(_VALUE)
    options = f.create_map(f.lit("mode"), f.lit("PERMISSIVE"))
    try:
        parsed = raw.select("*", f.call_function("from_avro", body, f.lit(reading.avro), options).alias(_READ))
        kind = parsed.schema[_READ].dataType
    except Exception as error:  # errors of the JVM about a schema have no type of their own here
        lines = [line.removeprefix(": ") for line in str(error).splitlines()]
        raise SettingsError(
            f"Spark cannot read Avro with this schema: {lines[min(1, len(lines) - 1)] if lines else ''}",
            hint="Use a record schema as JSON, and add org.apache.spark:spark-avro_2.13:SPARK_VERSION to spark.jars.packages.",
        ) from None
    if not isinstance(kind, st.StructType) or not kind.names:
        raise SettingsError("The Avro schema is not a record with fields.", hint='Use {"type": "record", …}.')
    check_names(kind.names, "The Avro schema")
    fields = {name: f"{_READ}.{quoted(name)}" for name in kind.names}
    all_null = " and ".join(f"{text} is null" for text in fields.values())
    tests = [_ABSENT, (f"octet_length({_VALUE}) = 0", literal(EMPTY)), (all_null, literal(NO_AVRO))]
    return _Parsed(parsed, kind, fields, tests)


def _text(raw: DataFrame, _reading: PayloadFormat) -> _Parsed:
    columns = st.StructType([st.StructField(VALUE, st.StringType())])
    return _Parsed(raw, columns, {VALUE: _TEXT}, [_ABSENT, _NO_TEXT])


def _bytes(raw: DataFrame, _reading: PayloadFormat) -> _Parsed:
    columns = st.StructType([st.StructField(VALUE, st.BinaryType())])
    return _Parsed(raw, columns, {VALUE: f"cast({_VALUE} as binary)"}, [_ABSENT])


_PARSERS = {"json": _json, "csv": _csv, "avro": _avro, "text": _text, "bytes": _bytes}


def _nullable(columns: st.StructType) -> st.StructType:
    return st.StructType([st.StructField(c.name, c.dataType) for c in columns.fields])


def _is_nested(kind: st.DataType) -> bool:
    return isinstance(kind, st.ArrayType | st.MapType | st.StructType)


def _sql_string(text: str) -> str:
    """A string literal for arguments that the parser reads while planning; names in it may have any character."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
