import torch

from regard.layers.variational_dropout import (
    DroppedEmbedding,
    LockedDropout,
    VectorDropout,
)

B, T, D, V = 3, 5, 50, 13


def test_locked_dropout_drops_the_same_units_at_all_positions():
    torch.manual_seed(1)
    layer = LockedDropout(0.5)
    dropped = layer(torch.ones(B, T, D))
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert (dropped == dropped[:, :1]).all()
    assert not (dropped == dropped[:1]).all()
    assert torch.equal(layer.eval()(dropped), dropped)


def test_vector_dropout_drops_whole_vectors():
    torch.manual_seed(1)
    layer = VectorDropout(0.5)
    dropped = layer(torch.ones(B, T, D))
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert (dropped == dropped[..., :1]).all()
    assert torch.equal(layer.eval()(dropped), dropped)


def test_embedding_dropout_drops_tokens_of_the_vocabulary():
    torch.manual_seed(1)
    embedding = DroppedEmbedding(V, 6, dropout=0.5)
    ids = torch.arange(V).repeat(2, 1)
    vectors = embedding(ids)
    torch.testing.assert_close(vectors[0], vectors[1])
    zero = ~vectors[0].any(-1)
    assert 0 < zero.sum() < V
    torch.testing.assert_close(vectors[0][~zero], 2 * embedding.weight[~zero])
    torch.testing.assert_close(embedding.eval()(ids)[0], embedding.weight)
