"""`noria report`: a cycle as one HTML page, and the crawl reports beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import lake
from lake.files import write_atomic
from pipelines.app.cycles import one_cycle
from pipelines.app.lakes import place
from pipelines.app.progress import Bar
from pipelines.app.words import again
from pipelines.failure import Failure
from pipelines.report import crawlreports
from pipelines.report.page import page
from pipelines.rules.budget import BudgetPolicy

if TYPE_CHECKING:
    from pipelines.config import Settings


def run(settings: Settings, cycle: str | None, out: Path | None, *, as_json: bool) -> None:
    """Write the reports of a cycle into a folder of `out` and say where they are; None = `reports/` and the lake's name."""
    newest = place(settings, make=False)
    if not newest.cycle:
        raise Failure(
            f"{newest.root}: no cycle is committed yet, so there is nothing to report; {again('cycle')} runs one"
        )
    held = lake.open(newest.root, cycle=one_cycle(cycle, last=newest.cycle))
    folder = (out or Path("reports", newest.root.resolve().name)) / f"cycle-{held.cycle:06d}"
    path = folder / "index.html"
    written = []
    with Bar("report", "reports") as bar:
        for report, rows, _ in crawlreports.write(held, held.cycle, folder):
            written.append((report.name, report.meaning, rows))
            bar.show(len(written), len(crawlreports.REPORTS) + 1, report.name)
        policy = BudgetPolicy(requests_per_month=settings.budget.requests_per_month)
        write_atomic(path, page(held, policy, files=written).encode())
    if as_json:
        rows_by_name = {name: rows for name, _, rows in written}
        print(
            json.dumps({"cycle": held.cycle, "page": str(path), "folder": str(folder), "rows": rows_by_name})
        )
        return
    print(f"report of cycle {held.cycle}: {path} ({path.stat().st_size / 1e6:.1f} MB, opens offline)")
    for name, meaning, rows in written:
        print(f"  {name + '.csv':<14} {rows:>9,} rows: {meaning}")
    print(f"  all in {folder}, as CSV and Parquet")
