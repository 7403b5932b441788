"""The folder of a bulk translation: its plan, its finished blocks, and the merged outputs.

bulk.json          model, settings and inputs: a later command must have the same
NAME               the translations of an input, line by line, once all are finished
NAME.notes.tsv     the number of a line, and a note about it
summary.json       counts of all inputs
.blocks/0/12.json  a finished block of the first input, until all are finished
.blocks/0.json     the counts of the first input, once its translations are written
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from pydantic import NonNegativeInt

from regard.atomic_io import (
    atomic_file,
    exclusive_lock,
    remove_part_files,
    remove_tree,
    storage_error,
    write_atomic,
)
from regard.cluster.bulk_inputs import InputFile
from regard.cluster.bulk_job import ModelIdentity, TranslatedBlock
from regard.decoding.settings import DecodingSettings
from regard.errors import RunError, SettingsError
from regard.json_files import load_json, read_json
from regard.settings import Settings
from regard.tasks.translation.pipeline import CHUNK

PLAN_FILE, SUMMARY_FILE, BLOCKS_FOLDER = "bulk.json", "summary.json", ".blocks"
NOTES_SUFFIX = ".notes.tsv"
OWN_NAMES = ("", PLAN_FILE, SUMMARY_FILE, BLOCKS_FOLDER)  # which no output may have


class BulkPlan(Settings):
    """The inputs, model and settings of a bulk translation."""

    version: Literal[1] = 1
    model: ModelIdentity
    decoding: DecodingSettings
    split: bool | None = None
    forbidden: tuple[str, ...] = ()
    block_lines: int = CHUNK
    inputs: tuple[InputFile, ...]

    @property
    def lines(self) -> int:
        return sum(file.lines for file in self.inputs)


class InputSummary(Settings):
    """The counts of an input."""

    output: str
    lines: NonNegativeInt
    blank: NonNegativeInt = 0
    """Lines with nothing to translate."""
    noted: NonNegativeInt = 0
    """Lines with notes."""
    blocks: NonNegativeInt = 0


class BulkSummary(Settings):
    """The counts of all inputs."""

    inputs: tuple[InputSummary, ...]
    lines: NonNegativeInt
    blank: NonNegativeInt
    noted: NonNegativeInt
    blocks: NonNegativeInt


class BulkFolder:
    """The blocks and the outputs of a plan. A committed block survives a power cut."""

    def __init__(self, path: Path) -> None:
        self.path, self._blocks = path, path / BLOCKS_FOLDER

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from working here; remove unfinished files of killed ones."""
        try:
            self._blocks.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise storage_error(self._blocks, error) from None
        with exclusive_lock(self._blocks / "lock", self._in_use_error):
            for folder in (self.path, self._blocks, *self._blocks.iterdir()):
                remove_part_files(folder)
            yield

    def _in_use_error(self, owner: str) -> RunError:
        return RunError(
            f"{self.path}: another process (number {owner}) is translating into it; wait for it, "
            "stop it, or give another --out"
        )

    def begin(self, plan: BulkPlan) -> None:
        """Write the plan, or raise an error if the folder has a different one."""
        check_outputs(plan.inputs, self.path)
        file = self.path / PLAN_FILE
        if not file.exists():
            written = [self.path / SUMMARY_FILE]
            for one in plan.inputs:
                written += [self.path / one.output, notes_file(self.path / one.output)]
            for there in filter(Path.exists, written):
                raise RunError(
                    f"{there}: exists, and would be replaced by the translation of "
                    f"{', '.join(one.path for one in plan.inputs)}; move it, or give another --out"
                )
            write_atomic(file, f"{plan.model_dump_json(indent=1)}\n".encode())
            return
        begun = load_json(file, BulkPlan, advice="give another --out")
        if (difference := _difference(begun, plan)) is not None:
            raise RunError(
                f"{self.path}: {difference}; repeat the command that was started here, or give "
                "another --out"
            )

    def finished(self, index: int) -> frozenset[int]:
        """The numbers of the blocks of an input that are committed."""
        with suppress(FileNotFoundError):
            names = (path.name for path in (self._blocks / str(index)).iterdir())
            return frozenset(
                int(name.removesuffix(".json")) for name in names if not name.startswith(".")
            )
        return frozenset()

    def commit(self, plan: BulkPlan, block: TranslatedBlock) -> None:
        """Write a block, whole or not at all; it is on the disk once this returns."""
        expected = plan.inputs[block.input].block_lines(block.number)
        if len(block.texts) != expected or any("\n" in text for text in block.texts):
            raise ValueError(
                f"input {block.input}, block {block.number}: {len(block.texts)} translations of "
                f"{expected} lines, or a line break in one of them"
            )
        write_atomic(self._block_file(block.input, block.number), block.model_dump_json().encode())

    def merged(self, file: InputFile, index: int) -> InputSummary | None:
        """The counts of an input that has been merged; None if it has not."""
        done = self._blocks / f"{index}.json"
        if not done.is_file() or not (self.path / file.output).is_file():
            return None
        return load_json(done, InputSummary, advice=f"remove it, and {file.output} is made again")

    def merge(self, file: InputFile, index: int) -> InputSummary:
        """Write the translations and notes of an input whose blocks are all finished, and remove
        the blocks. If it is killed, it can be repeated.
        """
        blank = noted = 0
        output = self.path / file.output
        with atomic_file(output) as texts, atomic_file(notes_file(output)) as notes:
            for number in range(file.num_blocks):
                block = self._read_block(index, number)
                texts.write("".join(f"{text}\n" for text in block.texts).encode())
                first = number * CHUNK + 1
                for place, note in block.notes:
                    notes.write(f"{first + place}\t{' '.join(note.split())}\n".encode())
                blank += block.blank
                noted += len({place for place, _ in block.notes})
        summary = InputSummary(
            output=file.output, lines=file.lines, blank=blank, noted=noted, blocks=file.num_blocks
        )
        write_atomic(self._blocks / f"{index}.json", summary.model_dump_json().encode())
        remove_tree(self._blocks / str(index))
        return summary

    def summarize(self, inputs: Sequence[InputSummary]) -> BulkSummary:
        """Write and return the counts of all inputs."""
        keys = ("lines", "blank", "noted", "blocks")
        sums = {key: sum(getattr(one, key) for one in inputs) for key in keys}
        summary = BulkSummary(inputs=tuple(inputs), **sums)
        write_atomic(self.path / SUMMARY_FILE, f"{summary.model_dump_json(indent=1)}\n".encode())
        return summary

    def _read_block(self, index: int, number: int) -> TranslatedBlock:
        path = self._block_file(index, number)
        try:
            return read_json(path, TranslatedBlock)
        except (OSError, ValueError):
            path.unlink(missing_ok=True)
            raise RunError(
                f"{path}: a block that was damaged after it was written; it was removed, and the "
                "same command will translate it again"
            ) from None

    def _block_file(self, index: int, number: int) -> Path:
        return self._blocks / str(index) / f"{number}.json"


