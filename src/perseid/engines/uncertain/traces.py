"""Converts rows to the kernel's layout: groups, their steps, and the possible events of each step.

Groups are put into lots by their kind of hidden chain: none, so that steps are independent; a chain given by tables; or
a chain with readings. Several hidden chains in one group are combined into one chain over their joint values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from perseid.engines.sequence.partition_sort import comparable
from perseid.engines.uncertain import kernel as k
from perseid.engines.uncertain.chains import (
    Chains,
    chains_of,
    lookahead_of,
    marginals_of,
    no_retained_chains,
    owners_of,
)
from perseid.engines.uncertain.inference import smoothed_tables
from perseid.engines.uncertain.ordering import begins, by_step, ordered, ranks
from perseid.engines.uncertain.plan import PlannedQuery
from perseid.engines.uncertain.reading import SymbolEncoder, Units, hashed, select_values, unit_columns
from perseid.engines.uncertain.streams import CHANCE, GIVEN, Known, Stream, Streams
from perseid.errors import EventDataError
from perseid.runtime.arrays import ArrowColumn, BoolArray, FloatArray, IntArray
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.key_encoding import key_codes

SUM_TOLERANCE = 1e-6
"""Tolerance for probabilities of one step that add up to more than 1 because they are rounded."""


@dataclass(frozen=True)
class Others:
    """Rows of chains that are independent from step to step."""

    unit: IntArray
    step: IntArray
    chain: IntArray
    """By row: the number of its chain."""
    owners: IntArray
    """By chain number: a hash of its key."""
    value: IntArray
    values: IntArray
    """By row: the number of its value; and by that number: a hash of it."""
    letter: IntArray
    share: FloatArray

    def chosen(self, rows: IntArray) -> Others:
        """Select rows."""
        by_row = ("unit", "step", "chain", "value", "letter", "share")
        return replace(self, **{name: getattr(self, name)[rows] for name in by_row})

    @cached_property
    def order(self) -> IntArray:
        """Two hashes by row, of chain and value, which give the rows of a step the same order in every call."""
        return np.stack([self.owners[self.chain], self.values[self.value]])


@dataclass(frozen=True)
class TransitionRows:
    """Rows of transition tables: value before, value after, and probability."""

    unit: IntArray
    step: IntArray
    chain: IntArray
    """Hash of the chain's key."""
    old: IntArray
    new: IntArray
    letter: IntArray
    weight: FloatArray
    values: IntArray
    """By value: its hash; values are numbered in the order of their hashes."""
    stays: bool
    """At a step without entries of a chain: True if the chain retains its value, False if it has no event."""
    key_types: tuple[pa.DataType | None, ...]
    """Types of the key columns of a chain, which its hash depends on."""

    def chosen(self, rows: IntArray) -> TransitionRows:
        """Select rows."""
        by_row = ("unit", "step", "chain", "old", "new", "letter", "weight")
        return replace(self, **{name: getattr(self, name)[rows] for name in by_row})

    def among(self, more: IntArray) -> TransitionRows:
        """Re-index the values to a larger set."""
        values = np.union1d(self.values, more)
        places = np.append(np.searchsorted(values, self.values), len(values))
        return replace(self, old=places[self.old], new=places[self.new], values=values)


@dataclass(frozen=True)
class Read:
    """Chains with readings, at most one per group."""

    stream: Stream
    chains: Chains
    unit: IntArray
    """By chain: its group."""
    letters: IntArray
    """By chain and value: the letter."""
    ahead: FloatArray | None
    """By step and value: the likelihood of later readings; None if these do not count."""


@dataclass(frozen=True)
class CallInput:
    """Input of a call: rows to evaluate, and chains with readings."""

    rows: EventBatch
    step: IntArray
    """By row: its step number."""
    chains: Mapping[str, Chains]
    """By event type with readings."""
    beliefs: Mapping[str, FloatArray]
    """Marginals of those chains that are evaluated step by step: by step and value, the probability."""
    ahead: Mapping[str, FloatArray]
    """Lookahead of those chains with a lag: by step and value, the likelihood of later readings."""
    bad: IntArray
    """Rows of steps with probabilities that are no distribution; they are dropped."""
    numbered: bool
    """True if steps are numbered, so that there can be gaps."""


