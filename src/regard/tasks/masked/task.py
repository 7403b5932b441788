"""Masked language modelling: tokens of a running text, predicted from those on both sides."""

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt, model_validator

from regard.batching.collate import PositionedBatch
from regard.batching.masked_windows import (
    Masking,
    held_out_windows,
    masked_windows,
    single_windows,
)
from regard.batching.sampler import Shard, StreamPosition
from regard.evaluation.masked_tokens import masked_scores, pseudo_losses, pseudo_perplexity
from regard.evaluation.mean_losses import BLOCK, MeanPerplexity, compare_losses
from regard.evaluation.scores import Comparison
from regard.models.contracts import MaskedLanguageModel
from regard.models.language.bert import Bert, BertSettings, RobertaSettings
from regard.settings import NumPositions, Settings
from regard.tasks.contracts import Evaluation, SplitName
from regard.tasks.families.running_text import RunningTextRecipe, RunningTextTask, counting_note
from regard.training.loop import TrainingTask
from regard.training.loss import batch_loss
from regard.training.settings import TrainingSettings

VALIDATION_POSITIONS = 1 << 15  # of a validation batch
MIN_WINDOW = 8  # tokens

MaskedModelSettings = Annotated[BertSettings | RobertaSettings, Field(discriminator="family")]


class MaskedTrainingSettings(TrainingSettings):
    """How a masked language model is trained."""

    batch_size: PositiveInt = 32
    """Windows in a batch."""
    window: NumPositions | None = None
    """Tokens in a window, including special tokens; left out: the model's context."""
    masked_share: float = Field(default=0.15, gt=0, le=0.5)
    """Share of the tokens of a window that are predicted. Of ten of these, eight are masked, one is
    replaced by a random token, and one stays as it is."""
    whole_words: bool = False
    """Mask all tokens of a word or none; white space separates words."""
    fixed_masks: PositiveInt | None = None
    """Number of fixed masks for each window, used in turn from epoch to epoch: with 1, all epochs
    have the same; BERT has 10. Left out: windows and masks are drawn anew in each epoch, as in
    RoBERTa."""


class MaskedEvaluationSettings(Settings):
    """How a trained model is evaluated."""

    pseudo_tokens: PositiveInt | None = 4096
    """The number of tokens, rounded up to whole windows, on which the pseudo-perplexity is
    measured, in windows spread evenly over the text. Each token takes one pass over its window.
    null: all tokens."""


class MaskedLanguageRecipe(RunningTextRecipe):
    """One run of a masked language model."""

    task: Literal["masked-language-model"]
    """The task."""
    model: MaskedModelSettings = BertSettings()
    """The model; `family` selects its kind."""
    training: MaskedTrainingSettings = MaskedTrainingSettings()
    """How the model is trained."""
    evaluation: MaskedEvaluationSettings = MaskedEvaluationSettings()
    """How the trained model is evaluated."""

    @property
    def window(self) -> int:
        """Tokens in a window, in training and evaluation."""
        return self.training.window or self.model.context

    @model_validator(mode="after")
    def _check_window(self) -> Self:
        if self.window > self.model.context:
            raise ValueError(
                f"training.window {self.window} is longer than model.context {self.model.context}, "
                "the most tokens that the model sees at once; lower window or raise context"
            )
        if self.window < MIN_WINDOW:
            raise ValueError(
                f"a window of {self.window} tokens is too short to mask some of them; give "
                f"training.window, or model.context, {MIN_WINDOW} or more"
            )
        return self


