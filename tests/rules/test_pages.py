"""What pages say: the reference lists of real pages, other projects' cases, and pages that no one should meet."""

from __future__ import annotations

import base64
import gzip
import json
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from pipelines.rules.links import Link
from pipelines.rules.pages import Page, PagePolicy, collapse, page_text, read_page
from pipelines.rules.urls import resolve, wire
from tests.shared import shared

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
PLAIN, EVERYTHING = PagePolicy(), PagePolicy(forms=True, images=True, srcset=True)
KINDS = {
    "a": ("a",), "area": ("area",), "iframe": ("iframe",), "frame": ("frame",), "img": ("img",), "form": ("form",),
    "link": ("canonical", "alternate", "next", "prev"),
}  # fmt: skip


def rows(path: str) -> list[Any]:
    file = shared(path)
    data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    return [json.loads(line) for line in data.decode().split("\n") if line]


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"html_{name}.json").read_text())


def read(
    body: bytes | str,
    url: str = "http://a.example/b/c",
    *,
    policy: PagePolicy = PLAIN,
    content_type: str | None = "text/html; charset=utf-8",
    link_header: str | None = None,
    with_text: bool = False,
) -> Page:
    if isinstance(body, str):
        body = body.encode("utf-8", "surrogatepass")
    return read_page(
        body, url=url, content_type=content_type, link_header=link_header, policy=policy, with_text=with_text
    )


def urls(page: Page, *kinds: str) -> set[str]:
    return {link.url for link in page.links if link.kind in kinds}


# --- the 106 real pages ------------------------------------------------------------------------------------


@cache
def real_pages() -> list[tuple[str, Page, Any]]:
    wanted = {row["id"]: row for row in rows("data/html/real-pages-links.jsonl.gz")}
    found = []
    for row in rows("data/html/real-pages.jsonl.gz"):
        body = base64.b64decode(row["html_b64"]) if "html_b64" in row else row["html"].encode()
        page = read(body, row["url"], policy=EVERYTHING, content_type="text/html")
        found.append((row["id"], page, wanted[row["id"]]))
    return found


def _reference_links(reference: Any, tag: str) -> set[str | None]:
    found = set()
    for name, attribute, raw, resolved, *rel in reference["links"]:
        if name != tag or attribute == "srcset" or resolved is None or "…cut" in raw:
            continue
        words = set((rel[0] if rel and rel[0] else "").lower().split())
        if (tag != "link" or words & set(KINDS["link"])) and resolved.startswith(("http:", "https:")):
            found.add(wire(resolved))
    return found


@pytest.mark.parametrize("tag", ["a", "area", "link", "frame"])
def test_106_real_pages_have_the_links_of_the_reference_or_a_reviewed_reason(tag: str):
    reviewed = golden("real_pages")
    excused = reviewed["undeclared_utf8"]["pages"]
    pages = real_pages()
    assert len(pages) == 106
    for name, page, reference in pages:
        wanted, found = _reference_links(reference, tag), urls(page, *KINDS[tag])
        if name in excused:
            assert len(wanted) == len(found), name
        else:
            assert wanted == found, name


@pytest.mark.parametrize("tag", ["iframe", "img"])
def test_106_real_pages_have_the_sources_of_the_reference_but_empty_ones(tag: str):
    reviewed = golden("real_pages")
    for name, page, reference in real_pages():
        wanted, found = _reference_links(reference, tag), urls(page, *KINDS[tag])
        if name in reviewed["empty_source"]["pages"]:
            wanted -= {wire(reference["base"])}
            found -= {wire(reference["base"]) or ""}
        if name not in reviewed["undeclared_utf8"]["pages"]:
            assert wanted == found, name
        assert len(wanted) == len(found), name


def test_106_real_pages_have_forms_among_those_of_the_reference():
    assert all(
        urls(page, "form") <= _reference_links(reference, "form") for _, page, reference in real_pages()
    )


def test_106_real_pages_say_what_the_reference_says():
    undeclared = golden("real_pages")["undeclared_utf8"]["pages"]
    for name, page, reference in real_pages():
        if name in undeclared:
            assert (page.charset, reference["encoding"]) == ("utf-8", "windows-1252"), name
            assert page.charset_how in ("meta", "detected"), name
        else:
            assert page.charset == reference["encoding"].lower(), name
            assert (page.title or "") == collapse(reference["title"] or "", 300), name
        assert page.canonical == (reference["canonical"] and wire(reference["canonical"])), name
        assert wire(page.base) == wire(reference["base"]), name
        words = [word.strip().lower() for meta in reference["meta_robots"] for word in meta.split(",")]
        assert list(page.robots) == [word for word in words if word], name
        assert page.refresh_seconds == (reference["meta_refresh"] and int(reference["meta_refresh"])), name


