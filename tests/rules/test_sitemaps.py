"""Sitemaps: what is read, what is refused, and what it costs."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules.sitemaps import (
    Alternate,
    Entry,
    News,
    SitemapError,
    SitemapPolicy,
    interval_seconds,
    may_list,
    stream,
)
from tests.shared import shared

URL = "http://a.example/sitemap.xml"
NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def entries(body: bytes | str, **settings: int) -> list[Entry]:
    data = body.encode() if isinstance(body, str) else body
    return list(stream([data], url=URL, policy=SitemapPolicy(**settings)))


def urls(body: bytes | str, **settings: int) -> list[str]:
    return [entry.url for entry in entries(body, **settings)]


def urlset(*locs: str) -> str:
    return f"<urlset {NAMESPACE}>" + "".join(f"<url><loc>{loc}</loc></url>" for loc in locs) + "</urlset>"


def test_field_case_values_out_of_range_are_defaults_and_every_page_stays():
    case = json.loads(shared("field-cases/sitemap-values-out-of-range.json").read_text("utf-8"))
    given_, expect = case["input"], case["expect"]
    now_ms = round(datetime.fromisoformat(given_["now"].replace("Z", "+00:00")).timestamp() * 1000)
    policy = SitemapPolicy(
        min_interval_seconds=given_["configured"]["min_interval_s"],
        max_interval_seconds=given_["configured"]["max_interval_s"],
    )
    found = list(stream([given_["sitemap"].encode()], url=URL, policy=policy, now_ms=now_ms))
    assert len(found) == expect["eligible"]
    assert [entry.lastmod for entry in found] == expect["lastmod_used"]
    assert [entry.priority for entry in found] == [0.0, 0.5, 0.5, 0.5, 0.5]
    low, high = expect["interval_s_within"]
    hints = [interval_seconds(policy, changefreq=entry.changefreq) for entry in found]
    assert hints == [None, None, low, high, None]


def test_an_entry_holds_what_the_extensions_say():
    body = f"""<urlset {NAMESPACE} xmlns:image="i" xmlns:video="v" xmlns:news="n" xmlns:xhtml="x"><url>
      <loc> http://a.example/p?a=1&amp;b=2 </loc><lastmod>2024-05-06T07:08:09+02:00</lastmod>
      <changefreq>Daily</changefreq><priority>0.9</priority>
      <image:image><image:loc>/i.png</image:loc><image:title>loc</image:title></image:image>
      <video:video><video:content_loc>http://v.example/v.mp4</video:content_loc></video:video>
      <xhtml:link rel="alternate" hreflang="de" href="http://a.example/de"/>
      <xhtml:link rel="canonical" href="http://a.example/other"/>
      <news:news><news:publication><news:name>N</news:name><news:language>en</news:language></news:publication>
      <news:publication_date>2024-05-06</news:publication_date><news:title>T &lt;b></news:title></news:news>
    </url></urlset>"""
    assert entries(body) == [
        Entry(
            "http://a.example/p?a=1&b=2",
            datetime(2024, 5, 6, 5, 8, 9, tzinfo=UTC),
            "daily",
            0.9,
            "url",
            (Alternate("http://a.example/de", "de"),),
            ("http://a.example/i.png",),
            ("http://v.example/v.mp4",),
            News("T <b>", "N", "en", datetime(2024, 5, 6, tzinfo=UTC)),
        )
    ]


@pytest.mark.parametrize(
    "root",
    [
        "<urlset>",
        f"<urlset {NAMESPACE}>",
        '<urlset xmlns="http://www.google.com/schemas/sitemap/0.84">',
        "<s:urlset>",
        "\n \t<?xml version='1.0'?><urlset>",
        "<?xml version='1.0' encoding='utf8;'?><URLSET>",
        "<?xml version='1.0' encoding='utf-7'?><urlset>",
        "<?xml-stylesheet href='http://127.0.0.1/x.xsl'?><!-- < & > --><urlset>",
        "<!DOCTYPE urlset SYSTEM 'http://127.0.0.1:9/x.dtd'><urlset>",
    ],
)
def test_missing_and_wrong_namespaces_declarations_and_spaces_do_not_matter(root: str):
    assert urls(root + "<url><loc>http://a.example/1</loc></url>") == ["http://a.example/1"]


def test_bare_ampersands_and_unknown_entities_are_text():
    body = urlset(
        "http://a.example/?a=1&b=2&nbsp;&amp;c", "<![CDATA[http://a.example/?x&y]]>", "http://a.example/&#38;"
    )
    assert urls(body) == ["http://a.example/?a=1&b=2&nbsp;&c", "http://a.example/?x&y", "http://a.example/&"]


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-8-sig", "latin-1"])
def test_encodings_are_obeyed(codec: str):
    mark = "\ufeff" if codec.startswith("utf-16") else ""
    name = "iso-8859-1" if codec == "latin-1" else codec[:6].rstrip("-")
    body = f"{mark}<?xml version='1.0' encoding='{name}'?>" + urlset("http://a.example/ü")
    assert urls(body.encode(codec)) == ["http://a.example/%C3%BC"]


def test_text_sitemaps_are_lines_of_whole_addresses():
    body = "\ufeffhttp://a.example/1\r\n\r\n  HTTPS://b.example/2 \rwww.c.example/3\nftp://d.example/\nhttp://a.example/4"
    assert urls(body) == ["http://a.example/1", "https://b.example/2", "http://a.example/4"]


def test_what_looks_like_a_declaration_in_a_text_is_text():
    assert urls(urlset("http://a.example/?<![CDATA[<!DOCTYPE <!ENTITY]]>")) == [
        "http://a.example/?%3C!DOCTYPE%20%3C!ENTITY"
    ]


def test_an_index_lists_sitemaps_also_without_loc():
    body = f"<sitemapindex {NAMESPACE}><sitemap><loc>/s1.xml</loc></sitemap><sitemap> http://b.example/s2 </sitemap>"
    assert [(entry.url, entry.kind) for entry in entries(body)] == [
        ("http://a.example/s1.xml", "sitemap"),
        ("http://b.example/s2", "sitemap"),
    ]


def test_feeds_list_their_items():
    rss = "<rss><channel><link>/home</link><item><link>/1</link><pubDate>Thu, 05 Jan 17 12:34:54 GMT</pubDate></item>"
    atom = '<feed><link href="/"/><entry><link rel="self" href="/x"/><link href="/2"/><updated>2024</updated></entry>'
    assert [(e.url, e.lastmod) for body in (rss, atom) for e in entries(body)] == [
        ("http://a.example/1", datetime(2017, 1, 5, 12, 34, 54, tzinfo=UTC)),
        ("http://a.example/2", datetime(2024, 1, 1, tzinfo=UTC)),
    ]


@pytest.mark.parametrize("half", ["&#55357;&#56832;", "&#xD83D;", "&#xdc00;", "&#0;", "&#x110000;"])
def test_a_reference_to_half_a_pair_or_to_no_character_spoils_nothing_else(half: str):
    rss = f"<rss a='{half}'><channel><title>{half}</title><item><title>{half}</title><link>/1</link></item></channel>"
    assert urls(rss) == ["http://a.example/1"]
    assert urls(f"<urlset a='{half}'><url><loc>/{half}</loc></url><url><loc>/2</loc></url></urlset>")[1:] == [
        "http://a.example/2"
    ]
    body = f"\ufeff<urlset><url><loc>/1</loc></url><url><loc>/{half}</loc></url></urlset>".encode("utf-16-le")
    found = []
    try:
        for entry in stream([body], url=URL):
            found.append(entry.url)
    except SitemapError:
        pass  # wide text is not mended; what came before may stand
    assert found in ([], ["http://a.example/1"]) or found[0] == "http://a.example/1"


def test_utf_16_that_is_declared_and_not_there_is_not_believed():
    """As .NET's StringWriter declares what is then written as UTF-8."""
    body = "<?xml version='1.0' encoding='utf-16'?>" + urlset("http://a.example/ü")
    assert urls(body) == ["http://a.example/%C3%BC"]


