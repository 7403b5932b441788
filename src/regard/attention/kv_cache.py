"""Attention of a decoding step, and the key-value cache shared by all hypotheses of a sentence.

Each step appends one *slot* per hypothesis, in every layer; slots are never moved or copied when
the search reorders its hypotheses. A hypothesis is the list of the slots of its tokens, its
ancestry, which is stored as a mask over all P slots of its sentence. Where K counts hypotheses, D
is the head width.
"""

from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.attend import KeyValues, attend, fused_attention
from regard.attention.score_functions import ScoreFunction
from regard.kernels.decode_attention import decode_attention
from regard.kernels.dispatch import use_decode_attention
from regard.types import AttentionHook, Site

BUFFER_STEPS = 16
"""Steps that a new buffer has capacity for."""
NEG_INF = float("-inf")


class SourceMask(NamedTuple):
    """The padding mask of the source, prepared once for all steps of a search."""

    mask: Tensor  # (B, 1, 1, S)
    bias: Tensor
    """(B, 1, 1, S) the mask as a term of the scores: 0 or finfo.min / 2, so that adding a score
    cannot overflow to -inf."""

    @classmethod
    def of(cls, mask: Tensor, dtype: torch.dtype) -> "SourceMask":
        """From `mask` (B, 1, 1, S), for scores of this type."""
        zeros = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
        return cls(mask, zeros.masked_fill_(~mask, torch.finfo(dtype).min / 2))

    def select_sentences(self, sentences: Tensor) -> "SourceMask":
        """The mask of `sentences` (B',)."""
        return SourceMask(self.mask[sentences], self.bias[sentences])

    def zero_masked(self, kv: KeyValues) -> KeyValues:
        """`kv` (B, H, S, K), contiguous, with masked values 0: fully masked queries yield zeros."""
        values = kv.values.masked_fill(~self.mask.transpose(-2, -1), 0.0)
        return KeyValues(kv.keys.contiguous(), values.contiguous())


def use_attend_step(queries: Tensor) -> bool:
    """Whether `attend_step` is faster than `attend` for the `queries` of a decoding step."""
    plain = queries.dtype == torch.float32 and queries.device.type == "cpu"
    return plain or use_decode_attention(queries)


def attend_step(queries: Tensor, kv: KeyValues, bias: Tensor, *, scale: float) -> Tensor:
    """`attend` for few queries and a scaled dot product: (B, H, T, K) -> (B, H, T, K').

    torch's fused kernel takes about twice as long. `bias` (B, 1|H, T|1, S), added to the scores, is
    very low or -inf to mask a key. A fully masked query needs a finite bias and values that are 0.
    """
    supported = bias.shape[1] == 1 and kv.keys.shape == kv.values.shape
    if use_decode_attention(queries) and supported and not torch.is_grad_enabled():
        return decode_attention(queries, *kv, bias, scale=scale)
    scores = queries @ kv.keys.transpose(-2, -1)  # (B, H, T, S)
    return torch.add(bias, scores, alpha=scale).softmax(-1) @ kv.values  # (B, H, T, K')


@dataclass
class _Buffer:
    """Memory for slots; the first `num_filled` are written, and never change again."""

    kv: KeyValues  # (B, H, capacity, D)
    num_filled: int

    def can_append(self, first: int, last: int) -> bool:
        """Whether slots `first` to `last` fit and are not yet written by another continuation."""
        same_mode = self.kv.keys.is_inference() == torch.is_inference_mode_enabled()
        return same_mode and self.num_filled == first and last <= self.kv.keys.shape[2]


