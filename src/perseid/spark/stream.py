"""The stream driver: what the batch driver does before the shuffle, then one stateful operator over shards.

Catalyst decides, filters and projects; the operator keeps one binary state a shard and is called with new rows, or when
the watermark has passed what a shard waits for. Late rows reach it because the only column that Spark knows as event
time there is empty; the true watermark is the one the caller set below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyspark
from pyspark.sql import types as st

from perseid.compile.plan import Plan
from perseid.engines.disorder.strategy import OF_ALL, OF_KEY, Conservative
from perseid.errors import EventDataError, UnsupportedError, warn
from perseid.local.rows import Events
from perseid.runtime.contract import Passes
from perseid.runtime.counters import COUNTERS
from perseid.runtime.watermark import ARRIVAL
from perseid.spark.arrow import to_arrow, to_spark
from perseid.spark.input_counts import BY_TYPE, REQUIRED, types_as_text
from perseid.spark.inputs import (
    DELAY,
    Input,
    ahead_column,
    delay_of,
    literal,
    longest_delay,
    of_type_text,
    quoted,
    time_field,
    time_text,
)
from perseid.spark.inspection import states
from perseid.spark.projection import Projection, project, routed, shielded, spark_schema
from perseid.spark.shards import labels
from perseid.spark.sql.times import DAY
from perseid.spark.stream_worker import (
    ALIKE,
    BY_SHARD,
    CLOCK,
    CONTROL,
    COUNTS,
    LABEL,
    NO_CLOCK,
    NO_PROMISE,
    NULLS,
    PACKET,
    ROW,
    SHARD,
    WRONG,
    StreamJob,
    crossing_type,
    is_plain,
    is_texts,
)
from perseid.spark.worker import KIND, OURS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OBSERVED, COUNTED = "perseid", "counters"
"""What the name of our metrics begins with, and the struct among them that has what was counted."""
MANY_PARTITIONS = 64
BAD = "bad"
"""Of rejected rows: all of bad ones, and of late ones only which they were."""
MAX_NULLS = 60
"""Columns whose nulls are bits of one BIGINT."""


def detect_stream(
    plan: Plan,
    stream: Events,
    relations: Mapping[str, list[tuple[object, ...]]],
    rejected: bool | str = False,
    checkpoint: str | None = None,
) -> DataFrame:
    """The streaming DataFrame of matches; where a checkpoint is named, only if it can go on from there."""
    _refuse(plan, stream)
    if rejected not in (True, False, BAD):
        raise EventDataError(f"rejected={rejected!r} is neither True nor False nor {BAD!r}.")
    projection = project(plan, stream, relations, counted=False, rejected=bool(rejected))
    if projection.job.engine.passes is not Passes.FORWARD:
        raise UnsupportedError(
            f"The engine {projection.job.engine.name!r} also goes against time, so it needs all the data there will be.",
            hint="Ask it of a finished DataFrame.",
        )
    refuse_untimed(projection.inputs)
    position = stream.position
    if rejected != BAD or not all(position in one.columns for one in projection.inputs):
        position = None  # of documents, what was read of them is here, and not where they stood
    shaped = _shaped(plan, projection, rejected, replace(stream, position=position))
    crossing = pa.schema([(c.name, to_arrow(c.dataType)) for c in shaped.schema])
    about = _about(projection)
    job = StreamJob(
        job=replace(
            projection.job,
            plan=replace(
                projection.job.plan,
                order=stream.order,
                delay=1000 * longest_delay(projection.inputs),
                shards=stream.shards,
                max_state=stream.max_state,
            ),
        ),
        crossing=crossing,
        shards=stream.shards,
        idle=stream.idle,
        rejected=bool(rejected),
        max_ahead=stream.max_ahead,
        position=position,
        plain=about is None and len(crossing) <= MAX_NULLS and all(is_plain(c.type) for c in crossing),
        about=about,
        flat=not any(pa.types.is_nested(c.type) for c in projection.job.schema),
    )
    name = ", ".join(pattern.name for pattern in plan.patterns)
    shard, types = _shard(projection, stream.shards), types_as_text(plan, idle=stream.idle is not None)
    return projection.shown(operated(job, shaped, shard, stream, name, checkpoint, types))


def operated(
    job: StreamJob,
    shaped: DataFrame,
    shard: str | None,
    stream: Events,
    name: str,
    checkpoint: str | None,
    types: str = "{}",
) -> DataFrame:
    """Rows through the one stateful operator, and what it tells as rows; ``shard`` is where a row goes, as SQL."""
    from pyspark.sql import functions as f

    session, crossing = shaped.sparkSession, job.crossing
    _warn(session, job.shards)
    if checkpoint is not None:
        for state in states(session, checkpoint) or ():
            job.check(state)
    named = f"array({', '.join(map(str, labels(job.shards)))})"
    label = f"element_at({named}, {shard} + 1)"
    if stream.idle is not None:
        # Every shard has to hear the clock. Whoever packs rows sees to that.
        known = [] if job.everywhere else [f"{label} as {LABEL}" if job.plain else f"{shard} as {SHARD}"]
        shaped = shaped.selectExpr("*", *known)
        ticks = _clock(session, stream.idle).selectExpr("*", *([f"explode({named}) as {LABEL}"] if job.plain else []))
        shaped, label, shard = shaped.unionByName(ticks, allowMissingColumns=True), LABEL, SHARD
    # Spark drops rows by the column it knows as event time, before anybody can count them; this one says nothing.
    unknown = f.lit(None).cast("timestamp").alias(f"{OURS}event_time", metadata={DELAY: 0})
    # As few projections as can be: every trigger plans all of them anew.
    if job.plain:
        crossed = shaped.select(*map(f.expr, _plain(job)), f.expr(f"{label} as {LABEL}"), unknown)
    else:
        others = [] if job.everywhere else [f"{shard} as {SHARD}"]
        packed = shaped.selectExpr(*crossing.names, *([CLOCK] if stream.idle is not None else []), *others)
        crossed = packed.mapInArrow(job.pack, _PACKETS).select("*", unknown)
    stepped = crossed.groupBy(LABEL).applyInPandasWithState(
        job.step, _stepped(job), _STATE, "append", "EventTimeTimeout"
    )
    counted = stepped.observe(f"{OBSERVED} {name}", f.expr(_counted(types)).alias(COUNTED))
    # Taken apart, or filtered, before anything else: what comes out of the operator cannot be shuffled as it is.
    if job.flat:
        # In what Spark zips, columns have their names and all else the number of its place.
        zipped = [f"`{i}`" if c.name in ALIKE else c.name for i, c in enumerate(job.job.schema)]
        restored = (f"{_restored(c.type, here)} as {c.name}" for here, c in zip(zipped, job.job.schema, strict=True))
        lists = ", ".join(map(_whole_list, job.job.schema.names))
        matches = counted.selectExpr(f"inline(arrays_zip({lists}))").selectExpr(*restored)
    else:
        packets = counted.where(f"{PACKET} is not null").select(PACKET)
        matches = packets.mapInArrow(job.unpack, spark_schema(job.job.schema))
    return matches


def _counted(types: str) -> str:
    """What the calls of all shards counted, as one struct: every aggregate would be compiled anew in every task.

    ``types`` are the event types that patterns name, as JSON: the progress of a query does not include its patterns.
    """
    sums = ", ".join(
        f"'{name}', aggregate(calls, 0L, (sum, call) -> sum + cast(call[{i}] as bigint))"
        for i, name in enumerate(COUNTERS)
    )
    held = f"'{BY_SHARD}', concat_ws(' ', transform(calls, call -> call[{len(COUNTERS)}]))"
    held += f", '{BY_TYPE}', concat_ws(' ', transform(calls, call -> call[{len(COUNTERS) + 1}]))"
    held += f", '{REQUIRED}', {literal(types)}"
    calls = f"collect_list(split({COUNTS}, ','))"
    return f"transform(array({calls}), calls -> named_struct({sums}, {held}))[0]"


def _plain(job: StreamJob) -> Iterator[str]:
    """Columns as pandas leaves them: nothing is null but texts, and one more says what was."""
    bits = []
    for i, c in enumerate(job.crossing):
        name, sent, nothing = c.name, c.name, None
        if pa.types.is_timestamp(c.type):
            sent, nothing = f"unix_micros({name})", "0L"
        elif pa.types.is_date32(c.type):
            sent, nothing = f"unix_date({name})", "0"
        elif pa.types.is_boolean(c.type):
            nothing = "false"
        elif pa.types.is_integer(c.type):
            nothing = f"cast(0 as {to_spark(c.type).simpleString()})"
        if not is_texts(c.type):
            bits.append(f"if({name} is null, {1 << i}L, 0L)")
        yield f"{sent if nothing is None else f'coalesce({sent}, {nothing})'} as {name}"
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
"""The engine's state; and for the clock: the last watermark, since when it has not changed, how far time went on."""


