import pytest
import torch

from regard.attention.cpu_bmm import PaddedIndex, pad_to_register
from regard.attention.varlen import (
    PackedLayout,
    VarlenArgs,
    attend_packed,
    cpu_bmm_attention,
    padded_attention,
)

H, K = 3, 8
SCALE = K**-0.5
SOURCES, TARGETS = [2, 6, 5], [4, 1, 3]
FEW = [1, 4]


def layout(lengths):
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]  # (B, S)
    return PackedLayout.of(mask, mask.flatten().nonzero().squeeze(1))


def some(lengths, seed, dtype):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(sum(lengths), H, K, generator=generator, dtype=torch.float64)
    return x.to(dtype).requires_grad_()


CASES = [(TARGETS, TARGETS, True), (SOURCES, SOURCES, False), (TARGETS, SOURCES, False)]


@pytest.mark.parametrize(("targets", "sources", "causal"), CASES, ids=["own", "both", "cross"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_equals_the_padded_way(targets, sources, causal, dtype):
    given = some(targets, 0, dtype), some(sources, 1, dtype), some(sources, 2, dtype)
    layouts = layout(targets), layout(sources)
    found = cpu_bmm_attention(*given, VarlenArgs(*layouts, causal=causal, scale=SCALE))
    exact = [x.detach().double().requires_grad_() for x in given]
    wanted = padded_attention(*exact, VarlenArgs(*layouts, causal=causal, scale=SCALE))
    rough = {"rtol": 0.02, "atol": 0.06} if dtype == torch.bfloat16 else {}
    torch.testing.assert_close(found, wanted.to(dtype), **rough)
    grads = torch.autograd.grad(wanted.sin().sum(), exact)
    torch.testing.assert_close(
        torch.autograd.grad(found.sin().sum(), given), tuple(x.to(dtype) for x in grads), **rough
    )


@pytest.mark.parametrize("causal", [True, False])
def test_slopes_are_right_with_dropout(causal):
    """The same draws each time, so that the slopes can be tried out."""
    given, at = [some(FEW, seed, torch.float64) for seed in range(3)], layout(FEW)

    def attend(*packed):
        torch.manual_seed(4)
        return cpu_bmm_attention(
            *packed, VarlenArgs(at, at, causal=causal, scale=SCALE, dropout=0.4)
        )

    assert (
        attend(*given) != cpu_bmm_attention(*given, VarlenArgs(at, at, causal=causal, scale=SCALE))
    ).any()
    assert torch.autograd.gradcheck(attend, given)


def test_is_taken_for_short_sentences_on_a_cpu(monkeypatch):
    given, at = [some(SOURCES, seed, torch.bfloat16) for seed in range(3)], layout(SOURCES)
    wanted = cpu_bmm_attention(*given, VarlenArgs(at, at, causal=False, scale=SCALE))
    assert torch.equal(attend_packed(*given, VarlenArgs(at, at, causal=False, scale=SCALE)), wanted)
    monkeypatch.setattr("regard.attention.varlen.CPU_BMM_MAX_LENGTH", 5)
    padded = padded_attention(*given, VarlenArgs(at, at, causal=False, scale=SCALE))
    assert torch.equal(attend_packed(*given, VarlenArgs(at, at, causal=False, scale=SCALE)), padded)


def test_a_sentence_of_no_tokens_spoils_nothing():
    mask = torch.tensor([[True, True], [False, False]])
    at = PackedLayout.of(mask, torch.arange(2))
    x = some([2], 0, torch.float32)
    mixed = cpu_bmm_attention(x, x, x, VarlenArgs(at, at, causal=False, scale=SCALE))
    mixed.sum().backward()
    assert mixed.isfinite().all()
    assert x.grad.isfinite().all()


def test_a_grid_spreads_sentences_and_gathers_them_again():
    at = layout(TARGETS)
    grid, x = (
        PaddedIndex.of(at.cu_seqlens, at.positions(), 6),
        some(TARGETS, 0, torch.float64).detach(),
    )
    to_padded = grid.to_zero_padded(x)  # (B * H, 6, K)
    assert to_padded.shape == (3 * H, 6, K)
    torch.testing.assert_close(to_padded.view(3, H, 6, K)[0, :, :4].transpose(0, 1), x[:4])
    assert (to_padded.view(3, H, 6, K)[1, :, 1:] == 0).all()
    torch.testing.assert_close(grid.to_packed(to_padded), x)
    torch.testing.assert_close(grid.to_packed(grid.to_padded(x)), x)


def test_rows_fill_registers_of_512_bits():
    assert pad_to_register(26, torch.bfloat16) == 32
    assert pad_to_register(33, torch.float32) == 48
    assert pad_to_register(16, torch.float32) == 16
