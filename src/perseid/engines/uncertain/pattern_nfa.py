"""Nondeterministic automaton of a pattern over an uncertain stream, advanced one step of the stream at a time.

A *configuration* is a partial match that waits for its next event. All its times are relative to the current step,
which has time 0. The *letter* of a step is the set of events at it, as far as the pattern distinguishes them. If no
condition refers to an earlier event, two events of one step are equivalent to one event that matches whatever either
matches (the symbols m and a of section 3.1.1).

The reference (:mod:`perseid.reference.oracle`) shares no code with this module, so that tests compare two
implementations.
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

EVENT_PRESENT = 1
"""Symbol bit: there is an event. Two bits for each pattern step follow: the event fits, and it also passes the test."""
NO_STEP = -1
END_OF_TIME = 1 << 62
UNTIMED = -1
"""Time of an event that the pattern does not measure: before the current step."""

Symbol: TypeAlias = "tuple[int, tuple[tuple[str, object], ...]]"
"""Bits, and the columns that later conditions read."""
Letter: TypeAlias = "tuple[Symbol, ...]"
TakenEvent: TypeAlias = "tuple[int, int]"
"""A taken event: its position in the letter, and the pattern step that takes it."""
BoundEvent: TypeAlias = "tuple[int, Symbol]"
"""Time and symbol of an event that later conditions refer to."""

NO_SYMBOL: Symbol = (0, ())


@dataclass(frozen=True, slots=True)
class Iteration:
    """A repetition after ``count`` iterations; the last one is ``empty`` until it takes an event."""

    loop: c.Loop
    count: int
    empty: bool


@dataclass(frozen=True, slots=True)
class ZoneEnd:
    """End of a zone's events."""

    zone: c.Zone


Task: TypeAlias = "c.Core | c.Hop | Iteration | ZoneEnd"
Continuation: TypeAlias = "tuple[Task, Continuation] | None"
"""Rest of the pattern, as a linked list."""


@dataclass(frozen=True, slots=True)
class Negation:
    """An excluded event: after the time ``since``, up to the time ``until`` if that is set."""

    body: c.Take
    since: int | None
    until: int | None
    depth: int
    """Number of open zones. A negation at the end of a zone is active until the zone's window ends."""


class NfaThread(NamedTuple):
    """A partial match: rest of the pattern, measured times, and events that conditions refer to."""

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
    """End of a timed negation: the next event must be later."""
    negations: tuple[Negation, ...] = ()
    zones: tuple[tuple[c.Zone, int | None], ...] = ()
    """Open zones, each with the time of its first event, if it has one."""


@dataclass(frozen=True, slots=True)
class Move:
    """A step that can take the next event; ``thread`` has the rest of the pattern after it."""

    step: int
    thread: NfaThread

    @property
    def contiguity(self) -> ast.Contiguity:
        hop = self.thread.hop
        return ast.Contiguity.SKIP if hop is None else hop.contiguity


@dataclass(frozen=True, slots=True)
class AcceptState:
    """The pattern is complete."""

    thread: NfaThread


ConfigurationKey: TypeAlias = "tuple[object, ...]"


@dataclass(frozen=True, eq=False, slots=True)
class Configuration:
    """A waiting thread, and the indices of its moves that are still possible."""

    thread: NfaThread
    waiting: tuple[int, ...]
    key: ConfigurationKey
    """Equal for equivalent configurations."""

    @property
    def key_without_age(self) -> ConfigurationKey:
        """Equal for configurations that differ at most in their start time."""
        return _key(self.thread._replace(first_time=0), self.waiting)

    @property
    def age_us(self) -> int:
        """Microseconds since the first event, if the pattern measures them."""
        return -self.thread.first_time