@pytest.mark.parametrize(
    "item",
    [
        '<entry><source><link href="/source"/></source><link href="/1"/></entry>',
        '<entry><content type="xhtml"><div><link rel="alternate" href="/c"/></div></content><link href="/1"/></entry>',
        '<entry><link rel="http://www.iana.org/assignments/relation/alternate" href="/1"/><id>tag:x</id></entry>',
    ],
)
def test_the_link_of_an_entry_is_its_own(item: str):
    assert urls(f"<feed>{item}</feed>") == ["http://a.example/1"]


def test_the_link_of_rss_goes_before_that_of_atom_within_it():
    atom = '<atom:link href="http://hub.example/"/>'
    assert urls(f"<rss><channel><item>{atom}<link>/1</link></item></channel></rss>") == ["http://a.example/1"]
    assert urls(f"<rss><channel><item>{atom}</item></channel></rss>") == ["http://hub.example/"]


@pytest.mark.parametrize(
    ("feed", "found"),
    [
        ('<feed xml:base="http://b.example/x/"><entry><link href="1"/></entry></feed>', ["http://b.example/x/1"]),
        (
            '<feed xml:base="/x/"><entry xml:base="y/"><link href="1"/></entry><entry><link href="2"/></entry></feed>',
            ["http://a.example/x/y/1", "http://a.example/x/2"],
        ),
        ('<feed><entry><link xml:base="/own/" href="1"/><content xml:base="/c/"/></entry></feed>', ["http://a.example/own/1"]),
        ('<feed xml:base="mailto:x"><entry><link href="/1"/></entry></feed>', ["http://a.example/1"]),
        ('<rss xml:base="http://b.example/"><channel><item><link>/1</link></item></channel></rss>', ["http://b.example/1"]),
        (
            '<rss><channel><item><link xml:base="/in/">1</link><a:link xml:base="/hub/" href="h"/></item></channel></rss>',
            ["http://a.example/in/1"],
        ),
        ('<feed>' + '<a xml:base="deep/">' * 3_000 + '<entry><link href="1"/></entry></feed>', []),
    ],
)  # fmt: skip
def test_what_a_feed_calls_its_base_is_what_its_links_start_from(feed: str, found: list[str]):
    """RFC 4287 section 2; relative to the base around it (XML Base, 4.3)."""
    assert urls(feed) == found


