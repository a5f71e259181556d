"""What every row becomes before the shuffle, for a batch and for a stream: what Catalyst decides, and what crosses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as st

from perseid.compile.plan import Plan
from perseid.engines.disorder.choice import chosen as chosen_strategy
from perseid.engines.disorder.strategy import BUFFER, Buffer, Conservative, Strategy
from perseid.engines.sequence.plan import SequencePlan
from perseid.engines.sequence.schema import conditions_checked, free_name, returned_type
from perseid.errors import BindingError, TypeMismatchError, UnknownNameError, UnsupportedError, nearest
from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.lang.printer import print_expr
from perseid.local.rows import Events, read_relation
from perseid.runtime.counters import OF_A_BATCH
from perseid.runtime.registry import engines
from perseid.semantics import types as t
from perseid.semantics.detection import check_relations, expressions_of
from perseid.spark.arrow import to_arrow, to_spark
from perseid.spark.expressions import predicate_text, sql_text
from perseid.spark.input_counts import named_types
from perseid.spark.inputs import (
    Input,
    column_text,
    field_type,
    identity_column_text,
    inputs_of,
    key_text,
    literal,
    longest_delay,
    of_type_text,
    quoted,
    time_text,
    type_column_text,
    types_of,
)
from perseid.spark.type_counts import OF_TYPE
from perseid.spark.worker import HITS, IDENTITY, KIND, OURS, ROUTE, TIME, Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_HITS = 60
"""Predicates that travel as bits of one BIGINT; further ones are asked on the executors."""
MAX_NOTED = 200
"""The longest filter, in characters, that Catalyst may take apart and push into the source."""
ENGINE = "sequence"


@dataclass(frozen=True)
class Projection:
    """What every row becomes before the shuffle, in SQL, and what was decided there."""

    inputs: tuple[Input, ...]
    plan: SequencePlan
    job: Job
    selects: tuple[tuple[str, ...], ...]
    """By input: its columns as SQL."""
    wanted: tuple[str | None, ...]
    """By input: the condition under which some step may want a row; None where all rows count."""
    keys: tuple[str, ...]
    """The columns that rows are shuffled by."""
    returned: tuple[tuple[str, str], ...]
    """The columns of the matches: SQL over what the executors give, and their names."""
    in_catalyst: tuple[int, ...]
    on_executors: tuple[int, ...]
    """Predicates one event decides that Spark SQL has no exact words for."""
    strategy: Strategy
    """What is told before the watermark has made it final."""
    why: str

    def shown(self, matches: DataFrame) -> DataFrame:
        """What the executors gave as the caller asked for it; some names read as more than a name in SQL."""
        from pyspark.sql import functions as f

        return matches.select(*(f.expr(text).alias(name) for text, name in self.returned))


def project(
    plan: Plan, stream: Events, relations: Mapping[str, list[tuple[object, ...]]], counted: bool, rejected: bool = False
) -> Projection:
    """Decide what Catalyst does and what crosses to Python; no Spark job runs.

    Rows that were ``rejected`` are rows of the output too, with the reason and what they were as JSON.
    """
    _refuse(plan, relations)
    inputs = tuple(inputs_of(stream))
    types, spark_types = types_of(inputs)
    _refuse_unknown(plan, inputs, spark_types)
    chosen, on_executors = _predicates(plan, inputs)
    crossing = {name: to_arrow(data_type) for name, data_type in spark_types.items()}
    arrow = {name: kind for name, kind in crossing.items() if kind is not None}
    undecided = _undecided(plan, chosen)
    hidden = not inputs[0].frame.isStreaming
    # What is finished is in order.
    disorder = BUFFER if hidden else stream.disorder
    strategy, why = chosen_strategy(disorder, plan, 1000 * longest_delay(inputs))
    engine = engines()[ENGINE if isinstance(strategy, Buffer) else strategy.name]
    settings: dict[str, Strategy] = {} if isinstance(strategy, Buffer) else {"strategy": strategy}
    numbered: SequencePlan = engine.plan(
        undecided, types, arrow=arrow, strictly_later=stream.strictly_later, **settings
    )
    _refuse_mistyped(plan, numbered, types)
    output = _output(numbered.schema, arrow)
    if rejected:
        for name in ("reason", "row"):
            output = output.append(pa.field(free_name(name, output.names), pa.string()))
    constants = {} if rejected or strategy.retracts else _constants(plan)
    numbered = replace(numbered, schema=_crossing(output, constants, hidden), budget=stream.budget)
    made, asked_for = _columns(undecided, numbered, inputs, on_executors, set(types))
    asked_for |= _promising(strategy, inputs, plan)
    paths = dict.fromkeys(path for route in plan.routes for path in route.paths)
    key_columns = {path: f"{OURS}key{i}" for i, path in enumerate(paths)}
    wanted = tuple(_wanted(plan, numbered, one, chosen) for one in inputs)
    kind_names = None if _asks_for_types(plan) else _kind_names(numbered)
    columns = {name: f"{OURS}column{i}" for i, name in enumerate(spark_types) if name in asked_for & set(arrow)}
    job = Job(
        engine=engine,
        plan=numbered,
        kind_names=kind_names,
        keys={
            route.id: tuple(zip(route.columns, (key_columns[path] for path in route.paths), strict=True))
            for route in plan.routes
        },
        ranks=tuple(f"{OURS}rank{i}" for i in range(max(len(one.order_by) for one in inputs))),
        predicates=tuple(chosen),
        made={text: f"{OURS}made{i}" for i, text in enumerate(made)},
        columns=columns,
        schema=carried_schema(numbered.schema, counted, len(types_named := named_types(plan))),
        counted=counted,
        dedupe=stream.dedupe,
        one_kind=len(inputs) == 1 and wanted[0] is not None and kind_names is not None and len(kind_names) == 1,
        identity=_identity(inputs, columns),
        relations=relations,
        types=types_named,
    )
    lost = sorted(asked_for - set(arrow) - _evidence_only(numbered, asked_for))
    if lost:
        raise UnsupportedError(
            f"The column {lost[0]!r} is {spark_types[lost[0]].simpleString()}, which cannot cross to Python.",
            hint="Cast it before: df.withColumn(…).",
        )
    selects = tuple(tuple(_select(one, job, chosen, made, key_columns, spark_types)) for one in inputs)
    shuffled = (*([ROUTE] if len(job.keys) > 1 else []), *key_columns.values())
    carried = dict(zip(numbered.schema.names, job.schema.names, strict=False))
    shown = constants | ({"match_id": f"lower(hex({carried['match_id']}))"} if hidden else {})
    returned = tuple((shown.get(name) or carried[name], name) for name in output.names)
    return Projection(
        inputs, numbered, job, selects, wanted, shuffled, returned, tuple(chosen), tuple(on_executors), strategy, why
    )


def _promising(strategy: Strategy, inputs: Sequence[Input], plan: Plan) -> set[str]:
    """The columns that say what a promise is about; checked, with those that say what is one."""
    if not isinstance(strategy, Conservative):
        return set()
    if len(plan.routes) > 1:
        raise UnsupportedError(
            f"disorder='conservative' knows of each key what was promised, and these patterns are partitioned in "
            f"{len(plan.routes)} ways.",
            hint="Give patterns of each way a query of their own.",
        )
    for name in (strategy.promise, *([] if strategy.source is None else [strategy.source])):
        there = [one for one in inputs if name in one.columns]
        if not there:
            raise UnknownNameError(
                f"disorder='conservative' reads promises from a column {name!r}, and there is none.",
                nearest=nearest(name, inputs[0].columns),
                hint="It has 'all' or 'key' in rows that are promises and null in events: ps.Conservative(promise=…).",
            )
        if not all(isinstance(one.columns[name], st.StringType) for one in there):
            raise TypeMismatchError(f"The column {name!r} of promises has to be a string.")
    return set() if strategy.source is None else {strategy.source}


def shielded(condition: str) -> str:
    """A condition that Catalyst reasons about only where it is small.

    For every alias of a column Catalyst notes each condition once more, so what many columns decide costs it time and
    memory without end. It makes no notes of conditions that may change from row to row, and runs them where they stand.
    """
    return condition if len(condition) <= MAX_NOTED else f"if(spark_partition_id() >= 0, {condition}, false)"


def routed(frame: DataFrame, job: Job, untimed: bool) -> DataFrame:
    """A row for every way of partitioning, with only that way's keys; the data is read once all the same.

    Rows without a time are there where somebody counts them.
    """
    if len(job.keys) <= 1:
        return frame
    routes = ", ".join(str(route) for route in job.keys)
    ways: dict[str, list[str]] = {}
    for route, keys in job.keys.items():
        for _, here in keys:
            ways.setdefault(here, []).append(str(route))
    texts = [
        f"if({ROUTE} in ({', '.join(ways[name])}), {quoted(name)}, null) as {quoted(name)}"
        if name in ways
        else quoted(name)
        for name in frame.columns
    ]
    copies = frame.selectExpr("*", f"explode(array({routes})) as {ROUTE}").selectExpr(*texts, ROUTE)
    # What has no time goes nowhere: it is only counted, once.
    return copies.where(f"{TIME} is not null or {ROUTE} = {min(job.keys)}") if untimed else copies


# What cannot be run


def _refuse(plan: Plan, relations: Mapping[str, list[tuple[object, ...]]]) -> None:
    for pattern in plan.patterns:
        keys = {".".join(path.parts) for path in pattern.pattern.partition}
        about = pattern.pattern.suppress
        if about is not None and about.by and not keys <= set(about.by):
            raise UnsupportedError(
                f"Pattern {pattern.name} suppresses by {', '.join(about.by)}, which matches of different keys have in common; "
                "on Spark they are found in different places.",
                hint=f"Suppress by the key too: suppress … by {', '.join([*sorted(keys - set(about.by)), *about.by])}; "
                "or drop them from the DataFrame of matches.",
            )
    check_relations([pattern.pattern for pattern in plan.patterns], dict(relations))


def _refuse_unknown(plan: Plan, inputs: Sequence[Input], spark_types: Mapping[str, st.DataType]) -> None:
    """A DataFrame's columns are known: one that nobody has is a slip of the pen, not null."""
    told = _told(plan)
    steps = list(dict.fromkeys(step.name for one in plan.patterns for step in one.pattern.steps if step.name))
    for column in plan.columns:
        if column.name not in spark_types and column.name not in told:
            expressions = [expr for pattern in plan.patterns for expr in expressions_of(pattern.pattern)]
            span = next((ref.span for ref in _refs(expressions) if column.name in ref.parts[:2] and ref.span), None)
            raise UnknownNameError(
                f"No input has a column {column.name!r}." if len(inputs) > 1
                else f"The DataFrame has no column {column.name!r}.",
                span=span,
                nearest=nearest(column.name, [*spark_types, *steps]),
                hint=f"There is: {', '.join(spark_types)}." + (f" Steps are called {', '.join(steps)}." if steps else ""),
            )  # fmt: skip
    for pattern in plan.patterns:
        kinds = [step.kind for step in pattern.pattern.steps]
        named = {kind.name for kind in kinds if isinstance(kind, ast.EventType)}
        for path in pattern.pattern.partition:
            name = ".".join(path.parts)
            kind = field_type(path.parts, spark_types)
            if kind is None:
                raise UnknownNameError(
                    f"Pattern {pattern.name} is partitioned by {name!r}, and there is no such field.", span=path.span
                )
            if to_arrow(kind) is None or isinstance(kind, st.MapType):
                raise TypeMismatchError(f"Rows cannot be partitioned by {name!r}: it is {kind.simpleString()}.")
            for one in inputs:
                if one.event_type in named and path.parts[0] not in one.columns:
                    raise UnknownNameError(
                        f"Pattern {pattern.name} is partitioned by {name!r}, and {one.event_type} has no such column.",
                        span=path.span,
                        nearest=nearest(path.parts[0], one.columns),
                        hint=f"Say what it is called there: key={{{one.event_type!r}: …, …}}.",
                    )
    for one in inputs:
        for name in one.order_by:
            if to_arrow(one.columns[name]) is None:
                raise TypeMismatchError(
                    f"Rows cannot be ordered by {name!r}: it is {one.columns[name].simpleString()}."
                )


