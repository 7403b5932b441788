"""What the launcher of several processes says, and when."""

import logging

import torch.distributed.elastic.agent.server.api as agent
from torch.distributed.elastic.multiprocessing.api import SignalException

from regard.training.distributed import processes


def test_a_signal_to_the_launcher_ends_it_without_a_line_of_torch(monkeypatch):
    def launch(config, program):
        def stopped(*arguments):
            raise SignalException("stopped", 15)

        return stopped

    monkeypatch.setattr(processes, "elastic_launch", launch)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    level = agent.logger.level
    try:
        assert processes.start_processes(2, "cpu", 0) == 143
        assert not agent.logger.isEnabledFor(logging.ERROR)
    finally:
        agent.logger.setLevel(level)