@dataclass(frozen=True)
class PatternInput:
    """Input of one pattern in one call."""

    units: Units
    others: Others
    entries: tuple[TransitionRows, ...]
    """One for each event type with tables."""
    read: tuple[Read, ...]

    def since(self, first: IntArray) -> PatternInput:
        """Restrict the rows of each group to those from a step on; chains with readings are unchanged."""
        own = np.flatnonzero(self.others.step >= first[self.others.unit])
        if len(own) == len(self.others.unit) and all((e.step >= first[e.unit]).all() for e in self.entries):
            return self
        others = self.others.chosen(own)
        entries = tuple(one.chosen(np.flatnonzero(one.step >= first[one.unit])) for one in self.entries)
        return replace(self, others=others, entries=entries)


def steps_of(rows: EventBatch, every: int | None) -> IntArray:
    """By row: its step number."""
    time: IntArray = rows.time
    return time if every is None else time // every


def gather(streams: Streams, rows: EventBatch) -> tuple[CallInput, int]:
    """Input of a finite stream, and the number of readings with zero likelihood."""
    step = steps_of(rows, streams.every)
    bad = bad_distributions(streams, rows, step)
    numbered = streams.every is not None
    chains, beliefs, ahead, impossible = {}, {}, {}, 0
    for part, chosen in parts_of(streams, rows):
        if part.known is Known.READ:
            no_chains = no_retained_chains(part, rows)
            own = chains[part.type] = chains_of(part, rows, chosen, step[chosen], no_chains, None, None, numbered)
            if not part.hidden:
                beliefs[part.type], _, ignored = marginals_of(part, own, no_chains, streams.sampling.seed)
                impossible += ignored
            elif part.stores_belief:
                ahead[part.type], _ = lookahead_of(part, own, no_chains)
    return CallInput(rows, step, chains, beliefs, ahead, bad, numbered), impossible


def parts_of(streams: Streams, rows: EventBatch) -> Iterator[tuple[Stream, IntArray]]:
    """Streams of the rows, with the indices of their rows."""
    for code, type_ in enumerate(rows.type_names):
        part = streams.part(type_)
        if part is not None:
            yield part, np.flatnonzero(rows.type_codes == code)


def bad_distributions(streams: Streams, rows: EventBatch, step: IntArray) -> IntArray:
    """Rows of steps with probabilities that are no distribution."""
    found = [np.zeros(0, np.int64)]
    for part, chosen in parts_of(streams, rows):
        if part.known in (Known.INDEPENDENT, Known.LINKED) and len(chosen):
            found.append(_bad_rows(part, rows, chosen, step))
    return np.sort(np.concatenate(found))


