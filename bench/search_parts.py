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

from bench.gpu_search import Task
from bench.peers.stepping import wait_for
from bench.stages import Facts
from regard.attention.attend import KeyValues, fused
from regard.kernels import choice, glance, onward
from regard.kernels.bend import linear_relu, plain_linear_relu
from regard.text.special import BOS, EOS, PAD

Ways = dict[str, Callable[[], Any]]

WIDTH, HIDDEN, HEADS, SIZE = 256, 1024, 4, 8000
"""Of the model, and its vocabulary."""
GLANCES = [
    glance.Tiles(),
    glance.Tiles(precision="ieee"),
    glance.Tiles(cols=32),
    glance.Tiles(cols=32, each=2048),
    glance.Tiles(cols=64),
    glance.Tiles(cols=64, each=2048),
    glance.Tiles(each=512),
    glance.Tiles(stages=1),
    glance.Tiles(stages=3),
]
CHOICES = [
    choice.Tiles(),
    choice.Tiles(warps=4),
    choice.Tiles(cols=4096),
    choice.Tiles(cols=2048, warps=4),
    choice.Tiles(each=8),
    choice.Tiles(each=32),
]
ONWARDS = [onward.Tiles(), onward.Tiles(warps=1), onward.Tiles(warps=4), onward.Tiles(places=16)]
"""How kernels may cut their work; what they do by default comes first."""


@torch.inference_mode()
def stage(name: str, task: Task) -> Facts:
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
    sayable = choice.Sayable((PAD, BOS), EOS, -1e4, lost=True)
    if not choice.suits_choice(logits, 2 * beam):
        return {}
    find = partial(choice.best_ways, logits, totals, 2 * beam, sayable)
    return {f"choice {tiles}": partial(_cut, choice, tiles, find) for tiles in CHOICES}


def _onward_ways(rows: int, beam: int, where: torch.device) -> Ways:
    """What follows a choice in the 15th step, by our kernel."""
    real = torch.zeros(rows, 2 * beam, device=where)
    if not onward.suits_onward(real, beam):
        return {}
    whole = torch.zeros(rows, 2 * beam, dtype=torch.long, device=where)
    texts, few = whole.new_zeros(rows, beam, 16), real[:, :beam].contiguous()
    cells = onward.Cells(texts, torch.arange(rows, device=where), real[:, 0].contiguous())
    known = onward.Known(few, few, texts, few == 0)
    task = onward.Task(beam, 1, "size", 0.1, EOS, PAD)
    lead = partial(onward.go_on, onward.Ways(real, whole, whole), cells, known, None, task)
    return {f"onward {tiles}": partial(_cut, onward, tiles, lead) for tiles in ONWARDS}


def _attention_ways(queries: Tensor) -> Ways:
    """A step's attention to pasts of several lengths, by kernels and by plain products."""
    ways: Ways = {}
    rows, heads, beam, width = queries.shape
    for cells in (16, 50, 100, 200):
        kv = KeyValues(*(queries.new_zeros(rows, heads, cells, width) for _ in range(2)))
        hidden = queries.new_zeros(rows, 1, beam, cells)
        ways[f"fused {cells}"] = partial(fused, queries, kv, hidden == 0, factor=0.125)
        ways[f"fused, added, {cells}"] = partial(
            F.scaled_dot_product_attention, queries, *kv, attn_mask=hidden, scale=0.125
        )
        scores = partial(torch.matmul, queries, kv.keys.mT)
        ways[f"first of two products {cells}"] = scores
        if glance.suits_glance(queries):
            look = partial(glance.glance, queries, *kv, hidden, factor=0.125)
            for tiles in GLANCES:
                ways[f"glance {cells} {tiles}"] = partial(_cut, glance, tiles, look)
    return ways


def _cut(module: ModuleType, tiles: object, way: Callable[[], Any]) -> None:
    """A kernel of `module` whose work is cut by these `tiles`."""
    with mock.patch.object(module, "tiles", tiles):
        way()


def _time_all(task: Task, dtype: str, ways: Ways) -> Facts:
    count = 2 if task.device.type == "cpu" else 20
    for name, way in ways.items():
        try:
            way()
        except Exception as error:
            yield {"part": name, "dtype": dtype, "failed": repr(error)[:300]}
            continue
        wait_for(task.device)
        began = time.perf_counter()
        for _ in range(count):
            way()
        wait_for(task.device)
        each = (time.perf_counter() - began) / count
        yield {"part": name, "dtype": dtype, "us": round(1e6 * each, 1)}
