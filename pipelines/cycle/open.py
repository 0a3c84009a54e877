"""Open: is there a cycle to finish, or a new one to begin? What it reads is pinned here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from lake import commit, inbox, ledger, staging, upkeep
from lake.errors import LakeDamaged
from lake.ledger import LedgerRow
from lake.schema import CAPTURES, LEDGER, TIMESTAMP
from lake.snapshot import Lake
from pipelines.config import Settings
from pipelines.cycle.sites import closed_sites
from pipelines.cycle.turn import Turn, bucket_groups
from pipelines.rules import urls


@dataclass(frozen=True)
class Idle:
    """There is nothing to do: `next_due` says when there will be; None = never, there are no URLs."""

    next_due: datetime | None


def unfinished(lake: Lake) -> Turn | None:
    """Return the cycle that was opened and not committed, ready to be resumed."""
    path = staging.folder(lake.root, lake.cycle + 1) / "open.json"
    plain = staging.read_manifest(path)
    return Turn.from_json(plain, root=str(lake.root), resumed=True) if plain else None


def idle(lake: Lake, now_ms: int) -> Idle | None:
    """Return Idle if the inbox is empty, no URL or sitemap is due, and every host with ready URLs waits for a probe."""
    if inbox.pending(lake.root):
        return None
    now = datetime.fromtimestamp(now_ms / 1_000, UTC)
    times = [time for time in (_ready_at(lake, now), _due_at(lake)) if time is not None]
    if not any(time.timestamp() * 1_000 <= now_ms for time in times):
        times += [time for time in [_sitemap_at(lake)] if time is not None]
    if not times:
        return Idle(None)
    soonest = min(times)
    return Idle(soonest) if soonest.timestamp() * 1_000 > now_ms else None


def _ready_at(lake: Lake, now: datetime) -> datetime | None:
    """Return from when on a ready URL may be asked: the past, unless all their hosts wait; None = none is ready."""
    if not lake.rows("frontier_ready"):
        return None
    hosts = lake.read("hosts", columns=["host", "ready_urls", "probe_at"], filter=pc.field("ready_urls") > 0)
    well = hosts.filter(pc.is_null(hosts["probe_at"]))["host"].to_pylist()
    if not hosts.num_rows or len(well) > FEW_HOSTS:
        return LONG_AGO
    times = [_open_at(lake, well, now)] if well else []
    if hosts["probe_at"].null_count < hosts.num_rows:
        times.append(pc.min(hosts["probe_at"]).as_py())
    return min(times)


FEW_HOSTS = 1_000
"""Of more hosts that are well one surely has a site that can be asked."""
LONG_AGO = datetime.fromtimestamp(0, UTC)


def _open_at(lake: Lake, names: list[str], now: datetime) -> datetime:
    """Return from when on one of these hosts, which are well, has a ready URL on a site that can be asked."""
    these = pc.field("host").isin(pa.array(names, pa.string()))
    closed = closed_sites(lake.read("hosts", columns=["robots", "probe_at"], filter=these), now)
    if set(names) - closed.hosts:
        return LONG_AGO
    ready = lake.read("frontier_ready", columns=["url", "host"], filter=these)
    if closed.open_rows(ready).num_rows or not ready.num_rows:
        return LONG_AGO
    return min(closed.until[site] for site in {urls.site_of(url) for url in ready["url"].to_pylist()})


def _due_at(lake: Lake) -> datetime | None:
    """Return when the next URL of the later shelf is due; None = there is none."""
    soonest: datetime | None = None
    for day in sorted(int(day) for day in lake.rows("frontier_later", "due_day")):
        if soonest is not None and soonest < datetime.fromtimestamp(day * 86_400, UTC):
            break  # a day holds nothing that is due before it
        rows = lake.read("frontier_later", columns=["due_at"], partitions={"due_day": [day]})
        first = pc.min(rows["due_at"]).as_py()
        soonest = first if soonest is None else min(soonest, first)
    return soonest


def next_turn(lake: Lake, settings: Settings, *, slots: int, now_ms: int) -> Turn:
    """Return the turn that a cycle opened now would be; nothing is opened."""
    cycle, waiting = lake.cycle + 1, inbox.pending(lake.root)
    return Turn(
        root=str(lake.root),
        cycle=cycle,
        opened_ms=now_ms,
        seed=xxhash.xxh3_64_intdigest(f"{lake.lake_id} {cycle}".encode()) >> 1,
        buckets=lake.buckets,
        slots=slots,
        groups=bucket_groups(lake.buckets, slots, inbox.count(lake.root, waiting)),
        versions=dict(lake.versions),
        settings_json=settings.to_json(),
        inbox=tuple(waiting),
    )


def _sitemap_at(lake: Lake) -> datetime | None:
    """Return from when on a sitemap may be asked for; None = no host has one."""
    hosts = lake.read("hosts", columns=["sitemaps", "probe_at"], filter=pc.is_valid(pc.field("sitemaps")))
    lists = hosts["sitemaps"].combine_chunks()
    probes = hosts["probe_at"].combine_chunks().take(pc.list_parent_indices(lists))
    expires = pc.fill_null(
        pc.struct_field(pc.list_flatten(lists), "expires_at"), datetime.fromtimestamp(0, UTC)
    )
    # Arrow has no greatest of two times with a zone
    latest = pc.max_element_wise(expires.cast(pa.int64()), probes.cast(pa.int64()))
    soonest: datetime | None = pc.min(latest.cast(TIMESTAMP)).as_py()
    return soonest


def begin(lake: Lake, settings: Settings, *, slots: int, now_ms: int) -> Turn:
    """Open the next cycle: pin what it reads, durably, and tell the ledger. Twice at once gives one turn.

    Raises LakeDamaged where the tables hold a later cycle than the ledger and nothing is left of it to be finished: its
    number must not be given to another.
    """
    done = commit.committed_cycle(lake.root, CAPTURES.name)  # the first table of a commit
    if done > lake.cycle:
        raise LakeDamaged(
            f"{lake.root}: table captures holds cycle {done}, the ledger ends at {lake.cycle}; restore the newest entry of "
            f"{lake.layout.table(LEDGER.name) / '_delta_log'} from a copy"
        )
    turn = next_turn(lake, settings, slots=slots, now_ms=now_ms)
    if not staging.claim_manifest(turn.staged("open.json"), turn.to_json()):
        turn = unfinished(lake) or turn
    return turn


def tell_ledger(turn: Turn) -> None:
    """Write the ledger's row of a planned cycle, before any work. Twice is once."""
    row = LedgerRow(
        cycle=turn.cycle,
        state="planned",
        opened_at=turn.opened_at,
        written_at=datetime.now(UTC),
        config_digest=turn.settings.digest(),
        seed=turn.seed,
        window_seconds=turn.settings.window.seconds,
        versions=turn.versions,
        noria=turn.settings.user_agent.partition("/")[2].partition(" ")[0],
    )
    commit.append_ledger(turn.root, row)


def sweep(lake: Lake) -> None:
    """Clear away what a crash after the last commit left: its drained inbox files, its staging."""
    plain = staging.read_manifest(staging.folder(lake.root, lake.cycle) / "open.json")
    if plain is not None:
        inbox.drain(lake.root, list(plain["inbox"]))
    upkeep.sweep_staging(lake.root)


def committed(root: Path | str, cycle: int) -> LedgerRow | None:
    """Return the ledger's row of a committed cycle."""
    return ledger.last(Path(root), cycle=cycle)
