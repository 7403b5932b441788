"""Answers found so far."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, device

from regard.errors import SearchError
from regard.models.contracts import gather_parents
from regard.text.special_tokens import BOS, PAD
from regard.types import Hypothesis


class NBest(NamedTuple):
    """The N best answers to each of B sentences, the best first; a value.

    They stay on the device until their sentence leaves the search.
    """

    scores: Tensor  # (B, N); -inf: the place is free
    log_probs: Tensor  # (B, N)
    tokens: Tensor  # (B, N, 1 + t) BOS, what was said, PAD
    ended: Tensor  # (B, N) whether it ended in EOS, rather than at the limit

    @classmethod
    def empty(cls, sentences: int, places: int, where: device) -> "NBest":
        """Free places (B, N)."""
        nothing = torch.full((sentences, places), float("-inf"), device=where)
        tokens = torch.full((sentences, places, 1), BOS, device=where)
        return cls(nothing, nothing, tokens, torch.ones_like(nothing, dtype=torch.bool))

    def select_sentences(self, sentences: Tensor) -> "NBest":
        """Those of `sentences` (B',) alone."""
        return NBest(*(x[sentences] for x in self))

    def add(self, new: "NBest") -> "NBest":
        """The best of both; of equal ones, those that were there before.

        What was filled in has its place behind all that ended, whatever its score.
        """
        return self._merge(new, torch.where(self.ended, self.scores, float("-inf")))

    def fill(self, new: "NBest") -> "NBest":
        """These, and the best of `new` (B, M) in the places that are still free."""
        occupied = self.scores.masked_fill(self.scores > float("-inf"), float("inf"))
        return self._merge(new, occupied)

    def to_lists(self, count: int) -> list[list[Hypothesis]]:
        """What the search answers for each sentence: at most `most`, the best first.

        Python looks through all that it has whenever it has made some ten thousand lists more, and
        these may be as many sentences: so numbers are read out flat.
        """
        scores, log_probs, tokens, ended = (x[:, :count] for x in self)
        if bool(scores.isnan().any()):
            raise SearchError(
                "the model's output is not a number (NaN): its weights are damaged, or overflow "
                "in the precision in use; try float32"
            )
        (num, width), lengths = tokens.shape[1:], (tokens != PAD).sum(-1)  # BOS with them
        flat_tokens: list[int] = tokens.flatten().tolist()
        columns = (x.flatten().tolist() for x in (scores, log_probs, lengths, ended))
        rows = zip(range(0, len(flat_tokens), width), *columns, strict=True)
        found = [
            Hypothesis(tuple(flat_tokens[first + 1 : first + length]), score, log_prob, ends)
            for first, score, log_prob, length, ends in rows
        ]
        return [
            [answer for answer in found[first : first + num] if answer.score != -math.inf]
            for first in range(0, len(found), num)
        ]

    def _merge(self, new: "NBest", ranks: Tensor) -> "NBest":
        """As many of both as there are places, by `ranks` (B, N) and by the scores of `new`."""
        ranks = torch.cat([ranks, new.scores], 1)  # (B, N + M)
        order = ranks.sort(dim=1, descending=True, stable=True).indices  # (B, N + M)
        best = order[:, : self.scores.shape[1]]  # (B, N)
        padding = new.tokens.shape[-1] - self.tokens.shape[-1]
        padded = self._replace(tokens=F.pad(self.tokens, (0, padding), value=PAD))
        pairs = zip(padded, new, strict=True)
        return NBest(*(gather_parents(torch.cat(pair, 1), best) for pair in pairs))
