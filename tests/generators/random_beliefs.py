"""Random uncertain streams for random patterns: as chains for the oracle of possible worlds, as rows for the engine.

Everything follows from a seed. Chains are short, so that all worlds can be counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from perseid.engines.uncertain.restrictions import reject_unsupported
from perseid.engines.uncertain.streams import (
    CHANCE,
    FILTER,
    GIVEN,
    LIKELIHOOD,
    READING,
    Inference,
    Known,
    Stream,
    Streams,
)
from perseid.errors import UnsupportedError
from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.reference.worlds import Chain, Choice, HiddenChain, Possible
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.hashing import identities
from perseid.semantics import core as c
from perseid.semantics.events import Event
from perseid.semantics.hidden import HiddenMarkov, hidden_markov
from tests.generators.random_patterns import SECOND, TYPES, SeededChooser, make_pattern

Row: TypeAlias = Mapping[str, Any]
UNUSED_TYPE = "X"
"""A type of events that patterns do not name."""
_INFERENCES = (FILTER, Inference("lag", 1), Inference("lag", 2), Inference("smooth"))
_LAGS: dict[str, int | None] = {"filter": 0, "smooth": None}


@dataclass(frozen=True)
class Uncertain:
    """A pattern and its uncertain streams, with the input once for the oracle and once for the engine."""

    pattern: c.CorePattern
    streams: Streams
    chains: tuple[Chain | HiddenChain, ...]
    """For the oracle, and the events that happen in every world."""
    certain: tuple[Event, ...]
    given: tuple[Row, ...]
    """For the engine: rows as mappings, in any order; :func:`rows_of` converts them."""
    impossible: int = 0
    """Number of steps with impossible readings, given those before them; the oracle ignores the readings there."""

    @property
    def rows(self) -> EventBatch:
        return rows_of(self.given)


def rows_of(given: Sequence[Row]) -> EventBatch:
    """Rows as the engine takes them."""
    names = sorted({row["type"] for row in given})
    kinds = {
        "k": pa.int64(), "l": pa.int64(), "v": pa.int64(), GIVEN + "v": pa.int64(), CHANCE: pa.float64(),
        READING: pa.string(), LIKELIHOOD: pa.list_(pa.float64()),
    }  # fmt: skip
    columns = {name: pa.array([row.get(name) for row in given], kind) for name, kind in kinds.items()}
    time = np.array([row["time"] for row in given], np.int64)
    own = identities([pa.array(time), columns["k"], columns["v"]], {})
    types = np.array([names.index(row["type"]) for row in given], np.int32)
    return EventBatch(time, types, names, columns, {}, own)


def without_output_clauses(pattern: c.CorePattern) -> c.CorePattern:
    """Returns the pattern without skip, context and output clauses, which do not apply to probabilities."""
    return replace(
        pattern,
        context=None,
        skip=ast.Skip("none"),
        suppress=None,
        report_timeouts=False,
        lead=(),
        strictly_later=None,
        evidence=None,
    )


def bound_everywhere(pattern: c.CorePattern, column: str = "k", variable: str = "u") -> c.CorePattern:
    """The pattern with a variable that every step has on one column."""
    pair = (ex.Ref((column,)), variable)
    steps = tuple(replace(step, unify=(pair,)) for step in pattern.steps)
    return replace(pattern, steps=steps, unified=frozenset({variable}))


def bound_before_last(pattern: c.CorePattern, column: str = "k", variable: str = "u") -> c.CorePattern:
    """The pattern with a variable that every step but those of its last item has on one column, where it is a sequence."""
    if not isinstance(pattern.body, c.Seq):
        return bound_everywhere(pattern, column, variable)
    last = c.takes(pattern.body.items[-1])
    whole = bound_everywhere(pattern, column, variable)
    steps = tuple(replace(step, unify=()) if step.id in last else step for step in whole.steps)
    return replace(whole, steps=steps)


def with_key_constants(pattern: c.CorePattern, constants: Sequence[int], column: str = "k") -> c.CorePattern:
    """The pattern with a condition on the key for each step: the column equals that constant."""
    steps = []
    for step, constant in zip(pattern.steps, constants, strict=True):
        equals = c.Condition(ex.Binary("=", ex.Ref((column,)), ex.Literal("integer", constant)))
        steps.append(replace(step, choose=(*step.choose, equals)))
    return replace(pattern, steps=tuple(steps))


def has_comma(pattern: c.CorePattern) -> bool:
    """True if a step requires the very next event."""
    hops = [
        hop
        for element in c.each(pattern.body)
        for hop in (
            element.hops if isinstance(element, c.Seq) else [element.hop] if isinstance(element, c.Loop) else []
        )
    ]
    return any(hop.contiguity is ast.Contiguity.NEXT for hop in hops)


def make_supported_pattern(seed: int, bound: int = 35) -> c.CorePattern:
    """Returns a random pattern that is supported on uncertain streams.

    Of 100 patterns, ``bound`` have a variable in every step, or in all but the last. Some of these have a comma, and
    some have constants in the columns of keys.
    """
    chooser = SeededChooser(seed)
    everywhere = chooser.chance(bound)
    while True:
        made = make_pattern(chooser)
        if made is None:
            continue
        pattern = without_output_clauses(made)
        try:
            reject_unsupported(pattern)
        except UnsupportedError:
            continue
        if not everywhere:
            return pattern
        named = all(isinstance(step.kind, ast.EventType) for step in pattern.steps)
        if not named or len(pattern.steps) < 2 or (has_comma(pattern) and not chooser.chance(30)):
            continue
        if not chooser.chance(40):
            return bound_everywhere(pattern)
        last = c.takes(pattern.body.items[-1]) if isinstance(pattern.body, c.Seq) else ()
        if chooser.chance(50):
            return bound_before_last(_with_other_type(pattern, last))
        first = chooser.number(0, 1)
        constants = [1 - first if step.id in last else first for step in pattern.steps]
        return bound_before_last(with_key_constants(pattern, constants), "l")


def _with_other_type(pattern: c.CorePattern, last: Sequence[int]) -> c.CorePattern:
    """Returns the pattern with an event type in its last steps that no other step has, if there is one left."""
    used = {step.kind.name for step in pattern.steps if step.id not in last and isinstance(step.kind, ast.EventType)}
    free = [type_ for type_ in TYPES if type_ not in used]
    if not free:
        return pattern
    steps = [replace(step, kind=ast.EventType(free[0])) if step.id in last else step for step in pattern.steps]
    return replace(pattern, steps=tuple(steps))


def make_uncertain(seed: int, *, worlds: int = 800, bound: int = 35) -> Uncertain:
    """A pattern and an uncertain stream from a seed; there are no more worlds than so many."""
    pattern = make_supported_pattern(seed, bound)
    maker = _Maker(Random(seed), worlds)
    while not maker.given:
        maker = _Maker(maker.random, worlds)
        maker.make(pattern)
    return maker.build(pattern)


@dataclass
class _Maker:
    random: Random
    worlds: int
    """Limit of the number of worlds for the remaining chains."""
    every: int | None = SECOND
    steps: list[int] = field(default_factory=list)
    """Times at which events may occur; no other time has rows."""
    streams: list[Stream] = field(default_factory=list)
    chains: list[Chain | HiddenChain] = field(default_factory=list)
    certain: list[Event] = field(default_factory=list)
    given: list[Row] = field(default_factory=list)
    by_likelihood: bool = False
    impossible: int = 0

    def make(self, pattern: c.CorePattern) -> None:
        chance = self.random
        first = chance.choice([0, 0, 3, 1_000_000])
        self.steps = sorted(chance.sample(range(first, first + 7), chance.randint(2, 5)))
        self.by_likelihood = chance.random() < 0.2
        named = {step.kind.name for step in pattern.steps if isinstance(step.kind, ast.EventType)}
        for type_ in sorted(named) or TYPES[:1]:
            self.stream(type_, keyed=any(step.unify for step in pattern.steps))
        if chance.random() < 0.3 and not has_comma(pattern):
            self.streams.append(Stream(UNUSED_TYPE, Known.CERTAIN))
            self.certain_events(UNUSED_TYPE, None, [0, 1])

    def build(self, pattern: c.CorePattern) -> Uncertain:
        self.random.shuffle(self.given)
        return Uncertain(
            pattern,
            Streams(tuple(self.streams), self.every),
            tuple(self.chains),
            tuple(self.certain),
            tuple(self.given),
            self.impossible,
        )

    # streams

    def stream(self, type_: str, keyed: bool) -> None:
        """One kind of event, of one key or several."""
        chance = self.random
        known = chance.choice([Known.CERTAIN, Known.INDEPENDENT, Known.INDEPENDENT, Known.LINKED, Known.READ])
        values = chance.sample([0, 1, 2, 3], 2)
        of = ("k", "l") if chance.random() < 0.2 else ("k",)
        if known is Known.CERTAIN:
            # The stream declares the key k only if a variable uses it.
            self.streams.append(Stream(type_, known, ("k",) if keyed and chance.random() < 0.7 else ()))
        elif known is Known.READ:
            way = chance.choice(_INFERENCES)
            model = self.model(values)
            self.streams.append(Stream(type_, known, of, ("v",), model, way, True, chance.choice([0, 2])))
        else:
            self.streams.append(Stream(type_, known, of, ("v",)))
        keys = [0, 1] if chance.random() < 0.97 else [0, None]
        for k in keys[: chance.choice([1, 1, 2])]:
            for l_ in [0, 1] if "l" in of and chance.random() < 0.6 else [0]:
                self.chain(self.streams[-1], {"k": k, "l": l_}, values)

    def chain(self, stream: Stream, key: Mapping[str, int | None], values: list[int]) -> None:
        if stream.known is Known.CERTAIN:
            self.certain_events(stream.type, key["k"], values)
            return
        span = self.steps[-1] - self.steps[0] + 1
        many = 2**span if stream.known is Known.READ else 3 ** len(self.steps)
        if many > self.worlds:
            return
        self.worlds //= many
        if stream.known is Known.READ:
            self.readings(stream, key)
            return
        linked = stream.known is Known.LINKED
        tables = []
        for step in range(self.steps[0], self.steps[-1] + 1):
            said = step in self.steps and self.random.random() < 0.85
            tables.append((step * SECOND, self.table(stream.type, step, key, values, linked) if said else []))
        self.chains.append(Chain(stream.type, key, tables, linked))

    def row(self, type_: str, step: int, columns: Row) -> None:
        """A row at some time of a step."""
        off = self.random.choice([0, 0, 0, 250_000])
        self.given.append({"type": type_, "time": step * SECOND + off, **columns})

    def certain_events(self, type_: str, k: int | None, values: list[int]) -> None:
        for step in self.steps:
            while self.random.random() < 0.35:
                value = None if self.random.random() < 0.1 else self.random.choice(values)
                columns = {"k": k, "l": 0, "v": value}
                self.certain.append(Event(type_, step * SECOND, columns, f"{type_} {len(self.certain)}"))
                self.row(type_, step, columns)

    def table(self, type_: str, step: int, key: Row, values: list[int], linked: bool) -> list[Possible]:
        """Returns the distribution of a step for each value of the previous step."""
        rows = []
        for before in [None, *values] if linked else [None]:
            total = self.random.choice([1.0, self.random.random()])
            old: Choice = None if before is None else (("v", before),)
            for value, share in zip(values, self.shares(len(values), total), strict=True):
                nothing = self.random.random() < 0.05  # a row that says: no event
                columns = {**key, "v": None if nothing else value, CHANCE: share}
                self.row(type_, step, {**columns, GIVEN + "v": before} if linked else columns)
                if not nothing and share > 0:
                    rows.append(Possible((("v", value),), share, old))
        return rows

    # readings

    def model(self, values: list[int]) -> HiddenMarkov:
        named = ["r", "s", None] if self.random.random() < 0.7 else ["r", "s"]
        return hidden_markov(
            values=values,
            initial=self.shares(len(values)),
            transitions=[self.shares(len(values)) for _ in values],
            readings=[self.shares(len(named)) for _ in values],
            reading_names=named,
        )

    def readings(self, stream: Stream, key: Row) -> None:
        """The lives of a key: one that was silent for too long has several."""
        model = stream.model
        assert model is not None
        own = [step for step in self.steps if self.random.random() < 0.85]
        nothing = [1.0] * len(model.values)
        by_name = {name: [float(share) for share in model.emissions[i]] for i, name in enumerate(model.readings)}
        silence = by_name.get(None, nothing)
        lives: list[list[tuple[int, list[float]]]] = []
        for step in own:
            if not lives or step - lives[-1][-1][0] - 1 > stream.patience:
                lives.append([])
            else:
                lives[-1] += [(silent, silence) for silent in range(lives[-1][-1][0] + 1, step)]
            said = nothing
            for _ in range(self.random.choice([1, 1, 1, 2])):
                name = self.random.choice(["r", "s", None])
                one = by_name.get(name, nothing)
                self.row(stream.type, step, {**key, **({LIKELIHOOD: one} if self.by_likelihood else {READING: name})})
                said = [a * b for a, b in zip(said, one, strict=True)]
            lives[-1].append((step, said))
        for life in lives:  # missing readings continue for as long as the stream's patience
            last = life[-1][0]
            life += [(last + silent, silence) for silent in range(1, stream.patience + 1)]
        lag = _LAGS.get(stream.inference.name, stream.inference.number)
        matrix = transition_matrix(model)
        for life in lives:
            steps = []
            for (step, said), one in zip(life, possible(model, life), strict=True):
                self.impossible += one != said
                steps.append((step * SECOND, one))
            states: list[Choice] = [(("v", value),) for value in model.values]
            # An event behind readings has the columns of its key and its value, and no others.
            declared = {name: key[name] for name in stream.of}
            self.chains.append(HiddenChain(stream.type, declared, states, list(model.initial), matrix, steps, lag))

    def shares(self, count: int, total: float = 1.0) -> list[float]:
        """Numbers that add up to a total; now and then one of them is 0."""
        weights = [self.random.random() if self.random.random() < 0.7 else 0.0 for _ in range(count)]
        if not sum(weights):
            weights[self.random.randrange(count)] = 1.0
        return [weight / sum(weights) * total for weight in weights]


def transition_matrix(model: HiddenMarkov) -> list[list[float]]:
    """A row for each value that is left."""
    matrix = np.zeros((len(model.values), len(model.values)))
    matrix[np.repeat(np.arange(len(model.values)), np.diff(model.starts)), model.targets] = model.weights
    return [[float(weight) for weight in row] for row in matrix]


def possible(model: HiddenMarkov, life: Sequence[tuple[int, list[float]]]) -> list[list[float]]:
    """Returns the likelihoods of each step; impossible readings, given those before them, become uninformative."""
    matrix = np.array(transition_matrix(model))
    here = np.array(model.initial)
    out: list[list[float]] = []
    for i, (_, reading) in enumerate(life):
        if i:
            here = here @ matrix
        said = reading if (here * np.array(reading)).sum() > 0 else [1.0] * len(reading)
        here = here * np.array(said)
        here = here / here.sum()
        out.append(said)
    return out
