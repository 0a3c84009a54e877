"""Where a URL comes from: the words of the column `source`."""

from __future__ import annotations

SEEDS = ("seed", "api")
"""Somebody asked for the URL: it is worth more, and never given up."""
