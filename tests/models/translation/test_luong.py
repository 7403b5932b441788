import pytest
import torch
from pydantic import ValidationError

from regard.attention.score_functions import AdditiveScore, DotScore, MultiplicativeScore
from regard.models.translation.luong import Luong, LuongSettings
from regard.types import Padded, Site

B, S, T, D, E = 2, 9, 4, 8, 6
LENGTHS = (9, 5)
SOURCE = Padded(
    torch.arange(B * S).view(B, S) % 11, torch.arange(S) < torch.tensor(LENGTHS)[:, None]
)
TARGET = Padded(torch.arange(B * T).view(B, T) % 13, torch.ones(B, T, dtype=torch.bool))


def tiny(**given):
    torch.manual_seed(0)
    settings = LuongSettings(**({"width": D, "embedding": E, "layers": 1} | given))
    model = Luong(settings, 11, 13).double().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(std=0.5)
    return model


@pytest.mark.parametrize("fed", [True, False])
def test_is_the_papers_equations(fed):
    model = tiny(score="general", input_feeding=fed)
    found, memory = model(SOURCE, TARGET), model.encode(SOURCE)
    for b, length in enumerate(LENGTHS):
        states = memory.states[b, :length]  # (S, D)
        hidden = tuple(h[b, None] for h in memory.extras)
        attended = torch.zeros(D, dtype=torch.float64)
        for t in range(T):
            y = model.target.weight[TARGET.ids[b, t]]
            hidden = model.decoder.layers[0].step(
                torch.cat([y, attended] if fed else [y])[None], hidden
            )
            h = hidden[0][0]
            c = (h @ model.score.turn.weight @ states.T).softmax(0) @ states
            attended = torch.tanh(model.combine.weight @ torch.cat([c, h]))
            torch.testing.assert_close(found[b, t], model.output(attended))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("dot", DotScore), ("general", MultiplicativeScore), ("concat", AdditiveScore)],
)
def test_the_papers_names_of_scores(name, kind):
    assert type(tiny(score=name).score) is kind


def recorded(model):
    seen = []
    model(SOURCE, TARGET, hook=lambda site, w: seen.append((site, w)) or w)
    return seen


def test_all_at_once_without_feeding_one_by_one_with():
    assert [site for site, _ in recorded(tiny(input_feeding=False))] == [Site("cross", 0)]
    assert [site for site, _ in recorded(tiny())] == [Site("cross", 0, t) for t in range(T)]


def test_local_m_looks_near_its_own_position():
    [(_, weights)] = recorded(tiny(attention="local-m", reach=2, input_feeding=False))
    far = (torch.arange(S) - torch.arange(T)[:, None]).abs() > 2
    assert (weights[0, 0][far] == 0).all()
    assert (weights[0, 0][~far] > 0).all()


def test_local_p_weighs_by_a_gaussian():
    model = tiny(attention="local-p", reach=2, input_feeding=False)
    [(_, weights)] = recorded(model)
    memory = model.encode(SOURCE)
    hidden = model.decoder(model.target(TARGET.ids), memory.extras)
    view = model.window(hidden, torch.arange(T), SOURCE.mask)
    scores = model.score(hidden[:, None], model.score.prepare(memory.states)[:, None])
    product = scores.exp() * view.bias.exp() * view.mask
    torch.testing.assert_close(weights, product / product.sum(-1, keepdim=True))


def test_reading_both_ways_keeps_the_width():
    memory = tiny(reading="both").encode(SOURCE)
    assert memory.states.shape == (B, S, D)


def test_a_window_reaches_ten_words_unless_told():
    settings = LuongSettings(attention="local-p")
    assert settings.reach == 10
    assert LuongSettings(**settings.model_dump()) == settings
    assert LuongSettings(attention="local-m", reach=3).reach == 3
    assert LuongSettings().reach is None


def test_a_reach_without_effect_is_refused():
    with pytest.raises(ValidationError, match="reach 5 has no effect on global attention"):
        LuongSettings(reach=5)


def test_both_ways_need_an_even_width():
    with pytest.raises(ValidationError, match="even width, got 7"):
        LuongSettings(width=7, reading="both")
