"""Safe plans (section 3.3): a probability for every interval of time, built from those of its parts.

An interval has the probability that a query is true at none of its steps. For a prefix without free variables an automaton
gives it, with all worlds left out that have completed it; for a variable it is the product over its values, which are
independent; for ``q; g`` it follows from Equation 2: when the last event that fits g came before the interval, and when the last
came in it. Equation 3 takes these for independent, and so g has to draw on streams that q does not.

As printed, the recursion for intervals of an automaton multiplies two probabilities given its state as if the first did not
depend on the state: here "not yet true" is carried jointly with it. And the event before the interval and that in it do not
share a step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from perseid.engines.codes import key_codes
from perseid.engines.contract import Rows
from perseid.engines.hashing import hash_columns
from perseid.engines.rows import take_rows
from perseid.engines.sequence.arrangement import comparable
from perseid.engines.uncertain import kernel as k
from perseid.engines.uncertain.answers import Answers
from perseid.engines.uncertain.automaton import Automaton, TooManyStates
from perseid.engines.uncertain.exact import Weights, move
from perseid.engines.uncertain.plan import Asked, Component
from perseid.engines.uncertain.reading import Reader, Units, unit_columns
from perseid.engines.uncertain.situations import chooses
from perseid.engines.uncertain.streams import Streams
from perseid.engines.uncertain.traces import NEVER, Lot, gather, lots, material, steps_of
from perseid.lang import ast
from perseid.semantics import core as c
from perseid.semantics.classes import Project, Reg, SafePlan, Then, bound_column, grounded

BLOCK = 1 << 21
"""Steps that the kernel is given at once: an interval is asked for from each of its first steps."""


def safely(asked: Asked, streams: Streams, rows: Rows) -> Answers:
    """The answers of a Safe query, where all rows have come."""
    asked.refuse_unsampled(streams)
    plan = asked.classified.plan
    assert plan is not None
    groups = Units([unit_columns(rows, asked.unit[: asked.groups])], [len(rows)])
    steps = steps_of(rows, streams.every)
    told: list[tuple[Any, Any, Any]] = []
    for group in range(len(groups)):
        own = np.flatnonzero(groups.of[0] == group)
        evaluation = _Evaluation(asked, streams, take_rows(rows, own), np.unique(steps[own]))
        probability = evaluation.points(plan, evaluation.rows)
        told.append((np.full(len(probability), group), evaluation.grid, probability))
    group_, step, found = (np.concatenate(parts) for parts in zip(*told, strict=True))
    return Answers(groups.keys, group_, step, found, np.zeros(len(found)), np.zeros(len(found), bool))


@dataclass
class _Evaluation:
    """A plan over the rows of one group; probabilities are told on the grid of all its steps."""

    asked: Asked
    streams: Streams
    rows: Rows
    grid: Any

    def __post_init__(self) -> None:
        self._readers: dict[tuple[Any, ...], Reader] = {}

    # plans

    def points(self, plan: SafePlan, rows: Rows) -> Any:
        """By step: the probability that the query is true there."""
        match plan:
            case Reg():
                return self._automaton(plan, rows, points=True)
            case Project():
                return 1.0 - self._anyone(plan, rows, points=True)
            case Then():
                return self._then_points(plan, rows)

    def never(self, plan: SafePlan, rows: Rows) -> Any:
        """By first and last step: the probability that the query is true at none from one to the other."""
        match plan:
            case Reg():
                return self._automaton(plan, rows, points=False)
            case Project():
                return self._anyone(plan, rows, points=False)
            case Then():
                return self._then_never(plan, rows)

    def _anyone(self, plan: Project, rows: Rows, *, points: bool) -> Any:
        count = len(self.grid)
        out = np.ones(count) if points else np.ones((count, count))
        for own in self._bindings(plan, rows):
            out *= 1.0 - self.points(plan.plan, own) if points else self.never(plan.plan, own)
        return out

    def _bindings(self, plan: Project, rows: Rows) -> Iterator[Rows]:
        """The rows of every value of a variable; in an order of the values' own."""
        own = _of_types(rows, self._types(plan))
        columns = bound_column(self.asked.pattern, self.streams.keys, plan.variable)
        (column,) = unit_columns(own, [Component(plan.variable, columns)])
        there = np.flatnonzero(~np.asarray(column.is_null()))
        own, column = take_rows(own, there), column.take(there)
        codes, _ = key_codes([comparable(column)], len(own))
        _, first, which = np.unique(codes, return_index=True, return_inverse=True)
        for value in np.argsort(hash_columns([column.take(first)], rows=len(first)), kind="stable"):
            yield take_rows(own, np.flatnonzero(which == value))

    # q; g

    def _then_points(self, plan: Then, rows: Rows) -> Any:
        """Equation 2 for a single step: an event of g passes there, and q was true since the last one that fits."""
        true = 1.0 - self.never(plan.plan, _of_types(rows, self._types_below(plan.plan)))
        none, nor = self._apart(plan, rows)
        count = len(self.grid)
        out = np.zeros(count)
        for t in range(1, count):
            # By the step after the last event that fits: none of them up to t, and one that passes at t.
            since = none[: t + 1, t] - nor[: t + 1, t]
            out[t] = since[0] * true[0, t - 1] + float(np.diff(since) @ true[:t, t - 1])
        return out

    def _apart(self, plan: Then, rows: Rows) -> tuple[Any, Any]:
        """By step s and step t behind it: that nothing fits g from s to before t; and besides, that nothing passes at t."""
        count = len(self.grid)
        none, nor = np.ones((count, count)), np.ones((count, count))
        for told, gone in self._lots(c.Take(plan.step), _of_types(rows, self._types(plan)), fits=plan.step):
            before = 1.0 - (np.cumsum(gone, axis=1) - gone)
            none *= before
            nor *= before - told
        return none, nor

    def _then_never(self, plan: Then, rows: Rows) -> Any:
        """Equation 3, for an event g that has no test behind it, whose streams are independent from step to step."""
        step = self.asked.pattern.steps[plan.step]
        hidden = [part for part in self.asked.hidden(self.streams) if ast.EventType(part.type) == step.kind]
        if step.must or hidden:
            raise TooManyStates
        true = 1.0 - self.never(plan.plan, _of_types(rows, self._types_below(plan.plan)))
        _, nor = self._apart(plan, rows)
        quiet = np.diag(nor)  # nothing fits at a step
        count = len(self.grid)
        reached = np.zeros((count, count))
        """By first step of an interval and step b in it: that q is true from the last event before the interval to before b."""
        last = np.zeros(count)
        first = 1.0
        for begin in range(count):
            reached[begin, 1:] = last[: count - 1] @ true[: count - 1, : count - 1] + first * true[0, : count - 1]
            last *= quiet[begin]
            last[begin] = 1.0 - quiet[begin]
            first *= quiet[begin]
        out = np.ones((count, count))
        for begin in range(count):
            so_far = 0.0
            for end in range(begin, count):
                so_far = quiet[end] * so_far + (1.0 - quiet[end]) * reached[begin, end]
                out[begin, end] = 1.0 - so_far
        return out

    # automata

    def _types(self, plan: SafePlan) -> set[str]:
        """The types of a plan's own steps; of a sequence, of what follows."""
        match plan:
            case Reg():
                numbers: tuple[int, ...] = plan.steps
            case Then():
                numbers = (plan.step,)
            case Project():
                return self._types_below(plan.plan)
        kinds = (self.asked.pattern.steps[number].kind for number in numbers)
        return {kind.name for kind in kinds if isinstance(kind, ast.EventType)}

    def _types_below(self, plan: SafePlan) -> set[str]:
        if isinstance(plan, Then):
            return self._types(plan) | self._types_below(plan.plan)
        return self._types(plan)

    def _automaton(self, plan: Reg, rows: Rows, *, points: bool) -> Any:
        body = self.asked.pattern.body
        if isinstance(body, c.Seq) and plan.items < len(body.items):
            body = replace(body, items=body.items[: plan.items], hops=body.hops[: plan.items - 1])
            body = body.items[0] if len(body.items) == 1 else body
        count = len(self.grid)
        rows = _of_types(rows, self._types(plan))
        if points:
            return (
                1.0 - np.prod([1.0 - told for told in self._told(body, rows)], axis=0) if len(rows) else np.zeros(count)
            )
        out = np.ones((count, count))
        for _, gone in self._lots(body, rows):
            out *= 1.0 - np.cumsum(gone, axis=1)
        return out

    def _told(self, body: c.Core, rows: Rows) -> Iterator[Any]:
        for reader, lot in self._prepared(body, rows):
            moved = move(
                reader.automaton, lot.mode, lot.steps, lot.hidden, Weights.fresh(1, lot.values), values=lot.values
            )
            out = np.zeros(len(self.grid))
            out[np.searchsorted(self.grid, lot.step)] = moved.told
            yield out

    def _lots(self, body: c.Core, rows: Rows, fits: int | None = None) -> Iterator[tuple[Any, Any]]:
        """Of everything that is independent: by first step from which on worlds are absorbed, and step, what completes the
        query there and what is absorbed; on the grid. With ``fits``, all worlds are absorbed in which an event fits that step."""
        count = len(self.grid)
        for reader, lot in self._prepared(body, rows):
            own = len(lot.step)
            told, gone = np.zeros((own, own)), np.zeros((own, own))
            for low in range(0, own, max(1, BLOCK // max(own, 1))):
                high = min(own, low + max(1, BLOCK // max(own, 1)))
                steps = _from_each(lot.steps, np.arange(low, high), own)
                given = Weights.fresh(high - low, lot.values)
                absorbing = None if fits is None else _fitting(fits)
                hidden = lot.hidden
                if lot.mode >= k.MODEL:
                    hidden = hidden._replace(letters=np.repeat(hidden.letters, high - low, axis=0))
                moved = move(reader.automaton, lot.mode, steps, hidden, given, values=lot.values, absorbing=absorbing)
                told[low:high] = moved.told.reshape(high - low, own)
                gone[low:high] = moved.gone.reshape(high - low, own)
            places = np.searchsorted(self.grid, lot.step)
            whole_told, whole_gone = np.zeros((count, count)), np.zeros((count, count))
            if own:
                # An interval that begins between two of its steps begins, for it, with the next.
                first = np.searchsorted(places, np.arange(count))
                inside = np.flatnonzero(first < own)
                whole_told[np.ix_(inside, places)] = told[first[inside]]
                whole_gone[np.ix_(inside, places)] = gone[first[inside]]
            early = np.tril(np.ones((count, count), bool), -1)
            whole_told[early] = 0.0
            whole_gone[early] = 0.0
            yield whole_told, whole_gone

    def _prepared(self, body: c.Core, rows: Rows) -> Iterator[tuple[Reader, Lot]]:
        """The rows of a query without variables, put apart where they are independent and hidden."""
        pattern = grounded(replace(self.asked.pattern, body=body), self.asked.pattern.unified)
        types = frozenset(rows.kind_names[code] for code in np.unique(rows.kinds) if code >= 0)
        alone = isinstance(body, c.Take)
        hidden = [part for part in self.streams.parts if part.hidden and part.type in types]
        unit = tuple(Component(name) for part in hidden for name in part.of) if alone else ()
        asked = Asked(pattern, self.asked.classified, unit, len(unit), types)
        if len(hidden) > 1:
            raise TooManyStates
        key = (body, tuple(sorted(types)))
        if key not in self._readers:
            self._readers[key] = Reader(Automaton(pattern, rows.relations, elapsed=self.streams.every or 0))
        reader = self._readers[key]
        given, _ = gather(self.streams, rows)
        found = material(asked, self.streams, reader, given)
        if not alone and any(len(np.unique(entries.chain)) > 1 for entries in found.entries):
            raise TooManyStates
        if not alone and any(len(np.unique(read.chains.hashes)) > 1 for read in found.read):
            raise TooManyStates
        for lot in lots(found, np.full(len(found.units), NEVER), given.numbered):
            for group in range(len(lot.groups)):
                yield reader, _one(lot, group)


def _one(lot: Lot, group: int) -> Lot:
    """One group of a lot."""
    low, high = int(lot.steps.offsets[group]), int(lot.steps.offsets[group + 1])
    steps = lot.steps._replace(
        offsets=np.array([0, high - low]),
        absorbs=np.array([high - low]),
        rest=lot.steps.rest[:1],
        ends=lot.steps.ends[:1],
        **{name: getattr(lot.steps, name)[low:high] for name in _BY_STEP},
    )
    hidden = lot.hidden
    if lot.mode >= k.MODEL:
        hidden = hidden._replace(letters=hidden.letters[group : group + 1])
    return replace(lot, groups=lot.groups[group : group + 1], step=lot.step[low:high], steps=steps, hidden=hidden)


_BY_STEP = ("idle", "afresh", "still", "others", "others_end", "entries", "entries_end", "at")


def _from_each(steps: k.Steps, begins: Any, count: int) -> k.Steps:
    """The same steps once for each beginning, from which on worlds are absorbed."""
    many = len(begins)
    return steps._replace(
        offsets=np.arange(many + 1) * count,
        absorbs=np.arange(many) * count + begins,
        rest=np.zeros(many, np.int64),
        ends=np.zeros(many, bool),
        **{name: np.tile(getattr(steps, name), many) for name in _BY_STEP},
    )


def _fitting(step: int) -> Any:
    """With which letters an event fits a step."""

    def absorbing(automaton: Automaton) -> Any:
        out = np.zeros(automaton.done.shape, np.bool_)
        for number, letter in enumerate(automaton.letters):
            out[:, number] = any(bits & chooses(step) for bits, _ in letter)
        return out

    return absorbing


def _of_types(rows: Rows, types: set[str]) -> Rows:
    wanted = np.array([*(name in types for name in rows.kind_names), False])[rows.kinds]
    return rows if wanted.all() else take_rows(rows, np.flatnonzero(wanted))
