"""What would happen to a URL next, when, and why. Pure: facts in, a prospect out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from pipelines.rules.outcome import MEANING


class Reason(NamedTuple):
    """Why something does not happen now. rule: a word for programs. until_ms: epoch ms, None = no time ends it."""

    rule: str
    words: str
    until_ms: int | None = None


@dataclass(frozen=True)
class Prospect:
    """What comes next.

    what: refused, add, take_in, none, wait, ask. when_ms: not before (epoch ms); None = in the next cycle, or never.
    because: what stands in the way, most lasting first. cycles: how many cycles the host's queue is long before it.
    """

    what: str
    words: str
    when_ms: int | None = None
    because: tuple[Reason, ...] = ()
    cycles: int | None = None


@dataclass(frozen=True)
class Place:
    """A URL's place in its host's queue, drawn as the next cycle would; given: how many the cycle would give the host."""

    place: int
    of: int
    given: int

    @property
    def cycles(self) -> int | None:
        """How many cycles until its turn if nothing else came; None = the host is given nothing."""
        return -(-self.place // self.given) if self.given else None


def prospect(
    shelf: str, row: dict[str, Any], *, now_ms: int, blocks: Sequence[Reason], place: Place | None, ready: int
) -> Prospect:
    """Return what comes next for a URL on a shelf. blocks: what holds its host or site. ready: its host's ready URLs."""
    if shelf == "retired":
        sampled = (row["reason"] or "").startswith("trap:")
        return Prospect(
            "none", "nothing, unless a seed names it (noria seeds add)"
            + (" or it is among the sample by which its pattern is tried again" if sampled else ""),
            because=(Reason(row["reason"] or "retired", retired_words(row)),),
        )  # fmt: skip
    if shelf == "backlog":
        behind = Reason(
            "backlog",
            f"its host has {ready or 'no'} URLs on the ready shelf, and the best of the backlog rise when those run short",
        )
        return Prospect("wait", "it rises to the ready shelf when it is its turn", because=(*blocks, behind))
    due = ms(row["due_at"])
    if shelf == "later" and due > now_ms:
        why = Reason(row["reason"] or "due", later_words(row), due)
        held = [block for block in blocks if (block.until_ms or due) > due]
        when = max([due, *(block.until_ms or 0 for block in held)])
        return Prospect("ask", "it is due then, and asked in a cycle after that", when, (*held, why))
    return _queued(blocks, place)


def _queued(blocks: Sequence[Reason], place: Place | None) -> Prospect:
    until = [block.until_ms for block in blocks if block.until_ms]
    if any(block.until_ms is None for block in blocks):
        return Prospect("wait", "it cannot be asked as things are", None, tuple(blocks))
    if until:
        return Prospect("ask", "it can be asked in a cycle after that", max(until), tuple(blocks))
    if place is None or place.cycles is None:
        none = Reason(
            "no_room", "the plan would give its host no request in this window (window.seconds, budgets)"
        )
        return Prospect("wait", "it waits for a cycle with room for its host", None, (none,))
    if place.cycles == 1:
        return Prospect("ask", "it is asked in the next cycle", cycles=1)
    behind = Reason(
        "queue",
        f"place {place.place:,} of {place.of:,} in its host's queue, and the next cycle has room for {place.given:,} of them",
    )
    return Prospect(
        "ask",
        f"by this draw its turn is about {place.cycles:,} cycles away; each cycle draws anew",
        because=(behind,),
        cycles=place.cycles,
    )


def later_words(row: dict[str, Any]) -> str:
    """Return why a URL waits on the later shelf."""
    reason, detail = row["reason"] or "", row["detail"]
    if reason in ("ok", "not_modified"):
        return f"it was fetched, and changed at {row['changes']} of {row['visits']} visits: the next one is timed by that"
    if reason == "redirect":
        return f"it leads to {detail}, a URL of its own that noria explain tells of; redirects are looked at again seldom"
    if reason == "robots_denied":
        return f"robots.txt forbids it ({detail}); whether it still does is looked at then"
    return f"{failed_words(row)}; each failure makes the pause longer ([retry])"


def retired_words(row: dict[str, Any]) -> str:
    """Return why a URL was retired."""
    if row["failures"]:
        return f"{failed_words(row)}, so it was retired"
    return f"it was retired for {row['reason']}" + (f" ({row['detail']})" if row["detail"] else "")


def failed_words(row: dict[str, Any]) -> str:
    """Return how a URL failed, in words.

    >>> failed_words({"failures": 2, "reason": "http_404", "detail": None})
    'it failed 2 times in a row, last with http_404 (the server does not know the page)'
    """
    row_of = "once" if row["failures"] == 1 else f"{row['failures']} times in a row"
    meaning = MEANING.get(row["reason"], "")
    told = ": ".join(filter(None, (meaning, row["detail"])))
    return f"it failed {row_of}, last with {row['reason']}" + (f" ({told})" if told else "")


def ms(time: datetime | None) -> int:
    """Return a time as epoch ms, 0 for None."""
    return 0 if time is None else round(time.timestamp() * 1_000)
