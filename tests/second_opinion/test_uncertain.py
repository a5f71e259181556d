"""Random patterns over random uncertain streams: the product against an enumeration of possible worlds."""

from __future__ import annotations

import math
import os
import random
from dataclasses import dataclass, field
from typing import Any

import pytest

import perseid as ps

from . import uncertain as so

CASES = int(os.environ.get("PERSEID_SECOND_OPINION_CASES", "500"))
BLOCKS = 10
DEEP_CASES = 50_000
DEEP_BLOCKS = 50
EXACT_TOLERANCE = 1e-9
MOST_WORLDS = 150
PATTERN_ATTEMPTS = 3
EPSILON = 0.1
DELTA = 0.1
KEYS = ("x", "y", "z")
VALUES = ("a", "b", "c")


# ---------------------------------------------------------------- streams


@dataclass
class Declared:
    """One uncertain stream: the rows and options for the product, and the same as chains."""

    rows: list[dict[str, Any]]
    options: dict[str, Any]
    chains: list[so.Chain]


@dataclass
class UncertainCase:
    seed: int
    every: int | None
    declared: list[Declared]
    certain: list[dict[str, Any]]
    stream: so.UncertainStream
    pattern: so.UncertainPattern
    wanted: dict[tuple[tuple[Any, ...], int], float]

    @property
    def is_counting(self) -> bool:
        """The case also compares expected numbers of matches."""
        return self.seed % 4 == 0

    @property
    def is_open(self) -> bool:
        """Some probability is neither 0 nor 1."""
        return any(EXACT_TOLERANCE < p < 1 - EXACT_TOLERANCE for p in self.wanted.values())

    def beliefs(self) -> ps.uncertain.UncertainEvents:
        every = None if self.every is None else f"{self.every} seconds"
        first, *others = self.declared
        made = ps.uncertain_events(
            first.rows,
            **first.options,
            every=every,
            sampling=ps.uncertain.Sampling(epsilon=EPSILON, delta=DELTA, seed=self.seed),
        )
        beside: list[Any] = [ps.uncertain_events(one.rows, **one.options, every=every) for one in others]
        if self.certain:
            beside.append(ps.events(self.certain))
        return made.combine(*beside) if beside else made

    def describe(self) -> str:
        lines = [f"seed {self.seed}", self.pattern.text(), f"every {self.every} seconds"]
        for one in self.declared:
            lines.append(f"beliefs {one.options}")
            lines += [f"  {row}" for row in one.rows]
        lines += [f"certain {row}" for row in self.certain]
        return "\n".join(lines)


