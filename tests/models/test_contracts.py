"""What every model must do, run on every family and its main variants."""

from typing import NamedTuple

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.batching.buckets import Buckets, fill_up
from regard.models.build import FAMILIES, build_model
from regard.models.bytenet import ByteNetSettings
from regard.models.contracts import AnyModel, take
from regard.models.convs2s import ConvS2SSettings
from regard.models.deep_att import DeepAttSettings
from regard.models.encoder_decoder import EncoderDecoderSettings
from regard.models.feedback import FeedbackSettings
from regard.models.gnmt import GnmtSettings
from regard.models.luong import LuongSettings
from regard.models.moe import MoeSettings
from regard.models.rnnsearch import RnnSearchSettings
from regard.models.transformer import TransformerSettings
from regard.training.loss import batch_loss
from regard.types import Batch, Padded, Site

B, S, T, V_SOURCE, V_TARGET = 3, 6, 5, 11, 13


def transformer(settings=TransformerSettings, **given):
    sizes = {"encoder_layers": 2, "decoder_layers": 2, "width": 16, "heads": 4, "feed_forward": 12}
    return settings(**(sizes | {"dropout": 0.0, "embeddings": "separate"} | given))


def rnn(**given):
    return EncoderDecoderSettings(**({"layers": 2, "width": 8, "embedding": 6} | given))


def luong(attention="global", **given):
    reach = None if attention == "global" else 2
    sizes = {"layers": 2, "width": 8, "embedding": 6, "reach": reach, "attention": attention}
    return LuongSettings(**(sizes | given))


def deep(settings, **given):
    """Three layers above one another: the residual connections of GNMT begin at the third."""
    sizes = {"encoder_layers": 3, "decoder_layers": 3, "width": 8, "embedding": 6, "alignment": 7}
    return settings(**(sizes | given))


def bytenet(**given):
    sizes = {"encoder_blocks": 4, "decoder_blocks": 4, "width": 12, "max_dilation": 2}
    return ByteNetSettings(**(sizes | given))


def convs2s(**given):
    sizes = {"encoder_layers": 3, "decoder_layers": 2, "width": 8, "embedding": 6}
    return ConvS2SSettings(**(sizes | given))


VARIANTS = {
    "transformer": transformer(embeddings="shared"),
    "transformer pre-norm": transformer(norm="pre", embeddings="target"),
    "transformer learned": transformer(positions="learned", max_positions=9),
    "transformer relative": transformer(positions="relative", reach=2),
    "transformer rotary": transformer(positions="rotary"),
    "transformer window": transformer(window=1, decoder_layers=4),
    "transformer window relative": transformer(window=2, positions="relative", reach=1),
    "transformer window rotary": transformer(window=2, positions="rotary", norm="pre"),
    "feedback": transformer(FeedbackSettings, embeddings="shared"),
    "feedback pre-norm": transformer(FeedbackSettings, norm="pre", decoder_layers=1),
    "transformer swiglu": transformer(activation="swiglu", bias=False),
    # Experts whose choice rounding to bfloat16 does not change, here and with most seeds.
    "transformer experts": transformer(experts={"count": 3, "every": 1}),
    "transformer experts pre-norm": transformer(norm="pre", experts={"count": 4}),
    "transformer gelu": transformer(activation="gelu", encoder_layers=1, final_norm=True),
    "rnn lstm": rnn(),
    "rnn gru": rnn(cell="gru", reading="both"),
    "rnn one-hot": rnn(embedding=0, layers=1, reading="backward"),
    "rnnsearch": RnnSearchSettings(width=8, embedding=6, alignment=7, readout=5),
    "luong both ways": luong(reading="both"),
    "bytenet": bytenet(),
    "bytenet outgrown": bytenet(stretch=1.0, encoder_blocks=3, decoder_blocks=5),
    "bytenet roomy": bytenet(extra=2, kernel=2, max_dilation=4),
    "convs2s": convs2s(),
    "convs2s waves": convs2s(positions="sinusoid", weight_norm=False, kernel=4),
    "convs2s upper": convs2s(upper=[[12, 3], [9, 1]], max_positions=9),
    "deep-att": deep(DeepAttSettings, memory=5),
    "deep-att shallow": deep(DeepAttSettings, memory=9, encoder_layers=1, decoder_layers=2),
    "gnmt": deep(GnmtSettings),
    "gnmt shallow": deep(GnmtSettings, encoder_layers=2, decoder_layers=2),
    "moe": MoeSettings(width=8, alignment=7, expert_width=5, experts={"count": 3}),
    "moe projected": MoeSettings(
        width=6, units=10, alignment=7, expert_width=5, encoder_layers=2, decoder_layers=3
    ),
} | {
    f"luong {score} {attention} {'fed' if feeding else 'unfed'}": luong(
        score=score, attention=attention, input_feeding=feeding
    )
    for score in ("dot", "general", "concat")
    for attention in ("global", "local-m", "local-p")
    for feeding in (True, False)
}
ATTENTIVE = [name for name in VARIANTS if not name.startswith(("rnn ", "bytenet"))]


