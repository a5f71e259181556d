"""Plan and status of a job, and the types that its parts share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from perseid.errors import PerseidError
from perseid.jobs.backfill import Backfill
from perseid.jobs.batch_log import BatchLog
from perseid.jobs.limits import Caps
from perseid.jobs.metrics import JobMetrics
from perseid.jobs.rules import RejectedText, RuleTexts, TextSource
from perseid.sinks.contract import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class JobError(PerseidError):
    """A job cannot continue because a sink, a source or Spark failed."""

    code = "job"


class StoppedError(PerseidError):
    """A limit of the job file stopped the job."""

    code = "job-stopped"


@dataclass(frozen=True)
class RuleOutput:
    """Output DataFrame of a set of rules, with the version of each pattern."""

    frame: DataFrame
    versions: Mapping[str, str]
    keys: Sequence[str] = ()
    """Key columns of the output; limits per key group by them."""
    excluded: Mapping[str, str] = field(default_factory=dict)
    """Patterns that do not run, each with the quarantined pattern that caused it."""


LoadedRules: TypeAlias = tuple[RuleTexts, RuleOutput]
"""Rule texts and their output."""


@dataclass(frozen=True)
class JobPlan:
    """Everything that a run needs; :mod:`perseid.jobs.assembly` creates it from a job file."""

    name: str
    session: SparkSession
    rules: TextSource
    build_query: Callable[[RuleTexts], RuleOutput]
    """Builds the output DataFrame of rules without running anything; raises if the rules are invalid."""
    sinks: Sequence[Sink]
    checkpoint: str
    dead_letters: Sink | None = None
    trigger: Mapping[str, Any] = field(default_factory=dict)
    """Options of ``DataStreamWriter.trigger``; without any, each batch starts when the one before ends."""
    retry_for_s: float = 0.0
    """Seconds for which the query is restarted after transient failures; every written batch starts the time again."""
    retry_wait_s: float = 1.0
    """Wait in seconds before the first restart; it doubles with each further one."""
    reloads_rules: bool = True
    """True if rules are reloaded while the job runs."""
    caps: Caps = field(default_factory=Caps)
    metrics: JobMetrics | None = None
    backfill: Backfill | None = None
    """Historical records that are read first."""
    stop_rule: Callable[[int, int], str | None] = lambda _read, _bad: None
    """Called after every batch with the rows that it read and the bad ones; returns a reason to stop, or None."""
    late_rule: Callable[[int, int], str | None] = lambda _reached, _late: None
    """Called after every batch with the rows that reached the patterns and the late ones; returns as ``stop_rule``."""
    limits: tuple[int, ...] = ()
    """Limits of searches. A quarantined pattern runs again when they change."""


@dataclass
class RunStatus:
    """Progress of a running job, published by :mod:`perseid.jobs.metrics`."""

    batches: int = 0
    last_batch: int | None = None
    changes: int = 0
    """Rule changes that were applied."""
    reload_pauses_s: list[float] = field(default_factory=list)
    """Downtime of each rule change in seconds: from the end of the old query to the first batch of the new one."""
    retries: int = 0
    rejected: dict[str, RejectedText] = field(default_factory=dict)
    """Rule texts that are currently rejected, by name."""
    quarantined: dict[str, str] = field(default_factory=dict)
    """Patterns that do not run because their search exceeded its budget, with the reason."""
    quarantines: int = 0
    """Number of quarantines in this run."""
    rules: str = ""
    """Digest of the running rules."""


@dataclass
class RunContext:
    """State that the runner shares with the handler of its batches, which runs in a thread of Spark."""

    job: JobPlan
    batch_log: BatchLog
    job_id: str = ""
    """Id of the checkpoint; batches carry it to the sinks."""
    status: RunStatus = field(default_factory=RunStatus)
    stop: threading.Event = field(default_factory=threading.Event)
    pending: LoadedRules | None = None
    """Rules that apply from the next batch on."""
    change_began_s: float | None = None
    """Time at which the old query ended for pending rules, on the monotonic clock."""
