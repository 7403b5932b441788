"""Records the attention of a model during a search, for every hypothesis."""

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
"""The parts that attend at each step; the encoder attends once, before the first."""


@dataclass(frozen=True, eq=False)
class SearchRecording:
    """The attention of one sentence for every hypothesis of a search, on the CPU."""

    tree: SearchTree
    encoder: Tensor | None  # (L, H, S, S); None if the model has none or it was not recorded
    weights_by_node: Mapping[Part, Mapping[int, Tensor]]
    """Decoder and cross attention of the step that follows each expanded node.

    Each (L, H, t) or (L, H, S).
    """

    @property
    def parts(self) -> tuple[Part, ...]:
        """The recorded parts."""
        encoder = set() if self.encoder is None else {"encoder"}
        return tuple(part for part in PARTS if part in {*self.weights_by_node, *encoder})

    def step_weights(self, node: int, part: Part = "cross") -> Tensor:
        """The attention of the step that predicted the token of `node`: (L, H, S), or (L, H, t).

        The S columns of cross attention are the source, EOS last; the t columns of decoder
        attention are its inputs: BOS, and the tokens up to the node's parent. Children of one
        parent share a step, and so its attention.
        """
        parent = self.tree.nodes[node].parent
        if parent is None or part == "encoder":
            raise ValueError(f"the root and the encoder say no token, got {node=} and {part=}")
        self._check(part)
        return self.weights_by_node[part][parent]

    def hypothesis_weights(self, node: int, part: Part = "cross") -> Tensor:
        """The attention of the hypothesis that ends in `node`: (L, H, T, S), a row for each token.

        That of the encoder, (L, H, S, S), is the same for all hypotheses.
        """
        self._check(part)
        if part == "encoder":
            assert self.encoder is not None
            return self.encoder
        steps = [self.step_weights(step, part) for step in self.tree.path(node)]
        if not steps:
            raise ValueError("the root says no token: choose a node below it")
        width = steps[-1].shape[-1]  # later inputs are masked: weight 0
        rows = [F.pad(weights, (0, width - weights.shape[-1])) for weights in steps]
        return torch.stack(rows, dim=2)

    def attention(
        self,
        node: int,
        source_ids: Sequence[int],
        source: Tokenizer,
        target: Tokenizer,
        part: Part = "cross",
    ) -> AttentionMaps:
        """The attention of the hypothesis that ends in `node`, with named rows and columns.

        `source_ids` are the model's source, EOS included.
        """
        weights, columns = self.hypothesis_weights(node, part), build_axis(source_ids, source)
        return build_attention_maps(part, weights, columns, self.tree.tokens(node), target)

    def _check(self, part: Part) -> None:
        if part not in self.parts:
            found = ", ".join(self.parts) or "none"
            raise SettingsError(f"part: no {part} attention was recorded, found {found}")


class SearchRecorder(SearchObserver):
    """An attention hook and a search observer, to be passed to a search as both.

        recorder = SearchRecorder()
        search_many(members, settings, budget=budget, hook=recorder, observe=recorder)
        recorder.recordings[0].hypothesis_weights(node)

    It changes nothing and keeps only the parts asked for. Of an ensemble it records the first
    model. To record an intervention's weights, put it before the recorder in `compose_hooks`.
    """

    def __init__(self, parts: Collection[Part] = PARTS) -> None:
        self.recordings: dict[int, SearchRecording] = {}
        """By the number of the sentence, once its search has ended."""
        self._parts = parts
        self._trees = SearchTreeObserver()
        self._step_weights: dict[tuple[Part, int], Tensor] = {}
        self._partial: dict[int, _PartialRecording] = {}

    def __call__(self, site: Site, weights: Tensor, /) -> Tensor:
        if site.part in self._parts and site.member == 0:
            self._step_weights[site.part, site.layer] = weights.detach()
        return weights

    def on_start(self, numbers: Sequence[int], lengths: Sequence[int], /) -> None:
        self._trees.on_start(numbers, lengths)
        pairs = zip(numbers, lengths, strict=True)
        self._partial = {number: _PartialRecording(length) for number, length in pairs}
        weights = self._stack_layers("encoder")  # (L, B, H, S, S)
        if weights is not None:
            for row, partial in enumerate(self._partial.values()):
                partial.encoder = weights[:, row, :, : partial.length, : partial.length].clone()
        self._step_weights.clear()  # also those of an earlier search that failed

    def on_step(self, step: SearchStep, /) -> Collection[int]:
        for part in STEPWISE_PARTS:
            weights = self._stack_layers(part)  # (L, B, H, K, S)
            if weights is not None:
                for row, number in enumerate(step.numbers):
                    self._keep_step(number, part, weights[:, row])
        self._step_weights.clear()
        return self._trees.on_step(step)

    def on_result(self, number: int, answers: Sequence[Hypothesis], /) -> None:
        self._trees.on_result(number, answers)
        partial, tree = self._partial.pop(number), self._trees.trees.pop(number)
        self.recordings[number] = SearchRecording(tree, partial.encoder, partial.weights_by_node)

    def _stack_layers(self, part: Part) -> Tensor | None:
        """The weights of a part in this step (L, B, H, K, S); None if it did not attend."""
        weights = self._step_weights
        layers = sorted(layer for recorded_part, layer in weights if recorded_part == part)
        return torch.stack([weights[part, layer] for layer in layers]).cpu() if layers else None

    def _keep_step(self, number: int, part: Part, weights: Tensor) -> None:
        """Keep a sentence's weights (L, H, K, S), each for the node of its hypothesis row."""
        partial, nodes = self._partial[number], self._trees.cells(number, weights.shape[2])
        rows: dict[int, int] = {}  # equal samples share a node
        for row, node in enumerate(nodes):
            if node is not None:
                rows.setdefault(node, row)
        width = partial.length if part == "cross" else weights.shape[-1]
        copied = weights[:, :, list(rows.values()), :width]  # without padding and unused rows
        by_node = partial.weights_by_node.setdefault(part, {})
        by_node.update(zip(rows, copied.unbind(2), strict=True))


@dataclass
class _PartialRecording:
    """The recording so far of a sentence whose source has `length` positions."""

    length: int
    encoder: Tensor | None = None
    weights_by_node: dict[Part, dict[int, Tensor]] = field(default_factory=dict)
