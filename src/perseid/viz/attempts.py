"""Traced runs of a pattern, and the diagnosis of their endings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from perseid.lang.tree_types import describe_kind
from perseid.reference import threads as th
from perseid.semantics import core as c
from perseid.semantics.events import Event

Reason = Literal[
    "matched", "condition", "must", "absence", "window", "count", "strict order", "until", "at the end",
    "no event", "too early", "skipped", "used", "replaced", "not traced",
]  # fmt: skip
Cause = Literal["must", "window", "count", "strict", "until", "absence", "end", "refused", "unused", "replaced"]


@dataclass(frozen=True, slots=True)
class TracedRun:
    """The run from one candidate start: its progress, and the reason why it ended."""

    key: Mapping[str, object]
    start: Event
    bound: tuple[tuple[str, Event], ...]
    """The bound steps, by name, with their events, in order."""
    waited_for: str | None
    """The step that it was waiting for; None if it matched, or was rejected at the end."""
    reason: Reason
    why: str
    """The reason in a few words, the same for runs that ended alike."""
    details: tuple[str, ...]
    """Sentences about the ending, with the events and values involved."""
    steps: int
    """Number of distinct steps that it bound."""

    @property
    def matched(self) -> bool:
        return self.reason == "matched"


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a thread, or of one of its options."""

    thread: th.Thread
    wait: th.Wait | None
    cause: Cause
    position: int | None = None
    closing: int | None = None
    watch: int | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why an event was not taken: a short text, and one with the values."""

    why: str
    details: str
    passed: int
    """Number of conditions that held, to find the candidate nearest to a match."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The diagnosis of an ended run."""

    reason: Reason
    why: str
    details: tuple[str, ...] = ()
    step: int | None = None
    """The step that the run was waiting for."""


def step_name(step: c.CoreStep) -> str:
    return step.name or f"step {step.id + 1}"


def step_label(step: c.CoreStep) -> str:
    return f"{step_name(step)}: {describe_kind(step.kind)}"
