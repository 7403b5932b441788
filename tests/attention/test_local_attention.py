import math

import torch

from regard.attention.local_attention import build_window, window_mask

B, T, S, D, REACH = 2, 3, 9, 4, 2
REAL = torch.arange(S) < torch.tensor([[9], [4]])


def test_global_sees_all_that_is_real():
    view = build_window("global", D, REACH)(torch.randn(B, T, D), torch.arange(T), REAL)
    assert torch.equal(view.mask[:, 0, 0], REAL)
    assert view.bias is None


def test_local_m_is_centred_on_the_targets_own_position():
    positions = torch.tensor([0, 3, 8])
    view = build_window("local-m", D, REACH)(torch.randn(B, T, D), positions, REAL)
    assert view.mask.shape == (B, 1, T, S)
    assert view.mask[0, 0].int().tolist() == [
        [1, 1, 1, 0, 0, 0, 0, 0, 0],
        [0, 1, 1, 1, 1, 1, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 1, 1, 1],
    ]
    # The second source ends at 3: its end stays in view.
    assert view.mask[1, 0, 2].int().tolist() == [0, 1, 1, 1, 0, 0, 0, 0, 0]
    assert view.bias is None


def test_local_p_is_a_gaussian_around_the_place_it_predicts():
    torch.manual_seed(0)
    window = build_window("local-p", D, REACH).double()
    with torch.no_grad():
        window.place.weight.mul_(5)
    queries = torch.randn(B, T, D, dtype=torch.float64)
    view = window(queries, torch.arange(T), REAL)
    assert view.mask.shape == view.bias.shape == (B, 1, T, S)
    w, v = window.hidden.weight, window.place.weight[0]
    for b, length in enumerate([9, 4]):
        for t in range(T):
            centre = length / (1 + math.exp(-(v @ torch.tanh(w @ queries[b, t])).item()))
            for s in range(S):
                near = s < length and abs(s - centre) <= REACH
                assert view.mask[b, 0, t, s].item() == near
                gauss = math.exp(-((s - centre) ** 2) / (2 * (REACH / 2) ** 2))
                assert math.isclose(view.bias[b, 0, t, s].exp().item(), gauss, rel_tol=1e-9)


def test_local_p_keeps_places_apart_in_bfloat16():
    window = build_window("local-p", D, REACH).bfloat16()
    view = window(torch.randn(B, T, D).bfloat16(), torch.arange(T), REAL)
    assert view.bias.dtype == torch.float32


def test_window_mask_reaches_to_either_side_and_ends_with_the_keys():
    mask = window_mask(torch.tensor([[0, 3], [2, 9]]), keys=6, reach=1)
    assert mask.shape == (2, 2, 6)
    assert mask.int().tolist() == [
        [[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 0]],
        [[0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0]],
    ]


def test_window_mask_takes_centres_between_keys():
    assert window_mask(torch.tensor([1.5]), keys=4, reach=1).int().tolist() == [[0, 1, 1, 0]]
