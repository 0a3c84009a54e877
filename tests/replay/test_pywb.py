"""What another replayer shows of our WARC and CDXJ files: pywb, in an environment of its own (`make test-replay`)."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest

from pipelines.net import cdxj
from pipelines.net.warc_write import IDENTICAL_PAYLOAD, NOT_MODIFIED
from tests.field_cases.journeys import Crawl
from tests.replay.two_cycles import BODIES, HOSTS, TAGGED, captures_of, crawled, stamp

CHECKOUT = Path(__file__).resolve().parents[2]
PYTHON = CHECKOUT / ".venv-replay" / "bin" / "python"
REPLAYER = Path(__file__).with_name("replayer.py")


@dataclass
class Archive:
    """A crawl of two cycles, its captures of pages in the order of their requests, and two indexes of its files."""

    crawl: Crawl
    captures: list[dict[str, Any]]
    ours: Path
    pywbs: Path

    def of(self, host: str) -> list[dict[str, Any]]:
        return [capture for capture in self.captures if capture["host"] == host]

    @property
    def not_modified(self) -> list[dict[str, Any]]:
        return [capture for capture in self.captures if capture["outcome"] == "not_modified"]

    def replay(self, captures: list[dict[str, Any]], index: Path) -> list[dict[str, Any]]:
        """Return what pywb answers to a visitor who asks for these captures."""
        folder = self.ours.parent
        asked, out = folder / "asked.json", folder / "answers.json"
        asked.write_text(json.dumps([(stamp(capture), capture["url"]) for capture in captures]))
        pywb(folder, "replay", self.crawl.path / "warc", index, asked, out)
        told: list[dict[str, Any]] = json.loads(out.read_text())
        return told


def pywb(folder: Path, *words: str | Path) -> None:
    """Run the replayer in a folder that holds no settings of pywb's."""
    done = subprocess.run(
        [PYTHON, REPLAYER, *words], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    if not PYTHON.exists():
        pytest.skip("pywb is not installed: `make test-replay` installs it into .venv-replay and runs this")
    folder = tmp_path_factory.mktemp("replay")
    crawl = crawled(folder, HOSTS)
    captures = captures_of(crawl)
    ours, pywbs = folder / "ours.cdxj", folder / "pywbs.cdxj"
    lines = [line for file in (crawl.path / "cdxj").rglob("*.cdxj") for line in file.read_text().splitlines()]
    cdxj.write(ours, lines)
    pywb(folder, "index", crawl.path / "warc", pywbs)
    return Archive(crawl, captures, ours, pywbs)


def test_the_crawl_has_a_page_a_redirect_a_revisit_and_a_304(archive: Archive) -> None:
    kinds = [
        (one["host"], one["cycle"], one["fetch_status"], archive.crawl.record(one).header("WARC-Profile"))
        for one in archive.captures
    ]
    assert sorted(status for host, _, status, _ in kinds if host == "old.example") == [301, 301]
    assert ("tagged.example", 2, 304, NOT_MODIFIED) in kinds
    assert ("page.example", 2, 200, IDENTICAL_PAYLOAD) in kinds
    twins = [profile for host, cycle, _, profile in kinds if cycle == 1 and host[:4] in ("page", "twin")]
    assert sorted(twins, key=str) == sorted([None, IDENTICAL_PAYLOAD], key=str)


def test_pywb_finds_the_records_that_our_index_names_and_the_304(archive: Archive) -> None:
    theirs = [place for place in places(archive.pywbs) if not place[0].startswith("urn:")]
    extra = set(theirs) - set(places(archive.ours))
    assert [place for place in theirs if place not in extra] == places(archive.ours)
    assert [place[1:3] for place in extra] == [(stamp(one), one["url"]) for one in archive.not_modified]
    assert len(theirs) == 15, "two cycles of five pages, and five robots.txt"


def places(index: Path) -> list[tuple[str, ...]]:
    """Return of each line of an index its key, time, and where the record lies."""
    found = []
    for entry in cdxj.read(index):
        assert isinstance(entry, cdxj.Entry), entry
        fields = (entry.fields[name] for name in ("url", "digest", "length", "offset", "filename"))
        found.append((entry.surt, entry.timestamp, *fields))
    return found


@pytest.mark.parametrize("whose", ["ours", "pywbs"])
def test_pages_redirects_and_revisits_are_replayed_with_either_index(archive: Archive, whose: str) -> None:
    captures = [capture for capture in archive.captures if capture not in archive.not_modified]
    answers = archive.replay(captures, getattr(archive, whose))
    for capture, answer in zip(captures, answers, strict=True):
        stored, host = answer["stored"], capture["host"]
        assert shown(stored) == stamp(capture), "another capture was replayed"
        if host == "old.example":
            assert stored["status"] == 301
            assert stored["headers"]["location"].endswith(capture["fetch_redirect"])
        else:
            assert (stored["status"], stored["body"]) == (200, BODIES[host]), capture["url"]


def test_who_asks_for_a_page_at_its_304_gets_the_page_that_the_304_confirms(archive: Archive) -> None:
    answers = archive.replay(archive.not_modified, archive.ours)
    [answer], [confirmed, _] = answers, archive.of("tagged.example")
    assert shown(answer["stored"]) == stamp(confirmed)
    assert (answer["stored"]["status"], answer["stored"]["body"]) == (200, TAGGED)


def test_with_its_own_index_pywb_shows_the_304_itself_for_which_ours_leaves_it_out(archive: Archive) -> None:
    [answer] = archive.replay(archive.not_modified, archive.pywbs)
    assert shown(answer["stored"]) == stamp(archive.not_modified[0])
    assert (answer["stored"]["status"], answer["stored"]["body"]) == (304, "")


def shown(answer: dict[str, Any]) -> str:
    """Return the time of the capture that an answer shows."""
    return parsedate_to_datetime(answer["headers"]["memento-datetime"]).strftime("%Y%m%d%H%M%S")


def test_a_replayed_page_leads_on_within_the_archive(archive: Archive) -> None:
    first = archive.of("page.example")[0]
    [told] = archive.replay([first], archive.ours)
    assert re.search(rf'href="[^"]*/lake/{stamp(first)}(mp_)?/{first["url"]}"', told["page"]["body"])
