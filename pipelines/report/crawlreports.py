"""The crawl reports that archivists expect, as tables: hosts, status, mime, seeds, frontier, skipped.

Each is what one cycle did, or (frontier, seeds) how things stood when it was committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from lake.files import publish, temporary
from lake.schema import SHELVES
from lake.snapshot import Lake
from pipelines.report.tables import PAGE, listed, of_cycle
from pipelines.rules.outcome import ANSWERED, HOST_FAULTS, UNASKED, Outcome
from pipelines.rules.sources import SEEDS

SHELVED = "({})".format(
    " union all ".join(
        f"select '{shelf}' shelf, url, url_key, host, band, depth, via, source, reason, detail, due_at, added_cycle, "
        f"visits, last_status from frontier_{shelf}"
        for shelf in SHELVES
    )
)
"""SQL: every known URL with its shelf."""


@dataclass(frozen=True)
class CrawlReport:
    """One report: its name, what a row is, and how it is made of a lake and a cycle."""

    name: str
    meaning: str
    rows: Callable[[Lake, int], pa.Table]


def hosts(lake: Lake, cycle: int) -> pa.Table:
    """Return a row a host of which a URL was asked or refused: requests (0 = refused unasked), answers, refusals,
    failures, bytes; what waits, and its delay."""
    return lake.sql(
        f"""select got.host host, any_domain domain, requests, pages, duplicates, robots_denied, failures, bytes,
                   ready_urls remaining_ready, backlog_urls remaining_backlog, delay_ms, delay_reason, health
            from (select host, max(url_host_registered_domain) any_domain,
                         sum(case when request_ms is not null then 1 else 0 end) requests,
                         sum(case when {PAGE} then 1 else 0 end) pages,
                         sum(case when duplicate then 1 else 0 end) duplicates,
                         sum(case when outcome = '{Outcome.ROBOTS_DENIED}' then 1 else 0 end) robots_denied,
                         sum(case when outcome not in {listed(sorted(ANSWERED | UNASKED | {Outcome.REDIRECT}))}
                             then 1 else 0 end) failures,
                         coalesce(sum(wire_bytes), 0) bytes
                  from captures where {of_cycle(cycle)} group by host) got
            left join (select host, ready_urls, backlog_urls, delay_ms, delay_reason, health from hosts) known
                 on known.host = got.host
            order by requests desc, got.host"""
    )


def status(lake: Lake, cycle: int) -> pa.Table:
    """Return a row an HTTP status and outcome: URLs and bytes; status is null where no answer came."""
    return lake.sql(
        f"""select fetch_status status, outcome, count(*) urls, coalesce(sum(wire_bytes), 0) bytes
            from captures where {of_cycle(cycle)} group by 1, 2 order by urls desc, outcome, status"""
    )


def mime(lake: Lake, cycle: int) -> pa.Table:
    """Return a row a content type, as sent and as told from the bytes: URLs, bytes, duplicates."""
    return lake.sql(
        f"""select content_mime_type mime_sent, content_mime_detected mime_detected, count(*) urls,
                   coalesce(sum(body_bytes), 0) bytes, sum(case when duplicate then 1 else 0 end) duplicates
            from captures where {of_cycle(cycle)} and record_type is not null
            group by 1, 2 order by urls desc, mime_sent, mime_detected"""
    )


def seeds(lake: Lake, cycle: int) -> pa.Table:
    """Return a row a seed: what became of it at its last try, where it redirects, its shelf and when it is due."""
    return lake.sql(
        f"""select seed.url seed, shelf, last.outcome outcome, last.fetch_status status, last.fetch_redirect redirect,
                   last.cycle last_cycle, reason, detail, due_at, added_cycle
            from {SHELVED} seed
            left join (select * from (select url_key, outcome, fetch_status, fetch_redirect, cycle,
                                             row_number() over (partition by url_key order by cycle desc, fetch_time desc) n
                                      from captures where kind = 'page' and cycle <= {int(cycle)}) where n = 1) last
                 on last.url_key = seed.url_key
            where seed.source = 'seed' order by seed.url"""
    )


def frontier(lake: Lake, cycle: int) -> pa.Table:
    """Return a row a host and shelf: URLs, the best band, the soonest due time, the commonest reason."""
    return lake.sql(
        f"""select host, shelf, count(*) urls, min(band) best_band, min(due_at) next_due_at, max(depth) deepest,
                   min(reason) example_reason
            from {SHELVED} group by 1, 2 order by urls desc, host, shelf"""
    )


def skipped(lake: Lake, cycle: int) -> pa.Table:
    """Return a row a URL that was not fetched, with the reason: refused or unreachable in this cycle, on a host that was
    out of reach, or retired. What the window or a budget left, and what a cycle found itself, waits on its shelf."""
    kept = listed(sorted(UNASKED | HOST_FAULTS))
    given = listed(sorted(SEEDS))
    return lake.sql(
        f"""select url, host, reason, detail, what from (
              select captures.url url, captures.host host, outcome reason, coalesce(shelved.detail, error) detail,
                     'not asked in this cycle' what
              from captures left join (select url_key, detail from {SHELVED} one) shelved
                   on shelved.url_key = captures.url_key
              where {of_cycle(cycle)} and kind = 'page' and outcome in {kept}
              union all
              select ready.url url, ready.host host, health reason,
                     concat('host tried again from ', to_char(probe_at, '%Y-%m-%d %H:%M'), ' UTC') detail,
                     'host out of reach' what
              from frontier_ready ready join hosts on hosts.host = ready.host
              where health <> 'ok' and probe_at is not null and (ready.added_cycle < {int(cycle)} or source in {given})
                    and url_key not in (select url_key from captures where {of_cycle(cycle)} and kind = 'page')
              union all
              select url, host, reason, detail, 'retired' what from frontier_retired
            ) order by reason, url"""
    )


REPORTS = (
    CrawlReport("hosts", "a row a host of which the cycle asked or refused a URL", hosts),
    CrawlReport("status", "a row an HTTP status and outcome of the cycle", status),
    CrawlReport("mime", "a row a content type of the cycle", mime),
    CrawlReport("seeds", "a row a seed, with what became of it", seeds),
    CrawlReport("frontier", "a row a host and shelf: what waits", frontier),
    CrawlReport("skipped", "a row a URL refused, out of reach or retired, with the reason", skipped),
)


def write(lake: Lake, cycle: int, folder: Path) -> Iterator[tuple[CrawlReport, int, list[Path]]]:
    """Write every report as CSV and Parquet into a folder; yield it with its rows and its files."""
    for report in REPORTS:
        rows = report.rows(lake, cycle)
        yield (
            report,
            rows.num_rows,
            [_csv(rows, folder / f"{report.name}.csv"), _parquet(rows, folder / f"{report.name}.parquet")],
        )


def _csv(rows: pa.Table, path: Path) -> Path:
    with temporary(path) as tmp:
        csv.write_csv(rows, tmp)
        publish(tmp, path)
    return path


def _parquet(rows: pa.Table, path: Path) -> Path:
    with temporary(path) as tmp:
        pq.write_table(rows, tmp, compression="zstd")
        publish(tmp, path)
    return path
