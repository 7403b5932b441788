"""Each kernel is compiled for a GPU with the arguments of a launch; no GPU is needed.

Triton's interpreter, in which the other tests of this folder run, accepts what its compiler does
not, and does not know when a kernel is compiled again.
"""

from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F

from regard.kernels.beam_update import BeamUpdateConfig, Candidates, NBest, update_beam
from regard.kernels.cross_entropy import cross_entropy_and_grad_
from regard.kernels.decode_attention import decode_attention
from regard.kernels.dispatch import have_triton, interpreted
from regard.kernels.fused_add_norm import (
    LayerNormParams,
    add_norm,
    add_norm_with_sum,
    layer_norm,
)
from regard.kernels.fused_linear import fused_linear
from regard.kernels.topk_logits import TokenRules, topk_continuations
from regard.kernels.varlen_attention import PackedRows, attend_varlen
from regard.kernels.window_attention import attend_windows
from regard.types import PictureWindows

H, D, V = 2, 512, 8000
HALF = torch.bfloat16
RULES = TokenRules((0, 2), eos=3, floor=-1e4, banned_keep_mass=True)


def missing():
    """What is missing for compiling, if anything is."""
    if interpreted():
        return "Triton's interpreter replaces its compiler"
    if not have_triton():
        return "triton is not installed (it is for Linux alone)"
    from triton import knobs

    try:
        assert knobs.nvidia.ptxas.path
    except RuntimeError as error:
        return f"triton came without NVIDIA's assembler: {error}"
    return ""


pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


class Hopper:
    """The part of a driver that the compiler asks for."""

    def get_current_device(self):
        return -1

    def get_current_stream(self, _):
        return 0

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)


class Compiled(NamedTuple):
    name: str
    code: object


@pytest.fixture
def compiled(monkeypatch, tmp_path):
    """The kernels launched by a test: each is compiled, and none is run."""
    from triton.runtime import JITFunction, driver

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(driver, "_active", Hopper())
    compile_or_run, kernels = JITFunction.run, []

    def compile_only(kernel, *values, grid, warmup, **named):
        assert all(isinstance(size, int) for size in grid)
        code = compile_or_run(kernel, *values, grid=grid, warmup=True, **named)
        kernels.append(Compiled(kernel.__name__, code))

    monkeypatch.setattr(JITFunction, "run", compile_only)
    return kernels


def names(compiled):
    return [kernel.name for kernel in compiled]


def versions(compiled):
    return len({id(kernel.code) for kernel in compiled})


def packed_rows(lengths):
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]  # (B, S)
    offsets = F.pad(mask.sum(1).cumsum(0), (1, 0)).to(torch.int32)
    return PackedRows(offsets, mask.flatten().nonzero().squeeze(1), max(lengths))


def leaf(*shape, dtype=HALF):
    return torch.zeros(shape, dtype=dtype, requires_grad=True)


def norm_params():
    return LayerNormParams(*(leaf(D, dtype=torch.float32) for _ in range(2)))


def attend(lengths, *, width=64):
    """Launch forward and backward."""
    part, rows = leaf(sum(lengths), 3, H, width), packed_rows(lengths)
    attend_varlen([part], rows, rows, causal=True, scale=0.1, dropout=0.1).sum().backward()


@pytest.mark.parametrize("width", [64, 128])
def test_varlen_attention_compiles(width, compiled):
    attend([4, 1, 7], width=width)
    assert names(compiled) == ["forward", "backward"]


def attend_pictures(pictures, windows, *, width=32):
    """Launch forward and backward."""
    places, patches = windows.size**2, windows.rows * windows.columns
    bias = leaf(places, places, H, dtype=torch.float32).permute(2, 0, 1)
    attend_windows(leaf(pictures, patches, 3, H, width), bias, windows, scale=0.1).sum().backward()


@pytest.mark.parametrize(
    ("windows", "width"),
    [
        (PictureWindows(16, 16, 4), 32),  # of recipe cifar10-swin
        (PictureWindows(16, 16, 4, 2), 32),
        (PictureWindows(4, 4, 4), 32),
        (PictureWindows(56, 56, 7), 32),  # of Swin-T
        (PictureWindows(56, 56, 7, 3), 32),
        (PictureWindows(24, 16, 8, 4), 128),  # the largest tiles
        (PictureWindows(10, 10, 5, 2), 24),
    ],
)
def test_window_attention_compiles(windows, width, compiled):
    attend_pictures(3, windows, width=width)
    assert names(compiled) == ["forward", "backward"]


def test_add_norm_compiles(compiled):
    x, y, norm = leaf(12, D), leaf(12, D), norm_params()
    options = {"bias": leaf(D, dtype=torch.float32), "dropout": 0.1}
    add_norm(x, y, norm, **options).sum().backward()
    added, normed = add_norm_with_sum(x, y, norm, **options)
    (added + normed).sum().backward()
    assert names(compiled) == ["forward", "backward"] * 2


