"""Language modelling: a running text, each token predicted from those before it."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from regard.batching.collate import PositionedBatch
from regard.batching.sampler import Shard, StreamPosition
from regard.batching.shuffled_windows import consecutive_windows, shuffled_windows
from regard.batching.text_windows import continued_windows
from regard.corpora.token_stream import StreamCounts
from regard.decoding.settings import DecodingSettings, SamplingSettings
from regard.evaluation.mean_losses import BLOCK, Losses, MeanPerplexity, compare_losses
from regard.evaluation.perplexity import all_token_losses, perplexity
from regard.evaluation.scores import Comparison
from regard.evaluation.text_perplexity import CARRIED_OVERLAP, carried_losses, carried_nats
from regard.models.contracts import AnyGenerator
from regard.models.language.awd_lstm import AwdLstm, AwdLstmSettings
from regard.models.language.gpt import Gpt, GptSettings
from regard.settings import NumPositions
from regard.tasks.contracts import Evaluation, SplitName
from regard.tasks.families.running_text import (
    RunningTextRecipe,
    RunningTextTask,
    counting_note,
    text_numbers,
)
from regard.training.carried_memory import CarriedMemoryLoss
from regard.training.loop import TrainingTask
from regard.training.loss import batch_loss
from regard.training.settings import TrainingSettings
from regard.types import Batch, Padded

VALIDATION_POSITIONS = 1 << 14  # of a validation batch
CARRIED_WINDOW = 70  # tokens of a window where the model has no context of its own

FAMILIES: Mapping[str, Callable[[Any, int], AnyGenerator]] = {"awd-lstm": AwdLstm, "gpt": Gpt}
"""For each family: its settings and the size of the vocabulary -> a model."""
LanguageModelSettings = Annotated[GptSettings | AwdLstmSettings, Field(discriminator="family")]


class LanguageTrainingSettings(TrainingSettings):
    """How a language model is trained."""

    batch_size: PositiveInt = 32
    """Windows in a batch. A model that carries its memory reads the text in this many rows, and
    each window continues the one before it in its row."""
    window: NumPositions | None = None
    """Tokens in a window; left out: the model's context, or 70 for a model that carries its
    memory."""
    vary_window: bool = False
    """For a model that carries its memory: draw the lengths of windows around `window`, so that
    they begin at other tokens in each epoch (Merity et al. 2018)."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    """Share of each label's probability that is spread evenly over the vocabulary."""


class LanguageModelRecipe(RunningTextRecipe):
    """One run of a language model: its data, its model, its training and its search."""

    task: Literal["language-model"]
    """The task."""
    model: LanguageModelSettings = GptSettings()
    """The model; `family` selects its kind."""
    training: LanguageTrainingSettings = LanguageTrainingSettings()
    """How the model is trained."""
    decoding: DecodingSettings = DecodingSettings(sampling=SamplingSettings())
    """How a text is continued."""

    @property
    def window(self) -> int:
        """Tokens in a window, in training and evaluation."""
        return self.training.window or self.model.context or CARRIED_WINDOW

    @model_validator(mode="after")
    def _check_window(self) -> Self:
        context = self.model.context
        if context is not None and self.window > context:
            raise ValueError(
                f"training.window {self.window} is longer than model.context {context}, "
                "the most tokens that the model sees at once; lower window or raise context"
            )
        if context is not None and self.training.vary_window:
            raise ValueError(
                f"training.vary_window is for a model that carries its memory; {self.model.family} "
                "reads windows from random places of the text: leave it out"
            )
        return self


