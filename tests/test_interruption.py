import signal
import subprocess
import sys
import time

import pytest

from regard.interruption import (
    InterruptedBySignal,
    has_running_work,
    interrupt_on_sigterm,
    interruptible,
)

IMPORTING = """
import sys
sys.path.insert(0, {folder!r})
sys.argv = ["regard", "look"]
from regard.__main__ import run
from regard.cli import main
main.import_module = lambda name: __import__("slow")
run()
"""
HEARD = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
"""
"""A shell has processes in its background ignore Ctrl-C, and those that they start."""
WAITING = """
import signal, time
from regard.interruption import InterruptedBySignal, interruptible
def stop(number, frame):
    raise InterruptedBySignal(number)
signal.signal(signal.SIGTERM, stop)
try:
    print("ready", flush=True)
    interruptible(lambda: time.sleep(60))
except InterruptedBySignal as error:
    raise SystemExit(128 + error.number)
"""


def test_what_work_gives_or_raises():
    assert interruptible(lambda: 5) == 5
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0)
    assert not has_running_work()


def ended(code, number):
    """Exit code and stderr of a process that gets a signal once it is ready; it has no more time
    than a person would give it."""
    with subprocess.Popen(
        [sys.executable, "-c", f"{HEARD}{code}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        began = time.monotonic()
        process.send_signal(number)
        said = process.communicate(timeout=30)[1]
    assert time.monotonic() - began < 20  # of 60
    return process.returncode, said


def test_a_wait_is_interrupted():
    assert ended(WAITING, signal.SIGTERM)[0] == 143


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_command_is_imported(tmp_path, number):
    slow = "import time\nprint('ready', flush=True)\ntime.sleep(60)\n"
    (tmp_path / "slow.py").write_text(slow)
    code, said = ended(IMPORTING.format(folder=str(tmp_path)), number)
    assert (code, said) == (128 + number, b"error: interrupted\n")


def test_sigterm_interrupts_only_within():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(InterruptedBySignal) as stopped, interrupt_on_sigterm():
        signal.raise_signal(signal.SIGTERM)
    assert stopped.value.number == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before