def _told(plan: Plan) -> set[str]:
    """Columns that matches have which feed patterns; not those that patterns ask for which take none."""
    taken = {name for pattern in plan.patterns for name in pattern.feeds_on}
    told = {"match_id"} if taken else set()
    for pattern in plan.patterns:
        if pattern.name in taken:
            told |= {name for name, _ in pattern.pattern.returns}
    plain = [expr for pattern in plan.patterns if not pattern.feeds_on for expr in expressions_of(pattern.pattern)]
    return told - {part for ref in _refs(plain) for part in ref.parts[:2]}


def _refuse_mistyped(plan: Plan, numbered: SequencePlan, types: Mapping[str, t.Type]) -> None:
    """A DataFrame's types are known: what they leave uncomputable is a slip of the pen too, not null."""
    for given, pattern in zip(plan.patterns, numbered.patterns, strict=True):
        core = pattern.pattern.pattern
        known = {**types, **numbered.types_of_matches(pattern)}
        conditions_checked(given.pattern, known)
        for (name, formula, _), (_, expr) in zip(pattern.outputs, core.returns, strict=True):
            if formula is None and name not in pattern.output_columns:
                returned_type(expr, core, known)


def _refs(expressions: Iterable[ex.Expr]) -> Iterable[ex.Ref]:
    return (e for expr in expressions for e in ex.walk(expr) if isinstance(e, ex.Ref))


