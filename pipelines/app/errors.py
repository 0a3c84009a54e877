"""From what went wrong to one sentence and an exit code: 2 for usage, 1 for failure, 130 for Ctrl-C."""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from types import TracebackType

import typer
import typer.main

from pipelines.failure import Failure, Stopped

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
NOT_WHOLE = "Input should be a valid integer, unable to parse string as an integer"


def run(app: typer.Typer, argv: list[str]) -> int:
    """Run the command line and return its exit code; whatever goes wrong is told in one sentence on stderr."""
    debug = "--debug" in argv
    sys.excepthook = _debug_hook if debug else _hook
    try:
        code = typer.main.get_command(app)(args=argv, prog_name="noria", standalone_mode=False)
    except Failure as failure:
        return _tell(str(failure), failure.exit_code, debug=debug)
    except typer.TyperException as misuse:
        return _tell(_usage(misuse), getattr(misuse, "exit_code", 2), debug=debug)
    except (KeyboardInterrupt, typer.Abort):
        return _tell("stopped", Stopped.exit_code, debug=False)
    except BrokenPipeError:
        return _quiet_pipe()
    except UnicodeEncodeError:
        from pipelines.seeds.read import is_text  # here: it is rarely asked for

        if not (wrong := [word for word in argv if not is_text(word)]):
            raise
        return _tell(f"{wrong[0]!r} holds bytes that are no UTF-8 text", 2, debug=debug)
    return code if isinstance(code, int) else 0


@contextmanager
def told() -> Iterator[None]:
    """Turn what the lake and the machine refuse into a Failure that says so, and a Ctrl-C that nobody heard into Stopped.

    The parser would make exit code 130 of that one, and say nothing.
    """
    try:
        yield
    except KeyboardInterrupt as stop:
        raise Stopped("stopped") from stop
    except (Failure, BrokenPipeError):
        raise
    except OSError as error:
        raise Failure(_of_machine(error)) from error
    except EOFError as error:  # the parser of the command line would take it for Ctrl-D
        raise Failure(f"a file ends too early ({str(error) or 'nothing is left to read'})") from error
    except _lake_error() as error:
        raise Failure(str(error)) from error


def _lake_error() -> type[Exception]:
    """Looked up when something went wrong only: `noria conf show` need not wait for Arrow."""
    from lake.errors import LakeError

    return LakeError


def _of_machine(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in DISK_FULL:
        return f"{where}the disk is full; nothing that was committed is lost: free some space and run the same command again"
    if error.errno == errno.EMFILE:
        return f"{where}this process may open no more files at once; allow it more with ulimit -n 65536, and run it again"
    return f"{where}{error.strerror or error}"


def _usage(error: typer.TyperException) -> str:
    """The parser's own words, with the nearest option named and where to read more."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "noria"
    words = getattr(error, "format_message", lambda: str(error))().strip().rstrip(".").split(" (Possible")[0]
    option = getattr(error, "option_name", None)
    if option and context and "No such option" in words:
        words += _did_you_mean(option, [name for param in context.command.params for name in param.opts])
    words = words.replace(NOT_WHOLE, "a whole number is wanted")
    sentence = words[:1].lower() + words[1:] or "a command is wanted"
    return f"{command}: {sentence} ({command} --help tells more)"


def _did_you_mean(option: str, options: list[str]) -> str:
    close = get_close_matches(option, options, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]}?"
    return "" if "--lake" in options else "; options stand behind the command: noria cycle --lake …"


def _tell(sentence: str, code: int, *, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print(f"noria: {sentence}" if not sentence.startswith("noria") else sentence, file=sys.stderr)
    return code


def _quiet_pipe() -> int:
    """The reader went away (`noria status | head`): nobody is left to tell."""
    sys.stdout = open("/dev/null", "w")  # noqa: SIM115  the interpreter flushes it when it ends
    return 1


def _hook(kind: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
    print(
        f"noria: something went wrong inside Noria: {kind.__name__}: {error}; what was committed is safe, "
        "run the command again with --debug to see where",
        file=sys.stderr,
    )


def _debug_hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    traceback.print_exception(kind, error, trace)
