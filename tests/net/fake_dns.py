"""A name server on loopback that answers by a table: the Internet's DNS with its faults, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

SILENCE = "SILENCE"
Reply = str | Sequence[str]
"""What one question gets: 'NXDOMAIN', 'SERVFAIL', 'REFUSED', 'NODATA', SILENCE, or lines of records
('300 A 127.0.0.1', '60 CNAME other.test.'), each with its TTL in seconds."""


@dataclass
class FakeDns:
    """Replies by 'name TYPE': one for all questions, or a list that is gone through and ends with its last.

    What is not in the table: NODATA where the name has another type, else NXDOMAIN.
    """

    table: Mapping[str, list[Reply]]
    questions: list[str] = field(default_factory=list)

    async def __aenter__(self) -> FakeDns:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: _Wire(self), ("127.0.0.1", 0))
        self.server = "127.0.0.1:{}".format(self._transport.get_extra_info("sockname")[1])
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._transport.close()

    def answer(self, raw: bytes) -> bytes | None:
        """Return the reply to a question, None for silence."""
        message = dns.message.from_wire(raw)
        question = message.question[0]
        asked = f"{question.name.to_text(True).lower()} {dns.rdatatype.to_text(question.rdtype)}"
        replies = self.table.get(asked, [self._absent(asked)])
        reply = replies[min(self.questions.count(asked), len(replies) - 1)]
        self.questions.append(asked)
        if reply == SILENCE:
            return None
        response = dns.message.make_response(message, recursion_available=True)
        if reply in ("NXDOMAIN", "SERVFAIL", "REFUSED"):
            response.set_rcode(dns.rcode.from_text(str(reply)))
        elif reply == "NODATA":
            response.authority.append(dns.rrset.from_text("test.", 0, "IN", "SOA", "a. b. 1 1 1 1 0"))
        else:
            _add(response, question.name.to_text(), reply)
        return response.to_wire()

    def _absent(self, asked: str) -> Reply:
        name = asked.partition(" ")[0]
        return "NODATA" if any(key.startswith(f"{name} ") for key in self.table) else "NXDOMAIN"


def _add(response: dns.message.Message, name: str, records: Sequence[str]) -> None:
    for record in records:
        ttl, kind, data = record.split()
        response.answer.append(dns.rrset.from_text(name, int(ttl), "IN", kind, data))
        name = data if kind == "CNAME" else name


class _Wire(asyncio.DatagramProtocol):
    def __init__(self, server: FakeDns) -> None:
        self._server = server

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        answer = self._server.answer(data)
        if answer is not None:
            self._transport.sendto(answer, addr)
