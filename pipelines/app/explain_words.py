"""What is known of a URL or a host, in sentences and labelled lines that can be read aloud."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pipelines.app.words import again, duration_words, size_words, time_words
from pipelines.explain.hosts import pause_words
from pipelines.explain.prospects import failed_words, later_words, ms, retired_words
from pipelines.rules import urls
from pipelines.rules.outcome import MEANING, Outcome
from pipelines.rules.yields import Quarantine, Quarantines

if TYPE_CHECKING:
    from pipelines.explain.hosts import HostView
    from pipelines.explain.robots import RobotsVerdict
    from pipelines.explain.url import UrlView

Line = tuple[str, str]


def at(moment: datetime | int | None, now_ms: int) -> str:
    """Return a time and how far off it is."""
    return time_words(moment, now=datetime.fromtimestamp(now_ms / 1_000, UTC))


# --- a URL ----------------------------------------------------------------------------------------------


def headline(view: UrlView) -> str:
    """Return one sentence: what became of the URL, and why."""
    if view.spelling is None:
        return "Never crawled: this is no http(s) URL."
    if view.row is None:
        return _stranger(view)
    return _visited(view) if view.row["visits"] else _unvisited(view)


def _stranger(view: UrlView) -> str:
    if view.special == "robots":
        return "Asked for its host's sake: robots.txt has no place in the frontier."
    if view.special == "sitemap":
        return "Asked for its host's sake: sitemaps have no place in the frontier."
    if view.admission and view.admission.refusal:
        refusal = view.admission.refusal
        return f"Not crawled: rule {refusal.rule} refuses it ({refusal.detail})."
    if view.inbox:
        return "Not crawled yet: it waits in the inbox for the next cycle."
    if view.known_as:
        return f"Never seen in this spelling; the lake knows {' and '.join(view.known_as)}."
    return "Never admitted: no seed names it, and no link to it was taken (see next)."


def _visited(view: UrlView) -> str:
    row = view.row or {}
    times = "once" if row["visits"] == 1 else f"{row['visits']:,} times"
    told = f"Crawled {times}, last on {at(row['last_visit_at'], view.now_ms)}"
    if view.shelf == "retired":
        return f"{told}; {retired_words(row)}."
    if row["failures"]:
        return f"{told}; since then it failed ({row['reason']})."
    return f"{told}."


def _unvisited(view: UrlView) -> str:
    row = view.row or {}
    if view.shelf == "retired":
        return f"Never crawled: {retired_words(row)}."
    if view.shelf == "later" and row["reason"] == "redirect":
        return f"Not a page: it redirects to {row['detail']}."
    if view.shelf == "later" and row["reason"] == "robots_denied":
        return f"Not crawled: robots.txt forbids it ({row['detail']})."
    if view.shelf == "later":
        return f"Not crawled yet: {later_words(row)}."
    first = next(iter(view.next.because), None) if view.next else None
    failed = f"{failed_words(row)}; " if row["failures"] else ""
    if first:
        return f"Not crawled yet: {failed}{first.words}."
    place = f", place {view.place.place:,} of {view.place.of:,} in its host's queue" if view.place else ""
    return f"Not crawled yet: {failed}it waits for the next cycle{place}."


def url_lines(view: UrlView) -> Iterator[Line]:
    """Yield label and words of a URL's story, in the order of reading."""
    yield from _name(view)
    yield from _place(view)
    yield from _asking(view)
    yield from _history(view)
    yield from _rules(view)
    if view.open_cycle:
        yield "open cycle", _open_cycle(view)
    yield from _next(view)
    as_of = f"cycle {view.cycle}, committed {at(view.committed_at, view.now_ms)}"
    yield "as of", as_of if view.cycle else "the lake's making: no cycle has been committed yet"


def _name(view: UrlView) -> Iterator[Line]:
    spelling = view.spelling
    if spelling is None:
        return
    yield "canonical", spelling.canonical
    for step in spelling.steps:
        yield "", f"{step.step}: {step.reason} → {step.after}"
    if view.row and view.row["url"] != spelling.canonical:
        yield "requested", view.row["url"]
    yield "key", f"{spelling.key} (0x{spelling.key:016x}), bucket {spelling.bucket}"


