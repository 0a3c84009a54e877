"""The lake and the settings that a notebook looks at."""

from __future__ import annotations

import os
from pathlib import Path

from lake import snapshot
from lake.snapshot import Lake
from pipelines import config
from pipelines.report.last_cycle import ledger_row
from pipelines.rules.budget import BudgetPolicy, month_of


def open_lake(path: str | Path | None = None) -> Lake:
    """Return the lake at `path`; without one, the lake that NORIA_LAKE__PATH or the settings name.

    A path that is not there is looked for in the folder above too: notebooks run in their own folder.
    """
    wanted = Path(path or _settings().lake.path)
    above = Path("..") / wanted
    return snapshot.open(above if not wanted.exists() and above.exists() else wanted)


def budget_policy() -> BudgetPolicy:
    """Return what the settings (defaults and environment) say of a host's monthly budget."""
    return BudgetPolicy(requests_per_month=_settings().budget.requests_per_month)


def month(lake: Lake) -> int:
    """Return the month (yyyymm) in which the lake's cycle was opened."""
    return month_of(int(ledger_row(lake, lake.cycle).opened_at.timestamp() * 1_000))


def _settings() -> config.Settings:
    return config.load([], environ=os.environ, overrides={})
