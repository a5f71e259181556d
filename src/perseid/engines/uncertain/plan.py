"""What the engine for uncertain streams is handed: patterns with their classes, and how their answers are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from perseid.engines.uncertain.streams import Known, Stream, Streams
from perseid.engines.uncertain.telling import EVERY, Telling
from perseid.errors import UnsupportedError
from perseid.lang import ast
from perseid.semantics import core as c
from perseid.semantics.classes import (
    Classified,
    Project,
    QueryClass,
    Reg,
    SafePlan,
    bound_column,
    classify,
    grounded,
    is_strict,
    key_constants,
    local_form,
    window_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

WAYS = " ways"
LONGEST = 512
"""How many steps back a window of a safe plan may reach: at each step it takes time that grows with their square."""


@dataclass(frozen=True)
class Component:
    """A column of what events are put together by; what it is called may differ by type of event."""

    name: str
    columns: Mapping[str, str] = field(default_factory=dict)

    def column(self, type_: str) -> str:
        return self.columns.get(type_, self.name)


@dataclass(frozen=True)
class Asked:
    """One pattern: its class, and what its events are put together by."""

    pattern: c.CorePattern
    classified: Classified
    unit: tuple[Component, ...]
    """Events that agree in these are a query of their own: first the columns of ``partition by``, then bound variables."""
    groups: int
    """How many of them answers are told by; over the rest they are combined."""
    types: frozenset[str] | None
    """The types its steps name; None where a step takes any."""
    window: int | None = None
    """Of a Safe one: how many steps back it is looked for, at each step anew; None where there is no bound."""

    @property
    def name(self) -> str:
        return self.pattern.name

    @property
    def named_types(self) -> frozenset[str]:
        """The types that steps name; these are all types of a Safe pattern."""
        return frozenset(step.kind.name for step in self.pattern.steps if isinstance(step.kind, ast.EventType))

    def memory(self, ways: bool) -> str:
        """What it is called where something is kept of it: of probabilities, or of its partial matches one by one."""
        return self.pattern.semantic_hash + (WAYS if ways else "")

    def asks(self, type_: str) -> bool:
        return self.types is None or type_ in self.types

    def hidden(self, streams: Streams) -> tuple[Stream, ...]:
        """The streams it asks whose steps depend on one another."""
        return tuple(part for part in streams.parts if part.hidden and self.asks(part.type))

    def is_sampled(self, streams: Streams) -> bool:
        """Is it never answered exactly?"""
        return self.classified.kind is QueryClass.UNSAFE or streams.sampling.always

    def looks_back(self, streams: Streams) -> bool:
        """Is its safe plan followed at each step over those that its window reaches back to?"""
        return self.window is not None and not self.is_sampled(streams)

    def is_single(self, streams: Streams) -> bool:
        """Is there at most one hidden chain to whatever is put together?"""
        hidden = self.hidden(streams)
        if len(hidden) > 1:
            return False
        return all({part.column(one.type) for part in self.unit} >= set(one.of) for one in hidden)

    def unsampled(self, streams: Streams) -> Stream | None:
        """A stream for which it cannot be sampled, if there is one.

        Worlds are drawn from all readings, or step by step; not from those up to each step, each time anew.
        """
        read = (part for part in self.hidden(streams) if part.known is Known.READ)
        return next((part for part in read if part.inference.name != "smooth"), None)

    def refuse_unsampled(self, streams: Streams, why: str | None = None) -> None:
        """That it can be sampled, which it has to be; or be looked for in intervals of time, of which as little is known."""
        part = self.unsampled(streams)
        if part is None:
            return
        what = f"has to be sampled ({why or self._said}), and the values behind the readings of {part.type} cannot be"
        if why is None and self.classified.kind is QueryClass.SAFE and not streams.sampling.always:
            what = f"is looked for in intervals of time ({self._said}), and what is behind the readings of {part.type} cannot be"
        raise UnsupportedError(
            f"Pattern {self.name} {what} with inference={str(part.inference)!r}.",
            hint="Say correlations=False, which takes steps one by one; or of finished data inference='smooth'.",
        )

    @property
    def _said(self) -> str:
        return f"{self.classified.kind.value}: {self.classified.why}"


@dataclass(frozen=True)
class UncertainPlan:
    """Patterns over an uncertain stream."""

    asked: tuple[Asked, ...]
    streams: Streams
    schema: pa.Schema
    """The schema of the rows that come out."""
    telling: Telling = EVERY
    shards: int = 1
    max_state: int = 1 << 28
    apart: bool = False
    """Whether bindings are told one by one, to be combined behind a second shuffle."""

    def refuse_on_streams(self) -> None:
        """What needs finished data."""
        for part in self.streams.parts:
            if part.known is not Known.READ:
                continue
            way = part.inference.name
            if part.inference.looks_back:
                raise UnsupportedError(
                    f"inference={str(part.inference)!r} of {part.type} needs all readings there will be, and a stream goes on.",
                    hint="Use 'filter' or 'lag(5)', or ask finished data.",
                )
            if way == "particles":
                raise UnsupportedError(
                    "Particles are for finished data.", hint="On a stream use 'filter', which is exact."
                )
            if way == "lag" and self.streams.every is None:
                raise UnsupportedError(
                    "On a stream lag counts steps, and nothing says how long one is.", hint="Say it: every='1 second'."
                )
        for one in self.asked:
            if one.is_sampled(self.streams) or one.window is not None:
                one.refuse_unsampled(self.streams)
            elif one.classified.kind is QueryClass.SAFE:
                raise UnsupportedError(
                    f"Pattern {one.name} is Safe ({one.classified.why}), and without a window that needs finished data.",
                    hint="Say how far it reaches back: within 1 minute. Or ask a finished DataFrame, or match(…); or sample it: "
                    "ps.beliefs(…, method='sample').",
                )
            # Of what is sampled each chain has a value of its own in every world, and of a window all tables are kept; numbers of
            # matches are carried beside one value.
            carried = not (one.is_sampled(self.streams) or one.window is not None) or self.telling.counts
            if carried and not one.is_single(self.streams):
                names = " and ".join(part.type for part in one.hidden(self.streams))
                raise UnsupportedError(
                    f"Pattern {one.name} may carry several chains of {names} in one group, which on a stream is not kept.",
                    hint="Partition by their key, or take steps one by one: ps.beliefs(…, correlations=False).",
                )

    def refuse_apart(self) -> None:
        """What needs the answers of all bindings, which on Spark meet behind everything that is kept."""
        for one in self.asked:
            if one.groups < len(one.unit) and self.telling.lasts:
                raise UnsupportedError(
                    f"Pattern {one.name} is asked of anyone, whose answers meet behind what tells {self.telling.how}.",
                    hint="Use tell=ps.above(…), partition by, or match(…).",
                )


def ask(pattern: c.CorePattern, streams: Streams) -> Asked:
    """A pattern with its class."""
    keys = streams.keys
    pattern = local_form(pattern)
    columns = {path.parts for path in pattern.partition}
    places = {
        name: {path.parts for step in pattern.steps for path, own in step.unify if own == name}
        for name in pattern.unified
    }
    # A variable on a column of the partition is a constant in each group.
    pattern = grounded(
        pattern, (name for name, own in places.items() if len(own) == 1 and own <= columns), others=False
    )
    classified, window = _windowed(pattern, streams, classify(pattern, keys))
    kinds = {step.kind for step in pattern.steps}
    types = (
        None
        if ast.AnyEvent() in kinds or is_strict(pattern)
        else frozenset(k.name for k in kinds if isinstance(k, ast.EventType))
    )
    if types is None and classified.plan is not None:
        # A plan puts types of events apart; events of every type count here.
        why = f"{classified.why}, which is not followed: events of every type count"
        classified, window = replace(classified, kind=QueryClass.UNSAFE, why=why, plan=None), None
    unit = [Component(path.parts[0]) for path in pattern.partition]
    groups = len(unit)
    if classified.bound:
        unit += [Component(name, bound_column(pattern, keys, name)) for name in classified.bound]
    if classified.kind is not QueryClass.UNSAFE:
        pattern = grounded(pattern, classified.bound)
    return Asked(pattern, classified, tuple(unit), groups, types, window)


def _windowed(pattern: c.CorePattern, streams: Streams, classified: Classified) -> tuple[Classified, int | None]:
    """The class of a pattern, and where its safe plan is followed over windows how many steps back these reach.

    That has to follow from what is declared: a stream cannot go back to what it said before.
    """
    lasts = window_of(pattern)
    if classified.plan is None or lasts is None:
        return classified, None
    steps = lasts // (streams.every or lasts or 1)
    why = f"its window has more than {LONGEST:,} steps" if steps > LONGEST else None
    why = why or _not_followed(pattern, streams, classified.plan, frozenset(), inside=False)
    if why is None:
        return classified, steps
    return replace(
        classified, kind=QueryClass.UNSAFE, why=f"{classified.why}, which is not followed: {why}", plan=None
    ), None


def _constant_columns(steps: Sequence[c.CoreStep], part: Stream) -> set[str]:
    """Columns of a stream's key that have one and the same constant in all of these steps."""
    found = [key_constants(step, part.keys) for step in steps]
    columns = set[str]()
    for column in found[0]:
        constants = {known.get(column) for known in found}
        if len(constants) == 1 and len(found[0][column]) == 1:
            columns.add(column)
    return columns


