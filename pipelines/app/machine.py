"""Checks of the machine: each looks at one thing and says how it is and what to do. Nothing is changed."""

from __future__ import annotations

import asyncio
import ctypes
import importlib.metadata
import os
import resource
import shutil
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
from packaging.requirements import InvalidRequirement, Requirement

import lake
from lake import lease
from lake.errors import LakeError
from lake.layout import Layout
from pipelines import cluster
from pipelines.app.status_cmd import size_words
from pipelines.config import Settings
from pipelines.cycle import policies
from pipelines.failure import Failure
from pipelines.net.dns import DnsError, Resolver

OK, WARN, BAD = "ok", "warn", "FAIL"
PYTHON = (3, 11)
PROBED = "example.org"
"""Looked up to see whether name servers answer: reserved for such uses (RFC 2606)."""

SKEW_MS = 2_000
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CLOCK_UNSYNCHRONISED = 5
"""What adjtimex(2) returns then: TIME_ERROR."""


@dataclass(frozen=True)
class Finding:
    """How one thing is: `state` ok, warn (works, but …) or FAIL; `remedy` is empty where nothing need be done."""

    name: str
    state: str
    what: str
    remedy: str = ""


def checks(*, browser: bool) -> dict[str, Callable[[Settings], Finding]]:
    """Return the checks by name, in the order of telling."""
    found: dict[str, Callable[[Settings], Finding]] = {
        "Python": python, "packages": packages, "lake": place, "disk": disk, "links": links, "memory": memory,
        "files": files, "clock": clock, "port": port, "dashboard": dashboard, "DNS": dns, "TLS": tls, "contact": contact,
    }  # fmt: skip
    return found | ({"browser": chromium} if browser else {})


