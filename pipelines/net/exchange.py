"""One request and what came of it: the value that the network hands to everything else."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipelines.rules.outcome import Outcome


@dataclass(slots=True)
class Exchange:
    """One request and its answer, or the reason why there is none.

    Bytes are as they were on the wire: `request_head` as sent, `response_head` as received, each to its
    blank line (the final answer's head only: interim 1xx answers are dropped). `body` is the entity with
    the transfer coding removed and the content coding kept.
    """

    url: str  # as it was given to the fetcher
    method: str = "GET"
    status: int | None = None  # None: no answer head came
    reason: str = ""
    request_head: bytes = b""  # empty: nothing was sent
    response_head: bytes = b""
    headers: list[tuple[str, str]] = field(default_factory=list)  # in order, names as spelt, Latin-1 text
    body: bytes = b""
    truncated: str | None = None  # 'length' (over our limit), 'time', 'disconnect'; None = whole
    outcome: Outcome = Outcome.DISCONNECTED
    error: str | None = None  # a sentence for people; also set where dirt in the answer was forgiven
    address: str | None = None  # the address connected to, without port
    started_ms: int = 0  # epoch, when the request was written (or given up before that)
    first_byte_ms: int | None = None  # from the writing of the request to the first byte of the answer
    total_ms: int = 0  # from the writing of the request to the end; 0 where nothing was written
    wire_bytes: int = 0  # received, heads and chunk framing included, TLS removed
    connect_ms: int = 0  # DNS, connecting and TLS, before the request; 0 = kept connection
    reused: bool = False  # sent on a kept connection
    protocol: str = "http/1.1"  # of the answer: http/1.1, http/1.0 or http/0.9
    _first: tuple[list[tuple[str, str]], dict[str, str]] | None = field(
        default=None, repr=False, compare=False
    )

    def header(self, name: str) -> str | None:
        """Return the first header of that name (any case), or None."""
        if self._first is None or self._first[0] is not self.headers:
            self._first = self.headers, {key.lower(): value for key, value in reversed(self.headers)}
        return self._first[1].get(name.lower())

    def header_all(self, name: str) -> list[str]:
        """Return every value of that header in order of arrival."""
        wanted = name.lower()
        return [value for key, value in self.headers if key.lower() == wanted]
