"""The interface of all model families, through which training, search and inspection use them.

A search keeps K hypotheses for each of B sentences: a grid (B, K). A decoder's state holds what
belongs to the source once per sentence and what belongs to a hypothesis once per cell of the grid.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn

from regard.kernels.cross_entropy import IGNORE_INDEX
from regard.text.special_tokens import BOS, EOS
from regard.types import (
    AttentionHook,
    Batch,
    Features,
    InputsT,
    Memory,
    Padded,
    Pixels,
    Regions,
    TensorFields,
)

PICTURE_LABELS = "picture labels"  # a kind of rows: see `Model.named_rows`


class State(Protocol):
    """The state of a decoder for a grid (B, K) of hypotheses; a value, never changed in place."""

    def select_sentences(self, sentences: Tensor) -> Self:
        """The state of only `sentences` (B',); finished ones are dropped."""

    def reorder(self, parents: Tensor) -> Self:
        """The state in which cell (b, k) continues hypothesis `parents[b, k]` of sentence b; (B,
        K').
        """


class ExportableState(State, Protocol):
    """A state of one hypothesis per sentence, a grid (B, 1), that a graph can take and return.

    A graph has no Python numbers: every count is in a tensor, or is the length of one.
    """

    def named_tensors(self) -> dict[str, Tensor]:
        """All tensors of the state, by name, each with a row for each sentence."""

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> Self:
        """The state with these `named_tensors`, and with as many layers as this one."""


StateT = TypeVar("StateT", bound=State)
MemoryT = TypeVar("MemoryT")
CarriedT = TypeVar("CarriedT", bound=TensorFields)


class Decoder(Protocol[StateT]):
    """What a search needs of a model or of an ensemble."""

    def step(
        self, tokens: Tensor, state: StateT, *, hook: AttentionHook | None = None
    ) -> tuple[Tensor, StateT]:
        """Logits (B, K, V) of what follows `tokens` (B, K), and the state after them."""

    def to_static(self, state: StateT, steps: int, step_counter: Tensor) -> StateT | None:
        """A copy with static shapes and room for `steps` more tokens; None if not supported.

        A step may write to its tensors, and reads its number, from 0, from `step_counter` ().
        """


class OutputProjection(NamedTuple):
    """The weights of a linear output layer: logits = features · weightᵀ + bias."""

    weight: Tensor  # (V, D)
    bias: Tensor | None = None  # (V,)


class Model(nn.Module, ABC, Generic[InputsT]):
    """Inputs -> features of the positions that have labels -> logits, or numbers."""

    output: nn.Module  # the output layer, unless a family overrides `logits` and `output_layer`
    max_length: int | None = None  # the longest source or target, in tokens; None: any
    supports_packing: bool = False  # whether `training_features` computes no padding
    inner_prefix: str = ""
    """The prefix of the parameter names of a model inside this one, such as `encoder.`; training
    can start from the weights of a run of this inner model."""

    @abstractmethod
    def training_features(
        self, batch: Batch[InputsT], *, hook: AttentionHook | None = None
    ) -> Features:
        """The input (M, D) of `logits` for the M labels of `batch`."""

    def layer_groups(self) -> Sequence[Sequence[nn.Module]]:
        """Groups of layers, from the inputs to the output, which fine-tuning gives separate
        learning rates or freezes; layers in no group belong to the last. Empty: there is one group.
        """
        return ()

    def sharded_layers(self) -> Sequence[nn.Module]:
        """Layers whose weights are used only in their own forward pass. With sharded weights, these
        are gathered one layer at a time, and all other weights for a whole step.
        """
        return ()

    def named_rows(self) -> Mapping[str, str]:
        """For each parameter name, what its rows stand for: `tokens`, `labels` or `positions`, for
        example. `Task.row_names` has the names of tokens and labels, by which rows are matched with
        those of another model; further rows, and rows of other kinds, are matched by number.
        """
        return {}

    def answers(self, inputs: InputsT) -> Tensor | None:
        """The outputs (B, ...) for `inputs`, as an exported graph returns them; None: the model
        generates tokens instead.
        """
        return None

    def as_generator(self) -> "AnyGenerator | None":
        """The model itself if it generates tokens, else None."""
        return None

    def logits(self, features: Tensor) -> Tensor:
        """The output layer: (..., D) -> (..., V). Separate, so that a loss can skip padding."""
        logits: Tensor = self.output(features)
        return logits

    def output_layer(self) -> OutputProjection | None:
        """The weights of `logits`, for a loss that computes them in chunks; None: not linear."""
        output = getattr(self, "output", None)
        return (
            OutputProjection(output.weight, output.bias) if isinstance(output, nn.Linear) else None
        )


class Predictor(Model[InputsT]):
    """A model with one output for each row of its inputs: numbers, or the logits of classes."""

    @abstractmethod
    def row_features(self, inputs: InputsT, *, hook: AttentionHook | None = None) -> Tensor:
        """The input (B, D) of `logits`."""

    def forward(self, inputs: InputsT, *, hook: AttentionHook | None = None) -> Tensor:
        """The outputs (B, V)."""
        return self.logits(self.row_features(inputs, hook=hook))

    def answers(self, inputs: InputsT) -> Tensor:
        """(B, V)"""
        return self.forward(inputs)

    def training_features(
        self, batch: Batch[InputsT], *, hook: AttentionHook | None = None
    ) -> Features:
        return Features(self.row_features(batch.inputs, hook=hook))


class TextEncoder(Model[Padded]):
    """A model that gives each token of a text a vector that depends on its context.

    Classifiers of texts are built on it; it may be a language model at the same time.
    """

    text_start: int = BOS  # the token that a text begins with; it ends with EOS

    @property
    @abstractmethod
    def state_width(self) -> int:
        """D of `token_states`."""

    @abstractmethod
    def token_states(self, inputs: Padded, *, hook: AttentionHook | None = None) -> Tensor:
        """States (B, S, D) of the tokens of texts; those of padding are arbitrary, but finite."""

    def answers(self, inputs: Padded) -> Tensor:
        """The states (B, S, D) of all tokens."""
        return self.token_states(inputs)

    def as_causal(self) -> "CausalTextEncoder | None":
        """The model itself if its states predict the next token, else None."""
        return None


class CausalTextEncoder(TextEncoder):
    """A text encoder whose states see no later tokens, and predict the next one."""

    text_start = EOS  # as after a preceding text in the training data of a language model

    def as_causal(self) -> Self:
        return self

    def next_token_loss(self, states: Tensor, inputs: Padded) -> Tensor:
        """The mean negative log-likelihood (), in nats, of all tokens of texts except the first,
        from the states (B, S, D) of `token_states`.
        """
        logits = self.logits(states[:, :-1])  # (B, S - 1, V)
        labels = inputs.ids[:, 1:].masked_fill(~inputs.mask[:, 1:], IGNORE_INDEX)
        return nn.functional.cross_entropy(
            logits.flatten(0, 1).float(), labels.flatten(), ignore_index=IGNORE_INDEX
        )


class PicturePredictor(Predictor[Pixels]):
    """A model with one output for each picture, which it reads in patches."""

    grid: tuple[int, int]  # rows and columns of patches in its first layer
    class_token: bool  # whether the first position of each attention is a class token, not a patch

    def named_rows(self) -> Mapping[str, str]:
        """The rows of the output layer, as a kind of their own: labels of texts must not match
        them.
        """
        return dict.fromkeys(("output.weight", "output.bias"), PICTURE_LABELS)


class WordEmbedder(Model[InputsT]):
    """A model that gives each word a vector in each of several layers, depending on its context."""

    @property
    @abstractmethod
    def num_layers(self) -> int:
        """L + 1, with the lowest, which does not depend on the context."""

    @abstractmethod
    def embed_words(self, texts: Sequence[Sequence[str]]) -> Tensor:
        """All layers (L + 1, B, S, D) of the words of texts, also of words outside the
        vocabulary.
        """

    @abstractmethod
    def mix_layers(self, layers: Tensor) -> Tensor:
        """One vector of all layers: (L + 1, ..., D) -> (..., D)."""


class MaskedLanguageModel(TextEncoder):
    """A model that reads a text in both directions and predicts its masked tokens.

    A text begins with BOS and ends with EOS; in a pair, each text ends with EOS.
    """

    mask_id: int  # of a masked token: the size of the vocabulary, unless it has a mask token
    fills: bool = True  # whether it has an output layer for masked tokens

    @abstractmethod
    def features_at(self, states: Tensor, positions: Tensor) -> Tensor:
        """The input (M, D) of `logits` at `positions` (M,) in the flattened (B * S), for the states
        (B, S, D) of `token_states`.
        """

    @abstractmethod
    def next_sentence_logits(self, states: Tensor) -> Tensor | None:
        """Logits (B, 2) for the states (B, S, D) of pairs: the second text follows the first, or
        does not; None: the model does not predict this.
        """

    def answers(self, inputs: Padded) -> Tensor:
        """The logits (B, S, V) of all tokens, masked or not."""
        states = self.token_states(inputs)
        everywhere = torch.arange(inputs.ids.numel(), device=states.device)
        logits = self.logits(self.features_at(states, everywhere))  # (B * S, V)
        return logits.view(*inputs.ids.shape, -1)

    def training_features(
        self, batch: Batch[Padded], *, hook: AttentionHook | None = None
    ) -> Features:
        """The features at the masked positions; the penalty is the mean loss of the rows' labels,
        if any.
        """
        if batch.positions is None:
            raise ValueError(
                "a masked language model needs the positions to predict; the batch has none"
            )
        states = self.token_states(batch.inputs, hook=hook)
        features, penalty = self.features_at(states, batch.positions), None
        if batch.row_labels is not None:
            logits = self.next_sentence_logits(states)
            if logits is None:
                raise ValueError("the rows have labels, which the model does not predict")
            penalty = nn.functional.cross_entropy(logits.float(), batch.row_labels)
        return Features(features, penalty=penalty)


class Generator(Model[InputsT], Generic[InputsT, MemoryT, StateT]):
    """A model that generates tokens: an encoder, a decoder (also a `Decoder`) and an output layer.

    Teacher forcing and stepping must agree, which tests/models checks for all registered families.
    The contents of a memory are private to its family: callers pass it from `encode` to `decode`
    and `start`.
    """

    static_state: bool = False  # whether all steps have the same shapes and the same computation

    @abstractmethod
    def encode(self, inputs: InputsT, *, hook: AttentionHook | None = None) -> MemoryT:
        """All that the decoder gets of `inputs`; for a language model, the cache of the prompt."""

    @abstractmethod
    def decode(
        self, given: Padded, memory: MemoryT, *, hook: AttentionHook | None = None
    ) -> Features:
        """The input of `logits` for all positions of given tokens (B, T) at once."""

    @abstractmethod
    def start(self, memory: MemoryT) -> StateT:
        """The state before the first token: a grid (B, 1)."""

    @abstractmethod
    def step(
        self, tokens: Tensor, state: StateT, *, hook: AttentionHook | None = None
    ) -> tuple[Tensor, StateT]:
        """Logits (B, K, V) of what follows `tokens` (B, K), and the state after them."""

    def to_static(self, state: StateT, steps: int, step_counter: Tensor) -> StateT | None:
        """See `Decoder`."""
        return state if self.static_state else None

    def as_generator(self) -> Self:
        return self

    def as_stateful(self) -> "StatefulGenerator[InputsT, Any, StateT] | None":
        """The model itself if it carries its memory from batch to batch, else None."""
        return None

    def forward(
        self, inputs: InputsT, given: Padded, *, hook: AttentionHook | None = None
    ) -> Tensor:
        """Logits (B, T, V) under teacher forcing."""
        memory = self.encode(inputs, hook=hook)
        return self.logits(self.decode(given, memory, hook=hook).features)

    def training_features(
        self, batch: Batch[InputsT], *, hook: AttentionHook | None = None
    ) -> Features:
        memory = self.encode(batch.inputs, hook=hook)
        decoded = self.decode(batch.decoder_input, memory, hook=hook)  # features (B, T, D)
        features = decoded.features.flatten(0, 1)
        if batch.positions is not None:
            features = features.index_select(0, batch.positions)  # (M, D)
        return decoded._replace(features=features)


class StatefulGenerator(Generator[InputsT, CarriedT, StateT]):
    """A generator whose memory of a text can be carried to the batch that continues the text."""

    @abstractmethod
    def blank_memory(self, rows: int) -> CarriedT:
        """The memory of `rows` rows before any text, as `encode` returns it for empty prompts."""

    @abstractmethod
    def read_on(self, given: Padded, memory: CarriedT) -> tuple[Features, CarriedT]:
        """`decode` of rows without padding, and the memory after them."""

    def as_stateful(self) -> Self:
        return self


class CaptionModel(Generator[Pixels | Regions, Memory, StateT], Generic[StateT]):
    """A model that generates captions of pictures; its memory has a state for each region."""

    @property
    @abstractmethod
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the regions that a word attends to, row by row."""


AnyModel = Model[Any]
"""A model of any family."""
AnyPredictor = Predictor[Any]
"""A model with one output per row, of any family."""
AnyGenerator = Generator[Any, Any, Any]
"""A model that generates tokens, of any family."""
AnyStatefulGenerator = StatefulGenerator[Any, Any, Any]
"""A model that carries its memory from batch to batch, of any family."""
AnyCaptionModel = CaptionModel[Any]
"""A model that generates captions of pictures, of any family."""


def gather_parents(cells: Tensor, parents: Tensor) -> Tensor:
    """Cells (B, K, ...) picked within each sentence by `parents` (B, K'): (B, K', ...)."""
    if cells.ndim == 2:
        return cells.gather(1, parents)
    sentences = torch.arange(cells.shape[0], device=cells.device)[:, None]  # (B, 1)
    return cells[sentences, parents]
