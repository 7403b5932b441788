"""ELMo: a bidirectional language model over characters, its layers mixed (Peters et al. 2018)."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self, cast

import torch
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from regard.kernels.dispatch import is_traced
from regard.kernels.dropout import Dropout
from regard.layers.character_cnn import CharacterCnn, spell_words
from regard.layers.initialization import xavier_linears
from regard.layers.recurrent import run_projected_lstm
from regard.models.contracts import TextEncoder, WordEmbedder
from regard.settings import NumLayers, Settings, Width
from regard.text.special_tokens import EOS
from regard.types import AttentionHook, Batch, Features, Padded

FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
Filter = tuple[Annotated[int, Field(ge=1, le=64)], Width]


class ElmoSettings(Settings):
    """Forward and backward LSTM language models over words spelled in characters; the paper's
    defaults.
    """

    family: Literal["elmo"] = "elmo"
    """The model family."""
    width: Width = 512
    """Width of the vectors of words, and of each direction of each layer."""
    units: Width = 4096
    """Units of each direction of each LSTM layer, which are projected to `width`."""
    layers: NumLayers = 2
    """Number of LSTM layers; from the second on, a layer's input is added to its output."""
    character_width: Width = 16
    """Width of the vectors of characters."""
    filters: tuple[Filter, ...] = FILTERS
    """Convolutions over the characters of a word: pairs of a kernel size and a number of
    filters."""
    highways: PositiveInt = 2
    """Number of highway layers above the convolutions."""
    max_characters: int = Field(default=50, ge=3, le=1000)
    """The most bytes of a word that are read, including two boundary symbols."""
    mixing: Literal["learned", "top"] = "learned"
    """What the language models predict from: all layers, mixed with learned weights, or the last
    one, as in the paper, where only downstream tasks learn to mix them."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout on the inputs of all LSTM layers and before the output layer."""

    @property
    def context(self) -> int | None:
        """The most tokens that are seen at once: unlimited."""
        return None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.units <= self.width:
            raise ValueError(
                f"units {self.units} are projected to width {self.width}, which must be smaller"
            )
        longest = max((reach for reach, _ in self.filters), default=0)
        if not 0 < longest <= self.max_characters:
            raise ValueError(
                f"filters: there must be one or more, none longer than max_characters "
                f"{self.max_characters}, got {longest}"
            )
        return self


