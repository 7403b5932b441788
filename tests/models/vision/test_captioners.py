"""What every captioner must do, run on both families and their variants."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from captioners import CNN, STACK, VARIANTS, B, T, V, tiny, training_batch
from regard.models.translation.token_rows import TARGET_TOKENS
from regard.models.vision.build import CAPTIONERS, build_captioner
from regard.models.vision.caption_transformer import CaptionTransformerSettings
from regard.models.vision.encoder_settings import SmallCnnSettings
from regard.training.weight_transfer import transfer_weights
from regard.types import Padded, Pixels

every_variant = pytest.mark.parametrize("name", VARIANTS)


def run(model, inputs, columns, *, hook=None):
    """Logits (B, T, V) step by step, one hypothesis for each picture."""
    state, steps = model.start(model.encode(inputs, hook=hook)), []
    for tokens in columns.split(1, dim=1):
        logits, state = model.step(tokens, state, hook=hook)
        steps.append(logits)
    return torch.cat(steps, 1)


class Recorder:
    def __init__(self):
        self.seen = []

    def __call__(self, site, weights, /):
        self.seen.append((site, weights))
        return weights


def test_every_family_is_here():
    assert {settings.family for settings in VARIANTS.values()} == set(CAPTIONERS)


@every_variant
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_step_by_step_equals_all_at_once(name, dtype):
    model, inputs, given = tiny(name, dtype)
    wanted = model(inputs, given)
    assert wanted.shape == (B, T, V)
    assert wanted.dtype == dtype
    found = run(model, inputs, given.ids)
    torch.testing.assert_close(found[given.mask], wanted[given.mask])


@every_variant
def test_rows_of_words_are_taken_for_the_same_words_alone(name):
    model, other = (tiny(name)[0] for _ in range(2))
    for tensor in other.state_dict().values():
        tensor.fill_(7.0)
    words, others = [[f"{kind}{n}" for n in range(V)] for kind in "ab"]
    others[3] = words[2]
    rows = {"own_rows": {TARGET_TOKENS: words}, "given_rows": {TARGET_TOKENS: others}}
    transfer_weights(model, other.state_dict(), **rows)
    state, named = model.state_dict(), model.named_rows()
    by_words = [state[one] for one, kind in named.items() if kind == TARGET_TOKENS and one in state]
    assert by_words
    for tensor in by_words:
        taken = (tensor.reshape(V, -1) == 7.0).all(1)
        assert taken.nonzero().tolist() == [[2]]


@every_variant
def test_training_leaves_out_the_padding_and_nothing_else(name):
    model, inputs, given = tiny(name)
    batch = training_batch(inputs, given)
    wanted = model.decode(given, model.encode(inputs)).features.flatten(0, 1)[batch.positions]
    torch.testing.assert_close(model.training_features(batch).features, wanted)


@every_variant
def test_padding_and_the_future_change_nothing(name):
    model, inputs, given = tiny(name)
    other = Padded(torch.where(given.mask, given.ids, 5), given.mask)
    torch.testing.assert_close(model(inputs, other)[given.mask], model(inputs, given)[given.mask])
    other.ids[:, 2:] = 6
    torch.testing.assert_close(model(inputs, other)[:, :2], model(inputs, given)[:, :2])


@every_variant
def test_a_picture_alone_is_what_it_is_in_a_batch_and_does_matter(name):
    model, inputs, given = tiny(name)
    wanted = model(inputs, given)
    one = [Pixels(inputs.values[1:2]), Padded(given.ids[1:2], given.mask[1:2])]
    torch.testing.assert_close(model(*one)[0], wanted[1])
    other = Pixels(255 - inputs.values)
    assert not torch.isclose(model(other, given), wanted).all(-1).any()


@every_variant
def test_a_state_selects_pictures_and_reorders_hypotheses(name):
    model, inputs, given = tiny(name)
    state = model.start(model.encode(inputs))
    _, state = model.step(given.ids[:, :1], state)
    state = state.reorder(torch.zeros(B, 2, dtype=torch.long))  # (B, 1) -> (B, 2)
    tokens = given.ids[:, 1:3]  # each picture goes on with two words
    _, state = model.step(tokens, state)
    swapped = state.reorder(torch.tensor([[1, 0]] * B))
    again = given.ids[:, 3:4].expand(B, 2)
    found, wanted = (model.step(again, one)[0] for one in (swapped, state))
    torch.testing.assert_close(found, wanted.flip(1))
    assert not torch.isclose(wanted[:, 0], wanted[:, 1]).all()
    kept = torch.tensor([2, 0])
    some, _ = model.step(again[kept], state.select_sentences(kept))
    torch.testing.assert_close(some, wanted[kept])


@every_variant
def test_weights_over_regions_sum_to_one_and_recording_changes_nothing(name):
    model, inputs, given = tiny(name)
    recorder = Recorder()
    torch.testing.assert_close(model(inputs, given, hook=recorder), model(inputs, given))
    seen = [weights for site, weights in recorder.seen if site.part == "cross"]
    regions = model.grid[0] * model.grid[1]
    assert {weights.shape[-1] for weights in seen} == {regions}
    for weights in seen:
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    if name == "hard":
        assert all(((weights == 0) | (weights == 1)).all() for weights in seen)


@every_variant
def test_a_hook_decides_what_is_looked_at(name):
    model, inputs, given = tiny(name)

    def first_region(site, weights, /):
        chosen = torch.zeros_like(weights)
        chosen[..., 0] = 0.5
        return chosen if site.part == "cross" else weights

    assert not torch.allclose(model(inputs, given, hook=first_region), model(inputs, given))


@every_variant
def test_saved_and_loaded_it_is_the_same(name, tmp_path):
    model, inputs, given = tiny(name)
    save_file(model.state_dict(), tmp_path / "weights.safetensors")
    torch.manual_seed(99)
    other = build_captioner(VARIANTS[name], V).double().eval()
    other.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    assert torch.equal(other(inputs, given), model(inputs, given))


@every_variant
def test_the_output_layer_is_what_makes_the_logits(name):
    model, inputs, given = tiny(name)
    features = model.decode(given, model.encode(inputs)).features
    wanted = torch.nn.functional.linear(features, *model.output_layer())
    torch.testing.assert_close(model.logits(features), wanted)


@every_variant
def test_every_weight_learns(name):
    model, inputs, given = tiny(name)
    model.train()
    batch = training_batch(inputs, given)
    features = model.training_features(batch)
    loss = torch.nn.functional.cross_entropy(model.logits(features.features), batch.labels)
    (loss + (0 if features.penalty is None else features.penalty)).backward()
    idle = {"baseline"} | ({"score.query.weight", "score.key.weight", "score.energy.weight"}
                           if name == "none" else set())  # fmt: skip
    without = {
        key
        for key, parameter in model.named_parameters()
        if parameter.numel() and (parameter.grad is None or not parameter.grad.any())
    }
    assert without - idle == set()


@every_variant
def test_search_can_be_replayed_in_static_shapes(name):
    model, inputs, _ = tiny(name, torch.float32)
    counter = torch.zeros((), dtype=torch.long)
    assert model.to_static(model.start(model.encode(inputs)), 4, counter) is not None


@pytest.mark.parametrize("embeddings", ["shared", "inputs"])
def test_captions_and_pictures_share_no_embeddings(embeddings):
    with pytest.raises(ValueError, match="a picture has no tokens"):
        CaptionTransformerSettings(encoder=CNN, transformer=STACK | {"embeddings": embeddings})


@pytest.mark.parametrize(("width", "layers"), [(100, 3), (2, 3), (48, 6)])
def test_a_cnn_whose_channels_cannot_be_normed_in_groups_is_refused(width, layers):
    with pytest.raises(ValueError, match="must have 1 to 8, or a multiple of 8"):
        SmallCnnSettings(width=width, layers=layers)


@pytest.mark.parametrize(("width", "layers"), [(128, 3), (6, 1), (5, 2), (48, 2)])
def test_a_cnn_whose_channels_can_be_normed_in_groups_is_built(width, layers):
    settings = SmallCnnSettings(picture_size=8, width=width, layers=layers)
    assert settings.build()(torch.zeros(1, 3, 8, 8, dtype=torch.uint8)).shape[-1] == width


def test_batches_without_positions_are_refused():
    model, inputs, given = tiny("soft")
    with pytest.raises(ValueError, match="needs the positions of words"):
        model.training_features(replace(training_batch(inputs, given), positions=None))
