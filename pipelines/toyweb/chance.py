"""The toy web's only source of chance: hashes of what is drawn for, so that everything can be drawn again."""

from __future__ import annotations

import xxhash


def draw(*parts: object) -> int:
    """Return 64 bits that depend on the parts alone."""
    return xxhash.xxh3_64_intdigest("\x1f".join(map(str, parts)).encode())


def share(*parts: object) -> float:
    """Return a number in [0, 1) that depends on the parts alone."""
    return draw(*parts) / 2**64
