"""The syntax trees of a pattern set: resolved, compiled, and lowered to the events of a stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from perseid.api.arguments import require_event_steps
from perseid.compile.compiler import compile_set
from perseid.compile.plan import Plan
from perseid.engines.sequence.stream import Events
from perseid.engines.sequence.stream_keys import key_paths
from perseid.errors import PatternError
from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.semantics.binding import bind
from perseid.semantics.check import check
from perseid.semantics.core import CorePattern
from perseid.semantics.detection import feeds
from perseid.semantics.resolve import resolve

T = TypeVar("T")


@dataclass(frozen=True)
class PatternSources:
    """Patterns, the other patterns of their file that may feed them, and the text that errors point into."""

    patterns: tuple[ast.PatternDefinition, ...]
    producers: tuple[ast.PatternDefinition, ...] = ()
    text: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(pattern.name for pattern in self.patterns)

    @property
    def all_patterns(self) -> tuple[ast.PatternDefinition, ...]:
        """The patterns, then their producers."""
        return (*self.patterns, *self.producers)

    @property
    def tree(self) -> ast.PatternFile:
        return ast.PatternFile(self.patterns)

    def resolve(self, key: tuple[tuple[str, ...], ...] = ()) -> list[CorePattern]:
        """The core forms of the patterns and their producers; ``key`` partitions patterns without ``partition by``."""
        keyed = ast.PatternFile(tuple(_keyed(pattern, key) for pattern in self.all_patterns))
        by_name = {pattern.name: pattern for pattern in keyed.patterns}
        checked = {core.name: core for core in check(keyed)}
        cores: dict[str, CorePattern] = {}
        pending = list(self.names)
        while pending:
            name = pending.pop(0)
            if name not in cores:
                # A check takes defaults as they are; values are converted when they are bound.
                cores[name] = resolve(bind(by_name[name])) if by_name[name].parameters else checked[name]
                pending.extend(feeds(cores[name], by_name))
        return list(cores.values())

    def compile(self, stream: Events | None = None) -> Plan:
        """The plan over a stream of events; the key of the stream partitions patterns without ``partition by``."""
        paths = () if stream is None else key_paths(stream)
        cores = self.locate(lambda: self.resolve(paths))
        if stream is not None:
            require_event_steps(cores)
        return self.locate(lambda: compile_set(cores))

    def lowered(self, lowered_patterns: tuple[ast.PatternDefinition, ...]) -> PatternSources:
        """The same with other trees for the patterns and their producers, in the same order."""
        count = len(self.patterns)
        return replace(self, patterns=lowered_patterns[:count], producers=lowered_patterns[count:])

    def feeding(self) -> list[ast.PatternDefinition]:
        """The producers with matches that a pattern of the set consumes, or a pattern that feeds it."""
        available = {pattern.name: pattern for pattern in self.producers}
        producers: list[ast.PatternDefinition] = []
        pending = list(self.patterns)
        while pending:
            kinds = [step.kind for step in ast.steps(pending.pop().match)]
            names = {kind.name for kind in kinds if isinstance(kind, ast.EventType)}
            fresh = [available.pop(name) for name in sorted(names & available.keys())]
            producers += fresh
            pending += fresh
        return producers

    def locate(self, run: Callable[[], T]) -> T:
        """Run a function, and attach the text of the patterns to its errors."""
        try:
            return run()
        except PatternError as error:
            if self.text is not None:
                error.locate(self.text)
            raise


def _keyed(pattern: ast.PatternDefinition, key: tuple[tuple[str, ...], ...]) -> ast.PatternDefinition:
    return pattern if pattern.partition_by else replace(pattern, partition_by=tuple(ex.Ref(path) for path in key))
