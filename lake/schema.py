"""The tables of the lake: columns, units, meanings and partitions.

`lake/README.md` is made from this file (`python -m lake.dictionary`), and a test holds it to that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Column:
    """One column: its Arrow type and what it says, with the unit; null means "not known" unless said."""

    name: str
    type: pa.DataType
    meaning: str


@dataclass(frozen=True)
class Table:
    """One Delta table: its columns, the partition columns among them, the sort order of its files."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    partitions: tuple[str, ...] = ()
    sorted_by: tuple[str, ...] = ()

    @cached_property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of a row, partition columns included."""
        return pa.schema([pa.field(column.name, column.type) for column in self.columns])

    @cached_property
    def file_schema(self) -> pa.Schema:
        """The Arrow schema of what a file alone tells: partition columns are told by the Delta log."""
        return pa.schema([field for field in self.arrow if field.name not in self.partitions])

    @cached_property
    def stored_schema(self) -> pa.Schema:
        """The Arrow schema of a file as it is written: the partition columns stand behind the others once more.

        Delta allows it, and readers that do not ask the log for them (Polars) find them there. Older files have none.
        """
        return pa.schema([*self.file_schema, *(self.arrow.field(name) for name in self.partitions)])


def _columns(*rows: tuple[str, pa.DataType, str]) -> tuple[Column, ...]:
    return tuple(Column(*row) for row in rows)


_S, _I16, _I32, _I64, _F32, _B = pa.string(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.bool_()

BUCKET = Column("bucket", _I32, "the top log2(B) bits of `url_key` (for a host: of its hash)")

URL_STATE = (
    BUCKET,
    *_columns(
        ("url_key", _I64, "63 bits: 15 of the host's hash, 48 of the canonical URL's (see rules/urls.py)"),
        ("url", _S, "the URL as it goes on the wire: the spelling it was found with, WHATWG-serialised"),
        ("host", _S, "lower-case ASCII host name without port"),
        ("band", _I16, "priority band, 1 is asked soonest"),
        ("score", _F32, "priority score that chose the band, higher is better"),
        ("depth", _I16, "links from the nearest seed; a seed has 0, a redirect costs none"),
        ("via", _S, "the URL on which this one was found first; null for a seed"),
        ("source", _S, "how it came in: seed, link, redirect, sitemap, feed, api"),
        ("meta", _S, "the seed's metadata as a JSON object, inherited by what is found from it; null = none"),
        ("added_cycle", _I32, "the cycle that admitted it"),
        ("added_at", TIMESTAMP, "when that cycle was opened"),
        ("shelf_cycle", _I32, "the cycle that put it on this shelf"),
        ("due_at", TIMESTAMP, "not to be asked before; null = at any time"),
        ("reason", _S, "why it lies on this shelf: an outcome or the rule's name"),
        ("detail", _S, "the rule's line or number behind `reason`; null = nothing to add"),
        ("visits", _I32, "answers received (200 or 304)"),
        ("changes", _I32, "visits whose payload differed from the visit before"),
        ("failures", _I16, "failed tries in a row since the last answer"),
        ("first_visit_at", TIMESTAMP, "the first answer"),
        ("last_visit_at", TIMESTAMP, "the last answer"),
        ("last_change_at", TIMESTAMP, "the last visit that found a change"),
        ("visit_seconds", _I64, "sum of the gaps between visits, seconds"),
        ("last_status", _I16, "HTTP status of the last try; null if none came"),
        ("last_digest", _S, "payload digest of the last answer, sha1 Base32"),
        ("etag", _S, "ETag as received with the last answer"),
        ("last_modified", _S, "Last-Modified as received with the last answer"),
    ),
)

FRONTIER_READY = Table(
    "frontier_ready", "URLs that the next cycles may plan: bounded to a few windows' worth a host",
    URL_STATE, ("bucket",), ("url_key",),
)  # fmt: skip
FRONTIER_BACKLOG = Table(
    "frontier_backlog", "the rest of what is known and not yet fetched; a file of a bucket holds one rung (`r1`, `r2` in its name, none = 0) of how far ahead its URLs are",
    URL_STATE, ("bucket",), ("url_key",),
)  # fmt: skip
FRONTIER_LATER = Table(
    "frontier_later", "fetched URLs with their next visit, and failures that wait for a retry",
    (Column("due_day", _I32, "when it is looked at, days since 1970-01-01 UTC: the day of `due_at`, or one before it"), *URL_STATE),
    ("due_day", "bucket"), ("url_key",),
)  # fmt: skip
FRONTIER_RETIRED = Table(
    "frontier_retired", "gone, refused for good, trapped: `reason` says which",
    URL_STATE, ("bucket",), ("url_key",),
)  # fmt: skip

SEEN = Table(
    "seen", "every admitted URL, once: keys only, one sorted run a cycle",
    (BUCKET, Column("url_key", _I64, "see frontier_ready")), ("bucket",), ("url_key",),
)  # fmt: skip

ROBOTS_SITE = pa.struct(
    [
        pa.field("site", _S),
        pa.field("state", _S),
        pa.field("status", _I16),
        pa.field("digest", _S),
        pa.field("fetched_at", TIMESTAMP),
        pa.field("expires_at", TIMESTAMP),
        pa.field("url", _S),
    ]
)

SITEMAP_FILE = pa.struct(
    [
        pa.field("url", _S),
        pa.field("source", _S),  # robots, well_known, seed, index, redirect
        pa.field("hosts", pa.list_(_S)),  # hosts whose robots.txt names it: it may speak for all their pages
        pa.field("meta", _S),
        pa.field("level", _I16),  # indexes above it
        pa.field("fetched_at", TIMESTAMP),
        pa.field("expires_at", TIMESTAMP),
        pa.field("entries", _I32),
        pa.field("status", _S),
        pa.field("etag", _S),  # ETag and Last-Modified of the answer that was read whole
        pa.field("last_modified", _S),
    ]
)

HOSTS = Table(
    "hosts",
    "a row a host: its clock, delay, robots.txt, addresses, budget, health",
    (
        BUCKET,
        *_columns(
            ("host", _S, "lower-case ASCII host name without port"),
            ("host_key", _I64, "63 bits: the top 15 bits of the host's hash, then 48 zero bits: a lower bound of its URL keys"),
            ("domain", _S, "registrable domain by the public suffix list; the host itself where it has none"),
            ("score", _F32, "weight of the host when a cycle cannot take all, 1 = usual"),
            ("next_allowed_at", TIMESTAMP, "not to be asked before: outlives cycles"),
            ("delay_ms", _I64, "pause between the end of a request and the next, ms"),
            ("delay_reason", _S, "which wish set it: floor, crawl_delay, response_time, retry_after, backoff"),
            ("crawl_delay_ms", _I64, "robots.txt Crawl-delay, ms; null = none"),
            ("backoff_ms", _I32, "extra pause after 429, 5xx and time-outs, ms; doubles, and is forgiven slowly"),
            ("first_byte_ms", _I32, "moving average of the time to the first byte, ms"),
            ("last_first_byte_ms", _I32, "time to the first byte of the last answer, ms"),
            ("response_ms", _I32, "moving average of the time of the whole answer, ms"),
            ("addresses", pa.list_(_S), "addresses at the last look-up"),
            ("addresses_expire_at", TIMESTAMP, "end of the DNS answer's time to live"),
            ("robots", pa.list_(ROBOTS_SITE), "robots.txt by site: state (rules, allow_all, unreachable), status, digest in `robots`, times, URL whose rules hold"),
            ("sitemaps", pa.list_(SITEMAP_FILE), "the host's sitemaps: where each was found (robots, well_known, seed, index, redirect), the hosts it may speak for, metadata its pages inherit, times, entries taken, status (an outcome, or not_a_sitemap), ETag and Last-Modified of what was read; null = none"),
            ("companion", _S, "other hosts, with blanks between, that must share this one's fetch partition (its robots.txt redirects there); null = none"),
            ("month", _I32, "calendar month (UTC) of `month_requests`, as yyyymm"),
            ("month_requests", _I64, "requests made to the host in `month`"),
            ("month_budget", _I64, "requests allowed a month; null = the configuration's"),
            ("requests", _I64, "requests made, ever"),
            ("pages", _I64, "answers of pages with a status of 2xx that were captured, ever"),
            ("body_bytes", _I64, "body bytes received, ever"),
            ("known_urls", _I64, "URLs admitted, ever"),
            ("ready_urls", _I64, "URLs on the ready shelf"),
            ("backlog_urls", _I64, "URLs on the backlog shelf"),
            ("failures", _I16, "failures of the host itself in a row (DNS, connection, TLS, 5xx)"),
            ("failing_since", TIMESTAMP, "when that row began; null = it does not fail"),
            ("health", _S, "ok, or the outcome that ails it"),
            ("probe_at", TIMESTAMP, "when one URL may be tried again; null = the host is well"),
            ("yields", _S, "JSON by path pattern: fetches and what they brought lately; null = none yet"),
            ("traps", _S, "JSON by path pattern in quarantine: since when, why, next sample; null = none"),
            ("revisit_price", pa.float64(), "seconds of freshness that a visit to a known page must bring; null = the configuration's"),
            ("revisit_demand", pa.float64(), "visits a day that its known pages are due for, by the pauses given to them"),
            ("label", _S, "the seeds' label (country, topic) for budgets by label; null = none"),
            ("added_cycle", _I32, "the cycle that met it first"),
            ("last_cycle", _I32, "the last cycle that asked it"),
        ),
    ),
    ("bucket",), ("host_key", "host"),
)  # fmt: skip

ROBOTS = Table(
    "robots", "robots.txt bodies by digest: many hosts share one",
    _columns(
        ("digest", _S, "sha1 Base32 of the body"),
        ("body", pa.binary(), "the bytes, decoded from their content coding, at most 500 KiB"),
        ("cycle", _I32, "the cycle that brought it first"),
    ),
)  # fmt: skip

CAPTURES = Table(
    "captures",
    "every request and its outcome, failures too; the first 32 columns are Common Crawl's index",
    _columns(
        ("url_surtkey", _S, "SURT of the URL, the sort key of CDXJ"),
        ("url", _S, "the URL as requested"),
        ("url_host_name", _S, "host"),
        ("url_host_tld", _S, "last label of the host"),
        ("url_host_2nd_last_part", _S, "second label from the right"),
        ("url_host_3rd_last_part", _S, "third label from the right"),
        ("url_host_4th_last_part", _S, "fourth label from the right"),
        ("url_host_5th_last_part", _S, "fifth label from the right"),
        ("url_host_registry_suffix", _S, "public suffix, ICANN section"),
        ("url_host_registered_domain", _S, "registrable domain, ICANN section"),
        ("url_host_private_suffix", _S, "public suffix, private section included"),
        ("url_host_private_domain", _S, "registrable domain, private section included"),
        ("url_host_name_reversed", _S, "host with its labels reversed"),
        ("url_protocol", _S, "http or https"),
        ("url_port", _I32, "explicit port; null = the default"),
        ("url_path", _S, "path"),
        ("url_query", _S, "query without the question mark; null = none"),
        ("fetch_time", TIMESTAMP, "start of the request"),
        ("fetch_status", _I16, "HTTP status; null if none came"),
        ("fetch_redirect", _S, "where a redirect leads, resolved"),
        ("content_digest", _S, "sha1 Base32 of the payload as stored"),
        ("content_mime_type", _S, "Content-Type as sent, without parameters"),
        ("content_mime_detected", _S, "type told from the bytes"),
        ("content_charset", _S, "character set used to read the text"),
        ("content_languages", _S, "languages, comma-separated; null = not looked at"),
        ("content_truncated", _S, "length, time, disconnect; null = whole"),
        ("warc_filename", _S, "file under warc/; null = nothing stored"),
        ("warc_record_offset", _I64, "first byte of the gzip member"),
        ("warc_record_length", _I32, "bytes of the gzip member"),
        ("warc_segment", _S, "fetch partition, as text"),
        ("crawl", _S, "the cycle as text, cycle-000012"),
        ("subset", _S, "warc (pages and sitemaps: `kind` tells them apart), robotstxt, crawldiagnostics (redirects, errors, failures)"),
        ("cycle", _I32, "the cycle"),
        ("bucket", _I32, "bucket of the URL"),
        ("url_key", _I64, "see frontier_ready"),
        ("host", _S, "unit of politeness"),
        ("kind", _S, "page, robots, sitemap"),
        ("outcome", _S, "named outcome (see rules/outcome.py)"),
        ("error", _S, "what the machine said, for a failure"),
        ("record_id", _S, "WARC-Record-ID without brackets"),
        ("record_type", _S, "response, revisit; null = nothing stored"),
        ("refers_to", _S, "for a revisit: `url timestamp` of the record that holds the bytes"),
        ("address", _S, "peer address"),
        ("request_ms", _I64, "start of the request, ms since 1970 (whole)"),
        ("first_byte_ms", _I32, "time to the first byte, ms"),
        ("response_ms", _I32, "time of the whole exchange, ms"),
        ("delay_ms", _I64, "pause that held before this request, ms"),
        ("delay_reason", _S, "which wish set that pause"),
        ("body_bytes", _I64, "payload bytes stored"),
        ("wire_bytes", _I64, "bytes received, headers included"),
        ("decoded_bytes", _I64, "payload bytes after content decoding"),
        ("title", _S, "title of an HTML page, at most 300 characters"),
        ("links", _I32, "links found"),
        ("depth", _I16, "see frontier_ready"),
        ("via", _S, "see frontier_ready"),
        ("source", _S, "see frontier_ready"),
        ("hop", _I16, "redirects followed in this cycle before this request"),
        ("etag", _S, "ETag as received"),
        ("last_modified", _S, "Last-Modified as received"),
        ("retry_after", _S, "Retry-After as received"),
        ("robots_tags", _S, "noindex, nofollow, noarchive from header and page, comma-separated; null = none"),
        ("duplicate", _B, "the payload was stored before"),
        ("attempt", _I32, "attempt of the fetch partition"),
        ("notes", _S, "what makes a page hardly one of its own: soft_404, same_as_referrer, login, each with what was seen; null = nothing"),
    ),
    ("crawl", "subset"), ("url_surtkey", "fetch_time"),
)  # fmt: skip

CONTENTS = Table(
    "contents", "every stored payload, once: digest and where its bytes lie; sorted runs by digest",
    _columns(
        ("shard", _I32, "the top log2(B) bits of `digest_key`"),
        ("digest_key", _I64, "the top 63 bits of the sha1"),
        ("digest", _S, "sha1 Base32"),
        ("url", _S, "URL of the record that holds the bytes"),
        ("date", _S, "its WARC-Date"),
        ("record_id", _S, "its WARC-Record-ID without brackets"),
        ("warc_filename", _S, "its file under warc/"),
        ("warc_record_offset", _I64, "first byte of the gzip member"),
        ("warc_record_length", _I32, "bytes of the gzip member"),
        ("body_bytes", _I64, "payload bytes"),
        ("cycle", _I32, "the cycle that stored it"),
    ),
    ("shard",), ("digest_key",),
)  # fmt: skip

LINKS = Table(
    "links", "links between hosts, counted by page, a row a pair and cycle",
    _columns(
        ("crawl", _S, "the cycle as text, cycle-000012"),
        ("cycle", _I32, "the cycle"),
        ("src_host", _S, "host of the pages that link"),
        ("dst_host", _S, "host linked to"),
        ("links", _I64, "links counted once a page and target URL"),
    ),
    ("crawl",), ("src_host", "dst_host"),
)  # fmt: skip

PAGES = Table(
    "pages",
    "what stored pages say: a row a stored HTML or text payload, made from the WARC files by `noria extract`",
    _columns(
        ("crawl", _S, "the cycle as text, cycle-000012"),
        ("cycle", _I32, "the cycle that stored the payload"),
        ("url", _S, "the URL of the record that holds the bytes; duplicates join by `content_digest`"),
        ("url_key", _I64, "see frontier_ready"),
        ("host", _S, "unit of politeness"),
        ("fetch_time", TIMESTAMP, "start of the request"),
        ("content_digest", _S, "sha1 Base32 of the payload as stored"),
        ("content_mime_detected", _S, "type told from the bytes"),
        ("title", _S, "title of an HTML page, at most 300 characters"),
        ("description", _S, "meta description, at most 1,000 characters"),
        ("canonical", _S, "canonical URL that page or Link header names, absolute"),
        ("language", _S, "language told from the text, ISO 639 code; null = too little text to tell"),
        ("language_score", _F32, "how sure that is, 0 to 1"),
        ("language_declared", _S, "language that the page declares, as written"),
        ("text", _S, "main text, a line a block, at most 100,000 characters; null = nothing could be read"),
        ("words", _I32, "words of the main text"),
        ("simhash", _I64, "64-bit SimHash of the main text, its bits as a signed number; null = fewer than 24 words"),
        ("problem", _S, "why nothing was read: damaged, coding, empty, binary, nesting, ...; null = it was read"),
        ("warc_filename", _S, "file under warc/"),
        ("warc_record_offset", _I64, "first byte of the gzip member"),
        ("warc_record_length", _I32, "bytes of the gzip member"),
    ),
    ("crawl",), ("warc_record_offset",),
)  # fmt: skip

LOOKALIKES = Table(
    "lookalikes",
    "pages that are hardly ones of their own, found by `noria extract`: they are kept, and lower the yield of their pattern",
    _columns(
        ("crawl", _S, "the cycle as text, cycle-000012"),
        ("cycle", _I32, "the cycle that stored the page"),
        ("url", _S, "the page, as in `pages`"),
        ("url_key", _I64, "see frontier_ready"),
        ("host", _S, "unit of politeness"),
        ("content_digest", _S, "sha1 Base32 of the page's payload"),
        ("kind", _S, "near: its text is nearly that of an earlier page; boilerplate: it says what the host's other pages say"),
        ("bits", _I16, "bits of 64 in which the SimHashes differ; null for boilerplate"),
        ("near_url", _S, "the earlier page; null for boilerplate"),
        ("near_digest", _S, "sha1 Base32 of its payload"),
    ),
    ("crawl",), ("url_key",),
)  # fmt: skip

LEDGER = Table(
    "ledger", "a row when a cycle is planned and one when it is committed; the second makes it real",
    _columns(
        ("cycle", _I32, "the cycle, from 1"),
        ("state", _S, "planned or committed"),
        ("opened_at", TIMESTAMP, "the cycle's logical clock"),
        ("written_at", TIMESTAMP, "when this row was written"),
        ("config_digest", _S, "digest of the settings used"),
        ("seed", _I64, "seed of the plan's random choice"),
        ("partitions", _I32, "fetch partitions"),
        ("window_seconds", _I32, "how long the cycle might fetch"),
        ("versions", pa.map_(_S, _I64), "version of every table that belongs to the cycle's end (planned: its start)"),
        ("counts", pa.map_(_S, _I64), "planned, requests, pages (those answered with 2xx), duplicates, new_urls, given_up, ... and seen, ready, backlog, later, retired at the end"),
        ("outcomes", pa.map_(_S, _I64), "requests by outcome"),
        ("seconds", pa.map_(_S, pa.float64()), "wall time by step"),
        ("noria", _S, "version of the code"),
    ),
)  # fmt: skip

TABLES: tuple[Table, ...] = (
    FRONTIER_READY, FRONTIER_BACKLOG, FRONTIER_LATER, FRONTIER_RETIRED, SEEN, HOSTS, ROBOTS, CAPTURES,
    CONTENTS, LINKS, PAGES, LOOKALIKES, LEDGER,
)  # fmt: skip
DERIVED: tuple[Table, ...] = (PAGES, LOOKALIKES)
"""Tables made from what cycles stored, outside any cycle: read at their newest version, absent in older lakes."""
BY_NAME: dict[str, Table] = {table.name: table for table in TABLES}
SHELVES: tuple[str, ...] = ("ready", "backlog", "later", "retired")
BUCKETED: dict[str, str] = {
    table.name: name for table in TABLES for name in table.partitions if name in ("bucket", "shard")
}
"""The partition column that is the top bits of the table's first sort key, by table."""
