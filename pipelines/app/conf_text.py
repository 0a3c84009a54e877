"""Settings as commented TOML: `conf/default.toml` is what this makes of the defaults."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Any

from pydantic.fields import FieldInfo

from pipelines.setting_kinds import expected
from pipelines.settings import Settings, sections

HEAD = """\
# Every setting of Noria with its default. Copy what you change into a file of your own and give it with --conf.
# Later wins: this file, --conf files in order, NORIA_… variables (NORIA_DELAY__FLOOR_MS=2000), --set and flags.
# A table or a list is replaced whole. `noria conf show` prints every value and where it came from.
"""


def to_toml(settings: Settings) -> str:
    """Return all settings as TOML, each under a comment with its meaning, unit and bounds."""
    return HEAD + "".join(f"\n{part}" for part in _sections(settings))


def literal(value: Any) -> str:
    """Return a plain value as TOML writes it.

    >>> literal({"*.test": ["127.0.0.1"]}), literal(True), literal(1.5)
    ('{ "*.test" = ["127.0.0.1"] }', 'true', '1.5')
    """
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(str(key))} = {literal(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(literal(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _sections(settings: Settings) -> Iterator[str]:
    values = settings.values()
    for name, model in sections().items():
        doc = (model.__doc__ or "").strip().splitlines()[0]
        lines = [f"[{name}]  # {doc}"]
        for key, info in model.model_fields.items():
            lines += [*_comment(info), f"{key} = {_wrapped(literal(values[name][key]))}"]
        yield "\n".join(lines) + "\n"


def _comment(info: FieldInfo) -> list[str]:
    words = f"{info.description}. {_bounds(info)}".strip()
    return textwrap.wrap(words, 108, initial_indent="# ", subsequent_indent="#   ", break_long_words=False)


def _bounds(info: FieldInfo) -> str:
    """The bounds in brackets, for numbers and for texts that are one of a few."""
    allowed = expected(info)
    for word in ("a whole number from ", "a number from "):
        if allowed.startswith(word):
            least, most = allowed.removeprefix(word).split(" to ")
            return f"[{least} … {most}]"
    return ""


def _wrapped(text: str) -> str:
    if len(text) < 100:
        return text
    return "\n".join(
        textwrap.wrap(text, 108, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    )