class Case(NamedTuple):
    model: AnyModel
    source: Padded
    target: Padded


def padded(lengths, columns, size):
    mask = torch.arange(columns) < torch.tensor(lengths)[:, None]
    return Padded(torch.randint(size, mask.shape), mask)


def tiny(name, *, dtype=torch.float64, seed=0):
    """A model with no weight at zero, and sentences of unlike length."""
    torch.manual_seed(seed)
    settings = VARIANTS[name]
    joint = getattr(settings, "embeddings", None) == "shared"
    source_size = V_TARGET if joint else V_SOURCE
    model = build_model(settings, source_size, V_TARGET, joint=joint).to(dtype).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn_like(p))
    return Case(model, padded([6, 4, 2], S, source_size), padded([5, 3, 4], T, V_TARGET))


def run(model, source, columns, *, watch=None):
    """Logits (B, T, V) step by step, one hypothesis for each sentence."""
    state, steps = model.start(model.encode(source, watch=watch)), []
    for tokens in columns.split(1, dim=1):
        logits, state = model.step(tokens, state, watch=watch)
        steps.append(logits)
    return torch.cat(steps, 1)


def pick(padded, rows):
    return Padded(padded.ids[rows], padded.mask[rows])


class Recorder:
    def __init__(self):
        self.seen: list[tuple[Site, Tensor]] = []

    def __call__(self, site, weights, /):
        self.seen.append((site, weights))
        return weights


def silence_cross(site, weights, /):
    return torch.zeros_like(weights) if site.part == "cross" else weights


def is_routed(name):
    """Whether a variant has experts, which share out filler too."""
    return name.startswith("moe") or "experts" in name


every_variant = pytest.mark.parametrize("name", VARIANTS)
every_attentive = pytest.mark.parametrize("name", ATTENTIVE)
both_precisions = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def test_every_family_is_here():
    assert {settings.family for settings in VARIANTS.values()} == set(FAMILIES)


@every_variant
@both_precisions
def test_step_by_step_equals_all_at_once(name, dtype):
    model, source, target = tiny(name, dtype=dtype)
    wanted = model(source, target)
    assert wanted.shape == (B, T, V_TARGET)
    assert wanted.dtype == dtype
    found = run(model, source, target.ids)
    torch.testing.assert_close(found[target.mask], wanted[target.mask])


@every_variant
def test_padding_changes_nothing(name):
    model, source, target = tiny(name)
    wanted = model(source, target)[target.mask]

    def more(padded):
        ids = torch.where(padded.mask, padded.ids, torch.randint_like(padded.ids, V_SOURCE))
        return Padded(
            torch.cat([ids, torch.randint(V_SOURCE, (B, 3))], 1),
            torch.cat([padded.mask, torch.zeros(B, 3, dtype=torch.bool)], 1),
        )

    found = model(more(source), more(target))
    torch.testing.assert_close(found[:, :T][target.mask], wanted)
    found = run(model, more(source), target.ids)
    torch.testing.assert_close(found[target.mask], wanted)


@every_variant
@both_precisions
def test_teaching_leaves_out_the_padding_and_nothing_else(name, dtype):
    model, source, target = tiny(name, dtype=dtype)
    places, cells = (x.mask.flatten().nonzero().squeeze(1) for x in (target, source))
    batch = Batch(source, target, places, torch.zeros_like(places), cells)
    memory = model.encode(source)
    decoded = model.decode(target, memory)
    found, wanted = model.teach(batch), decoded.features.flatten(0, 1)[places]
    torch.testing.assert_close(found.features, wanted)
    assert [one.site for one in found.routings] == [
        one.site for one in memory.routings + decoded.routings
    ]
    weights = list(model.parameters())
    slopes = torch.autograd.grad(wanted.square().sum(), weights, allow_unused=True)
    torch.testing.assert_close(
        torch.autograd.grad(found.features.square().sum(), weights, allow_unused=True),
        slopes,
        rtol=1e-4,
        atol=1e-4 if dtype == torch.float32 else 1e-10,
    )


