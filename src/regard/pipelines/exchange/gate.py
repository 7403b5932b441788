"""The gate of every conversion: both sides must give the same outputs for a sample."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from pydantic import field_validator
from torch import Tensor

from regard.decoding.settings import DecodingSettings
from regard.errors import RunError
from regard.exchange.huggingface.family import HfFamily, HfModel, imported_vocabulary
from regard.exchange.huggingface.folder import CONFIG, HfFolder
from regard.pipelines.exchange.generation_config import GENERATION_CONFIG
from regard.pipelines.exchange.stored_answers import (
    ANSWERS,
    NUM_POSITIONS,
    difference_from_answers,
    write_answers,
)
from regard.pipelines.exchange.task_parity import TaskParity
from regard.pipelines.exchange.translation_parity import parity_search
from regard.settings import Settings, abbreviate
from regard.tasks.registry import TASKS
from regard.text.build import Tokenizers
from regard.text.vocabulary_map import VocabularyMap

FLOAT64_TOLERANCE = 1e-9  # of logits, relative to the largest one, or to 1 if that is smaller
FLOAT32_TOLERANCE = 1e-4
ANSWER_FORM = {"return_dict": True, "output_attentions": False, "output_hidden_states": False}
"""Settings of `config.json` that say in which form answers are given: what is read here."""
IMPOSSIBLE = -1e8  # logits of tokens that only our vocabulary has must be below it


class GateReport(Settings):
    """The comparison of both sides' outputs for a sample."""

    reference: str
    """The library or formula that our outputs are compared with."""
    rows: int = 0
    """Texts or pictures of the sample."""
    positions: int = 0
    """Places in them whose logits were compared."""
    float64: float | None = None
    """The largest difference of two logits in float64; None: it was not computed, or infinite."""
    float32: float | None = None
    """The same in float32."""
    int8: float | None = None
    """By how much answers are less likely in int8, in nats each; None: it was not computed."""
    answers: int = 0
    """Texts that both sides answered."""
    same_answers: int = 0
    """Texts that both sides answered alike."""
    refused: str | None = None
    """Why the conversion is refused; None: it is not."""

    @field_validator("float64", "float32", mode="before")
    @classmethod
    def _leave_out_infinite(cls, value: float | None) -> float | None:
        return value if value is not None and isfinite(value) else None

    def summary(self) -> str:
        """The findings, in a sentence."""
        found = [(name, getattr(self, name)) for name in ("float64", "float32")]
        numbers = [f"{one:.1e} in {name}" for name, one in found if one is not None]
        numbers += [] if self.int8 is None else [f"{self.int8:.1e} nats in int8"]
        same = f"; {self.same_answers} of {self.answers} answers are the same"
        return (
            f"{self.reference}: outputs at {self.positions:,} positions differ by at most "
            f"{', '.join(numbers)}{same if self.answers else ''}"
        )


def check_import(
    family: HfFamily, folder: HfFolder, described: HfModel, tensors: Mapping[str, Tensor], run: Any
) -> GateReport:
    """Compare the model of `run` with that of a folder, and with stored answers in it.

    If `transformers` is not installed, stored answers alone are enough.
    """
    alone = find_spec("transformers") is None
    try:
        stored = compare_answers(family, folder.path, run.model, described.tokenizers)
        if stored is not None and (stored.refused or alone):
            return stored
        require_transformers(str(folder.path), "imported")
        peer = load_peer(folder, described, tensors)
        search = None
        if family.searches:
            search, peer.generation_config = run.settings, load_generation_config(folder)
        return compare(family, peer, run.model, described.tokenizers, reference_name(), search)
    except (ArithmeticError, IndexError, RuntimeError, TypeError, ValueError) as error:
        refused = f"the sample cannot be computed: {abbreviate(str(error))}"
        return GateReport(reference=ANSWERS if alone else reference_name(), refused=refused)


def require_transformers(what: str, done: str) -> None:
    """Raise an error unless `transformers` is installed."""
    if find_spec("transformers") is None:
        raise RunError(
            f"{what}: can be {done} only if its outputs equal those of transformers, which is not "
            "installed; install it: pip install 'regard[exchange]'"
        )


def _parity(family: HfFamily) -> TaskParity:
    """How models of the family's task are compared."""
    compared = TASKS[family.task].parity
    assert compared is not None
    parity: TaskParity = compared()()
    return parity


