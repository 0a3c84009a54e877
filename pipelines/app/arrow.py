"""Arrow by itself, for commands that hold no frames."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType


class _Refusal(MetaPathFinder):
    """An import hook that lets nobody have pandas."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not wanted yet", name=fullname)


def spare_pandas() -> None:
    """Have Arrow make its arrays without pandas in this process; nothing changes where pandas is loaded already.

    With its first array Arrow imports pandas, a quarter of a second, to know a Series when it sees one. It asks
    once, and is refused here; later imports are not, so `to_pandas` still works.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa  # here: `noria --help` must not wait for it

    refusal = _Refusal()
    sys.meta_path.insert(0, refusal)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(refusal)
