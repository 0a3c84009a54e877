"""The command `noria`: names, options and help; what a command does is in its own file.

Those files are imported when their command runs: `noria --help` must not wait for Dask and Arrow.
"""

from __future__ import annotations

import gc
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

from pipelines.app import errors
from pipelines.app.options import (
    Conf,
    Debug,
    Json,
    Lake,
    MaxPages,
    Scheduler,
    Seeds,
    Set,
    Window,
    settings_of,
)

COLLECTIONS = (50_000, 20, 20)
"""Thresholds of the garbage collector: walks over what imports made took a tenth of the time of a short command."""

HELP = """A web crawler that works in cycles over a data lake.

Start with: noria cycle --demo (a toy web on this machine), or
noria cycle --seeds seeds.txt --set identity.contact=you@example.org
"""

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False)
seeds_app = typer.Typer(help="Bring seeds into the lake.", no_args_is_help=True)
conf_app = typer.Typer(help="Show the settings.", no_args_is_help=True)
check_app = typer.Typer(
    help="Check the lake for faults; exit 1 with a line for each.", invoke_without_command=True
)
app.add_typer(seeds_app, name="seeds")
app.add_typer(conf_app, name="conf")
app.add_typer(check_app, name="check")


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"noria {version('noria')}")
        raise typer.Exit


@app.callback(help=HELP)
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Hold what stands before a command."""


@app.command()
def cycle(  # noqa: PLR0913  an option each
    lake: Lake = None,
    conf: Conf = None,
    pairs: Set = None,
    seeds: Seeds = None,
    scheduler: Scheduler = None,
    window: Window = None,
    max_pages: MaxPages = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="On a new lake, crawl a toy web on this machine.")
    ] = False,
    demo_if_empty: Annotated[
        bool,
        typer.Option(
            "--demo-if-empty", hidden=True, help="As --demo, but crawl on where there is something."
        ),
    ] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> int:
    """Run one crawl cycle: plan, fetch, store, commit."""
    with errors.told():
        from pipelines.app import cycle_cmd
        from pipelines.app.asked import Asked
        from pipelines.app.demo import Wish

        wish = Wish.YES if demo else Wish.IF_EMPTY if demo_if_empty else Wish.NO
        asked = Asked(lake, conf, pairs, seeds or [], scheduler, window, max_pages, wish, as_json)
        return cycle_cmd.run(asked)


@seeds_app.command("add")
def seeds_add(  # noqa: PLR0913  an option each
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE|URL...",
            help="Files of one URL a line with tab-separated key=value metadata, URLs, or - for standard input.",
        ),
    ] = None,
    sitemap: Annotated[
        list[str] | None, typer.Option("--sitemap", metavar="URL", help="A sitemap; its pages are found.")
    ] = None,
    feed: Annotated[
        list[str] | None,
        typer.Option("--feed", metavar="URL", help="An RSS or Atom feed; its items are links."),
    ] = None,
    parquet: Annotated[
        list[str] | None,
        typer.Option("--parquet", metavar="FILE", help="A Parquet file with a column url, e.g. an index."),
    ] = None,
    label: Annotated[
        str | None, typer.Option("--label", help="A label for all of them; \\[budget] labels may limit it.")
    ] = None,
    country: Annotated[
        str | None, typer.Option("--country", help="Their country, part of the label.")
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Their topic, part of the label.")] = None,
    meta: Annotated[
        list[str] | None,
        typer.Option(
            "--meta", metavar="KEY=VALUE", help="Metadata for all of them, as stay=host; again for more."
        ),
    ] = None,
    lake: Lake = None,
    conf: Conf = None,
    pairs: Set = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Put seeds into the lake's inbox, for the next cycle."""
    with errors.told():
        from pipelines.app import seeds_cmd
        from pipelines.seeds.add import Wish

        told = seeds_cmd.metadata_of(meta or [], label=label, country=country, topic=topic)
        wish = Wish(tuple(sources or ()), tuple(sitemap or ()), tuple(feed or ()), tuple(parquet or ()), told)
        seeds_cmd.run_wish(settings_of(lake, conf, pairs), wish, as_json=as_json)


