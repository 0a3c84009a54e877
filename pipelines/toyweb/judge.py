"""The judge: was every host asked politely, and was all that should be fetched asked for? By the server's log alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pipelines.toyweb.answer import origin
from pipelines.toyweb.log import Row
from pipelines.toyweb.truth import ToyWeb

Unit = Callable[[Row], str]


def by_host(row: Row) -> str:
    """Return the host: the unit of politeness."""
    return row.host


def by_address(row: Row) -> str:
    """Return the server's address, which several hosts may share."""
    return row.address


@dataclass(frozen=True, slots=True)
class Violation:
    """A request that came too soon: `gap_ms` after the end of the one before (negative = they overlapped)."""

    unit: str
    gap_ms: int
    wanted_ms: int
    reason: str
    before: Row
    after: Row

    def __str__(self) -> str:
        return (
            f"{self.unit}: {self.after.target} was asked {self.gap_ms} ms after the end of {self.before.target},"
            f" {self.wanted_ms} ms were due ({self.reason})"
        )


@dataclass(frozen=True, slots=True)
class Wish:
    """How the delay of a unit grows with what its host has just answered.

    response_factor: pause as a multiple of the time to the first byte, at most `patience_ms`; 0 = not judged.
    hold_cap_ms: a Retry-After is judged up to this; 0 = not judged.
    broken_slack_ms: forgiven after a request that the client broke off, whose end the server learns a little late.
    """

    response_factor: int = 0
    patience_ms: int = 30_000
    hold_cap_ms: int = 0
    broken_slack_ms: int = 20


def _sequences(rows: Iterable[Row], unit: Unit) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row.t_ms, row.id)):
        found[unit(row)].append(row)
    return dict(found)


def _pairs(rows: Sequence[Row]) -> Iterable[tuple[Row, Row, int]]:
    """Yield each request, the one before that ended last, and the gap between them, ms.

    A request that has not ended counts as open for ever: what follows overlaps it, with a gap from its start.
    """
    last: Row | None = None
    for row in rows:
        if last is not None:
            yield last, row, row.t_ms - _end(last)
        if last is None or _end(row) >= _end(last):
            last = row


def _end(row: Row) -> int:
    return 1 << 62 if row.end_ms is None else row.end_ms


def gaps(rows: Iterable[Row], unit: Unit = by_host) -> dict[str, list[int]]:
    """Return by unit the pauses between the end of a request and the start of the next, ms; negative = overlap."""
    return {name: [gap for _, _, gap in _pairs(found)] for name, found in _sequences(rows, unit).items()}


def smallest_gap(rows: Iterable[Row], unit: Unit = by_host) -> int | None:
    """Return the smallest pause of all units, ms; None if no unit was asked twice."""
    return min((gap for found in gaps(rows, unit).values() for gap in found), default=None)


def overlaps(rows: Iterable[Row], unit: Unit = by_host) -> list[tuple[Row, Row]]:
    """Return pairs of requests to one unit of which the second began before the first had ended."""
    return [
        (before, after)
        for found in _sequences(rows, unit).values()
        for before, after, gap in _pairs(found)
        if gap < 0
    ]  # fmt: skip


def violations(
    rows: Iterable[Row],
    delay_of: Callable[[str], int],
    slack_ms: int = 0,
    *,
    unit: Unit = by_host,
    wish: Wish | None = None,
) -> list[Violation]:
    """Return every request that came sooner than it should have.

    delay_of: host (or address, by `unit`) -> ms that it may expect. slack_ms is forgiven.
    """
    found, wish = [], wish or Wish()
    for name, sequence in _sequences(rows, unit).items():
        for before, after, gap in _pairs(sequence):
            wanted, reason = _wanted(delay_of(name), before, wish)
            if gap < wanted - slack_ms - (0 if before.whole else wish.broken_slack_ms):
                found.append(Violation(name, gap, wanted, reason, before, after))
    return found


def _wanted(delay_ms: int, before: Row, wish: Wish) -> tuple[int, str]:
    """Return the pause that is due after a request, ms, and whose wish it is: the longest wins."""
    response_ms = 0 if before.first_ms is None else before.first_ms - before.t_ms
    wishes = [
        (delay_ms, "delay"),
        (min(wish.response_factor * response_ms, wish.patience_ms), "response time"),
        (min(before.hold_ms, wish.hold_cap_ms), "Retry-After"),
    ]
    return max(wishes)


def delays(web: ToyWeb, floor_ms: int = 1_000) -> Callable[[str], int]:
    """Return the function from a host to the pause it may expect: the floor, or its Crawl-delay where longer."""
    return lambda host: max(floor_ms, web.crawl_delay_ms(host))


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a crawl asked for, against the truth; URLs are sorted.

    good: URLs that a complete crawl has. missing: good ones never asked for. forbidden: asked against robots.txt.
    trapped: requests for trap URLs by trap. unlisted: asked, but not in the truth's list and no trap.
    """

    good: int
    asked_good: int
    missing: tuple[str, ...] = field(repr=False)
    forbidden: tuple[str, ...]
    trapped: dict[str, int]
    unlisted: tuple[str, ...] = field(repr=False)

    @property
    def share(self) -> float:
        """Share of the good URLs that were asked for, 1 = all."""
        return self.asked_good / self.good if self.good else 1.0


def coverage(rows: Iterable[Row], web: ToyWeb, port: int, *, product: str = "noria") -> Coverage:
    """Return what was asked for against what should have been, by the truth of the web."""
    truth = {known.url: known for known in web.urls(port, product=product)}
    asked = {origin(row.host, port) + row.target for row in rows}
    good = {url for url, known in truth.items() if known.good and known.sort == "page"}
    forbidden, trapped, unlisted = [], Counter[str](), []
    for url in sorted(asked):
        known = truth.get(url) or web.known(url, product=product)
        if known is None or not (known.trap or url in truth):
            unlisted.append(url)
        if known is not None and not known.allowed:
            forbidden.append(url)
        if known is not None and known.trap:
            trapped[known.trap] += 1
    return Coverage(
        len(good),
        len(good & asked),
        tuple(sorted(good - asked)),
        tuple(forbidden),
        dict(trapped),
        tuple(unlisted),
    )


def repeats(rows: Iterable[Row]) -> dict[str, int]:
    """Return the URLs (`host` + `target`) that were asked more than once, and how often."""
    counts = Counter(row.host + row.target for row in rows)
    return {url: count for url, count in counts.items() if count > 1}


def peak_open(rows: Iterable[Row]) -> int:
    """Return how many requests were open at once at most."""
    found = list(rows)
    steps = sorted([(row.t_ms, 1) for row in found] + [(_end(row), -1) for row in found])
    height = peak = 0
    for _, step in steps:
        height += step
        peak = max(peak, height)
    return peak


def rising(rows: Sequence[Row]) -> bool:
    """Return True if the rows are in order of arrival, as a log read back must be."""
    return all(a.t_ms <= b.t_ms for a, b in pairwise(rows))
