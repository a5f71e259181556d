"""Slot sequences: the patterns that can be assembled from events in any order, and why the others cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perseid.compile import program as p
from perseid.compile.plan import PatternPlan
from perseid.engines.sequence import layout as y
from perseid.engines.sequence.bytecode import CompiledPattern
from perseid.errors import UnsupportedError
from perseid.lang.ast import Contiguity, CountWindow

MAX_SLOTS = 60


def reject_unassembled(pattern: PatternPlan) -> None:
    """Raise an error unless the pattern is a slot sequence with independent matches, which needs no event order."""
    reason = why_not_assembled(pattern)
    if reason is not None:
        raise UnsupportedError(
            f"Pattern {pattern.name} cannot be assembled from out-of-order events: {reason}.",
            hint="Use disorder='aggressive' to emit matches early and retract some, or 'buffer' to wait for the "
            "watermark.",
        )


def why_not_assembled(pattern: PatternPlan) -> str | None:
    """Return why a match depends on more than its events and those between them; None if the pattern is assembled."""
    core = pattern.pattern
    body, *negated = pattern.programs
    linear = (p.TakeEvent, p.SetHop, p.WatchFor, p.ZoneEnter, p.ZoneLeave, p.AcceptMatch)
    windows = [one.within for one in body.instructions if isinstance(one, p.ZoneEnter)] + [core.within]
    if not all(isinstance(one, linear) for one in body.instructions):
        return "it has a repetition, '|' or '&', and a later arrival can change its match"
    hops = [one.hop for one in body.instructions if isinstance(one, p.SetHop)]
    if any(hop.contiguity is not Contiguity.ANY for hop in hops):
        return "'->' and ',' take the next event, and an earlier event may still arrive; use '->>' to take every event"
    if any(sum(isinstance(one, p.TakeEvent) for one in program.instructions) != 1 for program in negated):
        return "a negation has more than one event"
    if core.context is not None or core.skip.mode != "none":
        return "'selection' or 'after match skip' makes a match depend on earlier matches"
    if core.suppress is not None:
        return "it suppresses matches, and an earlier match may still be found"
    if "timed out" in pattern.row_kinds:
        return "it reports timeouts, and a partial match cannot time out while its events may still arrive"
    if pattern.leads or pattern.facts.lookback:
        return "it reads events before its first event"
    if pattern.feeds_on:
        return f"it consumes matches of {', '.join(pattern.feeds_on)}"
    if any(isinstance(window, CountWindow) for window in windows):
        return "its window counts events, and more events may still arrive"
    if pattern.facts.bound is None:
        return "its duration is unbounded"
    if len(core.steps) > MAX_SLOTS:
        return f"it has more than {MAX_SLOTS} steps"
    return None


@dataclass(frozen=True)
class Slots:
    """A pattern as a slot sequence, as far as predicate bits of events decide it."""

    steps: list[int]
    between: list[int]
    """By slot: the bits of the events negated between it and the previous slot."""
    plain: bool
    """True if predicate bits, negated bits and the window, all of which the search checks, decide a match."""

    @property
    def decides(self) -> int:
        """The last slot after a negation, if plain: its event time decides when a match is final. -1 otherwise."""
        return max((i for i, bits in enumerate(self.between) if bits), default=-1) if self.plain else -1


def slots_in(bytecode: CompiledPattern) -> Slots:
    """Return the slots of a pattern, and the negations that predicate bits decide."""
    table, pattern = bytecode.tables, bytecode.pattern
    body = pattern.programs[0]
    steps = steps_of(body)
    is_unconditional = table[y.S_GUARDS_COUNT] == 0 and table[y.S_UNIFIED_COUNT] == 0 and table[y.S_HOLDS] < 0
    plain = bool(is_unconditional and not table[y.S_STRICTLY] and table[y.S_WITHIN] == pattern.facts.bound)
    plain &= all(_decided_by_bits(bytecode, step, must=True) for step in steps)
    between: list[int] = []
    watches: list[p.WatchFor] = []
    for instruction in body.instructions:
        if isinstance(instruction, p.TakeEvent):
            between.append(_negated_bits(bytecode, watches) if between else 0)
            plain &= bool(between[-1]) == bool(watches)
            watches = []
        elif isinstance(instruction, p.WatchFor):
            watches.append(instruction)
        elif isinstance(instruction, p.SetHop):
            plain &= instruction.hop.after is None and instruction.hop.within is None
    zoned = any(
        isinstance(instruction, p.ZoneEnter) for instruction in body.instructions
    )  # a negation may end with the window of a group
    return Slots(steps, [0] * len(steps) if zoned else between, plain and not zoned and not watches)


def _negated_bits(bytecode: CompiledPattern, watches: Sequence[p.WatchFor]) -> int:
    """Return the bits of the events negated between two slots; 0 if bits do not decide every negation."""
    bits = 0
    for watch in watches:
        (step,) = steps_of(bytecode.pattern.programs[watch.program])
        # A negation with a duration also constrains the time of the next event.
        if (
            watch.duration is not None
            or bytecode.tables[y.S_STRICTLY]
            or not _decided_by_bits(bytecode, step, must=False)
        ):
            return 0
        bits |= 1 << word_of(bytecode, step, y.ST_BIT)
    return bits


def _decided_by_bits(bytecode: CompiledPattern, step: int, *, must: bool) -> bool:
    """Return True if the bits of an event decide whether a step takes it; ``must`` admits the bit of required predicates."""
    counts = (y.ST_MUST_COUNT, y.ST_UNIFY_COUNT, y.ST_TOTALS_COUNT)
    simple = word_of(bytecode, step, y.ST_SIMPLE) == 1 and not any(word_of(bytecode, step, word) for word in counts)
    return simple and (must or word_of(bytecode, step, y.ST_MUST_BIT) < 0)


def steps_of(program: p.Program) -> list[int]:
    """Return the steps with which a program takes events, in order."""
    return [one.step for one in program.instructions if isinstance(one, p.TakeEvent)]


def word_of(bytecode: CompiledPattern, step: int, word: int) -> int:
    """Return a field of a step's row in the step table."""
    return int(bytecode.tables[int(bytecode.tables[y.S_STEP_TABLE]) + step * y.STEP_WIDTH + word])
