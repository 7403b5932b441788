"""What every language model that writes must do, run on every family and its main variants."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.decoding.gpu.static_graph import _tensors
from regard.models.contracts import gather_parents
from regard.models.language.awd_lstm import AwdLstmSettings
from regard.models.language.gpt import GptSettings
from regard.tasks.language.task import FAMILIES
from regard.types import Batch, Padded

B, S, T, V = 3, 4, 5, 13


def gpt(**given):
    sizes = {"layers": 2, "width": 16, "heads": 4, "context": 32, "dropout": 0.0}
    return GptSettings(**(sizes | given))


VARIANTS = {
    "awd-lstm": AwdLstmSettings(width=6, units=8, layers=3),
    "gpt": gpt(),
    "gpt rotary": gpt(positions="rotary", norm="rms", activation="swiglu", bias=False),
    "gpt grouped": gpt(kv_heads=2),
}
every_variant = pytest.mark.parametrize("name", VARIANTS)


def tiny(name, *, seed=0):
    """A model, prompts of unlike length (one of them empty), and texts that follow."""
    torch.manual_seed(seed)
    settings = VARIANTS[name]
    model = FAMILIES[settings.family](settings, V).eval()
    draw = torch.Generator().manual_seed(5)
    prompt = Padded(
        torch.randint(4, V, (B, S), generator=draw), torch.arange(S) < torch.tensor([[4], [0], [2]])
    )
    ids = torch.randint(4, V, (B, T), generator=draw)
    return model, prompt, Padded(ids, torch.ones_like(ids, dtype=torch.bool))


def no_prompt(rows=B):
    return Padded(torch.zeros(rows, 0, dtype=torch.long), torch.zeros(rows, 0, dtype=torch.bool))


def run(model, prompt, columns):
    """Logits (B, T, V) step by step, one hypothesis for each text."""
    state, steps = model.start(model.encode(prompt)), []
    for tokens in columns.split(1, dim=1):
        logits, state = model.step(tokens, state)
        steps.append(logits)
    return torch.cat(steps, 1)


def test_every_family_is_here():
    assert {settings.family for settings in VARIANTS.values()} == set(FAMILIES)


@every_variant
def test_step_by_step_equals_all_at_once(name):
    model, prompt, given = tiny(name)
    for first in (prompt, no_prompt()):
        wanted = model(first, given)
        assert wanted.shape == (B, T, V)
        torch.testing.assert_close(run(model, first, given.ids), wanted)


@every_variant
def test_a_prompt_is_the_beginning_of_the_text(name):
    model, prompt, given = tiny(name)
    found = model(prompt, given)
    for row, length in enumerate(prompt.mask.sum(1).tolist()):
        ids = torch.cat([prompt.ids[row, :length], given.ids[row]])[None]
        whole = model(no_prompt(1), Padded(ids, torch.ones_like(ids, dtype=torch.bool)))
        torch.testing.assert_close(found[row], whole[0, length:])


@every_variant
def test_padding_changes_nothing(name):
    model, prompt, given = tiny(name)
    noise = torch.randint_like(prompt.ids, V)
    more = Padded(
        torch.cat([torch.where(prompt.mask, prompt.ids, noise), noise[:, :2]], 1),
        torch.cat([prompt.mask, torch.zeros(B, 2, dtype=torch.bool)], 1),
    )
    torch.testing.assert_close(model(more, given), model(prompt, given))
    torch.testing.assert_close(run(model, more, given.ids), run(model, prompt, given.ids))


@every_variant
def test_the_future_changes_nothing_and_the_past_does(name):
    model, prompt, given = tiny(name)
    wanted = model(prompt, given)
    for t in range(1, T):
        later = torch.where(torch.arange(T) < t, given.ids, (given.ids - 3) % (V - 4) + 4)
        found = model(prompt, Padded(later, given.mask))
        torch.testing.assert_close(found[:, :t], wanted[:, :t])
        assert not torch.isclose(found[:, t:], wanted[:, t:]).all(-1).any()


@every_variant
def test_windows_are_taught_at_all_positions(name):
    model, _, given = tiny(name)
    batch = Batch(no_prompt(), given, None, given.ids.flatten())
    found = model.training_features(batch).features
    assert found.shape[0] == B * T
    torch.testing.assert_close(model.logits(found).view(B, T, V), model(no_prompt(), given))


@every_variant
def test_the_output_layer_is_what_makes_the_logits(name):
    model, prompt, given = tiny(name)
    features = model.decode(given, model.encode(prompt)).features
    wanted = torch.nn.functional.linear(features, *model.output_layer())
    torch.testing.assert_close(model.logits(features), wanted)


@every_variant
def test_branches_go_their_own_ways(name):
    model, prompt, _ = tiny(name)
    state = model.start(model.encode(prompt))
    ancestry = torch.zeros(B, 1, 0, dtype=torch.long)
    for width in (1, 3, 2, 4):
        parents = torch.randint(ancestry.shape[1], (B, width))
        tokens = torch.randint(V, (B, width))
        logits, state = model.step(tokens, state.reorder(parents))
        ancestry = torch.cat([gather_parents(ancestry, parents), tokens[..., None]], -1)
        for k in range(width):
            told = Padded(ancestry[:, k], torch.ones_like(ancestry[:, k], dtype=torch.bool))
            torch.testing.assert_close(logits[:, k], model(prompt, told)[:, -1])


@every_variant
def test_texts_are_picked_by_rows(name):
    model, prompt, given = tiny(name)
    _, state = model.step(given.ids[:, :1], model.start(model.encode(prompt)))
    rows = torch.tensor([2, 0])
    wanted, _ = model.step(given.ids[:, 1:2], state)
    found, _ = model.step(given.ids[rows, 1:2], state.select_sentences(rows))
    torch.testing.assert_close(found, wanted[rows])


@every_variant
@torch.no_grad()
def test_a_static_state_keeps_its_shapes_and_leads_to_the_same(name):
    model, prompt, _ = tiny(name)
    state = model.start(model.encode(prompt)).reorder(torch.zeros(B, 2, dtype=torch.long))
    counter = torch.tensor(0)
    static = model.to_static(state, 3, counter)
    assert static is not None
    shapes = [x.shape for x in _tensors(static)]
    for step in range(3):
        tokens = (torch.arange(2 * B).view(B, 2) + step) % (V - 4) + 4
        parents = torch.tensor([[0, 1], [1, 1], [1, 0]])
        wanted, state = model.step(tokens, state.reorder(parents))
        found, static = model.step(tokens, static.reorder(parents))
        torch.testing.assert_close(found, wanted)
        assert [x.shape for x in _tensors(static)] == shapes
        counter += 1


@every_variant
def test_a_memory_that_is_carried_is_that_of_the_prompt(name):
    model, prompt, given = tiny(name)
    assert (model.as_stateful() is None) == name.startswith("gpt")
    if model.as_stateful() is None:
        return
    _, after = model.read_on(given, model.encode(prompt))
    row = Padded(torch.cat([prompt.ids[:1], given.ids[:1]], 1), torch.ones(1, S + T).bool())
    for found, wanted in zip(after.tensors(), model.encode(row).tensors(), strict=True):
        torch.testing.assert_close(found[:1], wanted)


@every_variant
def test_every_parameter_learns(name):
    model, prompt, given = tiny(name)
    logits = model.train()(prompt, given)
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), given.ids.flatten()).backward()
    still = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert not still


@every_variant
def test_saved_and_loaded_gives_the_same_numbers(name, tmp_path):
    model, prompt, given = tiny(name)
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    other = tiny(name, seed=1)[0]
    assert not torch.equal(other(prompt, given), model(prompt, given))
    other.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert torch.equal(other(prompt, given), model(prompt, given))


@every_variant
def test_runs_under_autocast_and_wholly_in_bfloat16(name):
    model, prompt, given = tiny(name)
    wanted = model(prompt, given)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, steps = model(prompt, given), run(model, prompt, given.ids)
    with torch.inference_mode():
        half = run(model.bfloat16(), prompt, given.ids)
    for logits in (found, steps, half):
        assert (logits.float() - wanted).norm() < 0.05 * wanted.norm()


@pytest.mark.parametrize("name", [name for name in VARIANTS if name.startswith("gpt")])
def test_a_hook_that_changes_nothing_leaves_steps_behind_unlike_prompts_as_they_are(name):
    model, prompt, given = tiny(name)
    wanted, seen = run(model, prompt, given.ids), []

    def hook(site, weights):
        seen.append(weights.sum(-1))
        return weights

    state = model.start(model.encode(prompt))
    for number, tokens in enumerate(given.ids.split(1, dim=1)):
        logits, state = model.step(tokens, state, hook=hook)
        torch.testing.assert_close(logits[:, 0], wanted[:, number])
    assert all(torch.allclose(sums, torch.ones_like(sums)) for sums in seen)
