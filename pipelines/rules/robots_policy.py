"""What an answer to robots.txt means, how long it holds, and where it is asked for (RFC 9309 section 2.3)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from pipelines.rules.urls import parse

DAY_MS = 86_400_000


class RobotsState(StrEnum):
    """What is known of a site's rules."""

    RULES = "rules"  # the body that came is the rules
    ALLOW_ALL = "allow_all"  # the site has none (RFC 9309 2.3.1.3, "unavailable")
    UNREACHABLE = "unreachable"  # nobody knows: nothing may be asked (2.3.1.4)


@dataclass(frozen=True)
class RobotsPolicy:
    """How robots.txt is fetched and kept."""

    max_bytes: int = 512_000  # RFC 9309 2.5: at least 500 kibibytes
    ttl_seconds: int = 86_400  # 2.4: not longer than 24 hours
    redirects: int = 5  # 2.3.1.2: at least five hops
    unreachable_retry_seconds: int = 600  # first pause after an unreachable answer; doubles each time
    unreachable_retry_max_seconds: int = 86_400
    unreachable_days: int = 30  # 2.3.1.4: "a reasonably long period of time (for example, 30 days)"
    unreachable_after_days: RobotsState = RobotsState.UNREACHABLE  # then a crawler MAY take it as ALLOW_ALL


def robots_url(site: str) -> str:
    """Return where the robots.txt of a site lies; any URL of the site will do.

    >>> robots_url("https://a.example:8443/x/y?z")
    'https://a.example:8443/robots.txt'
    """
    parts = urlsplit(site)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/robots.txt"


def governs(robots: str, url: str) -> bool:
    """Return whether the robots.txt at `robots` governs `url`: both have one scheme, host and port.

    >>> governs("http://a.example/robots.txt", "http://A.example:80/x")
    True
    """
    ours, theirs = parse(robots), parse(url)
    if ours is None or theirs is None:
        return False
    return (ours.scheme, ours.host, ours.port) == (theirs.scheme, theirs.host, theirs.port)


def state_of(status: int | None) -> RobotsState:
    """Return what an answer with this status (after redirects) says of the rules; None = no answer came.

    429 means "not now" and counts as unreachable, as 5xx does; every other 4xx means that there are no rules. 304
    says nothing to somebody who set no condition, as we never do for robots.txt.
    A redirect that is left over (too many hops, no target) is as good as a 4xx (2.3.1.2: "MAY assume that the
    robots.txt file is unavailable"). 1xx and other numbers are no answer.

    >>> [state_of(status).value for status in (200, 404, 429, 503, None)]
    ['rules', 'allow_all', 'unreachable', 'unreachable', 'unreachable']
    """
    if status in (None, 304, 429):
        return RobotsState.UNREACHABLE
    if 200 <= status < 300:
        return RobotsState.RULES
    return RobotsState.ALLOW_ALL if 300 <= status < 500 else RobotsState.UNREACHABLE


def may_follow(policy: RobotsPolicy, *, hops: int) -> bool:
    """Return whether a redirect of robots.txt is followed when `hops` were followed before.

    Wherever the chain ends, what it ends with holds for the site that was asked and for it alone (2.3.1.2): the
    answer is stored under the first URL's site and never under the target's.
    """
    return hops < policy.redirects


def next_fetch_ms(policy: RobotsPolicy, *, state: RobotsState, fetched_ms: int, failures: int = 0) -> int:
    """Return when robots.txt is asked again (epoch ms).

    Known rules hold for `ttl_seconds`. After `failures` unreachable answers in a row (1 = the first) the pause
    is `unreachable_retry_seconds`, doubled each time, up to `unreachable_retry_max_seconds`.
    """
    if state is not RobotsState.UNREACHABLE:
        return fetched_ms + policy.ttl_seconds * 1000
    doubled = policy.unreachable_retry_seconds << min(max(failures - 1, 0), 32)
    return fetched_ms + min(doubled, policy.unreachable_retry_max_seconds) * 1000


def is_fresh(policy: RobotsPolicy, *, fetched_ms: int, now_ms: int) -> bool:
    """Return whether rules fetched at `fetched_ms` may still be used; a clock that jumped back makes them old."""
    return 0 <= now_ms - fetched_ms < policy.ttl_seconds * 1000


def effective_state(
    policy: RobotsPolicy, *, state: RobotsState, unreachable_since_ms: int, now_ms: int
) -> RobotsState:
    """Return the state that governs requests now.

    A site that stays unreachable for `unreachable_days` becomes `unreachable_after_days`, which by default
    changes nothing: nobody who cannot be asked has agreed. `unreachable_since_ms`: first failure of the streak.
    """
    long_gone = now_ms - unreachable_since_ms >= policy.unreachable_days * DAY_MS
    return policy.unreachable_after_days if state is RobotsState.UNREACHABLE and long_gone else state