@pytest.mark.parametrize("name", [name for name in VARIANTS if not is_routed(name)])
@both_precisions
def test_a_batch_that_is_filled_up_costs_what_it_cost(name, dtype):
    model, source, target = tiny(name, dtype=dtype)
    places, cells = (x.mask.flatten().nonzero().squeeze(1) for x in (target, source))
    batch = Batch(source, target, places, torch.randint(V_TARGET, places.shape), cells)
    buckets = Buckets(90, model.packs, model.limit)
    filled = fill_up(batch, buckets.shape(batch), packed=model.packs)
    assert filled.num_tokens > batch.num_tokens
    weights, found = list(model.parameters()), []
    for one in (batch, filled):
        loss = batch_loss(model, one, 0.1)
        slopes = torch.autograd.grad(loss.minimised, weights, allow_unused=True)
        found.append((loss.minimised, loss.surprise, slopes))
    exact = dtype == torch.float64
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-10 if exact else 1e-4)


@every_variant
def test_the_output_layer_is_what_makes_the_logits(name):
    model, source, target = tiny(name)
    features = model.decode(target, model.encode(source)).features
    wanted = torch.nn.functional.linear(features, *model.output_layer())
    torch.testing.assert_close(model.logits(features), wanted)


@every_variant
def test_a_sentence_alone_is_what_it_is_in_a_batch(name):
    model, source, target = tiny(name)
    wanted = model(source, target)
    for row in range(B):
        alone = [
            Padded(x.ids[row][x.mask[row]][None], x.mask[row][x.mask[row]][None])
            for x in (source, target)
        ]
        found = model(*alone)
        torch.testing.assert_close(found[0], wanted[row][target.mask[row]])


@every_variant
def test_the_source_and_the_past_do_matter(name):
    model, source, target = tiny(name)
    logits = model(source, target)
    other = Padded(source.ids.clone(), source.mask)
    other.ids[:, 1] = (other.ids[:, 1] + 1) % V_SOURCE
    assert not torch.isclose(model(other, target), logits).all(-1).any()
    other = Padded(target.ids.clone(), target.mask)
    other.ids[:, 0] = (other.ids[:, 0] + 1) % V_TARGET
    assert not torch.isclose(model(source, other), logits).all(-1).any()


@every_variant
def test_the_future_changes_nothing(name):
    model, source, target = tiny(name)
    wanted = model(source, target)
    for t in range(1, T):
        later = torch.where(torch.arange(T) < t, target.ids, (target.ids + 1) % V_TARGET)
        found = model(source, Padded(later, target.mask))
        torch.testing.assert_close(found[:, :t], wanted[:, :t])


@every_variant
def test_batch_order_changes_nothing(name):
    model, source, target = tiny(name)
    order = torch.tensor([2, 0, 1])
    found = model(pick(source, order), pick(target, order))
    torch.testing.assert_close(found, model(source, target)[order])


@every_variant
@both_precisions
def test_branches_go_their_own_ways(name, dtype):
    model, source, _ = tiny(name, dtype=dtype)
    state = model.start(model.encode(source))
    paths = torch.zeros(B, 1, 0, dtype=torch.long)
    for width in (1, 3, 2, 4, 4):
        parents = torch.randint(paths.shape[1], (B, width))
        tokens = torch.randint(V_TARGET, (B, width))
        logits, state = model.step(tokens, state.branch(parents))
        paths = torch.cat([take(paths, parents), tokens[..., None]], -1)  # (B, K, t)
        for k in range(width):
            told = Padded(paths[:, k], torch.ones_like(paths[:, k], dtype=torch.bool))
            torch.testing.assert_close(logits[:, k], model(source, told)[:, -1])


@every_variant
@both_precisions
def test_keep_picks_sentences(name, dtype):
    model, source, target = tiny(name, dtype=dtype)
    state = model.start(model.encode(source))
    for parents in ([[0, 0]] * B, [[1, 0], [0, 0], [1, 1]]):
        tokens = torch.randint(V_TARGET, (B, 2))
        _, state = model.step(tokens, state.branch(torch.tensor(parents)))
    rows, parents = torch.tensor([2, 0]), torch.tensor([[1, 0, 1], [0, 0, 1], [0, 1, 1]])
    wanted, _ = model.step(target.ids[:, 2:5], state.branch(parents))
    found, _ = model.step(target.ids[rows, 2:5], state.keep(rows).branch(parents[rows]))
    torch.testing.assert_close(found, wanted[rows])


@every_variant
def test_a_state_is_a_value(name):
    model, source, target = tiny(name)
    _, state = model.step(target.ids[:, :1], model.start(model.encode(source)))
    wanted, _ = model.step(target.ids[:, 1:2], state)
    model.step(target.ids[:, 2:3], state)
    state.keep(torch.tensor([1])).branch(torch.tensor([[0, 0]]))
    found, _ = model.step(target.ids[:, 1:2], state)
    assert torch.equal(found, wanted)


