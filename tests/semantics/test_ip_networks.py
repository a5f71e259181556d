"""``in_cidr``: addresses and networks are interpreted as by Python's ``ipaddress``."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perseid.errors import PatternSyntaxError, TypeMismatchError
from perseid.lang.parser import parse_expression
from perseid.semantics.ip_networks import InvalidNetworkError, in_cidr, read_address, read_network
from perseid.semantics.typing import infer
from tests.semantics.test_expressions import NoSchema


def _numbers(bits: int) -> st.SearchStrategy[int]:
    """Numbers with runs of zeros, among any others."""
    return st.one_of(
        st.integers(0, 2**bits - 1),
        st.builds(lambda part, shift: (part << shift) % 2**bits, st.integers(0, 2**20), st.integers(0, bits)),
    )


def addresses() -> st.SearchStrategy[str]:
    """Addresses in every spelling."""
    six = _numbers(128).map(ipaddress.IPv6Address)

    def mixed(address: ipaddress.IPv6Address) -> str:
        tail = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        return ":".join([*address.exploded.split(":")[:6], str(tail)])

    return st.one_of(
        _numbers(32).map(lambda n: str(ipaddress.IPv4Address(n))),
        six.map(str),
        six.map(lambda one: one.exploded.upper()),
        six.map(mixed),
        st.sampled_from(["::", "::1", "1::", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "::ffff:10.1.2.3", "64:ff9b::1.2.3.4", "::1.2.3.4"]),
    )  # fmt: skip


@st.composite
def damaged_addresses(draw: st.DrawFn) -> str:
    """Addresses with one character changed, inserted or removed."""
    text = draw(addresses())
    at, char = draw(st.integers(0, len(text))), draw(st.sampled_from(":.0af19 %/g٣\n"))
    return draw(
        st.sampled_from([text[:at] + char + text[at:], text[:at] + text[at + 1 :], text[:at] + char + text[at + 1 :]])
    )


@settings(max_examples=2000)
@given(st.one_of(addresses(), damaged_addresses(), st.text(":.0123af%", max_size=20)))
def test_addresses_are_those_of_ipaddress(text: str) -> None:
    try:
        wanted = ipaddress.ip_address(text)
    except ValueError:
        assert read_address(text) is None
        return
    # A zone names an interface of one host.
    assert read_address(text) == (None if "%" in text else (wanted.version, int(wanted)))


@settings(max_examples=1000)
@given(addresses(), addresses(), st.integers(0, 128), st.integers(0, 128))
def test_membership_is_that_of_ipaddress(address: str, of: str, length: int, shift: int) -> None:
    base = ipaddress.ip_address(of)
    network = ipaddress.ip_network((base, min(length, base.max_prefixlen)), strict=False)
    # Most addresses are far away: one nearby differs in a few bits.
    near = ipaddress.ip_address(of).__class__(int(base) ^ (1 << shift % base.max_prefixlen))
    for text in (address, of, str(near), str(network[0]), str(network[-1])):
        assert in_cidr(text, str(network)) is (ipaddress.ip_address(text) in network), (text, network)
        assert in_cidr(text, "255.255.255.255", str(network)) is (
            text == "255.255.255.255" or ipaddress.ip_address(text) in network
        )


@pytest.mark.parametrize(
    ("address", "networks", "wanted"),
    [
        ("10.1.2.3", ["10.0.0.0/8"], True), ("11.1.2.3", ["10.0.0.0/8"], False), ("192.168.7.1", ["10.0.0.0/8", "192.168.0.0/16"], True), ("10.0.0.1", ["10.0.0.1"], True),
        ("2001:db8::7", ["2001:db8::/32"], True), ("2001:DB8:0::7", ["2001:db8::/32"], True), ("::1", ["0.0.0.0/0"], False), ("1.2.3.4", ["::/0"], False),
        ("::ffff:10.1.2.3", ["10.0.0.0/8"], False), ("::ffff:10.1.2.3", ["::ffff:10.0.0.0/104"], True), ("10.1.2", ["10.0.0.0/8"], None), ("010.1.2.3", ["10.0.0.0/8"], None),
        (" 10.1.2.3", ["10.0.0.0/8"], None), ("fe80::1%eth0", ["fe80::/10"], None), ("", ["10.0.0.0/8"], None), (None, ["10.0.0.0/8"], None), (7, ["10.0.0.0/8"], None),
        ("10.1.2.3", ["ten"], None), ("10.1.2.3", [5], None), ("10.1.2.3", ["0.0.0.0/0"], True),
    ],
)  # fmt: skip
def test_in_cidr(address: object, networks: list[object], wanted: bool | None) -> None:
    assert in_cidr(address, *networks) is wanted  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("network", "correction"),
    [
        ("10.1.2.3/8", "10.0.0.0/8"), ("2001:db8::1/32", "2001:db8::/32"), ("10.0.0.0/33", None), ("::/129", None), ("10.0.0.0/", None), ("10.0.0.0/08", None),
        ("10.0.0.0/255.0.0.0", None), ("10.0.0.0/8/8", None), ("ten", None), ("", None), ("/8", None), ("10.0.0.0 /8", None), ("10.0.0.0/-1", None),
    ],
)  # fmt: skip
def test_invalid_networks(network: str, correction: str | None) -> None:
    with pytest.raises(InvalidNetworkError) as caught:
        read_network(network)
    assert caught.value.correction == correction


@pytest.mark.parametrize(
    ("text", "kind", "start", "end"),
    [
        ("in_cidr(x, '10.1.0.0/8')", PatternSyntaxError, 11, 23), ("in_cidr(x, '10.0.0.0/8', 'b')", PatternSyntaxError, 25, 28),
        ("in_cidr(x, y)", TypeMismatchError, 11, 12), ("in_cidr(x, null)", TypeMismatchError, 11, 15), ("in_cidr(5, '10.0.0.0/8')", TypeMismatchError, 8, 9),
    ],
)  # fmt: skip
def test_errors_point_at_the_network(text: str, kind: type[Exception], start: int, end: int) -> None:
    with pytest.raises(kind) as caught:
        infer(parse_expression(text), NoSchema())
    span = caught.value.span  # type: ignore[attr-defined]
    assert (span.start, span.end) == (start, end)
