"""What each kernel of `regard.kernels` takes on a GPU beside what torch has for it.

Every function is a stage of `train_gpu`: it yields facts, each at once when it is known.
"""

import itertools
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.paper import BASE, TOKENS
from bench.stages import Records
from bench.synthetic_batches import LONGEST, MEAN, SPREAD
from regard.kernels import column_sum, fused_add_norm, fused_linear_relu, varlen_attention
from regard.kernels import cross_entropy as losses
from regard.kernels.fused_add_norm import (
    LayerNormParams,
    add_norm,
    add_norm_with_sum,
    plain_add_norm_with_sum,
)
from regard.kernels.fused_linear_relu import linear_relu, plain_linear_relu
from regard.kernels.varlen_attention import (
    PackedRows,
    TilePlan,
    Tiles,
    attend_varlen,
    plain_attend_varlen,
)

CUDA = torch.device("cuda")
HEADS, WIDTH, VOCABULARY = BASE.heads, BASE.width, BASE.vocabulary
HEAD = WIDTH // HEADS
ROWS, WORKERS = 3001, 8
BYTES = 4.3e9
"""That an H200 reads or writes in a millisecond: to move what is moved takes no less."""
KINDS = {"causal": (True, False), "full": (False, False), "cross": (False, True)}
FORWARD = [
    Tiles(64, 32, 4),
    Tiles(64, 32, 4, 2),
    Tiles(64, 64, 4, 2),
    Tiles(64, 16, 4),
    Tiles(32, 32, 4),
    Tiles(128, 32, 8),
]
WHOLE = [
    Tiles(128, 128, 8, 1, 96),
    Tiles(128, 128, 8, 1, 112),
    Tiles(128, 64, 8, 1, 48),
    Tiles(64, 64, 4, 1, 48, 168),
    Tiles(64, 64, 4, 1, 32, 168),
    Tiles(32, 64, 4, 1, 32),
    Tiles(32, 64, 4, 1, 48),
    Tiles(32, 32, 4, 1, 32),
]
"""Those that were quick on an H200, and their neighbours."""
USUAL = varlen_attention.TILE_PLANS[HEAD]
LENGTHS = (14.0, 29.0, 58.0)
"""Mean tokens of the sentences of a batch: those of one are alike, those of many are not."""


def milliseconds(work: Callable[[], Any]) -> float:
    """The median of some fifty milliseconds of it."""
    from triton.testing import do_bench

    return float(do_bench(work, warmup=15, rep=60, return_mode="median"))


