"""Where decoders are in a search that carry a growing past: those of Transformers."""

from dataclasses import dataclass, replace

from torch import Tensor

from regard.attention.attend import KeyValues
from regard.attention.cache import Cells, Paths
from regard.attention.few import Sight


@dataclass(frozen=True)
class TransformerState:
    """Keys and values of the source once per sentence, of the past once per cell: see `cache`."""

    source: tuple[KeyValues, ...]  # of each layer (B, H, S, K), cleared by `sight`
    sight: Sight  # (B, 1, 1, S)
    past: tuple[Cells, ...]  # of each layer (B, H, P, K)
    paths: Paths  # (B, K, t) in the P cells

    def keep(self, sentences: Tensor) -> "TransformerState":
        return TransformerState(
            tuple(kv.rows(sentences) for kv in self.source),
            self.sight.rows(sentences),
            tuple(cells.rows(sentences) for cells in self.past),
            self.paths.keep(sentences),
        )

    def branch(self, parents: Tensor) -> "TransformerState":
        return replace(self, paths=self.paths.branch(parents))
