"""What a cycle brought, by host and path pattern: patterns that bring nothing new are set aside, and so are dead hosts.

The fetch step's watch judges within a cycle by what one partition sees; here the whole lake is the judge: a payload
is new if the gate says so, a link if it was admitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lake import staging
from lake.snapshot import Lake, crawl_name
from pipelines.cycle import policies
from pipelines.cycle.shelving import STATE_COLUMNS, Shelved
from pipelines.cycle.turn import Turn
from pipelines.cycle.watch import NO_PAGE
from pipelines.rules import sources
from pipelines.rules.traps import PatternYields, Quarantines, YieldPolicy, path_pattern

TRAP, GONE = "trap:yield", "host_gone"
"""Reasons on the retired shelf: the URL's pattern brought nothing; its host could not be talked to for too long."""


@dataclass
class HostTraps:
    """One host's patterns after a cycle. open: patterns whose sample is due, or that are well again."""

    yields: PatternYields
    traps: Quarantines
    sampled: set[str] = field(default_factory=set)
    released: set[str] = field(default_factory=set)


@dataclass
class Harvest:
    """What a bucket group's hosts came to.

    gone: sentence by host whose URLs are to be retired. back: hosts that answer again after such a time.
    touched: buckets in which `set_aside` changed a shelf.
    """

    traps: dict[str, HostTraps]
    gone: dict[str, str]
    back: set[str]
    policy: YieldPolicy
    touched: set[int] = field(default_factory=set)


def visits_of(turn: Turn, group: int, partitions: int) -> pa.Table:
    """Return the group's answers that say something of their patterns, with the gate's verdict.

    In the order of URLs: what a cycle brought must not depend on who was asked first.
    """
    first, last = turn.key_range(group)
    tables = []
    for number in range(partitions):
        rows = staging.read_table(turn.staged("sort", f"p{number:04d}-captures.arrow"))
        keys = rows["url_key"].to_numpy()
        start, stop = np.searchsorted(keys, first, side="left"), np.searchsorted(keys, last, side="right")
        told = staging.read_table(turn.staged("seal", f"p{number:04d}.arrow"), columns=["duplicate"])
        mine = rows.select(["url", "host", "request_ms", "skeleton", "leads_away"]).slice(start, stop - start)
        mine = mine.append_column("duplicate", told["duplicate"].slice(start, stop - start))
        tables.append(mine.filter(pc.is_valid(mine["skeleton"])))
    if not tables:
        return pa.table({name: [] for name in ("url", "host", "skeleton", "leads_away", "duplicate")})
    return pa.concat_tables(tables).sort_by("url")


def reap(
    turn: Turn, lake: Lake, group: int, *, visits: pa.Table, rows: pa.Table, fresh: pa.Table, books: pa.Table
) -> Harvest:
    """Return what became of the hosts' patterns.

    visits: see `visits_of`. rows: all URLs that may be asked. fresh: those of them that links brought, new.
    """
    policy = policies.yield_policy(turn.settings)
    asked = visits["host"].combine_chunks().cast(pa.string()).unique()
    trapped = pc.and_(pc.is_valid(books["traps"]), pc.is_in(books["host"], rows["host"].combine_chunks()))
    known = books.filter(pc.or_(pc.is_in(books["host"], asked), trapped))
    traps = {
        host: HostTraps(PatternYields.from_json(told, policy), Quarantines.from_json(aside))
        for host, told, aside in zip(
            *(known[name].to_pylist() for name in ("host", "yields", "traps")), strict=True
        )
    }
    _count(visits, fresh, traps, policy)
    _discount(turn, lake, group, traps, policy)
    for one in traps.values():
        _, released = one.traps.review(one.yields, turn.cycle)
        one.released = set(released)
        one.sampled = {
            pattern for pattern, found in one.traps.by_pattern.items() if found.sample <= turn.cycle + 1
        }
    return Harvest(traps, _gone(turn, books), _back(turn, lake, group, books), policy)


def _count(visits: pa.Table, fresh: pa.Table, traps: dict[str, HostTraps], policy: YieldPolicy) -> None:
    """Enter a cycle's visits into the yields of their patterns."""
    rows = visits.to_pylist()
    patterns = {row["url"]: (row["host"], path_pattern(row["url"], policy.slug_chars)) for row in rows}
    leading: set[str] = set()
    for url, via, host in zip(*(fresh[name].to_pylist() for name in ("url", "via", "host")), strict=True):
        if via in leading or (page := patterns.get(via)) is None or page[0] != host:
            continue
        pattern = path_pattern(url, policy.slug_chars)
        if pattern != page[1] and pattern not in traps[host].traps.by_pattern:
            leading.add(via)
    for row in rows:
        skeleton = row["skeleton"]
        traps[row["host"]].yields.update(
            patterns[row["url"]][1],
            1,
            skeleton != NO_PAGE and not row["duplicate"],
            row["url"] in leading or bool(row["leads_away"]),
            skeleton=skeleton if skeleton > 0 else None,
        )


