"""The stages of `translate_gpu`: what each side makes of the same ids, and without each kernel."""

import argparse
import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from safetensors.torch import load_file
from torch import Tensor

from bench import stages
from bench.peers.contract import ModelShape
from bench.peers.logit_check import check_same_logits
from bench.peers.training_loop import wait_for_device
from bench.stages import Records
from regard.decoding import batch_search
from regard.decoding.batch_search import SearchMember, search_many
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings
from regard.kernels import dispatch
from regard.models.build import build_model
from regard.models.contracts import AnyGenerator
from regard.models.translation.transformer_settings import TransformerSettings
from regard.settings import Settings
from regard.text.special_tokens import EOS, PAD
from regard.types import Hypothesis

Ids = list[list[int]]

WEIGHTS = "model.safetensors"
TORCH = torch.__version__
LONGEST = 250
"""Tokens of a source; longer lines are left out, as in training."""
TRIAL = 8
"""Batches of a size on which that size is tried."""
FEWEST = 1000
"""Sentences on which a size is tried, at least."""
SEARCH_KERNELS = {"decode_attention", "topk_logits", "beam_update"}
"""Kernels of a search step, each of which is first tried alone."""


class StageInputs(Settings):
    """What is needed of a run, in plain values; its weights lie beside it."""

    model: TransformerSettings
    shape: ModelShape
    length_penalty: float
    sources: tuple[tuple[int, ...], ...]
    """Without EOS."""


@dataclass(frozen=True)
class StageConfig:
    """What is asked for, and where things lie between stages."""

    asked: argparse.Namespace
    precision: str

    @classmethod
    def of(cls, asked: argparse.Namespace) -> "StageConfig":
        """Its precision is the last word of the stage's name, if it has one."""
        last = asked.stage.split()[-1]
        return cls(asked, last if last in ("float32", "bfloat16") else "float32")

    @property
    def device(self) -> torch.device:
        return torch.device(self.asked.device)

    @property
    def folder(self) -> Path:
        """The folder of what was prepared."""
        return Path(self.asked.prepared or self.asked.out.with_name("prepared"))

    @property
    def weights(self) -> dict[str, Tensor]:
        return load_file(self.folder / WEIGHTS)

    @cached_property
    def prepared(self) -> StageInputs:
        return StageInputs.model_validate_json((self.folder / "task.json").read_text("utf-8"))

    @property
    def settings(self) -> DecodingSettings:
        """The search as Hugging Face runs it: the probability of excluded tokens is lost."""
        penalty = self.prepared.length_penalty
        return DecodingSettings(
            beam=BeamSettings(size=self.asked.beam, length_penalty=penalty, stop="size"),
            rules=RuleSettings(excluded="lost"),
        )

    def file(self, name: str) -> Path:
        """One that later stages read."""
        return Path(self.asked.out).with_name(f"{name}-{self.precision}.json")

    def model(self) -> AnyGenerator:
        return self.plain_model().to(self.device, getattr(torch, self.precision))

    def plain_model(self) -> AnyGenerator:
        """In float32, on the CPU."""
        size = self.prepared.shape.vocabulary
        model = build_model(self.prepared.model, size, size, joint=True).eval()
        model.load_state_dict(self.weights)
        return model


def stage(name: str, task: StageConfig) -> Records:
    """What a stage finds."""
    dispatch.disabled.update(task.asked.without)
    torch.set_float32_matmul_precision(task.asked.products)
    kinds: dict[str, Callable[[StageConfig], Records]] = {
        "prepare": prepare,
        "regard": time_ours,
        "Hugging": time_theirs,
        "ablation": ablation,
    }
    return kinds[name.split()[0]](task)


