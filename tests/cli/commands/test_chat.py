import json
import os
import pty
import select
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from regard.cli.main import command_app
from regard.errors import SettingsError

app = command_app("chat")


@pytest.fixture
def run(chat_run):
    def invoke(lines, *args):
        given = (str(chat_run), *args, "--device", "cpu")
        return CliRunner().invoke(app, given, input=lines, catch_exceptions=False)

    return invoke


def test_a_line_in_is_a_line_out(run):
    shown = run("Do you like tea in Rome?\n\nWhy?\n/reset\nDo you like tea in Rome?\n")
    first, blank, second, reset, again, end = shown.stdout.split("\n")
    assert first == again
    assert (blank, reset, end) == ("", "", "")
    assert second
    assert shown.exit_code == 0


def test_quit_ends_it(run):
    assert run("Do you like tea in Rome?\n/quit\nWhy?\n").stdout.count("\n") == 1


def test_in_json_with_its_turns(run):
    lines = run("Do you like tea in Rome?\nWhy?\n", "--json").stdout.splitlines()
    found = [json.loads(line) for line in lines]
    assert [one["turns"] for one in found] == [2, 4]
    assert found[1]["said"] == "Why?"
    assert found[0]["log_probability"] < 0


def test_options_change_the_search(run):
    greedy = run("Do you like tea in Rome?\n", "--beam", "1", "--candidates", "1", "--json")
    found = json.loads(greedy.stdout)
    sampled = json.loads(run("Do you like tea in Rome?\n", "--temperature", "5", "--json").stdout)
    assert found["answer"] != sampled["answer"]
    with pytest.raises(SettingsError, match="--temperature does not go with --beam"):
        run("", "--temperature", "2", "--beam", "3")


def read_until_prompt(terminal):
    shown = b""
    while b"> " not in shown:
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, f"no prompt, but {shown}"
        shown += os.read(terminal, 100)


@pytest.mark.parametrize(("typed", "status"), [(b"\x04", 0), (b"\x03", 130)])
def test_ctrl_d_and_ctrl_c_leave_without_a_traceback(chat_run, typed, status):
    main, terminal = pty.openpty()
    command = [sys.executable, "-m", "regard", "chat", str(chat_run), "--device", "cpu"]
    process = subprocess.Popen(
        command,
        stdin=terminal,
        stdout=terminal,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    read_until_prompt(main)
    os.write(main, b"Do you like tea in Rome?\n")
    read_until_prompt(main)
    if status:
        process.send_signal(signal.SIGINT)
    else:
        os.write(main, typed)
    assert process.wait(timeout=60) == status
    said = process.stderr.read().decode()
    process.stderr.close()
    os.close(main)
    os.close(terminal)
    assert "Traceback" not in said
    assert "/reset forgets" in said


@pytest.mark.parametrize(
    ("command", "args"), [("doctor", ["dailydialog"]), ("compare", ["dailydialog", "travel"])]
)
def test_what_examines_translators_refuses_dialogues(command, args):
    with pytest.raises(SettingsError, match="its task is chat, and this needs translation"):
        CliRunner().invoke(command_app(command), args, catch_exceptions=False)
