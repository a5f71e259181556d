"""Plan of the engine for live models: queries over a metamodel, and groups of patterns over their events."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from perseid.compile.plan import Plan
from perseid.engines.models.events import arrow_columns
from perseid.engines.models.frame_rows import FrameShape
from perseid.engines.sequence.columns import arrow_type
from perseid.engines.sequence.engine import make_linked_plan
from perseid.engines.sequence.plan import SequencePlan
from perseid.engines.sequence.schema import join_schemas
from perseid.errors import UnsupportedError
from perseid.lang.model_printer import print_models
from perseid.lang.models import ModelFile
from perseid.runtime.search_budget import DEFAULT_BUDGET, SearchBudget
from perseid.semantics.graphs import Change, Element
from perseid.semantics.model_queries import Queries
from perseid.semantics.model_steps import EventStreamFilter

ROLES = ("change", "element", "kind", "attribute", "value", "target")
"""Roles of the columns of a change: the action, its element, and its arguments."""


def role_values(change: Change) -> tuple[str, Element, str | None, str | None, object, Element | None]:
    """Return the values of a change in the order of :data:`ROLES`."""
    return change.action, change.element, change.kind, change.attribute, change.value, change.target


@dataclass(frozen=True)
class PatternGroup:
    """Patterns that read the same events of a model."""

    watched: EventStreamFilter
    sequence: SequencePlan


@dataclass(frozen=True)
class ModelsPlan:
    """Queries over models, and the patterns over their match events."""

    queries: Queries
    key: tuple[str, ...]
    """Columns of the model key."""
    order_by: tuple[str, ...]
    """Columns that order changes of one time."""
    types: Mapping[str, pa.DataType]
    """Arrow types of the input columns: the roles of a change or the attributes of a frame, and the key."""
    groups: tuple[PatternGroup, ...]
    schema: pa.Schema
    """The Arrow schema of the output rows."""
    event_columns: Mapping[str, str] = field(default_factory=dict)
    """Columns of ordinary events next to the models, each with its input column."""
    frames: FrameShape | None = None
    """Shape of the frames if rows are frames; None if they are changes."""
    shards: int = 1
    max_state: int = 1 << 28
    budget: SearchBudget = DEFAULT_BUDGET
    """Limits of the search of each pattern, for one partition in one call."""

    @cached_property
    def digest(self) -> str:
        """Hash of all that a state depends on: metamodel, queries, key, and the events that patterns read."""
        frames = () if self.frames is None else (self.frames.signature(),)
        return self.digest_of(*(one.watched.signature() for one in self.groups), *frames)

    def digest_of(self, *parts: object) -> str:
        """Hash the models and other values by their text, which is stable across changes of the code that parses it."""
        models = print_models(ModelFile(self.queries.kinds.metamodel, tuple(self.queries.queries.values())))
        return hashlib.blake2b(repr((models, self.key, *parts)).encode(), digest_size=16).hexdigest()

    @cached_property
    def reported_queries(self) -> tuple[str, ...]:
        """The queries with matches that are events of some pattern; other queries only support these."""
        return tuple(dict.fromkeys(name for one in self.groups for name in one.watched.queries))

    @property
    def element(self) -> pa.DataType:
        """The type of node names."""
        return element_type(self.types, self.frames)

    @property
    def frame_columns(self) -> tuple[str, ...]:
        """The input columns of frames, without those that affect no event."""
        return () if self.frames is None else tuple(name for name in self.frames.sets if name in self.types)

    def over(self, group: PatternGroup) -> SequencePlan:
        """Return the plan of a group with the options of the stream."""
        return replace(group.sequence, shards=self.shards, max_state=self.max_state, budget=self.budget)


def make_plan(
    groups: Sequence[tuple[EventStreamFilter, Plan]],
    queries: Queries,
    types: Mapping[str, pa.DataType],
    *,
    key: Sequence[str] = (),
    order_by: Sequence[str] = (),
    event_columns: Mapping[str, str] | None = None,
    frames: FrameShape | None = None,
) -> ModelsPlan:
    """Plan compiled patterns over the events of models; ``types`` are the column types of changes or frames."""
    element = element_type(types, frames)
    pattern_groups, schema = [], None
    for watched, plan in groups:
        if any(pattern.feeds_on for pattern in plan.patterns):
            raise UnsupportedError(
                "A pattern over a model that uses matches of another pattern is unsupported on Spark.",
                hint="Use local rows, or write the steps of the other pattern in its place.",
            )
        arrow = arrow_columns(queries, watched, element, key) | {name: types[name] for name in key}
        known = {name: arrow_type(kind) for name, kind in arrow.items()}
        sequence = make_linked_plan(plan, known, arrow=arrow)
        pattern_groups.append(PatternGroup(watched, sequence))
        schema = sequence.schema if schema is None else join_schemas(schema, sequence.schema)
    output_schema = schema or pa.schema([])
    return ModelsPlan(
        queries,
        tuple(key),
        tuple(order_by),
        dict(types),
        tuple(pattern_groups),
        output_schema,
        dict(event_columns or {}),
        frames,
    )


def element_type(types: Mapping[str, pa.DataType], frames: FrameShape | None) -> pa.DataType:
    """Return the type of node names: that of the element column, or for frames, that of the snapshot."""
    return types["element"] if frames is None else frames.element
