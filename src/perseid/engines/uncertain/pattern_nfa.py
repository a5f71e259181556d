"""The nondeterministic automaton of a pattern over an uncertain stream, advanced one step of the stream at a time.

A *configuration* is a partial match that waits for its next event. All its times are relative to now: an event that is taken
now has time 0. A step of the stream has a *letter*: the events that happen at it, as far as the pattern can distinguish them.
Where no condition refers to an earlier event, two events of one step are equivalent to one that can do what either can
(the symbols m and a of section 3.1.1).

The reference (:mod:`perseid.reference.oracle`) shares no code with this module, so that tests compare two implementations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from perseid.engines.uncertain.restrictions import reject_unsupported
from perseid.lang import ast
from perseid.lang.expressions import Expr
from perseid.semantics import core as c
from perseid.semantics.events import Event
from perseid.semantics.facts import event_local
from perseid.semantics.names import references
from perseid.semantics.scope import Bindings, MatchScope, holds, unify
from perseid.semantics.values import Relation

THERE = 1
"""The bit of a symbol that says: there is an event. Two bits for each step follow: it fits, and it passes the test too."""
NO_STEP = -1
END_OF_TIME = 1 << 62
UNTIMED = -1
"""The time of what the pattern does not measure: some time before now."""

Symbol: TypeAlias = "tuple[int, tuple[tuple[str, object], ...]]"
"""Bits, and the columns that later conditions ask for, where there are any."""
Letter: TypeAlias = "tuple[Symbol, ...]"
TakenEvent: TypeAlias = "tuple[int, int]"
"""Which event of a step of the stream is taken, by its place in the letter, and as which step of the pattern."""
BoundEvent: TypeAlias = "tuple[int, Symbol]"
"""The time of an event that later conditions refer to, and its symbol."""

NO_SYMBOL: Symbol = (0, ())


@dataclass(frozen=True, slots=True)
class Iteration:
    """A repetition after ``count`` iterations; the last one is ``empty`` as long as it has taken no event."""

    loop: c.Loop
    count: int
    empty: bool


@dataclass(frozen=True, slots=True)
class ZoneEnd:
    """Where the events of a zone end."""

    zone: c.Zone


Task: TypeAlias = "c.Core | c.Hop | Iteration | ZoneEnd"
Continuation: TypeAlias = "tuple[Task, Continuation] | None"
"""What is left of the pattern, as a linked list."""


@dataclass(frozen=True, slots=True)
class Negation:
    """An event that must not occur: after the time ``since``, up to the time ``until`` where there is one."""

    body: c.Take
    since: int | None
    until: int | None
    depth: int
    """How many zones were open. A negation at the end of a zone lasts until the zone's window ends."""


class Thread(NamedTuple):
    """A partial match: what is left of the pattern, the times it measures, and the events that conditions refer to."""

    rest: Continuation
    hop: c.Hop | None = None
    first_time: int = 0
    last_time: int = 0
    last_step: int = NO_STEP
    bound: Mapping[int, BoundEvent] = MappingProxyType({})
    """By step, the event of the current iteration."""
    unified: Mapping[str, object] = MappingProxyType({})
    clock: int = 0
    """The time of the last event, or the end of a timed negation after it."""
    barrier: int | None = None
    """The end of a timed negation: the next event is later."""
    negations: tuple[Negation, ...] = ()
    zones: tuple[tuple[c.Zone, int | None], ...] = ()
    """Open zones, each with the time of its first event, if it has one."""


@dataclass(frozen=True, slots=True)
class Move:
    """A step that can take the next event; ``thread`` has the rest of the pattern behind it."""

    step: int
    thread: Thread

    @property
    def contiguity(self) -> ast.Contiguity:
        hop = self.thread.hop
        return ast.Contiguity.SKIP if hop is None else hop.contiguity


@dataclass(frozen=True, slots=True)
class Accept:
    """The pattern is complete."""

    thread: Thread


