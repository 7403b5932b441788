"""Settings of a search, and how sentences are batched for it; no torch: not all engines need it."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    model_validator,
)

from regard.errors import SettingsError
from regard.settings import Settings, expectation

Stop = Literal["safe", "size", "heuristic", "limit"]
Normalise = Literal["power", "gnmt"]
Excluded = Literal["spread", "lost"]
AtLimit = Literal["behind", "ranked", "eos"]

MAX_BEAM = 1000  # hypotheses
NEAR_SAFE = 2.0  # patience with which `stop: size` is nearest to the rules that wait
MIN_COUNTED_LENGTH = 4  # of a sentence in a budget: its hypotheses have logits, however short


class BeamSettings(Settings):
    """How a beam search runs and ranks."""

    size: int = Field(default=5, ge=1, le=MAX_BEAM)
    """Hypotheses kept at each step; 1 is greedy search."""
    length_penalty: float = Field(default=0.6, ge=0.0, le=5.0)
    """Exponent alpha of the length by which a log-probability is divided: higher values favour
    longer answers; 0: no division."""
    normalise: Normalise = "power"
    """The divisor for an answer of n tokens, EOS counted. power: n^alpha, in all engines. gnmt:
    ((5 + n) / 6)^alpha (Wu et al. 2016, section 7), in the native engine only."""
    coverage_penalty: NonNegativeFloat = 0.0
    """Weight beta of Wu et al. 2016, section 7: higher values favour answers that attend to the
    whole source."""
    stop: Stop = "size"
    """When the search of a sentence stops.

    size: as soon as `size` hypotheses have finished, or none can still become one of the n best; in
    all engines. safe: only when none can still become one of the n best, which takes longer and may
    find a better answer. heuristic: when `size` hypotheses have finished, and the best of the
    others would score no higher than any of them if it ended now. limit: at the length limit.
    """
    patience: float = Field(default=1.0, ge=1.0, le=10.0)
    """How many times `size` hypotheses have to finish for `stop: size` (Kasai et al. 2022); in all
    engines. With 2 it seldom answers otherwise than `safe`."""

    @property
    def num_finished(self) -> int:
        """Finished hypotheses that end the search of a sentence with `stop: size`."""
        return 1 if self.size == 1 else int(self.size * self.patience + 0.5)


class SamplingSettings(Settings):
    """How tokens are drawn: `temperature` is applied first, then `top_k`, then `top_p`."""

    temperature: float = Field(default=1.0, gt=0.0, le=100.0)
    """Divides the logits: below 1 likely tokens become likelier, above 1 less likely."""
    top_k: PositiveInt | None = None
    """Draw only from the k likeliest tokens, and those as likely as the k-th; null: from all."""
    top_p: float | None = Field(default=None, gt=0.0, le=1.0)
    """Draw only from the smallest set of likeliest tokens with at least this total probability;
    null: from all."""
    seed: NonNegativeInt = 0
    """The same seed gives the same answers, however the sentences are batched."""


class RuleSettings(Settings):
    """Constraints on answers."""

    min_length: NonNegativeInt = 0
    """The fewest tokens of an answer, EOS not counted."""
    max_length: PositiveInt = 256
    """The most tokens of any answer, EOS counted; an answer cut before EOS is unfinished."""
    max_length_ratio: NonNegativeFloat = 2.0
    """The most tokens of an answer for each token of its source, in addition to
    `max_length_offset`."""
    max_length_offset: NonNegativeInt = 20
    """The most tokens of an answer to an empty source; `max_length` is never exceeded."""
    no_repeat_ngram: NonNegativeInt = 0
    """No sequence of this many tokens occurs twice in an answer; 0: repetition is allowed."""
    allow_unknown: bool = False
    """Whether an answer may contain the unknown token."""
    excluded: Excluded = "spread"
    """What happens to the probability of forbidden tokens. spread: the allowed tokens are
    renormalised; in all engines. lost: they are not, so that scores consist of the model's own
    probabilities."""
    at_limit: AtLimit = "behind"
    """How a beam ranks hypotheses that reach the length limit. behind: behind all that ended; in
    all engines. ranked: among these, by their scores. eos: likewise, with EOS as their last token,
    at no cost."""

    @model_validator(mode="after")
    def _leave_room(self) -> "RuleSettings":
        if self.min_length >= self.max_length:
            raise ValueError(
                f"min_length {self.min_length} leaves no room for EOS within max_length "
                f"{self.max_length}: lower min_length or raise max_length"
            )
        return self

    def limit(self, source_length: int) -> int:
        """Steps that the search may take with a source of so many tokens; 1 or more."""
        allowed = int(self.max_length_ratio * source_length) + self.max_length_offset
        return max(1, min(self.max_length, allowed) - self.forced_tokens)

    @property
    def forced_tokens(self) -> int:
        """Tokens that a hypothesis at the limit is given after its last step."""
        return int(self.at_limit == "eos")


class RerankingSettings(Settings):
    """How an answer is chosen among candidates by its mutual information with the source.

    The answer with the largest log p(T|S) - λ log p(T) + γ |T| is chosen (MMI-antiLM of Li et al.
    2016, here for whole candidates, not within the search), where p(T) is the model's probability
    of T given an empty source: answers that are likely for any source are penalised. The model must
    have been trained with some empty sources.
    """

    candidates: int = Field(default=16, ge=2, le=1000)
    """How many answers are compared: samples, or the best of a beam (at most its size)."""
    prior_weight: float = Field(default=0.5, ge=0.0, le=1.0)
    """λ: the weight of the penalty for being likely without the source."""
    length_reward: float = Field(default=0.0, ge=0.0, le=100.0)
    """γ: added to an answer's score for each of its tokens, EOS counted."""


