"""Places where a crawler could stay for ever. Every answer here names its trap, so that the truth knows it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from urllib.parse import parse_qsl, quote, urlencode

from pipelines.toyweb.answer import Answer, Ask, origin
from pipelines.toyweb.chance import draw
from pipelines.toyweb.hosts import Kind, Plan
from pipelines.toyweb.pages import EXTRA_PATHS, simple

ITEMS = 12
"""Good pages that lie inside each trap, and are to be found without falling for it."""

EXTRA_PATHS.update(
    {
        Kind.CALENDAR: ("/calendar/2026/01",),
        Kind.SEGMENTS: ("/loop/", "/mirror/copy/"),
        Kind.SESSIONS: ("/item/0?sid=00000001", "/topic/0;jsessionid=00000001"),
        Kind.FACETS: ("/shop",),
        Kind.SOFT404: tuple(f"/lost/{n}" for n in range(4)),
        Kind.PAGER: ("/list?page=1",),
        Kind.LOGIN: ("/login?next=/", "/cart?add=0"),
        Kind.FLOOD: ("/many",),
    }
)
_MONTH = re.compile(r"/calendar/(\d{4,6})/(\d\d)(?:/(\d\d))?$")
_ITEM = re.compile(r"/(item|topic|product|entry)/(\d{1,6})$")
_FACETS = {
    "color": ("red", "green", "blue", "black"), "size": ("s", "m", "l", "xl"), "sort": ("price", "name", "new"),
    "brand": ("acme", "noria", "wheel"), "view": ("grid", "list"), "stock": ("yes", "no"),
}  # fmt: skip


def answer(plan: Plan, ask: Ask) -> Answer | None:
    """Return what a trap host says to a target, None if the target is not in its trap."""
    make = _TRAPS.get(ask.host.kind)
    return make(ask) if make else None


def item(ask: Ask, sort: str, number: int, hrefs: dict[str, str] | None = None) -> Answer | None:
    """Return a good page of a trap host, None if there is no such page."""
    if number >= ITEMS:
        return None
    key = draw(ask.host.name, sort, number)
    return simple(f"{sort} {number} {key % 9973}", hrefs or {}, text=f"The {sort} with the mark {key:x}.")


def _calendar(ask: Ask) -> Answer | None:
    found = _MONTH.match(ask.target)
    if not found:
        return None
    year, month, day = int(found[1]), int(found[2]), found[3]
    if not 1 <= month <= 12 or int(day or 1) not in range(1, 32):
        return None
    if day:
        up = f"/calendar/{year}/{month:02}"
        return simple(f"{year}-{month:02}-{day}", {up: ask.origin + up}, text="No events.", trap="calendar")
    months = [(year - (month == 1), (month - 2) % 12 + 1), (year + (month == 12), month % 12 + 1)]
    paths = [f"/calendar/{y}/{m:02}" for y, m in months]
    paths += [f"/calendar/{year}/{month:02}/{d:02}" for d in range(1, 29)]
    return simple(
        f"{year}-{month:02}", {one: ask.origin + one for one in paths}, text="Month", trap="calendar"
    )


def _segments(ask: Ask) -> Answer | None:
    path = ask.target
    if path.startswith("/loop/") and set(path[1:-1].split("/")) == {"loop"} and path.endswith("/"):
        return simple("Loop", {"loop/": ask.origin + path + "loop/", "/": ask.origin + "/"}, trap="segments")
    if (
        path.startswith("/mirror/copy/")
        and set(path[1:-1].split("/")) == {"mirror", "copy"}
        and path.endswith("/")
    ):
        deeper = {"mirror/copy/": ask.origin + path + "mirror/copy/"}
        return simple("Mirror", deeper, text=f"Depth {path.count('/')}", trap="segments")
    return None


def _sessions(ask: Ask) -> Answer | None:
    """Every page hands out a session of its own: the same twelve pages under endless names."""
    bare, sid = _session(ask.target)
    found = _ITEM.match(bare)
    if not found or found[1] not in ("item", "topic"):
        return None
    sort, number = found[1], int(found[2])
    fresh = f"{draw(ask.host.name, bare, sid) & 0xFFFFFFFF:08x}"
    paths = [_with_session(sort, (number + step) % ITEMS, fresh) for step in (1, 2, 5)]
    made = item(ask, sort, number, {path: ask.origin + path for path in paths})
    return replace(made, trap="sessions") if made and sid != "00000001" else made


def _session(target: str) -> tuple[str, str]:
    bare, mark, sid = target.partition(";jsessionid=")
    return (
        (bare, sid)
        if mark
        else (target.partition("?")[0], dict(parse_qsl(target.partition("?")[2])).get("sid", ""))
    )


def _with_session(sort: str, number: int, sid: str) -> str:
    return f"/item/{number}?sid={sid}" if sort == "item" else f"/topic/{number};jsessionid={sid}"


def _facets(ask: Ask) -> Answer | None:
    found = _ITEM.match(ask.target)
    if found and found[1] == "product":
        return item(ask, "product", int(found[2]))
    if ask.path != "/shop":
        return None
    chosen = parse_qsl(ask.query)
    more = [(name, value) for name, values in _FACETS.items() if name not in dict(chosen) for value in values]
    paths = [f"/product/{n}" for n in range(ITEMS)]
    paths += ["/shop?" + urlencode([*chosen, one]) for one in more]
    text = f"{len(chosen)} filters"
    return simple(
        "Shop", {one: ask.origin + one for one in paths}, text=text, trap="facets" if chosen else None
    )


def _soft404(ask: Ask) -> Answer | None:
    """The page for what is not found says 200; half of the hosts' lost pages link to more of them."""
    found = re.match(r"/(lost)/(\d{1,18})$", ask.target)
    if not found:
        return None
    lost = [f"/lost/{draw(ask.target, n) % 10**9}" for n in range(3)]
    text = "Sorry, the page you want is not here. Try the search."
    return simple("Page not found", {one: ask.origin + one for one in lost}, text=text, trap="soft404")