def build_pattern_input(
    query: PlannedQuery,
    streams: Streams,
    reader: SymbolEncoder,
    call_input: CallInput,
    stored_keys: Sequence[ArrowColumn] | None = None,
) -> PatternInput:
    """Build the input of one pattern; ``stored_keys`` are the keys of groups with stored state."""
    rows, step = call_input.rows, call_input.step
    read_of = [(streams.part(type_), chains) for type_, chains in call_input.chains.items() if query.reads_type(type_)]
    sources, sizes = [unit_columns(rows, query.unit)], [len(rows)]
    for part, chains in read_of:
        assert part is not None
        missing = pa.nulls(len(chains.afresh))
        sources.append([chains.keys.get(component.column(part.type), missing) for component in query.unit])
        sizes.append(len(chains.afresh))
    sources.append([pa.nulls(0)] * len(query.unit) if stored_keys is None else list(stored_keys))
    sizes.append(0 if stored_keys is None or not stored_keys else len(stored_keys[0]))
    if stored_keys is not None and not query.unit:
        sizes[-1] = 1  # the single group of an unpartitioned pattern
    units = Units(sources, sizes)
    unit = units.of[0]
    others: list[Others] = []
    entries: list[TransitionRows] = []
    read: list[Read] = []
    for (part, chains), own in zip(read_of, units.of[1:-1], strict=True):
        assert part is not None
        assert part.model is not None
        letters = reader.value_letters(part.type, chains.keys, len(chains.afresh), part.model, part.about)
        if part.hidden:
            read.append(Read(part, chains, own, letters, call_input.ahead.get(part.type)))
        else:
            others.append(_marginal_rows(chains, own, letters, call_input.beliefs[part.type]))
    for part, rows_of_type in parts_of(streams, rows):
        if part.known is Known.READ or not query.reads_type(part.type):
            continue
        chosen = np.setdiff1d(rows_of_type, call_input.bad, assume_unique=True) if len(call_input.bad) else rows_of_type
        if part.hidden:
            entries.append(_entries(part, reader, rows, chosen, unit, step, call_input.numbered))
        else:
            others.append(_independent(part, reader, rows, chosen, unit, step))
    return PatternInput(units, _joined(others), tuple(entries), tuple(read))


def _bad_rows(part: Stream, rows: EventBatch, chosen: IntArray, step: IntArray) -> IntArray:
    share = np.asarray(rows.columns[CHANCE].fill_null(float("nan")))[chosen]
    linked = part.known is Known.LINKED
    keys = [comparable(select_values(rows.columns[name], chosen)) for name in part.of]
    keys += [comparable(select_values(rows.columns[GIVEN + name], chosen)) for name in part.about if linked]
    which, size = key_codes([*keys, pa.array(step[chosen])], len(chosen))
    with np.errstate(invalid="ignore"):
        is_invalid = ~((share >= 0) & (share <= 1 + SUM_TOLERANCE))
    sums = np.bincount(which, np.where(is_invalid, 0.0, share), minlength=size)
    broken = sums > 1 + SUM_TOLERANCE
    broken[which[is_invalid]] = True
    return chosen[broken[which]]


def require_distributions(part_of: Streams, rows: EventBatch, bad: IntArray | Sequence[int]) -> None:
    """Raise an error for the first bad row, if there is one."""
    if not len(bad):
        return
    row = int(bad[0])
    stream = part_of.part(rows.type_names[rows.type_codes[row]])
    assert stream is not None
    key = ", ".join(f"{name} {select_values(rows.columns[name], [row])[0]}" for name in stream.of)
    given = np.asarray(rows.columns[CHANCE].fill_null(float("nan")))
    same = [i for i in bad if rows.time[i] == rows.time[row]]
    shown = ", ".join(f"{given[i]:g}" for i in same[:6])
    raise EventDataError(
        f"The probabilities of {stream.type}{' of ' + key if key else ''} at one step are not a distribution: {shown}.",
        hint="Use probabilities from 0 to 1 with a sum of at most 1; the rest is the probability of no event.",
    )


def _values_of(
    part: Stream, rows: EventBatch, chosen: IntArray, before: bool = False
) -> tuple[IntArray, IntArray, BoolArray]:
    """By row: the number of its value; by number: a hash; and by row: False if it is null, i.e. no event."""
    columns = [select_values(rows.columns[(GIVEN if before else "") + name], chosen) for name in part.about]
    there = np.zeros(len(chosen), bool)
    for column in columns:
        there |= True if not column.null_count else ~np.asarray(column.is_null())
    return *hashed(columns, len(chosen)), there


