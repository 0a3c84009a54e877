"""Notebooks run from their plain-text sources on a lake, cut off from the network."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
SOURCES = tuple(sorted(FOLDER.glob("[0-9][0-9]_*.py")))
AT_ONCE = 2
SECONDS = 60

CUT_OFF = """
import socket as _socket
_connect = _socket.socket.connect
def _refused(self, address):
    if self.family == _socket.AF_UNIX or str(address[0]).startswith("127."):
        return _connect(self, address)
    raise OSError(f"a notebook wants to reach {address}: notebooks work offline")
_socket.socket.connect = _refused
_socket.socket.connect_ex = _refused
"""
"""Runs before the first cell: whatever is not this machine is out of reach."""


def executed(sources: Sequence[Path], lake: Path) -> dict[str, nbformat.NotebookNode]:
    """Run notebooks, each in a process of its own, two at a time; return them with their outputs by name.

    Raises nbclient's CellExecutionError, which shows the cell, for the first that fails.
    """
    return asyncio.run(_executed(sources, lake))


async def _executed(sources: Sequence[Path], lake: Path) -> dict[str, nbformat.NotebookNode]:
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(source: Path) -> nbformat.NotebookNode:
        async with slots:
            return await _run(source, lake)

    done = await asyncio.gather(*(one(source) for source in sources))
    return {source.stem: notebook for source, notebook in zip(sources, done, strict=True)}


async def _run(source: Path, lake: Path) -> nbformat.NotebookNode:
    notebook = read(source)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(CUT_OFF))
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        kernel_name="python3",
        extra_arguments=["--log-level=40"],
        record_timing=False,
        resources={"metadata": {"path": str(FOLDER)}},
    )
    root = str(FOLDER.parent)
    paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    env = {
        **os.environ,
        "NORIA_LAKE__PATH": str(lake),
        "PYTHONPATH": paths,
        "IPYTHONDIR": str(lake / ".ipython"),
    }
    await client.async_execute(env=env)
    del notebook.cells[0]
    for number, cell in enumerate((one for one in notebook.cells if one.cell_type == "code"), 1):
        cell.execution_count = number
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = number
    return notebook


def read(source: Path) -> nbformat.NotebookNode:
    """Return the notebook that a source makes; the same source makes the same notebook."""
    notebook = jupytext.read(source)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number:02d}"
    return notebook


def pictures(notebook: nbformat.NotebookNode) -> list[str]:
    """Return the PNG outputs of a notebook, in Base64."""
    return [
        output["data"]["image/png"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    ]
