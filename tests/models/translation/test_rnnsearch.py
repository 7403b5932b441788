import torch

from regard.models.translation.rnnsearch import RnnSearch, RnnSearchSettings
from regard.types import Padded

B, S, T, D, E, A, R = 2, 5, 3, 8, 6, 7, 4


def test_is_the_papers_equations():
    torch.manual_seed(0)
    settings = RnnSearchSettings(width=D, embedding=E, alignment=A, readout=R)
    model = RnnSearch(settings, 11, 13).double().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(std=0.5)
    source = Padded(torch.randint(11, (B, S)), torch.arange(S) < torch.tensor([[5], [3]]))
    ids = torch.randint(13, (B, T))
    found = model(source, Padded(ids, torch.ones_like(ids, dtype=torch.bool)))
    memory = model.encode(source)
    for b, length in enumerate((5, 3)):
        h = memory.states[b, :length]  # (S, 2 D)
        s = torch.tanh(model.initial(h[0, D:]))  # the backward half at the first word
        for i in range(T):
            y = model.target.weight[ids[b, i]]
            energies = (
                torch.tanh(model.score.query(s) + model.score.key(h))
                @ (model.score.energy.weight[0])
            )
            c = energies.softmax(0) @ h
            t = model.readout(torch.cat([s, y, c])).view(R, 2).max(-1).values
            torch.testing.assert_close(found[b, i], model.output(t))
            s = model.decoder.layers[0].step(torch.cat([y, c])[None], (s[None],))[0][0]


def test_memory_is_both_directions_side_by_side():
    settings = RnnSearchSettings(width=D, embedding=E, alignment=A, readout=R)
    model = RnnSearch(settings, 11, 13)
    source = Padded(torch.randint(11, (B, S)), torch.ones(B, S, dtype=torch.bool))
    memory = model.encode(source)
    assert memory.states.shape == (B, S, 2 * D)
    assert memory.extras[0].shape == (B, D)
