"""A bulk translation: plan, translate unfinished blocks, merge.

The function that translates blocks is an argument; `ray_bulk` has one.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple, Protocol

from regard.cluster.bulk_folder import BulkFolder, BulkPlan, BulkSummary, InputSummary
from regard.cluster.bulk_inputs import InputFile
from regard.cluster.bulk_job import TranslatedBlock

TranslateBlocks = Callable[[Sequence["PendingInput"]], Generator[TranslatedBlock, None, None]]
"""Translates the blocks of inputs that are not finished, in any order."""


class BulkProgress(Protocol):
    """Shows the progress of a bulk translation, in lines."""

    def start(self, finished: int, total: int) -> None: ...

    def advance(self, lines: int) -> None: ...


class RayOptions(NamedTuple):
    """Where the actors run."""

    address: str | None = None  # None: a cluster on this machine, only for this translation
    actors: int | None = None  # None: as many as there is room for
    cores: int = 1  # of an actor
    on_gpu: bool = False  # whether each has its own GPU
    dashboard: bool = False

    def environment(self) -> dict[str, str]:
        """Environment variables that Ray reads only when it is imported, not when it is started.

        Usage reports are off. A cluster on this machine listens at 127.0.0.1 alone, and requires a
        token, which is in no file: other users of the machine must not read corpora.
        """
        local = {
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # as on these two: one machine, no network
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": token_hex(32),
        }
        return {
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_BACKEND_LOG_LEVEL": "fatal",  # actors may die, which is no error
            "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # else it prints a note on stdout, with tracebacks
            "RAY_worker_niceness": "0",  # as for the command itself; Ray's default is 15
            **({} if self.address else local),
        }


class PendingInput:
    """An input, its number, and which of its blocks are finished."""

    def __init__(self, file: InputFile, index: int, finished: frozenset[int]) -> None:
        self.file, self.index, self.finished = file, index, finished
        self.waiting = set(range(file.num_blocks)) - finished

    @property
    def finished_lines(self) -> int:
        return sum(map(self.file.block_lines, self.finished))


def run_bulk(
    plan: BulkPlan, path: Path, translate: TranslateBlocks, progress: BulkProgress
) -> BulkSummary:
    """Translate all inputs of a plan into a folder, except what earlier runs have finished.

    A block is committed as soon as it is translated, and an input is merged as soon as its last
    block is there.
    """
    folder = BulkFolder(path)
    with folder.locked():
        folder.begin(plan)
        summaries: dict[int, InputSummary] = {}
        pending: dict[int, PendingInput] = {}
        for index, file in enumerate(plan.inputs):
            if (done := folder.merged(file, index)) is not None:
                summaries[index] = done
            else:
                pending[index] = PendingInput(file, index, folder.finished(index))

        def merge_if_complete(one: PendingInput) -> None:
            if not one.waiting:
                summaries[one.index] = folder.merge(one.file, one.index)

        finished = sum(done.lines for done in summaries.values())
        progress.start(finished + sum(one.finished_lines for one in pending.values()), plan.lines)
        for one in pending.values():
            merge_if_complete(one)
        if waiting := [one for one in pending.values() if one.waiting]:
            with closing(translate(waiting)) as translated:
                for block in translated:
                    one = pending[block.input]
                    if block.number in one.waiting:
                        folder.commit(plan, block)
                        one.waiting.remove(block.number)
                        progress.advance(len(block.texts))
                        merge_if_complete(one)
        return folder.summarize([summaries[index] for index in range(len(plan.inputs))])
