"""One URL: where it stands, how it came there, and what comes next (promise P8)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from lake.schema import FRONTIER_READY
from lake.snapshot import Lake
from pipelines.config import Settings
from pipelines.cycle import open as opening
from pipelines.cycle import policies
from pipelines.cycle.frontier import column, rank_rows
from pipelines.cycle.plugged import score_terms
from pipelines.cycle.turn import Turn
from pipelines.explain import reads
from pipelines.explain.admission import Admission, admission
from pipelines.explain.afoot import OpenCycle, in_inbox, open_cycle
from pipelines.explain.hosts import HostView, host_view, set_aside
from pipelines.explain.prospects import Place, Prospect, Reason, ms, prospect
from pipelines.explain.robots import RobotsVerdict, robots_verdict
from pipelines.explain.spelling import Spelling, spelling_of
from pipelines.rules import priority, urls


@dataclass(frozen=True)
class Score:
    """The score that the next cycle would give a URL, its terms by the names of [score], and the band it makes."""

    score: float
    band: int
    terms: dict[str, float]


@dataclass(frozen=True)
class UrlView:
    """All that `noria explain` tells of a URL. shelf None = never admitted; spelling None = no http(s) URL."""

    asked: str
    now_ms: int
    cycle: int
    committed_at: datetime | None
    spelling: Spelling | None
    shelf: str | None = None
    row: dict[str, Any] | None = None
    since: datetime | None = None
    score: Score | None = None
    place: Place | None = None
    host: HostView | None = None
    robots: RobotsVerdict | None = None
    admission: Admission | None = None
    captures: tuple[dict[str, Any], ...] = ()
    captures_from: int = 0
    """The oldest cycle that was looked into for captures; 0 = none needed to be."""
    inbox: int = 0
    """Mentions of the URL in the inbox."""
    inbox_unread: int = 0
    """Inbox files that were too large to be looked through."""
    known_as: tuple[str, ...] = ()
    """Other spellings of a URL never admitted (scheme, www, last slash) that the lake has admitted."""
    special: str | None = None
    """robots or sitemap: a URL that is asked for its host's sake, outside the frontier."""
    open_cycle: OpenCycle | None = None
    next: Prospect | None = None


def explain_url(lake: Lake, settings: Settings, asked: str, *, now_ms: int, most: int = 5) -> UrlView:
    """Return what became of a URL and why, as of the last committed cycle and the clock `now_ms`.

    most: captures to tell. Nothing is fetched, nothing is written. Raises LakeError where files are damaged.
    """
    spelling = spelling_of(asked, lake.buckets)
    turn = opening.next_turn(lake, settings, slots=_slots(settings), now_ms=now_ms)
    view = UrlView(asked, now_ms, lake.cycle, _committed_at(lake, lake.cycle), spelling)
    if spelling is None:
        refused = Prospect("refused", "nothing: it is no http(s) URL, and no other is crawled")
        return replace(view, next=refused)
    host = host_view(lake, turn, spelling.host)
    view = replace(
        view,
        host=host,
        robots=robots_verdict(
            lake, host.row, spelling.wire, settings.identity.product, settings.robots.max_bytes
        ),
        open_cycle=open_cycle(lake, spelling),
        special=_special(spelling, host),
    )
    found = reads.shelf_of(lake, spelling.key) if reads.was_admitted(lake, spelling.key) else None
    if found is None:
        return _stranger(lake, settings, view, spelling, turn)
    return _known(lake, settings, view, spelling, turn, *found, most=most)


