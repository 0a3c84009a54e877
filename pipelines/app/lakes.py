"""The lake that a command works on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import lake
from lake import lease
from lake.layout import Layout
from pipelines.failure import Failure, Misuse

if TYPE_CHECKING:
    from pipelines.config import Settings


def place(settings: Settings, *, make: bool) -> lake.Lake:
    """Return the lake of the settings; with `make`, one is made where there is none.

    A lake keeps its buckets: lake.buckets counts when it is made, and where somebody sets it to another number
    for a lake that exists, that is a Misuse.
    """
    path = Path(settings.lake.path)
    if make and not Layout(path.absolute()).meta.exists():
        return lake.open_or_create(path, buckets=settings.lake.buckets)
    found = lake.open(path)
    origin = settings.origins.get("lake.buckets")
    if origin and settings.lake.buckets != found.buckets:
        raise Misuse(
            f"{origin}: lake.buckets = {settings.lake.buckets}, but {path} was made with {found.buckets} and keeps them; "
            f"leave the setting out, set it to {found.buckets}, or name another lake"
        )
    return found


def refuse_busy(path: Path) -> None:
    """Raise Failure, naming who it is and until when, if a cycle writes to the lake just now."""
    layout = Layout(path.absolute())
    holder = lease.held_by(layout.lease) if layout.meta.exists() else None
    if holder is not None:
        raise Failure(f"another cycle writes to {path}: {holder.sentence('the lake')}")
