"""The settings of a model in `config.json`: each is imported, or refused by its name."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from regard.errors import RunError
from regard.settings import Settings, abbreviate, expectation

T = TypeVar("T", int, float, bool, str)
SettingsT = TypeVar("SettingsT", bound=Settings)

ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "quick_gelu": "gelu_sigmoid",
    "gelu_10": "gelu_clipped",
    "silu": "silu",
    "swish": "silu",
    "hardswish": "hardswish",
    "laplace": "laplace",
    "leaky_relu": "leaky_relu",
    "linear": "linear",
    "mish": "mish",
    "relu2": "relu2",
    "relu6": "relu6",
    "sigmoid": "sigmoid",
    "sqrtsoftplus": "sqrt_softplus",
    "tanh": "tanh",
}
"""Their names of activation functions -> ours; others hold weights of their own."""

_WITHOUT_EFFECT = """
    _attn_implementation_autoset _commit_hash _model_name_or_path _name_or_path _num_labels
    architectures
    attention_dropout_prob chunk_size_feed_forward classif_dropout classifier_dropout dtype
    finetuning_task gradient_checkpointing id2label initializer_range is_llama_config label2id
    model_type n_special num_labels output_attentions output_hidden_states output_past
    predict_special_tokens pretraining_tp problem_type return_dict sep_token_id
    task_specific_params tf_legacy_loss tokenizer_class torch_dtype torchscript
    transformers.js_config transformers_version unk_token_id use_bfloat16 use_cache
    """
WITHOUT_EFFECT = frozenset(_WITHOUT_EFFECT.split())
"""Settings of training and interfaces, and labels, which do not change what a model computes."""
_GENERATION = """
    bad_words_ids begin_suppress_tokens decoder_start_token_id diversity_penalty do_sample
    early_stopping encoder_no_repeat_ngram_size encoder_repetition_penalty epsilon_cutoff eta_cutoff
    exponential_decay_length_penalty forced_bos_token_id forced_eos_token_id guidance_scale
    length_penalty max_length max_new_tokens min_length min_new_tokens min_p no_repeat_ngram_size
    num_beam_groups num_beams num_return_sequences output_scores remove_invalid_values
    renormalize_logits repetition_penalty return_dict_in_generate sequence_bias suppress_tokens
    temperature top_h top_k top_p typical_p
    """
GENERATION = frozenset(_GENERATION.split())
"""Settings of text generation in their library: a run has its own."""
NEUTRAL: Mapping[str, object] = {
    "add_cross_attention": False,
    "cross_attention_hidden_size": None,
    "force_bos_token_to_be_generated": False,
    "is_decoder": False,
    "is_encoder_decoder": False,
    "prefix": None,
    "pruned_heads": {},
    "quantization_config": None,
    "rope_interleaved": False,
    "tie_encoder_decoder": False,
}
"""Settings in published files of any model, each with the value that changes nothing."""
MAX_NUMBER = 1e300  # larger ones overflow in arithmetic with floats


class ConfigReader:
    """Reads settings and tracks which were read; `finish` refuses the others."""

    def __init__(self, raw: Mapping[str, Any], where: str) -> None:
        self.raw, self.where = raw, where
        neutral = {name for name, value in NEUTRAL.items() if raw.get(name) == value}
        self._unread = {*raw} - WITHOUT_EFFECT - GENERATION - neutral

    def get(self, name: str, kind: type[T], default: T | None = None) -> T:
        """A setting of type `kind`; without a default, it is required."""
        self._unread.discard(name)
        value = self.raw.get(name)
        if value is None:
            if default is None:
                raise RunError(f"{self.where}: {name} is missing")
            return default
        whole = isinstance(value, int) and not isinstance(value, bool)
        number = {int: whole, float: whole or isinstance(value, float)}
        if not number.get(kind, isinstance(value, kind)):
            raise self.refusal(name, f"must be of type {kind.__name__}")
        if kind in number and abs(value) > MAX_NUMBER:
            raise self.refusal(name, "too large a number")
        return kind(value)

    def optional(self, name: str, kind: type[T]) -> T | None:
        """A setting that may be null or missing."""
        self._unread.discard(name)
        return None if self.raw.get(name) is None else self.get(name, kind)

    def require(self, name: str, allowed: Sequence[object], *, default: object = None) -> None:
        """Refuse a setting whose value, or the default if it is missing, is not `allowed`."""
        self._unread.discard(name)
        value = self.raw.get(name, default)
        if value not in allowed:
            known = " or ".join(map(repr, allowed))
            raise self.refusal(name, f"only {known} can be imported")

    def group(self, name: str) -> "ConfigReader | None":
        """A group of settings; None if it is missing."""
        self._unread.discard(name)
        value = self.raw.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.refusal(name, "must be a group of settings")
        return None if value is None else ConfigReader(value, f"{self.where}: {name}")

    def square(self, name: str) -> int:
        """The side of a square in pixels, given as one number or as height and width."""
        if not isinstance(self.raw.get(name), list):
            return self.get(name, int)
        sides = self.numbers(name)
        if len({*sides}) != 1:
            raise self.refusal(name, "only squares can be imported")
        return sides[0]

    def numbers(self, name: str) -> list[int]:
        """A list of whole numbers."""
        self._unread.discard(name)
        value = self.raw.get(name)
        found = value if isinstance(value, list) else []
        if not found or not all(type(one) is int for one in found):
            raise self.refusal(name, "must be a list of whole numbers")
        return found

    def activation(self, name: str) -> str:
        """Our name of an activation function."""
        value = self.get(name, str)
        if value not in ACTIVATIONS:
            raise self.refusal(name, f"supported are {', '.join(sorted(ACTIVATIONS))}")
        return ACTIVATIONS[value]

    def ignore(self, *names: str) -> None:
        """Mark settings that do not change what this model computes as read."""
        self._unread.difference_update(names)

    def finish(self) -> None:
        """Refuse settings that were not read: they might change what the model computes."""
        if self._unread:
            raise self.refusal(min(self._unread), "not supported here")

    def refusal(self, name: str, why: str) -> RunError:
        value = abbreviate(repr(self.raw.get(name)))
        return RunError(f"{self.where}: {abbreviate(name)} is {value}: {why}")


def their_activation(name: str) -> str:
    """Their name of one of our activation functions; a `RunError` if they have none."""
    found = [theirs for theirs, ours in ACTIVATIONS.items() if ours == name]
    if not found:
        raise RunError(f"model.activation: {name}: transformers does not have it for this family")
    return found[0]


def build_settings(kind: type[SettingsT], values: Mapping[str, Any], where: str) -> SettingsT:
    """The settings of our model; an error names the unsupported setting of its file."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise RunError(f"{where}: {place + ': ' if place else ''}{expectation(first)}") from None
