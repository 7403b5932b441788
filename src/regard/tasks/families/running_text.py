"""Tasks that learn from a running text: its splits as token streams, and their one tokenizer."""

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Self, TypeVar

import numpy as np

from regard.atomic_io import write_atomic
from regard.corpora.running_text import RunningTextSettings, read_splits, text_lines
from regard.corpora.token_store import fingerprint
from regard.corpora.token_stream import (
    StreamCounts,
    StreamFooter,
    TokenStream,
    encode_stream,
    write_token_stream,
)
from regard.errors import SettingsError
from regard.evaluation.perplexity import MAX_NATS
from regard.manifest import check_file, is_intact
from regard.models.contracts import AnyModel
from regard.tasks.contracts import Notify, SplitName, Task, TaskRecipe
from regard.text.build import Tokenizers, load_tokenizers, save_tokenizers
from regard.text.settings import TokenizerSettings
from regard.text.tokenizer import Tokenizer
from regard.training.weight_transfer import RowNames


class RunningTextRecipe(TaskRecipe):
    """The settings that all recipes of tasks on running text share."""

    corpus: RunningTextSettings
    """The training data."""
    text: TokenizerSettings = TokenizerSettings(byte_level=True)
    """How text becomes tokens."""

    def vocabulary_settings(self) -> TokenizerSettings:
        return self.text


RunningTextRecipeT = TypeVar("RunningTextRecipeT", bound=RunningTextRecipe)
ModelT = TypeVar("ModelT", bound=AnyModel)


def text_numbers(nats: float, counts: StreamCounts) -> dict[str, float]:
    """The loss of a text in nats per token, its perplexity per token and per word, its bits per
    character; `counts` are those of what is predicted.
    """
    loss, words = nats / counts.tokens, max(1, counts.words + counts.line_ends)
    return {
        "loss": loss,
        "perplexity": math.exp(min(loss, MAX_NATS)),
        "word_perplexity": math.exp(min(nats / words, MAX_NATS)),
        "bits_per_character": nats / math.log(2) / counts.characters,
    }


def counting_note(counts: StreamCounts) -> str:
    """The counts that the numbers of a text are averaged over."""
    return (
        f"{counts.tokens:,} tokens, {counts.words:,} words, {counts.line_ends:,} ends of lines or "
        f"documents, which count as words, {counts.characters:,} characters, {counts.unknown:,} "
        "unknown tokens"
    )


class RunningTextTask(Task[RunningTextRecipeT, ModelT]):
    """The splits of a text as token streams, and their one tokenizer."""

    tokenizer: Tokenizer
    _test_folder: Path | None = None  # of test data that replace the run's own

    def prepare(self, note: Notify, *, resumed: bool) -> None:
        if resumed:
            self.load()
            return
        corpus = self.recipe.corpus
        splits, mark = read_splits(corpus), self._fingerprint()
        saved = self._data / "text.mark"
        if is_intact(saved) and saved.read_bytes() == mark.encode():
            self.tokenizer = load_tokenizers(self.folder).source
        else:
            if self.given_tokenizer is None:
                note(f"reading {corpus.corpus_label} and learning the vocabulary")
            lines = text_lines(splits["train"]())
            self.tokenizer = self.make_tokenizer(lines, self.recipe.text)
            save_tokenizers(Tokenizers(self.tokenizer, self.tokenizer), self.folder)
            write_atomic(saved, mark.encode())
        for split, read in splits.items():
            path = self._stream_path(split)
            own_mark = fingerprint(mark, split, self.tokenizer.fingerprint())
            if not (is_intact(path) and StreamFooter.matches(path, own_mark)):
                note(f"tokenising {split}")
                parts = encode_stream(self.tokenizer, read())
                write_token_stream(path, parts, own_mark, vocabulary=self.tokenizer.size)

    def read_test(self, files: Sequence[str], folder: Path) -> None:
        read = read_splits(self.recipe.of_test_files(files).corpus)["test"]
        self._test_folder = folder
        parts = encode_stream(self.tokenizer, read())
        write_token_stream(
            self._stream_path("test"), parts, str(folder), vocabulary=self.tokenizer.size
        )

    def load(self) -> None:
        self.tokenizer = load_tokenizers(self.folder).source

    def row_names(self) -> RowNames:
        return {"tokens": self.tokenizer.row_names()}

    def held_out(self) -> SplitName:
        return "test" if self._stream_path("test").exists() else "valid"

    def summary(self) -> dict[str, str]:
        names: tuple[SplitName, ...] = ("train", "valid", "test")
        there = [name for name in names if self._stream_path(name).exists()]
        counts = ", ".join(f"{len(self.stream(name)):,} {name}" for name in there)
        return {"tokens": counts, "vocabulary": f"{self.tokenizer.size:,}"}

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _stream_path(self, split: SplitName) -> Path:
        other = self._test_folder if split == "test" else None
        return (other or self._data) / f"{split}.tokens"

    def stream(self, split: SplitName) -> TokenStream:
        """The tokens of a split."""
        check_file(self._stream_path(split))
        return TokenStream.open(self._stream_path(split))

    def require_same_tokens(self, other: Self, split: SplitName) -> None:
        """Raise an error unless another run reads the same tokens, which a paired test needs."""
        if not np.array_equal(self.stream(split).ids, other.stream(split).ids):
            raise SettingsError(
                f"--against: {other.folder} reads other {split} tokens: a test needs the same "
                "text, vocabulary and corpus.documents"
            )

    def _fingerprint(self) -> str:
        """A hash of the text settings, and of the sizes and times of the files that they name."""
        corpus = self.recipe.corpus
        files = (*corpus.train, *corpus.valid, *corpus.test)
        # A file that is missing is reported when it is read.
        stats = [os.stat(file) for file in files if os.path.exists(file)]
        times = (f"{stat.st_size} {stat.st_mtime_ns}" for stat in stats)
        settings = (one.model_dump_json() for one in (corpus, self.recipe.text))
        given = () if self.given_tokenizer is None else (self.given_tokenizer.fingerprint(),)
        return fingerprint(*settings, *times, *given, *self.recipe.extension_marks())
