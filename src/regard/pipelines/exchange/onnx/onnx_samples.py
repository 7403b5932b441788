"""Random inputs for the model of each task, for tracing graphs and comparing them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.exchange.onnx_graphs import MakeInputs
from regard.models.contracts import AnyModel
from regard.recipes.paths import run_task_name
from regard.recipes.run_folder import load_run
from regard.recipes.task_run import load_task_run
from regard.tasks.names import TEXT_TASKS
from regard.text.build import Tokenizers
from regard.text.special_tokens import SPECIAL_PIECES
from regard.types import Padded, Pixels, Regions, Series

CPU = torch.device("cpu")


class ExportableRun(NamedTuple):
    """The model of a run of any task, and all that its export needs."""

    model: AnyModel
    task: str
    family: str
    make_inputs: MakeInputs
    tokenizers: Tokenizers | None  # None: it has no texts
    recipe: Any
    facts: Mapping[str, Any]
    """Facts for programs that run its graphs, in addition to length and special tokens."""

    @property
    def has_logits(self) -> bool:
        """Whether the model's outputs are logits, and not numbers or vectors."""
        return self.task not in ("forecast", "bidirectional-language-model")


def load_exportable(path: Path, weights: str = "model") -> ExportableRun:
    """The run in a folder, of any task."""
    task = run_task_name(path)
    if task in TEXT_TASKS:
        run = load_run(path, device=CPU, weights=weights)
        make = _text_inputs(run.tokenizers.source.size, run.longest)
        family = run.recipe.model.family
        return ExportableRun(run.model, task, family, make, run.tokenizers, run.recipe, {})
    found = load_task_run(path, task, device=CPU, weights=weights)
    make = SAMPLES[task](found)
    facts = FACTS.get(task, lambda run: {})(found)
    tokenizer = getattr(found.task, "tokenizer", None)
    tokenizers = None if tokenizer is None else Tokenizers(tokenizer, tokenizer)
    family = found.recipe.model.family
    return ExportableRun(found.model, task, family, make, tokenizers, found.recipe, facts)


def _lengths(rows: int, length: int) -> Tensor:
    """Lengths (B,): `length` for the first row, and one less for each further row."""
    return (length - torch.arange(rows)).clamp_min(1)


def _text_inputs(size: int, longest: int | None, *, segments: bool = False) -> MakeInputs:
    def make(rows: int, length: int) -> Padded:
        length = min(length, longest or length)
        mask = torch.arange(length) < _lengths(rows, length)[:, None]
        ids = torch.randint(len(SPECIAL_PIECES), size, mask.shape)
        second = (torch.arange(length) > length // 2).long().repeat(rows, 1)
        return Padded(ids.masked_fill(~mask, 0), mask, None, second if segments else None)

    return make


def _texts(run: Any) -> MakeInputs:
    segments = bool(getattr(run.recipe.model, "segments", 0))
    return _text_inputs(run.task.tokenizer.size, run.model.max_length, segments=segments)


def _series(run: Any) -> MakeInputs:
    columns, steps = run.model.output.out_features, run.recipe.corpus.window

    def make(rows: int, length: int) -> Series:
        mask = torch.arange(steps, 0, -1) <= _lengths(rows, steps)[:, None]
        return Series(torch.randn(rows, steps, columns), mask)

    return make


def _pictures(run: Any) -> MakeInputs:
    side = run.recipe.model.picture_size

    def make(rows: int, length: int) -> Pixels:
        return Pixels(torch.randint(0, 256, (rows, 3, side, side), dtype=torch.uint8))

    return make


def _captioned(run: Any) -> MakeInputs:
    encoder = run.recipe.model.encoder
    height, width, channels = encoder.picture_shape()

    def make(rows: int, length: int) -> Pixels | Regions:
        if encoder.is_frozen:  # the model's input is the output of the frozen network
            return Regions(torch.randn(rows, height * width, channels))
        shape = (rows, channels, height, width)
        return Pixels(torch.randint(0, 256, shape, dtype=torch.uint8))

    return make


SAMPLES: Mapping[str, Callable[[Any], MakeInputs]] = {
    "language-model": _texts,
    "masked-language-model": _texts,
    "bidirectional-language-model": _texts,
    "text-classification": _texts,
    "picture-classification": _pictures,
    "caption": _captioned,
    "forecast": _series,
}
"""By task; translation and chat have vocabularies of their own."""


def _masked_facts(run: Any) -> dict[str, Any]:
    return {"mask_id": run.model.mask_id}


def _label_facts(run: Any) -> dict[str, Any]:
    return {"labels": run.task.labels, "temperature": run.task.temperature}


def _text_label_facts(run: Any) -> dict[str, Any]:
    return {**_label_facts(run), "text_start": run.recipe.model.text_start}


def _picture_facts(run: Any) -> dict[str, Any]:
    names = ("picture_size", "framing", "resampling")
    return {**_label_facts(run), **{name: getattr(run.recipe.model, name) for name in names}}


def _caption_facts(run: Any) -> dict[str, Any]:
    encoder = run.recipe.model.encoder
    return {"encoder": encoder.model_dump(mode="json"), "reads_regions": encoder.is_frozen}


def _series_facts(run: Any) -> dict[str, Any]:
    """`offset` and `factor` apply if the scale is that of the whole series (`minmax`)."""
    offset, factor = (part.tolist() for part in run.task.windows.whole)
    whole = {"offset": offset, "factor": factor}
    corpus = run.recipe.corpus
    facts = {"window": corpus.window, "scaling": corpus.scaling}
    facts["columns"] = run.task.series.columns
    return facts | (whole if corpus.scaling == "minmax" else {})


FACTS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "masked-language-model": _masked_facts,
    "text-classification": _text_label_facts,
    "picture-classification": _picture_facts,
    "caption": _caption_facts,
    "forecast": _series_facts,
}
"""By task, for those whose graphs need more than a tokenizer."""
