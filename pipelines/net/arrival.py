"""When the bytes of a connection were sent and came, by the kernel's word: a busy loop hears of them late.

A loop that reads pages looks at its sockets every few ms, with thousands of them later still. To call that lateness
the server's would slow us down for no reason: the pause between requests is ten times the time to the first byte.
"""

from __future__ import annotations

import socket
import struct
from typing import Final, Protocol

_TCP_INFO: Final = getattr(socket, "TCP_INFO", None)  # Linux only
_SENT_AND_CAME: Final = struct.Struct("=44xI4xI")
"""tcpi_last_data_sent and tcpi_last_data_recv of struct tcp_info (linux/tcp.h), ms ago."""


class HasOptions(Protocol):
    """What is asked of a socket."""

    def getsockopt(self, level: int, name: int, size: int, /) -> bytes: ...


TICK_MS: Final = 10
"""The kernel counts in ticks of 1 to 10 ms (CONFIG_HZ), so that the span between two of its ages may be so much short."""


def ages_ms(sock: HasOptions | None) -> tuple[int, int] | None:
    """Return how long ago data was last sent and last came, in ms; None where the system does not tell."""
    if sock is None or _TCP_INFO is None:
        return None
    try:
        told = sock.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _SENT_AND_CAME.size)
    except OSError:  # closed meanwhile, or no TCP
        return None
    return _SENT_AND_CAME.unpack(told) if len(told) == _SENT_AND_CAME.size else None


def waited_ms(ages: tuple[int, int] | None, *, written_ms: int, noted_ms: int) -> int:
    """Return the ms from a request to its answer: by the kernel's `ages` at `noted_ms`, never more than we saw.

    Rather a tick more than less: a pause is a multiple of it.

    written_ms, noted_ms: when the loop wrote the request, and when it heard of the answer (one monotonic clock).

    >>> waited_ms(None, written_ms=1_000, noted_ms=1_400)
    400
    >>> waited_ms((390, 350), written_ms=1_000, noted_ms=1_400)
    50
    """
    seen = max(noted_ms - written_ms, 0)
    if ages is None:
        return seen
    sent, came = ages
    return min(max(min(sent, seen) - came, 0) + TICK_MS, seen)
