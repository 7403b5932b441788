import math

import pytest
import torch

from regard.layers.embeddings import OneHot, TiedEmbeddings, build_embedding

B, T, D, SOURCE, TARGET = 2, 3, 16, 7, 9


@pytest.mark.parametrize(
    ("tying", "names"),
    [
        ("shared", ["source"]),
        ("target", ["source", "target"]),
        ("separate", ["source", "target", "output"]),
    ],
)
def test_a_matrix_is_one_parameter_under_one_name(tying, names):
    size = TARGET if tying == "shared" else SOURCE
    embeddings = TiedEmbeddings(size, TARGET, D, tying)
    assert list(embeddings.state_dict()) == names


@pytest.mark.parametrize(
    ("tying", "source", "target", "output"),
    [
        ("shared", "source", "source", "source"),
        ("target", "source", "target", "target"),
        ("separate", "source", "target", "output"),
    ],
)
def test_each_role_uses_its_matrix(tying, source, target, output):
    embeddings = TiedEmbeddings(TARGET, TARGET, D, tying)
    matrices = embeddings.state_dict()
    ids, features = torch.randint(TARGET, (B, T)), torch.randn(B, T, D)
    torch.testing.assert_close(embeddings.of_source(ids), matrices[source][ids] * math.sqrt(D))
    torch.testing.assert_close(embeddings.of_target(ids), matrices[target][ids] * math.sqrt(D))
    torch.testing.assert_close(embeddings.logits(features), features @ matrices[output].T)


def test_scaled_vectors_have_unit_variance():
    torch.manual_seed(0)
    embeddings = TiedEmbeddings(400, 400, 64, "shared")
    assert abs(embeddings.of_source(torch.arange(400)).std() - 1) < 0.05


def test_shared_needs_one_size():
    with pytest.raises(ValueError, match="one vocabulary, got source_size=7 and target_size=9"):
        TiedEmbeddings(SOURCE, TARGET, D, "shared")


def test_one_hot():
    ids = torch.tensor([[2, 0], [1, 2]])
    one_hot = build_embedding(3, 0)
    assert isinstance(one_hot, OneHot)
    assert torch.equal(one_hot(ids), torch.eye(3)[ids])
    assert not list(one_hot.parameters())


def test_learned_vectors():
    embedding = build_embedding(SOURCE, D)
    assert embedding(torch.zeros(B, T, dtype=torch.long)).shape == (B, T, D)