def test_106_real_pages_are_read_at_every_length():
    for row in rows("data/html/real-pages.jsonl.gz")[::9]:
        body = (row.get("html") or "").encode()
        for length in range(0, min(len(body), 60_000), 4_999):
            read(body[:length], row["url"], policy=EVERYTHING, with_text=True)


# --- other projects' cases ---------------------------------------------------------------------------------


def test_15_nutch_outlink_cases_are_right_or_reviewed():
    cases, reviewed = rows("data/html/nutch-outlink-cases.jsonl"), golden("nutch")
    assert len(cases) == 15
    for case in cases:
        policy = PagePolicy(images=True, forms=case["id"] != "nutch-dom-10", noscript=True)
        page = read(case["html"], case["base"], policy=policy, with_text=True)
        found = {(link.url, link.text) for link in page.links}
        wanted = {(wire(link["url"]), collapse(link["anchor"], 200)) for link in case["outlinks"]}
        assert found == wanted or case["id"] in reviewed, case["id"]


def test_59_scrapy_link_cases_are_right_or_reviewed():
    cases, reviewed = rows("data/html/scrapy-link-cases.jsonl"), golden("scrapy")
    assert len(cases) == 59
    for case in cases:
        encoding = (case["encoding"] or "utf-8").replace("cp1252", "windows-1252")
        body = base64.b64decode(case["html_b64"])
        page = read(body, case["url"], content_type=f"text/html; charset={encoding}")
        found, wanted = urls(page, "a", "area"), {wire(link["url"]) for link in case["links"]}
        if case["id"] not in reviewed:
            assert wanted <= found, case["id"]
            assert case["options"] or wanted == found, case["id"]


def test_37_courlan_link_cases_are_right_or_reviewed():
    cases, reviewed = rows("data/html/courlan-link-cases.jsonl"), golden("courlan")
    assert len(cases) == 37
    for case in cases:
        page = read(case["html"], case["url"] or "http://a.example/")
        wanted = {wire(link) for link in case["links"]}
        assert wanted <= urls(page, "a") or case["id"] in reviewed, case["id"]


def test_46_w3lib_base_and_refresh_calls_are_right_or_reviewed():
    calls, reviewed = rows("data/html/w3lib-base-and-refresh-calls.jsonl"), golden("w3lib")["refresh"]
    assert len(calls) == 46
    for call in calls:
        html, url, *_ = [*(_text(value) for value in call["args"]), "http://a.example/"]
        page = read(html, url)
        if call["fn"] == "get_base_url":
            assert wire(page.base) == (wire(call["result"]) or wire(url)), call
            continue
        refresh = [link.url for link in page.links if link.kind == "refresh"]
        seconds, target = call["result"]
        by_default = call["test"].startswith("test_inside") and not call["kwargs"]
        if by_default or call["test"] not in reviewed:
            assert refresh == ([wire(target)] if target else []), call
            assert page.refresh_seconds == (None if seconds is None else int(seconds)), call


def _text(value: Any) -> str:
    return value["bytes_latin1"] if isinstance(value, dict) else value


def test_9_ia_web_commons_records_have_the_links_that_we_look_for():
    file = shared("data/warc/ia-web-commons/link-extraction-test.warc")
    with file.open("rb") as stream:
        records = [
            (record.rec_headers, record.http_headers, record.content_stream().read())
            for record in ArchiveIterator(stream)
            if record.rec_type == "response"
        ]
    cases, skipped = rows("data/html/ia-web-commons-links.jsonl"), golden("ia_web_commons")["skipped"]
    assert len(cases) == len(records) == 9
    for case, (headers, http, body) in zip(cases, records, strict=True):
        page = read(
            body, headers.get_header("WARC-Target-URI"), policy=EVERYTHING,
            content_type=http.get_header("Content-Type"), with_text=True,
        )  # fmt: skip
        assert (page.title or "") == (case["title"] or ""), case["title"]
        found = {link.url for link in page.links}
        for link in case["links"]:
            place = f"{link['where']} {link['raw']}"
            assert resolve(page.base, link["raw"]) in found or any(key in place for key in skipped), (
                case["title"],
                link,
            )


def test_5_robots_meta_files():
    cases = [case for case in rows("data/html/robots-tags.jsonl") if "file" in case]
    assert len(cases) == 5
    for case in cases:
        words = read(shared(f"data/html/{case['file']}").read_bytes()).robots
        assert ("noindex" in words, "nofollow" in words) == (not case["index"], not case["follow"]), case


