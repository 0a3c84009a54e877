"""Near duplicates: the index finds what brute force finds; recall and precision on texts with known edits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rules.dedup import (
    DedupPolicy,
    NearIndex,
    common_lines,
    distance,
    line_keys,
    minhash,
    near_groups,
    shingle_hashes,
    simhash,
    similarity,
    text_kind,
    word_hashes,
)

WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("n", "r", "la", "to", "mi", "se")]


def text_of(seed: int, words: int = 600) -> list[str]:
    """Return words with frequencies as in a language: few common ones, many rare."""
    rng = np.random.default_rng(seed)
    ranks = np.minimum(rng.zipf(1.3, words) - 1, 10**6)
    return [WORDS[rank] if rank < 300 else f"{WORDS[rank % 300]}{rank}" for rank in ranks]


def edited(words: list[str], edits: int, seed: int) -> list[str]:
    """Return the words with `edits` of them replaced, dropped or doubled."""
    rng, out = np.random.default_rng(seed), list(words)
    for _ in range(edits):
        at, how = int(rng.integers(len(out))), int(rng.integers(3))
        out[at : at + 1] = [[f"new{rng.integers(10**6)}"], [], [out[at], out[at]]][how]
    return out


def of(words: list[str]) -> int:
    found = simhash(" ".join(words))
    assert found is not None
    return found


# --- the index ---------------------------------------------------------------------------------------------


def clustered(seed: int, count: int) -> np.ndarray:
    """Return values of which many differ from another in 0 to 5 bits."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2**64, count, dtype=np.uint64)
    for at in range(count // 3 + 1, count):
        flips = rng.choice(64, size=int(rng.integers(0, 6)), replace=False)
        values[at] = values[rng.integers(at)] ^ np.uint64(sum(1 << int(bit) for bit in flips))
    return values


@given(st.integers(0, 10**6), st.integers(0, 60), st.sampled_from([(3, 4), (3, 5), (3, 6), (0, 1), (1, 3)]))
def test_banded_index_finds_what_brute_force_finds(seed: int, count: int, shape: tuple[int, int]):
    max_bits, blocks = shape
    values = clustered(seed, count)
    wanted = [
        (i, j)
        for i in range(count)
        for j in range(i + 1, count)
        if distance(int(values[i]), int(values[j])) <= max_bits
    ]
    one, other = NearIndex(values, max_bits=max_bits, blocks=blocks).pairs()
    assert list(zip(one.tolist(), other.tolist(), strict=True)) == wanted


@given(st.integers(0, 10**6), st.integers(0, 40), st.integers(0, 40))
def test_queries_find_what_brute_force_finds(seed: int, asked: int, count: int):
    values = clustered(seed, asked + count)
    queries, values = values[:asked], values[asked:]
    found = NearIndex(values).near(queries)
    wanted = [
        (i, j) for i, q in enumerate(queries) for j, v in enumerate(values) if distance(int(q), int(v)) <= 3
    ]
    assert list(zip(found[0].tolist(), found[1].tolist(), strict=True)) == wanted


@given(st.integers(0, 10**6), st.integers(0, 50))
def test_groups_are_chains_and_named_by_their_first(seed: int, count: int):
    values = clustered(seed, count)
    groups = near_groups(values)
    assert all(groups[first] == first and first <= at for at, first in enumerate(groups.tolist()))
    one, other = NearIndex(values).pairs()
    assert np.array_equal(groups[one], groups[other])


def test_a_hundred_thousand_copies_are_no_five_thousand_million_pairs():
    values = np.repeat(clustered(1, 100), 1000)
    assert len(near_groups(values)) == 100_000


def test_more_blocks_than_bits_are_needed():
    with pytest.raises(ValueError, match="3 blocks for 3 bits"):
        NearIndex(np.zeros(2, dtype=np.uint64), blocks=3)


# --- SimHash -----------------------------------------------------------------------------------------------


def test_words_are_told_apart_whatever_stands_between():
    assert np.array_equal(word_hashes("One — two… “three”\u00a0four"), word_hashes("one two, three (four)"))
    assert not np.array_equal(word_hashes("ab"), word_hashes("ba"))
    assert len(word_hashes("这是中文。")) == 4
    assert len(word_hashes("  ,, ")) == 0


@given(st.text(max_size=300))
def test_any_text_has_hashes_and_blanks_do_not_matter(text: str):
    once = word_hashes(text)
    assert np.array_equal(once, word_hashes(f" ,{text} ."))
    assert len(shingle_hashes(text, 3)) == max(len(once) - 2, min(len(once), 1))


def test_simhash_is_the_same_today_and_tomorrow():
    assert simhash("the quick brown fox jumps over the lazy dog " * 4) == 14940239387594963225


def test_recall_and_precision_on_texts_with_known_edits():
    originals = [text_of(seed) for seed in range(200)]
    hashes = [of(words) for words in originals]
    recall = {}
    for edits in (1, 2, 6):
        near = [
            distance(of(edited(words, edits, seed)), hashes[seed]) <= 3
            for seed, words in enumerate(originals)
        ]
        recall[edits] = sum(near) / len(near)
    assert recall[1] >= 0.9
    assert recall[2] >= 0.8
    assert recall[6] >= 0.5
    one, _ = NearIndex(np.array(hashes, dtype=np.uint64)).pairs()
    assert len(one) == 0  # precision: of 19,900 pairs of different texts none is called near


def test_similarity_estimates_jaccard():
    words = text_of(1)
    other = edited(words, 60, 2)
    one, two = ({*shingle_hashes(" ".join(text)).tolist()} for text in (words, other))
    truth = len(one & two) / len(one | two)
    assert similarity(minhash(" ".join(words)), minhash(" ".join(other))) == pytest.approx(truth, abs=0.12)
    assert similarity(minhash("a b c"), minhash("a b c")) == 1.0
    assert similarity(minhash(" ".join(words)), minhash(" ".join(text_of(2)))) < 0.2


# --- what is not compared ----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", " \n ", "404", "Not found", "…", "one two three"])
def test_empty_and_tiny_texts_are_nobodys_duplicates(text: str):
    assert simhash(text) is None
    assert text_kind(text) in ("empty", "tiny")


def test_boilerplate_only_pages_are_named():
    frame = "\n".join(" ".join(text_of(seed, 30)) for seed in range(4))
    pages = [f"{frame}\n{' '.join(text_of(100 + seed, 200))}" for seed in range(6)]
    common = common_lines([line_keys(page) for page in pages])
    assert text_kind(pages[0], common) == "text"
    assert text_kind(frame, common) == "boilerplate"
    assert text_kind(frame + "\nno entries found", common) == "boilerplate"


def test_few_pages_make_no_boilerplate():
    pages = [line_keys("menu\nfooter")] * 4
    assert common_lines(pages) == frozenset()
    assert len(common_lines(pages, DedupPolicy(common_pages=4))) == 2
