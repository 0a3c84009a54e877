"""Pages a second of `noria extract`, on one core: `python tests/bench/bench_extract.py [--lake FOLDER] [--pages N] [--documents FOLDER]`.

Without --lake, a WARC file of the HTML files under --documents is made (without it, of this machine's documentation), a
page a record, and read by the extract task alone. CPU time is counted, so that other work on the machine does not matter.
With --lake, the pages of that lake's last cycle are read; nothing is committed.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import lake
from lake import commit
from lake.files import write_data
from lake.schema import CAPTURES
from pipelines import config
from pipelines.extract import graph
from pipelines.extract.warcfile import WarcFile, rows
from pipelines.net.exchange import Exchange
from pipelines.net.warc import Spool, WarcInfo, uuid_urn, warc_date
from pipelines.rules.outcome import Outcome
from tests.lake.sample import rows_of

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n"


def documents(folder: Path, count: int) -> list[Path]:
    """Return HTML files of a folder, the same ones at each call."""
    found = sorted(path for path in folder.rglob("*.html") if path.is_file())
    random.Random(1).shuffle(found)
    return found[:count]


def made(folder: Path, pages: list[Path]) -> WarcFile:
    """Make a lake whose one WARC file holds the pages, and return the task that reads it."""
    held = lake.create(folder / "lake", buckets=8)
    name = "c000001/bench.warc.gz"
    path = held.layout.warc_file(name)
    path.parent.mkdir(parents=True)
    info = WarcInfo(
        warcinfo_id=uuid_urn("bench"), filename=path.name, date=warc_date(0), software="bench", operator="bench",
        user_agent="bench", hostname="bench", robots="obey", description="", is_part_of="bench",
    )  # fmt: skip
    spool = Spool(path, info)
    places = []
    for number, page in enumerate(pages):
        body = page.read_bytes()
        exchange = Exchange(f"http://doc.test/{number}", outcome=Outcome.OK, started_ms=0)
        exchange.response_head, exchange.body, exchange.status = HEAD % len(body), body, 200
        exchange.request_head = b"GET / HTTP/1.1\r\nHost: doc.test\r\n\r\n"
        exchange.headers = [("Content-Type", "text/html"), ("Content-Length", str(len(body)))]
        places.append(spool.add(exchange, record_date=warc_date(0), record_id=uuid_urn("bench", str(number))))
    spool.flush()
    spool.close()
    count = len(pages)
    table = rows_of(
        "captures",
        url_surtkey=[f"test,doc)/{number:09d}" for number in range(count)],
        url=[f"http://doc.test/{number}" for number in range(count)],
        url_key=list(range(count)), host=["doc.test"] * count, kind=["page"] * count, cycle=[1] * count,
        record_type=["response"] * count, warc_filename=[name] * count,
        warc_record_offset=[place.offset for place in places],
        warc_record_length=[place.length for place in places],
        content_digest=[place.payload_digest for place in places],
    )  # fmt: skip
    where = {"crawl": "cycle-000001", "subset": "warc"}
    add = write_data(held.layout.table("captures"), "c000001/bench.parquet", table, CAPTURES, where)
    commit.commit_table(held.root, "captures", cycle=1, adds=[add], replace=None)
    return WarcFile(str(held.root), 1, name, 20 * 2**20)


def measure(held: lake.Lake, task: WarcFile) -> None:
    """Read the pages of a file and print how long a page took."""
    next(rows(held, task))  # the model and the parsers are loaded
    wall, cpu = time.perf_counter(), time.process_time()
    count = sum(1 for _ in rows(held, task))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{task.filename}: {count:,} pages, {1_000 * cpu / count:.2f} ms of CPU a page, {count / cpu:,.0f} pages/s a core "
          f"({count / wall:,.0f} by the wall clock)")  # fmt: skip


def main() -> int:
    """Make or take a file, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lake", type=Path, default=None, help="read the pages of its last cycle")
    parser.add_argument("--pages", type=int, default=2_000)
    parser.add_argument(
        "--documents",
        type=Path,
        metavar="FOLDER",
        default=Path("/usr/share/doc"),
        help="take the HTML files under FOLDER [/usr/share/doc]",
    )
    asked = parser.parse_args()
    if asked.lake is not None:
        held = lake.open(asked.lake)
        settings = config.load([], environ={}, overrides={})
        for task in graph.files(held, settings, held.cycle):
            measure(held, task)
        return 0
    pages = documents(asked.documents, asked.pages)
    if not pages:
        print(
            f"no HTML files under {asked.documents}: name a folder with --documents or a lake with --lake",
            file=sys.stderr,
        )
        return 1
    folder = Path(tempfile.mkdtemp(prefix="noria-bench-"))
    try:
        task = made(folder, pages)
        size = sum(page.stat().st_size for page in pages) / len(pages)
        print(f"{len(pages):,} pages of {size / 1_000:.0f} kB on average")
        measure(lake.open(task.root).at({"captures": 1}), task)
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
