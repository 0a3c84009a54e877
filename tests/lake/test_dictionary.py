"""lake/README.md says of every column what the schemas say."""

from __future__ import annotations

from lake import dictionary
from lake.schema import TABLES


def test_the_readme_is_what_the_schemas_make() -> None:
    readme = dictionary.README.read_text(encoding="utf-8")
    assert readme == dictionary.renewed(readme), "run: python -m lake.dictionary"


def test_every_column_of_every_table_has_a_row_with_type_and_meaning() -> None:
    text = dictionary.README.read_text(encoding="utf-8")
    for table in TABLES:
        part = text.split(f"\n### {table.name}\n")[1].split("\n### ")[0]
        for column in table.columns:
            assert f"| `{column.name}` | {dictionary.type_name(column)} | {column.meaning}" in part
    assert all(column.meaning for table in TABLES for column in table.columns)