def _independent(
    part: Stream, reader: SymbolEncoder, rows: EventBatch, chosen: IntArray, unit: IntArray, step: IntArray
) -> Others:
    letter = reader.letters(rows, part.type, chosen)
    seen = np.flatnonzero(letter)  # rows with letter 0 are ignored by the pattern
    own, letter = chosen[seen], letter[seen]
    if part.known is Known.CERTAIN:
        one = np.zeros(len(own), np.int64)
        return Others(
            unit[own], step[own], np.arange(len(own)), rows.identity[own], one, one[:1], letter, np.ones(len(own))
        )
    value, values, there = _values_of(part, rows, own)
    if not there.all():
        own, letter, value = own[there], letter[there], value[there]
    share = np.asarray(rows.columns[CHANCE])[own]
    return Others(unit[own], step[own], *owners_of(part, rows, own), value, values, letter, share)


def _marginal_rows(chains: Chains, unit: IntArray, letters: IntArray, shares: FloatArray) -> Others:
    """Evaluated steps of chains as independent rows with their marginal probabilities."""
    owner, counted = chains.owner, chains.counted
    steps, values = np.nonzero((shares > 0) & (letters[owner][:, :-1] != 0) & counted[:, None])
    chain = owner[steps]
    names = np.arange(shares.shape[1])
    found = letters[chain, values], shares[steps, values]
    return Others(unit[chain], chains.step[steps], chain, chains.hashes, values, names, *found)


def _entries(
    part: Stream,
    reader: SymbolEncoder,
    rows: EventBatch,
    chosen: IntArray,
    unit: IntArray,
    step: IntArray,
    numbered: bool,
) -> TransitionRows:
    """Entries of transition tables.

    If steps are not ``numbered``, the time of a row without a value is a step as well: its entry has weight 0.
    """
    new, new_hashes, is_event = _values_of(part, rows, chosen)
    if numbered and not is_event.all():
        chosen, new, is_event = chosen[is_event], new[is_event], is_event[is_event]
    old, old_hashes, was_event = _values_of(part, rows, chosen, before=True)
    values = np.union1d(new_hashes[np.unique(new[is_event])], old_hashes[np.unique(old[was_event])])
    codes = np.where(is_event, np.searchsorted(values, new_hashes)[new], 0)
    before = np.where(was_event, np.searchsorted(values, old_hashes)[old], len(values))
    letter = np.where(is_event, reader.letters(rows, part.type, chosen), 0)
    chain, owners = owners_of(part, rows, chosen)
    share = np.where(is_event, np.asarray(rows.columns[CHANCE])[chosen], 0.0)
    types = tuple(getattr(rows.columns[name], "type", None) for name in part.of)
    return TransitionRows(
        unit[chosen], step[chosen], owners[chain], before, codes, letter, share, values, not numbered, types
    )


def _joined(parts: list[Others]) -> Others:
    none = np.zeros(0, np.int64)
    if not parts:
        return Others(none, none, none, none, none, none, none, np.zeros(0))
    chain, value, chains, values = [], [], 0, 0
    for part in parts:
        chain.append(part.chain + chains)
        value.append(part.value + values)
        chains += len(part.owners)
        values += len(part.values)
    whole = {name: np.concatenate([getattr(part, name) for part in parts])
             for name in ("unit", "step", "owners", "values", "letter", "share")}  # fmt: skip
    return Others(**whole, chain=np.concatenate(chain), value=np.concatenate(value))


# Lots


@dataclass(frozen=True)
class ChainGroups:
    """Groups with the same kind of hidden chain, in the kernel's layout."""

    mode: int
    groups: IntArray
    """Indices among all groups."""
    step: IntArray
    """By step: its step number."""
    steps: k.Steps
    hidden: k.Hidden
    values: int
    hashes: IntArray | None = None
    """For tables: hash by hidden value."""
    impossible: int = 0
    """Readings with zero likelihood, if found before the kernel runs."""

    @property
    def names(self) -> IntArray:
        """By hidden value: an identifier that is stable across calls."""
        return np.arange(self.values) if self.hashes is None else self.hashes


@dataclass(frozen=True)
class InputLayout:
    """Steps of some groups, sorted."""

    unit: IntArray
    step: IntArray
    places: IntArray
    """Indices of the given ``places`` among the steps."""
    entries: IntArray
    """Indices of the entries, sorted."""
    steps: k.Steps


