"""One of our runs in every contender's own format, and what it is tried on."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench.contenders import Contender, ShowProgress
from bench.peers import PEERS, open_peer
from regard.errors import RegardError, RunError


class Exports(NamedTuple):
    """Where each peer finds its model."""

    folders: dict[str, Path]
    """By the peers' keys."""
    failed: dict[str, str]
    """Contenders whose peer cannot have the model, and why."""


@contextmanager
def exported(
    run: Path, contenders: Sequence[Contender], show_progress: ShowProgress
) -> Iterator[Exports]:
    """The model of a run, written for all peers of `contenders` into a temporary folder."""
    with TemporaryDirectory() as root:
        folders: dict[str, Path] = {}
        failed: dict[str, str] = {}
        for key in dict.fromkeys(one.peer for one in contenders):
            show_progress(f"exporting the model to {PEERS[key].name}")
            folder = Path(root) / key
            folder.mkdir()
            try:
                open_peer(key).export(run, folder)
            except (RegardError, ImportError) as error:
                failed |= {one.name: str(error) for one in contenders if one.peer == key}
            else:
                folders[key] = folder
        yield Exports(folders, failed)


class TestSet(NamedTuple):
    """Sentences and what they should become."""

    sources: list[str]
    references: list[str]


def test_set(run: Path, count: int) -> TestSet:
    """The first `count` pairs that the run holds out for testing."""
    sides = []
    for side in ("source", "target"):
        file = run / "data" / f"test.{side}.txt"
        if not file.is_file():
            raise RunError(f"{run}: holds no {file.name} to translate; name a run that has one")
        sides.append(file.read_text(encoding="utf-8").splitlines()[:count])
    return TestSet(*sides)
