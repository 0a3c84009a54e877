"""Read the settings: files, then environment, then flags; whoever comes later wins.

`load` is the only reader, called once by the command line; the rest of Noria is handed `Settings`. A mistake is
a ConfigError of one sentence: where it stands, what it says, what would be right.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from pipelines.failure import Misuse
from pipelines.setting_kinds import Section, expected
from pipelines.settings import Settings, is_loopback, sections

__all__ = [
    "ConfigError",
    "Setting",
    "Settings",
    "describe",
    "is_loopback",
    "known",
    "load",
    "nearest",
    "require_contact",
]

DEFAULT_FILE = Path(__file__).resolve().parents[1] / "conf" / "default.toml"
PREFIX = "NORIA_"


class ConfigError(Misuse):
    """A setting, file or variable that cannot be used; the message is one sentence for the user."""


@dataclass(frozen=True)
class Setting:
    """One setting as it stands: dotted name, value and default (plain, fit for JSON), source, meaning."""

    name: str
    value: Any
    default: Any
    source: str
    doc: str


@dataclass(frozen=True)
class Given:
    """A value that somebody gave: where it stands, and whether it is text still to be read."""

    value: Any
    where: str
    as_text: bool = False


def load(
    files: Sequence[Path] = (),
    *,
    environ: Mapping[str, str],
    overrides: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
    base: Mapping[str, Any] | None = None,
    default_file: Path = DEFAULT_FILE,
) -> Settings:
    """Return the settings: conf/default.toml, `files` in order, `environ`, then `overrides` (--set).

    overrides: text by dotted name. flags: the same for options of their own, as {"window.seconds": "--window"}
    naming which of `overrides` they are. base: settings of a purpose, as TOML gives them, that files and all the
    rest may change. A table or list is replaced whole, never merged.
    Raises ConfigError, also for unknown names and for values that do not fit together.
    """
    given: dict[str, Given] = {}
    if default_file.exists():
        given |= _changed(_from_file(default_file))
    given |= dict(_entries(base or {}, "", "toy web"))
    for path in files:
        given |= _from_file(path)
    given |= _from_environment(environ)
    given |= _from_overrides(overrides or {}, flags or {})
    built: dict[str, Any] = {name: _section(name, model, given) for name, model in sections().items()}
    settings = Settings(**built, origins={name: item.where for name, item in given.items()})
    for sentence in _disagreements(settings):
        raise ConfigError(sentence)
    return settings


def known() -> dict[str, Any]:
    """Return pydantic's description of every setting by dotted name."""
    return {
        f"{name}.{key}": info
        for name, model in sections().items()
        for key, info in model.model_fields.items()
    }


def describe(settings: Settings) -> list[Setting]:
    """Return every setting with value, default, source and meaning, in the order of conf/default.toml."""
    now, usual = settings.values(), Settings().values()
    rows = []
    for name, info in known().items():
        section, key = name.split(".")
        source = settings.origins.get(name, "default")
        rows.append(Setting(name, now[section][key], usual[section][key], source, info.description or ""))
    return rows


def require_contact(settings: Settings) -> None:
    """Raise ConfigError if the crawl may leave this machine and nobody answers for it."""
    if settings.identity.contact or settings.loopback_only:
        return
    raise ConfigError(
        "identity.contact is empty, and a crawl of the real web needs somebody who answers for it: "
        'put [identity] contact = "https://… or a mail address" into a --conf file, '
        "or give --set identity.contact=you@example.org"
    )


def nearest(name: str, names: Sequence[str]) -> str:
    """Return a hint that names the one of `names` that is most like `name`.

    >>> nearest("delay.flor_ms", ["delay.floor_ms", "window.seconds"])
    'did you mean delay.floor_ms?'
    """
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]}?"
    likest = max(names, key=lambda other: SequenceMatcher(None, name, other).ratio())
    return f"the nearest known one is {likest} (noria conf show lists them all)"


def _unknown(what: str, name: str, where: str) -> ConfigError:
    """A bare key is also compared with the last part of every name: `floor_ms` means delay.floor_ms."""
    names = list(known())
    by_key = {full.split(".")[1]: full for full in reversed(names)}
    key = name.rsplit(".", 1)[-1]
    hint = f"did you mean {by_key[key]}?" if key in by_key else nearest(name, names)
    return ConfigError(f"{where}: unknown {what} {name}; {hint}")


