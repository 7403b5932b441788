"""What the server says of itself: a line of JSON for each event, and never a text.

Texts can be in the message of any error, so of an error that nobody foresaw only its kind and the
places in the code that it came through are written.
"""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO

LOGGER = logging.getLogger("regard.server")


class JsonFormatter(logging.Formatter):
    """Each record as one line of JSON: when, how grave, what, and the facts about it."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line |= describe_error(record.exc_info[1])
        return json.dumps(line, ensure_ascii=False)


def describe_error(error: BaseException) -> dict[str, Any]:
    """The kind of an error and the places it came through, the innermost last; not its message."""
    frames = traceback.extract_tb(error.__traceback__)
    return {
        "error": f"{type(error).__module__}.{type(error).__qualname__}",
        "places": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
    }


def configure_logging(stream: TextIO | None = None) -> None:
    """Write our events, and uvicorn's, to stderr or `stream`."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name in ("regard.server", "uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
    LOGGER.setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)  # what it says of its own is ours


def log(event: str, level: int = logging.INFO, **facts: Any) -> None:
    """Write an event and the facts about it."""
    LOGGER.log(level, event, extra={"facts": facts})


def log_error(event: str, error: BaseException, **facts: Any) -> None:
    """Write an event that should not have been."""
    LOGGER.error(event, exc_info=error, extra={"facts": facts})
