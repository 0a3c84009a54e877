"""The command line as a user meets it: what is printed, and with what exit code."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
import typer

import lake
from lake import inbox
from pipelines.app import errors, seeds_cmd
from pipelines.app.cli import app
from pipelines.config import known
from pipelines.failure import Failure
from pipelines.toyweb import ToyWeb

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def noria(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*argv: str) -> tuple[int, str, str]:
        hook = sys.excepthook
        code = errors.run(app, list(argv))
        sys.excepthook = hook
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


MISTYPED = {
    "cycl": "did you mean 'cycle'?",
    "cycle --windo 3": "did you mean --window?",
    "cycle --window soon": "invalid value for '--window': a whole number is wanted",
    "cycle --window": "requires an argument",
    "cycle extra": "unexpected extra argument",
    "cycle --window 0": "--window: window.seconds = 0 is refused: it must be a whole number from 1",
    "cycle --max-pages -1": "--max-pages: plan.max_pages = -1 is refused",
    "cycle --scheduler foo": "--scheduler: cluster.scheduler = foo is refused: it must be an address with a port, such as tcp://host:8786",
    "cycle --scheduler foo://a.example:8786": "such as tcp://host:8786",
    "--lake x status": "options stand behind the command",
    "status --set x": "KEY=VALUE",
    "status --set floor_ms=3": "did you mean delay.floor_ms?",
    "status --conf nowhere.toml": "nowhere.toml: the configuration file cannot be read",
    "seeds add": "no seeds given",
    "seeds scan 127.0.0.1/32": "scanning is off",
    "seeds add nowhere.txt": "neither a file nor a URL",
    "seeds add ftp://a.example/": "not an http or https URL",
    "conf show delai": "did you mean delay?",
    "conf show --toml --json": "printed as the one or the other",
    "conf sho": "did you mean 'show'?",
    "toyweb --hosts 0": "1 to 100,000 hosts",
    "toyweb --port 70000": "0 to 65,535",
    "seeds add http://a.example/\udcff": "no UTF-8 text",
    "seeds add http://a.example/ --label \udcff": "no UTF-8 text",
    "check foo": "no such command 'foo'",
    "cycle": "no seeds to begin one: give --seeds FILE",
    "cycle --seeds http://a.example/": "identity.contact is empty",
    "cycle --demo --seeds http://a.example/": "leave out --demo",
}  # fmt: skip


@pytest.mark.parametrize("line", MISTYPED)
def test_a_mistake_is_one_sentence_and_exit_code_2(line: str, noria: Run, tmp_path: Path) -> None:
    code, out, err = noria(*line.split())
    assert (code, out) == (2, "")
    assert MISTYPED[line] in err.replace("Did you", "did you")
    assert err.startswith("noria") and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["status", "check", "check --deep", "cycle --seeds http://a.example/"])
def test_a_lake_path_that_is_a_file_fails_with_a_sentence(command: str, noria: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    code, out, err = noria(*command.split(), "--lake", "file", "--set", "identity.contact=you@example.org")
    assert (code, out) == (1, "")
    assert "is a file" in err and err.count("\n") == 1


def test_a_lake_that_is_not_there_is_named(noria: Run) -> None:
    code, _, err = noria("status", "--lake", "nowhere")
    assert code == 1
    assert "nowhere does not exist" in err


def test_debug_shows_the_traceback_too(noria: Run) -> None:
    assert "Traceback" not in noria("status", "--set", "x=1")[2]
    assert "Traceback" in noria("status", "--set", "x=1", "--debug")[2]


def test_help_names_every_command(noria: Run) -> None:
    code, out, _ = noria("--help")
    assert code == 0
    for command in ("cycle", "seeds", "status", "check", "conf", "toyweb"):
        assert command in out


def test_the_version_and_no_command_at_all(noria: Run) -> None:
    assert noria("--version")[:2] == (0, f"noria {version('noria')}\n")
    for words in ([], ["seeds"]):
        code, _, err = noria(*words)
        assert code == 2 and "a command is wanted" in err


def test_help_tells_the_defaults_that_hold(noria: Run) -> None:
    from pipelines.app.simulate_cmd import BASE
    from pipelines.config import load

    settings = load(environ={})
    _, cycle, _ = noria("cycle", "--help")
    assert f"[{settings.window.seconds}]" in cycle
    _, simulate, _ = noria("simulate", "--help")
    assert f"[{BASE['window']['seconds']}]" in simulate
    assert f"[{BASE['plan']['max_pages']}]" in simulate


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys; from pipelines.app.cli import app; from pipelines.app import errors; errors.run(app, ['--help']);"
        "heavy = {'pyarrow', 'dask', 'distributed', 'deltalake', 'numpy', 'pandas', 'aiohttp', 'pydantic', 'bokeh'};"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_toy_web_that_cannot_begin_says_what_is_in_its_way(noria: Run) -> None:
    told = noria("toyweb", "--port", "0", "--log", "nowhere/log")
    assert told == (1, "", "noria: nowhere/log: No such file or directory\n")
    with socket.create_server((ToyWeb(hosts=1).addresses()[0], 0)) as taken:
        code, _, err = noria("toyweb", "--hosts", "1", "--port", str(taken.getsockname()[1]))
    assert code == 1 and err.endswith("choose another --port, or 0 for any free one\n")


def test_seeds_go_in_and_rubbish_is_told_with_its_line(noria: Run, tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_text(
        "http://a.example/\tlabel=dk\nrubbish\nexample.org\n", encoding="utf-8"
    )
    code, out, err = noria("seeds", "add", "seeds.txt", "--lake", "l")
    assert code == 0
    assert out.startswith("1 seed in the inbox of l, 2 lines refused")
    assert err.splitlines() == [
        "seeds.txt line 2: 'rubbish' is not an http or https URL; skipped",
        "seeds.txt line 3: 'example.org' has no scheme; write https://example.org; skipped",
    ]
    assert len(inbox.pending(tmp_path / "l")) == 1


def test_seeds_of_which_none_is_good_fail(
    noria: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    code, _, err = noria("seeds", "add", "-", "--lake", "l")
    assert (code, err) == (1, "noria: no seeds in standard input: there is no line in it\n")


def test_status_json_has_the_keys_that_others_rely_on(noria: Run, tmp_path: Path) -> None:
    lake.create(tmp_path / "l", buckets=8)
    code, out, err = noria("status", "--lake", "l", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert {"cycles", "seen", "shelves", "hosts", "captures", "contents", "last_cycle"} <= set(found)
    assert found["shelves"] == {"ready": 0, "backlog": 0, "later": 0, "retired": 0}


def test_check_finds_no_fault_in_a_new_lake_and_names_those_of_a_broken_one(
    noria: Run, tmp_path: Path
) -> None:
    lake.create(tmp_path / "l", buckets=8)
    assert noria("check", "--lake", "l")[0] == 0
    assert json.loads(noria("check", "--lake", "l", "--deep", "--json")[1])["faults"] == []
    (tmp_path / "l" / "noria.json").write_text("{", encoding="utf-8")
    code, _, err = noria("check", "--lake", "l")
    assert code == 1
    assert "noria.json" in err


def test_another_bucket_count_than_the_lakes_is_a_mistake_only_where_somebody_set_it(
    noria: Run, tmp_path: Path
) -> None:
    lake.create(tmp_path / "l", buckets=8)
    assert noria("status", "--lake", "l")[0] == 0
    code, _, err = noria("status", "--lake", "l", "--set", "lake.buckets=16")
    assert code == 2
    assert "made with 8" in err


def test_conf_show_tells_value_and_origin_of_everything(noria: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NORIA_DELAY__FLOOR_MS", "2000")
    lines = noria("conf", "show", "--set", "window.seconds=60")[1].splitlines()
    assert [line.split()[0] for line in lines] == list(known())
    assert "2000" in lines[2] and lines[2].endswith("NORIA_DELAY__FLOOR_MS")
    changed = noria("conf", "show", "--changed", "--set", "window.seconds=60")[1]
    assert [line.split() for line in changed.splitlines()] == [
        ["delay.floor_ms", "2000", "NORIA_DELAY__FLOOR_MS"], ["window.seconds", "60", "--set"],
    ]  # fmt: skip


def test_conf_show_of_one_setting_tells_its_meaning(noria: Run) -> None:
    assert "least pause" in noria("conf", "show", "delay.floor_ms")[1]
    assert "least pause" in noria("conf", "show", "floor_ms")[1]
    assert len(noria("conf", "show", "window")[1].splitlines()) == 2
    shown = json.loads(noria("conf", "show", "--json", "lake")[1])
    assert shown["lake.buckets"]["value"] == 64


def test_conf_show_toml_is_a_configuration_file_again(noria: Run, tmp_path: Path) -> None:
    text = noria("conf", "show", "--toml", "--set", "window.seconds=60")[1]
    (tmp_path / "again.toml").write_text(text, encoding="utf-8")
    assert "again.toml line" in noria("conf", "show", "window", "--conf", "again.toml")[1]


def test_a_closed_pipe_ends_quietly() -> None:
    command = f"{sys.executable} -m pipelines.app.cli conf show | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.startswith("identity.product")


def test_letters_that_a_terminal_has_not_stop_nothing(tmp_path: Path) -> None:
    folder = lake.create(tmp_path / "läke", buckets=8).root
    command = [sys.executable, "-m", "pipelines.app.cli", "status", "--lake", str(folder)]
    environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, env=environ, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"l?ke, 0 cycles" in done.stdout


def test_piped_output_has_no_control_characters(tmp_path: Path) -> None:
    for words in (["--help"], ["cycle", "--help"], ["conf", "show"]):
        done = subprocess.run(
            [sys.executable, "-m", "pipelines.app.cli", *words], capture_output=True, check=True
        )
        assert b"\x1b" not in done.stdout + done.stderr


def test_a_program_error_is_a_sentence_too() -> None:
    script = (
        "import sys; from pipelines.app import cli, errors\n"
        "@cli.app.command()\ndef broken(): return {}['x']\n"
        "errors.run(cli.app, ['broken'])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "KeyError" in done.stderr and "--debug" in done.stderr
    assert done.stderr.count("\n") == 1


def test_bytes_that_are_no_text_are_named_wherever_they_are_written(
    noria: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seeds_cmd, "metadata_of", lambda pairs, **_: "\udcff".encode())
    code, _, err = noria("seeds", "add", "--label", "\udcff")
    assert (code, err) == (2, "noria: '\\udcff' holds bytes that are no UTF-8 text\n")


def test_an_early_end_of_a_file_is_no_ctrl_d(noria: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(*_: object, **__: object) -> None:
        raise EOFError("Compressed file ended")

    monkeypatch.setattr(seeds_cmd, "run_wish", ends)
    code, _, err = noria("seeds", "add", "http://a.example/")
    assert (code, err) == (1, "noria: a file ends too early (Compressed file ended)\n")


def test_a_ctrl_c_is_told_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    stopped = typer.Typer()

    @stopped.command()
    def report() -> None:
        with errors.told():
            raise KeyboardInterrupt

    assert errors.run(stopped, []) == 130
    assert capsys.readouterr() == ("", "noria: stopped\n")


def test_a_full_disk_and_too_many_files_are_sentences(noria: Run, tmp_path: Path) -> None:
    with pytest.raises(Failure, match="the disk is full"), errors.told():
        raise OSError(28, "No space left on device", "lake/x")
    with pytest.raises(Failure, match="ulimit -n"), errors.told():
        raise OSError(24, "Too many open files")
