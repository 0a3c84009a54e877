"""The kinds of value a setting can have, and what makes one bad.

A setting is declared as `name: type = whole(default, least, most, doc)` and the like; a check that fails
raises ValueError with a sentence that says what is expected.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Any, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.fields import FieldInfo

DAY_MS = 86_400_000
DAY_SECONDS = 86_400
YEAR_SECONDS = 366 * DAY_SECONDS


class Section(BaseModel):
    """A section of the configuration: frozen, and a stranger to unknown keys and wrong types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, protected_namespaces=())


def whole(default: int, least: int, most: int, doc: str) -> Any:
    """A whole number from `least` to `most`."""
    return Field(default, ge=least, le=most, description=doc)


def number(default: float, least: float, most: float, doc: str) -> Any:
    """A number from `least` to `most`; a whole one will do."""
    return Field(default, ge=least, le=most, description=doc, allow_inf_nan=False)


def text(default: str, doc: str, *, pattern: str | None = None, min_length: int = 0) -> Any:
    """A text, perhaps of a pattern."""
    return Field(default, description=doc, pattern=pattern, min_length=min_length)


def switch(default: bool, doc: str) -> Any:
    """True or false."""
    return Field(default, description=doc)


def listing(default: tuple[Any, ...], doc: str) -> Any:
    """A list of values."""
    return Field(default, description=doc)


def table(default: dict[str, Any], doc: str) -> Any:
    """A table of names to values."""
    return Field(default, description=doc)


def _tupled(value: object) -> object:
    """TOML knows lists only; a frozen setting holds a tuple. One value stands for a list of one."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def _networks(value: tuple[str, ...]) -> tuple[str, ...]:
    for text in value:
        ipaddress.ip_network(text)
    return value


def _network_table(value: dict[str, int]) -> dict[str, int]:
    _networks(tuple(value))
    if any(floor_ms < 0 for floor_ms in value.values()):
        raise ValueError("a pause cannot be negative")
    return value


def _counts(value: dict[str, int]) -> dict[str, int]:
    for name, count in value.items():
        if count < 0:
            raise ValueError(f"{name} = {count} is below 0")
    return value


def _servers(value: tuple[str, ...]) -> tuple[str, ...]:
    """Addresses, with a port behind a colon or without; one of IPv6 with a port stands in brackets."""
    for server in value:
        found = re.fullmatch(r"\[(?P<bare>[^\]]+)\](:(?P<port>\d+))?|(?P<four>[^:]+):(?P<other>\d+)", server)
        ipaddress.ip_address((found["bare"] or found["four"]) if found else server)
        port = (found["port"] or found["other"]) if found else None
        if port is not None and not 0 < int(port) < 65_536:
            raise ValueError(f"{server!r}: a port is a number from 1 to 65535")
    return value


def _hosts_table(value: object) -> object:
    """A name's addresses are one text with commas between; a list of them may be given too."""
    if not isinstance(value, dict):
        return value
    joined = {
        name: ", ".join(found) if isinstance(found, list | tuple) else found for name, found in value.items()
    }
    return {str(name).lower(): addresses for name, addresses in joined.items()}


def _addresses(value: dict[str, str]) -> dict[str, str]:
    for name, addresses in value.items():
        if not addresses.strip(" ,"):
            raise ValueError(f"{name} needs at least one address")
        for address in filter(None, re.split(r"[,\s]+", addresses)):
            ipaddress.ip_network(address)
    return value


def _contact(value: str) -> str:
    """A page that tells who crawls, or a mail address: it becomes part of a header line."""
    good = r"https?://[^\s()<>]+|(mailto:)?[^\s@()<>]+@[^\s@()<>]+"
    if value and not (value.isascii() and re.fullmatch(good, value)):
        raise ValueError("it must be a web address (https://…) or a mail address, plain ASCII")
    return value


def _scheduler(value: str) -> str:
    """Where a Dask scheduler listens: its client takes long to see that it cannot be, and ends in a traceback."""
    good = r"((tcp|tls|ws|wss|ucx|ucxx)://)?(\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+):\d{1,5}"
    if value and not re.fullmatch(good, value):
        raise ValueError("it must be an address with a port, such as tcp://host:8786")
    return value


def _power_of_two(value: int) -> int:
    if value & (value - 1):
        raise ValueError(f"it must be a power of two; the next is {1 << value.bit_length()}")
    return value


def _weights(value: tuple[float, ...]) -> tuple[float, ...]:
    if not value or any(not 0 < weight <= 1e9 for weight in value):
        raise ValueError("it must be a list of one or more numbers, each above 0 and at most 1e9")
    return value


Texts = Annotated[tuple[str, ...], BeforeValidator(_tupled)]
Networks = Annotated[tuple[str, ...], BeforeValidator(_tupled), AfterValidator(_networks)]
NetworkTable = Annotated[dict[str, int], AfterValidator(_network_table)]
Counts = Annotated[dict[str, int], AfterValidator(_counts)]
Servers = Annotated[tuple[str, ...], BeforeValidator(_tupled), AfterValidator(_servers)]
HostTable = Annotated[dict[str, str], BeforeValidator(_hosts_table), AfterValidator(_addresses)]
Weights = Annotated[tuple[float, ...], BeforeValidator(_tupled), AfterValidator(_weights)]
Buckets = Annotated[int, AfterValidator(_power_of_two)]
Contact = Annotated[str, AfterValidator(_contact)]
SchedulerAddress = Annotated[str, AfterValidator(_scheduler)]


def expected(info: FieldInfo) -> str:
    """Say what a setting may be, bounds included, to go after "it must be"."""
    bounds = {type(item).__name__: item for item in info.metadata}
    kind = info.annotation
    if kind in (int, float):
        word = "a whole number" if kind is int else "a number"
        return f"{word} from {bounds['Ge'].ge} to {bounds['Le'].le}"
    if kind is bool:
        return "true or false"
    if get_origin(kind) is dict:
        return "a table of name to " + (
            "whole number" if get_args(kind)[1] is int else "address or list of addresses"
        )
    if get_origin(kind) is tuple:
        return "a list of numbers" if get_args(kind)[0] is float else "a list of texts"
    return _expected_text(info)


def _expected_text(info: FieldInfo) -> str:
    pattern = next((found for item in info.metadata if (found := getattr(item, "pattern", None))), None)
    if pattern and pattern.startswith("^("):
        return "one of " + ", ".join(pattern[2:-2].split("|"))
    if pattern:
        return f"a text of the form {pattern}"
    return (
        "a text that is not empty"
        if any(getattr(item, "min_length", 0) for item in info.metadata)
        else "a text"
    )
