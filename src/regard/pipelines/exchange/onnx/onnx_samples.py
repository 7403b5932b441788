"""Random inputs for the model of each task, for tracing graphs and comparing them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.exchange.onnx_graphs import MakeInputs
from regard.models.contracts import AnyModel
from regard.recipes.open_run import Run, open_run
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
    has_logits: bool
    """Whether the model's outputs are logits, and not numbers or vectors."""


def load_exportable(path: Path, weights: str = "model") -> ExportableRun:
    """The run in a folder, of any task."""
    run = open_run(path, device=CPU, weights=weights)
    spec, recipe = run.spec, run.recipe
    return ExportableRun(
        run.model,
        spec.name,
        recipe.model.family,
        spec.inputs()(run),
        run.task.vocabularies(),
        recipe,
        {} if spec.facts is None else spec.facts()(run),
        spec.logits,
    )


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


def source_texts(run: Run) -> MakeInputs:
    """Texts for the encoder of a model that writes texts."""
    return _text_inputs(run.tokenizers.source.size, run.longest)


def texts(run: Run) -> MakeInputs:
    """Texts for a model with one vocabulary."""
    segments = bool(getattr(run.recipe.model, "segments", 0))
    return _text_inputs(run.task.tokenizer.size, run.model.max_length, segments=segments)


def series(run: Run) -> MakeInputs:
    """Windows of a series."""
    columns, steps = run.model.output.out_features, run.recipe.corpus.window

    def make(rows: int, length: int) -> Series:
        mask = torch.arange(steps, 0, -1) <= _lengths(rows, steps)[:, None]
        return Series(torch.randn(rows, steps, columns), mask)

    return make


def pictures(run: Run) -> MakeInputs:
    """Pictures for a classifier."""
    side = run.recipe.model.picture_size

    def make(rows: int, length: int) -> Pixels:
        return Pixels(torch.randint(0, 256, (rows, 3, side, side), dtype=torch.uint8))

    return make


def captioned_pictures(run: Run) -> MakeInputs:
    """Pictures for a captioner, or the regions of its frozen network."""
    encoder = run.recipe.model.encoder
    height, width, channels = encoder.picture_shape()

    def make(rows: int, length: int) -> Pixels | Regions:
        if encoder.is_frozen:  # the model's input is the output of the frozen network
            return Regions(torch.randn(rows, height * width, channels))
        shape = (rows, channels, height, width)
        return Pixels(torch.randint(0, 256, shape, dtype=torch.uint8))

    return make


def masked_facts(run: Run) -> dict[str, Any]:
    """The id of the mask token."""
    return {"mask_id": run.model.mask_id}


def _label_facts(run: Run) -> dict[str, Any]:
    return {"labels": run.task.labels, "temperature": run.task.temperature}


def text_label_facts(run: Run) -> dict[str, Any]:
    """Labels, temperature, and the token that texts begin with."""
    return {**_label_facts(run), "text_start": run.recipe.model.text_start}


def picture_facts(run: Run) -> dict[str, Any]:
    """Labels, temperature, and how a picture is made square and scaled."""
    names = ("picture_size", "framing", "resampling")
    return {**_label_facts(run), **{name: getattr(run.recipe.model, name) for name in names}}


def caption_facts(run: Run) -> dict[str, Any]:
    """The encoder's settings."""
    encoder = run.recipe.model.encoder
    return {"encoder": encoder.model_dump(mode="json"), "reads_regions": encoder.is_frozen}


def series_facts(run: Run) -> dict[str, Any]:
    """`offset` and `factor` apply if the scale is that of the whole series (`minmax`)."""
    offset, factor = (part.tolist() for part in run.task.windows.whole)
    whole = {"offset": offset, "factor": factor}
    corpus = run.recipe.corpus
    facts = {"window": corpus.window, "scaling": corpus.scaling}
    facts["columns"] = run.task.series.columns
    return facts | (whole if corpus.scaling == "minmax" else {})
