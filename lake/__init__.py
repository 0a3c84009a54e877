"""The lake: Delta tables, sorted runs, the ledger, and how a cycle is committed."""
