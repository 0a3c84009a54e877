"""P9: no address that is not public is reached, unless the configuration lists it."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules.addresses import REFUSED_V4, REFUSED_V6, AddressPolicy, allowed, port_refusal, refusal

NOBODY = AddressPolicy()

PRIVATE = {
    "127.0.0.1": "loopback", "127.255.255.254": "loopback", "::1": "loopback",
    "10.1.2.3": "private", "172.16.0.1": "private", "172.31.255.255": "private", "192.168.1.1": "private",
    "169.254.169.254": "cloud metadata", "169.254.1.1": "link-local", "fe80::1": "link-local",
    "fe80::1%eth0": "link-local", "100.64.0.1": "carrier-grade NAT", "100.100.100.200": "carrier-grade NAT",
    "0.0.0.0": "this network", "0.1.2.3": "this network", "::": "unspecified",
    "fc00::1": "unique local", "fd00:ec2::254": "unique local", "fec0::1": "site-local",
    "224.0.0.1": "multicast", "ff02::1": "multicast", "240.0.0.1": "reserved", "255.255.255.255": "broadcast",
    "::ffff:10.0.0.1": "IPv4-mapped", "::ffff:8.8.8.8": "IPv4-mapped", "::10.0.0.1": "IPv4-compatible",
    "64:ff9b::a00:1": "NAT64", "64:ff9b:1::1": "local-use NAT64", "2002:a00:1::1": "6to4", "2002:7f00:1::": "6to4",
    "2001:0:a00:1::1": "Teredo", "198.18.0.1": "benchmarking", "2001:2::1": "benchmarking",
    "192.0.2.1": "documentation", "198.51.100.1": "documentation", "203.0.113.9": "documentation",
    "2001:db8::1": "documentation", "3fff::1": "documentation", "192.0.0.192": "protocol assignments",
    "168.63.129.16": "cloud metadata", "4000::1": "reserved", "5f00::1": "reserved", "1::1": "reserved",
    "100::1": "discard-only", "192.88.99.1": "6to4 relay",
}  # fmt: skip
PUBLIC = ("8.8.8.8", "93.184.216.34", "172.15.255.255", "172.32.0.0", "100.63.255.255", "100.128.0.0",
          "223.255.255.255", "2606:4700::1111", "2a00:1450:4001:81b::200e", "2001:4860:4860::8888")  # fmt: skip


@pytest.mark.parametrize(("address", "word"), PRIVATE.items())
def test_an_address_that_is_not_public_is_refused_by_name(address: str, word: str) -> None:
    reason = refusal(address, NOBODY)
    assert reason is not None and reason.startswith(word + " (")


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_reached(address: str) -> None:
    assert refusal(address, NOBODY) is None


@pytest.mark.parametrize(
    "text", ["", "localhost", "127.1", "0x7f.0.0.1", "2130706433", "1.2.3.4.5", "[::1]", "a" * 999]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    assert (refusal(text, NOBODY) or "").startswith("not an address")


@given(
    st.one_of(
        st.ip_addresses(v=4),
        st.ip_addresses(v=6),
        *(st.ip_addresses(network=text) for text, _ in (*REFUSED_V4, *REFUSED_V6)),
    )
)
def test_whatever_the_standard_library_holds_for_not_global_is_refused(
    address: ipaddress.IPv4Address,
) -> None:
    if not address.is_global or address.is_multicast or address.is_reserved:
        assert refusal(str(address), NOBODY) is not None


def test_a_listed_network_is_reached_and_its_neighbours_are_not() -> None:
    policy = AddressPolicy(("127.0.0.0/8", "fd00::/8", ipaddress.ip_network("10.0.0.7/32")))
    assert [refusal(a, policy) is None for a in ("127.9.9.9", "fd00::1", "10.0.0.7")] == [True] * 3
    assert [refusal(a, policy) is None for a in ("10.0.0.8", "fc00::1", "::1", "::ffff:127.0.0.1")] == [
        False
    ] * 4


@pytest.mark.parametrize("text", ["127.0.0.1:8081", "[127.0.0.1]:8081", "127.0.0.1/32:8081"])
def test_a_permission_may_name_one_port(text: str) -> None:
    policy = AddressPolicy((text,))
    assert refusal("127.0.0.1", policy, port=8081) is None
    assert refusal("127.0.0.1", policy, port=80) == refusal("127.0.0.1", policy) == "loopback (127.0.0.0/8)"


def test_a_permission_for_an_ipv6_port_is_read() -> None:
    assert str(allowed("[::1]:8080")) == "Allowed(network=IPv6Network('::1/128'), port=8080)"
    assert allowed("::1").port is None


@pytest.mark.parametrize(
    "text", ["localhost", "127.0.0.1:0", "127.0.0.1:70000", "127.0.0.1:x", "", "10.0.0.0/33"]
)
def test_a_permission_that_is_none_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="allow_addresses"):
        refusal("127.0.0.1", AddressPolicy((text,)))


def test_ports_of_other_protocols_are_refused_and_those_of_the_web_are_not() -> None:
    assert all(port_refusal(port) for port in (22, 25, 53, 6667, 10080))
    assert not any(port_refusal(port) for port in (None, 80, 443, 8080, 8443, 3000))


def test_p9_a_crawl_that_may_not_leave_the_machine_reaches_nothing_public() -> None:
    home = AddressPolicy(("127.0.0.0/8",), public=False)
    assert refusal("127.0.0.1", home) is None
    assert "may not leave" in (refusal("93.184.216.34", home) or "")


def test_a_permission_for_one_port_is_enough_while_the_port_is_not_known() -> None:
    policy = AddressPolicy(("127.0.0.1:8081",))
    assert refusal("127.0.0.1", policy, port=0) is None
    assert refusal("127.0.0.1", policy, port=8082) is not None
