"""A scan touches only what is listed, never an address twice at once, and keeps how each host was found."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lake
from lake import inbox
from pipelines import config
from pipelines.failure import Misuse
from pipelines.net import knock as knocking
from pipelines.rules.certificates import names_of
from pipelines.seeds import scan as scanning

HOUR = dt.timedelta(hours=1)


def policy(ports: str = "80,443", networks: str = '["127.77.0.0/24"]', **more: str) -> scanning.ScanPolicy:
    overrides = {"security.scan_networks": networks, "fetch.connect_ms": "1000"}
    settings = config.load(
        [], environ={}, overrides=overrides | {f"security.{name}": value for name, value in more.items()}
    )
    return scanning.policy_of(settings, ports)


@contextmanager
def serving(
    address: str, answer: bytes, context: ssl.SSLContext | None = None
) -> Iterator[tuple[int, list[bytes]]]:
    """Serve one fixed answer on a port of an address; yields the port and the requests that came."""
    requests: list[bytes] = []
    loop = asyncio.new_event_loop()
    started = threading.Event()
    ports: list[int] = []

    async def on_connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        await writer.drain()
        writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(on_connect, address, 0, ssl=context)
        ports.append(server.sockets[0].getsockname()[1])
        started.set()

    def run() -> None:
        loop.run_until_complete(serve())
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    started.wait(5)
    try:
        yield ports[0], requests
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)


def certificate(folder: Path, names: list[str], *, critical: bool = False) -> tuple[ssl.SSLContext, bytes]:
    """Return a server's TLS context with a certificate for some names, and the certificate's bytes."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "common.example")])
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - HOUR).not_valid_after(now + HOUR)
    )  # fmt: skip
    if names:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical
        )
    made = builder.sign(key, hashes.SHA256())
    pem = folder / "cert.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pem.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    return context, made.public_bytes(serialization.Encoding.DER)


def test_without_a_list_nothing_is_scanned() -> None:
    with pytest.raises(Misuse, match="scanning is off"):
        scanning.allowed(["127.0.0.1/32"], policy(networks="[]"))


@pytest.mark.parametrize(
    "text", ["127.78.0.0/24", "127.77.0.0/23", "0.0.0.0/0", "::1/128", "8.8.8.8", "rubbish"]
)
def test_a_network_that_is_not_wholly_listed_is_refused(text: str) -> None:
    with pytest.raises(Misuse):
        scanning.allowed([text], policy())


def test_a_part_of_a_listed_network_is_allowed() -> None:
    assert scanning.allowed(["127.77.0.8/30", "127.77.0.1"], policy()) == [
        ipaddress.ip_network("127.77.0.8/30"), ipaddress.ip_network("127.77.0.1/32"),
    ]  # fmt: skip


@pytest.mark.parametrize("ports", ["", "0", "65536", "80;443", "http"])
def test_a_port_that_is_none_is_refused(ports: str) -> None:
    with pytest.raises(Misuse):
        policy(ports)


def test_a_server_becomes_a_candidate_with_its_provenance(tmp_path: Path) -> None:
    root = lake.create(tmp_path / "lake", buckets=8).root
    answer = b"HTTP/1.1 301 Moved\r\nServer: toy/1\r\nLocation: http://www.named.example:8080/x\r\n\r\n"
    told: list[str] = []
    with serving("127.77.0.5", answer) as (port, requests):
        found = scanning.scan(
            root, scanning.allowed(["127.77.0.4/30"], policy()), policy(str(port)), tell=told.append
        )
    assert (found.addresses, found.connections, found.servers, found.hosts) == (2, 2, 1, 1)
    assert requests[0].startswith(b"HEAD /robots.txt HTTP/1.1\r\n") and b"User-Agent: Noria/" in requests[0]
    [row] = inbox.read(root, inbox.pending(root)).to_pylist()
    assert (row["url"], row["source"]) == ("http://www.named.example:8080/", "scan")
    scan = json.loads(row["meta"])["scan"]
    assert (scan["address"], scan["port"], scan["server"], scan["named_by"]) == (
        "127.77.0.5",
        port,
        "toy/1",
        "location",
    )
    assert len(told) == 1


def test_the_names_of_a_certificate_become_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = lake.create(tmp_path / "lake", buckets=8).root
    context, _ = certificate(tmp_path, ["one.example", "*.two.example"])
    with serving("127.77.0.9", b"HTTP/1.1 404 No\r\n\r\n", context) as (port, _requests):
        monkeypatch.setattr(knocking, "TLS_PORTS", frozenset({port}))
        scanning.scan(
            root, scanning.allowed(["127.77.0.9"], policy()), policy(str(port)), tell=lambda text: None
        )
    rows = inbox.read(root, inbox.pending(root)).to_pylist()
    assert [row["url"] for row in rows] == [f"https://one.example:{port}/", f"https://two.example:{port}/"]


def test_what_answers_but_is_no_web_server_is_no_candidate(tmp_path: Path) -> None:
    root = lake.create(tmp_path / "lake", buckets=8).root
    with serving("127.77.0.6", b"SSH-2.0-toy\r\n\r\n") as (port, _):
        found = scanning.scan(
            root, scanning.allowed(["127.77.0.6"], policy()), policy(str(port)), tell=lambda text: None
        )
    assert (found.connections, found.servers) == (1, 0)
    assert inbox.pending(root) == []


def test_connections_keep_to_their_rate_and_one_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[float] = []
    open_now: set[str] = set()

    async def fake(address: str, port: int, *, user_agent: str, timeout_ms: int) -> knocking.Knock:
        assert address not in open_now
        open_now.add(address)
        began.append(time.monotonic())
        await asyncio.sleep(0.05)
        open_now.remove(address)
        return knocking.Knock(address, port, False, error="nobody")

    monkeypatch.setattr(scanning, "knock", fake)
    root = lake.create(tmp_path / "lake", buckets=8).root
    slow = replace(policy("80,443,8080"), per_second=100.0)
    found = scanning.scan(root, scanning.allowed(["127.77.0.0/28"], slow), slow, tell=lambda text: None)
    assert found.connections == len(began) == 14 * 3
    assert began[-1] - began[0] >= 0.95 * 41 / 100
    assert min(after - before for before, after in pairwise(began)) > 0.009


@pytest.mark.parametrize("critical", [False, True])
def test_certificate_names_are_those_that_cryptography_sees(tmp_path: Path, critical: bool) -> None:
    names = [f"h{at}.example" for at in range(40)] + ["*.star.example", "xn--bcher-kva.example"]
    assert names_of(certificate(tmp_path, names, critical=critical)[1]) == tuple(names)
    assert names_of(certificate(tmp_path, [])[1]) == ("common.example",)


@given(st.binary(max_size=400), st.integers(0, 400))
def test_no_bytes_make_reading_a_certificate_fail(data: bytes, at: int) -> None:
    names_of(data[:at] + bytes.fromhex("0603551d11") + data[at:])


def test_a_closed_port_is_an_answer_not_a_failure() -> None:
    with socket.socket() as free:
        free.bind(("127.77.0.7", 0))
        port = free.getsockname()[1]
    found = asyncio.run(knocking.knock("127.77.0.7", port, user_agent="x", timeout_ms=500))
    assert not found.is_server and found.error
