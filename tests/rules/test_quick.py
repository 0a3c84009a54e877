"""The quick way of a link agrees with the rules' own way on every URL."""

from __future__ import annotations

import gzip
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules import filters, urls
from pipelines.rules.filters import FilterPolicy
from pipelines.rules.quick import Quick
from tests.shared import shared

POLICY = FilterPolicy(this_year=2026)


def slow(url: str, policy: FilterPolicy) -> tuple[str, int | None]:
    host = urls.host_of(url)
    refused = filters.refusal(url, policy, depth=1)
    return host, None if refused else urls.url_key(url, host)


def test_both_ways_agree_on_142_848_real_links() -> None:
    path = shared("data/frontier/outlinks.tsv.gz")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        found = {
            urls.wire(cell)
            for line in lines
            for cell in line.rstrip("\n").split("\t")
            if cell.startswith("http")
        }
    links = sorted(url for url in found if url)
    assert len(links) > 10_000
    quick = Quick(POLICY)
    assert [url for url in links if quick.judge(url, depth=1, meta=None) != slow(url, POLICY)] == []


pieces = st.sampled_from(
    [
        "a", "B", "cart", "add", "addons", "2019", "2099", "calendar", "page", "sess", "x.html", "x.png", "X.PNG", "a.b",
        "login", "sid", "a1b2c3d4e5f6a7b8c9d0", "www.b.example", "a.example", "%41", "~x", ".", "..", "(S(1))", ";v=1", "a;b", "doc", "_x", "-", "x.", "...", "index.php", "a'b", "",
    ]
)  # fmt: skip
tails = st.sampled_from(
    ["", "?a=1", "?sort=1&order=2", "?", "?utm_source=x", "?date=2099-01-01", "?PHPSESSID=1"]
)


@given(
    st.lists(pieces, min_size=1, max_size=8),
    tails,
    st.sampled_from(["a.example", "a.example:18080", "10.0.0.1", "xn--bcher-kva.example"]),
)
def test_both_ways_agree_on_odd_urls(parts: list[str], tail: str, host: str) -> None:
    url = urls.wire(f"http://{host}/{'/'.join(parts)}{tail}")
    assert url is not None
    quick = Quick(POLICY)
    first = quick.judge(url, depth=1, meta=None)
    assert first == slow(url, POLICY) == quick.judge(url, depth=1, meta=None)


@pytest.mark.parametrize("name", ["sid", "phpsessid", "jsessionid", "sess", "session-id"])
def test_both_ways_agree_on_session_ids_in_paths(name: str) -> None:
    url = f"http://a.example/shop/{name}/a1b2c3d4e5f6a7b8c9d0"
    assert slow(url, POLICY) == ("a.example", None)
    assert Quick(POLICY).judge(url, depth=1, meta=None) == ("a.example", None)


def test_a_narrow_policy_always_takes_the_rules_own_way() -> None:
    policy = FilterPolicy(exclude=("*/secret/*",), this_year=2026)
    quick = Quick(policy)
    assert quick.judge("http://a.example/secret/x.html", depth=1, meta=None)[1] is None
    assert quick.judge("http://a.example/open/x.html", depth=1, meta=None)[1] is not None


def test_judging_is_quick_enough_to_be_used() -> None:
    """Every second plain link of a folder goes the quick way: the folder is remembered."""
    quick = Quick(POLICY)
    names = [f"http://a.example/docs/{random.Random(n).randrange(10**6)}a.html" for n in range(50)]
    assert all(
        quick.judge(url, depth=1, meta=None)[1] is not None
        for url in ["http://a.example/docs/p.html", *names]
    )
