"""Logs: for a person on stderr, and JSON lines in a file, one an event.

log = structlog.get_logger()
log.info("partition given up", partition=7, attempts=3)
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from pipelines.failure import Failure

if TYPE_CHECKING:
    from pipelines.settings import Log

FILE = "noria.jsonl"
NOISY = ("distributed", "aiohttp", "asyncio", "bokeh", "tornado")
"""Libraries whose chatter below a warning is not ours to tell."""


def start(settings: Log, *, at_work: bool = False) -> None:
    """Send every event from now on to stderr and, as JSON lines, to `settings.folder`.

    at_work: a live display holds the terminal, so stderr gets warnings only. A second call replaces the first. Raises
    Failure where the folder cannot be written to.
    """
    stop()
    root = logging.getLogger()
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    root.setLevel(level)
    _add(
        root,
        logging.StreamHandler(sys.stderr),
        _for_people(),
        max(level, logging.WARNING) if at_work else level,
    )
    if settings.folder:
        path = Path(settings.folder) / FILE
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = logging.FileHandler(path, encoding="utf-8")
        except OSError as error:
            raise Failure(
                f"the log cannot be written to {path} ({error.strerror}); name another folder with --set log.folder=FOLDER, "
                'or none with --set log.folder=""'
            ) from error
        _add(root, file, structlog.processors.JSONRenderer(), level)
    structlog.configure(
        processors=[*_shared(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def stop() -> None:
    """Send nothing anywhere any more."""
    root = logging.getLogger()
    for handler in [one for one in root.handlers if getattr(one, "of_noria", False)]:
        root.removeHandler(handler)
        handler.close()


def _add(root: logging.Logger, handler: logging.Handler, renderer: Any, level: int) -> None:
    handler.setLevel(level)
    handler.addFilter(_not_chatter)  # on the handler: distributed sets its loggers' levels itself, and later
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_shared(),
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    handler.of_noria = True  # type: ignore[attr-defined]
    root.addHandler(handler)


def _not_chatter(record: logging.LogRecord) -> bool:
    if record.name.startswith(
        "distributed.nanny"
    ):  # a worker's end and restart: the cycle tells what follows
        return record.levelno >= logging.ERROR
    return record.levelno >= logging.WARNING or not record.name.startswith(NOISY)


def _shared() -> list[Any]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]


def _for_people() -> Any:
    return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
