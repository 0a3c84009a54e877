"""Intake, the start of plan: the inbox becomes URLs and sitemaps, file by file, so that its size does not matter.

A bucket group then takes its range of them: what nobody has seen is *admitted*; what waits on the backlog or was
retired is *recalled*; what lies on a shelf of this cycle is named a seed there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lake import inbox, runs, staging
from lake.snapshot import Lake
from pipelines.cycle import parts, policies
from pipelines.cycle.frontier import STATE, Ints, column, is_seed, new_rows, slice_by_key
from pipelines.cycle.turn import Turn
from pipelines.rules import filters, metadata, urls
from pipelines.rules.quick import Quick

EXAMPLES = 100
SITEMAP_SOURCES = ("sitemap",)
"""Sources by which a URL that is known already is named anew."""


class Wanted(NamedTuple):
    """A URL of the inbox that is admitted by the filters."""

    url: str
    host: str
    meta: str | None
    source: str


@dataclass
class Taken:
    """What became of a file of the inbox."""

    sitemaps: list[tuple[Any, ...]] = field(default_factory=list)
    refused: int = 0
    examples: list[dict[str, str]] = field(default_factory=list)

    def refuse(self, url: str, rule: str) -> None:
        self.refused += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append({"url": url[:2_000], "rule": rule})


def sift(turn: Turn, number: int) -> dict[str, Any]:
    """Stage a file of the inbox: `plan/inbox-N.arrow`, frontier rows sorted by key, a row a URL (its first mention
    counts), and `plan/sitemaps-N.arrow`, the sitemaps among them.

    Returns a manifest: `urls` staged, `sitemaps`, `refused`, `examples` of those with the rule.
    """
    if found := turn.done("sift", number):
        return found
    taken = Taken()
    policy = policies.filter_policy(turn.settings, year=turn.opened_at.year)
    kept = _sifted(inbox.read(turn.root, [turn.inbox[number]]), policy, taken)
    staging.write_table(turn.staged("plan", f"inbox-{number:04d}.arrow"), _rows(turn, kept))
    sitemaps = parts.table_of(parts.SITEMAP_SCHEMA, taken.sitemaps)
    staging.write_table(turn.staged("plan", f"sitemaps-{number:04d}.arrow"), sitemaps)
    told = {"urls": len(kept), "sitemaps": len(taken.sitemaps)}
    return turn.finish("sift", number, {**told, "refused": taken.refused, "examples": taken.examples})


def intake(turn: Turn) -> dict[str, Any]:
    """Sift what is not sifted yet of the inbox, and stage `plan/sitemaps.arrow`, the sitemaps of all files.

    Returns a manifest: `urls` staged, `files`, `sitemaps`, `refused` with the first reasons.
    """
    if found := turn.done("intake"):
        return found
    files = [sift(turn, number) for number in range(len(turn.inbox))]
    named = [
        staging.read_table(turn.staged("plan", f"sitemaps-{number:04d}.arrow"))
        for number in range(len(files))
    ]
    staging.write_table(
        turn.staged("plan", "sitemaps.arrow"),
        pa.concat_tables([parts.SITEMAP_SCHEMA.empty_table(), *named]).sort_by(
            [("url_key", "ascending"), ("url", "ascending")]
        ),
    )
    sums = {name: sum(told[name] for told in files) for name in ("urls", "sitemaps", "refused")}
    examples = [example for told in files for example in told["examples"]][:EXAMPLES]
    return turn.finish("intake", None, {**sums, "files": len(files), "examples": examples})


def _sifted(rows: pa.Table, policy: filters.FilterPolicy, taken: Taken) -> dict[int, Wanted]:
    kept: dict[int, Wanted] = {}
    quick = Quick(policy)
    columns = (rows[name].to_pylist() for name in ("url", "meta", "source"))
    for url, meta, source in zip(*columns, strict=True):
        if (why := inbox.unfit(url, meta)) is not None:
            taken.refuse(url or "", why)
            continue
        wire = urls.wire(url)
        if wire is None:
            taken.refuse(url, "not an http(s) URL")
            continue
        if meta is not None and (why := filters.unusable(metadata.read(meta))) is not None:
            taken.refuse(url, why)
            continue
        host = urls.host_of(wire)
        if source in SITEMAP_SOURCES or metadata.is_set(meta, "sitemap"):
            taken.sitemaps.append(_sitemap(wire, host, _seed_meta(wire, metadata.inherited(meta), policy)))
            continue
        _, key = quick.judge(wire, depth=0, meta=meta)
        if key is None:
            refusal = filters.refusal(wire, policy, meta=meta, host=host)
            taken.refuse(url, refusal.rule if refusal else "")
            continue
        kept.setdefault(key, Wanted(wire, host, _seed_meta(wire, meta, policy), source))
    return kept


def _seed_meta(url: str, meta: str | None, policy: filters.FilterPolicy) -> str | None:
    if not meta and policy.is_open:
        return None
    return metadata.written(filters.seed_meta(url, metadata.read(meta)))


def _sitemap(url: str, host: str, meta: str | None) -> tuple[Any, ...]:
    return (urls.host_key(host), host, url, "seed", [host], meta, 0)


def _rows(turn: Turn, kept: dict[int, Wanted]) -> pa.Table:
    keys = np.sort(np.fromiter(kept, dtype=np.int64, count=len(kept)))
    wanted = [kept[key] for key in keys.tolist()]
    columns = zip(*wanted, strict=True) if wanted else ((),) * len(Wanted._fields)
    texts = {
        name: pa.array(values, pa.string()) for name, values in zip(Wanted._fields, columns, strict=True)
    }
    return new_rows(turn, keys=keys, columns=texts)


# --- a bucket group's share ---------------------------------------------------------------------------


class Sorted(NamedTuple):
    """A group's URLs of the inbox: those nobody has seen, and the others."""

    admitted: pa.Table
    known: pa.Table


