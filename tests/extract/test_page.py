"""What is read of a page's bytes."""

from __future__ import annotations

import pytest

from pipelines.extract.page import extract, language_of, main_text
from pipelines.rules import dedup

ENGLISH = "The wheel turns and the buckets come up full of water from the lake below the old mill. " * 3
PAGE = f"""<!doctype html><html lang=en-GB><head><title> The  wheel </title>
<meta name=description content="On wheels"><link rel=canonical href="/wheel"></head>
<body><nav><a href=/>Home</a> <a href=/all>All wheels</a></nav><main><h1>The wheel</h1><p>{ENGLISH}</p></main>
<script>var text = "not to be read";</script><footer>Imprint</footer></body></html>"""


def read(body: bytes, content_type: str | None = "text/html"):
    return extract(body, url="http://a.test/x", content_type=content_type, link_header=None)


def test_a_page_is_read_whole() -> None:
    page = read(PAGE.encode())
    assert page is not None
    assert (page.title, page.description, page.canonical) == ("The wheel", "On wheels", "http://a.test/wheel")
    assert (page.language, page.language_declared) == ("en", "en-GB")
    assert page.text is not None and "buckets" in page.text
    assert "not to be read" not in page.text and "All wheels" not in page.text
    assert page.words == len(dedup.word_hashes(page.text))
    assert page.simhash is not None and page.simhash % 2**64 == dedup.simhash(page.text)
    assert page.problem is None


def test_text_is_decoded_from_what_the_page_says() -> None:
    page = read("<meta charset=windows-1251><p>Колесо поднимает воду из озера".encode("cp1251"))
    assert page is not None and page.text == "Колесо поднимает воду из озера" and page.language == "ru"


def test_plain_text_is_read_and_other_types_are_not() -> None:
    page = read(b"A plain  text.\n\nSecond line.", "text/plain")
    assert page is not None and page.text == "A plain text.\nSecond line." and page.title is None
    assert read(b"%PDF-1.7 ...", "application/pdf") is None
    assert read(b"\x89PNG\r\n\x1a\n", "image/png") is None


@pytest.mark.parametrize(
    ("body", "problem"), [(b" ", "empty"), (b"<div>" * 100_000, "nesting"), (b"<p>\0\1\2\3" * 500, "binary")]
)
def test_what_cannot_be_read_says_why(body: bytes, problem: str) -> None:
    page = read(body)
    assert page is not None and page.problem == problem and page.text is None and page.language is None


def test_a_page_without_words_has_no_language() -> None:
    page = read(b"<title>x</title><body><img src=a.png>")
    assert page is not None and (page.text, page.words, page.language, page.simhash) == ("", 0, None, None)


def test_a_long_text_is_cut() -> None:
    page = read(f"<p>{'wheel ' * 100_000}".encode())
    assert page is not None and page.text is not None and len(page.text) <= 100_000


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (ENGLISH, "en"),
        ("Das Rad dreht sich und hebt das Wasser aus dem See unter der alten Mühle.", "de"),
        ("La rueda gira y levanta el agua del lago bajo el viejo molino.", "es"),
        ("水車は回り、古い水車小屋の下の湖から水をくみ上げる。", "ja"),
    ],
)
def test_languages_are_told(text: str, language: str) -> None:
    assert language_of(text)[0] == language


def test_the_language_is_not_told_by_the_first_words_only() -> None:
    assert language_of("Le Monde: " + ENGLISH * 2)[0] == "en"


def test_blocks_become_lines() -> None:
    assert main_text("<main><p>one<p>two  three</main>").splitlines() == ["one", "two three"]
