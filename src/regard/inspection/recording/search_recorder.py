"""Records the attention of a model during a search, for every hypothesis."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.decoding.tracing.observer import SearchStep
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


@dataclass(frozen=True, eq=False)
class SearchRecording:
    """The attention of one sentence for every hypothesis of a search, on the CPU."""

    tree: SearchTree
    encoder: Tensor | None  # (L, H, S, S); None if the model has none or it was not recorded
    weights_by_node: Mapping[Part, Mapping[int, Tensor]]
    """Decoder (L, H, t) and cross attention (L, H, S) of the step after each expanded node."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The recorded parts."""
        encoder = set() if self.encoder is None else {"encoder"}
        return tuple(part for part in PARTS if part in {*self.weights_by_node, *encoder})

    def step_weights(self, node: int, part: Part = "cross") -> Tensor:
        """The attention of the step that predicted the token of `node`: cross (L, H, S) to the
        source with EOS, or decoder (L, H, t) to its inputs, BOS and the tokens before the node.
        """
        parent = self.tree.nodes[node].parent
        if parent is None or part == "encoder":
            raise ValueError(f"the root and the encoder predict no token, got {node=} and {part=}")
        self._check(part)
        return self.weights_by_node[part][parent]

    def hypothesis_weights(self, node: int, part: Part = "cross") -> Tensor:
        """The attention of the hypothesis that ends in `node`: (L, H, T, S), a row for each token.

        The encoder's attention, (L, H, S, S), is the same for all hypotheses.
        """
        self._check(part)
        if part == "encoder":
            assert self.encoder is not None
            return self.encoder
        steps = [self.step_weights(step, part) for step in self.tree.path(node)]
        if not steps:
            raise ValueError("the root predicts no token: choose a node below it")
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
        """The attention of the hypothesis that ends in `node`, with named rows and columns;
        `source_ids` are the model's source, EOS included.
        """
        weights, columns = self.hypothesis_weights(node, part), build_axis(source_ids, source)
        return build_attention_maps(part, weights, columns, self.tree.tokens(node), target)

    def _check(self, part: Part) -> None:
        if part not in self.parts:
            found = ", ".join(self.parts) or "none"
            raise SettingsError(f"part: no {part} attention was recorded, found {found}")


class SearchRecorder(SearchTreeObserver):
    """An attention hook and a search observer, to be passed to a search as both.

        recorder = SearchRecorder()
        search_many(members, settings, budget=budget, hook=recorder, observe=recorder)
        recorder.recordings[0].hypothesis_weights(node)

    It changes nothing and records only the given parts; of an ensemble, only the first model. To
    record an intervention's weights, put it before the recorder in `compose_hooks`.
    """

    def __init__(self, parts: Collection[Part] = PARTS) -> None:
        super().__init__()
        self.recordings: dict[int, SearchRecording] = {}  # by sentence, after its search
        self._parts = parts
        self._step_weights: dict[tuple[Part, int], Tensor] = {}
        self._lengths: dict[int, int] = {}
        self._encoder: dict[int, Tensor] = {}
        self._by_node: dict[int, dict[Part, dict[int, Tensor]]] = {}

    def __call__(self, site: Site, weights: Tensor, /) -> Tensor:
        if site.part in self._parts and site.member == 0:
            self._step_weights[site.part, site.layer] = weights.detach()
        return weights

    def on_start(self, numbers: Sequence[int], lengths: Sequence[int], /) -> None:
        super().on_start(numbers, lengths)
        self._lengths = dict(zip(numbers, lengths, strict=True))
        self._by_node = {number: {} for number in numbers}
        weights = self._stack_layers("encoder")  # (L, B, H, S, S)
        self._encoder = {
            number: weights[:, row, :, :length, :length].clone()
            for row, (number, length) in enumerate(self._lengths.items())
            if weights is not None
        }
        self._step_weights.clear()  # including those of an earlier search that failed

    def on_step(self, step: SearchStep, /) -> Collection[int]:
        for part in PARTS[1:]:  # the encoder attends once, before the first step
            weights = self._stack_layers(part)  # (L, B, H, K, S)
            if weights is not None:
                for row, number in enumerate(step.numbers):
                    self._keep_step(number, part, weights[:, row])
        self._step_weights.clear()
        return super().on_step(step)

    def on_result(self, number: int, answers: Sequence[Hypothesis], /) -> None:
        super().on_result(number, answers)
        tree, encoder = self.trees.pop(number), self._encoder.pop(number, None)
        self.recordings[number] = SearchRecording(tree, encoder, self._by_node.pop(number))

    def _stack_layers(self, part: Part) -> Tensor | None:
        """The weights of a part in this step (L, B, H, K, S); None if it did not attend."""
        weights = self._step_weights
        layers = sorted(layer for recorded_part, layer in weights if recorded_part == part)
        return torch.stack([weights[part, layer] for layer in layers]).cpu() if layers else None

    def _keep_step(self, number: int, part: Part, weights: Tensor) -> None:
        """Keep a sentence's weights (L, H, K, S), each for the node of its hypothesis row."""
        rows: dict[int, int] = {}  # equal samples share a node
        for row, node in enumerate(self.cells(number, weights.shape[2])):
            if node is not None:
                rows.setdefault(node, row)
        width = self._lengths[number] if part == "cross" else weights.shape[-1]
        copied = weights[:, :, list(rows.values()), :width]  # without padding and unused rows
        by_node = self._by_node[number].setdefault(part, {})
        by_node.update(zip(rows, copied.unbind(2), strict=True))
