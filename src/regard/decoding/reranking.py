"""Reranking of candidates by mutual information with the source (Li et al. 2016)."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from regard.decoding.settings import DecodingSettings
from regard.evaluation.perplexity import sequence_log_probs
from regard.models.contracts import AnyModel
from regard.types import Hypothesis


def rerank(
    model: AnyModel,
    n_best: Sequence[Sequence[Hypothesis]],
    settings: DecodingSettings,
    *,
    budget: int,
) -> list[list[Hypothesis]]:
    """The `n_best` distinct candidates of each sentence with the highest scores.

    The score is log p(T|S) - λ log p(T) + γ |T|, where p(T) is the model's probability of T given
    an empty source. Candidates that were cut at their length limit rank below all that end.
    """
    reranking = settings.reranking
    if reranking is None:
        return [list(best) for best in n_best]
    distinct = [list({tuple(one.tokens): one for one in best}.values()) for best in n_best]
    targets = [one.tokens for best in distinct for one in best]
    priors = iter(sequence_log_probs(model, [()] * len(targets), targets, budget=budget))
    chosen = []
    for best in distinct:
        scored = [
            replace(
                one,
                score=one.log_probability
                - reranking.prior_weight * prior
                + reranking.length_reward * (len(one.tokens) + 1),
            )
            for one, prior in zip(best, islice(priors, len(best)), strict=True)
        ]
        scored.sort(key=lambda one: (one.finished, one.score), reverse=True)
        chosen.append(scored[: settings.n_best])
    return chosen
