"""Selections by name, written from docs/semantics.md alone: arrows and skip modes, and the six contexts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.second_opinion.pattern_tree import THEN, Arrow, Event, Pattern, Rep, Step, nodes_of, with_arrows
from tests.second_opinion.sequences import (
    Match,
    Option,
    RepetitionFrame,
    SequenceMatcher,
    Stack,
    State,
    frames,
    grouped,
    matches,
)

# name: arrow, skip mode, equal times (None: by the stream)
ARROWS: dict[str, tuple[str, str, bool | None]] = {
    "sql": (",", "past last", False),
    "strict": (",", "none", None),
    "next": ("->", "none", None),
    "any": ("->>", "none", None),
    "followed by": ("->>", "none", True),
    "successor": ("->", "none", True),
}
CONTEXTS = ["chronicle", "immediate", "strict immediate", "continuous", "recent", "cumulative"]


def selected_matches(pattern: Pattern, events: list[Event]) -> list[Match]:
    """The matches of a pattern with a selection."""
    if pattern.selection in CONTEXTS:
        return Context(pattern, events).run()
    kind, skip, is_later = ARROWS[pattern.selection]
    arrow = Arrow(kind)
    later = pattern.is_strictly_later if is_later is None else is_later
    root = with_arrows(pattern.root, arrow)
    return matches(replace(pattern, root=root, skip=skip, selection="", is_strictly_later=later), events, arrow)


class Partial:
    """A partial match: one path, its options in order of preference."""

    def __init__(self, matcher: SequenceMatcher, stack: Stack, state: State) -> None:
        self.stack = stack
        self.state = state
        self.options = matcher.next_options(stack, state)

    def key(self) -> tuple[Any, ...]:
        """The state: the last step, the iterations of each open repetition, the open members of each conjunction."""
        return self.state.bound[-1][0], *(_frame_key(frame) for frame in frames(self.stack))


def _frame_key(frame: RepetitionFrame) -> tuple[Any, ...]:
    count = frame.count
    if isinstance(frame.node, Rep):
        count -= 1  # the iteration that is open is not done
        if frame.node.high is None:
            count = min(count, max(frame.node.low, 1))
    return id(frame.node), count, frozenset(id(member) for member in frame.left)


class Context:
    """Feeds the events one by one to the partial matches."""

    def __init__(self, pattern: Pattern, events: list[Event]) -> None:
        self.matcher = SequenceMatcher(pattern, events)
        self.events = events
        self.starts = self.matcher.start_options()
        self.steps = {node.name: node for node in nodes_of(pattern.root) if isinstance(node, Step) and node.name}
        self.open: list[Partial] = []  # oldest first
        self.found: list[Match] = []
        self.feed: Callable[[int], None] = {
            "chronicle": self.feed_oldest,
            "immediate": self.feed_immediate,
            "strict immediate": self.feed_strict_immediate,
            "continuous": self.feed_all,
            "recent": self.feed_recent,
            "cumulative": self.feed_cumulative,
        }[pattern.selection]

    def run(self) -> list[Match]:
        for j in range(len(self.events)):
            self.open = [partial for partial in self.open if self._is_waiting(partial, j)]
            self.feed(j)
        for partial in self.open:
            accepted = [option for option in partial.options if option.step is None]
            if accepted and self.matcher.accepts(accepted[0].state):
                self.found.append(grouped(accepted[0].state.bound))
        return self.found

    def _is_waiting(self, partial: Partial, j: int) -> bool:
        """Drops exhausted options; returns False if the partial match is complete or cannot continue."""
        partial.options = [o for o in partial.options if o.step is None or self.matcher.is_open(o, j)]
        if partial.options and partial.options[0].step is None:
            if self.matcher.accepts(partial.options[0].state):
                self.found.append(grouped(partial.options[0].state.bound))
            return False
        return bool(partial.options)

    def usable(self, options: list[Option], j: int) -> Option | None:
        """The preferred option that fits the event."""
        return next((option for option in options if self.matcher.fits(option, j)), None)

    def starting(self, j: int) -> Option | None:
        """The preferred first step that accepts the event and satisfies its `must`."""
        return next((o for o in self.starts if self.matcher.fits(o, j) and self.matcher.take(o, j)), None)

    def advance(self, option: Option, j: int) -> Partial | None:
        """The partial match after the event, None if it is complete or `must` fails."""
        after = self.matcher.take(option, j)
        if after is None:
            return None
        partial = Partial(self.matcher, *after)
        return partial if self._is_waiting(partial, j) else None

    def start(self, j: int) -> bool:
        """True if the event starts a partial match."""
        option = self.starting(j)
        if option is None:
            return False
        partial = self.advance(option, j)
        self.open += [partial] if partial else []
        return True

    def replace(self, place: int, option: Option, j: int) -> None:
        partial = self.advance(option, j)
        self.open[place : place + 1] = [partial] if partial else []

    def feed_oldest(self, j: int) -> None:
        self._use_oldest(j)

    def _use_oldest(self, j: int) -> bool:
        can_start = self.starting(j) is not None
        for place, partial in enumerate(self.open):
            option = self.usable(partial.options, j)
            if option is not None and not (option.is_spare and can_start):
                self.replace(place, option, j)
                return True
        return self.start(j)

    def feed_immediate(self, j: int) -> None:
        if not self._use_oldest(j):
            self.open = []

    def feed_strict_immediate(self, j: int) -> None:
        option = self.usable(self.open[0].options, j) if self.open else None
        if option is not None:
            self.replace(0, option, j)
        else:
            self.open = []
            self.start(j)

    def feed_all(self, j: int) -> None:
        for partial in list(self.open):
            option = self.usable(partial.options, j)
            if option is not None:
                self.replace(self.open.index(partial), option, j)
        self.start(j)

    def feed_recent(self, j: int) -> None:
        first = self.starting(j)
        options = [first, *(self.usable(partial.options, j) for partial in self.open)]
        taken = [self.matcher.take(option, j) for option in options if option is not None]
        made = [Partial(self.matcher, *after) for after in taken if after is not None]
        newest = {partial.key(): partial for partial in sorted([*self.open, *made], key=_recency)}
        self.open = sorted(newest.values(), key=_recency)
        self.open = [partial for partial in self.open if partial not in made or self._is_waiting(partial, j)]

    def feed_cumulative(self, j: int) -> None:
        if not self.open:
            self.start(j)
            return
        partial = self.open[0]
        option = self.usable(partial.options, j)
        if option is not None:
            self.replace(0, option, j)
            return
        for name, _ in reversed(partial.state.bound):
            passed = Option(self.steps[name], THEN, partial.stack, partial.state, False)
            if self.matcher.step_fits(self.steps[name], j, partial.state, partial.stack):
                if self.matcher.take(passed, j) is not None:
                    bound = (*partial.state.bound, (name, j))
                    partial.state = partial.state._replace(bound=bound)
                    for place, o in enumerate(partial.options):  # a gathered event breaks no absence
                        absent = tuple((absence, j) for absence, _ in o.state.absent)
                        partial.options[place] = o._replace(state=o.state._replace(bound=bound, absent=absent))
                return


def _recency(partial: Partial) -> tuple[int, ...]:
    """The events from the last one back; a longer partial match is the newer of two that are equal so far."""
    return tuple(j for _, j in reversed(partial.state.bound))
