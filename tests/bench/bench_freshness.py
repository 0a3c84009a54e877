"""How fresh a host's pages are kept within a budget: our next-visit rule, the optimum, uniform, Nutch's adaptive rule.

`python tests/bench/bench_freshness.py`. The pages change as Poisson processes at the toy web's rates. Nobody but the
optimum knows the rates: the others see at each visit whether a page changed since the last one. Time goes in cycles; a
cycle takes the due pages that its budget allows, drawn at random among them. Freshness and age are expected values over
the time after the warm-up (an exact sum over the pauses, not samples), so that little noise is left.

The optimum: maximise the sum of (f / r) (1 - e^(-r / f)) over pages of change rate r and visit rate f, the sum of f
being the budget (Cho and Garcia-Molina 2003; Azar and others 2018): all pages that are visited have one marginal value,
found here by bisection of that value.

Nutch's rule (AdaptiveFetchSchedule): a pause shrinks by 0.2 of itself after a change and grows by 0.4 after none, between
a minute and a year; it begins with the pause of the uniform rule.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from pipelines.rules.recrawl import RecrawlPolicy, next_price, next_visit_seconds
from pipelines.toyweb import Mix, ToyWeb, pages

DAY = 86_400.0
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def toy_rates(hosts: int, seed: int = 1) -> Floats:
    """Return the changes a second of every page of a toy web; 0 = never."""
    web = ToyWeb(hosts=hosts, seed=seed, mix=Mix.plain())
    gaps = [pages.gap_ms(web.plan, host, index) for host in web.hosts for index in range(host.size)]
    return np.array([1_000 / gap if gap else 0.0 for gap in gaps])


def value(changes: Floats) -> Floats:
    """Return `1 - e^-x (1 + x)`: the marginal value of a visit times the page's rate."""
    worth: Floats = -np.expm1(-changes) - changes * np.exp(-changes)
    return worth


_X = np.concatenate([[0.0], np.geomspace(1e-6, 700, 20_000)])
_VALUE = value(_X)


def optimum(rates: Floats, budget: float) -> tuple[float, float]:
    """Return the mean freshness of all pages and of those that change, in the optimum for a budget (visits a second)."""
    moving = rates[rates > 0]

    def visits(price: float) -> Floats:
        worth = price * moving
        return np.where(worth < 1, moving / np.interp(worth, _VALUE, _X), 0.0)

    price = float(np.exp(brentq(lambda log: visits(np.exp(log)).sum() - budget, np.log(0.1), np.log(1e10))))
    often = visits(price)
    fresh = np.where(often > 0, often / moving * -np.expm1(-moving / np.maximum(often, 1e-300)), 0.0)
    return float((fresh.sum() + (rates == 0).sum()) / len(rates)), float(fresh.mean())


class Rule(Protocol):
    """Says when pages come again."""

    def pauses(self, place: Ints, seen: Seen, changed: npt.NDArray[np.bool_]) -> Floats:
        """Return the pause of each page that was visited just now, seconds."""


@dataclass
class Seen:
    """What is known of the pages."""

    count: int
    budget: float
    cycle: float
    visits: Ints = field(init=False)
    changes: Ints = field(init=False)
    watched: Floats = field(init=False)
    last: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.visits, self.changes = np.zeros(self.count, np.int64), np.zeros(self.count, np.int64)
        self.watched, self.last = np.zeros(self.count), np.full(self.count, -1.0)


class Uniform:
    """Every page as often as every other."""

    def pauses(self, place: Ints, seen: Seen, changed: npt.NDArray[np.bool_]) -> Floats:
        return np.full(len(place), seen.count / seen.budget - seen.cycle / 2)


class Nutch:
    """Nutch's AdaptiveFetchSchedule with its defaults."""

    def __init__(self) -> None:
        self._pause: Floats | None = None

    def pauses(self, place: Ints, seen: Seen, changed: npt.NDArray[np.bool_]) -> Floats:
        if self._pause is None:
            self._pause = np.full(seen.count, seen.count / seen.budget)
        again = seen.visits[place] > 1
        moved = self._pause[place] * np.where(again, np.where(changed, 0.8, 1.4), 1.0)
        self._pause[place] = np.clip(moved, 60, 365 * DAY)
        return self._pause[place]


class Ours:
    """`next_visit_seconds` at the host's price, which `next_price` fits to the budget."""

    def __init__(self, policy: RecrawlPolicy) -> None:
        self._policy, self.price = policy, float(policy.price_seconds)
        self._asked: Floats | None = None

    def pauses(self, place: Ints, seen: Seen, changed: npt.NDArray[np.bool_]) -> Floats:
        if self._asked is None:
            self._asked = np.zeros(seen.count)
        pauses = next_visit_seconds(
            self._policy, visits=seen.visits[place], changes=seen.changes[place],
            watched_seconds=np.floor(seen.watched[place]), price_seconds=self.price,
        ).astype(np.float64)  # fmt: skip
        self._asked[place] = 1 / (pauses + seen.cycle)
        self.price = next_price(
            self._policy, price_seconds=self.price, demand=float(self._asked.sum()) * DAY,
            budget=seen.budget * DAY, visited=len(place), known=int((seen.visits > 0).sum()),
        )  # fmt: skip
        return pauses


