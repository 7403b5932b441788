import pytest
import torch

from regard.decoding import reranking
from regard.decoding.reranking import rerank
from regard.decoding.settings import (
    BeamSettings,
    DecodingSettings,
    RerankingSettings,
    SamplingSettings,
    native_only_reason,
)
from regard.models.build import build_model
from regard.models.translation.transformer_settings import TransformerSettings
from regard.types import Hypothesis


def hypothesis(tokens, log_probability, *, finished=True):
    return Hypothesis(tokens, log_probability, log_probability, finished)


@pytest.fixture
def priors(monkeypatch):
    """Makes the prior of an answer the sum of its tokens, negated."""

    def log_probs(model, sources, targets, *, budget):
        assert list(sources) == [()] * len(targets)
        return [-float(sum(target)) for target in targets]

    monkeypatch.setattr(reranking, "sequence_log_probs", log_probs)


def reranked(candidates, n_best=1, **settings):
    decoding = DecodingSettings(
        n_best=n_best, sampling=SamplingSettings(), reranking=RerankingSettings(**settings)
    )
    [best] = rerank(None, [candidates], decoding, budget=100)
    return [(one.tokens, one.score) for one in best]


@pytest.mark.usefixtures("priors")
def test_what_is_likely_without_the_source_counts_for_less():
    common, apt = hypothesis((1,), -2.0), hypothesis((6,), -4.0)
    assert reranked([common, apt], 2, prior_weight=0.0) == [((1,), -2.0), ((6,), -4.0)]
    assert reranked([common, apt], 2, prior_weight=0.5) == [((6,), -1.0), ((1,), -1.5)]
    assert reranked([common, apt], 1, prior_weight=0.5) == [((6,), -1.0)]


@pytest.mark.usefixtures("priors")
def test_each_token_and_eos_are_rewarded():
    short, long = hypothesis((1,), -2.0), hypothesis((1, 1, 1), -4.0)
    assert reranked([short, long], prior_weight=0.0, length_reward=1.5) == [((1, 1, 1), 2.0)]


@pytest.mark.usefixtures("priors")
def test_equal_samples_count_once_and_unfinished_ones_last():
    twice, cut = hypothesis((3,), -2.0), hypothesis((4,), -1.0, finished=False)
    found = reranked([cut, twice, twice], 3, prior_weight=0.0)
    assert found == [((3,), -2.0), ((4,), -1.0)]


def test_without_reranking_nothing_changes():
    best = [[hypothesis((3,), -2.0), hypothesis((3,), -2.0)]]
    assert rerank(None, best, DecodingSettings(), budget=1) == best


def test_the_prior_is_the_models_own_behind_an_empty_source():
    torch.manual_seed(0)
    settings = TransformerSettings(
        encoder_layers=1, decoder_layers=1, width=8, heads=2, feed_forward=8
    )
    model = build_model(settings, 9, 9, joint=True).eval()
    answers = [[hypothesis((5, 6), 0.0), hypothesis((7,), 0.0)], [hypothesis((), 0.0)]]
    decoding = DecodingSettings(
        n_best=2,
        sampling=SamplingSettings(),
        reranking=RerankingSettings(prior_weight=1.0),
    )
    scores = [[one.score for one in best] for best in rerank(model, answers, decoding, budget=9)]
    assert [len(best) for best in scores] == [2, 1]
    expected = reranking.sequence_log_probs(model, [()], [()], budget=9)
    assert scores[1] == pytest.approx([-expected[0]])


def test_how_many_candidates_are_searched_for():
    reranks = RerankingSettings(candidates=8)
    assert DecodingSettings().num_candidates == 1
    assert DecodingSettings(reranking=reranks, sampling=SamplingSettings()).num_candidates == 8
    assert DecodingSettings(reranking=reranks, beam=BeamSettings(size=3)).num_candidates == 3
    many = DecodingSettings(n_best=9, reranking=reranks, sampling=SamplingSettings())
    assert many.num_candidates == 9
    beam = DecodingSettings(reranking=reranks)
    assert native_only_reason(beam) == "answers are to be reranked"
