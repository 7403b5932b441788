import pytest
import torch

from regard.attention.attend import KeyValues, attend
from regard.attention.block_local import SlidingWindow, merge_blocks, split_blocks
from regard.attention.positions import RelativeKeys, relative_positions
from regard.attention.score_functions import ScaledDotScore
from regard.types import Site

B, H, K, KV = 3, 2, 8, 6
HERE = Site("encoder", 0)
SPANS = [
    SlidingWindow(3, 3),
    SlidingWindow(4, 0),
    SlidingWindow(2, 3),
    SlidingWindow(0, 2),
    SlidingWindow(1, 0),
    SlidingWindow(30, 30),
]
LENGTHS = [1, 2, 4, 7, 12, 13, 24]


def some(length, dtype):
    torch.manual_seed(0)
    queries, keys = (torch.randn(B, H, length, K, dtype=dtype) for _ in range(2))
    values = torch.randn(B, H, length, KV, dtype=dtype)
    real = torch.arange(length) < torch.tensor([length, length // 2 + 1, 1])[:, None]  # (B, T)
    return queries, KeyValues(keys, values), real[:, None, None]


def masked(queries, kv, real, span, relative):
    """What the blocks must give, by all scores and a mask."""
    length = queries.shape[2]
    distances = relative_positions(length, length, device=queries.device)
    bias = None if relative is None else relative(queries, distances)
    return attend(
        ScaledDotScore(), queries, kv, real & span.allows(distances), site=HERE, bias=bias
    )


def in_blocks(queries, kv, real, span, relative):
    blocks = split_blocks(queries, kv, real, span)
    bias = None if relative is None else relative(blocks.queries, blocks.relative_positions)
    mixed = attend(ScaledDotScore(), blocks.queries, blocks.kv, blocks.mask, site=HERE, bias=bias)
    return merge_blocks(mixed, len(queries), queries.shape[2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("length", LENGTHS)
def test_blocks_equal_the_masked_whole_in_values_and_gradients(length, span, biased, dtype):
    queries, kv, real = some(length, dtype)
    relative = RelativeKeys(K, back=2, ahead=1).to(dtype) if biased else None
    parts = [x.requires_grad_() for x in (queries, *kv)]
    wanted = masked(queries, kv, real, span, relative)
    found = in_blocks(queries, kv, real, span, relative)
    assert found.shape == (B, H, length, KV)
    torch.testing.assert_close(found, wanted)
    pull = torch.randn_like(wanted)
    for one, other in zip(
        torch.autograd.grad(found, parts, pull),
        torch.autograd.grad(wanted, parts, pull),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_a_span_sees_no_further():
    seen = SlidingWindow(2, 1).allows(relative_positions(3, 5, device=torch.device("cpu")))
    assert seen.int().tolist() == [[1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]


@pytest.mark.parametrize(
    ("span", "size", "room"),
    [(SlidingWindow(4, 4), 4, 12), (SlidingWindow(4, 0), 4, 8), (SlidingWindow(1, 3), 3, 9)],
)
def test_a_block_has_room_for_itself_and_its_neighbours(span, size, room):
    assert (span.size, span.num_keys) == (size, room)
    queries, kv, real = some(10, torch.float32)
    blocks, count = split_blocks(queries, kv, real, span), -(-10 // size)
    assert blocks.queries.shape == (B * count, H, size, K)
    assert blocks.kv.keys.shape == (B * count, H, room, K)
    assert blocks.kv.values.shape == (B * count, H, room, KV)
    assert blocks.mask.shape == (B * count, 1, size, room)


def test_one_mask_serves_all_sentences():
    queries, kv, _ = some(10, torch.float32)
    every = torch.ones(1, 1, 1, 10, dtype=torch.bool)
    found = in_blocks(queries, kv, every, SlidingWindow(2, 0), None)
    torch.testing.assert_close(found, masked(queries, kv, every, SlidingWindow(2, 0), None))
