"""Host names and their public suffixes, by the published lists and tests."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules.hosts import is_address, normal_host, registrable_domain, reversed_name, suffixes
from pipelines.rules.urls import host_of
from tests.shared import shared


def _without_dot(host: str | None) -> str | None:
    return host[:-1] if host and host.endswith(".") and not host.endswith("..") and len(host) > 1 else host


@pytest.mark.parametrize(
    ("name", "count"), [("toascii", 87), ("IdnaTestV2", 2671), ("IdnaTestV2-removed", 20)]
)
def test_host_names_of_2778_idna_cases_are_ascii_or_refused(name, count):
    cases = json.loads(shared(f"data/whatwg-url/{name}.json").read_text("utf-8"))
    rows = [row for row in cases if isinstance(row, dict)]
    assert len(rows) == count
    for row in rows:
        assert normal_host(row["input"]) == (_without_dot(row["output"]) or None), row


def test_registrable_domains_of_78_cases_are_those_of_the_public_suffix_list():
    rows = [
        json.loads(line)
        for line in shared("data/psl/registrable-cases.jsonl").read_text("utf-8").splitlines()
    ]
    assert len(rows) == 78
    for row in rows:
        if row["host"] is None:
            continue
        host = normal_host(row["host"]) or row["host"].lower()
        assert suffixes(host).private_domain == (row["registrable"] and normal_host(row["registrable"])), row


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("Example.ORG.", "example.org"), ("example.org:8080", "example.org"), ("[2001:DB8::1]:80", "[2001:db8::1]"),
        ("2001:db8:0:0::1", "[2001:db8::1]"), ("0x7f.1", "127.0.0.1"), ("017700000001", "127.0.0.1"),
        ("BÜCHER.example", "xn--bcher-kva.example"), ("exampl%65.org", "example.org"), (" a.example ", "a.example"),
        ("", None), ("a b", None), ("a/b", None), ("u@a", None), ("[::1", None), ("1.2.3.4.5", None), ("a\ud900z", None),
    ],
)  # fmt: skip
def test_a_host_has_one_normal_form(text, host):
    assert normal_host(text) == host
    assert host is None or normal_host(host) == host


def test_private_suffixes_part_the_sites_of_a_free_hoster():
    found = suffixes("www.me.github.io")
    assert (found.registry_suffix, found.registered_domain) == ("io", "github.io")
    assert (found.private_suffix, found.private_domain) == ("github.io", "me.github.io")


@pytest.mark.parametrize("host", ["192.0.2.1", "[2001:db8::1]", "com", "localhost", "co.uk"])
def test_what_has_no_domain_is_its_own(host):
    assert registrable_domain(host) == host
    assert suffixes(host).private_domain is None or host == "localhost"


def test_addresses_are_not_reversed():
    assert reversed_name("www.a.example") == "example.a.www"
    assert reversed_name("192.0.2.1") == "192.0.2.1" and is_address("192.0.2.1")
    assert not is_address("1.example")


@given(st.text(max_size=20))
def test_any_text_is_a_host_or_none_and_never_raises(text):
    host = normal_host(text)
    assert host is None or (
        host.isascii() and host == host.lower() and host_of(f"http://{host}/") in (host, "")
    )
    if host:
        assert registrable_domain(host)
