"""P6: shares never exceed what is there, and no host more than it wants."""

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules import budget
from pipelines.rules.budget import BudgetPolicy

wants = st.lists(st.tuples(st.integers(0, 50), st.floats(0.01, 9)), min_size=1, max_size=30)


@given(wants, st.integers(0, 400))
def test_p6_water_fill_is_exact_and_starts_with_one_for_everybody(
    rows: list[tuple[int, float]], total: int
) -> None:
    wanted = np.array([row[0] for row in rows])
    share = budget.water_fill(wanted, total=total, weight=np.array([row[1] for row in rows]))
    assert share.sum() == min(total, wanted.sum())
    assert (share <= wanted).all()
    if total >= (wanted > 0).sum():
        assert (share[wanted > 0] >= 1).all()


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=30),
    st.integers(1, 5),
    st.randoms(),
)
def test_a_flood_comes_behind_what_others_want_and_nobody_is_left_out(
    rows: list[tuple[int, int]], most: int, chance: Random
) -> None:
    wanted, group = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    order = np.array(chance.sample(range(len(rows)), len(rows)))
    turns = budget.floods_last(order, wanted=wanted, group=group, most=most).tolist()
    assert sorted(turns) == sorted(order.tolist())
    early: dict[int, int] = {}
    for at in order.tolist():  # the same by hand: who is among the first of his group
        early[at] = sum(
            1 for one in order.tolist()[: order.tolist().index(at)] if group[one] == group[at] and wanted[one]
        )
    late = [at for at in order.tolist() if wanted[at] and early[at] >= most]
    assert turns == [at for at in order.tolist() if at not in late] + late


@given(wants, st.integers(0, 400), st.integers(1, 4), st.randoms())
def test_p6_who_is_served_in_turn_gets_what_a_first_url_needs(
    rows: list[tuple[int, float]], total: int, least: int, chance: Random
) -> None:
    wanted, order = np.array([row[0] for row in rows]), np.array(chance.sample(range(len(rows)), len(rows)))
    share = budget.serve_in_turn(
        wanted,
        least=np.full(len(rows), least),
        total=total,
        weight=np.array([row[1] for row in rows]),
        order=order,
    )
    assert share.sum() <= total and (share <= wanted).all()
    asked = [at for at in order.tolist() if wanted[at]]
    served = [at for at in asked if share[at]]
    assert served == asked[: len(served)] and (served or not asked or not total)
    assert all(share[at] >= min(least, wanted[at], total) for at in served)
    assert len(served) == len(asked) or total - share.sum() < least or not share.any()
    if total >= wanted.sum():
        assert (share == wanted).all()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=30), st.integers(1, 20))
def test_p6_a_group_never_gets_more_than_its_cap(rows: list[tuple[int, int]], most: int) -> None:
    wanted, group = (
        np.array([r[0] for r in rows], dtype=np.int64),
        np.array([r[1] for r in rows], dtype=np.int64),
    )
    capped = budget.cap_by_group(wanted, group=group, most=most)
    assert (capped <= wanted).all()
    for name in set(group.tolist()):
        assert capped[group == name].sum() == min(most, wanted[group == name].sum())


def test_the_month_is_what_the_rate_allows_unless_less_is_said() -> None:
    delays, own = np.array([1_000, 10_000, 1_000, 1_000]), np.array([-1, -1, 7, 0])
    assert budget.monthly_budget(BudgetPolicy(), delay_ms=delays, own=own).tolist() == [
        2_592_000,
        259_200,
        7,
        0,
    ]
    capped = budget.monthly_budget(BudgetPolicy(requests_per_month=300_000), delay_ms=delays, own=own)
    assert capped.tolist() == [300_000, 259_200, 7, 0]


def test_a_new_month_starts_with_nothing_spent() -> None:
    left = budget.left_this_month(
        np.array([10, 10]), month=np.array([202611, 202612]), spent=np.array([9, 9]), now_month=202612
    )
    assert left.tolist() == [10, 1]


