"""What all commands say, and how."""

import json
import sys
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.markup import escape


class PipedConsole(Console):
    """A console that leaves it to the command line what to do when its reader has gone."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


out = PipedConsole(highlight=False, soft_wrap=True)
"""Answers: stdout."""
err = PipedConsole(stderr=True, highlight=False)
"""Everything else: stderr, so that answers can be piped."""


def note(message: str) -> None:
    """Tell the person something, beside the answer."""
    err.print(f"[dim]{escape(message)}[/dim]", soft_wrap=True)


def print_error(message: str) -> None:
    """Say what went wrong."""
    with suppress(OSError):  # a log on a full disk: the exit code says it
        err.print(f"[bold red]error:[/bold red] {escape(message)}", soft_wrap=True)


def print_json(value: Any) -> None:
    """One line of JSON, for a machine to read."""
    print(json.dumps(value, ensure_ascii=False), file=sys.stdout)