def _stepped(job: StreamJob) -> st.StructType:
    """What comes out of the operator: matches, and for each call of a shard a row of what it counted."""
    if job.flat:
        # A row for many matches, its columns are lists: Spark's worker spends more on a row than we do on a match.
        kinds = [st.ArrayType(to_spark(crossing_type(c.type))) for c in job.job.schema]
        fields = [st.StructField(c.name, kind) for c, kind in zip(job.job.schema, kinds, strict=True)]
    else:
        fields = [st.StructField(PACKET, st.BinaryType())]
    return st.StructType([*fields, st.StructField(COUNTS, st.StringType())])


def _whole_list(name: str) -> str:
    """A column of the matches as a list with a value for each, as SQL: one that all have crosses once."""
    if name not in ALIKE:
        return name
    return f"if(size({name}) = 1, array_repeat({name}[0], size(match_id)), {name})"


def _restored(kind: pa.DataType, name: str) -> str:
    """A column of the matches from what crossed for it, as SQL."""
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


def _shaped(plan: Plan, projection: Projection, rejected: bool | str, stream: Events) -> DataFrame:
    shaped, marked = None, any(one.has_ahead for one in projection.inputs)
    for one, select, wanted in zip(projection.inputs, projection.selects, projection.wanted, strict=True):
        frame, condition, columns, control = one.frame, wanted, list(select), None
        if isinstance(projection.strategy, Conservative):
            control, condition = _promises(plan, one, projection.strategy, wanted)
            columns.append(control)
        if condition is not None:
            # A condition that asks for the time as well is not moved below the watermark: dropped rows must move it too.
            frame = frame.where(shielded(f"({condition}) or {one.text(one.time)} is null"))
        if marked:
            columns.append(ahead_column(one))
        if rejected:
            whole = one.record_text()
            columns.append(f"{whole if rejected is True else _little(one, stream, whole, control)} as {ROW}")
            if stream.wrong is not None:
                columns.append(f"{quoted(stream.wrong)} as {WRONG}")
        frame = frame.selectExpr(*columns)
        shaped = frame if shaped is None else shaped.unionByName(frame)
    return routed(cast("DataFrame", shaped), projection.job, untimed=True)


