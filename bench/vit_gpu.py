"""ViT and Swin on a GPU beside Hugging Face's: training alone, without augmentation.

Everything is in bfloat16, with SDPA and a fused AdamW on both sides; pictures are random bytes,
which each side brings to the device and scales there.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bench.gpu_steps import CUDA, step_context
from bench.peers.training_loop import wait_for_device
from regard.batching.shape_buckets import ExactShapes
from regard.kernels import dispatch
from regard.kernels.cuda_graphs import CudaGraphs
from regard.models.contracts import AnyModel
from regard.models.vision.swin import Swin, SwinSettings
from regard.models.vision.vit import Vit, VitSettings
from regard.training.gpu.cuda_graph_step import CudaGraphStep
from regard.types import Batch, Pixels

WARM_UP, TIMED, ROUNDS = 6, 32, 3
CLASSES, SMOOTHING = 10, 0.1


class Workload(NamedTuple):
    """A model of each family, and the pictures in a batch."""

    vit: VitSettings
    swin: SwinSettings
    rows: int


WORKLOADS = {
    "cifar10": Workload(
        VitSettings(layers=9, width=256, heads=8),
        SwinSettings(),
        512,
    ),
    "small": Workload(  # ViT-S/16 and Swin-T
        VitSettings(picture_size=224, patch=16, layers=12, width=384, heads=6),
        SwinSettings(
            picture_size=224, patch=4, window=7, stages=(2, 2, 6, 2), heads=(3, 6, 12, 24)
        ),
        256,
    ),
}
"""Our recipes for CIFAR-10, and the small models of the papers at their own size."""

Pictures = tuple[Tensor, Tensor]  # bytes (B, 3, size, size) and labels (B,)
Step = Callable[[Tensor, Tensor], object]


def pictures(work: Workload, count: int) -> list[Pictures]:
    draw, size = torch.Generator().manual_seed(0), work.vit.picture_size
    shape = (work.rows, 3, size, size)
    return [
        (
            torch.randint(0, 256, shape, dtype=torch.uint8, generator=draw),
            torch.randint(0, CLASSES, (work.rows,), generator=draw),
        )
        for _ in range(count)
    ]


def our_step(model: AnyModel) -> Step:
    """Our step, as `regard train` runs it on a GPU."""

    def fail(note: str) -> None:
        raise RuntimeError(note)

    context = step_context(model.to(CUDA).train(), smoothing=SMOOTHING)
    step = CudaGraphStep(context, ExactShapes(), CudaGraphs(CUDA), fail)
    return lambda pixels, labels: step([Batch(Pixels(pixels), None, None, labels)], lr=1e-4, step=1)


def peer_vit(settings: VitSettings) -> Any:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        image_size=settings.picture_size,
        patch_size=settings.patch,
        hidden_size=settings.width,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        intermediate_size=4 * settings.width,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=CLASSES,
    )
    config._attn_implementation = "sdpa"
    return ViTForImageClassification(config)


def peer_swin(settings: SwinSettings) -> Any:
    from transformers import SwinConfig, SwinForImageClassification

    config = SwinConfig(
        image_size=settings.picture_size,
        patch_size=settings.patch,
        embed_dim=settings.width,
        depths=list(settings.stages),
        num_heads=list(settings.heads),
        window_size=settings.window,
        drop_path_rate=0.0,
        num_labels=CLASSES,
    )
    return SwinForImageClassification(config)


def peer_step(model: Any, *, compiled: bool) -> Step:
    """Hugging Face's model with torch's autocast."""
    model = model.to(CUDA).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    run = torch.compile(model) if compiled else model

    def step(pixels: Tensor, labels: Tensor) -> None:
        x, wanted = (one.pin_memory().to(CUDA, non_blocking=True) for one in (pixels, labels))
        with torch.autocast("cuda", torch.bfloat16):
            logits = run((x.float() - 127.5) / 127.5).logits
            loss = torch.nn.functional.cross_entropy(logits, wanted, label_smoothing=SMOOTHING)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def time_steps(step: Step, batches: list[Pictures]) -> list[float]:
    """Pictures a second of each round."""
    for batch in batches[:WARM_UP]:
        step(*batch)
    rates = []
    for _ in range(ROUNDS):
        wait_for_device(CUDA)
        began = time.perf_counter()
        for batch in batches[WARM_UP:]:
            step(*batch)
        wait_for_device(CUDA)
        rates.append(TIMED * len(batches[0][1]) / (time.perf_counter() - began))
    return rates


def contenders(work: Workload) -> dict[str, Callable[[], Step]]:
    mean = work.vit.model_copy(update={"pooling": "mean"})
    return {
        "ViT: regard": lambda: our_step(Vit(work.vit, CLASSES)),
        "ViT: regard, mean of patches": lambda: our_step(Vit(mean, CLASSES)),
        "ViT: Hugging Face, compiled": lambda: peer_step(peer_vit(work.vit), compiled=True),
        "ViT: Hugging Face": lambda: peer_step(peer_vit(work.vit), compiled=False),
        "Swin: regard": lambda: our_step(Swin(work.swin, CLASSES)),
        "Swin: Hugging Face, compiled": lambda: peer_step(peer_swin(work.swin), compiled=True),
        "Swin: Hugging Face": lambda: peer_step(peer_swin(work.swin), compiled=False),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=WORKLOADS, default="cifar10", help="of the models")
    parser.add_argument("--rows", type=int, help="pictures in a batch")
    parser.add_argument("--without", nargs="+", default=[], help="kernels that we do without")
    parser.add_argument("--only", choices=("ViT", "Swin"), help="one of both families")
    asked = parser.parse_args()
    if not torch.cuda.is_available():
        print("error: this measures a GPU, and torch finds none here", file=sys.stderr)
        return 1
    dispatch.disabled.update(asked.without)
    work = WORKLOADS[asked.size]
    work = work if asked.rows is None else work._replace(rows=asked.rows)
    torch.set_float32_matmul_precision("high")
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}, {asked.size}, {work.rows}")
    batches, medians = pictures(work, WARM_UP + TIMED), dict[str, float]()
    for name, make in contenders(work).items():
        if asked.only and not name.startswith(asked.only):
            continue
        torch.manual_seed(1)
        try:
            rates = time_steps(make(), batches)
        except Exception as error:  # a peer that does not run leaves the others to be measured
            print(f"{name}: failed: {type(error).__name__}: {str(error)[:200]}", flush=True)
            continue
        medians[name] = statistics.median(rates)
        spread = f"({min(rates):,.0f} to {max(rates):,.0f})"
        print(f"{name:<30} {medians[name]:>10,.0f} pictures/s {spread}", flush=True)
        torch.cuda.empty_cache()
    for name, rate in medians.items():
        family, _, who = name.partition(": ")
        ours = medians.get(f"{family}: regard")
        if ours is not None and who.startswith("Hugging"):
            print(f"{family}: regard is {ours / rate:.2f} times {who}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
