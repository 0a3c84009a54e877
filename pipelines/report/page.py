"""The report of a cycle as one HTML page that opens anywhere: no script, no network, figures inline."""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pandas as pd

from lake.snapshot import Lake
from pipelines.report import (
    content,
    freshness,
    frontier,
    hosts,
    last_cycle,
    linkgraph,
    politeness,
    timetravel,
)
from pipelines.report.picture import Picture, png
from pipelines.rules.budget import BudgetPolicy, month_of

ROWS = 15
"""Most rows of a table on the page; the whole is in the crawl reports beside it."""


@dataclass(frozen=True)
class Part:
    """A figure or a table with a sentence that says what to look for."""

    words: str
    shown: Picture | pd.DataFrame


@dataclass(frozen=True)
class Chapter:
    """A question and the parts that answer it."""

    name: str
    question: str
    parts: Callable[[Lake, int, BudgetPolicy], Iterator[Part]]


def _cycle(lake: Lake, cycle: int, _: BudgetPolicy) -> Iterator[Part]:
    funnel = last_cycle.funnel(lake, cycle)
    yield Part(
        "Every planned URL ended in one of these; the sum is the plan.", last_cycle.plot_funnel(funnel)
    )
    yield Part("", funnel[funnel["urls"] != 0])
    yield Part(
        "The same words in logs, tables and plots.",
        last_cycle.plot_outcomes(last_cycle.outcomes(lake, cycle)),
    )
    yield Part(
        "A long thin end means that a few hosts held the cycle back.",
        last_cycle.plot_pace(last_cycle.pace(lake, cycle)),
    )
    yield Part(
        "One request at a time, and a pause after each: what a host can give in a window.",
        last_cycle.plot_slowest_hosts(last_cycle.slowest_hosts(lake, cycle)),
    )
    yield Part("", last_cycle.plot_seconds(last_cycle.seconds(lake, cycle)))


def _politeness(lake: Lake, cycle: int, _: BudgetPolicy) -> Iterator[Part]:
    yield Part("No dot may lie below the line.", politeness.plot_gaps(politeness.gaps(lake, cycle)))
    yield Part("", politeness.plot_slack(politeness.slack(lake, cycle)))
    yield Part("The longest wish wins.", politeness.plot_reasons(politeness.reasons(lake, cycle)))
    asked = politeness.retry_after(lake, cycle)
    if len(asked):
        yield Part("Answers that named a Retry-After, and when their host was asked again.", asked)


def _frontier(lake: Lake, cycle: int, policy: BudgetPolicy) -> Iterator[Part]:
    budgets = frontier.budgets(lake, policy, month=_month(lake, cycle))
    yield Part("Every known URL lies on one shelf.", frontier.plot_shelves(frontier.shelves(lake)))
    yield Part("", frontier.plot_ready(frontier.bands(lake), frontier.waiting(lake)))
    yield Part("", frontier.plot_budgets(budgets))
    yield Part(
        "What the month's budget cannot take stays uncrawled.",
        frontier.plot_uncrawled(frontier.uncrawled(budgets)),
    )


def _month(lake: Lake, cycle: int) -> int:
    return month_of(int(last_cycle.ledger_row(lake, cycle).opened_at.timestamp() * 1_000))


def _hosts(lake: Lake, cycle: int, _: BudgetPolicy) -> Iterator[Part]:
    yield Part("", hosts.plot_sizes(hosts.sizes(lake)))
    yield Part("", hosts.plot_domains(hosts.domains(lake)))
    yield Part("", hosts.plot_shares(hosts.shares(lake)))
    yield Part("", hosts.plot_health(hosts.health(lake), hosts.robots(lake)))
    yield Part("", hosts.plot_errors(hosts.errors(lake)))


