import numpy as np
import pytest
import torch

from regard.evaluation import text_perplexity
from regard.evaluation.text_perplexity import carried_losses, carried_nats
from regard.models.language.awd_lstm import AwdLstm, AwdLstmSettings
from regard.text.special_tokens import EOS


@torch.inference_mode()
@pytest.mark.parametrize("length", [3, 512])
def test_a_text_is_scored_as_token_by_token(length, monkeypatch):
    monkeypatch.setattr(text_perplexity, "CARRIED_LENGTH", length)
    torch.manual_seed(1)
    model = AwdLstm(AwdLstmSettings(width=6, units=8, layers=2), 13)
    ids = np.random.default_rng(0).integers(4, 13, 20).astype(np.uint16)
    found = carried_nats(model, ids)  # one row: the text is short
    assert model.training
    state, nats = model.eval().start(model.blank_memory(1)), 0.0
    for last, token in zip([EOS, *ids[:-1]], ids, strict=True):
        logits, state = model.step(torch.tensor([[int(last)]]), state)
        nats -= logits[0, 0].log_softmax(-1)[int(token)].item()
    assert found == pytest.approx(nats, rel=1e-5)


def test_rows_begin_in_the_text_before_their_own(monkeypatch):
    torch.manual_seed(1)
    model = AwdLstm(AwdLstmSettings(width=6, units=8, layers=2), 13).double()
    ids = np.random.default_rng(0).integers(4, 13, 400).astype(np.uint16)
    monkeypatch.setattr(text_perplexity, "CARRIED_ROWS", 1)
    whole = carried_nats(model, ids)
    monkeypatch.setattr(text_perplexity, "CARRIED_ROWS", 4)
    errors = []
    for overlap in (0, 50):
        monkeypatch.setattr(text_perplexity, "CARRIED_OVERLAP", overlap)
        errors.append(abs(carried_nats(model, ids) - whole))
    assert errors[0] > 1e-6 * whole > 10 * errors[1]


@pytest.mark.parametrize("overlap", [0, 50])
def test_the_losses_of_tokens_are_in_the_order_of_the_text(overlap, monkeypatch):
    torch.manual_seed(1)
    model = AwdLstm(AwdLstmSettings(width=6, units=8, layers=2), 13).double().eval()
    ids = np.random.default_rng(0).integers(4, 13, 401).astype(np.uint16)
    monkeypatch.setattr(text_perplexity, "CARRIED_ROWS", 1)
    whole = carried_losses(model, ids)
    assert whole.shape == ids.shape
    assert whole.sum() == pytest.approx(carried_nats(model, ids))
    monkeypatch.setattr(text_perplexity, "CARRIED_ROWS", 4)
    monkeypatch.setattr(text_perplexity, "CARRIED_LENGTH", 32)
    monkeypatch.setattr(text_perplexity, "CARRIED_OVERLAP", overlap)
    assert np.corrcoef(carried_losses(model, ids), whole)[0, 1] > 0.9
