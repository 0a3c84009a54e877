"""Index: a partition's sealed captures become rows of the table, its payloads' places are kept for `contents`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lake import staging
from lake.errors import DamagedFile
from lake.files import write_data
from lake.layout import Layout
from lake.schema import CAPTURES, LINKS
from pipelines.cycle import parts
from pipelines.cycle.papers import spool_name, warc_info
from pipelines.cycle.seal import SealTask, SpoolFile, seal_partition
from pipelines.cycle.turn import Turn
from pipelines.net.warc import WarcError

SUBSETS = ("warc", "robotstxt", "crawldiagnostics")


def seal(turn: Turn, partition: int) -> dict[str, Any]:
    """Make the final WARC and CDXJ files of a partition, and write its rows of `captures` and `links`.

    Stages `seal/pNNNN.arrow`: the captures' final places, and which are duplicates, in the order of `sort`. Returns the files to add.
    """
    if found := turn.done("seal", partition):
        return found
    layout = Layout(Path(turn.root))
    captures = staging.read_table(turn.staged("sort", f"p{partition:04d}-captures.arrow"))
    task = SealTask(
        spools=_spools(turn, layout, partition),
        captures=_with_spool_index(turn, partition, captures),
        verdicts=_verdicts(turn, partition),
        warc_dir=layout.root / "warc",
        cdxj_dir=layout.root / "cdxj",
    )
    try:
        result = seal_partition(task)
    except WarcError as error:
        raise DamagedFile(
            f"{turn.crawl}, partition {partition}: {error}; restore the file from a copy and run the cycle again"
        ) from error
    placed = result.captures
    staging.write_table(
        turn.staged("seal", f"p{partition:04d}.arrow"),
        placed.select(["warc_filename", "warc_record_offset", "warc_record_length", "duplicate"]),
    )
    rows = _final_rows(turn, partition, placed)
    adds = {
        "captures": [asdict(add) for add in _write_captures(turn, layout, partition, rows)],
        "links": [asdict(add) for add in _write_links(turn, layout, partition)],
    }
    told = {
        "adds": adds,
        "captures": rows.num_rows,
        "warc_bytes": result.bytes_written,
        "files": [sealed.filename for sealed in result.files],
    }
    return turn.finish("seal", partition, told)


def _spool_order(turn: Turn, partition: int) -> dict[tuple[int, int], int]:
    base = turn.staged("fetch", f"p{partition:04d}")
    names = [parts.PartName(*pair) for pair in (turn.done("fetch", partition) or {"parts": []})["parts"]]
    return dict(sorted(parts.spool_sizes(base, names).items()))


def _spools(turn: Turn, layout: Layout, partition: int) -> tuple[SpoolFile, ...]:
    base = turn.staged("fetch", f"p{partition:04d}")
    folder = layout.warc(turn.cycle).relative_to(layout.root / "warc")
    lake_id = turn.lake().lake_id
    files = []
    for (attempt, number), size in _spool_order(turn, partition).items():
        info = warc_info(turn, lake_id, spool_name(partition, attempt, number))
        files.append(
            SpoolFile(parts.spool_path(base, attempt, number), size, str(folder / info.filename), info)
        )
    return tuple(files)


def _with_spool_index(turn: Turn, partition: int, captures: pa.Table) -> pa.Table:
    """Number the spools through over all attempts, as the seal does; null where nothing is stored."""
    place = {pair: number for number, pair in enumerate(_spool_order(turn, partition))}
    pairs = zip(captures["attempt"].to_pylist(), captures["spool"].to_pylist(), strict=True)
    numbers = [place.get((attempt, spool)) for attempt, spool in pairs]
    at = captures.schema.get_field_index("spool")
    return captures.set_column(at, "spool", pa.array(numbers, pa.int32()))


def _verdicts(turn: Turn, partition: int) -> pa.Table:
    tables = [staging.read_table(turn.staged("gate", f"g{group:04d}.arrow")) for group in range(turn.groups)]
    rows = pa.concat_tables(tables)
    return rows.filter(pc.equal(rows["partition"], partition)).combine_chunks()


def _final_rows(turn: Turn, partition: int, placed: pa.Table) -> pa.Table:
    """Return the rows of the captures table."""
    kind, outcome = placed["kind"].to_pylist(), placed["outcome"].to_pylist()
    subset = [
        "robotstxt" if what == "robots" else "warc" if came in ("ok", "not_modified") else "crawldiagnostics"
        for what, came in zip(kind, outcome, strict=True)
    ]
    count = placed.num_rows
    given = {
        "crawl": pa.repeat(pa.scalar(turn.crawl), count),
        "subset": pa.array(subset, pa.string()),
        "cycle": pa.repeat(pa.scalar(turn.cycle, pa.int32()), count),
        "warc_segment": pa.repeat(pa.scalar(str(partition)), count),
    }
    arrays = [
        (
            given[field.name]
            if field.name in given
            else placed[field.name]
            if field.name in placed.column_names
            else pa.nulls(count, field.type)
        )
        for field in CAPTURES.arrow
    ]
    arrays = [array.cast(field.type) for array, field in zip(arrays, CAPTURES.arrow, strict=True)]
    return pa.Table.from_arrays(arrays, schema=CAPTURES.arrow)


def _write_captures(turn: Turn, layout: Layout, partition: int, rows: pa.Table) -> list[Any]:
    adds = []
    for subset in SUBSETS:
        mine = rows.filter(pc.equal(rows["subset"], subset))
        if mine.num_rows:
            mine = mine.sort_by([("url_surtkey", "ascending"), ("fetch_time", "ascending")])
            path = layout.data_path("captures", turn.cycle, None, f"{partition:04d}-{subset}")
            where = {"crawl": turn.crawl, "subset": subset}
            adds.append(write_data(layout.table("captures"), path, mine, CAPTURES, where))
    return adds


def _write_links(turn: Turn, layout: Layout, partition: int) -> list[Any]:
    rows = staging.read_table(turn.staged("sort", f"p{partition:04d}-links.arrow"))
    if not rows.num_rows:
        return []
    rows = rows.append_column("cycle", pa.repeat(pa.scalar(turn.cycle, pa.int32()), rows.num_rows))
    path = layout.data_path("links", turn.cycle, None, f"{partition:04d}")
    return [write_data(layout.table("links"), path, rows, LINKS, {"crawl": turn.crawl})]
