"""Export: rows of a lake as Parquet, CSV or JSON lines, its records as WARC or WACZ."""
