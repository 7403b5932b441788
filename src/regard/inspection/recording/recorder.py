"""Records the attention of a model under teacher forcing."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.attention.attend import observe_scores
from regard.batching.collate import pad, pad_source
from regard.errors import SettingsError
from regard.inspection.recording.attention_map import (
    PARTS,
    AttentionMaps,
    Axis,
    Part,
    build_attention_maps,
    build_axis,
)
from regard.models.contracts import AnyGenerator
from regard.text.special_tokens import BOS, EOS
from regard.text.tokenizer import Tokenizer
from regard.types import AttentionHook, Padded, PictureWindows, ScoreInputs, Site


@dataclass(frozen=True, eq=False)
class AttentionRecording:
    """The attention of a batch, on the CPU."""

    source: Padded  # (B, S)
    target: Padded  # (B, T), each row begins with BOS
    weights: Mapping[tuple[Part, int], Tensor]  # by part and layer, each (B, H, T, S)
    scores: Mapping[tuple[Part, int], ScoreInputs] = field(default_factory=dict)
    """Queries and keys by part and layer, where they were requested and exist."""

    def attention(
        self,
        sentence: int,
        source: Tokenizer,
        target: Tokenizer,
        part: Part = "cross",
        *,
        unknown: Sequence[str] = (),
        unknown_source: Sequence[str] = (),
    ) -> AttentionMaps:
        """The attention of one sentence, without padding; `unknown` and `unknown_source` are the
        words that replace unknown ones of the two sides.
        """
        layers = sorted(layer for recorded_part, layer in self.weights if recorded_part == part)
        if not layers:
            parts = ", ".join(sorted({recorded_part for recorded_part, _ in self.weights}))
            raise SettingsError(f"part: no {part} attention was recorded, found {parts or 'none'}")
        weights = torch.stack([self.weights[part, layer][sentence] for layer in layers])
        columns = build_axis(_unpad(self.source, sentence), source, unknown_source)
        output = [*_unpad(self.target, sentence)[1:], EOS]
        maps = build_attention_maps(part, weights, columns, output, target, unknown=unknown)
        return maps.with_scores([self.scores.get((part, layer)) for layer in layers], sentence)


class AttentionRecorder:
    """An attention hook that keeps the weights of a forward pass and changes nothing; with
    `scores`, also queries and keys.

    In a search hypotheses change rows: use `SearchRecorder`.
    """

    def __init__(self, parts: Collection[Part] = PARTS, *, scores: bool = False) -> None:
        self._parts, self._keeps_scores = parts, scores
        self._weights: dict[tuple[Part, int], list[Tensor]] = {}
        self._scores: dict[tuple[Part, int], list[ScoreInputs]] = {}
        self.signed: set[tuple[Part, int]] = set()
        """Parts and layers whose weights are not a distribution: some may be negative."""
        self.windows: dict[tuple[Part, int], PictureWindows] = {}
        """Parts and layers whose rows are the windows of pictures."""

    def __call__(self, site: Site, weights: Tensor, /) -> Tensor:
        if site.part in self._parts:
            copied = weights.detach().to("cpu", copy=True)
            self._weights.setdefault((site.part, site.layer), []).append(copied)
            if not site.normalized:
                self.signed.add((site.part, site.layer))
            if site.windows is not None:
                self.windows[site.part, site.layer] = site.windows
        return weights

    def observe_scores(self, site: Site, inputs: ScoreInputs, /) -> None:
        if self._keeps_scores and site.part in self._parts:
            self._scores.setdefault((site.part, site.layer), []).append(_copy_to_cpu(inputs))

    def weights(self) -> dict[tuple[Part, int], Tensor]:
        """The recorded weights by part and layer: each (B, H, T, S)."""
        return {place: torch.cat(steps, dim=-2) for place, steps in self._weights.items()}

    def scores(self) -> dict[tuple[Part, int], ScoreInputs]:
        """The recorded queries and keys by part and layer; those of a decoder that ran step by
        step only if its keys stayed the same.
        """
        joined = {place: _join_steps(steps) for place, steps in self._scores.items()}
        return {place: inputs for place, inputs in joined.items() if inputs is not None}

    def self_attention(self, part: Part, axis: Axis, *, omitted: int = 0) -> AttentionMaps | None:
        """The attention of the first text of a batch to itself; `axis` has the recorded pieces, and
        `omitted` is the number of pieces before these. None if nothing was recorded.
        """
        recorded, inputs = self.weights(), self.scores()
        places = sorted(place for place in recorded if place[0] == part)
        if not places:
            return None
        weights = torch.stack([recorded[place][0].float() for place in places])
        maps = AttentionMaps(part, weights, axis, axis, omitted=omitted)
        return maps if omitted else maps.with_scores([inputs.get(place) for place in places], 0)


class ComposedHook:
    """A hook that applies `hooks` one after the other."""

    def __init__(self, *hooks: AttentionHook) -> None:
        self._hooks = hooks

    def __call__(self, site: Site, weights: Tensor, /) -> Tensor:
        for hook in self._hooks:
            weights = hook(site, weights)
        return weights

    def observe_scores(self, site: Site, inputs: ScoreInputs, /) -> None:
        for hook in self._hooks:
            observe_scores(hook, site, inputs)


def compose_hooks(*hooks: AttentionHook) -> AttentionHook:
    """A hook that applies `hooks` one after the other."""
    return ComposedHook(*hooks)


@torch.inference_mode()
def record_attention(
    model: AnyGenerator,
    source: Padded,
    target: Padded,
    *,
    parts: Collection[Part] = PARTS,
    hook: AttentionHook | None = None,
    scores: bool = False,
) -> AttentionRecording:
    """The attention of `model` to `source` (B, S), which ends with EOS, given the decoder's input
    `target` (B, T), which begins with BOS; recorded as `hook` returns it. With `scores`, queries
    and keys are recorded too.
    """
    device = next(model.parameters()).device
    recorder = AttentionRecorder(parts, scores=scores)
    hook = recorder if hook is None else compose_hooks(hook, recorder)
    was_training = model.training
    model.eval()
    try:
        memory = model.encode(source.to(device), hook=hook)
        model.decode(target.to(device), memory, hook=hook)
    finally:
        model.train(was_training)
    cpu = torch.device("cpu")
    weights, inputs = recorder.weights(), recorder.scores()
    return AttentionRecording(source.to(cpu), target.to(cpu), weights, inputs)


def count_heads(model: AnyGenerator) -> dict[Part, dict[int, int]]:
    """The number of heads of each layer, by part; parts without attention are left out.

    Models do not list their attention layers, so this runs the model on an empty sentence.
    """
    weights = record_attention(model, pad_source([[]]), pad([[]], first=BOS)).weights
    heads: dict[Part, dict[int, int]] = {}
    for part, layer in sorted(weights, key=lambda site: (PARTS.index(site[0]), site[1])):
        heads.setdefault(part, {})[layer] = weights[part, layer].shape[1]
    return heads


def _copy_to_cpu(inputs: ScoreInputs) -> ScoreInputs:
    def copy(x: Tensor) -> Tensor:
        return x.detach().to("cpu", copy=True)

    mask, bias = (None if x is None else copy(x) for x in (inputs.mask, inputs.bias))
    return ScoreInputs(copy(inputs.queries), copy(inputs.keys), mask, bias, inputs.scale)


def _join_steps(steps: Sequence[ScoreInputs]) -> ScoreInputs | None:
    """The inputs of all steps as one; None if their keys differ."""
    if len(steps) == 1:
        return steps[0]
    last = steps[-1]
    if not all(one.keys.shape == last.keys.shape and one.bias is None for one in steps):
        return None
    queries = torch.cat([one.queries for one in steps], dim=-2)
    masks = [
        one.mask.expand(*one.mask.shape[:-2], one.queries.shape[-2], -1)
        for one in steps
        if one.mask is not None
    ]
    return last._replace(queries=queries, mask=torch.cat(masks, dim=-2) if masks else None)


def _unpad(padded: Padded, sentence: int) -> list[int]:
    ids: list[int] = padded.ids[sentence][padded.mask[sentence]].tolist()
    return ids