SMALL_FILES = {
    "stormcrawler/duplicateLinks": {"http://stormcrawler.net/"},
    "stormcrawler/javascriptLinks": {"http://a.example/b/mylink"},
    "stormcrawler/redir": {"http://www.somesite.com/site"},
    "scrapy/linkextractor": {
        "http://example.com/sample1.html", "http://example.com/sample2.html", "http://example.com/sample3.html",
        "http://www.google.com/something", "http://example.com/innertag.html", "http://example.com/page%204.html",
    },
    "scrapy/linkextractor_latin1": {
        "http://example.com/sample_%C3%B1.html", "http://example.com/sample_%C3%A1.html",
        "http://example.com/sample_%C3%B6.html?price=%C2%A332&%C2%B5=unit",
    },
    "scrapy/linkextractor_no_href": {
        "http://example.com/author/Albert-Einstein", "http://example.com/page/1/", "http://example.com/page/3/",
        "http://example.com/page/4/",
    },
    "scrapy/linkextractor_noenc": {"http://example.com/sample_%C3%B1.html", "http://example.com/sample_%E2%82%AC.html"},
}  # fmt: skip


def test_7_small_files_of_stormcrawler_and_scrapy():
    for name, wanted in SMALL_FILES.items():
        page = read(shared(f"data/html/{name}.html").read_bytes(), content_type="text/html", with_text=True)
        assert {link.url for link in page.links} == wanted, name
        assert len(page.links) == len(wanted), name


# --- field cases -------------------------------------------------------------------------------------------


def test_field_case_base_relative():
    case = json.loads(shared("field-cases/html-base-relative.json").read_text())
    for page, links, canonical in zip(
        case["input"]["pages"], case["expect"]["links"], case["expect"]["canonical"], strict=True
    ):
        found = read(page["html"], page["url"])
        assert [link.url for link in found.links if link.kind == "a"] == links
        assert found.canonical == canonical


def test_field_case_meta_refresh_order_and_noscript():
    case = json.loads(shared("field-cases/html-meta-refresh-order-noscript.json").read_text())
    for page, wanted in zip(case["input"]["pages"], case["expect"]["refresh"], strict=True):
        assert urls(read(page["html"], page["url"]), "refresh") == ({wanted} if wanted else set())


def test_noscript_is_read_only_where_asked():
    html = "<noscript><meta http-equiv=refresh content='0;url=/r'><a href=/n>x</a></noscript><a href=/m>y</a>"
    assert urls(read(html), "a", "refresh") == {"http://a.example/m"}
    asked = read(html, policy=PagePolicy(noscript=True))
    assert urls(asked, "a", "refresh") == {"http://a.example/m", "http://a.example/n", "http://a.example/r"}


# --- ours --------------------------------------------------------------------------------------------------


def test_all_kinds_of_links():
    html = """<html lang=" de-CH "><head><title> A
    title </title><meta name=Description content=" d  e "><link rel=canonical href=can><link rel="alternate nofollow"
    hreflang=fr href=/fr><link rel=stylesheet href=s.css><link rel=next href=n><link rel=previous href=p>
    <meta name=robots content="NoIndex, nofollow"><meta name=noria content="noarchive">
    <body><a href=" x\n y " rel="NoFollow UGC">one <b>two</b></a><a href=x%20y>three</a><area href=ar>
    <iframe src=if></iframe><form action=fo></form><form action=fp method=POST></form>
    <img src=im srcset="s1 1x, s2 2x"><a>none</a><a href="mailto:a@b.example">m</a></html>"""
    policy = PagePolicy(forms=True, images=True, srcset=True, product="Noria")
    page = read(html, policy=policy, link_header="<h>; rel=next", with_text=True)
    here = "http://a.example/b/"
    assert page.links == [
        Link(here + "h", "header", "next"),
        Link(here + "can", "canonical", "canonical"),
        Link("http://a.example/fr", "alternate", "alternate nofollow", "", "fr"),
        Link(here + "n", "next", "next"),
        Link(here + "p", "prev", "previous"),
        Link(here + "ar", "area"),
        Link(here + "if", "iframe"),
        Link(here + "x%20y", "a", "nofollow ugc", "one two"),
        Link(here + "x%20y", "a", "", "three"),
        Link(here + "fo", "form"),
        Link(here + "im", "img"),
        Link(here + "s1", "srcset"),
        Link(here + "s2", "srcset"),
    ]
    assert (page.title, page.description, page.language) == ("A title", "d e", "de-CH")
    assert (page.canonical, page.robots) == (here + "can", ("noindex", "nofollow", "noarchive"))
    assert (page.mime, page.charset, page.charset_how, page.junk, page.cut) == (
        "text/html",
        "utf-8",
        "header",
        None,
        (),
    )


def test_forms_and_pictures_are_off_by_default():
    assert read("<form action=a></form><img src=b srcset='c 2x'>").links == []


def test_frames():
    page = read("<html><frameset><frame src=a><frame src=b></frameset>")
    assert [(link.url, link.kind) for link in page.links] == [
        ("http://a.example/b/a", "frame"), ("http://a.example/b/b", "frame"),
    ]  # fmt: skip


