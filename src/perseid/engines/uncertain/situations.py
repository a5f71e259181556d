"""Partial matches of a pattern, moved on one step of the stream at a time: the automaton before it is made deterministic.

A *situation* is a way through the pattern that waits for its next event, with all times counted from now. What it can do
next is asked of the oracle (:class:`perseid.semantics.oracle.Judge`), so that there is one meaning; what is here is which of
that matters later. A step of the stream has a *letter*: the events that happen at it, as far as the pattern can tell them apart.
Where no condition looks back at an earlier event, two events of one step are as good as one that can do what either can
(the symbols m and a of section 3.1.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from perseid.errors import UnsupportedError
from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.semantics import core as c
from perseid.semantics.events import Event
from perseid.semantics.facts import event_local
from perseid.semantics.names import references
from perseid.semantics.oracle import Judge
from perseid.semantics.paths import Option, Path, Rest, Round, Todo
from perseid.semantics.scope import unify
from perseid.semantics.values import Relation

FOREVER = 1 << 62
POSITION = 1 << 32
"""A position is a time and a symbol: time * this + the symbol's number."""
THERE = 1
"""The bit of a symbol that says: there is an event. Two bits for each step follow: it fits, and it passes the test too."""

Symbol: TypeAlias = "tuple[int, tuple[tuple[str, object], ...]]"
"""Bits, and the columns that later conditions ask for, where there are any."""
Letter: TypeAlias = "tuple[Symbol, ...]"
Key: TypeAlias = "tuple[Any, ...]"
Taken: TypeAlias = "tuple[int, int]"
"""Which event of a step is taken, by its place in the letter, and as which step of the pattern."""


def chooses(step: int) -> int:
    """The bit for: the event is of the step's kind, and what one event decides of its choosing holds."""
    return 2 << (2 * step)


def passes(step: int) -> int:
    """The bit for: what one event decides of its test holds as well."""
    return 4 << (2 * step)


@dataclass(frozen=True)
class Situation:
    """A path that waits, and by number which of the things that it could do next are still open to it."""

    path: Path
    waiting: tuple[int, ...]
    key: Key


