from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from regard.attention.attend import causal_mask, padding_mask
from regard.attention.multihead import PaddedAttention, SelfAttention
from regard.errors import TextError
from regard.models.translation.transformer import Transformer, TransformerLayer
from regard.models.translation.transformer_settings import TransformerSettings
from regard.types import Batch, Memory, Padded, Site

B, T, S, D, H, F, V = 2, 3, 5, 24, 4, 10, 9
REAL = torch.arange(S) < torch.tensor([[5], [3]])


def count(**given):
    with torch.device("meta"):
        model = Transformer(TransformerSettings(**given), 37_000, 37_000)
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(("preset", "wanted"), [("base", 63_082_496), ("big", 214_245_376)])
def test_the_papers_models_have_their_sizes(preset, wanted):
    assert count(preset=preset) == wanted


def test_what_the_options_cost():
    base = count()
    assert count(preset="base", norm="pre") == base + 2 * 2 * 512
    assert count(embeddings="target") == base + 37_000 * 512
    assert count(embeddings="separate") == base + 2 * 37_000 * 512
    assert count(positions="learned", max_positions=100) == base + 2 * 100 * 512
    assert count(positions="relative") == base + 6 * (33 + 17) * 64
    assert count(positions="rotary") == count(window=100) == base
    attentions, feeds = 6 + 2 * 6, 6 + 6
    assert count(bias=False) == base - attentions * 4 * 512 - feeds * (2048 + 512)
    assert count(activation="swiglu", bias=False) == count(bias=False) + feeds * 2048 * 512


def test_resolved_settings_are_explicit_and_stay():
    learned = TransformerSettings(preset="tiny", positions="learned")
    assert learned.max_positions == 1024
    assert TransformerSettings(**learned.model_dump()) == learned
    relative = TransformerSettings(positions="relative")
    assert relative.reach == 16
    assert TransformerSettings(**relative.model_dump()) == relative
    assert TransformerSettings(positions="relative", reach=3).reach == 3


@pytest.mark.parametrize("positions", ["sinusoid", "relative", "rotary"])
def test_a_limit_without_effect_is_refused(positions):
    with pytest.raises(ValidationError, match=f"max_positions 64 has no effect on {positions}"):
        TransformerSettings(positions=positions, max_positions=64)


@pytest.mark.parametrize("positions", ["sinusoid", "learned", "rotary"])
def test_a_reach_without_effect_is_refused(positions):
    with pytest.raises(ValidationError, match=f"reach 8 has no effect on {positions} positions"):
        TransformerSettings(positions=positions, reach=8)


def test_a_reach_beyond_the_window_is_refused():
    with pytest.raises(ValidationError, match="reach 9 has no effect beyond the window of 8"):
        TransformerSettings(positions="relative", reach=9, window=8)
    assert TransformerSettings(positions="relative", window=8).reach == 8
    assert TransformerSettings(positions="relative", window=99).reach == 16


def test_rotary_positions_need_pairs():
    with pytest.raises(ValidationError, match="width 24 in 8 heads gives each 3, which is odd"):
        TransformerSettings(positions="rotary", width=24, heads=8)


def test_learned_positions_have_an_end():
    settings = TransformerSettings(preset="tiny", positions="learned", max_positions=4)
    model = Transformer(settings, V, V).eval()
    assert model.max_length == 4

    def sentence(columns):
        return Padded(torch.zeros(1, columns).long(), torch.ones(1, columns).bool())

    assert model(sentence(4), sentence(4)).shape == (1, 4, V)
    complaint = "5 tokens is longer than the 4 positions"
    with pytest.raises(TextError, match=complaint):
        model.encode(sentence(5))
    memory = model.encode(sentence(2))
    with pytest.raises(TextError, match=complaint):
        model.decode(sentence(5), memory)
    state = model.start(memory)
    for _ in range(4):
        _, state = model.step(torch.zeros(1, 1).long(), state)
    with pytest.raises(TextError, match=complaint):
        model.step(torch.zeros(1, 1).long(), state)


