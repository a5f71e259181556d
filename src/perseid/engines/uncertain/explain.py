"""Explains the evaluation of patterns over an uncertain stream: query class, reason, and cost."""

from __future__ import annotations

from collections.abc import Sequence

from perseid.engines.uncertain.automaton import MOST_STATES
from perseid.engines.uncertain.pattern_nfa import PatternNFA
from perseid.engines.uncertain.plan import PlannedQuery, plan_query
from perseid.engines.uncertain.streams import Known, Stream, Streams
from perseid.lang.printer import print_duration
from perseid.runtime.explanation import Row, section
from perseid.semantics.classes import QueryClass
from perseid.semantics.core import CorePattern

_HOW = {
    QueryClass.REGULAR: "exact, step by step: an automaton beside what is hidden; memory does not grow with the stream",
    QueryClass.EXTENDED: "exact, step by step: one automaton for each binding, combined as 1 - product of (1 - p)",
    QueryClass.SAFE: "exact, by a safe plan over intervals of time: needs finished data, on a stream a window (within …); time grows with "
    "its square",
    QueryClass.UNSAFE: "sampled",
}


def explain_queries(cores: Sequence[CorePattern], streams: Streams, spark: bool) -> str:
    """Return one section per pattern, and one for the stream."""
    lines: list[str] = []
    for core in cores:
        lines += section(f"answers of {core.name}", _pattern(plan_query(core, streams), streams))
    lines += section("the uncertain stream", _streams(streams))
    return "\n".join(lines).rstrip() + "\n"


def _pattern(asked: PlannedQuery, streams: Streams) -> list[Row]:
    kind = asked.classified.kind
    nfa = PatternNFA(asked.pattern)
    sampling = streams.sampling
    bound = f"off by more than {sampling.epsilon:g} with probability {sampling.delta:g} at most, at each step"
    from perseid.engines.uncertain.worlds import worlds_for

    drawn = f"{worlds_for(sampling):,} random worlds, seed {sampling.seed}: {bound}"
    how = _HOW[kind]
    if asked.window is not None:
        how = f"exact, by a safe plan over the last {asked.window + 1} steps, at each step anew: these are kept, and time grows with their square"
    rows: list[Row] = [
        ("class", f"{kind.value} (paper 5): {asked.classified.why}"),
        ("answers", drawn if kind is QueryClass.UNSAFE or sampling.always else how),
    ]
    by = ", ".join(component.name for component in asked.unit[: asked.groups])
    rows.append(("told by", f"{by}, and step" if by else "step, for anyone"))
    if kind in (QueryClass.REGULAR, QueryClass.EXTENDED) and not sampling.always:
        above = f"sampled from that step on: {drawn}"
        if asked.unsampled(streams) is not None:
            above = "refused: from readings up to each step nothing is sampled"
        rows.append(("bound", f"a group in more than {MOST_STATES:,} states at once is {above}"))
        if not asked.is_single(streams):
            names = ", ".join(part.type for part in asked.hidden(streams))
            rows.append(
                ("hidden", f"several chains of {names} may meet in one group: carried as one, of their joint values; where "
                           "these are too many, all is sampled")
            )  # fmt: skip
    rows.append(("expected", "numbers of matches, tell=ps.expected(), are exact in every class: expectations add up"))
    if asked.pattern.returns:
        rows.append(("return", "not told: an answer is of a group and a step, not of one match"))
    if nfa.is_timed and not asked.looks_back(streams):
        rows.append(("time", "how long a partial match has lasted is part of its state"))
    return rows


def _streams(streams: Streams) -> list[Row]:
    every = "every distinct time" if streams.every is None else print_duration(streams.every)
    rows: list[Row] = [("step", every)]
    rows += [(part.type, _stream(part)) for part in streams.parts]
    if streams.prune:
        rows.append(("pruned", f"weights below {streams.prune:g}; what was left out is in error"))
    return rows


def _stream(part: Stream) -> str:
    if part.known is Known.CERTAIN:
        return "certain events"
    whose = f"of {', '.join(part.of)}, " if part.of else ""
    what = f"{whose}about {', '.join(part.about)}: "
    if part.known is Known.INDEPENDENT:
        return what + "a distribution for each step, independent of those before; what is missing is no event"
    if part.known is Known.LINKED:
        said = "a table for each step, by the value before"
        return what + (said if part.correlations else f"{said}; taken step by step")
    assert part.model is not None
    said = f"readings behind {len(part.model.values)} values, {part.inference}"
    if not part.correlations:
        said += ", each step for itself"
    silent = (
        f"; silence of up to {part.patience} steps is a reading"
        if part.patience
        else "; a step without a row begins anew"
    )
    return what + said + silent
