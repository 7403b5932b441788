"""Interventions on attention while a model translates: silence, flatten or force its weights.

They are attention hooks, for every model, in a search and under teacher forcing. A request
to force a word needs token positions; these come from first translating without changes.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import BeforeValidator, ConfigDict, Field, StrictInt, StrictStr
from torch import Tensor

from regard.errors import SettingsError
from regard.inspection.recording.attention_map import AttentionMaps, Axis, Part
from regard.types import Site

PUNCTUATION = ".,;:!?…\"'«»“”‘’()[]¿¡。、，！？"  # at a word's edges: optional in references


def whole_number(value: Any) -> Any:
    """The integer that a number such as 2.0 is by a JSON schema; other values unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_Whole = BeforeValidator(whole_number)
_Count = Annotated[StrictInt, Field(ge=0)]
Index = Annotated[_Count, _Whole]
WordReference = Annotated[_Count | Annotated[StrictStr, Field(min_length=1)], _Whole]
"""A word of a sentence: its index, from 0, or the word itself if it occurs only once."""
PYDANTIC_CONFIG = ConfigDict(extra="forbid", use_attribute_docstrings=True)


@dataclass(frozen=True)
class HeadIntervention(ABC):
    """An intervention on one head, or on all heads of a layer."""

    __pydantic_config__ = PYDANTIC_CONFIG

    # pydantic does not read the docstrings of inherited fields
    part: Annotated[Part, Field(description="Where: cross, encoder or decoder attention.")]
    layer: Annotated[Index, Field(description="The layer, from 0.")]
    head: Annotated[
        Index | None, Field(description="The head, from 0; none: all heads of the layer.")
    ] = None

    @property
    def place(self) -> str:
        """The head or layer in the form that messages use."""
        return f"{self.part}.{self.layer}" + ("" if self.head is None else f".{self.head}")

    def __call__(self, site: Site, weights: Tensor, /) -> Tensor:
        if (site.part, site.layer) != (self.part, self.layer):
            return weights
        return _replace_heads(weights, self.head, self.replacement(weights))

    @abstractmethod
    def replacement(self, weights: Tensor) -> Tensor:
        """The changed weights (B, H, T, S) of all heads."""


@dataclass(frozen=True)
class Silenced(HeadIntervention):
    """A hook that sets the weights of a head, or of all heads of a layer, to 0."""

    kind: Literal["silence"] = field(default="silence", repr=False, kw_only=True)

    def replacement(self, weights: Tensor) -> Tensor:
        return torch.zeros_like(weights)


@dataclass(frozen=True)
class Flattened(HeadIntervention):
    """A hook that makes the weights of a head, or of all heads of a layer, uniform.

    They are uniform over the positions to which any head of the layer gives a weight above 0.
    """

    kind: Literal["flatten"] = field(default="flatten", repr=False, kw_only=True)

    def replacement(self, weights: Tensor) -> Tensor:
        # The mask is not known here, and one head's weight may be rounded to 0.
        visible = (weights != 0).any(1, keepdim=True).to(weights)  # (B, 1, T, S)
        return (visible / visible.sum(-1, keepdim=True).clamp_min(1)).expand_as(weights)


HeadChange = Silenced | Flattened
HeadCounts = Mapping[Part, Mapping[int, int]]
"""The number of heads of each layer of each part, as `count_heads` returns it."""


@dataclass(frozen=True)
class ForcedPositions:
    """A hook that moves all cross attention of some target positions to some source positions."""

    steps: tuple[int, ...]  # target positions, from 0
    columns: tuple[int, ...]  # source positions, from 0; each gets the same weight
    layer: int | None = None  # from 0; None: all
    head: int | None = None  # from 0; None: all

    part: ClassVar[Part] = "cross"

    def __post_init__(self) -> None:
        if not self.steps or not self.columns or min(*self.steps, *self.columns) < 0:
            raise ValueError(
                "steps and columns must name positions, counted from 0; got "
                f"{self.steps} and {self.columns}"
            )

    def __call__(self, site: Site, weights: Tensor, /) -> Tensor:
        if site.part != "cross" or self.layer not in (None, site.layer):
            return weights
        steps = range(weights.shape[-2]) if site.step is None else [site.step]
        rows = torch.tensor([step in self.steps for step in steps], device=weights.device)  # (T,)
        forced = torch.zeros_like(weights)
        forced[..., list(self.columns)] = 1 / len(self.columns)
        forced = torch.where(rows[:, None], forced, weights)  # (B, H, T, S); in a search T = 1
        return _replace_heads(weights, self.head, forced)