def prepare(task: StageConfig) -> Records:
    """Write what the other stages need of a run, unless it is there."""
    asked = task.asked
    if asked.model is not None:
        taken = import_module("bench.peers.run_export").load_exportable_run(asked.model)
        run = taken.run
        lines = (asked.lines or run.folder.data / "train.source.txt").read_text("utf-8")
        ids = run.tokenizers.source.encode(lines.splitlines())
        fit = [row for row in ids if 0 < len(row) <= min(LONGEST, run.model.max_length or LONGEST)]
        apart = max(1, len(fit) // asked.sentences)
        prepared = StageInputs(
            model=run.recipe.model,
            shape=taken.shape,
            length_penalty=taken.length_penalty,
            sources=tuple(islice(cycle(map(tuple, fit[::apart])), asked.sentences)),
        )
        task.folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(asked.model / WEIGHTS, task.folder / WEIGHTS)
        (task.folder / "task.json").write_text(prepared.model_dump_json(), encoding="utf-8")
    found = task.prepared.sources
    cuda = task.device.type == "cuda" and torch.cuda.is_available()
    device = torch.cuda.get_device_name(task.device) if cuda else "cpu"
    tokens = sum(map(len, found))
    yield {"sentences": len(found), "source_tokens": tokens, "device": device, "torch": TORCH}


def time_ours(task: StageConfig) -> Records:
    """Our own search at each budget."""
    model, sources = task.model(), list(map(list, task.prepared.sources))
    settings = task.settings

    def search(budget: int) -> list[list[Hypothesis]]:
        return search_many([SearchMember(model, sources)], settings, budget=budget)

    first = partial(search_many, [SearchMember(model, sources[:100])], settings, budget=4096)
    for kernel in SEARCH_KERNELS:
        try:
            with _without(*SEARCH_KERNELS - {kernel}):
                first()
        except Exception as error:
            yield {"failed": f"with our kernel {kernel}, which is left out now: {error!r}"[:500]}
            dispatch.disabled.add(kernel)
    first()  # one-time work such as compilation
    rates: dict[int, float] = {}
    for budget in task.asked.budgets:
        for number in range(task.asked.rounds):
            try:
                fact, found = _timed(task, partial(search, budget))
            except torch.OutOfMemoryError as error:
                yield {"failed": f"budget {budget}: {error}"[:300]}
                break
            yield {**fact, "who": "regard", "how": f"budget {budget}", "round": number}
            rates[budget] = max(rates.get(budget, 0.0), fact["sentences_per_second"])
            task.file("answers").write_text(json.dumps(found), encoding="utf-8")
    best = max(rates, key=lambda budget: rates[budget])
    task.file("best").write_text(json.dumps(best), encoding="utf-8")


def ablation(task: StageConfig) -> Records:
    """Our search at the best budget without each part."""
    model, sources = task.model(), list(map(list, task.prepared.sources))
    best = task.file("best")
    budget = json.loads(best.read_text("utf-8")) if best.is_file() else task.asked.budgets[-1]
    search = partial(search_many, [SearchMember(model, sources)], task.settings, budget=budget)

    def speed(part: str) -> float:
        with VARIANTS[part]():
            return float(_timed(task, search)[0]["sentences_per_second"])

    for part in VARIANTS:
        speed(part)  # one-time work such as compilation
    return stages.ablation(tuple(VARIANTS), speed)


@contextmanager
def _without(*kernels: str) -> Iterator[None]:
    """A context in which these kernels are replaced by their plain formulas."""
    added = set(kernels) - dispatch.disabled
    dispatch.disabled.update(added)
    try:
        yield
    finally:
        dispatch.disabled.difference_update(added)


VARIANTS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "nothing": nullcontext,
    "decode_attention": partial(_without, "decode_attention"),
    "topk_logits": partial(_without, "topk_logits"),
    "beam_update": partial(_without, "beam_update"),
    "topk_logits and beam_update": partial(_without, "topk_logits", "beam_update"),
    "graph of the last steps": partial(
        mock.patch.object, batch_search, "_make_capturer", return_value=None
    ),
}
"""What can be left out of a search."""


