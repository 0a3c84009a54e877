"""Dates as the web writes them."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules.dates import http_date_ms, if_modified_since, utc_of, w3c_date_ms
from tests.shared import shared


def epoch_ms(text: str | None) -> int | None:
    if text is None:
        return None
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def test_21_dates_of_sitemaps_and_feeds_mean_what_they_say():
    rows = [json.loads(line) for line in shared("data/sitemaps/dates.jsonl").read_text("utf-8").splitlines()]
    assert len(rows) == 21
    for row in rows:
        read = w3c_date_ms if row["kind"] == "w3c" else http_date_ms
        assert read(row["input"]) == epoch_ms(row["expected"]), row


@pytest.mark.parametrize(
    "text", ["", "2024-13-01", "2024-02-30", "20240101", "yesterday", "2024-01-01T25:00Z", "0000"]
)
def test_what_is_no_w3c_date_is_none(text: str):
    assert w3c_date_ms(text) is None


@pytest.mark.parametrize(
    "text",
    ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-05:00", "0001-01-01T00:00:00+00:01"],
)
def test_a_moment_outside_the_calendar_once_it_is_utc_is_none(text: str):
    """.NET's DateTime.MinValue, as servers east of Greenwich write it."""
    assert w3c_date_ms(text) is None
    assert if_modified_since(text) is None


def test_the_ends_of_the_calendar_are_times():
    for text in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"):
        ms = w3c_date_ms(text)
        assert ms is not None and utc_of(ms).isoformat() == text.replace("Z", "+00:00")
    assert http_date_ms("Fri, 31 Dec 9999 23:59:59 EST") is None


@given(st.datetimes(datetime(1900, 1, 1), datetime(9999, 12, 31)))
def test_every_moment_survives_being_written_and_read(moment: datetime):
    moment = moment.replace(microsecond=0, tzinfo=UTC)
    ms = w3c_date_ms(moment.isoformat())
    assert ms is not None
    assert utc_of(ms) == moment
    assert http_date_ms(moment.strftime("%a, %d %b %Y %H:%M:%S GMT")) == ms
    assert http_date_ms(moment.ctime()) == ms


@given(st.text(max_size=70))
def test_no_text_raises(text: str):
    http_date_ms(text)
    w3c_date_ms(text)
