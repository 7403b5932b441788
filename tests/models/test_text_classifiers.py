"""What every classifier of texts must do, run on every encoder and every pooling."""

from typing import get_args

import pytest
import torch
from pydantic import ValidationError

from regard.models.classification.text_classifier import (
    ENCODERS,
    PoolingName,
    TextClassifier,
    TextClassifierSettings,
    pool_states,
)
from regard.models.language.awd_lstm import AwdLstmSettings
from regard.models.language.bert import BertSettings, RobertaSettings
from regard.models.language.elmo import ElmoSettings
from regard.models.language.gpt import GptSettings
from regard.text.special_tokens import SPECIAL_PIECES
from regard.types import Batch, Padded

B, S, V = 4, 6, 3
WORDS = [*SPECIAL_PIECES, *"abcdefghij"]
TINY = {
    "gpt": GptSettings(layers=2, width=8, heads=2, context=16, dropout=0.2),
    "awd-lstm": AwdLstmSettings(width=6, units=10, layers=2),
    "bert": BertSettings(layers=2, width=8, heads=2, context=16, dropout=0.2),
    "roberta": RobertaSettings(layers=2, width=8, heads=2, context=16, dropout=0.2),
    "elmo": ElmoSettings(width=6, units=10, layers=2, character_width=4, filters=((1, 4), (2, 8))),
}
CAUSAL = [name for name, family in ENCODERS.items() if family.causal]
every_encoder = pytest.mark.parametrize("name", sorted(ENCODERS))


def tiny(name, **settings):
    """A classifier in evaluation mode, and texts of unlike length."""
    torch.manual_seed(0)
    made = TextClassifierSettings(encoder=TINY[name], **settings)
    model = TextClassifier(made, WORDS, V).double().eval()
    mask = torch.arange(S) < torch.tensor([S, 4, 2, 1])[:, None]
    ids = torch.randint(len(SPECIAL_PIECES), len(WORDS), (B, S)).masked_fill(~mask, 0)
    return model, Padded(ids, mask)


@pytest.mark.parametrize(
    ("name", "pooling"),
    [
        (name, pooling)
        for name in ENCODERS
        for pooling in get_args(PoolingName)
        if pooling != "first" or name not in CAUSAL
    ],
)
def test_a_text_has_one_answer_whatever_its_neighbours_and_padding(name, pooling):
    model, inputs = tiny(name, pooling=pooling, hidden=5)
    answers = model(inputs)
    assert answers.shape == (B, V)
    for row, count in enumerate(inputs.mask.sum(1).tolist()):
        alone = Padded(inputs.ids[row : row + 1, :count], inputs.mask[row : row + 1, :count])
        torch.testing.assert_close(model(alone)[0], answers[row])


@every_encoder
def test_every_token_counts(name):
    model, inputs = tiny(name, pooling="mean")
    answers = model(inputs)
    changed = inputs.ids.clone()
    changed[:, 0] = 4 + (changed[:, 0] - 3) % 10
    assert (model(Padded(changed, inputs.mask)) != answers).any(1).all()


@every_encoder
def test_training_asks_the_same_question(name):
    model, inputs = tiny(name)
    batch = Batch(inputs, None, None, torch.zeros(B, dtype=torch.long))
    found = model.training_features(batch)
    torch.testing.assert_close(model.logits(found.features), model(inputs))
    assert found.penalty is None


@every_encoder
def test_a_hook_changes_no_answer_and_every_weight_belongs_to_a_layer_group(name):
    model, inputs = tiny(name)
    sites = []
    answers = model(inputs, hook=lambda site, weights: (sites.append(site), weights)[1])
    torch.testing.assert_close(answers, model(inputs))
    assert bool(sites) == (name in ("gpt", "bert", "roberta"))
    *_, head = model.layer_groups()
    assert head == [model.output]


@pytest.mark.parametrize("name", CAUSAL)
def test_the_language_models_loss_is_that_of_the_next_tokens(name):
    model, inputs = tiny(name, language_weight=0.5)
    states = model.encoder.token_states(inputs)
    logp = model.encoder.logits(states).float().log_softmax(-1)
    losses = [
        -logp[row, place, inputs.ids[row, place + 1]]
        for row, place in inputs.mask[:, 1:].nonzero().tolist()
    ]
    found = model.encoder.next_token_loss(states, inputs)
    torch.testing.assert_close(found, torch.stack(losses).mean())
    batch = Batch(inputs, None, None, torch.zeros(B, dtype=torch.long))
    assert model.train().training_features(batch).penalty > 0


def test_pooling_is_over_real_tokens():
    states = torch.tensor([[[1.0, -5.0], [3.0, -1.0], [9.0, 9.0]], [[2.0, 2.0], [9.0, 9], [9, 9]]])
    mask = torch.tensor([[True, True, False], [True, False, False]])
    expected = {
        "first": [[1, -5], [2, 2]],
        "last": [[3, -1], [2, 2]],
        "max": [[3, -1], [2, 2]],
        "mean": [[2, -3], [2, 2]],
        "concat": [[3, -1, 3, -1, 2, -3], [2] * 6],
    }
    for pooling, values in expected.items():
        assert pool_states(states, mask, pooling).tolist() == values, pooling


def test_a_dimension_that_is_the_same_in_all_texts_is_standardized_to_zero():
    model, inputs = tiny("elmo", standardize=True)
    rows = torch.zeros(B, dtype=torch.long)
    model.fit_standardization([Padded(inputs.ids[rows], inputs.mask[rows])])
    answers = model(inputs)
    assert answers.isfinite().all()
    torch.testing.assert_close(answers[0], model.output.bias)


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(ValidationError, match="the first token of gpt does not see the text"):
        TextClassifierSettings(encoder=TINY["gpt"], pooling="first")
    with pytest.raises(ValidationError, match="elmo does not predict the next token"):
        TextClassifierSettings(encoder=TINY["elmo"], language_weight=0.5)
