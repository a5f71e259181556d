"""Validates patterns against a stream: binding errors, raised before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from perseid.compile.plan import Plan
from perseid.deprecated import warn_deprecated
from perseid.engines.disorder.strategy import DEFAULT_PUNCTUATION, Conservative
from perseid.engines.sequence.plan import SequencePlan
from perseid.engines.sequence.schema import check_conditions, returned_type
from perseid.errors import TypeMismatchError, UnknownNameError, UnsupportedError, is_internal, nearest
from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.runtime.query import TableColumn, TableSchema
from perseid.runtime.watermark import ARRIVAL
from perseid.semantics import types as t
from perseid.semantics.detection import expressions_of


def require_streamable(plan: Plan, order: str) -> None:
    """Raise an error for patterns that cannot be evaluated in the order of arrival."""
    fed = next((pattern for pattern in plan.patterns if pattern.feeds_on), None)
    if order == ARRIVAL and fed is not None:
        raise UnsupportedError(
            f"Pattern {fed.name} consumes matches of {', '.join(fed.feeds_on)}; with order='arrival', a match that is "
            "emitted after a later event would be ordered after it.",
            hint="Use order='watermark', or two queries: write the matches of the first, and read them in the second.",
        )
    if order == ARRIVAL and len(plan.routes) > 1:
        raise UnsupportedError(
            f"order='arrival' relies on the order within a key, but these patterns have {len(plan.routes)} "
            "partitionings.",
            hint="Use a separate query for the patterns of each partitioning.",
        )


def require_suppressible(plan: Plan) -> None:
    """Raise an error for a pattern that suppresses matches of several keys, which are in different shards."""
    for pattern in plan.patterns:
        keys = {".".join(path.parts) for path in pattern.pattern.partition}
        suppress = pattern.pattern.suppress
        if suppress is not None and suppress.by and not keys <= set(suppress.by):
            raise UnsupportedError(
                f"Pattern {pattern.name} suppresses by {', '.join(suppress.by)}, across keys; "
                "on Spark, matches of different keys are found in different tasks.",
                hint=f"Add the key: suppress … by {', '.join([*sorted(keys - set(suppress.by)), *suppress.by])}; "
                "or drop the matches from the output DataFrame.",
            )


def require_known_columns(plan: Plan, schemas: Sequence[TableSchema], columns: Mapping[str, TableColumn]) -> None:
    """Raise an error for a column that no table has, and for one that rows cannot be partitioned or ordered by."""
    _require_columns(plan, schemas, columns)
    for pattern in plan.patterns:
        kinds = [step.kind for step in pattern.pattern.steps]
        named = {kind.name for kind in kinds if isinstance(kind, ast.EventType)}
        for path in pattern.pattern.partition:
            name = ".".join(path.parts)
            column = _field(path.parts, columns)
            if column is None:
                raise UnknownNameError(
                    f"Column {name!r} not found in the input; pattern {pattern.name} is partitioned by it.",
                    span=path.span,
                )
            if column.type is None or pa.types.is_map(column.type):
                raise TypeMismatchError(f"Cannot partition by column {name!r}: unsupported type {column.type_name}.")
            for schema in schemas:
                if schema.event_type in named and path.parts[0] not in schema.columns:
                    raise UnknownNameError(
                        f"Column {name!r} not found in {schema.event_type}; pattern {pattern.name} is partitioned by it.",
                        span=path.span,
                        nearest=nearest(path.parts[0], schema.columns),
                        hint=f"Name the key column of {schema.event_type}: key={{{schema.event_type!r}: …, …}}.",
                    )
    for schema in schemas:
        for name in schema.order_by:
            if schema.columns[name].type is None:
                raise TypeMismatchError(
                    f"Cannot order by column {name!r}: unsupported type {schema.columns[name].type_name}."
                )


def _require_columns(plan: Plan, schemas: Sequence[TableSchema], columns: Mapping[str, TableColumn]) -> None:
    of_matches = _columns_of_matches(plan)
    steps = list(dict.fromkeys(step.name for one in plan.patterns for step in one.pattern.steps if step.name))
    for column in plan.columns:
        if column.name not in columns and column.name not in of_matches:
            expressions = [expr for pattern in plan.patterns for expr in expressions_of(pattern.pattern)]
            span = next((ref.span for ref in _refs(expressions) if column.name in ref.parts[:2] and ref.span), None)
            known = [one for one in columns if not is_internal(one)]
            raise UnknownNameError(
                f"Column {column.name!r} not found in {'any input' if len(schemas) > 1 else 'the DataFrame'}.",
                span=span,
                nearest=nearest(column.name, [*columns, *steps]),
                hint=f"Available: {', '.join(known)}." + (f" Steps: {', '.join(steps)}." if steps else ""),
            )  # fmt: skip


def _field(parts: Sequence[str], columns: Mapping[str, TableColumn]) -> TableColumn | None:
    """The column or field at the end of a path."""
    column = columns.get(parts[0])
    for part in parts[1:]:
        column = None if column is None else column.fields.get(part)
    return column


def _columns_of_matches(plan: Plan) -> set[str]:
    """Columns of matches that feed patterns, except those that a pattern over events alone reads."""
    consumed = {name for pattern in plan.patterns for name in pattern.feeds_on}
    found = {"match_id"} if consumed else set()
    for pattern in plan.patterns:
        if pattern.name in consumed:
            found |= {name for name, _ in pattern.pattern.returns}
    plain = [expr for pattern in plan.patterns if not pattern.feeds_on for expr in expressions_of(pattern.pattern)]
    return found - {part for ref in _refs(plain) for part in ref.parts[:2]}


def require_typed(plan: Plan, compiled: SequencePlan, types: Mapping[str, t.Type]) -> None:
    """Raise an error for an expression that is null in every row, given the types of the columns."""
    for declared, pattern in zip(plan.patterns, compiled.patterns, strict=True):
        core = pattern.pattern.pattern
        known = {**types, **compiled.types_of_matches(pattern)}
        check_conditions(declared.pattern, known)
        for (name, formula, _), (_, expr) in zip(pattern.outputs, core.returns, strict=True):
            if formula is None and name not in pattern.output_columns:
                returned_type(expr, core, known)


def require_punctuations(strategy: Conservative, schemas: Sequence[TableSchema], plan: Plan) -> str:
    """Return the column of punctuations.

    Raise an error unless the tables have the columns of punctuations and all patterns share one partitioning.
    """
    if len(plan.routes) > 1:
        raise UnsupportedError(
            f"disorder='conservative' reads punctuations per key, but these patterns have {len(plan.routes)} "
            "partitionings.",
            hint="Use a separate query for the patterns of each partitioning.",
        )
    column = punctuation_column(strategy, schemas)
    for name in (column, *([] if strategy.source is None else [strategy.source])):
        found = [one.columns[name] for one in schemas if name in one.columns]
        if not found:
            raise UnknownNameError(
                f"Column {name!r} not found in the input; disorder='conservative' reads punctuations from it.",
                nearest=nearest(name, schemas[0].columns),
                hint="Use ps.disorder.Conservative(punctuation=…, source=…) to name the columns; the column of "
                "punctuations is 'all' or 'key' in punctuations, and null in events.",
            )
        if not all(column.type is not None and pa.types.is_string(column.type) for column in found):
            raise TypeMismatchError(f"Punctuation column {name!r}: expected a string column.")
    return column


def punctuation_column(strategy: Conservative, schemas: Sequence[TableSchema]) -> str:
    """Return the column of punctuations; the default of 0.0, ``promise``, is deprecated."""
    columns = {name for one in schemas for name in one.columns}
    if strategy.punctuation == DEFAULT_PUNCTUATION and DEFAULT_PUNCTUATION not in columns and "promise" in columns:
        warn_deprecated("Column 'promise' as the default column of punctuations", "Conservative(punctuation='promise')")
        return "promise"
    return strategy.punctuation


def _refs(expressions: Iterable[ex.Expr]) -> Iterable[ex.Ref]:
    return (e for expr in expressions for e in ex.walk(expr) if isinstance(e, ex.Ref))
