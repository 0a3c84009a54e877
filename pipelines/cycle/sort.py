"""Sort: a partition's parts become files sorted by URL key and by digest, so that others read only their range."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lake import staging
from pipelines.cycle import parts
from pipelines.cycle.frontier import Ints, column
from pipelines.cycle.turn import Turn
from pipelines.rules import urls


def sort_partition(turn: Turn, partition: int) -> dict[str, Any]:
    """Stage `sort/pNNNN-{captures,candidates,digests,hosts,links,robots,sitemaps}.arrow` of a fetched partition.

    captures: sorted by (url_key, hop, request_ms), with the index columns. candidates: one row a URL, the
    best sighting, sorted by url_key. digests: sorted by digest_key, `row` = place in captures.
    """
    if found := turn.done("sort", partition):
        return found
    fetched = turn.done("fetch", partition) or {"parts": []}
    base = turn.staged("fetch", f"p{partition:04d}")
    names = [parts.PartName(*pair) for pair in fetched["parts"]]
    captures = _captures(turn, base_rows(base, names, "captures"))
    candidates = best_sightings(base_rows(base, names, "candidates"))
    tables = {
        "captures": captures,
        "candidates": candidates,
        "digests": digests(captures, turn.settings.warc.revisit_min_bytes),
        "hosts": last_by(base_rows(base, names, "hosts"), "host"),
        "links": _links(base_rows(base, names, "links")),
        "robots": last_by(base_rows(base, names, "robots"), "digest"),
        "sitemaps": base_rows(base, names, "sitemaps").sort_by(
            [("url_key", "ascending"), ("url", "ascending")]
        ),
    }
    for kind, table in tables.items():
        staging.write_table(turn.staged("sort", f"p{partition:04d}-{kind}.arrow"), table)
    rows = {kind: table.num_rows for kind, table in tables.items()}
    return turn.finish("sort", partition, rows)


def base_rows(base: Any, names: list[parts.PartName], kind: str) -> pa.Table:
    """Return a kind's rows of all parts that count."""
    return parts.read_parts(base, names, kind)


def _captures(turn: Turn, rows: pa.Table) -> pa.Table:
    order = np.lexsort((column(rows, "request_ms"), column(rows, "hop"), column(rows, "url_key")))
    rows = rows.take(pa.array(order)).combine_chunks()
    for name, values in urls.index_columns(rows["url"].to_pylist()).items():
        kind = pa.int32() if name == "url_port" else pa.string()
        rows = rows.append_column(name, pa.array(values, kind))
    return rows.append_column(
        "bucket", pa.array(urls.buckets_of(column(rows, "url_key"), turn.buckets), pa.int32())
    )


def best_sightings(rows: pa.Table) -> pa.Table:
    """Return one row a URL key: the fewest links from a seed, then a sitemap's, then the smallest key of the page.

    Sorted by key.
    """
    key = column(rows, "url_key")
    linked = pc.not_equal(rows["source"], "sitemap").to_numpy()
    order = np.lexsort((column(rows, "via_key"), linked, column(rows, "depth"), key))
    ordered = key[order]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(ordered) else np.zeros(0, bool)
    return rows.take(pa.array(order[first])).combine_chunks()


def digest_key(digest: str) -> int:
    """Return the top 63 bits of a sha1 given as Base32.

    >>> digest_key("3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ") == 0xDA39A3EE5E6B4B0D >> 1
    True
    """
    return int.from_bytes(base64.b32decode(digest)[:8], "big") >> 1


def digests(captures: pa.Table, least_bytes: int) -> pa.Table:
    """Return the payloads that may be, or may become, a duplicate: responses of at least so many bytes.

    Also what was cut at our limit, or torn on its way: servers that break off do so at the same place each time.
    """
    fit = pc.and_(
        pc.equal(captures["record_type"], "response"),
        pc.greater_equal(captures["body_bytes"], max(least_bytes, 1)),
    )
    rows = np.flatnonzero(pc.fill_null(fit, False).to_numpy())
    chosen = captures.select(
        ["content_digest", "record_id", "url", "url_key", "request_ms", "body_bytes", "hop"]
    ).take(pa.array(rows))
    keys: Ints = np.fromiter(map(digest_key, chosen["content_digest"].to_pylist()), np.int64, len(rows))
    order = np.lexsort((column(chosen, "hop"), column(chosen, "url_key"), keys))
    return (
        chosen.append_column("digest_key", pa.array(keys))
        .append_column("row", pa.array(rows, pa.int64()))
        .take(pa.array(order))
        .combine_chunks()
    )


def last_by(rows: pa.Table, name: str) -> pa.Table:
    """Return the last row of each value of a column, sorted by it."""
    codes = rows[name].combine_chunks().dictionary_encode()
    last = np.full(len(codes.dictionary), -1, dtype=np.int64)
    last[codes.indices.to_numpy()] = np.arange(rows.num_rows)
    return rows.take(pa.array(last)).combine_chunks().sort_by(name)


def _links(rows: pa.Table) -> pa.Table:
    summed = rows.group_by(["src_host", "dst_host"]).aggregate([("links", "sum")])
    return summed.rename_columns(["src_host", "dst_host", "links"]).sort_by(
        [("src_host", "ascending"), ("dst_host", "ascending")]
    )