def lengths(tokens: int, *, alike: bool, mean: float = MEAN) -> list[int]:
    """Sentences of WMT's lengths, `tokens` in all; `alike`: as in a batch of like lengths."""
    generator = torch.Generator().manual_seed(1)
    spread = 0.05 if alike else SPREAD
    draws = torch.randn(tokens // 4, generator=generator) * spread
    sizes = (torch.log(torch.tensor(mean)) - spread**2 / 2 + draws).exp().round().clamp(2, LONGEST)
    count = int((sizes.cumsum(0) <= tokens).sum())
    return [int(size) for size in sizes[:count]]


def rows_of(sizes: list[int]) -> PackedRows:
    """Where sentences of these lengths lie."""
    mask = torch.arange(max(sizes)) < torch.tensor(sizes)[:, None]
    offsets = F.pad(mask.sum(1).cumsum(0), (1, 0)).to(torch.int32)
    places = mask.flatten().nonzero().squeeze(1)
    return PackedRows(offsets.to(CUDA), places.to(CUDA), max(sizes))


class AttentionCase:
    """Inputs of one attention, with slopes to come back."""

    def __init__(
        self, kind: str, tokens: int, *, head: int = HEAD, alike: bool = False, mean: float = MEAN
    ) -> None:
        self.causal, cross = KINDS[kind]
        ours = lengths(tokens, alike=alike, mean=mean)
        theirs = [max(1, size + 3 - 7 * (at % 2)) for at, size in enumerate(ours)]
        self.queries, self.keys = rows_of(ours), rows_of(theirs if cross else ours)
        sizes = [(sum(ours), 1), (sum(theirs), 2)] if cross else [(sum(ours), 3)]
        self.parts = [torch.randn(*size, HEADS, head, device=CUDA) for size in sizes]
        self.grad = torch.randn(sum(ours), HEADS, head, device=CUDA)
        self.scale = head**-0.5

    def run(self, parts: list[Tensor], dropout: float = 0.0) -> Tensor:
        how = {"causal": self.causal, "scale": self.scale, "dropout": dropout}
        return attend_varlen(parts, self.queries, self.keys, **how)

    def both(self, parts: list[Tensor], dropout: float = 0.0) -> list[Tensor]:
        """What is found, and the slopes of the parts."""
        found = self.run(parts, dropout)
        return [found, *torch.autograd.grad(found, parts, self.grad.to(found.dtype))]

    def formula(self, parts: list[Tensor], dropout: float, seed: Tensor) -> list[Tensor]:
        how = {"causal": self.causal, "scale": self.scale, "dropout": dropout, "seed": seed}
        found = plain_attend_varlen(parts, self.queries, self.keys, **how)
        return [found, *torch.autograd.grad(found, parts, self.grad.to(found.dtype))]


def leaves(tensors: list[Tensor], dtype: torch.dtype) -> list[Tensor]:
    return [x.detach().to(dtype).requires_grad_() for x in tensors]


def errors(found: list[Tensor], wanted: list[Tensor]) -> list[float]:
    """How far each is from what it should be, in shares of its norm; NaN counts as infinity."""
    gaps = [
        ((a.double() - b.double()).norm() / b.double().norm()).item()
        for a, b in zip(found, wanted, strict=True)
    ]
    return [gap if gap == gap else float("inf") for gap in gaps]


def check() -> Records:
    """Every kernel against its formula in float64, whatever was not written poisoned with NaN."""
    torch.use_deterministic_algorithms(True, warn_only=True)  # fills new tensors with NaN
    seed = torch.tensor([0x1234_5678_9ABC], device=CUDA)
    for module in (varlen_attention, fused_add_norm):
        module.draw_seed = lambda _: seed  # type: ignore[attr-defined]
    yield from _check_attention(seed)
    yield from _check_norm(seed)
    yield from _check_loss()
    yield from _check_bend()
    yield from _check_sums()


def _check_attention(seed: Tensor) -> Records:
    apart = TilePlan(whole=None)
    usual = itertools.product(KINDS, [(64, torch.bfloat16)], (0.0, 0.2))
    heads = [(head, torch.bfloat16) for head in (32, 48, 128)]
    others = itertools.product(("causal", "cross"), [*heads, (64, torch.float16)], (0.0,))
    for kind, (head, dtype), dropout in itertools.chain(usual, others):
        case = AttentionCase(kind, 2000, head=head)
        parts = leaves(case.parts, dtype)
        wanted = case.formula(leaves(parts, torch.float64), dropout, seed)
        for name, plans in (("whole", {}), ("apart", {varlen_attention.tile_width(head): apart})):
            with mock.patch.dict(varlen_attention.TILE_PLANS, plans):
                gaps = errors(case.both(parts, dropout), wanted)
            what = {"kernel": "attention", "kind": kind, "head": head, "dtype": str(dtype)}
            what |= {"dropout": dropout, "slopes": name}
            yield {**what, "gaps": gaps, "ok": max(gaps) < 1e-2}


def _check_norm(seed: Tensor) -> Records:
    shapes = itertools.product((512, 1024, 384), (torch.float32, torch.bfloat16), (0.0, 0.2))
    for width, stream, dropout in shapes:
        inputs = [torch.randn(ROWS, width, device=CUDA).to(stream)]
        inputs += [torch.randn(ROWS, width, device=CUDA).to(torch.bfloat16)]
        inputs += [torch.randn(width, device=CUDA) for _ in range(3)]
        inputs = [x.requires_grad_() for x in inputs]
        output_grads = [torch.randn(ROWS, width, device=CUDA) for _ in range(2)]
        precise = leaves(inputs, torch.float64)

        def grads(out: tuple[Tensor, ...], given: list[Tensor], ways: list[Tensor]) -> list[Tensor]:
            ways = [way.to(x.dtype) for way, x in zip(ways, out, strict=True)]
            return [*out, *torch.autograd.grad(out, given, ways)]

        x, y, weight, shift, bias = inputs
        px, py, pw, ps, pb = precise
        wanted = plain_add_norm_with_sum(
            px, py, LayerNormParams(pw, ps), bias=pb, dropout=dropout, seed=seed
        )
        pre = add_norm_with_sum(x, y, LayerNormParams(weight, shift), bias=bias, dropout=dropout)
        gaps = errors(grads(pre, inputs, output_grads), grads(wanted, precise, output_grads))
        wanted = plain_add_norm_with_sum(
            px, py, LayerNormParams(pw, ps), bias=pb, dropout=dropout, seed=seed
        )
        post = add_norm(x, y, LayerNormParams(weight, shift), bias=bias, dropout=dropout)
        gaps += errors(
            grads((post,), inputs, output_grads[1:]), grads(wanted[1:], precise, output_grads[1:])
        )
        what = {"kernel": "norm", "width": width, "stream": str(stream), "dropout": dropout}
        yield {**what, "gaps": gaps, "ok": max(gaps) < 1e-2}


def _check_loss() -> Records:
    for size, dtype in itertools.product((VOCABULARY, 8_001), (torch.bfloat16, torch.float16)):
        logits = (3 * torch.randn(257, size, device=CUDA)).to(dtype)
        labels = torch.randint(size, (257,), device=CUDA)
        labels[::10] = losses.IGNORE_INDEX
        precise = logits.double()
        wanted = losses.plain_cross_entropy_and_grad_(precise, labels, 0.1)
        found = losses.cross_entropy_and_grad_(logits, labels, 0.1)
        gaps = errors([*found, logits], [*wanted, precise])
        what = {"kernel": "loss", "size": size, "dtype": str(dtype)}
        yield {**what, "gaps": gaps, "ok": max(gaps) < 1e-2}


def _check_bend() -> Records:
    sizes = [(ROWS, WIDTH), (4 * WIDTH, WIDTH), (4 * WIDTH,)]
    inputs = [torch.randn(size, device=CUDA) / 8 for size in sizes]
    halves = leaves(inputs, torch.bfloat16)
    precise = leaves(halves, torch.float64)
    grad = torch.randn(ROWS, 4 * WIDTH, device=CUDA).to(torch.bfloat16)
    found, wanted = linear_relu(*halves), plain_linear_relu(*precise)
    mine = [found, *torch.autograd.grad(found, halves, grad)]
    gaps = errors(mine, [wanted, *torch.autograd.grad(wanted, precise, grad.double())])
    yield {"kernel": "bend", "gaps": gaps, "ok": max(gaps) < 2e-2}


def _check_sums() -> Records:
    for width, rows in itertools.product((WIDTH, 3 * WIDTH, 100), (7, ROWS, TOKENS)):
        x = torch.randn(rows, width, device=CUDA).to(torch.bfloat16)
        gaps = errors([column_sum.column_sums(x)], [column_sum.plain_column_sums(x.double())])
        yield {"kernel": "sums", "width": width, "rows": rows, "gaps": gaps, "ok": max(gaps) < 1e-4}


def tries() -> list[tuple[TilePlan, bool]]:
    """Plans that differ in one kernel, and whether it is one of the backward pass."""
    found = [(USUAL._replace(forward=tiles), False) for tiles in FORWARD]
    return found + [(USUAL._replace(whole=tiles), True) for tiles in WHOLE]


def warm(number: int) -> None:
    """Compile the kernels of a try, for whoever comes later."""
    varlen_attention.TILE_PLANS[HEAD], backward = tries()[number]
    for kind in ("causal", "full"):
        case = AttentionCase(kind, TOKENS)
        parts = leaves(case.parts, torch.bfloat16)
        if backward:
            case.both(parts)
        else:
            case.run(parts)


def time_plan(plan: TilePlan, cases: list[AttentionCase], *, backward: bool) -> list[float]:
    """Milliseconds of each case."""
    varlen_attention.TILE_PLANS[HEAD] = plan
    times = []
    for case in cases:
        parts = leaves(case.parts, torch.bfloat16)
        if backward:
            found = case.run(parts)
            grad = case.grad.to(found.dtype)
            work = partial(torch.autograd.grad, found, parts, grad, retain_graph=True)
            times.append(milliseconds(work))
            continue
        with torch.no_grad():
            times.append(milliseconds(partial(case.run, parts)))
    return times


def tune(file: Path) -> Records:
    """The quickest tiles for heads of 64, over all kinds of attention; kept in `file`."""
    began = time.perf_counter()
    try:
        with ProcessPoolExecutor(WORKERS, get_context("spawn")) as pool:
            list(pool.map(warm, range(len(tries()))))
    except Exception as error:  # they are compiled below then, one by one
        yield {"not compiled ahead": repr(error)[:300]}
    yield {"compiled in seconds": time.perf_counter() - began}
    cases = [
        AttentionCase(kind, TOKENS, alike=True, mean=mean) for kind in KINDS for mean in LENGTHS
    ]
    quickest: dict[bool, tuple[float, TilePlan]] = {}
    for plan, backward in tries():
        tiles = plan.whole or plan.queries if backward else plan.forward
        what = {"tiles": tiles, "backward": backward, "whole": plan.whole is not None}
        try:
            times = time_plan(plan, cases, backward=backward)
        except Exception as error:
            yield {**what, "failed": repr(error)[:300]}
            continue
        if sum(times) < quickest.get(backward, (float("inf"), plan))[0]:
            quickest[backward] = (sum(times), plan)
        yield {**what, "ms": times, "sum": sum(times)}
    chosen = quickest[True][1]._replace(forward=quickest[False][1].forward)
    file.write_text(json.dumps(chosen))
    yield {"chosen": chosen._asdict()}


def use_plan(file: Path) -> None:
    """Take up what `tune` chose, if it has run."""
    if file.is_file():
        raw = json.loads(file.read_text())
        forward, queries, keys = (Tiles(*one) for one in raw[:3])
        whole = None if raw[3] is None else Tiles(*raw[3])
        varlen_attention.TILE_PLANS[64] = TilePlan(forward, queries, keys, whole)


def time_attention() -> Records:
    """Ours beside torch's flash attention for packed sentences, and its own for padded ones."""
    for kind, alike in itertools.product(KINDS, (False, True)):
        case = AttentionCase(kind, TOKENS, alike=alike)
        parts = leaves(case.parts, torch.bfloat16)
        moved = 2 * sum(part.numel() for part in parts) + 2 * case.grad.numel()
        what = {"kind": kind, "alike": alike, "floor_ms": moved / BYTES}
        ways: list[tuple[str, Callable[[], Tensor], list[Tensor]]] = [
            ("ours", partial(case.run, parts), parts),
            ("ours, dropout", partial(case.run, parts, 0.1), parts),
            *_torchs(case),
        ]
        for name, run, given in ways:
            try:
                yield {**what, "who": name, **_both_ways(run, given, case.grad)}
            except Exception as error:
                yield {**what, "who": name, "failed": str(error)[:300]}


def _both_ways(run: Callable[[], Tensor], given: list[Tensor], grad: Tensor) -> dict[str, float]:
    with torch.no_grad():
        forward = milliseconds(run)
    found = run()
    grad = grad.to(found.dtype) if grad.shape == found.shape else torch.randn_like(found)
    back = partial(torch.autograd.grad, found, given, grad, retain_graph=True)
    return {"forward_ms": forward, "backward_ms": milliseconds(back)}


def _torchs(case: AttentionCase) -> Iterator[tuple[str, Callable[[], Tensor], list[Tensor]]]:
    flat = leaves([x.contiguous() for x in varlen_attention.split_qkv(case.parts)], torch.bfloat16)

    def varlen() -> Tensor:
        offsets = case.queries.offsets, case.keys.offsets
        sizes = case.queries.longest, case.keys.longest
        flash = torch.ops.aten._flash_attention_forward
        found: Tensor = flash(*flat, *offsets, *sizes, 0.0, case.causal, False)[0]
        return found

    yield "flash, packed", varlen, flat
    rectangles = []
    for x, rows in zip(flat, (case.queries, case.keys, case.keys), strict=True):
        blank = x.new_zeros((len(rows.offsets) - 1) * rows.longest, *x.shape[1:])
        blank[rows.indices] = x.detach()
        rectangles.append(blank.view(-1, rows.longest, *x.shape[1:]).requires_grad_())
    sizes = case.keys.offsets.diff()
    mask = (torch.arange(case.keys.longest, device=CUDA) < sizes[:, None])[:, None, None]
    if case.causal:
        mask = torch.ones(1, 1, case.keys.longest, case.keys.longest, device=CUDA).tril().bool()

    def padded() -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in rectangles)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    yield "scaled_dot_product_attention, padded", padded, rectangles


