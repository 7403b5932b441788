"""Each kernel compiled for a GPU with the arguments of a launch, for which no GPU is needed.

Triton's interpreter, in which the other tests of this folder run, forgives what a compiler does
not, and knows nothing of registers.
"""

import re
import subprocess
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F

from regard.kernels import cross_entropy, varlen_attention
from regard.kernels.beam_update import (
    BeamUpdateConfig,
    Continuations,
    FinishedHypotheses,
    LiveHypotheses,
    update_beam,
)
from regard.kernels.column_sum import TWO_PASS_ROWS, column_sums
from regard.kernels.decode_attention import decode_attention
from regard.kernels.dispatch import have_triton, interpreted
from regard.kernels.fused_add_norm import LayerNormParams, add_norm, add_norm_with_sum
from regard.kernels.fused_linear_relu import linear_relu
from regard.kernels.topk_logits import TokenRules, topk_continuations
from regard.kernels.varlen_attention import PackedRows, TilePlan, attend_varlen

H, D, V = 2, 512, 8000
HALF = torch.bfloat16
SHARED = 227 * 1024
"""Bytes of shared memory that one program can have on a Hopper GPU."""
SPILLED = 128
"""Bytes of one thread's numbers that may find no register: more would be felt."""


def why_not():
    """What is missing for compiling, if anything is."""
    if interpreted():
        return "Triton's interpreter stands in the place of its compiler"
    if not have_triton():
        return "triton is not installed (it is for Linux alone)"
    from triton import knobs

    try:
        assert knobs.nvidia.ptxas.path
        assert knobs.nvidia.cuobjdump.path
    except RuntimeError as error:
        return f"triton came without NVIDIA's assembler: {error}"
    return ""


pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


class Hopper:
    """All of a driver that a compiler asks for."""

    def get_current_device(self):
        return -1  # nobody's: what is compiled here is launched nowhere

    def get_current_stream(self, _):
        return 0

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)


class Built(NamedTuple):
    """A kernel, and what it takes on a GPU."""

    name: str
    code: object
    registers: int  # of one thread
    spilled: int  # bytes of one thread's
    shared: int  # bytes of one program


@pytest.fixture
def built(monkeypatch, tmp_path):
    """The kernels that were launched meanwhile: each was compiled, and none was run."""
    from triton.runtime import JITFunction, driver

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(driver, "_active", Hopper())
    compile_or_run, found = JITFunction.run, []

    def compile_only(kernel, *values, grid, warmup, **named):
        assert all(isinstance(size, int) for size in grid)
        code = compile_or_run(kernel, *values, grid=grid, warmup=True, **named)
        found.append(Built(kernel.__name__, code, *resources(code, tmp_path / "kernel.cubin")))

    monkeypatch.setattr(JITFunction, "run", compile_only)
    return found


def resources(code, file):
    """Registers, spilled bytes and shared bytes."""
    from triton import knobs

    file.write_bytes(code.asm["cubin"])
    command = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", str(file)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    registers, spilled = re.search(r"REG:(\d+) STACK:(\d+)", said).groups()
    return int(registers), int(spilled), code.metadata.shared


def rows(lengths):
    """Where sentences of these lengths lie."""
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]  # (B, S)
    offsets = F.pad(mask.sum(1).cumsum(0), (1, 0)).to(torch.int32)
    return PackedRows(offsets, mask.flatten().nonzero().squeeze(1), max(lengths))


def leaf(*shape, dtype=HALF):
    return torch.zeros(shape, dtype=dtype, requires_grad=True)


def attend(lengths, *, width=64, causal=True, dropout=0.1):
    """Launch forward and backward."""
    part, where = leaf(sum(lengths), 3, H, width), rows(lengths)
    attend_varlen([part], where, where, causal=causal, scale=0.1, dropout=dropout).sum().backward()


def fits(built, names):
    assert [one.name for one in built] == names
    for one in built:
        assert one.shared <= SHARED, one
        assert one.spilled <= SPILLED, one


@pytest.mark.parametrize("width", [64, 128])
def test_attention(width, built):
    attend([4, 1, 7], width=width)
    fits(built, ["forward", "backward_whole"])


def test_attention_with_kernels_apart(built, monkeypatch):
    monkeypatch.setitem(varlen_attention.TILE_PLANS, 64, TilePlan(whole=None))
    attend([4, 1, 7], causal=False, dropout=0.0)
    fits(built, ["forward", "backward_queries", "backward_keys"])