def _from_file(path: Path) -> dict[str, Given]:
    where = _shown(path)
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(
            f"{where}: the configuration file cannot be read: {reason}; check --conf"
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where}: not valid TOML: {error}") from error
    return dict(_entries(content, text, where))


def _entries(content: Mapping[str, Any], text: str, where: str) -> Iterator[tuple[str, Given]]:
    for section, values in content.items():
        if section not in sections():
            raise ConfigError(f"{where}: unknown section [{section}]; {nearest(section, list(sections()))}")
        if not isinstance(values, dict):
            raise ConfigError(f"{where}: {section} is a section; write [{section}] and its keys under it")
        for key, value in values.items():
            line = _line_of(text, section, key)
            place = f"{where} line {line}" if line else where
            if key not in sections()[section].model_fields:
                raise _unknown("key", f"{section}.{key}", place)
            yield f"{section}.{key}", Given(value, place)


def _line_of(text: str, section: str, key: str) -> int | None:
    """The line on which `key` stands under [section]; None where TOML spells it in some other way."""
    current = ""
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if bare.startswith("["):
            current = bare[1:].partition("]")[0].strip()
            if current == f"{section}.{key}":
                return number
        elif current == section and bare.split("=")[0].strip() == key:
            return number
    return None


def _changed(given: dict[str, Given]) -> dict[str, Given]:
    """What conf/default.toml says like the models is a default; what somebody changed there is told as such."""
    usual = Settings().values()
    changed = {}
    for name, item in given.items():
        section, key = name.split(".")
        if item.value != usual[section][key]:
            changed[name] = item
    return changed


def _from_environment(environ: Mapping[str, str]) -> dict[str, Given]:
    """NORIA_DELAY__FLOOR_MS and NORIA_DELAY_FLOOR_MS are one setting; two spellings that differ are refused."""
    names = {_variable(name, "__"): name for name in known()} | {
        _variable(name, "_"): name for name in known()
    }
    found: dict[str, Given] = {}
    for variable in sorted(name for name in environ if name.startswith(PREFIX)):
        if variable not in names:
            raise _unknown_variable(variable, list(names))
        item = Given(environ[variable], variable, as_text=True)
        other = found.setdefault(names[variable], item)
        if other.value != item.value:
            raise ConfigError(
                f"{other.where} and {variable} set {names[variable]} to different values; keep one"
            )
    return found


def _variable(name: str, joint: str) -> str:
    return PREFIX + name.replace(".", joint).upper()


def _unknown_variable(variable: str, names: list[str]) -> ConfigError:
    alike = [name for name in names if ("__" in name) == ("__" in variable)]
    return ConfigError(f"environment: unknown variable {variable}; {nearest(variable, alike)}")


def _from_overrides(overrides: Mapping[str, str], flags: Mapping[str, str]) -> dict[str, Given]:
    found = {}
    for name, text in overrides.items():
        if name not in known():
            raise _unknown("setting", name, flags.get(name, "--set"))
        found[name] = Given(text, flags.get(name, "--set"), as_text=True)
    return found


def _section(name: str, model: type[Section], given: Mapping[str, Given]) -> Section:
    mine = {key: given[f"{name}.{key}"] for key in model.model_fields if f"{name}.{key}" in given}
    values = {key: _value(item, model.model_fields[key].annotation) for key, item in mine.items()}
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        raise ConfigError(_refusal(f"{name}.{key}", mine[key], first)) from error


def _refusal(name: str, item: Given, error: ErrorDetails) -> str:
    own = error.get("ctx", {}).get("error")
    wanted = str(own) if own else f"it must be {expected(known()[name])}"
    shown = item.value if item.as_text and item.value.isprintable() else repr(item.value)
    return f"{item.where}: {name} = {shown} is refused: {wanted}"


def _value(item: Given, kind: Any) -> Any:
    """Read text as the setting's kind; what cannot be read stays text, and is refused by the model."""
    if not item.as_text or kind is str:
        return item.value
    text = item.value.strip()
    if kind is bool:
        return {
            "true": True,
            "yes": True,
            "on": True,
            "1": True,
            "false": False,
            "no": False,
            "off": False,
            "0": False,
        }.get(text.lower(), text)
    if text[:1] in ("[", "{") or kind in (int, float):
        return _toml(text)
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if get_origin(kind) is dict:
        pairs = (part.partition("=") for part in parts)
        return {key.strip(): _part(value.strip(), get_args(kind)[1]) for key, _, value in pairs}
    return [_part(part, get_args(kind)[0]) for part in parts]