class LanguageModelling(RunningTextTask[LanguageModelRecipe, AnyGenerator]):
    """Each token of a text is predicted from those before it."""

    def new_model(self) -> AnyGenerator:
        return FAMILIES[self.recipe.model.family](self.recipe.model, self.tokenizer.size)

    def training(self, model: AnyGenerator) -> TrainingTask:
        settings = self.recipe.training
        smoothing, validate = settings.label_smoothing, partial(self._numbers, split="valid")
        if (stateful := model.as_stateful()) is not None:
            rows, length = settings.batch_size, self.recipe.window
            loss = CarriedMemoryLoss(
                stateful, rows, length=length, smoothing=smoothing, lanes=settings.accumulate
            )
            return TrainingTask(self._continued_batches, loss, validate, carried=loss.carried)
        return TrainingTask(self._batches, partial(batch_loss, smoothing=smoothing), validate)

    def evaluate(self, model: AnyGenerator, split: SplitName) -> Evaluation:
        how = f"in separate windows of {self.recipe.window} tokens"
        if model.as_stateful() is not None:
            how = (
                f"the text is read in rows, each of which begins {CARRIED_OVERLAP} tokens early; "
                "each token is predicted from all before it in its row"
            )
        elif prefix := self.tokenizer.text_prefix:
            how += f", each of which begins with {' '.join(self.tokenizer.pieces(prefix))}"
        else:
            how += "; the first token of the text is not predicted, and not counted"
        notes = counting_note(self._counts(model, split)), how
        return Evaluation(split, self._numbers(model, split), notes)

    def _batches(self, start: StreamPosition, shard: Shard) -> Iterator[PositionedBatch]:
        settings = self.recipe.training
        rows, length, seed = settings.batch_size, self.recipe.window, settings.seed
        ids = self.stream("train").ids
        return shuffled_windows(ids, start, shard, rows=rows, length=length, seed=seed)

    def _continued_batches(self, start: StreamPosition, shard: Shard) -> Iterator[PositionedBatch]:
        s = self.recipe.training
        return continued_windows(
            self.stream("train").ids,
            start,
            shard,
            rows=s.batch_size,
            length=self.recipe.window,
            vary=s.vary_window,
            seed=s.seed,
            lanes=s.accumulate * shard.of,
        )

    def _numbers(self, model: AnyGenerator, split: SplitName) -> dict[str, float]:
        """Loss, perplexities and bits per character of a whole split."""
        counts = self._counts(model, split)
        if (stateful := model.as_stateful()) is not None:
            return text_numbers(carried_nats(stateful, self.stream(split).ids), counts)
        measured = perplexity(model, self._windows(split))
        return text_numbers(measured.loss * measured.num_tokens, counts)

    def _counts(self, model: AnyGenerator, split: SplitName) -> StreamCounts:
        """The counts of what is predicted of a split: all of it if something stands before it."""
        stream = self.stream(split)
        if model.as_stateful() is not None or self.tokenizer.text_prefix:
            return stream.counts
        return stream.counts_after_first(self.tokenizer)

    def _windows(self, split: SplitName) -> Iterator[Batch[Padded]]:
        """A split in windows, each read without the text before it, but after the tokens that an
        imported tokenizer puts before each text.
        """
        length, prefix = self.recipe.window, self.tokenizer.text_prefix or ()
        rows = max(1, VALIDATION_POSITIONS // length)
        ids = self.stream(split).ids
        return consecutive_windows(ids, rows=rows, length=length, prefix=prefix)

    def compare(
        self, model: AnyGenerator, other: Self, its_model: AnyGenerator, split: SplitName
    ) -> list[Comparison]:
        """A paired test of the perplexities on the same tokens, resampled in blocks of text."""
        self.require_same_tokens(other, split)
        theirs, ours = other.token_losses(its_model, split), self.token_losses(model, split)
        metric = MeanPerplexity("perplexity", "token")
        return [compare_losses(theirs, ours, metric, block=BLOCK)]

    def token_losses(self, model: AnyGenerator, split: SplitName) -> Losses:
        """The loss in nats of each token of a split except the first: (N - 1,)."""
        if (stateful := model.as_stateful()) is not None:
            return carried_losses(stateful, self.stream(split).ids)[1:]
        losses = all_token_losses(model, self._windows(split))
        return losses[1:] if self.tokenizer.text_prefix else losses
