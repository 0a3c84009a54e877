"""The longest wish wins, in full."""

from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules.delay import DelayPolicy, next_backoff_ms, next_delay
from pipelines.rules.outcome import CALM, SLOW_DOWN, Outcome

POLICY = DelayPolicy()
ms = st.integers(0, 10**9)


@given(ms, ms, ms)
def test_p1_the_delay_is_never_shorter_than_any_wish(crawl_delay: int, first_byte: int, backoff: int) -> None:
    delay = next_delay(POLICY, crawl_delay_ms=crawl_delay, first_byte_ms=first_byte, backoff_ms=backoff)
    assert delay.ms >= max(POLICY.floor_ms, crawl_delay, backoff, min(10 * first_byte, POLICY.patience_ms))
    assert delay.reason in {"floor", "crawl_delay", "response_time", "backoff"}


def test_backoff_doubles_is_capped_and_is_forgiven_slowly() -> None:
    backoff, steps = 0, []
    for _ in range(20):
        backoff = next_backoff_ms(POLICY, backoff_ms=backoff, outcome=Outcome.RATE_LIMITED)
        steps.append(backoff)
    assert steps[:3] == [5_000, 10_000, 20_000] and steps[-1] == POLICY.backoff_max_ms
    answers = 0
    while backoff:
        backoff, answers = next_backoff_ms(POLICY, backoff_ms=backoff, outcome=Outcome.OK), answers + 1
    assert 15 < answers < 60


def test_what_is_neither_trouble_nor_an_answer_leaves_the_backoff_alone() -> None:
    for outcome in set(Outcome) - SLOW_DOWN - CALM:
        assert next_backoff_ms(POLICY, backoff_ms=8_000, outcome=outcome) == 8_000
    for outcome in CALM:  # a host of redirects and 404s, its robots.txt among them, is well too
        assert next_backoff_ms(POLICY, backoff_ms=8_000, outcome=outcome) == 6_000
