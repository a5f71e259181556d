"""IP addresses and networks of ``in_cidr``: IPv4 in dotted decimals, IPv6 as in RFC 4291."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from perseid.semantics.values import Value

BITS = {4: 32, 6: 128}
_LONGEST = 45
"""Characters of the longest address: an IPv6 address that ends in an IPv4 address."""
_OCTET = re.compile(r"(?:0|[1-9][0-9]{0,2})")
_HEXTET = re.compile(r"[0-9A-Fa-f]{1,4}")
_PREFIX = re.compile(r"(?:0|[1-9][0-9]{0,2})")


@dataclass(frozen=True, slots=True)
class IpNetwork:
    """The addresses of one version from ``first`` to ``last``, as numbers."""

    version: int
    first: int
    last: int


class InvalidNetworkError(ValueError):
    """The text is not a network; ``correction`` is the network that it probably means."""

    def __init__(self, message: str, correction: str | None = None) -> None:
        super().__init__(message)
        self.correction = correction


def read_address(text: str) -> tuple[int, int] | None:
    """The version and the number of an address; None for any other text, such as one with a zone or a space."""
    if len(text) > _LONGEST:
        return None
    if ":" not in text:
        number = _read_four(text)
        return None if number is None else (4, number)
    number = _read_six(text)
    return None if number is None else (6, number)


def _read_four(text: str) -> int | None:
    parts = text.split(".")
    if len(parts) != 4 or not all(_OCTET.fullmatch(part) and int(part) < 256 for part in parts):
        return None
    return int.from_bytes(bytes(map(int, parts)), "big")


def _read_six(text: str) -> int | None:
    head, gap, tail = text.partition("::")
    left, right = _hextets(head, not gap), _hextets(tail, True)
    if left is None or right is None:
        return None
    missing = 8 - len(left) - len(right)
    # ``::`` replaces at least one group.
    if missing < 1 if gap else missing != 0:
        return None
    return int.from_bytes(b"".join(n.to_bytes(2, "big") for n in [*left, *[0] * missing, *right]), "big")


def _hextets(text: str, is_end: bool) -> list[int] | None:
    """The groups of 16 bits; at the end of an address, the last two may be an IPv4 address."""
    if not text:
        return []
    parts = text.split(":")
    found: list[int] = []
    if is_end and "." in parts[-1]:
        four = _read_four(parts.pop())
        if four is None:
            return None
        found = [four >> 16, four & 0xFFFF]
    if not all(map(_HEXTET.fullmatch, parts)):
        return None
    return [*(int(part, 16) for part in parts), *found]


@lru_cache(maxsize=4096)
def read_network(text: str) -> IpNetwork:
    """The network of ``address/prefix length``, or of one address; raises InvalidNetworkError."""
    written, slash, length = text.partition("/")
    address = read_address(written)
    if address is None:
        raise InvalidNetworkError(f"Invalid network {text!r}: {written!r} is not an IP address.")
    version, number = address
    bits = BITS[version]
    if slash and (not _PREFIX.fullmatch(length) or int(length) > bits):
        raise InvalidNetworkError(
            f"Invalid network {text!r}: the prefix length of IPv{version} is a number from 0 to {bits}."
        )
    free = bits - int(length) if slash else 0
    first = number >> free << free
    if first != number:
        raise InvalidNetworkError(
            f"Invalid network {text!r}: the address has bits behind the prefix.",
            f"{write_address(version, first)}/{length}",
        )
    return IpNetwork(version, first, first + (1 << free) - 1)


def write_address(version: int, number: int) -> str:
    import ipaddress

    return str(ipaddress.IPv4Address(number) if version == 4 else ipaddress.IPv6Address(number))


def in_cidr(address: Value, *networks: Value) -> bool | None:
    """Return True if an address is in one of the networks; null for a text that is no address."""
    if not isinstance(address, str):
        return None
    found = read_address(address)
    if found is None:
        return None
    version, number = found
    is_inside = False
    for text in networks:
        if not isinstance(text, str):
            return None
        try:
            network = read_network(text)
        except InvalidNetworkError:
            return None
        is_inside = is_inside or (network.version == version and network.first <= number <= network.last)
    return is_inside
