from functools import partial

import pytest
import torch

from regard.models.translation.deep_att import DeepAtt, DeepAttSettings
from regard.models.translation.gnmt import Gnmt, GnmtSettings
from regard.models.translation.moe import Moe, MoeSettings
from regard.types import Padded

B, D, L = 2, 4, 4
SOURCE = Padded(torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.ones(B, 3, dtype=torch.bool))
SIZES = {"decoder_layers": L, "width": D, "alignment": 3}
MODELS = {
    "gnmt": lambda: Gnmt(GnmtSettings(**SIZES, embedding=5), 7, 7),
    "deep-att": lambda: DeepAtt(DeepAttSettings(**SIZES, embedding=5, memory=6), 7, 7),
    "moe": lambda: Moe(MoeSettings(**SIZES, experts={"count": 4}, units=10), 7, 7),
}
H, C = 0.0, 0.5
"""What is added to a layer's number in its h, and in its c."""


def numbered(widths, number, rows):
    """A blank state that tells whose it is."""
    return tuple(
        torch.full((rows, width), number + kind) for width, kind in zip(widths, (H, C), strict=True)
    )


@pytest.mark.parametrize("name", sorted(MODELS))
def test_each_layer_is_given_its_own_cells(name, monkeypatch):
    model, given = MODELS[name]().eval(), {}
    above = model.decoder if name == "moe" else model.decoder.layers
    layers = [model.bottom.layer, *above]
    for number, layer in enumerate(layers):
        widths, step = (layer.width, layer.units), layer.step

        def watched(x, hidden, number=number, step=step):
            given[number] = [float(h.mean()) for h in hidden]
            return step(x, hidden)

        monkeypatch.setattr(layer, "zero_state", partial(numbered, widths, number))
        monkeypatch.setattr(layer, "step", watched)
    state = model.start(model.encode(SOURCE))
    laid = [float(cell.mean()) for cell in state.hidden_states]
    assert laid == [0, C, 1, 2, 3, 1 + C, 2 + C, 3 + C]  # the bottom; then all of h, then all of c
    _, after = model.step(torch.ones(B, 1, dtype=torch.long), state)
    assert given == {number: [number + H, number + C] for number in range(L)}
    assert [h.shape for h in after.hidden_states] == [h.shape for h in state.hidden_states]
