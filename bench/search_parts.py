"""The stage `parts` of `translate_gpu`: single operations of a step, in several ways."""

import time
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.gpu_search import StageConfig
from bench.peers.training_loop import wait_for_device
from bench.stages import Records
from regard.attention.attend import KeyValues, fused_attention
from regard.kernels import beam_update, decode_attention, topk_logits
from regard.kernels.fused_linear_relu import linear_relu, plain_linear_relu
from regard.text.special_tokens import BOS, EOS, PAD

Ways = dict[str, Callable[[], Any]]

WIDTH, HIDDEN, HEADS, SIZE = 256, 1024, 4, 8000
"""Of the model, and its vocabulary."""
GLANCES = [
    decode_attention.Tiles(),
    decode_attention.Tiles(precision="ieee"),
    decode_attention.Tiles(cols=32),
    decode_attention.Tiles(cols=32, each=2048),
    decode_attention.Tiles(cols=64),
    decode_attention.Tiles(cols=64, each=2048),
    decode_attention.Tiles(each=512),
    decode_attention.Tiles(stages=1),
    decode_attention.Tiles(stages=3),
]
CHOICES = [
    topk_logits.Tiles(),
    topk_logits.Tiles(warps=4),
    topk_logits.Tiles(cols=4096),
    topk_logits.Tiles(cols=2048, warps=4),
    topk_logits.Tiles(each=8),
    topk_logits.Tiles(each=32),
]
ONWARDS = [
    beam_update.Tiles(),
    beam_update.Tiles(warps=1),
    beam_update.Tiles(warps=4),
    beam_update.Tiles(places=16),
]
"""How kernels may cut their work; what they do by default comes first."""


@torch.inference_mode()
def stage(name: str, task: StageConfig) -> Records:
    """How long each operation takes in each way."""
    beam, where = task.asked.beam, task.device
    rows = 4 if where.type == "cpu" else 8192
    yield from _time_all(task, "float32", _rankings(torch.randn(rows, beam * SIZE, device=where)))
    yield from _time_all(task, "float32", _onward_ways(rows, beam, where))
    for dtype in (torch.float32, torch.bfloat16):

        def random(*shape: int, dtype: torch.dtype = dtype) -> Tensor:
            return torch.randn(shape, device=where, dtype=dtype)

        x, logits = random(rows * beam, WIDTH), random(rows, beam, SIZE)
        inner, bias = random(HIDDEN, WIDTH), random(HIDDEN)
        ways: Ways = {
            "logits": partial(F.linear, x, random(SIZE, WIDTH)),
            "log_softmax": partial(F.log_softmax, logits, -1, dtype=torch.float32),
            "relu with its product": partial(linear_relu, x, inner, bias),
            "relu behind it": partial(plain_linear_relu, x, inner, bias),
            **_choices(logits),
            **_attention_ways(random(rows, HEADS, beam, WIDTH // HEADS)),
        }
        yield from _time_all(task, str(dtype), ways)


def _rankings(totals: Tensor) -> Ways:
    """The largest of `totals` (B, K V), by torch."""
    beam = totals.shape[1] // SIZE
    ways: Ways = {
        "topk": partial(torch.topk, totals, 2 * beam),
        "max of each cell": partial(torch.amax, totals.view(-1, beam, SIZE), -1),
    }
    for chunk in (16, 32, 64, 160, 320):
        ways[f"maxima of {chunk}"] = partial(torch.amax, totals.view(len(totals), -1, chunk), -1)
        left = totals[:, : 2 * beam * chunk].clone()
        ways[f"sort {left.shape[1]}"] = partial(torch.sort, left, 1, True)
    return ways


def _choices(logits: Tensor) -> Ways:
    """The best ways by logits (B, K, V), by our kernels."""
    rows, beam, _ = logits.shape
    totals = torch.zeros(rows, beam, device=logits.device)
    token_rules = topk_logits.TokenRules((PAD, BOS), EOS, -1e4, banned_keep_mass=True)
    if not topk_logits.use_topk_logits(logits, 2 * beam):
        return {}
    find = partial(topk_logits.topk_continuations, logits, totals, 2 * beam, token_rules)
    return {f"choice {tiles}": partial(_cut, topk_logits, tiles, find) for tiles in CHOICES}


def _onward_ways(rows: int, beam: int, where: torch.device) -> Ways:
    """What follows a choice in the 15th step, by our kernel."""
    real = torch.zeros(rows, 2 * beam, device=where)
    if not beam_update.use_beam_update(real, beam):
        return {}
    whole = torch.zeros(rows, 2 * beam, dtype=torch.long, device=where)
    texts, few = whole.new_zeros(rows, beam, 16), real[:, :beam].contiguous()
    cells = beam_update.LiveHypotheses(
        texts, torch.arange(rows, device=where), real[:, 0].contiguous()
    )
    known = beam_update.FinishedHypotheses(few, few, texts, few == 0)
    task = beam_update.BeamUpdateConfig(beam, 1, "size", 0.1, EOS, PAD)
    lead = partial(
        beam_update.update_beam,
        beam_update.Continuations(real, whole, whole),
        cells,
        known,
        None,
        task,
    )
    return {f"onward {tiles}": partial(_cut, beam_update, tiles, lead) for tiles in ONWARDS}


def _attention_ways(queries: Tensor) -> Ways:
    """A step's attention to pasts of several lengths, by kernels and by plain products."""
    ways: Ways = {}
    rows, heads, beam, width = queries.shape
    for cells in (16, 50, 100, 200):
        kv = KeyValues(*(queries.new_zeros(rows, heads, cells, width) for _ in range(2)))
        hidden = queries.new_zeros(rows, 1, beam, cells)
        ways[f"fused {cells}"] = partial(fused_attention, queries, kv, hidden == 0, scale=0.125)
        ways[f"fused, added, {cells}"] = partial(
            F.scaled_dot_product_attention, queries, *kv, attn_mask=hidden, scale=0.125
        )
        scores = partial(torch.matmul, queries, kv.keys.mT)
        ways[f"first of two products {cells}"] = scores
        if decode_attention.use_decode_attention(queries):
            look = partial(decode_attention.decode_attention, queries, *kv, hidden, scale=0.125)
            for tiles in GLANCES:
                ways[f"glance {cells} {tiles}"] = partial(_cut, decode_attention, tiles, look)
    return ways


def _cut(module: ModuleType, tiles: object, way: Callable[[], Any]) -> None:
    """A kernel of `module` whose work is cut by these `tiles`."""
    with mock.patch.object(module, "tiles", tiles):
        way()


def _time_all(task: StageConfig, dtype: str, ways: Ways) -> Records:
    count = 2 if task.device.type == "cpu" else 20
    for name, way in ways.items():
        try:
            way()
        except Exception as error:
            yield {"part": name, "dtype": dtype, "failed": repr(error)[:300]}
            continue
        wait_for_device(task.device)
        began = time.perf_counter()
        for _ in range(count):
            way()
        wait_for_device(task.device)
        each = (time.perf_counter() - began) / count
        yield {"part": name, "dtype": dtype, "us": round(1e6 * each, 1)}