def _content(lake: Lake, cycle: int, _: BudgetPolicy) -> Iterator[Part]:
    exact, near = content.families(lake), content.near_families(lake)
    yield Part("", content.plot_types(content.types(lake)))
    yield Part("", content.plot_sizes(content.sizes(lake)))
    yield Part("", content.plot_speech(content.languages(lake), content.charsets(lake)))
    yield Part("Equal bytes are stored once.", content.plot_duplicates(content.duplicates(lake)))
    yield Part(
        "Near duplicates differ in bytes, not in words: SimHashes within three bits.",
        content.plot_families(exact, near),
    )
    if len(exact):
        yield Part("The payloads that most URLs share.", exact)


def _freshness(lake: Lake, cycle: int, _: BudgetPolicy) -> Iterator[Part]:
    yield Part("", freshness.plot_ages(freshness.ages(lake), freshness.dues(lake)))
    yield Part("", freshness.plot_revisits(freshness.revisits(lake), freshness.change_rates(lake)))


def _links(lake: Lake, cycle: int, _: BudgetPolicy) -> Iterator[Part]:
    ranked = linkgraph.pagerank(linkgraph.edges(lake))
    yield Part(
        "A link from a host counts once, from however many of its pages.", linkgraph.plot_top_hosts(ranked)
    )
    yield Part("", linkgraph.plot_in_degrees(linkgraph.in_degrees(ranked), ranked))


def _travel(lake: Lake, cycle: int, _: BudgetPolicy) -> Iterator[Part]:
    if cycle < 2:
        return
    before = timetravel.at(lake, cycle - 1)
    yield Part("", timetravel.plot_states(timetravel.states(before, lake), before=cycle - 1, after=cycle))
    yield Part("", timetravel.plot_moves(timetravel.moves(before, lake), before=cycle - 1, after=cycle))
    yield Part("", timetravel.plot_grown_hosts(timetravel.grown_hosts(before, lake)))


CHAPTERS = (
    Chapter("The cycle", "What became of the plan, and what held it back?", _cycle),
    Chapter("Politeness", "Was every host left alone for as long as it was due?", _politeness),
    Chapter("The frontier", "What waits, and will the month be long enough?", _frontier),
    Chapter("Hosts and domains", "Who is in the lake, and who fails?", _hosts),
    Chapter("Content", "What is stored, and how much of it twice?", _content),
    Chapter("Freshness", "How old are the copies, and how often do pages change?", _freshness),
    Chapter("The link graph", "Who is linked to?", _links),
    Chapter("Against the cycle before", "What did this cycle change?", _travel),
)

_STYLE = """
body{font:15px/1.5 "DejaVu Sans",Verdana,system-ui,sans-serif;color:#22262b;margin:0;background:#f4f5f7}
main{max-width:1060px;margin:0 auto;padding:0 30px 60px;background:#fff}
header{padding:28px 0 8px}h1{font-size:26px;margin:0}h2{font-size:20px;margin:44px 0 0;border-top:1px solid #dfe3e8;padding-top:22px}
.question{color:#5b6068;margin:2px 0 14px}nav a{margin-right:9px;color:#0072b2;white-space:nowrap}
figure{margin:16px 0 22px}figcaption{color:#41464d;margin-bottom:4px}img{max-width:100%;height:auto;display:block}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(120px,1fr));gap:14px;margin:22px 0}dl div{background:#f4f5f7;padding:10px 14px;border-radius:6px}
dt{color:#5b6068;font-size:13px}dd{margin:0;font-size:21px;font-weight:600}
table{border-collapse:collapse;font-size:13px;margin:6px 0 14px;max-width:100%;display:block;overflow-x:auto}th,td{text-align:left;padding:3px 12px 3px 0;border-bottom:1px solid #e9ecef}
td{overflow-wrap:anywhere}td.n,th.n{text-align:right;white-space:nowrap}footer{color:#5b6068;font-size:13px;margin-top:40px}
@media(max-width:600px){main{padding:0 14px 40px}td{min-width:11em}td.n{min-width:0}}
@media print{body{background:#fff}h2{break-before:page}figure{break-inside:avoid}}
"""
_TOP = ("planned", "requests", "pages", "duplicates", "new_urls")