ConfigurationKey: TypeAlias = "tuple[object, ...]"


@dataclass(frozen=True, eq=False, slots=True)
class Configuration:
    """A thread that waits, and by number which of its moves are still possible."""

    thread: Thread
    waiting: tuple[int, ...]
    key: ConfigurationKey
    """Equal for configurations that do the same for ever."""

    @property
    def key_without_age(self) -> ConfigurationKey:
        """Equal for configurations that differ at most in when they began."""
        return _key(self.thread._replace(first_time=0), self.waiting)

    @property
    def age_us(self) -> int:
        """Microseconds since the first event, where the pattern measures them."""
        return -self.thread.first_time


def _key(thread: Thread, waiting: tuple[int, ...]) -> ConfigurationKey:
    bound, unified = tuple(sorted(thread.bound.items())), tuple(sorted(thread.unified.items()))
    return (
        thread.rest,
        waiting,
        thread.first_time,
        thread.last_time,
        thread.last_step,
        thread.clock,
        thread.barrier,
        thread.negations,
        thread.zones,
        bound,
        unified,
    )


class PatternNFA:
    """The configurations of one pattern, and how a letter moves them."""

    def __init__(self, pattern: c.CorePattern, relations: Mapping[str, Relation] | None = None) -> None:
        reject_unsupported(pattern)
        self.pattern = pattern
        self.relations = relations or {}
        self._names = frozenset(step.name for step in pattern.steps if step.name is not None)
        self._choose_later = [
            [one for one in step.choose if not event_local(one.expr, step, pattern)] for step in pattern.steps
        ]
        self._must_later = [
            [test for test in step.must if not event_local(test, step, pattern)] for step in pattern.steps
        ]
        self.refers_back = refers_back(pattern)
        self._referenced = set(_referenced_steps(pattern))
        elements = list(c.each(pattern.body))
        hops = [*_hops(pattern)]
        self.measures_start = isinstance(pattern.within, ast.TimeWindow) or pattern.holds_for is not None
        self.measures_clock = (
            any(isinstance(one, c.Zone) for one in elements)
            or any(isinstance(one, c.Absent) and one.duration is not None for one in elements)
            or any(hop.after is not None or hop.within is not None for hop in hops)
        )
        self.youngest_suffices = not (pattern.holds_for is not None or self.measures_clock or self.refers_back)
        """Of configurations that differ in when they began, can the youngest do what the others can?"""
        self.longest_us = sum(durations_us(pattern))
        """A time longer than all that the pattern measures: negations follow one another."""

    @property
    def is_timed(self) -> bool:
        """Does it matter how much time lies between two steps of the stream?"""
        return self.measures_start or self.measures_clock

    # letters

    def join_letters(self, one: Letter, other: Letter) -> Letter:
        """The letter of a step at which the events of both happen."""
        if self.refers_back:
            return tuple(sorted({*one, *other}, key=repr))
        bits = 0
        for symbol, _ in (*one, *other):
            bits |= symbol
        return ((bits, ()),) if bits else ()

    # transitions

    def start(self, letter: Letter) -> tuple[list[Configuration], int]:
        """The configurations that the events of a step begin, and how many ways are complete with them."""
        return self.settle([thread for _, thread in self.start_threads(letter)])

    def start_threads(self, letter: Letter) -> list[tuple[TakenEvent, Thread]]:
        """The threads that the events of a step begin, by what they take."""
        moves = [one for one in self.closure(Thread((self.pattern.body, None))) if isinstance(one, Move)]
        out = []
        for place, symbol in enumerate(letter):
            for move in moves:
                if self._fits(move, symbol):
                    thread = self._take(move, symbol, first_time=0)
                    out += [((place, move.step), thread)] if thread is not None else []
        return out

    def advance(self, configuration: Configuration, letter: Letter, elapsed_us: int) -> tuple[list[Configuration], int]:
        """What a configuration becomes: others, perhaps itself, and how many ways are complete.

        ``elapsed_us`` is how long ago the step before was, in microseconds.
        """
        taken, still = self.transitions(configuration, letter, elapsed_us)
        configurations, complete = self.settle([thread for _, thread in taken])
        return configurations if still is None else [*configurations, still], complete

    def transitions(
        self, configuration: Configuration, letter: Letter, elapsed_us: int
    ) -> tuple[list[tuple[TakenEvent, Thread]], Configuration | None]:
        """The threads that go on with the events of a step, by what they take; and the configuration that goes on waiting."""
        thread = shift_times(configuration.thread, elapsed_us) if self.is_timed else configuration.thread
        moves = list(self.closure(thread))
        waiting = []
        for number in configuration.waiting:
            move = moves[number]
            if isinstance(move, Move):
                end = self._window_end(move.thread)
                if end is None or end >= 0:
                    waiting.append((number, move))
        taken: list[tuple[TakenEvent, Thread]] = []
        fitting = set()
        for place, symbol in enumerate(letter):
            for number, move in waiting:
                if self._is_due(move.thread) and self._fits(move, symbol):
                    fitting.add(number)
                    after = self._take(move, symbol, first_time=thread.first_time)
                    taken += [((place, move.step), after)] if after is not None else []
        still = []
        for number, move in waiting:
            if number in fitting and move.contiguity is not ast.Contiguity.ANY:
                continue
            if letter and move.contiguity is ast.Contiguity.NEXT:
                continue
            end = self._window_end(move.thread)
            if not (self._violates_negation(move.thread, letter) or (end is not None and end <= 0)):
                still.append(number)
        return taken, self.configuration(thread, tuple(still)) if still else None

    def settle(self, threads: Sequence[Thread]) -> tuple[list[Configuration], int]:
        """Of threads that have just taken an event, the configurations that wait, and how many are complete."""
        configurations, complete = [], 0
        for thread in threads:
            waiting = []
            for number, one in enumerate(self.closure(thread)):
                if isinstance(one, Accept):
                    complete += self._is_accepted(one.thread)
                    continue
                end = self._window_end(one.thread)
                if end is None or end > 0:
                    waiting.append(number)
            if waiting:
                configurations.append(self.configuration(thread, tuple(waiting)))
        return configurations, complete

    def configuration(self, thread: Thread, waiting: tuple[int, ...]) -> Configuration:
        """A configuration in its normal form: without times that nothing measures."""
        first_time = thread.first_time if self.measures_start else UNTIMED
        if self.measures_start and not isinstance(self.pattern.within, ast.TimeWindow):
            assert self.pattern.holds_for is not None
            first_time = max(first_time, -self.pattern.holds_for)  # long enough is long enough
        long_ago = -self.longest_us - 1
        negations = tuple(
            replace(one, since=one.since if one.since is not None and one.since > 0 else None)
            for one in thread.negations
            if one.until is None or one.until > 0
        )
        zones = tuple((zone, None if first is None else max(first, long_ago)) for zone, first in thread.zones)
        thread = thread._replace(
            hop=None,
            first_time=first_time,
            last_time=max(thread.last_time, long_ago) if self.measures_clock else UNTIMED,
            last_step=thread.last_step if self.refers_back else NO_STEP,
            clock=max(thread.clock, long_ago) if self.measures_clock else UNTIMED,
            barrier=thread.barrier if thread.barrier is not None and thread.barrier > 0 else None,
            negations=negations,
            zones=zones,
        )
        return Configuration(thread, waiting, _key(thread, waiting))

    # what is next in the pattern

    def closure(self, thread: Thread) -> Iterator[Move | Accept]:
        """All moves that a thread can reach without an event, in the order of the pattern."""
        if thread.rest is None:
            yield Accept(thread)
            return
        task, rest = thread.rest
        match task:
            case c.Take():
                yield Move(task.step, thread._replace(rest=rest))
            case c.Hop():
                yield from self.closure(thread._replace(rest=rest, hop=task))
            case c.Seq():
                yield from self.closure(thread._replace(rest=_sequence(task, rest)))
            case c.Alt():
                for branch in task.branches:
                    yield from self.closure(thread._replace(rest=(branch, rest)))
            case c.Loop():
                yield from self.closure(thread._replace(rest=(Iteration(task, 0, True), rest)))
            case Iteration():
                yield from self._iterate(thread, task, rest)
            case c.Absent():
                yield from self.closure(_with_negation(thread._replace(rest=rest), task))
            case c.Zone():
                inside: Continuation = (task.body, (ZoneEnd(task), rest))
                yield from self.closure(thread._replace(rest=inside, zones=(*thread.zones, (task, None))))
            case ZoneEnd():
                closed = _leave_zone(thread._replace(rest=rest))
                if closed is not None:
                    yield from self.closure(closed)
            case _:
                raise AssertionError(f"{type(task).__name__} was not rejected")

    def _iterate(self, thread: Thread, task: Iteration, rest: Continuation) -> Iterator[Move | Accept]:
        """Another iteration or the end of the repetition, the preferred one first."""
        loop, count = task.loop, task.count
        idle = count > 0 and task.empty
        # An iteration without an event stands for all that are required; where none is, it adds nothing.
        may_leave = count - 1 < loop.low if idle else count >= loop.low
        may_repeat = not idle and (loop.high is None or count < loop.high)
        leave = thread._replace(rest=rest)
        repeat = thread._replace(
            rest=(loop.body, (Iteration(loop, count + 1, True), rest)),
            hop=loop.hop if count > 0 else thread.hop,
            bound={step: event for step, event in thread.bound.items() if step not in loop.inside},
        )
        ways = [(may_repeat, repeat), (may_leave, leave)]
        for allowed, way in reversed(ways) if loop.reluctant else ways:
            if allowed:
                yield from self.closure(way)

    # conditions

    def _is_due(self, thread: Thread) -> bool:
        """May it take an event now, whichever event it is?"""
        assert thread.hop is not None
        if thread.clock >= 0 or (thread.barrier is not None and thread.barrier >= 0):
            return False
        return thread.hop.after is None or -thread.clock >= thread.hop.after

    def _window_end(self, thread: Thread) -> int | None:
        """The last time at which it can take an event; None where nothing bounds it."""
        ends = []
        if isinstance(self.pattern.within, ast.TimeWindow):
            ends.append(thread.first_time + _window_us(self.pattern.within))
        for zone, first in thread.zones:
            if first is not None and isinstance(zone.within, ast.TimeWindow):
                ends.append(first + _window_us(zone.within))
        if thread.hop is not None and thread.hop.within is not None:
            ends.append(thread.clock + thread.hop.within)
        return min(ends, default=None)

    def _is_accepted(self, thread: Thread) -> bool:
        """Is a complete thread within its window, and did it hold for as long as the pattern requires?"""
        within = self.pattern.within
        window_end = thread.first_time + _window_us(within) if isinstance(within, ast.TimeWindow) else END_OF_TIME
        ends = (window_end if one.until is None else one.until for one in thread.negations)
        end = max([thread.clock, *ends])
        if end > window_end:
            return False
        return self.pattern.holds_for is None or end - thread.first_time >= self.pattern.holds_for

    def _violates_negation(self, thread: Thread, letter: Letter) -> bool:
        """Does an event happen now that a negation excludes?"""
        for negation in thread.negations:
            active = (negation.until is None or negation.until >= 0) and (negation.since is None or negation.since < 0)
            if active and any(self._fits(Move(negation.body.step, thread), symbol) for symbol in letter):
                return True
        return False

    def _fits(self, move: Move, symbol: Symbol) -> bool:
        """Is the event of the step's type, and do the conditions that choose events hold?"""
        bits, _ = symbol
        if not bits & chooses(move.step):
            return False
        conditions = self._choose_later[move.step]
        step = self.pattern.steps[move.step]
        if not conditions and not step.unify:
            return True
        event = _event(0, symbol)
        unified = unify(step.unify, event, move.thread.unified)
        if unified is None:
            return False
        thread = move.thread._replace(unified=unified, bound={**move.thread.bound, move.step: (0, symbol)})
        return all(
            any(needed not in move.thread.bound for needed in condition.needs)
            or self._holds(condition.expr, thread, event)
            for condition in conditions
        )

    def _take(self, move: Move, symbol: Symbol, first_time: int) -> Thread | None:
        """The thread after it takes the event now, or None where the step's test fails."""
        if not symbol[0] & passes(move.step):
            return None
        before = move.thread
        step = self.pattern.steps[move.step]
        kept = symbol if self.refers_back else NO_SYMBOL
        event = _event(0, kept)
        unified = unify(step.unify, event, before.unified) if step.unify else before.unified
        assert unified is not None, "the event fits"
        thread = Thread(
            rest=_after_event(before.rest),
            first_time=first_time,
            last_step=move.step,
            bound={**before.bound, move.step: (0, kept)},
            unified=unified,
            zones=tuple((zone, 0 if first is None else first) for zone, first in before.zones),
        )
        if not all(self._holds(test, thread, event) for test in self._must_later[move.step]):
            return None
        return thread._replace(bound={one: at for one, at in thread.bound.items() if one in self._referenced})

    def _holds(self, condition: Expr, thread: Thread, own: Event) -> bool:
        current = {}
        for step, (time, symbol) in thread.bound.items():
            name = self.pattern.steps[step].name
            if name is not None:
                current[name] = _event(time, symbol)
        scope = MatchScope(self._names, Bindings(current=current, unified=thread.unified), own, self.relations)
        return holds(condition, scope)


