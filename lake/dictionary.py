"""The column dictionary in `lake/README.md`: made from the schemas by `python -m lake.dictionary`."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa

from lake.schema import TABLES, Column, Table

README = Path(__file__).with_name("README.md")
MARK = "<!-- From here on: made by `python -m lake.dictionary` from lake/schema.py. Do not edit. -->"


def dictionary() -> str:
    """Return the Markdown of all tables, in the order of the schema."""
    index = [
        f"| [`{one.name}`](#{one.name}) | {_partitions(one)} | {_order(one)} | {one.meaning} |"
        for one in TABLES
    ]
    head = ["| table | partitioned by | files sorted by | holds |", "|---|---|---|---|", *index]
    return "\n\n".join(["## Tables", "\n".join(head), *map(section, TABLES)]) + "\n"


def section(table: Table) -> str:
    """Return one table's heading and its columns."""
    rows = [f"| `{one.name}` | {type_name(one)} | {_cell(one.meaning)} |" for one in table.columns]
    columns = "\n".join(["| column | type | meaning |", "|---|---|---|", *rows])
    return f"### {table.name}\n\n{table.meaning[0].upper()}{table.meaning[1:]}.\n\n{columns}"


def type_name(column: Column) -> str:
    """Return the type in the words of SQL users.

    >>> type_name(Column("k", pa.int64(), ""))
    'int64'
    """
    return _type_name(column.type)


def _type_name(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "timestamp (µs, UTC)"
    if pa.types.is_list(kind):
        return f"list of {_type_name(kind.value_type)}"
    if pa.types.is_map(kind):
        return f"map of {_type_name(kind.key_type)} to {_type_name(kind.item_type)}"
    if pa.types.is_struct(kind):
        return "struct (" + ", ".join(f"{one.name} {_type_name(one.type)}" for one in kind) + ")"
    return str(kind)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _partitions(table: Table) -> str:
    return ", ".join(f"`{name}`" for name in table.partitions) or "–"


def _order(table: Table) -> str:
    return ", ".join(f"`{name}`" for name in table.sorted_by) or "–"


def renewed(readme: str) -> str:
    """Return the README with its dictionary made anew; the prose before the mark stays as it is."""
    prose, _, _ = readme.partition(MARK)
    return f"{prose.rstrip()}\n\n{MARK}\n\n{dictionary()}"


def main() -> int:
    """Write the README; with `--check` only say (exit code 1) that it is out of date."""
    before = README.read_text(encoding="utf-8") if README.exists() else ""
    after = renewed(before)
    if "--check" in sys.argv[1:]:
        print("" if before == after else "lake/README.md is out of date: run python -m lake.dictionary")
        return int(before != after)
    README.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
