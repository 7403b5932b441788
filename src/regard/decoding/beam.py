"""Beam search, of which greedy search is the narrowest."""

from dataclasses import dataclass

from torch import Tensor

from regard.decoding.grid import Candidates, Grid
from regard.decoding.ranking import ranked

MANY = 16
"""Rows from which `ranked` finds their largest entries sooner than `max`: a CPU goes through them
one by one, and does not compare several at a time as in `amax`."""


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

    def __call__(self, log_probs: Tensor, grid: Grid) -> Candidates:
        """The likeliest (B, C) of the K V ways; it writes into `log_probs`.

        C is twice the size: as each hypothesis can end in one way only, `size` of them go on.
        Greedy search stands by its one choice: if that is EOS, it is over.
        """
        vocabulary = log_probs.shape[-1]
        totals = log_probs.add_(grid.log_probs[..., None]).flatten(1)  # (B, K V)
        if self.size == 1:
            best = totals.max(dim=1, keepdim=True) if len(totals) < MANY else ranked(totals, 1)
            return Candidates(best.values, best.indices, None)  # (B, 1), of equal ones the first
        best = ranked(totals, min(2 * self.size, totals.shape[1]))  # (B, C)
        return Candidates(best.values, best.indices % vocabulary, best.indices // vocabulary)