class _Moments(Sequence[Event]):
    """Positions as the oracle looks them up."""

    def __init__(self) -> None:
        self.symbols: list[Symbol] = [(0, ())]
        self.numbers: dict[Symbol, int] = {(0, ()): 0}

    def number(self, symbol: Symbol) -> int:
        if symbol not in self.numbers:
            self.numbers[symbol] = len(self.symbols)
            self.symbols.append(symbol)
        return self.numbers[symbol]

    def __getitem__(self, position: Any) -> Any:
        _, attributes = self.symbols[position % POSITION]
        return Event(None, position // POSITION, dict(attributes), "")

    def __len__(self) -> int:
        return 0


class Situations(Judge):
    """The situations of one pattern, and how a letter moves them."""

    def __init__(self, pattern: c.CorePattern, relations: Mapping[str, Relation] | None = None) -> None:
        refuse(pattern)
        self.moments = _Moments()
        super().__init__(pattern, self.moments, None, True, relations or {}, every_way=True)
        self.looks_back = looks_back(pattern)
        self.kept = set(_asked_later(pattern))
        hops = [*_hops(pattern)]
        zones = [e for e in c.each(pattern.body) if isinstance(e, c.Zone)]
        timed = any(isinstance(e, c.Absent) and e.duration is not None for e in c.each(pattern.body))
        window = pattern.within
        self.times_start = isinstance(window, ast.TimeWindow) or pattern.holds_for is not None
        self.times_clock = bool(zones) or timed or any(hop.after is not None or hop.within is not None for hop in hops)
        self.youngest_do = not (pattern.holds_for is not None or self.times_clock or self.looks_back)
        """Of situations that differ in when they began, can the youngest do what the others can?"""
        self.oldest = _oldest(pattern)
        """Microseconds after which more of it changes nothing any more, where nothing happens."""

    @property
    def timed(self) -> bool:
        """Does it matter how much time lies between two steps of the stream?"""
        return self.times_start or self.times_clock

    def durations(self) -> Iterator[int]:
        """All times that the pattern asks for, in microseconds."""
        yield from _durations(self.pattern)

    # letters

    def joined(self, one: Letter, other: Letter) -> Letter:
        """The letter of a step at which the events of both happen."""
        if self.looks_back:
            return tuple(sorted({*one, *other}, key=repr))
        bits = 0
        for symbol, _ in (*one, *other):
            bits |= symbol
        return ((bits, ()),) if bits else ()

    # moving

    def begun(self, letter: Letter) -> tuple[list[Situation], int]:
        """The situations that the events of a step begin, and how many ways are complete with them."""
        return self.arrived([path for _, path in self.beginnings(letter)])

    def beginnings(self, letter: Letter) -> list[tuple[Taken, Path]]:
        """The paths that the events of a step begin, by what they take."""
        out = []
        for place, symbol in enumerate(letter):
            for option in self.options(Path((self.pattern.body, None))):
                if isinstance(option, Option) and self._fits(option, symbol):
                    path = self._taken(option, symbol, first=True)
                    out += [((place, option.step), path)] if path is not None else []
        return out

    def moved(self, situation: Situation, letter: Letter, elapsed: int) -> tuple[list[Situation], int]:
        """What becomes of a situation: others, perhaps itself, and how many ways are complete.

        ``elapsed`` is how long the step before lies back, in microseconds.
        """
        taken, still = self.moves(situation, letter, elapsed)
        situations, done = self.arrived([path for _, path in taken])
        return situations if still is None else [*situations, still], done

    def moves(
        self, situation: Situation, letter: Letter, elapsed: int
    ) -> tuple[list[tuple[Taken, Path]], Situation | None]:
        """The paths that go on from a situation with the events of a step, by what they take; and what goes on waiting."""
        path = shifted(situation.path, elapsed) if self.timed else situation.path
        options = list(self.options(path))
        start = path.taken[0][1]
        waiting = [
            (i, option) for i, option in enumerate(options) if i in situation.waiting and isinstance(option, Option)
        ]
        waiting = [(i, option) for i, option in waiting if self._is_open(option, start)]
        taken = []
        found = set()
        for place, symbol in enumerate(letter):
            for i, option in waiting:
                if self._is_live(option) and self._fits(option, symbol):
                    found.add(i)
                    after = self._taken(option, symbol, first=False)
                    taken += [((place, option.step), after)] if after is not None else []
        still = []
        for i, option in waiting:
            over = not option.any and (i in found or (option.next and bool(letter)))
            closing = self.closing(option, start, False)
            if not (over or self._is_violated(option.path, letter) or (closing is not None and closing <= 0)):
                still.append(i)
        return taken, self.situation(path, tuple(still)) if still else None

    def arrived(self, paths: Sequence[Path]) -> tuple[list[Situation], int]:
        """Paths that have just taken an event: which are complete, and which wait."""
        situations, done = [], 0
        for path in paths:
            start = path.taken[0][1]
            waiting = []
            for i, option in enumerate(self.options(path)):
                if isinstance(option, Option):
                    closing = self.closing(option, start, False)
                    waiting += [i] if closing is None or closing > 0 else []
                else:
                    done += int(self.accepted_end(option.path, start) is not None)
            if waiting:
                situations.append(self.situation(path, tuple(waiting)))
        return situations, done

    def _is_open(self, option: Option, start: int) -> bool:
        """Has no window closed since it was last looked at?"""
        closing = self.closing(option, start, False)
        return closing is None or closing >= 0

    def _is_live(self, option: Option) -> bool:
        """May it take an event now, whatever the event is?"""
        way, hop = option.path, option.path.hop
        assert hop is not None
        if way.clock >= 0 or (way.barrier is not None and way.barrier >= 0):
            return False
        return hop.after is None or -way.clock >= hop.after

    def _is_violated(self, path: Path, letter: Letter) -> bool:
        """Does something happen now that an absence rules out?"""
        for watch in path.watches:
            if (watch.until is not None and watch.until < 0) or (watch.since is not None and watch.since >= 0):
                continue
            assert isinstance(watch.body, c.Take)
            seed = path._replace(hop=c.Hop(ast.Contiguity.SKIP))
            if any(self._fits(Option(watch.body.step, seed), symbol) for symbol in letter):
                return True
        return False

    def _fits(self, option: Option, symbol: Symbol) -> bool:
        step = self.pattern.steps[option.step]
        bits, _ = symbol
        if not bits & chooses(step.id):
            return False
        later = [k for k in step.choose if not event_local(k.expr, step, self.pattern)]
        if not later and not step.unify:
            return True
        position = self.moments.number(symbol)
        event = self.moments[position]
        unified = unify(step.unify, event, option.path.unified)
        if unified is None:
            return False
        path = option.path
        bound = path._replace(taken=(*path.taken, (step.id, position)), unified=unified,
                              current={**path.current, step.id: position})  # fmt: skip
        return all(
            any(n not in path.current for n in condition.needs) or self.holds(condition.expr, bound, event)
            for condition in later
        )

    def _taken(self, option: Option, symbol: Symbol, *, first: bool) -> Path | None:
        """The path once the event is taken now, or None where the test of what was chosen fails."""
        step = self.pattern.steps[option.step]
        if not symbol[0] & passes(step.id):
            return None
        position = self.moments.number(symbol if self.looks_back else (0, ()))
        event = self.moments[position]
        path = option.path
        unified = unify(step.unify, event, path.unified) if step.unify else path.unified
        assert unified is not None
        begin = 0 if first else path.taken[0][1]
        after = Path(
            todo=_settled_todo(path.todo),
            taken=((-1, begin), (step.id, position)),
            current={**path.current, step.id: position},
            unified=unified,
            clock=0,
            watches=tuple(w for w in path.watches if w.conjunction is not None),
            zones=tuple((z, position if first_in is None else first_in) for z, first_in in path.zones),
        )
        tests = [test for test in step.must if not event_local(test, step, self.pattern)]
        if not all(self.holds(test, after, event) for test in tests):
            return None
        return after._replace(current={s: p for s, p in after.current.items() if s in self.kept})

    # what is the same

    def situation(self, path: Path, waiting: tuple[int, ...]) -> Situation:
        path = self._settled(path)
        return Situation(path, waiting, self._key(path, waiting))

    def _settled(self, path: Path) -> Path:
        """Without what no longer matters: which events were taken, and times that nobody asks for."""
        start = path.taken[0][1] // POSITION if self.times_start else -1
        if self.times_start and not isinstance(self.pattern.within, ast.TimeWindow):
            assert self.pattern.holds_for is not None
            start = max(start, -self.pattern.holds_for)  # long enough is long enough
        long_ago = -self.oldest - 1  # before all that anybody asks for
        last = max(path.taken[-1][1] // POSITION, long_ago) if self.times_clock else -1
        clock = max(path.clock, long_ago) if self.times_clock else -1
        watches = tuple(
            replace(w, position=-POSITION, since=w.since if w.since is not None and w.since > 0 else None)
            for w in path.watches
            if w.until is None or w.until > 0
        )
        zones = tuple(
            (z, None if first is None else max(first // POSITION, long_ago) * POSITION) for z, first in path.zones
        )
        return path._replace(
            taken=((-1, start * POSITION), (path.taken[-1][0] if self.looks_back else -1, last * POSITION)),
            clock=clock,
            barrier=path.barrier if path.barrier is not None and path.barrier > 0 else None,
            watches=watches,
            zones=zones,
        )

    def _key(self, path: Path, waiting: tuple[int, ...]) -> Key:
        return (
            path.todo,
            waiting,
            path.taken,
            path.clock,
            path.barrier,
            path.watches,
            path.zones,
            tuple(sorted(path.current.items())),
            tuple(sorted(path.unified.items())),
        )

    def age(self, situation: Situation) -> int:
        """Microseconds since its first event, where that matters."""
        return -(situation.path.taken[0][1] // POSITION)

    def but_for_age(self, situation: Situation) -> Key:
        """What it is, whenever it began."""
        first, *rest = situation.key[2]
        return (*situation.key[:2], (first[0], *rest), *situation.key[3:])


def shifted(path: Path, elapsed: int) -> Path:
    """The same path, so much later."""
    back = elapsed * POSITION
    return path._replace(
        taken=tuple((step, position - back) for step, position in path.taken),
        current={step: position - back for step, position in path.current.items()},
        clock=path.clock - elapsed,
        barrier=None if path.barrier is None else path.barrier - elapsed,
        watches=tuple(
            replace(
                w,
                since=None if w.since is None else w.since - elapsed,
                until=None if w.until is None else w.until - elapsed,
            )
            for w in path.watches
        ),
        zones=tuple((z, None if first is None else first - back) for z, first in path.zones),
    )


def _settled_todo(todo: Todo) -> Todo:
    """What is left to do, without the numbers of events that it was begun at: since then one was taken."""
    if todo is None:
        return None
    task, rest = todo
    if isinstance(task, Round):
        count = task.count if task.loop.high is not None else min(task.count, max(task.loop.low, 1) + 1)
        task = Round(task.loop, count, -1, -1)
    elif isinstance(task, Rest):
        task = Rest(task.all, task.members, -1)
    return task, _settled_todo(rest)


def _hops(pattern: c.CorePattern) -> Iterator[c.Hop]:
    for element in c.each(pattern.body):
        if isinstance(element, c.Seq):
            yield from element.hops
        elif isinstance(element, c.Loop):
            yield element.hop


def _durations(pattern: c.CorePattern) -> Iterator[int]:
    zones = [e for e in c.each(pattern.body) if isinstance(e, c.Zone)]
    for holds in (pattern.holds_for, *(zone.holds_for for zone in zones)):
        if holds is not None:
            yield holds
    for window in (pattern.within, *(zone.within for zone in zones)):
        if isinstance(window, ast.TimeWindow) and isinstance(window.duration, int):
            yield window.duration
    yield from (time for hop in _hops(pattern) for time in (hop.after, hop.within) if time is not None)
    for element in c.each(pattern.body):
        if isinstance(element, c.Absent) and element.duration is not None:
            yield element.duration


def _oldest(pattern: c.CorePattern) -> int:
    """A time that is longer than all that a pattern asks for: absences lie one behind the other."""
    return sum(_durations(pattern))


def _asked_later(pattern: c.CorePattern) -> Iterator[int]:
    """The steps whose events conditions of other steps look back at."""
    names = {s.name: s.id for s in pattern.steps if s.name is not None}
    for step in pattern.steps:
        for expr in (*(k.expr for k in step.choose), *step.must):
            for ref in references(expr).plain:
                other = names.get(ref.parts[0])
                if other is not None and other != step.id:
                    yield other


def looks_back(pattern: c.CorePattern) -> bool:
    """Does a condition look at more than the event at hand, or a variable stand in several places?"""
    shared = any(step.unify for step in pattern.steps)
    return shared or any(
        not event_local(expr, step, pattern)
        for step in pattern.steps
        for expr in (*(k.expr for k in step.choose), *step.must)
    )


def refuse(pattern: c.CorePattern) -> None:
    """What has no answer over an uncertain stream, or none that this engine can give."""
    reason = _reason(pattern)
    if reason is not None:
        what, hint = reason
        raise UnsupportedError(f"Pattern {pattern.name} {what}, which uncertain streams do not answer.", hint=hint)


def _reason(pattern: c.CorePattern) -> tuple[str, str] | None:
    if pattern.context is not None or pattern.skip.mode != "none":
        return "has a context or skips after a match", "A probability is asked of every start: leave them out."
    if pattern.suppress is not None:
        return "suppresses matches", "Say it of the answers: tell=ps.alerts(rise=…, fall=…)."
    if pattern.report_timeouts:
        return "reports attempts that timed out", "Leave out 'report timeouts'."
    if pattern.lead:
        return "begins with an absence", "Begin with an event."
    if isinstance(pattern.within, ast.CountWindow):
        return "has a window in events", "A step of an uncertain stream may have none: give the window a duration."
    if pattern.guards or any(isinstance(e, (c.Loop, c.All)) and e.guards for e in c.each(pattern.body)):
        return "has a condition over all rounds of a repetition", "Ask each round: A+ a must (…)."
    for element in c.each(pattern.body):
        if isinstance(element, c.All):
            return "asks for steps in any order", "Write both orders: (A -> B | B -> A)."
        if isinstance(element, c.Loop) and element.until is not None:
            return "has a repetition with 'until'", "Test each round instead: A+ a must (…)."
        if isinstance(element, c.Absent) and not isinstance(element.body, c.Take):
            return "rules out more than a single event", "Rule out one step: not B."
        if isinstance(element, c.Zone) and isinstance(element.within, ast.CountWindow):
            return "has a window in events", "Give the window a duration."
    if any(isinstance(end, c.Absent) for end in c.ends(pattern.body)):
        return "ends with an absence", "End with an event."
    for step in pattern.steps:
        if not isinstance(step.kind, (ast.EventType, ast.AnyEvent)):
            return "asks for trees or model queries", "Uncertain streams have events."
        for expr in (*(k.expr for k in step.choose), *step.must):
            refs = references(expr)
            if refs.aggregated:
                return "has a condition over all rounds of a repetition", "Ask each round: A+ a must (…)."
            if any(ref.parts[0] != step.name for _, ref in refs.steps) or (
                not event_local(expr, step, pattern) and _asks_time(expr)
            ):
                return "compares times of events", "Bound the time between them: A -> within 5 seconds B."
    return None


def _asks_time(expr: ex.Expr) -> bool:
    return any(isinstance(part, ex.Call) and part.name in ("time", "now") for part in ex.walk(expr))