@pytest.mark.parametrize("width", [96, 1536])  # of patches, and of four merged ones
def test_a_norm_alone_compiles(width, compiled):
    norm = LayerNormParams(leaf(width, dtype=torch.float32), leaf(width, dtype=torch.float32))
    layer_norm(leaf(12, width, dtype=torch.float32), norm, HALF).sum().backward()
    assert names(compiled) == ["forward", "backward"]


def test_add_norm_with_scales_compiles(compiled):
    x, y, scales = leaf(12, D, dtype=torch.float32), leaf(12, D), torch.ones(12)
    added, normed = add_norm_with_sum(x, y, norm_params(), bias=leaf(D), scales=scales)
    (added + normed).sum().backward()
    assert names(compiled) == ["forward", "backward"]


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_linear_layers_with_activations_compile(activation, compiled):
    fused_linear(leaf(12, D), leaf(4 * D, D), leaf(4 * D), activation).sum().backward()
    assert names(compiled) == ["backward"]


@pytest.mark.parametrize(
    ("size", "name"), [(V, "whole_row"), (32_000, "whole_row"), (50_000, "row_in_blocks")]
)
def test_cross_entropy_compiles(size, name, compiled):
    logits, labels = torch.zeros(2, size, dtype=HALF), torch.zeros(2, dtype=torch.int64)
    cross_entropy_and_grad_(logits, labels, 0.1)
    assert names(compiled) == [name]


def decode(queries, keys, dtype, width=64):
    """Launch the attention of a search step."""
    kv = [torch.zeros(3, H, keys + 7, width, dtype=dtype)[:, :, :keys] for _ in range(2)]
    mask_bias = torch.zeros(3, 1, queries, keys, dtype=dtype)
    decode_attention(torch.zeros(3, H, queries, width, dtype=dtype), *kv, mask_bias, scale=0.1)


@pytest.mark.parametrize(("dtype", "width"), [(HALF, 64), (torch.float32, 128)])
def test_decode_attention_compiles(dtype, width, compiled):
    decode(5, 30, dtype, width)
    assert names(compiled) == ["decode_attention"]


def test_topk_logits_compiles(compiled):
    topk_continuations(torch.zeros(3, 5, 32_000, dtype=HALF), torch.zeros(3, 5), 10, RULES)
    assert names(compiled) == ["chunk_maxima", "rank_chunks"]


def update(length, *, greedy=False):
    """Launch the update of a beam."""
    width, candidates, capacity = (1, 1, 1) if greedy else (5, 10, 5)
    tokens, scores = torch.zeros(3, candidates, dtype=torch.int64), torch.zeros(3, candidates)
    live = torch.zeros(3, width, length + 1, dtype=torch.int64), tokens[:, 0], scores[:, 0]
    texts = torch.zeros(3, capacity, length, dtype=torch.int64)
    best = scores[:, :capacity]
    finished = NBest(best, best, texts, best == 0)
    config = BeamUpdateConfig(width, 1, "size", 0.3, eos=3, pad=0)
    parents = None if greedy else tokens
    update_beam(Candidates(scores, tokens, parents), live, finished, finished.ended[:, 0], config)


@pytest.mark.parametrize("greedy", [False, True])
def test_beam_update_is_compiled_once_for_all_lengths(greedy, compiled):
    for length in (2, 7, 16, 64):
        update(length, greedy=greedy)
    assert names(compiled) == ["update_beam"] * 4
    assert versions(compiled) == 1


def test_topk_logits_is_compiled_once_for_all_batch_sizes(compiled):
    for sentences in (1, 2, 3, 16):
        topk_continuations(torch.zeros(sentences, 5, V), torch.zeros(sentences, 5), 10, RULES)
    assert versions(compiled) == 2


def test_decode_attention_is_compiled_once_for_all_lengths(compiled):
    for keys in (33, 48, 64, 65, 70, 128, 257):
        decode(5, keys, torch.float32)
    assert versions(compiled) == 1


def test_kernels_of_training_are_compiled_once_for_all_batches(compiled):
    norm = norm_params()
    for lengths in ([4, 1, 7], [16, 16], [1], [2] * 300):
        attend(lengths)
        num = sum(lengths)
        add_norm(leaf(num, D), leaf(num, D), norm, dropout=0.1).sum().backward()
        layer_norm(leaf(num, D), norm, HALF).sum().backward()
        fused_linear(leaf(num, D), leaf(4 * D, D), leaf(4 * D), "relu").sum().backward()
        logits, labels = torch.zeros(num, V, dtype=HALF), torch.zeros(num, dtype=torch.int64)
        cross_entropy_and_grad_(logits, labels, 0.1)
        attend_pictures(len(lengths), PictureWindows(4, 4, 4))
    assert versions(compiled) == len(compiled) // 4 == 10