# What Catalyst decides


def _predicates(plan: Plan, inputs: Sequence[Input]) -> tuple[dict[int, dict[int, str]], list[int]]:
    """Predicates Catalyst decides: by number, by input, their SQL; and those left to the executors."""
    chosen: dict[int, dict[int, str]] = {}
    left = []
    told = _of_matches(plan)
    for predicate in plan.predicates:
        if not predicate.event_local:
            continue
        if predicate.id in told:
            left.append(predicate.id)
            continue
        texts: dict[int, str] = {}
        for i, one in enumerate(inputs):
            if one.event_type is not None and predicate.event_type not in (None, one.event_type):
                texts[i] = "false"
                continue
            text = predicate_text(
                predicate.expr,
                columns_seen(predicate.expr, one),
                time=one.time,
                type=one.type,
                event_type=one.event_type,
            )
            if text is None:
                break
            guarded = one.type is not None and predicate.event_type is not None
            texts[i] = f"({of_type_text(one, predicate.event_type or '')}) and ({text})" if guarded else text
        if len(texts) == len(inputs) and len(chosen) < MAX_HITS:
            chosen[predicate.id] = texts
        else:
            left.append(predicate.id)
    return chosen, left


def _of_matches(plan: Plan) -> set[int]:
    """Predicates that matches are asked which feed patterns: nobody before the executors knows those."""
    taken = {name for pattern in plan.patterns for name in pattern.feeds_on}
    asked = {
        n
        for pattern in plan.patterns
        if pattern.feeds_on
        for step in pattern.steps
        for n in (*(k for k, _ in step.choose), *step.must)
    }
    return {
        one.id for one in plan.predicates if one.event_type in taken or (one.event_type is None and one.id in asked)
    }


