"""The time-outs of one exchange."""

from __future__ import annotations

import asyncio
from typing import Protocol

from pipelines.net.answer import AnswerReader
from pipelines.net.connect import WireProtocol


class Limits(Protocol):
    """What a watch reads of the fetch policy, ms."""

    @property
    def first_byte_ms(self) -> int: ...
    @property
    def idle_ms(self) -> int: ...
    @property
    def total_ms(self) -> int: ...


class Watch:
    """One timer, that looks when it fires whether it is really too late; an answer in time costs no more.

    It begins when it is made. The complete head is waited for `first_byte_ms`, each next byte of the body
    `idle_ms`, the whole `total_ms`.
    """

    __slots__ = ("_begun", "_handle", "_loop", "_policy", "_protocol", "_reader")

    def __init__(self, protocol: WireProtocol, reader: AnswerReader, policy: Limits) -> None:
        self._protocol, self._reader, self._policy = protocol, reader, policy
        self._loop = asyncio.get_running_loop()
        self._begun = self._loop.time()
        self._handle = self._loop.call_at(self._soon(self._next()[0]), self._look)

    def _soon(self, due: float) -> float:
        """Return when to look: no later than `idle_ms` from now, as the head may come and silence follow it."""
        return min(due, self._loop.time() + self._policy.idle_ms / 1_000)

    def _next(self) -> tuple[float, str]:
        total = (self._begun + self._policy.total_ms / 1_000, "total")
        if self._reader.head is None:
            return min(total, (self._begun + self._policy.first_byte_ms / 1_000, "first_byte"))
        return min(total, (self._protocol.last_byte + self._policy.idle_ms / 1_000, "idle"))

    def _look(self) -> None:
        due, which = self._next()
        if self._loop.time() >= due - 0.001:
            self._protocol.give_up(which)
        else:
            self._handle = self._loop.call_at(self._soon(due), self._look)

    def stop(self) -> None:
        """Stop watching."""
        self._handle.cancel()
