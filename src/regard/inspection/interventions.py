"""What may be done to attention while a model translates: silence it, flatten it, force it.

A change is a watch, so that it acts alike on every model, in a search and while a model is told its
answer. A link between words that a person asks for becomes one once the unchanged translation says
where its words stand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import ConfigDict, Field, StrictInt, StrictStr
from torch import Tensor

from regard.errors import SettingsError
from regard.inspection.recording.attention_map import AttentionMaps, Axis, Part
from regard.types import Site

PUNCTUATION = ".,;:!?…\"'«»“”‘’()[]¿¡。、，！？"
"""What may stand at the edges of a word and need not be typed to name it."""
Index = Annotated[StrictInt, Field(ge=0)]
WordReference = Index | Annotated[StrictStr, Field(min_length=1)]
"""A word of a sentence: its number, from 0, or the word itself where it occurs once."""
PYDANTIC_CONFIG = ConfigDict(extra="forbid", use_attribute_docstrings=True)


@dataclass(frozen=True)
class HeadIntervention:
    """Whom a change is for."""

    __pydantic_config__ = PYDANTIC_CONFIG

    # pydantic reads no docstrings below fields that are inherited
    part: Annotated[Part, Field(description="Where: cross, encoder or decoder attention.")]
    layer: Annotated[Index, Field(description="The layer, from 0.")]
    head: Annotated[
        Index | None, Field(description="The head, from 0; none: all heads of the layer.")
    ] = None

    def matches(self, site: Site) -> bool:
        """Whether the attention there is of that layer."""
        return (site.part, site.layer) == (self.part, self.layer)


@dataclass(frozen=True)
class Silenced(HeadIntervention):
    """A watch that lets a head, or all heads of a layer, see nothing: the weights become 0."""

    kind: Literal["silence"] = field(default="silence", repr=False, kw_only=True)

    def __call__(self, site: Site, weights: Tensor, /) -> Tensor:
        if not self.matches(site):
            return weights
        return _replace_heads(site, weights, self.head, torch.zeros_like(weights))


@dataclass(frozen=True)
class Flattened(HeadIntervention):
    """A watch that lets a head, or all heads of a layer, see all that it may see alike.

    What that is, is told by the weights: whatever any head of the layer gives some weight to.
    """

    kind: Literal["flatten"] = field(default="flatten", repr=False, kw_only=True)

    def __call__(self, site: Site, weights: Tensor, /) -> Tensor:
        if not self.matches(site):
            return weights
        # One head alone might give a place so little that it is rounded to nothing.
        visible = (weights > 0).any(1, keepdim=True).to(weights)  # (B, 1, T, S)
        uniform = visible / visible.sum(-1, keepdim=True).clamp_min(1)
        return _replace_heads(site, weights, self.head, uniform.expand_as(weights))


@dataclass(frozen=True)
class ForcedPositions:
    """A watch that turns cross attention at some target positions wholly to some of the source."""

    steps: tuple[int, ...]
    """Target positions: those that answer the word, the first being 0."""
    columns: tuple[int, ...]
    """Source positions, among which the attention is shared evenly."""
    layer: int | None = None
    """The layer, from 0; none: all."""
    head: int | None = None
    """The head, from 0; none: all."""

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
        target = torch.zeros_like(weights)
        target[..., list(self.columns)] = 1 / len(self.columns)
        target = torch.where(rows[:, None], target, weights)  # (B, H, T, S); in a search T | 1
        return _replace_heads(site, weights, self.head, target)


@dataclass(frozen=True)
class ForcedWords:
    """A wish: a word of the translation is to look at a word of the source alone."""

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

    def with_word_numbers(self, cross: AttentionMaps) -> "ForcedWords":
        """The same wish with its words found in the unchanged translation, and counted."""
        return ForcedWords(*self._word_numbers(cross), self.layer, self.head)

    def to_intervention(self, cross: AttentionMaps) -> ForcedPositions:
        """The change that grants it, by the `cross` attention of the unchanged translation."""
        target, source = self._word_numbers(cross)
        return ForcedPositions(
            _piece_positions(cross.rows, target, of="translation"),
            _piece_positions(cross.columns, source, of="sentence"),
            self.layer,
            self.head,
        )

    def _word_numbers(self, cross: AttentionMaps) -> tuple[int, int]:
        return (
            find_word(cross.rows.words, self.target, of="translation"),
            find_word(cross.columns.words, self.source, of="sentence"),
        )


Intervention = Silenced | Flattened | ForcedPositions
"""What can be done to a model's attention."""
InterventionRequest = Silenced | Flattened | ForcedWords
"""What a person can ask for. It has a form in JSON."""
InterventionRequestJson = Annotated[InterventionRequest, Field(discriminator="kind")]
"""A wish as pydantic reads it from JSON: the kinds are told apart by their names.

It is `{"kind": "silence" | "flatten", "part": "cross", "layer": 0, "head": 1}`, where no head means
all heads of the layer, or `{"kind": "force", "target": 2, "source": 4}`, which takes a layer and a
head as well.
"""


