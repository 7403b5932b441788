import pytest
import torch
from torch import nn

from regard.attention.positions import sinusoid
from regard.errors import SettingsError
from regard.inspection.position_encodings import read_positions, similarity_by_distance
from regard.models.translation.convs2s import ConvS2S, ConvS2SSettings
from regard.models.translation.transformer import Transformer
from regard.models.translation.transformer_settings import TransformerSettings

SIZES = {"encoder_layers": 2, "decoder_layers": 1, "width": 24, "heads": 3, "feed_forward": 8}
LENGTH = 11


def transformer(positions, **more):
    torch.manual_seed(0)
    return Transformer(TransformerSettings(positions=positions, **SIZES, **more), 20, 20)


def test_sinusoids_are_those_of_the_paper_and_source_and_target_share_them():
    [found] = read_positions(transformer("sinusoid"), LENGTH)
    assert (found.kind, found.where) == ("sinusoid", ("source_positions", "target_positions"))
    torch.testing.assert_close(found.vectors, sinusoid(torch.arange(LENGTH), 24))
    assert found.places.tolist() == list(range(LENGTH))


def test_the_likeness_of_sinusoids_depends_on_the_distance_alone():
    [found] = read_positions(transformer("sinusoid"), LENGTH)
    falling = similarity_by_distance(found.similarity())
    torch.testing.assert_close(falling.least, falling.most)
    assert falling.mean[0] == pytest.approx(1)
    assert falling.mean[0] > falling.mean[1] > falling.mean[2]


def test_learned_positions_are_those_of_each_side():
    model = transformer("learned", max_positions=8)
    source, target = read_positions(model, LENGTH)
    assert [source.where, target.where] == [("source_positions",), ("target_positions",)]
    torch.testing.assert_close(source.vectors, model.source_positions.table.weight)
    assert len(target.places) == 8  # it has learned no more
    assert not source.vectors.requires_grad
    conv = ConvS2S(
        ConvS2SSettings(embedding=10, width=12, encoder_layers=1, decoder_layers=1), 9, 9
    )
    assert [one.kind for one in read_positions(conv, 5)] == ["learned"] * 2


def test_relative_positions_are_vectors_of_distances():
    model = transformer("relative", reach=4)
    first, second, decoder = read_positions(model, LENGTH)
    assert first.where == ("encoder.0.own.relative",)
    assert first.places.tolist() == list(range(-4, 5))
    assert decoder.places.tolist() == list(range(-4, 1))
    torch.testing.assert_close(second.vectors, model.encoder[1].own.relative.vectors)


def test_rotary_positions_turn_pairs_by_angles_that_grow_with_the_place():
    [found] = read_positions(transformer("rotary"), LENGTH)
    assert found.where == ("encoder.0.own", "encoder.1.own", "decoder.0.own")
    assert found.vectors.shape == (LENGTH, 24 // 3)
    places = torch.arange(LENGTH).float()
    torch.testing.assert_close(found.vectors[:, 0], places.cos())
    torch.testing.assert_close(found.vectors[:, 1], places.sin())


def test_fall_is_by_distance():
    similarity = torch.tensor([[1.0, 0.5, 0.1], [0.5, 1.0, 0.3], [0.1, 0.3, 1.0]])
    falling = similarity_by_distance(similarity)
    torch.testing.assert_close(falling.mean, torch.tensor([1, 0.4, 0.1]))
    torch.testing.assert_close(falling.least, torch.tensor([1, 0.3, 0.1]))
    torch.testing.assert_close(falling.most, torch.tensor([1, 0.5, 0.1]))


def test_models_without_positions_say_so():
    with pytest.raises(SettingsError, match="GRU: this model is not told positions; a recurrent"):
        read_positions(nn.GRU(2, 2), 5)
