"""``in_cidr`` of IPv4 networks: the address as a number, computed from its four parts."""

from __future__ import annotations

from collections.abc import Sequence

from perseid.lang.expressions import Expr, Literal
from perseid.semantics.ip_networks import BITS, InvalidNetworkError, IpNetwork, read_network
from perseid.spark.sql.literals import constant
from perseid.spark.sql.pieces import InexpressibleError, Names

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_FOUR = rf"(?:{_OCTET}\.){{3}}{_OCTET}"
_HEXTET = "[0-9A-Fa-f]{1,4}"
_LONGEST = 45


def _forms_of_six() -> list[str]:
    """The forms of an IPv6 address: of eight groups, and with a gap after the first groups."""
    forms = [f"(?:{_HEXTET}:){{7}}{_HEXTET}", f"(?:{_HEXTET}:){{6}}{_FOUR}"]
    for before in range(8):
        head = f"(?:{_HEXTET}:){{{before - 1}}}{_HEXTET}::" if before else "::"
        most = 7 - before
        tails = [f"(?:{_HEXTET}(?::{_HEXTET}){{0,{most - 1}}})?"] if most else []
        tails += [f"(?:{_HEXTET}:){{0,{most - 2}}}{_FOUR}"] if most >= 2 else []
        forms.append(f"{head}(?:{'|'.join(tails)})")
    return forms


# Java's $ also matches before a line break at the end.
_IS_FOUR = constant(rf"\A{_FOUR}\z")
_IS_SIX = constant(rf"\A(?:{'|'.join(_forms_of_six())})\z")


def in_cidr(names: Names, address: str, networks: Sequence[Expr]) -> str:
    """Return SQL that is true if an address is in one of the networks; only Python computes with IPv6 addresses, which have 128 bits."""
    parsed_networks = [_network(one) for one in networks]

    def test(text: str) -> str:
        # The length bounds the time of Java's matching, which backtracks.
        is_six = f"length({text}) <= {_LONGEST} and {text} rlike {_IS_SIX}"
        return f"case when {text} rlike {_IS_FOUR} then {_is_inside(names, text, parsed_networks)} when {is_six} then false end"

    return names.shared_text(address, test)


def _network(written: Expr) -> IpNetwork:
    if not isinstance(written, Literal) or not isinstance(written.value, str):
        raise InexpressibleError
    try:
        found = read_network(written.value)
    except InvalidNetworkError:
        raise InexpressibleError from None
    if found.version != 4:
        raise InexpressibleError
    return found


def _is_inside(names: Names, text: str, networks: Sequence[IpNetwork]) -> str:
    parts = (f"try_cast(split_part({text}, '.', {i + 1}) as bigint) * {256 ** (3 - i)}L" for i in range(4))
    number = f"({' + '.join(parts)})"
    if len(networks) == 1:
        return _has(networks[0], number)
    return names.shared_text(number, lambda x: f"({' or '.join(_has(one, x) for one in networks)})")


def _has(network: IpNetwork, number: str) -> str:
    free = (network.last - network.first).bit_length()
    return "true" if free == BITS[4] else f"(shiftright({number}, {free}) = {network.first >> free}L)"
