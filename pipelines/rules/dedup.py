"""Near duplicates: 64-bit SimHash of word shingles, search within three bits, MinHash, texts not to compare.

Exact duplicates are the gate's, by payload digest. What is found here is marked, never thrown away.
Sources: Charikar 2002 (SimHash), Manku and others 2007 (three bits of 64, permuted sorted tables), Broder 1997.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
import numpy.typing as npt
import xxhash
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

Hashes = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class DedupPolicy:
    """When two texts are near duplicates, and which texts are not compared.

    shingle_words: words that are hashed together. max_bits: SimHashes that differ in so few bits are near.
    tiny_words: a text with fewer words says too little. common_share: a line is boilerplate that stands on
    this share of a host's pages, of at least `common_pages` looked at. boilerplate_share: a page of whose
    words so many lie in such lines is boilerplate only.
    """

    shingle_words: int = 2
    max_bits: int = 3
    tiny_words: int = 24
    common_share: float = 0.5
    common_pages: int = 5
    boilerplate_share: float = 0.9


DEFAULT: Final = DedupPolicy()

_MIX_1: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_2: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_3: Final = np.uint64(0x94D049BB133111EB)


def _mixed(values: Hashes) -> Hashes:
    """Return each value scrambled so that every bit hangs on every bit (the finish of splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * _MIX_2
    values = (values ^ (values >> np.uint64(27))) * _MIX_3
    return values ^ (values >> np.uint64(31))


# What each byte of UTF-8 does: letters, digits and all of non-ASCII are word bytes; the first byte of most
# Chinese and Japanese characters (E3 to E9) starts a word of its own, as such text has no blanks.
_WORD_BYTE: Final = np.array([chr(b).isalnum() or b >= 0x80 for b in range(256)], dtype=bool)
_OWN_WORD: Final = np.array([0xE3 <= b <= 0xE9 for b in range(256)], dtype=bool)
_PLACES: Final = 64
# what a byte adds to its word's hash, by its place in the word (places repeat after 64) and its value
_BYTE_VALUES: Final = _mixed(np.arange(1, _PLACES * 256 + 1, dtype=np.uint64) * _MIX_1)


def word_hashes(text: str) -> Hashes:
    """Return a 64-bit hash for each word of a text, in order; case and punctuation count for nothing.

    >>> len(word_hashes("One, two -- two")), len(word_hashes(""))
    (3, 0)
    """
    data = np.frombuffer(text.lower().encode("utf-8", "replace"), dtype=np.uint8)
    inside = _WORD_BYTE[data] & ~_punctuation(data)
    first = inside & (~np.concatenate(([False], inside))[:-1] | _OWN_WORD[data])
    data, starts = data[inside], np.flatnonzero(first[inside])
    if not len(starts):
        return np.empty(0, dtype=np.uint64)
    place = np.arange(len(data)) - np.repeat(starts, np.diff(np.append(starts, len(data))))
    return _mixed(np.add.reduceat(_BYTE_VALUES[((place & (_PLACES - 1)) << 8) | data], starts))


def _punctuation(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Mark the UTF-8 bytes of U+0080 to U+00BF, U+2000 to U+203F and U+3000 to U+303F: dashes, quotes, blanks."""
    following = np.concatenate((data[1:], [0]))
    two = data == 0xC2
    three = ((data == 0xE2) | (data == 0xE3)) & (following == 0x80)
    marked: npt.NDArray[np.bool_] = two | three
    marked[1:] |= marked[:-1].copy()
    marked[2:] |= three[:-2]
    return marked


def shingle_hashes(text: str, words: int = DEFAULT.shingle_words) -> Hashes:
    """Return a hash for each run of `words` words of a text, in order; a shorter text is one shingle."""
    return _shingled(word_hashes(text), words)


def _shingled(hashes: Hashes, words: int) -> Hashes:
    if not len(hashes):
        return hashes
    words = min(words, len(hashes))
    last = len(hashes) - words + 1
    mixed = hashes[:last].copy()
    for step in range(1, words):
        mixed = mixed * _MIX_1 + hashes[step : last + step]
    return _mixed(mixed)


# --- SimHash -------------------------------------------------------------------------------------------

_BITS_OF_BYTE: Final = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.int64)
_COLUMN_OFFSETS: Final = np.arange(8) * 256


def simhash(text: str, policy: DedupPolicy = DEFAULT) -> int | None:
    """Return the 64-bit SimHash of a text, never negative; None for a text too small to be compared."""
    return simhash_of_words(word_hashes(text), policy)


def simhash_of_words(words: Hashes, policy: DedupPolicy = DEFAULT) -> int | None:
    """Return the SimHash of a text from its `word_hashes`."""
    hashes = _shingled(words, policy.shingle_words)
    if len(hashes) + policy.shingle_words - 1 < policy.tiny_words:
        return None
    hashes = np.sort(hashes)  # each shingle counts once, or the commonest pair of words would decide
    return simhash_of(hashes[np.concatenate(([True], hashes[1:] != hashes[:-1]))])


def simhash_of(hashes: Hashes) -> int:
    """Return the SimHash of a bag of hashes: each bit as most of them have it.

    >>> simhash_of(np.array([0b0111, 0b0101, 0b0001], dtype=np.uint64))
    5
    """
    columns = hashes.astype(">u8").view(np.uint8).reshape(-1, 8) + _COLUMN_OFFSETS
    counts = np.bincount(columns.ravel(), minlength=8 * 256).reshape(8, 256) @ _BITS_OF_BYTE
    return int.from_bytes(np.packbits(counts.ravel() * 2 > len(hashes)).tobytes(), "big")


def distance(one: int, other: int) -> int:
    """Return in how many bits two SimHashes differ."""
    return (one ^ other).bit_count()


# --- all within a few bits -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Table:
    """One sorted run: SimHashes with some blocks moved to the top, sorted, and whose they are."""

    blocks: tuple[int, ...]
    prefix_bits: int
    keys: Hashes
    owners: Positions


class NearIndex:
    """Finds all SimHashes within `max_bits` of given ones, through sorted runs with different blocks in front.

    64 bits are cut into `blocks` blocks; two values within max_bits agree in at least blocks - max_bits of
    them, so they stand under one prefix in at least one run. 4 blocks: 4 runs, prefixes of 16 bits, good to a
    few million values; 5: 10 runs of 25 bits; 6: 20 runs of 31 bits, good to billions. A run is `keys` in
    order, so runs can be kept in files and merged as any sorted run.
    """

    def __init__(self, values: Hashes, *, max_bits: int = DEFAULT.max_bits, blocks: int = 4) -> None:
        if not 0 <= max_bits < blocks <= 16:
            raise ValueError(
                f"{blocks} blocks for {max_bits} bits: must be more blocks than bits, at most 16"
            )
        self.values = np.asarray(values, dtype=np.uint64)
        self.max_bits = max_bits
        self._edges = [64 * block // blocks for block in range(blocks + 1)]
        self._tables = [self._table(front) for front in combinations(range(blocks), blocks - max_bits)]

    def _table(self, front: tuple[int, ...]) -> _Table:
        keys = self._arranged(self.values, front)
        owners = np.argsort(keys, kind="stable")
        bits = sum(self._edges[block + 1] - self._edges[block] for block in front)
        return _Table(front, bits, keys[owners], owners)

    def _arranged(self, values: Hashes, front: tuple[int, ...]) -> Hashes:
        """Return the values with the blocks of `front` moved to the top, the others behind in order."""
        rest = tuple(block for block in range(len(self._edges) - 1) if block not in front)
        out = np.zeros_like(values)
        for block in front + rest:
            low, high = self._edges[block], self._edges[block + 1]
            piece = (values >> np.uint64(low)) & np.uint64((1 << (high - low)) - 1)
            out = (out << np.uint64(high - low)) | piece
        return out

    def near(self, queries: Hashes) -> tuple[Positions, Positions]:
        """Return (position in `queries`, position in `values`) of all pairs within max_bits, sorted, each once."""
        queries = np.asarray(queries, dtype=np.uint64)
        count = max(1, len(self.values))
        found = [self._near_in(table, queries) for table in self._tables]
        codes = np.sort(np.concatenate([asked * count + owner for asked, owner in found]), kind="stable")
        codes = codes[np.concatenate(([True], codes[1:] != codes[:-1]))] if len(codes) else codes
        return codes // count, codes % count

    def _near_in(self, table: _Table, queries: Hashes) -> tuple[Positions, Positions]:
        """Compare each query with the values under its prefix in one run."""
        shift = np.uint64(64 - table.prefix_bits)
        low = (self._arranged(queries, table.blocks) >> shift) << shift
        high = low | np.uint64((1 << int(shift)) - 1)
        first = np.searchsorted(table.keys, low, side="left")
        sizes = np.searchsorted(table.keys, high, side="right") - first
        asked = np.repeat(np.arange(len(queries)), sizes)
        offset = np.arange(len(asked)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        owner = table.owners[first[asked] + offset]
        close = np.bitwise_count(queries[asked] ^ self.values[owner]) <= self.max_bits
        return asked[close], owner[close]

    def pairs(self) -> tuple[Positions, Positions]:
        """Return (i, j) with i < j of all pairs of `values` within max_bits, sorted, each once."""
        one, other = self.near(self.values)
        kept = one < other
        return one[kept], other[kept]


def near_groups(values: Hashes, *, max_bits: int = DEFAULT.max_bits, blocks: int = 4) -> Positions:
    """Return for each SimHash the position of the first of its group: itself where nothing earlier is near.

    Groups are chains of near pairs. Equal values are folded first, so a thousand copies cost no million pairs.
    """
    values = np.asarray(values, dtype=np.uint64)
    order = np.argsort(values, kind="stable")
    new = np.concatenate(([True], np.diff(values[order]) != 0))[: len(values)]
    which = np.empty(len(values), dtype=np.int64)
    which[order] = np.cumsum(new) - 1
    distinct = values[order][new]
    one, other = NearIndex(distinct, max_bits=max_bits, blocks=blocks).pairs()
    graph = coo_array((np.ones(len(one), dtype=np.int8), (one, other)), shape=(len(distinct), len(distinct)))
    labels = connected_components(graph, directed=False)[1][which] if len(values) else which
    firsts = np.full(len(values), len(values), dtype=np.int64)
    np.minimum.at(firsts, labels, np.arange(len(values)))
    return firsts[labels]


# --- MinHash, on demand --------------------------------------------------------------------------------


def minhash(text: str, *, size: int = 128, words: int = DEFAULT.shingle_words) -> Hashes:
    """Return the MinHash signature of a text: `size` least values; all-ones for a text without words."""
    hashes = shingle_hashes(text, words)
    seeds = _mixed(np.arange(1, size + 1, dtype=np.uint64) * _MIX_2)
    least = np.full(size, np.iinfo(np.uint64).max, dtype=np.uint64)
    for start in range(0, len(hashes), 1024):  # 1 MB at a time
        block = hashes[start : start + 1024, None]
        np.minimum(least, _mixed(block ^ seeds).min(axis=0), out=least)
    return least


def similarity(one: Hashes, other: Hashes) -> float:
    """Return the estimated Jaccard similarity of two texts, 0 to 1, from signatures of one size."""
    return float(np.count_nonzero(one == other) / len(one)) if len(one) else 0.0


# --- texts that are not to be compared -----------------------------------------------------------------


def line_keys(text: str) -> list[tuple[int, int]]:
    """Return (key, words) of each line of a text that has a word: blanks and case count for nothing."""
    lines = (" ".join(line.lower().split()) for line in text.splitlines())
    return [
        (xxhash.xxh3_64_intdigest(line.encode("utf-8", "replace")), line.count(" ") + 1)
        for line in lines
        if line
    ]


def common_lines(pages: Iterable[Sequence[tuple[int, int]]], policy: DedupPolicy = DEFAULT) -> frozenset[int]:
    """Return the keys of the lines that stand on many of a host's pages; empty while too few were looked at.

    pages: `line_keys` of each page.
    """
    counts: Counter[int] = Counter()
    looked_at = 0
    for page in pages:
        counts.update({key for key, _ in page})
        looked_at += 1
    if looked_at < policy.common_pages:
        return frozenset()
    return frozenset(
        key for key, pages_with in counts.items() if pages_with >= policy.common_share * looked_at
    )


def text_kind(text: str, common: frozenset[int] = frozenset(), policy: DedupPolicy = DEFAULT) -> str:
    """Return "empty", "tiny", "boilerplate" or "text": only the last is worth comparing with others.

    common: keys of the host's boilerplate lines. A page of which they leave too little is named boilerplate:
    its likeness to another of the host says nothing about what either is about.
    """
    words = len(word_hashes(text))
    if not words:
        return "empty"
    if words < policy.tiny_words:
        return "tiny"
    lines = line_keys(text)
    total = sum(count for _, count in lines)
    shared = sum(count for key, count in lines if key in common)
    return "boilerplate" if shared >= policy.boilerplate_share * total else "text"
