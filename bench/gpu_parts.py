"""Attention of packed sentences on a GPU beside torch's, and the ceilings of the machine.

Every function is a stage of `train_gpu`: it yields records, each as soon as it is known.
"""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.paper import BASE, TOKENS
from bench.stages import Records
from bench.synthetic_batches import LONGEST, MEAN, SPREAD
from regard.kernels.varlen_attention import PackedRows, attend_varlen

CUDA = torch.device("cuda")
HEADS, HEAD_WIDTH = BASE.heads, BASE.width // BASE.heads
KINDS = {"causal": (True, False), "full": (False, False), "cross": (False, True)}
"""Whether it is causal, and whether keys are those of other sentences."""


def milliseconds(work: Callable[[], Any]) -> float:
    """The median of the runs of `work` that fit into some sixty milliseconds."""
    from triton.testing import do_bench

    return float(do_bench(work, warmup=15, rep=60, return_mode="median"))


def lengths(tokens: int, *, alike: bool) -> list[int]:
    """Sentences of WMT's lengths, `tokens` in all; `alike`: as in a batch of like lengths."""
    spread = 0.05 if alike else SPREAD
    draws = torch.randn(tokens // 4, generator=torch.Generator().manual_seed(1)) * spread
    sizes = (torch.log(torch.tensor(MEAN)) - spread**2 / 2 + draws).exp().round().clamp(2, LONGEST)
    count = int((sizes.cumsum(0) <= tokens).sum())
    return [int(size) for size in sizes[:count]]


def packed_rows(sizes: list[int]) -> PackedRows:
    mask = torch.arange(max(sizes)) < torch.tensor(sizes)[:, None]  # (B, S)
    offsets = F.pad(mask.sum(1).cumsum(0), (1, 0)).to(torch.int32)
    indices = mask.flatten().nonzero().squeeze(1)
    return PackedRows(offsets.to(CUDA), indices.to(CUDA), max(sizes))


def leaves(tensors: list[Tensor]) -> list[Tensor]:
    return [x.detach().to(torch.bfloat16).requires_grad_() for x in tensors]


class AttentionCase:
    """The inputs of one attention."""

    def __init__(self, kind: str, *, alike: bool) -> None:
        self.causal, cross = KINDS[kind]
        targets = lengths(TOKENS, alike=alike)
        sources = [max(1, size + 3 - 7 * (at % 2)) for at, size in enumerate(targets)]
        self.queries, self.keys = packed_rows(targets), packed_rows(sources if cross else targets)
        sizes = [(sum(targets), 1), (sum(sources), 2)] if cross else [(sum(targets), 3)]
        self.parts = leaves(
            [torch.randn(*size, HEADS, HEAD_WIDTH, device=CUDA) for size in sizes]
        )  # (., P, H, K)

    def run(self, dropout: float = 0.0) -> Tensor:
        numbers = {"scale": HEAD_WIDTH**-0.5, "dropout": dropout}
        return attend_varlen(self.parts, self.queries, self.keys, causal=self.causal, **numbers)


def attention() -> Records:
    """Ours beside torch's flash attention of packed sentences, and its attention of padded ones."""
    for kind, alike in itertools.product(KINDS, (False, True)):
        case = AttentionCase(kind, alike=alike)
        contenders: list[tuple[str, Callable[[], Tensor], list[Tensor]]] = [
            ("ours", case.run, case.parts),
            ("ours, dropout", partial(case.run, 0.1), case.parts),
            *_torch_attention(case),
        ]
        for name, run, inputs in contenders:
            record = {"kind": kind, "alike": alike, "who": name}
            try:
                yield {**record, **_forward_and_backward(run, inputs)}
            except Exception as error:
                yield {**record, "failed": str(error)[:300]}


def _forward_and_backward(run: Callable[[], Tensor], inputs: list[Tensor]) -> dict[str, float]:
    with torch.no_grad():
        forward = milliseconds(run)
    output = run()
    backward = partial(
        torch.autograd.grad, output, inputs, torch.randn_like(output), retain_graph=True
    )
    return {"forward_ms": forward, "backward_ms": milliseconds(backward)}


def _torch_attention(
    case: AttentionCase,
) -> Iterator[tuple[str, Callable[[], Tensor], list[Tensor]]]:
    flat = leaves([x.contiguous() for part in case.parts for x in part.unbind(1)])

    def flash() -> Tensor:
        offsets = case.queries.offsets, case.keys.offsets
        sizes = case.queries.max_length, case.keys.max_length
        forward = torch.ops.aten._flash_attention_forward
        output: Tensor = forward(*flat, *offsets, *sizes, 0.0, case.causal, False)[0]
        return output

    yield "flash, packed", flash, flat
    rectangles = []
    for x, rows in zip(flat, (case.queries, case.keys, case.keys), strict=True):
        blank = x.new_zeros((len(rows.offsets) - 1) * rows.max_length, *x.shape[1:])
        blank[rows.indices] = x.detach()
        rectangles.append(blank.view(-1, rows.max_length, *x.shape[1:]).requires_grad_())
    length = case.keys.max_length
    mask = (torch.arange(length, device=CUDA) < case.keys.offsets.diff()[:, None])[:, None, None]
    if case.causal:
        mask = torch.ones(1, 1, length, length, device=CUDA).tril().bool()

    def padded() -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in rectangles)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    yield "scaled_dot_product_attention, padded", padded, rectangles


def ceilings() -> Records:
    """What the machine can do: a product of large bfloat16 matrices, and a copy."""
    a, b = (torch.randn(8192, 8192, device=CUDA, dtype=torch.bfloat16) for _ in range(2))
    tflops = 2 * 8192**3 / milliseconds(partial(torch.mm, a, b)) / 1e9
    source, to = (torch.randn(1 << 29, device=CUDA, dtype=torch.bfloat16) for _ in range(2))
    terabytes = 2 * 2 * source.numel() / milliseconds(partial(to.copy_, source)) / 1e9
    name = torch.cuda.get_device_name()
    yield {"device": name, "torch": torch.__version__, "tflops": tflops, "terabytes": terabytes}
