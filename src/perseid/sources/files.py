"""Events from files: lines of JSON or CSV, Parquet, and Delta tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator
from pyspark.errors import PySparkException
from pyspark.sql import types as st

from perseid.errors import SettingsError
from perseid.settings import Secret, invalid_setting, revealed
from perseid.sources.contract import ARRIVED, PAYLOAD, POSITION, WRONG, Source
from perseid.sources.ddl_columns import check_columns
from perseid.sources.records import PayloadFormat, check_names, columns_of, first_of, is_blank, read, required_of, unfit
from perseid.spark.inputs import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

LINES = ("json", "csv")
SETTINGS_BY_OPTION = {
    "maxfilespertrigger": "max_files_per_batch",
    "header": "header",
    "sep": "separator",
    "path": "path",
}
"""Options of Spark that have a setting here."""
_LINE = "if(startswith(value, '\ufeff'), substring(value, 2), value)"
"""A line without the byte order mark at the start of a file."""
_PLACE = {POSITION: "_metadata.file_path", ARRIVED: "_metadata.file_modification_time"}


class FileSource(Source):
    """Records of files; the position of each is the path of its file, or of its Delta table."""

    kind: Literal["files"] = "files"
    path: str = Field(min_length=1, examples=["s3a://lake/events/"])
    """A folder or a file, as a path or URI for Spark."""
    format: Literal["json", "csv", "parquet", "delta"]
    """``json`` and ``csv`` have one record per line."""
    columns: str | None = Field(default=None, alias="schema")
    """The columns as in SQL, ``'ts TIMESTAMP, user STRING'``; not needed for Delta, nor for Parquet read once."""
    required: tuple[str, ...] = ()
    """Columns that must have a value, in addition to NOT NULL ones; a record without a required value is malformed."""
    header: bool = False
    """CSV: skip lines with the names of the columns."""
    separator: str = Field(default=",", min_length=1, max_length=8)
    """CSV: the separator between fields."""
    max_files_per_batch: int | None = Field(default=None, gt=0)
    """Maximum number of new files in a micro-batch."""
    options: dict[str, str | Secret] = Field(default_factory=dict)
    """Further options of Spark's source of this format."""

    @model_validator(mode="after")
    def _checked(self) -> FileSource:
        for name in self.options:
            if name.lower() in SETTINGS_BY_OPTION:
                raise ValueError(f"unsupported option {name}; use the setting {SETTINGS_BY_OPTION[name.lower()]}")
        if self.format in LINES and self.columns is None:
            raise ValueError(f"the format {self.format} needs a schema; add schema: 'ts TIMESTAMP, user STRING'")
        if self.format == "delta" and self.columns is not None:
            raise ValueError(
                "a Delta table has its own schema; remove schema, and list columns that must have a value in required"
            )
        if self.header and self.format != "csv":
            raise ValueError("header needs format: csv")
        if self.columns is not None:
            try:
                check_columns(self.columns)
            except ValueError as error:
                raise invalid_setting(str(error), ("schema",)) from None
        return self

    def describe(self) -> str:
        return f"{self.format} files in {self.path}"

    def open(self, session: SparkSession, *, streaming: bool) -> DataFrame:
        reader: DataFrameReader | DataStreamReader = session.readStream if streaming else session.read
        options = revealed(self.options)
        if self.max_files_per_batch is not None and streaming:
            options["maxFilesPerTrigger"] = str(self.max_files_per_batch)
        columns = None if self.columns is None else columns_of(session, self.columns, self.describe())
        if self.format == "parquet":
            if columns is not None:
                reader = reader.schema(columns)
            elif streaming:
                raise SettingsError(
                    f"A stream of {self.describe()} needs a schema, because its files may not exist yet.",
                    hint="Add schema: 'ts TIMESTAMP, user STRING'.",
                )
        frame = self._loaded(reader.format("text" if self.format in LINES else self.format), options)
        if self.format not in LINES:
            return self._tables(frame, columns)
        assert columns is not None
        lines = frame.where(_filled(columns.names, self.separator) if self.header else f"not {is_blank('value')}")
        reading = PayloadFormat(
            "json" if self.format == "json" else "csv", columns, self.required, separator=self.separator
        )
        return read(lines, reading, value=_LINE, position=_PLACE[POSITION], arrived=_PLACE[ARRIVED])

    def _loaded(self, reader: DataFrameReader | DataStreamReader, options: dict[str, str]) -> DataFrame:
        try:
            return reader.options(**options).load(self.path)
        except PySparkException as error:
            name = error.getCondition() or ""
            if name in ("DATA_SOURCE_NOT_FOUND", "_LEGACY_ERROR_TEMP_1136"):
                raise SettingsError(
                    f"Spark has no data source for {self.format}.",
                    hint="Add the jars of this format to the Spark session.",
                ) from None
            if name == "PATH_NOT_FOUND":
                raise SettingsError(f"Path not found: {self.describe()}.") from None
            raise

    def _tables(self, frame: DataFrame, columns: st.StructType | None) -> DataFrame:
        """Read records that have their types already: only required values and times can be malformed."""
        shape = frame.schema if columns is None else columns
        check_names(shape.names, self.describe())
        fields = {name: quoted(name) for name in shape.names}
        required = required_of(shape, self.required)
        tests = list(unfit(shape, required, fields))
        place = _PLACE
        if self.format == "delta":  # its streams do not expose the file of a row
            place = {POSITION: literal(self.path), ARRIVED: "cast(null as timestamp)"}
        places = (f"{text} as {name}" for name, text in place.items())
        checked = frame.selectExpr(*fields.values(), f"{first_of(tests)} as {WRONG}", *places)
        record = f"to_json(struct({', '.join(fields.values())}))"
        return checked.selectExpr(
            *(f"if({WRONG} is null, {text}, null) as {text}" for text in fields.values()),
            WRONG,
            f"case when {WRONG} is not null then {record} end as {PAYLOAD}",
            POSITION,
            ARRIVED,
        )


def _filled(names: list[str], separator: str) -> str:
    """Condition for lines that are neither blank nor the header, with or without quotes, in any case."""
    line = f"""lower(replace(trim({_LINE}), '"', ''))"""
    return f"not {is_blank('value')} and {line} <> {literal(separator.join(names).lower())}"
