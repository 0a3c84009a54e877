"""Leases: one writer a lake, one fetcher a partition. A file per epoch; who makes the next epoch has it.

A lease named `writer` is the files `writer.e00000001`, `writer.e00000002`, …: the highest is in force. A
taker makes the next one by put-if-absent, so of two takers one wins. The holder renews by replacing its
own file and then looks for a higher one. It must also watch `check` before each act: it says False when
half the lease has passed without a renewal, long before anyone else may take it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import re
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from lake.errors import DiskFull, LeaseHeld, LeaseLost
from lake.files import put_if_absent, replace_fast

SECONDS = 45
"""Default length: longer than the 30 s after which Dask gives up a silent worker, with slack."""

Clock = Callable[[], int]


def system_clock() -> int:
    """Return ms since 1970."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class Holder:
    """Who holds a lease: enough to name it to a person, and to prove its death on the same machine."""

    holder: str
    host: str
    pid: int
    boot: str
    pid_space: str
    started: int
    since_ms: int
    expires_ms: int

    def provably_dead(self) -> bool:
        """Whether the process is gone for certain: same boot, same process table, no such process.

        A stopped (SIGSTOP) or hung process is alive. Another machine, a reboot or a container of its own
        proves nothing: then the expiry counts.
        """
        if not self.boot or (self.boot, self.pid_space) != (_boot(), _pid_space()):
            return False
        return _started(self.pid) != self.started

    def sentence(self, name: str) -> str:
        """Say who holds it, since when and until when."""
        return (
            f"{name} is held by {self.holder} (host {self.host}, process {self.pid}) since {_text(self.since_ms)} "
            f"until {_text(self.expires_ms)}; wait for it to end, or stop it"
        )


class Lease:
    """A lease that is held. Not thread-safe: one owner renews it; `check` may be called from anywhere."""

    def __init__(self, path: Path, epoch: int, me: Holder, seconds: int, clock: Clock) -> None:
        self.path = path
        self.epoch = epoch
        self.seconds = seconds
        self._me = me
        self._clock = clock
        self._renewed_ms = me.expires_ms - seconds * 1000
        self._lost = False

    @classmethod
    def acquire(
        cls, path: Path | str, *, holder: str, seconds: int = SECONDS, now: Clock = system_clock
    ) -> Lease:
        """Take the lease, or raise LeaseHeld that names the holder; its `until_ms` says when to try again."""
        base = Path(path)
        now_ms = now()
        epoch = _highest(base)
        held = _read(_file(base, epoch), now_ms) if epoch else None
        if held is not None and held.expires_ms > now_ms and not held.provably_dead():
            raise LeaseHeld(held.sentence(_name(base)), until_ms=held.expires_ms)
        me = _describe(holder, now_ms, now_ms + seconds * 1000)
        if not put_if_absent(_file(base, epoch + 1), _bytes(me)):
            raise _lost_race(base, now_ms)
        if _highest(base) > epoch + 1:  # we slept while later epochs came, and the file of ours was swept
            _file(base, epoch + 1).unlink(missing_ok=True)
            raise _lost_race(base, now_ms)
        _sweep(base, epoch + 1)
        return cls(base, epoch + 1, me, seconds, now)

    @property
    def expires_ms(self) -> int:
        """Until when nobody else may take it, ms since 1970; each renewal moves it."""
        return self._me.expires_ms

    @property
    def holder(self) -> str:
        """The name under which it is held."""
        return self._me.holder

    def check(self, now_ms: int) -> bool:
        """Say whether the holder may still act at `now_ms`: renewed less than half a lease ago. No I/O."""
        return not self._lost and abs(now_ms - self._renewed_ms) * 2 < self.seconds * 1000

    def alive(self, now_ms: int) -> bool:
        """The same as `check`, for code that reads better so."""
        return self.check(now_ms)

    def renew(self) -> None:
        """Hold it for `seconds` more from now; raises LeaseLost if it had run out or was taken."""
        now_ms = self._clock()
        if self._lost or now_ms >= self.expires_ms or _highest(self.path) != self.epoch:
            raise self._gone()
        me = Holder(**{**asdict(self._me), "expires_ms": now_ms + self.seconds * 1000})
        replace_fast(_file(self.path, self.epoch), _bytes(me))
        if _highest(self.path) != self.epoch:  # taken while we wrote: the higher epoch counts
            raise self._gone()
        self._me, self._renewed_ms = me, now_ms

    def release(self) -> None:
        """Give it back, so that the next taker need not wait. Harmless when it is lost already.

        Where that cannot be written (a full disk), it runs out by itself, or ends with the process.
        """
        if not self._lost and _highest(self.path) == self.epoch:
            free = Holder(**{**asdict(self._me), "expires_ms": 0})
            with contextlib.suppress(OSError, DiskFull):
                replace_fast(_file(self.path, self.epoch), _bytes(free))
        self._lost = True

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _gone(self) -> LeaseLost:
        self._lost = True
        return LeaseLost(
            f"{_name(self.path)}: held by {self.holder} until {_text(self.expires_ms)}, not renewed in time "
            "or taken by another; nothing more may be done under it, run again"
        )


