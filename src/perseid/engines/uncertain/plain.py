"""Encode event values as plain data for states, i.e. strings, numbers and lists, and decode them."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal

from perseid.semantics import values as v


def write_value(value: v.Value) -> object:
    """Encode a value; types without a JSON equivalent become a list of a tag and the encoded value."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return ["double", value.hex()]
        case bytes():
            return ["bytes", value.hex()]
        case v.SizedDecimal():
            return ["decimal", str(value), value.precision]
        case datetime():
            return ["moment", v.microseconds(value - v.EPOCH)]
        case date():
            return ["day", value.toordinal()]
        case timedelta():
            return ["duration", v.microseconds(value)]
        case list():
            return ["list", [write_value(one) for one in value]]
        case dict():
            return ["map", [[write_value(key), write_value(one)] for key, one in value.items()]]
    raise TypeError(type(value).__name__)


def read_value(written: object, depth: int = 0) -> v.Value:
    """Decode a value; raise ValueError, or an error of the type's constructor, if it is malformed."""
    if depth > v.MAX_NESTING:
        raise ValueError("too deep")
    if not isinstance(written, list):
        if isinstance(written, float | dict):
            raise ValueError("a value")
        return v.scalar(written)
    kind, given, *rest = written
    match kind:
        case "double":
            return float.fromhex(given)
        case "bytes":
            return bytes.fromhex(given)
        case "decimal":
            (precision,) = rest
            if type(precision) is not int or not 0 < precision <= 38 or len(given) > 100:
                raise ValueError("a decimal")
            return v.SizedDecimal(Decimal(given), precision)
        case "moment":
            return v.moment(given)
        case "day":
            return date.fromordinal(given)
        case "duration":
            return v.duration(given)
        case "list":
            return [read_value(one, depth + 1) for one in given]
        case "map":
            return {read_value(key, depth + 1): read_value(one, depth + 1) for key, one in given}
    raise ValueError("a value")
