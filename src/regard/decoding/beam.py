"""Beam search, of which greedy search is the narrowest."""

from dataclasses import dataclass

from torch import Tensor

from regard.decoding.grid import Candidates, Grid
from regard.decoding.ranking import Ranked, ranked_sums
from regard.kernels.choice import Sayable, best_ways, suits_choice

MANY = 16
"""Rows from which `ranked_sums` finds their largest entries sooner than `max`: a CPU goes through
them one by one, and does not compare several at a time as in `amax`."""


@dataclass(frozen=True)
class Beam:
    """Goes on with the likeliest of all hypotheses of a sentence.

    They are of one length, so no length penalty could change their order; the coverage penalty
    ranks answers only, as before that most of the source has rightly not been looked at. Equally
    likely ones are taken in the order of their parents, then of their tokens.
    """

    size: int

    @property
    def start(self) -> int:
        return 1

    @property
    def width(self) -> int:
        return self.size

    @property
    def most(self) -> int:
        """Ways that are weighed: as each hypothesis can end in one only, `size` of them go on.

        Greedy search stands by its one choice: if that is EOS, it is over.
        """
        return 1 if self.size == 1 else 2 * self.size

    def at_once(self, logits: Tensor, grid: Grid, sayable: Sayable) -> Candidates | None:
        """The same by kernels that read `logits` (B, K, V) once; None: there are none for them."""
        count = min(self.most, logits.shape[1] * logits.shape[2])
        if not suits_choice(logits, count):
            return None
        best = best_ways(logits, grid.log_probs, count, sayable)  # (B, C)
        return Candidates(best.values, best.tokens, None if self.size == 1 else best.parents)

    def __call__(self, log_probs: Tensor, grid: Grid) -> Candidates:
        """The likeliest (B, C) of the K V ways; it may write into `log_probs`."""
        if self.size == 1 and len(log_probs) < MANY:
            totals = log_probs.add_(grid.log_probs[..., None]).flatten(1)  # (B, V)
            best = Ranked(*totals.max(dim=1, keepdim=True))  # (B, 1), of equal ones the first
            return Candidates(best.values, best.indices, None)
        ways, vocabulary = log_probs.shape[1] * log_probs.shape[2], log_probs.shape[2]
        best = ranked_sums(log_probs, grid.log_probs, min(self.most, ways))  # (B, C)
        if self.size == 1:
            return Candidates(best.values, best.indices, None)
        return Candidates(best.values, best.indices % vocabulary, best.indices // vocabulary)
