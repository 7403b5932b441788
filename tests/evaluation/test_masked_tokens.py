"""Numbers of masked language models."""

import math

import numpy as np
import pytest
import torch

from regard.batching.masked_windows import Masking, held_out_windows
from regard.errors import CorpusError
from regard.evaluation.masked_tokens import (
    each_token_masked,
    masked_scores,
    pseudo_losses,
    pseudo_perplexity,
)
from regard.models.language.bert import Bert, BertSettings
from regard.text.special_tokens import BOS, EOS
from regard.types import Padded

V = 12


def model():
    torch.manual_seed(1)
    return Bert(BertSettings(layers=1, width=8, heads=2, context=10, dropout=0.0), V).eval()


@torch.no_grad()
def nll(network, row, place):
    """Of the token at `place` of a row, masked there."""
    ids = torch.tensor(row)[None]
    ids[0, place] = network.mask_id
    logits = network(Padded(ids, torch.ones_like(ids, dtype=torch.bool)))[0, place]
    return -float(logits.log_softmax(-1)[row[place]])


def test_each_token_is_masked_alone_and_special_ones_are_not_counted():
    network = model()
    windows = np.array([[BOS, 5, 6, EOS, 7, EOS], [BOS, 9, EOS, 4, 4, EOS]])
    losses = [
        nll(network, row.tolist(), place) for row in windows for place in np.flatnonzero(row >= 4)
    ]
    assert len(losses) == 6
    for rows in (1, 4, 100):
        found = pseudo_losses(network, windows, rows=rows)
        assert found.tolist() == pytest.approx(losses, rel=1e-5)
        assert pseudo_perplexity(found) == pytest.approx(math.exp(sum(losses) / 6), rel=1e-5)
    for batch in each_token_masked(windows, network.mask_id, rows=4):
        assert ((batch.inputs.ids == network.mask_id).sum(1) == 1).all()


@torch.no_grad()
def test_scores_are_of_all_masked_tokens_and_rows():
    network, text = model(), np.random.default_rng(0).integers(4, V, 70)
    masking = Masking(network.mask_id, 0.3, pairs=True)
    found = masked_scores(network, held_out_windows(text, masking, rows=3, length=10))
    [whole] = held_out_windows(text, masking, rows=10, length=10)
    logits = network.logits(network.training_features(whole).features)
    assert found.num_tokens == whole.num_labels == 20
    wanted = torch.nn.functional.cross_entropy(logits, whole.labels).item()
    assert found.loss == pytest.approx(wanted, rel=1e-5)
    assert found.accuracy == (logits.argmax(-1) == whole.labels).double().mean().item()
    said = network.next_sentence_logits(network.token_states(whole.inputs)).argmax(-1)
    right = (said == whole.row_labels).double().mean().item()
    assert found.next_sentence_accuracy == right


def test_a_text_without_tokens_is_refused():
    with pytest.raises(CorpusError, match="there is no token to mask"):
        pseudo_losses(model(), np.full((1, 4), EOS), rows=1)
