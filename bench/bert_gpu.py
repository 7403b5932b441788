"""BERT on a GPU beside our GPT of the same size and Hugging Face's BERT: training alone.

Everything is in bfloat16, with SDPA and a fused AdamW on all sides; tokens are random. Hugging
Face computes logits at all positions, as its model does when it is given labels; ours at the masked
ones.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch

from bench.gpu_steps import CUDA, step_context
from bench.peers.training_loop import wait_for_device
from regard.batching.masked_windows import Masking, masked_windows
from regard.batching.sampler import StreamPosition
from regard.batching.shape_buckets import ExactShapes
from regard.batching.shuffled_windows import shuffled_windows
from regard.kernels.cross_entropy import IGNORE_INDEX
from regard.kernels.cuda_graphs import CudaGraphs
from regard.models.contracts import AnyModel
from regard.models.language.bert import Bert, BertSettings, RobertaSettings
from regard.models.language.gpt import Gpt, GptSettings
from regard.training.gpu.cuda_graph_step import CudaGraphStep
from regard.types import AnyBatch, Padded

WARM_UP, TIMED, ROUNDS = 6, 32, 3
START = StreamPosition(0, 0)


class Size(NamedTuple):
    """A model, and the windows that it is trained on."""

    layers: int
    width: int
    heads: int
    window: int
    rows: int
    vocabulary: int


SIZES = {
    "wikitext2": Size(6, 384, 6, 128, 128, 8000),
    "base": Size(12, 768, 12, 512, 64, 30522),
}


def masked_batches(size: Size, *, pairs: bool) -> list[AnyBatch]:
    masking = Masking(size.vocabulary, 0.15, pairs)
    stream = masked_windows(_text(size), START, masking, rows=size.rows, length=size.window, seed=1)
    return [one.batch for one in islice(stream, WARM_UP + TIMED)]


def text_batches(size: Size) -> list[AnyBatch]:
    stream = shuffled_windows(_text(size), START, rows=size.rows, length=size.window, seed=1)
    return [one.batch for one in islice(stream, WARM_UP + TIMED)]


def _text(size: Size) -> Any:
    count = size.rows * size.window * (WARM_UP + TIMED + 1)
    return np.random.default_rng(0).integers(4, size.vocabulary, count)


def our_step(model: AnyModel) -> Callable[[AnyBatch], object]:
    """Our step, as `regard train` runs it on a GPU."""

    def fail(note: str) -> None:
        raise RuntimeError(note)

    context = step_context(model.to(CUDA).train(), smoothing=0.0)
    step = CudaGraphStep(context, ExactShapes(), CudaGraphs(CUDA), fail)
    return lambda batch: step([batch], lr=1e-4, step=1)


def our_bert(size: Size, positions: Any, dropout: float, *, pairs: bool) -> AnyModel:
    torch.manual_seed(1)
    settings = (BertSettings if pairs else RobertaSettings)(
        layers=size.layers,
        width=size.width,
        heads=size.heads,
        context=size.window,
        positions=positions,
        dropout=dropout,
    )
    return Bert(settings, size.vocabulary)


def our_gpt(size: Size, dropout: float) -> AnyModel:
    torch.manual_seed(1)
    settings = GptSettings(
        layers=size.layers,
        width=size.width,
        heads=size.heads,
        context=size.window,
        dropout=dropout,
    )
    return Gpt(settings, size.vocabulary)


def peer_step(size: Size, dropout: float, *, compiled: bool) -> Callable[[AnyBatch], object]:
    """Hugging Face's BERT with torch's autocast."""
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=size.vocabulary + 1,
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=4 * size.width,
        max_position_embeddings=size.window,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    config._attn_implementation = "sdpa"
    model = BertForMaskedLM(config).to(CUDA).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    run = torch.compile(model) if compiled else model

    def step(batch: AnyBatch) -> None:
        inputs: Padded = batch.inputs
        labels = torch.full((inputs.ids.numel(),), IGNORE_INDEX)
        labels[batch.positions] = batch.labels
        ids, wanted = (x.pin_memory().to(CUDA, non_blocking=True) for x in (inputs.ids, labels))
        with torch.autocast("cuda", torch.bfloat16):
            logits = run(ids).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def time_steps(
    step: Callable[[AnyBatch], object], batches: Sequence[AnyBatch], tokens: int
) -> list[float]:
    """Tokens read a second, of each round; a batch has so many `tokens`."""
    for batch in batches[:WARM_UP]:
        step(batch)
    rates = []
    for _ in range(ROUNDS):
        wait_for_device(CUDA)
        began = time.perf_counter()
        for batch in batches[WARM_UP:]:
            step(batch)
        wait_for_device(CUDA)
        rates.append(TIMED * tokens / (time.perf_counter() - began))
    return rates


def contenders(size: Size, dropout: float) -> dict[str, Callable[[], list[float]]]:
    tokens = size.rows * size.window

    def ours(positions: str, *, pairs: bool) -> list[float]:
        step = our_step(our_bert(size, positions, dropout, pairs=pairs))
        return time_steps(step, masked_batches(size, pairs=pairs), tokens)

    def peer(*, compiled: bool) -> list[float]:
        step = peer_step(size, dropout, compiled=compiled)
        return time_steps(step, masked_batches(size, pairs=False), tokens)

    return {
        "regard GPT": lambda: time_steps(
            our_step(our_gpt(size, dropout)), text_batches(size), tokens
        ),
        "regard RoBERTa, learned positions": lambda: ours("learned", pairs=False),
        "regard RoBERTa, rotary positions": lambda: ours("rotary", pairs=False),
        "regard BERT, learned positions": lambda: ours("learned", pairs=True),
        "Hugging Face BERT, compiled": lambda: peer(compiled=True),
        "Hugging Face BERT": lambda: peer(compiled=False),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="wikitext2", help="of the models")
    parser.add_argument("--dropout", type=float, default=0.1)
    asked = parser.parse_args()
    if not torch.cuda.is_available():
        print("error: this measures a GPU, and torch finds none here", file=sys.stderr)
        return 1
    torch.set_float32_matmul_precision("high")
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}, {asked.size}")
    for name, measure in contenders(SIZES[asked.size], asked.dropout).items():
        try:
            rates = measure()
        except Exception as error:  # a peer that does not run leaves the others to be measured
            print(f"{name}: failed: {type(error).__name__}: {str(error)[:200]}", flush=True)
            continue
        median, least, most = statistics.median(rates), min(rates), max(rates)
        print(f"{name:<34} {median:>12,.0f} tokens/s ({least:,.0f} to {most:,.0f})", flush=True)
        torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
