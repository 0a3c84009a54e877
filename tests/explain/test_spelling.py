"""From the URL asked about to the key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.explain.spelling import spelling_of
from pipelines.rules import urls


def test_each_step_that_changes_the_url_is_told_in_order() -> None:
    found = spelling_of("HTTP://A.example/%7Eb?utm_source=x&c=1#top", 8)
    assert found is not None
    assert [one.step for one in found.steps] == ["parser", "fragment", "escapes", "tracking"]
    assert found.steps[-1].after == found.canonical == "http://a.example/~b?c=1"
    assert found.wire == "http://a.example/%7Eb?utm_source=x&c=1"


def test_a_plain_url_has_no_steps_and_a_missing_scheme_is_taken_as_https() -> None:
    plain = spelling_of("https://a.example/b", 8)
    assert plain is not None and plain.steps == ()
    assert spelling_of("a.example/b", 8).key == plain.key  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["", "ftp://a.example/", "mailto:a@b.example", "http://", "https://a b/"])
def test_what_is_no_web_address_has_none(text: str) -> None:
    assert spelling_of(text, 8) is None


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30), st.sampled_from([1, 8, 64]))
def test_key_and_bucket_are_those_of_the_crawl(tail: str, buckets: int) -> None:
    found = spelling_of(f"http://a.example/{tail}", buckets)
    if found is not None:
        assert found.key == urls.url_key(found.wire)
        assert found.canonical == urls.canonical(found.wire)
        assert not found.steps or found.steps[-1].after == found.canonical
        assert found.bucket == urls.bucket_of(found.key, buckets)