def page(lake: Lake, policy: BudgetPolicy, *, files: list[tuple[str, str, int]]) -> str:
    """Return the HTML of the lake's cycle. files: (name, what a row is, rows) of the crawl reports beside it."""
    cycle = lake.cycle
    row = last_cycle.ledger_row(lake, cycle)
    tiles = "".join(
        f"<div><dt>{name.replace('_', ' ').replace('urls', 'URLs')}</dt><dd>{row.counts.get(name, 0):,}</dd></div>"
        for name in _TOP
    )
    chapters = "".join(_chapter(lake, policy, number, one) for number, one in enumerate(CHAPTERS))
    links = "".join(f'<a href="#c{number}">{one.name}</a> ' for number, one in enumerate(CHAPTERS))
    when = f"opened {row.opened_at:%Y-%m-%d %H:%M} UTC, committed {row.written_at:%Y-%m-%d %H:%M} UTC"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Noria: cycle {cycle}</title><style>{_STYLE}</style></head><body><main>
<header><h1>Cycle {cycle}</h1><p class="question">{when}; settings {html.escape(row.config_digest)}; Noria {html.escape(row.noria)}</p></header>
<nav>{links}<a href="#files">Crawl reports</a></nav>
<dl>{tiles}</dl>
{chapters}
<h2 id="files">Crawl reports</h2><p class="question">Beside this page, as CSV and Parquet.</p>
{_files(files)}
<footer>Made {datetime.now(UTC):%Y-%m-%d %H:%M} UTC from lake {html.escape(lake.lake_id)} as cycle {cycle} left it.</footer>
</main></body></html>
"""


def _chapter(lake: Lake, policy: BudgetPolicy, number: int, chapter: Chapter) -> str:
    parts = "".join(_part(part) for part in chapter.parts(lake, lake.cycle, policy))
    if not parts:
        parts = "<p>This is the first cycle: there is nothing to hold it against.</p>"
    return f'<h2 id="c{number}">{chapter.name}</h2><p class="question">{chapter.question}</p>{parts}'


def _part(part: Part) -> str:
    words = f"<figcaption>{html.escape(part.words)}</figcaption>" if part.words else ""
    if isinstance(part.shown, pd.DataFrame):
        return f"<figure>{words}{table(part.shown)}</figure>"
    name = "; ".join(axes.get_title(loc="left") for axes in part.shown.axes)
    data = base64.b64encode(png(part.shown)).decode()
    return f'<figure>{words}<img alt="{html.escape(name)}" src="data:image/png;base64,{data}"></figure>'


def table(rows: pd.DataFrame) -> str:
    """Return a table's first rows as HTML; numbers stand right, with their thousands set apart."""
    numeric = [pd.api.types.is_numeric_dtype(kind) for kind in rows.dtypes]
    marks = [' class="n"' if one else "" for one in numeric]
    head = "".join(
        f"<th{mark}>{html.escape(str(name)).replace('_', ' ')}</th>"
        for mark, name in zip(marks, rows.columns, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{mark}>{_cell(value)}</td>" for mark, value in zip(marks, row, strict=True))
        + "</tr>"
        for row in rows.head(ROWS).itertuples(index=False)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if value is None or value != value:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, pd.Timestamp):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return html.escape(str(value))


def _files(files: list[tuple[str, str, int]]) -> str:
    rows = "".join(
        f'<tr><td><a href="{name}.csv">{name}.csv</a>, <a href="{name}.parquet">.parquet</a></td>'
        f'<td>{html.escape(meaning)}</td><td class="n">{count:,}</td></tr>'
        for name, meaning, count in files
    )
    return f'<table><thead><tr><th>file</th><th>holds</th><th class="n">rows</th></tr></thead><tbody>{rows}</tbody></table>'
