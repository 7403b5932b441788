"""Show, Attend and Tell: an LSTM that attends to a picture at each word (Xu et al. 2015)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import Field, NonNegativeFloat
from torch import Tensor, nn

from regard.attention.attend import KeyValues, attend, padding_mask
from regard.attention.hard_attention import EXPECTED_SHARE, Drawn, draw_key, most_likely_key
from regard.attention.multihead import StackedLinear
from regard.attention.score_functions import AdditiveScore
from regard.kernels.cross_entropy import IGNORE_INDEX
from regard.kernels.dropout import Dropout
from regard.layers.embeddings import build_embedding
from regard.layers.initialization import xavier_linears
from regard.layers.recurrent import RecurrentLayer
from regard.models.contracts import CaptionModel
from regard.models.translation.recurrent_state import AttentionDecoderState
from regard.models.translation.token_rows import TARGET_TOKENS
from regard.models.vision.encoder_settings import EncoderSettings, FrozenCnnSettings
from regard.settings import Settings, Width
from regard.types import AttentionHook, Batch, Features, Memory, Padded, Pixels, Regions, Site

BASELINE_DECAY = 0.9


class ShowAttendTellSettings(Settings):
    """Show, Attend and Tell; the paper's sizes vary by data set."""

    family: Literal["show-attend-tell"] = "show-attend-tell"
    """The model family."""
    encoder: EncoderSettings = Field(default=FrozenCnnSettings(), discriminator="kind")
    """The CNN that encodes the picture."""
    attention: Literal["soft", "hard", "none"] = "soft"
    """`soft`: a weighted mean of all regions, with new weights for each word. `hard`: one region
    for each word, sampled in training and the likeliest otherwise. `none`: the mean of all regions,
    the same for each word."""
    width: Width = 512
    """Units of the LSTM."""
    embedding: Width = 512
    """Width of the token vectors, and of the layer before the output."""
    alignment: Width = 512
    """Width inside the score function."""
    dropout: float = Field(default=0.5, ge=0.0, lt=1.0)
    """Dropout on token vectors, on the first state and before the output layer."""
    doubly_stochastic: NonNegativeFloat = 1.0
    """λ: weight of the penalty on the weights of a region, summed over all words, differing from
    1."""
    reward: NonNegativeFloat = 0.1
    """λ_r of hard attention: weight of the reward for regions that helped to predict the next
    word."""
    entropy: NonNegativeFloat = 0.002
    """λ_e of hard attention: weight of the entropy bonus, which keeps it from always sampling the
    same region."""


class _Unrolled(NamedTuple):
    """The decoder's run over given captions."""

    features: Tensor  # (B, T, D)
    weights: Tensor  # (B, T, S) before any sampling; empty where they are not needed
    drawn: tuple[Drawn, ...]  # of each word, when hard attention is trained