def _undecided(plan: Plan, chosen: Iterable[int]) -> Plan:
    """The plan as the engine needs it: what was decided before asks for no columns."""
    settled = set(chosen)
    true = ex.Literal("boolean", True)
    predicates = tuple(replace(p, expr=true) if p.id in settled else p for p in plan.predicates)
    return replace(plan, predicates=predicates)


def columns_seen(expr: ex.Expr, one: Input) -> Mapping[str, st.DataType]:
    """The input's columns, and null for those that only other inputs have."""
    missing = {ref.parts[0] for ref in _refs([expr])} - set(one.columns)
    return {**one.columns, **{name: st.NullType() for name in missing}}


def _asks_for_types(plan: Plan) -> bool:
    """Does any expression ask what type an event is? Codes know only the types that steps name."""
    asked = [expr for pattern in plan.patterns for expr in expressions_of(pattern.pattern)]
    return any(isinstance(e, ex.Call) and e.name == "type" for expr in asked for e in ex.walk(expr))


def _kind_names(numbered: SequencePlan) -> tuple[str, ...]:
    bits = (bit for pattern in numbered.patterns for bit in pattern.bits)
    return tuple(dict.fromkeys(bit.event_type for bit in bits if bit.event_type is not None))


def _columns(
    plan: Plan, numbered: SequencePlan, inputs: Sequence[Input], on_executors: Sequence[int], known: set[str]
) -> tuple[dict[str, ex.Expr], set[str]]:
    """Columns computed in Catalyst, by the text of their expression, and columns of the data that come along."""
    made: dict[str, ex.Expr] = {}
    base: set[str] = set()
    for pattern in numbered.patterns:
        core = pattern.pattern.pattern
        if core.evidence is not None:
            base |= known
        for column in pattern.columns:
            if isinstance(column.expr, ex.Ref) and len(column.expr.parts) == 1:
                base.add(column.expr.parts[0])
            elif column.formula is None:
                if not pattern.pattern.feeds_on and all(_sql(column.expr, one) is not None for one in inputs):
                    made[print_expr(column.expr)] = column.expr
                else:
                    base |= _named(column.expr)
        base |= {name for _, name in pattern.output_columns.values()}
        returned = zip(pattern.outputs, core.returns, strict=True)
        for expr in (*pattern.questions, *(expr for (_, formula, _), (_, expr) in returned if formula is None)):
            base |= _named(expr)
        for path, _ in (pair for step in core.steps for pair in step.unify):
            base.add(path.parts[0])
    for n in on_executors:
        base |= _named(plan.predicates[n].expr)
    return made, base & known


