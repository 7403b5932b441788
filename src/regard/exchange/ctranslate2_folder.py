"""A folder with CTranslate2's `model.bin` -> settings, vocabularies and weights of our Transformer.

Every attribute of the model is imported or refused by its name, and every variable is used.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from torch import Tensor

from regard.atomic_io import read_limited
from regard.attention.positions import SINUSOIDS, SinusoidLayout, SinusoidPositions
from regard.errors import RunError
from regard.exchange.ctranslate2_file import MODEL_FILE, Ct2Variables, read_variables
from regard.exchange.ctranslate2_names import weight_places
from regard.json_files import describe_error, read_json
from regard.layers.transformer_parts import ABSENT_LOGIT
from regard.models.translation.transformer_settings import TransformerSettings, per_side
from regard.settings import expectation

SPECIFICATIONS = {"TransformerSpec": 8, "TransformerBase": 8, "TransformerBig": 16}
"""Kinds of models that are Transformers for translation, and their heads if none are given."""
FIRST_REVISION = 2  # the first with the present names of variables
ACTIVATIONS = {
    0: "relu",
    1: "gelu_tanh",
    2: "silu",
    3: "gelu",
    4: "gelu_sigmoid",
    5: "tanh",
    6: "sigmoid",
}
"""CTranslate2's numbers of activation functions."""
SINUSOID_TOLERANCE = 1e-6
GENERATED_SINUSOIDS: dict[str, Any] = {"sinusoids": "tensor2tensor", "first_position": 1}
"""The position encodings that CTranslate2 computes if a file has none."""
STACKS = ("encoder", "decoder")
DROPOUTS = ("dropout", "attention_dropout", "activation_dropout", "source_dropout")
WITHOUT_EFFECT = ("alignment_layer", "alignment_heads", "embeddings_merge")
"""Attributes that do not change the output of a model with one source embedding."""
FALSE_ONLY = (
    "alibi",
    "alibi_use_positive_positions",
    "scale_alibi",
    "multi_query_attention",
    "start_from_zero_embedding",
)


