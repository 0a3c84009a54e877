"""Render the notebooks anew, with their figures: `python -m tests.notebooks.render --lake FOLDER`.

FOLDER: a lake of a few cycles and their extract, such as two of `noria cycle --demo` and `noria extract` make.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import nbformat

from tests.notebooks.running import FOLDER, SOURCES, executed


def main() -> int:
    """Run every notebook and write it beside its source."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lake", type=Path, required=True)
    asked = parser.parse_args()
    for name, notebook in executed(SOURCES, asked.lake.resolve()).items():
        notebook.metadata.pop("language_info", None)  # names the interpreter's version
        path = FOLDER / f"{name}.ipynb"
        nbformat.write(notebook, path)
        print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