def _little(one: Input, stream: Events, whole: str, control: str | None) -> str:
    """What crosses with a row that nobody may ask for: all of a bad one, and of any other where it stood or what names it."""
    bad = [f"{time_text(one)} is null"]
    if stream.wrong is not None:
        bad.append(f"{quoted(stream.wrong)} is not null")
    if control is not None:
        bad.append(f"{control.removesuffix(f' as {CONTROL}')} = {NO_PROMISE}")
    if stream.position is not None:
        other = quoted(stream.position)
    elif one.id:
        here = {name: alias for name, alias, _ in one.own}
        other = f"to_json(struct({', '.join(f'{quoted(here[name])} as {quoted(name)}' for name in one.id)}))"
    else:
        other = "cast(null as string)"
    return f"if({' or '.join(bad)}, {whole}, {other})"


def _about(projection: Projection) -> str | None:
    """The column that says what a promise is about; None where rows are no promises."""
    strategy = projection.strategy
    if not isinstance(strategy, Conservative):
        return None
    return KIND if strategy.source is None else projection.job.columns[strategy.source]


def _promises(plan: Plan, one: Input, strategy: Conservative, wanted: str | None) -> tuple[str, str]:
    """What a row is, as a column, and which rows are wanted where some are promises."""
    promise = one.text(strategy.promise) if strategy.promise in one.columns else "cast(null as string)"
    known = " ".join(f"when {promise} = '{word}' then {code}" for word, code in (("key", OF_KEY), ("all", OF_ALL)))
    control = f"cast(case when {promise} is null then 0 {known} else {NO_PROMISE} end as int) as {CONTROL}"
    about = "true"
    if strategy.source is None and one.type is not None and plan.event_types is not None:
        # Of types that no step names nothing has to be promised; as codes they would be promises about everything.
        types = " or ".join(of_type_text(one, name) for name in plan.event_types)
        about = f"{one.text(one.type)} is null or {types}"
    return control, f"if({promise} is null, {wanted or 'true'}, {about})"


