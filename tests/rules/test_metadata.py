"""Metadata: what is inherited, what a sitemap adds, which label a budget goes by."""

from __future__ import annotations

import datetime as dt
import re

from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules import metadata

TEXTS = st.dictionaries(st.text(max_size=8), st.text(max_size=8) | st.integers() | st.booleans(), max_size=5)
WORDS = st.sampled_from([None, "daily", "never"])
TIMES = st.none() | st.datetimes(dt.datetime(1960, 1, 1), dt.datetime(2200, 1, 1), timezones=st.just(dt.UTC))


@given(TEXTS, TIMES, WORDS, st.floats(0, 1))
def test_what_a_sitemap_says_is_read_back_and_never_inherited(
    meta: dict[str, object], lastmod: dt.datetime | None, changefreq: str | None, priority: float
) -> None:
    meta = {name: value for name, value in meta.items() if name not in metadata.OWN}
    text = metadata.written(meta)
    hinted = metadata.with_hints(text, lastmod=lastmod, changefreq=changefreq, priority=priority)
    assert metadata.inherited(hinted) == text
    hints = metadata.read(hinted).get("sitemap", {})
    assert hints.get("changefreq") == changefreq
    if "lastmod" in hints:
        found = re.search(metadata.LASTMOD_PATTERN, hinted or "")
        assert found and lastmod and int(found["lastmod"]) == int(lastmod.timestamp())
    if "priority" in hints and 0.001 < priority < 1:
        found = re.search(metadata.PRIORITY_PATTERN, hinted or "")
        assert found and abs(float(found["priority"]) - priority) < 0.001


@given(st.text(max_size=40))
def test_text_that_is_no_metadata_has_no_label(text: str) -> None:
    metadata.label_of(text)
    metadata.inherited(text)
    metadata.is_set(text, "feed")


def test_a_label_goes_before_country_and_topic() -> None:
    assert metadata.label_of('{"country":"dk","label":"x"}') == "x"
    assert metadata.label_of('{"country":"dk","topic":"news"}') == "dk/news"
    assert metadata.label_of("{}") is metadata.label_of(None) is None
