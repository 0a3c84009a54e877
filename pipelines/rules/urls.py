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
from pipelines.rules.hosts import reversed_name, suffixes
from pipelines.rules.surt import surt
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
    site = site_of(url)
    host = site[site.find("//") + 2 :]
    colon = host.rfind(":")
    return host[:colon] if colon > host.rfind("]") else host


def site_of(url: str) -> str:
    """Return scheme, host and port (unless it is the scheme's own) of a URL; "" if it is not http(s).

    >>> site_of("http://user@A.example:8080/b?c")
    'http://a.example:8080'
    """
    found = PLAIN.match(url)
    if found is not None and "xn--" not in found[1]:
        return str(found[1])
    parts = parse(url)
    if parts is None:
        return ""
    return f"{parts.scheme}://{parts.host}" + ("" if parts.port is None else f":{parts.port}")


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


@lru_cache(maxsize=65_536)
def _host_columns(host: str) -> tuple[str | None, ...]:
    labels: list[str | None] = list(reversed(host.split("."))) if host[:1] != "[" else [host]
    if host[-1:].isdigit():
        labels = [None]
    labels += [None] * 5
    return (host, *labels[:5], *suffixes(host), reversed_name(host))


_HOST_COLUMNS = (
    "url_host_name", "url_host_tld", "url_host_2nd_last_part", "url_host_3rd_last_part", "url_host_4th_last_part",
    "url_host_5th_last_part", "url_host_registry_suffix", "url_host_registered_domain", "url_host_private_suffix",
    "url_host_private_domain", "url_host_name_reversed",
)  # fmt: skip


def index_columns(urls: Sequence[str]) -> dict[str, list[Any]]:
    """Return the `url_*` columns of `captures` for URLs in wire form, a list of equal length each."""
    parts = [split(url) for url in urls]
    columns: dict[str, list[Any]] = {"url_surtkey": [surt(url) for url in urls]}
    hosts = list(zip(*[_host_columns(one.host) for one in parts], strict=True)) or [()] * len(_HOST_COLUMNS)
    columns |= {name: list(values) for name, values in zip(_HOST_COLUMNS, hosts, strict=True)}
    columns["url_protocol"] = [one.scheme for one in parts]
    columns["url_port"] = [one.port for one in parts]
    columns["url_path"] = [one.path for one in parts]
    columns["url_query"] = [one.query for one in parts]
    return columns