def _key(thread: NfaThread, waiting: tuple[int, ...]) -> ConfigurationKey:
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
    """Configurations of one pattern, and their transitions on letters."""

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
        """True if, of configurations that differ only in start time, the youngest subsumes the others."""
        self.longest_us = sum(durations_us(pattern))
        """Upper bound of all durations that the pattern measures: their sum, because negations can be consecutive."""

    @property
    def is_timed(self) -> bool:
        """True if the time between two steps of the stream matters."""
        return self.measures_start or self.measures_clock

    # letters

    def join_letters(self, one: Letter, other: Letter) -> Letter:
        """The letter of a step with the events of both letters."""
        if self.refers_back:
            return tuple(sorted({*one, *other}, key=repr))
        bits = 0
        for symbol, _ in (*one, *other):
            bits |= symbol
        return ((bits, ()),) if bits else ()

    # transitions

    def start(self, letter: Letter) -> tuple[list[Configuration], int]:
        """Configurations that start with a letter, and the number of threads that complete at once."""
        return self.settle([thread for _, thread in self.start_threads(letter)])

    def start_threads(self, letter: Letter) -> list[tuple[TakenEvent, NfaThread]]:
        """Threads that start with an event of a letter, with the event taken."""
        moves = [one for one in self.closure(NfaThread((self.pattern.body, None))) if isinstance(one, Move)]
        out = []
        for place, symbol in enumerate(letter):
            for move in moves:
                if self._matches(move, symbol):
                    thread = self._bind_event(move, symbol, first_time=0)
                    out += [((place, move.step), thread)] if thread is not None else []
        return out

    def advance(self, configuration: Configuration, letter: Letter, elapsed_us: int) -> tuple[list[Configuration], int]:
        """Successors of a configuration, possibly including itself, and the number of threads that complete.

        ``elapsed_us`` is the time since the previous step, in microseconds.
        """
        bound, remaining = self.transitions(configuration, letter, elapsed_us)
        configurations, complete = self.settle([thread for _, thread in bound])
        return configurations if remaining is None else [*configurations, remaining], complete

    def transitions(
        self, configuration: Configuration, letter: Letter, elapsed_us: int
    ) -> tuple[list[tuple[TakenEvent, NfaThread]], Configuration | None]:
        """Threads that take an event of the letter, with that event; and the configuration that waits on, or None."""
        thread = shift_times(configuration.thread, elapsed_us) if self.is_timed else configuration.thread
        moves = list(self.closure(thread))
        waiting = []
        for number in configuration.waiting:
            move = moves[number]
            if isinstance(move, Move):
                end = self._window_end(move.thread)
                if end is None or end >= 0:
                    waiting.append((number, move))
        bound: list[tuple[TakenEvent, NfaThread]] = []
        fitting = set()
        for place, symbol in enumerate(letter):
            for number, move in waiting:
                if self._is_due(move.thread) and self._matches(move, symbol):
                    fitting.add(number)
                    after = self._bind_event(move, symbol, first_time=thread.first_time)
                    bound += [((place, move.step), after)] if after is not None else []
        remaining = []
        for number, move in waiting:
            if number in fitting and move.contiguity is not ast.Contiguity.ANY:
                continue
            if letter and move.contiguity is ast.Contiguity.NEXT:
                continue
            end = self._window_end(move.thread)
            if not (self._violates_negation(move.thread, letter) or (end is not None and end <= 0)):
                remaining.append(number)
        return bound, self.configuration(thread, tuple(remaining)) if remaining else None

    def settle(self, threads: Sequence[NfaThread]) -> tuple[list[Configuration], int]:
        """For threads that have just taken an event: the waiting configurations, and the number of accepted threads."""
        configurations, complete = [], 0
        for thread in threads:
            waiting = []
            for number, one in enumerate(self.closure(thread)):
                if isinstance(one, AcceptState):
                    complete += self._is_accepted(one.thread)
                    continue
                end = self._window_end(one.thread)
                if end is None or end > 0:
                    waiting.append(number)
            if waiting:
                configurations.append(self.configuration(thread, tuple(waiting)))
        return configurations, complete

    def configuration(self, thread: NfaThread, waiting: tuple[int, ...]) -> Configuration:
        """Normalize a configuration: drop or cap the times that no longer matter."""
        first_time = thread.first_time if self.measures_start else UNTIMED
        if self.measures_start and not isinstance(self.pattern.within, ast.TimeWindow):
            assert self.pattern.holds_for is not None
            first_time = max(first_time, -self.pattern.holds_for)  # a longer age makes no difference
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

    # next steps of the pattern

    def closure(self, thread: NfaThread) -> Iterator[Move | AcceptState]:
        """All moves that a thread can reach without an event, in pattern order."""
        if thread.rest is None:
            yield AcceptState(thread)
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

    def _iterate(self, thread: NfaThread, task: Iteration, rest: Continuation) -> Iterator[Move | AcceptState]:
        """Another iteration, or the end of the repetition; the preferred one first."""
        loop, count = task.loop, task.count
        idle = count > 0 and task.empty
        # An iteration without events satisfies all required ones; if none is required, it is redundant.
        may_leave = count - 1 < loop.low if idle else count >= loop.low
        may_repeat = not idle and (loop.high is None or count < loop.high)
        leave = thread._replace(rest=rest)
        repeat = thread._replace(
            rest=(loop.body, (Iteration(loop, count + 1, True), rest)),
            hop=loop.hop if count > 0 else thread.hop,
            bound={step: event for step, event in thread.bound.items() if step not in loop.inside},
        )
        continuations = [(may_repeat, repeat), (may_leave, leave)]
        for allowed, continuation in reversed(continuations) if loop.reluctant else continuations:
            if allowed:
                yield from self.closure(continuation)

    # conditions

    def _is_due(self, thread: NfaThread) -> bool:
        """Return True if the thread may take an event now, whichever event it is."""
        assert thread.hop is not None
        if thread.clock >= 0 or (thread.barrier is not None and thread.barrier >= 0):
            return False
        return thread.hop.after is None or -thread.clock >= thread.hop.after

    def _window_end(self, thread: NfaThread) -> int | None:
        """Last time at which the thread can take an event; None if unbounded."""
        ends = []
        if isinstance(self.pattern.within, ast.TimeWindow):
            ends.append(thread.first_time + _window_us(self.pattern.within))
        for zone, first in thread.zones:
            if first is not None and isinstance(zone.within, ast.TimeWindow):
                ends.append(first + _window_us(zone.within))
        if thread.hop is not None and thread.hop.within is not None:
            ends.append(thread.clock + thread.hop.within)
        return min(ends, default=None)

    def _is_accepted(self, thread: NfaThread) -> bool:
        """Return True if a complete thread is within its window, and held for the required duration."""
        within = self.pattern.within
        window_end = thread.first_time + _window_us(within) if isinstance(within, ast.TimeWindow) else END_OF_TIME
        ends = (window_end if one.until is None else one.until for one in thread.negations)
        end = max([thread.clock, *ends])
        if end > window_end:
            return False
        return self.pattern.holds_for is None or end - thread.first_time >= self.pattern.holds_for

    def _violates_negation(self, thread: NfaThread, letter: Letter) -> bool:
        """Return True if an event of the letter violates a negation."""
        for negation in thread.negations:
            active = (negation.until is None or negation.until >= 0) and (negation.since is None or negation.since < 0)
            if active and any(self._matches(Move(negation.body.step, thread), symbol) for symbol in letter):
                return True
        return False

    def _matches(self, move: Move, symbol: Symbol) -> bool:
        """Return True if the event has the step's type, and satisfies the conditions that choose events."""
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

    def _bind_event(self, move: Move, symbol: Symbol, first_time: int) -> NfaThread | None:
        """The thread after it takes the event, or None if the step's test fails."""
        if not symbol[0] & passes(move.step):
            return None
        before = move.thread
        step = self.pattern.steps[move.step]
        kept_symbol = symbol if self.refers_back else NO_SYMBOL
        event = _event(0, kept_symbol)
        unified = unify(step.unify, event, before.unified) if step.unify else before.unified
        assert unified is not None, "the event fits"
        thread = NfaThread(
            rest=_after_event(before.rest),
            first_time=first_time,
            last_step=move.step,
            bound={**before.bound, move.step: (0, kept_symbol)},
            unified=unified,
            zones=tuple((zone, 0 if first is None else first) for zone, first in before.zones),
        )
        if not all(self._holds(test, thread, event) for test in self._must_later[move.step]):
            return None
        return thread._replace(bound={one: at for one, at in thread.bound.items() if one in self._referenced})

    def _holds(self, condition: Expr, thread: NfaThread, event: Event) -> bool:
        current = {}
        for step, (time, symbol) in thread.bound.items():
            name = self.pattern.steps[step].name
            if name is not None:
                current[name] = _event(time, symbol)
        scope = MatchScope(self._names, Bindings(current=current, unified=thread.unified), event, self.relations)
        return holds(condition, scope)