class MaskedLanguageModelling(RunningTextTask[MaskedLanguageRecipe, MaskedLanguageModel]):
    """Masked tokens of windows are predicted from all others; for pairs of texts, also whether the
    second follows the first.
    """

    def new_model(self) -> MaskedLanguageModel:
        return Bert(self.recipe.model, self.tokenizer.size)

    def training(self, model: MaskedLanguageModel) -> TrainingTask:
        return TrainingTask(
            self._batches, partial(batch_loss, smoothing=0.0), partial(self._numbers, split="valid")
        )

    def evaluate(self, model: MaskedLanguageModel, split: SplitName) -> Evaluation:
        stream = self.stream(split)
        windows = self._pseudo_windows(stream.ids, self.recipe.window)
        losses = pseudo_losses(model, windows, rows=_batch_rows(self.recipe.window))
        numbers = self._numbers(model, split) | {"pseudo_perplexity": pseudo_perplexity(losses)}
        masked, s = self._masking, self.recipe.training
        kind = "words" if s.whole_words else "tokens"
        pairs = (
            "; in half of the pairs, the second text does not follow the first"
            if masked.pairs
            else ""
        )
        notes = (
            counting_note(stream.counts),
            f"loss in nats and accuracy in percent: on {s.masked_share:.0%} of the {kind}, chosen "
            f"by position, in separate windows of {self.recipe.window} tokens{pairs}",
            f"pseudo-perplexity: on {len(losses):,} tokens, each masked alone in one of "
            f"{len(windows):,} windows of {self.recipe.window}; ends of documents are not counted",
        )
        return Evaluation(split, numbers, notes)

    def compare(
        self,
        model: MaskedLanguageModel,
        other: Self,
        its_model: MaskedLanguageModel,
        split: SplitName,
    ) -> list[Comparison]:
        """A paired test of pseudo-perplexities on the same tokens, resampled in blocks of text."""
        self.require_same_tokens(other, split)
        length = min(self.recipe.window, other.recipe.window)
        windows, rows = self._pseudo_windows(self.stream(split).ids, length), _batch_rows(length)
        theirs, ours = (pseudo_losses(one, windows, rows=rows) for one in (its_model, model))
        metric = MeanPerplexity("pseudo_perplexity", "token")
        return [compare_losses(theirs, ours, metric, block=BLOCK)]

    @property
    def _masking(self) -> Masking:
        recipe, tokenizer = self.recipe, self.tokenizer
        spaces = np.array(tokenizer.space_edges()) if recipe.training.whole_words else None
        share, pairs = recipe.training.masked_share, recipe.model.next_sentence
        own = recipe.model.mask_id
        mask_id = tokenizer.size if own is None else own
        return Masking(mask_id, share, pairs, spaces, tokenizer.size)

    def _batches(self, start: StreamPosition, shard: Shard) -> Iterator[PositionedBatch]:
        s = self.recipe.training
        return masked_windows(
            self.stream("train").ids,
            start,
            self._masking,
            shard,
            rows=s.batch_size,
            length=self.recipe.window,
            seed=s.seed,
            fixed_masks=s.fixed_masks,
        )

    def _numbers(self, model: MaskedLanguageModel, split: SplitName) -> dict[str, float]:
        """Loss and accuracy in percent on the masked tokens of a whole split, and on its pairs."""
        length = self.recipe.window
        ids, rows = self.stream(split).ids, _batch_rows(length)
        found = masked_scores(model, held_out_windows(ids, self._masking, rows=rows, length=length))
        numbers = {"loss": found.loss, "masked_accuracy": 100 * found.accuracy}
        if found.next_sentence_accuracy is not None:
            numbers["next_sentence_accuracy"] = 100 * found.next_sentence_accuracy
        return numbers

    def _pseudo_windows(
        self, ids: NDArray[np.unsignedinteger[Any]], length: int
    ) -> NDArray[np.int64]:
        """Windows (N, `length`) spread evenly over a text, as many as `pseudo_tokens` takes."""
        count = min(length - 2, len(ids))
        firsts = np.arange(0, len(ids) - count + 1, count)
        wanted = self.recipe.evaluation.pseudo_tokens
        num_windows = len(firsts) if wanted is None else min(len(firsts), -(-wanted // count))
        chosen = firsts[np.arange(num_windows) * len(firsts) // num_windows]
        return single_windows(ids, chosen, count).ids


def _batch_rows(length: int) -> int:
    """The number of windows of `length` in a batch of evaluation."""
    return max(1, VALIDATION_POSITIONS // length)
