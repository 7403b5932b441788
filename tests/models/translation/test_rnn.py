import pytest
import torch
from pydantic import ValidationError

from regard.models.translation.rnn import RnnEncoderDecoder, RnnSettings
from regard.types import Padded

B, S, T = 2, 5, 3


def size(module):
    return sum(p.numel() for p in module.parameters())


def test_the_lectures_character_model_has_its_sizes():
    with torch.device("meta"):
        model = RnnEncoderDecoder(RnnSettings(width=256, embedding=0), 74, 78)
    assert size(model.source) == size(model.target) == 0
    assert size(model.encoder) == 338_944
    assert size(model.decoder) == 343_040
    assert size(model.output) == 20_046
    assert size(model) == 702_030


def test_the_decoder_knows_the_last_state_alone():
    torch.manual_seed(0)
    model = RnnEncoderDecoder(RnnSettings(width=8, embedding=4), 11, 13)
    real = torch.ones(B, S, dtype=torch.bool)
    memory = model.encode(Padded(torch.randint(11, (B, S)), real))
    target = Padded(torch.randint(13, (B, T)), real[:, :T])
    wanted = model.decode(target, memory).features
    blurred = type(memory)(torch.zeros_like(memory.states), memory.mask, memory.extras)
    assert torch.equal(model.decode(target, blurred).features, wanted)
    assert [h.shape for h in memory.extras] == [(B, 8)] * 2


def test_dropout_falls_on_vectors_between_layers_and_before_the_output():
    torch.manual_seed(0)
    settings = RnnSettings(width=64, embedding=64, dropout=0.5)
    model = RnnEncoderDecoder(settings, 11, 13)
    real = torch.ones(B, S, dtype=torch.bool)
    source, target = Padded(torch.zeros(B, S).long(), real), Padded(torch.zeros(B, S).long(), real)
    memory = model.encode(source)
    assert not torch.equal(memory.states, model.encode(source).states)
    zeros = (model.decode(target, memory).features == 0).float().mean()
    assert 0.4 < zeros < 0.6
    model.eval()
    assert (model.decode(target, memory).features != 0).all()


def test_both_ways_need_an_even_width():
    with pytest.raises(ValidationError, match="even width, got 7"):
        RnnSettings(width=7, reading="both")