def chooses(step: int) -> int:
    """The bit for: the event is of the step's type, and what one event decides of its condition holds."""
    return 2 << (2 * step)


def passes(step: int) -> int:
    """The bit for: what one event decides of its test holds as well."""
    return 4 << (2 * step)


def shift_times(thread: Thread, elapsed_us: int) -> Thread:
    """The same thread, so much later."""
    return thread._replace(
        first_time=thread.first_time - elapsed_us,
        last_time=thread.last_time - elapsed_us,
        bound={step: (time - elapsed_us, symbol) for step, (time, symbol) in thread.bound.items()},
        clock=thread.clock - elapsed_us,
        barrier=None if thread.barrier is None else thread.barrier - elapsed_us,
        negations=tuple(
            replace(
                one,
                since=None if one.since is None else one.since - elapsed_us,
                until=None if one.until is None else one.until - elapsed_us,
            )
            for one in thread.negations
        ),
        zones=tuple((zone, None if first is None else first - elapsed_us) for zone, first in thread.zones),
    )


def refers_back(pattern: c.CorePattern) -> bool:
    """Does a condition refer to more than the event at hand, or a variable occur in several places?"""
    return any(
        step.unify or not all(event_local(expr, step, pattern) for expr in _conditions(step)) for step in pattern.steps
    )


