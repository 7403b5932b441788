import io
import json
import logging

import pytest

from regard.server.telemetry import configure_logging, log, log_error


@pytest.fixture
def lines():
    loggers = [logging.getLogger(name) for name in ("regard.server", "uvicorn.error", "asyncio")]
    before = [(one, one.handlers, one.propagate, one.level) for one in loggers]
    stream = io.StringIO()
    configure_logging(stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    for one, handlers, propagate, level in before:
        one.handlers, one.propagate = handlers, propagate
        one.setLevel(level)


def test_an_event_is_a_line_of_json_with_its_fields(lines):
    log("reloaded", model="fr-en", seconds=0.5)
    [line] = lines()
    assert line.pop("time").endswith("+00:00")
    assert line == {"level": "info", "event": "reloaded", "model": "fr-en", "seconds": 0.5}


def test_an_error_is_logged_without_its_message(lines):
    try:
        raise ValueError("Dear Jane, my account is 12345")
    except ValueError as error:
        log_error("a batch failed", error, model="fr-en")
    [line] = lines()
    assert line["error"] == "builtins.ValueError"
    assert "test_an_error_is_logged_without_its_message" in line["places"][-1]
    assert "Jane" not in json.dumps(line)


def test_warnings_of_uvicorn_are_logged_in_the_same_form(lines):
    logging.getLogger("uvicorn.error").warning("Invalid %s", "request")
    logging.getLogger("uvicorn.error").info("chatter")
    [line] = lines()
    assert (line["level"], line["event"]) == ("warning", "Invalid request")