class Ct2Config(BaseModel):
    """The content of `config.json`, which models before version 3 lack."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    unk_token: str = "<unk>"
    bos_token: str = "<s>"
    eos_token: str = "</s>"
    decoder_start_token: str | None = "<s>"
    add_source_bos: bool = False
    add_source_eos: bool = False
    layer_norm_epsilon: float | None = None
    multi_query_attention: bool = False


class Ct2Model(NamedTuple):
    """The contents of a CTranslate2 folder."""

    config: Ct2Config
    settings: TransformerSettings
    source_tokens: list[str]  # in the order of the rows of the embeddings
    target_tokens: list[str]  # the same list if the vocabulary is shared
    weights: dict[str, Tensor]  # under our names, in float32, rows of tokens in their order
    positions: int | None  # the longest text that CTranslate2 can read, in tokens


def read_ct2_folder(folder: Path) -> Ct2Model:
    """The model of a folder; a `RunError` names what cannot be read or imported."""
    config = _read_config(folder)
    path = folder / MODEL_FILE
    variables = read_variables(path)
    try:
        reader = _ModelReader(variables, config)
        settings = reader.settings()
        weights = reader.weights(settings)
    except RunError as error:
        raise RunError(f"{path}: {error}") from None
    source, target = _read_vocabularies(folder, config)
    sizes = {"source": weights["embeddings.source"], "target": reader.target_rows(weights)}
    for (side, rows), tokens in zip(sizes.items(), (source, target), strict=True):
        if len(tokens) != len(rows):
            raise RunError(
                f"{folder}: its {side} vocabulary has {len(tokens):,} tokens, and {MODEL_FILE} "
                f"embeddings of {len(rows):,}: not a vocabulary of this model"
            )
    tables = (f"{stack}/position_encodings/encodings" for stack in STACKS)
    lengths = [len(variables.tensors[name]) for name in tables if name in variables.tensors]
    return Ct2Model(config, settings, source, target, weights, min(lengths, default=None))


def _read_config(folder: Path) -> Ct2Config:
    path = folder / "config.json"
    if not path.exists():
        return Ct2Config()
    try:
        config = read_json(path, Ct2Config)
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: {describe_error(error)}") from None
    for name, allowed in {"add_source_bos": False, "multi_query_attention": False}.items():
        if getattr(config, name) != allowed:
            raise RunError(f"{path}: {name} is true, and only false can be imported")
    if config.decoder_start_token is None:
        raise RunError(f"{path}: decoder_start_token is null: no token begins a translation")
    return config


def _read_vocabularies(folder: Path, config: Ct2Config) -> tuple[list[str], list[str]]:
    shared = _read_vocabulary(folder, "shared", config)
    if shared is not None:
        return shared, shared
    source, target = (_read_vocabulary(folder, side, config) for side in ("source", "target"))
    if source is None or target is None:
        raise RunError(
            f"{folder}: holds no shared_vocabulary, nor source_vocabulary and target_vocabulary "
            "(.json or .txt), which belong to a model of CTranslate2"
        )
    return source, target


def _read_vocabulary(folder: Path, side: str, config: Ct2Config) -> list[str] | None:
    """The tokens of a vocabulary; CTranslate2 adds the unknown token if a file lacks it."""
    stem = folder / f"{side}_vocabulary"
    json_file, text_file = stem.with_suffix(".json"), stem.with_suffix(".txt")
    try:
        if json_file.exists():
            tokens = read_json(json_file, TypeAdapter(list[str]))
        elif text_file.exists():
            text = read_limited(text_file, "json").decode()
            tokens = text.removesuffix("\n").split("\n")
        else:
            return None
    except (OSError, ValueError) as error:
        raise RunError(f"{stem}: cannot be read: {describe_error(error)}") from None
    if config.unk_token not in tokens:
        tokens.append(config.unk_token)
    if len({*tokens}) < len(tokens) or "" in tokens:
        raise RunError(f"{stem}: a token is empty or occurs twice")
    return tokens


class _ModelReader:
    """Reads variables and tracks which were read, so that none is overlooked."""

    def __init__(self, variables: Ct2Variables, config: Ct2Config) -> None:
        self._config = config
        if variables.specification not in SPECIFICATIONS:
            raise RunError(
                f"its model is a {variables.specification}; only Transformers for "
                f"translation can be imported: {', '.join(SPECIFICATIONS)}"
            )
        if variables.revision < FIRST_REVISION:
            raise RunError(
                f"its revision is {variables.revision}, and only those from {FIRST_REVISION} on "
                "can be imported; convert the original model again"
            )
        renamed = {  # older files have `embeddings` without a number
            re.sub("^encoder/embeddings/weight", "encoder/embeddings_0/weight", name): tensor
            for name, tensor in variables.tensors.items()
        }
        self._variables = variables._replace(tensors=renamed)
        self._unread = {name for name in renamed if not name.endswith("_scale")}
        self._unread |= {name for name in renamed if name.removesuffix("_scale") not in renamed}

    def settings(self) -> TransformerSettings:
        """The settings of our model; its weights' shapes are checked by `weights`."""
        tensors = self._variables.tensors
        layers = {stack: self._count_layers(stack) for stack in STACKS}
        feeds = (f"{stack}/layer_0/ffn/linear_0/weight" for stack in STACKS)
        for name in ("encoder/embeddings_0/weight", *feeds):
            if name not in tensors or tensors[name].ndim != 2:
                raise RunError(f"it holds no matrix {name}")
        width = tensors["encoder/embeddings_0/weight"].shape[1]
        gated = "encoder/layer_0/ffn/linear_0_noact/weight" in tensors
        final_norm = "encoder/layer_norm/gamma" in tensors
        if final_norm != ("decoder/layer_norm/gamma" in tensors):
            raise RunError("one of encoder and decoder ends in a norm, and the other does not")
        self._refuse_other_attributes()
        values = {
            "encoder_layers": layers["encoder"],
            "decoder_layers": layers["decoder"],
            "width": width,
            **self._heads(),
            **self._feed_forward(),
            "norm": "pre" if self._of_both("pre_norm", True) else "post",
            "final_norm": final_norm,
            "activation": self._activation(gated),
            "embeddings": self._tying(),
            "bias": "encoder/layer_0/self_attention/linear_0/bias" in tensors,
            "output_bias": "decoder/projection/bias" in tensors,
            "embedding_norm": "encoder/layernorm_embedding/gamma" in tensors,
            "scale_embeddings": self._scales_embeddings(width),
            "norm_epsilon": self._config.layer_norm_epsilon or 1e-5,
            "source_eos": self._config.add_source_eos,
            "dropout": 0.0,
            **self._positions(width),
        }
        try:
            return TransformerSettings.model_validate(values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise RunError(f"{place + ': ' if place else ''}{expectation(first)}") from None

    def weights(self, settings: TransformerSettings) -> dict[str, Tensor]:
        """The weights under our names; an error if one is missing, or left over."""
        parts: dict[str, list[Tensor]] = {}
        for theirs, ours, rows in weight_places(settings):
            if theirs not in self._variables.tensors:
                raise RunError(f"it holds no {theirs}")
            self._unread.discard(theirs)
            weight = self._variables.weight(theirs)
            if rows is not None and len(weight) != rows[1] - rows[0]:
                raise RunError(
                    f"its {theirs} has {len(weight):,} rows, and should have {rows[1] - rows[0]:,}"
                )
            if theirs.endswith("relative_position_keys"):
                weight = self._relative_keys(theirs, weight)
            if rows is None:
                parts[ours] = [weight]
            else:
                parts.setdefault(ours, []).append(weight)
        if settings.positions == "learned":
            for stack, side in zip(STACKS, ("source", "target"), strict=True):
                table = self._variables.weight(f"{stack}/position_encodings/encodings")
                parts[f"{side}_positions.table.weight"] = [table]
        if self._unread:
            raise RunError(f"it has {min(self._unread)}, which is not supported here")
        return {name: torch.cat(some) for name, some in parts.items()}  # copies, also of aliases

    @staticmethod
    def target_rows(weights: dict[str, Tensor]) -> Tensor:
        """The embeddings of target tokens."""
        return weights.get("embeddings.target", weights["embeddings.source"])

    def _count_layers(self, stack: str) -> int:
        pattern = re.compile(rf"{stack}/layer_(\d{{1,4}})/")
        found = {int(match[1]) for name in self._unread if (match := pattern.match(name))}
        if not found or found != set(range(len(found))):
            raise RunError(f"the layers of its {stack} are not numbered from 0 on")
        return len(found)

    def _scalar(self, name: str) -> float | None:
        """An attribute of the model; None if it is missing."""
        self._unread.discard(name)
        tensor = self._variables.tensors.get(name)
        if tensor is None:
            return None
        if tensor.numel() != 1:
            raise RunError(f"its attribute {name} has {tensor.numel()} values")
        return tensor.item()

    def _of_both(self, name: str, default: float) -> float:
        """An attribute that must be equal in encoder and decoder; old models have it only once."""
        once = self._scalar(name)
        otherwise = default if once is None else once
        found = [self._scalar(f"{stack}/{name}") for stack in STACKS]
        values = {otherwise if value is None else value for value in found}
        if len(values) > 1:
            raise RunError(f"encoder and decoder differ in {name}: {found[0]} and {found[1]}")
        return values.pop()

    def _heads(self) -> dict[str, int | None]:
        default = self._scalar("num_heads") or SPECIFICATIONS[self._variables.specification]
        encoder, decoder = (self._scalar(f"{stack}/num_heads") or default for stack in STACKS)
        return per_side("heads", int(encoder), int(decoder))

    def _feed_forward(self) -> dict[str, int | None]:
        tensors, name = self._variables.tensors, "layer_0/ffn/linear_0/weight"
        encoder, decoder = (len(tensors[f"{stack}/{name}"]) for stack in STACKS)
        return per_side("feed_forward", encoder, decoder)

    def _activation(self, gated: bool) -> str:
        number = int(self._of_both("activation", 0))
        name = ACTIVATIONS.get(number)
        if gated:
            name = {"silu": "swiglu"}.get(name or "")
        if name is None:
            raise RunError(
                f"its activation function, number {number}{' with gates' if gated else ''}, is not "
                "known here"
            )
        return name

    def _tying(self) -> str:
        """The kind of tying: embeddings of equal content are the same matrix."""
        names = ("encoder/embeddings_0", "decoder/embeddings", "decoder/projection")
        tensors = self._variables.tensors
        if missing := [name for name in names if f"{name}/weight" not in tensors]:
            raise RunError(f"it holds no {missing[0]}/weight")
        source, target, output = (self._variables.weight(f"{name}/weight") for name in names)
        inputs, outputs = torch.equal(source, target), torch.equal(target, output)
        if inputs:
            return "shared" if outputs else "inputs"
        return "target" if outputs else "separate"

    def _scales_embeddings(self, width: int) -> bool:
        """Whether embeddings are multiplied by sqrt(width): files hold a flag or the scale."""
        found = set()
        for stack in STACKS:
            names = (f"{stack}/scale_embeddings", f"{stack}/embeddings/multiply_by_sqrt_depth")
            name = next((one for one in names if one in self._unread), names[0])
            scale = self._scalar(name)
            self._unread.difference_update(names)
            if scale is None or self._variables.tensors[name].dtype == torch.int8:
                found.add(scale is None or bool(scale))
                continue
            if abs(scale - width**0.5) > 1e-3 and scale != 1.0:
                raise RunError(f"{stack}/scale_embeddings is {scale:g}, not the root of the width")
            found.add(scale != 1.0)
        if len(found) > 1:
            raise RunError("encoder and decoder differ in scale_embeddings")
        return found.pop()

    def _positions(self, width: int) -> dict[str, Any]:
        """The settings of position encodings."""
        keys = self._variables.tensors.get("encoder/layer_0/self_attention/relative_position_keys")
        if keys is not None:
            return {"positions": "relative", "reach": len(keys) // 2}
        if "encoder/layer_0/self_attention/rotary_dim" in self._unread:
            return self._rotary()
        names = [f"{stack}/position_encodings/encodings" for stack in STACKS]
        tables = [self._variables.tensors.get(name) for name in names]
        self._unread.difference_update(names)
        known = [GENERATED_SINUSOIDS if x is None else _find_sinusoids(x.float()) for x in tables]
        if known[0] is not None and known[0] == known[1]:
            return known[0]
        sizes = [0 if x is None else len(x) for x in tables]
        if sizes[0] != sizes[1]:
            raise RunError(
                f"its position_encodings are of {sizes[0]} positions in the encoder and of "
                f"{sizes[1]} in the decoder"
            )
        return {"positions": "learned", "max_positions": sizes[0]}

    def _rotary(self) -> dict[str, Any]:
        for name in sorted(self._unread):
            place, _, attribute = name.rpartition("/")
            if not attribute.startswith("rotary_"):
                continue
            allowed = {"rotary_dim": 0, "rotary_interleave": 1, "rotary_base": 10000}
            value = self._scalar(name)
            if allowed.get(attribute) != value:
                raise RunError(f"{place}: {attribute} is {value:g}, which is not supported here")
        return {"positions": "rotary"}

    def _relative_keys(self, name: str, keys: Tensor) -> Tensor:
        """The vectors for keys of a layer; those for values must be zeros, as ours has none."""
        values_name = name.replace("_keys", "_values")
        self._unread.discard(values_name)
        values = self._variables.tensors.get(values_name)
        if values is not None and values.float().any():
            raise RunError(f"{values_name} is not zero, and relative positions here have keys only")
        if len(keys) % 2 == 0:
            raise RunError(f"its {name} has {len(keys)} rows, as if distances had no 0")
        return keys if name.startswith("encoder") else keys[: len(keys) // 2 + 1]

    def _refuse_other_attributes(self) -> None:
        for name in sorted(self._unread):
            attribute = name.rpartition("/")[2]
            if attribute in WITHOUT_EFFECT:
                self._unread.discard(name)
            elif attribute in FALSE_ONLY and self._scalar(name):
                raise RunError(f"its {name} is true, and only false can be imported")
        for name in ("with_source_bos", "with_source_eos"):
            if self._scalar(name):
                raise RunError(f"its {name} is true; convert the original model again")
        if self._scalar("with_target_bos") == 0:
            raise RunError("its with_target_bos is false; convert the original model again")


def _find_sinusoids(table: Tensor) -> dict[str, Any] | None:
    """The settings of the sinusoids in this table (P, D); None if it is not of sinusoids."""
    if table.ndim != 2:
        raise RunError(f"its position_encodings have {table.ndim} axes")
    places, width = torch.arange(len(table)), table.shape[1]
    layouts: tuple[SinusoidLayout, ...] = tuple(SINUSOIDS)
    for layout in layouts:
        for first in range(3):
            made = SinusoidPositions(width, layout, first=first)(places)
            if made.shape == table.shape and (made - table).abs().max() <= SINUSOID_TOLERANCE:
                return {"sinusoids": layout, "first_position": first}
    return None


def restore_settings(
    card: Mapping[str, Any], settings: TransformerSettings, weights: dict[str, Tensor]
) -> tuple[TransformerSettings, dict[str, Tensor]]:
    """Settings and weights of the run that an export was made from. The export's card has the
    settings that `model.bin` has in another form: there, a bias excludes absent tokens.
    """
    made_of = TransformerSettings.model_validate(card)
    carried = {name: getattr(made_of, name) for name in DROPOUTS}
    bias = weights.get("embeddings.output_bias")
    low = [] if bias is None else (bias <= ABSENT_LOGIT / 2).nonzero().flatten().tolist()
    absent = [i for i in made_of.absent if i in low]
    if bias is not None and absent:
        carried["absent"] = tuple(absent)
        bias = bias.index_fill(0, torch.tensor(absent), 0.0)
        weights = {**weights, "embeddings.output_bias": bias}
        if not made_of.output_bias and not bias.any():
            del weights["embeddings.output_bias"]
            carried["output_bias"] = False
    return settings.model_copy(update=carried), weights
