"""Positions as distances between queries and keys (Shaw, Uszkoreit and Vaswani 2018)."""

import torch
from torch import Tensor, nn

from regard.attention.scores import ScaledDotScore


def relative_positions(queries: int, keys: int, *, first: int = 0, where: torch.device) -> Tensor:
    """How far each key stands behind each query, where key 0 stands `first` behind query 0: (T, S).

    Negative: before it.
    """
    key_positions = torch.arange(first, first + keys, device=where)  # (S,)
    return key_positions - torch.arange(queries, device=where)[:, None]  # (T, S)


class RelativeKeys(nn.Module):
    """A learned vector a for each distance, added to the keys of all heads.

        e_ij = q_i · (k_j + a_{clip(j - i)}) / √K

    Distances are clipped to `back` before and `ahead` behind the query, the paper's k; a decoder,
    whose past alone is ever seen, needs none ahead. What the vectors add to the scores is
    computed apart, and the keys stay as they are: a fused kernel takes it as a bias.

    The paper has such vectors for the values too, and finds that they change nothing (its table
    3: 25.8 BLEU with and without). Here there are none.
    """

    def __init__(self, width: int, *, back: int, ahead: int) -> None:
        super().__init__()
        self.back, self.ahead = back, ahead
        self.vectors = nn.Parameter(torch.empty(back + 1 + ahead, width))
        self.score = ScaledDotScore()
        nn.init.xavier_uniform_(self.vectors)

    def forward(self, queries: Tensor, relative_positions: Tensor) -> Tensor:
        """What the distances (T|1, S) add to the scores of `queries` (..., T, K): (..., T, S)."""
        each: Tensor = self.score(queries, self.vectors)  # (..., T, back + 1 + ahead)
        which = relative_positions.clamp(-self.back, self.ahead) + self.back  # (T|1, S)
        return each.gather(-1, which.expand(*each.shape[:-1], -1))  # (..., T, S)
