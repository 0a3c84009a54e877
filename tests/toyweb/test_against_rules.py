"""The truth is made without parsing; the crawler's own rules, which parse, must come to the same result."""

from __future__ import annotations

import pytest

from pipelines.config import load
from pipelines.net.bodies import decode
from pipelines.rules.addresses import AddressPolicy, refusal
from pipelines.rules.pages import PagePolicy, read_page
from pipelines.rules.robots import Rules
from pipelines.rules.sitemaps import SitemapPolicy, stream
from pipelines.rules.urls import host_of
from pipelines.toyweb import Kind, Mix, ToyWeb, conf
from pipelines.toyweb.answer import Answer, origin
from pipelines.toyweb.hosts import Robots
from pipelines.toyweb.schedule import BORN_MS

PORT = 8081
NOW = BORN_MS + 500 * 86_400_000
READ = (
    Robots.ALLOW,
    Robots.PARTS,
    Robots.DELAY,
    Robots.DENY,
    Robots.GROUPS,
    Robots.SLOW,
    Robots.HTML,
    Robots.HUGE,
    Robots.DIRTY,
)


def decoded(made: Answer) -> bytes:
    return decode(made.body, dict(made.headers).get("Content-Encoding"), limit=10**8).data


@pytest.mark.parametrize("product", ["noria", "another"])
def test_the_robots_rules_come_to_the_verdicts_of_the_truth(product):
    web = ToyWeb()
    for host in web.hosts:
        if host.robots not in READ:
            continue
        rules = Rules.parse(web.payload(origin(host.name, PORT) + "/robots.txt", NOW))
        for target in web.targets(host):
            url = origin(host.name, PORT) + target
            if target != "/robots.txt":
                known = web.known(url, product=product)
                assert rules.allows(url, product).allowed is known.allowed, (host.robots, url)
        assert (rules.crawl_delay_ms(product) or 0) == web.crawl_delay_ms(host.name)


def test_the_page_reader_finds_the_links_of_the_truth():
    web, policy = ToyWeb(40, 1, Mix.full()), PagePolicy(product="noria", max_links=100_000)
    pages = [known for known in web.urls(PORT) if known.sort in ("page", "trap") and known.outcome == "ok"]
    for known in pages:
        made = web.answer(f"{known.host}:{PORT}", known.target, now_ms=NOW)
        if made.repeat != 1 or known.target == "/huge/bomb":
            continue
        headers = dict(made.headers)
        page = read_page(
            decoded(made), url=known.url, content_type=headers.get("Content-Type"), link_header=headers.get("Link"),
            policy=policy,
        )  # fmt: skip
        links = {link.url for link in page.links}
        if "nofollow" in page.robots:
            continue
        assert links == set(known.links), known.url
    assert len(pages) > 900


def test_the_page_reader_reads_every_charset_that_a_host_declares():
    web = ToyWeb(40, 1, Mix.full())
    told = set()
    for host in web.hosts:
        made = web.answer(f"{host.name}:{PORT}", "/", now_ms=NOW)
        said = dict(made.headers)["Content-Type"]
        page = read_page(
            decoded(made), url="http://a.test/", content_type=said, link_header=None, policy=PagePolicy()
        )
        if host.declared != "none":
            assert page.charset_how == host.declared.value, host
            told.add((host.charset, host.declared))
        assert page.title
        assert "\ufffd" not in page.title
    assert len(told) > 12


def test_sitemaps_name_every_page_of_their_host():
    web = ToyWeb()
    pages = {known.url for known in web.urls(PORT) if known.sort == "page"}
    for host in (host for host in web.hosts if host.sitemap != "none"):
        rules = Rules.parse(web.payload(origin(host.name, PORT) + "/robots.txt", NOW))
        waiting, listed = list(rules.sitemaps), set()
        for url in waiting:
            for entry in stream([web.payload(url, NOW)], url=url, policy=SitemapPolicy()):
                waiting += [entry.url] if entry.kind == "sitemap" else []
                listed |= {entry.url} if entry.kind == "url" else set()
        assert len(listed) == host.size
        assert listed <= pages


def test_redirects_into_private_networks_are_refused_by_the_conf_that_reaches_the_web():
    web = ToyWeb()
    policy = AddressPolicy(allow=(conf.NETWORK,))
    assert all(refusal(address, policy) is None for address in web.addresses())
    host = next(host for host in web.hosts if host.kind is Kind.PRIVATE)
    locations = [
        known.location for known in web.urls(PORT) if known.host == host.name and known.sort == "redirect"
    ]
    assert len(locations) == 7
    assert all(refusal(host_of(location).strip("[]"), policy) for location in locations)


def test_the_conf_is_accepted_and_names_every_host_that_resolves(tmp_path):
    web = ToyWeb()
    conf.write_conf(tmp_path / "toy.toml", web)
    settings = load([tmp_path / "toy.toml"], environ={}, overrides={})
    assert set(settings.dns.static) == set(web.names())
    assert settings.identity.contact == conf.CONTACT