def held_by(path: Path | str, *, now: Clock = system_clock) -> Holder | None:
    """Return who holds a lease now, None if it is free: for status and messages."""
    base = Path(path)
    epoch = _highest(base)
    held = _read(_file(base, epoch), now()) if epoch else None
    if held is None or held.expires_ms <= now() or held.provably_dead():
        return None
    return held


def _lost_race(base: Path, now_ms: int) -> LeaseHeld:
    """Another taker made the epoch first: say who."""
    held = _read(_file(base, _highest(base)), now_ms)
    if held is None or held.expires_ms <= now_ms:
        return LeaseHeld(f"{_name(base)} was taken and given back just now; try again", until_ms=now_ms)
    return LeaseHeld(held.sentence(_name(base)), until_ms=held.expires_ms)


def _file(base: Path, epoch: int) -> Path:
    return base.with_name(f"{base.name}.e{epoch:08d}")


def _epochs(base: Path) -> list[int]:
    pattern = re.compile(re.escape(base.name) + r"\.e(\d{8})$")
    try:
        names = [path.name for path in base.parent.iterdir()]
    except FileNotFoundError:
        return []
    return [int(match[1]) for match in map(pattern.match, names) if match]


def _highest(base: Path) -> int:
    return max(_epochs(base), default=0)


def _sweep(base: Path, epoch: int) -> None:
    """Remove the files of past epochs; one that a late holder writes again harms nobody."""
    for old in _epochs(base):
        if old < epoch:
            with contextlib.suppress(FileNotFoundError):
                _file(base, old).unlink()


def _read(path: Path, now_ms: int) -> Holder | None:
    """Return what a lease file says, None if it is gone.

    One that cannot be read (a power cut can leave it empty) is held by nobody we know, for one lease from
    its last change.
    """
    try:
        return Holder(**json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        changed = path.stat().st_mtime_ns // 1_000_000
        return Holder(
            "an unreadable lease file", "?", 0, "", "", 0, changed, min(changed, now_ms) + SECONDS * 1000
        )


def _bytes(holder: Holder) -> bytes:
    return json.dumps(asdict(holder)).encode()


def _describe(holder: str, now_ms: int, expires_ms: int) -> Holder:
    pid = os.getpid()
    return Holder(
        holder, socket.gethostname(), pid, _boot(), _pid_space(), _started(pid) or 0, now_ms, expires_ms
    )


def _boot() -> str:
    """Return the id of this boot of this machine, empty where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _pid_space() -> str:
    """Return the name of the process table that our process numbers belong to."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _started(pid: int) -> int | None:
    """Return when a process started, in ticks since boot; None if there is none or it is a dead child.

    Fields 3 (state), 20 (threads) and 22 (start time) of /proc/PID/stat, counted behind the name in
    brackets, which may hold anything (proc(5)).
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    words = text[text.rindex(")") + 1 :].split()
    if words[0] in "ZX" and int(words[17]) <= 1:
        return None
    return int(words[19])


def _name(base: Path) -> str:
    return f"the lease {base}"


def _text(ms: int) -> str:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