@seeds_app.command("scan")
def seeds_scan(
    networks: Annotated[
        list[str], typer.Argument(metavar="CIDR...", help="Networks, all in \\[security] scan_networks.")
    ],
    ports: Annotated[
        str, typer.Option("--ports", metavar="N,N", help="Ports to try at each address.")
    ] = "80,443",
    lake: Lake = None,
    conf: Conf = None,
    pairs: Set = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Look for web servers in networks of your own; what is found goes into the inbox."""
    with errors.told():
        from pipelines.app import seeds_cmd

        seeds_cmd.scan(settings_of(lake, conf, pairs), networks, ports, as_json=as_json)


@app.command()
def status(
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Follow the cycle that runs, until it ends or Ctrl-C; with --json, an object a line.",
        ),
    ] = False,
    lake: Lake = None,
    conf: Conf = None,
    pairs: Set = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Tell what the lake holds, what waits and until when, what failed, and how the last cycles went."""
    with errors.told():
        from pipelines.app import status_cmd
        from pipelines.app.arrow import spare_pandas

        spare_pandas()
        status_cmd.run(settings_of(lake, conf, pairs), as_json=as_json, watch=watch)


@app.command()
def doctor(
    browser: Annotated[
        bool, typer.Option("--browser", help="Also look for the browser that some tests use.")
    ] = False,
    lake: Lake = None,
    conf: Conf = None,
    pairs: Set = None,
    as_json: Json = False,
    debug: Debug = False,
) -> int:
    """Check this machine and say what to do; exit 1 if a cycle could not run."""
    with errors.told():
        from pipelines.app import doctor_cmd

        return doctor_cmd.run(settings_of(lake, conf, pairs), browser=browser, as_json=as_json)


@app.command()
def run(  # noqa: PLR0913  an option each
    every: Annotated[
        str, typer.Option(metavar="DURATION", help="From start to start: 90s, 30min, 1h, 1d.")
    ] = "1h",
    cycles: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="End after N good cycles. \\[never]", show_default=False),
    ] = None,
    lake: Lake = None,
    conf: Conf = None,
    pairs: Set = None,
    seeds: Seeds = None,
    scheduler: Scheduler = None,
    window: Window = None,
    max_pages: MaxPages = None,
    as_json: Json = False,
    debug: Debug = False,
) -> int:
    """Run cycles one after another, in the foreground, until SIGTERM or Ctrl-C."""
    with errors.told():
        from pipelines.app import run_cmd
        from pipelines.app.asked import Asked

        asked = Asked(lake, conf, pairs, seeds or [], scheduler, window, max_pages, as_json=as_json)
        return run_cmd.run(asked, every=every, cycles=cycles)


