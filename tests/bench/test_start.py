"""A command is timed as a whole, in what it holds and not in what we do."""

import sys
from pathlib import Path

import pytest

from bench.engines import one_thread
from bench.start import command, run


def test_a_command_is_timed_and_what_it_says_kept():
    echo = "import sys, time; time.sleep(0.2); print(sys.stdin.read().upper())"
    found = run([sys.executable, "-S", "-c", echo], "ein satz")
    assert found.text == "EIN SATZ"
    assert 0.2 < found.seconds < 20
    assert 2 < found.peak_mb < 60  # this process holds torch, and much more


def test_the_processor_clock_does_not_count_sleep():
    asleep = "import sys, time; time.sleep(1.5); print(sys.stdin.read())"
    assert run([sys.executable, "-S", "-c", asleep], "x", "processor").seconds < 1


def test_a_command_that_fails_is_an_error():
    with pytest.raises(RuntimeError, match="ended with status 3"):
        run([sys.executable, "-c", "raise SystemExit(3)"], "x")


def test_each_contender_has_its_command():
    words = {one.name: " ".join(command(one, Path("model"), 5)[2:]) for one in one_thread()}
    assert words["regard"] == "regard translate model --beam 5"
    assert words["regard native int8"].endswith("--engine native --precision int8")
    assert words["CTranslate2 int8"].startswith("bench.peer_translate opennmt model {")
