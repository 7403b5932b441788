import ast
import gc
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import regard
from regard import __version__
from regard.cli import main
from regard.errors import RegardError, RunError
from regard.tasks.registry import VERBS

PRINTER = """
import sys, typer
from regard.cli import main
from regard.cli.display import console
fake = typer.Typer()
@fake.command()
def command(): {}
main.load_command = lambda name: typer.main.get_command(fake)
sys.argv = ["regard", "look"]
main.main()
"""
"""A command line whose commands only print."""
NO_TORCH = "import sys; assert 'torch' not in sys.modules, 'torch was imported'"


def python(code, **options):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, **options
    )


def test_a_negative_number_is_no_option():
    with pytest.raises(RunError, match="no-such-run: no such folder"):
        CliRunner().invoke(
            main.app, ["forecast", "no-such-run", "-1", "-2.5"], catch_exceptions=False
        )


@pytest.fixture
def command(monkeypatch):
    """Puts a function in the place of every command."""

    def put(function):
        fake = typer.Typer()
        fake.command()(function)
        monkeypatch.setattr(main, "load_command", lambda name: typer.main.get_command(fake))

    return put


@pytest.fixture
def called(monkeypatch, capsys):
    """Runs `main` with arguments: its exit code, and what it printed."""

    def call(*args):
        monkeypatch.setattr(sys, "argv", ["regard", *args])
        with pytest.raises(SystemExit) as caught:
            main.main()
        return caught.value.code, capsys.readouterr()

    return call


