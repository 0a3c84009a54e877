"""Plan: what each host may be asked in this cycle, and which of its URLs.

Five small tasks: *intake* turns the inbox into URLs, *demand* counts a group's due URLs by host, (*resolve*
finds addresses: resolve.py), *allot* shares the cycle among hosts and packs them into fetch partitions,
*select* draws each host's URLs. The plan is on disk before anything is fetched: it is the lease on its URLs.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lake import inbox, runs, staging
from lake.schema import HOSTS
from lake.snapshot import Lake
from pipelines.cycle import policies
from pipelines.cycle.frontier import (
    column,
    fresh_hosts,
    new_rows,
    rank_rows,
    slice_by_key,
    with_rank,
    working_rows,
)  # fmt: skip
from pipelines.cycle.turn import Turn
from pipelines.rules import filters, priority, urls

HOST_COLUMNS = [column.name for column in HOSTS.columns]


# --- intake ---------------------------------------------------------------------------------------------


def intake(turn: Turn) -> dict[str, Any]:
    """Stage the inbox as frontier rows sorted by key, a row a URL (the first mention counts).

    Returns a manifest: `urls` staged, `refused` with the first 100 reasons.
    """
    if found := turn.done("intake"):
        return found
    rows = inbox.read(turn.root, list(turn.inbox))
    policy = policies.filter_policy(turn.settings, year=turn.opened_at.year)
    kept: dict[int, tuple[str, str, str | None, str]] = {}
    refused: list[dict[str, str]] = []
    for url, meta, source in zip(
        *(rows[name].to_pylist() for name in ("url", "meta", "source")), strict=True
    ):
        wire = urls.wire(url)
        refusal = filters.refusal(wire, policy, meta=meta) if wire else None
        if wire is None or refusal:
            refused.append({"url": url, "rule": refusal.rule if refusal else "not an http(s) URL"})
            continue
        host = urls.host_of(wire)
        if meta or not policy.is_open:
            meta = json.dumps(filters.seed_meta(wire, json.loads(meta) if meta else None), sort_keys=True)
        kept.setdefault(urls.url_key(wire, host), (wire, host, meta, source))
    staging.write_table(turn.staged("plan", "inbox.arrow"), _inbox_rows(turn, kept))
    return turn.finish(
        "intake", None, {"urls": len(kept), "refused": len(refused), "examples": refused[:100]}
    )


def _inbox_rows(turn: Turn, kept: dict[int, tuple[str, str, str | None, str]]) -> pa.Table:
    keys = np.sort(np.fromiter(kept, dtype=np.int64, count=len(kept)))
    wire, host, meta, source = zip(*(kept[int(key)] for key in keys), strict=True) if len(keys) else ((),) * 4
    return new_rows(
        turn,
        keys=keys,
        columns={
            "url": pa.array(wire, pa.string()),
            "host": pa.array(host, pa.string()),
            "meta": pa.array(meta, pa.string()),
            "source": pa.array(source, pa.string()),
        },
    )


# --- demand ---------------------------------------------------------------------------------------------


def demand(turn: Turn, group: int) -> dict[str, Any]:
    """Count a bucket group's due URLs by host, and stage them beside the hosts' rows.

    Stages `plan/demand-G.arrow` (HOSTS columns and `due`) and `plan/admitted-G.arrow` (inbox URLs that are
    new). Returns a manifest with the sums.
    """
    if found := turn.done("demand", group):
        return found
    lake = turn.lake()
    admitted = admit(turn, lake, group)
    staging.write_table(turn.staged("plan", f"admitted-{group:04d}.arrow"), admitted)
    due = working_rows(turn, lake, group)
    counts = due["host"].combine_chunks().value_counts()
    wanted = dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True))
    rows = host_rows(turn, lake, group, wanted)
    staging.write_table(turn.staged("plan", f"demand-{group:04d}.arrow"), rows)
    return turn.finish(
        "demand", group, {"hosts": rows.num_rows, "due": due.num_rows, "admitted": admitted.num_rows}
    )


def admit(turn: Turn, lake: Lake, group: int) -> pa.Table:
    """Return the inbox URLs of a bucket group that the lake has never seen."""
    rows = slice_by_key(staging.read_table(turn.staged("plan", "inbox.arrow")), *turn.key_range(group))
    if not rows.num_rows:
        return rows
    keys = rows["url_key"].to_numpy()
    files = lake.files("seen", partitions={"bucket": turn.bucket_range(group)})
    return rows.filter(pa.array(~runs.known(files, keys)))


def host_rows(turn: Turn, lake: Lake, group: int, wanted: dict[str, int]) -> pa.Table:
    """Return the rows of the wanted hosts (new ones made on the spot), with `due`, sorted by host."""
    known = lake.read("hosts", partitions={"bucket": turn.bucket_range(group)})
    asked = known.filter(pc.is_in(known["host"], pa.array(list(wanted), pa.string())))
    have = set(asked["host"].to_pylist())
    fresh = fresh_hosts(turn, sorted(set(wanted) - have))
    rows = pa.concat_tables([asked.select(HOST_COLUMNS), fresh]).sort_by("host")
    return rows.append_column(
        "due", pa.array([wanted[host] for host in rows["host"].to_pylist()], pa.int64())
    )


# --- select ---------------------------------------------------------------------------------------------


def select(turn: Turn, group: int) -> dict[str, Any]:
    """Draw the URLs of a bucket group's hosts: `plan/urls-G.arrow`, FRONTIER columns, `partition`, `rank`.

    Sorted by (partition, host, rank). Returns a manifest with their number.
    """
    if found := turn.done("select", group):
        return found
    rows = working_rows(turn, turn.lake(), group)
    chosen = choose(turn, rows)
    staging.write_table(turn.staged("plan", f"urls-{group:04d}.arrow"), chosen, durable=True)
    return turn.finish("select", group, {"urls": chosen.num_rows})


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