class KVCache(NamedTuple):
    """The P slots of each sentence in one layer; an immutable value.

    `append` returns a new cache that shares the memory of the old slots: the buffer has spare
    capacity, so most steps copy only the new ones. A second append to the same cache copies.
    """

    kv: KeyValues  # (B, H, P, D)
    buffer: _Buffer | None = None

    def select_sentences(self, sentences: Tensor) -> "KVCache":
        """The slots of `sentences` (B',), with the same capacity."""
        if self.buffer is None or torch.is_grad_enabled():
            return KVCache(self.kv.select_sentences(sentences))
        num_filled = self.kv.keys.shape[2]
        buffer = KeyValues(*(x.new_empty(len(sentences), *x.shape[1:]) for x in self.buffer.kv))
        kept = KeyValues(*(x[:, :, :num_filled] for x in buffer))
        for old, new in zip(self.kv, kept, strict=True):
            torch.index_select(old, 0, sentences, out=new)
        return KVCache(kept, _Buffer(buffer, num_filled))

    def to_static(self, num_slots: int) -> "KVCache":
        """These slots and `num_slots` empty ones: see `Ancestry.to_static`."""
        return KVCache(KeyValues(*(F.pad(x, (0, 0, 0, num_slots)) for x in self.kv)))

    def append(self, added: KeyValues, write_index: Tensor | None = None) -> "KVCache":
        """These slots, then `added` (B, H, K, D); with a `write_index` (K,), writes in place."""
        if write_index is not None:
            for slots, new in zip(self.kv, added, strict=True):
                slots.index_copy_(2, write_index, new)
            return self
        first, buffer = self.kv.keys.shape[2], self.buffer
        last = first + added.keys.shape[2]
        if torch.is_grad_enabled():  # autograd needs the slots that were read unchanged
            return KVCache(self.kv.append(added))
        if buffer is None or not buffer.can_append(first, last):
            capacity = max(2 * first, first + BUFFER_STEPS * (last - first))
            grown = (x.new_empty(*x.shape[:2], capacity, x.shape[3]) for x in self.kv)
            buffer = _Buffer(KeyValues(*grown), first)
            for slots, old in zip(buffer.kv, self.kv, strict=True):
                slots[:, :, :first] = old
        for slots, new in zip(buffer.kv, added, strict=True):
            slots[:, :, first:last] = new
        buffer.num_filled = last
        return KVCache(KeyValues(*(x[:, :, :last] for x in buffer.kv)), buffer)


class Ancestry(NamedTuple):
    """Which slots hold the tokens of each hypothesis."""

    ancestor_bias: Tensor  # (B, 1, K, P) added to scores: 0 at a hypothesis's own slots, else -inf
    slots_per_step: tuple[int, ...]  # of each of t positions; their sum is P
    window_bias: Tensor | None = None  # (P,) the same for a sliding window; None: no window
    new_bias: Tensor | None = None  # (K, K) what a step appends to `ancestor_bias` for K slots
    step_counter: Tensor | None = None  # () of a static form: steps since it was made
    write_index: Tensor | None = None  # (K,) of a static form: the slots of its newest position
    single_slots: int = 0  # positions before those of `slots_per_step`, with one slot each

    @classmethod
    def empty(cls, sentences: int, *, like: Tensor) -> "Ancestry":
        """One hypothesis without tokens for each sentence; the bias is of the type of `like`."""
        return cls(like.new_zeros(sentences, 1, 1, 0), ())

    @classmethod
    def of_past(cls, keys: Tensor, bias: Tensor | None = None) -> "Ancestry":
        """One hypothesis for each sentence, with all slots of its `keys` (B, H, P, D), except where
        `bias` (B, 1, 1, P) is -inf. In a traced graph, P is not a Python number.
        """
        sentences, slots = keys.shape[0], keys.shape[2]
        bias = keys.new_zeros(sentences, 1, 1, slots) if bias is None else bias
        return cls(bias, (), single_slots=slots)

    @property
    def length(self) -> int:
        """t, the tokens of each hypothesis."""
        return self.single_slots + len(self.slots_per_step)

    @property
    def next_position(self) -> int | Tensor:
        """The next position; of a static form, a tensor ()."""
        return self.length if self.step_counter is None else self.length + self.step_counter

    @property
    def positions(self) -> Tensor:
        """The position (P,) of the token in each slot."""
        device, first = self.ancestor_bias.device, self.single_slots
        runs = [torch.arange(first, device=device)]
        for width, same in groupby(self.slots_per_step):  # a tensor of counts would be a GPU sync
            last = first + len(list(same))
            runs.append(torch.arange(first, last, device=device).repeat_interleave(width))
            first = last
        return torch.cat(runs)

    @property
    def bias(self) -> Tensor:
        """Added to the scores of each hypothesis to mask other slots: (B, 1, K, P)."""
        if self.window_bias is None:
            return self.ancestor_bias
        return self.ancestor_bias + self.window_bias

    @property
    def mask(self) -> Tensor:
        """The slots that each hypothesis may attend to: (B, 1, K, P)."""
        return self.bias == 0

    @property
    def slots(self) -> Tensor:
        """The slot of each of its t tokens: (B, K, t). A hypothesis with a shorter prompt has fewer
        tokens: masked slots come first.
        """
        own = self.ancestor_bias[:, 0] == 0  # (B, K, P)
        order = own.byte().argsort(dim=-1, stable=True)  # own slots last, ascending
        return order[..., order.shape[-1] - self.length :]

    def extend(self) -> "Ancestry":
        """The ancestry with one more token each: hypothesis k's is in the k-th new slot, P + k."""
        rows, _, width, _ = self.ancestor_bias.shape
        new_bias = self._new_bias()
        new_columns = new_bias.expand(rows, 1, -1, -1)  # (B, 1, K, K)
        if self.step_counter is not None:
            first = self.single_slots + sum(self.slots_per_step) + self.step_counter * width
            write_index = first + torch.arange(width, device=new_bias.device)  # (K,)
            ancestor_bias = self.ancestor_bias.index_copy(3, write_index, new_columns)
            return self._replace(ancestor_bias=ancestor_bias, write_index=write_index)
        ancestor_bias = torch.cat([self.ancestor_bias, new_columns], dim=3)  # (B, 1, K, P + K)
        slots_per_step = (*self.slots_per_step, width)
        return Ancestry(
            ancestor_bias, slots_per_step, new_bias=new_bias, single_slots=self.single_slots
        )

    def _new_bias(self) -> Tensor:
        """0 on the diagonal, else -inf: (K, K)."""
        width = self.ancestor_bias.shape[2]
        if self.new_bias is not None and len(self.new_bias) == width:
            return self.new_bias
        bias = self.ancestor_bias.new_zeros(width, width)
        return bias.fill_(NEG_INF).fill_diagonal_(0.0) if width > 1 else bias

    def to_static(self, steps: int, step_counter: Tensor) -> "Ancestry":
        """A form of constant shape with room for `steps` more steps, counted by `step_counter` ().

        `slots_per_step` stays as it is now. Slots of later steps exist, and are masked.
        """
        width = self.ancestor_bias.shape[2]
        return Ancestry(
            F.pad(self.ancestor_bias, (0, steps * width), value=NEG_INF),
            self.slots_per_step,
            new_bias=self._new_bias(),
            step_counter=step_counter,
            write_index=torch.arange(width, device=step_counter.device),  # set by `extend`
            single_slots=self.single_slots,
        )

    def windowed(self, reach: int) -> "Ancestry":
        """The ancestry without the tokens more than `reach` positions before the newest."""
        near = self.positions >= self.length - 1 - reach  # (P,)
        zeros = self.ancestor_bias.new_zeros(near.shape)
        return self._replace(window_bias=zeros.masked_fill_(~near, NEG_INF))

    def select_sentences(self, sentences: Tensor) -> "Ancestry":
        """The ancestry of `sentences` (B',)."""
        return self._replace(ancestor_bias=self.ancestor_bias[sentences])

    def reorder(self, parents: Tensor) -> "Ancestry":
        """Hypothesis k of sentence b becomes a copy of hypothesis `parents[b, k]`; (B, K')."""
        index = parents[:, None, :, None].expand(-1, 1, -1, self.ancestor_bias.shape[-1])
        return self._replace(ancestor_bias=self.ancestor_bias.gather(2, index))  # (B, 1, K', P)