@pytest.mark.parametrize("name", main.COMMANDS)
def test_every_command_has_help(name):
    shown = CliRunner().invoke(main.app, [name, "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    assert f"regard {name}" in shown.output
    assert main.COMMANDS[name] in shown.output
    assert "--install-completion" not in shown.output  # that is `regard --help`'s


@pytest.mark.parametrize("name", main.COMMANDS)
def test_help_texts_are_shown_whole_and_each_example_on_its_own_line(name):
    command = main.load_command(name)
    for words, one in (
        ([], command),
        *(([n], c) for n, c in getattr(command, "commands", {}).items()),
    ):
        paragraphs = one.help.split("\n\n")
        texts = [text for text in paragraphs if not text.startswith("    ")]
        texts += [param.help for param in one.params if getattr(param, "help", None)]
        lines = [line.strip() for line in one.help.splitlines() if line.startswith("    ")]
        shown = CliRunner().invoke(main.app, [name, *words, "--help"], env={"COLUMNS": "3000"})
        assert {*lines} <= {line.strip() for line in shown.output.splitlines()}
        whole = " ".join(shown.output.replace("│", " ").split())
        assert [
            text for text in texts if " ".join(text.replace("`", "").split()) not in whole
        ] == []


def test_commands_in_messages_quote_the_paths_that_they_name():
    """Each value in a command of an f-string is `quoted`, or a word that needs no quotes."""
    command = re.compile(rf"(regard ({'|'.join(main.COMMANDS)})|python -c|hf download) [^;`,.&]*$")
    plain = {"form", "missing.name", "precision"}
    found = 0
    for path in Path(regard.__file__).parent.rglob("*.py"):
        parts = (
            n for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.JoinedStr)
        )
        for text in parts:
            before = ""
            for part in text.values:
                if isinstance(part, ast.Constant):
                    before += str(part.value)
                    continue
                value = ast.unparse(part.value)
                if command.search(before):
                    found += 1
                    quotes = value.startswith("quoted(") or value in plain
                    assert quotes or f"{value} = quoted(" in path.read_text("utf-8"), (path, before)
                before += "…"
    assert found > 20


@pytest.mark.parametrize("name", [*VERBS, "bulk"])
def test_every_command_that_answers_takes_weights_and_an_adapter(name):
    options = {param.name for param in main.load_command(name).params}
    assert {"weights", "adapter", "device"} <= options


def test_the_list_of_commands():
    shown = CliRunner().invoke(main.app, ["--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    assert "--install-completion" in shown.output
    for name, line in main.COMMANDS.items():
        assert name in shown.output
        assert line in shown.output


def test_without_a_command_help_is_shown():
    shown = CliRunner().invoke(main.app, [])
    assert shown.exit_code == 2
    assert "translate" in shown.output


def test_the_version():
    shown = CliRunner().invoke(main.app, ["--version"])
    assert (shown.exit_code, shown.output) == (0, f"regard {__version__}\n")


def test_an_unknown_command_is_answered_with_a_known_one():
    shown = CliRunner().invoke(main.app, ["trian"])
    assert shown.exit_code == 2
    assert "No such command 'trian'. Did you mean 'train'?" in shown.output


def test_an_unknown_option_is_refused():
    shown = CliRunner().invoke(main.app, ["translate", "runs/x", "--baem", "3"])
    assert shown.exit_code == 2
    assert "--beam" in shown.output


def test_importing_the_package_imports_no_torch():
    assert python(f"import regard; {NO_TORCH}").stderr == ""


@pytest.mark.parametrize("option", ["--help", "--version", "trian"])
def test_help_imports_no_torch(option):
    code = f"""
import sys
from regard.cli.main import main
sys.argv = ["regard", {option!r}]
try:
    main()
except SystemExit:
    pass
{NO_TORCH}
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout + done.stderr


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("regard tra", ["train", "translate"]), ("regard recipes show --res", ["--resolved"])],
)
def test_commands_and_options_are_completed(typed, offered):
    asked = {
        "_REGARD_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
    }
    code = "import sys; from regard.cli.main import main; sys.argv[0] = 'regard'; main()"
    assert python(code, env=asked).stdout.split() == offered


@pytest.mark.parametrize("error", [RegardError, RunError])
def test_an_error_of_ours_is_one_message(command, called, error):
    def fail():
        raise error("runs/x: [bold]no such[/bold] folder; look elsewhere")

    command(fail)
    code, shown = called("look")
    assert code == 1
    assert shown.out == ""
    assert shown.err == "error: runs/x: [bold]no such[/bold] folder; look elsewhere\n"


def test_too_little_memory_is_one_message(command, called):
    def fail():
        raise MemoryError

    command(fail)
    code, shown = called("look")
    assert (code, shown.err) == (
        1,
        "error: the memory of this machine is not enough; give less at once\n",
    )


def test_a_file_that_cannot_be_opened_is_not_said_to_be_written():
    name = 300 * "a"  # too long for any system
    fail = f"def command(): open({name!r})"
    done = python(PRINTER.replace("def command(): {}", fail))
    assert done.returncode == 1
    assert done.stderr == f"error: {name}: cannot be opened: File name too long\n"


def test_unexpected_errors_are_raised(command, monkeypatch):
    def fail():
        raise ZeroDivisionError

    command(fail)
    monkeypatch.setattr(sys, "argv", ["regard", "look"])
    with pytest.raises(ZeroDivisionError):
        main.main()


def test_an_interrupt(command, called):
    def wait():
        raise KeyboardInterrupt

    command(wait)
    code, shown = called("look")
    assert code == 130
    assert shown.err == "error: interrupted\n"


def test_a_command_may_choose_its_exit_code(command, called):
    command(lambda: sys.exit(143))
    assert called("train")[0] == 143


def test_success_is_0(command, called):
    command(lambda: print("déjà → 了"))
    code, shown = called("look")
    assert code == 0
    assert shown.out == "déjà → 了\n"


def test_a_mistake_of_the_user_shows_no_traceback():
    done = subprocess.run(
        [sys.executable, "-m", "regard", "recipes", "show", "travle"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "error: travle: no recipe of that name on the shelf; did you mean 'travel'?"
    ]


@pytest.mark.parametrize("printed", ["print('é' * 9)", "console.out.print('é' * 9)"])
def test_a_broken_pipe_exits_with_141_and_no_message(printed):
    with subprocess.Popen(
        [sys.executable, "-c", PRINTER.format(printed)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_the_output():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", PRINTER.format(r"print('é\udcff')")],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == (
        b"error: standard output: the disk is full; what was written before is intact. Make room "
        b"and try again\n"
    )


def test_a_closed_output_is_an_error():
    done = subprocess.run(
        ["sh", "-c", '"$0" -c "$1" <&- >&-', sys.executable, PRINTER.format(r"print('é\udcff')")],
        stderr=subprocess.PIPE,
        check=False,
    )
    said = b"error: standard output: cannot be written: it is closed\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_a_current_folder_that_is_gone(tmp_path):
    (tmp_path / "gone").mkdir()
    code = f"import os; os.chdir('gone'); os.rmdir('../gone')\n{PRINTER.format('print(1)')}"
    done = python(code, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: the current folder is gone")
    assert len(done.stderr.splitlines()) == 1


def test_output_is_utf8_whatever_the_locale():
    done = subprocess.run(
        [sys.executable, "-c", PRINTER.format(r"print('é\udcff')")],
        capture_output=True,
        check=True,
        env={"PYTHONIOENCODING": "ascii"},
    )
    assert done.stdout == "é\\udcff\n".encode()  # of a file's name that is not UTF-8


@pytest.mark.parametrize(
    ("args", "option"),
    [
        (["evaluate", "x", "--beam", "1", "--beam", "2"], "--beam"),
        (["doctor", "copy", "--trial", "--no-trial"], "--trial/--no-trial"),
        (["corpora", "show", "copy", "-n", "1", "--lines", "2"], "--lines/-n"),
    ],
)
def test_an_option_of_one_value_is_given_once(args, option):
    shown = CliRunner().invoke(main.app, args, env={"COLUMNS": "200"})
    assert shown.exit_code == 2
    assert f"{option} takes one value and is given 2 times" in shown.output


def test_the_same_flag_twice_and_lists_are_fine():
    args = ["corpora", "show", "copy", "--json", "--json", "--set", "corpus.generated.test=1"]
    more = ["--set", "corpus.generated.train=9"]
    assert CliRunner().invoke(main.app, [*args, *more]).exit_code == 0


def test_imports_leave_the_garbage_collection_as_it_was():
    for change in (gc.disable, gc.enable):
        change()
        main.command_app("verify")
        assert gc.isenabled() == (change is gc.enable)


def test_what_is_frozen_is_freed_at_the_end_where_triton_would_call_it_leaked(monkeypatch):
    main.command_app("verify")
    assert gc.get_freeze_count()
    monkeypatch.setitem(sys.modules, "triton", gc)
    main.free_for_triton()
    assert not gc.get_freeze_count()
