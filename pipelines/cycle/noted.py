"""What is noted in the host table from outside the fetch: sitemaps that others name, labels that seeds bring."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lake import staging
from lake.schema import HOSTS, TIMESTAMP
from pipelines.cycle import policies
from pipelines.cycle.frontier import Ints, slice_by_key
from pipelines.cycle.sitemaps import SitemapCopy, copies_of, rows_of
from pipelines.cycle.turn import Turn
from pipelines.rules import metadata

_LABELLED = r'"(label|country|topic)":'


def seeded_sitemaps(turn: Turn, group: int) -> pa.Table:
    """Return the sitemaps that seeds name on a group's hosts."""
    return slice_by_key(staging.read_table(turn.staged("plan", "sitemaps.arrow")), *turn.key_range(group))


def sitemaps_due(turn: Turn, hosts: pa.Table) -> Ints:
    """Return for each host how many sitemaps a cycle may ask it for: the due ones, up to the limit."""
    lists = hosts["sitemaps"].combine_chunks()
    expires = pc.struct_field(pc.list_flatten(lists), "expires_at")
    due = pc.fill_null(pc.less_equal(expires, pa.scalar(turn.opened_at, TIMESTAMP)), True)
    owner = pc.list_parent_indices(lists).filter(due).to_numpy().astype(np.int64)
    counts: Ints = np.bincount(owner, minlength=hosts.num_rows).astype(np.int64)
    return np.minimum(counts, turn.settings.sitemaps.per_cycle)


def robots_due(turn: Turn, rows: pa.Table) -> Ints:
    """Requests that robots.txt will take: one for a host without a fresh copy."""
    sites = rows["robots"].to_pylist()
    return np.array(
        [
            0
            if any(site["expires_at"] and site["expires_at"] > turn.opened_at for site in known or ())
            else 1
            for known in sites
        ],
        dtype=np.int64,
    )


def sitemaps_expected(turn: Turn, rows: pa.Table) -> Ints:
    """Return the requests that sitemaps will take of each host: the due ones, or a look at the usual place.

    A host whose robots.txt is known and named none of its own is not looked at again.
    """
    conf = turn.settings.sitemaps
    looks = int(conf.well_known and conf.per_cycle > 0)
    unknown = rows["sitemaps"].is_null().to_numpy() & (robots_due(turn, rows) > 0)
    expected: Ints = np.where(unknown, looks, sitemaps_due(turn, rows))
    return expected


def with_sitemaps(turn: Turn, rows: pa.Table, noted: pa.Table) -> pa.Table:
    """Return host rows, sorted by key and name, that know of the noted sitemaps; twice is once.

    A seed makes a sitemap that is known due again, to be read whatever it answers, unless it was read in this cycle.
    """
    order = [("host_key", "ascending"), ("host", "ascending")]
    if not noted.num_rows:
        return rows.sort_by(order)
    mine = pc.is_in(rows["host"], noted["host"].combine_chunks())
    changed = rows.filter(mine).combine_chunks()
    found: dict[str, list[SitemapCopy]] = {}
    for row in noted.to_pylist():
        copy = SitemapCopy(row["url"], row["source"], tuple(row["hosts"] or ()), row["meta"], row["level"])
        found.setdefault(row["host"], []).append(copy)
    rules = policies.sitemap_rules(turn.settings)
    lists = []
    for host, known in zip(changed["host"].to_pylist(), changed["sitemaps"].to_pylist(), strict=True):
        sitemaps = copies_of(known, rules, opened_ms=turn.opened_ms, now_ms=turn.opened_ms)
        for copy in found[host]:
            before = sitemaps.copies.get(copy.url)
            if before and copy.source == "seed" and before.fetched_ms < turn.opened_ms:
                before.read_anew(turn.opened_ms)
            sitemaps.note(rules, copy, now_ms=turn.opened_ms)
        lists.append(rows_of(sitemaps))
    field = HOSTS.arrow.field("sitemaps")
    at = changed.schema.get_field_index("sitemaps")
    changed = changed.set_column(at, field, pa.array(lists, field.type))
    return pa.concat_tables([rows.filter(pc.invert(mine)), changed]).sort_by(order)


def with_labels(hosts: pa.Table, rows: pa.Table) -> pa.Table:
    """Return host rows in which those without a label have that of their labelled URL nearest to a seed."""
    bare = hosts["host"].filter(hosts["label"].is_null()).combine_chunks()
    says = pc.fill_null(pc.match_substring_regex(rows["meta"], _LABELLED), False)
    told = rows.filter(says)
    told = told.filter(pc.is_in(told["host"], bare)).sort_by(
        [("depth", "ascending"), ("url_key", "ascending")]
    )
    if not told.num_rows:
        return hosts
    labels: dict[str, str] = {}
    for host, meta in zip(told["host"].to_pylist(), told["meta"].to_pylist(), strict=True):
        if host not in labels and (label := metadata.label_of(meta)) is not None:
            labels[host] = label
    pairs = zip(hosts["host"].to_pylist(), hosts["label"].to_pylist(), strict=True)
    field = HOSTS.arrow.field("label")
    told_labels = [label or labels.get(host) for host, label in pairs]
    return hosts.set_column(hosts.schema.get_field_index("label"), field, pa.array(told_labels, field.type))
