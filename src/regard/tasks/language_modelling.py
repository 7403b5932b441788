"""Language modelling: a running text, each token predicted from those before it."""

import math
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, PositiveInt, model_validator

from regard.atomic_io import write_atomic
from regard.batching.collate import PositionedBatch
from regard.batching.sampler import StreamPosition
from regard.batching.shuffled_windows import consecutive_windows, shuffled_windows
from regard.corpora.running_text import RunningTextSettings, read_splits, text_lines
from regard.corpora.token_store import fingerprint
from regard.corpora.token_stream import (
    StreamCounts,
    TokenStream,
    encode_stream,
    stream_matches,
    write_token_stream,
)
from regard.decoding.settings import DecodingSettings, SamplingSettings
from regard.evaluation.perplexity import MAX_NATS, perplexity
from regard.manifest import check_file, is_intact
from regard.models.contracts import AnyGenerator
from regard.models.language.gpt import Gpt, GptSettings
from regard.settings import NumPositions
from regard.tasks.contracts import Evaluation, Notify, SplitName, Task, TaskRecipe
from regard.text.build import Tokenizers, load_tokenizers, save_tokenizers, train_tokenizer
from regard.text.settings import TokenizerSettings
from regard.text.tokenizer import Tokenizer
from regard.training.loop import TrainingSettings, TrainingTask
from regard.training.loss import batch_loss

VALIDATION_POSITIONS = 1 << 14  # of a batch of validation


class LanguageTrainingSettings(TrainingSettings):
    """How a language model is trained."""

    batch_size: PositiveInt = 32
    """Windows of a batch."""
    window: NumPositions | None = None
    """Tokens of a window; left out: as many as the model sees at once."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    """Share of each label that goes to all tokens of the vocabulary alike."""


class LanguageModelRecipe(TaskRecipe):
    """One run of a language model: what it learns from, what it is, how it learns and is used."""

    task: Literal["language-model"]
    """What is learned."""
    corpus: RunningTextSettings
    """What is learned from."""
    text: TokenizerSettings = TokenizerSettings(byte_level=True)
    """How text becomes tokens."""
    model: GptSettings = GptSettings()
    """What learns: `family` says which model."""
    training: LanguageTrainingSettings = LanguageTrainingSettings()
    """How it learns."""
    decoding: DecodingSettings = DecodingSettings(sampling=SamplingSettings())
    """How a text is continued."""

    @property
    def window(self) -> int:
        """Tokens of a window in training and evaluation."""
        return self.training.window or self.model.context

    @model_validator(mode="after")
    def _check_window(self) -> Self:
        if self.window > self.model.context:
            raise ValueError(
                f"training.window {self.window} is longer than model.context {self.model.context}, "
                "which the model sees at once; lower the one or raise the other"
            )
        return self


def text_numbers(nats: float, counts: StreamCounts) -> dict[str, float]:
    """Loss (nats a token), perplexity per token and per word, bits per character of a text."""
    loss, words = nats / counts.tokens, counts.words + counts.line_ends
    return {
        "loss": loss,
        "perplexity": math.exp(min(loss, MAX_NATS)),
        "word_perplexity": math.exp(min(nats / words, MAX_NATS)),
        "bits_per_character": nats / math.log(2) / counts.characters,
    }


class LanguageModelling(Task[LanguageModelRecipe, AnyGenerator]):
    """The splits of a text as token streams, and their one tokenizer."""

    recipe_class = LanguageModelRecipe
    tokenizer: Tokenizer

    def prepare(self, note: Notify, *, resumed: bool) -> None:
        if resumed:
            self.load()
            return
        corpus = self.recipe.corpus
        splits, mark = read_splits(corpus), self._fingerprint()
        saved = self._data / "text.mark"
        if saved.exists() and is_intact(saved) and saved.read_bytes() == mark.encode():
            self.tokenizer = load_tokenizers(self.folder).source
        else:
            note(f"reading {corpus.label} and learning the vocabulary")
            self.tokenizer = train_tokenizer(text_lines(splits["train"]()), self.recipe.text)
            save_tokenizers(Tokenizers(self.tokenizer, self.tokenizer), self.folder)
            write_atomic(saved, mark.encode())
        for split, read in splits.items():
            path = self._stream_path(split)
            own_mark = fingerprint(mark, split, self.tokenizer.fingerprint())
            if not (stream_matches(path, own_mark) and is_intact(path)):
                note(f"tokenising {split}")
                parts = encode_stream(self.tokenizer, read())
                write_token_stream(path, parts, own_mark, vocabulary=self.tokenizer.size)

    def load(self) -> None:
        self.tokenizer = load_tokenizers(self.folder).source

    def new_model(self) -> AnyGenerator:
        return Gpt(self.recipe.model, self.tokenizer.size)

    def training(self, model: AnyGenerator) -> TrainingTask:
        settings = self.recipe.training
        return TrainingTask(
            self._batches,
            partial(batch_loss, smoothing=settings.label_smoothing),
            lambda model: self._numbers(model, "valid"),
        )

    def held_out(self) -> SplitName:
        return "test" if self._stream_path("test").exists() else "valid"

    def evaluate(self, model: AnyGenerator, split: SplitName) -> Evaluation:
        counts = self.stream(split).counts
        return Evaluation(
            split,
            self._numbers(model, split),
            (
                f"{counts.tokens:,} tokens, {counts.words:,} words, {counts.line_ends:,} ends of "
                f"lines or documents, which count as words, {counts.characters:,} characters, "
                f"{counts.unknown:,} unknown tokens",
                f"in windows of {self.recipe.window} tokens, each read for itself",
            ),
        )

    def summary(self) -> dict[str, str]:
        names: tuple[SplitName, ...] = ("train", "valid", "test")
        there = [name for name in names if self._stream_path(name).exists()]
        counts = ", ".join(f"{len(self.stream(name)):,} {name}" for name in there)
        return {"tokens": counts, "vocabulary": f"{self.tokenizer.size:,}"}

    def _batches(self, start: StreamPosition) -> Iterator[PositionedBatch]:
        settings = self.recipe.training
        rows, length, seed = settings.batch_size, self.recipe.window, settings.seed
        ids = self.stream("train").ids
        return shuffled_windows(ids, start, rows=rows, length=length, seed=seed)

    def _numbers(self, model: AnyGenerator, split: SplitName) -> dict[str, float]:
        """Loss, perplexities and bits per character of a whole split."""
        stream, length = self.stream(split), self.recipe.window
        rows = max(1, VALIDATION_POSITIONS // length)
        measured = perplexity(model, consecutive_windows(stream.ids, rows=rows, length=length))
        return text_numbers(measured.loss * measured.num_tokens, stream.counts)

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _stream_path(self, split: SplitName) -> Path:
        return self._data / f"{split}.tokens"

    def stream(self, split: SplitName) -> TokenStream:
        """The tokens of a split."""
        check_file(self._stream_path(split))
        return TokenStream.open(self._stream_path(split))

    def _fingerprint(self) -> str:
        """A hash of the settings of text, and of sizes and times of the files that they name."""
        corpus = self.recipe.corpus
        stats = [os.stat(file) for file in (*corpus.train, *corpus.valid, *corpus.test)]
        times = (f"{stat.st_size} {stat.st_mtime_ns}" for stat in stats)
        settings = (one.model_dump_json() for one in (corpus, self.recipe.text))
        return fingerprint(*settings, *times)
