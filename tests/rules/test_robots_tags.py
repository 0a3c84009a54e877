"""X-Robots-Tag and meta robots."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules.robots import RobotsTags, page_tags

CASES = [
    ([], ""),
    (["all"], ""),
    (["index, follow"], ""),
    (["noindex"], "i"),
    (["NOINDEX,NOFOLLOW"], "if"),
    (["none"], "if"),
    (["None "], "if"),
    (["noindex nofollow"], "if"),
    (["noindex;noarchive"], "ia"),
    (["nocache"], "a"),
    (["all", "nofollow"], "f"),
    (["index, noindex"], "i"),
    (["noria: noindex"], "i"),
    (["NORIA: none, noarchive"], "ifa"),
    (["otherbot: noindex, nofollow"], ""),
    (["otherbot: noindex, noria: nofollow"], "f"),
    (["otherbot: noindex", "noarchive"], "a"),
    (["robots: noindex"], "i"),
    (["max-snippet:20, noindex"], "i"),
    (["max-image-preview: large"], ""),
    (["noindexx, xnoindex"], ""),
    (["noindex\nnofollow"], "if"),
    (["", ",,;", ":", "noria:"], ""),
]


@pytest.mark.parametrize(("values", "forbidden"), CASES)
def test_words_forbid_what_they_say_whatever_their_case_and_separators(values: list[str], forbidden: str):
    tags = page_tags(values, "Noria")
    assert tags == RobotsTags("i" in forbidden, "f" in forbidden, "a" in forbidden)


@pytest.mark.parametrize(
    "value",
    [
        "unavailable_after: 25 Jun 2010 15:00:00 PST",
        "Unavailable_After: Friday, 25-Jun-10 23:00:00 GMT, noindex",
        "noindex, unavailable_after: Fri, 25 Jun 2010 23:00:00 GMT",
        "unavailable_after: 2010-06-25T23:00:00Z",
        "noria: unavailable_after: 25 Jun 2010 23:00:00 GMT",
    ],
)
def test_unavailable_after_is_a_date_in_any_form(value: str):
    assert page_tags([value], "noria").unavailable_after_ms == 1_277_506_800_000


def test_unavailable_after_of_others_or_without_a_date_is_nothing():
    values = ["otherbot: unavailable_after: 25 Jun 2010 15:00:00 PST", "unavailable_after: soon"]
    assert page_tags(values, "noria") == RobotsTags()


@given(st.lists(st.text(max_size=60), max_size=5))
def test_no_value_raises(values: list[str]):
    page_tags(values, "noria")