def chooses(step: int) -> int:
    """Bit: the event has the step's type, and satisfies its event-local conditions."""
    return 2 << (2 * step)


def passes(step: int) -> int:
    """Bit: the event also passes the step's event-local tests."""
    return 4 << (2 * step)


def shift_times(thread: NfaThread, elapsed_us: int) -> NfaThread:
    """Shift all times of a thread into the past."""
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
    """Return True if a condition refers to other events, or a variable occurs in the pattern."""
    return any(
        step.unify or not all(event_local(expr, step, pattern) for expr in _conditions(step)) for step in pattern.steps
    )


def durations_us(pattern: c.CorePattern) -> Iterator[int]:
    """All durations in a pattern."""
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
    """Prepend the items of a sequence, each after its hop. A negation takes no event, so it has no hop."""
    for item, hop in zip(reversed(task.items[1:]), reversed(task.hops), strict=True):
        rest = (item, rest) if isinstance(item, c.Absent) else (hop, (item, rest))
    return task.items[0], rest


def rests_after_events(body: c.Core, rest: Continuation = None) -> Iterator[Continuation]:
    """All possible rests of a pattern after an event, with every repetition in its first iteration."""
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


def _with_negation(thread: NfaThread, absent: c.Absent) -> NfaThread:
    """Add a negation from the thread's clock on: for a duration, or up to the next event."""
    assert isinstance(absent.body, c.Take)
    until = None if absent.duration is None else thread.clock + absent.duration
    negation = Negation(absent.body, thread.clock, until, len(thread.zones))
    thread = thread._replace(negations=(*thread.negations, negation))
    return thread if until is None else thread._replace(clock=until, barrier=until)


