"""Records the attention of a model under teacher forcing."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.batching.collate import pad, pad_source
from regard.errors import SettingsError
from regard.inspection.recording.attention_map import (
    PARTS,
    AttentionMaps,
    Part,
    build_attention_maps,
    build_axis,
)
from regard.models.contracts import AnyGenerator
from regard.text.special_tokens import BOS, EOS
from regard.text.tokenizer import Tokenizer
from regard.types import AttentionHook, Padded, Site


@dataclass(frozen=True, eq=False)
class AttentionRecording:
    """The attention of a batch, on the CPU."""

    source: Padded  # (B, S)
    target: Padded  # (B, T), each row begins with BOS
    weights: Mapping[tuple[Part, int], Tensor]  # by part and layer, each (B, H, T, S)

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
        return build_attention_maps(part, weights, columns, output, target, unknown=unknown)


class AttentionRecorder:
    """An attention hook that keeps the weights of a forward pass and changes nothing.

    In a search hypotheses change rows: use `SearchRecorder`.
    """

    def __init__(self, parts: Collection[Part] = PARTS) -> None:
        self._parts = parts
        self._weights: dict[tuple[Part, int], list[Tensor]] = {}
        self.signed: set[tuple[Part, int]] = set()
        """Parts and layers whose weights are no distribution: some may be negative."""

    def __call__(self, site: Site, weights: Tensor, /) -> Tensor:
        if site.part in self._parts:
            copied = weights.detach().to("cpu", copy=True)
            self._weights.setdefault((site.part, site.layer), []).append(copied)
            if not site.normalized:
                self.signed.add((site.part, site.layer))
        return weights

    def weights(self) -> dict[tuple[Part, int], Tensor]:
        """The recorded weights by part and layer: each (B, H, T, S)."""
        return {place: torch.cat(steps, dim=-2) for place, steps in self._weights.items()}


def compose_hooks(*hooks: AttentionHook) -> AttentionHook:
    """A hook that applies `hooks` one after the other."""

    def composed(site: Site, weights: Tensor, /) -> Tensor:
        for hook in hooks:
            weights = hook(site, weights)
        return weights

    return composed


@torch.inference_mode()
def record_attention(
    model: AnyGenerator,
    source: Padded,
    target: Padded,
    *,
    parts: Collection[Part] = PARTS,
    hook: AttentionHook | None = None,
) -> AttentionRecording:
    """The attention of `model` to `source` (B, S), which ends with EOS, given the decoder's input
    `target` (B, T), which begins with BOS; recorded as `hook` returns it.
    """
    device = next(model.parameters()).device
    recorder = AttentionRecorder(parts)
    hook = recorder if hook is None else compose_hooks(hook, recorder)
    was_training = model.training
    model.eval()
    try:
        memory = model.encode(source.to(device), hook=hook)
        model.decode(target.to(device), memory, hook=hook)
    finally:
        model.train(was_training)
    cpu = torch.device("cpu")
    return AttentionRecording(source.to(cpu), target.to(cpu), recorder.weights())


def count_heads(model: AnyGenerator) -> dict[Part, dict[int, int]]:
    """The number of heads of each layer, by part; parts without attention are left out.

    Models do not list their attention layers, so this runs the model on an empty sentence.
    """
    weights = record_attention(model, pad_source([[]]), pad([[]], first=BOS)).weights
    heads: dict[Part, dict[int, int]] = {}
    for part, layer in sorted(weights, key=lambda site: (PARTS.index(site[0]), site[1])):
        heads.setdefault(part, {})[layer] = weights[part, layer].shape[1]
    return heads


def _unpad(padded: Padded, sentence: int) -> list[int]:
    ids: list[int] = padded.ids[sentence][padded.mask[sentence]].tolist()
    return ids
