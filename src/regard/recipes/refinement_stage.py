"""What refinement is given: how answers are drawn, what they earn, how the loop is set."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from regard.decoding.search.config import search
from regard.decoding.settings import DecodingSettings, RuleSettings, SamplingSettings
from regard.evaluation.bleu_tokenizer import BleuTokenizer
from regard.evaluation.metrics import MeanGleu
from regard.models.contracts import AnyModel
from regard.text.tokenizer import Tokenizer
from regard.training.loop import TrainingSettings
from regard.training.optimizer import ScheduleSettings
from regard.training.refinement import RefinementSettings, RewardFn, refinement_loss
from regard.training.step import LossFn
from regard.types import Hypothesis, Memory

NUM_SEEDS = 1 << 62
"""How many seeds there are to draw."""
UNLIMITED_LENGTH = 1 << 30
"""Tokens of an answer by a model that may write any number of them."""


def refinement_objective(
    settings: RefinementSettings, target: Tokenizer, tokenize: BleuTokenizer
) -> LossFn:
    """The loss of the second stage: GLEU is earned by the words of the `target` text."""
    return partial(
        refinement_loss,
        draw=partial(sample_translations, settings),
        reward=gleu_reward(target, tokenize),
        likelihood=settings.likelihood,
    )


def sample_translations(
    settings: RefinementSettings, model: AnyModel, memory: Memory, lengths: Tensor
) -> list[list[Hypothesis]]:
    """Samples of what `model` says to each of B sources, no longer than the settings allow.

    Their seed comes from torch's generator, whose state is part of every checkpoint.
    """
    wanted = DecodingSettings(
        n_best=settings.samples,
        sampling=SamplingSettings(seed=int(torch.randint(NUM_SEEDS, ()))),
        rules=RuleSettings(
            max_length=model.max_length or UNLIMITED_LENGTH,
            max_length_ratio=settings.max_length_ratio,  # of `lengths`: those of the references
            max_length_offset=0,
            allow_unknown=True,
            excluded="lost",
        ),
    )
    with torch.inference_mode():
        return search(model, model.start(memory), lengths, wanted)


def gleu_reward(target: Tokenizer, tokenize: BleuTokenizer) -> RewardFn:
    """Sentence GLEU of the text that ids spell, cut into words as the metric cuts it.

    Of text rather than of ids: words that were cut otherwise, as sampled subwords are, still
    match, half of a word earns nothing, and it is the number that validation then measures.
    """
    gleu = MeanGleu(tokenize)

    def reward(reference: Sequence[int], answers: Sequence[Sequence[int]]) -> list[float]:
        wanted = target.decode(reference)
        return [gleu.line(target.decode(answer), wanted) for answer in answers]

    return reward


def refinement_training_settings(
    training: TrainingSettings, settings: RefinementSettings
) -> TrainingSettings:
    """What the loop is told of the second stage: the settings of `training`, save some."""
    optimizer = training.optimizer.model_copy(update={"learning_rate": settings.learning_rate})
    validation = training.validation.model_copy(
        update={
            "every": settings.validate_every,
            "by": "gleu",
            "patience": settings.patience,
        }
    )
    return training.model_copy(
        update={
            "steps": settings.steps,
            "batch_tokens": settings.batch_tokens,
            "accumulate": 1,
            "compile": False,  # a search cannot be compiled
            "capture": False,  # nor captured
            "optimizer": optimizer,
            "schedule": ScheduleSettings(shape="constant", warmup=settings.warmup),
            "validation": validation,
            "average": 1,
            "log_every": min(training.log_every, settings.validate_every),
            "save_every": settings.validate_every,
        }
    )