@dataclass(frozen=True)
class Kept:
    """Mean freshness of all pages and of those that change, mean age of those in days, share of the budget used."""

    fresh: float
    fresh_changing: float
    age_days: float
    used: float


def keep(
    rule: Rule, rates: Floats, every_days: float, *, days: int, warm: int, hours: float = 6.0, seed: int = 2
) -> Kept:
    """Return how fresh a rule keeps pages whose budget is a visit each in `every_days` on average."""
    rng = np.random.default_rng(seed)
    cycle, count = hours * 3_600, len(rates)
    seen = Seen(count, count / (every_days * DAY), cycle)
    due, fresh, age, begin = np.zeros(count), np.zeros(count), np.zeros(count), warm * DAY
    left, used = 0.0, 0
    for now in np.arange(0.0, days * DAY, cycle):
        left += seen.budget * cycle
        ready = np.flatnonzero(due <= now)
        room = int(left)
        left -= room
        place = ready if len(ready) <= room else np.sort(rng.choice(ready, room, replace=False))
        at = now + rng.random(len(place)) * cycle
        before = seen.last[place]
        gap = np.where(before >= 0, at - before, 0.0)
        changed = rng.random(len(place)) < -np.expm1(-rates[place] * gap)
        _account(fresh, age, rates, place, np.maximum(before, 0), np.maximum(at, begin), begin)
        seen.visits[place] += 1
        seen.changes[place] += changed
        seen.watched[place] += gap
        seen.last[place] = at
        due[place] = at + rule.pauses(place, seen, changed)
        used += len(place) if now >= begin else 0
    _account(fresh, age, rates, np.arange(count), seen.last, np.full(count, days * DAY), begin)
    span = (days - warm) * DAY
    moving = rates > 0
    return Kept(
        float(fresh.mean() / span), float(fresh[moving].mean() / span), float(age[moving].mean() / span / DAY),
        used / (span * seen.budget),
    )  # fmt: skip


def _account(
    fresh: Floats, age: Floats, rates: Floats, place: Ints, visit: Floats, until: Floats, begin: float
) -> None:
    """Add the expected fresh seconds and age of pages between a visit and `until`, from `begin` on."""
    rate = np.maximum(rates[place], 1e-30)
    low, high = np.maximum(begin - visit, 0.0), np.maximum(until - visit, 0.0)
    low = np.minimum(low, high)
    decay = np.where(rates[place] > 0, (np.exp(-rate * low) - np.exp(-rate * high)) / rate, high - low)
    np.add.at(fresh, place, decay)
    grown = (high**2 - low**2) / 2 - (high - low) / rate + decay / rate
    np.add.at(age, place, np.where(rates[place] > 0, np.maximum(grown, 0.0), 0.0))


def compare(
    every_days: float, *, hosts: int, days: int, warm: int, policy: RecrawlPolicy
) -> dict[str, dict[str, float]]:
    """Return what each rule reaches with a budget of a visit a page in `every_days`, and its share of the optimum."""
    rates = toy_rates(hosts)
    best, best_changing = optimum(rates, len(rates) / (every_days * DAY))
    told = {"optimum": {"fresh": best, "changing": best_changing, "share": 1.0, "share_changing": 1.0}}
    for name, rule in (("ours", Ours(policy)), ("nutch", Nutch()), ("uniform", Uniform())):
        kept = keep(rule, rates, every_days, days=days, warm=warm)
        told[name] = {
            "fresh": kept.fresh, "changing": kept.fresh_changing, "share": kept.fresh / best,
            "share_changing": kept.fresh_changing / best_changing, "age_days": kept.age_days, "used": kept.used,
        }  # fmt: skip
        if isinstance(rule, Ours):
            told[name]["price_hours"] = rule.price / 3_600
    return told


def show(every_days: float, told: dict[str, dict[str, float]]) -> None:
    """Print a table."""
    print(f"a visit a page in {every_days:g} days")
    for name, row in told.items():
        rest = (
            f"  age {row['age_days']:5.2f} d  budget used {100 * row['used']:3.0f} %" if "used" in row else ""
        )
        price = f"  price {row['price_hours']:.1f} h" if "price_hours" in row else ""
        print(
            f"  {name:8} fresh {100 * row['fresh']:5.1f} % ({100 * row['share']:5.1f} % of the optimum)"
            f"  pages that change {100 * row['changing']:5.1f} % ({100 * row['share_changing']:5.1f} %){rest}{price}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=120, help="of the toy web, about 30 pages each")
    parser.add_argument("--days", type=int, default=360)
    parser.add_argument("--warm", type=int, default=120, help="days before counting begins")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.days <= arguments.warm:
        parser.error(f"--days {arguments.days} must be more than --warm {arguments.warm}")
    figures = {}
    for every, least in ((1.0, 600), (3.0, 600), (7.0, 6 * 3_600), (14.0, 6 * 3_600), (30.0, 6 * 3_600)):
        figures[every] = compare(
            every, hosts=arguments.hosts, days=arguments.days, warm=arguments.warm,
            policy=RecrawlPolicy(price_seconds=least),
        )  # fmt: skip
        if not arguments.json:
            show(every, figures[every])
    if arguments.json:
        print(json.dumps(figures))