def durations_us(pattern: c.CorePattern) -> Iterator[int]:
    """All durations that a pattern names."""
    bounded: list[c.CorePattern | c.Zone] = [pattern]
    bounded += [one for one in c.each(pattern.body) if isinstance(one, c.Zone)]
    for bounds in bounded:
        if bounds.holds_for is not None:
            yield bounds.holds_for
        if isinstance(bounds.within, ast.TimeWindow) and isinstance(bounds.within.duration, int):
            yield bounds.within.duration
    for hop in _hops(pattern):
        yield from (time for time in (hop.after, hop.within) if time is not None)
    for element in c.each(pattern.body):
        if isinstance(element, c.Absent) and element.duration is not None:
            yield element.duration


def _event(time: int, symbol: Symbol) -> Event:
    return Event(None, time, dict(symbol[1]), "")


def _window_us(window: ast.TimeWindow) -> int:
    assert isinstance(window.duration, int), "parameters are bound before a pattern is matched"
    return window.duration


def _sequence(task: c.Seq, rest: Continuation) -> Continuation:
    """The items of a sequence, each behind its hop. A negation takes no event: the hop behind it counts."""
    for item, hop in zip(reversed(task.items[1:]), reversed(task.hops), strict=True):
        rest = (item, rest) if isinstance(item, c.Absent) else (hop, (item, rest))
    return task.items[0], rest


