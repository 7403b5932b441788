"""The command `regard`: its commands, their errors, signals and streams."""

import atexit
import errno
import gc
import io
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from regard import __version__
from regard.atomic_io import DISK_FULL, storage_error
from regard.cli.display.console import note, print_error
from regard.errors import RegardError, RunWarning, StorageError
from regard.interruption import InterruptedBySignal, exit_on_signals, has_running_work
from regard.tasks.registry import VERBS

STDOUT = "standard output"
_TRANSLATE, *_OTHER_VERBS = ((name, verb.about) for name, verb in VERBS.items())
COMMANDS = {
    "demo": "Train a small translator, read its translations and see what it attends to.",
    "train": "Train a model from a recipe, or from your own files.",
    **dict([_TRANSLATE]),
    "bulk": "Translate files of any size on Ray with many actors; continue after a stop.",
    **dict(_OTHER_VERBS),
    "evaluate": "Score a model on held-out data; compare it with another.",
    "look": "Show what a model attends to: words, regions, time steps; or measure its heads.",
    "align": "Align words by attention; with gold, measure the alignment error rate.",
    "serve": "Serve models over HTTP: a page, LibreTranslate's interface, attention, alignments.",
    "compare": "Train several systems in the same way, then score and time them in one table.",
    "bench": "Measure how fast a model translates here, and which engine is the fastest.",
    "doctor": "Examine a corpus before training: problems, and the time and memory needed.",
    "import": "Import a model from another toolkit as a run that computes the same.",
    "export": "Export a model for CTranslate2, transformers or onnxruntime, or as a compact run.",
    "verify": "Check that every file of a run is as regard wrote it; say how to repair it.",
    "average": "Average the weights of several checkpoints into one model.",
    "corpora": "List the corpora that can be used by name, and look into them.",
    "recipes": "List and print the built-in recipes (the shelf), and the schema of settings.",
}
"""Name -> help. The modules of commands import torch, which is too slow for `regard --help`."""
CATALOGUES = ("corpora", "recipes")
"""Commands that list what is available, in `cli/catalogues`. Those of tasks are made by
`cli/use.py` from their options; all others are in `cli/commands`."""
MODULES = {"import": "import_model"}
"""Commands whose modules have another name, because Python cannot import theirs."""


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are run."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        command = load_command(str(name))
        reject_repeated_options(command, rest, ctx)
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        """Run a command; exit codes tell interrupts and broken pipes apart."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # raises BrokenPipeError here if the reader has gone
        except KeyboardInterrupt as error:
            print_error("interrupted")
            number = error.number if isinstance(error, InterruptedBySignal) else signal.SIGINT
            raise typer.Exit(128 + number) from None
        except BrokenPipeError:
            redirect_stdout_to_devnull()
            raise typer.Exit(141) from None
        return result


def reject_repeated_options(command: Any, args: list[str], parent: Any) -> None:
    """Exit with a usage error if an option with one value is given twice; click takes the last."""
    ctx = command.context_class(
        command, parent=parent, info_name=command.name, **command.context_settings
    )
    _, rest, given = command.make_parser(ctx).parse_args(args=list(args))
    options = [one for one in given if one.param_type_name == "option"]
    for option in options:
        plain_flag = option.is_flag and not option.secondary_opts
        times = options.count(option)
        if times > 1 and not (option.multiple or option.count or plain_flag):
            names = "/".join((*option.opts, *option.secondary_opts))
            ctx.fail(f"{names} takes one value and is given {times} times.")
    inner = getattr(command, "commands", {})
    if rest and rest[0] in inner:
        reject_repeated_options(inner[rest[0]], rest[1:], ctx)


def redirect_stdout_to_devnull() -> None:
    """Discard buffered output, which Python would try to write again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def command_app(name: str) -> typer.Typer:
    """The app of a command: its module's if it has subcommands."""
    with exit_on_signals(), _no_garbage_collection():
        app = typer.Typer(add_completion=False)
        if name in VERBS:
            settings = {"ignore_unknown_options": VERBS[name].options().negative_numbers}
            command = import_module("regard.cli.use").use_command(name)
            app.command(context_settings=settings)(command)
        else:
            folder = "catalogues" if name in CATALOGUES else "commands"
            module = import_module(f"regard.cli.{folder}.{MODULES.get(name, name)}")
            if hasattr(module, "app"):
                app = module.app
            else:
                app.command()(module.command)
    app.rich_markup_mode = "markdown"  # wraps docstrings to the terminal, but not examples
    return app


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Import without garbage collection, which takes a sixth of the time; later collections skip
    the imported objects.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        atexit.register(free_for_triton)
        if enabled:
            gc.enable()


