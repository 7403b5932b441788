"""What every masked language model must do, and what makes BERT and RoBERTa."""

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file
from torch import nn

from regard.errors import TextError
from regard.models.language.bert import Bert, BertSettings, RobertaSettings
from regard.text.special_tokens import BOS, EOS
from regard.types import Batch, Padded

B, S, V, D = 3, 7, 13, 16
SIZES = {"layers": 2, "width": D, "heads": 4, "context": 9, "dropout": 0.0}
VARIANTS = {
    "bert": BertSettings(**SIZES),
    "roberta": RobertaSettings(**SIZES),
    "roberta rotary": RobertaSettings(**SIZES, positions="rotary"),
    "bert sinusoid": BertSettings(**SIZES, positions="sinusoid", next_sentence=False),
    "roberta with segments": RobertaSettings(**SIZES, segments=2, feed_forward=10),
}
every_variant = pytest.mark.parametrize("name", VARIANTS)


def tiny(name, *, seed=0):
    """A model, and texts of unlike length, the first a pair."""
    torch.manual_seed(seed)
    model = Bert(VARIANTS[name], V).eval()
    ids = torch.randint(4, V, (B, S), generator=torch.Generator().manual_seed(5))
    mask = torch.arange(S) < torch.tensor([[7], [3], [5]])
    ids[:, 0], ids[0, 3], ids[0, 6], ids[1, 2], ids[2, 4] = BOS, EOS, EOS, EOS, EOS
    ids[0, 1] = model.mask_id
    segments = torch.zeros_like(ids)
    segments[0, 4:] = 1
    return model, Padded(ids, mask, None, segments)


def packed(inputs):
    return Padded(inputs.ids, inputs.mask, inputs.mask.flatten().nonzero()[:, 0], inputs.segments)


def asked(inputs, *, rows):
    """A batch that asks about three positions and, with `rows`, about each row."""
    labels = torch.tensor([4, 9, 5])
    row_labels = torch.tensor([0, 1, 1]) if rows else None
    return Batch(inputs, None, torch.tensor([1, 8, 5]), labels, row_labels)


@every_variant
def test_padding_changes_nothing(name):
    model, inputs = tiny(name)
    found = model.token_states(inputs)
    assert found.shape == (B, S, D) == (B, S, model.state_width)
    noise = torch.where(inputs.mask, inputs.ids, torch.randint_like(inputs.ids, V))
    other = model.token_states(Padded(noise, inputs.mask, None, inputs.segments))
    torch.testing.assert_close(other[inputs.mask], found[inputs.mask])
    for row, length in enumerate(inputs.mask.sum(1).tolist()):
        ids, mask, segments = (
            x[row : row + 1, :length] for x in (inputs.ids, inputs.mask, inputs.segments)
        )
        alone = model.token_states(Padded(ids, mask, None, segments))
        torch.testing.assert_close(alone[0], found[row, :length])


@every_variant
def test_texts_that_are_packed_have_the_same_states(name):
    model, inputs = tiny(name)
    wanted = model.token_states(inputs)[inputs.mask]
    torch.testing.assert_close(model.token_states(packed(inputs))[inputs.mask], wanted)
    whole = Padded(inputs.ids, torch.ones_like(inputs.mask), None, inputs.segments)
    torch.testing.assert_close(model.token_states(packed(whole)), model.token_states(whole))


@every_variant
def test_each_token_sees_both_sides(name):
    model, inputs = tiny(name)
    before = model.token_states(inputs)
    for place in range(S):
        changed = inputs.ids.clone()
        changed[0, place] = 12 if changed[0, place] != 12 else 11
        after = model.token_states(Padded(changed, inputs.mask, None, inputs.segments))
        assert not torch.isclose(before[0], after[0]).all(-1).any()
        torch.testing.assert_close(before[1:], after[1:])


@every_variant
def test_logits_are_of_the_positions_asked_about(name):
    model, inputs = tiny(name)
    features = model.training_features(asked(inputs, rows=False)).features
    found = model.logits(features)
    assert found.shape == (3, V)
    torch.testing.assert_close(found, model(inputs).flatten(0, 1)[[1, 8, 5]])
    torch.testing.assert_close(found, nn.functional.linear(features, *model.output_layer()))


