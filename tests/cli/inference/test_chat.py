import json
import os
import pty
import select
import signal
import subprocess
import sys
from contextlib import suppress

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
    with pytest.raises(SettingsError, match="--temperature cannot be used with --beam"):
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
    if not status:
        os.write(main, typed)
    for _ in range(6):  # Python does not see a signal that comes just before it waits for a line
        if status:
            process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)  # one that comes while it ends would kill it
            break
    assert process.poll() == status
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
    with pytest.raises(
        SettingsError,
        match=r"its task is chat, (and this|whose runs)",
    ):
        CliRunner().invoke(command_app(command), args, catch_exceptions=False)


@pytest.fixture
def evaluate(chat_run):
    def invoke(*args):
        given = (str(chat_run), *map(str, args), "--device", "cpu")
        evaluation = command_app("evaluate")
        return CliRunner().invoke(evaluation, given, catch_exceptions=False, env={"COLUMNS": "150"})

    return invoke


def test_evaluate_shows_a_chatbot_beside_people_and_the_commonest_answer(evaluate, tmp_path):
    shown = evaluate("--output", tmp_path / "answers")
    rows = [line.split() for line in shown.stdout.splitlines()]
    assert ["answers", "distinct-1", "distinct-2", "BLEU", "words"] in rows
    assert [row[0] for row in rows if row][2:6] == ["its", "people's", "always", "perplexity"]
    found = json.loads(evaluate("--json").stdout)
    assert len((tmp_path / "answers").read_text().splitlines()) == found["prompts"]
    assert found["answers"][0]["distinct_2"] > found["answers"][2]["distinct_2"]


def test_evaluate_takes_histories_with_answers_from_files(evaluate, tmp_path):
    history = "Do you like tea in Rome?\tWhy do you ask?\tI am going to Rome."
    (tmp_path / "source").write_text(f"{history}\n{history}\nDo you like rain in Oslo?\n")
    (tmp_path / "reference").write_text("Yes, I like tea.\nNo.\nNo, never rain.\n")
    files = ("--source", tmp_path / "source", "--reference", tmp_path / "reference")
    found = json.loads(evaluate(*files, "--beam", "1", "--json").stdout)
    assert found["prompts"] == 2
    assert found["answers"][1]["bleu"] is None
    with pytest.raises(SettingsError, match="--by-length has no effect on a run of the task chat"):
        evaluate("--by-length")
