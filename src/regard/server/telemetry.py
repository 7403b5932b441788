"""Logs (a line of JSON for each event) and Prometheus metrics.

Neither contains clients' texts: an unexpected error, whose message may quote one, is logged by its
type and stack frames only.
"""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from functools import partial
from typing import Any, TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

LOGGER = logging.getLogger("regard.server")
SECONDS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
LINES_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON: time, level, event and the fields given with it."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            frames = traceback.extract_tb(error.__traceback__)
            line["error"] = f"{type(error).__module__}.{type(error).__qualname__}"
            line["places"] = [f"{one.filename}:{one.lineno} {one.name}" for one in frames]
        return json.dumps(line, ensure_ascii=False)


def configure_logging(stream: TextIO | None = None) -> None:
    """Write our events, and uvicorn's warnings, to stderr or `stream`."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name in ("regard.server", "uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
    LOGGER.setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)


def log(event: str, level: int = logging.INFO, **facts: Any) -> None:
    """Log an event with its fields."""
    LOGGER.log(level, event, extra={"facts": facts})


def log_error(event: str, error: BaseException, **facts: Any) -> None:
    """Log an unexpected error with its type and stack frames."""
    LOGGER.error(event, exc_info=error, extra={"facts": facts})


class ServerMetrics:
    """The metrics of one server, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        seconds = partial(Histogram, registry=self.registry, buckets=SECONDS_BUCKETS)
        lines = partial(Histogram, registry=self.registry, buckets=LINES_BUCKETS)
        self.requests = counter(
            "regard_requests_total", "Requests answered.", ["route", "method", "status"]
        )
        self.request_seconds = seconds(
            "regard_request_seconds", "From a request's head to its response's end.", ["route"]
        )
        self.active_requests = gauge("regard_requests_inside", "Requests being answered.")
        self.queued = gauge("regard_queue_requests", "Requests waiting for a model.", ["model"])
        self.backlog = gauge("regard_queue_seconds", "Estimated work of a model.", ["model"])
        self.batches = lines("regard_batch_lines", "Lines in a batch.", ["model"])
        self.batch_seconds = seconds("regard_batch_seconds", "Duration of a batch.", ["model"])
        self.tokens = counter("regard_source_tokens_total", "Source tokens read.", ["model"])
        self.dropped = counter(
            "regard_requests_dropped_total", "Requests dropped before their answer.", ["reason"]
        )
        self.reloads = counter("regard_reloads_total", "Reloads of models.", ["model", "outcome"])
