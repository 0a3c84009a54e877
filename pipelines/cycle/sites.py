"""Sites (scheme, host, port) whose rules nobody can tell just now: a plan leaves their URLs out, where their host is well.

A host all of whose sites are so waits as a whole, by its `probe_at`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.rules import urls
from pipelines.rules.robots_policy import RobotsState

UNREACHABLE = RobotsState.UNREACHABLE.value


@dataclass(frozen=True)
class Closed:
    """Sites whose robots.txt could not be had. until: of those not to be asked yet, from when on they may be.

    tried: those that may be asked again: one URL of each is enough to learn whether they answer.
    """

    until: dict[str, datetime]
    tried: frozenset[str]

    @property
    def hosts(self) -> set[str]:
        """Their hosts."""
        return {urls.host_of(f"{site}/") for site in (*self.until, *self.tried)}

    def open_rows(self, rows: pa.Table) -> pa.Table:
        """Return the rows (columns `url`, `host`) that may be asked for: of a site that is tried again, the first."""
        hosts = self.hosts
        if not hosts or not rows.num_rows:
            return rows
        mine = pc.is_in(rows["host"], pa.array(sorted(hosts), pa.string())).to_numpy()
        places, left, met = np.flatnonzero(mine), np.ones(rows.num_rows, dtype=np.bool_), set[str]()
        for place, url in zip(places.tolist(), rows["url"].take(pa.array(places)).to_pylist(), strict=True):
            site = urls.site_of(url)
            left[place] = site not in self.until and site not in met
            if site in self.tried:
                met.add(site)
        return rows.filter(pa.array(left))


def closed_sites(hosts: pa.Table, now: datetime) -> Closed:
    """Return the closed sites of host rows (columns `robots`, `probe_at`), of those hosts that are well."""
    well = hosts.filter(pc.is_null(hosts["probe_at"]))
    copies = pc.list_flatten(well["robots"].combine_chunks())
    state = pc.struct_field(copies, "state")
    shut = copies.filter(pc.fill_null(pc.equal(state, UNREACHABLE), False)).to_pylist()
    until = {one["site"]: one["expires_at"] for one in shut if one["expires_at"] and one["expires_at"] > now}
    asked = (
        one for one in shut if one["expires_at"] and one["expires_at"] > one["fetched_at"]
    )  # see `_ask_together`
    return Closed(until, frozenset(one["site"] for one in asked) - until.keys())
