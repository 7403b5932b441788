import math

import pytest
import torch
from torch.nn import functional

from regard.inspection.recording.recorder import record_attention
from regard.models.translation.feedback import Feedback, FeedbackSettings
from regard.models.translation.transformer import Transformer
from regard.models.translation.transformer_settings import TransformerSettings
from regard.types import Padded

B, T, S, D, H, F, V, LAYERS = 2, 4, 5, 12, 3, 10, 9, 2
SIZES = {"encoder_layers": 1, "decoder_layers": LAYERS, "width": D, "heads": H, "feed_forward": F}


def tiny(norm):
    torch.manual_seed(0)
    model = Feedback(FeedbackSettings(**SIZES, norm=norm, dropout=0.0), V, V).double().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.3 * torch.randn_like(p))
    source = Padded(torch.randint(V, (B, S)), torch.arange(S) < torch.tensor([[5], [3]]))
    return model, source, Padded(torch.randint(V, (B, T)), torch.ones(B, T, dtype=torch.bool))


def look(query, keys, values):
    """One query (D,) at keys and values (S, D), in H heads."""
    heads = []
    for h in range(H):
        part = slice(h * D // H, (h + 1) * D // H)
        scores = keys[:, part] @ query[part] / math.sqrt(D // H)
        heads.append(scores.softmax(0) @ values[:, part])
    return torch.cat(heads)


def naive(model, first, states):
    """The paper's recurrence for one sentence: `first` (T, D) are x^0, `states` (S, D) the source.

    Written with norms before the sub-layers.
    """
    memory, features = [torch.zeros(D, dtype=torch.float64)], []
    for x in first:
        layer_outputs = [x]
        for layer in model.decoder:
            past = torch.stack([model.memory_norm(m) for m in memory])
            query = layer.own.query(layer.around_own.norm(x))
            x = x + layer.own.out(look(query, model.key(past), model.value(past)))
            query, keys, values = layer.cross.project.weight.chunk(3)
            at_query, at_keys, at_values = layer.cross.project.bias.chunk(3)
            asked = query @ layer.around_cross.norm(x) + at_query
            seen = look(asked, states @ keys.T + at_keys, states @ values.T + at_values)
            x = x + layer.cross.out(seen)
            x = x + layer.feed.outer(layer.feed(layer.around_feed.norm(x)))
            layer_outputs.append(x)
        shares = model.layer_weights.exp() / model.layer_weights.exp().sum()
        memory.append(sum(share * x for share, x in zip(shares, layer_outputs, strict=True)))
        features.append(model.decoder_norm(x))
    return torch.stack(features)


@torch.no_grad()
def test_the_decoder_is_the_papers_recurrence():
    model, source, target = tiny("pre")
    memory = model.encode(source)
    found = model.decode(target, memory).features
    first = model.add_positions(
        model.embeddings.of_target(target.ids), model.target_positions, 0, T
    )
    for b in range(B):
        wanted = naive(model, first[b], memory.states[b][source.mask[b]])
        torch.testing.assert_close(found[b], wanted)


@torch.no_grad()
def test_the_lowest_layer_hears_of_the_highest():
    """What no Transformer can: a change in the top layer moves what the bottom layer does next."""
    model, source, target = tiny("post")
    weights = []
    for _ in range(2):
        seen = {}
        model(source, target, hook=lambda site, w, seen=seen: seen.setdefault(site[:3], w))
        weights.append(seen["decoder", 0, T - 1])
        model.decoder[-1].feed.outer.bias.add_(torch.randn(D))
    assert not torch.isclose(*weights).all()


def test_the_encoder_is_a_transformers():
    torch.manual_seed(0)
    ours = Feedback(FeedbackSettings(**SIZES), V, V).eval()
    theirs = Transformer(TransformerSettings(**SIZES), V, V).eval()
    own = {name: p for name, p in ours.state_dict().items() if "decoder" not in name}
    theirs.load_state_dict(own, strict=False)
    _, source, _ = tiny("post")
    assert torch.equal(ours.encode(source).states, theirs.encode(source).states)


def test_keys_and_values_are_shared_by_all_layers():
    """Against a Transformer: one pair of projections in place of one for each layer, and w."""
    sizes = {**SIZES, "decoder_layers": 5}
    ours, theirs = (
        sum(p.numel() for p in model.parameters())
        for model in (
            Feedback(FeedbackSettings(**sizes), V, V),
            Transformer(TransformerSettings(**sizes), V, V),
        )
    )
    assert ours == theirs - 4 * 2 * (D * D + D) + 6


def test_the_past_is_kept_once_for_all_layers():
    model, source, target = tiny("post")
    state = model.start(model.encode(source))
    for tokens in target.ids.split(1, dim=1):
        _, state = model.step(tokens, state)
    (cache,) = state.past
    assert cache.kv.keys.shape == (B, H, 1 + T, D // H)


def test_layers_are_mixed_evenly_at_first():
    model = Feedback(FeedbackSettings(**SIZES), V, V)
    shares = model.layer_weights.softmax(0)
    torch.testing.assert_close(shares, torch.full((LAYERS + 1,), 1 / (LAYERS + 1)))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_recording_has_a_row_and_a_column_for_each_position(norm):
    model, source, target = tiny(norm)
    seen = record_attention(model, source, target).weights["decoder", 1]
    assert seen.shape == (B, H, T, T)
    assert (seen.triu(1) == 0).all()
    torch.testing.assert_close(seen.sum(-1), torch.ones(B, H, T, dtype=torch.float64))


def test_a_hook_can_change_what_is_remembered():
    model, source, target = tiny("post")

    def only_zeros(site, weights, /):
        blank = functional.one_hot(torch.tensor(0), weights.shape[-1]).to(weights)
        return blank.expand_as(weights) if site.part == "decoder" else weights

    alone = model(source, target, hook=only_zeros)
    other = Padded(target.ids.clone(), target.mask)
    other.ids[:, 0] = (other.ids[:, 0] + 1) % V
    torch.testing.assert_close(model(source, other, hook=only_zeros)[:, 1:], alone[:, 1:])
    assert not torch.isclose(model(source, other)[:, 1:], model(source, target)[:, 1:]).all()
