"""`noria check url` and `noria check robots`: what the rules say of one URL, and which line or number says so."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

import lake
from lake.layout import Layout
from pipelines.explain.admission import admission
from pipelines.explain.ask import Asked, Asking
from pipelines.failure import Failure, Misuse
from pipelines.rules.filters import Refusal
from pipelines.rules.hosts import registrable_domain
from pipelines.rules.robots import ALLOW_ALL, DISALLOW_ALL, RobotsState, Rules
from pipelines.rules.urls import bucket_of, canonical, host_key, host_of, site_of, url_key, wire

if TYPE_CHECKING:
    from pipelines.config import Settings

KEPT = {"allow_all": ALLOW_ALL, "unreachable": DISALLOW_ALL}


def url(settings: Settings, text: str, *, as_json: bool) -> None:
    """Print how a URL is known here, and what every filter rule says of it."""
    href = _wire(text)
    judged = admission(settings, href, year=datetime.now(tz=UTC).year)
    rules, refused = judged.verdicts, judged.refusal
    facts = {
        "url": href, "canonical": canonical(href), "key": url_key(href), "bucket": bucket_of(url_key(href), settings.lake.buckets),
        "host": host_of(href), "domain": registrable_domain(host_of(href)), "admitted": refused is None,
    }  # fmt: skip
    if as_json:
        print(json.dumps(facts | {"rules": [rule._asdict() for rule in rules]}))
        return
    for name, value in facts.items():
        print(f"{name:<10} {_verdict(refused) if name == 'admitted' else value}")
    for rule in rules:
        print(f"  {rule.rule:<20} {'ok' if rule.ok else f'refused: {rule.detail}'}")
    if judged.overruled:
        print(f"a plug-in admits it although {judged.overruled.rule} refuses it")
    if judged.guessed:
        print(judged.guessed)


def robots(settings: Settings, text: str, *, file: Path | None, as_json: bool, fetch: bool = False) -> None:
    """Print whether robots.txt allows a URL, by which group and line.

    file: a robots.txt to read instead of the lake's copy. fetch: ask the site for it, once and politely; returns
    when the pause that the host is due is over.
    """
    href = _wire(text)
    if fetch:
        with Asking(settings, _lake_of(settings)) as asking:
            _tell(settings, href, *_fetched(settings, asking.robots(href)), as_json=as_json)
        return
    rules, source = (_rules(settings, _bytes(file)), str(file)) if file else _kept(settings, href)
    _tell(settings, href, rules, source, as_json=as_json)


def _rules(settings: Settings, body: bytes) -> Rules:
    return Rules.parse(body, settings.robots.max_bytes)


def _fetched(settings: Settings, asked: Asked) -> tuple[Rules, str]:
    exchange = asked.exchange
    came = f"status {exchange.status}" if exchange.status else f"{exchange.outcome.value}: {exchange.error}"
    rules = _rules(settings, asked.body) if asked.state is RobotsState.RULES else KEPT[asked.state.value]
    return rules, f"{asked.url} as fetched just now, {came}: {asked.state.value.replace('_', ' ')}"


def _lake_of(settings: Settings) -> lake.Lake | None:
    """Return the lake that keeps the hosts' clocks, None where none is yet."""
    path = Path(settings.lake.path)
    return lake.open(path) if Layout(path.absolute()).meta.exists() else None


def _tell(settings: Settings, href: str, rules: Rules, source: str, *, as_json: bool) -> None:
    product = settings.identity.product
    verdict = rules.allows(href, product)
    found: dict[str, Any] = {
        "url": href, "product": product, "source": source, **verdict._asdict(), "crawl_delay_ms": rules.crawl_delay_ms(product),
    }  # fmt: skip
    if as_json:
        print(json.dumps(found))
        return
    line = f"line {verdict.line_no}: {verdict.line}" if verdict.line is not None else "no line matches"
    print(f"{'allowed' if verdict.allowed else 'refused'}  {href}")
    print(f"{'group':<8} {verdict.group or 'none applies'}, {line}")
    print(f"{'source':<8} {source}")
    if found["crawl_delay_ms"] is not None:
        print(f"{'delay':<8} {found['crawl_delay_ms']:,} ms between requests")


def _wire(text: str) -> str:
    href = wire(text)
    if href is None:
        raise Misuse(f"{text} is not an http or https URL; write it with its scheme, as https://example.org/")
    return href


def _verdict(refused: Refusal | None) -> str:
    return (
        "yes, unless robots.txt forbids it" if refused is None else f"no: {refused.rule} ({refused.detail})"
    )


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise Misuse(f"{file}: {error.strerror}; name a robots.txt with --file") from error


def _kept(settings: Settings, href: str) -> tuple[Rules, str]:
    """Return the rules that the lake keeps of a URL's site, and where they come from."""
    path, site, host = settings.lake.path, site_of(href), host_of(href)
    if not Layout(Path(path).absolute()).meta.exists():
        raise Failure(
            f"no lake at {path} that could know the robots.txt of {site}; give one with --file robots.txt"
        )
    held = lake.open(path)
    bucket = bucket_of(host_key(host), held.buckets)
    rows = held.read(
        "hosts", columns=["robots"], partitions={"bucket": [bucket]}, filter=pc.field("host") == host
    )
    for copy in (one for row in rows.to_pylist() for one in row["robots"] or () if one["site"] == site):
        when = f"{site}/robots.txt as fetched at {copy['fetched_at']:%Y-%m-%d %H:%M:%S} UTC, status {copy['status']}"
        if copy["state"] in KEPT:
            return KEPT[copy["state"]], f"{when}: {copy['state'].replace('_', ' ')}"
        body = held.read("robots", columns=["body"], filter=pc.field("digest") == copy["digest"])
        if body.num_rows:
            return _rules(settings, body.column("body")[0].as_py()), when
    raise Failure(f"the lake at {path} has no robots.txt of {site} yet; give one with --file robots.txt")