def _shard(projection: Projection, shards: int) -> str:
    keys = ", ".join(["0", *(quoted(name) for name in projection.keys)])
    return f"cast(pmod(xxhash64({keys}), {shards}) as int)"


def _clock(session: SparkSession, idle: int) -> DataFrame:
    """A tick now and then, in microseconds: the source may be silent, and then nothing else says that time goes on."""
    every = max(1, idle // 10_000_000)
    ticks = session.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
    return ticks.where(f"value % {every} = 0").selectExpr(f"unix_micros(timestamp) as {CLOCK}")


# What cannot be run


def refuse_old() -> None:
    """Versions that streams do not run on."""
    old, arrow = pyspark.__version__, pa.__version__
    if old.startswith("4.0.") and int(arrow.split(".")[0]) >= 26:
        # Its workers cut batches at places that they count in floats.
        raise UnsupportedError(
            f"Streams on Spark {old} need pyarrow below 26, and here is {arrow}.",
            hint="Install pyarrow<26, on the executors too, or Spark 4.1 or later.",
        )


def are_streams(frames: Iterable[DataFrame]) -> bool:
    """Are DataFrames streams? All of them have to be, or none."""
    found = {frame.isStreaming for frame in frames}
    if len(found) > 1:
        raise EventDataError(
            "Some inputs are streams and others are not.", hint="Read all of them with readStream, or none."
        )
    return True in found


def _refuse(plan: Plan, stream: Events) -> None:
    refuse_old()
    are_streams(one.data for _, one in stream.inputs())
    fed = next((pattern for pattern in plan.patterns if pattern.feeds_on), None)
    if stream.order == ARRIVAL and fed is not None:
        raise UnsupportedError(
            f"Pattern {fed.name} takes matches of {', '.join(fed.feeds_on)}; a match may be told after later events have "
            "come, and order='arrival' takes what comes later for later.",
            hint="Use order='watermark', or two queries: write the matches of the first and read them as the second's input.",
        )
    if stream.order == ARRIVAL and len(plan.routes) > 1:
        raise UnsupportedError(
            f"order='arrival' trusts the order of one key, and these patterns are partitioned in {len(plan.routes)} ways.",
            hint="Give patterns of each way a query of their own.",
        )


def refuse_untimed(inputs: Sequence[Input]) -> None:
    for one in inputs:
        field = time_field(one)
        where = "" if one.event_type is None else f" of {one.event_type}"
        line = f'df.withWatermark("{one.time}", "10 minutes")'
        if isinstance(field.dataType, st.TimestampNTZType):
            raise EventDataError(
                f"The time column {one.time!r}{where} is TIMESTAMP_NTZ, which cannot carry a watermark in Spark.",
                hint=f'Cast it first: df.withColumn("{one.time}", df["{one.time}"].cast("timestamp")), then {line}.',
            )
        if not isinstance(field.dataType, st.TimestampType):
            raise EventDataError(
                f"The time column {one.time!r}{where} is {field.dataType.simpleString()}; "
                "on a stream it has to be a TIMESTAMP with a watermark.",
                hint=f"Make it one (timestamp_seconds, to_timestamp, cast), then {line}.",
            )
        if delay_of(one) is None:
            raise EventDataError(
                f"The streaming DataFrame{where} has no watermark on {one.time!r}, so nobody knows how late rows may be.",
                hint=f"Add it to what you give to ps.events: {line}.",
            )


def _warn(session: SparkSession, shards: int) -> None:
    """Every partition is a task of every trigger, and a checkpoint keeps their number for good."""
    partitions = int(cast(str, session.conf.get("spark.sql.shuffle.partitions")))
    if partitions > max(shards, MANY_PARTITIONS):
        warn(
            f"spark.sql.shuffle.partitions is {partitions}, and there are {shards} shards: most partitions stay empty and "
            "every trigger waits for all of them. Set it before the first start, the checkpoint keeps it: "
            f'spark.conf.set("spark.sql.shuffle.partitions", {shards})'
        )