def _discount(turn: Turn, lake: Lake, group: int, traps: dict[str, HostTraps], policy: YieldPolicy) -> None:
    """Take back the new payloads of the cycle before that `noria extract` found to be hardly new."""
    before = lake.read(
        "lookalikes", columns=["url", "url_key", "host"], partitions={"crawl": [crawl_name(turn.cycle - 1)]}
    )
    first, last = turn.key_range(group)
    mine = pc.and_(pc.greater_equal(before["url_key"], first), pc.less_equal(before["url_key"], last))
    for row in before.filter(mine).to_pylist():
        if row["host"] in traps:
            traps[row["host"]].yields.discount(path_pattern(row["url"], policy.slug_chars))


def with_yields(books: pa.Table, harvest: Harvest) -> pa.Table:
    """Return the host rows with their `yields` and `traps` as they are after the cycle."""
    mask = pc.is_in(books["host"], pa.array(sorted(harvest.traps), pa.string())).combine_chunks()
    mine = [harvest.traps[host] for host in books["host"].filter(mask).to_pylist()]
    told = {"yields": [one.yields.to_json() for one in mine], "traps": [one.traps.to_json() for one in mine]}
    for name, values in told.items():
        at = books.schema.get_field_index(name)
        column = books[name].combine_chunks()
        changed = pc.replace_with_mask(column, mask, pa.array(values, pa.string()))
        books = books.set_column(at, books.schema.field(at), changed)
    return books


# --- hosts that are gone --------------------------------------------------------------------------------


def _gone(turn: Turn, books: pa.Table) -> dict[str, str]:
    """Return the hosts that have failed longer than the policy bears, each with what ails it since when."""
    limit = turn.opened_at - timedelta(days=turn.settings.health.retire_days)
    rows = books.filter(pc.fill_null(pc.less(books["failing_since"], pa.scalar(limit)), False))
    told = rows.select(["host", "health", "failing_since", "failures"]).to_pylist()
    return {
        row[
            "host"
        ]: f"{row['health']} since {row['failing_since']:%Y-%m-%d}, {row['failures']} failures in a row"
        for row in told
    }


def _back(turn: Turn, lake: Lake, group: int, books: pa.Table) -> set[str]:
    """Return the hosts that had failed so long before this cycle, and answer now."""
    before = lake.read(
        "hosts",
        columns=["host", "failing_since"],
        partitions={"bucket": turn.bucket_range(group)},
        filter=pc.is_valid(pc.field("failing_since")),
    )
    limit = turn.opened_at - timedelta(days=turn.settings.health.retire_days)
    ailing = before.filter(pc.less(before["failing_since"], pa.scalar(limit)))["host"]
    well = books.filter(pc.is_null(books["failing_since"]))["host"]
    return set(ailing.to_pylist()) & set(well.to_pylist())


# --- shelves --------------------------------------------------------------------------------------------


def set_aside(turn: Turn, lake: Lake, shelved: Shelved, books: pa.Table, harvest: Harvest) -> Shelved:
    """Move the URLs of trapped patterns and dead hosts to retired, and those that may be tried again back."""
    reasons = _Reasons(turn, harvest)
    if harvest.gone:
        _open_backlog(turn, lake, shelved, books, set(harvest.gone))
    if reasons.hosts:
        for name in ("ready", "more", "backlog"):
            kept, retired = reasons.split(getattr(shelved, name))
            setattr(shelved, name, kept)
            harvest.touched.update(retired["bucket"].unique().to_pylist())
            shelved.retired = pa.concat_tables([shelved.retired, retired])
        shelved.retired = shelved.retired.sort_by("url_key").combine_chunks()
    return _bring_back(turn, lake, shelved, books, harvest, reasons)


def _open_backlog(turn: Turn, lake: Lake, shelved: Shelved, books: pa.Table, hosts: set[str]) -> None:
    """Read all of the backlog of the buckets in which these hosts have one."""
    mine = books.filter(
        pc.and_(pc.is_in(books["host"], pa.array(sorted(hosts))), pc.greater(books["backlog_urls"], 0))
    )
    buckets = set(mine["bucket"].to_pylist())
    unread = lake.files("frontier_backlog", partitions={"bucket": sorted(buckets - shelved.refilled)})
    partly = [file for file in shelved.stays if file.partition["bucket"] in buckets]
    shelved.open_backlog(lake, [*partly, *unread])


