"""Commit: one Delta commit a table, then the ledger row that makes the cycle real. The driver alone does it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lake import commit, inbox, staging, upkeep
from lake.errors import LakeError
from lake.files import Add, write_data
from lake.layout import Layout
from lake.ledger import LedgerRow
from lake.schema import ROBOTS, SHELVES
from lake.snapshot import Lake
from pipelines.cycle.frontier import days_come
from pipelines.cycle.papers import write_papers
from pipelines.cycle.turn import Turn

ORDER = (
    "captures", "contents", "links", "robots", "hosts", "seen", "frontier_ready", "frontier_backlog",
    "frontier_later", "frontier_retired",
)  # fmt: skip
Replace = dict[str, list[int]]


class Unbalanced(LakeError):
    """P2 does not hold for the rows about to be committed: a defect, and nothing was committed."""


def commit_cycle(
    turn: Turn, partitions: int, *, seconds: dict[str, float], still_ours: Callable[[], None]
) -> LedgerRow:
    """Commit every table of a merged cycle and its ledger row; return the row. Twice is once.

    `still_ours` raises if the lake's lease is lost; it is asked before every commit. Raises Unbalanced if
    P2 would not hold, and what `lake.commit` raises.
    """
    lake = turn.lake()
    manifests = _manifests(turn, partitions)
    adds = _adds(manifests)
    adds["robots"] = _robots(turn, lake, partitions)
    replace = _replaced(turn, lake, manifests["merge"])
    totals = balance(turn, lake, manifests["merge"])
    versions = dict(turn.versions)
    _make_way(turn, manifests["merge"], still_ours)
    for table in ORDER:
        still_ours()
        versions[table] = commit.commit_table(
            turn.root,
            table,
            cycle=turn.cycle,
            adds=adds.get(table, []),
            replace=replace.get(table),
        )
    still_ours()
    versions |= upkeep.compact(turn.root, cycle=turn.cycle)
    row = ledger_row(turn, manifests, totals, versions, seconds)
    write_papers(turn, lake.lake_id, row)
    commit.append_ledger(turn.root, row)
    return row


def _make_way(turn: Turn, merged: list[dict[str, Any]], still_ours: Callable[[], None]) -> None:
    """Take away the files of the later shelf whose rows were written anew; what replaces them comes with the cycle's commit.

    A commit a bucket group: Delta removes each of some days with each of some buckets, and a group has its own days.
    """
    for group, manifest in enumerate(merged):
        called = manifest.get("called") or {}
        if called.get("days"):
            still_ours()
            where = {"due_day": called["days"], "bucket": called["buckets"]}
            commit.commit_table(
                turn.root,
                "frontier_later",
                cycle=turn.cycle,
                adds=[],
                replace=where,
                app=f"called-{group:04d}",
            )


def tidy(turn: Turn) -> None:
    """Clear away what a committed cycle no longer needs: its inbox files and staged files. Twice is once."""
    inbox.drain(turn.root, list(turn.inbox))
    upkeep.tidy(turn.root)


def _manifests(turn: Turn, partitions: int) -> dict[str, list[dict[str, Any]]]:
    wanted = {
        "seal": partitions,
        "fetch": partitions,
        "contents": turn.groups,
        "merge": turn.groups,
        "gate": turn.groups,
        "select": turn.groups,
    }
    found: dict[str, list[dict[str, Any]]] = {}
    for step, count in wanted.items():
        told = [turn.done(step, number) for number in range(count)]
        missing = [number for number, manifest in enumerate(told) if manifest is None]
        if missing:
            raise LakeError(
                f"{turn.crawl}: step {step} has no manifest for task {missing[0]}; run the cycle again"
            )
        found[step] = [manifest for manifest in told if manifest is not None]
    return found


def _adds(manifests: dict[str, list[dict[str, Any]]]) -> dict[str, list[Add]]:
    adds: dict[str, list[Add]] = {}
    for step in ("seal", "contents", "merge"):
        for manifest in manifests[step]:
            for table, files in manifest["adds"].items():
                adds.setdefault(table, []).extend(Add(**file) for file in files)
    return adds


def _robots(turn: Turn, lake: Lake, partitions: int) -> list[Add]:
    """Write the robots.txt bodies that the lake does not have yet."""
    tables = [
        staging.read_table(turn.staged("sort", f"p{number:04d}-robots.arrow")) for number in range(partitions)
    ]
    if not tables or not sum(table.num_rows for table in tables):
        return []
    bodies = {row["digest"]: row["body"] for row in pa.concat_tables(tables).to_pylist()}
    known = lake.read(
        "robots", columns=["digest"], filter=pc.is_in(pc.field("digest"), pa.array(sorted(bodies)))
    )
    fresh = sorted(set(bodies) - set(known["digest"].to_pylist()))
    if not fresh:
        return []
    rows = pa.table(
        {"digest": fresh, "body": [bodies[digest] for digest in fresh], "cycle": [turn.cycle] * len(fresh)},
        schema=ROBOTS.arrow,
    )
    layout = Layout(Path(turn.root))
    return [write_data(layout.table("robots"), layout.data_path("robots", turn.cycle, None), rows, ROBOTS)]


def _replaced(turn: Turn, lake: Lake, merged: list[dict[str, Any]]) -> dict[str, Replace]:
    """Return, by table, the partitions whose files give way to the new ones; a table without an entry only grows."""
    touched = [bucket for manifest in merged for bucket in manifest["touched"]]
    refilled = [bucket for manifest in merged for bucket in manifest["refilled"]]
    thinned = [bucket for manifest in merged for bucket in manifest["thinned"]]
    come = days_come(turn, lake)
    replace: dict[str, Replace] = {}
    if touched:
        replace |= {"frontier_ready": {"bucket": touched}, "hosts": {"bucket": touched}}
    if refilled:
        replace["frontier_backlog"] = {"bucket": refilled}
    if thinned:
        replace["frontier_retired"] = {"bucket": thinned}
    if come:
        replace["frontier_later"] = {"due_day": come}
    return replace


def balance(turn: Turn, lake: Lake, merged: list[dict[str, Any]]) -> dict[str, int]:
    """Return the rows of `seen` and of each shelf after the cycle; raise Unbalanced where a bucket breaks P2."""
    after = {name: Counter(_before(lake, name)) for name in (*SHELVES, "seen")}
    consumed = _consumed(turn, lake)
    for bucket, gone in consumed.items():
        after["later"][bucket] -= gone
    for manifest in merged:
        for bucket in manifest["touched"]:
            after["ready"][bucket] = 0
        for shelf, changed in (("backlog", "refilled"), ("retired", "thinned")):
            for bucket in manifest[changed]:
                after[shelf][bucket] = 0
        for bucket, count in ((manifest.get("called") or {}).get("gone") or {}).items():
            after["later"][int(bucket)] -= count
        for name, rows in manifest["rows"].items():
            after[name].update({int(bucket): count for bucket, count in rows.items()})
    for bucket in range(turn.buckets):
        shelved = {shelf: after[shelf][bucket] for shelf in SHELVES}
        if after["seen"][bucket] != sum(shelved.values()):
            raise Unbalanced(
                f"{turn.crawl}: bucket {bucket} would hold {after['seen'][bucket]} seen URLs but {shelved} on its "
                "shelves; nothing was committed. This is a defect: please report it with the folder staging/"
            )
    return {name: sum(counts.values()) for name, counts in after.items()}


def _before(lake: Lake, name: str) -> dict[int, int]:
    table = "seen" if name == "seen" else f"frontier_{name}"
    return {int(bucket): rows for bucket, rows in lake.rows(table, by="bucket").items()}


def _consumed(turn: Turn, lake: Lake) -> Counter[int]:
    gone: Counter[int] = Counter()
    for file in lake.files("frontier_later", partitions={"due_day": days_come(turn, lake)}):
        gone[int(file.partition["bucket"])] += file.rows
    return gone


def ledger_row(
    turn: Turn,
    manifests: dict[str, list[dict[str, Any]]],
    totals: dict[str, int],
    versions: dict[str, int],
    seconds: dict[str, float],
) -> LedgerRow:
    """Return the row that commits the cycle."""
    fetched = manifests["fetch"]
    outcomes: Counter[str] = Counter()
    for manifest in fetched:
        outcomes.update(manifest.get("outcomes", {}))
    plan = turn.done("allot") or {}
    counts = {
        "planned": plan.get("planned", 0),
        "hosts": plan.get("hosts", 0),
        "requests": sum(manifest.get("requests", 0) for manifest in fetched),
        "pages": sum(manifest.get("pages", 0) for manifest in fetched),
        "wire_bytes": sum(manifest.get("wire_bytes", 0) for manifest in fetched),
        "finished": sum(manifest.get("finished", 0) for manifest in fetched),
        "unfetched": sum(manifest.get("left", 0) for manifest in fetched),
        "given_up": sum(bool(manifest.get("given_up")) for manifest in fetched),
        "stopped": int(any(manifest.get("stopped") for manifest in fetched)),
        "captures": sum(manifest["captures"] for manifest in manifests["seal"]),
        "warc_bytes": sum(manifest["warc_bytes"] for manifest in manifests["seal"]),
        "duplicates": sum(manifest["duplicates"] for manifest in manifests["gate"]),
        "contents": sum(manifest["rows"] for manifest in manifests["contents"]),
        "new_urls": sum(manifest["new_urls"] for manifest in manifests["merge"]),
        "refused_seeds": (turn.done("intake") or {}).get("refused", 0),
        **_plugin_counts([*fetched, *manifests["select"], *manifests["merge"]]),
        **totals,
    }
    return LedgerRow(
        cycle=turn.cycle,
        state="committed",
        opened_at=turn.opened_at,
        written_at=datetime.now(UTC),
        config_digest=turn.settings.digest(),
        seed=turn.seed,
        partitions=plan.get("partitions", 0),
        window_seconds=turn.settings.window.seconds,
        versions=versions,
        counts=counts,
        outcomes=dict(outcomes),
        seconds={name: round(value, 3) for name, value in seconds.items()},
        noria=turn.settings.user_agent.partition("/")[2].partition(" ")[0],
    )


def _plugin_counts(told: list[dict[str, Any]]) -> dict[str, int]:
    """Return what plug-ins reported and how often they crashed, by `plugin_notes.NAME` and `plugin_faults.NAME`."""
    counts: Counter[str] = Counter()
    for manifest in told:
        counts.update({name: count for name, count in manifest.items() if name.startswith("plugin_")})
    return dict(counts)