def free_for_triton() -> None:
    """Unfreeze at exit what Triton holds: it reports objects that are not freed as leaks."""
    if "triton" in sys.modules:
        gc.unfreeze()


def load_command(name: str) -> Any:
    """The command called `name`; its help is the entry in `COMMANDS` and the docstring."""
    command = typer.main.get_command(command_app(name))
    command.name = name
    command.help = f"{COMMANDS[name]}\n\n{command.help or ''}"
    return command


app = typer.Typer(
    name="regard",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog='Begin with [bold]regard look "Elle ne la visite pas."[/bold], which needs no training, '
    "or train with [bold]regard demo[/bold]. Each command answers --help.",
)


def _version(asked: bool) -> None:
    if asked:
        print(f"regard {__version__}")
        raise typer.Exit


@app.callback(help="Attention models for text, pictures and series: train, use, measure, look in.")
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    pass


def _lazy_command() -> None:
    """Placeholder for a command that is not imported yet."""


for _name, _help in COMMANDS.items():
    app.command(_name, help=_help)(_lazy_command)


def main() -> None:
    """Run the command line; user errors end in one message and a non-zero exit code.

    1: an error; 2: a wrong option; 130: an interrupt; 141: a broken pipe; 143: SIGTERM.
    """
    _repair_streams()
    warnings.showwarning = _show_warning
    try:
        _run()
    except SystemExit as leaving:
        if has_running_work():  # Python would wait for its threads
            sys.stderr.flush()
            os._exit(leaving.code if isinstance(leaving.code, int) else 1)
        raise


def _run() -> None:
    try:
        _check_folder()
        try:
            app()
        finally:
            sys.stdout.flush()  # may raise OSError as well
    except RegardError as error:
        print_error(str(error))
        sys.exit(1)
    except MemoryError:
        print_error("the memory of this machine is not enough; give less at once")
        sys.exit(1)
    except BrokenPipeError:
        redirect_stdout_to_devnull()
        sys.exit(141)
    except OSError as error:  # such as a full disk behind our output
        print_error(_describe_os_error(error))
        redirect_stdout_to_devnull()
        sys.exit(1)


def _describe_os_error(error: OSError) -> str:
    """The operation that the system refused; it may have been reading or writing."""
    if error.filename == STDOUT or (error.filename and error.errno in DISK_FULL):
        return str(storage_error(Path(error.filename), error))
    if error.filename:
        return f"{error.filename}: cannot be opened: {error.strerror or error}"
    return str(error)


_default_showwarning = warnings.showwarning


def _show_warning(
    message: Warning | str, category: type[Warning], *place: Any, **named: Any
) -> None:
    """Print warnings about runs as notes, and others as Python does."""
    if issubclass(category, RunWarning):
        note(str(message))
    else:
        _default_showwarning(message, category, *place, **named)


def _check_folder() -> None:
    """Raise an error if the current folder is gone: libraries would fail."""
    try:
        os.getcwd()
    except OSError as error:
        why = f"the current folder is gone or cannot be read ({error.strerror})"
        raise StorageError(f"{why}; change to another one") from None


class _CheckedStdout(io.FileIO):
    """Standard output whose errors name it."""

    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError as error:
            reason = "it is closed" if error.errno == errno.EBADF else error.strerror
            raise OSError(error.errno, reason, STDOUT) from None


def _repair_streams() -> None:
    """Open closed standard streams, so that no file gets their numbers, and write UTF-8."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # read-only, so that writing to a closed standard output is an error
            os.open(os.devnull, os.O_WRONLY if number == 2 else os.O_RDONLY)
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115  # for as long as we run
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None or sys.stdout is sys.__stdout__:
        raw = io.BufferedWriter(_CheckedStdout(1, "wb", closefd=False))
        # file names may have bytes that are not UTF-8
        sys.stdout = io.TextIOWrapper(
            raw, encoding="utf-8", errors="backslashreplace", line_buffering=raw.isatty()
        )
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(errors="replace")