def python(settings: Settings) -> Finding:
    """The interpreter is new enough."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info >= PYTHON:
        return Finding("Python", OK, f"{version} ({sys.executable})")
    return Finding("Python", BAD, f"{version} is too old", "install Python 3.11 or newer, then make install")


def packages(settings: Settings) -> Finding:
    """Every package that Noria needs is there, in a version that it allows."""
    try:
        wanted = [Requirement(line) for line in importlib.metadata.requires("noria") or ()]
    except (importlib.metadata.PackageNotFoundError, InvalidRequirement) as error:
        return Finding("packages", BAD, f"Noria is not installed here ({error})", "make install")
    mine = [one for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    wrong = [words for one in mine if (words := _unmet(one))]
    if wrong:
        return Finding("packages", BAD, "; ".join(wrong), "make install (it installs conf/requirements.lock)")
    told = ", ".join(
        f"{name} {importlib.metadata.version(name)}"
        for name in ("deltalake", "pyarrow", "distributed", "aiohttp")
    )
    return Finding("packages", OK, f"all {len(mine)} there: {told}, …")


def _unmet(wanted: Requirement) -> str:
    try:
        found = importlib.metadata.version(wanted.name)
    except importlib.metadata.PackageNotFoundError:
        return f"{wanted.name} is missing"
    return (
        ""
        if wanted.specifier.contains(found, prereleases=True)
        else f"{wanted.name} is {found}, wanted {wanted.specifier}"
    )


def place(settings: Settings) -> Finding:
    """The lake can be opened, or made; and who writes to it."""
    path = Path(settings.lake.path).absolute()
    if not Layout(path).meta.exists():
        parent = _existing(path)
        if os.access(parent, os.W_OK):
            return Finding("lake", OK, f"none at {path} yet; noria cycle makes it")
        return Finding(
            "lake",
            BAD,
            f"{parent} cannot be written to",
            "name another folder with --lake, or change its owner",
        )
    try:
        found = lake.open(path)
    except LakeError as error:
        return Finding("lake", BAD, str(error), "noria check names what is damaged")
    if not os.access(path, os.W_OK):
        return Finding("lake", BAD, f"{path} cannot be written to", "change its owner, or run as its owner")
    writer = lease.held_by(Layout(path).lease)
    return Finding(
        "lake", OK, f"{path}, {found.cycle:,} cycles" + (f"; {writer.sentence('it')}" if writer else "")
    )


def disk(settings: Settings) -> Finding:
    """There is room for what a window can bring."""
    parent = _existing(Path(settings.lake.path).absolute())
    free = shutil.disk_usage(parent).free
    told = f"{size_words(free)} free at {parent}"
    if free < 500_000_000:
        return Finding("disk", BAD, told, "free some space, or name another folder with --lake")
    if free < 5_000_000_000:
        return Finding(
            "disk", WARN, f"{told}: a million pages take 5 to 10 GB", "watch it, or set plan.max_bytes"
        )
    return Finding("disk", OK, told)


def links(settings: Settings) -> Finding:
    """The disk knows hard links and can write through: commits and leases rest on both."""
    try:
        with tempfile.TemporaryDirectory(
            dir=_existing(Path(settings.lake.path).absolute()), prefix=".noria-doctor-"
        ) as folder:
            one = Path(folder) / "a"
            with one.open("w") as file:
                os.fsync(file.fileno())
            (Path(folder) / "b").hardlink_to(one)
    except PermissionError as error:
        place = _existing(Path(settings.lake.path).absolute())
        return Finding(
            "links",
            WARN,
            f"not tried: {place} cannot be written to ({error.strerror})",
            "see the finding on it",
        )
    except OSError as error:
        return Finding(
            "links",
            BAD,
            f"the lake's disk refuses hard links or fsync: {error.strerror}",
            "put the lake on a local disk or on NFS",
        )
    return Finding("links", OK, "hard links and fsync work on the lake's disk")


def memory(settings: Settings) -> Finding:
    """There is memory for the workers."""
    count = settings.cluster.workers or len(os.sched_getaffinity(0))
    each = settings.cluster.memory_bytes or psutil.virtual_memory().total // count
    told = f"{size_words(psutil.virtual_memory().available)} available, {count} workers with up to {size_words(each)} each"
    if each < 1_000_000_000:
        return Finding("memory", WARN, told, "fewer workers: --set cluster.workers=1")
    return Finding("memory", OK, told)


def files(settings: Settings) -> Finding:
    """A fetch worker may open a socket for each connection, and some files."""
    need = 2 * settings.fetch.connections + 256
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    told = f"a process may open {soft:,} files, {need:,} are wanted"
    if soft == resource.RLIM_INFINITY or soft >= need:
        return Finding("files", OK, told)
    how = (
        f"ulimit -n {need}"
        if hard == resource.RLIM_INFINITY or hard >= need
        else f"raise nofile to {need} in /etc/security/limits.conf"
    )
    return Finding("files", BAD, told, f"{how}, or lower fetch.connections")


def clock(settings: Settings) -> Finding:
    """The clock is kept right, and the lake's disk has the same: leases compare them."""
    try:
        with tempfile.NamedTemporaryFile(
            dir=_existing(Path(settings.lake.path).absolute()), prefix=".noria-doctor-"
        ) as file:
            skew = abs(Path(file.name).stat().st_mtime_ns // 1_000_000 - time.time_ns() // 1_000_000)
    except OSError as error:
        return Finding(
            "clock", WARN, f"cannot be compared with the disk's: {error.strerror}", "see the line of the lake"
        )
    if skew > SKEW_MS:
        return Finding("clock", BAD, f"the lake's disk is {skew / 1_000:.1f} s off", "set both clocks by NTP")
    if _unsynchronised():
        return Finding(
            "clock",
            WARN,
            "no time service keeps it right",
            "sudo apt install chrony (a cluster needs it, one machine does not)",
        )
    return Finding("clock", OK, "kept by a time service; the lake's disk has the same")


def _unsynchronised() -> bool:
    """Ask the kernel (adjtimex(2), reading only); False where it cannot be asked."""
    try:
        state: int = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(512))
    except (OSError, AttributeError):
        return False
    return state == CLOCK_UNSYNCHRONISED


