"""Settings: their files, variables and flags, and what is said of mistakes in them."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pipelines.app.conf_text import to_toml
from pipelines.config import DEFAULT_FILE, ConfigError, describe, known, load, require_contact
from pipelines.rules.filters import FilterPolicy
from pipelines.setting_kinds import expected
from pipelines.settings import Settings, is_loopback, sections

LOOPBACK = {"security.allow_addresses": "127.0.0.0/8"}


def loaded(tmp_path: Path, text: str, **more: Any) -> Settings:
    path = tmp_path / "my.toml"
    path.write_text(text, encoding="utf-8")
    return load([path], environ=more.pop("environ", {}), **more)


def refusal(tmp_path: Path, text: str = "", **more: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text, **more)
    return str(caught.value)


def test_default_toml_is_what_the_settings_make() -> None:
    assert DEFAULT_FILE.read_text(encoding="utf-8") == to_toml(Settings())


def test_default_toml_holds_every_setting_and_changes_nothing() -> None:
    settings = load([DEFAULT_FILE], environ={})
    assert settings == Settings() == load(environ={})
    keys = re.findall(r"^([a-z_]+) = ", DEFAULT_FILE.read_text(encoding="utf-8"), re.MULTILINE)
    assert keys == [name.split(".")[1] for name in known()]


@pytest.mark.parametrize(
    "name",
    [
        "identity.product",
        "identity.contact",
        "delay.floor_ms",
        "delay.address_floor_ms",
        "window.seconds",
        "budget.requests_per_month",
        "fetch.connections",
        "fetch.flush_seconds",
        "limits.body_bytes",
        "limits.redirects",
        "limits.url_chars",
        "limits.links_per_page",
        "dns.static",
        "security.allow_addresses",
        "lake.buckets",
    ],
)
def test_names_that_others_rely_on_are_there(name: str) -> None:
    assert name in known()


def test_every_setting_says_what_it_is_and_has_bounds_if_it_is_a_number() -> None:
    for name, info in known().items():
        assert len(info.description or "") > 10, name
        if info.annotation in (int, float):
            assert re.fullmatch(r"a (whole )?number from \S+ to \S+", expected(info)), name


def test_every_field_of_the_filter_policy_is_a_setting_of_the_same_default() -> None:
    policy, conf = FilterPolicy(), Settings().filters.model_dump()
    elsewhere = {"url_chars", "this_year", "last_year"}
    assert set(policy.__dataclass_fields__) - elsewhere == set(conf)
    assert {name: getattr(policy, name) for name in conf} == conf


def test_later_wins_file_then_environment_then_set(tmp_path: Path) -> None:
    text = "[window]\nseconds = 10\n"
    assert loaded(tmp_path, text).window.seconds == 10
    environ = {"NORIA_WINDOW__SECONDS": "20"}
    assert loaded(tmp_path, text, environ=environ).window.seconds == 20
    both = loaded(tmp_path, text, environ=environ, overrides={"window.seconds": "30"})
    assert both.window.seconds == 30


def test_of_two_files_the_later_wins(tmp_path: Path) -> None:
    paths = [tmp_path / "a.toml", tmp_path / "b.toml"]
    for path, seconds in zip(paths, (1, 2), strict=True):
        path.write_text(f"[window]\nseconds = {seconds}\n[log]\nlevel = 'debug'\n", encoding="utf-8")
    assert load(paths, environ={}).window.seconds == 2


def test_the_origin_names_file_and_line_variable_or_flag(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        "\n[window]\n# a comment\nseconds = 10\n",
        environ={"NORIA_PLAN_MAX_PAGES": "5", "HOME": "/"},
        overrides={"lake.path": "x", "delay.floor_ms": "2000"},
        flags={"lake.path": "--lake"},
    )
    source = {row.name: row.source for row in describe(settings)}
    assert source["window.seconds"].endswith("my.toml line 4")
    assert source["plan.max_pages"] == "NORIA_PLAN_MAX_PAGES"
    assert source["lake.path"] == "--lake"
    assert source["delay.floor_ms"] == "--set"
    assert source["fetch.connections"] == "default"


def test_a_changed_default_toml_counts_and_is_told(tmp_path: Path) -> None:
    changed = tmp_path / "default.toml"
    changed.write_text(to_toml(Settings()).replace("connections = 200", "connections = 50"), encoding="utf-8")
    settings = load(environ={}, default_file=changed)
    assert settings.fetch.connections == 50
    assert list(settings.origins) == ["fetch.connections"]


@pytest.mark.parametrize("joint", ["__", "_"])
def test_every_setting_has_a_variable_in_both_spellings(joint: str) -> None:
    spelled = {f"NORIA_{name.replace('.', joint).upper()}" for name in known()}
    assert len(spelled) == len(known())
    assert load(environ={f"NORIA_DELAY{joint}FLOOR_MS": "2000"}).delay.floor_ms == 2000


def test_no_two_settings_share_a_variable() -> None:
    spelled: dict[str, str] = {}
    for name in known():
        for joint in ("__", "_"):
            assert spelled.setdefault(name.replace(".", joint).upper(), name) == name


def test_two_spellings_of_a_variable_that_differ_are_refused(tmp_path: Path) -> None:
    said = refusal(tmp_path, environ={"NORIA_DELAY__FLOOR_MS": "2000", "NORIA_DELAY_FLOOR_MS": "3000"})
    assert "NORIA_DELAY__FLOOR_MS" in said and "NORIA_DELAY_FLOOR_MS" in said


UNKNOWN = {
    "a key": (
        "[delay]\nflor_ms = 3",
        {},
        {},
        "my.toml line 2: unknown key delay.flor_ms; did you mean delay.floor_ms?",
    ),
    "a key of another section": ("[fetch]\nfloor_ms = 3", {}, {}, "did you mean delay.floor_ms?"),
    "a section": ("[dely]\nfloor_ms = 3", {}, {}, "unknown section [dely]; did you mean delay?"),
    "a variable": (
        "",
        {"NORIA_DELAY__FLOR_MS": "3"},
        {},
        "NORIA_DELAY__FLOR_MS; did you mean NORIA_DELAY__FLOOR_MS?",
    ),
    "a variable spelt short": ("", {"NORIA_DELAY_FLOR_MS": "3"}, {}, "did you mean NORIA_DELAY_FLOOR_MS?"),
    "a setting": (
        "",
        {},
        {"delay.flor_ms": "3"},
        "--set: unknown setting delay.flor_ms; did you mean delay.floor_ms?",
    ),
    "a bare key": ("", {}, {"floor_ms": "3"}, "did you mean delay.floor_ms?"),
    "nothing like it": ("", {}, {"zzz": "3"}, "the nearest known one is "),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_an_unknown_name_is_an_error_that_names_the_nearest(case: str, tmp_path: Path) -> None:
    text, environ, overrides, told = UNKNOWN[case]
    assert told in refusal(tmp_path, text, environ=environ, overrides=overrides)


BAD = {
    "text for a number": ("[delay]\nfloor_ms = '2s'", {}, "delay.floor_ms = '2s' is refused: it must be a whole number from 0 to 86400000"),
    "a fraction for a whole number": ("", {"delay.floor_ms": "1500.5"}, "it must be a whole number"),
    "true for a number": ("[delay]\nfloor_ms = true", {}, "it must be a whole number"),
    "too small": ("", {"window.seconds": "0"}, "--set: window.seconds = 0 is refused: it must be a whole number from 1 to 2678400"),
    "too large": ("", {"fetch.connections": "1000000"}, "from 1 to 10000"),
    "not a number at all": ("", {"recrawl.first_days": "nan"}, "it must be a number from 0.001"),
    "no power of two": ("", {"lake.buckets": "65"}, "it must be a power of two; the next is 128"),
    "none of the words": ("", {"filters.stay": "page"}, "it must be one of any, domain, host"),
    "neither true nor false": ("", {"fetch.verify_tls": "maybe"}, "it must be true or false"),
    "a network with host bits": ("", {"security.allow_addresses": "10.0.0.1/8"}, "host bits set"),
    "no address": ("[dns]\nstatic = {'*.test' = 'localhost'}", {}, "'localhost' does not appear to be"),
    "a contact that nobody can use": ("", {"identity.contact": "me"}, "a web address"),
    "a contact that breaks a header": ("", {"identity.contact": "a@b.example\r\nX: y"}, "a web address"),
    "a product with a blank": ("", {"identity.product": "my bot"}, "identity.product"),
    "weights that are none": ("", {"plan.bands": "1,-2"}, "each above 0"),
    "a section that is a value": ("delay = 3", {}, "write [delay]"),
    "no TOML": ("[delay", {}, "my.toml: not valid TOML: "),
    "two that cross": ("", {"dns.ttl_floor_seconds": "500", "dns.ttl_ceiling_seconds": "400"}, "is more than"),
    "hours beyond days": ("", {"recrawl.min_hours": "49", "recrawl.first_days": "1", "recrawl.max_days": "2"}, "min_hours = 49.0 is more than recrawl.max_days = 2.0 (48 hours)"),
    "a budget below nothing": ("", {"budget.labels": '{"dk" = -1}'}, "dk = -1 is below 0"),
    "a name server by name": ("", {"dns.servers": "foo:53"}, "'foo' does not appear to be an IPv4 or IPv6 address"),
    "a port that is none": ("", {"dns.servers": "127.0.0.1:99999"}, "a port is a number from 1 to 65535"),
    "a port that is none, IPv6": ("", {"dns.servers": "[::1]:0"}, "a port is a number from 1 to 65535"),
    "a pattern that is none": ("", {"filters.include": '["/ok*", "re:["]'}, "filters.include = 're:[' is no regular expression"),
    "a pattern too deep": ("", {"filters.exclude": '["re:' + "(" * 5_000 + '"]'}, "nested too deep"),
    "a rule that is none": ("", {"filters.rules_off": "extnsion"}, "'extnsion' is no rule; did you mean 'extension'?"),
    "a trap that is none": ("", {"filters.traps_off": "xyz"}, "filters.traps_off = 'xyz' is no rule; there are "),
    "a lease that one late renewal ends": ("", {"fetch.lease_seconds": "10"}, "more than a third"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_value_is_one_sentence_with_place_value_and_bound(case: str, tmp_path: Path) -> None:
    text, overrides, told = BAD[case]
    said = refusal(tmp_path, text, overrides=overrides)
    assert told in said
    assert "\n" not in said


@pytest.mark.parametrize("server", ["127.0.0.1", "127.0.0.1:5353", "::1", "[::1]", "[2001:db8::1]:53"])
def test_name_servers_are_addresses_perhaps_with_a_port(server: str) -> None:
    assert load(environ={}, overrides={"dns.servers": server}).dns.servers == (server,)


def test_a_file_that_is_missing_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml: .*No such file"):
        load([tmp_path / "nowhere.toml"], environ={})
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load([binary], environ={})


def test_P1_no_host_is_asked_more_than_once_a_second_but_on_loopback(tmp_path: Path) -> None:
    fast = {"delay.floor_ms": "999"}
    assert "more than once a second" in refusal(tmp_path, overrides=fast)
    for networks in ("10.0.0.0/8", "127.0.0.0/8,0.0.0.0/0", "127.0.0.0/8,::/0"):
        assert "more than once a second" in refusal(
            tmp_path, overrides=fast | {"security.allow_addresses": networks}
        )
    assert load(environ={}, overrides=fast | LOOPBACK).delay.floor_ms == 999


def test_a_real_crawl_without_contact_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"identity\.contact"):
        require_contact(Settings())
    require_contact(load(environ={}, overrides=LOOPBACK))
    require_contact(load(environ={}, overrides={"identity.contact": "you@example.org"}))


def test_the_contact_goes_into_the_user_agent() -> None:
    settings = load(environ={}, overrides={"identity.contact": "https://example.org/bot"})
    assert re.fullmatch(r"Noria/\S+ \(\+https://example\.org/bot\)", settings.user_agent)


TEXTS = {
    "dns.static": (
        '{ "*.Test" = ["127.0.0.1", "::1"], "b.test" = "127.0.0.2" }',
        {"*.test": "127.0.0.1, ::1", "b.test": "127.0.0.2"},
    ),
    "security.allow_addresses": (" 127.0.0.0/8 ,::1/128", ("127.0.0.0/8", "::1/128")),
    "filters.include": ('["http://a.example/*,b"]', ("http://a.example/*,b",)),
    "filters.blocked_hosts": ("a.example", ("a.example",)),
    "plan.bands": ("8, 4,1.5", (8.0, 4.0, 1.5)),
    "plan.max_pages": ("1_000", 1000),
    "delay.address_floors_ms": ("192.0.2.0/24=50", {"192.0.2.0/24": 50}),
    "budget.labels": ('{"dk" = 10}', {"dk": 10}),
    "fetch.verify_tls": ("No", False),
    "warc.operator": ("= a, b =", "= a, b ="),
}


@pytest.mark.parametrize("name", TEXTS)
def test_every_kind_of_setting_can_be_given_as_text(name: str) -> None:
    text, value = TEXTS[name]
    section, key = name.split(".")
    assert getattr(load(environ={}, overrides={name: text}).section(section), key) == value


def test_a_table_under_a_heading_of_its_own_is_the_same(tmp_path: Path) -> None:
    settings = loaded(tmp_path, '[dns]\ntries = 1\n[dns.static]\n"*.test" = "127.0.0.1"\n')
    assert settings.dns.static == {"*.test": "127.0.0.1"}
    assert settings.origins["dns.static"].endswith("line 3")


@hypothesis_settings(deadline=None, max_examples=50)  # a load reads default.toml: slow on a busy machine
@given(st.text(max_size=60))
def test_no_text_makes_a_setting_crash(text: str) -> None:
    for name in (
        "delay.floor_ms",
        "dns.static",
        "security.allow_addresses",
        "plan.bands",
        "identity.contact",
        "fetch.verify_tls",
    ):
        try:
            load(environ={}, overrides={name: text})
        except ConfigError as error:
            assert name in str(error)


def test_settings_travel_to_workers_and_back(tmp_path: Path) -> None:
    settings = loaded(tmp_path, "[dns.static]\n'*.test' = '127.0.0.1'\n", overrides=LOOPBACK)
    for copy in (pickle.loads(pickle.dumps(settings)), Settings.from_json(settings.to_json())):
        assert copy == settings
        assert copy.origins == settings.origins
        assert copy.digest() == settings.digest()


def test_the_digest_changes_with_a_setting_and_not_with_its_origin_or_the_log(tmp_path: Path) -> None:
    usual = Settings().digest()
    assert load(environ={}, overrides={"window.seconds": "5"}).digest() != usual
    assert load(environ={}, overrides={"window.seconds": "3600", "log.level": "debug"}).digest() == usual


def test_settings_are_frozen() -> None:
    for name in sections():
        section = Settings().section(name)
        with pytest.raises(ValueError, match="frozen"):
            setattr(section, next(iter(type(section).model_fields)), 1)


def test_loopback_is_told_from_the_rest() -> None:
    assert is_loopback(("127.20.0.0/15", "::1/128"))
    assert not is_loopback(("126.0.0.0/7",))
    assert not is_loopback(())