def notes_file(output: Path) -> Path:
    """The path of the notes about an output."""
    return output.with_name(f"{output.name}{NOTES_SUFFIX}")


def check_outputs(inputs: Sequence[InputFile], folder: Path) -> None:
    """Raise an error if an output or its notes would replace those of another input, one of the
    folder's own files, or the input.
    """
    writers: dict[Path, str] = {}
    for file in inputs:
        output = folder / file.output
        if file.output in OWN_NAMES:
            raise SettingsError(
                f"{file.path}: would be written as {output}, which has another use; rename the file"
            )
        for name in (output, notes_file(output)):
            if other := writers.get(name):
                raise SettingsError(
                    f"{other} and {file.path} would both be written as {name}; rename one of them, "
                    "or translate them into different folders"
                )
            writers[name] = file.path
        if not file.is_remote and Path(file.path).resolve() == (folder / file.output).resolve():
            raise SettingsError(f"{file.path}: would be replaced; give another folder with --out")


def _difference(begun: BulkPlan, now: BulkPlan) -> str | None:
    """How the plan in the folder differs from the current one; None if it does not."""
    names = [[file.output for file in plan.inputs] for plan in (begun, now)]
    if names[0] != names[1]:
        return f"its inputs were {', '.join(names[0])}, and now are {', '.join(names[1])}"
    for old, new in zip(begun.inputs, now.inputs, strict=True):
        if (old.lines, old.sha256) != (new.lines, new.sha256):
            return f"{new.path} has changed: it had {old.lines:,} lines, and now has {new.lines:,}"
        if old.column != new.column:
            return f"of {new.path} column {old.column} was translated, and not {new.column}"
    kinds = {
        "weights": (list(begun.model.weights.values()), list(now.model.weights.values())),
        "vocabularies": (begun.model.vocabularies, now.model.vocabularies),
        "engine": (begun.model.engine, now.model.engine),
        "precision": (begun.model.precision, now.model.precision),
        "settings of the search": (begun.decoding, now.decoding),
        "treatment of sentences": (begun.split, now.split),
        "forbidden words": (begun.forbidden, now.forbidden),
        "size of blocks": (begun.block_lines, now.block_lines),
    }
    changed = [name for name, (old, new) in kinds.items() if old != new]
    return f"was started with other {' and '.join(changed)}" if changed else None
