"""Scrapy, Crawlee and `wget --warc-file` on the same pages and machine, without any politeness to hold them back.

`python -m tests.bench.bench_peers` (or `make bench-peers`). Makes a virtual environment of its own for them. Hosts
are loopback addresses, since peers cannot be given a table of names; delays and robots.txt are off, links are
extracted, pages are kept (Scrapy: body length only; Crawlee: nothing; wget: WARC).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from tests.bench import webserver

PEERS = ("scrapy==2.19.0", "crawlee[parsel]==1.11.0")

SCRAPY = """
import scrapy
class Bench(scrapy.Spider):
    name = "bench"
    custom_settings = dict(LOG_LEVEL="ERROR", CONCURRENT_REQUESTS=200, CONCURRENT_REQUESTS_PER_DOMAIN=8,
        DOWNLOAD_DELAY=0, ROBOTSTXT_OBEY=False, RETRY_ENABLED=False, TELNETCONSOLE_ENABLED=False)
    async def start(self):
        for line in open(URLS):
            yield scrapy.Request(line.strip(), dont_filter=True)
    def parse(self, response):
        links = [response.urljoin(href) for href in response.css("a::attr(href)").getall()]
        COUNT.append((len(response.body), len(links)))
"""
RUN_SCRAPY = """
import sys
URLS, COUNT = sys.argv[1], []
exec(open(sys.argv[2]).read())
from scrapy.crawler import CrawlerProcess
process = CrawlerProcess(); process.crawl(Bench); process.start()
print(len(COUNT))
"""
RUN_CRAWLEE = """
import asyncio, sys, logging
from datetime import timedelta
from crawlee import ConcurrencySettings
from crawlee.crawlers import ParselCrawler
from crawlee.storage_clients import MemoryStorageClient
COUNT = []
async def main():
    crawler = ParselCrawler(storage_client=MemoryStorageClient(), configure_logging=False,
        concurrency_settings=ConcurrencySettings(desired_concurrency=100, max_concurrency=200))
    @crawler.router.default_handler
    async def page(context):
        COUNT.append(len(context.selector.css("a::attr(href)").getall()))
    await crawler.run([line.strip() for line in open(sys.argv[1])])
logging.disable(logging.CRITICAL)
asyncio.run(main())
print(len(COUNT))
"""


def timed(name: str, command: list[str], folder: Path, pages: int) -> bool:
    """Run a peer and print its pages a second, its start included, or why it failed; returns whether it went well.

    wget ends with 8 where a page was an error, and counts nothing.
    """
    began = time.monotonic()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    took = time.monotonic() - began
    if done.returncode not in (0, 8 if command[0] == "wget" else 0):
        why = (done.stderr.strip().splitlines() or ["no word"])[-1]
        print(f"{name:<18} failed with exit code {done.returncode}: {why}")
        return False
    handled = "".join(f" ({line} handled)" for line in done.stdout.strip().splitlines()[-1:])
    print(f"{name:<18} {pages / took:8,.0f} pages/s   {pages:,} pages in {took:.1f} s{handled}")
    return True


def run(pages: int, documents: Path | None) -> bool:
    """Make the environment and the web, run each peer on its share of the pages; returns whether all went well."""
    webserver.install(documents)
    with tempfile.TemporaryDirectory(prefix="noria-peers-") as folder:
        return _run(Path(folder), pages, documents)


def _run(home: Path, pages: int, documents: Path | None) -> bool:
    venv.create(home / "venv", with_pip=True)
    python = str(home / "venv" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", "--upgrade", "pip"], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", *PEERS], check=True)
    (home / "spider.py").write_text(SCRAPY, encoding="utf-8")
    (home / "run_scrapy.py").write_text(RUN_SCRAPY, encoding="utf-8")
    (home / "run_crawlee.py").write_text(RUN_CRAWLEE, encoding="utf-8")
    well = []
    with webserver.served(home, 18_081, documents):
        for name, share, command in (
            (
                "wget --warc-file",
                4,
                ["wget", "-q", "-O", "/dev/null", "--warc-file=bench", "--no-warc-keep-log", "-i"],
            ),
            ("Scrapy", 1, [python, "run_scrapy.py"]),
            ("Crawlee", 1, [python, "run_crawlee.py"]),
        ):
            urls = _urls(pages * share if name != "Crawlee" else pages // 2, documents)
            (home / "urls.txt").write_text("\n".join(urls), encoding="utf-8")
            more = ["spider.py"] if name == "Scrapy" else []
            well.append(timed(name, [*command, "urls.txt", *more], home, len(urls)))
    return all(well)


def _urls(count: int, documents: Path | None) -> list[str]:
    files = webserver.pages(documents)
    files = files[:: max(len(files) // count, 1)][:count]
    return [f"http://127.1.{place // 256 % 4}.{place % 256}:18081{path}" for place, path in enumerate(files)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--pages", type=int, default=3_000, help="pages for Scrapy; wget four times, Crawlee half"
    )
    webserver.add_option(parser)
    arguments = parser.parse_args()
    sys.exit(0 if run(arguments.pages, arguments.documents) else 1)
