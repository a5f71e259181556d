"""Lowers a pattern plan to the tables that the kernel runs.

:func:`compile_pattern` needs the types of the columns but no events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from perseid.compile import program as p
from perseid.compile.plan import PatternPlan, Plan, forgetful
from perseid.engines.sequence import layout as y
from perseid.engines.sequence.expression_compiler import ExpressionCompiler, LoadedColumn, NotCompilable
from perseid.errors import LimitError
from perseid.lang import ast
from perseid.lang.ast import Contiguity, Selection
from perseid.lang.expressions import Expr, Ref
from perseid.runtime.arrays import FloatArray, IntArray
from perseid.semantics import core as c
from perseid.semantics import types as t
from perseid.semantics.facts import ambiguous
from perseid.semantics.output_names import OutputNames, output_names

B = TypeVar("B")
MAX_BITS = 62
MATCH_CAP = 1_000_000
"""Maximum number of matches of one start; its search ends there, and the start is counted as capped."""

_CONTIGUITY = {Contiguity.NEXT: y.STRICT, Contiguity.SKIP: y.SKIP, Contiguity.ANY: y.ANY}
_SKIPS = {
    "none": y.SKIP_NONE,
    "to next": y.SKIP_TO_NEXT,
    "past last": y.SKIP_PAST_LAST,
    "to first": y.SKIP_TO_FIRST,
    "to last": y.SKIP_TO_LAST,
}
_CONTEXTS = {
    Selection.CHRONICLE: y.CHRONICLE,
    Selection.IMMEDIATE: y.IMMEDIATE,
    Selection.STRICT_IMMEDIATE: y.STRICT_IMMEDIATE,
    Selection.CONTINUOUS: y.CONTINUOUS,
    Selection.RECENT: y.RECENT,
    Selection.CUMULATIVE: y.CUMULATIVE,
}


@dataclass(frozen=True)
class Bit:
    """One bit of an event mask: an event type, and the predicates that the event alone decides."""

    event_type: str | None
    """None for any type."""
    predicates: tuple[int, ...]
    """Ids of the plan's predicates, all of which must hold."""


@dataclass(frozen=True)
class Posting:
    """Index of the events of one bit, by the values of columns in which a step must equal an earlier event."""

    bit: int
    own: tuple[int, ...]
    earlier: tuple[int, ...]
    """The corresponding columns of the earlier event."""


@dataclass(frozen=True)
class CompiledPattern:
    """A pattern as kernel bytecode: its tables, the columns it loads, and the meaning of each bit of an event mask."""

    pattern: PatternPlan
    tables: IntArray
    constants: FloatArray
    columns: tuple[LoadedColumn, ...]
    texts: Mapping[int, str]
    sorted_texts: bool
    bits: tuple[Bit, ...]
    musts: tuple[tuple[int, ...], ...]
    """By bit of the ``must`` mask: those predicates in ``must`` of a step that its event alone decides."""
    alone: Mapping[int, int]
    """Formulas of the predicates that one event decides, by predicate id."""
    python_conditions: tuple[Expr, ...]
    """Conditions without an opcode; the reference evaluator computes them."""
    outputs: tuple[tuple[str, int | None, int], ...]
    """Returned columns: name, formula (None if gathered or computed by the reference evaluator), family."""
    output_columns: Mapping[str, tuple[int, str]]
    """Returned columns that are a column of a step's last event: name to (step, column)."""
    postings: tuple[Posting, ...]
    names: OutputNames

    @property
    def compiled(self) -> bool:
        """True if the kernel needs no reference evaluator."""
        return not self.python_conditions

    def posting_of(self, step: int) -> Posting | None:
        """The posting that finds the events of a step by the values of an earlier one; None if it has none."""
        number = int(self.tables[int(self.tables[y.S_STEP_TABLE]) + step * y.STEP_WIDTH + y.ST_POSTING])
        return None if number < 0 else self.postings[number]

    def looks_back(self, step: int) -> bool:
        """True if a step has conditions on earlier events beyond those of its posting."""
        row = int(self.tables[y.S_STEP_TABLE]) + step * y.STEP_WIDTH
        count = int(self.tables[row + y.ST_CHOOSE_COUNT] + self.tables[row + y.ST_UNIFY_COUNT])
        posting = self.posting_of(step)
        return count > (0 if posting is None else len(posting.own))


def compile_pattern(
    plan: Plan, pattern: PatternPlan, types: Mapping[str, t.Type], strictly_later: bool
) -> CompiledPattern:
    """Compile one pattern for events with columns of these types."""
    return _PatternCompiler(plan, pattern, types, strictly_later).build()