def time_norm() -> Records:
    """norm(x + dropout(y)) of 25,000 rows: ours, eager and compiled."""
    x, y = (torch.randn(TOKENS, WIDTH, device=CUDA, dtype=torch.bfloat16) for _ in range(2))
    weight, shift = torch.ones(WIDTH, device=CUDA), torch.zeros(WIDTH, device=CUDA)
    given = [z.requires_grad_() for z in (x, y, weight, shift)]
    grad = torch.randn_like(x)

    def eager() -> Tensor:
        added = x + F.dropout(y, 0.1)
        return F.layer_norm(added, (WIDTH,), weight.to(added), shift.to(added))

    def ours() -> Tensor:
        return add_norm(x, y, LayerNormParams(weight, shift), dropout=0.1)

    floor = {
        "floor_forward_ms": 3 * 2 * x.numel() / BYTES,
        "floor_backward_ms": 10 * x.numel() / BYTES,
    }
    for name, run in (("eager", eager), ("compiled", torch.compile(eager))):
        yield {"who": name, **floor, **_both_ways(run, given, grad)}
    sizes = (1024, 2), (1024, 4), (2048, 4), (2048, 8), (4096, 8)  # others spill registers
    for (cells, warps), programs in itertools.product(sizes, (264, 528, 1056)):
        fused_add_norm.tiles = fused_add_norm.Tiles(cells, warps, programs)
        yield {"who": "ours", "tiles": list(fused_add_norm.tiles), **_both_ways(ours, given, grad)}


