"""Beam search, of which greedy search is the narrowest."""

from dataclasses import dataclass

from torch import Tensor

from regard.decoding.search.hypotheses import Candidates, Hypotheses
from regard.decoding.search.topk import TopK, stable_topk_of_sums
from regard.kernels.dispatch import use_topk_logits
from regard.kernels.topk_logits import TokenRules, topk_continuations

TOPK_FROM_ROWS = 16
"""Rows from which `ranked_sums` finds their largest entries sooner than `max`: a CPU goes through
them one by one, and does not compare several at a time as in `amax`."""


@dataclass(frozen=True)
class BeamSelector:
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
    def num_candidates(self) -> int:
        """Ways that are weighed: as each hypothesis can end in one only, `size` of them go on.

        Greedy search stands by its one choice: if that is EOS, it is over.
        """
        return 1 if self.size == 1 else 2 * self.size

    def fused(
        self, logits: Tensor, hypotheses: Hypotheses, token_rules: TokenRules
    ) -> Candidates | None:
        """The same by kernels that read `logits` (B, K, V) once; None: there are none for them."""
        count = min(self.num_candidates, logits.shape[1] * logits.shape[2])
        if not use_topk_logits(logits, count):
            return None
        best = topk_continuations(logits, hypotheses.log_probs, count, token_rules)  # (B, C)
        return Candidates(best.values, best.tokens, None if self.size == 1 else best.parents)

    def __call__(self, log_probs: Tensor, hypotheses: Hypotheses) -> Candidates:
        """The likeliest (B, C) of the K V ways; it may write into `log_probs`."""
        if self.size == 1 and len(log_probs) < TOPK_FROM_ROWS:
            totals = log_probs.add_(hypotheses.log_probs[..., None]).flatten(1)  # (B, V)
            best = TopK(*totals.max(dim=1, keepdim=True))  # (B, 1), of equal ones the first
            return Candidates(best.values, best.indices, None)
        num_continuations, vocabulary = log_probs.shape[1] * log_probs.shape[2], log_probs.shape[2]
        best = stable_topk_of_sums(
            log_probs, hypotheses.log_probs, min(self.num_candidates, num_continuations)
        )  # (B, C)
        if self.size == 1:
            return Candidates(best.values, best.indices, None)
        return Candidates(best.values, best.indices % vocabulary, best.indices // vocabulary)
