"""The plan: who is asked for what, within which budget, and that the same lake gives the same plan."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as quickly
from hypothesis import strategies as st

from lake import inbox
from pipelines.cycle import intake
from pipelines.cycle.hoststate import moment
from pipelines.rules.budget import month_of
from tests.cycle.plans import NOW_MS, chosen, host_plan, lake_with, planned, settings, shares, urls_of

MONTH = month_of(NOW_MS)


def test_p6_a_limit_of_100_pages_is_100(tmp_path: Path) -> None:
    ready = [url for host in range(7) for url in urls_of(f"h{host}.sim", 40)]
    turn = planned(lake_with(tmp_path, ready), settings(plan__max_pages=100))
    assert len(chosen(turn)) == 100


@pytest.mark.parametrize(
    ("spent", "due", "given"), [(0, 50, 10), (7, 50, 3), (10, 50, 0), (12, 50, 0), (0, 4, 4)]
)
def test_p6_no_more_than_the_month_has_left(tmp_path: Path, spent: int, due: int, given: int) -> None:
    row = {"host": "a.sim", "month": MONTH, "month_requests": spent, "month_budget": 10}
    turn = planned(lake_with(tmp_path, urls_of("a.sim", due), [row]), settings())
    assert shares(turn).get("a.sim", 0) == given
    assert host_plan(turn)["a.sim"]["allowance"] <= max(10 - spent, 0)


def test_p6_a_new_month_begins_with_the_whole_budget(tmp_path: Path) -> None:
    row = {"host": "a.sim", "month": 202612, "month_requests": 10, "month_budget": 10}
    turn = planned(lake_with(tmp_path, urls_of("a.sim", 50), [row]), settings())
    assert shares(turn) == {"a.sim": 10}


def test_p6_a_clock_that_jumps_back_does_not_bring_a_spent_month_back(tmp_path: Path) -> None:
    row = {"host": "a.sim", "month": 202702, "month_requests": 10, "month_budget": 10}
    turn = planned(lake_with(tmp_path, urls_of("a.sim", 50), [row]), settings())
    assert shares(turn) == {}


def test_p6_a_budget_of_0_is_never_asked(tmp_path: Path) -> None:
    turn = planned(
        lake_with(tmp_path, urls_of("a.sim", 3), [{"host": "a.sim", "month_budget": 0}]), settings()
    )
    assert shares(turn) == {}


def test_p6_robots_txt_is_paid_from_the_same_budget(tmp_path: Path) -> None:
    row = {"host": "a.sim", "month_budget": 5, "robots": None}
    turn = planned(lake_with(tmp_path, urls_of("a.sim", 50), [row]), settings())
    assert shares(turn) == {"a.sim": 4}


def test_every_host_gets_one_url_before_any_gets_its_second(tmp_path: Path) -> None:
    ready = [*urls_of("big.sim", 200), *(f"http://h{number}.sim/" for number in range(30))]
    turn = planned(lake_with(tmp_path, ready), settings(plan__max_pages=40))
    given = shares(turn)
    assert len(given) == 31 and given["big.sim"] == 10


def test_a_domain_with_a_cap_of_pages_gives_each_of_its_hosts_one_first(tmp_path: Path) -> None:
    ready = [url for host in range(5) for url in urls_of(f"h{host}.one.sim", 30)]
    conf = settings(budget__pages_per_domain_cycle=20)
    given = shares(planned(lake_with(tmp_path, ready), conf))
    assert sum(given.values()) == 20 and len(given) == 5
    assert max(given.values()) - min(given.values()) <= 1


def test_a_flood_of_subdomains_gets_no_more_hosts_than_its_domain_may(tmp_path: Path) -> None:
    ready = [f"http://s{number}.flood.sim/" for number in range(300)] + ["http://honest.sim/"]
    given = shares(planned(lake_with(tmp_path, ready), settings(budget__hosts_per_domain=10)))
    assert len(given) == 11 and given["honest.sim"] == 1


@pytest.mark.parametrize(("others", "flood"), [(35, 5), (20, 20)])
def test_where_a_cycle_is_small_a_flood_of_subdomains_waits_for_the_others(
    others: int, flood: int, tmp_path: Path
) -> None:
    ready = [f"http://s{number}.flood.sim/" for number in range(300)]
    ready += [f"http://x.h{number}.sim/" for number in range(others)]
    given = shares(planned(lake_with(tmp_path, ready), settings(plan__max_pages=40)))
    assert sum(name.endswith(".flood.sim") for name in given) == flood and len(given) == 40


def test_p1_hosts_of_one_address_are_planned_by_its_clock_and_take_turns(tmp_path: Path) -> None:
    """40 requests fit into ten seconds at 250 ms: 20 new hosts with their robots.txt; who waited is served first."""
    conf = settings(
        dns__static='{"*.flood.sim" = "127.9.9.9", "*.sim" = "127.64.0.0/12"}', window__seconds=10
    )
    hosts = [f"s{number}.flood.sim" for number in range(100)]
    ready = [f"http://{host}/" for host in hosts] + ["http://honest.sim/", "http://honest.sim/2"]
    (tmp_path / "new").mkdir()
    given = shares(planned(lake_with(tmp_path / "new", ready), conf))
    assert given.pop("honest.sim") == 2
    assert len(given) == 20 and set(given.values()) == {1}
    asked: dict[str, int] = {}
    for cycle in range(3):
        (tmp_path / str(cycle)).mkdir()
        rows = [{"host": host, "last_cycle": asked.get(host, 0) - 6} for host in hosts]
        given = shares(planned(lake_with(tmp_path / str(cycle), ready, rows), conf))
        del given["honest.sim"]
        assert 20 <= len(given) <= 40 and set(given.values()) == {1}
        assert len(asked) + len(given) > len(hosts) or not set(asked) & set(given)
        asked |= dict.fromkeys(given, cycle + 1)
    assert len(asked) >= 60


def test_hosts_whose_robots_txt_named_no_sitemap_are_not_expected_to_be_asked_for_one(tmp_path: Path) -> None:
    """40 requests of an address: a page each for 40 known hosts; a look at the usual place for each would halve that."""
    conf = settings(dns__static='{"*.sim" = "127.9.9.9"}', window__seconds=10, sitemaps__per_cycle=1)
    hosts = [f"s{number}.sim" for number in range(60)]
    lake = lake_with(tmp_path, [f"http://{host}/" for host in hosts], [{"host": host} for host in hosts])
    assert len(shares(planned(lake, conf))) == 40


def test_p1_an_address_without_a_clock_of_its_own_limits_nobody(tmp_path: Path) -> None:
    conf = settings(
        dns__static='{"*.sim" = "127.9.9.9"}', window__seconds=10, delay__address_floor_ms=0,
    )  # fmt: skip
    given = shares(planned(lake_with(tmp_path, [f"http://s{number}.sim/" for number in range(60)]), conf))
    assert len(given) == 60


def test_a_host_with_99_percent_of_all_urls_gets_what_its_clock_allows(tmp_path: Path) -> None:
    ready = [*urls_of("big.sim", 990), *(f"http://h{number}.sim/" for number in range(10))]
    given = shares(planned(lake_with(tmp_path, ready), settings(window__seconds=60)))
    assert given.pop("big.sim") == 59, "and a request for robots.txt"
    assert given == {f"h{number}.sim": 1 for number in range(10)}


def test_p10_a_plan_does_not_depend_on_groups_or_on_the_order_of_rows(tmp_path: Path) -> None:
    ready = [url for host in range(40) for url in urls_of(f"h{host}.{host % 3}.sim", 9)]
    conf = settings(plan__max_pages=70, budget__hosts_per_domain=9, plan__partitions=3)
    plans = []
    for number, (order, groups) in enumerate(((ready, 8), (ready[::-1], 2), (ready, 1))):
        (tmp_path / str(number)).mkdir()
        turn = planned(lake_with(tmp_path / str(number), order), conf, groups=groups)
        plans.append([(row["url"], row["partition"], row["band"]) for row in chosen(turn)])
    assert plans[0] == plans[1] == plans[2] and len(plans[0]) == 70


def test_p10_slots_change_the_partitions_and_nothing_else(tmp_path: Path) -> None:
    ready = [url for host in range(20) for url in urls_of(f"h{host}.sim", 5)]
    plans = []
    for slots in (1, 4):
        (tmp_path / str(slots)).mkdir()
        turn = planned(lake_with(tmp_path / str(slots), ready), settings(plan__max_pages=50), slots=slots)
        plans.append([row["url"] for row in chosen(turn)])
        assert len({row["partition"] for row in chosen(turn)}) == slots
    assert plans[0] == plans[1]


def test_p1_a_host_is_in_one_partition_and_hosts_of_an_address_are_together(tmp_path: Path) -> None:
    ready = [url for host in range(30) for url in urls_of(f"h{host}.sim", host + 1)]
    conf = settings(dns__static='{"*.sim" = "127.9.0.0/29"}', plan__partitions=4)
    turn = planned(lake_with(tmp_path, ready), conf)
    partitions: dict[str, set[int]] = {}
    for row in host_plan(turn).values():
        partitions.setdefault(row["address"], set()).add(row["partition"])
    assert len(partitions) > 1 and all(len(numbers) == 1 for numbers in partitions.values())
    at = {name: row["partition"] for name, row in host_plan(turn).items()}
    assert all(row["partition"] == at[row["host"]] for row in chosen(turn))


def test_a_robots_companion_joins_the_partition_even_if_nothing_of_it_is_due(tmp_path: Path) -> None:
    ready = [*urls_of("a.sim", 3), *(f"http://h{number}.sim/" for number in range(6))]
    rows = [{"host": "a.sim", "companion": "www.b.sim"}]
    for number, known in enumerate(([], [{"host": "www.b.sim", "month": MONTH, "month_requests": 4}])):
        (tmp_path / str(number)).mkdir()
        turn = planned(
            lake_with(tmp_path / str(number), ready, [*rows, *known]), settings(plan__partitions=4)
        )
        hosts = host_plan(turn)
        companion = hosts["www.b.sim"]
        assert companion["partition"] == hosts["a.sim"]["partition"] >= 0
        assert companion["urls"] == 0 and companion["allowance"] > 0 and companion["address"]
        assert companion["month_requests"] == (4 if known else 0)
        assert "www.b.sim" not in shares(turn)


def test_a_returning_host_and_a_long_crawl_delay_get_what_fits(tmp_path: Path) -> None:
    ready = [url for host in "abc" for url in urls_of(f"{host}.sim", 50)]
    rows = [
        {"host": "a.sim", "next_allowed_at": moment(NOW_MS + 30_000)},
        {"host": "b.sim", "next_allowed_at": moment(NOW_MS + 60_000)},
        {"host": "c.sim", "delay_ms": 2_000_000, "crawl_delay_ms": 2_000_000},
    ]
    given = shares(planned(lake_with(tmp_path, ready, rows), settings(window__seconds=60)))
    assert given == {"a.sim": 30, "c.sim": 1}


def test_a_wait_left_by_a_clock_that_ran_ahead_ends_with_the_longest_pause_there_is(tmp_path: Path) -> None:
    year = 31_536_000_000
    rows = [
        {
            "host": "a.sim",
            "next_allowed_at": moment(NOW_MS + 10 * year),
            "probe_at": moment(NOW_MS + 10 * year),
        }
    ]
    conf = settings(
        delay__retry_after_max_seconds=100,
        window__seconds=200,
        health__probe_max_seconds=100,
        health__probe_first_seconds=100,
        delay__backoff_max_ms=5_000,
    )
    assert shares(planned(lake_with(tmp_path, urls_of("a.sim", 3), rows), conf)) == {"a.sim": 3}


def test_an_ailing_host_is_probed_with_one_url_and_not_before_its_time(tmp_path: Path) -> None:
    ready = [url for host in "ab" for url in urls_of(f"{host}.sim", 50)]
    rows = [
        {"host": "a.sim", "failures": 2, "probe_at": moment(NOW_MS - 1)},
        {"host": "b.sim", "failures": 2, "probe_at": moment(NOW_MS + 1)},
    ]
    assert shares(planned(lake_with(tmp_path, ready, rows), settings())) == {"a.sim": 1}


def test_hosts_named_by_ip_ipv6_and_idn_are_planned_as_one_host_each(tmp_path: Path) -> None:
    seeds = [
        "http://127.0.0.1/a",
        "http://[::1]/b",
        "http://bücher.sim/c",
        "http://xn--bcher-kva.sim/d",
        "http://dot.sim./e",
    ]
    conf = settings(security__allow_addresses='["127.0.0.0/8", "::1/128"]')
    turn = planned(lake_with(tmp_path), conf, seeds=seeds)
    counted = Counter(row["host"] for row in chosen(turn))
    assert counted["xn--bcher-kva.sim"] == 2 and counted["127.0.0.1"] == 1 and sum(counted.values()) == 5


@quickly(
    max_examples=12,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    hosts=st.lists(
        st.tuples(st.integers(1, 30), st.integers(0, 20), st.integers(-1, 25)), min_size=1, max_size=6
    ),
    most=st.integers(1, 80),
)
def test_p6_whatever_is_due_no_budget_is_overdrawn(
    tmp_path_factory: pytest.TempPathFactory, hosts: list[tuple[int, int, int]], most: int
) -> None:
    ready = [url for number, (due, _, _) in enumerate(hosts) for url in urls_of(f"h{number}.sim", due)]
    rows = [
        {
            "host": f"h{number}.sim",
            "month": MONTH,
            "month_requests": spent,
            "month_budget": None if own < 0 else own,
        }
        for number, (_, spent, own) in enumerate(hosts)
    ]
    turn = planned(lake_with(tmp_path_factory.mktemp("p6"), ready, rows), settings(plan__max_pages=most))
    given = shares(turn)
    for number, (due, spent, own) in enumerate(hosts):
        left = due if own < 0 else max(own - spent, 0)
        assert given.get(f"h{number}.sim", 0) <= min(due, left)
    wanted = sum(min(due, due if own < 0 else max(own - spent, 0)) for due, spent, own in hosts)
    assert sum(given.values()) == len(chosen(turn)) == min(most, wanted)


def test_no_host_waits_for_ever_when_a_cycle_cannot_take_all(tmp_path: Path) -> None:
    """60 hosts, 10 a cycle: whoever was asked longest ago goes first, so that nobody waits for a seventh."""
    asked: dict[str, int] = {}
    for cycle in range(6):
        (tmp_path / str(cycle)).mkdir()
        rows = [{"host": f"h{n}.sim", "last_cycle": asked.get(f"h{n}.sim", 0) - 6} for n in range(60)]
        lake = lake_with(tmp_path / str(cycle), [f"http://h{n}.sim/" for n in range(60)], rows)
        given = shares(planned(lake, settings(plan__max_pages=10)))
        assert len(given) == 10
        asked |= dict.fromkeys(given, cycle + 1)
    assert len(asked) == 60


def test_p7_what_is_kept_ready_follows_what_a_cycle_can_take_not_what_is_known(tmp_path: Path) -> None:
    """A host with millions behind it is worth its share of a cycle; a small limit for once leaves no host short."""
    rows = [{"host": f"h{number}.sim", "backlog_urls": 10**7} for number in range(40)]
    ready = [f"http://h{number}.sim/" for number in range(40)]
    for number, (window, level) in enumerate(((86_400, 1_667), (60, None))):
        (tmp_path / str(number)).mkdir()
        conf = settings(window__seconds=window, plan__max_pages=10)
        turn = planned(lake_with(tmp_path / str(number), ready, rows), conf)
        told = turn.done("allot")
        assert told is not None and told["level"] == level


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="mappings are read from Linux's /proc")
@pytest.mark.slow
def test_a_group_that_takes_its_seeds_keeps_none_of_the_inbox_mapped(tmp_path: Path) -> None:
    """Dask ends a worker by what is mapped, and the files of ten million seeds are 1.4 GB."""
    opened = planned(
        lake_with(tmp_path, []), settings(), seeds=[f"http://h{number}.test/" for number in range(100)]
    )
    rows = [intake.inbox_rows(opened, group) for group in range(opened.groups)]
    assert sum(part.num_rows for part in rows) == 100
    assert "inbox-" not in Path("/proc/self/maps").read_text()


def test_a_seed_whose_metadata_cannot_be_obeyed_is_refused_and_stops_nothing(tmp_path: Path) -> None:
    """What `noria seeds add` refuses by itself may come from elsewhere."""
    lake = lake_with(tmp_path, [])
    metas = [
        '{"exclude":"re:("}',
        '{"include":["re:["]}',
        '{"stay":"hsot"}',
        '{"max_depth":"deep"}',
        '{"sitemap":"no"}',
    ]
    rows = [
        {"url": f"http://h{place}.test/", "source": "seed", "meta": meta} for place, meta in enumerate(metas)
    ]
    inbox.put(lake.root, rows, kind="seed", now_ms=NOW_MS)
    opened = planned(lake, settings())
    told = opened.done("intake")
    assert told is not None and (told["urls"], told["refused"]) == (1, 4)
    assert [example["rule"].partition(":")[0].partition("=")[0] for example in told["examples"]] == [
        "exclude", "include", "stay", "max_depth",
    ]  # fmt: skip
    assert [row["url"] for row in chosen(opened)] == ["http://h4.test/"]


def test_rows_of_a_damaged_inbox_file_are_refused_and_stop_nothing(tmp_path: Path) -> None:
    lake = lake_with(tmp_path, [])
    name = inbox.put(lake.root, [{"url": "http://h.test/"}], kind="seed", now_ms=NOW_MS)
    told = [
        (None, None),
        ("http://h1.test/", "{no json}"),
        ("http://h2.test/", "[1]"),
        ("http://h3.test/", "{}"),
    ]
    rows = [{"url": url, "meta": meta, "source": "seed"} for url, meta in told]
    pq.write_table(pa.Table.from_pylist(rows, schema=inbox.SCHEMA), lake.layout.inbox / name)
    opened = planned(lake, settings())
    found = opened.done("intake")
    assert found is not None and (found["urls"], found["refused"]) == (1, 3)
    assert [row["url"] for row in chosen(opened)] == ["http://h3.test/"]
