"""Dates as the web writes them, in epoch milliseconds: HTTP headers, feeds, and the W3C profile of ISO 8601."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_ZONES = {
    "": 0, "gmt": 0, "utc": 0, "ut": 0, "z": 0,
    "est": -300, "edt": -240, "cst": -360, "cdt": -300, "mst": -420, "mdt": -360, "pst": -480, "pdt": -420,
}  # fmt: skip
"""Named zones of RFC 822, in minutes east of UTC."""

_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?"
_RFC1123 = re.compile(
    rf"(?:[a-z]+,?\s+)?(?P<day>\d{{1,2}})[ -](?P<month>[a-z]{{3}})[a-z]*\.?[ -](?P<year>\d{{4}}|\d{{2}})\s+{_TIME}"
    r"(?:\s*(?P<zone>[a-z]{1,4}|[+-]\d{2}:?\d{2}))?",
    re.IGNORECASE | re.ASCII,
)  # also RFC 850, whose day and month are joined by hyphens
_ASCTIME = re.compile(
    rf"[a-z]{{3}}\s+(?P<month>[a-z]{{3}})\s+(?P<day>\d{{1,2}})\s+{_TIME}\s+(?P<year>\d{{4}})(?P<zone>)",
    re.IGNORECASE | re.ASCII,
)
_W3C = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d{2})(?:-(?P<day>\d{2})(?:[Tt ](?P<hour>\d{2}):(?P<minute>\d{2})"
    r"(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?\s*(?P<zone>[Zz]|[+-]\d{2}:?\d{2})?)?)?)?",
    re.ASCII,
)


_FIRST = datetime(1, 1, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)


def http_date_ms(text: str) -> int | None:
    """Return an HTTP date (RFC 9110 5.6.7: IMF-fixdate, RFC 850 or asctime) as epoch ms, None if it is none.

    Feeds' dates (RFC 822) are read too: the weekday may lack, the year may have two digits (RFC 850's rule:
    70 to 99 are 19xx), the zone may be a name or an offset.

    >>> http_date_ms("Sun, 06 Nov 1994 08:49:37 GMT") == http_date_ms("Sunday, 06-Nov-94 08:49:37 GMT")
    True
    """
    text = text.strip()[:64]
    found = _RFC1123.fullmatch(text) or _ASCTIME.fullmatch(text)
    if found is None or found["month"].lower() not in _MONTHS:
        return None
    year = int(found["year"])
    if len(found["year"]) == 2:
        year += 1900 if year >= 70 else 2000
    month = _MONTHS.index(found["month"].lower()) + 1
    offset = _offset_minutes(found["zone"] or "")
    clock = (int(found["hour"]), int(found["minute"]), int(found["second"] or 0), 0)
    return None if offset is None else _epoch_ms((year, month, int(found["day"])), clock, offset)


def w3c_date_ms(text: str) -> int | None:
    """Return a W3C date (from `1997` to `1997-07-16T19:20:30.45+01:00`) as epoch ms, None if it is none.

    What lacks is the first month, day or midnight; a time without a zone is UTC.
    """
    found = _W3C.fullmatch(text.strip()[:64])
    if found is None:
        return None
    offset = _offset_minutes(found["zone"] or "")
    day = (int(found["year"]), int(found["month"] or 1), int(found["day"] or 1))
    fraction_ms = int((found["fraction"] or "").ljust(3, "0")[:3])
    clock = (int(found["hour"] or 0), int(found["minute"] or 0), int(found["second"] or 0), fraction_ms)
    return None if offset is None else _epoch_ms(day, clock, offset)


def if_modified_since(last_modified: str | None) -> str | None:
    """Return what to send back of a Last-Modified header; None = it is no usable date, so no condition is made.

    Always an IMF-fixdate (RFC 9110 13.1.3, 5.6.7), whichever of the web's formats came: some servers read no
    other. A date of 1970 or before is a server's "not known".

    >>> if_modified_since("Thu, 12-Dec-19 20:00:57 GMT")
    'Thu, 12 Dec 2019 20:00:57 GMT'
    """
    if not last_modified:
        return None
    ms = http_date_ms(last_modified)
    if ms is None and "-" in last_modified:
        ms = w3c_date_ms(last_modified)
    return format_datetime(utc_of(ms), usegmt=True) if ms is not None and ms > 0 else None


def utc_of(ms: int) -> datetime:
    """Return epoch milliseconds as an aware UTC datetime."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def _offset_minutes(zone: str) -> int | None:
    if zone[:1] not in ("+", "-") or not zone:
        return _ZONES.get(zone.lower())
    digits = zone[1:].replace(":", "")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return minutes if zone[0] == "+" else -minutes


def _epoch_ms(day: tuple[int, int, int], clock: tuple[int, int, int, int], offset_minutes: int) -> int | None:
    """Return epoch ms; None for a day or time that does not exist, or that no UTC time of the years 1 to 9999 is.

    Second 60 (a leap second) counts as 59.
    """
    hour, minute, second, ms = clock
    try:
        zone = timezone(timedelta(minutes=offset_minutes))
        moment = datetime(*day, hour, minute, 59 if second == 60 else second, tzinfo=zone)
    except (ValueError, OverflowError):
        return None
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    if not _FIRST <= since <= _LAST:
        return None
    return (since.days * 86_400 + since.seconds) * 1000 + ms
