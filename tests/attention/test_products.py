import pytest
import torch

from regard.attention.packed import Layout, Pairing, attend_packed, by_padding, by_products
from regard.attention.products import Grid, roomy

H, K = 3, 8
FACTOR = K**-0.5
SOURCES, TARGETS = [2, 6, 5], [4, 1, 3]
FEW = [1, 4]


def layout(lengths):
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]  # (B, S)
    return Layout.of(mask, mask.flatten().nonzero().squeeze(1))


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
    found = by_products(*given, Pairing(*layouts, causal=causal, factor=FACTOR))
    exact = [x.detach().double().requires_grad_() for x in given]
    wanted = by_padding(*exact, Pairing(*layouts, causal=causal, factor=FACTOR))
    rough = {"rtol": 0.02, "atol": 0.06} if dtype == torch.bfloat16 else {}
    torch.testing.assert_close(found, wanted.to(dtype), **rough)
    slopes = torch.autograd.grad(wanted.sin().sum(), exact)
    torch.testing.assert_close(
        torch.autograd.grad(found.sin().sum(), given), tuple(x.to(dtype) for x in slopes), **rough
    )


@pytest.mark.parametrize("causal", [True, False])
def test_slopes_are_right_with_dropout(causal):
    """The same draws each time, so that the slopes can be tried out."""
    given, at = [some(FEW, seed, torch.float64) for seed in range(3)], layout(FEW)

    def attend(*packed):
        torch.manual_seed(4)
        return by_products(*packed, Pairing(at, at, causal=causal, factor=FACTOR, dropout=0.4))

    assert (
        attend(*given) != by_products(*given, Pairing(at, at, causal=causal, factor=FACTOR))
    ).any()
    assert torch.autograd.gradcheck(attend, given)


def test_is_taken_for_short_sentences_on_a_cpu(monkeypatch):
    given, at = [some(SOURCES, seed, torch.bfloat16) for seed in range(3)], layout(SOURCES)
    wanted = by_products(*given, Pairing(at, at, causal=False, factor=FACTOR))
    assert torch.equal(attend_packed(*given, Pairing(at, at, causal=False, factor=FACTOR)), wanted)
    monkeypatch.setattr("regard.attention.packed.LONGEST", 5)
    padded = by_padding(*given, Pairing(at, at, causal=False, factor=FACTOR))
    assert torch.equal(attend_packed(*given, Pairing(at, at, causal=False, factor=FACTOR)), padded)


def test_a_sentence_of_no_tokens_spoils_nothing():
    mask = torch.tensor([[True, True], [False, False]])
    at = Layout.of(mask, torch.arange(2))
    x = some([2], 0, torch.float32)
    mixed = by_products(x, x, x, Pairing(at, at, causal=False, factor=FACTOR))
    mixed.sum().backward()
    assert mixed.isfinite().all()
    assert x.grad.isfinite().all()


def test_a_grid_spreads_sentences_and_gathers_them_again():
    at = layout(TARGETS)
    grid, x = Grid.of(at.offsets, at.positions(), 6), some(TARGETS, 0, torch.float64).detach()
    spread = grid.spread_zeros(x)  # (B * H, 6, K)
    assert spread.shape == (3 * H, 6, K)
    torch.testing.assert_close(spread.view(3, H, 6, K)[0, :, :4].transpose(0, 1), x[:4])
    assert (spread.view(3, H, 6, K)[1, :, 1:] == 0).all()
    torch.testing.assert_close(grid.gather(spread), x)
    torch.testing.assert_close(grid.gather(grid.spread(x)), x)


def test_rows_fill_registers_of_512_bits():
    assert roomy(26, torch.bfloat16) == 32
    assert roomy(33, torch.float32) == 48
    assert roomy(16, torch.float32) == 16
