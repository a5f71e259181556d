"""Rules over live models on Spark: all that they do as rows of one DataFrame, of a batch or of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perseid.engines.models.deeds import AFTER, BEFORE
from perseid.engines.models.engine import RULES
from perseid.engines.models.plan import ROLES
from perseid.engines.models.reacting import ReactingPlan, emitted_types, make_rules_plan
from perseid.errors import EventDataError, UnsupportedError, did_you_mean
from perseid.local.models import Models
from perseid.local.reactions import check_columns
from perseid.semantics.rules import Rules
from perseid.spark.arrow import to_arrow, to_spark
from perseid.spark.inputs import quoted
from perseid.spark.models import over_models

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Observation


def react_models(
    stream: Models,
    rules: Rules,
    *,
    until: int | None,
    rounds: int,
    changes: int,
    checkpoint: str | None,
    observation: Observation | None,
) -> DataFrame:
    """The DataFrame of what rules do, of a DataFrame of changes or of a streaming one."""
    check_columns(stream, rules)
    if stream.beside is not None:
        raise UnsupportedError(
            "On Spark rules hear a model, and no other events beside it.",
            hint="Let a pattern find what they wait for, ps.patterns(…).detect(…), or react in one process.",
        )
    if until is not None and stream.data.isStreaming:
        raise UnsupportedError(
            "until= ends what is finished; on a stream time passes with its watermark.",
            hint="Leave it out, or leave later rows out of the stream: df.where(…).",
        )

    def plan_of(types: Mapping[str, pa.DataType], _: Mapping[str, str]) -> ReactingPlan:
        return make_rules_plan(
            rules, types, time=stream.time, columns=stream.columns, key=stream.key, order_by=stream.order_by,
            until=until, rounds=rounds, changes=changes,
        )  # fmt: skip

    name = ", ".join(rule.name for rule in rules.rules)
    return over_models(RULES, [], plan_of, stream, name, {}, checkpoint=checkpoint, observation=observation)


def emitted_rows(deeds: DataFrame, rules: Rules, name: str) -> DataFrame:
    """The rows of one name that rules told, each value in a column of its own type."""
    from pyspark.sql import functions as f

    names = deeds.columns
    if list(BEFORE + AFTER) != [n for n in names if n in BEFORE + AFTER] or len(names) <= len(BEFORE + ROLES + AFTER):
        raise EventDataError(
            "Rows that rules told are in what ps.react answers, and this DataFrame has other columns.",
            hint="ps.emitted(ps.react(stream), metamodel, …), with all columns as they are.",
        )
    place = names.index(BEFORE[0])
    own, element = names[:place], names[place + len(BEFORE) + ROLES.index("element")]
    types = {field.name: to_arrow(field.dataType) for field in deeds.schema}
    known = emitted_types(rules, {**types, "element": types[element]}, own[1:])
    if name not in known:
        raise EventDataError(
            f"No rule emits {name!r}.{did_you_mean(name, list(known))}",
            hint=f"There is: {', '.join(known)}." if known else "A rule tells rows by: do emit alarm(host).",
        )
    rows = deeds.where((f.col("what") == "emitted") & (f.col("name") == name))
    told = [f.col("values")[column].try_cast(to_spark(kind)).alias(column) for column, kind in known[name].items()]
    return rows.select(*(f.col(quoted(column)) for column in own), *told)
