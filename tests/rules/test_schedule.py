"""The heap machine: the trace of the brief, the returning host, shared addresses, and P1 as a property."""

from __future__ import annotations

import heapq
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules.schedule import Ask, Schedule, Wait


def test_the_trace_of_the_brief_is_replayed_exactly() -> None:
    queues = {"wiki": ["Cat", "Dog"], "apple": ["mac"], "nike": ["shoes"], "bbc": ["news"]}
    heap = Schedule()
    for host in ("wiki", "apple", "nike"):
        heap.add(host, ready_ms=0, work_ms=0)
    assert sorted(heap.take(0).host for _ in range(3)) == ["apple", "nike", "wiki"]  # type: ignore[union-attr]
    for host in ("wiki", "apple", "nike"):
        queues[host].pop(0)
    assert heap.take(0) is None
    heap.done("nike", now_ms=300, ready_ms=2_300)
    heap.add("bbc", ready_ms=300, work_ms=0)
    assert heap.take(300) == Ask("bbc")
    heap.done("wiki", now_ms=400, ready_ms=2_400)
    assert heap.take(400) == Wait(2_300), "an idle connection and a waiting wiki/Dog are correct"
    assert heap.take(2_399) == Ask("nike")
    assert heap.take(2_399) == Wait(2_400)
    assert heap.take(2_400) == Ask("wiki")


def test_a_returning_host_waits_out_its_delay() -> None:
    heap = Schedule()
    heap.add("nike", ready_ms=0, work_ms=0)
    assert heap.take(0) == Ask("nike")
    heap.done("nike", now_ms=400, ready_ms=None)
    next_allowed_ms = 400 + 2_000  # what the host table keeps
    heap.add("nike", ready_ms=max(900, next_allowed_ms), work_ms=0)
    assert heap.take(900) == Wait(2_400)
    assert heap.take(2_400) == Ask("nike")


def test_most_work_left_goes_first_among_ready_hosts() -> None:
    heap = Schedule()
    for host, work in (("small", 10), ("big", 9_000), ("middle", 500)):
        heap.add(host, ready_ms=0, work_ms=work)
    assert [heap.take(0) for _ in range(3)] == [Ask("big"), Ask("middle"), Ask("small")]


def test_hosts_of_one_address_share_a_clock() -> None:
    heap = Schedule(address_floor_ms=250)
    heap.add("a", ready_ms=0, work_ms=2, address="192.0.2.1")
    heap.add("b", ready_ms=0, work_ms=1, address="192.0.2.1")
    assert heap.take(0) == Ask("a")
    assert heap.take(0) is None, "one request at a time to an address"
    heap.done("a", now_ms=100, ready_ms=1_100, work_ms=1)
    assert heap.take(100) == Wait(350)
    assert heap.take(350) == Ask("b")
    heap.done("b", now_ms=1_000, ready_ms=None)
    assert heap.take(1_100) == Wait(1_250)
    assert heap.take(1_250) == Ask("a")


def test_an_address_of_many_hosts_goes_before_a_host_with_more_work_of_its_own() -> None:
    """Twenty hosts with two requests each behind one address take ten seconds, whatever each takes by itself."""
    heap = Schedule(address_floor_ms=250)
    heap.add("alone", ready_ms=0, work_ms=5_000, asks=5, address="192.0.2.2")
    for number in range(20):
        heap.add(f"h{number:02}", ready_ms=0, work_ms=2_000, asks=2, address="192.0.2.1")
    assert [heap.take(0), heap.take(0)] == [Ask("h00"), Ask("alone")]


def test_hosts_that_leave_take_their_work_with_them() -> None:
    heap = Schedule(address_floor_ms=250)
    for number in range(20):
        heap.add(f"h{number:02}", ready_ms=0, work_ms=2_000, asks=2, address="192.0.2.1")
    for number in range(19):
        assert heap.take(250 * number) == Ask(f"h{number:02}")
        heap.done(f"h{number:02}", now_ms=250 * number, ready_ms=None)
    heap.add("alone", ready_ms=0, work_ms=5_000, asks=5, address="192.0.2.2")
    assert [heap.take(4_750), heap.take(4_750)] == [Ask("alone"), Ask("h19")]


def test_an_address_may_have_a_floor_of_its_own() -> None:
    heap = Schedule(floor_of={"192.0.2.1": 50, "192.0.2.2": 0}.__getitem__)
    heap.add("a", ready_ms=0, work_ms=2, address="192.0.2.1")
    heap.add("b", ready_ms=0, work_ms=1, address="192.0.2.1")
    heap.add("c", ready_ms=0, work_ms=0, address="192.0.2.2")
    heap.add("d", ready_ms=0, work_ms=0, address="192.0.2.2")
    assert {heap.take(0).host for _ in range(3)} == {"a", "c", "d"}  # type: ignore[union-attr]
    heap.done("a", now_ms=10, ready_ms=None)
    assert heap.take(10) == Wait(60)


def test_a_released_host_moves_no_clock() -> None:
    heap = Schedule(address_floor_ms=250)
    heap.add("a", ready_ms=0, work_ms=1, address="192.0.2.1")
    heap.add("b", ready_ms=0, work_ms=0, address="192.0.2.1")
    assert heap.take(0) == Ask("a")
    heap.release("a", ready_ms=None)
    assert heap.take(0) == Ask("b")
    assert len(heap) == 1


hosts = st.lists(
    st.tuples(
        st.integers(0, 3), st.lists(st.integers(0, 5_000), min_size=1, max_size=6), st.integers(0, 3_000)
    ),
    min_size=1,
    max_size=8,
)


@given(hosts, st.integers(1, 4))
def test_p1_no_host_and_no_address_is_asked_too_soon(
    plan: list[tuple[int, list[int], int]], slots: int
) -> None:
    heap, queues, delay = Schedule(address_floor_ms=250), {}, {}
    for number, (address, times, extra) in enumerate(plan):
        name = f"h{number}"
        queues[name], delay[name] = list(times), 1_000 + extra
        heap.add(name, ready_ms=0, work_ms=len(times), address=f"192.0.2.{address}")
    address_of = {f"h{number}": row[0] for number, row in enumerate(plan)}
    now, running, spans = 0, [], []
    while len(heap):
        answer = heap.take(now) if len(running) < slots else None
        if isinstance(answer, Ask):
            took = queues[answer.host].pop(0)
            heapq.heappush(running, (now + took, answer.host, now))
            continue
        ends = running[0][0] if running else None
        if isinstance(answer, Wait) and (ends is None or answer.until_ms < ends):
            now = answer.until_ms
            continue
        assert ends is not None, "the machine may not stall while hosts are left"
        end, host, start = heapq.heappop(running)
        now = max(now, end)
        spans.append((host, start, end))
        heap.done(
            host, now_ms=now, ready_ms=now + delay[host] if queues[host] else None, work_ms=len(queues[host])
        )
    assert len(spans) == sum(len(times) for _, times, _ in plan), "every URL was asked"
    for name in queues:
        mine = sorted((s, e) for h, s, e in spans if h == name)
        assert all(b[0] - a[1] >= delay[name] for a, b in pairwise(mine))
    for address in set(address_of.values()):
        mine = sorted((s, e) for h, s, e in spans if address_of[h] == address)
        assert all(b[0] - a[1] >= 250 for a, b in pairwise(mine))