def _not_followed(
    pattern: c.CorePattern, streams: Streams, plan: SafePlan, bound: frozenset[str], *, inside: bool
) -> str | None:
    """Why a safe plan is not followed over these streams; None where it is. ``inside`` of a plan that goes on."""
    if isinstance(plan, Project):
        return _not_followed(pattern, streams, plan.plan, bound | {plan.variable}, inside=inside)
    steps = [pattern.steps[number] for number in (plan.steps if isinstance(plan, Reg) else (plan.step,))]
    hidden = [part for part in streams.parts if part.hidden and any(s.kind == ast.EventType(part.type) for s in steps)]
    if isinstance(plan, Reg):
        columns = {path.parts[0] for path in pattern.partition}
        for part in hidden if len(steps) > 1 or steps[0].repeated else ():
            own = columns | {bound_column(pattern, streams.keys, name).get(part.type, "") for name in bound}
            own |= _constant_columns([step for step in steps if step.kind == ast.EventType(part.type)], part)
            if len(hidden) > 1 or not own >= set(part.of):
                return f"several chains of {part.type} may meet in one binding"
        return None
    if inside and hidden:
        return f"steps of {hidden[0].type} depend on one another, and more follows"
    if inside and steps[0].must:
        return f"{steps[0].name or 'a step'} has a test, and more follows"
    return _not_followed(pattern, streams, plan.plan, bound, inside=True)
