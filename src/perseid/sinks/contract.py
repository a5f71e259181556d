"""What every sink is: words of a job, a guarantee, and one function that writes a batch.

A batch may come again, with the same number and the same rows: after a crash, or where a sink failed half-way. What a
sink makes of that is its guarantee.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

from perseid.settings import Settings


@dataclass(frozen=True)
class Batch:
    """One micro-batch of answers, as every sink is given it."""

    job: str
    """The identity of the job's checkpoint: another checkpoint is another job, whatever its name."""
    number: int
    """The batch's number in this checkpoint, from 0."""
    attempt: str
    """Differs whenever a batch is tried again."""
    rows: Any
    """The DataFrame. Kept, so that reading it again does not search again; a sink that goes ``along`` reads it once."""
    stopping: threading.Event = field(default_factory=threading.Event, compare=False)
    """Set when the job is stopped. A sink that waits between attempts waits on it."""


class Sink(Settings):
    """Where answers are written."""

    guarantee: ClassVar[str]
    """What a reader may rely on when batches come again, as a sentence."""

    @abstractmethod
    def told(self) -> str:
        """Where it writes, in a few words and without secrets."""

    def prepare(self, session: Any, schema: Any, job: str) -> None:
        """Refuse what cannot be written before anything runs: a missing table, a wrong address, columns it cannot take.

        ``schema`` is that of the rows to come, and ``job`` that of the batches: what a crash of this job left is put right,
        and nothing that another is about. Called at every start and after every change of rules, never beside a write.
        """

    def along(self, session: Any) -> bool:
        """Whether it may be written while the batch is searched: its readers expect rows to come more than once, and Spark observes what it is given."""
        return False

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Write a batch; when this returns, it is written."""

    def close(self) -> None:
        """Let go of connections."""
