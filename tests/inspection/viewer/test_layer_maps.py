import base64

import pytest
import torch

from regard.attention.attend import causal_mask, masked_softmax
from regard.inspection.viewer.layer_maps import encode_layer
from regard.types import ScoreInputs

H, T, S, K = 2, 40, 50, 4


def unpack(text, dtype, *shape):
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=dtype).view(shape)


def stored(layer):
    """The weights that a page would draw."""
    heads, rows, columns = layer["shape"]
    levels = unpack(layer["weights"], torch.uint8, heads, rows, -1) / 255
    weights = levels * unpack(layer["peaks"], torch.float32, heads, rows, 1)
    if layer["seen"] is None:
        return weights
    seen = unpack(layer["seen"], torch.uint16, rows, -1).long().expand(heads, -1, -1)
    return torch.zeros(heads, rows, columns).scatter(-1, seen, weights)


def inputs(rows=T, columns=S, bias=None, mask=None):
    torch.manual_seed(1)
    full = torch.ones(1, 1, columns, dtype=torch.bool)
    mask = full if mask is None else mask
    return ScoreInputs(torch.randn(H, rows, K), torch.randn(H, columns, K), mask, bias, 0.5)


def weights_of(one):
    scores = one.queries @ one.keys.mT * one.scale + (0 if one.bias is None else one.bias)
    return masked_softmax(scores, one.mask)


def test_stored_weights_keep_their_shape_however_small():
    torch.manual_seed(1)
    weights = torch.randn(H, T, S).softmax(-1)
    weights[0, 0] = 1 / S
    weights[1, 1] = torch.tensor([float("nan"), 0.5, *[0.0] * (S - 2)])
    again = stored(encode_layer(weights, None))
    assert again[0, 0].unique().tolist() == pytest.approx([1 / S])
    assert again[1, 1, :2].tolist() == [0, 0.5]
    torch.testing.assert_close(again, weights.nan_to_num(), atol=0.5 / 255, rtol=0)


@pytest.mark.parametrize("causal", [False, True])
def test_weights_are_left_to_the_page_where_queries_and_keys_give_them(causal):
    one = inputs(T, T, mask=causal_mask(T, T)[0] if causal else None)
    layer = encode_layer(weights_of(one), one)
    assert (layer["weights"], layer["peaks"], layer["causal"]) == (None, None, causal)
    queries = unpack(layer["queries"], torch.float16, H, T, K)
    torch.testing.assert_close(queries, one.queries.half())
    assert (layer["scale"], layer["bias"]) == (0.5, None)


def test_weights_are_stored_where_queries_and_keys_alone_do_not_give_them():
    window = torch.rand(1, T, S) > 0.2
    for one in (inputs(bias=torch.randn(H, T, S)), inputs(mask=window)):
        weights = weights_of(one)
        layer = encode_layer(weights, one)
        torch.testing.assert_close(stored(layer), weights, atol=0.5 / 255, rtol=0)
        assert layer["queries"] is not None
    silenced = weights_of(inputs()).index_fill(0, torch.tensor([1]), 0)
    assert encode_layer(silenced, inputs())["weights"] is not None


def test_rows_that_see_few_columns_name_these():
    mask = torch.arange(S) // 10 == torch.arange(T)[:, None] // 10
    bias = torch.randn(H, T, S)
    one = inputs(mask=mask[None], bias=bias)
    weights = weights_of(one)
    layer = encode_layer(weights, one)
    assert unpack(layer["seen"], torch.uint16, T, 10)[11].tolist() == list(range(10, 20))
    torch.testing.assert_close(stored(layer), weights, atol=0.5 / 255, rtol=0)
    kept = unpack(layer["bias"], torch.float16, H, T, 10)
    torch.testing.assert_close(kept[1, 11], bias[1, 11, 10:20].half())
