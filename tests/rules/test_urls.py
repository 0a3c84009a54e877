"""Wire form, keys and index columns: held to the URL standard's own tests, the field cases, and properties."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import ada_url
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines.rules import urls
from pipelines.rules.hosts import is_address, registrable_domain
from tests.shared import shared

WHATWG = "data/whatwg-url/"
NORMALISE = "data/url-normalise/"

pieces = st.sampled_from(
    ["http://", "https:", "//", "/", "/.", "..", "/%2e", "%2E", "a", "B", "b.example", "xn--a", ":80", ":443", ":8080", "?",
     "#", "&", "=", ";", "@", "[", "]", "[::1]", "%", "%41", " ", "\t", "\n", "\\", "é", "ß", "|", "'", '"', "127.1", "1",
     "0x7f", ".", "-", "_", "~", "www.", "com", ","]
)  # fmt: skip
texts = st.lists(pieces, max_size=12).map("".join)
bases = st.one_of(
    st.just("https://a.example/b/c?d"), texts.map(lambda tail: f"http://a.example{tail}"), texts
)


def lines(path: str) -> list[dict[str, Any]]:
    file = shared(path)
    opener = gzip.open if file.suffix == ".gz" else open
    with opener(file, "rt", encoding="utf-8") as text:
        return [json.loads(line) for line in text if line.strip()]


def whatwg(name: str) -> list[dict[str, Any]]:
    return [row for row in json.loads(shared(WHATWG + name).read_text("utf-8")) if isinstance(row, dict)]


def http_href(row: dict[str, Any]) -> str | None:
    return row["href"] if not row.get("failure") and row.get("protocol") in ("http:", "https:") else None


ALL_WHATWG = ("urltestdata.json", "ada_extra_urltestdata.json", "ada_long_urltestdata.json", "urltestdata-javascript-only.json")  # fmt: skip


def test_every_whatwg_url_case_of_921_is_requested_as_browsers_do_or_dropped():
    rows = [row for name in ALL_WHATWG for row in whatwg(name)]
    assert len(rows) == 921
    for row in rows:
        found = urls.resolve(row["base"], row["input"]) if row.get("base") else urls.wire(row["input"])
        href = http_href(row)
        assert found == (None if href is None else href.partition("#")[0]), row


def test_every_whatwg_url_case_without_base_is_split_into_the_parts_browsers_see():
    for row in (row for name in ALL_WHATWG for row in whatwg(name) if not row.get("base")):
        url, href = urls.parse(row["input"]), http_href(row)
        assert (url and url.href) == href, row
        if url is not None:
            assert (url.path, url.host) == (row["pathname"], row["hostname"])
            assert url.port == (int(row["port"]) if row["port"] else None)
            assert row["search"] in (f"?{url.query}", "") and row["hash"] in (f"#{url.fragment}", "")


def test_legacy_page_encodings_of_7_cases_reach_the_query_as_browsers_send_them():
    rows = whatwg("percent-encoding.json")
    assert len(rows) == 7
    left = {
        ("\u000eA", "iso-2022-jp"),
        ("\u203e\\", "iso-2022-jp"),
        ("\ue5e5", "gb18030"),
        ("\u2212", "shift_jis"),
    }
    for row in rows:
        for encoding, expected in row["output"].items():
            found = urls.resolve_encoded("http://a.example/", "?" + row["input"], encoding)
            if (row["input"], encoding) in left:  # these codecs of Python differ from the browsers' tables
                continue
            assert found == f"http://a.example/?{expected}", (row, encoding)


REVIEWED_REFERENCES = {"{privacy}"}  # its source leaves a template's placeholder alone; browsers do not


def test_references_of_86_cases_resolve_as_in_rfc_3986_5_4():
    rows = lines(NORMALISE + "resolve-cases.jsonl")
    assert len(rows) == 86
    for row in rows:
        expected = row.get("alternative") or row["expected"]
        if row["reference"] not in REVIEWED_REFERENCES:
            assert urls.resolve(row["base"], row["reference"]) == (expected and urls.wire(expected)), row


def test_paths_with_dots_and_odd_ipv4_spellings_and_idempotence_of_urlcanon():
    dots = json.loads(shared(NORMALISE + "urlcanon-path_dots.json").read_text("utf-8"))["special"]
    for path, expected in dots.items():
        assert urls.wire("http://a.example" + path) == urls.wire("http://a.example" + expected), path
    for host, expected in json.loads(
        shared(NORMALISE + "urlcanon-funky_ipv4.json").read_text("utf-8")
    ).items():
        found = urls.wire(f"http://{host}/")
        assert found == f"http://{expected}/" if expected else not is_address(urls.host_of(found or "")), host
    for text in json.loads(shared(NORMALISE + "urlcanon-idempotence.json").read_text("utf-8")):
        once = urls.wire(text)
        assert once is None or urls.wire(once) == once


def field_case(name: str) -> dict[str, Any]:
    return json.loads(shared(f"field-cases/{name}.json").read_text("utf-8"))


def test_field_case_host_percent_escape_and_trailing_dot_share_one_host():
    for name in ("url-host-percent-escape", "url-trailing-dot-host"):
        case = field_case(name)
        hosts = {urls.host_of(url) for url in case["input"]["urls"]}
        assert len(hosts) == 1
        assert hosts == {case["expect"].get("tls_server_name", "example.org")}
        assert len({urls.host_key(urls.host_of(url)) for url in case["input"]["urls"]}) == 1
        assert all(
            urls.host_of(wired) in wired.split("/")[2]
            for wired in map(urls.wire, case["input"]["urls"])
            if wired
        )


def test_field_case_ipv6_literals():
    case = field_case("url-ipv6-literal")
    for url, expected, header in zip(case["input"]["urls"], case["expect"]["canonical"], case["expect"]["host_header"], strict=True):  # fmt: skip
        assert urls.wire(url) == expected
        assert urls.site_of(url).partition("//")[2] == (header or "")


@pytest.mark.parametrize("name", ["url-illegal-query-characters", "url-percent-u-escape"])
def test_field_cases_of_illegal_characters_neither_raise_nor_change_twice(name):
    case = field_case(name)
    for url, allowed in zip(case["input"]["urls"], case["expect"]["any_of_each"], strict=True):
        assert urls.wire(url) in allowed
        assert urls.canonical(urls.canonical(url)) == urls.canonical(url)


def test_field_case_fragments_give_two_keys_and_two_requests():
    case = field_case("url-fragment-routes")
    assert (
        len({urls.url_key(url) for url in case["input"]["urls"]}) == case["expect"]["distinct_keys_default"]
    )
    asked = dict.fromkeys(urls.parse(urls.wire(url)).path for url in case["input"]["urls"])
    assert list(asked) == case["expect"]["request_targets"]


def test_field_case_query_order_is_kept_on_the_wire_and_folded_in_the_key_when_asked():
    case = field_case("url-query-order-on-the-wire")
    found = [urls.resolve("http://a.example/", link) for link in case["input"]["links"]]
    assert found[0].removeprefix("http://a.example") == case["expect"]["requests"][0]
    sort = urls.CanonPolicy(sort_query=True)
    assert len({urls.url_key(url, policy=sort) for url in found}) == case["expect"]["keys"]
    assert len({urls.url_key(url) for url in found}) == 2


def test_field_case_raw_utf8_in_location_is_percent_encoded_octet_by_octet():
    case = field_case("redirect-location-raw-utf8")
    raw = shared("field-cases/" + case["input"]["server"]["GET /start"]).read_bytes()
    location = re.search(rb"(?im)^location:[ \t]*(.*?)\r?$", raw)[1].decode("latin-1")
    found = urls.resolve_location("http://a.example/start", location)
    assert found == "http://a.example" + case["expect"]["next_request_target"]


def test_field_cases_of_redirects_keep_ampersands_slashes_and_empty_locations():
    assert urls.resolve_location("http://a.example/w/S_&_P", "/w/S_%26_P") == "http://a.example/w/S_%26_P"
    assert urls.url_key("http://a.example/w/S_&_P") != urls.url_key("http://a.example/w/S_%26_P")
    assert urls.resolve_location("http://a.example/flow", "") == "http://a.example/flow"
    assert urls.url_key("http://a.example/post") != urls.url_key("http://a.example/post/")


@given(bases, texts)
@example("https://a.example/b", "x/%2e%2e/y")
@example("https://a.example/b", "? d # e")
@example("http://a.example", "")
def test_the_quick_way_gives_what_ada_gives(base, href):
    if not ada_url.check_url(base):
        return
    try:
        expected = ada_url.join_url(base, href).partition("#")[0]
    except ValueError:
        expected = None
    if expected is not None and not expected.startswith(("http://", "https://")):
        expected = None
    found = urls.resolve(base, href)
    assert found == expected or re.sub(r"(?<=[^./])\.(?=[:/])", "", expected or "", count=1) == found


@given(texts)
def test_wire_form_is_idempotent_and_its_parts_make_it_again(text):
    wired = urls.wire(text)
    if wired is None:
        return
    assert (
        urls.wire(wired) == wired == urls.resolve(wired, "") == urls.resolve("http://other.example/", wired)
    )
    url = urls.parse(wired)
    user = f"{url.userinfo}@" if url.userinfo else ""
    port = "" if url.port is None else f":{url.port}"
    query = "" if url.query is None else f"?{url.query}"
    assert f"{url.scheme}://{user}{url.host}{port}{url.path}{query}" == wired
    assert urls.host_of(wired) == url.host
    assert urls.site_of(wired) == f"{url.scheme}://{url.host}{port}"


@given(texts)
def test_what_is_no_url_never_raises(text):
    assert isinstance(urls.canonical(text), str)
    assert isinstance(urls.surt(text), str)
    assert 0 <= urls.url_key(text) < 2**63
    assert (
        urls.host_of("http://" + text)
        == (urls.parse("http://" + text) or urls.Url("", "", "", None, "", None)).host
    )


@given(st.text(max_size=30))
def test_any_text_as_link_or_location_never_raises(text):
    assert urls.resolve("http://a.example/", text) is None or urls.resolve(
        "http://a.example/", text
    ).startswith("http")
    urls.resolve_location("http://a.example/", text)


def test_a_key_holds_its_hosts_bits_then_the_urls():
    url = "https://a.example/b?c=1"
    key = urls.url_key(url)
    assert key >> 48 == urls.host_key("a.example") >> 48
    assert urls.host_key("a.example") & ((1 << 48) - 1) == 0
    assert key == urls.url_key(url, "a.example") != urls.url_key(url + "2")
    assert urls.url_key("HTTPS://A.Example:443/b?c=1&utm_source=x#y") == key


@given(st.integers(0, 2**63 - 1), st.integers(0, 15))
def test_every_key_lies_in_the_range_of_its_bucket(key, power):
    buckets = 1 << power
    bucket = urls.bucket_of(key, buckets)
    low, high = urls.bucket_range(bucket, buckets)
    assert low <= key <= high < 2**63 and 0 <= bucket < buckets
    assert urls.buckets_of(np.array([key], dtype=np.int64), buckets)[0] == bucket
    assert low == 0 or urls.bucket_range(bucket - 1, buckets)[1] == low - 1


@pytest.mark.parametrize("buckets", [0, 3, -2, 1 << 16])
def test_a_number_of_buckets_that_is_no_power_of_two_is_refused(buckets):
    with pytest.raises(ValueError, match="power of two"):
        urls.bucket_of(1, buckets)


def test_index_columns_are_those_of_the_captures_table_and_of_common_crawl():
    found = urls.index_columns(
        ["https://www.a.example.co.uk:8443/B/?x=1", "http://192.0.2.7/", "http://[2001:db8::1]/y?"]
    )
    captures = (Path(__file__).parents[2] / "lake" / "schema.py").read_text("utf-8")
    assert set(found) == set(re.findall(r'\("(url_[a-z0-9_]+)", _', captures)) - {"url_key"}
    first = {name: values[0] for name, values in found.items()}
    assert first == {
        "url_surtkey": "uk,co,example,a:8443)/b?x=1", "url_host_name": "www.a.example.co.uk", "url_host_tld": "uk",
        "url_host_2nd_last_part": "co", "url_host_3rd_last_part": "example", "url_host_4th_last_part": "a",
        "url_host_5th_last_part": "www", "url_host_registry_suffix": "co.uk",
        "url_host_registered_domain": "example.co.uk", "url_host_private_suffix": "co.uk",
        "url_host_private_domain": "example.co.uk", "url_host_name_reversed": "uk.co.example.a.www",
        "url_protocol": "https", "url_port": 8443, "url_path": "/B/", "url_query": "x=1",
    }  # fmt: skip
    assert [found["url_host_tld"][1], found["url_host_registered_domain"][2], found["url_query"][2]] == [
        None,
        None,
        "",
    ]
    assert urls.index_columns([])["url_path"] == []


@given(
    st.lists(
        st.tuples(st.sampled_from(["a.example", "[::1]:8080", "192.0.2.1", "u@xn--bcher-kva.example"]), texts)
    )
)
def test_index_columns_agree_with_the_single_functions(pairs):
    found = [url for url in (urls.wire(f"http://{host}/{tail}") for host, tail in pairs) if url]
    columns = urls.index_columns(found)
    assert columns["url_surtkey"] == [urls.surt(url) for url in found]
    assert columns["url_host_name"] == [urls.host_of(url) for url in found]
    assert columns["url_path"] == [urls.split(url).path for url in found]
    assert columns["url_query"] == [urls.split(url).query for url in found]


def test_real_links_of_the_frontier_data_have_wire_forms_hosts_and_domains():
    with gzip.open(shared("data/frontier/outlinks.tsv.gz"), "rt", encoding="utf-8") as rows:
        next(rows)
        links = list(dict.fromkeys(row.rstrip("\n").split("\t")[3] for row in rows))[::20]
    wired = [urls.wire(link) for link in links]
    assert all(wired)
    assert all(urls.host_of(url) and registrable_domain(urls.host_of(url)) for url in wired)
    refused = lines("data/frontier/unparsable-hrefs.jsonl.gz")
    assert len(refused) == 39
    assert [row for row in refused if urls.resolve(row["base"], row["raw"]) is not None] == []
