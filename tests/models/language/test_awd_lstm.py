import torch
from torch import nn

from regard.models.language.awd_lstm import AwdLstm, AwdLstmSettings
from regard.types import Padded

B, T, V = 3, 5, 13


def model(**given):
    torch.manual_seed(1)
    plain = AwdLstmSettings(width=6, units=8, layers=3, **given)
    return AwdLstm(plain, V).double()


def tokens(rows=B, length=T):
    ids = torch.randint(4, V, (rows, length), generator=torch.Generator().manual_seed(2))
    return Padded(ids, torch.ones_like(ids, dtype=torch.bool))


def part(padded, columns):
    return Padded(padded.ids[:, columns], padded.mask[:, columns])


def test_it_is_as_large_as_the_paper_says():
    parameters = sum(p.numel() for p in AwdLstm(AwdLstmSettings(), 10_000).parameters())
    assert parameters == 10_000 * 401 + sum(
        4 * out * (inputs + out + 1) for inputs, out in ((400, 1150), (1150, 1150), (1150, 400))
    )
    assert round(parameters / 1e6) == 24


def test_it_equals_torch_layers_on_tied_weights():
    network, given = model().eval(), tokens()
    x = nn.functional.embedding(given.ids, network.embedding.weight)
    for layer in network.layers:
        plain = nn.LSTM(x.shape[-1], layer.width, batch_first=True).double()
        with torch.no_grad():
            plain.weight_ih_l0.copy_(layer.weight_ih)
            plain.weight_hh_l0.copy_(layer.weight_hh)
            plain.bias_ih_l0.copy_(layer.bias)
            plain.bias_hh_l0.zero_()
        x = plain(x)[0]
    wanted = x @ network.embedding.weight.T + network.output_bias
    torch.testing.assert_close(network(part(given, slice(0)), given), wanted)


def test_a_text_read_in_parts_is_read_as_in_one_piece():
    network, given = model().eval(), tokens(length=9)
    whole, end = network.read_on(given, network.blank_memory(B))
    memory, parts = network.blank_memory(B), []
    for columns in (slice(0, 2), slice(2, 3), slice(3, 9)):
        features, memory = network.read_on(part(given, columns), memory)
        parts.append(features.features)
    torch.testing.assert_close(torch.cat(parts, 1), whole.features)
    torch.testing.assert_close(memory.hidden, end.hidden)
    torch.testing.assert_close(memory.cells, end.cells)


def test_prompts_of_unlike_length_are_each_read_to_their_end():
    network, prompt = model().eval(), tokens(length=4)
    lengths = torch.tensor([0, 4, 2])
    mask = torch.arange(4) < lengths[:, None]
    memory = network.encode(Padded(prompt.ids, mask))
    for row, length in enumerate(lengths.tolist()):
        alone = network.encode(
            part(Padded(prompt.ids[row : row + 1], mask[row : row + 1]), slice(length))
        )
        torch.testing.assert_close(memory.hidden[row], alone.hidden[0])
        torch.testing.assert_close(memory.cells[row], alone.cells[0])
    assert not memory.hidden[0].any()


def test_the_weights_of_the_state_are_dropped_in_training_alone():
    network, given = model(weight_drop=0.5).train(), tokens()
    for dropout in (network.input_dropout, network.hidden_dropout, network.output_dropout):
        dropout.p = 0.0
    network.embedding.dropout.p = 0.0
    blank = network.blank_memory(B)
    one, other = (network.read_on(given, blank)[0].features for _ in range(2))
    assert not torch.equal(one, other)
    first, second = (network.read_on(part(given, slice(1)), blank)[0].features for _ in range(2))
    torch.testing.assert_close(first, second)  # nothing comes from the state yet
    network.eval()
    torch.testing.assert_close(network.decode(given, blank), network.decode(given, blank))


def test_penalties_are_the_mean_squares_of_outputs_and_of_their_changes():
    none = {f"{name}_dropout": 0.0 for name in ("embedding", "input", "hidden", "output")}
    network = model(activation_penalty=3.0, change_penalty=5.0, weight_drop=0.0, **none).train()
    features, _, penalty = network.decode(tokens(), network.blank_memory(B))
    changes = features[:, 1:] - features[:, :-1]
    wanted = 3 * features.square().mean() + 5 * changes.square().mean()
    torch.testing.assert_close(penalty, wanted)
    assert network.eval().decode(tokens(), network.blank_memory(B)).penalty is None
