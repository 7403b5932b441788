"""Language modelling in both directions: each token from those before it, and from those after."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Literal

import torch
from pydantic import PositiveInt

from regard.batching.collate import PositionedBatch
from regard.batching.sampler import Shard, StreamPosition
from regard.batching.shuffled_windows import consecutive_windows, shuffled_windows
from regard.evaluation.perplexity import perplexity
from regard.models.language.elmo import Elmo, ElmoSettings
from regard.settings import NumPositions
from regard.tasks.contracts import Evaluation, SplitName
from regard.tasks.families.running_text import RunningTextRecipe, RunningTextTask, counting_note
from regard.training.loop import TrainingTask
from regard.training.loss import batch_loss
from regard.training.settings import TrainingSettings
from regard.types import Batch, Padded

VALIDATION_POSITIONS = 1 << 13  # of a validation batch


class BidirectionalTrainingSettings(TrainingSettings):
    """How a model is trained."""

    batch_size: PositiveInt = 64
    """Windows in a batch."""
    window: NumPositions = 64
    """Tokens in a window, which is read in both directions."""


class BidirectionalRecipe(RunningTextRecipe):
    """One run of a language model in both directions."""

    task: Literal["bidirectional-language-model"]
    """The task."""
    model: ElmoSettings = ElmoSettings()
    """The model."""
    training: BidirectionalTrainingSettings = BidirectionalTrainingSettings()
    """How the model is trained."""


class BidirectionalModelling(RunningTextTask[BidirectionalRecipe, Elmo]):
    """Each token of a window is predicted from those before it, and again from those after it."""

    def new_model(self) -> Elmo:
        return Elmo(self.recipe.model, self.tokenizer.words())

    def training(self, model: Elmo) -> TrainingTask:
        return TrainingTask(
            self._batches, partial(batch_loss, smoothing=0.0), partial(self._numbers, split="valid")
        )

    def evaluate(self, model: Elmo, split: SplitName) -> Evaluation:
        window = self.recipe.training.window
        notes = [
            counting_note(self.stream(split).counts),
            f"per token, in separate windows of {window} tokens, each read in both directions",
        ]
        if model.mix is not None:
            weights = ", ".join(f"{weight:.3f}" for weight in model.mix.weights().tolist())
            notes.append(f"layers mixed by {weights}, the context-independent word vectors first")
        return Evaluation(split, self._numbers(model, split), tuple(notes))

    def _batches(self, start: StreamPosition, shard: Shard) -> Iterator[PositionedBatch]:
        s = self.recipe.training
        stream = shuffled_windows(
            self.stream("train").ids,
            start,
            shard,
            rows=s.batch_size,
            length=s.window,
            seed=s.seed,
        )
        return (one._replace(batch=both_ways(one.batch)) for one in stream)

    def _numbers(self, model: Elmo, split: SplitName) -> dict[str, float]:
        """The loss and the perplexities of a split, forward and backward."""
        ids, length = self.stream(split).ids, self.recipe.training.window
        rows = max(1, VALIDATION_POSITIONS // length)

        def batches(direction: int) -> Iterable[Batch[Padded]]:
            windows = consecutive_windows(ids, rows=rows, length=length)
            return (one_way(both_ways(batch), direction) for batch in windows)

        forward, backward = (perplexity(model, batches(direction)) for direction in range(2))
        return {
            "loss": (forward.loss + backward.loss) / 2,
            "forward_perplexity": forward.value,
            "backward_perplexity": backward.value,
        }


def both_ways(batch: Batch[Padded]) -> Batch[Padded]:
    """A batch of windows (B, T) as tokens (B, T + 1), with labels for both directions: first the
    token after each, then the token before each.
    """
    given = batch.decoder_input.ids
    rows, length = given.shape
    ids = torch.cat([given, batch.labels.view(rows, length)[:, -1:]], 1)  # (B, S)
    places = torch.arange(2 * ids.numel()).view(2, rows, length + 1)
    positions = torch.cat([places[0, :, :-1].flatten(), places[1, :, 1:].flatten()])  # (M,)
    labels = torch.cat([ids[:, 1:].flatten(), ids[:, :-1].flatten()])
    return Batch(Padded(ids, torch.ones_like(ids, dtype=torch.bool)), None, positions, labels)


def one_way(batch: Batch[Padded], direction: int) -> Batch[Padded]:
    """The half of a batch of `both_ways` for one direction: 0 is forward, 1 backward."""
    assert batch.positions is not None
    positions, labels = (x.chunk(2)[direction] for x in (batch.positions, batch.labels))
    return Batch(batch.inputs, None, positions, labels)
