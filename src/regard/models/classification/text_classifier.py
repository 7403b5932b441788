"""Classifiers of texts: any encoder of texts, its states pooled into one vector, a linear layer."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple, Self

import torch
from pydantic import Field, NonNegativeFloat, model_validator
from torch import Tensor, nn

from regard.kernels.dropout import Dropout
from regard.layers.initialization import xavier_linears
from regard.models.classification.naive_bayes import ABSENT, NaiveBayes, NgramCounts
from regard.models.contracts import CausalTextEncoder, Predictor, TextEncoder
from regard.models.language.awd_lstm import AwdLstm, AwdLstmSettings
from regard.models.language.bert import Bert, BertSettings, RobertaSettings
from regard.models.language.elmo import Elmo, ElmoSettings
from regard.models.language.gpt import Gpt, GptSettings
from regard.settings import Settings, Width
from regard.types import AttentionHook, Batch, Features, Padded

PoolingName = Literal["first", "last", "mean", "max", "concat"]
Words = Sequence[str]  # the text of each token of a vocabulary
LEAST_DEVIATION = 1e-3  # for dimensions of the pooled vector that hardly vary between texts
LABELS_WITH_NGRAMS = "labels with n-grams"
"""A kind of rows (`Model.named_rows`): one for each label, with a weight for the naive Bayes logit
of every label."""


class EncoderFamily(NamedTuple):
    """A kind of encoder of texts."""

    model: type[TextEncoder]
    spelled: bool = (
        False  # whether it is built from the words of a vocabulary, not just their number
    )

    @property
    def causal(self) -> bool:
        """Whether a token's state depends only on the tokens up to it."""
        return issubclass(self.model, CausalTextEncoder)


ENCODERS: dict[str, EncoderFamily] = {
    "gpt": EncoderFamily(Gpt),
    "awd-lstm": EncoderFamily(AwdLstm),
    "elmo": EncoderFamily(Elmo, spelled=True),
    "bert": EncoderFamily(Bert),
    "roberta": EncoderFamily(Bert),
}
"""Every family of encoders."""
TextEncoderSettings = Annotated[
    GptSettings | AwdLstmSettings | ElmoSettings | BertSettings | RobertaSettings,
    Field(discriminator="family"),
]


class TextClassifierSettings(Settings):
    """A classifier of texts."""

    family: Literal["text-classifier"] = "text-classifier"
    """The model family."""
    encoder: TextEncoderSettings | None = None
    """The model that gives each token of a text a vector; `family` selects its kind. Left out: the
    model of the run that training starts from."""
    pooling: PoolingName = "mean"
    """How the vectors of a text are pooled: that of its `first` or its `last` token, their `mean`,
    the `max` of each dimension, or `concat`: last, max and mean concatenated (Howard and Ruder
    2018)."""
    hidden: Width | None = None
    """Width of a hidden layer between the pooled vector and the output layer; left out: no such
    layer."""
    hidden_activation: Literal["relu", "tanh"] = "relu"
    """The activation function of the hidden layer; BERT's and RoBERTa's classifiers use tanh."""
    standardize: bool = False
    """Standardize each dimension of the pooled vector to mean 0 and variance 1, with statistics of
    the training texts from before training. It helps with a frozen ELMo, whose states differ little
    from their mean."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout on the pooled vector and on the hidden layer."""
    ngrams: int = Field(default=0, ge=0, le=3)
    """The longest n-grams, in tokens, that a naive Bayes classifier beside the encoder counts in
    the training texts (Wang and Manning 2012 use 2); 0: none. It helps on small corpora, where one
    or two words often say more than the model can learn."""
    language_weight: NonNegativeFloat = 0.0
    """Weight of the language model's loss on the texts, added to the classifier's (Radford et al.
    2018 use 0.5); for encoders that predict the next token."""
    max_tokens: int = Field(default=256, ge=4, le=1 << 20)
    """The most tokens that are read of a text, or of a pair of texts together, including special
    tokens; the rest is cut off."""

    @property
    def width(self) -> int:
        """Width of the encoder."""
        return self.known_encoder.width

    @property
    def known_encoder(self) -> TextEncoderSettings:
        """`encoder`, which is set in every run."""
        assert self.encoder is not None
        return self.encoder

    @property
    def max_length(self) -> int:
        """`max_tokens`, or fewer where the encoder has a limit of its own."""
        return min(self.max_tokens, self.known_encoder.context or self.max_tokens)

    @property
    def attention_part(self) -> Literal["encoder", "decoder"]:
        """The `part` of the encoder's attention in a `Site`."""
        return "decoder" if ENCODERS[self.known_encoder.family].causal else "encoder"

    @property
    def text_start(self) -> int:
        """The token that a text begins with."""
        return ENCODERS[self.known_encoder.family].model.text_start

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.encoder is None:
            return self
        family, causal = self.encoder.family, ENCODERS[self.encoder.family].causal
        if causal and self.pooling == "first":
            raise ValueError(
                f"pooling first: the first token of {family} does not see the text after it; "
                "choose last, mean, max or concat"
            )
        if self.language_weight and not causal:
            raise ValueError(
                f"language_weight {self.language_weight:g}: {family} does not predict the next "
                "token; leave it out"
            )
        return self


def build_encoder(settings: TextEncoderSettings, words: Words) -> TextEncoder:
    """A new encoder for a vocabulary of `words`."""
    family = ENCODERS[settings.family]
    construct: Callable[..., TextEncoder] = family.model
    return construct(settings, words if family.spelled else len(words))


