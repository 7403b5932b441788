import pytest
import torch

from regard.errors import RunError
from regard.training.checkpoints import save_weights
from regard.training.weight_average import MovingAverage, average_weights


def test_average_is_the_mean(tmp_path):
    tensors = [torch.randn(2, 3) for _ in range(3)]
    paths = [tmp_path / f"{n}.safetensors" for n in range(3)]
    for path, tensor in zip(paths, tensors, strict=True):
        save_weights(path, {"w": tensor})
    torch.testing.assert_close(average_weights(paths)["w"], torch.stack(tensors).mean(0))


def test_one_alone_comes_back_bit_for_bit(tmp_path):
    tensor = torch.randn(5)
    save_weights(tmp_path / "a.safetensors", {"w": tensor})
    assert torch.equal(average_weights([tmp_path / "a.safetensors"])["w"], tensor)


def test_unlike_models_are_refused(tmp_path):
    for name, size in (("a", 2), ("b", 3)):
        save_weights(tmp_path / f"{name}.safetensors", {"w": torch.zeros(size)})
    with pytest.raises(RunError, match=r"b\.safetensors: its weights have other names or shapes"):
        average_weights([tmp_path / "a.safetensors", tmp_path / "b.safetensors"])


def test_nothing_to_average():
    with pytest.raises(RunError, match="at least one"):
        average_weights([])


def test_moving_average_forgets_its_start():
    average = MovingAverage([torch.zeros(1)], 0.9)
    for step in range(1, 200):
        average.update([torch.ones(1)], step)
    torch.testing.assert_close(average.shadow[0], torch.ones(1))


def test_moving_average_is_the_formula_once_warm():
    average = MovingAverage([torch.zeros(1)], 0.9)
    average.update([torch.ones(1)], 10**6)
    torch.testing.assert_close(average.shadow[0], torch.tensor([0.1]))
