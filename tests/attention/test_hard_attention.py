import torch

from regard.attention.hard_attention import draw_key, most_likely_key


def test_keys_are_drawn_as_often_as_they_weigh():
    torch.manual_seed(1)
    weights = torch.tensor([0.1, 0.6, 0.0, 0.3]).expand(1, 1, 20_000, 4)
    drawn = draw_key(weights, torch.tensor([False]))
    assert (drawn.weights.sum(-1) == 1).all()
    torch.testing.assert_close(drawn.weights.mean((0, 1, 2)), weights[0, 0, 0], atol=0.02, rtol=0)
    wanted = (drawn.weights * weights).sum(-1).log()
    torch.testing.assert_close(drawn.log_probability, wanted)
    entropy = torch.distributions.Categorical(weights[0, 0, 0]).entropy()
    torch.testing.assert_close(drawn.entropy, entropy.expand(1, 1, 20_000))


def test_where_the_expected_value_stands_in_nothing_was_drawn():
    weights = torch.rand(2, 1, 3, 5, requires_grad=True).softmax(-1)
    drawn = draw_key(weights, torch.tensor([True, False]))
    assert torch.equal(drawn.weights[0], weights[0])
    assert (drawn.log_probability[0] == 0).all()
    assert (drawn.weights[1].amax(-1) == 1).all()
    assert (drawn.log_probability[1] < 0).all()


def test_the_likeliest_key_takes_all():
    weights = torch.tensor([[[[0.2, 0.5, 0.3], [0.9, 0.0, 0.1]]]])
    wanted = [[[[0, 1, 0], [1, 0, 0]]]]
    assert most_likely_key(weights).tolist() == wanted
