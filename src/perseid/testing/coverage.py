"""Coverage of rules: the steps and conditions that cases reach in the reference implementation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from perseid.lang.expressions import Expr
from perseid.lang.printer import print_expr, print_kind
from perseid.reference.oracle import Judge, oracle_matcher
from perseid.reference.paths import Option, Path
from perseid.semantics import core as c
from perseid.semantics import values as v
from perseid.semantics.contexts import contextual_matches
from perseid.semantics.detection import Matcher, Partition
from perseid.semantics.events import Event

Place = tuple[str, int, int]
"""A condition: its kind, the number of its step (-1 for the whole pattern), and its own number."""


@dataclass
class Reached:
    """Coverage of one rule."""

    steps: dict[int, str]
    conditions: dict[Place, str]
    cases: int = 0
    matched_steps: set[int] = field(default_factory=set)
    condition_results: dict[Place, set[bool]] = field(default_factory=dict)

    def unreached(self) -> list[str]:
        """A sentence for each step and condition that no case reached."""
        if not self.cases:
            return ["no case uses it"]
        sentences = [
            f"no event violated '{label}'" if label.startswith("not ") else f"no event matched {label}"
            for step, label in self.steps.items()
            if step not in self.matched_steps
        ]
        for place, text in self.conditions.items():
            results = self.condition_results.get(place, set())
            if not results:
                sentences.append(f"{text} was never evaluated")
            elif len(results) == 1:
                sentences.append(f"{text} was {'always' if True in results else 'never'} true")
        return sentences


class Coverage:
    """Coverage of rules by cases; its matcher returns the matches of the reference implementation."""

    def __init__(self, rules: Iterable[str]) -> None:
        self.rules: dict[str, Reached] = {name: Reached({}, {}) for name in rules}

    def matcher(self) -> Matcher:
        """The matcher of the reference implementation, which also records coverage."""
        plain = oracle_matcher()

        def run(
            pattern: c.CorePattern,
            events: Sequence[Event],
            *,
            horizon: int | None,
            strictly_later: bool,
            relations: Mapping[str, v.Relation],
        ) -> Partition:
            if pattern.name in self.rules:
                later = strictly_later if pattern.strictly_later is None else pattern.strictly_later
                visible = [event for event in events if horizon is None or event.time <= horizon]
                self._follow(_Watched(pattern, visible, horizon, later, relations), horizon)
            return plain(pattern, events, horizon=horizon, strictly_later=strictly_later, relations=relations)

        return run

    def start_case(self, name: str, pattern: c.CorePattern) -> None:
        """Record that a case evaluates a rule with these steps and conditions."""
        if name in self.rules:
            reached = self.rules[name]
            reached.cases += 1
            reached.steps = {step.id: _label(step) for step in pattern.steps}
            for place, expr in _conditions(pattern).items():
                reached.conditions.setdefault(place, print_expr(expr))

    def _follow(self, bench: _Watched, horizon: int | None) -> None:
        if bench.pattern.context is not None:
            contextual_matches(bench, horizon)
        else:
            for start in range(len(bench.events)):
                for _ in bench.attempt(start):
                    pass
        reached = self.rules[bench.pattern.name]
        reached.matched_steps |= bench.matched_steps
        for place, results in bench.condition_results.items():
            reached.condition_results.setdefault(place, set()).update(results)


class _Watched(Judge):
    def __init__(
        self, pattern: c.CorePattern, events: Sequence[Event], horizon: int | None, later: bool,
        relations: Mapping[str, v.Relation],
    ) -> None:  # fmt: skip
        super().__init__(pattern, events, horizon, later, relations)
        self.matched_steps: set[int] = set()
        self.condition_results: dict[Place, set[bool]] = {}
        self._places = {id(expr): place for place, expr in _conditions(pattern).items()}

    def extend(self, option: Option, position: int) -> Path | None:
        path = super().extend(option, position)
        if path is not None:
            self.matched_steps.add(option.step)
        return path

    def holds(self, expr: Expr, path: Path, event: Event | None = None) -> bool:
        result = super().holds(expr, path, event)
        if id(expr) in self._places:
            self.condition_results.setdefault(self._places[id(expr)], set()).add(result)
        return result


def _conditions(pattern: c.CorePattern) -> dict[Place, Expr]:
    found: dict[Place, Expr] = {}
    for step in pattern.steps:
        found |= {("choose", step.id, number): one.expr for number, one in enumerate(step.choose)}
        found |= {("must", step.id, number): one for number, one in enumerate(step.must)}
    return found | {("guard", -1, number): one for number, one in enumerate(pattern.guards)}


def _label(step: c.CoreStep) -> str:
    kind = print_kind(step.kind)
    return f"not {kind}" if step.negated else f"{step.name}: {kind}" if step.name else kind
