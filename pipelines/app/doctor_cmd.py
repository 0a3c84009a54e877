"""`noria doctor`: is this machine fit for a crawl, and what to do where it is not."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

from pipelines.app.machine import BAD, WARN, Finding, found

if TYPE_CHECKING:
    from pipelines.config import Settings


def run(settings: Settings, *, browser: bool, as_json: bool) -> int:
    """Print a line a check, as each is done, and return the exit code: 1 if one of them fails."""
    findings = found(settings, browser=browser)
    if as_json:
        told = list(findings)
        print(json.dumps({"findings": [asdict(one) for one in told]}))
    else:
        told = list(_printed(findings))
        print(summary(told))
    return int(any(one.state == BAD for one in told))


def _printed(findings: Iterable[Finding]) -> Iterable[Finding]:
    for one in findings:
        print(f"{one.state:<5} {one.name:<10} {one.what}", flush=True)
        if one.remedy:
            print(f"{'':<16} do: {one.remedy}", flush=True)
        yield one


def summary(told: list[Finding]) -> str:
    """Return the last line."""
    bad, warned = (sum(one.state == state for one in told) for state in (BAD, WARN))
    if bad:
        return f"{bad} of {len(told)} checks failed: do what stands below them, then run noria doctor again"
    return (
        f"This machine is fit for a crawl ({warned} warnings)."
        if warned
        else "This machine is fit for a crawl."
    )
