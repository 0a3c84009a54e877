"""Would this URL be admitted? Every rule's verdict, recomputed now, plug-ins included."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines import plugins
from pipelines.config import Settings
from pipelines.cycle import policies
from pipelines.rules import filters
from pipelines.rules.filters import Facts, Refusal, Verdict


@dataclass(frozen=True)
class Admission:
    """What the rules say of a URL. refusal: the rule that would be given as the reason; None = it is admitted.

    overruled: a plug-in admits what a rule refuses. guessed: what was taken for granted, since nobody linked to it.
    """

    verdicts: tuple[Verdict, ...]
    refusal: Refusal | None
    overruled: Refusal | None = None
    guessed: str | None = None


def admission(
    settings: Settings, url: str, *, year: int, depth: int | None = None, meta: str | None = None
) -> Admission:
    """Return every rule's verdict about a URL in wire form.

    depth, meta: how it was found; None = nobody knows: it is judged as if it were a seed's neighbour.
    """
    policy = policies.filter_policy(settings, year=year)
    facts = Facts(1 if depth is None else depth, meta)
    verdicts = tuple(filters.verdicts(url, facts, policy))
    said = next((Refusal(one.rule, one.detail) for one in verdicts if not one.ok), None)
    loaded = plugins.load(settings.plugins)
    final = loaded.judge(url, said, depth=facts.depth, meta=meta)
    guessed = None
    if depth is None and (policy.stay != "any" or policy.max_depth):
        guessed = "stay and max_depth depend on the page that links to it; judged as one link from a seed of its own host"
    return Admission(verdicts, final, said if said is not None and final is None else None, guessed)
