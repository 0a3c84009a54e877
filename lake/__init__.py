"""The lake: Delta tables, sorted runs and commits. Knows nothing of crawling (`lake/README.md`)."""

from __future__ import annotations

from lake.errors import LakeError
from lake.snapshot import Lake, create, open, open_or_create

__all__ = ["Lake", "LakeError", "create", "open", "open_or_create"]