class LayerMix(nn.Module):
    """γ Σ_j s_j h_j of layers h_0, h_1, …, where s is a softmax of learned numbers (equation 1)."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(()))

    def weights(self) -> Tensor:
        """s (L,)"""
        return self.scores.softmax(0)

    def forward(self, layers: Tensor) -> Tensor:
        """(L, ..., D) -> (..., D)"""
        mixed: Tensor = torch.tensordot(self.weights().to(layers.dtype), layers, 1)
        return self.scale * mixed


class Elmo(WordEmbedder[Padded], TextEncoder):
    """A forward and a backward language model with one character CNN and one output layer.

        p(x_{k+1} | x_1, …, x_k) = softmax(W γ Σ_j s_j →h_{k,j} + b), and likewise ← of x_{k-1}

    h_{k,0} is the vector of word k, h_{k,j} the output of LSTM layer j in that direction. Labels
    belong to the flattened (2, B, S): the word after each word, then the word before it.
    """

    text_start = EOS  # as after a preceding text in the training data
    spelled: Tensor  # (V, C) the symbols of each token: not a parameter, and not saved

    def __init__(self, settings: ElmoSettings, words: Sequence[str]) -> None:
        """`words`: the spelling of each token of the vocabulary."""
        super().__init__()
        width, layers = settings.width, settings.layers
        self.max_characters = settings.max_characters
        spelled = spell_words(words, settings.max_characters)
        self.register_buffer("spelled", spelled, persistent=False)
        self.characters = CharacterCnn(
            width,
            symbol_width=settings.character_width,
            filters=settings.filters,
            highways=settings.highways,
        )
        stacks = (
            nn.ModuleList(
                nn.LSTM(width, settings.units, proj_size=width, batch_first=True)
                for _ in range(layers)
            )
            for _ in range(2)
        )
        self.directions = cast(Sequence[Sequence[nn.LSTM]], nn.ModuleList(stacks))
        self.mix = LayerMix(layers + 1) if settings.mixing == "learned" else None
        self.dropout = Dropout(settings.dropout)
        self.output = nn.Linear(width, len(words))
        xavier_linears(self)

    def layer_groups(self) -> Sequence[Sequence[nn.Module]]:
        """The character CNN, each layer of both directions, and the mix with the output layer."""
        head = [self.output] if self.mix is None else [self.output, self.mix]
        stacks = zip(*self.directions, strict=True)
        return [[self.characters], *(list(layers) for layers in stacks), head]

    def named_rows(self) -> Mapping[str, str]:
        return {"output.weight": "tokens", "output.bias": "tokens"}

    def training_features(
        self, batch: Batch[Padded], *, hook: AttentionHook | None = None
    ) -> Features:
        layers = self.layers_of(batch.inputs)  # (L + 1, 2, B, S, D)
        features = self.dropout(self.mix_layers(layers)).flatten(0, 2)  # (2 * B * S, D)
        if batch.positions is not None:
            features = features.index_select(0, batch.positions)  # (M, D)
        return Features(features)

    @property
    def state_width(self) -> int:
        return 2 * self.directions[0][0].proj_size

    def token_states(self, inputs: Padded, *, hook: AttentionHook | None = None) -> Tensor:
        """The mixed layers, forward and backward states concatenated."""
        return torch.cat(self.mix_layers(self.layers_of(inputs)).unbind(0), -1)

    @property
    def num_layers(self) -> int:
        return len(self.directions[0]) + 1

    def embed_words(self, texts: Sequence[Sequence[str]]) -> Tensor:
        """Forward and backward states, concatenated."""
        counts = torch.tensor([len(words) for words in texts])
        longest = max(1, int(counts.max()))
        filled = ([*words, *[""] * (longest - len(words))] for words in texts)
        spelled = torch.stack([spell_words(words, self.max_characters) for words in filled])
        mask = torch.arange(longest) < counts[:, None]  # (B, S)
        device = self.spelled.device
        layers = self.layers_of_spelled(spelled.to(device), mask.to(device))
        return torch.cat(layers.unbind(1), -1)  # (L + 1, B, S, 2 D)

    def mix_layers(self, layers: Tensor) -> Tensor:
        """The mean of layers with the learned weights, or the last layer."""
        if self.mix is None:
            return layers[-1]
        mixed: Tensor = self.mix(layers)
        return mixed

    def layers_of(self, inputs: Padded) -> Tensor:
        """All layers (L + 1, 2, B, S, D) of both directions; the first is the words' vectors."""
        return self.layers_of_spelled(self.spelled[inputs.ids], inputs.mask)

    def layers_of_spelled(self, spelled: Tensor, mask: Tensor) -> Tensor:
        """`layers_of` for words given by their symbols (B, S, C), also words outside the
        vocabulary.
        """
        x = self.characters(spelled).to(self.output.weight.dtype)  # (B, S, D)
        order = reversed_order(mask)[..., None].expand_as(x)  # (B, S, D)
        forward = [x, *self._run(0, x)]
        backward = [y.gather(1, order) for y in self._run(1, x.gather(1, order))]
        return torch.stack([torch.stack(forward), torch.stack([x, *backward])], 1)

    def _run(self, direction: int, x: Tensor) -> list[Tensor]:
        """The outputs (B, S, D) of the layers of a direction, which read `x` from the left."""
        outputs: list[Tensor] = []
        # In autocast, states would lose small updates.
        with torch.autocast(x.device.type, enabled=False), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="LSTM with projections is not supported with")
            for layer in self.directions[direction]:
                y = _run_lstm(layer, self.dropout(x))
                x = y + x if outputs else y
                outputs.append(x)
        return outputs


def _run_lstm(layer: nn.LSTM, x: Tensor) -> Tensor:
    """The outputs (B, S, D); by the formula in traced graphs, which have no projected LSTM."""
    if not is_traced():
        read: Tensor = layer(x)[0]
        return read
    weights = dict(layer.named_parameters())
    bias = weights["bias_ih_l0"] + weights["bias_hh_l0"]
    inputs = nn.functional.linear(x, weights["weight_ih_l0"], bias)
    h, c = (x.new_zeros(x.shape[0], width) for width in (layer.proj_size, layer.hidden_size))
    outputs: Tensor = run_projected_lstm(
        inputs, h, c, weights["weight_hh_l0"], weights["weight_hr_l0"]
    )[0]
    return outputs


def reversed_order(mask: Tensor) -> Tensor:
    """Indices that reverse the real tokens of each row of `mask` (B, S); padding stays in place."""
    places = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
    return torch.where(mask, mask.sum(1, keepdim=True) - 1 - places, places)
