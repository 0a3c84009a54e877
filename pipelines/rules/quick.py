"""The quick way of a link: host, key and verdict in one look, where the URL is as plain as most are.

What is not plain takes the rules' own way (urls.py, filters.py); both ways agree, which a test holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import xxhash

from pipelines.rules.filters import FilterPolicy, refusal
from pipelines.rules.urls import URL_BITS, host_key, host_of, url_key
from pipelines.rules.whatwg import PLAIN

_MASK = (1 << URL_BITS) - 1
_LEAF = re.compile(r"(?![0-9]|add|remove|delete|update)[a-z0-9_\-]++(?:\.[a-z0-9_\-]++)*+\Z").match
_WORDS = re.compile(r"cart|basket|sess|sid/|log|sign|regist|anmeld").search
_hash = xxhash.xxh3_64_intdigest
_FOLDERS = 50_000


class Known(NamedTuple):
    """What was found out about a folder once: its host, the top of its keys, the segments of its path."""

    host: str
    top: int
    segments: frozenset[str]


class Quick:
    """Judges links under one policy; remembers folders. For one thread."""

    def __init__(self, policy: FilterPolicy) -> None:
        self._policy = policy
        self._open, self._longest, self._extensions = policy.is_open, policy.url_chars, policy.extension_set
        self._folders: dict[str, Known | None] = {}

    def judge(self, url: str, *, depth: int, meta: Mapping[str, Any] | str | None) -> tuple[str, int | None]:
        """Return a link's host, and its key; the key is None where a rule refuses it. `url` in wire form."""
        if self._open and meta is None:
            cut = url.rfind("/") + 1
            folder = url[:cut]
            known = self._folders[folder] if folder in self._folders else self._remember(folder)
            if known is not None:
                leaf = url[cut:].lower()
                if (
                    _LEAF(leaf)
                    and not _WORDS(leaf)
                    and leaf not in known.segments
                    and leaf[leaf.rfind(".") + 1 :] not in self._extensions
                    and len(url) <= self._longest
                ):
                    return known.host, known.top | (_hash(url.encode()) & _MASK)
        host = host_of(url)
        refused = refusal(url, self._policy, depth=depth, meta=meta, host=host)
        return host, None if refused else url_key(url, host)

    def _remember(self, folder: str) -> Known | None:
        if len(self._folders) >= _FOLDERS:
            self._folders.clear()
        known = self._folders[folder] = self._look(folder)
        return known

    def _look(self, folder: str) -> Known | None:
        """Return a folder whose every plain leaf is good and has itself as its canonical form; else None."""
        found = PLAIN.match(folder)
        if found is None or any(sign in folder for sign in ("%", ";", "/.", "/(", "xn--")):
            return None
        path = found[2].lower()
        if "//" in path or _WORDS(path) is not None or refusal(folder + "x", self._policy) is not None:
            return None
        segments = path.strip("/").split("/")
        if len(segments) >= self._policy.path_segments:
            return None
        host = host_of(folder)
        return Known(host, host_key(host), frozenset(segments))
