import numpy as np
import pytest
import torch
from torch import nn

from drawing import pixels_in, words_in
from regard.attention.positions import sinusoid
from regard.errors import SettingsError
from regard.inspection.plots.figure import get_theme, save_figure
from regard.inspection.plots.positions import (
    PositionEncoding,
    describe_encoding,
    plot_positions,
    read_positions,
    similarity_by_distance,
)
from regard.models.translation.convs2s import ConvS2S, ConvS2SSettings
from regard.models.translation.transformer import Transformer
from regard.models.translation.transformer_settings import TransformerSettings

WAVES = PositionEncoding(
    "sinusoid", ("source", "target"), torch.arange(12), sinusoid(torch.arange(12), 10)
)
STEPS = PositionEncoding("relative", ("encoder.0",), torch.arange(-3, 4), torch.randn(7, 5))


def test_vectors_similarity_and_similarity_by_distance_are_drawn(tmp_path):
    figure = plot_positions([WAVES, STEPS])
    vectors, pairs, line = figure.axes[:3]
    np.testing.assert_allclose(vectors.collections[0].get_array().reshape(12, 10), WAVES.vectors)
    low, high = vectors.collections[0].get_clim()
    assert low == -high  # nothing is paper
    drawn = pairs.collections[0].get_array().reshape(12, 12)
    np.testing.assert_allclose(drawn, WAVES.similarity())
    assert pairs.collections[0].get_clim() == (-1, 1)
    assert line.lines[0].get_ydata()[0] == pytest.approx(1)
    assert len(figure.axes) == 6
    words = words_in(figure, tmp_path)
    assert {describe_encoding(WAVES), describe_encoding(STEPS), "position"} <= set(words)
    assert {"distance to the key", "−3", "3"} <= set(words)


def test_encodings_are_described():
    assert describe_encoding(WAVES) == "sinusoid: source, target (12 positions, 10 wide)"
    assert describe_encoding(STEPS) == "relative: encoder.0 (7 distances, 5 wide)"
    many = WAVES._replace(kind="rotary", modules=("a", "b", "c", "d"))
    assert describe_encoding(many) == "rotary: a and 3 more (12 positions, 10 wide)"


def test_texts_above_panels_do_not_overlap():
    vectors = plot_positions([WAVES]).axes[0]
    heights = [text.get_position()[1] for text in vectors.texts]
    assert len(set(heights)) == len(heights) == 2


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_follow_the_theme(tmp_path, theme):
    figure = plot_positions([WAVES], theme=theme)
    assert figure.axes[2].lines[0].get_color() == get_theme(theme).accent
    corner = pixels_in(figure, tmp_path)[0, 0]
    assert "#{:02x}{:02x}{:02x}".format(*corner) == get_theme(theme).background


def test_many_positions_keep_the_file_small(tmp_path):
    places = torch.arange(512)
    path = tmp_path / "long.svg"
    save_figure(
        plot_positions([PositionEncoding("sinusoid", ("s",), places, sinusoid(places, 64))]), path
    )
    assert path.stat().st_size < 1_000_000
    assert "500" in words_in(
        plot_positions([PositionEncoding("sinusoid", ("s",), places, sinusoid(places, 64))]),
        tmp_path,
    )


def test_no_encodings_cannot_be_drawn():
    with pytest.raises(ValueError, match="no encodings to draw"):
        plot_positions([])


SIZES = {"encoder_layers": 2, "decoder_layers": 1, "width": 24, "heads": 3, "feed_forward": 8}
LENGTH = 11


def transformer(positions, **more):
    torch.manual_seed(0)
    return Transformer(TransformerSettings(positions=positions, **SIZES, **more), 20, 20)


def test_sinusoids_are_those_of_the_paper_and_source_and_target_share_them():
    [found] = read_positions(transformer("sinusoid"), LENGTH)
    assert (found.kind, found.modules) == ("sinusoid", ("source_positions", "target_positions"))
    torch.testing.assert_close(found.vectors, sinusoid(torch.arange(LENGTH), 24))
    assert found.positions.tolist() == list(range(LENGTH))


def test_similarity_of_sinusoids_depends_on_the_distance_alone():
    [found] = read_positions(transformer("sinusoid"), LENGTH)
    falling = similarity_by_distance(found.similarity())
    torch.testing.assert_close(falling.least, falling.most)
    assert falling.mean[0] == pytest.approx(1)
    assert falling.mean[0] > falling.mean[1] > falling.mean[2]


def test_learned_positions_are_those_of_each_side():
    model = transformer("learned", max_positions=8)
    source, target = read_positions(model, LENGTH)
    assert [source.modules, target.modules] == [("source_positions",), ("target_positions",)]
    torch.testing.assert_close(source.vectors, model.source_positions.table.weight)
    assert len(target.positions) == 8  # it has learned no more
    assert not source.vectors.requires_grad
    conv = ConvS2S(
        ConvS2SSettings(embedding=10, width=12, encoder_layers=1, decoder_layers=1), 9, 9
    )
    assert [one.kind for one in read_positions(conv, 5)] == ["learned"] * 2


def test_relative_positions_are_vectors_of_distances():
    model = transformer("relative", reach=4)
    first, second, decoder = read_positions(model, LENGTH)
    assert first.modules == ("encoder.0.own.relative",)
    assert first.positions.tolist() == list(range(-4, 5))
    assert decoder.positions.tolist() == list(range(-4, 1))
    torch.testing.assert_close(second.vectors, model.encoder[1].own.relative.vectors)


def test_rotary_positions_turn_pairs_by_angles_that_grow_with_the_place():
    [found] = read_positions(transformer("rotary"), LENGTH)
    assert found.modules == ("encoder.0.own", "encoder.1.own", "decoder.0.own")
    assert found.vectors.shape == (LENGTH, 24 // 3)
    places = torch.arange(LENGTH).float()
    torch.testing.assert_close(found.vectors[:, 0], places.cos())
    torch.testing.assert_close(found.vectors[:, 1], places.sin())


def test_similarity_by_distance_has_mean_least_and_most():
    similarity = torch.tensor([[1.0, 0.5, 0.1], [0.5, 1.0, 0.3], [0.1, 0.3, 1.0]])
    falling = similarity_by_distance(similarity)
    torch.testing.assert_close(falling.mean, torch.tensor([1, 0.4, 0.1]))
    torch.testing.assert_close(falling.least, torch.tensor([1, 0.3, 0.1]))
    torch.testing.assert_close(falling.most, torch.tensor([1, 0.5, 0.1]))


def test_models_without_positions_say_so():
    with pytest.raises(SettingsError, match="GRU: this model has no positional encodings"):
        read_positions(nn.GRU(2, 2), 5)
