"""Readers see whole cycles only, and are told plainly what is wrong with a lake."""

from __future__ import annotations

import json
import pickle
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lake as lake_package
from lake import commit, ledger, snapshot
from lake.errors import (
    DamagedFile,
    LakeDamaged,
    LakeError,
    LakeExists,
    LakeHalfMade,
    LakeMissing,
    LakeVersionError,
    QueryError,
)
from lake.files import write_data
from lake.layout import Layout
from lake.schema import BY_NAME, TABLES
from tests.lake.sample import BUCKETS, finish, keys_in, new_lake, rows_of, run_add, shelf_add, turn, with_warc


def test_a_new_lake_is_empty_and_opens(tmp_path: Path) -> None:
    made = new_lake(tmp_path)
    held = lake_package.open(tmp_path / "lake")
    assert (held.cycle, held.buckets, held.lake_id) == (0, BUCKETS, made.lake_id)
    assert held.versions == {table.name: 0 for table in TABLES}
    for table in TABLES:
        assert held.rows(table.name) == 0 and held.files(table.name) == []
        assert held.read(table.name).schema == table.arrow
        assert held.sql(f"select * from {table.name}").num_rows == 0
    assert held.rows("seen", "bucket") == {} and held.ledger() == []


def test_readers_see_the_last_committed_cycle_and_not_what_came_after_it(tmp_path: Path) -> None:
    first = turn(new_lake(tmp_path), 1, {0: keys_in(0, 1, 2), 3: keys_in(3, 1)})
    commit.commit_table(first.root, "seen", cycle=2, adds=[run_add(first, 2, 0, keys_in(0, 9))], replace=None)
    commit.append_ledger(first.root, ledger.LedgerRow(2, ledger.PLANNED, versions=first.versions))
    held = snapshot.open(first.root)
    assert held.cycle == 1
    assert held.rows("seen", "bucket") == {0: 2, 3: 1}
    assert held.sql("select count(*) n from seen").column("n").to_pylist() == [3]
    assert held.read("seen").num_rows == 3


def test_each_cycle_can_be_opened(tmp_path: Path) -> None:
    held = new_lake(tmp_path)
    for cycle in range(1, 5):
        held = turn(held, cycle, {1: keys_in(1, cycle)})
    assert [snapshot.open(held.root, cycle=cycle).rows("seen") for cycle in range(1, 5)] == [1, 2, 3, 4]
    with pytest.raises(LakeError, match="cycle 9 is not committed; the last one is 4"):
        snapshot.open(held.root, cycle=9)


def test_files_and_rows_are_told_from_the_log_with_partitions_pruned(tmp_path: Path) -> None:
    held = new_lake(tmp_path)
    adds = [
        shelf_add(held, "later", 1, bucket, keys_in(bucket, day), due_day=day)
        for bucket in (0, 1)
        for day in (7, 8)
    ]
    held = finish(held, 1, {"frontier_later": adds})
    found = held.files("frontier_later", partitions={"due_day": [7], "bucket": range(4)})
    assert [file.partition for file in found] == [{"due_day": 7, "bucket": 0}, {"due_day": 7, "bucket": 1}]
    assert (found[0].rows, found[0].min_key, found[0].max_key) == (1, *keys_in(0, 7), *keys_in(0, 7))
    for file in held.files("frontier_later"):
        file.path.unlink()
    assert held.rows("frontier_later", "due_day") == {7: 2, 8: 2}
    assert held.size("frontier_later") == sum(add.size for add in adds)
    with pytest.raises(LakeError, match="not partitioned by 'host'"):
        held.rows("frontier_later", "host")


def test_read_gives_partition_columns_filters_and_plain_strings(tmp_path: Path) -> None:
    held = turn(new_lake(tmp_path), 1, {0: keys_in(0, 1, 2), 2: keys_in(2, 5)})
    rows = held.read("frontier_backlog", columns=["bucket", "url"], partitions={"bucket": [2]})
    assert rows.to_pylist() == [{"bucket": 2, "url": f"http://a.test/{keys_in(2, 5)[0]}"}]
    assert rows.schema.field("url").type == pa.string()
    assert held.read("seen", filter=pc.field("url_key") > keys_in(0, 1)[0]).num_rows == 2
    assert held.read("seen", filter=pc.field("bucket") == 0).num_rows == 2


