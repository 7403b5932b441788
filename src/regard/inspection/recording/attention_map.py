"""Attention maps of one sentence, with the pieces and words along their sides."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from regard.errors import SettingsError
from regard.text.special_tokens import BOS, EOS, SPECIAL_PIECES, UNK
from regard.text.tokenizer import Tokenizer
from regard.text.word_units import has_unspaced, merge_units
from regard.types import ScoreInputs

Part = Literal["encoder", "decoder", "cross"]
PARTS: tuple[Part, ...] = get_args(Part)


class AxisSegment(NamedTuple):
    """One of several sentences that a model reads as one: pieces `start` up to `end`."""

    name: str
    start: int
    end: int


class Axis(NamedTuple):
    """The pieces and words along one side of an attention map."""

    pieces: tuple[str, ...]  # one for each row or column, special pieces among them
    words: tuple[str, ...]
    word_of: tuple[int | None, ...]  # each piece's word; None for special pieces and spaces
    units: tuple[int, ...] = ()
    """Units of each word, as `split_units` divides it; empty: one each. In scripts without spaces a
    word is the text of one piece, and a unit is a character."""
    segments: tuple[AxisSegment, ...] = ()
    """The sentences of a pair, in order; empty: it is one sentence."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of units of each word."""
        return self.units or (1,) * len(self.words)


@dataclass(frozen=True, eq=False, repr=False)
class AttentionMaps:
    """The attention weights of one sentence, in every layer and head of one part of a model.

    A row of cross or decoder attention is named by the piece predicted there: the last one is
    `</s>`. In a language model, whose rows and columns are one text, it is named by the piece read.
    """

    part: Part
    weights: Tensor  # (L, H, T, S)
    rows: Axis  # T
    columns: Axis  # S
    normalized: bool = True  # whether each row sums to 1; if not, some weights may be negative
    omitted: int = 0  # rows and columns left out before the first
    scores: tuple[ScoreInputs | None, ...] = ()
    """Queries, keys and the other inputs of each layer's scores, each (H, ...) without padding;
    empty if not recorded; None for a layer whose scores are not dot products."""

    def __repr__(self) -> str:
        layers, heads, rows, columns = self.weights.shape
        return f"<Attention {self.part}, {layers} layers of {heads} heads, {rows} x {columns}>"

    def select(self, layer: int | None = None, head: int | None = None) -> Tensor:
        """One map (T, S); None stands for the mean over layers or heads."""
        num_layers, num_heads = self.weights.shape[:2]
        for name, index, count in (("layer", layer, num_layers), ("head", head, num_heads)):
            if index is not None and not 0 <= index < count:
                raise SettingsError(
                    f"{name}: {self.part} attention has {count}, counted from 0; got {index}"
                )
        heads = self.weights.mean(0) if layer is None else self.weights[layer]  # (H, T, S)
        return heads.mean(0) if head is None else heads[head]  # (T, S)

    def with_scores(self, recorded: Sequence[ScoreInputs | None], sentence: int) -> "AttentionMaps":
        """The same maps with the score inputs recorded of each layer for a batch, (B, H, ...)."""
        if not any(recorded):
            return self
        size = len(self.rows.pieces), len(self.columns.pieces)
        scores = (None if one is None else _unpad_scores(one, sentence, size) for one in recorded)
        return replace(self, scores=tuple(scores))

    def without_scores(self) -> "AttentionMaps":
        """The same maps without queries and keys, so that their JSON always has the weights."""
        return replace(self, scores=())

    def last(self, count: int) -> "AttentionMaps":
        """The attention of the last `count` rows to the last `count` columns, if there are more:
        rows then sum to less than 1.
        """
        omitted = max(*self.weights.shape[-2:]) - count
        if omitted <= 0:
            return self
        names = self.rows.pieces[-count:], self.columns.pieces[-count:]
        rows, columns = (Axis(some, some, tuple(range(len(some)))) for some in names)
        weights = self.weights[..., -count:, -count:]
        omitted += self.omitted
        cut = replace(self, weights=weights, rows=rows, columns=columns, omitted=omitted)
        return replace(cut, scores=())

    def merge_pieces(self, *, shift: bool = False) -> "AttentionMaps":
        """The attention between words: the sum over a column's pieces, the mean over a row's.
        Pieces that belong to no word are left out, so a row may sum to less than 1. With `shift` a
        word's rows are those where its pieces are the decoder's input.
        """
        word_of = (None, *self.rows.word_of[:-1]) if shift else self.rows.word_of
        rows = _membership(word_of, len(self.rows.words))  # (T, T')
        columns = _membership(self.columns.word_of, len(self.columns.words))  # (S, S')
        means = rows / rows.sum(0).clamp_min(1)  # (T, T')
        weights = means.mT @ self.weights @ columns  # (L, H, T', S')
        by_words = [
            Axis(axis.words, axis.words, tuple(range(len(axis.words))), axis.units)
            for axis in (self.rows, self.columns)
        ]
        return AttentionMaps(self.part, weights, by_words[0], by_words[1], self.normalized)


