import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError

from regard.models.contracts import gather_parents
from regard.models.translation.bytenet import ByteNet, ByteNetSettings
from regard.recipes.recipe_files import load_recipe
from regard.text.special_tokens import PAD
from regard.types import Padded

B, S, T, D = 2, 10, 14, 8
LENGTHS = (10, 5)
SOURCE = Padded(
    torch.arange(B * S).view(B, S) % 11, torch.arange(S) < torch.tensor(LENGTHS)[:, None]
)
TARGET = Padded(torch.arange(B * T).view(B, T) % 13, torch.ones(B, T, dtype=torch.bool))


def tiny(**given):
    torch.manual_seed(0)
    sizes = {"encoder_blocks": 3, "decoder_blocks": 3, "width": D, "max_dilation": 2}
    model = ByteNet(ByteNetSettings(**(sizes | given)), 11, 13).double().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(std=0.5)
    return model


def block(layer, x, before, after):
    """Figure 3, left, for one sequence (T, D), zeros before and after it."""

    def f(norm, x):
        return F.relu(F.layer_norm(x, x.shape[-1:], norm.weight, norm.bias))

    inner = f(layer.second_norm, layer.narrow(f(layer.first_norm, x)))  # (T, D / 2)
    linear, dilation = layer.convolution.linear, layer.convolution.dilation
    weight = linear.weight.unflatten(1, (3, -1)).transpose(1, 2)  # (D / 2, D / 2, 3)
    padded = F.pad(inner.T, (before * dilation, after * dilation))
    inner = F.conv1d(padded, weight, linear.bias, dilation=dilation).T
    return x + layer.widen(f(layer.third_norm, inner))


def test_is_the_papers_network():
    model = tiny()
    found = model(SOURCE, TARGET)
    for b, length in enumerate(LENGTHS):
        columns = length * 6 // 5
        ids = [*SOURCE.ids[b, :length], *[PAD] * (columns - length)]
        x = model.source.weight[torch.tensor(ids)]
        for layer in model.encoder:
            x = block(layer, x, 1, 1)
        z = torch.cat([model.encoder_norm(x), x.new_zeros(T, D)])[:T]  # (T, D)
        x = model.join(torch.cat([z, model.target.weight[TARGET.ids[b]]], -1))
        for layer in model.decoder:
            x = block(layer, x, 2, 0)
        wanted = model.output(F.relu(model.decoder_norm(model.finish(x))))
        torch.testing.assert_close(found[b], wanted)


def test_dilation_doubles_and_starts_again():
    model = tiny(encoder_blocks=7, decoder_blocks=4, max_dilation=4)
    assert [block.convolution.dilation for block in model.encoder] == [1, 2, 4, 1, 2, 4, 1]
    assert [block.convolution.dilation for block in model.decoder] == [1, 2, 4, 1]


@pytest.mark.parametrize(
    ("stretch", "extra", "wanted"), [(1.2, 0, (12, 6)), (1.0, 0, (10, 5)), (1.5, 3, (18, 11))]
)
def test_unfolds_over_as_many_columns_as_it_is_told(stretch, extra, wanted):
    memory = tiny(stretch=stretch, extra=extra).encode(SOURCE)
    assert memory.states.shape == (B, wanted[0], D)
    assert tuple(memory.mask.sum(1).tolist()) == wanted
    assert (memory.states[~memory.mask] == 0).all()
    assert (memory.states[memory.mask] != 0).any(-1).all()


def test_a_row_is_unfolded_like_the_rectangle_it_fills():
    model = tiny(stretch=1.1, encoder_blocks=1)
    for length in range(1, 41):
        source = Padded(torch.zeros(1, length, dtype=torch.long), torch.ones(1, length).bool())
        assert model.encode(source).mask.all()


def test_the_state_does_not_grow():
    model = tiny()
    state = model.start(model.encode(SOURCE)).reorder(torch.zeros(B, 3, dtype=torch.long))

    def size(state):
        return [x.shape for x in (*state.hidden_states, state.columns)]

    wanted = size(state)
    assert [shape[2] for shape in wanted[:-1]] == [2, 4, 2]
    for column in TARGET.ids.split(1, dim=1):
        _, state = model.step(column.expand(-1, 3), state)
        assert size(state) == wanted


def test_branching_moves_the_windows():
    model = tiny()
    state = model.start(model.encode(SOURCE)).reorder(torch.zeros(B, 3, dtype=torch.long))
    _, state = model.step(TARGET.ids[:, :3], state)
    parents = torch.tensor([[2, 2], [0, 1]])
    for old, new in zip(state.hidden_states, state.reorder(parents).hidden_states, strict=True):
        assert torch.equal(new, gather_parents(old, parents))


def test_the_papers_size():
    """The paper gives no count; 60 blocks of 7 d² weights, d = 800, are nearly all of it."""
    d, source, target = 800, 300, 320
    with torch.device("meta"):
        model = ByteNet(load_recipe("bytenet-paper").model, source, target)
    blocks = 60 * (7 * d * d + 4 * d + 2 * (2 * d + d + d))
    tokens = (source + target) * 2 * d
    joined, finished, spoken = (4 * d + 1) * 2 * d, (2 * d + 1) * 2 * d, (2 * d + 1) * target
    norms = 2 * 2 * 2 * d
    found = sum(p.numel() for p in model.parameters())
    assert found == blocks + tokens + joined + finished + spoken + norms == 278_569_920


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"width": 7}, "blocks halve the width, which must be even, got 7"),
        ({"max_dilation": 6}, "max_dilation must be a power of two, got 6"),
        ({"stretch": 0.9}, "greater than or equal to 1"),
        ({"stretch": float("inf")}, "finite number"),
        ({"kernel": 1}, "greater than or equal to 2"),
    ],
)
def test_sizes_that_do_not_fit(given, message):
    with pytest.raises(ValidationError, match=message):
        ByteNetSettings(**given)