def lay_out_steps(
    units: IntArray, last: IntArray, numbered: bool, others: Others, entries: TransitionRows | None = None,
    places: tuple[IntArray, IntArray] | None = None,
) -> InputLayout:  # fmt: skip
    """Lay out the steps of some groups: those of rows and entries, and additional (group, step) pairs in ``places``.

    ``last`` is, by group, the step before its first one; if steps are not ``numbered``, there are no gaps between them.
    """
    among = np.zeros(max(int(units.max(initial=-1)), int(others.unit.max(initial=-1))) + 1, bool)
    among[units] = True
    own = np.flatnonzero(among[others.unit])
    pieces = [(others.unit[own], others.step[own])]
    if entries is not None:
        pieces.append((entries.unit, entries.step))
    if places is not None:
        pieces.append(places)
    unit, step = (np.concatenate([piece[i] for piece in pieces]) for i in range(2))
    which, at = by_step(unit, step)
    unit, step = unit[at], step[at]
    at_others, which = which[: len(own)], which[len(own) :]
    offsets = np.append(np.searchsorted(unit, units), len(unit))
    some = np.diff(offsets) > 0
    before = np.empty(len(step), np.int64)
    before[1:] = step[:-1]
    before[offsets[:-1][some]] = last[some]
    chain, value = ranks(others.owners)[others.chain[own]], ranks(others.values)[others.value[own]]
    rows = own[ordered([at_others, chain, value], others.share[own])]
    by_entry = np.zeros(0, np.int64)
    first_entry = np.zeros(len(step) + 1, np.int64)
    if entries is not None:
        at_entries, which = which[: len(entries.unit)], which[len(entries.unit) :]
        by_entry = ordered([at_entries, entries.old, entries.new], entries.weight)
        first_entry = begins(at_entries, len(step))
    first_other = begins(at_others, len(step))
    steps = k.Steps(
        offsets=offsets,
        idle=np.where((before == NEVER) | (not numbered), 0, step - before - 1),
        afresh=np.zeros(len(step), bool),
        still=np.zeros(len(step), bool),
        others=first_other[:-1],
        others_end=first_other[1:],
        chain=others.chain[rows],
        letter=others.letter[rows],
        share=others.share[rows],
        entries=first_entry[:-1],
        entries_end=first_entry[1:],
        at=np.arange(len(step)),
        absorbs=np.full(len(units), len(step)),
        rest=np.zeros(len(units), np.int64),
        ends=np.zeros(len(units), bool),
    )
    return InputLayout(unit, step, which, by_entry, steps)


NEVER, LATER = -(1 << 62), 1 << 62
"""Step numbers before and after all others."""


def split_groups(
    call_groups: PatternInput,
    last: IntArray,
    numbered: bool,
    stored: tuple[BoolArray, BoolArray] | None = None,
    values: IntArray | None = None,
) -> list[ChainGroups]:
    """Split the groups of a call into lots, each group having one hidden chain at most; ``last`` is each group's
    previous step. ``stored`` has two masks by group: has stored state, and has a stored hidden value; ``values`` are
    their hashes."""
    out = []
    is_present = np.zeros(len(call_groups.units), bool) if stored is None else stored[0]
    hidden = np.zeros(len(call_groups.units), bool) if stored is None else stored[1]
    is_present[call_groups.others.unit] = True
    for entries in call_groups.entries:
        # A group with a table chain retains it: input of other streams does not end the chain.
        hidden[entries.unit] = True
        own = entries if values is None else entries.among(values)
        out.append(_tables(call_groups, own, np.flatnonzero(hidden), last, numbered))
    for read in call_groups.read:
        hidden[read.unit] = True
        out.append(_read(call_groups, read, np.flatnonzero(hidden), last, numbered))
    units = np.flatnonzero(is_present & ~hidden)
    layout = lay_out_steps(units, last[units], numbered, call_groups.others)
    out.append(ChainGroups(k.ALONE, units, layout.step, layout.steps, no_hidden(len(layout.step)), 0))
    return out


