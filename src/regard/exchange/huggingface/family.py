"""What the families of models that are exchanged with `transformers` have in common."""

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
    """A model as `transformers` describes it, and as we do."""

    architecture: str  # the name of its class in `transformers`
    config: JsonObject  # what its `config.json` says
    settings: Settings  # of our model
    table: TensorTable
    tokenizers: Tokenizers | None = None  # None: it reads no text
    special_tokens: Mapping[str, int | None] = field(default_factory=dict)
    """Their ids of `pad_token` and other roles."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Further files of an export, by name: those of its tokenizer, or how it reads pictures."""
    recipe: JsonObject = field(default_factory=dict)  # groups of the recipe, beside `model`
    present_name: Callable[[str], str] = same_name
    """The name in the table of a tensor that a file has under an older one."""
    labels: tuple[str, ...] = ()
    """Names of the output layer's rows, where it is a classifier."""
    notes: tuple[str, ...] = ()
    """What its folder asks for that a run does not do."""
    float64_tolerance: float | None = None
    """How far logits may differ in float64, where one side rounds more; None: the default."""
    peer_names: Sequence[tuple[str, str]] = ()
    """Substitutions that turn names in files into those of `transformers` in memory, in order."""

    def peer_name(self, name: str) -> str:
        """What `transformers` calls a tensor in memory."""
        for pattern, there in self.peer_names:
            name = re.sub(pattern, there, name)
        return name


def imported_vocabulary(tokenizers: Tokenizers) -> VocabularyMap:
    """The map of the target vocabulary; a `RunError` where that was learned here."""
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
    """The model of a folder; a `RunError` names what cannot be honoured."""
    write: Callable[..., HfModel]
    """A model for our settings, our tokenizers where it reads text, and labels where it has them; a
    `RunError` names a setting that theirs does not have."""
    to_float64: Callable[[Any], None] = lambda model: None
    """Patches their model, given in float64, where it would still compute in float32."""
    reads_text: bool = True
    searches: bool = False
    """Whether a folder says how answers are searched for, in `generation_config.json`."""
    has_labels: bool = False
    architectures: tuple[str, ...] = ()
    """The names of its classes, where other families have the same `model_type`."""