class DecodingSettings(Settings):
    """How a model's answers are searched for: by beam search, or by sampling if that is set."""

    n_best: int = Field(default=1, ge=1, le=100_000)
    """Answers to each sentence: the best of the beam, or independent samples."""
    beam: BeamSettings = BeamSettings()
    """Beam search, which is greedy at size 1."""
    sampling: SamplingSettings | None = None
    """Sampling instead of beam search."""
    reranking: RerankingSettings | None = None
    """Reranking of the answers by mutual information; null: they keep the order of their scores."""
    rules: RuleSettings = RuleSettings()
    """Constraints on answers, of beam search and sampling alike."""
    capture: bool = True
    """On a GPU, whether searches of few sentences are captured and replayed as CUDA graphs, so that
    they do not wait for the host; the answers are the same. No effect on other devices."""

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

    @property
    def num_candidates(self) -> int:
        """Answers to search for, of which reranking leaves `n_best`."""
        if self.reranking is None:
            return self.n_best
        most = self.reranking.candidates
        return max(self.n_best, most if self.sampling else min(most, self.beam.size))


def native_only_reason(settings: DecodingSettings) -> str | None:
    """The first setting that only the native engine supports; None: every engine can do it."""
    beam, rules = settings.beam, settings.rules
    reasons = {
        "answers are to be sampled": settings.sampling,
        "answers are to be reranked": settings.reranking,
        "coverage counts": beam.coverage_penalty,
        f"normalise is {beam.normalise}": beam.normalise != "power" and beam.length_penalty,
        f"stop is {beam.stop}": beam.stop != "size" and beam.size > 1,
        f"excluded is {rules.excluded}": rules.excluded != "spread",
        f"at_limit is {rules.at_limit}": rules.at_limit != "behind" and beam.size > 1,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def portable_settings(settings: DecodingSettings) -> DecodingSettings:
    """The nearest settings that every engine supports."""
    beam: dict[str, Any] = {"normalise": "power", "stop": "size", "coverage_penalty": 0.0}
    if settings.beam.stop != "size":
        beam["patience"] = NEAR_SAFE
    return DecodingSettings(
        n_best=settings.n_best if settings.sampling is None else 1,
        beam=settings.beam.model_copy(update=beam),
        rules=settings.rules.model_copy(update={"excluded": "spread", "at_limit": "behind"}),
        capture=settings.capture,
    )


def search_settings(
    recipe: DecodingSettings,
    *,
    beam: int | None = None,
    n_best: int | None = None,
    length_penalty: float | None = None,
    sampling: Mapping[str, Any] | None = None,
    unknown: bool = False,
) -> DecodingSettings:
    """The recipe's settings with the given options: if only one of `beam` and `n_best` is given,
    the recipe's value of the other is adapted, so that the beam is at least `n_best` wide.

    `unknown` allows unknown words in a translation, even if the recipe does not.
    """
    if n_best is None:
        n_best = recipe.n_best if beam is None else max(1, min(recipe.n_best, beam))
    changed = recipe.model_dump() | {"n_best": n_best}
    changed["rules"]["allow_unknown"] |= unknown
    beams = {"size": beam, "length_penalty": length_penalty}
    beams = {name: value for name, value in beams.items() if value is not None}
    if sampling is not None:
        if beams:
            raise SettingsError("--sample excludes --beam and --length-penalty: drop one of them")
        changed |= {"sampling": dict(sampling), "beam": {}}
    elif beams or recipe.sampling is None:
        if n_best > MAX_BEAM:
            raise SettingsError(f"n_best {n_best}: a beam keeps at most {MAX_BEAM:,}: lower it")
        wide = {"size": max(changed["n_best"], recipe.beam.size)}
        changed |= {"sampling": None, "beam": recipe.beam.model_dump() | wide | beams}
    try:
        return DecodingSettings.model_validate(changed)
    except ValidationError as error:
        mistake = error.errors()[0]
        place, message = ".".join(map(str, mistake["loc"])), expectation(mistake)
        raise SettingsError(f"{place}: {message}" if place else message) from None


def plan_batches(lengths: Sequence[int], budget: int, width: int = 1) -> list[list[int]]:
    """Indices of the sentences of each batch, sorted by length, the longest first.

    A batch of B sentences, padded to the longest, S, and searched with `width` hypotheses each, has
    B S `width` <= `budget`, where S is at least `MIN_COUNTED_LENGTH`; a sentence that is too long
    for that has its own batch. The longest come first, so that running out of memory shows at once.
    """
    if budget < 1 or width < 1:
        raise ValueError(f"budget and width must be positive, got {budget=} and {width=}")
    batches: list[list[int]] = []
    free_rows = 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if free_rows < 1:
            free_rows = budget // (max(MIN_COUNTED_LENGTH, lengths[i]) * width)
            batches.append([])
        batches[-1].append(i)
        free_rows -= 1
    return batches
