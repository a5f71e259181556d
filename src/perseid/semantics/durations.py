"""Durations and times in arguments."""

from __future__ import annotations

import datetime as dt

from perseid.errors import EventDataError
from perseid.lang.parser import parse_duration
from perseid.semantics.values import EPOCH, MICROSECOND


def micros_of(duration: object, parameter: str) -> int | None:
    """Parse a duration to microseconds; None for None."""
    if duration is None:
        return None
    if isinstance(duration, dt.timedelta):
        return duration // MICROSECOND
    micros = parse_duration(str(duration))
    if not isinstance(micros, int):
        raise EventDataError(f"{parameter}={duration!r}: expected a duration, such as '1 second'.")
    return micros


def microseconds(moment: dt.datetime, what: str) -> int:
    """A time in microseconds since 1970 UTC; without a time zone it is in UTC."""
    if not isinstance(moment, dt.datetime):
        raise EventDataError(f"{what}: expected a datetime, got {type(moment).__name__}.")
    aware = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return (aware - EPOCH) // MICROSECOND
