"""Naive Bayes: evidence from each n-gram of a text for its label, from counts of the training
texts.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import SettingsError
from regard.types import Padded

ABSENT = -1  # in a row of n-grams: no n-gram, or a repeated one
LARGEST_COUNTS = 1 << 28  # of n-grams and labels: a gigabyte
SMOOTHING = 1.0  # added to the number of texts of each label that hold an n-gram


class NgramCounts(NamedTuple):
    """In how many training texts of each label an n-gram occurs."""

    ngrams: Tensor  # (N,) ascending, numbered as `distinct_ngrams` does
    counts: Tensor  # (N, C)
    scale: Tensor  # () what log-likelihoods are multiplied by: n-grams are not independent

    @classmethod
    def read(cls, tensors: Mapping[str, Tensor], classes: int) -> "NgramCounts":
        """The counts that `tensors` hold, by name; a `ValueError` if they are none of `classes`."""
        if tensors.keys() != {*cls._fields}:
            raise ValueError(f"expected {', '.join(cls._fields)}, got {', '.join(tensors)}")
        known = cls(**tensors)
        size = len(known.ngrams) if known.ngrams.ndim == 1 else 0
        if not size or known.counts.shape != (size, classes) or known.scale.ndim:
            raise ValueError(f"there are no counts of n-grams for {classes:,} labels")
        if known.ngrams.dtype != torch.int64 or not (known.ngrams.diff() > 0).all():
            raise ValueError("its n-grams are not in order")
        are_counts = ((known.counts >= 0) & known.counts.isfinite()).all()
        if not are_counts or not 0 < known.scale < torch.inf:
            raise ValueError("its counts are negative or no numbers")
        return known


class NaiveBayes(nn.Module):
    """γ Σ_g log p(g | label) over the distinct n-grams g of a text that also occur in other texts,
    minus its mean over the labels. The counts are all that is learned.

    p(g | label) = (1 + texts of the label with g) / (N + Σ_g' texts of the label with g')
    """

    ngrams: Tensor
    counts: Tensor
    scale: Tensor

    def __init__(self, known: NgramCounts, longest: int, vocabulary: int) -> None:
        super().__init__()
        self.longest, self.vocabulary = longest, vocabulary
        for name, tensor in known._asdict().items():  # of the run's data, not of its weights
            self.register_buffer(name, tensor, persistent=False)

    def forward(self, inputs: Padded, labels: Tensor | None = None) -> Tensor:
        """The logits (B, C) of texts. For texts that were counted, pass their `labels` (B,): each
        is then left out of its own counts, which would reveal its label.
        """
        return self.votes(inputs, labels)[1].sum(1)

    def votes(self, inputs: Padded, labels: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The n-grams of texts (B, K), and what each adds to the logits: (B, K, C)."""
        found = distinct_ngrams(inputs, self.longest, self.vocabulary)
        places = find_places(self.ngrams, found)
        known = self.ngrams[places] == found
        counts = self.counts[places] * known[..., None]  # (B, K, C)
        totals = (self.counts.sum(0) + SMOOTHING * len(self.ngrams))[None]  # (1, C)
        if labels is not None:
            own = nn.functional.one_hot(labels, self.counts.shape[1])  # (B, C)
            counts = counts - own[:, None] * known[..., None]
            totals = totals - own * known.sum(1, keepdim=True)  # (B, C)
        logp = (counts + SMOOTHING).log() - totals.log()[:, None]
        elsewhere = counts.sum(-1, keepdim=True) > 0  # (B, K, 1)
        return found, self.scale * elsewhere * (logp - logp.mean(-1, keepdim=True))

    def tokens(self, ngram: int) -> list[int]:
        """The tokens of an n-gram."""
        digits = []
        while ngram:
            ngram, digit = divmod(ngram, self.vocabulary + 1)
            digits.append(digit - 1)
        return digits[::-1]


def distinct_ngrams(inputs: Padded, longest: int, vocabulary: int) -> Tensor:
    """The distinct n-grams of up to `longest` ≤ 3 tokens of each text, which has at least two
    tokens: (B, K), padded with ABSENT. The tokens of an n-gram, each plus one, are the digits of
    its number.
    """
    digits, length = (inputs.ids + 1).masked_fill(~inputs.mask, 0), inputs.ids.shape[1]
    rows = []
    for n in range(1, longest + 1):
        numbers = torch.zeros_like(digits[:, n - 1 :])
        for first in range(n):
            numbers = numbers * (vocabulary + 1) + digits[:, first : length - n + 1 + first]
        rows.append(numbers.masked_fill(~inputs.mask[:, n - 1 :], ABSENT))
    found = torch.cat(rows, 1).sort(1).values
    repeated = found[:, 1:] == found[:, :-1]
    return torch.cat([found[:, :1], found[:, 1:].masked_fill(repeated, ABSENT)], 1)


def find_places(ascending: Tensor, wanted: Tensor) -> Tensor:
    """The index of each number, or of the last one below it; 0 if there is none. By binary search,
    in operations that ONNX has.
    """
    places, last = torch.zeros_like(wanted), len(ascending) - 1
    for bit in reversed(range(len(ascending).bit_length())):
        later = places + (1 << bit)
        reached = (later <= last) & (ascending[later.clamp(max=last)] <= wanted)
        places = torch.where(reached, later, places)
    return places


def count_ngrams(
    texts: Iterable[tuple[Padded, Tensor]], longest: int, vocabulary: int, classes: int
) -> NgramCounts:
    """The n-gram counts of texts, given in batches with their labels (B,). Raises an error if the
    table of all n-grams and labels would be too large.
    """
    ngrams, labels = [], []
    for inputs, some in texts:
        found = distinct_ngrams(inputs, longest, vocabulary)
        present = found != ABSENT
        ngrams.append(found[present].numpy())
        labels.append(some[:, None].expand_as(found)[present].numpy())
    known, places = np.unique(np.concatenate(ngrams), return_inverse=True)
    if len(known) * classes > LARGEST_COUNTS:
        raise SettingsError(
            f"model.ngrams {longest}: {len(known):,} n-grams of {classes:,} labels are more than "
            f"{LARGEST_COUNTS:,} counts; choose fewer, or 0"
        )
    cells = places * classes + np.concatenate(labels)
    counts = np.bincount(cells, minlength=len(known) * classes).reshape(len(known), classes)
    scale = torch.ones(())
    return NgramCounts(torch.from_numpy(known), torch.from_numpy(counts).float(), scale)
