"""What a site's robots.txt says of a URL, by the copy that the lake holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lake.snapshot import Lake
from pipelines.explain import reads
from pipelines.rules import urls
from pipelines.rules.robots import Rules
from pipelines.rules.robots_policy import RobotsState, robots_url


@dataclass(frozen=True)
class RobotsVerdict:
    """verdict: allowed, denied, unreachable, or unknown (no copy yet). group, line: who says so; None = no line does.

    status: of the last answer. url: where the rules came from, after redirects. why: for people, a clause.
    """

    verdict: str
    why: str
    site: str
    url: str
    status: int | None = None
    group: str | None = None
    line: str | None = None
    line_no: int | None = None
    crawl_delay_ms: int | None = None
    fetched_at: datetime | None = None
    expires_at: datetime | None = None


def robots_verdict(
    lake: Lake, row: Mapping[str, Any] | None, url: str, product: str, most_bytes: int
) -> RobotsVerdict:
    """Return what robots.txt says of a URL in wire form. row: its host's, None if the lake has not met the host.

    most_bytes: of a robots.txt, how much is read.
    """
    site = urls.site_of(url)
    copy = next((one for one in (row or {}).get("robots") or () if one["site"] == site), None)
    if copy is None:
        return RobotsVerdict(
            "unknown", "not asked yet; it is asked before the site's first page", site, robots_url(site)
        )
    told = {
        "site": site,
        "url": copy["url"] or robots_url(site),
        "status": copy["status"],
        "fetched_at": copy["fetched_at"],
        "expires_at": copy["expires_at"],
    }
    state = RobotsState(copy["state"])
    if state is RobotsState.UNREACHABLE:
        return RobotsVerdict("unreachable", _unreachable(copy["status"]), **told)
    if state is RobotsState.ALLOW_ALL:
        return RobotsVerdict("allowed", f"the site has none (status {copy['status']})", **told)
    body = reads.robots_body(lake, copy["digest"])
    if body is None:
        return RobotsVerdict("unknown", "the lake's copy is gone; it is asked anew", **told)
    return judged(body, url, product, told, most_bytes)


def judged(body: bytes, url: str, product: str, told: Mapping[str, Any], most_bytes: int) -> RobotsVerdict:
    """Return what the rules of a robots.txt say of a URL. told: the verdict's other fields."""
    rules = Rules.parse(body, most_bytes)
    found = rules.allows(url, product)
    group = (
        "no group" if not found.group else f"group {'of everyone (*)' if found.group == '*' else found.group}"
    )
    line = f"line {found.line_no}: {found.line}" if found.line_no else "no line forbids it"
    return RobotsVerdict(
        "allowed" if found.allowed else "denied",
        f"{group}, {line}",
        group=found.group,
        line=found.line,
        line_no=found.line_no,
        crawl_delay_ms=rules.crawl_delay_ms(product),
        **told,
    )


def _unreachable(status: int | None) -> str:
    answer = f"answered {status}" if status else "did not answer"
    if status is not None and 200 <= status < 300:
        answer += ", but its text was cut off on the way or cannot be decoded"
    return f"it {answer}; while nobody knows what it allows, nothing is asked (RFC 9309, 2.3.1.4)"
