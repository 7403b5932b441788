"""A saved bidirectional language model as a function: text -> a vector for each word."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray

from regard.errors import SettingsError
from regard.inspection.interventions import HeadChange
from regard.iterate import chunked
from regard.models.contracts import WordEmbedder
from regard.tasks.embedding.task import BidirectionalModelling
from regard.tasks.families.pipeline import Pipeline
from regard.text.preprocess import require_texts

BATCH_TEXTS = 32  # texts that are read together


@dataclass(frozen=True, eq=False, repr=False)
class Embedding:
    """The vectors of the words of a text."""

    words: tuple[str, ...]
    vectors: NDArray[np.float32]  # (S, D)

    def to_json(self) -> dict[str, Any]:
        vectors = [[round(x, 6) for x in row] for row in self.vectors.tolist()]
        return {"words": list(self.words), "vectors": vectors}

    def __repr__(self) -> str:
        return f"<Embedding of {len(self.words)} words in {self.vectors.shape[1]} numbers>"


class Embedder(Pipeline[BidirectionalModelling, WordEmbedder[Any]]):
    """Texts -> vectors of their words, which depend on the words around them.

    The model reads words by their letters, so that a word need not be in the vocabulary.
    """

    look_part = "encoder"

    def __call__(self, texts: Sequence[str], *, layer: int | None = None) -> list[Embedding]:
        """The vectors of the words of each text: the learned mixture of all layers, or those of one
        `layer`; layer 0 does not depend on the neighbouring words.
        """
        require_texts("texts", texts)
        num_layers = self.model.num_layers
        if layer is not None and not 0 <= layer < num_layers:
            raise SettingsError(f"layer {layer}: the model has layers 0 to {num_layers - 1}")
        words = [[one.strip() for one in self.task.tokenizer.surfaces(text)] for text in texts]
        words = [[one for one in row if one] for row in words]
        return [found for rows in chunked(words, BATCH_TEXTS) for found in self._embed(rows, layer)]

    def look(self, texts: Sequence[str], *, changes: Sequence[HeadChange] = ()) -> NoReturn:
        """Raise an error: the model has no attention."""
        raise SettingsError(
            f"{self.folder}: its task is {self.task.recipe.task}, whose models are LSTMs: there is "
            "no attention to look at"
        )

    @torch.inference_mode()
    def _embed(self, texts: Sequence[Sequence[str]], layer: int | None) -> list[Embedding]:
        layers = self.model.embed_words(texts)  # (L + 1, B, S, D)
        chosen = self.model.mix_layers(layers) if layer is None else layers[layer]  # (B, S, D)
        pairs = zip(texts, chosen.float().cpu().numpy(), strict=True)
        return [Embedding(tuple(words), found[: len(words)]) for words, found in pairs]
