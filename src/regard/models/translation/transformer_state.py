"""Where decoders are in a search that carry a growing past: those of Transformers."""

from dataclasses import dataclass, replace

from torch import Tensor

from regard.attention.attend import KeyValues
from regard.attention.decode_attention import SourceMask
from regard.attention.kv_cache import Ancestry, KVCache


@dataclass(frozen=True)
class TransformerState:
    """Keys and values of the source once per sentence, of the past once per cell: see `cache`."""

    source: tuple[KeyValues, ...]  # of each layer (B, H, S, K), cleared by `sight`
    source_mask: SourceMask  # (B, 1, 1, S)
    past: tuple[KVCache, ...]  # of each layer (B, H, P, K)
    ancestry: Ancestry  # (B, K, t) in the P cells

    def select_sentences(self, sentences: Tensor) -> "TransformerState":
        return TransformerState(
            tuple(kv.rows(sentences) for kv in self.source),
            self.source_mask.rows(sentences),
            tuple(cells.rows(sentences) for cells in self.past),
            self.ancestry.select_sentences(sentences),
        )

    def reorder(self, parents: Tensor) -> "TransformerState":
        return replace(self, ancestry=self.ancestry.reorder(parents))
