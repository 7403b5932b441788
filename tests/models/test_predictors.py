"""What every model with one answer a row must do, run on every family and its main variants."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.models.series.recurrent import SimpleRnn, SimpleRnnSettings
from regard.models.vision.swin import Swin, SwinSettings
from regard.models.vision.vit import Vit, VitSettings
from regard.types import Batch, Pixels, Series

B, S, F, V = 4, 6, 3, 3
RNN_WITH_ATTENTION = ("simple-rnn linear", "simple-rnn softmax")
RNNS = ("simple-rnn", *RNN_WITH_ATTENTION)
PICTURES = {
    "vit": (Vit, VitSettings(picture_size=8, patch=2, layers=2, width=8, heads=2, drop_path=0.2)),
    "vit mean": (
        Vit,
        VitSettings(
            picture_size=8, patch=4, layers=2, width=8, heads=2, pooling="mean",
            positions="sinusoid",
        ),
    ),
    "swin": (
        Swin,
        SwinSettings(picture_size=16, patch=2, width=8, stages=(2, 1), heads=(2, 4), drop_path=0.2),
    ),
}  # fmt: skip
every_name = pytest.mark.parametrize("name", [*RNNS, *PICTURES])
every_rnn = pytest.mark.parametrize("name", RNNS)
every_attentive = pytest.mark.parametrize("name", [*RNN_WITH_ATTENTION, *PICTURES])


def tiny(name, *, dtype=torch.float64):
    """A model and inputs, of unlike length where they have one."""
    torch.manual_seed(0)
    if name in PICTURES:
        family, settings = PICTURES[name]
        size = settings.picture_size
        pixels = torch.randint(0, 256, (B, 3, size, size), dtype=torch.uint8)
        return family(settings, V).to(dtype).eval(), Pixels(pixels)
    _, _, attention = name.partition(" ")
    settings = SimpleRnnSettings(width=5, attention=attention or "none", time_steps=S)
    model = SimpleRnn(settings, F).to(dtype).eval()
    with torch.no_grad():  # weights that begin at zero would hide mistakes
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    mask = torch.arange(S, 0, -1) <= torch.tensor([S, 4, 2, 1])[:, None]
    return model, Series(torch.randn(B, S, F, dtype=dtype), mask)


def rows_of(inputs, rows):
    return type(inputs)(*(x[rows] for x in inputs.tensors()))


@every_name
def test_a_batch_asks_for_one_answer_a_row(name):
    model, inputs = tiny(name)
    answers = model(inputs)
    assert answers.shape == (B, V)
    batch = Batch(inputs, None, None, torch.zeros(B, V))
    found = model.logits(model.training_features(batch).features)
    torch.testing.assert_close(found, answers, rtol=0, atol=0)


@every_name
def test_the_order_and_the_company_of_rows_change_nothing(name):
    model, inputs = tiny(name)
    rows = torch.tensor([2, 0, 0])
    torch.testing.assert_close(model(rows_of(inputs, rows)), model(inputs)[rows])


@every_rnn
def test_padding_has_no_gradient(name):
    model, inputs = tiny(name)
    values = inputs.values.clone().requires_grad_()
    model(Series(values, inputs.mask)).sum().backward()
    assert not values.grad[~inputs.mask].any()
    assert values.grad[inputs.mask].any(-1).all()


@every_name
def test_saved_and_loaded_it_answers_the_same(name, tmp_path):
    model, inputs = tiny(name)
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    other, _ = tiny(name)
    torch.nn.init.normal_(other.output.weight)
    other.load_state_dict(load_file(tmp_path / "model.safetensors"))
    torch.testing.assert_close(other(inputs), model(inputs), rtol=0, atol=0)


@every_name
def test_half_precision_is_near(name):
    model, inputs = tiny(name, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = model(inputs)
    torch.testing.assert_close(found.float(), model(inputs), rtol=0.1, atol=0.1)


@every_attentive
def test_a_hook_that_changes_the_weights_changes_the_answer(name):
    model, inputs = tiny(name)
    silenced = model(inputs, hook=lambda _, weights: torch.zeros_like(weights))
    assert not torch.allclose(silenced, model(inputs))
    if name in ("vit", *RNN_WITH_ATTENTION):  # with nothing to look at, all rows are alike
        torch.testing.assert_close(silenced, silenced[:1].expand(B, -1))


@every_attentive
def test_a_hook_that_changes_nothing_leaves_every_bit(name):
    model, inputs = tiny(name)
    sites = []

    def hook(site, weights):
        sites.append(site)
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        return weights

    # weights that are no distribution, of `linear`, are only counted
    hook = hook if "linear" not in name else lambda site, weights: sites.append(site) or weights
    assert torch.equal(model(inputs, hook=hook), model(inputs))
    assert [site.layer for site in sites] == list(range(len(sites)))
    assert sites


@every_rnn
def test_it_learns_to_add_the_last_two(name):
    torch.manual_seed(1)
    model, _ = tiny(name, dtype=torch.float32)
    optimizer = torch.optim.Adam(model.parameters(), 2e-2)
    mask = torch.ones(64, S, dtype=torch.bool)
    for _ in range(200):
        values = torch.rand(64, S, F) - 0.5
        loss = (model(Series(values, mask)) - values[:, -2:].sum(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    guess = (values[:, -2:].sum(1)).square().mean()
    assert loss < 0.5 * guess
