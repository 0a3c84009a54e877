"""Figures in the words that a person reads: the same on a terminal and in a pipe."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ORDER = ("open", "plan", "fetch", "sort", "gate", "seal", "merge", "commit")
PART_OF = {"sift": "plan", "demand": "plan", "resolve": "plan", "select": "plan", "contents": "seal"}
"""Parts of a step that have tasks of their own, and the step under whose name they are shown."""


def plan_words(info: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield label and figure of a plan, as they are to be read."""
    for label, figure in info.items():
        yield label.replace("_", " "), figure_words(figure)


def figure_words(figure: object) -> str:
    """Return a figure with its thousands set apart, a fraction with one digit, anything else as it is.

    >>> figure_words(58700), figure_words(0.25), figure_words("h07.test")
    ('58,700', '0.2', 'h07.test')
    """
    if isinstance(figure, bool) or figure is None:
        return {True: "yes", False: "no", None: "-"}[figure]
    if isinstance(figure, int):
        return f"{figure:,}"
    return f"{figure:,.1f}" if isinstance(figure, float) else str(figure)


def outcome_words(outcomes: Mapping[str, int], *, most: int = 8) -> str:
    """Return the outcomes with their counts, most frequent first.

    >>> outcome_words({"http_404": 9, "ok": 1870})
    'ok 1,870  http_404 9'
    """
    ranked = sorted(((count, name) for name, count in outcomes.items() if count), reverse=True)
    shown = "  ".join(f"{name} {count:,}" for count, name in ranked[:most])
    rest = sum(count for count, _ in ranked[most:])
    return f"{shown}  others {rest:,}" if rest else shown or "no answers yet"


def duration_words(seconds: float) -> str:
    """Return a duration in the two units that matter.

    >>> duration_words(4.2), duration_words(75), duration_words(90_000)
    ('4.2 s', '1 min 15 s', '1 d 1 h')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, size, lesser, small in (
        ("d", 86_400, "h", 3_600),
        ("h", 3_600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size} {unit}" + (f" {rest} {lesser}" if rest else "")
    return f"{whole} s"


def size_words(count: float) -> str:
    """Return bytes in the unit that leaves one to three digits.

    >>> size_words(999), size_words(58_700_000)
    ('999 B', '58.7 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"


def time_words(moment: datetime | int | None, *, now: datetime | None = None) -> str:
    """Return a time (or ms since 1970) as UTC, and how far off it is; "-" for None."""
    if moment is None:
        return "-"
    when = datetime.fromtimestamp(moment / 1000, tz=UTC) if isinstance(moment, int) else moment
    away = (when - (now or datetime.now(tz=UTC))).total_seconds()
    off = f"in {duration_words(away)}" if away >= 0 else f"{duration_words(-away)} ago"
    return f"{when:%Y-%m-%d %H:%M:%S} UTC ({off})"


def figures(report: Any) -> Iterator[tuple[str, str]]:
    """Yield label and figure of a cycle's report, in the order of reading."""
    if not report.cycle:
        yield "nothing to do", _idle(report.next_due)
        return
    yield "cycle", f"{report.cycle}" + (" (resumed)" if report.resumed else "")
    yield "planned", f"{report.planned:,} URLs{_unasked(report)}"
    yield "requests", f"{report.requests:,}"
    yield "pages", f"{report.pages:,}, {report.duplicates:,} of them duplicates"
    yield "outcomes", outcome_words(report.outcomes, most=40)
    yield "new URLs", f"{report.new_urls:,}"
    if report.given_up:
        yield (
            "given up",
            f"{figure_words(report.given_up)} fetch partitions died again and again; their URLs went back to ready",
        )
    yield "time", _time_of(report.seconds)
    if report.next_due is not None:
        yield "next due", _due(report.next_due)


def _unasked(report: Any) -> str:
    """Say how many of the planned URLs were not tried, and why; nothing where all were."""
    why = (
        (report.set_aside, "set aside: host out of reach, or path pattern left"),
        (report.unfetched, "not reached in the window"),
    )
    return "".join(f"; {count:,} {words}" for count, words in why if count)


def _idle(next_due: str | datetime | None) -> str:
    if next_due is None:
        return f"no URL waits for anything; bring seeds with {again('seeds', 'add')}, or --seeds"
    return f"the next URL is due {_due(next_due)}"


def _due(moment: str | datetime) -> str:
    if moment == "now":
        return "now: URLs are ready for the next cycle"
    return time_words(datetime.fromisoformat(moment) if isinstance(moment, str) else moment)


def _time_of(seconds: Mapping[str, float]) -> str:
    steps = ", ".join(f"{name} {value:.1f}" for name, value in seconds.items())
    return f"{duration_words(sum(seconds.values()))} ({steps})"


def ready_lines(lake: str) -> Iterator[tuple[str, str]]:
    """Yield three lines, ready to be run, that open the lake: with SQL, with pandas, in a notebook."""
    python = _python()
    opened = f"lake.open({lake!r})"
    query = "select outcome, count(*) as n from captures group by outcome order by n desc"
    columns = "['url', 'fetch_status', 'title']"
    for label, rows in (("SQL", f".sql('{query}')"), ("pandas", f".read('captures', columns={columns})")):
        yield label, f"{python} -c " + _quoted(f"import lake; print({opened}{rows}.to_pandas())")
    yield "notebook", f"import lake; captures = {opened}.read('captures').to_pandas()"


def _quoted(code: str) -> str:
    """Return Python code as one word of a shell line: in double quotes, easy to read, where they change nothing."""
    return f'"{code}"' if not set(code) & set('"$`\\!') else shlex.quote(code)


def program() -> str:
    """Noria's command as the user would type it: by its path where it is not on theirs."""
    found = shutil.which("noria")
    beside = Path(sys.prefix) / "bin" / "noria"
    if (found and Path(found).resolve() == beside.resolve()) or not beside.exists():
        return "noria"
    return _short(beside)


WHERE = ("--lake", "--conf")
"""Options that say which crawl a command is about."""


def again(*words: str, argv: Sequence[str] | None = None) -> str:
    """Return a command of Noria as the user would type it, about the lake and the settings of the one that runs.

    argv: that one's words; None = this process's.

    >>> again("cycle", argv=["status", "--lake", "my lake"]).removeprefix(program())
    " cycle --lake 'my lake'"
    """
    given, said = list(sys.argv[1:] if argv is None else argv), list[str]()
    for place, word in enumerate(given):
        name, equals, value = word.partition("=")
        if name in WHERE and (equals or place + 1 < len(given)):
            said += [name, value if equals else given[place + 1]]
    return shlex.join([program(), *words, *said])


def _python() -> str:
    """The interpreter as the user would type it."""
    inside = Path(sys.prefix) / "bin" / "python"
    return _short(inside if inside.exists() else Path(sys.executable))


def _short(path: Path) -> str:
    """The path from here, where it lies below the current folder."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
