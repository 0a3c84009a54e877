"""Every notebook runs offline on a fresh sample lake; what is committed is paired, shows its figures, and is small."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import jupytext
import nbformat
import pytest

from pipelines.cluster import InlineRunner
from pipelines.extract.graph import run_extract
from pipelines.toyweb import ToyWeb, serve_in_thread
from tests.cycle import wheels
from tests.extract.test_extract import Quiet
from tests.notebooks.running import FOLDER, SOURCES, executed, pictures, read

pytestmark = pytest.mark.timeout(300)  # eight kernels start, on a busy machine too

NAMES = [source.stem for source in SOURCES]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, nbformat.NotebookNode]]:
    web = ToyWeb(hosts=8, seed=3)
    with serve_in_thread(web) as server:
        crawl = wheels.crawl(
            web, server, tmp_path_factory.mktemp("sample"), overrides={"window.seconds": "2"}
        )
    run_extract(crawl.path, crawl.settings, reporter=Quiet(), runner=InlineRunner(2))
    yield executed(SOURCES, crawl.path)


def test_there_is_one_for_each_question() -> None:
    assert [name[:2] for name in NAMES] == [f"{number:02d}" for number in range(1, 9)]


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_offline_and_draws(run: dict[str, nbformat.NotebookNode], name: str) -> None:
    assert len(pictures(run[name])) >= 2
    warned = [
        one for cell in run[name].cells for one in cell.get("outputs", ()) if one.get("name") == "stderr"
    ]
    assert not warned, warned


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_notebook_is_its_source_with_figures(name: str) -> None:
    committed = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    source = read(FOLDER / f"{name}.py")
    assert [(cell.cell_type, cell.source) for cell in committed.cells] == [
        (cell.cell_type, cell.source) for cell in source.cells
    ], "the source has changed: python -m tests.notebooks.render --lake FOLDER"
    assert len(pictures(committed)) == len([cell for cell in source.cells if ".plot_" in cell.source])
    assert (FOLDER / f"{name}.ipynb").stat().st_size < 300_000


@pytest.mark.parametrize("source", SOURCES, ids=NAMES)
def test_a_cell_is_a_call_and_a_plot(source: Path) -> None:
    for cell in read(source).cells:
        if cell.cell_type == "code":
            lines = [
                line
                for line in cell.source.splitlines()
                if line and not line.startswith(("from ", "import "))
            ]
            assert len(lines) <= 2, f"logic belongs in pipelines/report: {cell.source}"
            assert not re.search(r"^\s*(def|for|while|class|if|with)\b", cell.source, re.MULTILINE)


@pytest.mark.parametrize("source", SOURCES, ids=NAMES)
def test_sources_are_as_jupytext_writes_them(source: Path) -> None:
    assert (
        jupytext.writes(jupytext.read(source), fmt="py:percent").strip().splitlines()[-3:]
        == (source.read_text(encoding="utf-8").strip().splitlines()[-3:])
    )


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_the_machine_is_in_it(name: str) -> None:
    text = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    assert not re.search(r"/(home|root|tmp|usr)/", text)
    assert "https://cdn" not in text
