"""Refinement of a translator: further training on the expected GLEU of its own translations."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from regard.decoding.batch_search import search
from regard.decoding.settings import DecodingSettings, RuleSettings, SamplingSettings
from regard.evaluation.bleu_tokenizer import BleuTokenizer
from regard.evaluation.metrics import MetricOptions, line_gleu
from regard.models.contracts import AnyGenerator
from regard.tasks.translation.settings import TranslationTrainingSettings
from regard.text.tokenizer import Tokenizer
from regard.training.loss import LossFn
from regard.training.optimizer import ScheduleSettings
from regard.training.refinement import RefinementSettings, RewardFn, refinement_loss
from regard.types import Hypothesis, Memory

NUM_SEEDS = 1 << 62
UNLIMITED_LENGTH = 1 << 30


def build_refinement_loss(
    settings: RefinementSettings, target: Tokenizer, tokenize: BleuTokenizer
) -> LossFn:
    """The loss of refinement: the expected GLEU of sampled translations."""
    return partial(
        refinement_loss,
        draw=partial(sample_translations, settings),
        reward=gleu_reward(target, tokenize),
        likelihood=settings.likelihood,
    )


def sample_translations(
    settings: RefinementSettings, model: AnyGenerator, memory: Memory, lengths: Tensor
) -> list[list[Hypothesis]]:
    """Sampled translations of each of B sources; the seed comes from torch's generator."""
    decoding = DecodingSettings(
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
        return search(model, model.start(memory), lengths, decoding)


def gleu_reward(target: Tokenizer, tokenize: BleuTokenizer) -> RewardFn:
    """Sentence GLEU of decoded text, as in validation: segmentations do not matter."""
    gleu = line_gleu(MetricOptions(tokenize))

    def reward(reference: Sequence[int], answers: Sequence[Sequence[int]]) -> list[float]:
        text = target.decode(reference)
        return [gleu(target.decode(answer), text) for answer in answers]

    return reward


def refinement_training_settings(
    training: TranslationTrainingSettings, settings: RefinementSettings
) -> TranslationTrainingSettings:
    """The settings of the training loop for refinement: those of `training`, with some replaced."""
    optimizer = training.optimizer.model_copy(update={"learning_rate": settings.learning_rate})
    validation = training.validation.model_copy(
        update={"every": settings.validate_every, "by": "gleu", "patience": settings.patience}
    )
    # Parts that training kept frozen stay frozen, also in a model that was loaded anew.
    frozen = training.fine_tuning.model_copy(update={"rate_ratio": 1.0, "unfreeze_every": None})
    return training.model_copy(
        update={
            "steps": settings.steps,
            "batch_tokens": settings.batch_tokens,
            "accumulate": 1,
            "compile": False,  # a search cannot be compiled
            "capture": False,  # nor captured
            "optimizer": optimizer,
            "schedule": ScheduleSettings(shape="constant", warmup=settings.warmup),
            "fine_tuning": frozen,
            "validation": validation,
            "average": 1,
            "log_every": min(training.log_every, settings.validate_every),
            "save_every": settings.validate_every,
        }
    )