@dataclass(frozen=True)
class ForcedWords:
    """A request that a word of the translation attends only to one word of the source."""

    __pydantic_config__ = PYDANTIC_CONFIG

    target: WordReference
    """The word of the unchanged translation."""
    source: WordReference
    """The word of the sentence."""
    layer: Index | None = None
    """The layer, from 0; none: all."""
    head: Index | None = None
    """The head, from 0; none: all."""
    kind: Literal["force"] = field(default="force", repr=False, kw_only=True)


Intervention = Silenced | Flattened | ForcedPositions
InterventionRequest = Silenced | Flattened | ForcedWords  # an intervention with a JSON form
InterventionRequestJson = Annotated[InterventionRequest, Field(discriminator="kind")]
"""A request as pydantic reads it from JSON, by its kind: `{"kind": "silence" | "flatten", "part":
"cross", "layer": 0, "head": 1}` or `{"kind": "force", "target": 2, "source": 4}`."""


def resolve_requests(
    requests: Sequence[InterventionRequest], cross: AttentionMaps | None
) -> tuple[list[InterventionRequest], list[Intervention]]:
    """The requests with words as indices, and their interventions.

    Words are looked up in `cross`, the cross attention of the unchanged translation, if any.
    """
    resolved: list[InterventionRequest] = []
    interventions: list[Intervention] = []
    for request in requests:
        if not isinstance(request, ForcedWords):
            resolved.append(request)
            interventions.append(request)
            continue
        if cross is None:
            raise SettingsError(
                f"force {request.target}={request.source}: the model does not attend to the "
                "source, so there is nothing to force; use one that does"
            )
        target = find_word(cross.rows.words, request.target, of="translation")
        source = find_word(cross.columns.words, request.source, of="sentence")
        steps = _piece_positions(cross.rows, target, of="translation")
        columns = _piece_positions(cross.columns, source, of="sentence")
        resolved.append(ForcedWords(target, source, request.layer, request.head))
        interventions.append(ForcedPositions(steps, columns, request.layer, request.head))
    return resolved, interventions


def require_heads(changes: Sequence[HeadChange], heads: HeadCounts) -> None:
    """Raise an error if an intervention, which would have no effect, names no head of a model that
    has only one part.
    """
    [(part, layers)] = heads.items()
    for change in changes:
        if change.part != part or layers.get(change.layer, 0) <= (change.head or 0):
            raise SettingsError(
                f"{change.place}: there is no such head; this model has only {part} attention, "
                f"layers 0 to {len(layers) - 1} of heads 0 to {max(layers.values()) - 1}"
            )


def list_head_ablations(heads: HeadCounts) -> list[Silenced]:
    """Each head of each layer, then the whole layer; a layer with one head counts once."""
    return [
        Silenced(part, layer, head)
        for part, layers in heads.items()
        for layer, num_heads in layers.items()
        for head in ((*range(num_heads), None) if num_heads > 1 else (0,))
    ]


def find_word(words: Sequence[str], asked: WordReference, *, of: str) -> int:
    """The index of the word `asked` in a sentence; `of` names the sentence in errors."""
    listed = ", ".join(f"{number} {word}" for number, word in enumerate(words)) or "no words"
    if isinstance(asked, int):
        if 0 <= asked < len(words):
            return asked
        raise SettingsError(
            f"word {asked} of the {of}: it has {len(words)}, counted from 0: {listed}"
        )
    matches = [number for number, word in enumerate(words) if word == asked]
    if not matches and (stripped := _strip_punctuation(asked)):
        matches = [n for n, word in enumerate(words) if _strip_punctuation(word) == stripped]
    if not matches:
        raise SettingsError(f"word {asked!r}: the {of} has no such word; it has {listed}")
    if len(matches) > 1:
        raise SettingsError(
            f"word {asked!r}: the {of} has it {len(matches)} times; give its number, one of "
            f"{', '.join(map(str, matches))}"
        )
    return matches[0]


def _strip_punctuation(word: str) -> str:
    return word.strip(PUNCTUATION).casefold()


def _piece_positions(axis: Axis, word: int, *, of: str) -> tuple[int, ...]:
    """The positions of a word's pieces, without punctuation unless the word has nothing else."""
    places = tuple(place for place, number in enumerate(axis.word_of) if number == word)
    if not places:
        raise SettingsError(
            f"word {axis.words[word]!r} of the {of}: the model has no position of its own for it; "
            "take the word before it"
        )
    alphanumeric = tuple(place for place in places if any(map(str.isalnum, axis.pieces[place])))
    return alphanumeric or places


def _replace_heads(weights: Tensor, head: int | None, replacement: Tensor) -> Tensor:
    """`weights` (B, H, T, S) with one head, or all, taken from `replacement`."""
    if head is None:
        return replacement
    changed = weights.clone()
    changed[:, head] = replacement[:, head]
    return changed
