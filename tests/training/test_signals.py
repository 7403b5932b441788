import os
import signal

import pytest

from regard.interruption import InterruptedBySignal
from regard.training.signals import StopRequests


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_first_signal_asks_politely(number, capfd):
    before = signal.getsignal(number)
    with StopRequests() as stop:
        assert not stop()
        os.kill(os.getpid(), number)
        assert stop()
        assert stop.received == number
    assert signal.getsignal(number) == before
    said = capfd.readouterr().err
    assert said.startswith(f"{stop.received.name}: stopping after the current step or validation")


def test_second_signal_interrupts():
    with StopRequests() as stop, pytest.raises(KeyboardInterrupt):  # noqa: PT012
        assert not stop()
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_while_nobody_asks_the_first_interrupts(number):
    with StopRequests(), pytest.raises(InterruptedBySignal) as caught:
        os.kill(os.getpid(), number)
    assert caught.value.number == number