@torch.inference_mode()
def compare_answers(
    family: HfFamily, folder: Path, model: Any, tokenizers: Tokenizers | None
) -> GateReport | None:
    """Compare with the answers stored in a folder, in float32; None if there are none."""
    if not (folder / ANSWERS).exists():
        return None
    vocabulary, parity = _vocabulary(tokenizers), _parity(family)
    sample = parity.sample(tokenizers, model)
    logits = parity.our_logits(model, sample)
    tokens = vocabulary if parity.scores_tokens(model) else None
    columns = present, _ = _columns(tokens, logits.shape[1])
    found = difference_from_answers(folder, sample, logits, columns)
    if found is None:
        return None
    largest = max(1.0, float(logits[:, present].abs().max()))
    refused = refusal({"float32": found}, largest, 0, 0)
    return GateReport(
        reference=f"the answers in {ANSWERS}",
        positions=min(NUM_POSITIONS, len(logits)),
        float32=found,
        refused=refused
        and f"compared with {ANSWERS}, {refused}; if the model was changed on "
        "purpose, remove that file",
    )


@torch.inference_mode()
def store_answers(
    folder: Path, family: HfFamily, peer: Any, model: Any, tokenizers: Tokenizers | None
) -> None:
    """Write the outputs of `transformers` for the sample into a folder."""
    vocabulary, parity = _vocabulary(tokenizers), _parity(family)
    sample = parity.sample(tokenizers, model)
    write_answers(folder, sample, parity.peer_logits(peer, sample, vocabulary))


def reference_name() -> str:
    """The library that our outputs are compared with, and its version."""
    return f"transformers {import_module('transformers').__version__}"


@torch.inference_mode()
def compare(
    family: HfFamily,
    peer: Any,
    model: Any,
    tokenizers: Tokenizers | None,
    reference: str,
    search: DecodingSettings | None = None,
    *,
    float64_tolerance: float | None = None,
) -> GateReport:
    """Compare answers, also by the `search` of a run, and logits in float32 and in float64; a model
    that reads no text has no `tokenizers`.
    """
    vocabulary, parity = _vocabulary(tokenizers), _parity(family)
    tokens = vocabulary if parity.scores_tokens(model) else None
    sample = parity.sample(tokenizers, model)
    if search is not None:
        sample = sample._replace(search=parity_search(search))
    differences: dict[str, float] = {}
    largest = 1.0
    for precision in ("float32", "float64"):
        if precision == "float64":
            model, peer = model.double(), peer.double()
            family.to_float64(peer)
        theirs = parity.peer_logits(peer, sample, vocabulary)
        difference = _difference(parity.our_logits(model, sample), theirs, tokens)
        if (others := parity.other_logits(model, peer, sample, vocabulary)) is not None:
            difference = max(difference, largest_difference(*others))
        differences[precision] = difference
        largest = max(largest, float(theirs.abs().max()))
    answers = parity.our_answers(model, sample), parity.peer_answers(peer, sample, vocabulary)
    model.float()
    same = sum(one == other for one, other in zip(*answers, strict=True))
    return GateReport(
        reference=reference,
        rows=len(sample.rows),
        positions=len(theirs),
        answers=len(answers[0]),
        same_answers=same,
        refused=refusal(differences, largest, same, len(answers[0]), float64_tolerance),
        **differences,
    )


def _vocabulary(tokenizers: Tokenizers | None) -> VocabularyMap | None:
    """The map of the target vocabulary; None for a model that reads no text."""
    return None if tokenizers is None else imported_vocabulary(tokenizers)


def _columns(vocabulary: VocabularyMap | None, size: int) -> tuple[list[int], list[int]]:
    """Columns of our logits, and of theirs, of the same tokens; of all `size` classes if None."""
    if vocabulary is None:
        return [*range(size)], [*range(size)]
    present = [i for i, there in enumerate(vocabulary.theirs) if there is not None]
    return present, vocabulary.to_theirs(present)


def _difference(ours: Tensor, theirs: Tensor, vocabulary: VocabularyMap | None) -> float:
    """The largest difference of logits (N, V) of the same tokens; infinite if ours could generate a
    token that theirs does not have.
    """
    absent = list(vocabulary.absent) if vocabulary else []
    if absent and bool((ours[:, absent] > IMPOSSIBLE).any()):
        return float("inf")
    here, there = _columns(vocabulary, ours.shape[1])
    return largest_difference(ours[:, here], theirs[:, there])


