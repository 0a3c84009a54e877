"""`noria doctor`: what each check says of a machine that is fit, and of one that is not."""

from __future__ import annotations

import json
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.app import doctor_cmd, machine
from pipelines.app.machine import BAD, OK, WARN, Finding
from pipelines.config import Settings, load


def settings(lake: Path, **more: str) -> Settings:
    return load(
        [],
        environ={},
        overrides={
            "lake.path": str(lake),
            **{name.replace("__", "."): value for name, value in more.items()},
        },
    )


@pytest.fixture
def few_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_this_machine_can_run_the_tests_so_it_is_fit(tmp_path: Path) -> None:
    fit = settings(tmp_path / "lake", cluster__dashboard_port="0")
    for check in (machine.python, machine.packages, machine.place, machine.links, machine.port, machine.tls):
        assert check(fit).state == OK, check(fit)
    assert list(tmp_path.iterdir()) == []


def test_a_taken_port_is_a_warning(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        found = machine.port(settings(tmp_path, cluster__dashboard_port=str(number)))
    assert (found.state, str(number) in found.what) == (WARN, True)


def test_too_few_files_are_a_fault_with_the_command_that_mends_it(tmp_path: Path, few_files: None) -> None:
    found = machine.files(settings(tmp_path))
    assert found.state == BAD and found.remedy.startswith("ulimit -n 656")


def test_a_lake_that_cannot_be_opened_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "noria.json").write_text("{", encoding="utf-8")
    assert machine.place(settings(tmp_path)).state == BAD


def test_a_name_server_that_does_not_answer_is_a_warning(tmp_path: Path) -> None:
    unheard = settings(tmp_path, dns__servers='["127.0.0.1"]', dns__timeout_ms="100", dns__tries="1")
    assert machine.dns(unheard).state == WARN


def test_a_missing_contact_is_a_warning_with_the_setting(tmp_path: Path) -> None:
    assert "identity.contact=" in machine.contact(settings(tmp_path)).remedy
    assert machine.contact(settings(tmp_path, identity__contact="a@b.example")).state == OK


def test_every_check_that_found_something_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    told = [Finding("a", OK, "fine"), Finding("b", WARN, "meh", "this"), Finding("c", BAD, "broken", "that")]
    assert list(doctor_cmd._printed(told)) == told
    assert "do: that" in capsys.readouterr().out
    assert doctor_cmd.summary(told).startswith("1 of 3 checks failed")
    assert doctor_cmd.summary(told[:2]) == "This machine is fit for a crawl (1 warnings)."


def test_the_whole_of_it_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A cluster is started and its page opened; nothing leaves the machine but one name look-up, to nowhere."""
    quick = settings(tmp_path / "lake", dns__servers='["127.0.0.1"]', dns__timeout_ms="100", dns__tries="1")
    code = doctor_cmd.run(quick, browser=True, as_json=True)
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    assert found["dashboard"]["state"] == OK
    assert list(found) == list(machine.checks(browser=True))
    assert all(one["remedy"] for one in found.values() if one["state"] != OK)
    assert code == int(any(one["state"] == BAD for one in found.values()))
