"""Streaming execution: the projection of batch execution, then one stateful operator over shards.

Catalyst evaluates predicates, filters and projects. The operator stores one binary state per shard and is called with
new rows, or when the watermark has passed the timer of a shard. Late rows reach it, because in its input the column that
Spark takes as event time is null. The actual watermark is that of the caller's ``withWatermark``, earlier in the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyspark
from pyspark.sql import types as st

from perseid.errors import EventDataError, UnsupportedError, warn
from perseid.runtime.contract import Passes
from perseid.runtime.counters import COUNTERS
from perseid.runtime.event_batch import KEY_PUNCTUATION, QUERY_CHANGE, STREAM_PUNCTUATION
from perseid.runtime.query import ControlFiles, EventIdentity, Input, PunctuationColumns, Query, RejectedRows
from perseid.spark.arrow import arrow_schema, to_spark
from perseid.spark.input_counts import BY_TYPE, REQUIRED, types_as_text
from perseid.spark.inputs import (
    DELAY,
    InputFrame,
    ahead_column,
    delay_of,
    literal,
    of_type_text,
    quoted,
    time_field,
    time_text,
)
from perseid.spark.inspection import states
from perseid.spark.projection import Projection, routed, shielded, spark_schema
from perseid.spark.shards import labels
from perseid.spark.sql.times import DAY
from perseid.spark.stream_worker import (
    BY_SHARD,
    CLOCK,
    CONTROL,
    COUNTS,
    MOSTLY_CONSTANT_COLUMNS,
    NO_CLOCK,
    NULLS,
    PACKET,
    ROW,
    SHARD,
    UNKNOWN_PUNCTUATION_SCOPE,
    WRONG,
    StreamJob,
    crossing_type,
    is_plain,
    is_texts,
)
from perseid.spark.worker import IDENTITY, KIND, LABEL, OURS, PAYLOAD, TIME, Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OBSERVED, COUNTED = "perseid", "counters"
"""Name prefix of Perseid's observed metrics, and the struct in them with the counters."""
PARTITIONS_WARNING_THRESHOLD = 64
MAX_NULLS = 60
"""Limit: the null flags of the columns are bits of one BIGINT."""
_FILES = "path string, modificationTime timestamp, length bigint, content binary"
"""The schema of Spark's source of whole files; the content is not read."""


def run_stream(projection: Projection, checkpoint: str | None) -> DataFrame:
    """Streaming output rows of the engine; validates the states of a checkpoint, if one is given."""
    query, job = projection.query, projection.job
    refuse_old()
    if job.engine.passes is not Passes.FORWARD:
        raise UnsupportedError(
            f"Engine {job.engine.name!r} also reads its input backward in time, so it does not support streams.",
            hint="Use a batch DataFrame.",
        )
    refuse_untimed(projection.frames)
    rows = _shaped(projection)
    if query.control_files is not None:
        rows = _with_control_files(rows, query.control_files, job)
    crossing = arrow_schema(rows.drop(*projection.dropped).schema)
    about, rejected, state = _about(projection), query.rejected, query.state
    is_plain_row = len(crossing) <= MAX_NULLS and all(is_plain(c.type) for c in crossing)
    stream_job = StreamJob(
        job=job,
        crossing=crossing,
        shards=state.shards,
        idle=state.idle,
        rejected=rejected is not None,
        max_ahead=state.max_ahead,
        position=None if rejected is None else rejected.position,
        plain=about is None and not query.broadcast and is_plain_row,
        about=about,
        everywhere=query.broadcast,
        flat=not any(pa.types.is_nested(c.type) for c in job.schema),
    )
    return apply_stateful(stream_job, rows, _shard(projection), query, checkpoint)