def attend_cached(
    score: ScoreFunction,
    queries: Tensor,
    cache: KVCache,
    ancestry: Ancestry,
    *,
    site: Site,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    hook: AttentionHook | None = None,
) -> Tensor:
    """Attention of each hypothesis, `queries` (B, H, K, D), to its own tokens: (B, H, K, D').

    `bias` (B, H, K, P) is added to the scores. All hypotheses of a sentence attend to all its
    slots, masked by their ancestry. A hook is given positions, not slots: for it, and in float64
    (see `attend`), the slots of each hypothesis are gathered in the order of its tokens.
    """
    scale = score.scale(queries.shape[-1])
    if hook is None and scale is not None and queries.dtype != torch.float64:
        if use_attend_step(queries) and not dropout:
            bias = ancestry.bias if bias is None else ancestry.bias + bias
            return attend_step(queries, cache.kv, bias, scale=scale)
        mask = ancestry.mask
        return fused_attention(queries, cache.kv, mask, scale=scale, bias=bias, dropout=dropout)
    slots = ancestry.slots  # (B, K, t)
    rows = torch.arange(len(slots), device=slots.device)[:, None, None]  # (B, 1, 1)

    def gather(x: Tensor) -> Tensor:
        """Values for all P slots (B, H|1, K, P) -> those of each hypothesis (B, H|1, K, 1, t)."""
        return x.gather(-1, slots[:, None].expand(-1, x.shape[1], -1, -1))[..., None, :]

    return attend(
        score,
        queries[..., None, :],  # (B, H, K, 1, D)
        KeyValues(*(x[rows, :, slots].movedim(3, 1) for x in cache.kv)),  # (B, H, K, t, D)
        gather(ancestry.mask),
        site=site,
        bias=None if bias is None else gather(bias),
        dropout=dropout,
        hook=hook and (lambda site, weights: hook(site, weights.squeeze(-2)).unsqueeze(-2)),
    ).squeeze(-2)  # (B, H, K, D')