def _place(view: UrlView) -> Iterator[Line]:
    row = view.row
    if row is None:
        yield "shelf", "none: it was never admitted"
        return
    since = f"since cycle {row['shelf_cycle']}" + (f", {at(view.since, view.now_ms)}" if view.since else "")
    reason = (
        f", for {row['reason']}" + (f" ({row['detail']})" if row["detail"] else "") if row["reason"] else ""
    )
    due = f"; due {at(row['due_at'], view.now_ms)}" if row["due_at"] else ""
    yield "shelf", f"{view.shelf} {since}{reason}{due}"
    via = f" on {row['via']}" if row["via"] else ""
    depth = f", {row['depth']} links from a seed" if row["depth"] != 1 else ", one link from a seed"
    yield (
        "found",
        f"as {row['source']}{via}{depth if row['depth'] else ''}; admitted by cycle {row['added_cycle']}",
    )
    if row["meta"]:
        yield "metadata", row["meta"]
    if view.score and view.shelf != "retired":
        terms = " ".join(f"{value:+.2f} {name}" for name, value in view.score.terms.items() if value)
        told = f"{view.score.score:.2f}" + (f" = {terms}" if terms else "")
        yield "score", f"{told}; band {view.score.band}"
    if view.place:
        yield (
            "queue",
            f"place {view.place.place:,} of {view.place.of:,} on its host, room for {view.place.given:,} a cycle",
        )


def _asking(view: UrlView) -> Iterator[Line]:
    if view.host:
        yield "host", _host_line(view.host, view.now_ms)
        if view.host.budget and view.host.row:
            yield "budget", budget_words(view.host)
    if view.robots:
        yield "robots", robots_words(view.robots, view.now_ms)


def _host_line(host: HostView, now_ms: int) -> str:
    if host.row is None:
        return f"{host.host}: not met yet"
    health = (
        ""
        if host.row["health"] == "ok"
        else f"; {host.row['health']} since {at(host.row['failing_since'], now_ms)}"
    )
    clock = ms(host.row["next_allowed_at"])
    free = "may be asked now" if clock <= now_ms else f"not before {at(clock, now_ms)}"
    return f"{host.host}: {pause_words(host.row)}; {free}{health}"


def budget_words(host: HostView) -> str:
    """Return what is left of a host's month."""
    budget = host.budget
    if budget is None:
        return "-"
    source = {
        "host": "the host's own",
        "conf": "budget.requests_per_month",
        "delay": "what its delay allows",
    }[budget.source]
    return f"{budget.left:,} of {budget.allowed:,} requests left this month ({source})"


def robots_words(robots: RobotsVerdict, now_ms: int) -> str:
    """Return a verdict of robots.txt."""
    age = f"; read {at(robots.fetched_at, now_ms)}" if robots.fetched_at else ""
    return f"{robots.verdict}: {robots.why} [{robots.url}]{age}"


def _history(view: UrlView) -> Iterator[Line]:
    if view.row:
        row = view.row
        changed = f", {row['changes']:,} of them found a change" if row["visits"] > 1 else ""
        yield "visits", f"{row['visits']:,}{changed}; {counted(row['failures'], 'failure')} in a row"
    for place, capture in enumerate(view.captures):
        yield "captures" if not place else "", capture_words(capture, view.now_ms)
    known = view.row["visits"] if view.row else 0
    if known > len(view.captures) and view.captures_from > 1:
        yield (
            "" if view.captures else "captures",
            f"looked back to cycle {view.captures_from}; older ones are in the table captures",
        )


CUT = {
    "length": "cut at [limits] body_bytes",
    "time": "cut off: the rest did not come in time",
    "disconnect": "cut off: the connection ended before the body did",
}
"""What content_truncated says, for people."""


def capture_words(capture: dict[str, Any], now_ms: int) -> str:
    """Return a capture: when, what came of it, and where its record lies."""
    status = f" {capture['fetch_status']}" if capture["fetch_status"] else ""
    told = f"{at(capture['fetch_time'], now_ms)}, cycle {capture['cycle']}: {capture['outcome']}{status}"
    if capture["outcome"] != "ok":
        told += f", {MEANING[Outcome(capture['outcome'])]}"
    if capture["error"]:
        told += f" ({capture['error']})"
    if capture["fetch_redirect"]:
        told += f" to {capture['fetch_redirect']}"
    if capture["content_truncated"]:
        told += f"; {CUT.get(capture['content_truncated'], 'cut off')}"
    if capture["warc_filename"] is None:
        no_archive = "noarchive" in (capture["robots_tags"] or "").split(",")
        return f"{told}; nothing stored" + (", as the page asks (noarchive)" if no_archive else "")
    place = f"warc/{capture['warc_filename']} at {capture['warc_record_offset']:,}, {capture['warc_record_length']:,} bytes"
    same = f"; same bytes as {capture['refers_to']}" if capture["refers_to"] else ""
    return f"{told}, {size_words(capture['body_bytes'] or 0)}; {capture['record_type']} in {place}{same}"


