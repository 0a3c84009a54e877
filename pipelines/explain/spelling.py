"""From the URL that somebody asks about to the key under which the lake knows it, step by step."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from pipelines.rules import urls
from pipelines.rules.canonical import CANONICAL_STEPS, DEFAULT, canonical

_NO_SCHEME = re.compile(r"[\w-]+(\.[\w-]+)+(:\d+)?(/|\Z)")


@dataclass(frozen=True)
class Applied:
    """A step that changed the URL: what it is called, why it is there, and the URL after it."""

    step: str
    reason: str
    after: str


@dataclass(frozen=True)
class Spelling:
    """A URL and its forms. wire: as it would be requested. canonical: what the key is made of."""

    asked: str
    wire: str
    canonical: str
    steps: tuple[Applied, ...]
    host: str
    key: int
    bucket: int


def spelling_of(asked: str, buckets: int) -> Spelling | None:
    """Return the forms of a URL, None if it is no http(s) URL. A missing scheme is taken to be https.

    >>> [one.step for one in spelling_of("http://A.example/%7Ea?utm_source=x#top", 8).steps]
    ['parser', 'fragment', 'escapes', 'tracking', 'empty_query']
    """
    text = asked.strip()
    wire = urls.wire(text)
    if wire is None and _NO_SCHEME.match(text):
        wire = urls.wire(f"https://{text}")
    if wire is None:
        return None
    host = urls.host_of(wire)
    key = urls.url_key(wire, host)
    return Spelling(asked, wire, canonical(wire), _steps(text, wire), host, key, urls.bucket_of(key, buckets))


def _steps(text: str, wire: str) -> tuple[Applied, ...]:
    """Return the steps that change the URL, found by switching them on one after the other."""
    whole = urls.parse(text)
    parsed = whole.href if whole is not None else wire
    applied = [] if parsed == text else [Applied("parser", "as browsers read it (WHATWG URL)", parsed)]
    before = parsed
    off: dict[str, Any] = {step.name: False for step in CANONICAL_STEPS}
    policy = replace(DEFAULT, **off)
    for step in CANONICAL_STEPS:
        if not getattr(DEFAULT, step.name):
            continue
        on: dict[str, Any] = {step.name: True}
        policy = replace(policy, **on)
        after = canonical(parsed, policy)
        if after != before:
            applied.append(Applied(step.name, step.reason, after))
        before = after
    return tuple(applied)
