"""Options of a stream that change its cost and its limits, and no match."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from perseid.errors import EventDataError
from perseid.runtime.search_budget import MAX_LIMIT, MAX_MATCHES, MAX_STEPS
from perseid.semantics.durations import micros_of

MAX_SHARDS = 4_096
MIN_STATE_BYTES = 1 << 16
MIN_IDLE_US = 1_000_000


def _require_number(name: str, number: object, least: int, most: int | None = None) -> None:
    is_number = isinstance(number, int) and not isinstance(number, bool)
    if not is_number or number < least or (most is not None and number > most):  # type: ignore[operator]
        expected = f"at least {least:,}" if most is None else f"from {least:,} to {most:,}"
        raise EventDataError(f"{name}={number!r}: expected a number {expected}.")


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """Options of a declared stream: ``ps.events(df, options=ps.StreamOptions(shards=64))``."""

    idle: str | dt.timedelta | None = None
    """Idle timeout, as in ``"1 minute"``: after the source is idle for this long, time advances by the clock."""
    shards: int = 16
    """Number of states of a streaming query; keys are spread over them."""
    max_state: int = 1 << 28
    """Limit of the state of one shard, in bytes."""
    max_steps: int = MAX_STEPS
    """Search steps of a pattern for one key in one call, in addition to 2,500 for each event of the key."""
    max_matches: int = MAX_MATCHES
    """Matches of a pattern for one key in one call, in addition to 10 for each event of the key."""

    def __post_init__(self) -> None:
        _require_number("shards", self.shards, 1, MAX_SHARDS)
        _require_number("max_state", self.max_state, MIN_STATE_BYTES)
        _require_number("max_steps", self.max_steps, 1, MAX_LIMIT)
        _require_number("max_matches", self.max_matches, 1, MAX_LIMIT)
        idle = self.idle_us
        if idle is not None and idle < MIN_IDLE_US:
            raise EventDataError(f"idle={self.idle!r}: expected a duration of at least 1 second, such as '1 minute'.")

    @property
    def idle_us(self) -> int | None:
        """The idle timeout in microseconds."""
        return micros_of(self.idle, "idle")


DEFAULT_OPTIONS = StreamOptions()


def require_options(options: object) -> StreamOptions:
    """Return the options of a stream; raise an error for any other object."""
    if options is None:
        return DEFAULT_OPTIONS
    if not isinstance(options, StreamOptions):
        raise EventDataError(
            f"options= expected StreamOptions, got {type(options).__name__}.",
            hint="Use options=ps.StreamOptions(shards=64).",
        )
    return options