class _Reasons:
    """Why a URL is set aside. A pattern whose sample is due lets a few of its URLs pass."""

    def __init__(self, turn: Turn, harvest: Harvest) -> None:
        self._turn, self._harvest = turn, harvest
        self._passed: dict[tuple[str, str], int] = {}
        trapped = (host for host, one in harvest.traps.items() if one.traps.by_pattern)
        self.hosts = {*trapped, *harvest.gone}

    def of(self, url: str, host: str, source: str, visits: int) -> tuple[str, str] | None:
        """Return reason and detail; None = the URL stays where it is. Seeds and pages once had are never set aside."""
        if source in sources.SEEDS:
            return None
        if host in self._harvest.gone:
            return GONE, self._harvest.gone[host]
        one = self._harvest.traps.get(host)
        if one is None or visits:
            return None
        pattern = path_pattern(url, self._harvest.policy.slug_chars)
        found = one.traps.by_pattern.get(pattern)
        if found is None or (pattern in one.sampled and self.passes(host, pattern)):
            return None
        return TRAP, f"{found.why}; set aside in cycle {found.since}"

    def passes(self, host: str, pattern: str) -> bool:
        """Count one more URL of a sample; False if it is full."""
        count = self._passed[host, pattern] = self._passed.get((host, pattern), 0) + 1
        return count <= self._harvest.policy.sample_urls

    def split(self, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Return the rows that stay, and those that are retired in their new state."""
        mine = pc.is_in(rows["host"], pa.array(sorted(self.hosts), pa.string()))
        places = (
            np.flatnonzero(mine.to_numpy(zero_copy_only=False)) if rows.num_rows else np.zeros(0, np.int64)
        )
        few = rows.take(pa.array(places)).select(["url", "host", "source", "visits"])
        said = [
            self.of(*values)
            for values in zip(*(few[name].to_pylist() for name in few.column_names), strict=True)
        ]
        leaving = np.zeros(rows.num_rows, dtype=np.bool_)
        leaving[places[[why is not None for why in said]] if len(said) else places] = True
        return rows.filter(pa.array(~leaving)).combine_chunks(), _retired(
            self._turn, rows.filter(pa.array(leaving)), [why for why in said if why is not None]
        )


def _retired(turn: Turn, rows: pa.Table, said: list[tuple[str, str]]) -> pa.Table:
    reason, detail = zip(*said, strict=True) if said else ((), ())
    return _changed(rows, {"reason": reason, "detail": detail, "shelf_cycle": [turn.cycle] * rows.num_rows})


def _changed(rows: pa.Table, columns: dict[str, Any]) -> pa.Table:
    for name, values in columns.items():
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(at), pa.array(list(values), rows.schema.field(at).type))
    return rows.combine_chunks()


def _bring_back(
    turn: Turn, lake: Lake, shelved: Shelved, books: pa.Table, harvest: Harvest, reasons: _Reasons
) -> Shelved:
    """Take from the retired shelf samples of patterns, released patterns, and hosts that answer again."""
    hosts = {host for host, one in harvest.traps.items() if one.released or one.sampled} | harvest.back
    if not hosts:
        return shelved
    named = books.filter(pc.is_in(books["host"], pa.array(sorted(hosts))))
    buckets = set(named["bucket"].to_pylist())
    unread = sorted(buckets - shelved.thinned)
    old = (
        lake.read("frontier_retired", partitions={"bucket": unread}).select(STATE_COLUMNS) if unread else None
    )
    pool = shelved.retired if old is None else pa.concat_tables([shelved.retired, old])
    risen = np.fromiter(_risen(pool, hosts, turn.cycle, harvest, reasons), np.bool_, pool.num_rows)
    if not risen.any():
        return shelved
    back = pool.filter(pa.array(risen))
    harvest.touched.update(unread)
    harvest.touched.update(back["bucket"].unique().to_pylist())
    nothing = [None] * back.num_rows
    back = _changed(back, {"reason": nothing, "detail": nothing, "shelf_cycle": [turn.cycle] * back.num_rows})
    shelved.ready = pa.concat_tables([shelved.ready, back]).sort_by("url_key").combine_chunks()
    shelved.retired = pool.filter(pa.array(~risen)).sort_by("url_key").combine_chunks()
    shelved.thinned = shelved.thinned | set(unread)
    return shelved


def _risen(
    pool: pa.Table, hosts: set[str], cycle: int, harvest: Harvest, reasons: _Reasons
) -> Iterator[bool]:
    columns = (pool[name].to_pylist() for name in ("url", "host", "reason", "shelf_cycle"))
    for url, host, reason, since in zip(*columns, strict=True):
        if host not in hosts or since == cycle or reason not in (TRAP, GONE):
            yield False
        elif reason == GONE:
            yield host in harvest.back
        else:
            one, pattern = harvest.traps[host], path_pattern(url, harvest.policy.slug_chars)
            yield pattern in one.released or (pattern in one.sampled and reasons.passes(host, pattern))