def inbox_rows(turn: Turn, group: int) -> pa.Table:
    """Return a group's URLs of the inbox, sorted by key, a row a URL: the first mention counts."""
    count = (turn.done("intake") or {"files": 0})["files"]
    first, last = turn.key_range(group)
    tables = [
        _copied(
            slice_by_key(staging.read_table(turn.staged("plan", f"inbox-{number:04d}.arrow")), first, last)
        )
        for number in range(count)
    ]
    rows = pa.concat_tables(tables or [STATE.empty_table()])
    if len(tables) < 2:
        return rows
    order = np.argsort(column(rows, "url_key"), kind="stable")
    keys = column(rows, "url_key")[order]
    new = np.concatenate([[True], keys[1:] != keys[:-1]]) if len(keys) else np.zeros(0, bool)
    return rows.take(pa.array(order[new]))


def _copied(rows: pa.Table) -> pa.Table:
    """Return a copy, which lets go of the file that the rows are mapped from.

    Dask counts what is mapped as a worker's memory, and ends a worker that has too much of it: the files of ten
    million seeds came to 1.4 GB.
    """
    return rows.take(pa.array(np.arange(rows.num_rows)))


def sort_out(turn: Turn, lake: Lake, group: int) -> Sorted:
    """Return a group's URLs of the inbox by whether the lake has seen them."""
    rows = inbox_rows(turn, group)
    if not rows.num_rows:
        return Sorted(rows, rows)
    files = lake.files("seen", partitions={"bucket": turn.bucket_range(group)})
    known = runs.known(files, column(rows, "url_key"))
    named = rows.filter(pa.array(known))
    return Sorted(
        rows.filter(pa.array(~known)),
        named.filter(pa.array(is_seed(named))),
    )


def recall(turn: Turn, lake: Lake, known: pa.Table) -> pa.Table:
    """Return the rows of the backlog and retired shelves that seeds name anew, as they were; `shelf` says where.

    Only the buckets of such seeds are read.
    """
    found = []
    keys = column(known, "url_key")
    buckets = sorted(set(column(known, "bucket").tolist()))
    for shelf in ("backlog", "retired"):
        rows = lake.read(f"frontier_{shelf}", partitions={"bucket": buckets}) if buckets else None
        if rows is None or not rows.num_rows:
            continue
        rows = rows.select(STATE.names)
        mine = rows.filter(pa.array(runs.is_member(keys, column(rows, "url_key"))))
        found.append(mine.append_column("shelf", pa.repeat(pa.scalar(shelf), mine.num_rows)))
    schema = STATE.append(pa.field("shelf", pa.string()))
    return pa.concat_tables(found).cast(schema).sort_by("url_key") if found else schema.empty_table()


def recalled_keys(turn: Turn, group: int, shelf: str) -> Ints:
    """Return the sorted keys that a group's seeds took from a shelf."""
    rows = staging.read_table(
        turn.staged("plan", f"recalled-{group:04d}.arrow"), columns=["url_key", "shelf"]
    )
    return column(rows.filter(pc.equal(rows["shelf"], shelf)), "url_key")