def apply_stateful(
    job: StreamJob, shaped: DataFrame, shard: str | None, query: Query, checkpoint: str | None
) -> DataFrame:
    """Run rows through ``applyInPandasWithState`` and unpack its output; ``shard`` is the shard of a row, as SQL."""
    from pyspark.sql import functions as f

    session, crossing = shaped.sparkSession, job.crossing
    _warn(session, job.shards)
    if checkpoint is not None:
        for state in states(session, checkpoint) or ():
            job.check(state)
    named = f"array({', '.join(map(str, labels(job.shards)))})"
    label = f"element_at({named}, {shard} + 1)"
    if job.idle is not None:
        # Every shard needs the clock. Packing copies ticks to all shards.
        shard_column = [] if job.everywhere else [f"{label} as {LABEL}" if job.plain else f"{shard} as {SHARD}"]
        shaped = shaped.selectExpr("*", *shard_column)
        ticks = _clock(session, job.idle).selectExpr("*", *([f"explode({named}) as {LABEL}"] if job.plain else []))
        shaped, label, shard = shaped.unionByName(ticks, allowMissingColumns=True), LABEL, SHARD
    # Spark drops late rows by its event-time column before they can be counted; this one is null.
    unknown = f.lit(None).cast("timestamp").alias(f"{OURS}event_time", metadata={DELAY: 0})
    # As few projections as possible: every trigger plans all of them anew.
    if job.plain:
        crossed = shaped.select(*map(f.expr, _plain(job)), f.expr(f"{label} as {LABEL}"), unknown)
    else:
        shard_column_text = [] if job.everywhere else [f"{shard} as {SHARD}"]
        packed = shaped.selectExpr(*crossing.names, *([CLOCK] if job.idle is not None else []), *shard_column_text)
        crossed = packed.mapInArrow(job.pack, _PACKETS).select("*", unknown)
    stepped = crossed.groupBy(LABEL).applyInPandasWithState(
        job.step, _stepped(job), _STATE, "append", "EventTimeTimeout"
    )
    types = types_as_text(query)
    counted = stepped.observe(f"{OBSERVED} {query.name}", f.expr(_counted(types)).alias(COUNTED))
    # Unpacked, or filtered, before anything else: the output of the operator cannot be shuffled as it is.
    if job.flat:
        # ``arrays_zip`` names plain columns by their name, any other expression by its position.
        zipped = [f"`{i}`" if c.name in MOSTLY_CONSTANT_COLUMNS else c.name for i, c in enumerate(job.job.schema)]
        restored = (
            f"{_restored(c.type, column)} as {c.name}" for column, c in zip(zipped, job.job.schema, strict=True)
        )
        lists = ", ".join(map(_repeated_list, job.job.schema.names))
        matches = counted.selectExpr(f"inline(arrays_zip({lists}))").selectExpr(*restored)
    else:
        packets = counted.where(f"{PACKET} is not null").select(PACKET)
        matches = packets.mapInArrow(job.unpack, spark_schema(job.job.schema))
    return matches


def _counted(types: str) -> str:
    """The counters of all shard calls as one struct: separate aggregates would be compiled anew in every task.

    ``types`` are the event types that patterns name, as JSON: the progress of a query does not include its patterns.
    """
    sums = ", ".join(
        f"'{name}', aggregate(calls, 0L, (sum, call) -> sum + cast(call[{i}] as bigint))"
        for i, name in enumerate(COUNTERS)
    )
    further_fields = f"'{BY_SHARD}', concat_ws(' ', transform(calls, call -> call[{len(COUNTERS)}]))"
    further_fields += f", '{BY_TYPE}', concat_ws(' ', transform(calls, call -> call[{len(COUNTERS) + 1}]))"
    further_fields += f", '{REQUIRED}', {literal(types)}"
    calls = f"collect_list(split({COUNTS}, ','))"
    return f"transform(array({calls}), calls -> named_struct({sums}, {further_fields}))[0]"


def _plain(job: StreamJob) -> Iterator[str]:
    """Columns in types that pandas preserves, and one column with the null flags of all but texts."""
    bits = []
    for i, c in enumerate(job.crossing):
        name, text, null_value = c.name, c.name, None
        if pa.types.is_timestamp(c.type):
            text, null_value = f"unix_micros({name})", "0L"
        elif pa.types.is_date32(c.type):
            text, null_value = f"unix_date({name})", "0"
        elif pa.types.is_boolean(c.type):
            null_value = "false"
        elif pa.types.is_integer(c.type):
            null_value = f"cast(0 as {to_spark(c.type).simpleString()})"
        if not is_texts(c.type):
            bits.append(f"if({name} is null, {1 << i}L, 0L)")
        yield f"{text if null_value is None else f'coalesce({text}, {null_value})'} as {name}"
    yield f"{' | '.join(bits) or '0L'} as {NULLS}"
    if job.idle is not None:
        yield f"coalesce({CLOCK}, {NO_CLOCK}L) as {CLOCK}"


_PACKETS = st.StructType(
    [
        st.StructField(LABEL, st.IntegerType(), False),
        st.StructField(PACKET, st.BinaryType(), False),
        st.StructField(CLOCK, st.LongType(), False),
    ]
)
_STATE = st.StructType(
    [
        st.StructField("body", st.BinaryType(), False),
        st.StructField("watermark", st.LongType(), False),
        st.StructField("since", st.LongType(), False),
        st.StructField("reached", st.LongType(), False),
    ]
)
"""The engine's state, and for idle timeouts the last watermark, the tick of its last change, the time reached."""


