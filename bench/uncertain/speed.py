"""Speed of probabilistic matching: the kernel alone, the paper's Figures 12 to 14, and larger queries.

*Engine* is the time from encoded rows to output rows, *whole* that of ``match``, from Arrow tables to a table of
matches.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import perseid as ps
from bench.uncertain.building import build
from bench.uncertain.people import Plans, TraceSize, simulate
from bench.uncertain.quality import moments, readings_of, relations_of
from perseid.engines.uncertain import answers
from perseid.engines.uncertain.automaton import Automaton
from perseid.engines.uncertain.engine import make_plan, match_all
from perseid.engines.uncertain.exact import StateWeights, move
from perseid.engines.uncertain.inference import particle_filter, smoothed_tables
from perseid.engines.uncertain.local_rows import read_rows
from perseid.engines.uncertain.plan import UncertainPlan
from perseid.engines.uncertain.reading import SymbolEncoder
from perseid.engines.uncertain.stream import UncertainEvents, columns_of, streams_for
from perseid.engines.uncertain.traces import NEVER, build_pattern_input, gather, split_groups
from perseid.lang.parser import parse_file
from perseid.semantics import values as v
from perseid.semantics.check import check

Q1 = "pattern q1 match At a [place in CoffeeRooms] within forever partition by person selection successor"
Q2 = (
    "pattern q2 match At(person as p) a [place not in Rooms] -> At(person as p) b must (place in CoffeeRooms) "
    "within forever selection successor"
)
QUERIES = {"Q1": Q1, "Q2": Q2}
LOCATIONS = 20
SECONDS = 60
PARTICLES = 300
BUSY = Plans(office_time=(2, 8))
"""People should have some activity in a minute."""


def timed(run: Callable[[], object], rounds: int) -> float:
    """Median of the seconds of a call, after warm-up."""
    run()
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


@dataclass(frozen=True)
class Prepared:
    """A query and rows in the form that the engine receives."""

    plan: UncertainPlan
    rows: Any
    reader: SymbolEncoder

    @classmethod
    def of(cls, text: str, stream: UncertainEvents, relations: Mapping[str, list[Any]]) -> Prepared:
        cores = check(parse_file(text))
        rows = read_rows(stream, columns_of(cores), {name: v.Relation(some) for name, some in relations.items()})
        streams = streams_for(cores, stream, rows.type_names)
        plan = make_plan(cores, streams, {name: column.type for name, column in rows.columns.items()})
        automaton = Automaton(plan.queries[0].pattern, rows.relations, elapsed=streams.every or 0)
        return cls(plan, rows, SymbolEncoder(automaton))

    def engine(self, run: Any, rounds: int) -> float:
        """Seconds of exact or sampled evaluation over encoded rows."""
        asked, streams = self.plan.queries[0], self.plan.streams
        given, _ = gather(streams, self.rows)
        found = build_pattern_input(asked, streams, self.reader, given)
        with patch.object(answers, "material", lambda *_: found):
            return timed(lambda: run(asked, streams, self.reader, given), rounds)

    def kernel(self, rounds: int) -> float:
        """Seconds of the kernel alone, on prepared chunks."""
        asked, streams = self.plan.queries[0], self.plan.streams
        given, _ = gather(streams, self.rows)
        found = build_pattern_input(asked, streams, self.reader, given)
        ready = [
            lot for lot in split_groups(found, np.full(len(found.units), NEVER), given.numbered) if len(lot.groups)
        ]

        def run() -> None:
            for lot in ready:
                fresh = StateWeights.fresh(len(lot.groups), lot.values)
                move(self.reader.automaton, lot.mode, lot.steps, lot.hidden, fresh, values=lot.values)

        return timed(run, rounds)

    def whole(self, rounds: int) -> float:
        """Seconds of the engine including the encoding of rows."""
        return timed(lambda: match_all(self.plan, self.rows), rounds)


@dataclass(frozen=True)
class Rate:
    """One measurement: its name, amount of work, and seconds."""

    name: str
    tuples: int
    objects: int
    """People times steps."""
    seconds: float

    @property
    def per_second(self) -> float:
        return self.tuples / self.seconds

    @property
    def effective(self) -> float:
        return self.objects / self.seconds


# The kernel -------------------------------------------------------------------------------------------------------------

REGULAR = (
    "pattern coffee match At a [place not in Rooms] -> At b must (place not in Rooms) -> At c must (place in CoffeeRooms) "
    "within forever partition by person selection successor"
)


def kernel_rates(people: int, steps: int, rounds: int = 3) -> list[Rate]:
    """Time a Regular query over streams with 20 places: independent rows, and readings with hidden places."""
    places = [f"place {i:02d}" for i in range(LOCATIONS)]
    relations = {"Rooms": [(place,) for place in places[10:]], "CoffeeRooms": [(places[10],)]}
    chance = np.random.default_rng(5)
    names = pa.array([f"person {i}" for i in range(people)])
    shares = chance.dirichlet(np.full(LOCATIONS, 0.3), people * steps)
    count = people * steps * LOCATIONS
    rows = pa.table(
        {
            "person": names.take(pa.array(np.repeat(np.arange(people), steps * LOCATIONS))),
            "ts": moments(pa.array(np.tile(np.repeat(np.arange(steps), LOCATIONS), people))),
            "place": pa.array(places).take(pa.array(np.tile(np.arange(LOCATIONS), people * steps))),
            "p": shares.ravel(),
        }
    )
    stream = ps.uncertain_events(rows, event_type="At", key="person", value="place", probability="p", every="1 second")
    ready = Prepared.of(REGULAR, stream, relations)
    pattern = ps.pattern(REGULAR)
    rates = [
        Rate("independent rows, kernel", count, people * steps, ready.kernel(rounds)),
        Rate("independent rows, reading and kernel", count, people * steps, ready.whole(rounds)),
        Rate(
            "independent rows, match",
            count,
            people * steps,
            timed(lambda: pattern.match(stream, relations=relations), rounds),
        ),
    ]
    model = ps.uncertain.hidden_markov(
        values=places,
        transitions=_corridor(LOCATIONS),
        readings=chance.dirichlet(np.ones(8), LOCATIONS),
        reading_names=list("abcdefgh"),
    )
    readings = pa.table(
        {
            "person": names.take(pa.array(np.repeat(np.arange(people), steps))),
            "ts": moments(pa.array(np.tile(np.arange(steps), people))),
            "antenna": pa.array(list("abcdefgh")).take(pa.array(chance.integers(0, 8, people * steps))),
        }
    )
    hidden = ps.uncertain_events(
        readings, event_type="At", key="person", value="place", reading="antenna", model=model, every="1 second"
    )
    ready = Prepared.of(REGULAR, hidden, relations)
    rates += [
        Rate("readings, kernel", count, people * steps, ready.kernel(rounds)),
        Rate("readings, reading and kernel", count, people * steps, ready.whole(rounds)),
    ]
    return rates


def _corridor(places: int) -> Any:
    """Transition model: half of the places are cells of a ring corridor, half are rooms with a door each."""
    cells = places // 2
    moves = np.zeros((places, places))
    for i in range(cells):
        moves[i, [(i - 1) % cells, (i + 1) % cells, i, cells + i]] = 0.35, 0.35, 0.1, 0.2
        moves[cells + i, [cells + i, i]] = 0.9, 0.1
    return moves


# Figures 12 and 13 ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tracked:
    """Tags for a minute, as in the paper: the output of a particle filter for each, and the smoothed output."""

    tags: int
    readings: pa.Table
    marginals: pa.Table
    tables: pa.Table
    model: Any
    relations: dict[str, list[tuple[str]]]

    @property
    def objects(self) -> int:
        return int(self.readings.num_rows)

    def archived(self, inference: str) -> UncertainEvents:
        return ps.uncertain_events(
            self.readings,
            event_type="At",
            key="person",
            value="place",
            reading="antenna",
            model=self.model,
            inference=inference,
            every="1 second",
        )

    def stream(self, rows: pa.Table, **more: Any) -> UncertainEvents:
        return ps.uncertain_events(
            rows, event_type="At", key="person", value="place", probability="p", every="1 second", **more
        )

    def likeliest(self) -> UncertainEvents:
        """The most probable tuple of each step, taken as certain."""
        rows = self.marginals.sort_by([("person", "ascending"), ("ts", "ascending"), ("p", "descending")])
        person, when = rows["person"].combine_chunks().dictionary_encode().indices, rows["ts"].cast(pa.int64())
        new = np.ones(len(rows), bool)
        new[1:] = (np.diff(np.asarray(person)) != 0) | (np.diff(np.asarray(when)) != 0)
        some = rows.filter(pa.array(new))
        return self.stream(some.set_column(some.column_names.index("p"), "p", pa.array(np.ones(len(some)))))


def track(tags: int, seconds: int = SECONDS, seed: int = 1) -> Tracked:
    building = build()
    people = min(tags, 36)
    setting = TraceSize(people=people, objects=tags - people, periods=1, period=seconds)
    trace = simulate(building, seed, setting, BUSY)
    model = building.hidden_markov()
    trace = replace(trace, people=tags)
    readings = readings_of(trace)
    codes = trace.antennas.ravel()
    codes = np.where(codes < 0, len(building.antennas), codes)
    offsets = np.arange(0, len(codes) + 1, seconds)
    shares = particle_filter(model, codes, offsets, PARTICLES, np.arange(tags) + seed * 1000).marginals
    at, value = np.nonzero(shares)
    values = pa.array(building.values)
    marginals = pa.table(
        {
            "person": readings["person"].take(pa.array(at)),
            "ts": readings["ts"].take(pa.array(at)),
            "place": values.take(pa.array(value)),
            "p": shares[at, value],
        }
    )
    return Tracked(
        tags, readings, marginals, _tables(model, codes, offsets, readings, values), model, relations_of(building)
    )


LEAST = 1e-4
"""Rows of tables with a lower probability are left out, as the paper pruned its own (4.3.2)."""


def _tables(model: Any, codes: Any, offsets: Any, readings: pa.Table, values: pa.Array) -> pa.Table:
    """Transitions by step: from place, to place, probability; without a from place into a first step."""
    known = smoothed_tables(model, codes, offsets)
    source = np.repeat(np.arange(len(model.values)), np.diff(model.starts))
    before = np.zeros_like(known.marginals)
    before[1:] = known.marginals[:-1]
    before[offsets[:-1]] = 0
    at, way = np.nonzero((known.weights > LEAST) & (before[:, source] > LEAST))
    first, there = np.nonzero(known.marginals[offsets[:-1]] > LEAST)
    rows = np.concatenate([offsets[:-1][first], at])
    old = values.take(pa.array(source[way]))
    return pa.table(
        {
            "person": readings["person"].take(pa.array(rows)),
            "ts": readings["ts"].take(pa.array(rows)),
            "place": values.take(pa.array(np.concatenate([there, model.targets[way]]))),
            "before": pa.concat_arrays([pa.nulls(len(first), pa.string()), old]),
            "p": np.concatenate([known.marginals[offsets[:-1]][first, there], known.weights[at, way]]),
        }
    )


@dataclass(frozen=True)
class Throughput:
    """One point in Figures 12 and 13."""

    figure: str
    query: str
    tags: int
    whole: dict[str, Rate]
    engine: dict[str, float]
    """Seconds without reading, of ours and of sampling."""

    @property
    def against_sampling(self) -> float:
        return self.whole["sampling"].seconds / self.whole["Perseid"].seconds

    @property
    def engine_against_sampling(self) -> float:
        return self.engine["sampling"] / self.engine["Perseid"]


def throughputs(numbers: Sequence[int], rounds: int = 3) -> list[Throughput]:
    points = []
    for tags in numbers:
        tracked = track(tags)
        for name, text in QUERIES.items():
            points += [_live(tracked, name, text, rounds), _archived(tracked, name, text, rounds)]
    return points


def _live(tracked: Tracked, name: str, text: str, rounds: int) -> Throughput:
    pattern = ps.pattern(text)
    streams = {
        "Perseid": lambda: tracked.stream(tracked.marginals),
        "most likely place": tracked.likeliest,
        "sampling": lambda: tracked.stream(tracked.marginals, sampling=ps.uncertain.Sampling(always=True)),
    }
    return _point("Figure 12", name, tracked, pattern, text, tracked.marginals.num_rows, streams, rounds)


def _archived(tracked: Tracked, name: str, text: str, rounds: int) -> Throughput:
    pattern = ps.pattern(text)
    streams = {
        "Perseid": lambda: tracked.stream(tracked.tables, previous="before"),
        "Perseid, from readings": lambda: tracked.archived("smooth"),
        "most likely path": lambda: tracked.archived("viterbi"),
        "sampling": lambda: tracked.stream(
            tracked.tables, previous="before", sampling=ps.uncertain.Sampling(always=True)
        ),
    }
    return _point("Figure 13", name, tracked, pattern, text, tracked.tables.num_rows, streams, rounds)


def _point(
    figure: str, name: str, tracked: Tracked, pattern: Any, text: str, tuples: int,
    streams: Mapping[str, Callable[[], UncertainEvents]], rounds: int,
) -> Throughput:  # fmt: skip
    whole = {
        who: Rate(
            who,
            tuples,
            tracked.objects,
            timed(
                lambda make=make: pattern.match(make(), relations=tracked.relations),  # type: ignore[misc]
                1 if who == "sampling" else rounds,
            ),
        )
        for who, make in streams.items()
    }
    engine = {
        who: Prepared.of(text, streams[who](), tracked.relations).engine(run, 1 if who == "sampling" else rounds)
        for who, run in (("Perseid", answers.exactly), ("sampling", answers.sampled))
    }
    return Throughput(figure, name, tracked.tags, whole, engine)


def fine_sampling(tags: int) -> float:
    """Time of sampling with an error of at most 0.01 as a multiple of the exact time, without reading."""
    tracked = track(tags)
    exact = Prepared.of(Q2, tracked.stream(tracked.marginals), tracked.relations).engine(answers.exactly, 3)
    fine = tracked.stream(tracked.marginals, sampling=ps.uncertain.Sampling(epsilon=0.01, always=True))
    return Prepared.of(Q2, fine, tracked.relations).engine(answers.sampled, 1) / exact


# Query size -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Larger:
    """A query with a number of subgoals: its seconds for a minute of tags, as rows by step and as tables."""

    subgoals: int
    live: float
    archived: float


def larger(subgoals: int) -> str:
    """A query with steps in corridors, in sequence, and then the coffee room, for any one person.

    A single step shares its variable with none, so all people with their hidden places would be one query: it is
    evaluated by person.
    """
    if subgoals == 1:
        return Q1
    outside = "must (place not in Rooms)"
    steps = [f"At(person as p) s{i} {outside if i else '[place not in Rooms]'}" for i in range(subgoals - 1)]
    last = "At(person as p) last must (place in CoffeeRooms)"
    return f"pattern larger match {' -> '.join([*steps, last])} within forever selection successor"


def query_sizes(tags: int, rounds: int = 3) -> list[Larger]:
    tracked = track(tags)
    live, archived = tracked.stream(tracked.marginals), tracked.stream(tracked.tables, previous="before")
    sizes = []
    for subgoals in range(1, 7):
        pattern = ps.pattern(larger(subgoals))
        taken = [
            timed(partial(pattern.match, stream, relations=tracked.relations), rounds) for stream in (live, archived)
        ]
        sizes.append(Larger(subgoals, *taken))
    return sizes


# Figure 14 --------------------------------------------------------------------------------------------------------------

FIGURE_14 = (
    "pattern printed match At(person as p) a [place not in Rooms] -> At(person as p) b must (place in CoffeeRooms) "
    "-> At(person as q) c [place in CoffeeRooms] within forever selection successor"
)
"""The paper's At(p, l1); At(p, l2); At(q, l3), with conditions on places: it prints none, and without any each step is certain.