def time_bend() -> Records:
    """max(0, x Wᵀ + b) of 25,000 rows, 512 to 2,048: ours and eager."""
    sizes = [(TOKENS, WIDTH), (4 * WIDTH, WIDTH), (4 * WIDTH,)]
    given = leaves([torch.randn(size, device=CUDA) / 8 for size in sizes], torch.bfloat16)
    grad = torch.randn(TOKENS, 4 * WIDTH, device=CUDA)
    eager = _both_ways(partial(plain_linear_relu, *given), given, grad)
    yield {"who": "eager", **eager}
    for rows, cols, programs in itertools.product((8, 16, 32), (128, 256), (33, 66, 132)):
        fused_linear_relu.tiles = fused_linear_relu.Tiles(rows, cols, 4, programs)
        ours = _both_ways(partial(linear_relu, *given), given, grad)
        yield {"who": "ours", "tiles": list(fused_linear_relu.tiles), **ours}


def time_sums() -> Records:
    """The sum of 25,000 rows, as wide as queries, keys and values: ours and torch's."""
    x = torch.randn(TOKENS, 3 * WIDTH, device=CUDA, dtype=torch.bfloat16)
    spent = milliseconds(partial(column_sum.plain_column_sums, x))
    yield {"who": "torch", "ms": spent, "floor_ms": 2 * x.numel() / BYTES}
    for rows, cols, programs in itertools.product((16, 32, 64), (64, 128), (24, 48, 96)):
        column_sum.first_pass_tiles = column_sum.Tiles(rows, cols, 4, programs)
        spent = milliseconds(partial(column_sum.column_sums, x))
        yield {"who": "ours", "tiles": list(column_sum.first_pass_tiles), "ms": spent}
    few = torch.randn(528, 3 * WIDTH, device=CUDA)
    yield {"who": "torch, few", "ms": milliseconds(partial(column_sum.plain_column_sums, few))}
    for rows, cols, warps in itertools.product((64, 128, 256), (16, 32), (4, 8)):
        column_sum.last_pass_tiles = column_sum.Tiles(rows, cols, warps, 1)
        spent = milliseconds(partial(column_sum.column_sums, few))
        yield {"who": "ours, few", "tiles": list(column_sum.last_pass_tiles), "ms": spent}


