"""Traces the candidate starts of a partition one by one, or together under an event context."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from perseid.reference import threads as th
from perseid.semantics.contexts import END_OF_TIME, Simulation
from perseid.semantics.detection import RawMatch
from perseid.semantics.values import clock
from perseid.viz.attempts import TracedRun, Verdict, step_label, step_name
from perseid.viz.verdicts import explain_ending, explain_rejected_start
from perseid.viz.walk import OutOfWorkError, TracingInterpreter

_MATCHED = Verdict("matched", "matched")
_NOT_FOLLOWED = Verdict("not traced", "too many alternatives to trace")


class CandidateStarts:
    """The candidate first events of a partition, and the trace of the run from each."""

    def __init__(self, walk: TracingInterpreter, key: Mapping[str, object], allowed: int) -> None:
        self.walk, self.key, self.allowed = walk, key, allowed
        self.attempts: list[TracedRun] = []
        self.reached: Counter[int] = Counter()
        """Number of runs that bound each step."""
        self.untraced = 0
        """Number of starts that were not traced, or not to the end."""

    def follow(self) -> list[RawMatch]:
        """Trace the starts; return the matches, and the timeouts if the pattern reports them."""
        if self.walk.simulation is not None:
            return self._together(self.walk.simulation)
        found: list[RawMatch] = []
        candidates = [at for at in range(len(self.walk.events)) if self.walk.is_candidate(at)]
        dependent = self.walk.pattern.skip.mode not in ("none", "to next")
        if not dependent:
            # If the budget does not suffice for all starts, the traced ones are spread over the partition.
            candidates = [candidates[i] for i in sorted(range(len(candidates)), key=_spread)]
        resume, covering = 0, None
        for number, start in enumerate(candidates):
            if self.walk.work >= self.allowed:
                self.untraced += len(candidates) - number
                break
            self.walk.fresh()
            if start < resume and covering is not None:
                self._note(start, (), self._covered(start, covering))
                continue
            match = self._one(start)
            found += self.walk.out
            if dependent and match is not None:
                resume, covering = self.walk.resumes_at(match, start), match
        return found

    def _one(self, start: int) -> RawMatch | None:
        """Trace the run from one start; return its match, if any."""
        walk, exhausted = self.walk, False
        try:
            if not walk.follow(start):
                self._note(start, (), explain_rejected_start(walk, start))
                return None
        except OutOfWorkError:
            exhausted = True
        match = next((m for m in walk.out if m.kind == "match"), None)
        if match is not None:
            self._note(start, match.bound_events, _MATCHED)
        elif exhausted:
            self.untraced += 1
            self._note(start, (), _NOT_FOLLOWED)
        else:
            self._note(start, *explain_ending(walk, start))
        return match

    def _covered(self, start: int, covering: RawMatch) -> Verdict:
        """Return the verdict on a start that a match covers, unless no run would have begun there anyway."""
        walk = self.walk
        try:
            if not walk.begins(start):
                return explain_rejected_start(walk, start)
        except OutOfWorkError:
            pass
        first, last = covering.bound_events[0][1], covering.bound_events[-1][1]
        span = f"{clock(walk.events[first].time)} to {clock(walk.events[last].time)}"
        skip = walk.pattern.skip
        mode = f"{skip.mode} {skip.step}" if skip.step else skip.mode
        details = (f"after match skip {mode}: the match from {span} covers this event.",)
        return Verdict("skipped", f"an earlier match covers it (skip {mode})", details, walk.openings[0].step)

    def _note(self, start: int, bound_events: Sequence[tuple[int, int]], verdict: Verdict) -> None:
        walk = self.walk
        core_steps = walk.pattern.steps
        steps = {step for step, _ in bound_events}
        self.reached.update(walk.bound_steps | steps)
        self.attempts.append(
            TracedRun(
                key=self.key,
                start=walk.events[start],
                bound=tuple((step_name(core_steps[step]), walk.events[at]) for step, at in bound_events),
                waited_for=None if verdict.step is None else step_label(core_steps[verdict.step]),
                reason=verdict.reason,
                why=verdict.why,
                details=verdict.details,
                steps=len(steps),
            )
        )

    # contexts

    def _together(self, simulation: Simulation) -> list[RawMatch]:
        """Trace all partial matches together: the event context decides which of them uses an event."""
        walk = self.walk
        fates, rejected = self._simulated(simulation)
        found = [RawMatch(f.path.bound_events, f.end, f.kind, f.path.unified) for f in simulation.found]
        matched = {m.bound_events[0][1]: m for m in found if m.kind == "match"}
        for start, match in matched.items():
            walk.fresh()
            self._note(start, match.bound_events, _MATCHED)
        for start, (path, position) in fates.items():
            if start in matched:
                continue
            walk.fresh()
            if position is None:
                self.untraced += 1
                self._note(start, path.bound_events, _NOT_FOLLOWED)
            else:
                walk.end_in_context(path, position)
                self._note(start, *explain_ending(walk, start))
        for start, could_begin, user in rejected:
            walk.fresh()
            self._note(start, (), self._used(user) if could_begin else explain_rejected_start(walk, start))
        return found

    def _simulated(
        self, simulation: Simulation
    ) -> tuple[dict[int, tuple[th.Thread, int | None]], list[tuple[int, bool, int | None]]]:
        """Simulate the context. Return by start the last state of its partial match with the position of the event that
        ended it (None if the budget ran out), and the candidates that began no partial match, each with whether it could
        have, and with the start of the partial match that used the event."""
        walk, count = self.walk, len(self.walk.events)
        last_states: dict[int, th.Thread] = {}
        ended: dict[int, tuple[th.Thread, int | None]] = {}
        rejected: list[tuple[int, bool, int | None]] = []
        end: int | None = count
        for position in range(count):
            walk.fresh()
            before = list(simulation.partials)
            is_candidate = walk.is_candidate(position)
            try:
                if walk.work >= self.allowed:
                    raise OutOfWorkError
                could_begin = is_candidate and walk.begins(position)
                simulation.offer(position)
            except OutOfWorkError:
                self.untraced = sum(walk.is_candidate(at) for at in range(position, count))
                end = None
                break
            open_paths = {path.bound_events[0][1]: path for path in simulation.partials}
            last_states.update(open_paths)
            for path in before:
                if path.bound_events[0][1] not in open_paths:
                    ended.setdefault(path.bound_events[0][1], (path, position))
            has_begun = position in open_paths or any(f.path.bound_events[0][1] == position for f in simulation.found)
            if is_candidate and not has_begun:
                paths = [*simulation.partials, *(f.path for f in simulation.found)]
                user = next(
                    (p.bound_events[0][1] for p in paths if any(at == position for _, at in p.bound_events)), None
                )
                rejected.append((position, could_begin, user))
        if end is not None:
            walk.more_work()
            simulation.emit_decided(end, END_OF_TIME)
        return {start: ended.get(start, (path, end)) for start, path in last_states.items()}, rejected

    def _used(self, user: int | None) -> Verdict:
        """Return the verdict on an event that could begin a partial match; ``user`` is the start of the one that used it."""
        context = self.walk.pattern.context
        assert context is not None
        clause = f"selection {context.value}"
        text = f"{clause}: an older partial match used the event, or prevents new ones"
        if user is None:
            details = f"An older partial match prevents new ones ({clause})."
        else:
            details = f"The partial match from {clock(self.walk.events[user].time)} used this event ({clause})."
        return Verdict("used", text, (details,), step=self.walk.openings[0].step)


def _spread(number: int) -> int:
    """Reverse the bits of a number: sorting by it samples the whole range early."""
    return int(f"{number:020b}"[::-1], 2)
