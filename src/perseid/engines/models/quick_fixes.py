"""User-facing repairs of a model: a short list of quick fixes, as text and as rows of changes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import overload

from perseid.engines.models.reactions import Reaction
from perseid.engines.models.repair import STRATEGIES, RepairSearchResult, search
from perseid.engines.models.stream import Models, change_row
from perseid.errors import EventDataError
from perseid.semantics.graphs import Graph
from perseid.semantics.metamodels import unknown
from perseid.semantics.model_repair import Aims, Fix
from perseid.tables.rows import require_local_rows


class QuickFix:
    """Steps that make a model valid, with their cost and their changes."""

    def __init__(self, fix: Fix, models: Models, key: tuple[object, ...]) -> None:
        self.cost = fix.cost
        self.soft = fix.soft
        """Number of matches of the soft objectives after the fix."""
        self.steps = tuple(step.description for step in fix.steps)
        """Description of each step."""
        self._fix = fix
        self._models = models
        self._key = key

    def rows(self, moment: dt.datetime) -> list[dict[str, object]]:
        """Return the changes as rows of the model's stream; once they are appended, the model is valid from then on."""
        place = {self._models.time: moment, **dict(zip(self._models.key, self._key, strict=True))}
        return [change_row(self._models, place, change) for change in self._fix.changes]

    def __repr__(self) -> str:
        return "; ".join(self.steps)


class QuickFixes(Sequence[QuickFix]):
    """Quick fixes, best first: by cost, soft objectives, then steps. Create them with :func:`perseid.graph.find_repairs`."""

    def __init__(self, found: RepairSearchResult, models: Models, key: tuple[object, ...], most: int) -> None:
        self._fixes = [QuickFix(fix, models, key) for fix in found.fixes[:most]]
        self.found = len(found.fixes)
        """Number of fixes, including those not shown."""
        self.complete = found.complete
        """True if every sequence of steps within the bounds was searched."""
        self.states = found.states
        """Number of distinct models visited."""
        self.valid = found.valid
        """True if the model was valid from the start, so that there is nothing to repair."""

    @overload
    def __getitem__(self, index: int) -> QuickFix: ...
    @overload
    def __getitem__(self, index: slice) -> list[QuickFix]: ...
    def __getitem__(self, index: int | slice) -> QuickFix | list[QuickFix]:
        return self._fixes[index]

    def __len__(self) -> int:
        return len(self._fixes)

    def __repr__(self) -> str:
        if self.valid:
            return "nothing to repair: no objective has a match"
        lines = [f"{self.found} quick fix" + ("" if self.found == 1 else "es")]
        lines += [f"{place}. {fix!r} (cost {fix.cost})" for place, fix in enumerate(self, 1)]
        if self.found > len(self):
            lines.append(f"… and {self.found - len(self)} more")
        if not self.complete:
            lines.append(f"(incomplete search of {self.states} models: other fixes may exist)")
        return "\n".join(lines)


def search_quick_fixes(
    stream: Models,
    reaction: Reaction | None,
    aims: Aims,
    key: tuple[object, ...],
    until: int | None,
    *,
    strategy: str,
    states: int,
    most: int,
) -> QuickFixes:
    """Search for quick fixes of one model of a stream, or of its state after rules ran."""
    assert stream.rules is not None
    if strategy not in STRATEGIES:
        raise EventDataError(f"Unknown strategy {strategy!r}.", hint=f"Available: {', '.join(STRATEGIES)}.")
    for name in (*aims.hard, *aims.soft, *aims.never):
        if name not in stream.queries.queries:
            raise unknown("query", name, list(stream.queries.queries))
    if not aims.hard or not stream.rules.repairs:
        what = "an objective" if not aims.hard else "a repair"
        raise EventDataError(
            f"A search for repairs needs {what}.",
            hint="Use objectives='overcommitted'. Add to the text: repair lower on overcommitted(host) do set …",
        )
    graph = _one_model(stream, reaction, key, until)
    found = search(stream.queries, stream.rules.repairs, graph, aims, strategy, states)
    return QuickFixes(found, stream, key, most)


def _one_model(stream: Models, reaction: Reaction | None, key: tuple[object, ...], until: int | None) -> Graph:
    if reaction is None:
        require_local_rows("find_repairs", stream.data)
        live = stream.live(until)
    elif until is not None:
        raise EventDataError(
            "until= is unsupported for the result of ps.graph.react: it has only the final models.",
            hint="Use ps.graph.react(…, until=…).",
        )
    else:
        live = reaction.live
    if key not in live:
        known = ", ".join(repr(one[0] if len(one) == 1 else one) for one in list(live)[:8])
        named = key[0] if len(key) == 1 else key
        raise EventDataError(f"Unknown model {named!r}.", hint=f"Use key=…. Available: {known or 'none'}.")
    return live[key].graph