def test_norm(built):
    x, y, norm = (
        leaf(12, D),
        leaf(12, D),
        LayerNormParams(*(leaf(D, dtype=torch.float32) for _ in range(2))),
    )
    how = {"bias": leaf(D, dtype=torch.float32), "dropout": 0.1}
    add_norm(x, y, norm, **how).sum().backward()
    added, normed = add_norm_with_sum(x, y, norm, **how)
    (added + normed).sum().backward()
    fits(built, ["forward", "backward", "sum_rows"] * 2)


def test_bend(built):
    linear_relu(leaf(12, D), leaf(4 * D, D), leaf(4 * D)).sum().backward()
    fits(built, ["backward", "sum_rows"])


def test_sums(built):
    column_sums(leaf(TWO_PASS_ROWS + 1, D))
    fits(built, ["sum_rows"] * 2)


@pytest.mark.parametrize(
    ("size", "name"), [(V, "at_once"), (32_000, "at_once"), (50_000, "in_parts")]
)
def test_loss(size, name, built):
    cross_entropy._kernel(torch.zeros(2, size, dtype=HALF), torch.zeros(2, dtype=torch.int64), 0.1)
    fits(built, [name])


def look(queries, keys, dtype, width=64):
    """Launch a step's attention."""
    kv = [torch.zeros(3, H, keys + 7, width, dtype=dtype)[:, :, :keys] for _ in range(2)]
    hidden = torch.zeros(3, 1, queries, keys, dtype=dtype)
    decode_attention(torch.zeros(3, H, queries, width, dtype=dtype), *kv, hidden, scale=0.1)


@pytest.mark.parametrize("dtype", [torch.float32, HALF])
@pytest.mark.parametrize("width", [64, 128])
def test_glance(dtype, width, built):
    for keys in (12, 30, 100):
        look(5, keys, dtype, width)
    fits(built, ["decode_attention"] * 3)


SAYABLE = TokenRules((0, 2), eos=3, floor=-1e4, banned_keep_mass=True)


@pytest.mark.parametrize("dtype", [torch.float32, HALF])
@pytest.mark.parametrize("size", [V, 32_000])
def test_choice(dtype, size, built):
    topk_continuations(torch.zeros(3, 5, size, dtype=dtype), torch.zeros(3, 5), 10, SAYABLE)
    fits(built, ["skim", "choose"])


def move(length, *, greedy=False):
    """Launch what follows a choice."""
    cells, ways, places = (1, 1, 1) if greedy else (5, 10, 5)
    whole, real = torch.zeros(3, ways, dtype=torch.int64), torch.zeros(3, ways)
    grid = LiveHypotheses(
        torch.zeros(3, cells, length + 1, dtype=torch.int64), whole[:, 0], real[:, 0]
    )
    texts = torch.zeros(3, places, length, dtype=torch.int64)
    known = FinishedHypotheses(real[:, :places], real[:, :places], texts, real[:, :places] == 0)
    ways = Continuations(real, whole, None if greedy else whole)
    update_beam(
        ways,
        grid,
        known,
        known.ended[:, 0],
        BeamUpdateConfig(cells, 1, "size", 0.3, eos=3, filler=0),
    )


def test_choice_of_other_batches_is_not_compiled_again(built):
    for sentences in (1, 2, 3, 16):
        topk_continuations(torch.zeros(sentences, 5, V), torch.zeros(sentences, 5), 10, SAYABLE)
    assert len({id(one.code) for one in built}) == 2


@pytest.mark.parametrize("greedy", [False, True])
def test_onward(greedy, built):
    for length in (2, 7, 16, 64):
        move(length, greedy=greedy)
    fits(built, ["go_on"] * 4)
    assert len({id(one.code) for one in built}) == 1


def test_a_longer_past_is_not_compiled_for_again(built):
    for keys in (33, 48, 64, 65, 70, 128, 257):
        look(5, keys, torch.float32)
    assert len({id(one.code) for one in built}) == 1


def test_other_batches_do_not_compile_again(built):
    norm = LayerNormParams(*(leaf(D, dtype=torch.float32) for _ in range(2)))
    for lengths in ([4, 1, 7], [16, 16], [1], [2] * 300):
        attend(lengths)
        num = sum(lengths)
        add_norm(leaf(num, D), leaf(num, D), norm, dropout=0.1).sum().backward()
        linear_relu(leaf(num, D), leaf(4 * D, D), leaf(4 * D)).sum().backward()
        cross_entropy._kernel(
            torch.zeros(num, V, dtype=HALF), torch.zeros(num, dtype=torch.int64), 0.1
        )
        column_sums(leaf(num, D))
    assert len(built) == 4 * 9
    assert len({id(one.code) for one in built}) == 9
