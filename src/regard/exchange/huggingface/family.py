"""The common parts of model families that are exchanged with `transformers`."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.errors import RunError
from regard.exchange.huggingface.folder import HfFolder, JsonObject
from regard.exchange.tensor_table import TensorTable
from regard.settings import Settings
from regard.text.build import Tokenizers
from regard.text.tokenizer import Tokenizer
from regard.text.vocabulary_map import VocabularyMap


def same_name(name: str) -> str:
    """The name itself."""
    return name


@dataclass(frozen=True)
class HfModel:
    """A model in the terms of `transformers` and in ours."""

    architecture: str  # the name of its class in `transformers`
    config: JsonObject  # the content of its `config.json`
    settings: Settings  # of our model
    table: TensorTable
    tokenizers: Tokenizers | None = None  # None: it does not read text
    special_tokens: Mapping[str, int | None] = field(default_factory=dict)
    """Their ids of `pad_token` and other roles."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Further files of an export, by name: those of its tokenizer or picture processor."""
    recipe: JsonObject = field(default_factory=dict)  # groups of the recipe besides `model`
    present_name: Callable[[str], str] = same_name
    """Older name of a tensor in a file -> its name in the table."""
    labels: tuple[str, ...] = ()
    """Names of the output layer's rows, if it is a classifier."""
    notes: tuple[str, ...] = ()
    """Settings of its folder that a run does not support."""
    float64_tolerance: float | None = None
    """How far logits may differ in float64 if one side rounds more; None: the default."""
    peer_names: Sequence[tuple[str, str]] = ()
    """Substitutions that turn names in files into those of `transformers` in memory, in order."""

    def peer_name(self, name: str) -> str:
        """The name of a tensor in memory in `transformers`."""
        for pattern, there in self.peer_names:
            name = re.sub(pattern, there, name)
        return name


def imported_vocabulary(tokenizers: Tokenizers) -> VocabularyMap:
    """The map of the target vocabulary; a `RunError` if that was learned here."""
    vocabulary = tokenizers.target.vocabulary_map
    if vocabulary is None:
        raise RunError(
            "its vocabulary was learned here, by SentencePiece, and the library tokenizers cannot "
            "read it; only imported models of this kind are exported"
        )
    return vocabulary


def running_text_groups(task: str, tokenizer: Tokenizer) -> JsonObject:
    """The groups of a recipe for a model of running text, whose corpus is not known."""
    text = tokenizer.settings.model_dump(mode="json")
    return {"task": task, "corpus": {"imported": True}, "text": text}


@dataclass(frozen=True)
class HfFamily:
    """How models of a `model_type` are read and written."""

    model_type: str
    task: str  # of the run that a model becomes
    model_families: tuple[str, ...]  # of our models that can become one of theirs
    read: Callable[[HfFolder], HfModel]
    """The model of a folder; a `RunError` names what cannot be imported."""
    write: Callable[..., HfModel]
    """A model from our settings, tokenizers (if it reads text) and labels (if it has them); a
    `RunError` names a setting that theirs does not have."""
    to_float64: Callable[[Any], None] = lambda model: None
    """Patches their model, which is in float64, wherever it would still compute in float32."""
    reads_text: bool = True
    searches: bool = False
    """Whether a folder has search settings, in `generation_config.json`."""
    has_labels: bool = False
    architectures: tuple[str, ...] = ()
    """The names of its classes, if other families have the same `model_type`."""