def _evidence_only(numbered: SequencePlan, asked_for: set[str]) -> set[str]:
    """Columns that may be left out of evidence: nobody else asks for them."""
    if all(pattern.pattern.pattern.evidence is None for pattern in numbered.patterns):
        return set()
    asked = [expr for pattern in numbered.patterns for expr in expressions_of(pattern.pattern.pattern)]
    return asked_for - {name for expr in asked for name in _named(expr)}


def _sql(expr: ex.Expr, one: Input) -> str | None:
    return sql_text(expr, columns_seen(expr, one), time=one.time, type=one.type, event_type=one.event_type)


def _named(expr: ex.Expr) -> set[str]:
    return {part for ref in _refs([expr]) for part in ref.parts[:2]}


def _select(
    one: Input,
    job: Job,
    chosen: Mapping[int, Mapping[int, str]],
    made: Mapping[str, ex.Expr],
    keys: Mapping[tuple[str, ...], str],
    spark_types: Mapping[str, st.DataType],
) -> Iterable[str]:
    """The columns of one input as SQL, in the shape all inputs share.

    What is short comes first: Catalyst notes what each column equals, and notes it again for every column behind it
    that is a part of it. A hash of all columns before the columns themselves took it minutes.
    """
    for name, here in job.columns.items():
        yield f"{column_text(one, name, spark_types[name])} as {here}"
    for i, here in enumerate(job.ranks):
        yield f"{one.text(one.order_by[i]) if i < len(one.order_by) else 'null'} as {here}"
    for path, here in keys.items():
        yield f"{key_text(one, path, spark_types)} as {here}"
    if not job.one_kind:
        yield f"{_kind(one, job.kind_names)} as {KIND}"
    yield f"{time_text(one)} as {TIME}"
    for text, expr in made.items():
        yield f"{_sql(expr, one)} as {job.made[text]}"
    if chosen:
        bits = [f"if({by_input[one.place]}, {1 << bit}L, 0L)" for bit, by_input in enumerate(chosen.values())]
        yield f"{' | '.join(bits)} as {HITS}"
    if job.identity is None:
        yield f"{identity_column_text(one)} as {IDENTITY}"


def _identity(inputs: Sequence[Input], columns: Collection[str]) -> str | None:
    """The column that comes along anyway and is what makes an event this event: a single number, where types have no part in it."""
    if inputs[0].event_type is not None or len(inputs[0].id) != 1:
        return None
    (only,) = inputs[0].id
    return only if only in columns and isinstance(inputs[0].columns[only], st.IntegralType) else None