def _rules(view: UrlView) -> Iterator[Line]:
    judged = view.admission
    if judged is None or view.special:
        return
    if judged.refusal and view.row:
        yield (
            "rules",
            f"it is admitted already; found anew, rule {judged.refusal.rule} would refuse it ({judged.refusal.detail})",
        )
    elif judged.refusal:
        yield "rules", f"{judged.refusal.rule} refuses it: {judged.refusal.detail}"
    elif judged.overruled:
        yield (
            "rules",
            f"a plug-in admits what rule {judged.overruled.rule} refuses ({judged.overruled.detail})",
        )
    elif not view.row:
        yield "rules", f"all {len(judged.verdicts)} would admit it"
    if judged.guessed and not view.row:
        yield "", judged.guessed
    if view.inbox:
        yield "inbox", f"mentioned {view.inbox} times"
    if view.inbox_unread:
        yield "inbox", f"{view.inbox_unread} files were too large to be looked through"


def _open_cycle(view: UrlView) -> str:
    cycle = view.open_cycle
    assert cycle is not None
    state = "runs now" if cycle.running else f"was interrupted; {again('cycle')} finishes it"
    plan = (
        "does not plan it" if cycle.partition is None else f"plans it, in fetch partition {cycle.partition}"
    )
    return f"cycle {cycle.cycle} {state}, and {plan}; what it does shows here when it is committed"


def _next(view: UrlView) -> Iterator[Line]:
    found = view.next
    if found is None:
        return
    when = f"not before {at(found.when_ms, view.now_ms)}: " if found.when_ms else ""
    idle = found.what == "ask" and not found.when_ms and view.open_cycle is None and not view.special
    yield "next", f"{when}{found.words}" + (f" (none runs now: {again('cycle')})" if idle else "")
    for place, reason in enumerate(found.because):
        until = reason.until_ms if reason.until_ms != found.when_ms else None
        yield (
            "because" if not place else "",
            reason.words + (f", until {at(until, view.now_ms)}" if until else ""),
        )


def counted(count: int, word: str) -> str:
    """Return a count with its word.

    >>> counted(1, "failure"), counted(0, "failure")
    ('1 failure', 'no failures')
    """
    return f"{count or 'no'} {word}" + ("" if count == 1 else "s")


# --- a host ---------------------------------------------------------------------------------------------


def host_headline(host: HostView, now_ms: int) -> str:
    """Return one sentence: how a host stands."""
    row = host.row
    if row is None:
        return "Never met: no URL of this host was admitted so far."
    first = next(iter(host.blocks), None)
    if first and first.until_ms:
        return f"Idle until {at(first.until_ms, now_ms)}: {first.words}."
    if not host.waiting.num_rows:
        return "Idle: none of its URLs is due."
    silent = _silent_until(row, now_ms)
    sites = [urls.site_of(url) for url in host.waiting["url"].to_pylist()]
    if all(site in silent for site in sites):
        site = min(sites, key=lambda one: silent[one])
        return (
            f"Idle until {at(silent[site], now_ms)}: robots.txt of {site} cannot be had, so nothing is asked."
        )
    open_ = sum(site not in silent for site in sites)
    rest = (
        f" ({len(sites) - open_:,} more wait for the robots.txt of their port)" if open_ < len(sites) else ""
    )
    return f"Well: the next cycle has {open_:,} URLs of it to choose from{rest}, and room for {host.given:,}."


def _silent_until(row: dict[str, Any], now_ms: int) -> dict[str, int]:
    """Return the host's sites (scheme and port) whose robots.txt cannot be had, with when it is asked for again, ms."""
    unread = (site for site in row["robots"] or () if site["state"] == "unreachable")
    return {site["site"]: ms(site["expires_at"]) for site in unread if ms(site["expires_at"]) > now_ms}


