"""Fetching over HTTP (first step: the value it returns)."""

from pipelines.net.exchange import Exchange

__all__ = ["Exchange"]
