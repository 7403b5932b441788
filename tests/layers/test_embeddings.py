import torch

from regard.layers.embeddings import OneHot, build_embedding


def test_one_hot():
    ids = torch.tensor([[2, 0], [1, 2]])
    one_hot = build_embedding(3, 0)
    assert isinstance(one_hot, OneHot)
    assert torch.equal(one_hot(ids), torch.eye(3)[ids])
    assert not list(one_hot.parameters())


def test_learned_vectors():
    embedding = build_embedding(7, 16)
    assert embedding(torch.zeros(2, 3, dtype=torch.long)).shape == (2, 3, 16)