def test_sinusoids_have_no_maximum_length():
    settings = TransformerSettings(preset="tiny")
    assert Transformer(settings, V, V).max_length is None


@pytest.mark.parametrize("hooked", [False, True], ids=["in blocks", "by masks"])
def test_a_window_narrows_what_can_be_known(hooked):
    torch.manual_seed(0)
    settings = TransformerSettings(preset="tiny", encoder_layers=2, window=2, dropout=0.0)
    model = Transformer(settings, V, V).eval()
    hook = (lambda _, weights: weights) if hooked else None
    ids, far = torch.zeros(1, 20).long(), torch.zeros(1, 20).long()
    far[0, 9] = 1
    every = torch.ones(1, 20).bool()
    one, other = (model.encode(Padded(x, every), hook=hook).states[0] for x in (ids, far))
    changed = (one != other).any(-1).nonzero().flatten().tolist()
    assert changed == [5, 6, 7, 8, 9, 10, 11, 12, 13]
    memory = model.encode(Padded(ids, every))
    one, other = (model.decode(Padded(x, every), memory, hook=hook)[0][0] for x in (ids, far))
    changed = (one != other).any(-1).nonzero().flatten().tolist()
    assert changed == list(range(9, 9 + 4 * 2 + 1))


def test_every_site_is_named():
    settings = TransformerSettings(preset="tiny", encoder_layers=3, decoder_layers=2)
    model = Transformer(settings, V, V).eval()
    source = Padded(torch.zeros(B, S).long(), REAL)
    target = Padded(torch.zeros(B, T).long(), torch.ones(B, T).bool())
    sites = []
    model(source, target, hook=lambda site, w: sites.append((site, tuple(w.shape))) or w)
    assert sites == [
        *((Site("encoder", layer), (B, H, S, S)) for layer in range(3)),
        (Site("decoder", 0), (B, H, T, T)),
        (Site("cross", 0), (B, H, T, S)),
        (Site("decoder", 1), (B, H, T, T)),
        (Site("cross", 1), (B, H, T, S)),
    ]
    sites.clear()
    hook = lambda site, w: sites.append((site, tuple(w.shape))) or w  # noqa: E731
    _, state = model.step(torch.zeros(B, 1).long(), model.start(model.encode(source)))
    state = state.reorder(torch.zeros(B, 7).long())
    model.step(torch.zeros(B, 7).long(), state, hook=hook)
    assert sites == [
        (Site("decoder", 0, 1), (B, H, 7, 2)),
        (Site("cross", 0, 1), (B, H, 7, S)),
        (Site("decoder", 1, 1), (B, H, 7, 2)),
        (Site("cross", 1, 1), (B, H, 7, S)),
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_sentences_are_encoded_in_chunks(monkeypatch, dtype):
    torch.manual_seed(0)
    settings = TransformerSettings(encoder_layers=2, decoder_layers=1, width=8, heads=2)
    model = Transformer(settings, 11, 11).to(dtype).eval()
    lengths = torch.tensor([7, 6, 6, 4, 3, 2, 1])
    mask = torch.arange(7) < lengths[:, None]  # (B, S)
    source = Padded(torch.randint(4, 11, mask.shape).masked_fill(~mask, 0), mask)
    whole = model.encode(source)
    seen = []
    monkeypatch.setattr("regard.models.translation.transformer.ENCODER_CHUNK_TOKENS", 14)
    for layer in model.encoder[:1]:
        layer.register_forward_pre_hook(lambda _, given: seen.append(tuple(given[0].shape[:2])))
    with torch.no_grad():
        some = model.encode(source)
    assert seen == [(2, 7), (2, 6), (2, 3), (1, 1)] if dtype == torch.float32 else [(7, 7)]
    assert torch.equal(some.mask, whole.mask)
    torch.testing.assert_close(some.states[mask], whole.states[mask])
    seen.clear()
    model.encode(source)
    assert seen == [(7, 7)]  # with gradients


def test_the_source_is_held_once_per_sentence():
    model = Transformer(TransformerSettings(preset="tiny"), V, V).eval()
    state = model.start(model.encode(Padded(torch.zeros(B, S).long(), REAL)))
    state = state.reorder(torch.zeros(B, 7).long())
    assert all(kv.keys.shape == (B, H, S, 32) for kv in state.source)


def test_dropout_applies_to_the_sums_of_embeddings_and_positions():
    torch.manual_seed(0)
    model = Transformer(TransformerSettings(preset="tiny", dropout=0.25), V, V)
    model.encoder = nn.ModuleList()
    source = Padded(torch.randint(V, (B, S)), REAL)
    dropped = model.encode(source).states
    kept = model.eval().encode(source).states
    zero = dropped == 0
    assert 0.2 < zero.float().mean() < 0.3
    torch.testing.assert_close(dropped[~zero], kept[~zero] / 0.75)


@pytest.mark.parametrize(
    "given", [{}, {"positions": "relative"}, {"positions": "rotary", "window": 1}], ids=str
)
def test_compiles_to_one_graph(given):
    torch.manual_seed(0)
    model = Transformer(TransformerSettings(preset="tiny", encoder_layers=1, **given), V, V).eval()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    source = Padded(torch.randint(V, (B, S)), REAL)
    target = Padded(torch.randint(V, (B, T)), REAL[:, :T])
    torch.testing.assert_close(compiled(source, target), model(source, target))
    torch.compiler.reset()


def test_training_features_compile_to_one_graph():
    torch.manual_seed(0)
    model = Transformer(TransformerSettings(preset="tiny", encoder_layers=1), V, V).eval()
    source = Padded(torch.randint(V, (B, S)), REAL)
    target = Padded(torch.randint(V, (B, T)), REAL[:, :T])
    places, cells = (x.mask.flatten().nonzero().squeeze(1) for x in (target, source))
    batch = Batch(replace(source, indices=cells), target, places, places)
    compiled = torch.compile(model.training_features, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(batch).features, model.training_features(batch).features)
    torch.compiler.reset()


def test_packed_sentences_may_be_no_longer_than_learned_positions():
    model = Transformer(
        TransformerSettings(preset="tiny", positions="learned", max_positions=S - 1), V, V
    )
    source = Padded(torch.zeros(B, S).long(), REAL)
    places = REAL.flatten().nonzero().squeeze(1)
    with pytest.raises(TextError, match=f"sentence of {S} tokens is longer than the {S - 1}"):
        model.training_features(Batch(replace(source, indices=places), source, places, places))


def settings(norm):
    return TransformerSettings(
        width=D, heads=H, feed_forward=F, norm=norm, activation="gelu", dropout=0.0
    )


def randomized(module):
    torch.manual_seed(0)
    with torch.no_grad():
        for p in module.parameters():
            p.normal_(std=0.3)
    return module.double().eval()


def copy_attention(ours, theirs):
    theirs.in_proj_weight.copy_(ours.project.weight)
    theirs.in_proj_bias.copy_(ours.project.bias)
    theirs.out_proj.load_state_dict(ours.out.state_dict())


@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.no_grad()
def test_encoder_layer_equals_torch(norm):
    ours = randomized(TransformerLayer(settings(norm), SelfAttention(D, H), decoder=False))
    theirs = nn.TransformerEncoderLayer(
        D, H, F, 0.0, "gelu", batch_first=True, norm_first=norm == "pre"
    ).double()
    copy_attention(ours.own, theirs.self_attn)
    theirs.linear1.load_state_dict(ours.feed.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feed.outer.state_dict())
    theirs.norm1.load_state_dict(ours.around_own.norm.state_dict())
    theirs.norm2.load_state_dict(ours.around_feed.norm.state_dict())
    x = torch.randn(B, S, D, dtype=torch.float64)
    found = ours(x, PaddedAttention("encoder", REAL, padding_mask(REAL), None), 0).outputs
    wanted = theirs(x, src_key_padding_mask=~REAL)  # in training mode: no fast path
    torch.testing.assert_close(found[REAL], wanted[REAL])


@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.no_grad()
def test_decoder_layer_equals_torch(norm):
    ours = randomized(TransformerLayer(settings(norm), SelfAttention(D, H), decoder=True))
    theirs = nn.TransformerDecoderLayer(
        D, H, F, 0.0, "gelu", batch_first=True, norm_first=norm == "pre"
    ).double()
    copy_attention(ours.own, theirs.self_attn)
    copy_attention(ours.cross, theirs.multihead_attn)
    theirs.linear1.load_state_dict(ours.feed.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feed.outer.state_dict())
    theirs.norm1.load_state_dict(ours.around_own.norm.state_dict())
    theirs.norm2.load_state_dict(ours.around_cross.norm.state_dict())
    theirs.norm3.load_state_dict(ours.around_feed.norm.state_dict())
    x, memory = (torch.randn(B, n, D, dtype=torch.float64) for n in (T, S))
    causal = causal_mask(T, T)
    real = torch.ones(B, T, dtype=torch.bool)
    found = ours(x, PaddedAttention("decoder", real, causal, None, Memory(memory, REAL)), 0).outputs
    wanted = theirs(x, memory, tgt_mask=~causal[0, 0], memory_key_padding_mask=~REAL)
    torch.testing.assert_close(found, wanted)


def with_experts(*, layers=(4, 3), **experts):
    sizes = {"width": D, "heads": H, "feed_forward": F, "dropout": 0.0, "bias": False}
    return TransformerSettings(
        encoder_layers=layers[0], decoder_layers=layers[1], experts=experts, **sizes
    )


def test_every_nth_layer_has_experts_and_reports_its_routing():
    source = Padded(torch.randint(V, (B, S)), REAL)
    target = Padded(torch.randint(V, (B, T)), torch.ones(B, T, dtype=torch.bool))
    for every, encoder, decoder in [(1, [0, 1, 2, 3], [0, 1, 2]), (2, [1, 3], [1]), (4, [3], [])]:
        model = Transformer(with_experts(count=3, every=every), V, V)
        memory = model.encode(source)
        assert [one.site for one in memory.routings] == [Site("encoder", n) for n in encoder]
        routings = model.decode(target, memory).routings
        assert routings[: len(encoder)] == memory.routings
        own = [one.site for one in routings[len(encoder) :]]
        assert own == [Site("decoder", n) for n in decoder]
        for one in routings:
            assert one.shares.shape == (3,)
            torch.testing.assert_close(one.shares.sum(), torch.tensor(1.0))


def test_equal_experts_are_a_feed_forward_layer():
    mixture = randomized(Transformer(with_experts(count=3, every=1), V, V)).eval()
    plain = Transformer(with_experts().model_copy(update={"experts": None}), V, V).double().eval()
    weights = dict(mixture.state_dict())
    for name in [n for n in weights if n.endswith((".feed.inner", ".feed.outer"))]:
        one = weights.pop(name)
        one[1:] = one[0]  # of the mixture, too: the state is not a copy
        weights[f"{name}.weight"] = one[0].T
    gates = [n for n in weights if ".gate." in n]
    assert len(gates) == 2 * (4 + 3)
    plain.load_state_dict({n: w for n, w in weights.items() if n not in gates})
    source = Padded(torch.randint(V, (B, S)), REAL)
    target = Padded(torch.randint(V, (B, T)), torch.ones(B, T, dtype=torch.bool))
    torch.testing.assert_close(mixture(source, target), plain(source, target))


def test_experts_add_their_parameters():
    more = count(experts={"count": 16, "every": 2}) - count()
    feed_forward = 512 * 2048 + 2048 + 2048 * 512 + 512
    assert more == 6 * (16 * 2 * 512 * 2048 + 2 * 16 * 512 - feed_forward)


def test_experts_in_no_layer_are_refused():
    with pytest.raises(
        ValidationError, match=r"experts.every 5 gives no layer experts.*4 and 3 layers"
    ):
        with_experts(every=5)