def build_axis(ids: Sequence[int], tokenizer: Tokenizer, unknown: Sequence[str] = ()) -> Axis:
    """The pieces and words of `ids`, which may begin with BOS and end with EOS.

    `unknown` are the words that replace unknown ones, as in `Tokenizer.decode`.
    """
    first = int(len(ids) > 0 and ids[0] == BOS)
    last = len(ids) - int(len(ids) > 0 and ids[-1] == EOS)
    inner = ids[first:last]
    word_of = tokenizer.word_ids(inner, unknown)
    for place, following in enumerate(inner[1:]):
        # A model that outputs the space before an unknown word often attends to its source then.
        if following == UNK and word_of[place] is None:
            word_of[place] = word_of[place + 1]
    before, after = [SPECIAL_PIECES[BOS]] * first, [SPECIAL_PIECES[EOS]] * (len(ids) - last)
    pieces = (*before, *tokenizer.pieces(inner), *after)
    text = tokenizer.decode(inner, unknown)
    words, units = tuple(text.split()), tuple[int, ...]()
    if has_unspaced(text):
        words, units, merged = merge_units(text, set(word_of))
        word_of = [None if number is None else merged[number] for number in word_of]
    return Axis(pieces, words, (*(None for _ in before), *word_of, *(None for _ in after)), units)


def build_attention_maps(
    part: Part,
    weights: Tensor,
    source: Axis,
    output: Sequence[int],
    target: Tokenizer,
    *,
    unknown: Sequence[str] = (),
) -> AttentionMaps:
    """The weights (L, H, T, S) without padding, with names for rows and columns.

    `output` are the ids that the decoder predicts, with EOS; its inputs were BOS and all ids of
    `output` but the last.
    """
    rows = columns = source
    if part != "encoder":
        rows = build_axis(output, target, unknown)
    if part == "decoder":
        columns = build_axis([BOS, *output[:-1]], target, unknown)
    size = len(rows.pieces), len(columns.pieces)
    return AttentionMaps(part, weights[..., : size[0], : size[1]].float(), rows, columns)


def _unpad_scores(inputs: ScoreInputs, sentence: int, size: tuple[int, int]) -> ScoreInputs:
    """Of one sentence with `size` (T, S) rows and columns: (H, T, K), (H, S, K), (H|1, T, S)."""
    rows, columns = size
    queries = inputs.queries[sentence, :, :rows]
    keys = inputs.keys[sentence, :, :columns]

    def cut(x: Tensor) -> Tensor:
        full = x.expand(max(len(x), sentence + 1), -1, queries.shape[-2], -1)
        return full[sentence, :, :rows, :columns]

    mask, bias = (None if x is None else cut(x) for x in (inputs.mask, inputs.bias))
    return ScoreInputs(queries, keys, mask, bias, inputs.scale)


def _membership(word_of: Sequence[int | None], words: int) -> Tensor:
    """1 where a piece belongs to a word: (pieces, words)."""
    numbers = torch.tensor([-1 if word is None else word for word in word_of])  # (pieces,)
    return (numbers[:, None] == torch.arange(words)).float()
