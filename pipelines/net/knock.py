"""One knock at one port of one address: is there a web server, what does it call itself, what names has its certificate?"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass

from pipelines.rules.certificates import names_of

HEAD_BYTES = 16_384
TLS_PORTS = frozenset({443, 4443, 8443, 9443})


@dataclass(frozen=True)
class Knock:
    """What came of a knock. status: None if no HTTP answer came. names: of the certificate, as they stand in it."""

    address: str
    port: int
    tls: bool
    status: int | None = None
    server: str | None = None
    location: str | None = None
    names: tuple[str, ...] = ()
    error: str | None = None

    @property
    def is_server(self) -> bool:
        """Whether something answered as a web server does."""
        return self.status is not None or bool(self.names)


def _context() -> ssl.SSLContext:
    """TLS that verifies nothing: the certificate is what is looked for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def knock(address: str, port: int, *, user_agent: str, timeout_ms: int) -> Knock:
    """Connect once, ask for the head of /robots.txt (which every robot may ask for), and hang up. Never raises for it."""
    tls = port in TLS_PORTS
    try:
        async with asyncio.timeout(timeout_ms / 1_000):
            reader, writer = await asyncio.open_connection(
                address, port, ssl=_context() if tls else None, limit=HEAD_BYTES
            )
            try:
                names = _names(writer) if tls else ()
                head = await _head(reader, writer, address, user_agent)
            finally:
                writer.close()
    except TimeoutError:
        return Knock(address, port, tls, error="timeout")
    except (OSError, ssl.SSLError) as error:
        return Knock(address, port, tls, error=str(error)[:200])
    status, fields = _read(head)
    return Knock(address, port, tls, status, fields.get("server"), fields.get("location"), names)


def _names(writer: asyncio.StreamWriter) -> tuple[str, ...]:
    tls: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
    der = tls.getpeercert(binary_form=True) if tls else None
    return names_of(der) if der else ()


async def _head(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str, user_agent: str
) -> bytes:
    host = f"[{address}]" if ":" in address else address
    request = (
        f"HEAD /robots.txt HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {user_agent}\r\nConnection: close\r\n\r\n"
    )
    writer.write(request.encode("latin-1", "replace"))
    await writer.drain()
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        return error.partial
    except asyncio.LimitOverrunError:
        return await reader.read(HEAD_BYTES)


def _read(head: bytes) -> tuple[int | None, dict[str, str]]:
    """Return status and fields (lower-case names, values of at most 500 characters) of an answer's head."""
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    if not version.startswith("HTTP/") or not rest[:3].isdecimal():
        return None, {}
    pairs = (line.partition(":") for line in lines if ":" in line)
    return int(rest[:3]), {name.strip().lower(): value.strip()[:500] for name, _, value in pairs}
