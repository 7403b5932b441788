import torch

from regard.attention.masks import causal_mask, padding_mask, window_mask


def test_padding_mask_shows_the_real_keys_to_every_query():
    real = torch.tensor([[True, True, False], [True, False, False]])
    mask = padding_mask(real)
    assert mask.shape == (2, 1, 1, 3)
    assert torch.equal(mask[:, 0, 0], real)


def test_causal_mask_hides_the_future():
    assert causal_mask(3, 3)[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_causal_mask_lets_late_queries_see_what_was_there_before():
    mask = causal_mask(2, 5)
    assert mask.shape == (1, 1, 2, 5)
    assert mask[0, 0].int().tolist() == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


def test_window_mask_reaches_to_either_side_and_ends_with_the_keys():
    mask = window_mask(torch.tensor([[0, 3], [2, 9]]), keys=6, reach=1)
    assert mask.shape == (2, 2, 6)
    assert mask.int().tolist() == [
        [[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 0]],
        [[0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0]],
    ]


def test_window_mask_takes_centres_between_keys():
    assert window_mask(torch.tensor([1.5]), keys=4, reach=1).int().tolist() == [[0, 1, 1, 0]]
