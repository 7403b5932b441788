"""Beam search, of which greedy search is the narrowest."""

from dataclasses import dataclass

from pydantic import Field, NonNegativeFloat
from torch import Tensor

from regard.decoding.grid import Candidates, Grid
from regard.decoding.loop import Stop
from regard.decoding.ranking import ranked
from regard.settings import Settings


class BeamSettings(Settings):
    """How a beam search runs and ranks."""

    size: int = Field(default=5, ge=1, le=1000)
    """Hypotheses kept at each step; 1 is greedy search."""
    length_penalty: float = Field(default=0.6, ge=0.0, le=5.0)
    """Exponent alpha of Wu et al. 2016, section 7: more favours longer answers; 0 favours none."""
    coverage_penalty: NonNegativeFloat = 0.0
    """Weight beta of the same section: more favours answers that attend to all of the source."""
    stop: Stop = "safe"
    """When a sentence is done.

    safe: when no hypothesis can still become one of the n best. size: as soon as `size` of them
    have finished, as is usual elsewhere, which is faster and may miss a better one. limit: at the
    length limit.
    """


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
            likeliest = totals.max(dim=1, keepdim=True)  # of equal ones the first: (B, 1)
            return Candidates(likeliest.values, likeliest.indices, None)
        best = ranked(totals, min(2 * self.size, totals.shape[1]))  # (B, C)
        return Candidates(best.values, best.indices % vocabulary, best.indices // vocabulary)
