"""Hosts are drawn from the seed alone, every kind of the mix is there, and most are small."""

from __future__ import annotations

import ipaddress

import pytest

from pipelines.toyweb import MIXES, Kind, Mix, ToyWeb
from pipelines.toyweb.hosts import Robots


@pytest.mark.parametrize("name", MIXES)
def test_the_same_seed_gives_the_same_hosts_and_another_seed_others(name):
    mix = MIXES[name]()
    assert ToyWeb(40, 1, mix).hosts == ToyWeb(40, 1, mix).hosts
    assert ToyWeb(40, 1, mix).hosts != ToyWeb(40, 2, mix).hosts


def test_the_demo_has_forty_hosts_of_every_kind_and_about_1200_pages():
    hosts = ToyWeb().hosts
    assert len(hosts) == 40
    assert {host.kind for host in hosts} == set(Kind)
    assert 900 < sum(host.size for host in hosts) < 1_400
    assert sum(host.size <= 40 for host in hosts) >= 30


def test_the_full_mix_has_every_robots_txt_in_two_hundred_hosts():
    assert {host.robots for host in ToyWeb(200, 3, Mix.full()).hosts} == set(Robots)


def test_the_plain_mix_has_only_hosts_that_answer_at_once():
    web = ToyWeb(40, 1, Mix.plain())
    assert all(host.open for host in web.hosts)
    assert all(known.outcome is not None for known in web.urls(80))


@pytest.mark.parametrize("hosts", [1, 2, 3, 7, 39, 41, 1_000])
def test_any_number_of_hosts_makes_a_web_that_begins_with_an_open_host(hosts):
    web = ToyWeb(hosts, 5)
    assert len(web.hosts) == len({host.name for host in web.hosts}) == hosts
    assert web.hosts[0].open
    assert web.seeds(80)


def test_no_hosts_is_refused():
    with pytest.raises(ValueError, match="at least one host"):
        ToyWeb(0)


def test_all_addresses_are_loopback_and_some_are_shared():
    web = ToyWeb(1_000, 1, Mix.plain())
    addresses = [ipaddress.ip_address(host.address) for host in web.hosts]
    assert all(address in ipaddress.ip_network("127.20.0.0/15") for address in addresses)
    assert 50 < len(addresses) - len(set(addresses)) < 150


def test_nobody_listens_for_deaf_and_nameless_hosts():
    web = ToyWeb()
    silent = [host for host in web.hosts if host.kind in (Kind.DEAF, Kind.NOWHERE)]
    assert len(silent) == 2
    assert not {host.address for host in silent if host.kind is Kind.DEAF} & set(web.addresses())
    assert [host.name in web.names() for host in silent] == [host.kind is Kind.DEAF for host in silent]


def test_a_flood_host_answers_for_its_subdomains_and_no_other_does():
    web = ToyWeb()
    flood = next(host for host in web.hosts if host.kind is Kind.FLOOD)
    assert web.host(f"a.b.{flood.name}") is flood
    assert web.names()[f"*.{flood.name}"] == flood.address
    assert web.host(f"a.{web.hosts[0].name}") is None
    assert web.host("elsewhere.example") is None