def rests_after_events(body: c.Core, rest: Continuation = None) -> Iterator[Continuation]:
    """What can be left of a pattern after an event. Every repetition is in its first iteration."""
    match body:
        case c.Take():
            yield rest
        case c.Seq():
            following: Continuation = _sequence(body, rest)
            while following is not None and following is not rest:
                task, following = following
                if not isinstance(task, c.Hop | Iteration | ZoneEnd):
                    yield from rests_after_events(task, following)
        case c.Alt():
            for branch in body.branches:
                yield from rests_after_events(branch, rest)
        case c.Loop():
            yield from rests_after_events(body.body, (Iteration(body, 1, False), rest))
        case c.Zone():
            yield from rests_after_events(body.body, (ZoneEnd(body), rest))


def _with_negation(thread: Thread, absent: c.Absent) -> Thread:
    """From the thread's clock on, the event must not occur: for a duration, or up to the next event."""
    assert isinstance(absent.body, c.Take)
    until = None if absent.duration is None else thread.clock + absent.duration
    negation = Negation(absent.body, thread.clock, until, len(thread.zones))
    thread = thread._replace(negations=(*thread.negations, negation))
    return thread if until is None else thread._replace(clock=until, barrier=until)


def _leave_zone(thread: Thread) -> Thread | None:
    """Leave the innermost zone; None where a bound of the zone does not hold."""
    zone, first = thread.zones[-1]
    thread = thread._replace(zones=thread.zones[:-1])
    if first is None:
        return thread
    if isinstance(zone.within, ast.TimeWindow):
        end = first + _window_us(zone.within)
        if thread.clock > end:
            return None  # A timed negation lasts longer than the zone.
        own = [one for one in thread.negations if one.depth > len(thread.zones) and one.until is None]
        if own:
            # A negation without a duration at the end of a zone lasts until its window ends.
            negations = tuple(replace(one, until=end) if one in own else one for one in thread.negations)
            thread = thread._replace(negations=negations, clock=end, barrier=end)
    if zone.holds_for is not None and thread.clock - first < zone.holds_for:
        return None
    return thread


def _after_event(rest: Continuation) -> Continuation:
    """What is left after an event. No iteration is empty, and of an unbounded count only what is required matters."""
    if rest is None:
        return None
    task, following = rest
    if isinstance(task, Iteration):
        unbounded = task.loop.high is None
        count = min(task.count, max(task.loop.low, 1) + 1) if unbounded else task.count
        task = Iteration(task.loop, count, False)
    return task, _after_event(following)


def _hops(pattern: c.CorePattern) -> Iterator[c.Hop]:
    for element in c.each(pattern.body):
        if isinstance(element, c.Seq):
            yield from element.hops
        elif isinstance(element, c.Loop):
            yield element.hop


def _conditions(step: c.CoreStep) -> tuple[Expr, ...]:
    return (*(one.expr for one in step.choose), *step.must)


def _referenced_steps(pattern: c.CorePattern) -> Iterator[int]:
    """The steps whose events conditions of other steps refer to."""
    ids = {step.name: step.id for step in pattern.steps if step.name is not None}
    for step in pattern.steps:
        for expr in _conditions(step):
            for ref in references(expr).plain:
                other = ids.get(ref.parts[0])
                if other is not None and other != step.id:
                    yield other
