"""Every outcome is answered by every question asked of it."""

from pipelines.rules import outcome
from pipelines.rules.outcome import Outcome, of_status


def test_every_outcome_has_a_next_state() -> None:
    settled = (
        outcome.ANSWERED | outcome.RETIRING | outcome.RETRIED | {Outcome.REDIRECT, Outcome.ROBOTS_DENIED}
    )
    assert settled == set(Outcome)
    assert not outcome.ANSWERED & outcome.RETRIED and not outcome.RETIRING & outcome.RETRIED


def test_every_status_has_an_outcome() -> None:
    named = {
        200: "ok",
        301: "redirect",
        304: "not_modified",
        404: "http_404",
        410: "http_410",
        429: "http_429",
    }
    assert {status: of_status(status).value for status in named} == named
    assert {of_status(status) for status in range(100, 600)} <= set(Outcome)


def test_every_outcome_has_a_meaning_and_what_brought_no_page_is_a_failure() -> None:
    assert set(outcome.MEANING) == set(Outcome)
    assert outcome.RETRIED | outcome.RETIRING | {Outcome.ROBOTS_DENIED} == outcome.FAILED