def _stepped(job: StreamJob) -> st.StructType:
    """Output schema of the operator: matches, and for each call of a shard a row of counters."""
    if job.flat:
        # One row has many matches, with lists as columns: Spark's worker spends more on a row than a match costs.
        kinds = [st.ArrayType(to_spark(crossing_type(c.type))) for c in job.job.schema]
        fields = [st.StructField(c.name, kind) for c, kind in zip(job.job.schema, kinds, strict=True)]
    else:
        fields = [st.StructField(PACKET, st.BinaryType())]
    return st.StructType([*fields, st.StructField(COUNTS, st.StringType())])


def _repeated_list(name: str) -> str:
    """A column of the matches as a list with a value for each, as SQL; a value shared by all is transferred once."""
    if name not in MOSTLY_CONSTANT_COLUMNS:
        return name
    return f"if(size({name}) = 1, array_repeat({name}[0], size(match_id)), {name})"


def _restored(kind: pa.DataType, name: str) -> str:
    """A column of the matches, restored from the type in which it was transferred, as SQL."""
    is_ = pa.types
    if is_.is_timestamp(kind) and kind.tz is not None:
        return f"timestamp_micros({name})"
    if is_.is_timestamp(kind) or is_.is_duration(kind):
        seconds = f"cast({name} % {DAY}L as decimal(18, 0)) * cast(0.000001 as decimal(6, 6))"
        interval = f"make_dt_interval(cast({name} div {DAY}L as int), 0, 0, cast({seconds} as decimal(18, 6)))"
        return interval if is_.is_duration(kind) else f"timestamp_ntz'1970-01-01 00:00:00' + {interval}"
    if is_.is_date32(kind):
        return f"date_from_unix_date({name})"
    return f"cast({name} as {to_spark(kind).simpleString()})" if is_.is_floating(kind) else name


def _shaped(projection: Projection) -> DataFrame:
    query, shaped = projection.query, None
    marked = any(frame.has_ahead_column for frame in projection.frames)
    for i, (declared, frame) in enumerate(zip(query.inputs, projection.frames, strict=True)):
        rows, condition, columns, control = frame.frame, projection.needed[i], list(projection.selects[i]), None
        if query.punctuations is not None:
            control, condition = _punctuation(query.punctuations, frame, condition)
            columns.append(f"{control} as {CONTROL}")
        if condition is not None:
            # Spark does not push a condition on the event time below the watermark, so dropped rows advance it, too.
            rows = rows.where(shielded(f"({condition}) or {frame.text(frame.time)} is null"))
        if marked:
            columns.append(ahead_column(frame))
        if query.rejected is not None:
            columns += _rejected_columns(query.rejected, declared, frame, control)
        rows = projection.of_types(rows.selectExpr(*columns), declared)
        shaped = rows if shaped is None else shaped.unionByName(rows)
    return routed(cast("DataFrame", shaped), projection.job, untimed=True)


def _rejected_columns(rejected: RejectedRows, declared: Input, frame: InputFrame, control: str | None) -> list[str]:
    """The columns of a rejected row, as SQL: the row as JSON, and the reason if reading it failed."""
    names = rejected.columns
    if names is not None and PAYLOAD in frame.columns:
        names = (*names, PAYLOAD)
    record = frame.record_text(names)
    texts = [f"{_short_record(rejected, declared, frame, record, control) if rejected.bad_only else record} as {ROW}"]
    return texts if rejected.reason is None else [*texts, f"{frame.text(rejected.reason)} as {WRONG}"]


def _short_record(rejected: RejectedRows, declared: Input, frame: InputFrame, record: str, control: str | None) -> str:
    """The JSON of a bad row; of any other row its position, or its id columns, which identify it if it is late."""
    bad = [f"{time_text(frame)} is null"]
    if rejected.reason is not None:
        bad.append(f"{frame.text(rejected.reason)} is not null")
    if control is not None:
        bad.append(f"{control} = {UNKNOWN_PUNCTUATION_SCOPE}")
    if rejected.position is not None:
        identification = quoted(rejected.position)
    elif isinstance(declared.identity, EventIdentity) and declared.identity.columns:
        aliases = {name: alias for name, alias, _ in frame.user_columns}
        ids = (f"{quoted(aliases[name])} as {quoted(name)}" for name in declared.identity.columns)
        identification = f"to_json(struct({', '.join(ids)}))"
    else:
        identification = "cast(null as string)"
    return f"if({' or '.join(bad)}, {record}, {identification})"


def _about(projection: Projection) -> str | None:
    """The column with the type or source that a punctuation is about; None without punctuations."""
    columns = projection.query.punctuations
    if columns is None:
        return None
    return KIND if columns.source is None else projection.job.columns[columns.source]


