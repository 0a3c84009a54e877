"""What can be wrong with a lake, each kind with a class; a message says what, where and the remedy."""

from __future__ import annotations


class LakeError(Exception):
    """Base of all errors of the lake; the message is one sentence for a person."""


class LakeMissing(LakeError):
    """There is no lake at the path, or something else lies there."""


class LakeExists(LakeError):
    """A lake was to be made where one lies already, or one with other settings."""


class LakeHalfMade(LakeError):
    """Making the lake was interrupted before its last file."""


class LakeVersionError(LakeError):
    """The lake has a format that this code does not read."""


class LakeDamaged(LakeError):
    """A file that describes the lake (noria.json, a Delta log) cannot be read."""


class DamagedFile(LakeError):
    """A data file is missing, truncated, unsorted, or not what its manifest says."""


class CommitConflict(LakeError):
    """Another committer moved the table, or the commit does not fit what the table holds."""


class DiskFull(LakeError):
    """No space or quota left; nothing half-written stays behind."""


class InboxError(LakeError):
    """Rows that the inbox cannot hold."""


class QueryError(LakeError):
    """SQL that cannot be run."""


class LeaseLost(LakeError):
    """The lease ran out, or another holder took it, before it was renewed."""


class LeaseHeld(LakeError):
    """Someone else holds the lease until `until_ms` (ms since 1970)."""

    def __init__(self, message: str, *, until_ms: int) -> None:
        super().__init__(message)
        self.until_ms = until_ms

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        """Travel between processes with `until_ms`."""
        return _held, (self.args[0], self.until_ms)


def _held(message: str, until_ms: int) -> LeaseHeld:
    return LeaseHeld(message, until_ms=until_ms)


def first_line(error: BaseException) -> str:
    """Return what a library says of its error, without the stack that some of them append.

    >>> first_line(OSError("cannot be read\n   0: <unknown>"))
    'cannot be read'
    """
    lines = (line.strip().removeprefix("Kernel error: ") for line in str(error).splitlines())
    return next(filter(None, lines), type(error).__name__)[:200]