@app.command()
def explain(
    url: Annotated[str, typer.Argument(metavar="URL", show_default=False)],
    most: Annotated[int, typer.Option("--captures", metavar="N", min=1, help="Captures to tell.")] = 5,
    lake: Lake = None,
    conf: Conf = None,
    pairs: Set = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Tell what became of a URL and why, and when it will be asked next."""
    with errors.told():
        from pipelines.app import explain_cmd
        from pipelines.app.arrow import spare_pandas

        spare_pandas()
        explain_cmd.explain(settings_of(lake, conf, pairs), url, most=most, as_json=as_json)


@app.command()
def hosts(
    host: Annotated[
        str | None, typer.Argument(metavar="HOST", help="One host. \\[a table]", show_default=False)
    ] = None,
    order: Annotated[
        str, typer.Option("--by", metavar="ORDER", help="Of the table: size, trouble, requests, delay.")
    ] = "size",
    most: Annotated[int, typer.Option("--most", metavar="N", min=1, help="Lines of the table.")] = 30,
    lake: Lake = None,
    conf: Conf = None,
    pairs: Set = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Tell how a host stands: clock, delay, health, budget, robots.txt; without one, list the hosts."""
    with errors.told():
        from pipelines.app import explain_cmd
        from pipelines.app.arrow import spare_pandas

        spare_pandas()
        settings = settings_of(lake, conf, pairs)
        if host is None:
            explain_cmd.host_table(settings, order=order, most=most, as_json=as_json)
        else:
            explain_cmd.host(settings, host, as_json=as_json)


@app.command()
def get(  # noqa: PLR0913  an option each
    url: Annotated[str, typer.Argument(metavar="URL", show_default=False)],
    cycle: Annotated[
        int | None,
        typer.Option("--cycle", metavar="N", help="As it was then. \\[the newest]", show_default=False),
    ] = None,
    decoded: Annotated[bool, typer.Option("--decoded", help="Without gzip, br and the like.")] = False,
    headers: Annotated[bool, typer.Option("--headers", help="The answer's head first.")] = False,
    lake: Lake = None,
    conf: Conf = None,
    pairs: Set = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Print the stored bytes of a page."""
    with errors.told():
        from pipelines.app import get_cmd
        from pipelines.app.arrow import spare_pandas

        spare_pandas()
        settings = settings_of(lake, conf, pairs)
        get_cmd.run(settings, url, cycle=cycle, decoded=decoded, headers=headers, as_json=as_json)


@check_app.callback()
def check(
    context: typer.Context,
    deep: Annotated[bool, typer.Option("--deep", help="Also read every record and compare digests.")] = False,
    lake: Lake = None,
    conf: Conf = None,
    pairs: Set = None,
    as_json: Json = False,
    debug: Debug = False,
) -> int:
    """Check the lake for faults; exit 1 with a line for each."""
    if context.invoked_subcommand is not None:
        return 0
    with errors.told():
        from pipelines.app import check_cmd
        from pipelines.app.arrow import spare_pandas

        spare_pandas()
        raise typer.Exit(check_cmd.run(settings_of(lake, conf, pairs), deep=deep, as_json=as_json))


@check_app.command("url")
def check_url(
    url: Annotated[str, typer.Argument(metavar="URL", show_default=False)],
    lake: Lake = None,
    conf: Conf = None,
    pairs: Set = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Tell how a URL is known and what every filter rule says of it."""
    with errors.told():
        from pipelines.app import judge_cmd

        judge_cmd.url(settings_of(lake, conf, pairs), url, as_json=as_json)


@check_app.command("robots")
def check_robots(
    url: Annotated[str, typer.Argument(metavar="URL", show_default=False)],
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="A robots.txt to read instead of the lake's copy."),
    ] = None,
    fetch: Annotated[
        bool, typer.Option("--fetch", help="Ask the site for it, once and politely; nothing is stored.")
    ] = False,
    lake: Lake = None,
    conf: Conf = None,
    pairs: Set = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Tell whether robots.txt allows a URL, by which group and line."""
    with errors.told():
        from pipelines.app import judge_cmd
        from pipelines.app.arrow import spare_pandas

        spare_pandas()
        judge_cmd.robots(settings_of(lake, conf, pairs), url, file=file, as_json=as_json, fetch=fetch)


@conf_app.command("show")
def conf_show(
    name: Annotated[
        str | None,
        typer.Argument(help="A setting or a section, with its meaning. \\[all]", show_default=False),
    ] = None,
    changed: Annotated[bool, typer.Option("--changed", help="Only what is not the default.")] = False,
    as_toml: Annotated[bool, typer.Option("--toml", help="As a commented configuration file.")] = False,
    lake: Lake = None,
    conf: Conf = None,
    pairs: Set = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Print each setting's value and where it came from."""
    with errors.told():
        from pipelines.app import conf_cmd

        conf_cmd.show(settings_of(lake, conf, pairs), name, changed=changed, as_json=as_json, as_toml=as_toml)


@conf_app.command("default")
def conf_default() -> None:
    """Print the defaults as a commented configuration file."""
    from pipelines.app import conf_cmd

    conf_cmd.default()


@app.command()
def export(  # noqa: PLR0913  an option each
    what: Annotated[str, typer.Argument(metavar="pages|links|hosts|captures", help="What to export.")],
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="FORMAT",
            help="parquet, csv, jsonl, warc or wacz. \\[as --out ends, else parquet]",
            show_default=False,
        ),
    ] = None,
    cycle: Annotated[
        str | None,
        typer.Option("--cycle", metavar="N|N-M|last", help="Which cycles. \\[all]", show_default=False),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="SQL",
            help="Which rows, as \"language = 'en' and words > 100\".",
            show_default=False,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="A,B", help="Which columns. \\[all]", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Where to; - for standard output. \\[pages.parquet and the like]",
            show_default=False,
        ),
    ] = None,
    lake: Lake = None,
    conf: Conf = None,
    pairs: Set = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write rows as Parquet, CSV or JSON lines, or records as WARC or WACZ."""
    with errors.told():
        from pipelines.app import export_cmd

        settings = settings_of(lake, conf, pairs)
        export_cmd.run(
            settings, what, cycle=cycle, where=where, columns=columns, to=to, out=out, as_json=as_json
        )


@app.command()
def report(
    cycle: Annotated[
        str | None, typer.Option("--cycle", metavar="N", help="Which cycle. \\[the last]", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FOLDER",
            help="Where to write. \\[reports/ and the lake's name]",
            show_default=False,
        ),
    ] = None,
    lake: Lake = None,
    conf: Conf = None,
    pairs: Set = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a cycle's report: one HTML page with figures, and tables as CSV and Parquet."""
    with errors.told():
        from pipelines.app import report_cmd

        report_cmd.run(settings_of(lake, conf, pairs), cycle, out, as_json=as_json)