def _pager(ask: Ask) -> Answer | None:
    found = _ITEM.match(ask.target)
    if found and found[1] == "entry":
        return item(ask, "entry", int(found[2]))
    number = dict(parse_qsl(ask.query)).get("page", "")
    if ask.path != "/list" or not number.isdecimal():
        return None
    page = int(number[:9])
    entries = [f"/entry/{n}" for n in range(4 * page - 4, min(4 * page, ITEMS))] if page else []
    paths = [*entries, f"/list?page={page + 1}"]
    trap = None if entries else "pager"
    return simple(f"List, page {page}", {one: ask.origin + one for one in paths}, text="Entries", trap=trap)


def _login(ask: Ask) -> Answer | None:
    if ask.path == "/login":
        following = "/login?next=" + quote(ask.target[:1500], safe="")
        return simple("Log in", {following: ask.origin + following}, text="Name and password", trap="login")
    if ask.path == "/cart":
        number = int(dict(parse_qsl(ask.query)).get("add", "0")[:9] or 0) if "add=" in ask.query else 0
        paths = [f"/cart?add={number + 1}", "/login?next=" + quote(ask.target, safe="")]
        return simple("Your cart is empty", {one: ask.origin + one for one in paths}, trap="login")
    return None


def _flood(ask: Ask) -> Answer | None:
    """Every subdomain names ten more, each with the same few pages."""
    below = ask.name != ask.host.name
    if ask.target != "/many" and not (below and ask.target == "/"):
        return None
    names = [f"s{draw(ask.name, n) % 10**6}.{ask.host.name}" for n in range(10)]
    urls = {origin(name, ask.port) + "/": origin(name, ask.port) + "/" for name in names}
    return simple(f"Mirror {ask.name}", urls, text="One of many", trap="flood" if below else None)


def good_targets(kind: Kind) -> tuple[str, ...]:
    """Return the good targets of a trap host beside its ordinary pages: what must not be lost."""
    listed = {
        Kind.SESSIONS: ("item", "topic"), Kind.FACETS: ("product",), Kind.PAGER: ("entry",),
    }.get(kind, ())  # fmt: skip
    if kind is Kind.SESSIONS:
        return EXTRA_PATHS[kind]
    pager = tuple(f"/list?page={n}" for n in range(1, ITEMS // 4 + 1)) if kind is Kind.PAGER else ()
    return (*pager, *(f"/{sort}/{n}" for sort, n in product(listed, range(ITEMS))))


_TRAPS: dict[Kind, Callable[[Ask], Answer | None]] = {
    Kind.CALENDAR: _calendar, Kind.SEGMENTS: _segments, Kind.SESSIONS: _sessions, Kind.FACETS: _facets,
    Kind.SOFT404: _soft404, Kind.PAGER: _pager, Kind.LOGIN: _login, Kind.FLOOD: _flood,
}  # fmt: skip