class ShowAttendTell(CaptionModel[AttentionDecoderState]):
    """Regions a_i of a CNN, and an LSTM whose input at each word has the region attended to:

        h_0 = tanh(W_h ā),   c_0 = tanh(W_c ā),   ā the mean of all a_i
        α_ti = softmax_i(vᵀ tanh(W h_{t-1} + U a_i))
        z_t = β_t Σ_i α_ti a_i,   β_t = σ(w · h_{t-1} + b)
        h_t, c_t = LSTM(E y_{t-1}, z_t; h_{t-1}, c_{t-1})
        p(y_t) = softmax(L_o tanh(E y_{t-1} + L_h h_t + L_z z_t))

    Training adds λ Σ_i (1 - Σ_t α_ti)² to a caption's loss (equation 14). Hard attention replaces
    the sum in z_t by one a_i, drawn by α_t, and adds for each word

        -λ_r (log p(y_t) - b) log α_t,drawn - λ_e H(α_t)

    whose gradient is that of equation 11, with a reward for each word, and b the moving average of
    the rewards. Half of the captions have the weighted mean in place of the draw.
    """

    static_state = True

    def __init__(self, settings: ShowAttendTellSettings, vocabulary: int) -> None:
        super().__init__()
        self.settings = settings
        width, embedding = settings.width, settings.embedding
        self.encoder = settings.encoder.build()
        inputs = self.encoder.width
        self.dropout = Dropout(settings.dropout)
        self.embedding = build_embedding(vocabulary, embedding)
        self.initial = StackedLinear(inputs, [width, width])  # W_h and W_c
        self.score = AdditiveScore(width, inputs, settings.alignment)
        self.gate = nn.Linear(width, 1)
        self.lstm = RecurrentLayer("lstm", embedding + inputs, width)
        self.from_state = nn.Linear(width, embedding)  # L_h
        self.from_context = nn.Linear(inputs, embedding, bias=False)  # L_z
        self.output = nn.Linear(embedding, vocabulary)
        xavier_linears(self)
        # The b of equation 11: not learned by gradients, but saved with the weights.
        self.baseline = nn.Parameter(torch.zeros(()), requires_grad=False)

    @property
    def grid(self) -> tuple[int, int]:
        return (1, 1) if self.settings.attention == "none" else self.encoder.grid

    def named_rows(self) -> Mapping[str, str]:
        return dict.fromkeys(("embedding.weight", "output.weight", "output.bias"), TARGET_TOKENS)

    def encode(self, inputs: Pixels | Regions, *, hook: AttentionHook | None = None) -> Memory:
        regions = self.encoder(inputs.values)  # (B, S, D)
        if self.settings.attention == "none":
            regions = regions.mean(1, keepdim=True)  # (B, 1, D)
        return Memory(regions, regions.new_ones(regions.shape[:2], dtype=torch.bool))

    def decode(
        self, given: Padded, memory: Memory, *, hook: AttentionHook | None = None
    ) -> Features:
        return Features(self._unroll(given, memory, hook).features)

    def training_features(
        self, batch: Batch[Pixels | Regions], *, hook: AttentionHook | None = None
    ) -> Features:
        memory, given = self.encode(batch.inputs, hook=hook), batch.decoder_input
        unrolled = self._unroll(given, memory, hook)
        positions = batch.positions
        if positions is None:
            raise ValueError("a captioner needs the positions of words; the batch has none")
        features = unrolled.features.flatten(0, 1).index_select(0, positions)  # (M, D)
        if not self.training:
            return Features(features)
        counted = batch.labels != IGNORE_INDEX  # (M,)
        penalty = self._coverage_penalty(unrolled.weights, positions, counted)
        if unrolled.drawn:
            rewards = self._rewards(features, batch.labels, counted)  # (M,)
            penalty = penalty + self._draw_loss(unrolled.drawn, rewards, positions, counted)
        return Features(features, penalty=penalty / batch.num_labels)

    def start(self, memory: Memory) -> AttentionDecoderState:
        first = torch.tanh(self.initial(self.dropout(memory.states.mean(1, keepdim=True))))
        keys = self.score.prepare(memory.states)  # (B, S, A)
        return AttentionDecoderState(
            hidden_states=tuple(first.chunk(2, -1)),  # h and c, each (B, 1, D)
            memory=KeyValues(keys[:, None], memory.states[:, None]),  # (B, 1, S, ·)
            real=memory.mask,
        )

    def step(
        self, tokens: Tensor, state: AttentionDecoderState, *, hook: AttentionHook | None = None
    ) -> tuple[Tensor, AttentionDecoderState]:
        embedded = self.dropout(self.embedding(tokens))  # (B, K, E)
        in_use = _HardHook(hook, None) if self.settings.attention == "hard" else hook
        context, after = self._advance(embedded, state, in_use)
        return self.logits(self._read_out(embedded, after.hidden_states[0], context)), after

    def _unroll(self, given: Padded, memory: Memory, hook: AttentionHook | None) -> _Unrolled:
        """All words of given captions (B, T), one after another."""
        embedded = self.dropout(self.embedding(given.ids))  # (B, T, E)
        state, expected = self.start(memory), None
        hard = self.settings.attention == "hard"
        if hard and self.training:
            expected = torch.rand(len(given.ids), device=embedded.device) < EXPECTED_SHARE
        recorder = _HardHook(hook, expected) if hard else _SoftHook(hook)
        in_use: AttentionHook | None = recorder if hard or self.training else hook
        states, contexts = [], []
        for column in torch.split(embedded, 1, dim=1):  # (B, 1, E)
            context, state = self._advance(column, state, in_use)
            states.append(state.hidden_states[0])
            contexts.append(context)
        features = self._read_out(embedded, torch.cat(states, 1), torch.cat(contexts, 1))
        found = recorder.weights
        weights = torch.cat(found, 2)[:, 0] if found else features.new_zeros(0)
        return _Unrolled(features, weights, tuple(recorder.drawn))

    def _advance(
        self, embedded: Tensor, state: AttentionDecoderState, hook: AttentionHook | None
    ) -> tuple[Tensor, AttentionDecoderState]:
        """z_t (B, K, D) and the state with h_t, for `embedded` (B, K, E), that of y_{t-1}."""
        before = state.hidden_states[0]  # (B, K, D)
        mask, site = padding_mask(state.real), Site("cross", 0, state.position)
        context = attend(self.score, before[:, None], state.memory, mask, site=site, hook=hook)
        context = torch.sigmoid(self.gate(before)) * context[:, 0]  # (B, K, D)
        hidden = self.lstm.step(torch.cat([embedded, context], -1), state.hidden_states)
        return context, replace(state, hidden_states=hidden, position=state.position + 1)

    def _read_out(self, embedded: Tensor, state: Tensor, context: Tensor) -> Tensor:
        """The input of the output layer: (B, T, E)."""
        state = self.dropout(state)
        mixed = embedded + self.from_state(state) + self.from_context(context)
        features: Tensor = self.dropout(torch.tanh(mixed))
        return features

    # -- what training adds to the loss, summed over the words of a batch ----------------------

    def _coverage_penalty(self, weights: Tensor, positions: Tensor, counted: Tensor) -> Tensor:
        """λ Σ_i (1 - Σ_t α_ti)² of `weights` (B, T, S) at words that count, over all captions."""
        captions, words, regions = weights.shape
        real = weights.new_zeros(captions * words).index_copy(0, positions, counted.to(weights))
        real = real.view(captions, words)
        coverage = torch.einsum("bts,bt->bs", weights, real)  # (B, S)
        present = real.amax(1)  # (B,) 0 for a filler row, else 1
        scale = self.settings.doubly_stochastic if regions > 1 else 0.0
        return scale * ((1 - coverage).square().sum(1) * present).sum()

    def _rewards(self, features: Tensor, labels: Tensor, counted: Tensor) -> Tensor:
        """log p(y_t) - b (M,) without gradients; updates b."""
        with torch.no_grad():
            logits = self.logits(features).float()  # (M, V)
            log_probs = -F.cross_entropy(logits, labels.clamp(min=0), reduction="none")  # (M,)
            rewards = log_probs - self.baseline
            mean = (log_probs * counted).sum() / counted.sum().clamp(min=1)
            self.baseline.lerp_(mean.to(self.baseline.dtype), 1 - BASELINE_DECAY)
        return rewards

    def _draw_loss(
        self, drawn: tuple[Drawn, ...], rewards: Tensor, positions: Tensor, counted: Tensor
    ) -> Tensor:
        """The loss of hard attention: REINFORCE with the `rewards`, and an entropy bonus: ()."""
        log_probability, entropy = (
            torch.stack(values, 1).flatten().index_select(0, positions)  # (M,)
            for values in (
                [one.log_probability[:, 0, 0] for one in drawn],
                [one.entropy[:, 0, 0] for one in drawn],
            )
        )
        settings = self.settings
        losses = -settings.reward * rewards * log_probability - settings.entropy * entropy
        return (losses * counted).sum()


class _SoftHook:
    """Records the weights of each word, and passes them to another hook, if any."""

    def __init__(self, hook: AttentionHook | None) -> None:
        self.hook, self.weights, self.drawn = hook, list[Tensor](), list[Drawn]()

    def __call__(self, site: Site, weights: Tensor, /) -> Tensor:
        self.weights.append(weights)
        return weights if self.hook is None else self.hook(site, weights)


class _HardHook(_SoftHook):
    """The same, with one region for each word: drawn in training, otherwise the most likely one."""

    def __init__(self, hook: AttentionHook | None, expected: Tensor | None) -> None:
        super().__init__(hook)
        self.expected = expected  # (B,) whether the weighted mean is used; None: no draws

    def __call__(self, site: Site, weights: Tensor, /) -> Tensor:
        self.weights.append(weights)
        if self.expected is None:
            weights = most_likely_key(weights)
        else:
            self.drawn.append(draw_key(weights, self.expected))
            weights = self.drawn[-1].weights
        return weights if self.hook is None else self.hook(site, weights)
