"""URLs: what is requested, under what key a URL is known, and the columns it has in the index.

The parsing lies in whatwg.py, the key form in canonical.py, SURT in surt.py; all are to be had here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from pipelines.rules.canonical import CANONICAL_STEPS, DEFAULT, CanonPolicy, Step, canonical
from pipelines.rules.hosts import is_address, reversed_name, suffixes
from pipelines.rules.surt import plain_surt_path, surt, surt_site
from pipelines.rules.whatwg import (
    PLAIN,
    Url,
    parse,
    resolve,
    resolve_encoded,
    resolve_location,
    split,
    wire,
)

__all__ = [
    "CANONICAL_STEPS",
    "DEFAULT",
    "CanonPolicy",
    "Step",
    "Url",
    "bucket_of",
    "bucket_range",
    "buckets_of",
    "canonical",
    "host_key",
    "host_of",
    "index_columns",
    "parse",
    "resolve",
    "resolve_encoded",
    "resolve_location",
    "site_of",
    "split",
    "surt",
    "url_key",
    "wire",
]

KEY_BITS, URL_BITS = 63, 48
_URL_MASK = (1 << URL_BITS) - 1
_hash = xxhash.xxh3_64_intdigest


def host_of(url: str) -> str:
    """Return the host of a URL: lower-case ASCII without port and trailing dot; "" if it is not http(s).

    >>> host_of("http://Exampl%65.org.:8080/a"), host_of("http://[2001:DB8::1]/")
    ('example.org', '[2001:db8::1]')
    """
    parts = url.split("/", 3)
    if len(parts) > 2 and parts[0] in _SCHEMES and not parts[1] and parts[2]:
        host = _host(parts[2] + "/" if len(parts) > 3 else parts[2])
        if host:
            return host
    found = parse(url)
    return "" if found is None else found.host


_SCHEMES = frozenset({"http:", "https:"})


@lru_cache(maxsize=65_536)
def _host(authority: str) -> str:
    found = parse(f"http://{authority}")
    return "" if found is None else found.host


def site_of(url: str) -> str:
    """Return scheme, host and port (unless it is the scheme's own) of a URL; "" if it is not http(s).

    >>> site_of("http://user@A.example:8080/b?c")
    'http://a.example:8080'
    """
    parts = url.split("/", 3)
    if len(parts) > 2 and parts[0] in _SCHEMES and not parts[1] and parts[2]:
        site = _site(f"{parts[0]}//{parts[2]}/" if len(parts) > 3 else url)
        if site:
            return site
    return _site(url)


@lru_cache(maxsize=16_384)
def _site(url: str) -> str:
    found = parse(url)
    if found is None:
        return ""
    return f"{found.scheme}://{found.host}" + ("" if found.port is None else f":{found.port}")


@lru_cache(maxsize=65_536)
def host_key(host: str) -> int:
    """Return the lowest key that a URL of the host can have: 15 bits of its hash, 48 zero bits."""
    return (_hash(host.encode()) >> 49) << URL_BITS


def url_key(url: str, host: str | None = None, policy: CanonPolicy = DEFAULT) -> int:
    """Return the 63-bit key under which a URL is known: its host's 15 bits, then 48 of the canonical form.

    host: as `host_of` gives it, where the caller has it at hand.
    """
    top = host_key(host_of(url) if host is None else host)
    return top | (_hash(canonical(url, policy).encode("utf-8", "surrogatepass")) & _URL_MASK)


def _shift(buckets: int) -> int:
    if buckets < 1 or buckets & (buckets - 1) or buckets > 1 << 15:
        raise ValueError(f"{buckets} buckets: must be a power of two from 1 to 32768")
    return KEY_BITS - buckets.bit_length() + 1


def bucket_of(key: int, buckets: int) -> int:
    """Return the bucket of a key: its top log2(buckets) bits."""
    return key >> _shift(buckets)


def buckets_of(keys: npt.NDArray[np.int64], buckets: int) -> npt.NDArray[np.int64]:
    """Return the bucket of each key."""
    if buckets == 1:
        return np.zeros(len(keys), dtype=np.int64)
    return keys >> np.int64(_shift(buckets))


def bucket_range(bucket: int, buckets: int) -> tuple[int, int]:
    """Return the lowest and the highest key of a bucket, both in it (one beyond would not fit an int64)."""
    shift = _shift(buckets)
    return bucket << shift, ((bucket + 1) << shift) - 1


_COLUMNS = (
    "url_surtkey", "url_path", "url_query", "url_protocol", "url_port", "url_host_name", "url_host_tld",
    "url_host_2nd_last_part", "url_host_3rd_last_part", "url_host_4th_last_part", "url_host_5th_last_part",
    "url_host_registry_suffix", "url_host_registered_domain", "url_host_private_suffix", "url_host_private_domain",
    "url_host_name_reversed",
)  # fmt: skip


def index_columns(urls: Sequence[str]) -> dict[str, list[Any]]:
    """Return the `url_*` columns of `captures` for http(s) URLs in wire form, a list of equal length each.

    An IP address has no labels and no suffixes: those are None, and its name reversed is itself.
    """
    columns = zip(*map(_index_row, urls), strict=True) if urls else ([] for _ in _COLUMNS)
    return {name: list(values) for name, values in zip(_COLUMNS, columns, strict=True)}


def _index_row(url: str) -> tuple[Any, ...]:
    """Return one value a column; what depends on the site alone is remembered."""
    found = PLAIN.match(url)
    if found is not None:
        site, path, query = found.groups()
        end = plain_surt_path(path, query)
        if end is not None:
            return (surt_site(site) + end, path, None if query is None else query[1:], *_site_columns(site))
    parts = split(url)
    return (surt(url), parts.path, parts.query, *_site_columns(site_of(url)))


@lru_cache(maxsize=65_536)
def _site_columns(site: str) -> tuple[Any, ...]:
    parts = split(site + "/")
    host = parts.host
    labels = [] if is_address(host) else host.split(".")[::-1]
    five = (*labels[:5], None, None, None, None, None)[:5]
    return (parts.scheme, parts.port, host, *five, *suffixes(host), reversed_name(host))