def _timed(
    task: StageConfig, search: Callable[[], list[list[Hypothesis]]]
) -> tuple[dict[str, Any], Ids]:
    """How fast a search is, and its best answers."""
    wait_for_device(task.device)
    if task.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(task.device)
    began = time.perf_counter()
    found = search()
    seconds = time.perf_counter() - began
    answers = [list(best[0].tokens) for best in found]
    fact = _rate(task, len(found), sum(len(row) + 1 for row in answers), seconds)
    if task.device.type == "cuda":
        fact["peak_gb"] = torch.cuda.max_memory_allocated(task.device) / 1e9
    return fact, answers


def _rate(task: StageConfig, sentences: int, tokens: int, seconds: float) -> dict[str, Any]:
    return {
        "precision": task.precision,
        "sentences": sentences,
        "seconds": round(seconds, 4),
        "sentences_per_second": sentences / seconds,
        "tokens_per_second": tokens / seconds,
        "whole": sentences == len(task.prepared.sources),
    }


def time_theirs(task: StageConfig) -> Records:
    """`generate` with each size of batches on a part, then with the best on all."""
    theirs = import_module("bench.peers.hugging_face")
    given = task.prepared
    model = theirs.convert(given.shape, task.weights)
    check_same_logits(
        task.plain_model(), given.shape.vocabulary, lambda batch: theirs.logits(model, batch)
    )
    model = model.to(task.device, getattr(torch, task.precision))
    sources = [[*row, EOS] for row in given.sources]
    how = {"beam": task.asked.beam, "length_penalty": given.length_penalty}

    def run(rows: Sequence[list[int]], size: int) -> tuple[dict[str, Any], Ids]:
        order = sorted(range(len(rows)), key=lambda place: -len(rows[place]))
        answers: dict[int, list[int]] = {}
        wait_for_device(task.device)
        began = time.perf_counter()
        for first in range(0, len(order), size):
            places = order[first : first + size]
            said = theirs.generate(model, [rows[place] for place in places], **how)
            answers.update(zip(places, said, strict=True))
        seconds = time.perf_counter() - began
        found = [until_eos(answers[place]) for place in range(len(rows))]
        return _rate(task, len(rows), sum(len(row) + 1 for row in found), seconds), found

    run(sources[:64], 64)  # one-time work such as compilation
    rates: dict[int, float] = {}
    for size in task.asked.peer_batches:
        count = min(len(sources), max(FEWEST, TRIAL * size))
        some = sources[:: len(sources) // count][:count]
        try:
            fact, found = run(some, size)
        except torch.OutOfMemoryError as error:
            torch.cuda.empty_cache()
            yield {"failed": f"batch {size}: {error}"[:300]}
            continue
        rates[size] = fact["sentences_per_second"]
        yield {**fact, "who": "Hugging Face", "how": f"batch {size}"}
        if count == len(sources):
            yield from _compare(task, found)
    best = max(rates, key=lambda size: rates[size])
    if len(sources) > max(FEWEST, TRIAL * best):
        fact, found = run(sources, best)
        yield {**fact, "who": "Hugging Face", "how": f"batch {best}"}
        yield from _compare(task, found)


def until_eos(said: list[int]) -> list[int]:
    """The tokens before EOS, without padding."""
    row = said[: said.index(EOS)] if EOS in said else said
    return [token for token in row if token != PAD]


def _compare(task: StageConfig, theirs: Ids) -> Records:
    """How many answers are the same, and the first that are not."""
    if not task.file("answers").is_file():
        return
    ours: Ids = json.loads(task.file("answers").read_text("utf-8"))
    pairs = list(zip(ours, theirs, strict=True))
    unlike = [pair for pair in pairs if pair[0] != pair[1]]
    yield {
        "precision": task.precision,
        "compared": len(pairs),
        "equal": len(pairs) - len(unlike),
        "unlike": unlike[:3],
    }
