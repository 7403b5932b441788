"""The consoles of all commands: answers on stdout, everything else on stderr."""

import json
import sys
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.markup import escape

from regard.settings import escape_control


class PipedConsole(Console):
    """A console that raises BrokenPipeError; rich would exit."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


out = PipedConsole(highlight=False, soft_wrap=True)  # answers: stdout
err = PipedConsole(stderr=True, highlight=False)  # everything else, so that answers can be piped


def escape_message(message: str) -> str:
    """A message escaped for rich's markup, without control characters except line ends."""
    return escape(escape_control(message, kept="\n"))


def note(message: str) -> None:
    err.print(f"[dim]{escape_message(message)}[/dim]", soft_wrap=True)


def print_error(message: str) -> None:
    with suppress(OSError):  # stderr may be a file on a full disk; the exit code remains
        err.print(f"[bold red]error:[/bold red] {escape_message(message)}", soft_wrap=True)


def print_json(value: Any) -> None:
    print(to_json(value), file=sys.stdout)


def to_json(value: Any) -> str:
    """One line of JSON."""
    return json.dumps(value, ensure_ascii=False)
