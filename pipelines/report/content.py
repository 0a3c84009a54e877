"""Content: types, sizes, character sets, languages, and duplicates, exact and near."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lake.snapshot import Lake
from pipelines.report.picture import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    Picture,
    bars,
    empty,
    legend,
    picture,
    steps,
    tall,
    title,
    whole,
)  # fmt: skip
from pipelines.report.tables import PAGE, classes, counted, frame, of_cycle
from pipelines.rules import dedup

KB = 1_000
SIZES = (
    (KB, "< 1"), (4 * KB, "1–4"), (16 * KB, "4–16"), (64 * KB, "16–64"), (256 * KB, "64–256"), (1_000 * KB, "256–1,000"),
)  # fmt: skip
BIGGER = "> 1,000"
NEAR_PAGES = 2_000_000
"""Most pages whose SimHashes are compared (some seconds): the newest."""


def types(lake: Lake, cycle: int | None = None, *, most: int = 10) -> pd.DataFrame:
    """Return `type` told from the bytes, `pages` and `megabytes` of payload as stored."""
    return frame(
        lake,
        f"""select coalesce(content_mime_detected, 'empty') type, count(*) pages, sum(body_bytes) / 1e6 megabytes
            from captures where {of_cycle(cycle)} and {PAGE} group by 1 order by pages desc, 1 limit {int(most)}""",
    )


def plot_types(found: pd.DataFrame) -> Picture:
    """Draw the types by pages and by bytes."""
    drawn, (left, right) = picture(panels=2, height=tall(max(len(found), 3)), widths=(3, 2))
    if not len(found):
        empty(left, "no page is stored yet")
        empty(right, "")
        return drawn
    bars(left, found["type"].tolist(), found["pages"].tolist())
    title(left, "Types, told from the bytes", x="pages")
    bars(right, [""] * len(found), found["megabytes"].tolist(), color=SKY)
    title(right, "their payload", x="megabytes (MB)")
    return drawn


def sizes(lake: Lake, cycle: int | None = None) -> pd.DataFrame:
    """Return `size` (class of payload bytes, kB) and `pages`."""
    names = [name for _, name in SIZES] + [BIGGER]
    rows = frame(
        lake,
        f"""select {classes("coalesce(decoded_bytes, body_bytes)", SIZES, BIGGER)} size, count(*) pages
            from captures where {of_cycle(cycle)} and {PAGE} and body_bytes is not null group by 1""",
    )
    return pd.DataFrame({"size": names, "pages": counted(rows, names, key="size", value="pages")})


def plot_sizes(found: pd.DataFrame) -> Picture:
    """Draw the sizes of pages."""
    drawn, (axes,) = picture(height=3.6)
    steps(axes, found["size"].tolist(), found["pages"].tolist(), color=GREEN)
    title(axes, "Sizes of pages", x="payload without content coding (kB)", y="pages")
    return drawn


def charsets(lake: Lake, cycle: int | None = None, *, most: int = 10) -> pd.DataFrame:
    """Return `charset` with which pages were read, and `pages`."""
    return frame(
        lake,
        f"""select content_charset charset, count(*) pages from captures
            where {of_cycle(cycle)} and {PAGE} and content_charset <> ''
            group by 1 order by pages desc, 1 limit {int(most)}""",
    )


def languages(lake: Lake, cycle: int | None = None, *, most: int = 10) -> pd.DataFrame:
    """Return `language` of the main texts and `pages`; empty before `noria extract`."""
    if not lake.rows("pages"):
        return pd.DataFrame({"language": pd.Series(dtype=str), "pages": pd.Series(dtype=int)})
    return frame(
        lake,
        f"""select coalesce(language, 'too short') language, count(*) pages from pages
            where {of_cycle(cycle)} and problem is null group by 1 order by pages desc, 1 limit {int(most)}""",
    )


def plot_speech(by_language: pd.DataFrame, by_charset: pd.DataFrame) -> Picture:
    """Draw languages and character sets."""
    drawn, (left, right) = picture(panels=2, height=tall(max(len(by_language), len(by_charset), 3)))
    if len(by_language):
        bars(left, by_language["language"].tolist(), by_language["pages"].tolist(), color=PURPLE)
        title(left, "Languages of main texts", x="pages")
    else:
        empty(left, "run noria extract to tell languages")
    if len(by_charset):
        bars(right, by_charset["charset"].tolist(), by_charset["pages"].tolist(), color=SKY)
        title(right, "Character sets", x="pages")
    else:
        empty(right, "no page is stored yet")
    return drawn


def duplicates(lake: Lake) -> pd.DataFrame:
    """Return a row a cycle: `cycle`, `new` payloads, `exact` duplicates (stored before, by digest), `share`."""
    rows = frame(
        lake,
        f"""select cycle, sum(case when duplicate then 0 else 1 end) new, sum(case when duplicate then 1 else 0 end) exact
           from captures where {PAGE} group by 1 order by 1""",
    )
    rows["share"] = rows["exact"] / (rows["new"] + rows["exact"])
    return rows


def plot_duplicates(found: pd.DataFrame) -> Picture:
    """Draw new and duplicate payloads by cycle."""
    drawn, (axes,) = picture(height=3.8)
    if not len(found):
        empty(axes, "no page is stored yet")
        return drawn
    axes.bar(found["cycle"], found["new"], color=GREEN, label="new content", width=0.8)
    axes.bar(found["cycle"], found["exact"], bottom=found["new"], color=SKY, label="stored before", width=0.8)
    both = found["new"] + found["exact"]
    for cycle, height, share in zip(found["cycle"], both, found["share"], strict=True):
        if len(found) <= 30:
            axes.text(cycle, height, f"{100 * share:.0f} %", ha="center", va="bottom", fontsize=9)
    axes.set_xlim(found["cycle"].min() - 0.6, max(found["cycle"].max() + 0.6, found["cycle"].min() + 3.6))
    axes.set_ylim(0, both.max() * 1.25)
    legend(axes, ncols=2, loc="upper left")
    whole(axes.xaxis)
    whole(axes.yaxis)
    title(axes, "Exact duplicates (share above the bar)", x="cycle", y="pages")
    return drawn


def families(lake: Lake, *, most: int = 12) -> pd.DataFrame:
    """Return the payloads that most URLs share: `copies`, `hosts`, `url` (the first), `body_bytes`, `content_digest`."""
    return frame(
        lake,
        f"""select count(distinct url_key) copies, count(distinct host) hosts, min(url) url,
                   max(body_bytes) body_bytes, content_digest
            from captures where {PAGE} and content_digest is not null
            group by content_digest having count(distinct url_key) > 1
            order by copies desc, url limit {int(most)}""",
    )


def near_families(lake: Lake, *, most: int = 12, pages: int = NEAR_PAGES) -> pd.DataFrame:
    """Return the largest groups of pages whose texts are nearly the same but whose bytes differ: `pages`, `hosts`, `url`,
    `title`. Empty before `noria extract`. SimHashes within three bits, chained."""
    if not lake.rows("pages"):
        return pd.DataFrame({name: [] for name in ("pages", "hosts", "url", "title")})
    rows = frame(
        lake,
        f"select url, host, title, simhash from pages where simhash is not null order by cycle desc, url limit {int(pages)}",
    )
    rows["family"] = dedup.near_groups(rows["simhash"].to_numpy(np.int64).view(np.uint64))
    found = rows.groupby("family").agg(
        pages=("url", "size"), hosts=("host", "nunique"), url=("url", "min"), title=("title", "first")
    )
    found = found[found["pages"] > 1].sort_values(["pages", "url"], ascending=[False, True])
    return found.head(most).reset_index(drop=True)


def plot_families(exact: pd.DataFrame, near: pd.DataFrame) -> Picture:
    """Draw the largest families of exact and of near duplicates."""
    drawn, (left, right) = picture(panels=2, height=tall(max(len(exact), len(near), 4)))
    for axes, found, column, colour, what in (
        (left, exact, "copies", BLUE, "Exact duplicates"),
        (right, near, "pages", ORANGE, "Near duplicates"),
    ):
        if len(found):
            labels = [_tail(url) for url in found["url"]]
            bars(axes, labels, found[column].tolist(), color=colour)
            title(axes, what, x="URLs of a family")
        else:
            hint = "" if found is exact else ", or nothing was extracted yet"
            empty(axes, f"no {what.lower()} found{hint}")
    return drawn


def _tail(url: str) -> str:
    """Return host and path of a URL, short."""
    text = url.partition("://")[2]
    return text if len(text) <= 28 else f"{text[:14]}…{text[-13:]}"