def test_sql_sees_one_snapshot_of_several_tables_with_plain_strings(tmp_path: Path) -> None:
    held = turn(new_lake(tmp_path), 1, {0: keys_in(0, 1, 2)})
    joined = held.sql(
        "select b.url, s.bucket from seen s join frontier_backlog b using (url_key) order by url_key"
    )
    assert joined.schema.field("url").type == pa.string()
    assert joined.column("bucket").to_pylist() == [0, 0]
    assert held.sql("select versions, counts from ledger").schema.field("versions").type == pa.map_(
        pa.string(), pa.int64()
    )
    assert held.sql("select 1 one").column("one").to_pylist() == [1]


def test_nested_columns_come_back_whole_by_read_and_by_sql(tmp_path: Path) -> None:
    held = new_lake(tmp_path)
    site: dict[str, str | None] = dict.fromkeys(("status", "digest", "fetched_at", "expires_at", "url"))
    site.update(site="http://a.test", state="rules")
    rows = rows_of("hosts", host_key=[5], host=["a.test"], addresses=[["127.0.0.1"]], robots=[[site]])
    path = held.layout.data_path("hosts", 1, 0)
    add = write_data(held.layout.table("hosts"), path, rows, BY_NAME["hosts"], {"bucket": 0})
    held = finish(held, 1, {"hosts": [add]})
    assert held.read("hosts").schema == BY_NAME["hosts"].arrow
    for found in (held.read("hosts"), held.sql("select * from hosts")):
        row = found.to_pylist()[0]
        assert (row["addresses"], row["robots"], row["bucket"]) == (["127.0.0.1"], [site], 0)


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("select nope from seen", "No field named nope"),
        ("select * from sheets", "the tables are frontier_ready"),
        ("selec", "SQL"),
    ],
)
def test_a_query_that_cannot_run_says_why(tmp_path: Path, query: str, what: str) -> None:
    with pytest.raises(QueryError, match=what):
        new_lake(tmp_path).sql(query)


def test_a_snapshot_travels_between_processes(tmp_path: Path) -> None:
    held = turn(new_lake(tmp_path), 1, {0: keys_in(0, 1)})
    held.rows("seen")
    assert pickle.loads(pickle.dumps(held)).read("seen").num_rows == 1


def test_captures_and_pages_by_cycle(tmp_path: Path) -> None:
    held, _ = with_warc(new_lake(tmp_path), [b"one", b"two"])
    assert held.captures(cycle=1).num_rows == held.pages(cycle=1, columns=["url"]).num_rows == 2
    assert held.captures(cycle=2).num_rows == 0


def test_a_sitemap_is_no_page(tmp_path: Path) -> None:
    held, _ = with_warc(new_lake(tmp_path), [b"<urlset/>"], kind="sitemap")
    assert held.captures().num_rows == 1
    assert held.pages().num_rows == 0


def test_a_path_with_spaces_and_letters_of_other_tongues_works(tmp_path: Path) -> None:
    folder = tmp_path / "my läke 100%"
    folder.mkdir()
    held = turn(new_lake(folder), 1, {0: keys_in(0, 1)})
    assert held.read("seen").num_rows == held.sql("select * from seen").num_rows == 1


def test_what_lies_at_the_path_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("")
    half = Layout(tmp_path / "half")
    commit.make_table(half.table("seen"), TABLES[4])
    half.making.write_text("{}")
    new_lake(tmp_path)
    (tmp_path / "lake" / "noria.json").rename(tmp_path / "kept.json")
    cases = {
        "none": (LakeMissing, "does not exist; `noria cycle --lake"),
        "file": (LakeMissing, "is a file, a lake is a folder"),
        "other": (LakeMissing, "is no lake"),
        "half": (LakeHalfMade, "was interrupted; `noria cycle --lake .*` finishes it"),
        "lake": (LakeDamaged, "without its noria.json; restore"),
    }
    for name, (kind, what) in cases.items():
        with pytest.raises(kind, match=what):
            snapshot.open(tmp_path / name)
    with pytest.raises(LakeDamaged, match=r"without its noria\.json; restore"):
        snapshot.create(tmp_path / "lake", buckets=4)


