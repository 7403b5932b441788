"""GPT on a GPU beside its peers: training GPT-2's smallest model, and completing prompts.

Everything is in bfloat16, with SDPA and a fused AdamW on all sides; tokens are random. A peer of
training is trained from a checkout of one's own, whose `model.py` has nanoGPT's interface:

    git clone https://github.com/karpathy/nanoGPT && python -m bench gpt_gpu --peer-dir nanoGPT
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.gpu_steps import CUDA, step_context
from bench.peers.gpt_checkout import commit_of, training_step
from bench.peers.training_loop import wait_for_device
from regard.batching.collate import pad
from regard.batching.shape_buckets import ExactShapes
from regard.decoding.batch_search import search
from regard.decoding.constraints.rules import Constraints
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings
from regard.kernels.cuda_graphs import CudaGraphs
from regard.models.language.gpt import Gpt, GptSettings
from regard.training.gpu.cuda_graph_step import CudaGraphStep
from regard.types import AnyBatch, Batch, Padded

VOCABULARY, CONTEXT, ROWS = 50257, 1024, 32
WARM_UP, TIMED, ROUNDS = 6, 16, 3
PROMPTS, NEW_TOKENS = 64, 256
KINDS = "training", "completing"
SHORTEST, LONGEST = 16, 64  # tokens of a prompt


def windows(count: int) -> list[Tensor]:
    draw = torch.Generator().manual_seed(0)
    return [torch.randint(4, VOCABULARY, (ROWS, CONTEXT + 1), generator=draw) for _ in range(count)]


def our_training() -> Callable[[Tensor], object]:
    """Our step, as `regard train` runs it on a GPU."""
    torch.manual_seed(1)
    model = Gpt(GptSettings(dropout=0.0), VOCABULARY).to(CUDA).train()

    def fail(note: str) -> None:
        raise RuntimeError(note)

    step = CudaGraphStep(step_context(model, smoothing=0.0), ExactShapes(), CudaGraphs(CUDA), fail)
    return lambda window: step([_batch(window)], lr=1e-4, step=1)


def _batch(window: Tensor) -> AnyBatch:
    given, labels = window[:, :-1].contiguous(), window[:, 1:].flatten()
    mask = torch.ones_like(given, dtype=torch.bool)
    return Batch(Padded(given[:, :0], mask[:, :0]), Padded(given, mask), None, labels)


def peer_model() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    config = GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    config._attn_implementation = "sdpa"
    return GPT2LMHeadModel(config).to(CUDA)


def peer_training(*, compiled: bool) -> Callable[[Tensor], object]:
    """Hugging Face's GPT-2 with torch's autocast."""
    model = peer_model().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    run = torch.compile(model) if compiled else model

    def step(window: Tensor) -> None:
        ids = window.pin_memory().to(CUDA, non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            logits = run(ids[:, :-1], use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def time_training(step: Callable[[Tensor], object]) -> list[float]:
    """Tokens a second of each round."""
    batches = windows(WARM_UP + TIMED)
    for window in batches[:WARM_UP]:
        step(window)
    rates = []
    for _ in range(ROUNDS):
        wait_for_device(CUDA)
        began = time.perf_counter()
        for window in batches[WARM_UP:]:
            step(window)
        wait_for_device(CUDA)
        rates.append(TIMED * ROWS * CONTEXT / (time.perf_counter() - began))
    return rates


def prompts() -> list[list[int]]:
    draw = torch.Generator().manual_seed(2)
    lengths = torch.linspace(SHORTEST, LONGEST, PROMPTS).long().tolist()
    return [torch.randint(4, VOCABULARY, (n,), generator=draw).tolist() for n in lengths]


@torch.inference_mode()
def our_completion() -> Callable[[], int]:
    torch.manual_seed(1)
    model = Gpt(GptSettings(), VOCABULARY).to(CUDA, torch.bfloat16).eval()
    rules = RuleSettings(
        max_length=NEW_TOKENS,
        max_length_ratio=0.0,
        max_length_offset=NEW_TOKENS,
        allow_unknown=True,
    )
    settings = DecodingSettings(beam=BeamSettings(size=1), rules=rules)
    rows = prompts()

    def run() -> int:
        with torch.inference_mode():
            inputs = pad([row[:-1] for row in rows], least=0).to(CUDA)
            lengths = torch.tensor([len(row) - 1 for row in rows], device=CUDA)
            first = Constraints(first=[row[-1] for row in rows])
            state = model.start(model.encode(inputs))
            found = search(model, state, lengths, settings, constraints=first)
        return sum(len(answers[0].tokens) for answers in found)

    return run


def peer_completion(*, static: bool) -> Callable[[], int]:
    """Hugging Face's `generate`, with its default cache or the compiled static one."""
    model = peer_model().to(torch.bfloat16).eval()
    longest = max(map(len, prompts()))
    ids = torch.tensor([[0] * (longest - len(row)) + row for row in prompts()], device=CUDA)
    mask = torch.tensor(
        [[0] * (longest - len(row)) + [1] * len(row) for row in prompts()], device=CUDA
    )
    options: dict[str, Any] = {
        "max_new_tokens": NEW_TOKENS,
        "min_new_tokens": NEW_TOKENS,
        "do_sample": False,
        "pad_token_id": 0,
        **({"cache_implementation": "static"} if static else {}),
    }

    def run() -> int:
        with torch.inference_mode():
            found = model.generate(ids, attention_mask=mask, **options)
        return int(found[:, longest:].numel())

    return run


