"""Plan: what each host may be asked in this cycle, and which of its URLs.

Small tasks: *sift*, one a file, and *intake* (intake.py) turn the inbox into URLs, *demand* counts a group's due URLs
by host, (*resolve* finds addresses: resolve.py), *allot* shares the cycle among hosts and packs them into fetch
partitions, *select* draws each host's URLs. The plan is on disk before anything is fetched: it is the lease on its URLs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lake import staging
from lake.schema import HOSTS
from pipelines.cycle import policies
from pipelines.cycle.frontier import (
    column,
    fresh_hosts,
    rank_rows,
    with_rank,
    working_rows,
)  # fmt: skip
from pipelines.cycle.intake import intake as intake
from pipelines.cycle.intake import recall, sort_out
from pipelines.cycle.intake import sift as sift
from pipelines.cycle.noted import (
    seeded_sitemaps,
    sitemaps_due,
    sitemaps_expected,
    with_labels,
    with_sitemaps,
)
from pipelines.cycle.plugged import scoring
from pipelines.cycle.sites import closed_sites
from pipelines.cycle.turn import Turn
from pipelines.rules import priority

HOST_COLUMNS = [column.name for column in HOSTS.columns]
COUNTED = ("url_key", "host", "depth", "source", "meta", "due_at")
"""What is read of the URLs that are only counted."""


# --- demand ---------------------------------------------------------------------------------------------


def demand(turn: Turn, group: int) -> dict[str, Any]:
    """Count a bucket group's due URLs by host, and stage them beside the hosts' rows.

    Stages `plan/demand-G.arrow` (HOSTS columns, `due` and `sitemaps_due`), and of the inbox `admitted-G` (what is
    new), `known-G` (seeds that are not) and `recalled-G` (their rows on backlog and retired). Returns the sums.
    """
    if found := turn.done("demand", group):
        return found
    lake = turn.lake()
    admitted, known = sort_out(turn, lake, group)
    recalled = recall(turn, lake, known)
    for name, table in (("admitted", admitted), ("known", known), ("recalled", recalled)):
        staging.write_table(turn.staged("plan", f"{name}-{group:04d}.arrow"), table)
    known_hosts = lake.read("hosts", partitions={"bucket": turn.bucket_range(group)}).select(HOST_COLUMNS)
    closed = closed_sites(known_hosts, turn.opened_at)
    due = working_rows(turn, lake, group, columns=(*COUNTED, "url") if closed.hosts else COUNTED)
    due = closed.open_rows(due)
    counts = due["host"].combine_chunks().value_counts()
    wanted = dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True))
    rows = with_labels(host_rows(turn, known_hosts, group, wanted), due)
    staging.write_table(turn.staged("plan", f"demand-{group:04d}.arrow"), rows)
    return turn.finish(
        "demand",
        group,
        {
            "hosts": rows.num_rows,
            "due": due.num_rows,
            "admitted": admitted.num_rows,
            "recalled": recalled.num_rows,
        },
    )


def host_rows(turn: Turn, known: pa.Table, group: int, wanted: dict[str, int]) -> pa.Table:
    """Return the rows of the wanted hosts (new ones made on the spot) and of those with sitemaps to be asked.

    known: the group's rows of the host table. With `due` and `sitemaps_due`, sorted by host.
    """
    seeds = seeded_sitemaps(turn, group)
    names = pa.array([*wanted, *seeds["host"].to_pylist()], pa.string())
    asked = pc.or_(pc.is_in(known["host"], names), pa.array(sitemaps_due(turn, known) > 0))
    known = known.filter(asked)
    fresh = fresh_hosts(turn, sorted(set(names.to_pylist()) - set(known["host"].to_pylist())))
    rows = with_sitemaps(turn, pa.concat_tables([known, fresh]), seeds).sort_by("host")
    due = [wanted.get(host, 0) for host in rows["host"].to_pylist()]
    rows = rows.append_column("due", pa.array(due, pa.int64()))
    return rows.append_column("sitemaps_due", pa.array(sitemaps_expected(turn, rows), pa.int64()))


# --- select ---------------------------------------------------------------------------------------------


def select(turn: Turn, group: int) -> dict[str, Any]:
    """Draw the URLs of a bucket group's hosts: `plan/urls-G.arrow`, FRONTIER columns, `partition`, `rank`.

    Sorted by (partition, host, rank). Returns a manifest with their number.
    """
    if found := turn.done("select", group):
        return found
    hosts = staging.read_table(turn.staged("plan", "hosts.arrow"), columns=["robots", "probe_at"])
    rows = closed_sites(hosts, turn.opened_at).open_rows(working_rows(turn, turn.lake(), group))
    with scoring() as faults:
        chosen = choose(turn, rows)
    staging.write_table(turn.staged("plan", f"urls-{group:04d}.arrow"), chosen, durable=True)
    return turn.finish("select", group, {"urls": chosen.num_rows, **faults})


def choose(turn: Turn, rows: pa.Table) -> pa.Table:
    """Return the drawn rows, with `band` and `score` as of now."""
    plan = staging.read_table(
        turn.staged("plan", "hosts.arrow"), columns=["host", "urls", "partition", "score"]
    )
    names = rows["host"].combine_chunks().dictionary_encode()
    place = (
        pc.index_in(names.dictionary, plan["host"].combine_chunks()).fill_null(-1).to_numpy().astype(np.int64)
    )
    known = np.append(column(plan, "urls"), 0)[place] if len(place) else np.zeros(0, np.int64)
    codes = names.indices.to_numpy().astype(np.int64)
    weight = np.append(plan["score"].to_numpy().astype(np.float64), 1.0)[place] if len(place) else np.zeros(0)
    score, band = rank_rows(turn, rows, host_score=weight[codes] if len(codes) else weight)
    keys = priority.choice_keys(
        policies.priority_policy(turn.settings),
        url_keys=column(rows, "url_key"),
        band=band,
        salt=turn.seed ^ turn.cycle,
    )
    picked = priority.best_per_host(codes, keys, most=known)
    chosen = with_rank(rows, score, band).take(pa.array(picked))
    partition = np.append(column(plan, "partition"), -1)[place][codes[picked]] if len(picked) else picked
    ordinal = np.arange(len(picked))
    return (
        chosen.append_column("partition", pa.array(partition, pa.int32()))
        .append_column("rank", pa.array(ordinal, pa.int64()))
        .sort_by([("partition", "ascending"), ("host", "ascending"), ("rank", "ascending")])
    )