def _punctuation(columns: PunctuationColumns, frame: InputFrame, needed: str | None) -> tuple[str, str]:
    """The control code of a row, and the condition under which a row is shuffled, as SQL."""
    scope = frame.text(columns.column) if columns.column in frame.columns else "cast(null as string)"
    codes = (("key", KEY_PUNCTUATION), ("all", STREAM_PUNCTUATION))
    branches = " ".join(f"when {scope} = '{word}' then {code}" for word, code in codes)
    control = f"cast(case when {scope} is null then 0 {branches} else {UNKNOWN_PUNCTUATION_SCOPE} end as int)"
    about = "true"
    if columns.source is None and frame.type is not None and columns.types is not None:
        # Punctuations about types that no step names are dropped; their type code would make them apply to all types.
        types = " or ".join(of_type_text(frame, name) for name in columns.types)
        about = f"{frame.text(frame.type)} is null or {types}"
    return control, f"if({scope} is null, {needed or 'true'}, {about})"


def _with_control_files(rows: DataFrame, files: ControlFiles, job: Job) -> DataFrame:
    """The rows, and one for each new file of a folder; Spark's file source selects the files of a batch."""
    Path(files.folder).mkdir(parents=True, exist_ok=True)
    source = rows.sparkSession.readStream.format("binaryFile").schema(_FILES)
    listed = source.option("pathGlobFilter", f"*{files.suffix}").load(Path(files.folder).as_uri())
    named = listed.selectExpr(
        f"element_at(split(path, '/'), -1) as {job.columns[files.column]}",
        f"0L as {TIME}", f"0L as {IDENTITY}", f"{QUERY_CHANGE} as {CONTROL}",
    )  # fmt: skip
    return rows.selectExpr("*", f"0 as {CONTROL}").unionByName(named, allowMissingColumns=True)


def _shard(projection: Projection) -> str | None:
    """The shard of a row, as SQL; None if every shard receives all rows."""
    if projection.query.broadcast:
        return None
    keys = ", ".join(["0", *(quoted(name) for name in projection.route)])
    return f"cast(pmod(xxhash64({keys}), {projection.query.state.shards}) as int)"


def _clock(session: SparkSession, idle: int) -> DataFrame:
    """Clock ticks in microseconds, about ten per idle timeout; they advance time while the source is idle."""
    every = max(1, idle // 10_000_000)
    ticks = session.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
    return ticks.where(f"value % {every} = 0").selectExpr(f"unix_micros(timestamp) as {CLOCK}")


# Validation


def refuse_old() -> None:
    """Raise for versions of Spark and pyarrow that streams do not support."""
    old, arrow = pyspark.__version__, pa.__version__
    if old.startswith("4.0.") and int(arrow.split(".")[0]) >= 26:
        # Its workers compute batch boundaries in floats.
        raise UnsupportedError(
            f"Streams on Spark {old} require pyarrow below 26, got {arrow}.",
            hint="Install pyarrow<26, on the executors too, or Spark 4.1 or later.",
        )


def are_streams(frames: Iterable[DataFrame]) -> bool:
    """True if the DataFrames are streams; raises if only some of them are."""
    found = {frame.isStreaming for frame in frames}
    if len(found) > 1:
        raise EventDataError(
            "Some inputs are streams and others are not.", hint="Read all of them with readStream, or none."
        )
    return True in found


def refuse_untimed(inputs: Sequence[InputFrame]) -> None:
    for frame in inputs:
        field = time_field(frame)
        where = "" if frame.event_type is None else f" of {frame.event_type}"
        line = f'df.withWatermark("{frame.time}", "10 minutes")'
        if isinstance(field.dataType, st.TimestampNTZType):
            raise EventDataError(
                f"Time column {frame.time!r}{where} is TIMESTAMP_NTZ, which does not support watermarks in Spark.",
                hint=f'Cast it first: df.withColumn("{frame.time}", df["{frame.time}"].cast("timestamp")), then {line}.',
            )
        if not isinstance(field.dataType, st.TimestampType):
            raise EventDataError(
                f"Time column {frame.time!r}{where} is {field.dataType.simpleString()}; "
                "a stream requires a TIMESTAMP with a watermark.",
                hint=f"Convert it (timestamp_seconds, to_timestamp, cast), then {line}.",
            )
        if delay_of(frame) is None:
            raise EventDataError(
                f"The streaming DataFrame{where} has no watermark on {frame.time!r}; a watermark is required.",
                hint=f"Add one to the input of ps.events: {line}.",
            )


def _warn(session: SparkSession, shards: int) -> None:
    """Warn about partitions without shards: each is a task of every trigger, and a checkpoint fixes their number."""
    partitions = int(cast(str, session.conf.get("spark.sql.shuffle.partitions")))
    if partitions > max(shards, PARTITIONS_WARNING_THRESHOLD):
        warn(
            f"spark.sql.shuffle.partitions is {partitions} for {shards} shards: most partitions are empty, and every "
            "trigger waits for all of them. Set it before the first start; the checkpoint stores it: "
            f'spark.conf.set("spark.sql.shuffle.partitions", {shards})'
        )
