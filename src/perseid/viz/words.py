"""Formatting of numbers, durations and values in sentences."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from datetime import datetime, timedelta

from perseid.lang.printer import print_duration, print_string
from perseid.runtime.explanation import LINE_WIDTH
from perseid.semantics import values as v


def span(micros: int) -> str:
    """Format a duration for readers: by its largest two units."""
    if micros < 1_000_000:
        return print_duration(micros)
    rounded = micros // 1_000_000 * 1_000_000
    days, rest = divmod(rounded, 86_400_000_000)
    hours, rest = divmod(rest, 3_600_000_000)
    minutes, seconds = divmod(rest, 60_000_000)
    pairs = [(days, "day"), (hours, "hour"), (minutes, "minute"), (seconds // 1_000_000, "second")]
    units = [pluralize(number, unit) for number, unit in pairs if number][:2]
    exact = rounded == micros or days or hours
    return " ".join(units) if exact else print_duration(micros) if not (minutes or hours) else " ".join(units)


def wrapped(text: str, lead: str) -> list[str]:
    return textwrap.wrap(
        text, LINE_WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead), break_long_words=True
    ) or [lead.rstrip()]


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def pluralize(number: int, one: str, more: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} = {format_value(value)}" for name, value in values.items())


def format_value(value: object) -> str:
    match value:
        case None:
            return "null"
        case str():
            return cut(print_string(value), 40)
        case datetime():
            return cut(str(value), 40)
        case timedelta() if value >= timedelta(0):
            return print_duration(value // timedelta(microseconds=1))
    text = v.text(v.plain(value))
    return cut(str(value) if text is None else text, 40)