def names_of(core: c.CorePattern) -> OutputNames:
    """The output columns of a pattern."""
    keys = tuple(".".join(path.parts) for path in core.partition)
    return output_names(keys, tuple(name for name, _ in core.returns), core.evidence is not None)


class _PatternCompiler:
    def __init__(self, plan: Plan, pattern: PatternPlan, types: Mapping[str, t.Type], strictly_later: bool) -> None:
        self.plan = plan
        self.pattern = pattern
        self.core = pattern.pattern
        size = sum(len(program.instructions) for program in pattern.programs) * y.OP_WIDTH
        self.tables: list[int] = [0] * (y.SHAPE + size)
        self.programs: list[int] = []
        self.formulas = ExpressionCompiler(self.core, types, self.tables)
        own = self.core.strictly_later
        self.strictly = strictly_later if own is None else own
        self.conditions: dict[tuple[int, int | None], int] = {}
        self.alone: dict[int, int] = {}

    def build(self) -> CompiledPattern:
        bits, bit_of = self._bits()
        chooses, musts, must_alone = self._conditions()
        self._code()
        guards = self._formula_list(self.pattern.guards)
        leads = [n for program, duration in self.pattern.leads for n in (program, duration)]
        outputs, output_columns = self._outputs()
        unify = [
            [
                n
                for path, name in step.unify
                for n in (self.formulas.variables[name], self.formulas.unified_column(path, name))
            ]
            for step in self.core.steps
        ]
        totals_of: dict[int, list[int]] = {}
        for slot, (_, _, _, step) in enumerate(self.formulas.totals):
            totals_of.setdefault(step, []).append(slot)
        postings = self._postings(bit_of, chooses, unify)
        must_bits = self._within_capacity(dict.fromkeys(filter(None, must_alone)))
        unique_postings = list(dict.fromkeys(posting for posting, _ in postings.values()))
        rows: list[int] = []
        for core_step in self.core.steps:
            s = core_step.id
            row = [0] * y.STEP_WIDTH
            binds = bool(unify[s]) or any(self.formulas.reads_totals_of(f, s) for f, _ in chooses[s])
            row[y.ST_BIT] = bit_of[s]
            row[y.ST_MUST_BIT] = must_bits.index(must_alone[s]) if must_alone[s] else -1
            row[y.ST_SIMPLE] = int(not chooses[s] and not unify[s])
            row[y.ST_BINDS] = int(binds)
            row[y.ST_CHOOSE], row[y.ST_CHOOSE_COUNT] = self._choose_list(chooses[s]), len(chooses[s])
            row[y.ST_MUST], row[y.ST_MUST_COUNT] = self._list(musts[s]), len(musts[s])
            row[y.ST_UNIFY], row[y.ST_UNIFY_COUNT] = self._list(unify[s]), len(unify[s]) // 2
            row[y.ST_POSTING] = -1
            if s in postings:
                posting, holder = postings[s]
                row[y.ST_POSTING], row[y.ST_HOLDER] = unique_postings.index(posting), holder
                row[y.ST_SAME_VALUES] = int(holder in postings and _found_by_same_values(posting, postings[holder][0]))
            slots = totals_of.get(s, [])
            row[y.ST_TOTALS], row[y.ST_TOTALS_COUNT] = self._list(slots), len(slots)
            rows.extend(row)
        formulas = self.formulas
        head = self._shape(guards, leads)
        head[y.S_STEP_TABLE] = self._list(rows)
        head[y.S_TOTAL_TABLE] = self._list([n for total in formulas.totals for n in total[: y.TOTAL_WIDTH]])
        head[y.S_FAMILIES] = self._list([column.family for column in formulas.columns])
        head[y.S_PROGRAMS] = self._list(self.programs)
        head[y.S_CODE] = y.SHAPE
        self.tables[: y.SHAPE] = head
        return CompiledPattern(
            pattern=self.pattern,
            tables=np.array([*self.tables, 0], np.int64),
            constants=np.array([*formulas.doubles, 0.0], np.float64),
            columns=tuple(formulas.columns),
            texts=dict(formulas.texts),
            sorted_texts=formulas.sorted_texts,
            bits=bits,
            musts=must_bits,
            alone=dict(self.alone),
            python_conditions=tuple(formulas.python_conditions),
            outputs=outputs,
            output_columns=output_columns,
            postings=tuple(unique_postings),
            names=names_of(self.core),
        )

    # lists

    def _list(self, items: list[int] | tuple[int, ...]) -> int:
        at = len(self.tables)
        self.tables.extend(items)
        return at

    def _formula_list(self, predicates: tuple[int, ...]) -> tuple[int, int]:
        formulas = [self._condition(number, None) for number in predicates]
        return self._list(formulas), len(formulas)

    def _choose_list(self, chosen: list[tuple[int, tuple[int, ...]]]) -> int:
        needs = [(self._list(wanted), len(wanted)) for _, wanted in chosen]
        at = len(self.tables)
        for (formula, _), (first, count) in zip(chosen, needs, strict=True):
            self.tables.extend((formula, first, count))
        return at

    # conditions

    def _condition(self, predicate: int, own: int | None) -> int:
        key = (predicate, own)
        if key not in self.conditions:
            self.conditions[key] = self.formulas.condition(self.plan.predicates[predicate].expr, own)
        return self.conditions[key]

    def _decides_alone(self, predicate: int) -> bool:
        """True if the predicate depends on one event and can be compiled into its mask."""
        known = self.plan.predicates[predicate]
        if not known.event_local:
            return False
        if predicate not in self.alone:
            try:
                self.alone[predicate] = self.formulas.alone(known.expr)
            except NotCompilable:
                return False
        return True

    def _bits(self) -> tuple[tuple[Bit, ...], list[int]]:
        bits: list[Bit] = []
        bit_of: list[int] = []
        for step, planned in zip(self.core.steps, self.pattern.steps, strict=True):
            alone = tuple(sorted({n for n, _ in planned.choose if self._decides_alone(n)}))
            kind = step.kind.name if isinstance(step.kind, ast.EventType) else None
            bit = Bit(kind, alone)
            if bit not in bits:
                bits.append(bit)
            bit_of.append(bits.index(bit))
        return self._within_capacity(bits), bit_of

    def _within_capacity(self, bits: Iterable[B]) -> tuple[B, ...]:
        """Return the bits as a tuple; raise an error if they exceed the capacity of an event mask."""
        out = tuple(bits)
        if len(out) > MAX_BITS:
            raise LimitError(
                f"Pattern {self.core.name} has {len(out)} kinds of steps; the maximum is {MAX_BITS}.",
                hint="Split the pattern: a step can consume matches of another pattern by its name.",
            )
        return out

    def _conditions(
        self,
    ) -> tuple[list[list[tuple[int, tuple[int, ...]]]], list[list[int]], tuple[tuple[int, ...], ...]]:
        chooses, musts, must_alone = [], [], []
        for step in self.pattern.steps:
            chooses.append(
                [(self._condition(n, step.step), needs) for n, needs in step.choose if not self._decides_alone(n)]
            )
            musts.append([self._condition(n, step.step) for n in step.must if not self._decides_alone(n)])
            must_alone.append(tuple(n for n in step.must if self._decides_alone(n)))
        return chooses, musts, tuple(must_alone)

    def _postings(
        self, bit_of: list[int], chooses: list[list[tuple[int, tuple[int, ...]]]], unify: list[list[int]]
    ) -> dict[int, tuple[Posting, int]]:
        """By step: the posting of its events and the holder of the values, a step or -1 - n for unified name n."""
        out: dict[int, tuple[Posting, int]] = {}
        sources: dict[int, set[int]] = {}
        for pairs in unify:
            for name, column in zip(pairs[::2], pairs[1::2], strict=True):
                sources.setdefault(name, set()).add(column)
        for step, chosen in enumerate(chooses):
            by_holder: dict[int, dict[tuple[int, int], None]] = {}
            for formula, _ in chosen:
                found = self.formulas.equality(formula)
                if found is not None:
                    own, holder, earlier = found
                    by_holder.setdefault(holder, {})[own, earlier] = None
            for name, column in zip(unify[step][::2], unify[step][1::2], strict=True):
                if len(sources[name]) == 1 and self.formulas.columns[column].family != y.DOUBLE:
                    by_holder.setdefault(-1 - name, {})[column, column] = None
            if by_holder:
                holder, columns = max(by_holder.items(), key=lambda item: len(item[1]))
                own_columns, earlier_columns = zip(*columns, strict=True)
                out[step] = Posting(bit_of[step], own_columns, earlier_columns), holder
        return out

    def _outputs(self) -> tuple[tuple[tuple[str, int | None, int], ...], dict[str, tuple[int, str]]]:
        lone = self.core.lone_step
        own = None if lone is None else lone.id
        out: list[tuple[str, int | None, int]] = []
        columns: dict[str, tuple[int, str]] = {}
        for name, expr in self.core.returns:
            try:
                if lone is not None and (lone.repeated or self.core.context is Selection.CUMULATIVE):
                    raise NotCompilable("a bare name is the first event's, a step's name the last's")
                step = self._gathered(expr, own)
                if step is not None:
                    assert isinstance(expr, Ref)
                    columns[name] = (step, expr.parts[-1])
                    out.append((name, None, -1))
                    continue
                formula, family = self.formulas.value(expr, own)
                out.append((name, formula if family >= 0 else None, family))
            except NotCompilable:
                out.append((name, None, -1))
        return tuple(out), columns

    def _gathered(self, expr: Expr, own: int | None) -> int | None:
        """The step from which a column is gathered unchanged, without the kernel; None for other expressions."""
        if not isinstance(expr, Ref) or expr.parts[-1] not in self.formulas.types:
            return None
        ids = self.formulas.steps.get(expr.parts[0], [])
        if len(expr.parts) == 2 and len(ids) == 1:
            return ids[0]
        plain = len(expr.parts) == 1 and expr.parts[0] not in self.formulas.steps
        return own if plain and expr.parts[0] not in self.formulas.variables else None

    # programs

    def _code(self) -> None:
        at = y.SHAPE
        for program in self.pattern.programs:
            base, instructions = at, program.instructions
            single = instructions[0].step if len(instructions) == 2 and isinstance(instructions[0], p.TakeEvent) else -1
            self.programs.extend((base, single))
            for instruction in instructions:
                row = self._instruction(instruction, base)
                self.tables[at : at + len(row)] = row
                at += y.OP_WIDTH

    def _instruction(self, instruction: p.Instruction, base: int) -> list[int]:
        match instruction:
            case p.TakeEvent():
                return [y.TAKE, instruction.step]
            case p.SetHop():
                return [y.HOP, *_hop(instruction.hop)]
            case p.Split():
                return [
                    y.SPLIT,
                    self._list([base + y.OP_WIDTH * n for n in instruction.targets]),
                    len(instruction.targets),
                ]
            case p.Jump():
                return [y.JUMP, base + y.OP_WIDTH * instruction.target]
            case p.LoopEnter():
                return [y.LOOP_ENTER, instruction.register]
            case p.LoopTurn():
                return [
                    y.LOOP_TURN,
                    instruction.register,
                    instruction.low,
                    -1 if instruction.high is None else instruction.high,
                    int(instruction.reluctant),
                    *_hop(instruction.hop),
                    -1 if instruction.until is None else instruction.until,
                    *self._formula_list(instruction.guards),
                    self._list(instruction.inside),
                    len(instruction.inside),
                    base + y.OP_WIDTH * instruction.body,
                    base + y.OP_WIDTH * instruction.exit,
                ]
            case p.LoopBack():
                return [y.LOOP_BACK, instruction.register, base + y.OP_WIDTH * instruction.target]
            case p.AllEnter():
                barred = instruction.barred
                return [y.ALL_ENTER, instruction.register, instruction.members, self._list(barred), len(barred)]
            case p.AllTurn():
                return [
                    y.ALL_TURN,
                    instruction.register,
                    *_hop(instruction.hop),
                    *self._formula_list(instruction.guards),
                    self._list([base + y.OP_WIDTH * n for n in instruction.members]),
                    len(instruction.members),
                    base + y.OP_WIDTH * instruction.exit,
                ]
            case p.AllBack():
                return [y.ALL_BACK, instruction.register, instruction.member, base + y.OP_WIDTH * instruction.target]
            case p.WatchFor():
                return [y.WATCH, instruction.program, -1 if instruction.duration is None else instruction.duration]
            case p.ZoneEnter():
                return [
                    y.ZONE_ENTER,
                    *_window(instruction.within),
                    -1 if instruction.holds_for is None else instruction.holds_for,
                ]
            case p.ZoneLeave():
                return [y.ZONE_LEAVE]
            case p.AcceptMatch():
                return [y.ACCEPT]

    # shape

    def _shape(self, guards: tuple[int, int], leads: list[int]) -> list[int]:
        core, instructions = self.core, [i for program in self.pattern.programs for i in program.instructions]
        registers = max(program.registers for program in self.pattern.programs)
        zones = sum(isinstance(i, p.ZoneEnter) for i in instructions)
        untils = 2 * sum(isinstance(i, p.LoopTurn) and i.until is not None for i in instructions)
        watches = 2 * sum(
            1 if isinstance(i, p.WatchFor) else len(i.barred)
            for i in instructions
            if isinstance(i, (p.WatchFor, p.AllEnter))
        )
        shape = [0] * y.SHAPE
        at = y.HEAD
        for word, size in (
            (y.S_REGISTERS, 3 * registers),
            (y.S_ZONES, y.ZONE_WIDTH * zones),
            (y.S_UNTILS, untils),
            (y.S_WATCHES, y.WATCH_WIDTH * watches),
            (y.S_CURRENT, len(core.steps)),
            (y.S_UNIFIED, 2 * len(self.formulas.variables)),
        ):
            shape[word] = at
            at += size
        shape[y.S_FRAME] = at
        shape[y.S_STEPS] = len(core.steps)
        shape[y.S_UNIFIED_COUNT] = len(self.formulas.variables)
        shape[y.S_TOTALS] = len(self.formulas.totals)
        shape[y.S_WITHIN], shape[y.S_WITHIN_COUNT] = _window(core.within)
        shape[y.S_BOUND] = -1 if self.pattern.facts.bound is None else self.pattern.facts.bound
        shape[y.S_HOLDS] = -1 if core.holds_for is None else core.holds_for
        shape[y.S_GUARDS], shape[y.S_GUARDS_COUNT] = guards
        shape[y.S_LEADS], shape[y.S_LEADS_COUNT] = self._list(leads), len(leads) // 2
        shape[y.S_SKIP] = _SKIPS[core.skip.mode]
        target = core.step_named(core.skip.step) if core.skip.step is not None else None
        shape[y.S_SKIP_STEP] = -1 if target is None else target.id
        shape[y.S_ONE] = int(core.skip.mode != "none")
        shape[y.S_TIMEOUTS] = int(core.report_timeouts)
        shape[y.S_STRICTLY] = int(self.strictly)
        shape[y.S_CONTEXT] = -1 if core.context is None else _CONTEXTS[core.context]
        hops = [i.hop for i in instructions if isinstance(i, (p.SetHop, p.LoopTurn, p.AllTurn))]
        shape[y.S_COMBINES] = int(any(hop.contiguity is Contiguity.ANY for hop in hops))
        choice = any(isinstance(i, (p.Split, p.LoopTurn, p.AllTurn)) for i in self.pattern.programs[0].instructions)
        shape[y.S_PLAIN] = int(not choice)
        shape[y.S_STRAIGHT] = int(all(map(_straight, self.pattern.programs[0].instructions)))
        shape[y.S_MEMO] = int(forgetful(self.plan, self.pattern) and ambiguous(core))
        shape[y.S_MERGES] = int(self._merges(shape, watches))
        shape[y.S_REGISTER_COUNT] = registers
        # With a context: open partial matches of a partition. Without: matches of one start.
        cap = self.pattern.retention.cap or y.FOREVER
        shape[y.S_MATCH_CAP] = MATCH_CAP if core.context is None else cap
        return shape

    def _merges(self, shape: list[int], watches: int) -> bool:
        """True if a search point has the same outcome from every start, time windows aside, and the pattern repeats."""
        start_matters = watches or shape[y.S_LEADS_COUNT] or shape[y.S_HOLDS] >= 0 or shape[y.S_WITHIN_COUNT] >= 0
        other_search = shape[y.S_COMBINES] or shape[y.S_TIMEOUTS] or shape[y.S_CONTEXT] >= 0 or shape[y.S_STRAIGHT]
        repeats = any(isinstance(i, p.LoopTurn) for i in self.pattern.programs[0].instructions)
        return repeats and not start_matters and not other_search and forgetful(self.plan, self.pattern)


def _straight(instruction: p.Instruction) -> bool:
    """True if the instruction only takes an event, accepts, or sets a hop other than ``->>``."""
    if isinstance(instruction, p.SetHop):
        return instruction.hop.contiguity is not Contiguity.ANY
    return isinstance(instruction, (p.TakeEvent, p.AcceptMatch))


def _found_by_same_values(posting: Posting, holders: Posting) -> bool:
    """True if the holder is itself found by the same values in the same columns."""
    return posting.earlier == holders.own == holders.earlier


def _hop(hop: c.Hop) -> tuple[int, int, int]:
    after = -1 if hop.after is None else hop.after
    return _CONTIGUITY[hop.contiguity], after, -1 if hop.within is None else hop.within


def _window(window: ast.Window | None) -> tuple[int, int]:
    """Return the window's limits in microseconds and in events; -1 is no limit."""
    if isinstance(window, ast.TimeWindow):
        assert isinstance(window.duration, int)
        return window.duration, -1
    if isinstance(window, ast.CountWindow):
        return -1, window.events
    return -1, -1
