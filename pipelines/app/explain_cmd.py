"""`noria explain`, `noria hosts`, `noria check url` and `noria check robots`: everything has a reason."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pipelines.app import explain_words as words
from pipelines.app.lakes import place
from pipelines.explain import hosts
from pipelines.explain.url import explain_url, host_now
from pipelines.failure import Misuse
from pipelines.rules.hosts import normal_host

if TYPE_CHECKING:
    from pipelines.config import Settings
    from pipelines.explain.hosts import HostView
    from pipelines.explain.url import UrlView


def explain(settings: Settings, url: str, *, most: int, as_json: bool) -> None:
    """Print what became of a URL, and why. most: captures to tell."""
    view = explain_url(place(settings, make=False), settings, url, now_ms=now_ms(), most=most)
    if as_json:
        print(json.dumps(plain_url(view)))
        return
    print(view.spelling.wire if view.spelling else url)
    print(words.headline(view))
    show(words.url_lines(view))


def host(settings: Settings, name: str, *, as_json: bool) -> None:
    """Print how a host stands. name: a host, or a URL on it."""
    view, now = host_now(place(settings, make=False), settings, host_name(name), now_ms=now_ms())
    if as_json:
        print(json.dumps(plain_host(view)))
        return
    print(view.host)
    print(words.host_headline(view, now))
    show(words.host_lines(view, now))


def host_table(settings: Settings, *, order: str, most: int, as_json: bool) -> None:
    """Print the first hosts in an order: size, trouble, requests, delay."""
    if order not in hosts.ORDERS:
        raise Misuse(f"--by {order}: hosts are listed by {', '.join(hosts.ORDERS)}")
    found = place(settings, make=False)
    rows, total = hosts.host_table(found, order=order, most=most)
    if as_json:
        print(json.dumps({"hosts": plain(rows), "total": total, "cycle": found.cycle}))
        return
    if not rows:
        print("no host is in trouble" if total else "no host was met yet: no cycle has been committed")
        return
    for line in words.table_lines(rows, now_ms()):
        print(line)
    if total > len(rows):
        print(f"{total:,} hosts in all" + (" (--most shows more)" if len(rows) >= most else ""))


def show(lines: Iterable[tuple[str, str]]) -> None:
    """Print labels and words, a line each."""
    for label, told in lines:
        print(f"{label:<11} {told}")


def now_ms() -> int:
    """Return the clock, epoch ms."""
    return time.time_ns() // 1_000_000


def host_name(text: str) -> str:
    """Return the host that is meant by a name or a URL; raise Misuse if it is none."""
    authority = text.split("://", 1)[-1].split("/", 1)[0].rpartition("@")[2]
    name = authority if authority.startswith("[") else authority.partition(":")[0]
    found = normal_host(name.partition("]")[0] + "]" if name.startswith("[") else name)
    if not found:
        raise Misuse(f"'{text}' is no host name; give one as www.example.org, or a URL on it")
    return found


# --- JSON -----------------------------------------------------------------------------------------------


def plain_url(view: UrlView) -> dict[str, Any]:
    """Return a URL's story as plain values; times are ISO 8601 in UTC."""
    told = {
        field.name: getattr(view, field.name)
        for field in dataclasses.fields(view)
        if field.name not in ("host", "asked", "now_ms")
    }
    return {
        "url": view.asked,
        "summary": words.headline(view),
        "now": _iso(view.now_ms),
        **{name: plain(value) for name, value in told.items()},
        "host": plain_host(view.host) if view.host else None,
    }


def plain_host(view: HostView) -> dict[str, Any]:
    """Return a host's row and what the next cycle would make of it as plain values."""
    return {
        "host": view.host,
        "known": view.row is not None,
        "row": plain(view.row),
        "due": view.waiting.num_rows,
        "given": view.given,
        "budget": plain(view.budget),
        "waits": plain(view.blocks),
    }


def plain(value: Any) -> Any:
    """Return dataclasses, named tuples and times as JSON has them; epoch ms under `*_ms` stay numbers."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, "_asdict"):
        return {name: plain(one) for name, one in value._asdict().items()}
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def _iso(epoch_ms: int) -> str:
    return datetime.fromtimestamp(epoch_ms / 1_000, UTC).isoformat()
