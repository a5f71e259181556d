"""Brute-force matcher of event sequences, written from docs/semantics.md alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from typing import Any, NamedTuple

from tests.second_opinion.pattern_tree import (
    COMPARE,
    THEN,
    Alt,
    Arrow,
    Condition,
    Conj,
    Event,
    Group,
    Node,
    Not,
    Pattern,
    Rep,
    Seq,
    Step,
)

SEARCH_BUDGET_OPTIONS = 20_000


class SearchTooLargeError(Exception):
    """The brute-force search examines more options than `SEARCH_BUDGET_OPTIONS`."""


class State(NamedTuple):
    """The history of a path. `anchor`: time from which bounds are measured; `later_than`: end of an absence."""

    pos: int = -1
    start: int = -1
    bound: tuple[tuple[str, int], ...] = ()
    chosen: tuple[int, ...] = ()  # events taken by ->>
    anchor: int = 0
    later_than: float = float("-inf")
    behind: int = -1  # position that an absence by count includes
    absent: tuple[tuple[Not, int], ...] = ()


class RepetitionFrame(NamedTuple):
    """An open node. `count`: next item of a Seq, iterations of a Rep; `entry`: events taken (Conj: pos) on entry."""

    node: Node
    around: Arrow | None  # the arrow that leads here, or the one behind the first element; None: neither
    count: int = 0
    entry: int = 0
    first: int | None = None  # first event inside
    left: tuple[Node, ...] = ()  # members still to come
    lead: Arrow = THEN  # the arrow before a conjunction


Stack = tuple[RepetitionFrame, "Stack"] | None


class Option(NamedTuple):
    """A step that a path can continue with; without a step, acceptance."""

    step: Step | None
    lead: Arrow
    stack: Stack
    state: State
    is_spare: bool  # in an iteration that a reluctant repetition can do without


MODES = {"consecutive": Arrow(","), "relaxed": THEN, "combinations": Arrow("->>")}


def frames(stack: Stack) -> Iterator[RepetitionFrame]:
    while stack is not None:
        yield stack[0]
        stack = stack[1]


class SequenceMatcher:
    """Evaluates one pattern over the events of one partition."""

    def __init__(self, pattern: Pattern, events: list[Event], default: Arrow = THEN) -> None:
        self.pattern = pattern
        self.default = default  # between iterations without an explicit arrow
        self.events = events
        self.end = len(events)
        self.budget = SEARCH_BUDGET_OPTIONS
        self.repetitions: dict[str, list[Rep]] = {}
        self.members: dict[str, dict[int, int]] = {}
        self._index(pattern.root, [], {})
        order = list(self.repetitions)
        self.at_step: dict[str, list[Condition]] = {}
        self.at_exit: dict[int, list[Condition]] = {}
        for condition in pattern.where:
            names = condition.names()
            if condition.left[0] != "ref":
                chain = self.repetitions[names[0]]
                outermost = next((rep for rep in chain if rep.high != 1), chain[-1])
                self.at_exit.setdefault(id(outermost), []).append(condition)
            elif self._share_conjunction(names):
                for name in names:
                    self.at_step.setdefault(name, []).append(condition)
            else:
                self.at_step.setdefault(max(names, key=order.index), []).append(condition)

    def _index(self, node: Node, repetitions: list[Rep], members: dict[int, int]) -> None:
        if isinstance(node, Step):
            self.repetitions[node.name] = repetitions
            self.members[node.name] = members
        elif isinstance(node, Seq):
            for _, item in node.items:
                self._index(item, repetitions, members)
        elif isinstance(node, Alt | Conj):
            for i, part in enumerate(node.branches if isinstance(node, Alt) else node.members):
                self._index(part, repetitions, {**members, id(node): i} if isinstance(node, Conj) else members)
        elif isinstance(node, Rep):
            self._index(node.body, [*repetitions, node], members)
        elif isinstance(node, Group):
            self._index(node.body, repetitions, members)

    def _share_conjunction(self, names: list[str]) -> bool:
        """True if the steps belong to different members of one conjunction."""
        one, two = self.members[names[0]], self.members[names[-1]]
        return any(node in two and two[node] != member for node, member in one.items())

    def _lacks_member(self, frame: RepetitionFrame, state: State) -> bool:
        """True if a condition between two members can no longer hold: both are complete, a step of it is not bound."""
        assert isinstance(frame.node, Conj)
        bound = {name for name, _ in state.bound}
        for condition in self.pattern.where:
            names = condition.names()
            places = [self.members[name].get(id(frame.node)) for name in names]
            if None in places or len(set(places)) < 2 or bound.issuperset(names):
                continue
            if not any(frame.node.members[place] in frame.left for place in places if place is not None):
                return True
        return False

    # options, in order of preference

    def start_options(self) -> list[Option]:
        out: list[Option] = []
        self._enter(self.pattern.root, THEN, None, None, State(), False, out)
        return out

    def next_options(self, stack: Stack, state: State) -> list[Option]:
        out: list[Option] = []
        self._leave(stack, state, False, out)
        return out

    def _enter(
        self,
        node: Node,
        lead: Arrow,
        around: Arrow | None,
        stack: Stack,
        state: State,
        is_spare: bool,
        out: list[Option],
    ) -> None:
        self.budget -= 1
        if self.budget < 0:
            raise SearchTooLargeError
        match node:
            case Step():
                out.append(Option(node, lead, stack, state, is_spare))
            case Seq(items):
                begin = 0
                if isinstance(items[0][1], Not):
                    begin = 1
                    state = state._replace(absent=((items[0][1], -1),))
                behind = begin + 1
                inner = Arrow(items[behind][0].kind) if around is None and len(items) > behind else around
                self._enter(
                    items[begin][1], lead, inner, (RepetitionFrame(node, around, behind), stack), state, is_spare, out
                )
            case Alt(branches):
                for branch in branches:
                    self._enter(branch, lead, around, stack, state, is_spare, out)
            case Conj(members):
                left = tuple(m for m in members if not isinstance(m, Not))
                frame = RepetitionFrame(node, around, entry=state.pos, left=left, lead=lead)
                self._enter_members(frame, lead, stack, state, is_spare, out)
            case Rep():
                frame = RepetitionFrame(node, around or MODES.get(node.mode, self.default), 0, len(state.bound))
                self._iterate(frame, lead, stack, state, is_spare, out)
            case Group(body):
                self._enter(body, lead, around, (RepetitionFrame(node, around), stack), state, is_spare, out)

    def _enter_members(
        self, frame: RepetitionFrame, lead: Arrow, stack: Stack, state: State, is_spare: bool, out: list[Option]
    ) -> None:
        for member in frame.left:
            left = tuple(m for m in frame.left if m is not member)
            self._enter(member, lead, frame.around, (frame._replace(left=left), stack), state, is_spare, out)

    def _iterate(
        self, frame: RepetitionFrame, lead: Arrow, stack: Stack, state: State, is_spare: bool, out: list[Option]
    ) -> None:
        node = frame.node
        assert isinstance(node, Rep)
        may_leave = frame.count >= node.low and self._holds_at_exit(frame, stack, state)
        if may_leave and not node.is_greedy:
            self._exit(frame, stack, state, is_spare, out)
        if (node.high is None or frame.count < node.high) and not self._is_stopped(frame, state):
            is_dispensable = may_leave and not node.is_greedy
            opened = frame._replace(count=frame.count + 1, entry=len(state.bound))
            if frame.count:
                lead = MODES.get(node.mode, frame.around or self.default)
            self._enter(node.body, lead, frame.around, (opened, stack), state, is_spare or is_dispensable, out)
        if may_leave and node.is_greedy:
            self._exit(frame, stack, state, is_spare, out)

    def _is_stopped(self, frame: RepetitionFrame, state: State) -> bool:
        """True if the stop event of the repetition has occurred: no iteration begins, not even an empty one."""
        node = frame.node
        assert isinstance(node, Rep)
        if node.until is None or frame.first is None:
            return False
        return any(self.step_fits(node.until, i, state, None) for i in range(frame.first + 1, state.pos + 1))

    def _exit(self, frame: RepetitionFrame, stack: Stack, state: State, is_spare: bool, out: list[Option]) -> None:
        if self._holds_at_exit(frame, stack, state):
            self._leave(stack, state, is_spare, out)

    def _holds_at_exit(self, frame: RepetitionFrame, stack: Stack, state: State) -> bool:
        """True if the conditions over the whole repetition let it be left."""
        return all(self.holds(one, None, None, state, stack) for one in self.at_exit.get(id(frame.node), ()))

    def _leave(self, stack: Stack, state: State, is_spare: bool, out: list[Option]) -> None:
        if stack is None:
            out.append(Option(None, THEN, None, state, is_spare))
            return
        frame, rest = stack
        node = frame.node
        if isinstance(node, Seq):
            if frame.count == len(node.items):
                self._leave(rest, state, is_spare, out)
                return
            arrow, item = node.items[frame.count]
            stack = (frame._replace(count=frame.count + 1), rest)
            if isinstance(item, Not):
                after = self._pass_absence(item, frame.count == len(node.items) - 1, rest, state)
                if after is not None:
                    self._leave(stack, after, is_spare, out)
            else:
                self._enter(item, arrow, Arrow(arrow.kind), stack, state, is_spare, out)
        elif isinstance(node, Conj) and self._lacks_member(frame, state):
            return
        elif isinstance(node, Conj) and frame.left:
            further = (frame.around or self.default)._replace(is_member=True)
            lead = further if state.pos > frame.entry else frame.lead
            self._enter_members(frame, lead, rest, state, is_spare, out)
        elif isinstance(node, Rep):
            if len(state.bound) > frame.entry:
                self._iterate(frame, THEN, rest, state, is_spare, out)
            elif frame.count <= node.low:
                self._exit(frame, rest, state, is_spare, out)
        else:
            after_group: State | None = state
            for absence, low in state.absent if isinstance(node, Group) else ():
                if after_group is not None and frame.first is not None and low >= frame.first:
                    after_group = self._pass_absence(absence, True, stack, after_group)
            if after_group is not None:
                self._leave(rest, after_group, is_spare, out)

    # absence

    def _pass_absence(self, absence: Not, is_last: bool, rest: Stack, state: State) -> State | None:
        low = max([state.pos, *(i for i, e in enumerate(self.events) if e.time <= state.later_than)])
        if absence.seconds is not None:
            deadline: float = state.anchor + absence.seconds
        elif is_last and (rest is None or isinstance(rest[0].node, Group)):
            window = self.pattern if rest is None else rest[0].node
            first = state.start if rest is None else rest[0].first
            assert isinstance(window, Pattern | Group)
            if first is None:
                return None  # nothing inside the group; the product rejects such patterns
            if window.unit == "events":
                last = first + (window.within or 0)
                if self._occurs(absence, state, low, last, (state.pos,)):
                    return None
                return state._replace(behind=last - 1)
            deadline = float("inf") if window.within is None else self.events[first].time + window.within
        else:
            return state._replace(absent=(*state.absent, (absence, low)))
        if not self._inside_windows(deadline, state.pos, state, rest):
            return None
        state = state._replace(absent=tuple(pair for pair in state.absent if pair[0] is not absence))
        stop = next((i for i, e in enumerate(self.events) if e.time > deadline), len(self.events))
        pending = [(absence, low)]
        if absence.seconds is None:  # absences before left-out steps last as long
            pending += state.absent
            state = state._replace(absent=())
        if any(self._occurs(one, state, since, stop, (state.pos,)) for one, since in pending):
            return None
        return state._replace(anchor=int(min(deadline, 10**9)), later_than=deadline)

    def _occurs(
        self, absence: Not, state: State, low: int, high: int, edges: tuple[int, ...], taken: tuple[int, ...] = ()
    ) -> bool:
        """True if the negated element matches strictly between two positions; `edges` are positions of steps."""
        places = [i for i in range(low + 1, min(high, len(self.events))) if i not in taken]
        if self.pattern.is_strictly_later:
            times = {self.events[i].time for i in edges}
            places = [i for i in places if self.events[i].time not in times]
        if isinstance(absence.body, Step):
            return any(self.step_fits(absence.body, i, state, None) for i in places)
        if not places:
            return False
        inner = SequenceMatcher(
            Pattern(absence.body, is_strictly_later=self.pattern.is_strictly_later), self.events, self.default
        )
        inner.end = places[-1] + 1
        return any(next(inner.from_start(i), None) is not None for i in places)

    # one event for one option

    def fits(self, option: Option, j: int) -> bool:
        step, lead, stack, state, _ = option
        if step is None or not self.step_fits(step, j, state, stack):
            return False
        time = self.events[j].time
        if state.pos < 0:
            return all(not self._occurs_before(absence, j, state) for absence, _ in state.absent)
        if j <= max(state.pos, state.behind) or time <= state.later_than:
            return False
        if lead.kind == "," and j != state.pos + 1:
            return False
        if self.pattern.is_strictly_later and not lead.is_member and time <= self.events[state.pos].time:
            return False
        if lead.after is not None and time - state.anchor < lead.after:
            return False
        return self.is_open(option, j)

    def is_open(self, option: Option, j: int) -> bool:
        """False if neither this event nor a later one can be taken: a window or an absence is over."""
        _, lead, stack, state, _ = option
        time = self.events[j].time
        if lead.within is not None and time - state.anchor > lead.within:
            return False
        if not self._inside_windows(time, j, state, stack) or not self._before_until(stack, state, j):
            return False
        if any(self._occurs(absence, state, low, j, (low, j)) for absence, low in state.absent):
            return False
        return not self._breaks_conjunction(stack, state, j)

    def _occurs_before(self, absence: Not, j: int, state: State) -> bool:
        low = self.events[j].time - (absence.seconds or 0)
        first = next(i for i, e in enumerate(self.events) if e.time >= low)
        return self._occurs(absence, state, first - 1, j, (j,))

    def _inside_windows(self, time: float, j: int, state: State, stack: Stack) -> bool:
        windows = [(self.pattern.within, self.pattern.unit, state.start)]
        windows += [(f.node.within, f.node.unit, f.first) for f in frames(stack) if isinstance(f.node, Group)]
        for width, unit, first in windows:
            if width is None or first is None:
                continue
            if (j - first + 1 if unit == "events" else time - self.events[first].time) > width:
                return False
        return True

    def _before_until(self, stack: Stack, state: State, j: int) -> bool:
        for frame in frames(stack):
            if not isinstance(frame.node, Rep) or frame.node.until is None or frame.first is None:
                continue
            if len(state.bound) > frame.entry:
                continue  # an iteration that has begun continues
            if any(self.step_fits(frame.node.until, i, state, None) for i in range(frame.first + 1, j + 1)):
                return False
        return True

    def _breaks_conjunction(self, stack: Stack, state: State, j: int) -> bool:
        taken = tuple(i for _, i in state.bound)
        for frame in frames(stack):
            if isinstance(frame.node, Conj):
                low = frame.entry if frame.entry >= 0 else state.start
                absences = [m for m in frame.node.members if isinstance(m, Not)]
                if any(self._occurs(absence, state, low, j, (low, j), taken) for absence in absences):
                    return True
        return False

    def step_fits(self, step: Step, j: int, state: State, stack: Stack) -> bool:
        if step.type not in ("any", self.events[j].type):
            return False
        if step.condition and not self.holds(step.condition, step.name, j, state, stack):
            return False
        for condition in self.at_step.get(step.name, ()):
            bound = {name for name, _ in state.bound} | {step.name}
            if self._share_conjunction(condition.names()) and not bound.issuperset(condition.names()):
                continue
            if not self.holds(condition, step.name, j, state, stack):
                return False
        return True

    def take(self, option: Option, j: int) -> tuple[Stack, State] | None:
        """The path after the event, or None where `must` fails."""
        step, lead, stack, state, _ = option
        assert step is not None
        if step.must and not self.holds(step.must, step.name, j, state, stack):
            return None
        chosen = (*state.chosen, j) if lead.kind == "->>" else state.chosen
        start = j if state.pos < 0 else state.start
        bound = (*state.bound, (step.name, j))
        return _opened(stack, j), State(j, start, bound, chosen, self.events[j].time)

    def holds(self, condition: Condition, name: str | None, j: int | None, state: State, stack: Stack) -> bool:
        left = self._value(condition.left, name, j, state, stack)
        right = self._value(condition.right, name, j, state, stack)
        return left is not None and right is not None and COMPARE[condition.op](left, right)

    def _value(
        self, side: tuple[Any, ...], name: str | None, j: int | None, state: State, stack: Stack
    ) -> float | None:
        if side[0] == "const":
            return int(side[1])
        if side[0] == "v":
            assert j is not None
            return self.events[j].v
        function, asked = side
        if function == "ref" and asked == name:
            return None if j is None else self.events[j].v
        since = 0
        if function == "ref" and self.repetitions.get(asked):
            since = next((f.entry for f in frames(stack) if f.node in self.repetitions[asked]), 0)
        places = [i for other, i in state.bound[since:] if other == asked]
        if function == "ref":
            return self.events[places[-1]].v if places else None
        places += [j] if j is not None and asked == name else []
        if function == "count":
            return len(places)
        values = [self.events[i].v for i in places]
        if function == "prev":
            before = values[-2] if len(values) > 1 else None
            return 1 if before is None else before
        if function in ("first", "last"):
            return (values[0] if function == "first" else values[-1]) if values else None
        known = [value for value in values if value is not None]
        aggregates: dict[str, Callable[[list[int]], float]] = {"sum": sum, "min": min, "max": max, "median": median}
        return aggregates[function](known) if known else None

    # search

    def from_start(self, j: int) -> Iterator[State]:
        """The accepted paths that start at the event, most preferred first."""
        for option in self.start_options():
            if self.fits(option, j):
                after = self.take(option, j)
                if after is not None:
                    yield from self._search(*after)

    def _search(self, stack: Stack, state: State) -> Iterator[State]:
        options = self.next_options(stack, state)
        first: dict[int, int] = {}  # by option; -1: those that are not spare, which hold up all but ->>
        fit: set[tuple[int, int]] = set()
        for j in range(state.pos + 1, self.end):
            for number, option in enumerate(options):
                waits = number if option.is_spare else -1
                is_held = first.get(waits, j) < j or first.get(-1, j) < j
                if option.step and (option.lead.kind == "->>" or not is_held) and self.fits(option, j):
                    fit.add((number, j))
                    if option.lead.kind != "->>":
                        first[waits] = j
        for number, option in enumerate(options):
            if option.step is None:
                if self.accepts(option.state):
                    yield option.state
                continue
            places = (
                range(state.pos + 1, self.end)
                if option.lead.kind == "->>"
                else [first.get(number if option.is_spare else -1, -1)]
            )
            for j in places:
                if (number, j) in fit:
                    after = self.take(option, j)
                    if after is not None:
                        yield from self._search(*after)

    def accepts(self, state: State) -> bool:
        for absence, _ in state.absent:
            passed = self._pass_absence(absence, True, None, state)
            if passed is None:
                return False
            state = passed
        if self.pattern.holds is None:
            return True
        last = state.anchor if state.later_than > float("-inf") else self.events[state.pos].time
        return last - self.events[state.start].time >= self.pattern.holds


def _opened(stack: Stack, j: int) -> Stack:
    """The stack with the event as the first one of every frame that has none."""
    if stack is None:
        return None
    frame, rest = stack
    return (frame if frame.first is not None else frame._replace(first=j)), _opened(rest, j)


Match = tuple[tuple[str, tuple[int, ...]], ...]


def grouped(bound: tuple[tuple[str, int], ...]) -> Match:
    """The positions by step name, the names sorted."""
    by_name: dict[str, list[int]] = {}
    for name, j in bound:
        by_name.setdefault(name, []).append(j)
    return tuple(sorted((name, tuple(places)) for name, places in by_name.items()))


def matches(pattern: Pattern, events: list[Event], default: Arrow = THEN) -> list[Match]:
    """All matches that the skip mode of the pattern selects."""
    matcher = SequenceMatcher(pattern, events, default)
    found: list[Match] = []
    begin = 0
    for j in range(len(events)):
        if j < begin:
            continue
        paths: dict[tuple[int, ...], State] = {}
        for state in matcher.from_start(j):
            paths.setdefault(state.chosen, state)
            if pattern.skip not in ("", "none"):
                break
        found += [grouped(bound) for bound in dict.fromkeys(state.bound for state in paths.values())]
        for state in paths.values():
            begin = _next_start(pattern.skip, state)
    return found


def _next_start(skip: str, state: State) -> int:
    if skip == "past last":
        return state.pos + 1
    words = skip.split()
    if len(words) == 3:
        places = [j for name, j in state.bound if name == words[2]]
        if places:
            return max(state.start + 1, places[0] if words[1] == "first" else places[-1])
    return state.start + 1
