"""What a model attends to while it searches: in each step of each hypothesis that it weighs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.decoding.tracing.observer import SearchObserver, SearchStep
from regard.decoding.tracing.search_tree import SearchTree, SearchTreeObserver
from regard.errors import SettingsError
from regard.inspection.recording.attention_map import (
    PARTS,
    AttentionMaps,
    Part,
    build_attention_maps,
    build_axis,
)
from regard.text.tokenizer import Tokenizer
from regard.types import Hypothesis, Site

STEPWISE_PARTS: tuple[Part, ...] = ("decoder", "cross")
"""The parts that look again in each step; the encoder looks once, before the first."""


@dataclass(frozen=True, eq=False)
class SearchRecording:
    """How one sentence was looked at for every hypothesis of a search; all on the CPU."""

    tree: SearchTree
    encoder: Tensor | None  # (L, H, S, S); None: there is none, or it was not asked for
    looks: Mapping[Part, Mapping[int, Tensor]]
    """Of decoder and cross attention, by node: the look that chose among its children.

    Each (L, H, t) or (L, H, S), for the nodes that went on.
    """

    @property
    def parts(self) -> tuple[Part, ...]:
        """Those that were recorded."""
        return tuple(part for part in PARTS if part in self.looks or self._is_encoder(part))

    def look(self, node: int, part: Part = "cross") -> Tensor:
        """How the model looked when it said the token of `node`: (L, H, S), or (L, H, t).

        The S columns of cross attention are the source, EOS last; the t columns of decoder
        attention what it had been given: BOS, and the tokens on the way to the node's parent. As
        one look weighs all tokens that may follow, children of one parent share it.
        """
        parent = self.tree.nodes[node].parent
        if parent is None or part == "encoder":
            raise ValueError(f"the root and the encoder say no token, got {node=} and {part=}")
        self._check(part)
        return self.looks[part][parent]

    def layers(self, node: int, part: Part = "cross") -> Tensor:
        """All looks of the hypothesis that ends in `node`: (L, H, T, S), a row for each token.

        The encoder's, (L, H, S, S), are the same for all hypotheses.
        """
        self._check(part)
        if part == "encoder":
            assert self.encoder is not None
            return self.encoder
        looks = [self.look(step, part) for step in self.tree.path(node)]
        if not looks:
            raise ValueError("the root says no token: choose a node below it")
        width = looks[-1].shape[-1]  # a step saw nothing of the tokens after it: 0
        rows = [F.pad(look, (0, width - look.shape[-1])) for look in looks]
        return torch.stack(rows, dim=2)

    def attention(
        self,
        node: int,
        source_ids: Sequence[int],
        source: Tokenizer,
        target: Tokenizer,
        part: Part = "cross",
    ) -> AttentionMaps:
        """The looks of the hypothesis that ends in `node`, their rows and columns named.

        `source_ids` are what the model read, EOS included.
        """
        layers, columns = self.layers(node, part), build_axis(source_ids, source)
        return build_attention_maps(part, layers, columns, self.tree.tokens(node), target)

    def _is_encoder(self, part: Part) -> bool:
        return part == "encoder" and self.encoder is not None

    def _check(self, part: Part) -> None:
        if part not in self.parts:
            found = ", ".join(self.parts) or "none"
            raise SettingsError(f"part: no {part} attention was recorded, found {found}")


class SearchRecorder(SearchObserver):
    """A watch and an observer together, to be given to a search as both.

        recorder = SearchRecorder()
        search_many(members, settings, budget=budget, watch=recorder, observe=recorder)
        recorder.recordings[0].layers(node)

    It changes nothing, and keeps only the parts that it is asked for. Of an ensemble it records the
    first model. A watch that does change something comes before it in a `chain`: what is recorded
    is then what was mixed with.
    """

    def __init__(self, parts: Collection[Part] = PARTS) -> None:
        self.recordings: dict[int, SearchRecording] = {}
        """Of each sentence that was answered, by its number."""
        self._parts = parts
        self._growing = SearchTreeObserver()
        self._seen: dict[tuple[Part, int], Tensor] = {}
        self._partial: dict[int, _PartialRecording] = {}

    def __call__(self, site: Site, weights: Tensor, /) -> Tensor:
        if site.part in self._parts and site.member == 0:
            self._seen[site.part, site.layer] = weights.detach()
        return weights

    def on_start(self, numbers: Sequence[int], lengths: Sequence[int], /) -> None:
        self._growing.on_start(numbers, lengths)
        pairs = zip(numbers, lengths, strict=True)
        self._partial = {number: _PartialRecording(length) for number, length in pairs}
        weights = self._collect("encoder")  # (L, B, H, S, S)
        if weights is not None:
            for place, partial in enumerate(self._partial.values()):
                partial.encoder = weights[:, place, :, : partial.length, : partial.length].clone()
        self._seen.clear()  # also what a search that failed has left

    def on_step(self, step: SearchStep, /) -> Collection[int]:
        for part in STEPWISE_PARTS:
            weights = self._collect(part)  # (L, B, H, K, S)
            if weights is None:
                continue
            for place, number in enumerate(step.numbers):
                self._keep_step(number, part, weights[:, place])
        self._seen.clear()
        return self._growing.on_step(step)

    def on_result(self, number: int, answers: Sequence[Hypothesis], /) -> None:
        self._growing.on_result(number, answers)
        partial = self._partial.pop(number)
        tree = self._growing.trees.pop(number)
        self.recordings[number] = SearchRecording(tree, partial.encoder, partial.looks)

    def _collect(self, part: Part) -> Tensor | None:
        """What all layers of a part saw (L, B, H, K, S) since the last step; None: nothing."""
        layers = sorted(layer for recorded_part, layer in self._seen if recorded_part == part)
        if not layers:
            return None
        return torch.stack([self._seen[part, layer] for layer in layers]).cpu()

    def _keep_step(self, number: int, part: Part, weights: Tensor) -> None:
        """Keeps the looks (L, H, K, S) of a sentence, each for the node that stands in its cell."""
        partial, cells = self._partial[number], self._growing.cells(number, weights.shape[2])
        first: dict[int, int] = {}  # of samples that say the same
        for cell, node in enumerate(cells):
            if node is not None:
                first.setdefault(node, cell)
        width = partial.length if part == "cross" else weights.shape[-1]
        own = weights[:, :, list(first.values()), :width]  # a copy without padding and empty cells
        partial.looks.setdefault(part, {}).update(zip(first, own.unbind(2), strict=True))


@dataclass
class _PartialRecording:
    """What was recorded so far of a sentence whose source has `length` positions."""

    length: int
    encoder: Tensor | None = None
    looks: dict[Part, dict[int, Tensor]] = field(default_factory=dict)
