"""What every model must do, run on every family and its main variants."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.decoding.gpu.static_graph import _tensors
from regard.models.build import FAMILIES
from regard.models.contracts import gather_parents
from regard.text.special_tokens import BOS
from regard.types import Batch, Padded, Site
from variants import ATTENTIVE, V_SOURCE, V_TARGET, VARIANTS, B, T, tiny


def run(model, source, columns, *, hook=None):
    """Logits (B, T, V) step by step, one hypothesis for each sentence."""
    state, steps = model.start(model.encode(source, hook=hook)), []
    for tokens in columns.split(1, dim=1):
        logits, state = model.step(tokens, state, hook=hook)
        steps.append(logits)
    return torch.cat(steps, 1)


def pick(padded, rows):
    return Padded(padded.ids[rows], padded.mask[rows])


class AttentionRecorder:
    def __init__(self):
        self.seen: list[tuple[Site, Tensor]] = []

    def __call__(self, site, weights, /):
        self.seen.append((site, weights))
        return weights


def silence_cross(site, weights, /):
    return torch.zeros_like(weights) if site.part == "cross" else weights


needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
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
def test_all_of_it_can_be_in_bfloat16(name):
    """As on a GPU, where that precision can be chosen."""
    model, source, target = tiny(name)
    with torch.inference_mode():
        wanted = run(model, source, target.ids)[target.mask]
        found = run(model.bfloat16(), source, target.ids)[target.mask]
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), wanted, rtol=0.0, atol=0.05 * float(wanted.norm()))


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
    batch = Batch(replace(source, indices=cells), target, places, torch.zeros_like(places))
    memory = model.encode(source)
    decoded = model.decode(target, memory)
    found, wanted = model.training_features(batch), decoded.features.flatten(0, 1)[places]
    torch.testing.assert_close(found.features, wanted)
    assert [one.site for one in found.routings] == [one.site for one in decoded.routings]
    assert decoded.routings[: len(memory.routings)] == memory.routings
    weights = list(model.parameters())
    grads = torch.autograd.grad(wanted.square().sum(), weights, allow_unused=True)
    torch.testing.assert_close(
        torch.autograd.grad(found.features.square().sum(), weights, allow_unused=True),
        grads,
        rtol=1e-4,
        atol=1e-3 if dtype == torch.float32 else 1e-10,
    )


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
    ancestry = torch.zeros(B, 1, 0, dtype=torch.long)
    for width in (1, 3, 2, 4, 4):
        parents = torch.randint(ancestry.shape[1], (B, width))
        tokens = torch.randint(V_TARGET, (B, width))
        logits, state = model.step(tokens, state.reorder(parents))
        ancestry = torch.cat(
            [gather_parents(ancestry, parents), tokens[..., None]], -1
        )  # (B, K, t)
        for k in range(width):
            told = Padded(ancestry[:, k], torch.ones_like(ancestry[:, k], dtype=torch.bool))
            torch.testing.assert_close(logits[:, k], model(source, told)[:, -1])


@every_variant
@both_precisions
def test_keep_picks_sentences(name, dtype):
    model, source, target = tiny(name, dtype=dtype)
    state = model.start(model.encode(source))
    for parents in ([[0, 0]] * B, [[1, 0], [0, 0], [1, 1]]):
        tokens = torch.randint(V_TARGET, (B, 2))
        _, state = model.step(tokens, state.reorder(torch.tensor(parents)))
    rows, parents = torch.tensor([2, 0]), torch.tensor([[1, 0, 1], [0, 0, 1], [0, 1, 1]])
    wanted, _ = model.step(target.ids[:, 2:5], state.reorder(parents))
    found, _ = model.step(
        target.ids[rows, 2:5], state.select_sentences(rows).reorder(parents[rows])
    )
    torch.testing.assert_close(found, wanted[rows])


@every_variant
@both_precisions
@torch.no_grad()
def test_a_static_state_keeps_its_shapes_and_gives_the_same(name, dtype):
    """And the state that it was made from can still be used."""
    model, source, _ = tiny(name, dtype=dtype)
    _, state = model.step(torch.full((B, 1), BOS), model.start(model.encode(source)))
    state, step_counter = state.reorder(torch.zeros(B, 3, dtype=torch.long)), torch.tensor(0)
    to_static = model.to_static(state, 4, step_counter)
    if to_static is None:
        return
    shapes = [x.shape for x in _tensors(to_static)]
    for step in range(4):
        tokens = (torch.arange(3 * B).view(B, 3) + step) % (V_TARGET - 4) + 4
        parents = torch.tensor([[0, 0, 2], [1, 2, 0], [2, 1, 1]])
        wanted, state = model.step(tokens, state.reorder(parents))
        found, to_static = model.step(tokens, to_static.reorder(parents))
        torch.testing.assert_close(found, wanted)
        assert [x.shape for x in _tensors(to_static)] == shapes
        step_counter += 1


@every_variant
def test_a_state_is_a_value(name):
    model, source, target = tiny(name)
    _, state = model.step(target.ids[:, :1], model.start(model.encode(source)))
    wanted, _ = model.step(target.ids[:, 1:2], state)
    model.step(target.ids[:, 2:3], state)
    state.select_sentences(torch.tensor([1])).reorder(torch.tensor([[0, 0]]))
    found, _ = model.step(target.ids[:, 1:2], state)
    assert torch.equal(found, wanted)


@every_attentive
def test_weights_sum_to_one_and_are_zero_at_padding(name):
    model, source, target = tiny(name)
    for look in (
        lambda w: model(source, target, hook=w),
        lambda w: run(model, source, target.ids, hook=w),
    ):
        recorder = AttentionRecorder()
        look(recorder)
        assert {site.part for site, _ in recorder.seen} >= {"cross"}
        for site, weights in recorder.seen:
            assert weights.shape[0] == B
            sums = weights.sum(-1)  # (B, H, T)
            if site.part == "encoder":  # padding may have no real position in its window
                sums = sums.transpose(1, 2)[source.mask]
            torch.testing.assert_close(sums, torch.ones_like(sums))
            if site.part != "decoder":
                assert (weights.movedim(3, 1)[~source.mask] == 0).all()
            elif site.step is None:
                assert (weights.triu(1) == 0).all()


@every_attentive
def test_steps_attend_as_the_whole_does(name):
    model, source, target = tiny(name)
    whole, steps = AttentionRecorder(), AttentionRecorder()
    model(source, target, hook=whole)
    run(model, source, target.ids, hook=steps)

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
def test_recording_changes_not_a_bit(name):
    model, source, target = tiny(name)
    assert torch.equal(model(source, target, hook=AttentionRecorder()), model(source, target))
    hooked = run(model, source, target.ids, hook=AttentionRecorder())
    assert torch.equal(hooked, run(model, source, target.ids))


@every_attentive
def test_a_hook_can_silence_cross_attention(name):
    model, source, target = tiny(name)
    heard = model(source, target)
    silent = model(source, target, hook=silence_cross)
    assert not torch.isclose(silent, heard).all(-1).any()
    steps = run(model, source, target.ids, hook=silence_cross)
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
        hooked = run(model, source, target.ids, hook=AttentionRecorder())
    assert found.dtype == torch.bfloat16
    for logits in (found, steps, hooked):
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
@needs_cuda
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
        model.step(target.ids[:, 1:3], state.reorder(parents).select_sentences(parents[:, 0]))
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