def _known(
    lake: Lake, settings: Settings, view: UrlView, spelling: Spelling, turn: Turn, shelf: str,
    row: dict[str, Any], *, most: int,
) -> UrlView:  # fmt: skip
    assert view.host is not None and view.robots is not None
    place = _place(turn, view.host, spelling.key) if shelf in ("ready", "later") else None
    trap = set_aside(turn, view.host.row, row["url"]) if view.host.row else None
    blocks = [
        *view.host.blocks,
        *_site_blocks(view.robots, settings, turn.opened_ms),
        *([trap] if trap else []),
    ]
    cycles = _cycles_with_captures(lake, row)
    captures, oldest = reads.captures_of(lake, {row["url"], spelling.wire}, spelling.key, cycles, most=most)
    return replace(
        view,
        shelf=shelf,
        row=row,
        since=_committed_at(lake, row["shelf_cycle"]),
        score=_score(turn, view.host, spelling.key, row),
        place=place,
        admission=admission(
            settings, row["url"], year=turn.opened_at.year, depth=row["depth"], meta=row["meta"]
        ),
        captures=tuple(captures),
        captures_from=oldest,
        next=prospect(shelf, row, now_ms=turn.opened_ms, blocks=blocks, place=place, ready=view.host.ready),
    )


def _stranger(lake: Lake, settings: Settings, view: UrlView, spelling: Spelling, turn: Turn) -> UrlView:
    """A URL that was never admitted: who refuses it, or who has not mentioned it yet."""
    judged = admission(settings, spelling.wire, year=turn.opened_at.year)
    mentions, unread = in_inbox(lake, spelling.key)
    captures: list[dict[str, Any]] = []
    oldest = 0
    if view.special:
        cycles = list(range(lake.cycle, 0, -1))
        captures, oldest = reads.captures_of(lake, {spelling.wire}, spelling.key, cycles, most=3)
    return replace(
        view,
        admission=judged,
        known_as=tuple(one for one in variants(spelling.wire) if _admitted(lake, one)),
        inbox=mentions,
        inbox_unread=unread,
        captures=tuple(captures),
        captures_from=oldest,
        next=_stranger_prospect(turn, view, judged, mentions),
    )


def _admitted(lake: Lake, url: str) -> bool:
    return reads.was_admitted(lake, urls.url_key(url))


def variants(url: str) -> list[str]:
    """Return the URL with the other scheme, with or without www., and with or without its last slash.

    >>> variants("http://a.test/b")
    ['https://a.test/b', 'http://www.a.test/b', 'http://a.test/b/']
    """
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    other = "http" if scheme == "https" else "https"
    named = host.removeprefix("www.") if host.startswith("www.") else f"www.{host}"
    toggled = path.removesuffix("/") if path.endswith("/") else f"{path}/"
    found = [f"{other}://{rest}", f"{scheme}://{named}{slash}{path}"]
    return [*found, f"{scheme}://{host}/{toggled}"] if path and "?" not in path else found


def _stranger_prospect(turn: Turn, view: UrlView, judged: Admission, mentions: int) -> Prospect:
    if view.special == "robots":
        return Prospect(
            "ask", "it is asked before its site's next page, once the copy is older than its time"
        )
    if view.special == "sitemap":
        return Prospect("ask", "it is asked again when it is due, between its host's pages")
    if judged.refusal is not None:
        why = Reason(judged.refusal.rule, f"rule {judged.refusal.rule}: {judged.refusal.detail}")
        return Prospect(
            "refused", "nothing: the rule would refuse it again, wherever it is found", because=(why,)
        )
    trap = (
        set_aside(turn, view.host.row, view.spelling.wire)
        if view.host and view.host.row and view.spelling
        else None
    )
    if trap is not None:
        return Prospect("refused", "found anew, it would be retired at once", because=(trap,))
    if mentions:
        return Prospect("take_in", "the next cycle takes it in from the inbox, and may ask it at once")
    return Prospect(
        "add",
        "nothing, until it is brought with noria seeds add, or a link to it is taken: of a page that is crawled and does not "
        "say nofollow, among its first [limits] links_per_page, and where the seed lets links lead (stay)",
    )


def _slots(settings: Settings) -> int:
    return max(settings.cluster.workers, 1)