@app.command()
def extract(
    cycle: Annotated[
        str | None,
        typer.Option(
            "--cycle", metavar="N|N-M|last", help="Which cycles. \\[all that are new]", show_default=False
        ),
    ] = None,
    lake: Lake = None,
    conf: Conf = None,
    pairs: Set = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Read titles, texts and languages out of stored pages, into the table pages."""
    with errors.told():
        from pipelines.app import extract_cmd

        extract_cmd.run(settings_of(lake, conf, pairs), cycle, as_json=as_json)


@app.command()
def toyweb(
    hosts: Annotated[int, typer.Option(metavar="N", help="Hosts, under the names that end in .test.")] = 40,
    port: Annotated[int, typer.Option(metavar="PORT", help="Port on 127.0.0.1; 0 = any free one.")] = 8081,
    seed: Annotated[int, typer.Option(metavar="N", help="Another seed makes another web.")] = 1,
    log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write every request there, as JSON lines.")
    ] = None,
    conf: Annotated[
        Path | None,
        typer.Option("--write-conf", metavar="FILE", help="Write the settings that a crawl of it needs."),
    ] = None,
    tied: Annotated[bool, typer.Option("--tied", hidden=True, help="End when standard input ends.")] = False,
    debug: Debug = False,
) -> None:
    """Serve a deterministic toy web on this machine, for trying things out."""
    with errors.told():
        from pipelines.app import toyweb_cmd

        toyweb_cmd.run(hosts=hosts, port=port, seed=seed, log=log, conf=conf, tied=tied)


@app.command()
def simulate(  # noqa: PLR0913  an option each
    hosts: Annotated[int, typer.Option(metavar="N", help="Hosts of the computed web.")] = 10_000,
    urls: Annotated[int, typer.Option(metavar="N", help="Its URLs.")] = 10_000_000,
    days: Annotated[float, typer.Option(metavar="N", help="Days to simulate.")] = 30.0,
    seed: Annotated[int, typer.Option(metavar="N", help="Another seed makes another web.")] = 1,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="FOLDER", help="Keep the lake there.", show_default=False)
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(metavar="SECONDS", help="How long a cycle fetches. \\[86400]", show_default=False),
    ] = None,
    max_pages: Annotated[
        int | None,
        typer.Option(metavar="N", help="Plan no more URLs a cycle. \\[100000]", show_default=False),
    ] = None,
    conf: Conf = None,
    pairs: Set = None,
    as_json: Json = False,
    debug: Debug = False,
) -> int:
    """Simulate a month of crawling in minutes: the real rules, a pretend clock, a computed web."""
    with errors.told():
        from pipelines.app import simulate_cmd

        flags = {"window.seconds": ("--window", window), "plan.max_pages": ("--max-pages", max_pages)}
        settings = settings_of(None, conf, pairs, flags=flags, base=simulate_cmd.BASE)
        asked = simulate_cmd.Asked(hosts, urls, days, seed, keep, as_json)
        raise typer.Exit(simulate_cmd.run(settings, asked))


def main() -> None:
    """Run the command line; the console script `noria`."""
    gc.set_threshold(*COLLECTIONS)
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")  # an ASCII terminal gets a ? for a letter that it has not
    sys.exit(errors.run(app, sys.argv[1:]))


if __name__ == "__main__":
    main()
