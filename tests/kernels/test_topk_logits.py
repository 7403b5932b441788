import pytest
import torch

from regard.decoding.constraints.rules import MIN_LOG_PROB, Rules
from regard.decoding.search.beam import BeamSelector
from regard.decoding.search.hypotheses import NEG_INF, Hypotheses
from regard.decoding.settings import RuleSettings
from regard.kernels import dispatch, topk_logits
from regard.kernels.dispatch import use_topk_logits
from regard.kernels.topk_logits import TokenRules, topk_continuations
from regard.text.special_tokens import BOS, EOS, PAD, UNK

B = 3


@pytest.fixture(autouse=True, params=[64, 8192], ids=["in blocks", "whole rows"])
def small_tiles(request, monkeypatch):
    monkeypatch.setattr(topk_logits, "LOGITS_AT_A_TIME", request.param)


def given(device, cells, size, dtype=torch.float32):
    generator = torch.Generator().manual_seed(cells * size)
    logits = 3 * torch.randn(B, cells, size, generator=generator)
    return logits.to(device, dtype), -5 * torch.rand(B, cells, generator=generator).to(device)


def plainly(logits, totals, size, excluded, *, unknown=False):
    """The same by the rules and the beam of a search."""
    lengths = torch.full((B,), 9, device=logits.device)
    rules = Rules(RuleSettings(excluded=excluded, allow_unknown=unknown), lengths)
    hypotheses = Hypotheses.start(B, totals.shape[1], logits.device)
    hypotheses = Hypotheses(hypotheses.sentence_index, hypotheses.tokens, totals)
    return BeamSelector(size)(rules.log_probs(logits.clone(), hypotheses), hypotheses)


def asked(excluded, *, unknown=False):
    banned = (PAD, BOS) if unknown else (PAD, BOS, UNK)
    return TokenRules(banned, EOS, MIN_LOG_PROB, excluded == "lost")


def assert_same(found, wanted):
    torch.testing.assert_close(found.log_probs, wanted.log_probs)
    assert torch.equal(found.tokens, wanted.tokens)
    if wanted.parents is not None:
        assert torch.equal(found.parents, wanted.parents)


@pytest.mark.parametrize("excluded", ["spread", "lost"])
@pytest.mark.parametrize("unknown", [True, False])
@pytest.mark.parametrize(
    ("cells", "size", "beam"), [(1, 160, 5), (5, 97, 5), (1, 12, 4), (1, 97, 1)]
)
def test_continuations_equal_the_beam_selectors(cells, size, beam, unknown, excluded, device):
    logits, totals = given(device, cells, size)
    wanted = plainly(logits, totals, beam, excluded, unknown=unknown)
    count = wanted.tokens.shape[1]
    with torch.no_grad():
        assert use_topk_logits(logits, count)
        found = topk_continuations(logits, totals, count, asked(excluded, unknown=unknown))
    assert_same(found, wanted)


def test_half_precision(device):
    logits, totals = given(device, 5, 320, torch.bfloat16)
    found = topk_continuations(logits, totals, 6, asked("lost"))
    assert_same(found, plainly(logits.float(), totals, 3, "lost"))


def test_ties_are_broken_by_hypothesis_and_token(device):
    logits = torch.zeros(B, 3, 70, device=device)
    totals = torch.zeros(B, 3, device=device)
    totals[1, 0] = NEG_INF
    totals[2, 2] = 1.0
    found = topk_continuations(logits, totals, 6, asked("spread"))
    assert found.tokens.tolist() == [[EOS, 4, 5, 6, 7, 8]] * B
    assert found.parents.tolist() == [[0] * 6, [1] * 6, [2] * 6]


@pytest.mark.parametrize("excluded", ["spread", "lost"])
def test_eos_is_possible_where_nothing_else_is(excluded, device):
    logits = torch.full((B, 2, 50), NEG_INF, device=device)
    logits[:, :, 0] = 0.0  # banned
    totals = torch.zeros(B, 2, device=device)
    found = topk_continuations(logits, totals, 3, asked(excluded))
    assert found.tokens[:, :2].tolist() == [[EOS, EOS]] * B
    assert (
        found.log_probs[:, :2].tolist() == [[MIN_LOG_PROB if excluded == "lost" else 0.0] * 2] * B
    )
    assert found.log_probs[:, 2].tolist() == [NEG_INF] * B


def test_nan_comes_first(device):
    logits, totals = given(device, 2, 50)
    logits[1, 1, 20] = float("nan")
    found = topk_continuations(logits, totals, 4, asked("lost"))
    assert found.log_probs.isnan().tolist() == [[False] * 4, [True] * 4, [False] * 4]
    assert found.parents[1].tolist() == [1] * 4


def test_large_vocabularies_have_larger_chunks(device, monkeypatch):
    monkeypatch.setattr(dispatch, "MAX_RANKED", 256)
    logits, totals = given(device, 10, 900)
    with torch.no_grad():
        assert use_topk_logits(logits, 4)
        assert not use_topk_logits(logits, 5)
    assert_same(
        topk_continuations(logits, totals, 4, asked("lost")), plainly(logits, totals, 2, "lost")
    )


def test_gradients_float64_and_strided_logits_need_the_formula(device):
    logits, _ = given(device, 2, 50)
    assert not use_topk_logits(logits, 4)  # gradients are enabled
    with torch.no_grad():
        assert use_topk_logits(logits, 4)
        assert not use_topk_logits(logits.double(), 4)
        assert not use_topk_logits(logits.mT, 4)