def no_hidden(steps: int) -> k.Hidden:
    """Return the layout of groups without a hidden chain."""
    none = np.zeros(0, np.int64)
    return k.Hidden(none, none, np.zeros((1, 0)), np.zeros((1, 0), np.int64), np.ones((1, 1)),
                    np.zeros(steps, np.int64), np.zeros((0, 0)))  # fmt: skip


def _tables(
    call_groups: PatternInput, entries: TransitionRows, units: IntArray, last: IntArray, numbered: bool
) -> ChainGroups:
    layout = lay_out_steps(units, last[units], numbered, call_groups.others, entries)
    order = layout.entries
    hidden = no_hidden(len(layout.step))._replace(
        old=entries.old[order],
        new=entries.new[order],
        weight=entries.weight[order].reshape(1, -1),
        letters=entries.letter[order].reshape(1, -1),
    )
    if entries.stays:
        layout.steps.still[:] = layout.steps.entries == layout.steps.entries_end
    return ChainGroups(k.TABLES, units, layout.step, layout.steps, hidden, len(entries.values), entries.values)


def _read(call_groups: PatternInput, read: Read, units: IntArray, last: IntArray, numbered: bool) -> ChainGroups:
    """Lot of chains with readings: transitions of the model, and the initial distribution as those from "no event"."""
    chains, model, way = read.chains, read.stream.model, read.stream.inference
    assert model is not None
    owner, counted = chains.owner, chains.counted
    places = read.unit[owner[counted]], chains.step[counted]
    layout = lay_out_steps(units, last[units], numbered, call_groups.others, places=places)
    steps, at, count = layout.steps, layout.places, len(layout.step)
    begins = np.flatnonzero(counted & (np.arange(len(owner)) == chains.offsets[owner]) & chains.afresh[owner])
    number = np.cumsum(counted) - 1
    steps.afresh[at[number[begins]]] = True
    steps.still[:] = True
    steps.still[at] = False
    values = len(model.values)
    letters = np.zeros((len(units), values + 1), np.int64)
    letters[np.searchsorted(units, read.unit)] = read.letters
    reading = np.full(count, len(chains.likelihood) - 1, np.int64)
    reading[at] = chains.reading[counted]
    source = np.repeat(np.arange(values), np.diff(model.starts))
    steps = steps._replace(entries_end=np.where(steps.still, 0, len(source) + values))
    hidden = k.Hidden(
        old=np.concatenate([source, np.full(values, values)]),
        new=np.concatenate([model.targets, np.arange(values)]),
        weight=np.concatenate([model.weights, model.initial]).reshape(1, -1),
        letters=letters,
        likelihood=np.concatenate([chains.likelihood, np.ones((len(chains.likelihood), 1))], axis=1),
        reading=reading,
        ahead=np.zeros((0, 0)),
    )
    if read.ahead is not None:
        ahead = np.ones((count, values + 1))
        ahead[at, :-1] = read.ahead[counted]
        # Where a chain has no step, the lookahead of its latest step still applies.
        own = np.maximum.accumulate(np.where(steps.still, -1, np.arange(count)))
        stays = np.flatnonzero(steps.still & (own >= 0) & (layout.unit[own] == layout.unit))
        ahead[stays] = ahead[own[stays]]
        return ChainGroups(k.MODEL, units, layout.step, steps, hidden._replace(ahead=ahead), values)
    if way.name == "smooth":
        tables = smoothed_tables(model, chains.likelihood[chains.reading], chains.offsets)
        weight = np.zeros((count, len(hidden.old)))
        weight[at, : len(source)] = tables.weights
        weight[at[begins], len(source) :] = tables.marginals[begins]
        wrong = int(tables.impossible.sum())
        return ChainGroups(
            k.SMOOTHED, units, layout.step, steps, hidden._replace(weight=weight), values, impossible=wrong
        )
    return ChainGroups(k.MODEL, units, layout.step, steps, hidden, values)