def _committed_at(lake: Lake, cycle: int) -> datetime | None:
    """Return when a cycle was committed, None if it never was."""
    row = opening.committed(lake.root, cycle) if cycle else None
    return row.written_at if row else None


def _special(spelling: Spelling, host: HostView) -> str | None:
    if spelling.wire.endswith("/robots.txt") and spelling.wire.count("/") == 3:
        return "robots"
    listed = (host.row or {}).get("sitemaps") or ()
    return "sitemap" if any(one["url"] == spelling.wire for one in listed) else None


def _site_blocks(robots: RobotsVerdict, settings: Settings, now_ms: int) -> list[Reason]:
    if robots.verdict == "denied":
        days = settings.retry.robots_denied_seconds / 86_400
        return [
            Reason(
                "robots_denied",
                f"robots.txt forbids it ({robots.why}); when its turn comes that is noted, no request is made, and it is looked "
                f"at again after {days:g} days",
            )
        ]
    if robots.verdict == "unreachable" and ms(robots.expires_at) > now_ms:
        return [
            Reason("robots_unreachable", f"robots.txt of {robots.site}: {robots.why}", ms(robots.expires_at))
        ]
    return []


def _place(turn: Turn, host: HostView, key: int) -> Place | None:
    """Return the URL's place in its host's queue by the next cycle's draw; None if it does not wait in it."""
    rows = host.waiting
    keys = column(rows, "url_key")
    at = np.flatnonzero(keys == key)
    if not len(at):
        return None
    _, band = rank_rows(turn, rows, host_score=_host_score(host, rows.num_rows))
    drawn = priority.choice_keys(
        policies.priority_policy(turn.settings), url_keys=keys, band=band, salt=turn.seed ^ turn.cycle
    )
    return Place(int((drawn < drawn[at[0]]).sum()) + 1, rows.num_rows, host.given)


def _host_score(host: HostView, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.full(count, float(host.row["score"]) if host.row else 1.0)


def _score(turn: Turn, host: HostView, key: int, row: dict[str, Any]) -> Score:
    """Return the URL's score at the turn's clock, term by term: each term alone, the other weights at 0."""
    rows = pa.Table.from_pylist([row], schema=FRONTIER_READY.arrow)
    weight = _host_score(host, 1)
    score, band = rank_rows(turn, rows, host_score=weight)
    conf = turn.settings.score.model_dump()
    added = {name: float(term[0]) for name, term in score_terms(turn, rows).items()}
    terms = {f"plug-in {name}": term for name, term in added.items() if term}
    for name, value in conf.items():
        if value:
            alone = turn.settings.score.model_copy(update={other: 0.0 for other in conf if other != name})
            term, _ = rank_rows(_with_score(turn, alone), rows, host_score=weight)
            terms[name] = float(term[0]) - sum(added.values())
    return Score(float(score[0]), int(band[0]), terms)


def _with_score(turn: Turn, score: Any) -> Turn:
    settings = replace(turn.settings, score=score)
    return replace(turn, settings_json=settings.to_json())


def _cycles_with_captures(lake: Lake, row: dict[str, Any]) -> list[int]:
    """Return the cycles that can hold captures of a URL, newest first: from the one that shelved it back."""
    if not row["visits"] and not row["failures"] and row["reason"] is None:
        return []
    last = min(row["shelf_cycle"] or lake.cycle, lake.cycle)
    return list(range(last, max((row["added_cycle"] or 1) - 1, 0), -1))


def host_now(lake: Lake, settings: Settings, host: str, *, now_ms: int | None = None) -> tuple[HostView, int]:
    """Return a host as a cycle opened now would see it, and that clock."""
    now = int(datetime.now(UTC).timestamp() * 1_000) if now_ms is None else now_ms
    turn = opening.next_turn(lake, settings, slots=_slots(settings), now_ms=now)
    return host_view(lake, turn, host), now
