"""The head of a request, as bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

STANDARD = (
    ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
    ("Accept-Encoding", "gzip"),  # what every tool that reads WARC files decodes
    ("Connection", "keep-alive"),
)
HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110, 5.6.2
HEADER_VALUE_STOP = re.compile(r"[\r\n\0]")


class RequestHeads:
    """Writes request heads for one user agent."""

    def __init__(self, user_agent: str) -> None:
        self._pairs = (("User-Agent", user_agent), *STANDARD)
        self._standard = b"".join(line for _, line in _lines(self._pairs))

    def head(self, method: str, target: bytes, host: bytes, headers: Mapping[str, str]) -> bytes:
        """Return a head up to its blank line.

        headers: added verbatim, in the place of ours of the same name. One that could not stand in a
        request (a name that is no token, a value with a line end or NUL) is left out.
        """
        start = b"%s %s HTTP/1.1\r\nHost: %s\r\n" % (method.encode("ascii"), target, host)
        if not headers:
            return start + self._standard + b"\r\n"
        given = _lines(headers.items())
        names = {name for name, _ in given}
        lines = [line for name, line in _lines(self._pairs) if name not in names]
        return start + b"".join([*lines, *(line for _, line in given)]) + b"\r\n"


def _lines(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, bytes]]:
    """Return (lower-case name, header line) for each pair that can stand in a request."""
    return [
        (name.lower(), f"{name}: {value}\r\n".encode("latin-1", "replace"))
        for name, value in pairs
        if HEADER_NAME.fullmatch(name) and not HEADER_VALUE_STOP.search(value)
    ]
