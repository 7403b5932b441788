import pytest
import torch
from pydantic import ValidationError
from torch import nn

from regard.layers.character_cnn import spell_words
from regard.models.language.elmo import Elmo, ElmoSettings, LayerMix
from regard.types import Batch, Padded

WORDS = ["<pad>", "<unk>", "<s>", "</s>", "the", "cat", "sat", "été", "a"]
B, S, D = 2, 5, 6


def model(**given):
    torch.manual_seed(1)
    sizes = {"width": D, "units": 10, "layers": 2, "character_width": 4, "max_characters": 8}
    plain = ElmoSettings(**(sizes | {"filters": ((1, 3), (2, 5)), "dropout": 0.0} | given))
    return Elmo(plain, WORDS).double()


def sentences(lengths=(S, S)):
    ids = torch.randint(4, len(WORDS), (B, S), generator=torch.Generator().manual_seed(3))
    return Padded(ids, torch.arange(S) < torch.tensor(lengths)[:, None])


def test_each_direction_sees_its_side_alone():
    network, text = model(), sentences()
    before = network.layers_of(text)
    assert before.shape == (3, 2, B, S, D)
    changed = text.ids.clone()
    changed[0, 2] = (changed[0, 2] - 3) % 5 + 4
    after = network.layers_of(Padded(changed, text.mask))
    differs = (before != after).any(-1)[:, :, 0]  # (3, 2, S)
    at = [False, False, True, False, False]
    assert differs[0].tolist() == [at, at]
    for layer in (1, 2):
        assert differs[layer].tolist() == [
            [False, False, True, True, True],
            [True, True, True, False, False],
        ]
    assert not (before != after)[:, :, 1].any()


def test_padding_changes_nothing():
    network, text = model(), sentences((3, 5))
    both = network.layers_of(text)
    alone = network.layers_of(Padded(text.ids[:1, :3], text.mask[:1, :3]))
    torch.testing.assert_close(both[:, :, :1, :3], alone)


def test_it_equals_two_stacks_of_torch():
    network, text = model(), sentences()
    x = network.characters(network.spelled[text.ids])
    for direction, turn in ((0, lambda y: y), (1, lambda y: y.flip(1))):
        first = network.directions[direction][0](turn(x))[0]
        second = first + network.directions[direction][1](first)[0]
        found = network.layers_of(text)[:, direction]
        torch.testing.assert_close(found, torch.stack([x, turn(first), turn(second)]))


@pytest.mark.parametrize("mixing", ["learned", "top"])
def test_features_are_of_the_positions_asked_about(mixing):
    network, text = model(mixing=mixing), sentences()
    places = torch.tensor([0, 3, B * S + 4])
    batch = Batch(text, None, places, torch.zeros(3, dtype=torch.long))
    found = network.training_features(batch).features
    layers = network.layers_of(text)
    mixed = layers[2] if mixing == "top" else layers.mean(0)  # all weights are alike at first
    wanted = torch.stack([mixed[0, 0, 0], mixed[0, 0, 3], mixed[1, 0, 4]])
    torch.testing.assert_close(found, wanted)


def test_layers_are_mixed_by_a_softmax_and_a_scale():
    mix = LayerMix(3).double()
    nn.init.normal_(mix.scores)
    nn.init.constant_(mix.scale, 2.0)
    layers = torch.randn(3, B, D, dtype=torch.float64)
    wanted = 2 * sum(s * h for s, h in zip(mix.scores.softmax(0), layers, strict=True))
    torch.testing.assert_close(mix(layers), wanted)
    assert mix.weights().sum().item() == pytest.approx(1)


def test_words_that_no_vocabulary_has_are_read_by_their_letters():
    network = model()
    spelled = spell_words(["the", "tomcat", "sat"], 8)[None]
    layers = network.layers_of_spelled(spelled, torch.ones(1, 3, dtype=torch.bool))
    assert layers.shape == (3, 2, 1, 3, D)
    assert layers.isfinite().all()


def test_the_spelling_is_no_weight():
    assert "spelled" not in model().state_dict()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"units": 6}, "projected to width 6, which must be smaller"),
        ({"filters": ((9, 3),)}, "none longer than max_characters 8"),
        ({"filters": ()}, "there must be one or more"),
    ],
)
def test_settings_that_make_no_model_are_refused(wrong, message):
    with pytest.raises(ValidationError, match=message):
        model(**wrong)
