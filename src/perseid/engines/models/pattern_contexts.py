"""Patterns of rules with an event context, which decides the partial matches that may use an event.

Each partition has one list of partial matches, in the order of the context. Ended options are recorded event by event,
so an event is compared once with each option.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from perseid.compile.plan import PatternPlan, Plan
from perseid.engines.models.partial_match import Acceptance, Branch, PartialMatch
from perseid.engines.models.pattern_automaton import PatternAutomaton
from perseid.lang.ast import Selection
from perseid.semantics.contexts import END_OF_TIME
from perseid.semantics.events import Event


@dataclass(slots=True, eq=False)
class ContextPartial:
    """A partial match of a context, with its options in order of preference."""

    match: PartialMatch
    options: list[Branch | Acceptance]
    ended: set[int]
    """Indexes of the options that an event has ended."""
    observed: int
    """Events before this position were compared with the options."""
    has_successor: bool = False
    """True if another partial match extends this one, which remains (recent): it does not time out."""

    @property
    def start(self) -> int:
        return self.match.bound_events[0][1]

    @property
    def state(self) -> object:
        """Key of equivalent partial matches: the newest replaces the others (recent)."""
        return self.match.bound_events[-1][0], tuple(counter[0] for counter in self.match.counters)


class ContextAutomaton(PatternAutomaton):
    """The automaton of a pattern with an event context."""

    def __init__(self, plan: Plan, pattern: PatternPlan) -> None:
        super().__init__(plan, pattern)
        self.partials: list[ContextPartial] = []
        contexts: dict[Selection | None, Callable[[int], None]] = {
            Selection.CHRONICLE: self._feed_chronicle,
            Selection.IMMEDIATE: self._feed_immediate,
            Selection.STRICT_IMMEDIATE: self._feed_strict_immediate,
            Selection.CONTINUOUS: self._feed_continuous,
            Selection.RECENT: self._feed_recent,
            Selection.CUMULATIVE: self._feed_cumulative,
        }
        self._feed_context = contexts[pattern.pattern.context]

    def feed(self, event: Event) -> None:
        position = self.events.append(event)
        self._emit_decided(position, event.time)
        self._feed_context(position)
        self._emit_decided(position + 1, event.time)
        self._drop_oldest(self.partials)

    def advance(self, watermark: int) -> None:
        self._emit_decided(len(self.events), watermark + 1)

    def finish(self) -> None:
        self._emit_decided(len(self.events), END_OF_TIME)

    def deadlines(self) -> Iterator[int]:
        for partial in self.partials:
            for option in partial.options:
                yield option.closes if isinstance(option, Branch) else option.end

    def starts(self) -> list[int]:
        return [partial.start for partial in self.partials]

    def add_partial(self, match: PartialMatch, has_successor: bool) -> None:
        """Add a partial match of an earlier call."""
        partial = self._partial(match)
        partial.has_successor = has_successor
        self.partials.append(partial)

    def _partial(self, match: PartialMatch) -> ContextPartial:
        options = list(self.expand(match, match.bound_events[0][1], False))
        return ContextPartial(match, options, set(), match.last + 1)

    # completion

    def _emit_decided(self, seen: int, now: int) -> None:
        """Emit and drop the partial matches decided by events before a position and by the time ``now``."""
        self.partials = [partial for partial in self.partials if self._is_undecided(partial, seen, now)]

    def _is_undecided(self, partial: ContextPartial, seen: int, now: int) -> bool:
        """Return whether the partial match continues; otherwise emit its match or timeout, if any."""
        self._observe(partial, seen)
        is_pending = False
        timed_out: int | None = None
        for place, option in enumerate(partial.options):
            if isinstance(option, Acceptance):
                if place in partial.ended:
                    continue
                if not option.decided and option.end >= now:
                    is_pending = True
                elif not is_pending:
                    self.emit(option.accepted, option.end, "match")
                    return False
            elif not self._has_ended(partial, place, now):
                if option.closes < now:
                    timed_out = option.closes if timed_out is None else timed_out
                elif now < END_OF_TIME:
                    is_pending = True
        if not is_pending and timed_out is not None and self.pattern.report_timeouts and not partial.has_successor:
            self.emit(partial.match, timed_out, "timed out")
        return is_pending

    @staticmethod
    def _has_ended(partial: ContextPartial, place: int, now: int) -> bool:
        option = partial.options[place]
        broken = option.broken if isinstance(option, Branch) else None
        return place in partial.ended or (broken is not None and broken < now)

    def _observe(self, partial: ContextPartial, seen: int) -> None:
        """Record the options ended by the events before a position."""
        for position in range(partial.observed, seen):
            self.spend(1)
            for place, option in enumerate(partial.options):
                if place in partial.ended:
                    continue
                if isinstance(option, Acceptance):
                    if option.accepted.absences and self.violates_end(option.accepted, position, partial.start):
                        partial.ended.add(place)
                elif self.is_stopped(option.target, position):
                    partial.ended.add(place)
                elif option.target.absences and option.broken is None and self.violates(option, position):
                    if self.increasing:
                        # Events of the same time happen together: the option may still take one of them.
                        option.broken = self.events[position].time
                    else:
                        partial.ended.add(place)
        partial.observed = max(partial.observed, seen)

    # consumption

    def _usable(self, partial: ContextPartial, position: int) -> Branch | None:
        """Return the preferred option with which the partial match can take the event."""
        self._observe(partial, position)
        moment = self.events[position].time
        for place, option in enumerate(partial.options):
            if (
                isinstance(option, Branch)
                and moment <= option.closes
                and not self._has_ended(partial, place, moment)
                and self._can_consume(option, position, moment)
            ):
                return option
        return None

    def _start(self, position: int) -> ContextPartial | None:
        first = next(self.begin(position), None)
        return None if first is None else self._partial(first)

    def _continue(self, option: Branch, position: int) -> ContextPartial | None:
        after = self.extend(option.target, option.step, position)
        return None if after is None else self._partial(after)

    def _replace(self, partial: ContextPartial, option: Branch, position: int) -> None:
        """Replace a partial match by its extension with the event; a condition may end it instead."""
        after = self._continue(option, position)
        at = self.partials.index(partial)
        self.partials[at : at + 1] = [] if after is None else [after]

    def _end_all(self, position: int) -> None:
        """End all partial matches; emit those that the event completes, such as by ending a repetition."""
        self._emit_decided(position + 1, self.events[position].time)
        self.partials.clear()

    # the contexts

    def _feed_chronicle(self, position: int) -> None:
        self._use_once(position)

    def _use_once(self, position: int) -> bool:
        """Extend the oldest partial match that can take the event, or begin one; return whether it was used."""
        fresh = self._start(position)
        for partial in self.partials:
            option = self._usable(partial, position)
            if option is not None and (fresh is None or not option.target.optional):
                self._replace(partial, option, position)
                return True
        if fresh is not None:
            self.partials.append(fresh)
        return fresh is not None

    def _feed_immediate(self, position: int) -> None:
        if not self._use_once(position):
            self._end_all(position)

    def _feed_strict_immediate(self, position: int) -> None:
        for partial in self.partials:
            option = self._usable(partial, position)
            if option is not None:
                self._replace(partial, option, position)
                return
        self._end_all(position)
        self._begin(position)

    def _begin(self, position: int) -> None:
        fresh = self._start(position)
        if fresh is not None:
            self.partials.append(fresh)

    def _feed_continuous(self, position: int) -> None:
        for partial in tuple(self.partials):
            option = self._usable(partial, position)
            if option is not None:
                self._replace(partial, option, position)
        self._begin(position)

    def _feed_recent(self, position: int) -> None:
        fresh = self._start(position)
        newer = [] if fresh is None else [fresh]
        for partial in self.partials:
            option = self._usable(partial, position)
            after = None if option is None else self._continue(option, position)
            if after is not None:
                newer.append(after)
                partial.has_successor = True
        # The list is in order of recency: the newest of a state is the last.
        newest: dict[object, ContextPartial] = {}
        for partial in (*self.partials, *newer):
            newest.pop(partial.state, None)
            newest[partial.state] = partial
        left = list(newest.values())
        for partial in self.partials:
            # A partial match that the event replaces may be complete with it.
            if not any(partial is one for one in left):
                self._emit_if_complete(partial, position)
        self.partials = left

    def _emit_if_complete(self, partial: ContextPartial, position: int) -> None:
        self._is_undecided(partial, position + 1, self.events[position].time)

    def _feed_cumulative(self, position: int) -> None:
        if not self.partials:
            self._begin(position)
            return
        (partial,) = self.partials
        option = self._usable(partial, position)
        if option is not None:
            self._replace(partial, option, position)
            return
        match = partial.match
        for step in dict.fromkeys(step for step, _ in reversed(match.bound_events)):
            if self.fits(step, match, position) and self.passes(step, match, position, match.unified):
                gathered = match.copy(match.pc)
                gathered.bound_events = (*match.bound_events, (step, position))
                gathered.current = {**match.current, step: position}
                gathered.clock = self.events[position].time
                self.partials = [self._partial(gathered)]
                return


def make_automaton(plan: Plan, pattern: PatternPlan) -> PatternAutomaton:
    """Return a new automaton of a pattern over one partition."""
    return PatternAutomaton(plan, pattern) if pattern.pattern.context is None else ContextAutomaton(plan, pattern)