def test_a_drawing_has_no_say_about_the_title():
    assert read("<svg><title>no</title></svg><title>yes</title>").title == "yes"


def test_titles_are_bounded_and_absent_ones_are_none():
    assert read(f"<title>{'x ' * 5000}</title>").title == ("x " * 150).rstrip()
    assert read("<title> </title>").title is None
    assert read("<p>x").title is None


@pytest.mark.parametrize(
    ("body", "content_type", "reason"),
    [
        (b"%PDF-1.4 <a href=x>", "text/html", "type: application/pdf"),
        (b"{}", "application/json", "type: application/json"),
        (b"", "text/html", "empty"),
        (b" \r\n\t ", "text/html", "empty"),
        (b"\0\1\2\3" * 300, "text/html", "binary"),
        (b"<div>" * 300_000, "text/html", "nesting"),
        (b"<b>" * 300_000, "text/html", "formatting"),
    ],
)
def test_what_is_not_parsed_says_why_and_keeps_the_links_of_the_header(
    body: bytes, content_type: str, reason: str
):
    page = read(body, content_type=content_type, link_header='</c>; rel="canonical"')
    assert page.junk == reason
    assert [link.url for link in page.links] == ["http://a.example/c"]
    assert page.canonical == "http://a.example/c"


def test_bounds_are_kept_and_named():
    page = read("<a href=1><a href=2><a href=3>", policy=PagePolicy(max_links=2))
    assert (len(page.links), page.cut) == (2, ("links",))
    page = read("<a href=1>" + " " * 90 + "<a href=2>", policy=PagePolicy(max_bytes=50))
    assert (len(page.links), page.cut) == (1, ("bytes",))


HOSTILE = {
    "deep": b"<div>" * 18_000,
    "deep text in an anchor": b"<a href=x>" + b"<span>" * 18_000 + b"x",
    "links": b"".join(b"<a href=%d>x</a>" % i for i in range(100_000)),
    "metas": b"<meta http-equiv=refresh content='0;url=x'>" * 50_000,
    "comments": b"<!--" * 500_000,
    "less": b"<" * 1_000_000,
    "quotes": b'<a href="' * 100_000,
    "metas that declare": b"<meta charset=x>" * 100_000,
    "long refresh": b"<meta http-equiv=refresh content='" + b" " * 1_000_000 + b"'>",
    "long name": b"<" + b"a" * 1_000_000,
    "long href": b"<a href='" + b"../" * 1_000_000 + b"'>",
    "script": b"<script>" * 8_000 + b"charset",
    "roots": b"".join(b"<body a%d=1>" % i for i in range(50_000)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pages_cost_little(name: str):
    began = time.process_time()
    read(HOSTILE[name], policy=EVERYTHING, content_type="text/html", with_text=True)
    assert time.process_time() - began < 5


PIECES = st.sampled_from(
    [b"<a href=", b"'x'", b'"y', b">", b"</a>", b"<base href=", b"<meta ", b"http-equiv=refresh ", b"content=", b"0;url=z",
     b"charset=utf-16", b"\xff", b"\0", b"<title>", b"</title>", b"<svg>", b"<table>", b"<form action=q>", b"\xc3", b"<!--",
     b"<link rel=canonical href=", b"<html lang=", b"<frameset>", b"<frame src=f>", b"<template>", b"<noscript>", b"&#x110000;",
     b"<img srcset='a 1x,", b"<select>", b"]]>", b"<?xml encoding='x'?>", b"http://[", b"<area href=", b"\x1b$B"]
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(PIECES | st.binary(max_size=6), max_size=30).map(b"".join),
    st.sampled_from(
        ["text/html", "text/html; charset=utf-8", "text/html; charset=gbk", "application/xhtml+xml", None]
    ),
    st.sampled_from(["http://a.example/", "http://a.example/b?c#d", "not a url", ""]),
    st.text(max_size=20) | st.none(),
)
def test_any_bytes_are_read(body: bytes, content_type: str | None, url: str, link_header: str | None):
    page = read(
        body, url, policy=EVERYTHING, content_type=content_type, link_header=link_header, with_text=True
    )  # fmt: skip
    assert all(link.url.startswith(("http://", "https://")) and "#" not in link.url for link in page.links)
    assert len(set(page.links)) == len(page.links)
    page_text(body, page.charset or "utf-8")


def test_page_text_is_what_is_seen():
    html = b"<title>t</title><script>s</script><style>y</style><h1> One  <b>two</b></h1><noscript>n</noscript>three"
    assert page_text(html, "utf-8").split() == ["One", "two", "three"]
    assert page_text(b"", "utf-8") == ""