def largest_difference(ours: Tensor, theirs: Tensor) -> float:
    """The largest absolute difference; infinite if one is NaN."""
    found = (ours - theirs).abs().max()
    return float(found.nan_to_num(nan=float("inf"), posinf=float("inf")))


def refusal(
    differences: Mapping[str, float],
    largest: float,
    same: int,
    answers: int,
    float64_tolerance: float | None = None,
) -> str | None:
    """Why a conversion is refused, given the `differences` of logits in each precision, the
    `largest` logit, and how many `answers` are the `same`; None: it is accepted.
    """
    tolerances = {"float64": float64_tolerance or FLOAT64_TOLERANCE, "float32": FLOAT32_TOLERANCE}
    largest = max(1.0, largest)
    for precision, found in sorted(differences.items(), reverse=True):
        tolerance = tolerances[precision]
        if not found <= tolerance * largest:
            return (
                f"in {precision} its logits differ by {found:.3g}; at most "
                f"{tolerance * largest:.1g} is allowed"
            )
    if same < answers:
        return f"{answers - same} of {answers} texts are answered differently"
    return None


def check_shapes(folder: HfFolder, described: HfModel, tensors: Mapping[str, Tensor]) -> None:
    """Raise a `RunError` that names a tensor of the files whose shape does not match `config.json`;
    nothing is checked without `transformers`, which defines these shapes.
    """
    if find_spec("transformers") is None:
        return
    with torch.device("meta"):  # only shapes
        wanted = build_peer(folder, described).state_dict()
    for name, tensor in tensors.items():
        present = described.present_name(name)
        there = present if present in wanted else described.peer_name(present)
        if there in wanted and wanted[there].shape != tensor.shape:
            raise RunError(
                f"{folder.path}: its tensor {name} has the shape {tuple(tensor.shape)}, but its "
                f"config.json needs {tuple(wanted[there].shape)}; one of the two files belongs to "
                "another model, or was changed"
            )


def build_peer(folder: HfFolder, described: HfModel) -> Any:
    """The model of `transformers` that a folder's `config.json` describes, randomly initialised."""
    transformers = import_module("transformers")  # optional, and slow to import
    with loading(folder, transformers):
        config = transformers.AutoConfig.from_pretrained(
            str(folder.path), local_files_only=True, trust_remote_code=False
        )
        for name, value in ANSWER_FORM.items():
            setattr(config, name, value)
        return getattr(transformers, described.architecture)(config).eval()


@contextmanager
def loading(folder: HfFolder, transformers: Any) -> Iterator[None]:
    """A context in which errors of `transformers` become a `RunError` about a folder."""
    with quiet(transformers):
        try:
            yield
        except Exception as error:  # its errors have no common type
            raise RunError(
                f"{folder.path}: transformers {transformers.__version__} cannot load it: "
                f"{abbreviate(str(error))}"
            ) from None


def load_generation_config(folder: HfFolder) -> Any:
    """The generation settings of a folder as `transformers` reads them."""
    transformers, alone = (
        import_module("transformers"),
        not (folder.path / GENERATION_CONFIG).exists(),
    )
    with loading(folder, transformers):
        return transformers.GenerationConfig.from_pretrained(
            str(folder.path),
            config_file_name=CONFIG if alone else GENERATION_CONFIG,
            _from_model_config=alone,
            local_files_only=True,
        )


def load_peer(folder: HfFolder, described: HfModel, tensors: Mapping[str, Tensor]) -> Any:
    """The model of `transformers` with exactly the tensors of the files.

    Its own loader is not used: it ties some weights that files hold separately.
    """
    peer = build_peer(folder, described)
    copies = {
        name: tensors[of]
        for name, of in described.table.copies.items()
        if name not in tensors and of in tensors
    }
    known, given = {*peer.state_dict()}, {**copies, **tensors}
    named = {name if name in known else described.peer_name(name): name for name in given}
    with loading(folder, import_module("transformers")):
        missing, unexpected = peer.load_state_dict(
            {there: given[name].float() for there, name in named.items()}, strict=False
        )
    if lacking := [name for name in missing if not described.table.is_optional(name)]:
        raise RunError(f"{folder.path}: its weights lack {lacking[0]}, which transformers has")
    if extra := [name for name in unexpected if not described.table.is_optional(name)]:
        raise RunError(f"{folder.path}: transformers has no place for {extra[0]}")
    return peer


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """A context in which `transformers` logs errors only, and shows no progress."""
    logging = transformers.utils.logging
    level, shown = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()
