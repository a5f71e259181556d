"""Explains the evaluation of patterns over an uncertain stream: query class, reason, and cost."""

from __future__ import annotations

from collections.abc import Sequence

from perseid.engines.uncertain.automaton import MAX_STATES
from perseid.engines.uncertain.pattern_nfa import PatternNFA
from perseid.engines.uncertain.plan import PlannedQuery, plan_query
from perseid.engines.uncertain.streams import Known, Stream, Streams
from perseid.lang.printer import print_duration
from perseid.runtime.explanation import Row, section
from perseid.semantics.classes import QueryClass
from perseid.semantics.core import CorePattern

_METHODS = {
    QueryClass.REGULAR: "exact, step by step: an automaton combined with the hidden values; the state does not grow with the stream",
    QueryClass.EXTENDED: "exact, step by step: one automaton for each binding, combined as 1 - product of (1 - p)",
    QueryClass.SAFE: "exact, by a safe plan over time intervals: needs finished data, or on a stream a window (within …); time grows "
    "with the square of the number of steps",
    QueryClass.UNSAFE: "sampled",
}


def explain_queries(cores: Sequence[CorePattern], streams: Streams, spark: bool) -> str:
    """Return one section per pattern, and one for the stream."""
    lines: list[str] = []
    for core in cores:
        lines += section(f"evaluation of {core.name}", _pattern(plan_query(core, streams), streams))
    lines += section("uncertain stream", _streams(streams))
    return "\n".join(lines).rstrip() + "\n"


def _pattern(query: PlannedQuery, streams: Streams) -> list[Row]:
    kind = query.classified.kind
    nfa = PatternNFA(query.pattern)
    sampling = streams.sampling
    bound = f"the error exceeds {sampling.epsilon:g} with probability {sampling.delta:g} at most, at each step"
    from perseid.engines.uncertain.worlds import worlds_for

    drawn = f"{worlds_for(sampling):,} sampled worlds, seed {sampling.seed}: {bound}"
    method = _METHODS[kind]
    if query.window is not None:
        method = f"exact, by a safe plan over the last {query.window + 1} steps, at each step: their input is retained, and time grows with their square"
    rows: list[Row] = [
        ("class", f"{kind.value} (Ré et al. 2008): {query.classified.why}"),
        ("method", drawn if kind is QueryClass.UNSAFE or sampling.always else method),
    ]
    by = ", ".join(component.name for component in query.unit[: query.groups])
    rows.append(("grouped by", f"{by} and step" if by else "step, all keys together"))
    if kind in (QueryClass.REGULAR, QueryClass.EXTENDED) and not sampling.always:
        above = f"the group is sampled from that step on: {drawn}"
        part = query.unsampled(streams)
        if part is not None:
            above = f"an error: readings with inference={str(part.inference)!r} cannot be sampled"
        rows.append(("limit", f"{MAX_STATES:,} states of a group at once; above it, {above}"))
        if not query.is_single(streams):
            names = ", ".join(part.type for part in query.hidden(streams))
            rows.append(
                ("hidden", f"one group may have several chains of {names}: evaluated as one chain of their joint values; if "
                           "these are too many, the pattern is sampled")
            )  # fmt: skip
    rows.append(
        (
            "expected",
            "the expected number of matches, emit=ps.uncertain.expected(), is exact in every class: expectations add up",
        )
    )
    if query.pattern.returns:
        rows.append(("return", "ignored: a result belongs to a group and a step, not to one match"))
    if nfa.is_timed and not query.looks_back(streams):
        rows.append(("time", "the duration of a partial match is part of its state"))
    return rows


def _streams(streams: Streams) -> list[Row]:
    every = "every distinct time" if streams.every is None else print_duration(streams.every)
    rows: list[Row] = [("step", every)]
    rows += [(part.type, _stream(part)) for part in streams.parts]
    if streams.prune:
        rows.append(("pruned", f"weights below {streams.prune:g}; error includes the dropped probability"))
    return rows


def _stream(part: Stream) -> str:
    if part.known is Known.CERTAIN:
        return "certain events"
    key = f"key {', '.join(part.of)}, " if part.of else ""
    subject = f"{key}value {', '.join(part.about)}: "
    if part.known is Known.INDEPENDENT:
        return (
            subject
            + "a distribution for each step, independent of the earlier steps; missing probability means no event"
        )
    if part.known is Known.LINKED:
        text = "a transition table for each step, given the previous value"
        return subject + (text if part.correlations else f"{text}; steps are treated as independent")
    assert part.model is not None
    text = f"readings, hidden Markov model with {len(part.model.values)} values, {part.inference}"
    if not part.correlations:
        text += ", steps are treated as independent"
    silent = (
        f"; up to {part.patience} steps without a row count as readings"
        if part.patience
        else "; inference restarts after a step without a row"
    )
    return subject + text + silent