LAUGHS = "<!DOCTYPE urlset [<!ENTITY a 'lol'>" + "".join(
    f"<!ENTITY {name} '{f'&{before};' * 10}'>" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
BOMBS = {
    "billion laughs": LAUGHS + "]><urlset><url><loc>http://a.example/&i;</loc></url></urlset>",
    "laughs in an attribute": LAUGHS + "]><urlset a='&i;'><url><loc>http://a.example/</loc></url></urlset>",
    "external entity": "<!DOCTYPE u [<!ENTITY x SYSTEM 'file:///etc/hostname'>]>"
    + urlset("http://a.example/&x;"),
    "parameter entity": "<!DOCTYPE u [<!ENTITY % x SYSTEM 'http://127.0.0.1:9/x'> %x;]>"
    + urlset("http://a.example/"),
    "entity behind a comment": "<!-- <a> --><?p <b> ?><!DOCTYPE u [<!-- <c> --><!ENTITY x 'y'>]><urlset/>",
    "no root": "<!--" + "x" * 1_000_000 + "-->" + urlset("http://a.example/"),
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
@pytest.mark.parametrize("codec", ["utf-8", "utf-16"])
@pytest.mark.parametrize("piece", [1_000, 10_000_000])
def test_xml_bombs_and_external_entities_are_refused(bomb: str, codec: str, piece: int):
    body = bomb.encode(codec)
    with pytest.raises(SitemapError):
        list(stream((body[at : at + piece] for at in range(0, len(body), piece)), url=URL))


@pytest.mark.parametrize(
    "body", ["<html><body>x", "<!DOCTYPE html><p>x", "just words", "\x89PNG\r\n", "<", "<!-- x -->"]
)
def test_what_is_no_sitemap_is_refused(body: str):
    with pytest.raises(SitemapError):
        entries(body)


@pytest.mark.parametrize("body", [b"", b" \r\n", b"\0\0", b"\xef\xbb\xbf", gzip.compress(b"", mtime=0)])
def test_nothing_lists_nothing(body: bytes):
    assert entries(body) == []


def pages(count: int) -> Iterator[bytes]:
    yield f"<?xml version='1.0' encoding='UTF-8'?><urlset {NAMESPACE}>".encode()
    for first in range(0, count, 100):
        yield b"".join(
            b"<url><loc>http://a.example/page/%d</loc><lastmod>2024-01-02</lastmod><priority>0.5</priority></url>"
            % n
            for n in range(first, first + 100)
        )
    yield b"</urlset>"


def peak_bytes(chunks: Iterable[bytes]) -> tuple[int, int]:
    tracemalloc.start()
    count = sum(1 for _ in stream(chunks, url=URL))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return count, peak


def test_50000_entries_are_read_in_a_few_megabytes():
    """Measured: 0.1 MB in small chunks, 0.7 MB in chunks of 64 KiB; 15 µs an entry."""
    count, peak = peak_bytes(list(pages(50_000)))
    assert count == 50_000
    assert peak < 4_000_000


def test_a_gzip_bomb_stops_at_the_decoded_limit_in_a_few_megabytes():
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = packer.compress(urlset("http://a.example/1").encode() + b"<!--")
    bomb += b"".join(packer.compress(b" " * 1_000_000) for _ in range(100)) + packer.flush()
    count, peak = peak_bytes([bomb])
    assert count == 1
    assert peak < 4_000_000 + len(bomb)


def test_reading_stops_at_the_limits():
    body = b"".join(pages(1_000))
    assert len(urls(body, max_entries=10)) == 10
    assert 0 < len(urls(body, max_bytes=5_000)) < 60
    assert urls(urlset("http://a.example/" + "x" * 3_000, "http://a.example/1")) == ["http://a.example/1"]
    assert urls("http://a.example/" + "x" * 300_000 + "\nhttp://a.example/1") == ["http://a.example/1"]


def test_addresses_that_cannot_be_asked_are_passed_over():
    assert urls(urlset("", "mailto:a@b.example", "javascript:1", "http://", "ftp://a.example/", "/ok")) == [
        "http://a.example/ok"
    ]


@given(st.integers(0, 400), st.binary(max_size=20))
def test_a_cut_off_file_yields_a_beginning_of_its_entries(cut: int, rubbish: bytes):
    body = urlset("http://a.example/1", "http://a.example/2", "http://a.example/3").encode()
    whole = urls(body)
    try:
        found = urls(body[:cut])
    except SitemapError:
        found = []
    assert found == whole[: len(found)]
    assert urls(body + rubbish)[:3] == whole


@given(
    st.binary(max_size=300),
    st.sampled_from([b"", b"<urlset><url><loc>", b"<rss>", b"\x1f\x8b", b"\xff\xfe<\0"]),
)
def test_no_bytes_raise_anything_but_a_sitemap_error(rubbish: bytes, start: bytes):
    try:
        entries(start + rubbish)
    except SitemapError:
        pass


@pytest.mark.parametrize(
    ("sitemap", "url", "inside"),
    [
        ("http://a.example/sitemap.xml", "http://a.example/x/y", True),
        ("http://a.example/x/sitemap.xml", "http://a.example/x/y", True),
        ("http://a.example/x/sitemap.xml", "http://a.example/xy", False),
        ("http://a.example:80/sitemap.xml", "http://A.example", True),
        ("http://a.example:8080/sitemap.xml", "http://a.example/", False),
        ("http://a.example/sitemap.xml", "https://a.example/", False),
        ("http://a.example/sitemap.xml", "http://www.a.example/", False),
        ("http://a.example:x/sitemap.xml", "http://a.example:y/", False),
    ],
)
def test_a_sitemap_speaks_for_its_folder_unless_the_hosts_robots_txt_names_it(
    sitemap: str, url: str, inside: bool
):
    assert may_list(sitemap, url, robots_listed=False) is inside
    assert may_list(sitemap, url, robots_listed=True)
