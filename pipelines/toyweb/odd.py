"""Hosts whose answers are odd by themselves: redirects, errors, pauses, broken connections, dirty HTTP, bombs."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import brotli

from pipelines.toyweb.answer import Answer, Ask, End, Framing, http_date, origin
from pipelines.toyweb.hosts import Kind, Mix, Plan
from pipelines.toyweb.pages import EXTRA_PATHS, simple

CHAIN = 4
"""Hops of the short redirect chain; the long one has more than any crawler should follow."""
LONG_CHAIN = 12
NOT_HTTP = b"SSH-2.0-toy\r\nthis is no web server\r\n\r\n"
_REDIRECTS = {
    "/go/away": 301, "/go/relative": 302, "/go/utf8": 301, "/go/see-other": 303, "/go/temporary": 307,
    "/go/permanent": 308, "/go/self": 302, "/go/ping": 302, "/go/pong": 302, "/go/nowhere": 302,
    "/go/nothing": 302, "/go/fragment": 301, "/go/slashes": 301, "/go/mail": 302,
}  # fmt: skip
_ERRORS = {
    "/e/401": 401, "/e/403": 403, "/e/404": 404, "/e/410": 410, "/e/500": 500, "/e/502": 502, "/e/204": 204,
}  # fmt: skip
_PRIVATE = {
    "/inside/ten": "http://10.0.0.1/", "/inside/metadata": "http://169.254.169.254/latest/meta-data/",
    "/inside/loopback": "http://127.0.0.1:22/", "/inside/v6": "http://[::1]/", "/inside/zero": "http://0.0.0.0/",
    "/inside/mapped": "http://[::ffff:10.0.0.1]/", "/inside/decimal": "http://2130706433/",
}  # fmt: skip
EXTRA_PATHS.update(
    {
        Kind.REDIRECTS: (
            *(one for one in _REDIRECTS if one != "/go/pong"), "/go/chain/1", "/go/long/1",
        ),
        Kind.ERRORS: tuple(_ERRORS),
        Kind.PRIVATE: tuple(_PRIVATE),
        Kind.BUSY: ("/busy/seconds", "/busy/date", "/busy/bare", "/busy/past", "/busy/absurd", "/busy/down"),
        Kind.HANG: ("/hang/head", "/hang/body"),
        Kind.RESET: ("/reset/now", "/reset/head", "/reset/body", "/reset/close", "/reset/empty"),
        Kind.TRICKLE: ("/trickle/head", "/trickle/body"),
        Kind.HUGE: ("/huge/plain", "/huge/chunked", "/huge/bomb", "/huge/header", "/huge/links"),
        Kind.DIRTY: (
            "/dirty/short", "/dirty/long", "/dirty/unsized", "/dirty/old", "/dirty/colonless", "/dirty/chunks",
            "/dirty/bare-lf", "/dirty/two-lengths", "/dirty/continue", "/dirty/lying-gzip", "/dirty/stacked",
            "/dirty/raw-deflate", "/dirty/brotli", "/dirty/bodied-204", "/dirty/latin-header",
            "/dirty/no-reason", "/dirty/not-http",
        ),
        Kind.MARKUP: ("/markup/base", "/markup/refresh", "/markup/frames", "/markup/hrefs", "/markup/noindex",
                      "/markup/nofollow", "/markup/header", "/markup/picture.png"),
    }
)  # fmt: skip


def answer(plan: Plan, ask: Ask) -> Answer | None:
    """Return what an odd host says to a target, None if it is not one of its odd targets."""
    make = _ODD.get(ask.host.kind)
    return make(plan, ask) if make else None


def redirect(ask: Ask, status: int, location: str | None, leads_to: str | None) -> Answer:
    """Return a redirect. location: the header as sent, None = no header; leads_to: the URL that it means."""
    headers = [("Content-Type", "text/html; charset=utf-8")]
    if location is not None:
        headers.append(("Location", location))
    return Answer(status, tuple(headers), b"<title>Moved</title>\n", location=leads_to, sort="redirect")


def _redirects(plan: Plan, ask: Ask) -> Answer | None:
    target, base = ask.target, ask.origin
    if target.startswith("/go/chain/"):
        return _chain(ask, "/go/chain/", CHAIN)
    if target.startswith("/go/long/"):
        return _chain(ask, "/go/long/", LONG_CHAIN)
    if target.startswith("/caf%C3%A9") or target == "/arrived":
        return simple("Arrived", {"/": base + "/"}, text=f"You came to {target}")
    if target not in _REDIRECTS:
        return None
    away = origin(plan.open[ask.host.index % len(plan.open)].name, ask.port)
    locations = {
        "/go/away": (away + "/", away + "/"),
        "/go/relative": ("../arrived", base + "/arrived"),
        "/go/utf8": ("/café?q=thé".encode().decode("latin-1"), base + "/caf%C3%A9?q=th%C3%A9"),
        "/go/self": ("/go/self", base + "/go/self"),
        "/go/ping": ("/go/pong", base + "/go/pong"),
        "/go/pong": (base + "/go/ping", base + "/go/ping"),
        "/go/nowhere": ("http://", None),
        "/go/nothing": (None, None),
        "/go/fragment": ("/arrived#here", base + "/arrived"),
        "/go/slashes": (away.removeprefix("http:") + "/", away + "/"),
        "/go/mail": ("mailto:someone@w001.test", None),
    }
    location, leads_to = locations.get(target, ("/arrived", base + "/arrived"))
    return redirect(ask, _REDIRECTS[target], location, leads_to)


def _chain(ask: Ask, prefix: str, hops: int) -> Answer | None:
    text = ask.target.removeprefix(prefix)
    hop = int(text) if text.isdecimal() and len(text) < 4 else 0
    if not 1 <= hop <= hops:
        return None
    following = f"{prefix}{hop + 1}" if hop < hops else "/arrived"
    return redirect(ask, 301 if hop % 2 else 302, following, ask.origin + following)


def _errors(plan: Plan, ask: Ask) -> Answer | None:
    status = _ERRORS.get(ask.target)
    if status is None:
        return None
    made = simple(f"Error {status}", {}, status=status)
    return replace(made, sort="error", body=made.body if status != 204 else b"")


def _private(plan: Plan, ask: Ask) -> Answer | None:
    where = _PRIVATE.get(ask.target)
    meant = {"/inside/decimal": "http://127.0.0.1/", "/inside/mapped": "http://[::ffff:a00:1]/"}
    return redirect(ask, 302, where, meant.get(ask.target, where)) if where else None


def _busy(plan: Plan, ask: Ask) -> Answer | None:
    if not ask.target.startswith("/busy/") or ask.target not in EXTRA_PATHS[Kind.BUSY]:
        return None
    if ask.visit and not plan.mix.steady:
        return simple("At your service", {"/": ask.origin + "/"}, text=ask.target)
    hold_ms = 1000 * plan.mix.retry_after_s
    until = (ask.now_ms + hold_ms + 999) // 1000 * 1000
    wait, hold = {
        "/busy/seconds": (str(plan.mix.retry_after_s), hold_ms),
        "/busy/date": (http_date(until), until - ask.now_ms),
        "/busy/past": ("Thu, 01 Jan 2015 00:00:00 GMT", 0),
        "/busy/absurd": ("soon", 0),
    }.get(ask.target, (None, 0))
    headers = (("Content-Type", "text/plain"), *([("Retry-After", wait)] if wait else []))
    return Answer(503 if ask.target == "/busy/down" else 429, headers, b"busy\n", hold_ms=hold, sort="error")


def _hang(plan: Plan, ask: Ask) -> Answer | None:
    if ask.target not in EXTRA_PATHS[Kind.HANG]:
        return None
    cut = 20 if ask.target == "/hang/head" else 300
    return replace(_filled(ask), cut=cut, end=End.HANG, hang_ms=plan.mix.hang_ms)


def _reset(plan: Plan, ask: Ask) -> Answer | None:
    cuts = {"/reset/now": 0, "/reset/head": 30, "/reset/body": 600, "/reset/close": 600, "/reset/empty": 0}
    if ask.target not in cuts:
        return None
    end = End.CLOSE if ask.target in ("/reset/close", "/reset/empty") else End.RESET
    return replace(_filled(ask), cut=cuts[ask.target], end=end)


def _trickle(plan: Plan, ask: Ask) -> Answer | None:
    if ask.target not in EXTRA_PATHS[Kind.TRICKLE]:
        return None
    page = _filled(ask)
    slow_head = ask.target == "/trickle/head"
    return replace(page, piece_bytes=40, piece_ms=plan.mix.trickle_ms, piece_head=slow_head)


def _filled(ask: Ask) -> Answer:
    """Return a page of about a kilobyte to be cut or slowed down."""
    return simple(f"Page {ask.target}", {"/": ask.origin + "/"}, text="water wheel " * 80)


def _huge(plan: Plan, ask: Ask) -> Answer | None:
    html = ("Content-Type", "text/html; charset=utf-8")
    block = b"<p>" + b"All work and no play. " * 2978 + b"</p>\n"
    match ask.target:
        case "/huge/plain":
            return Answer(200, (html,), block, repeat=plan.mix.huge_bytes // len(block))
        case "/huge/chunked":
            return Answer(200, (html,), block, Framing.CHUNKED, repeat=0)
        case "/huge/bomb":
            return Answer(200, (html, ("Content-Encoding", "gzip")), bomb(plan.mix.bomb_bytes))
        case "/huge/header":
            return Answer(200, (html, ("X-Noise", "n" * 300_000)), b"<title>Head first</title>\n")
        case "/huge/links":
            return _many_links(ask, 20_000)
    return None


@lru_cache(maxsize=2)
def bomb(size: int) -> bytes:
    """Return a gzip body that decodes to `size` zero bytes: about a thousandth of it."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = bytes(2**20)
    return b"".join([*(squeeze.compress(block) for _ in range(size // len(block))), squeeze.flush()])


def _many_links(ask: Ask, count: int) -> Answer:
    """Return a page with more links than are worth keeping; they lead to nothing."""
    paths = {f"/huge/none/{n}": f"{ask.origin}/huge/none/{n}" for n in range(count)}
    return replace(simple("Links", paths), trap="links")


def _dirty(plan: Plan, ask: Ask) -> Answer | None:
    """Return a page that a browser would show, in HTTP that breaks a rule."""
    name = ask.target.removeprefix("/dirty/")
    if ask.target not in EXTRA_PATHS[Kind.DIRTY]:
        return None
    page = simple(f"Dirty {name}", {"/": ask.origin + "/"}, text="Shown by every browser. " * 12)
    coded = {
        "lying-gzip": ("gzip", page.body), "stacked": ("gzip, gzip", gzip.compress(gzip.compress(page.body, mtime=0), mtime=0)),
        "raw-deflate": ("deflate", _raw_deflate(page.body)), "brotli": ("br", brotli.compress(page.body)),
    }  # fmt: skip
    if name in coded:
        coding, body = coded[name]
        return replace(page, headers=(*page.headers, ("Content-Encoding", coding)), body=body)
    return _dirty_head(name, page)


def _dirty_head(name: str, page: Answer) -> Answer:
    """Return a page whose head, length or chunks break a rule. Bodies end with the connection."""
    size = len(page.body)
    html = b"Content-Type: text/html; charset=utf-8\r\n"
    heads = {
        "short": b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n" % (html, size + 100),
        "long": b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n" % (html, size - 10),
        "unsized": b"HTTP/1.1 200 OK\r\n%b\r\n" % html,
        "old": b"HTTP/1.0 200 OK\r\n%b\r\n" % html,
        "colonless": b"HTTP/1.1 200 OK\r\nthis line says nothing\r\n%b\r\n" % html,
        "bare-lf": b"HTTP/1.1 200 OK\n%bContent-Length: %d\n\n" % (html.replace(b"\r", b""), size),
        "two-lengths": b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\nContent-Length: %d\r\n\r\n"
        % (html, size, size),
        "continue": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n"
        % (html, size),
        "bodied-204": b"HTTP/1.1 204 No Content\r\n%bContent-Length: %d\r\n\r\n" % (html, size),
        "latin-header": b"HTTP/1.1 200 OK\r\nX-Caf\xe9: th\xe9\r\n%bContent-Length: %d\r\n\r\n"
        % (html, size),
        "no-reason": b"HTTP/1.1 200\r\n%bContent-Length: %d\r\n\r\n" % (html, size),
        "chunks": b"HTTP/1.1 200 OK\r\n%bTransfer-Encoding: chunked\r\n\r\n" % html,
        "not-http": b"",
    }
    wire = b"%x\r\n%b\r\nzz\r\n" % (size, page.body) if name == "chunks" else page.body
    status = 204 if name == "bodied-204" else 200
    wire = NOT_HTTP if name == "not-http" else wire
    body = {"long": page.body[:-10], "bodied-204": b""}.get(
        name, page.body
    )  # what the head says, more follows
    return replace(page, status=status, head=heads[name], body=body, wire_body=wire, end=End.CLOSE)


def _raw_deflate(body: bytes) -> bytes:
    squeeze = zlib.compressobj(6, zlib.DEFLATED, -15)
    return squeeze.compress(body) + squeeze.flush()


def _markup(plan: Plan, ask: Ask) -> Answer | None:
    """Return a page whose links need a browser's rules to be understood."""
    base = ask.origin
    if ask.target == "/markup/picture.png":
        return Answer(200, (("Content-Type", "image/png"),), png(ask.host.index), sort="file")
    if ask.target.startswith("/below/"):
        return simple(f"Below {ask.path}", {"/": base + "/"}, text="Reached by a browser's rules.")
    html, links, more = _MARKUP.get(ask.target.removeprefix("/markup/"), (None, (), ()))
    if html is None:
        return None
    body = html.replace("{base}", base).encode()
    urls = tuple(base + one for one in links)
    return Answer(
        200, (("Content-Type", "text/html; charset=utf-8"), *_with_base(more, base)), body, links=urls
    )


def _with_base(headers: tuple[tuple[str, str], ...], base: str) -> list[tuple[str, str]]:
    return [(name, value.replace("{base}", base)) for name, value in headers]


_MARKUP: dict[str, tuple[str | None, tuple[str, ...], tuple[tuple[str, str], ...]]] = {
    "base": ('<base href="{base}/below/"><title>Base</title><a href=one>1</a><a href="./two?a=1&amp;b=2">2</a>',
             ("/below/one", "/below/two?a=1&b=2"), ()),
    "refresh": ('<title>Refresh</title><meta http-equiv=refresh content="0; url=\'/below/three\'">', ("/below/three",), ()),
    "frames": ('<title>Frames</title><frameset><frame src="/below/four"></frameset>', ("/below/four",), ()),
    "hrefs": ('<title>Hrefs</title><a href=" /below/fi\nve ">5</a><a href="javascript:void(0)">no</a><a href="mailto:a@b.test">no</a>'
              '<a href="/below/six seven">67</a><a href="#here">no</a><map><area href="/below/eight"></map><a name=x>no</a>',
              ("/below/five", "/below/six%20seven", "/markup/hrefs", "/below/eight"), ()),
    "noindex": ('<title>Not to be found</title><meta name=robots content="NOINDEX, noarchive"><a href="/below/one">1</a>',
                ("/below/one",), ()),
    "nofollow": ('<title>Not to be followed</title><meta name=robots content="nofollow"><a href="/below/secret">s</a>', (), ()),
    "header": ("<title>Header</title>", ("/below/nine",),
               (("X-Robots-Tag", "noindex"), ("Link", '<{base}/below/nine>; rel="next"'))),
}  # fmt: skip


@lru_cache(maxsize=1_024)
def png(number: int) -> bytes:
    """Return a small PNG picture, its colour drawn from the number."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4) + name + data + zlib.crc32(name + data).to_bytes(4)

    row = b"\0" + bytes([number * 37 % 256, number * 91 % 256, number * 151 % 256]) * 8
    size = (8).to_bytes(4) * 2 + bytes([8, 2, 0, 0, 0])
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", size)
        + chunk(b"IDAT", zlib.compress(row * 8))
        + chunk(b"IEND", b"")
    )


def delayed(mix: Mix, ask: Ask, made: Answer) -> Answer:
    """Return an answer with the pause that its host puts before all of its answers."""
    return replace(made, before_ms=max(made.before_ms, mix.slow_ms)) if ask.host.kind is Kind.SLOW else made


_ODD: dict[Kind, Callable[[Plan, Ask], Answer | None]] = {
    Kind.REDIRECTS: _redirects, Kind.ERRORS: _errors, Kind.PRIVATE: _private, Kind.BUSY: _busy, Kind.HANG: _hang,
    Kind.RESET: _reset, Kind.TRICKLE: _trickle, Kind.HUGE: _huge, Kind.DIRTY: _dirty, Kind.MARKUP: _markup,
}  # fmt: skip

_FURTHER = {
    Kind.REDIRECTS: (
        "/go/pong", "/arrived", "/caf%C3%A9?q=th%C3%A9", *(f"/go/chain/{n}" for n in range(2, CHAIN + 1)),
        *(f"/go/long/{n}" for n in range(2, LONG_CHAIN + 1)),
    ),
    Kind.MARKUP: tuple(dict.fromkeys(
        link for _, links, _ in _MARKUP.values() for link in links if link.startswith("/below/")
    )),
}  # fmt: skip


def further_targets(kind: Kind) -> tuple[str, ...]:
    """Return targets that the odd ones lead to, beside those that the root links to."""
    return _FURTHER.get(kind, ())
