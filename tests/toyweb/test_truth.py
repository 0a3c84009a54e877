"""The truth: everything can be found from the seeds, duplicates and outcomes are as promised, traps have names."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter, deque
from dataclasses import replace

import pytest

from pipelines.rules.outcome import Outcome
from pipelines.toyweb import MIXES, Kind, Mix, ToyWeb
from pipelines.toyweb.answer import origin
from pipelines.toyweb.pages import EXTRA_PATHS
from pipelines.toyweb.robots import PRODUCT
from pipelines.toyweb.schedule import BORN_MS

PORT = 8081
DAY = 86_400_000
NOW = BORN_MS + 400 * DAY


def found_from_seeds(web: ToyWeb) -> set[str]:
    """Return every URL that an obedient crawler that falls for no trap finds."""
    waiting, found = deque(web.seeds(PORT)), set()
    while waiting:
        url = waiting.popleft()
        known = web.known(url)
        if url in found or known is None or not known.allowed or (known.trap and known.trap != "flood"):
            continue
        found.add(url)
        if known.host == url.split("/")[2].split(":")[0] and known.trap != "flood":
            waiting.append(origin(known.host, PORT) + "/robots.txt")
            waiting.extend(sitemaps_of(web, known.host))
            waiting.extend([*known.links, *([known.location] if known.location else [])])
    return found


def sitemaps_of(web: ToyWeb, name: str) -> list[str]:
    body = web.payload(origin(name, PORT) + "/robots.txt", NOW).decode(errors="replace")
    return [line.split(": ")[1].strip() for line in body.splitlines() if line.startswith("Sitemap: ")]


@pytest.mark.parametrize("name", MIXES)
@pytest.mark.parametrize("hosts", [3, 40])
def test_every_good_url_is_found_from_the_seeds(name, hosts):
    web = ToyWeb(hosts, 1, MIXES[name]())
    found = found_from_seeds(web)
    good = [known.url for known in web.urls(PORT) if known.good and known.sort != "robots"]
    assert [url for url in good if url not in found] == []


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_29_percent_of_payloads_are_stored_under_another_url(seed):
    web = ToyWeb(100, seed, Mix.plain())
    payloads = [
        web.payload(known.url, NOW) for known in web.urls(PORT) if known.good and known.sort == "page"
    ]
    assert abs(1 - len(set(payloads)) / len(payloads) - 0.29) < 0.02


def test_a_shared_document_has_the_same_bytes_on_several_hosts():
    web = ToyWeb(40, 1, Mix.plain())
    copies = [known for known in web.urls(PORT) if known.document == 7]
    assert len({known.host for known in copies}) > 1
    assert len({web.payload(known.url, NOW) for known in copies}) == 1


def test_no_duplicates_where_the_mix_says_so():
    web = ToyWeb(40, 1, replace(Mix.plain(), duplicates=0.0))
    assert all(known.document is None for known in web.urls(PORT))


def test_answers_are_the_same_whoever_asks_and_in_whatever_order():
    ask = [(known.host, known.target) for known in ToyWeb().urls(PORT)]
    one, two = ToyWeb(), ToyWeb()
    first = [one.answer(f"{host}:{PORT}", target, now_ms=NOW) for host, target in ask]
    second = [two.answer(f"{host}:{PORT}", target, now_ms=NOW) for host, target in reversed(ask)]
    assert first == second[::-1]


def test_links_are_mostly_in_host_and_popular_hosts_get_most_of_the_others():
    web = ToyWeb(200, 1, Mix.plain())
    inside, abroad = 0, Counter[str]()
    for known in web.urls(PORT):
        for link in known.links if known.sort == "page" and known.target != "/" else ():
            name = link.split("/")[2].split(":")[0]
            inside += name == known.host
            abroad[name] += name != known.host
    assert inside > sum(abroad.values())
    assert sum(abroad[host.name] for host in web.hosts[:20]) > sum(
        abroad[host.name] for host in web.hosts[100:]
    )


@pytest.mark.parametrize(
    ("kind", "target", "outcome"),
    [
        (Kind.REDIRECTS, "/go/chain/1", Outcome.REDIRECT),
        (Kind.REDIRECTS, "/go/nothing", Outcome.REDIRECT_LIMIT),
        (Kind.ERRORS, "/e/404", Outcome.NOT_FOUND),
        (Kind.ERRORS, "/e/410", Outcome.GONE),
        (Kind.BUSY, "/busy/seconds", Outcome.RATE_LIMITED),
        (Kind.BUSY, "/busy/down", Outcome.SERVER_ERROR),
        (Kind.HANG, "/hang/head", Outcome.READ_TIMEOUT),
        (Kind.HANG, "/hang/body", Outcome.OK),
        (Kind.RESET, "/reset/now", Outcome.DISCONNECTED),
        (Kind.RESET, "/reset/body", Outcome.OK),
        (Kind.DIRTY, "/dirty/not-http", Outcome.BAD_HTTP),
        (Kind.DIRTY, "/dirty/old", Outcome.OK),
        (Kind.NOWHERE, "/", Outcome.DNS_NXDOMAIN),
        (Kind.DEAF, "/", Outcome.CONNECT_REFUSED),
    ],
)
def test_outcomes_are_known(kind, target, outcome):
    web = ToyWeb(80, 1, Mix.full())
    host = next(host for host in web.hosts if host.kind is kind)
    known = web.known(origin(host.name, PORT) + target)
    assert known is not None
    assert known.outcome is outcome


def test_every_odd_path_has_an_answer_of_its_own():
    web = ToyWeb()
    for host in web.hosts:
        for target in EXTRA_PATHS.get(host.kind, ()):
            known = web.known(origin(host.name, PORT) + target)
            assert known is not None
            assert known.status != 404 or target == "/e/404", target


def test_pages_of_each_trap_are_named_and_go_on_for_ever():
    web = ToyWeb()
    for kind in (
        Kind.CALENDAR,
        Kind.SEGMENTS,
        Kind.SESSIONS,
        Kind.FACETS,
        Kind.SOFT404,
        Kind.PAGER,
        Kind.LOGIN,
        Kind.FLOOD,
    ):
        host = next(host for host in web.hosts if host.kind is kind)
        waiting = deque(origin(host.name, PORT) + path for path in EXTRA_PATHS[kind])
        seen = set(waiting)
        trapped = 0
        while waiting and trapped < 300:
            known = web.known(waiting.popleft())
            assert known is not None
            trapped += known.trap is not None
            if known.trap or known.target != "/":
                waiting.extend(link for link in known.links if link not in seen)
                seen.update(known.links)
        assert trapped == 300, kind


def test_a_changed_page_differs_in_bytes_and_validator_and_an_unchanged_one_in_neither():
    web = ToyWeb(40, 1, Mix.plain())
    url = origin(next(host.name for host in web.hosts if host.validator == "both"), PORT) + "/"
    times = web.changes(url, NOW, NOW + DAY)
    assert len(times) > 10
    before, at, after = (web.payload(url, moment) for moment in (times[0] - 1, times[0], times[1] - 1))
    assert before != at == after
    assert web.changes_per_day(url) == 24.0


def test_conditional_requests_get_304_until_the_page_changes():
    web = ToyWeb(40, 1, Mix.plain())
    for host in web.hosts:
        first = dict(web.answer(f"{host.name}:{PORT}", "/", now_ms=NOW).headers)
        change = web.changes(origin(host.name, PORT) + "/", NOW, NOW + 2 * DAY)[0]
        for header, condition in (("ETag", "if-none-match"), ("Last-Modified", "if-modified-since")):
            if header in first:
                ask = {condition: first[header]}
                assert web.answer(f"{host.name}:{PORT}", "/", headers=ask, now_ms=change - 1).status == 304
                assert (
                    web.answer(f"{host.name}:{PORT}", "/", headers=ask, now_ms=change + 1_000).status == 200
                )


def test_busy_hosts_answer_at_the_second_try_unless_the_mix_is_steady():
    for mix, status in ((Mix.demo(), 200), (Mix.steady_demo(), 429)):
        web = ToyWeb(40, 1, mix)
        host = next(host for host in web.hosts if host.kind is Kind.BUSY)
        assert web.answer(host.name, "/busy/seconds", visit=0).hold_ms == 3_000
        assert web.answer(host.name, "/busy/seconds", visit=1).status == status


def test_content_codings_are_what_they_say():
    undo = {"gzip": gzip.decompress, "deflate": zlib.decompress}
    web, seen = ToyWeb(40, 1, Mix.plain()), set()
    for host in web.hosts:
        made = web.answer(f"{host.name}:{PORT}", "/", now_ms=NOW)
        coding = dict(made.headers).get("Content-Encoding")
        if coding:
            seen.add(coding)
            assert undo[coding](made.body).startswith(b"<!DOCTYPE html>")
    assert seen == set(undo)


def test_robots_of_unreachable_hosts_forbid_everything_else():
    web = ToyWeb(200, 1, Mix.full())
    for host in web.hosts:
        known = web.known(origin(host.name, PORT) + "/", product=PRODUCT)
        assert known is not None
        denied = host.robots in ("error", "busy", "hang", "reset", "deny")
        assert known.allowed is not denied
