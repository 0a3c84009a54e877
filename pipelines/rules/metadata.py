"""A URL's metadata: a JSON object that a seed brings and that what is found from it inherits, word for word.

Three names in it are of the URL alone and are not inherited: `sitemap` (what a sitemap says of it, see `with_hints`),
`feed` (the URL is a feed whose items are links) and `scan` (the answer by which a scan found its host).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

OWN = ("sitemap", "feed", "scan")
"""Names that are not inherited."""

LASTMOD_PATTERN = r'"lastmod":(?P<lastmod>\d{1,11})[,}]'
PRIORITY_PATTERN = r'"priority":(?P<priority>[01]\.\d{1,3})[,}]'
"""Where `with_hints` puts a sitemap's words in the text, for looking through whole columns (RE2)."""

_TRUE = frozenset({"true", "1", "yes"})


def read(meta: str | None) -> dict[str, Any]:
    """Return metadata as a dict; what is no JSON object is as if it were absent.

    >>> read('{"label":"dk"}'), read(None), read("[]")
    ({'label': 'dk'}, {}, {})
    """
    if not meta:
        return {}
    try:
        found = json.loads(meta)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def written(meta: Mapping[str, Any]) -> str | None:
    """Return metadata as compact JSON with sorted names; None for an empty one."""
    if not meta:
        return None
    return json.dumps(dict(meta), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def inherited(meta: str | None) -> str | None:
    """Return what of a URL's metadata goes on to what is found from it.

    >>> inherited('{"feed":true,"label":"dk"}')
    '{"label":"dk"}'
    """
    if meta is None or not any(f'"{name}"' in meta for name in OWN):
        return meta
    return written({name: value for name, value in read(meta).items() if name not in OWN})


def is_set(meta: str | None, name: str) -> bool:
    """Return whether a switch of the metadata is on: true, or one of the words true, yes, 1."""
    return meta is not None and f'"{name}"' in meta and str(read(meta).get(name)).lower() in _TRUE


def with_hints(
    meta: str | None, *, lastmod: datetime | None, changefreq: str | None, priority: float
) -> str | None:
    """Return inherited metadata with what a sitemap says of a URL added: `lastmod` in seconds since 1970.

    What says nothing (no date, no word, the usual priority of 0.5) is left out.

    >>> with_hints(None, lastmod=None, changefreq="daily", priority=0.5)
    '{"sitemap":{"changefreq":"daily"}}'
    """
    told: dict[str, Any] = {}
    if changefreq:
        told["changefreq"] = changefreq
    if lastmod is not None and lastmod.timestamp() > 0:
        told["lastmod"] = int(lastmod.timestamp())
    if priority != 0.5:
        told["priority"] = round(priority, 3)
    if not told:
        return meta
    return written({**read(meta), "sitemap": told})


def seeded(meta: str | None, seed: str | None) -> str | None:
    """Return the metadata of a known URL that a seed names anew: the seed's where it brings any, a sitemap's words kept.

    >>> seeded('{"label":"se","sitemap":{"lastmod":7}}', '{"label":"dk"}'), seeded('{"label":"se"}', None)
    ('{"label":"dk","sitemap":{"lastmod":7}}', '{"label":"se"}')
    """
    if not seed:
        return meta
    said = hints(meta)
    return written({**({"sitemap": said} if said else {}), **read(seed)})


def hints(meta: str | None) -> dict[str, Any]:
    """Return what a sitemap says of a URL, as `with_hints` put it there; empty where it says nothing.

    A seed may bring the name as a switch instead (`sitemap=no`): that says nothing.

    >>> hints('{"sitemap":{"lastmod":7}}'), hints('{"sitemap":"no"}')
    ({'lastmod': 7}, {})
    """
    told = read(meta).get("sitemap")
    return told if isinstance(told, dict) else {}


def changefreq(meta: str | None) -> str | None:
    """Return how often a sitemap says that a URL changes, in the protocol's word; None = it does not.

    >>> changefreq('{"sitemap":{"changefreq":"daily"}}')
    'daily'
    """
    if meta is None or '"changefreq"' not in meta:
        return None
    word = hints(meta).get("changefreq")
    return word if isinstance(word, str) else None


def label_of(meta: str | None) -> str | None:
    """Return the label that budgets go by: `label`, else country and topic joined by a slash; None = none.

    >>> label_of('{"label":"dk"}'), label_of('{"country":"dk","topic":"news"}'), label_of('{"topic":"news"}')
    ('dk', 'dk/news', 'news')
    """
    if meta is None:
        return None
    found = read(meta)
    if found.get("label"):
        return str(found["label"])
    parts = [str(found[name]) for name in ("country", "topic") if found.get(name)]
    return "/".join(parts) or None