def time_loss() -> Records:
    """Loss and slopes of logits that are there, and the whole output layer in chunks."""
    labels = torch.randint(VOCABULARY, (TOKENS,), device=CUDA)
    chunk = torch.randn(4096, VOCABULARY, device=CUDA, dtype=torch.bfloat16)
    moved = 2 * 2 * chunk.numel() / BYTES
    yield {"floor_ms": moved, "rows": len(chunk)}
    tried = [losses.Tiles(each=each) for each in (32, 64, 128)]
    tried += [losses.Tiles(cols, warps, 0) for cols, warps in ((2048, 4), (4096, 4), (4096, 8))]
    for losses.tiles in tried:
        work = partial(losses.cross_entropy_and_grad_, chunk, labels[: len(chunk)], 0.1)
        yield {"who": "ours", "tiles": list(losses.tiles), "ms": milliseconds(work)}
    losses.tiles = losses.Tiles()
    features = torch.randn(TOKENS, WIDTH, device=CUDA, dtype=torch.bfloat16)
    matrix = torch.randn(VOCABULARY, WIDTH, device=CUDA, dtype=torch.bfloat16)
    for rows in (1024, 2048, 4096, 8192, 25_000):
        yield {"who": "output layer in chunks", "rows": rows, "ms": milliseconds(
            partial(_chunks, features, matrix, labels, rows)
        )}  # fmt: skip
    given = [features.requires_grad_(), matrix.requires_grad_()]

    def whole() -> None:
        cost = F.cross_entropy(features @ matrix.T, labels, label_smoothing=0.1)
        torch.autograd.grad(cost, given)

    yield {"who": "torch, at once", "ms": milliseconds(whole)}