def _leave_zone(thread: NfaThread) -> NfaThread | None:
    """Leave the innermost zone; None if a bound of the zone is violated."""
    zone, first = thread.zones[-1]
    thread = thread._replace(zones=thread.zones[:-1])
    if first is None:
        return thread
    if isinstance(zone.within, ast.TimeWindow):
        end = first + _window_us(zone.within)
        if thread.clock > end:
            return None  # A timed negation outlasts the zone.
        own = [one for one in thread.negations if one.depth > len(thread.zones) and one.until is None]
        if own:
            # A negation without a duration at the end of a zone lasts until its window ends.
            negations = tuple(replace(one, until=end) if one in own else one for one in thread.negations)
            thread = thread._replace(negations=negations, clock=end, barrier=end)
    if zone.holds_for is not None and thread.clock - first < zone.holds_for:
        return None
    return thread


def _after_event(rest: Continuation) -> Continuation:
    """Rest of the pattern after an event: no iteration is empty, and unbounded counts are capped above the minimum."""
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
    """Steps with events that conditions of other steps refer to."""
    ids = {step.name: step.id for step in pattern.steps if step.name is not None}
    for step in pattern.steps:
        for expr in _conditions(step):
            for ref in references(expr).plain:
                other = ids.get(ref.parts[0])
                if other is not None and other != step.id:
                    yield other
