"""Attempts, and what is said of how they ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from perseid.lang.printer import print_kind
from perseid.reference import threads as th
from perseid.semantics import core as c
from perseid.semantics.events import Event

Reason = Literal[
    "matched", "condition", "must", "absence", "window", "count", "strict order", "until", "at the end",
    "no event", "too early", "skipped", "used", "replaced", "not followed",
]  # fmt: skip
Cause = Literal["must", "window", "count", "strict", "until", "absence", "end", "refused", "unused", "replaced"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start, how far it came and why no further."""

    key: Mapping[str, object]
    start: Event
    bound: tuple[tuple[str, Event], ...]
    """The steps it found events for, by their names, in order."""
    waited_for: str | None
    """The step it waited for in vain; None where it matched, or where the end refused it."""
    reason: Reason
    why: str
    """The reason in a few words, the same for attempts that ended alike."""
    details: tuple[str, ...]
    """What happened, with the events and values it happened to."""
    steps: int
    """How many different steps it bound."""

    @property
    def matched(self) -> bool:
        return self.reason == "matched"


@dataclass(frozen=True, slots=True)
class Ending:
    """Where a thread, or one of its options, came to its end."""

    thread: th.Thread
    wait: th.Wait | None
    cause: Cause
    position: int | None = None
    closing: int | None = None
    watch: int | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an event was not taken: in short, and with the values that were seen."""

    why: str
    details: str
    passed: int
    """How many conditions held, to find the candidate that came nearest."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an attempt ended with."""

    reason: Reason
    why: str
    details: tuple[str, ...] = ()
    step: int | None = None
    """The step that was waited for."""


def step_name(step: c.CoreStep) -> str:
    return step.name or f"step {step.id + 1}"


def step_label(step: c.CoreStep) -> str:
    return f"{step_name(step)}: {print_kind(step.kind)}"
