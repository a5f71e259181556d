"""Probabilities of patterns over uncertain streams by enumeration of possible worlds.

The code follows docs/semantics.md and paper 5 (Figure 2) only. It shares nothing with the package: a pattern is
unrolled into sequences of steps, each sequence is matched in each world, and the probabilities of the worlds add up.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

START = "start"
NEXT = "->"
STRICT = ","

# ---------------------------------------------------------------- pattern tree


@dataclass(frozen=True)
class UncertainCondition:
    """``column op operand``; the operand is a constant, a list of constants, or a column of another step."""

    column: str
    op: str
    operand: Any
    other: str | None = None

    def holds(self, event: Mapping[str, Any], env: Mapping[str, Mapping[str, Any]]) -> bool:
        left = event.get(self.column)
        right = self.operand if self.other is None else env[self.other].get(self.operand)
        if left is None or right is None:
            return False
        if self.op == "=":
            return bool(left == right)
        if self.op == "<>":
            return bool(left != right)
        return (left in right) == (self.op == "in")

    def text(self, owner: str | None = None) -> str:
        left = self.column if owner is None else f"{owner}.{self.column}"
        if self.other is not None:
            return f"{left} {self.op} {self.other}.{self.operand}"
        if isinstance(self.operand, tuple):
            return f"{left} {self.op} ({', '.join(map(quote, self.operand))})"
        return f"{left} {self.op} {quote(self.operand)}"


def quote(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


@dataclass(frozen=True)
class UncertainStep:
    """One event: its type (None is any), unified columns, conditions that choose and conditions that test."""

    kind: str | None
    name: str | None = None
    unify: tuple[tuple[str, str], ...] = ()
    choose: tuple[UncertainCondition, ...] = ()
    must: tuple[UncertainCondition, ...] = ()

    def text(self, quantifier: str = "", rounds: str = "") -> str:
        head = self.kind or "any"
        if self.unify:
            head += "(" + ", ".join(f"{column} as {variable}" for column, variable in self.unify) + ")"
        parts = [head + quantifier]
        if self.name:
            parts.append(self.name)
        if self.choose:
            parts.append("[" + " and ".join(one.text() for one in self.choose) + "]")
        if self.must:
            parts.append("must (" + " and ".join(one.text() for one in self.must) + ")")
        if rounds:
            parts.append(rounds)
        return " ".join(parts)


@dataclass(frozen=True)
class Link:
    """An arrow with bounds in seconds on the time between, and a negated step before its target."""

    arrow: str
    after: int | None = None
    within: int | None = None
    absent: UncertainStep | None = None

    def text(self) -> str:
        text = self.arrow
        if self.absent is not None:
            text = f"{NEXT} not {self.absent.text()} {self.arrow}"
        if self.after is not None:
            text += f" after {self.after} seconds"
        if self.within is not None:
            text += f" within {self.within} seconds"
        return text


@dataclass(frozen=True)
class UncertainSequence:
    """Elements and the links between them; ``within`` and ``holds`` are bounds in seconds from first to last."""

    items: tuple[Any, ...]
    links: tuple[Link, ...]
    within: int | None = None
    holds: int | None = None

    def body(self) -> str:
        text = _element_text(self.items[0])
        for link, item in zip(self.links, self.items[1:], strict=True):
            glue = "" if link.arrow == STRICT and link.absent is None else " "
            text += f"{glue}{link.text()} {_element_text(item)}"
        return text

    def text(self) -> str:
        bounds = "" if self.within is None else f" within {self.within} seconds"
        bounds += "" if self.holds is None else f" holds for {self.holds} seconds"
        return f"({self.body()}{bounds})"


@dataclass(frozen=True)
class Choice:
    branches: tuple[Any, ...]

    def text(self) -> str:
        return "(" + " | ".join(_element_text(one) for one in self.branches) + ")"


@dataclass(frozen=True)
class UncertainRepeat:
    element: Any
    quantifier: str
    least: int
    most: int | None
    rounds: str = ""

    def text(self) -> str:
        if isinstance(self.element, UncertainStep):
            return self.element.text(self.quantifier, self.rounds)
        return _element_text(self.element) + self.quantifier + (f" {self.rounds}" if self.rounds else "")


def _element_text(element: Any) -> str:
    return str(element.text())


@dataclass(frozen=True)
class UncertainPattern:
    """A whole pattern. Each conjunct of ``where`` is (step name, condition); ``window`` None is forever."""

    body: UncertainSequence
    where: tuple[tuple[str, UncertainCondition], ...] = ()
    window: int | None = None
    holds: int | None = None
    partition: tuple[str, ...] = ()
    selection: str | None = None

    def text(self) -> str:
        lines = ["pattern q", f"match {self.body.body()}"]
        if self.where:
            lines.append("where " + " and ".join(one.text(owner) for owner, one in self.where))
        lines.append("within forever" if self.window is None else f"within {self.window} seconds")
        if self.holds is not None:
            lines.append(f"holds for {self.holds} seconds")
        if self.partition:
            lines.append("partition by " + ", ".join(self.partition))
        if self.selection:
            lines.append(f"selection {self.selection}")
        return "\n".join(lines)


# ---------------------------------------------------------------- unrolling into sequences of steps


@dataclass(frozen=True)
class Atom:
    """A step of one unrolled sequence, the link that leads to it, and the groups that begin and end with it."""

    step: UncertainStep
    link: Link
    opens: int = 0
    closes: tuple[tuple[int | None, int | None], ...] = ()


Word = tuple[Atom, ...]


class WordLimitError(Exception):
    """The pattern has more unrolled sequences than a case may have."""


def unroll(pattern: UncertainPattern, longest: int, limit: int = 300) -> list[Word]:
    """Returns every sequence of at most ``longest`` steps that the pattern can match."""
    words = _unroll(pattern.body, Link(START), None, longest, limit)
    return [word for word in dict.fromkeys(words) if word]


def _unroll(element: Any, link: Link, behind: str | None, longest: int, limit: int) -> list[Word]:
    if isinstance(element, UncertainStep):
        return [(Atom(element, link),)]
    if isinstance(element, Choice):
        return [word for one in element.branches for word in _unroll(one, link, behind, longest, limit)]
    if isinstance(element, UncertainRepeat):
        return _unroll_repeat(element, link, behind, longest, limit)
    words: list[Word] = [()]
    links = (link, *element.links)
    for place, item in enumerate(element.items):
        following = element.links[place].arrow if place < len(element.links) else behind
        if place == 0 and behind is not None:
            following = behind  # The first element of a group takes the arrow of the group.
        tails = _unroll(item, links[place], following, longest, limit)
        words = _concatenate(words, tails, longest, limit)
    if element.within is None and element.holds is None:
        return words
    return [_bounded(word, element.within, element.holds) for word in words]


def _unroll_repeat(element: UncertainRepeat, link: Link, behind: str | None, longest: int, limit: int) -> list[Word]:
    arrow = link.arrow if link.arrow != START else (behind or NEXT)
    arrow = {"": arrow, "consecutive": STRICT, "relaxed": NEXT}[element.rounds]
    first = _unroll(element.element, link, behind, longest, limit)
    again = [word for word in _unroll(element.element, Link(arrow), behind, longest, limit) if word]
    found: list[Word] = [()] if element.least == 0 or () in first else []
    words = [word for word in first if word]
    number = 1
    while words and (element.most is None or number <= element.most):
        if number >= element.least or () in first:
            found += words
            if len(found) > limit:
                raise WordLimitError
        words = _concatenate(words, again, longest, limit)
        number += 1
    return found


def _concatenate(heads: list[Word], tails: list[Word], longest: int, limit: int) -> list[Word]:
    words = [head + tail for head in heads for tail in tails if len(head) + len(tail) <= longest]
    if len(words) > limit:
        raise WordLimitError
    return words


def _bounded(word: Word, within: int | None, holds: int | None) -> Word:
    if not word:
        return word
    head = Atom(word[0].step, word[0].link, word[0].opens + 1, word[0].closes)
    word = (head, *word[1:])
    tail = word[-1]
    return (*word[:-1], Atom(tail.step, tail.link, tail.opens, (*tail.closes, (within, holds))))


# ---------------------------------------------------------------- matching in one world

Event = Mapping[str, Any]
Moment = tuple[int, tuple[Event, ...]]  # time in seconds, events


class UncertainPartial(NamedTuple):
    """A partial match: times of its first and last event, variables, named events that conditions read, open groups."""

    first: int
    last: int
    place: int
    variables: tuple[tuple[str, Any], ...]
    named: tuple[tuple[str, int, int], ...]  # name, moment, number of the event in it
    groups: tuple[int, ...]
    taken: tuple[tuple[str | None, int, int], ...] = ()  # step, moment and number of each event, if matches count


@dataclass
class AutomatonNode:
    """A step of a tree of unrolled sequences, in which sequences share their beginnings."""

    atom: Atom
    conjuncts: list[tuple[str, UncertainCondition]]
    is_end: bool = False
    children: dict[Atom, AutomatonNode] = field(default_factory=dict)


class UncertainMatcher:
    """Finds the moments at which a pattern is completed in one world."""

    def __init__(self, pattern: UncertainPattern, longest: int, counts: bool = False) -> None:
        self.pattern = pattern
        self.counts = counts
        words = unroll(pattern, longest)
        read = {one.other for _, one in pattern.where if one.other}
        read |= {owner for owner, one in pattern.where if one.other}
        self.roots: dict[Atom, AutomatonNode] = {}
        for word in words:
            nodes = self.roots
            for place, atom in enumerate(word):
                read |= {one.other for one in (*atom.step.choose, *atom.step.must) if one.other}
                node = nodes.get(atom)
                if node is None:
                    node = nodes[atom] = AutomatonNode(atom, self._conjuncts_at(word[: place + 1]))
                node.is_end = node.is_end or place == len(word) - 1
                nodes = node.children
        self.read = read

    def _conjuncts_at(self, word: Word) -> list[tuple[str, UncertainCondition]]:
        """Conjuncts of ``where`` that choose at the last step of the word: it is the last step that they name."""
        *before, last = [atom.step.name for atom in word]
        found = []
        for owner, one in self.pattern.where:
            names = {owner} | ({one.other} if one.other else set())
            if last in names and names - {last} <= set(before):
                found.append((owner, one))
        return found

    def completed_at(self, world: tuple[Moment, ...]) -> set[int]:
        """Times at which some unrolled sequence takes its last event."""
        return {one.last for one in self.complete(world)}

    def count_at(self, world: tuple[Moment, ...]) -> Counter[int]:
        """Number of matches by time. The same events taken as the same steps are one match."""
        matches = {(one.last, frozenset(one.taken)) for one in self.complete(world)}
        return Counter(time for time, _ in matches)

    def complete(self, world: tuple[Moment, ...]) -> set[UncertainPartial]:
        """Partial matches that have taken the last event of a sequence, within the windows of the pattern."""
        found: set[UncertainPartial] = set()
        waiting = [(node, self._started(node.atom, node.conjuncts, world)) for node in self.roots.values()]
        while waiting:
            node, partials = waiting.pop()
            if not partials:
                continue
            if node.is_end:
                found |= {one for one in partials if self._fits_window(one)}
            for child in node.children.values():
                new = {one for old in partials for one in self._advanced(old, child.atom, child.conjuncts, world)}
                waiting.append((child, new))
        return found

    def _fits_window(self, one: UncertainPartial) -> bool:
        length = one.last - one.first
        if self.pattern.window is not None and length > self.pattern.window:
            return False
        return self.pattern.holds is None or length >= self.pattern.holds

    def _started(self, atom: Atom, conjuncts: list[Any], world: tuple[Moment, ...]) -> set[UncertainPartial]:
        empty = UncertainPartial(0, 0, -1, (), (), ())
        found: set[UncertainPartial] = set()
        for place in range(len(world)):
            found |= set(self._taken(empty, atom, conjuncts, world, place)[1])
        return found

    def _advanced(
        self, old: UncertainPartial, atom: Atom, conjuncts: list[Any], world: tuple[Moment, ...]
    ) -> Iterable[UncertainPartial]:
        link = atom.link
        for place in range(old.place + 1, len(world)):
            time, events = world[place]
            if not events:
                continue
            waited = time - old.last
            late = link.within is not None and waited > link.within
            early = link.after is not None and waited < link.after
            if link.arrow == NEXT and early:
                fits = False
                new: list[UncertainPartial] = []
            else:
                fits, new = self._taken(old, atom, conjuncts, world, place)
            if fits:
                if late or early or self._is_absence_broken(old, link, world, place):
                    return ()
                return new
            if link.arrow == STRICT:
                return ()
        return ()

    def _is_absence_broken(self, old: UncertainPartial, link: Link, world: tuple[Moment, ...], place: int) -> bool:
        if link.absent is None:
            return False
        env = self._environment(old, world)
        between = (event for number in range(old.place + 1, place) for event in world[number][1])
        return any(_unified(link.absent, event, old.variables, env) is not None for event in between)

    def _environment(self, old: UncertainPartial, world: tuple[Moment, ...]) -> dict[str, Event]:
        return {name: world[place][1][number] for name, place, number in old.named}

    def _taken(
        self, old: UncertainPartial, atom: Atom, conjuncts: list[Any], world: tuple[Moment, ...], place: int
    ) -> tuple[bool, list[UncertainPartial]]:
        """Returns whether an event of this moment fits, and the partial matches extended by the events that do."""
        time, events = world[place]
        step = atom.step
        env = self._environment(old, world) if old.named else {}
        fits = False
        found = []
        for number, event in enumerate(events):
            variables = _unified(step, event, old.variables, env)
            if variables is None:
                continue
            here = {**env, step.name: event} if step.name else env
            if not all(one.holds(here[owner], here) for owner, one in conjuncts):
                continue
            fits = True
            if not all(one.holds(event, env) for one in step.must):
                continue
            first = time if old.place < 0 else old.first
            groups = old.groups + (time,) * atom.opens
            lasting = True
            for within, holds in atom.closes:
                length = time - groups[-1]
                groups = groups[:-1]
                lasting = lasting and (within is None or length <= within) and (holds is None or length >= holds)
            if not lasting:
                continue
            named = old.named
            if step.name in self.read and step.name is not None:
                named = (*(one for one in named if one[0] != step.name), (step.name, place, number))
            taken = (*old.taken, (step.name, place, number)) if self.counts else ()
            found.append(UncertainPartial(first, time, place, variables, named, groups, taken))
        return fits, found


def _unified(
    step: UncertainStep, event: Event, variables: tuple[tuple[str, Any], ...], env: Mapping[str, Event]
) -> tuple[tuple[str, Any], ...] | None:
    """Variables after the step takes the event, or None where the event does not fit."""
    if step.kind is not None and event["type"] != step.kind:
        return None
    for one in step.choose:
        if not one.holds(event, env):
            return None
    if not step.unify:
        return variables
    bound = dict(variables)
    for column, variable in step.unify:
        value = event.get(column)
        if value is None or bound.setdefault(variable, value) != value:
            return None
    return tuple(sorted(bound.items()))


# ---------------------------------------------------------------- chains and their worlds

Path = tuple[tuple[Any, ...] | None, ...]  # at each step the values of the uncertain columns, or no event


@dataclass(frozen=True)
class Trajectory:
    """One path of a chain, with its probability conditional on the readings that count for each step."""

    path: Path
    weights: tuple[float, ...]


@dataclass
class Chain:
    """All that is believed of one key."""

    kind: str
    key: dict[str, Any]
    about: tuple[str, ...]
    trajectories: list[Trajectory] = field(default_factory=list)

    def event(self, values: tuple[Any, ...]) -> dict[str, Any]:
        return {"type": self.kind, **self.key, **dict(zip(self.about, values, strict=True))}


Table = Mapping[tuple[Any, ...] | None, Mapping[tuple[Any, ...], float]]


def enumerate_tables(tables: list[Table | None]) -> list[Trajectory]:
    """Paths of a chain of tables: by the value before, the probability of each value. The rest to 1 is no event.

    None is a time that is no step of the chain: no event, and the value carries over.
    """
    number = len(tables)
    found: list[tuple[Path, float]] = [((), 1.0)]
    before: int | None = None  # the place of the chain's step before
    for place, table in enumerate(tables):
        if table is None:
            found = [((*path, None), weight) for path, weight in found]
            continue
        grown = []
        for path, weight in found:
            row = table.get(path[before] if before is not None else None, {})
            grown += [((*path, value), weight * p) for value, p in row.items() if p > 0]
            rest = 1.0 - math.fsum(row.values())
            if rest > 1e-12:
                grown.append(((*path, None), weight * rest))
        found = grown
        before = place
    return [Trajectory(path, (weight,) * number) for path, weight in found]


def enumerate_distributions(distributions: list[Mapping[tuple[Any, ...], float]]) -> list[Trajectory]:
    """Returns the paths of a chain with independent steps."""
    found: list[tuple[Path, float]] = [((), 1.0)]
    for row in distributions:
        rest = 1.0 - math.fsum(row.values())
        options = [(value, p) for value, p in row.items() if p > 0] + ([(None, rest)] if rest > 1e-12 else [])
        found = [((*path, value), weight * p) for path, weight in found for value, p in options]
    return [Trajectory(path, (weight,) * len(distributions)) for path, weight in found]


@dataclass(frozen=True)
class Hidden:
    """A hidden Markov model."""

    initial: Mapping[Any, float]
    transitions: Mapping[Any, Mapping[Any, float]]
    readings: Mapping[Any, Mapping[Any, float]]


NO_ROW = object()


def read_silence(read: list[Any], patience: int) -> list[Any]:
    """Replace steps without a row by the reading of nothing, for so many steps after a row."""
    found: list[Any] = []
    since = patience
    for one in read:
        since = since + 1 if one is NO_ROW else 0
        found.append(None if one is NO_ROW and since <= patience else one)
    return found


def enumerate_hidden(model: Hidden, read: list[Any], lag: int | None) -> list[Trajectory]:
    """Paths of values behind readings. ``lag`` is how many steps ahead readings count; None is all of them.

    A step without a row has no event, and the value begins anew behind it.
    """
    number = len(read)
    found: list[tuple[Path, tuple[float, ...]]] = [((), (1.0,) * number)]
    place = 0
    while place < number:
        if read[place] is NO_ROW:
            found = [((*path, None), weights) for path, weights in found]
            place += 1
            continue
        end = place
        while end < number and read[end] is not NO_ROW:
            end += 1
        part = _enumerate_segment(model, read, place, end, lag)
        found = [
            (path + more, tuple(a * b for a, b in zip(weights, others, strict=True)))
            for path, weights in found
            for more, others in part
        ]
        place = end
    return [Trajectory(path, weights) for path, weights in found if any(weights)]


def _enumerate_segment(
    model: Hidden, read: list[Any], begin: int, end: int, lag: int | None
) -> list[tuple[Path, tuple[float, ...]]]:
    paths: list[tuple[tuple[Any, ...], float]] = [((value,), p) for value, p in model.initial.items() if p > 0]
    for _ in range(begin + 1, end):
        paths = [
            ((*path, value), weight * p)
            for path, weight in paths
            for value, p in model.transitions[path[-1]].items()
            if p > 0
        ]

    def fits(path: tuple[Any, ...], place: int) -> float:
        return model.readings[path[place - begin]].get(read[place], 0.0)

    # A reading that no value explains, after those before it, says nothing.
    telling: list[int] = []
    for place in range(begin, end):
        likelihood = math.fsum(w * math.prod(fits(path, one) for one in (*telling, place)) for path, w in paths)
        if likelihood > 0:
            telling.append(place)
    columns = []
    for step in range(len(read)):
        until = len(read) if lag is None else step + lag
        counts = [one for one in telling if one <= until]
        joint = [weight * math.prod(fits(path, one) for one in counts) for path, weight in paths]
        total = math.fsum(joint)
        columns.append([one / total for one in joint])
    return [
        (tuple((value,) for value in path), tuple(column[number] for column in columns))
        for number, (path, _) in enumerate(paths)
    ]


def spread_steps(trajectories: list[Trajectory], places: list[int], number: int) -> list[Trajectory]:
    """The same paths over ``number`` times, where the chain has steps at ``places`` only.

    At other times there is no event, and the weight is that of the chain's step before.
    """
    before = [max(0, sum(place <= time for place in places) - 1) for time in range(number)]
    found = []
    for one in trajectories:
        path: list[tuple[Any, ...] | None] = [None] * number
        for place, value in zip(places, one.path, strict=True):
            path[place] = value
        found.append(Trajectory(tuple(path), tuple(one.weights[step] for step in before)))
    return found


def take_steps_apart(trajectories: list[Trajectory], number: int) -> list[Trajectory]:
    """Independent steps with the same distributions at each step (``correlations=False``)."""
    distributions: list[dict[tuple[Any, ...], float]] = []
    for step in range(number):
        row: dict[tuple[Any, ...], float] = {}
        for one in trajectories:
            value = one.path[step]
            if value is not None:
                row[value] = row.get(value, 0.0) + one.weights[step]
        distributions.append(row)
    return enumerate_distributions(distributions)


@dataclass
class UncertainStream:
    """Steps, chains and certain events. ``times`` are the beginnings of the steps in seconds."""

    times: list[int]
    chains: list[Chain]
    certain: list[tuple[int, dict[str, Any]]]  # number of the step, event

    def groups(self, partition: tuple[str, ...]) -> list[tuple[Any, ...]]:
        """Values of the columns of ``partition by`` that some event may have."""
        found = {tuple(event.get(one) for one in partition) for _, event in self.certain}
        for chain in self.chains:
            for values in {value for one in chain.trajectories for value in one.path if value is not None}:
                event = chain.event(values)
                found.add(tuple(event.get(one) for one in partition))
        return sorted(found, key=repr)

    def worlds(
        self, partition: tuple[str, ...], group: tuple[Any, ...]
    ) -> Iterator[tuple[tuple[Moment, ...], tuple[float, ...]]]:
        """Yields every world of the events of one group, with its weight for the result of each step.

        Chains that cannot have an event in the group are left out: their weights add up to 1.
        """

        def belongs(event: Event) -> bool:
            return tuple(event.get(one) for one in partition) == group

        certain: list[list[Event]] = [[] for _ in self.times]
        for step, event in self.certain:
            if belongs(event):
                certain[step].append(event)
        options = []
        for chain in self.chains:
            merged: dict[tuple[Event | None, ...], tuple[float, ...]] = {}
            events: dict[Any, Event | None] = {None: None}
            shapes: dict[Any, tuple[Event | None, ...]] = {}
            for one in chain.trajectories:
                for value in one.path:
                    if value not in events:
                        event = chain.event(value)
                        events[value] = event if belongs(event) else None
                visible = tuple(value if events[value] is not None else None for value in one.path)
                shapes[visible] = tuple(events[value] for value in visible)
                before = merged.get(visible)
                merged[visible] = (
                    one.weights if before is None else tuple(a + b for a, b in zip(before, one.weights, strict=True))
                )
            if any(event is not None for shape in shapes.values() for event in shape):
                options.append([(shapes[visible], weights) for visible, weights in merged.items()])
        for combination in itertools.product(*options):
            moments = tuple(
                (
                    time,
                    (*certain[step], *(event for shape, _ in combination if (event := shape[step]) is not None)),
                )
                for step, time in enumerate(self.times)
            )
            yield (
                moments,
                tuple(math.prod(weights[step] for _, weights in combination) for step in range(len(self.times))),
            )

    def count_worlds(self) -> int:
        return math.prod(len(one.trajectories) for one in self.chains)


def probabilities(pattern: UncertainPattern, stream: UncertainStream) -> dict[tuple[tuple[Any, ...], int], float]:
    """Return the probability above 0 that the pattern is completed, by group and time."""
    matcher = UncertainMatcher(pattern, len(stream.times))
    steps = {time: step for step, time in enumerate(stream.times)}
    found: dict[tuple[tuple[Any, ...], int], float] = {}
    for group in stream.groups(pattern.partition):
        for moments, weights in stream.worlds(pattern.partition, group):
            for time in matcher.completed_at(moments):
                weight = weights[steps[time]]
                if weight > 0:
                    found[group, time] = found.get((group, time), 0.0) + weight
    return found


def expected_matches(pattern: UncertainPattern, stream: UncertainStream) -> dict[tuple[tuple[Any, ...], int], float]:
    """Return the expected number of matches completed, where it is above 0, by group and time."""
    matcher = UncertainMatcher(pattern, len(stream.times), counts=True)
    steps = {time: step for step, time in enumerate(stream.times)}
    found: dict[tuple[tuple[Any, ...], int], float] = {}
    for group in stream.groups(pattern.partition):
        for moments, weights in stream.worlds(pattern.partition, group):
            for time, number in matcher.count_at(moments).items():
                weight = weights[steps[time]]
                if weight > 0:
                    found[group, time] = found.get((group, time), 0.0) + weight * number
    return found