def _kind(one: Input, kind_names: Sequence[str] | None) -> str:
    if kind_names is None:
        return type_column_text(one)
    if one.event_type is not None:
        return str(kind_names.index(one.event_type) if one.event_type in kind_names else -1)
    cases = " ".join(f"when {literal(name)} then {i}" for i, name in enumerate(kind_names))
    return f"coalesce(case {type_column_text(one)} {cases} end, -1)" if cases else "-1"


def _wanted(plan: Plan, numbered: SequencePlan, one: Input, chosen: Mapping[int, Mapping[int, str]]) -> str | None:
    """The condition under which some step may want a row of this input."""
    if plan.event_types is None:
        return None
    terms: dict[str, None] = {}
    for pattern in numbered.patterns:
        for bit in pattern.bits:
            if bit.event_type is None:
                return None
            if one.event_type is not None and one.event_type != bit.event_type:
                continue
            conditions = [] if one.event_type is not None else [of_type_text(one, bit.event_type)]
            conditions += [f"({chosen[n][one.place]})" for n in bit.predicates if n in chosen]
            terms[" and ".join(conditions) or "true"] = None
    if "true" in terms:
        return None
    # A type that is wanted without conditions makes the longer terms of that type idle, but Catalyst sees that.
    return " or ".join(f"({term})" for term in terms) or "false"


# What comes out


def _output(schema: pa.Schema, arrow: Mapping[str, pa.DataType]) -> pa.Schema:
    """The columns of the matches, every one of a type that Spark has."""
    fields = []
    for field in schema:
        kind = field.type
        if field.name == "evidence":
            kind = pa.list_(pa.struct(list(arrow.items())))  # of what can cross
        if pa.types.is_null(kind):
            raise TypeMismatchError(
                f"The type of the returned column {field.name!r} cannot be told from the DataFrame's schema.",
                hint="Cast it: return cast(… as string) as …",
            )
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)


def _constants(plan: Plan) -> dict[str, str]:
    """Columns that are the same in every row, as SQL: Catalyst writes them down, and only where somebody asks."""
    found = {"op": "'+'", "revision": "0"}
    if len(plan.patterns) == 1:
        found["pattern"] = literal(plan.patterns[0].name)
    if not any(pattern.pattern.report_timeouts for pattern in plan.patterns):
        found["kind"] = "'match'"
    return found


def _crossing(output: pa.Schema, constants: Iterable[str], hidden: bool) -> pa.Schema:
    """What executors give: without constants.

    Ids cross as the bytes they are, ``hidden`` until somebody asks for them. A stream's have to cross in any case, and
    Java is slower at writing their digits.
    """
    fields = [field for field in output if field.name not in constants]
    ids = pa.field("match_id", pa.binary() if hidden else pa.string())
    return pa.schema([ids if field.name == "match_id" else field for field in fields])


def carried_schema(schema: pa.Schema, counted: bool, types: int = 0) -> pa.Schema:
    """The same under names of ours, which no two columns share whatever case they are written in; and what is counted."""
    fields = [field.with_name(f"{OURS}out{i}") for i, field in enumerate(schema)]
    names = [*OF_A_BATCH, *(f"{OF_TYPE}{i}" for i in range(types))]
    counters = [pa.field(HITS, pa.struct([(name, pa.int64()) for name in names]))] if counted else []
    return pa.schema([*fields, *counters])


def spark_schema(schema: pa.Schema) -> st.StructType:
    fields = [st.StructField(f.name, to_spark(f.type), True) for f in schema]
    return st.StructType(fields)


def read_relations(relations: Mapping[str, object]) -> dict[str, list[tuple[object, ...]]]:
    """Relations for executors: rows in hand; a DataFrame would have to be collected, and that is the caller's to say."""
    out = {}
    for name, rows in relations.items():
        if hasattr(rows, "sparkSession"):
            raise BindingError(
                f"The relation {name!r} is a DataFrame; rows travel with the plan.",
                hint=f"Collect it where it is small: relations={{{name!r}: frame.toPandas()}}.",
            )
        out[name] = read_relation(name, rows)
    return out