@pytest.mark.parametrize(
    ("meta", "kind", "what"),
    [
        ("{", LakeDamaged, "cannot be read"),
        ('{"format": 1}', LakeDamaged, "cannot be read"),
        (
            '{"format": 2, "buckets": 4, "lake_id": "x"}',
            LakeVersionError,
            "lake of format 2, this Noria reads up to 1",
        ),
        ('{"format": 1, "buckets": 5, "lake_id": "x"}', LakeDamaged, "5 buckets is not a power of two"),
    ],
)
def test_an_unfit_noria_json_is_a_sentence(
    tmp_path: Path, meta: str, kind: type[LakeError], what: str
) -> None:
    held = new_lake(tmp_path)
    held.layout.meta.write_text(meta)
    with pytest.raises(kind, match=what):
        snapshot.open(held.root)


def test_making_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "lake")
    commit.make_table(layout.table("seen"), TABLES[4])
    layout.making.write_text("{}")
    made = snapshot.create(layout.root, buckets=BUCKETS)
    assert made.cycle == 0 and not layout.making.exists()
    assert len(list(layout.root.glob("*/_delta_log"))) == len(TABLES)


def test_a_lake_is_not_made_where_something_lies(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LakeMissing, match="is a file"):
        snapshot.create(tmp_path / "file", buckets=4)
    with pytest.raises(LakeMissing, match="holds other files"):
        snapshot.create(tmp_path, buckets=4)
    made = new_lake(tmp_path)
    with pytest.raises(LakeExists, match="there is a lake already"):
        snapshot.create(made.root, buckets=4)


@pytest.mark.parametrize("buckets", [0, 3, -8, 65_536])
def test_buckets_are_a_power_of_two(tmp_path: Path, buckets: int) -> None:
    with pytest.raises(LakeError, match="must be a power of two from 1 to 32768"):
        snapshot.create(tmp_path / "lake", buckets=buckets)
    assert not (tmp_path / "lake").exists()


def test_other_buckets_than_the_lake_has_are_refused_with_both_numbers(tmp_path: Path) -> None:
    path = tmp_path / "lake"
    assert (
        snapshot.open_or_create(path, buckets=8).lake_id == snapshot.open_or_create(path, buckets=8).lake_id
    )
    with pytest.raises(LakeExists, match=r"has 8 buckets, the configuration says 64 \(\[lake\] buckets\)"):
        snapshot.open_or_create(path, buckets=64)


def test_of_many_who_make_a_lake_at_once_one_does(tmp_path: Path) -> None:
    ids: list[str] = []
    threads = [
        threading.Thread(
            target=lambda: ids.append(snapshot.open_or_create(tmp_path / "l", buckets=2).lake_id)
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 4 and set(ids) == {json.loads((tmp_path / "l" / "noria.json").read_text())["lake_id"]}


def test_missing_files_and_tables_are_sentences(tmp_path: Path) -> None:
    held = turn(new_lake(tmp_path), 1, {0: keys_in(0, 1)})
    held.files("seen")[0].path.unlink()
    with pytest.raises(DamagedFile, match="table seen of cycle 1 cannot be read"):
        held.read("seen")
    with pytest.raises(LakeDamaged, match="table hosts cannot be opened at version 77"):
        held.at({"hosts": 77}).rows("hosts")
    with pytest.raises(LakeError, match="no table 'nope'"):
        held.rows("nope")
    (held.layout.table("robots")).rename(tmp_path / "gone")
    with pytest.raises(LakeMissing, match="table robots is not there"):
        snapshot.open(held.root).rows("robots")


def test_a_column_that_a_table_has_not_is_named_and_is_no_damage(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match=r"captures has no column 'titel'; it has .*title"):
        new_lake(tmp_path).read("captures", columns=["url", "titel"])