def time_completion(run: Callable[[], int]) -> list[float]:
    """Tokens a second of each round, after two that compile and warm up."""
    for _ in range(2):
        run()
    rates = []
    for _ in range(ROUNDS):
        wait_for_device(CUDA)
        began = time.perf_counter()
        tokens = run()
        wait_for_device(CUDA)
        rates.append(tokens / (time.perf_counter() - began))
    return rates


Measure = Callable[[], list[float]]
CONTENDERS: dict[str, Measure] = {
    "training: regard": lambda: time_training(our_training()),
    "training: Hugging Face, compiled": lambda: time_training(peer_training(compiled=True)),
    "training: Hugging Face": lambda: time_training(peer_training(compiled=False)),
    "completing: regard": lambda: time_completion(our_completion()),
    "completing: Hugging Face": lambda: time_completion(peer_completion(static=False)),
    "completing: Hugging Face, static": lambda: time_completion(peer_completion(static=True)),
}


def contenders(checkouts: Sequence[Path]) -> dict[str, Measure]:
    """All of them by name, with the peers of these checkouts, whose commits are printed."""
    found = {}
    for checkout in checkouts:
        name = checkout.resolve().name
        print(f"{name}: commit {commit_of(checkout)}")

        def measure(checkout: Path = checkout, *, compiled: bool) -> list[float]:
            return time_training(training_step(checkout, CUDA, compiled=compiled))

        found[f"training: {name}, compiled"] = partial(measure, compiled=True)
        found[f"training: {name}"] = partial(measure, compiled=False)
    return CONTENDERS | found


def compare(medians: dict[str, float]) -> None:
    """Print how we compare with each peer, and which of those that ran is the fastest."""
    for kind in KINDS:
        ours = medians.get(f"{kind}: regard")
        peers = {
            name.partition(": ")[2]: rate
            for name, rate in medians.items()
            if name.startswith(f"{kind}: ") and not name.endswith(": regard")
        }
        if ours is None or not peers:
            continue
        for who, rate in peers.items():
            print(f"{kind}: regard is {ours / rate:.2f} times {who}")
        print(f"{kind}: the strongest of these peers is {max(peers, key=peers.__getitem__)}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=KINDS, help="one of both")
    parser.add_argument(
        "--peer-dir", type=Path, action="append", default=[], metavar="DIR",
        help="a checkout of a peer, whose model.py is run; may be repeated",
    )  # fmt: skip
    asked = parser.parse_args()
    measured = contenders(asked.peer_dir)
    if not torch.cuda.is_available():
        print("error: this measures a GPU, and torch finds none here", file=sys.stderr)
        return 1
    torch.set_float32_matmul_precision("high")
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    medians: dict[str, float] = {}
    for name, measure in measured.items():
        if asked.only and not name.startswith(asked.only):
            continue
        try:
            rates = measure()
        except Exception as error:  # a peer that does not run leaves the others to be measured
            print(f"{name}: failed: {type(error).__name__}: {str(error)[:200]}", flush=True)
            continue
        medians[name] = statistics.median(rates)
        least, most = min(rates), max(rates)
        print(
            f"{name:<34} {medians[name]:>12,.0f} tokens/s ({least:,.0f} to {most:,.0f})", flush=True
        )
        torch.cuda.empty_cache()
    compare(medians)
    return 0


if __name__ == "__main__":
    sys.exit(main())