def test_a_crawl_delay_longer_than_the_window_still_gets_its_turn() -> None:
    fits = budget.fits_window(
        window_ms=60_000, delay_ms=np.array([1_000, 3_600_000, 1_000]), response_ms=np.array([0, 0, 0]),
        starts_in_ms=np.array([0, 59_999, 60_000]),
    )  # fmt: skip
    assert fits.tolist() == [60, 1, 0]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=30), st.integers(1, 20))
def test_p6_a_level_is_even_and_exact(rows: list[tuple[int, int]], most: int) -> None:
    wanted, group = (
        np.array([r[0] for r in rows], dtype=np.int64),
        np.array([r[1] for r in rows], dtype=np.int64),
    )
    given_ = budget.level_by_group(wanted, group=group, most=most)
    assert (given_ <= wanted).all() and (given_ >= 0).all()
    for name in set(group.tolist()):
        mine, want = given_[group == name], wanted[group == name]
        assert mine.sum() == min(most, want.sum())
        short = mine < want
        assert not short.any() or mine[short].min() >= mine.max() - 1, "all had one before any had its second"


def test_hosts_are_served_in_turns_and_heavier_ones_more_often() -> None:
    """Of 20 hosts two are served a cycle; the one of weight 4 comes more often, none waits longer than 16 cycles."""
    weight = np.where(np.arange(20) == 3, 4.0, 1.0)
    asked, served = np.zeros(20, dtype=np.int64), np.zeros((60, 20), dtype=np.int64)
    for cycle in range(1, 61):
        chance = np.random.default_rng(cycle).random(20)
        first = budget.turns(asked=asked, weight=weight, chance=chance, round_cycles=10.0)[:2]
        asked[first], served[cycle - 1, first] = cycle, 1
    gaps = [int(np.diff(np.flatnonzero(served[:, host]), prepend=-1).max()) for host in range(20)]
    assert (
        max(gaps) <= 16 and served.sum(axis=0).argmax() == 3 and served[:, 3].sum() >= 2 * served[:, 4].sum()
    )


def test_p6_a_month_noted_by_a_clock_that_jumped_back_still_counts() -> None:
    left = budget.left_this_month(
        np.array([10, 10]), month=np.array([202612, 202701]), spent=np.array([9, 9]), now_month=202612
    )
    assert left.tolist() == [1, 1]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 30),
            st.integers(0, 3),
            st.integers(1, 2_000),
            st.integers(-1, 3),
            st.floats(0.1, 10),
        ),
        max_size=30,
    ),
    st.integers(1, 20_000),
    st.randoms(use_true_random=False),
)
def test_p1_an_address_is_given_what_its_clock_allows_and_no_more(
    hosts: list[tuple[int, int, int, int, float]], window_ms: int, random: Random
) -> None:
    rows = np.array([host[:4] for host in hosts], dtype=np.int64).reshape(-1, 4)
    wanted, beside, step, address = rows.T
    order = np.array(random.sample(range(len(hosts)), len(hosts)), dtype=np.int64)
    out = budget.fit_addresses(
        wanted, beside=beside, step_ms=step, address=address, window_ms=window_ms, order=order,
        weight=np.array([host[4] for host in hosts], dtype=np.float64),
    )  # fmt: skip
    assert (out >= 0).all() and (out <= wanted).all()
    assert (out[address < 0] == wanted[address < 0]).all()
    for one in range(4):
        mine = order[(address[order] == one) & (wanted[order] > 0)]
        if ((wanted[mine] + beside[mine]) * step[mine]).sum() <= window_ms:
            assert (out[mine] == wanted[mine]).all()
        else:
            served = mine[out[mine] > 0]
            assert list(served) == list(mine[: len(served)]) and len(served) >= 1
            spent = ((out[served] + beside[served]) * step[served]).sum()
            assert len(served) == 1 or spent <= window_ms