An event can be taken by the last step and by those before it, so Algorithm 1 of the paper has no safe plan for it: it is sampled.
"""
SAFE = (
    "pattern safe match At(person as p) a [kind = 'even' and place not in Rooms] "
    "-> At(person as p) b [kind = 'even'] must (place in CoffeeRooms) "
    "-> At(person as q) c [kind = 'odd' and place in CoffeeRooms] within forever selection successor"
)
"""The same with a constant in the key, which separates the last step from those before it."""


@dataclass(frozen=True)
class SafePoint:
    """Figure 14's query and its Safe variant over some tags for some seconds: tuples, and their times."""

    tags: int
    seconds: int
    tuples: int
    plan: float
    """The Safe variant, by its plan."""
    sampling: float
    """The Safe variant, sampled."""
    printed: float
    """The query as printed, sampled."""


def safe_streams(tags: int, seconds: int, seed: int = 1) -> tuple[dict[str, UncertainEvents], int, Any]:
    """True places, tag by tag; every second tag is of the kind even, the others are odd."""
    tracked = track(tags, seconds, seed)
    rows = tracked.marginals
    codes = np.asarray(rows["person"].combine_chunks().dictionary_encode().indices)
    rows = rows.append_column("kind", pa.array(["even", "odd"]).take(pa.array(codes % 2)))
    declared: dict[str, Any] = {
        "event_type": "At",
        "key": ["kind", "person"],
        "value": "place",
        "probability": "p",
        "every": "1 second",
    }
    streams = {
        method: ps.uncertain_events(rows, **declared, sampling=ps.uncertain.Sampling(always=method == "sample"))
        for method in ("auto", "sample")
    }
    return streams, rows.num_rows, tracked.relations


def _seconds(run: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def safe_points(numbers: Sequence[int], lengths: Sequence[int]) -> list[SafePoint]:
    """Points by number of tags for a minute, and for 10 tags over longer traces; each run once, after a small one that
    compiles."""
    points = []
    safe, printed = ps.pattern(SAFE), ps.pattern(FIGURE_14)
    small, _, known = safe_streams(2, 5)
    for pattern, method in ((safe, "auto"), (safe, "sample"), (printed, "auto")):
        pattern.match(small[method], relations=known)
    for tags, seconds in [(n, SECONDS) for n in numbers] + [(10, length) for length in lengths]:
        streams, tuples, relations = safe_streams(tags, seconds)
        asked = ((safe, "auto"), (safe, "sample"), (printed, "auto"))
        taken = [_seconds(partial(pattern.match, streams[method], relations=relations)) for pattern, method in asked]
        points.append(SafePoint(tags, seconds, tuples, *taken))
    return points
