"""What the engine for live models is handed: queries over a metamodel, and groups of patterns over their events."""

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
from perseid.semantics.model_queries import Queries
from perseid.semantics.model_steps import Watched

ROLES = ("change", "element", "kind", "attribute", "value", "target")
"""What a row of changes says: what is done to which element, and what that takes."""


@dataclass(frozen=True)
class Asked:
    """Patterns that are asked of the same events of a model."""

    watched: Watched
    sequence: SequencePlan


@dataclass(frozen=True)
class ModelsPlan:
    """Queries over models, and the patterns over what they find and lose."""

    queries: Queries
    key: tuple[str, ...]
    """Columns that tell models apart."""
    order_by: tuple[str, ...]
    """Columns that decide among changes of one time."""
    types: Mapping[str, pa.DataType]
    """Arrow's types of the columns that come in: the roles of a change or what a frame sets, and the key."""
    asked: tuple[Asked, ...]
    schema: pa.Schema
    """The Arrow schema of the rows that come out."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """Columns of ordinary events beside the models, and as which of the columns that come in they come."""
    frames: FrameShape | None = None
    """What rows set where they are frames; None where they are changes."""
    shards: int = 1
    max_state: int = 1 << 28
    budget: SearchBudget = DEFAULT_BUDGET
    """Limits of the search of each pattern, for one partition in one call."""

    @cached_property
    def digest(self) -> str:
        """What a state depends on: what models may contain, what is asked of them, and what of it is told."""
        frames = () if self.frames is None else (self.frames.said(),)
        return self.digest_of(*(one.watched.said() for one in self.asked), *frames)

    def digest_of(self, *said: object) -> str:
        """Of the models and of what is said beside: by texts, which stay as they are where the code that reads them does not."""
        models = print_models(ModelFile(self.queries.kinds.metamodel, tuple(self.queries.queries.values())))
        return hashlib.blake2b(repr((models, self.key, *said)).encode(), digest_size=16).hexdigest()

    @cached_property
    def told(self) -> tuple[str, ...]:
        """The queries whose matches are events of some pattern; the others only help these."""
        return tuple(dict.fromkeys(name for one in self.asked for name in one.watched.queries))

    @property
    def element(self) -> pa.DataType:
        """The type of names of nodes."""
        return element_type(self.types, self.frames)

    @property
    def frame_columns(self) -> tuple[str, ...]:
        """The columns that frames come with: those that decide nothing are left behind."""
        return () if self.frames is None else tuple(name for name in self.frames.sets if name in self.types)

    def over(self, asked: Asked) -> SequencePlan:
        """The plan of a group, with what is said of the stream."""
        return replace(asked.sequence, shards=self.shards, max_state=self.max_state, budget=self.budget)


def make_plan(
    groups: Sequence[tuple[Watched, Plan]],
    queries: Queries,
    types: Mapping[str, pa.DataType],
    *,
    key: Sequence[str] = (),
    order_by: Sequence[str] = (),
    beside: Mapping[str, str] | None = None,
    frames: FrameShape | None = None,
) -> ModelsPlan:
    """Compiled patterns over the events of models whose changes, or frames, have columns of these types."""
    element = element_type(types, frames)
    asked, schema = [], None
    for watched, plan in groups:
        if any(pattern.feeds_on for pattern in plan.patterns):
            raise UnsupportedError(
                "A pattern over a model that takes matches of another runs in one process.",
                hint="Use match(…), or write the other pattern's steps in its place.",
            )
        arrow = arrow_columns(queries, watched, element, key) | {name: types[name] for name in key}
        known = {name: arrow_type(kind) for name, kind in arrow.items()}
        sequence = make_linked_plan(plan, known, arrow=arrow)
        asked.append(Asked(watched, sequence))
        schema = sequence.schema if schema is None else join_schemas(schema, sequence.schema)
    whole = schema or pa.schema([])
    return ModelsPlan(
        queries, tuple(key), tuple(order_by), dict(types), tuple(asked), whole, dict(beside or {}), frames
    )


def element_type(types: Mapping[str, pa.DataType], frames: FrameShape | None) -> pa.DataType:
    """The type of names of nodes: frames do not name them, what their models begin with does."""
    return types["element"] if frames is None else frames.element
