"""Refinement: training by the expected reward of samples (Wu et al. 2016, section 5)."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from regard.batching.collate import pad
from regard.models.contracts import AnyGenerator
from regard.settings import Settings
from regard.text.special_tokens import BOS, EOS, PAD
from regard.training.loss import Loss
from regard.types import Batch, Hypothesis, Memory, Padded, Routing


class RefinementSettings(Settings):
    """A second stage of training, which raises the GLEU of sampled translations.

    It starts from the final weights of `training` and uses the settings of `training` except those
    given here. There is no dropout, label smoothing, accumulation or compilation, and the best
    weights are used without averaging.
    """

    steps: PositiveInt = 300
    """Updates of the weights."""
    learning_rate: PositiveFloat = 1e-4
    """The learning rate of each step after the warm-up."""
    warmup: NonNegativeInt = 50
    """Steps over which the learning rate rises to that: the first gradients, of few samples, are
    noisy."""
    samples: int = Field(default=15, ge=2)
    """The number of translations that are sampled for each sentence and compared with each
    other."""
    likelihood: NonNegativeFloat = 0.017
    """Weight of the reference's log-likelihood relative to the expected GLEU (from 0 to 1), the
    paper's α: it keeps the model from forgetting what earns no reward."""
    batch_tokens: PositiveInt = 1024
    """Positions in a batch, counted as in training; translations are sampled for each of its
    pairs."""
    max_length_ratio: float = Field(default=1.5, ge=1)
    """The most tokens of a sample per token of its reference, both with EOS."""
    validate_every: PositiveInt = 50
    """Steps between two validations, each of which is followed by a checkpoint. GLEU selects the
    best weights; the model keeps its initial weights if none have a higher GLEU."""
    patience: PositiveInt | None = None
    """The number of validations in a row without a new best after which training stops; null: no
    early stopping."""


SampleFn = Callable[[AnyGenerator, Memory, Tensor], Sequence[Sequence[Hypothesis]]]
"""A model, its memory of B sources, the tokens (B,) of their references, EOS counted -> N samples
for each source, drawn from all tokens but PAD and BOS."""
RewardFn = Callable[[Sequence[int], Sequence[Sequence[int]]], Sequence[float]]
"""A reference and some outputs for the same source -> the reward of each output."""


class WeightedSample(NamedTuple):
    """An output for a sentence of a batch, and the weight of its log-probability."""

    sentence: int
    tokens: tuple[int, ...]
    finished: bool
    weight: float


class WeightedSamples(NamedTuple):
    """The answers that a batch is trained on."""

    answers: list[WeightedSample]  # the references of all sentences, then other samples
    reward: float  # the samples' mean, summed over the sentences


def refinement_loss(
    model: AnyGenerator,
    batch: Batch[Padded],
    *,
    draw: SampleFn,
    reward: RewardFn,
    likelihood: float,
) -> Loss:
    """Minus the paper's mixed objective (equation 9), summed over the pairs of a batch.

        O = Σ_b α log P(Y*_b | X_b) + Σ_b Σ_Y P(Y | X_b) r(Y, Y*_b)

    α is `likelihood`, Y* a reference. `weight_samples` estimates the gradient of the inner sum,
    over all possible answers; the loss has the mean reward of the samples in its place. The model
    is in evaluation mode, so that an answer has one probability.
    """
    was_training = model.training
    model.eval()
    try:
        memory = model.encode(batch.inputs)
        lengths = batch.decoder_input.mask.sum(1)  # (B,) BOS in the place of EOS
        samples_of_batch = draw(model, memory, lengths)
        padded = zip(batch.decoder_input.ids.tolist(), lengths.tolist(), strict=True)
        references = [tuple(ids[1:length]) for ids, length in padded]
        answers, mean = weight_samples(samples_of_batch, references, reward, likelihood)
        scored = _token_log_probs(model, memory, answers)
    finally:
        model.train(was_training)
    estimate = (scored.weights * scored.log_probs).sum()
    nll = -scored.log_probs[: batch.num_labels].detach().sum()  # the references come first
    balance_loss = batch.num_labels * sum(one.balance_loss for one in scored.routings)
    loss = estimate.detach() - estimate + likelihood * (nll + balance_loss) - mean
    return Loss(loss, nll, scored.routings)


def weight_samples(
    samples_of_batch: Sequence[Sequence[Hypothesis]],
    references: Sequence[tuple[int, ...]],
    reward: RewardFn,
    likelihood: float,
) -> WeightedSamples:
    """The weight of each answer's log-probability, so that their sum has the right gradient.

    Each of N samples Y_n with mean reward r̄ has the weight (r(Y_n) - r̄) / (N - 1), the reference
    α. The divisor N - 1 makes the estimate unbiased although r̄ includes the sample (Kool, van Hoof
    and Welling 2019).
    """
    first, drawn_samples, total = [], [], 0.0
    for sentence, (samples, reference) in enumerate(zip(samples_of_batch, references, strict=True)):
        counts = Counter((one.tokens, one.finished) for one in samples)
        rewards = reward(reference, [tokens for tokens, _ in counts])
        mean = sum(n * r for n, r in zip(counts.values(), rewards, strict=True)) / len(samples)
        total += mean
        weights = {
            answer: n * (r - mean) / (len(samples) - 1)
            for (answer, n), r in zip(counts.items(), rewards, strict=True)
            if min(rewards) < max(rewards)  # equal rewards have no gradient
        }
        reference_weight = likelihood + weights.pop((reference, True), 0.0)
        first.append(WeightedSample(sentence, reference, True, reference_weight))
        drawn_samples += [WeightedSample(sentence, *drawn, w) for drawn, w in weights.items()]
    return WeightedSamples(first + drawn_samples, total)


class _TokenLogProbs(NamedTuple):
    """The M tokens of all answers, in order."""

    log_probs: Tensor  # (M,)
    weights: Tensor  # (M,)
    routings: tuple[Routing, ...]


def _token_log_probs(
    model: AnyGenerator, memory: Memory, answers: Sequence[WeightedSample]
) -> _TokenLogProbs:
    """The log-probability of each token of the answers."""
    device = memory.states.device
    # A truncated answer has no EOS: its last token is the last that was drawn.
    inputs = pad([one.tokens if one.finished else one.tokens[:-1] for one in answers], first=BOS)
    outputs = pad([(*one.tokens, EOS) if one.finished else one.tokens for one in answers])  # (R, T)
    places = inputs.mask.flatten().nonzero().squeeze(1)  # (M,)
    rows = places // inputs.ids.shape[1]  # (M,)
    labels = outputs.ids.flatten()[places].to(device)
    weights = torch.tensor([one.weight for one in answers], dtype=torch.float64)[rows]  # (M,)
    sentences = torch.tensor([one.sentence for one in answers]).to(device)
    decoded = model.decode(inputs.to(device), memory.select_sentences(sentences))  # (R, T, D)
    logits = model.logits(decoded.features.flatten(0, 1)[places.to(device)])  # (M, V)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    logits = logits.index_fill(-1, torch.tensor([PAD, BOS]).to(device), float("-inf"))
    log_probs = -F.cross_entropy(logits, labels, reduction="none")  # (M,)
    return _TokenLogProbs(log_probs, weights.to(log_probs), decoded.routings)