def requests_to_json(requests: Sequence[InterventionRequest]) -> list[dict[str, Any]]:
    """The wishes as JSON has them: what `WishForm` reads."""
    return [asdict(request) for request in requests]


def list_head_ablations(parts: Mapping[Part, Mapping[int, int]]) -> list[Silenced]:
    """A change for each head, and one for all heads of each layer; an only head is its layer.

    `parts` are the heads of each layer of each part, as `count_heads` finds them.
    """
    return [
        Silenced(part, layer, head)
        for part, layers in parts.items()
        for layer, num_heads in layers.items()
        for head in ((*range(num_heads), None) if num_heads > 1 else (0,))
    ]


def resolve_words(
    requests: Sequence[InterventionRequest], cross: AttentionMaps | None
) -> tuple[InterventionRequest, ...]:
    """The wishes with their words counted, by the `cross` attention of the unchanged translation.

    It is None where the model has none.
    """
    return tuple(
        request.with_word_numbers(_require_cross(cross, request))
        if isinstance(request, ForcedWords)
        else request
        for request in requests
    )


def resolve_requests(
    requests: Sequence[InterventionRequest], cross: AttentionMaps | None
) -> list[Intervention]:
    """The changes that do what is wished, by the `cross` attention of the unchanged translation."""
    return [
        request.to_intervention(_require_cross(cross, request))
        if isinstance(request, ForcedWords)
        else request
        for request in requests
    ]


def find_word(words: Sequence[str], asked: WordReference, *, of: str) -> int:
    """The number of the word that is `asked` for among the words of a sentence."""
    listed = ", ".join(f"{number} {word}" for number, word in enumerate(words)) or "no words"
    if isinstance(asked, int):
        if 0 <= asked < len(words):
            return asked
        raise SettingsError(
            f"word {asked} of the {of}: it has {len(words)}, counted from 0: {listed}"
        )
    found = [number for number, word in enumerate(words) if word == asked]
    if not found:
        stripped = _strip_punctuation(asked)
        found = [
            number
            for number, word in enumerate(words)
            if stripped and _strip_punctuation(word) == stripped
        ]
    if not found:
        raise SettingsError(f"word {asked!r}: the {of} has no such word; it has {listed}")
    if len(found) > 1:
        numbers = ", ".join(map(str, found))
        raise SettingsError(
            f"word {asked!r}: the {of} has it {len(found)} times; give its number, one of {numbers}"
        )
    return found[0]


def _require_cross(cross: AttentionMaps | None, request: ForcedWords) -> AttentionMaps:
    if cross is None:
        raise SettingsError(
            f"force {request.target}={request.source}: the model does not attend to the source, "
            "so there "
            "is nothing to force; use one that does"
        )
    return cross


def _strip_punctuation(word: str) -> str:
    return word.strip(PUNCTUATION).casefold()


def _piece_positions(axis: Axis, word: int, *, of: str) -> tuple[int, ...]:
    """Where the pieces of a word stand; a full stop behind it is none of them."""
    places = tuple(place for place, number in enumerate(axis.word_of) if number == word)
    if not places:
        raise SettingsError(
            f"word {axis.words[word]!r} of the {of}: the model has no position for it alone; "
            "take the word before it"
        )
    alphanumeric = tuple(place for place in places if any(map(str.isalnum, axis.pieces[place])))
    return alphanumeric or places


def _replace_heads(site: Site, weights: Tensor, head: int | None, by: Tensor) -> Tensor:
    """`weights` (B, H, T, S) with those of one head, or of all, taken from `by`."""
    if head is None:
        return by
    num_heads = weights.shape[1]
    if not 0 <= head < num_heads:
        raise SettingsError(
            f"head: {site.part} layer {site.layer} has {num_heads}, counted from 0; got {head}"
        )
    heads = torch.arange(num_heads, device=weights.device)  # (H,)
    return torch.where((heads == head)[:, None, None], by, weights)