class StreamMaker:
    """Makes random streams over a few steps."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.every = rng.choice([None, 1, 1, 1, 2])
        number = rng.choice([3, 3, 4, 4, 5])
        if self.every is None:
            self.times = sorted(rng.sample(range(1, 12), number))
        else:
            first = rng.randrange(0, 4)
            self.times = [(first + one) * self.every for one in range(number)]
        self.patience = 0  # steps in which a key without rows is read as silent
        if self.every is not None and number < 5 and rng.random() < 0.2:
            self.patience = rng.choice([1, 2])
        self.filled = number  # steps that may have rows; silence may last beyond them
        self.times += [self.times[-1] + (self.every or 0) * one for one in range(1, self.patience + 1)]

    def moment(self, step: int) -> int:
        """A time of a row that belongs to the step."""
        return self.times[step] + (self.rng.randrange(self.every) if self.every else 0)

    def distribution(self, values: list[Any]) -> dict[Any, float]:
        rng = self.rng
        picked = rng.sample(values, rng.choice([1, 1, 2, min(2, len(values))]))
        left = 20
        row = {}
        for number, value in enumerate(picked):
            last = number == len(picked) - 1
            share = left if last and rng.random() < 0.35 else rng.randint(1, max(1, left - (len(picked) - number)))
            row[value] = share / 20
            left -= share
        return row

    def make(self, kind: str, key: tuple[str, ...], about: tuple[str, ...]) -> Declared:
        rng = self.rng
        values: list[tuple[Any, ...]] = [(one,) for one in VALUES[: rng.choice([2, 2, 3])]]
        if len(about) == 2:
            values = [(*one, other) for one in values for other in ("p", "q")]
        keys = {tuple(rng.choice(KEYS) for _ in key) for _ in range(rng.choice([1, 2, 2, 3]) if key else 1)}
        options: dict[str, Any] = {"event_type": kind, "key": key, "value": about}
        form = rng.choice(["apart", "apart", "tables", "hidden"])
        if form == "hidden" and len(about) == 2:
            form = "tables"
        if form == "apart":
            declared = self._apart(values, sorted(keys), options)
        elif form == "tables":
            declared = self._tables(values, sorted(keys), options)
        else:
            declared = self._hidden([one for (one,) in values[:2]], sorted(keys), options)
        if form == "hidden" and rng.random() < 0.15:
            options["correlated"] = False
            for chain in declared.chains:
                chain.trajectories = so.take_steps_apart(chain.trajectories, len(self.times))
        return declared

    def _row(self, options: dict[str, Any], key: tuple[Any, ...], step: int) -> dict[str, Any]:
        return {"ts": self.moment(step), **dict(zip(options["key"], key, strict=True))}

    def _apart(self, values: list[Any], keys: list[Any], options: dict[str, Any]) -> Declared:
        rows, chains = [], []
        for key in keys:
            distributions: list[dict[Any, float]] = []
            for step in range(len(self.times)):
                distributions.append(
                    {} if step >= self.filled or self.rng.random() < 0.2 else self.distribution(values)
                )
                for value, p in distributions[-1].items():
                    about = dict(zip(options["value"], value, strict=True))
                    rows.append({**self._row(options, key, step), **about, "p": p})
            chain = so.Chain(options["event_type"], dict(zip(options["key"], key, strict=True)), options["value"])
            chain.trajectories = so.enumerate_distributions(distributions)
            chains.append(chain)
        return Declared(rows, options, chains)

    def _tables(self, values: list[Any], keys: list[Any], options: dict[str, Any]) -> Declared:
        before = tuple(f"was_{one}" for one in options["value"])
        options["previous"] = before
        rows, chains = [], []
        for key in keys:
            tables: list[so.Table | None] = []
            for step in range(len(self.times)):
                if self.every is None and self.rng.random() < 0.25:
                    tables.append(None)  # without rows it is no step of this chain
                    continue
                table: dict[Any, dict[Any, float]] = {}
                if self.every is None or (step < self.filled and self.rng.random() > 0.12):
                    for was in [None, *values]:
                        if self.rng.random() < 0.75 or (was == values[-1] and not table):
                            table[was] = self.distribution(values)
                tables.append(table)
                for was, row in table.items():
                    for value, p in row.items():
                        about = dict(zip(options["value"], value, strict=True))
                        told = dict(zip(before, was or (None,) * len(before), strict=True))
                        rows.append({**self._row(options, key, step), **about, **told, "p": p})
            chain = so.Chain(options["event_type"], dict(zip(options["key"], key, strict=True)), options["value"])
            chain.trajectories = so.enumerate_tables(tables)
            chains.append(chain)
        return Declared(rows, options, chains)

    def _hidden(self, values: list[Any], keys: list[Any], options: dict[str, Any]) -> Declared:
        rng = self.rng

        def full(names: list[Any]) -> dict[Any, float]:
            if rng.random() < 0.25:
                return {rng.choice(names): 1.0}
            share = rng.randint(1, 9) / 10
            return dict(zip(rng.sample(names, 2), (share, 1 - share), strict=True))

        model = so.Hidden(
            full(values), {one: full(values) for one in values}, {one: full(["m", "n", None]) for one in values}
        )
        inference, lag = rng.choice([("filter", 0), ("filter", 0), ("lag(1)", 1), ("lag(2)", 2), ("smooth", None)])
        options |= {"reading": "r", "inference": inference}
        options["model"] = ps.uncertain.hidden_markov(
            transitions=model.transitions, initial=model.initial, readings=model.readings, values=values
        )
        if self.patience:
            options["reading_timeout"] = f"{self.patience * (self.every or 0)} seconds"
        known = sorted({one for row in model.readings.values() for one in row}, key=repr)
        rows, chains = [], []
        for key in keys[:2]:
            read: list[Any] = []
            places = []
            for step in range(len(self.times)):
                if self.every is None and (places or step < len(self.times) - 1) and rng.random() < 0.25:
                    continue  # without a row it is no step of this chain
                places.append(step)
                is_missing = step >= self.filled or (self.every is not None and rng.random() < 0.12)
                read.append(so.NO_ROW if is_missing else rng.choice(known))
                if read[-1] is not so.NO_ROW:
                    rows.append({**self._row(options, key, step), "r": read[-1]})
            chain = so.Chain(options["event_type"], dict(zip(options["key"], key, strict=True)), options["value"])
            silent = so.read_silence(read, self.patience)
            chain.trajectories = so.spread_steps(so.enumerate_hidden(model, silent, lag), places, len(self.times))
            chains.append(chain)
        return Declared(rows, options, chains)


def make_stream(rng: random.Random) -> tuple[int | None, list[Declared], list[dict[str, Any]], so.UncertainStream]:
    """Return the length of a step, the declared streams, the certain rows, and the same for enumeration."""
    while True:
        maker = StreamMaker(rng)
        kinds = [
            ("A", rng.choice([("k",), ("k",), ("k",), ("k", "j")]), rng.choice([("v",), ("v",), ("v",), ("v", "w")]))
        ]
        if rng.random() < 0.5:
            kinds.append(("B", rng.choice([("k",), ()]), ("v",)))
        declared = [maker.make(*one) for one in kinds]
        certain: list[dict[str, Any]] = []
        if rng.random() < 0.35:
            for step in range(maker.filled):
                for _ in range(rng.choice([0, 0, 1, 1, 2])):
                    row = {"type": "C", "k": rng.choice(KEYS[:2]), "v": rng.choice(VALUES[:2])}
                    certain.append({"ts": maker.moment(step), **row})
        if not all(one.rows for one in declared):
            continue
        rows = [row for one in declared for row in one.rows] + certain
        if maker.every is None and {row["ts"] for row in rows} != set(maker.times):
            continue
        every = maker.every
        places = {time: step for step, time in enumerate(maker.times)}
        known = [
            (
                places[row["ts"] if every is None else row["ts"] // every * every],
                {name: value for name, value in row.items() if name != "ts"},
            )
            for row in certain
        ]
        stream = so.UncertainStream(maker.times, [chain for one in declared for chain in one.chains], known)
        if stream.count_worlds() <= MOST_WORLDS:
            return every, declared, certain, stream


# ---------------------------------------------------------------- patterns

QUANTIFIERS: list[tuple[str, int, int | None]] = [
    ("+", 1, None),
    ("+?", 1, None),
    ("+?", 1, None),
    ("*", 0, None),
    ("*?", 0, None),
    ("?", 0, 1),
    ("{2}", 2, 2),
    ("{1,2}", 1, 2),
    ("{2,}?", 2, None),
]


class PatternMaker:
    """Makes random patterns over the types of a stream."""

    def __init__(self, rng: random.Random, columns: dict[str, tuple[str, ...]], every: int | None) -> None:
        self.rng = rng
        self.columns = columns
        self.every = every
        self.names = iter("abcdefghijklmnopqrstuvw")
        others = [one for one in columns if one != "A"]
        self.sharing = rng.choice(["none", "none", "all", "some", *(["prefix"] * (3 if others else 1))])
        self.arrows = rng.choice([[so.NEXT], [so.NEXT], [so.NEXT], [so.STRICT], [so.NEXT, so.NEXT, so.STRICT]])
        self.is_plain = self.sharing == "prefix" and bool(others) and rng.random() < 0.8
        if self.is_plain:
            self.arrows = [so.NEXT]
        self.suffix_kinds = others
        self.shares_two = "j" in columns["A"] and rng.random() < 0.6
        self.is_suffix = False
        self.bound: list[tuple[str, str]] = []  # plain steps of the top level so far: name and type

    def make(self) -> so.UncertainPattern:
        rng = self.rng
        number = rng.choice([1, 2, 2, 2, 3, 3, 4])
        suffix = number
        if self.sharing == "prefix":
            number = max(2, number)
            suffix = number - rng.choice([1, 1, 1, 2])
        items: list[Any] = []
        links: list[so.Link] = []
        for place in range(number):
            self.is_suffix = self.sharing == "prefix" and place >= suffix
            item = self.element(2, top=True)
            if place == 0 and number == 1 and isinstance(item, so.UncertainRepeat):
                item = self.step(True)
            if place:
                links.append(self.link(item))
            items.append(item)
        window = None
        if self.every and rng.random() < 0.45:
            window = self.every * rng.randint(1, 4)
        holds = None
        if self.every and not self.is_plain and rng.random() < 0.06:
            holds = self.every
        if window is None:
            items[-1] = make_reluctant(items[-1])
        where = []
        if self.bound and rng.random() < 0.12:
            owner, kind = rng.choice(self.bound)
            where.append((owner, self.condition(kind)))
        if len(self.bound) > 1 and rng.random() < 0.12:
            (one, _), (other, _) = rng.sample(self.bound, 2)
            column = rng.choice(["v", "v", "k"])
            where.append((one, so.UncertainCondition(column, rng.choice(["=", "<>"]), column, other)))
        partition = rng.choice([(), (), ("k",), ("k",), ("v",) if rng.random() < 0.2 else ()])
        if self.is_plain and rng.random() < 0.85:
            partition = ()
        body = so.UncertainSequence(tuple(items), tuple(links))
        text = body.body().replace("', '", "")
        plain = so.NEXT in text and not any(one in text for one in (",", "consecutive", "relaxed"))
        selection = "successor" if plain and rng.random() < 0.4 else None
        return so.UncertainPattern(body, tuple(where), window, holds, partition, selection)

    def link(self, item: Any) -> so.Link:
        rng = self.rng
        arrow = rng.choice(self.arrows)
        after = within = absent = None
        if self.is_plain:
            return so.Link(arrow)
        if self.every and rng.random() < 0.1:
            within = self.every * rng.randint(1, 2)
        elif self.every and rng.random() < 0.08:
            after = self.every * rng.randint(1, 2)
        if arrow == so.NEXT and isinstance(item, so.UncertainStep) and rng.random() < 0.08:
            absent = self.absent()
        return so.Link(arrow, after, within, absent)

    def absent(self) -> so.UncertainStep:
        kind = self.rng.choice(list(self.columns))
        choose = (self.condition(kind),) if self.rng.random() < 0.5 else ()
        unify = ()
        if self.sharing == "all" and "k" in self.columns[kind]:
            unify = (("k", "x"),)
        return so.UncertainStep(kind, None, unify, choose)

    def element(self, depth: int, top: bool = False) -> Any:
        rng = self.rng
        draw = rng.random()
        if depth == 0 or draw < 0.62 or (self.is_plain and self.is_suffix and draw < 0.85):
            return self.step(top)
        if draw < 0.8:
            inner = self.step(False) if rng.random() < 0.75 else self.group(depth - 1)
            rounds = ""
            if isinstance(inner, so.UncertainStep) and rng.random() < 0.1:
                rounds = rng.choice(["consecutive", "relaxed"])
            return so.UncertainRepeat(inner, *rng.choice(QUANTIFIERS), rounds)
        if draw < 0.9:
            return so.Choice(tuple(self.element(depth - 1) for _ in range(2)))
        return self.group(depth - 1)

    def group(self, depth: int) -> so.UncertainSequence:
        rng = self.rng
        items = [self.element(depth), self.element(depth)]
        within = self.every * rng.randint(1, 2) if self.every and rng.random() < 0.15 else None
        return so.UncertainSequence(tuple(items), (self.link(items[1]),), within)

    def step(self, top: bool) -> so.UncertainStep:
        rng = self.rng
        kind = rng.choice([*self.columns, "A"])
        if self.sharing == "prefix" and rng.random() < 0.85:
            kind = rng.choice(self.suffix_kinds) if self.is_suffix and self.suffix_kinds else "A"
        wanted = kind if rng.random() > 0.04 else None
        name = next(self.names)
        unify: tuple[tuple[str, str], ...] = ()
        if "k" in self.columns[kind] and self.is_sharing():
            unify = (("k", "x"),)
        if kind == "A" and self.sharing == "prefix" and self.shares_two and not self.is_suffix:
            unify = (*unify, ("j", "z"))
        if self.sharing == "some" and rng.random() < 0.12:
            unify = (*unify, ("v", "y"))
        choose = [self.condition(kind)] if rng.random() < 0.35 else []
        must = [self.condition(kind)] if rng.random() < 0.15 else []
        if self.bound and rng.random() < 0.06:
            other, _ = rng.choice(self.bound)
            rng.choice([choose, must]).append(so.UncertainCondition("v", rng.choice(["=", "<>"]), "v", other))
        if top and wanted:
            self.bound.append((name, kind))
        return so.UncertainStep(wanted, name, unify, tuple(choose), tuple(must))

    def is_sharing(self) -> bool:
        if self.sharing == "some":
            return self.rng.random() < 0.6
        if self.sharing == "prefix":
            return not self.is_suffix or (self.shares_two and self.rng.random() < 0.7)
        return self.sharing == "all"

    def condition(self, kind: str) -> so.UncertainCondition:
        rng = self.rng
        draw = rng.random()
        if draw < 0.15 and "k" in self.columns[kind]:
            return so.UncertainCondition("k", rng.choice(["=", "<>"]), rng.choice(KEYS[:2]))
        if draw < 0.3:
            return so.UncertainCondition("v", rng.choice(["in", "not in"]), tuple(rng.sample(VALUES, 2)))
        return so.UncertainCondition("v", rng.choice(["=", "=", "<>"]), rng.choice(VALUES[:2]))


def make_reluctant(element: Any) -> Any:
    """A greedy repetition without a bound cannot end a pattern without a window."""
    if isinstance(element, so.UncertainRepeat) and element.most is None and not element.quantifier.endswith("?"):
        return so.UncertainRepeat(element.element, element.quantifier + "?", element.least, None, element.rounds)
    return element


def make_case(seed: int) -> UncertainCase:
    """Returns a random case; of a few patterns, the first with a probability strictly between 0 and 1, if any."""
    rng = random.Random(seed)
    every, declared, certain, stream = make_stream(rng)
    columns = {one.options["event_type"]: (*one.options["key"], *one.options["value"]) for one in declared}
    if certain:
        columns["C"] = ("k", "v")
    attempts = 0
    while True:
        pattern = PatternMaker(rng, columns, every).make()
        try:
            wanted = so.probabilities(pattern, stream)
        except so.WordLimitError:
            continue
        attempts += 1
        case = UncertainCase(seed, every, declared, certain, stream, pattern, wanted)
        if case.is_open or attempts == PATTERN_ATTEMPTS:
            return case


# ---------------------------------------------------------------- comparison


@dataclass
class UncertainTally:
    rejected: dict[str, int] = field(default_factory=dict)
    compared: int = 0
    counted: int = 0
    between: int = 0
    sampled: int = 0
    sampled_off: int = 0
    score: float = 0.0  # sum of standardized errors of sampled cases
    failures: list[str] = field(default_factory=list)


def compare(case: UncertainCase, tally: UncertainTally) -> None:
    """Compare one case and count it."""
    try:
        stream = case.beliefs()
        tell = ps.uncertain.expected() if case.is_counting else None
        rows = list(ps.pattern(case.pattern.text()).match(stream, emit=tell))
    except ps.PerseidError as error:
        reason = f"{type(error).__name__}: {str(error).splitlines()[0][:90]}"
        tally.rejected[reason] = tally.rejected.get(reason, 0) + 1
        return
    except Exception as error:
        tally.failures.append(f"{case.describe()}\nraised {type(error).__name__}: {error}")
        return
    given = {
        (tuple(row[one] for one in case.pattern.partition), round(row["time"].timestamp())): (row["p"], row["error"])
        for row in rows
    }
    wanted = case.wanted
    tally.compared += 1
    tally.between += case.is_open
    off = False
    sampled = any(error > 0 for _, error in given.values())
    if not sampled and not given.keys() >= wanted.keys():
        # A sampled probability of 0 has no row.
        sampled = "sampled worlds" in " ".join(ps.pattern(case.pattern.text()).explain(stream).split())
    wrong = len(given) != len(rows)
    numbers: dict[Any, float] = {}
    if case.is_counting:
        tally.counted += 1
        numbers = so.expected_matches(case.pattern, case.stream)
        told = {place: row["expected"] for place, row in zip(given, rows, strict=False)}
        for place in numbers.keys() | told.keys():
            wrong = wrong or abs(numbers.get(place, 0.0) - told.get(place, 0.0)) > EXACT_TOLERANCE
    scored = False
    for place in sorted(given.keys() | wanted.keys(), key=repr):
        p, error = given.get(place, (0.0, EPSILON if sampled else 0.0))
        right = wanted.get(place, 0.0)
        if error == 0:
            wrong = wrong or abs(p - right) > EXACT_TOLERANCE
            continue
        off = off or abs(p - right) > error
        # A certain result has no sampling error.
        certain = right < EXACT_TOLERANCE or right > 1 - EXACT_TOLERANCE
        wrong = wrong or (certain and abs(p - right) > EXACT_TOLERANCE)
        if not certain and not scored:
            scored = True
            draws = math.ceil(math.log(2 / DELTA) / (2 * EPSILON**2))
            tally.score += (p - right) / math.sqrt(right * (1 - right) / draws)
            tally.sampled += 1
    tally.sampled_off += off
    if wrong:
        shown = {f"{place}": value for place, value in sorted(given.items(), key=repr)}
        tally.failures.append(
            f"{case.describe()}\nproduct     {shown}\nenumeration {dict(sorted(wanted.items(), key=repr))}"
            + (f"\nexpected    {[row['expected'] for row in rows]}\nenumeration {numbers}" if case.is_counting else "")
        )


def run_block(seeds: range) -> UncertainTally:
    tally = UncertainTally()
    for seed in seeds:
        compare(make_case(seed), tally)
    return tally


def check_block(seeds: range) -> None:
    tally = run_block(seeds)
    if tally.failures:
        shown = "\n\n".join(tally.failures[:3])
        pytest.fail(f"{len(tally.failures)} of {len(seeds)} cases differ\n\n{shown}", pytrace=False)
    assert tally.compared >= 0.6 * len(seeds), tally.rejected
    assert tally.between >= 0.25 * tally.compared
    # A result is off by more than epsilon with probability delta at most; fails four standard deviations above that.
    spread = math.sqrt(max(1, tally.sampled) * DELTA * (1 - DELTA))
    assert tally.sampled_off <= DELTA * tally.sampled + 4 * spread
    assert abs(tally.score) <= 5 * math.sqrt(max(1, tally.sampled)), "sampled answers are biased"


def blocks_of(cases: int, blocks: int) -> list[range]:
    size = max(1, math.ceil(cases / blocks))
    return [range(first, min(first + size, cases)) for first in range(0, cases, size)]


@pytest.mark.parametrize("seeds", blocks_of(CASES, BLOCKS), ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}")
def test_probabilities_equal_an_enumeration_of_worlds(seeds: range) -> None:
    check_block(seeds)


@pytest.mark.deep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "seeds", blocks_of(DEEP_CASES, DEEP_BLOCKS), ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}"
)
def test_probabilities_equal_an_enumeration_of_worlds_deep(seeds: range) -> None:
    check_block(seeds)


# ---------------------------------------------------------------- figures of the documentation


def chain(kind: str, key: dict[str, Any], steps: list[dict[str, float]]) -> so.Chain:
    """A chain of independent steps over the column v."""
    made = so.Chain(kind, key, ("v",))
    made.trajectories = so.enumerate_distributions([{(value,): p for value, p in one.items()} for one in steps])
    return made


def step(kind: str, name: str, value: str | None = None, shared: bool = False) -> so.UncertainStep:
    unify = (("k", "x"),) if shared else ()
    return so.UncertainStep(kind, name, unify, (so.UncertainCondition("v", "=", value),) if value else ())


def follow(*items: Any, arrow: str = so.NEXT) -> so.UncertainSequence:
    return so.UncertainSequence(items, tuple(so.Link(arrow) for _ in items[1:]))


@pytest.mark.parametrize(("window", "right"), [(None, 0.58), (3, 0.58), (2, 0.24), (1, 0.0)])
def test_enumeration_gives_the_windows_of_the_semantics_page(window: int | None, right: float) -> None:
    chains = [
        chain("A", {"k": "x"}, [{"a": 0.5}, {"a": 0.4}, {}, {}]),
        chain("B", {"k": "x"}, [{}, {"b": 0.8}, {"b": 0.6}, {}]),
        chain("C", {}, [{}, {}, {}, {"c": 1.0}]),
    ]
    pattern = so.UncertainPattern(follow(step("A", "a"), step("B", "b"), step("C", "c")), window=window)
    found = so.probabilities(pattern, so.UncertainStream([1, 2, 3, 4], chains, []))
    assert found.get(((), 4), 0.0) == pytest.approx(right, abs=1e-12)


def test_enumeration_gives_the_smoke_example_of_the_guide() -> None:
    chains = [
        chain("A", {"k": "ann"}, [{"hall": 0.5}, {"hall": 0.4, "lab": 0.5}, {"lab": 0.6}, {}]),
        chain("A", {"k": "bob"}, [{}, {"hall": 1.0}, {"lab": 0.1}, {}]),
        chain("B", {}, [{}, {}, {"smoke": 0.2}, {"smoke": 0.9}]),
    ]
    steps = (step("A", "a", "hall", shared=True), step("A", "b", "lab", shared=True), step("B", "c", "smoke"))
    found = so.probabilities(
        so.UncertainPattern(follow(*steps), window=2), so.UncertainStream([1, 2, 3, 4], chains, [])
    )
    assert {time: round(p, 4) for (_, time), p in found.items()} == {3: 0.05, 4: 0.2844}


@pytest.mark.parametrize(
    ("lag", "right"), [(0, [0.4, 0.119, 0.049]), (2, [0.563, 0.161, 0.056]), (None, [0.633, 0.161, 0.056])]
)
def test_enumeration_gives_the_coffee_example_of_the_guide(lag: int | None, right: list[float]) -> None:
    doors = [("h1", "h2"), ("h2", "h3"), ("h2", "coffee"), ("h3", "office")]
    places = ["h1", "h2", "h3", "coffee", "office"]
    moves = {}
    for place in places:
        near = [b if a == place else a for a, b in doors if place in (a, b)]
        moves[place] = {place: 0.5, **dict.fromkeys(near, 0.5 / len(near))}
    read_at = {one: {one: 0.7, None: 0.3} for one in places[:3]} | {one: {None: 1.0} for one in places[3:]}
    model = so.Hidden(dict.fromkeys(places, 0.2), moves, read_at)
    ann = so.Chain("A", {"k": "ann"}, ("v",))
    ann.trajectories = so.enumerate_hidden(model, ["h1", "h2", None, None, None, "h2", "h3"], lag)
    outside = so.UncertainCondition("v", "not in", ("coffee", "office"))
    steps = (
        so.UncertainStep("A", "a", choose=(outside,)),
        so.UncertainStep("A", "b", must=(outside,)),
        so.UncertainStep("A", "c", must=(so.UncertainCondition("v", "=", "coffee"),)),
    )
    found = so.probabilities(
        so.UncertainPattern(follow(*steps), partition=("k",)), so.UncertainStream(list(range(7)), [ann], [])
    )
    assert [round(found[("ann",), time], 3) for time in sorted(time for _, time in found)] == right


# ---------------------------------------------------------------- cases that once differed


def beliefs_of(chains: list[so.Chain], times: list[int], **options: Any) -> ps.uncertain.UncertainEvents:
    """Declare chains of independent steps to the product; chains of one type are one stream."""
    made = []
    for kind in sorted({one.kind for one in chains}):
        rows = []
        for one in (one for one in chains if one.kind == kind):
            for place, time in enumerate(times):
                weights: dict[Any, float] = {}
                for path in one.trajectories:
                    weights[path.path[place]] = weights.get(path.path[place], 0.0) + path.weights[place]
                rows += [{"ts": time, **one.key, "v": value[0], "p": p} for value, p in weights.items() if value]
        key = tuple(next(one for one in chains if one.kind == kind).key)
        made.append(ps.uncertain_events(rows, event_type=kind, key=key, value="v", every="1 second", **options))
    return made[0].combine(*made[1:]) if made[1:] else made[0]


def check_pattern(
    pattern: so.UncertainPattern, chains: list[so.Chain], times: list[int], epsilon: float = 0.05
) -> None:
    """Compares one pattern; sampled probabilities are within epsilon, which holds for the fixed seed."""
    rows = list(
        ps.pattern(pattern.text()).match(beliefs_of(chains, times, sampling=ps.uncertain.Sampling(epsilon, 0.001)))
    )
    given = {round(row["time"].timestamp()): row for row in rows}
    wanted = {time: p for (_, time), p in so.probabilities(pattern, so.UncertainStream(times, chains, [])).items()}
    shown = f"{pattern.text()}\nproduct     {rows}\nenumeration {wanted}"
    for time in wanted.keys() | given.keys():
        p, error = (given[time]["p"], given[time]["error"]) if time in given else (0.0, 0.0)
        assert abs(p - wanted.get(time, 0.0)) <= max(error, EXACT_TOLERANCE), shown


def two_people() -> list[so.Chain]:
    return [
        chain("A", {"k": "x"}, [{"a": 0.5}, {"a": 0.5}, {"b": 0.5}, {"a": 0.5}]),
        chain("A", {"k": "y"}, [{"b": 0.5}, {}, {"a": 0.5}, {"b": 0.5}]),
        chain("B", {}, [{}, {"b": 0.5}, {"b": 0.5}, {"a": 0.5}]),
    ]


def shared(name: str) -> so.UncertainStep:
    return step("A", name, shared=True)


def rounds_of(name: str, quantifier: str, least: int, most: int | None, rounds: str = "") -> so.UncertainRepeat:
    return so.UncertainRepeat(shared(name), quantifier, least, most, rounds)


@pytest.mark.parametrize(
    "body",
    [
        follow(shared("a"), follow(shared("b"), shared("c"), arrow=so.STRICT)),
        follow(follow(shared("a"), shared("b"), arrow=so.STRICT), step("B", "c")),
        follow(rounds_of("a", "{2}", 2, 2, "consecutive"), shared("b")),
        follow(shared("a"), rounds_of("b", "+?", 1, None, "consecutive")),
    ],
    ids=lambda body: body.body(),
)
def test_very_next_event_inside_an_element_with_a_shared_variable(body: so.UncertainSequence) -> None:
    check_pattern(so.UncertainPattern(body), two_people(), [1, 2, 3, 4])


@pytest.mark.parametrize(
    "prefix",
    [
        rounds_of("a", "*", 0, None),
        rounds_of("a", "?", 0, 1),
        rounds_of("a", "{,2}", 0, 2),
        so.UncertainRepeat(follow(shared("a"), shared("b")), "?", 0, 1),
    ],
    ids=lambda prefix: prefix.text(),
)
@pytest.mark.parametrize("window", [None, 2])
def test_safe_pattern_counts_matches_without_its_optional_prefix(
    prefix: so.UncertainRepeat, window: int | None
) -> None:
    check_pattern(so.UncertainPattern(follow(prefix, step("B", "z")), window=window), two_people(), [1, 2, 3, 4])


@pytest.mark.parametrize("keys", [7, 8, 9])
def test_unsafe_pattern_over_all_keys_is_sampled(keys: int) -> None:
    chains = [
        chain("A", {"k": f"k{key}"}, [{"a": 0.5} if place == key % 3 else {} for place in range(3)])
        for key in range(keys)
    ]
    pattern = so.UncertainPattern(
        follow(step("A", "a"), step("A", "b")), where=(("b", so.UncertainCondition("k", "<>", "k", "a")),)
    )
    check_pattern(pattern, chains, [1, 2, 3])


def test_belief_does_not_depend_on_other_streams_that_a_pattern_names() -> None:
    """Without ``every``, a moment of another key or stream adds no step to a chain of tables."""
    rows = [
        {"ts": 1, "k": "z", "v": "a", "was": None, "p": 1.0},
        {"ts": 3, "k": "z", "v": "a", "was": "a", "p": 0.5},
        {"ts": 3, "k": "z", "v": "b", "was": None, "p": 1.0},
    ]
    beside = ps.uncertain_events([{"ts": 2, "v": "b", "p": 0.5}], event_type="B", value="v")
    stream = ps.uncertain_events(rows, event_type="A", key="k", value="v", previous="was").combine(beside)

    def at_three(match: str) -> float:
        told = ps.pattern(f"pattern q match {match} within forever").match(stream)
        return sum(row["p"] for row in told if round(row["time"].timestamp()) == 3)

    assert at_three("(A a [v = 'a'] | B b)") == at_three("A a [v = 'a']")