def test_the_next_sentence_is_the_penalty_and_roberta_has_none():
    model, inputs = tiny("bert")
    found = model.training_features(asked(inputs, rows=True))
    logits = model.next_sentence_logits(model.token_states(inputs))
    wanted = nn.functional.cross_entropy(logits, torch.tensor([0, 1, 1]))
    torch.testing.assert_close(found.penalty, wanted)
    model, inputs = tiny("roberta")
    assert model.next_sentence_logits(model.token_states(inputs)) is None
    assert model.training_features(asked(inputs, rows=False)).penalty is None
    with pytest.raises(ValueError, match="the rows have labels, which the model does not predict"):
        model.training_features(asked(inputs, rows=True))


@every_variant
def test_segments_tell_texts_apart(name):
    model, inputs = tiny(name)
    same = Padded(inputs.ids, inputs.mask, None, torch.zeros_like(inputs.ids))
    without = model.token_states(Padded(inputs.ids, inputs.mask))
    torch.testing.assert_close(model.token_states(same), without)
    differ = not torch.allclose(model.token_states(inputs)[0], without[0])
    assert differ == (model.segments is not None)


def test_it_equals_the_encoder_of_torch():
    model, inputs = tiny("bert")
    model = model.double()
    positions, segments = model.positions.table.weight[:S], model.segments(inputs.segments)
    tokens = torch.cat([model.embedding.weight, model.masked.weight])[inputs.ids]
    x = model.norm(tokens + positions + segments)
    for ours in model.layers:
        theirs = nn.TransformerEncoderLayer(D, 4, 4 * D, 0.0, "gelu", 1e-12, batch_first=True)
        attention, around = ours.own, (ours.around_own.norm, ours.around_feed.norm)
        pairs = {
            "self_attn.in_proj_": attention.project,
            "self_attn.out_proj.": attention.out,
            "linear1.": ours.feed.inner,
            "linear2.": ours.feed.outer,
            "norm1.": around[0],
            "norm2.": around[1],
        }
        theirs.load_state_dict(
            {f"{name}{kind}": getattr(x, kind) for name, x in pairs.items() for kind in KINDS}
        )
        x = theirs.double().train()(x, src_key_padding_mask=~inputs.mask)
    found = model.token_states(inputs)
    torch.testing.assert_close(found[inputs.mask], x[inputs.mask])


KINDS = ("weight", "bias")


@every_variant
def test_every_parameter_learns(name):
    model, inputs = tiny(name)
    pairs = model.next_sentence is not None
    found = model.train().training_features(asked(inputs, rows=pairs))
    loss = nn.functional.cross_entropy(model.logits(found.features), torch.tensor([4, 9, 5]))
    (loss + found.penalty if pairs else loss).backward()
    still = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert not still


@every_variant
def test_a_hook_sees_every_layer_and_changes_nothing(name):
    model, inputs = tiny(name)
    seen = []

    def hook(site, weights):
        seen.append((site.part, site.layer, weights.shape))
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
        return weights

    found = model.token_states(packed(inputs), hook=hook)
    assert seen == [("encoder", layer, (B, 4, S, S)) for layer in range(2)]
    torch.testing.assert_close(found[inputs.mask], model.token_states(inputs)[inputs.mask])


@every_variant
def test_saved_and_loaded_gives_the_same_numbers(name, tmp_path):
    model, inputs = tiny(name)
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    other = tiny(name, seed=1)[0]
    assert not torch.equal(other(inputs), model(inputs))
    other.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert torch.equal(other(inputs), model(inputs))


@every_variant
def test_runs_under_autocast_and_wholly_in_bfloat16(name):
    model, inputs = tiny(name)
    wanted = model(inputs)[inputs.mask]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = model(packed(inputs))[inputs.mask]
    with torch.inference_mode():
        half = model.bfloat16()(inputs)[inputs.mask]
    for logits in (found, half):
        assert (logits.float() - wanted).norm() < 0.05 * wanted.norm()


def test_a_text_with_more_tokens_than_positions_is_refused():
    model, _ = tiny("bert")
    ids = torch.full((1, 10), 5)
    with pytest.raises(TextError, match="10 tokens is longer than the 9 positions"):
        model(Padded(ids, torch.ones_like(ids, dtype=torch.bool)))


@pytest.mark.parametrize(
    ("settings", "wrong", "message"),
    [
        (BertSettings, {"heads": 5}, "width must be a multiple of heads"),
        (BertSettings, {"heads": 16, "positions": "rotary"}, "each 1, which is odd"),
        (BertSettings, {"segments": 1}, "tells two texts apart by their segments"),
        (RobertaSettings, {"next_sentence": True}, "next_sentence"),
    ],
)
def test_settings_that_make_no_model_are_refused(settings, wrong, message):
    with pytest.raises(ValidationError, match=message):
        settings(**(SIZES | wrong))