def _part(text: str, kind: Any) -> Any:
    return _toml(text) if kind in (int, float) else text


def _toml(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _disagreements(settings: Settings) -> Iterator[str]:
    """Values that are good alone and not together, a sentence each."""
    if settings.delay.floor_ms < 1000 and not settings.loopback_only:
        yield (
            f"{_origin(settings, 'delay.floor_ms')}: delay.floor_ms = {settings.delay.floor_ms} is refused: no host is asked "
            "more than once a second, so it must be at least 1000 unless every network in "
            "security.allow_addresses is loopback (127.0.0.0/8, ::1) as for a toy web"
        )
    for low, high in ORDERED:
        if _of(settings, low) > _of(settings, high):
            blame = low if low in settings.origins else high
            yield (
                f"{_origin(settings, blame)}: {low} = {_of(settings, low)} is more than {high} = "
                f"{_of(settings, high)}; lower the one or raise the other"
            )
    least, most = settings.recrawl.min_hours, settings.recrawl.max_days
    if least > most * 24:
        blame = "recrawl.min_hours" if "recrawl.min_hours" in settings.origins else "recrawl.max_days"
        yield (
            f"{_origin(settings, blame)}: recrawl.min_hours = {least} is more than recrawl.max_days = {most} "
            f"({most * 24:g} hours); lower the one or raise the other"
        )
    for name in ("filters.include", "filters.exclude"):
        for pattern in _of(settings, name):
            if why := _no_pattern(pattern):
                yield f"{_origin(settings, name)}: {name} = {pattern[:60]!r} is no regular expression: {why}"
    yield from _unknown_rules(settings)
    lease, renew = settings.fetch.lease_seconds, settings.fetch.lease_renew_seconds
    if 3 * renew > lease:
        blame = (
            "fetch.lease_seconds"
            if "fetch.lease_seconds" in settings.origins
            else "fetch.lease_renew_seconds"
        )
        yield (
            f"{_origin(settings, blame)}: fetch.lease_renew_seconds = {renew} is more than a third of "
            f"fetch.lease_seconds = {lease}: one late renewal would end a lease; lower it to {lease // 3}"
        )


def _no_pattern(text: str) -> str | None:
    """Return why a pattern cannot be read; globs always can."""
    try:
        re.compile(text[3:] if text.startswith("re:") else "")
    except (re.error, OverflowError) as error:
        return str(error)
    except RecursionError:
        return "it is nested too deep"
    return None


def _unknown_rules(settings: Settings) -> Iterator[str]:
    """Yield a sentence for each name of a rule or a trap that is to be switched off and is none."""
    if not (settings.filters.rules_off or settings.filters.traps_off):
        return
    from pipelines.rules import filters, traps  # here: only who switches a rule off waits for them

    known = {
        "filters.rules_off": [name for name, _ in filters.RULES],
        "filters.traps_off": [trap.name for trap in traps.TRAPS],
    }
    for setting, names in known.items():
        for name in _of(settings, setting):
            if name not in names:
                near = get_close_matches(name, names, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
                yield f"{_origin(settings, setting)}: {setting} = {name!r} is no rule; {hint}"


ORDERED = (
    ("delay.backoff_first_ms", "delay.backoff_max_ms"),
    ("fetch.connect_ms", "fetch.total_ms"),
    ("fetch.first_byte_ms", "fetch.total_ms"),
    ("fetch.idle_ms", "fetch.total_ms"),
    ("dns.ttl_floor_seconds", "dns.ttl_ceiling_seconds"),
    ("retry.first_seconds", "retry.max_seconds"),
    ("health.probe_first_seconds", "health.probe_max_seconds"),
    ("recrawl.first_days", "recrawl.max_days"),
)
"""Pairs of settings of which the first may not be more than the second."""


def _of(settings: Settings, name: str) -> Any:
    section, key = name.split(".")
    return getattr(settings.section(section), key)


def _origin(settings: Settings, name: str) -> str:
    return settings.origins.get(name, "configuration")


def _shown(path: Path) -> str:
    """The path as a user would type it: relative where it lies below the current folder."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