class TextClassifier(Predictor[Padded]):
    """softmax(W [dropped(pool(h_1, …, h_S)); u] + b), with the encoder's states h of a text and, if
    n-grams are counted, its naive Bayes logits u; the part of W for u is initialised to the
    identity.

    The pooled vector may be standardized: (v - μ) / σ, with the mean μ and the standard deviation σ
    over some texts, which `fit_standardization` computes once.
    """

    inner_prefix = "encoder."
    bayes: NaiveBayes | None
    output: nn.Linear
    pooled_mean: nn.Parameter | None  # μ
    pooled_deviation: nn.Parameter | None  # σ

    def __init__(
        self,
        settings: TextClassifierSettings,
        words: Words,
        classes: int,
        counts: NgramCounts | None = None,
    ) -> None:
        """`counts` belong to `settings.ngrams`."""
        super().__init__()
        self.encoder = build_encoder(settings.known_encoder, words)
        self.max_length = self.encoder.max_length
        self.pooling: PoolingName = settings.pooling
        self.dropout = Dropout(settings.dropout)
        pooled = self.encoder.state_width * (3 if settings.pooling == "concat" else 1)
        for name, first in (("pooled_mean", 0.0), ("pooled_deviation", 1.0)):
            numbers = nn.Parameter(torch.full((pooled,), first), requires_grad=False)
            self.register_parameter(name, numbers if settings.standardize else None)
        self.hidden = nn.Linear(pooled, settings.hidden) if settings.hidden else None
        self.activation = torch.tanh if settings.hidden_activation == "tanh" else torch.relu
        read, votes = settings.hidden or pooled, 0 if counts is None else classes
        self.bayes = None if counts is None else NaiveBayes(counts, settings.ngrams, len(words))
        self.output = nn.Linear(read + votes, classes)
        for head in (self.hidden, self.output):
            if head is not None:
                xavier_linears(head)
        if self.bayes is not None:
            nn.init.eye_(self.output.weight.detach()[:, read:])
        self.language_weight = settings.language_weight

    def layer_groups(self) -> Sequence[Sequence[nn.Module]]:
        """The groups of the encoder, then the layers above it."""
        head = [layer for layer in (self.hidden, self.output) if layer is not None]
        return [*self.encoder.layer_groups(), head]

    def named_rows(self) -> Mapping[str, str]:
        inner = {f"encoder.{name}": kind for name, kind in self.encoder.named_rows().items()}
        weight = "labels" if self.bayes is None else LABELS_WITH_NGRAMS
        return {**inner, "output.weight": weight, "output.bias": "labels"}

    def row_features(self, inputs: Padded, *, hook: AttentionHook | None = None) -> Tensor:
        return self._read(self.encoder.token_states(inputs, hook=hook), inputs)

    def training_features(
        self, batch: Batch[Padded], *, hook: AttentionHook | None = None
    ) -> Features:
        inputs = batch.inputs
        states = self.encoder.token_states(inputs, hook=hook)  # (B, S, D)
        features = self._read(states, inputs, batch.labels if self.training else None)
        causal = self.encoder.as_causal()
        if causal is None or not self.language_weight or not self.training:
            return Features(features)
        penalty = self.language_weight * causal.next_token_loss(states, inputs)
        return Features(features, penalty=penalty)

    @torch.no_grad()
    def ngram_votes(self, text: Padded) -> Mapping[tuple[int, ...], Tensor]:
        """What each n-gram of one text adds to the logits (C,), if n-grams are counted."""
        if self.bayes is None:
            return {}
        [ngrams], [votes] = self.bayes.votes(text)  # (K,), (K, C)
        voted = votes @ self.output.weight[:, -votes.shape[1] :].mT
        return {
            tuple(self.bayes.tokens(ngram)): vote
            for ngram, vote in zip(ngrams.tolist(), voted, strict=True)
            if ngram != ABSENT
        }

    @torch.no_grad()
    def fit_standardization(self, batches: Iterable[Padded]) -> None:
        """Compute the mean and deviation of the pooled vectors of some texts, if they are
        standardized.
        """
        if self.pooled_mean is None or self.pooled_deviation is None:
            return
        vectors = [pool_states(self.encoder.token_states(x), x.mask, self.pooling) for x in batches]
        pooled = torch.cat(vectors).double()  # (N, D)
        self.pooled_mean.copy_(pooled.mean(0))
        self.pooled_deviation.copy_(pooled.std(0, correction=0).clamp(min=LEAST_DEVIATION))

    def _read(self, states: Tensor, inputs: Padded, counted: Tensor | None = None) -> Tensor:
        """The input (B, E) of the output layer for states (B, S, D). `counted` are the labels (B,),
        if the texts' n-grams are part of the counts.
        """
        pooled = pool_states(states, inputs.mask, self.pooling)
        if self.pooled_mean is not None and self.pooled_deviation is not None:
            pooled = ((pooled - self.pooled_mean) / self.pooled_deviation).to(pooled.dtype)
        read = self.dropout(pooled)
        if self.hidden is not None:
            read = self.dropout(self.activation(self.hidden(read)))
        return read if self.bayes is None else torch.cat([read, self.bayes(inputs, counted)], -1)


def pool_states(states: Tensor, mask: Tensor, pooling: PoolingName) -> Tensor:
    """One vector (B, D), or (B, 3 D), of the states (B, S, D) where `mask` (B, S) is True."""
    match pooling:
        case "first":
            return states[:, 0]
        case "last":
            last = mask.sum(1) - 1  # (B,)
            return states[torch.arange(states.shape[0], device=states.device), last]
        case "mean":
            kept = states.masked_fill(~mask[..., None], 0.0)
            return kept.sum(1) / mask.sum(1, keepdim=True)
        case "max":
            return states.masked_fill(~mask[..., None], -torch.inf).amax(1)
        case "concat":
            parts: list[PoolingName] = ["last", "max", "mean"]
            return torch.cat([pool_states(states, mask, part) for part in parts], -1)
