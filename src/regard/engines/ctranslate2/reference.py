"""CTranslate2 itself on any folder, in float32: the reference for imported models."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import ctranslate2

from regard.engines.ctranslate2.ct2_engine import open_translator

Tokens = Sequence[str]


class ReferenceAnswer(NamedTuple):
    """A result of CTranslate2's search."""

    tokens: tuple[str, ...]  # EOS included if it ended
    score: float  # the log-probability of these tokens, divided by their number


class Ct2Reference:
    """A model of CTranslate2, whose tokens are strings."""

    def __init__(self, folder: Path) -> None:
        self.name = f"CTranslate2 {ctranslate2.__version__}"
        options = {"compute_type": "float32", "inter_threads": 1, "intra_threads": 1}
        self._engine = open_translator(folder, **options)

    def log_probabilities(
        self, sources: Sequence[Tokens], targets: Sequence[Tokens]
    ) -> list[list[float]]:
        """Log-probabilities of each target's tokens, and of its EOS, in nats."""
        scored = self._engine.score_batch(
            list(map(list, sources)), list(map(list, targets)), max_input_length=0
        )
        return [list(one.log_probs) for one in scored]

    def search(
        self, sources: Sequence[Tokens], *, beam: int, n_best: int, limit: int, never: Sequence[str]
    ) -> list[list[ReferenceAnswer]]:
        """The n best of each source, of at most `limit` tokens and without `never`."""
        found = self._engine.translate_batch(
            list(map(list, sources)),
            beam_size=beam,
            num_hypotheses=n_best,
            length_penalty=1,
            max_decoding_length=limit,
            min_decoding_length=0,
            suppress_sequences=[[token] for token in never] or None,
            return_end_token=True,  # it then counts in the length
            return_scores=True,
            max_input_length=0,
        )
        return [
            [
                ReferenceAnswer(tuple(tokens), score)
                for tokens, score in zip(one.hypotheses, one.scores, strict=True)
            ]
            for one in found
        ]
