"""TLS: a certificate that fails is an outcome, a handshake that fails is another, neither is a crash."""

from __future__ import annotations

import datetime
import ipaddress
import re
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pipelines.net.dns import DnsPolicy
from pipelines.net.http import Exchange, Fetcher, FetchPolicy
from pipelines.net.loop import FetchLoop
from pipelines.rules.addresses import AddressPolicy
from pipelines.rules.outcome import Outcome
from tests.net.raw_server import RawServer, Script

POLICY = FetchPolicy(
    connect_ms=2_000, first_byte_ms=1_000, total_ms=2_000, addresses=AddressPolicy(("127.0.0.0/8",))
)
NAMES = DnsPolicy(static={"*.test": "127.0.0.1"})
PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplums"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the files of a self-signed certificate for www.test and 127.0.0.1, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "www.test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.DNSName("www.test"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            ),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return folder / "cert.pem", folder / "key.pem"


def fetch(
    certificate: tuple[Path, Path], host: str, policy: FetchPolicy, answer: bytes | Script = PAGE
) -> Exchange:
    async def main() -> Exchange:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*certificate)
        async with RawServer({"GET /x": answer}, tls=context) as server, Fetcher(policy, NAMES) as fetcher:
            return await fetcher.fetch(server.url("/x", host=host))

    return uvloop.run(main(), loop_factory=FetchLoop)


def test_a_certificate_that_nobody_vouches_for_is_an_outcome(certificate: tuple[Path, Path]) -> None:
    exchange = fetch(certificate, "www.test", POLICY)
    assert (exchange.outcome, exchange.request_head) == (Outcome.TLS_CERTIFICATE, b"")
    assert exchange.error and re.fullmatch(r"www\.test:\d+: self-signed certificate", exchange.error)


def test_a_certificate_for_another_name_is_an_outcome(certificate: tuple[Path, Path]) -> None:
    exchange = fetch(certificate, "other.test", replace(POLICY, ca_file=certificate[0]))
    assert exchange.outcome is Outcome.TLS_CERTIFICATE
    assert exchange.error and exchange.error.endswith("not valid for 'other.test'."), exchange.error


@pytest.mark.parametrize("host", ["www.test", "www.test.", "127.0.0.1"])
def test_a_certificate_that_is_trusted_is_served(certificate: tuple[Path, Path], host: str) -> None:
    exchange = fetch(certificate, host, replace(POLICY, ca_file=certificate[0]))
    assert (exchange.outcome, exchange.body) == (Outcome.OK, b"plums"), exchange.error
    assert b"Host: %s:" % host.rstrip(".").encode() in exchange.request_head


def test_a_tls_connection_is_kept_and_used_again(certificate: tuple[Path, Path]) -> None:
    async def main() -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*certificate)
        policy = replace(POLICY, ca_file=certificate[0])
        routes = {"GET /x": Script((PAGE,), "keep")}
        async with RawServer(routes, tls=context) as server, Fetcher(policy, NAMES) as fetcher:
            reused = [(await fetcher.fetch(server.url("/x", host="www.test"))).reused for _ in range(3)]
            assert (reused, server.connections) == ([False, True, True], 1)

    uvloop.run(main(), loop_factory=FetchLoop)


def test_verification_can_be_switched_off(certificate: tuple[Path, Path]) -> None:
    assert fetch(certificate, "other.test", replace(POLICY, verify_tls=False)).outcome is Outcome.OK


def test_a_body_to_the_close_is_whole_over_tls(certificate: tuple[Path, Path]) -> None:
    exchange = fetch(
        certificate, "x.test", replace(POLICY, verify_tls=False), b"HTTP/1.1 200 OK\r\n\r\nplums"
    )
    assert (exchange.outcome, exchange.truncated, exchange.body) == (Outcome.OK, None, b"plums")


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-x\r\n", b""])
def test_a_server_that_speaks_no_tls_is_an_outcome(greeting: bytes) -> None:
    async def main() -> Exchange:
        async with RawServer({}, greeting=greeting) as server, Fetcher(POLICY, NAMES) as fetcher:
            return await fetcher.fetch(server.url("/x", host="www.test").replace("http:", "https:"))

    exchange = uvloop.run(main(), loop_factory=FetchLoop)
    assert exchange.outcome is Outcome.TLS_HANDSHAKE, exchange.error
    assert exchange.error and re.fullmatch(r"www\.test:\d+: [a-z0-9 ]+", exchange.error), exchange.error


def test_a_server_that_says_nothing_in_the_handshake_is_a_timeout() -> None:
    async def main() -> Exchange:
        policy = replace(POLICY, connect_ms=200)
        async with RawServer({}, silent=True) as server, Fetcher(policy, NAMES) as fetcher:
            return await fetcher.fetch(server.url("/x", host="www.test").replace("http:", "https:"))

    exchange = uvloop.run(main(), loop_factory=FetchLoop)
    assert exchange.outcome is Outcome.CONNECT_TIMEOUT, exchange.error