@every_attentive
def test_watched_weights_sum_to_one_and_shun_padding(name):
    model, source, target = tiny(name)
    for look in (
        lambda w: model(source, target, watch=w),
        lambda w: run(model, source, target.ids, watch=w),
    ):
        recorder = Recorder()
        look(recorder)
        assert {site.part for site, _ in recorder.seen} >= {"cross"}
        for site, weights in recorder.seen:
            assert weights.shape[0] == B
            sums = weights.sum(-1)  # (B, H, T)
            if site.part == "encoder":  # padding, which sees no further than a window, may be blind
                sums = sums.transpose(1, 2)[source.mask]
            torch.testing.assert_close(sums, torch.ones_like(sums))
            if site.part != "decoder":
                assert (weights.movedim(3, 1)[~source.mask] == 0).all()
            elif site.step is None:
                assert (weights.triu(1) == 0).all()


@every_attentive
def test_steps_attend_as_the_whole_does(name):
    model, source, target = tiny(name)
    whole, steps = Recorder(), Recorder()
    model(source, target, watch=whole)
    run(model, source, target.ids, watch=steps)

    def rows(recorder, part, layer):
        seen = [(site.step, w) for site, w in recorder.seen if site[:2] == (part, layer)]
        if seen[0][0] is None:
            return list(seen[0][1].unbind(2))
        assert [step for step, _ in seen] == list(range(T))
        return [w[:, :, 0] for _, w in seen]

    places = {site[:2] for site, _ in whole.seen}
    assert places == {site[:2] for site, _ in steps.seen}
    for place in places - {("encoder", layer) for layer in range(2)}:
        pairs = zip(rows(whole, *place), rows(steps, *place), strict=True)
        for t, (one, other) in enumerate(pairs):
            real = target.mask[:, t]
            torch.testing.assert_close(one[real][..., : other.shape[-1]], other[real])


@every_variant
def test_watching_changes_not_a_bit(name):
    model, source, target = tiny(name)
    assert torch.equal(model(source, target, watch=Recorder()), model(source, target))
    watched = run(model, source, target.ids, watch=Recorder())
    assert torch.equal(watched, run(model, source, target.ids))


@every_attentive
def test_a_watch_can_silence_cross_attention(name):
    model, source, target = tiny(name)
    heard = model(source, target)
    silent = model(source, target, watch=silence_cross)
    assert not torch.isclose(silent, heard).all(-1).any()
    steps = run(model, source, target.ids, watch=silence_cross)
    torch.testing.assert_close(steps[target.mask], silent[target.mask])


@every_variant
def test_every_parameter_learns(name):
    model, source, target = tiny(name)
    model.train()
    logits = model(source, target)
    torch.nn.functional.cross_entropy(logits[target.mask], target.ids[target.mask]).backward()
    still = [
        name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().max() > 0
    ]
    assert not still


@every_variant
def test_saved_and_loaded_gives_the_same_numbers(name, tmp_path):
    model, source, target = tiny(name)
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    other = tiny(name, seed=1).model
    assert not torch.equal(other(source, target), model(source, target))
    other.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert torch.equal(other(source, target), model(source, target))


@every_variant
def test_runs_under_autocast(name):
    model, source, target = tiny(name, dtype=torch.float32)
    wanted = model(source, target)[target.mask]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = model(source, target)
        steps = run(model, source, target.ids)
        watched = run(model, source, target.ids, watch=Recorder())
    assert found.dtype == torch.bfloat16
    for logits in (found, steps, watched):
        assert (logits[target.mask] - wanted).norm() < 0.05 * wanted.norm()
    found.float().logsumexp(-1).sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@every_variant
def test_gradients_do_not_need_training_mode(name):
    model, source, target = tiny(name)
    assert not model.training
    model(source, target).sum().backward()
    assert sum(p.grad is not None for p in model.parameters()) > 3


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode", "ignore:Attempting to run cuBLAS")
@every_variant
def test_a_gpu_agrees_and_is_never_waited_for(name):
    model, source, target = tiny(name, dtype=torch.float32)
    wanted = model(source, target)
    there = torch.device("cuda")
    model, source, target = model.to(there), source.to(there), target.to(there)
    parents = torch.zeros(B, 2, dtype=torch.long, device=there)
    run(model, source, target.ids)  # libraries may wait while they start
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = model(source, target)
        found.sum().backward()
        steps = run(model, source, target.ids)
        _, state = model.step(target.ids[:, :1], model.start(model.encode(source)))
        model.step(target.ids[:, 1:3], state.branch(parents).keep(parents[:, 0]))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    real = target.mask.cpu()
    torch.testing.assert_close(found.cpu(), wanted, atol=1e-3, rtol=1e-3)
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    torch.testing.assert_close(steps.cpu()[real], wanted[real], atol=1e-3, rtol=1e-3)


@every_variant
def test_the_same_seed_gives_the_same_model(name):
    one, other = tiny(name, seed=3).model.state_dict(), tiny(name, seed=3).model.state_dict()
    assert all(torch.equal(one[key], other[key]) for key in one)
