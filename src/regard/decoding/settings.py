"""How answers are searched for, as plain values: who only states it needs no torch."""

from typing import Literal

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    model_validator,
)

from regard.settings import Settings

Stop = Literal["safe", "size", "limit"]
Normalise = Literal["power", "gnmt"]
Excluded = Literal["spread", "lost"]


class BeamSettings(Settings):
    """How a beam search runs and ranks."""

    size: int = Field(default=5, ge=1, le=1000)
    """Hypotheses kept at each step; 1 is greedy search."""
    length_penalty: float = Field(default=0.6, ge=0.0, le=5.0)
    """Exponent alpha of what a log-probability is divided by: more favours longer answers; 0
    favours none."""
    normalise: Normalise = "power"
    """What that is, of an answer of n tokens with EOS. power: n^alpha, which all engines know.
    gnmt: ((5 + n) / 6)^alpha (Wu et al. 2016, section 7), which the native engine alone does."""
    coverage_penalty: NonNegativeFloat = 0.0
    """Weight beta of Wu et al. 2016, section 7: more favours answers that attend to all of the
    source."""
    stop: Stop = "size"
    """When a sentence is done.

    size: as soon as `size` hypotheses have finished, or none can still become one of the n best;
    all engines know it. safe: in the latter case alone, which takes longer and may find a better
    one. limit: at the length limit.
    """


class SamplingSettings(Settings):
    """How tokens are drawn: first the temperature, then `top_k`, then `top_p` narrow the choice."""

    temperature: float = Field(default=1.0, gt=0.0, le=100.0)
    """What logits are divided by: below 1 the likely becomes likelier, above 1 less so."""
    top_k: PositiveInt | None = None
    """Only tokens as likely as the k-th likeliest, or more, are drawn; none: any."""
    top_p: float | None = Field(default=None, gt=0.0, le=1.0)
    """Only the fewest likeliest tokens that together have this probability; none: any."""
    seed: NonNegativeInt = 0
    """The same seed gives the same answers, however the sentences are batched."""


class RuleSettings(Settings):
    """What an answer may look like."""

    min_length: NonNegativeInt = 0
    """Fewest tokens of an answer, EOS not counted."""
    max_length: PositiveInt = 256
    """Most tokens of any answer, EOS counted; one that has no room left for EOS is unfinished."""
    max_length_ratio: NonNegativeFloat = 2.0
    """Most tokens of an answer for each token of its source, beyond `max_length_offset`."""
    max_length_offset: NonNegativeInt = 20
    """Most tokens of an answer to an empty source; `max_length` holds in any case."""
    no_repeat_ngram: NonNegativeInt = 0
    """An answer holds no sequence of this many tokens twice; 0: it may."""
    allow_unknown: bool = False
    """Whether an answer may hold the unknown token."""
    excluded: Excluded = "spread"
    """What becomes of the probability of what may not be said. spread: the rest share it, as if it
    had never been among the choices; all engines know it. lost: nothing gets it, so that a score is
    made of the model's own probabilities."""

    @model_validator(mode="after")
    def _leave_room(self) -> "RuleSettings":
        if self.min_length >= self.max_length:
            raise ValueError(
                f"min_length {self.min_length} leaves no room for EOS within max_length "
                f"{self.max_length}: lower the one or raise the other"
            )
        return self

    def limit(self, source_length: int) -> int:
        """Steps that the search may take with a source of so many tokens; 1 or more."""
        allowed = int(self.max_length_ratio * source_length) + self.max_length_offset
        return max(1, min(self.max_length, allowed))


class DecodingSettings(Settings):
    """How a model's answers are searched for: by a beam, or by sampling where that is set."""

    n_best: int = Field(default=1, ge=1, le=100_000)
    """Answers to each sentence: the best of the beam, or independent samples."""
    beam: BeamSettings = BeamSettings()
    """Beam search, which is greedy at size 1."""
    sampling: SamplingSettings | None = None
    """Sampling, in place of the beam."""
    rules: RuleSettings = RuleSettings()
    """What either must obey."""
    capture: bool = True
    """On a GPU, whether a search of few sentences is recorded and replayed as CUDA graphs, so that
    it does not wait for the host; the answers are the same. Of no effect elsewhere."""

    @model_validator(mode="after")
    def _agree(self) -> "DecodingSettings":
        if self.sampling is None and self.n_best > self.beam.size:
            raise ValueError(
                f"n_best {self.n_best} asks for more answers than a beam of size {self.beam.size} "
                "keeps: raise beam.size or lower n_best"
            )
        if self.sampling is not None and self.beam != BeamSettings():
            raise ValueError(
                "beam and sampling exclude each other, and both are set: leave out one of them"
            )
        return self
