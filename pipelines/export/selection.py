"""What is exported: a table, cycles, a condition and columns, as one SQL query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lake.schema import BY_NAME
from lake.snapshot import Lake, crawl_name
from pipelines.failure import Misuse

WHATS = ("pages", "links", "hosts", "captures")
_FROM_PAGES = (
    "description",
    "canonical",
    "language",
    "language_score",
    "language_declared",
    "text",
    "words",
    "simhash",
    "problem",
)
PLACED = (
    "url", "url_surtkey", "fetch_time", "fetch_status", "fetch_redirect", "content_digest", "content_mime_type",
    "content_mime_detected", "content_truncated", "title", "record_id", "record_type", "warc_filename",
    "warc_record_offset", "warc_record_length",
)  # fmt: skip
"""The columns that a WARC or WACZ is made from."""


@dataclass(frozen=True)
class Selection:
    """what: pages (a row an answered page, with its text where it is extracted), captures, links, hosts.

    cycles: None = all. where: a condition in SQL over the columns; None = every row. columns: None = all.
    """

    what: str
    cycles: tuple[int, ...] | None = None
    where: str | None = None
    columns: tuple[str, ...] | None = None

    def query(self, lake: Lake) -> str:
        """Return the query of the rows; raises Misuse for a column that is not there."""
        names = ", ".join(self._columns(lake)) if self.columns else "*"
        return f"select {names} from {self._rows(lake)}"

    def count(self, lake: Lake) -> str:
        """Return the query that counts them, as `n`."""
        return f"select count(*) n from {self._rows(lake)}"

    def records(self, lake: Lake, *, redirects: bool = False) -> str:
        """Return the query of the stored records among the rows, in the order in which they lie in their files.

        redirects: pages come with the redirects that visits of pages met, so that a reader's links lead on.
        """
        if self.what not in ("pages", "captures"):
            raise Misuse(f"{self.what} have no records: export pages or captures as WARC or WACZ")
        return (
            f"select {', '.join(PLACED)} from {self._rows(lake, redirects=redirects)} where warc_filename is not null "
            "order by warc_filename, warc_record_offset"
        )

    def _rows(self, lake: Lake, *, redirects: bool = False) -> str:
        kept = f" where ({self.where})" if self.where else ""
        return f"(select * from ({self._base(lake, redirects=redirects)}) rows{kept})"

    def _base(self, lake: Lake, *, redirects: bool) -> str:
        if self.what not in WHATS:
            raise Misuse(f"{self.what}: export one of {', '.join(WHATS)}")
        if self.what == "hosts":
            return "select * from hosts"
        table = "links" if self.what == "links" else "captures"
        conditions = [self._of_cycles()] if self.cycles is not None else []
        if self.what == "pages":
            conditions += [
                "kind = 'page'",
                f"(subset = 'warc'{' or fetch_redirect is not null' * redirects})",
            ]
        rows = f"select * from {table}" + (f" where {' and '.join(conditions)}" if conditions else "")
        return _with_text(rows) if self.what == "pages" and lake.rows("pages") else rows

    def _of_cycles(self) -> str:
        names = ", ".join(f"'{crawl_name(cycle)}'" for cycle in self.cycles or ())
        return f"crawl in ({names})"

    def _columns(self, lake: Lake) -> Sequence[str]:
        table = self.what if self.what in ("links", "hosts") else "captures"
        known = [one.name for one in BY_NAME[table].columns]
        if self.what == "pages" and lake.rows("pages"):
            known += _FROM_PAGES
        strange = [name for name in self.columns or () if name not in known]
        if strange:
            hint = "; run noria extract first" if strange[0] in _FROM_PAGES else ""
            raise Misuse(
                f"--columns {strange[0]}: {self.what} have no such column{hint}; they have {', '.join(known)}"
            )
        return self.columns or ()


def _with_text(rows: str) -> str:
    """Join what was extracted: to a response by its place, to a duplicate by its digest, of which one row is taken."""
    names = ("title", *_FROM_PAGES)
    of_one = ", ".join(f"coalesce(own.{name}, same.{name}) {name}" for name in _FROM_PAGES)
    return f"""select got.* replace (coalesce(got.title, same.title) as title), {of_one} from ({rows}) got
               left join pages own on got.record_type <> 'revisit' and own.warc_filename = got.warc_filename
                                  and own.warc_record_offset = got.warc_record_offset
               left join (select distinct on (content_digest) content_digest, {", ".join(names)} from pages
                          where content_digest in (select content_digest from ({rows}) where record_type = 'revisit')
                          order by content_digest, warc_filename, warc_record_offset) same
                      on got.record_type = 'revisit' and same.content_digest = got.content_digest"""