def host_lines(host: HostView, now_ms: int) -> Iterator[Line]:
    """Yield label and words of a host's row, in the order of reading."""
    row = host.row
    if row is None:
        return
    yield "domain", row["domain"] + (f", label {row['label']}" if row["label"] else "")
    yield "clock", f"{pause_words(row)}; not before {at(row['next_allowed_at'], now_ms)}"
    yield "answers", _speed(row)
    yield "health", _health(row, now_ms)
    yield "budget", f"{budget_words(host)}; {host.budget.spent if host.budget else 0:,} made"
    yield (
        "URLs",
        f"{row['known_urls']:,} known, {row['ready_urls']:,} ready, {row['backlog_urls']:,} in the backlog, {host.waiting.num_rows:,} due",
    )
    yield (
        "got so far",
        f"{row['requests']:,} requests, {row['pages']:,} pages, {size_words(row['body_bytes'])}",
    )
    for place, site in enumerate(row["robots"] or ()):
        yield "robots" if not place else "", _site(site, now_ms)
    for place, sitemap in enumerate(row["sitemaps"] or ()):
        yield "sitemaps" if not place else "", _sitemap(sitemap, now_ms)
    yield "addresses", f"{', '.join(row['addresses'] or ()) or 'not looked up yet'}"
    if row["companion"]:
        yield (
            "companion",
            f"{row['companion']}: asked in one partition with it, since its robots.txt leads there",
        )
    for place, (pattern, trap) in enumerate(_traps(row).items()):
        told = f"{pattern} since cycle {trap.since}: {trap.why}; a sample in cycle {trap.sample}"
        yield "traps" if not place else "", told
    yield "met", f"by cycle {row['added_cycle']}, asked last in cycle {row['last_cycle'] or '-'}"
    for place, block in enumerate(host.blocks):
        until = f", until {at(block.until_ms, now_ms)}" if block.until_ms else ""
        yield "waits" if not place else "", f"{block.words}{until}"


def _traps(row: dict[str, Any]) -> dict[str, Quarantine]:
    return Quarantines.from_json(row["traps"]).by_pattern if row["traps"] else {}


def _speed(row: dict[str, Any]) -> str:
    if row["first_byte_ms"] is None:
        return "none yet"
    return f"first byte after {row['first_byte_ms']:,} ms, whole answer after {row['response_ms']:,} ms on average"


def _health(row: dict[str, Any], now_ms: int) -> str:
    if row["health"] == "ok" and not row["failures"]:
        return "ok"
    since = f", since {at(row['failing_since'], now_ms)}" if row["failing_since"] else ""
    probe = f"; one URL is tried at {at(row['probe_at'], now_ms)}" if row["probe_at"] else ""
    return f"{row['health']}, {row['failures']} times in a row{since}{probe}"


def _site(site: dict[str, Any], now_ms: int) -> str:
    state = {
        "rules": "has rules",
        "allow_all": "has none: all is allowed",
        "unreachable": "cannot be had: nothing is asked",
    }
    age = f"read {at(site['fetched_at'], now_ms)}, asked again after {at(site['expires_at'], now_ms)}"
    return f"{site['site']} {state.get(site['state'], site['state'])} (status {site['status'] or '-'}); {age}"


def _sitemap(sitemap: dict[str, Any], now_ms: int) -> str:
    if sitemap["fetched_at"] is None:
        return f"{sitemap['url']}: not asked yet (known from {sitemap['source']})"
    entries = f", {sitemap['entries']:,} entries" if sitemap["entries"] is not None else ""
    again = f"; again after {at(sitemap['expires_at'], now_ms)}" if sitemap["expires_at"] else ""
    return f"{sitemap['url']}: {sitemap['status']}{entries}, read {at(sitemap['fetched_at'], now_ms)}{again}"


def table_lines(rows: list[dict[str, Any]], now_ms: int) -> Iterator[str]:
    """Yield a table of hosts, a line each, the heading first."""
    wide = max([len(row["host"]) for row in rows] + [4])
    yield f"{'host':<{wide}} {'known':>11} {'ready':>9} {'backlog':>11} {'requests':>10} {'pages':>10} {'delay':>8}  trouble"
    for row in rows:
        delay = "-" if row["delay_ms"] is None else f"{row['delay_ms'] / 1_000:g} s"
        yield (
            f"{row['host']:<{wide}} {row['known_urls']:>11,} {row['ready_urls']:>9,} {row['backlog_urls']:>11,} "
            f"{row['requests']:>10,} {row['pages']:>10,} {delay:>8}  {_trouble(row, now_ms)}"
        ).rstrip()


def _trouble(row: dict[str, Any], now_ms: int) -> str:
    if row["failures"] or row["health"] != "ok":
        probe = ms(row["probe_at"])
        again = f", tried again in {duration_words((probe - now_ms) / 1_000)}" if probe > now_ms else ""
        return f"{row['health']} {row['failures']} times{again}"
    return f"slowed down by {row['backoff_ms'] / 1_000:g} s" if row["backoff_ms"] else ""
