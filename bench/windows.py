"""What attention to near places costs beside attention to all, as sequences grow.

    OMP_NUM_THREADS=1 python -m bench windows [--window N] [--lengths N ...] [--device cpu|cuda]

One self-attention of the Transformer (width 256, 4 heads, one sequence), forward and backward:
all places by the plain formula, all by torch's fused kernel, and `--window` places to either side
in blocks. Prints a Markdown table of milliseconds, the fewest of several passes, and of the peak of
memory in the first, above what was taken before. On a CPU these are the process's own time and
memory, so that others on the machine disturb little; on a GPU wall-clock time and the memory of
tensors. Each measurement runs in a process of its own.
"""

import argparse
import subprocess
import sys
import time

import torch
from torch import Tensor

from bench.peers.training_loop import wait_for_device
from regard.attention.attend import attend
from regard.attention.block_local import SlidingWindow
from regard.attention.multihead import MultiHeadAttention, SelfAttention, merge_heads
from regard.recipes.memory import peak_memory, reset_peak_memory
from regard.types import Site

WIDTH, HEADS, REPEATS = 256, 4, 3
HERE = Site("encoder", 0)
KINDS = ("plain", "fused", "window")


def attention(kind: str, window: int) -> MultiHeadAttention:
    sliding = SlidingWindow(window, window) if kind == "window" else None
    return SelfAttention(WIDTH, HEADS, window=sliding)


def look(kind: str, module: MultiHeadAttention, x: Tensor, mask: Tensor) -> Tensor:
    """One pass of self-attention of `x` (1, T, D)."""
    queries, kv = module.project_all(x)
    if kind == "plain":  # what a hook is given is computed by the formula
        mixed = attend(module.score, queries, kv, mask, site=HERE, hook=lambda _, weights: weights)
        heads = merge_heads(mixed)
    else:
        heads = module(queries, kv, mask, site=HERE)
    out: Tensor = module.out(heads)
    return out


def measure(kind: str, length: int, window: int, device: torch.device) -> tuple[float, int]:
    """Seconds of the fastest pass, forward and backward, and bytes taken at the most."""
    now = time.perf_counter if device.type == "cuda" else time.process_time
    torch.manual_seed(0)
    module = attention(kind, window).to(device)
    x = torch.randn(1, length, WIDTH, device=device, requires_grad=True)
    mask = torch.ones(1, 1, 1, length, dtype=torch.bool, device=device)
    warm = torch.randn(1, 64, WIDTH, device=device)
    torch.autograd.backward(look("fused", module, warm, mask[..., :64]).sum())  # libraries start
    reset_peak_memory(device)
    before = peak_memory(device)
    torch.autograd.backward(look(kind, module, x, mask).sum())
    taken, best = peak_memory(device) - before, float("inf")
    for _ in range(REPEATS):
        began = now()
        torch.autograd.backward(look(kind, module, x, mask).sum())
        wait_for_device(device)
        best = min(best, now() - began)
    return best, taken


def table(lengths: list[int], window: int, device: str) -> None:
    """Measure all, each in a process of its own, and print."""
    print("| tokens | " + " | ".join(f"{k}, ms | {k}, MiB" for k in KINDS) + " |")
    print("|---:|" + "---:|---:|" * len(KINDS))
    for length in lengths:
        cells = [f"{length:,}"]
        for kind in KINDS:
            command = [sys.executable, "-m", "bench", "windows", "--device", device]
            command += ["--window", str(window), "--lengths", str(length), "--kind", kind]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            seconds, taken = done.stdout.split()
            cells += [f"{1e3 * float(seconds):,.1f}", f"{int(taken) / 2**20:,.0f}"]
        print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--window", type=int, default=128)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 2048, 4096, 8192])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--kind", choices=KINDS, help="measure this alone and print bare numbers")
    asked = parser.parse_args()
    if asked.kind is None:
        table(asked.lengths, asked.window, asked.device)
        return
    seconds, taken = measure(asked.kind, asked.lengths[0], asked.window, torch.device(asked.device))
    print(seconds, taken)