def _chunks(features: Tensor, matrix: Tensor, labels: Tensor, rows: int) -> None:
    """Forward and backward of the output layer, as a chunked loss does it."""
    to_features, to_matrix = (
        torch.empty_like(features),
        torch.zeros_like(matrix, dtype=torch.float32),
    )
    for first in range(0, len(features), rows):
        some = slice(first, first + rows)
        logits = features[some] @ matrix.T
        losses.cross_entropy_and_grad_(logits, labels[some], 0.1)
        torch.mm(logits, matrix, out=to_features[some])
        to_matrix += logits.T @ features[some]


def ceilings() -> Records:
    """What the machine can do: a copy and a product of bfloat16 matrices."""
    a, b = (torch.randn(8192, 8192, device=CUDA, dtype=torch.bfloat16) for _ in range(2))
    product = 2 * 8192**3 / milliseconds(partial(torch.mm, a, b)) / 1e9
    from_, to = (torch.randn(1 << 29, device=CUDA, dtype=torch.bfloat16) for _ in range(2))
    copied = 2 * 2 * from_.numel() / milliseconds(partial(to.copy_, from_)) / 1e9
    name = torch.cuda.get_device_name()
    yield {"device": name, "torch": torch.__version__, "tflops": product, "terabytes": copied}
    layer = torch.randn(25_000, 512, device=CUDA, dtype=torch.bfloat16)
    for size in (512, 1536, 2048):
        weight = torch.randn(size, 512, device=CUDA, dtype=torch.bfloat16)
        spent = milliseconds(partial(F.linear, layer, weight))
        yield {"linear": [512, size], "tflops": 2 * 25_000 * 512 * size / spent / 1e9}
