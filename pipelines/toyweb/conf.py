"""The configuration that a crawler needs to reach a toy web: its names, its addresses, and who crawls."""

from __future__ import annotations

import json
from pathlib import Path

from pipelines.toyweb.truth import ToyWeb

CONTACT = "https://example.org/noria-toy-web"
NETWORK = "127.20.0.0/15"
"""The network of all toy hosts; the rest of loopback stays refused, so that redirects into it can be tested."""


def crawler_conf(web: ToyWeb, *, contact: str = CONTACT) -> str:
    """Return TOML with [identity], [dns.static] and [security].

    A host whose name is not to resolve is in no table: who looks it up asks a name server, which knows no `.test`.
    """
    names = "\n".join(f"{json.dumps(name)} = {json.dumps(address)}" for name, address in web.names().items())
    return (
        "# Made for one toy web: a crawl with it reaches nothing outside this machine.\n"
        f"[identity]\ncontact = {json.dumps(contact)}\n\n"
        f"[security]\nallow_addresses = [{json.dumps(NETWORK)}]\n\n"
        f"[dns.static]\n{names}\n"
    )


def write_conf(path: Path, web: ToyWeb, *, contact: str = CONTACT) -> None:
    """Write that TOML to a file."""
    path.write_text(crawler_conf(web, contact=contact), encoding="utf-8")
