"""Bloom filters beside the runs: "surely new" or "perhaps seen". Speed only; the runs are the truth.

The file and its making are bloom-filter2's (its mmap back end); NumPy fills and asks the same bits, some
hundred times faster. Bit `n` is bit `n % 8` (from the least) of byte `n // 8`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import mmap
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from bloom_filter2 import BloomFilter

from lake.errors import LakeError
from lake.files import DataFile, disk_guard, make_folder, publish, temporary, write_atomic
from lake.layout import Layout, cycle_of
from lake.runs import read_keys
from lake.snapshot import Lake

ERROR_RATE = 0.0082
"""Share of new keys taken for perhaps seen when the filter is full: 10.0 bits a key, 7 probes."""

SMALLEST = 100_000
"""Least capacity of a filter, keys: 125 kB."""

ROOM = 2
"""A filter is rebuilt for this many times the keys it has to hold."""

LARGEST = 400_000_000
"""Most keys a filter is made for, as a probe scales 32 bits of hash; more only make it err more often."""

_BATCH = 2**18  # keys at a time: the arrays of a batch stay in the processor's cache
_WORD = 2**64 - 1
_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # finaliser of splitmix64 (Steele, Lea, Flood 2014)
_STEP = 0x9E3779B97F4A7C15

Keys = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


def probes(filter: BloomFilter, key: int) -> Iterator[int]:
    """Yield the bits of one key: double hashing, h1 + i * h2. What bloom-filter2 calls a probe_bitnoer.

    Raises LakeError for a negative key (on one, the library's own hashing never ends).
    """
    if key < 0:
        raise LakeError(f"bloom filter: key {key} is negative, keys are 63 bits")
    first, second = _mixed(key), _mixed(key ^ _STEP) | 1
    for turn in range(filter.num_probes_k):
        yield (((first + turn * second) & _WORD) >> 32) * filter.num_bits_m >> 32


def _mixed(word: int) -> int:
    word = ((word ^ (word >> 30)) * _MIX[0]) & _WORD
    word = ((word ^ (word >> 27)) * _MIX[1]) & _WORD
    return word ^ (word >> 31)


def _mixed_all(words: Words) -> Words:
    words = (words ^ (words >> np.uint64(30))) * np.uint64(_MIX[0])
    words = (words ^ (words >> np.uint64(27))) * np.uint64(_MIX[1])
    mixed: Words = words ^ (words >> np.uint64(31))
    return mixed


class Bloom:
    """One filter file, mapped into memory. Keys are non-negative int64."""

    def __init__(self, path: Path, filter: BloomFilter, capacity: int, error_rate: float) -> None:
        self.path = path
        self.capacity = capacity
        self.error_rate = error_rate
        self._filter = filter
        self._bytes = np.frombuffer(filter.backend.mmap, dtype=np.uint8)

    @classmethod
    def open(cls, path: Path | str, *, capacity: int, error_rate: float = ERROR_RATE) -> Bloom:
        """Open the filter file, made empty where there is none, for `capacity` keys at `error_rate`."""
        final = Path(path)
        if not 0 < capacity <= LARGEST:
            raise LakeError(f"bloom filter of {capacity} keys: 1 to {LARGEST} are possible")
        make_folder(final.parent)
        with disk_guard(final):
            held = BloomFilter(capacity, error_rate, probes, filename=(str(final), -1))
            _fill_holes(held)
        return cls(final, held, capacity, error_rate)

    @property
    def bits(self) -> int:
        """Size in bits."""
        return int(self._filter.num_bits_m)

    def scalar(self) -> BloomFilter:
        """Return bloom-filter2's own object on the same bits: `key in filter`, `filter.add(key)`."""
        return self._filter

    def add(self, keys: Keys) -> None:
        """Set the bits of the keys. Adding twice changes nothing."""
        for start in range(0, len(keys), _BATCH):
            first, second = _hashes(keys[start : start + _BATCH])
            for turn in range(self._filter.num_probes_k):
                self._set(first)
                if turn + 1 < self._filter.num_probes_k:
                    first += second

    def maybe(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Say for each key: False = surely never added; True = perhaps (0.82 % by mistake when full)."""
        found = np.zeros(len(keys), dtype=np.bool_)
        for start in range(0, len(keys), _BATCH):
            found[start : start + _BATCH] = self._maybe(*_hashes(keys[start : start + _BATCH]))
        return found

    def maybe_one(self, key: int) -> bool:
        """Say of one key what `maybe` says of many, tens of times as fast as an array of one.

        Raises LakeError for a negative key.
        """
        bits = self._filter.backend.mmap
        return all(bits[bit >> 3] >> (bit & 7) & 1 for bit in probes(self._filter, key))

    def _maybe(self, first: Words, second: Words) -> npt.NDArray[np.bool_]:
        """Ask probe after probe, and drop the keys that missed once they are many."""
        found = np.zeros(len(first), dtype=np.bool_)
        left, perhaps = np.arange(len(first)), np.ones(len(first), dtype=np.bool_)
        for _ in range(self._filter.num_probes_k):
            perhaps &= self._get(first)
            if np.count_nonzero(perhaps) * 4 < 3 * len(perhaps):
                left, first, second = left[perhaps], first[perhaps], second[perhaps]
                perhaps = np.ones(len(left), dtype=np.bool_)
            first += second
        found[left[perhaps]] = True
        return found

    def flush(self) -> None:
        """Put the bits on disk (msync)."""
        with disk_guard(self.path):
            self._filter.backend.mmap.flush()

    def unload(self) -> None:
        """Let go of the memory that the mapping takes; the bits stay in the file and come back when they are asked.

        Probes go everywhere, so that sooner or later all of a filter counts as its process's memory, by which Dask
        ends a worker: at ten billion keys 25 GB.
        """
        if hasattr(mmap, "MADV_DONTNEED"):  # Linux and others; of a shared mapping nothing is lost
            self._filter.backend.mmap.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Close the file; the mapping goes with the last reference to it."""
        if self._filter.backend is not None:
            self._filter.close()

    def _bit(self, words: Words) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
        """Return byte and mask by key: the upper half of the hash, scaled to the bits (no division)."""
        bit = ((words >> np.uint64(32)) * np.uint64(self._filter.num_bits_m)) >> np.uint64(32)
        mask = np.left_shift(np.uint8(1), bit.astype(np.uint8) & np.uint8(7))
        return (bit >> np.uint64(3)).view(np.int64), mask

    def _set(self, words: Words) -> None:
        place, mask = self._bit(words)
        while len(place):
            self._bytes[place] = self._bytes.take(place) | mask
            lost = (
                self._bytes.take(place) & mask
            ) == 0  # of several bits in one byte only the last is written
            place, mask = place[lost], mask[lost]

    def _get(self, words: Words) -> npt.NDArray[np.bool_]:
        place, mask = self._bit(words)
        hit: npt.NDArray[np.bool_] = (self._bytes.take(place) & mask) != 0
        return hit


def _fill_holes(held: BloomFilter) -> None:
    """Give the file its blocks: the library leaves a hole, and a bit set there on a full disk ends the process (SIGBUS)."""
    try:
        os.posix_fallocate(held.backend.file_, 0, held.backend.num_chars)
    except OSError:
        held.close()
        raise


def _hashes(keys: Keys) -> tuple[Words, Words]:
    if len(keys) and int(keys.min()) < 0:
        raise LakeError(f"bloom filter: key {int(keys.min())} is negative, keys are 63 bits")
    words = keys.astype(np.uint64)
    return _mixed_all(words), _mixed_all(words ^ np.uint64(_STEP)) | np.uint64(1)


@dataclass(frozen=True)
class Sidecar:
    """What is known of a filter file: it holds every key of the cycles up to `cycle`, and maybe more."""

    cycle: int
    keys: int
    capacity: int
    error_rate: float


def ensure(lake: Lake, table: str, partition: int) -> Bloom:
    """Open the filter of a bucket, so that it holds every key of the snapshot.

    Made from the runs where it is missing, does not fit its sidecar or became too small; filled up from
    the newer runs where it is behind.
    """
    path = lake.layout.bloom(table, partition)
    column = "shard" if table == "contents" else "bucket"
    files = lake.files(table, partitions={column: [partition]})
    with _locked(path):
        side = _sidecar(path)
        if side is None or min(sum(file.rows for file in files), LARGEST) > side.capacity:
            return _rebuilt(path, files, lake.cycle)
        bloom = Bloom.open(path, capacity=side.capacity, error_rate=side.error_rate)
        if side.cycle < lake.cycle:
            _fill(bloom, [file for file in files if (cycle_of(file.path) or 0) > side.cycle])
            _note(path, bloom, lake.cycle, sum(file.rows for file in files))
        return bloom


def held(lake: Lake, table: str, partition: int) -> Bloom | None:
    """Open the filter of a bucket if it vouches for this snapshot, None if there is none such. Makes nothing."""
    path = lake.layout.bloom(table, partition)
    side = _sidecar(path)
    if side is None or side.cycle < lake.cycle:
        return None
    return Bloom.open(path, capacity=side.capacity, error_rate=side.error_rate)


def extend(lake_root: Path | str, table: str, partition: int, keys: Keys, *, cycle: int) -> None:
    """Add a cycle's new keys to the filter of a bucket, in place; nothing where there is no filter yet.

    May be called before `cycle` is committed, twice, or not at all: a bit set too early costs speed only,
    and what the filter vouches for moves on in `ensure` alone, which reads the runs that were committed.
    (Were it moved on here, a cycle that is replayed with other keys could leave a key out for ever.)
    """
    path = Layout(Path(lake_root)).bloom(table, partition)
    with _locked(path):
        side = _sidecar(path)
        if side is None:
            return
        bloom = Bloom.open(path, capacity=side.capacity, error_rate=side.error_rate)
        if cycle > side.cycle:
            bloom.add(keys)
            bloom.flush()
        bloom.close()


def _rebuilt(path: Path, files: list[DataFile], cycle: int) -> Bloom:
    keys = sum(file.rows for file in files)
    capacity = min(max(SMALLEST, ROOM * keys), LARGEST)
    with temporary(path) as tmp:
        bloom = Bloom.open(tmp, capacity=capacity)
        _fill(bloom, files)
        bloom.flush()
        publish(tmp, path)
    bloom.path = path
    _note(path, bloom, cycle, keys)
    return bloom


def _fill(bloom: Bloom, files: list[DataFile]) -> None:
    for file in files:
        bloom.add(read_keys(file))


def _note(path: Path, bloom: Bloom, cycle: int, keys: int) -> None:
    """Bits first, then the sidecar that vouches for them."""
    bloom.flush()
    side = Sidecar(cycle, keys, bloom.capacity, bloom.error_rate)
    write_atomic(_side_path(path), json.dumps(asdict(side)).encode())


def _side_path(path: Path) -> Path:
    return path.with_suffix(".json")


def file_size(capacity: int, error_rate: float = ERROR_RATE) -> int:
    """Return the bytes of the library's file: n * ln(1/p) / ln(2)^2 bits, and two bytes it never uses."""
    bits = math.ceil(-capacity * math.log(error_rate) / math.log(2) ** 2)
    return (bits + 7) // 8 + 2


def _sidecar(path: Path) -> Sidecar | None:
    """Return the sidecar, None if it or the filter is missing, unreadable, or they do not fit."""
    try:
        side = Sidecar(**json.loads(_side_path(path).read_bytes()))
        size = path.stat().st_size
    except (OSError, ValueError, TypeError):
        return None
    return side if size == file_size(side.capacity, side.error_rate) else None


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold off other processes: two that set bits in one byte at once could lose one, and so a URL."""
    make_folder(path.parent)
    handle = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
