"""Executes the program of a pattern for one partial match: its epsilon closure, and the events that it takes."""

from __future__ import annotations

from collections.abc import Mapping

from perseid.compile import program as p
from perseid.compile.plan import PatternPlan, Plan
from perseid.engines.models.partial_match import UNUSED, PartialMatch, RequiredAbsence, RetainedEvents, ZoneBounds
from perseid.errors import SearchBudgetError
from perseid.lang import ast
from perseid.lang.ast import Contiguity
from perseid.runtime.search_budget import PYTHON_STEP_COST, WORK_PER_STEP
from perseid.semantics.events import Event, is_of_kind
from perseid.semantics.scope import Bindings, MatchScope, holds, unify

_NO_NAMES: frozenset[str] = frozenset()


class ProgramExecutor:
    """The program of a pattern over the events of one partition."""

    def __init__(self, plan: Plan, pattern: PatternPlan) -> None:
        core = pattern.pattern
        self.plan, self.pattern = pattern, core
        self.programs = [program.instructions for program in pattern.programs]
        self.names = frozenset(step.name for step in core.steps if step.name is not None)
        self.increasing = bool(core.strictly_later)
        """True if each event must be later than the one before."""
        self.events = RetainedEvents()
        self.work = 0
        """Work of this call, in eighths of a step."""
        self.max_work: int | None = None
        self._predicates = [predicate.expr for predicate in plan.predicates]
        local = {n for n, predicate in enumerate(plan.predicates) if predicate.event_local}
        self._local_choice = [[n for n, needs in s.choose if n in local and not needs] for s in pattern.steps]
        self._choice = [[(n, needs) for n, needs in s.choose if n not in local or needs] for s in pattern.steps]
        self._local_tests = [[n for n in step.must if n in local] for step in pattern.steps]
        self._tests = [[n for n in step.must if n not in local] for step in pattern.steps]
        self._chosen: dict[tuple[int, int], bool] = {}
        self._tested: dict[tuple[int, int], bool] = {}

    def spend(self, eighths: int) -> None:
        self.work += eighths
        if self.max_work is not None and self.work > self.max_work:
            steps = self.max_work * PYTHON_STEP_COST // WORK_PER_STEP
            raise SearchBudgetError(self.pattern.name, "steps", steps, len(self.events))

    def forget_conditions(self) -> None:
        """Clear the cached results of conditions, which are keyed by position."""
        self._chosen.clear()
        self._tested.clear()

    # instructions

    def closure(self, origin: PartialMatch) -> list[tuple[PartialMatch, int | None]]:
        """Return all points reachable without an event, preferred first, with their step, or None for acceptance."""
        found: list[tuple[PartialMatch, int | None]] = []
        visited: set[object] = set()
        stack = [origin.copy(origin.pc)]
        while stack:
            at: PartialMatch | None = stack.pop()
            while at is not None:
                instruction = self.programs[at.program][at.pc]
                if isinstance(instruction, _JOINS):
                    state = (
                        at.pc, at.counters, at.clock, at.not_before, at.hop, at.together, at.optional, at.untils,
                        at.zones, at.absences, tuple(at.current),
                    )  # fmt: skip
                    if state in visited:
                        break
                    visited.add(state)
                match instruction:
                    case p.TakeEvent():
                        at.pc += 1
                        found.append((at, instruction.step))
                        at = None
                    case p.AcceptMatch():
                        found.append((at, None))
                        at = None
                    case p.Split():
                        stack.extend(at.copy(target) for target in reversed(instruction.targets))
                        at = None
                    case p.LoopTurn():
                        stack.extend(reversed(self._turn_loop(at, instruction)))
                        at = None
                    case p.AllTurn():
                        stack.extend(reversed(self._turn_conjunction(at, instruction)))
                        at = None
                    case _:
                        at = self._pass_instruction(at, instruction)
        self.spend(len(visited))
        return found

    def _pass_instruction(self, at: PartialMatch, instruction: p.Instruction) -> PartialMatch | None:
        """Execute an instruction with one successor, in place; return None if the thread ends there."""
        at.pc += 1
        bound = len(at.bound_events)
        match instruction:
            case p.SetHop():
                at.hop, at.together = instruction.hop, False
            case p.Jump():
                at.pc = instruction.target
            case p.LoopEnter():
                at.set_counter(instruction.register, (0, bound, bound))
            case p.LoopBack():
                iterations, before, entered = at.counters[instruction.register]
                turn = self.programs[at.program][instruction.target]
                assert isinstance(turn, p.LoopTurn)
                if before == bound and iterations >= turn.low:
                    return None  # An empty iteration counts for all required ones; here none is required.
                iterations += 1
                if turn.high is None:
                    iterations = min(iterations, max(turn.low, 1))  # iterations beyond the minimum are equivalent
                at.set_counter(instruction.register, (iterations, before, entered))
                at.pc = instruction.target
            case p.AllEnter():
                at.set_counter(instruction.register, (0, 0, bound))
                at.absences += tuple(
                    RequiredAbsence(program, at.last, self._since(at), None, len(at.zones), instruction.register)
                    for program in instruction.barred
                )
            case p.AllBack():
                members, _, entered = at.counters[instruction.register]
                at.set_counter(instruction.register, (members | 1 << instruction.member, 0, entered))
                at.pc = instruction.target
            case p.WatchFor():
                since, until = self._since(at), None
                if instruction.duration is not None:
                    until = at.clock + instruction.duration
                    at.clock = at.not_before = until
                at.absences += (RequiredAbsence(instruction.program, at.last, since, until, len(at.zones)),)
            case p.ZoneEnter():
                at.zones += (ZoneBounds(instruction.within, instruction.holds_for, None),)
            case p.ZoneLeave():
                return at if self._leave_zone(at) else None
        return at

    def _since(self, at: PartialMatch) -> int | None:
        return at.clock if self.increasing else at.not_before

    def _leave_zone(self, at: PartialMatch) -> bool:
        """Close the innermost zone; return whether its bounds hold."""
        *outer, zone = at.zones
        at.zones = tuple(outer)
        if zone.first is None:
            return True
        begin = self.events[zone.first].time
        if isinstance(zone.within, ast.TimeWindow):
            closing = begin + micros(zone.within)
            if at.clock > closing:
                return False
            # An absence at the end of the zone lasts until its window closes.
            last = [w.until is None and w.conjunction is None and w.depth > len(outer) for w in at.absences]
            if any(last):
                ended = zip(at.absences, last, strict=True)
                at.absences = tuple(w._replace(until=closing) if is_last else w for w, is_last in ended)
                at.clock = at.not_before = closing
        return zone.holds_for is None or at.clock - begin >= zone.holds_for

    def _turn_loop(self, at: PartialMatch, turn: p.LoopTurn) -> list[PartialMatch]:
        """Return another iteration and the exit, if allowed, preferred first."""
        iterations, before, entered = at.counters[turn.register]
        bound = len(at.bound_events)
        empty = iterations > 0 and before == bound
        may_leave = (empty or iterations >= turn.low) and all(self.guard(guard, at) for guard in turn.guards)
        may_repeat = not empty and (turn.high is None or iterations < turn.high)
        if may_repeat and turn.until is not None and bound > entered:
            inside = range(at.bound_events[entered][1] + 1, at.last + 1)
            may_repeat = not any(self.fits(turn.until, at, position) for position in inside)
        successors: list[PartialMatch] = []
        if may_repeat:
            iteration = at.copy(turn.body)
            iteration.current = {step: position for step, position in at.current.items() if step not in turn.inside}
            iteration.set_counter(turn.register, (iterations, bound, entered))
            iteration.optional = (turn.reluctant and may_leave) or (at.optional and bound == entered)
            if iterations > 0:
                iteration.hop, iteration.together = turn.hop, False
                iteration.untils = () if turn.until is None else (*at.untils, turn.until)
            successors.append(iteration)
        if may_leave:
            out = at.copy(turn.exit)
            out.set_counter(turn.register, UNUSED)
            if empty:
                out.untils, out.optional = (), False
            successors.append(out)
        return successors[::-1] if turn.reluctant else successors

    def _turn_conjunction(self, at: PartialMatch, turn: p.AllTurn) -> list[PartialMatch]:
        """Return the missing members, or the exit if none is missing."""
        complete, _, entered = at.counters[turn.register]
        missing = [n for n in range(len(turn.members)) if not complete & 1 << n]
        if not missing:
            if not all(self.guard(guard, at) for guard in turn.guards):
                return []
            out = at.copy(turn.exit)
            out.absences = tuple(absence for absence in at.absences if absence.conjunction != turn.register)
            out.set_counter(turn.register, UNUSED)
            return [out]
        successors = [at.copy(turn.members[n]) for n in missing]
        if len(at.bound_events) > entered:
            for successor in successors:
                successor.hop, successor.together = turn.hop, True
        return successors

    # steps

    def admits(self, step: int, position: int) -> bool:
        """Return whether the event has the step's kind and satisfies its event-local conditions."""
        key = (step, position)
        known = self._chosen.get(key)
        if known is None:
            event = self.events[position]
            known = is_of_kind(event, self.pattern.steps[step].kind) and self._all_local(
                self._local_choice[step], event
            )
            self._chosen[key] = known
        return known

    def _all_local(self, predicates: list[int], event: Event) -> bool:
        scope = MatchScope(_NO_NAMES, Bindings(), event)
        return all(holds(self._predicates[n], scope) for n in predicates)

    def fits(self, step: int, target: PartialMatch, position: int) -> bool:
        """Return whether the step chooses this event: kind, unified values and conditions, except ``must``."""
        self.work += 1
        if not self.admits(step, position):
            return False
        event = self.events[position]
        unified = unify(self.pattern.steps[step].unify, event, target.unified)
        if unified is None:
            return False
        applicable = [n for n, needs in self._choice[step] if all(other in target.current for other in needs)]
        return not applicable or self._all_hold(applicable, target, step, event, unified)

    def passes(self, step: int, target: PartialMatch, position: int, unified: Mapping[str, object]) -> bool:
        """Return whether the chosen event satisfies the ``must`` conditions of the step."""
        key, event = (step, position), self.events[position]
        known = self._tested.get(key)
        if known is None:
            known = self._tested[key] = self._all_local(self._local_tests[step], event)
        return known and (not self._tests[step] or self._all_hold(self._tests[step], target, step, event, unified))

    def extend(self, target: PartialMatch, step: int, position: int) -> PartialMatch | None:
        """Return the partial match extended by the event, or None if a ``must`` condition rejects it."""
        self.spend(WORK_PER_STEP)
        event = self.events[position]
        unified = unify(self.pattern.steps[step].unify, event, target.unified)
        assert unified is not None
        if not self.passes(step, target, position, unified):
            return None
        after = target.copy(target.pc)
        after.bound_events = (*target.bound_events, (step, position))
        after.current = {**target.current, step: position}
        after.unified = unified
        after.clock, after.not_before = event.time, None
        after.hop, after.together, after.untils, after.optional = None, False, (), False
        if target.absences:
            after.absences = tuple(absence for absence in target.absences if absence.conjunction is not None)
        if target.zones:
            after.zones = tuple(z._replace(first=position) if z.first is None else z for z in target.zones)
        if target.hop is not None and target.hop.contiguity is Contiguity.ANY:
            after.combination = (*target.combination, position)
        return after

    def is_stopped(self, target: PartialMatch, position: int) -> bool:
        """Return whether the event ends an enclosing repetition."""
        return any(self.fits(until, target, position) for until in target.untils)

    # conditions

    def _bindings(self, at: PartialMatch) -> tuple[dict[str, list[Event]], dict[str, Event]]:
        """Return by step name all events, and the event of the current iteration."""
        if at.bindings is None:
            steps = self.pattern.steps
            events: dict[str, list[Event]] = {}
            for step, position in at.bound_events:
                name = steps[step].name
                if name is not None:
                    events.setdefault(name, []).append(self.events[position])
            named = ((steps[step].name, position) for step, position in at.current.items())
            current = {name: self.events[position] for name, position in named if name is not None}
            at.bindings = events, current
        return at.bindings

    def _all_hold(
        self, predicates: list[int], target: PartialMatch, step: int, event: Event, unified: Mapping[str, object]
    ) -> bool:
        """Return whether conditions of a step hold for this event and the earlier bindings."""
        events, current = self._bindings(target)
        name = self.pattern.steps[step].name
        bound: dict[str, list[Event]] = events
        if name is not None:
            bound = {**events, name: [*events.get(name, ()), event]}
            current = {**current, name: event}
        scope = MatchScope(self.names, Bindings(bound, current, unified), event)
        return all(holds(self._predicates[n], scope) for n in predicates)

    def guard(self, predicate: int, at: PartialMatch) -> bool:
        """Return whether a condition holds for the bindings."""
        events, current = self._bindings(at)
        return holds(self._predicates[predicate], MatchScope(self.names, Bindings(events, current, at.unified)))


_JOINS = (p.TakeEvent, p.AcceptMatch, p.Split, p.LoopTurn, p.AllTurn)
"""Instructions at which threads may join: each state is followed once from there."""


def micros(window: ast.TimeWindow) -> int:
    """Return the length of a window in microseconds."""
    assert isinstance(window.duration, int), "parameters are bound before a pattern is compiled"
    return window.duration