def port(settings: Settings) -> Finding:
    """The dashboard's port is free."""
    wanted = settings.cluster.dashboard_port
    if settings.cluster.scheduler:
        return Finding("port", OK, "the dashboard is the scheduler's")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError as error:
            return Finding(
                "port",
                WARN,
                f"{wanted} on 127.0.0.1: {error.strerror}; a cycle takes another one",
                "--set cluster.dashboard_port=0 for any free one",
            )
    return Finding("port", OK, f"{wanted or 'any'} on 127.0.0.1 is free for the dashboard")


def dashboard(settings: Settings) -> Finding:
    """A cluster starts (or the named one answers), and the live page can be opened."""
    from pipelines.dashboard import serve  # here, for it brings in Bokeh

    scheduler = settings.cluster.scheduler or None
    try:
        runner = cluster.start(scheduler=scheduler, workers=1, memory_bytes=0, dashboard_port=0, tries=1)
    except (Failure, OSError) as error:
        return Finding(
            "dashboard", BAD, f"no cluster: {error}", "mend that; noria doctor --debug shows where"
        )
    try:
        told = list(
            serve.links(runner.dashboard or "", runner.serve, _existing(Path(settings.lake.path).absolute()))
        )
    finally:
        runner.close()
    if len(told) == 1:
        return Finding(
            "dashboard", WARN, told[0], "cycles run without it; open the port, or use noria status --watch"
        )
    where = scheduler or "a cluster on this machine"
    return Finding("dashboard", OK, f"{where} started, and its page /crawl was opened")


def dns(settings: Settings) -> Finding:
    """Name servers answer."""
    if settings.loopback_only:
        return Finding("DNS", OK, "not needed: these settings reach this machine only")
    try:
        address = asyncio.run(_look_up(settings))
    except DnsError as error:
        return Finding(
            "DNS",
            WARN,
            f"{PROBED}: {error}",
            "the real web needs it: see /etc/resolv.conf, or set dns.servers",
        )
    return Finding("DNS", OK, f"{PROBED} is at {address}")


async def _look_up(settings: Settings) -> str:
    resolver = Resolver(policies.dns_policy(settings))
    try:
        return (await resolver.resolve(PROBED)).addresses[0]
    finally:
        await resolver.close()


def tls(settings: Settings) -> Finding:
    """There are root certificates."""
    paths = ssl.get_default_verify_paths()
    count = len(ssl.create_default_context().get_ca_certs())
    folder = Path(paths.capath) if paths.capath else None
    if count or (folder and folder.is_dir() and any(folder.iterdir())):
        return Finding("TLS", OK, f"{count or 'some'} root certificates")
    return Finding(
        "TLS", BAD, "no root certificates: no https page could be fetched", "sudo apt install ca-certificates"
    )


def contact(settings: Settings) -> Finding:
    """Somebody answers for the crawl."""
    if settings.identity.contact:
        return Finding("contact", OK, settings.user_agent)
    return Finding(
        "contact",
        WARN,
        "identity.contact is empty: the real web is refused, the toy web is not",
        "--set identity.contact=you@example.org, or in a --conf file",
    )


def chromium(settings: Settings) -> Finding:
    """A browser for the tests of the pages."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found:
        return Finding("browser", OK, found)
    return Finding(
        "browser", WARN, "no Chromium: the tests of the pages are skipped", "sudo apt install chromium"
    )


def _existing(path: Path) -> Path:
    return next(one for one in (path, *path.parents) if one.is_dir())


def found(settings: Settings, *, browser: bool) -> Iterator[Finding]:
    """Run the checks, one after the other."""
    for check in checks(browser=browser).values():
        yield check(settings)
