"""What a model attends to while it searches: in each step of each hypothesis that it weighs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.decoding.observe import Observe, Step
from regard.decoding.tree import Growing, SearchTree
from regard.errors import SettingsError
from regard.inspection.record import PARTS, Attention, Part, name_attention, name_axis
from regard.nouns import Hypothesis
from regard.text.tokenizer import Tokenizer
from regard.types import Site

STEPWISE: tuple[Part, ...] = ("decoder", "cross")
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
    ) -> Attention:
        """The looks of the hypothesis that ends in `node`, their rows and columns named.

        `source_ids` are what the model read, EOS included.
        """
        layers, columns = self.layers(node, part), name_axis(source_ids, source)
        return name_attention(part, layers, columns, self.tree.tokens(node), target)

    def _is_encoder(self, part: Part) -> bool:
        return part == "encoder" and self.encoder is not None

    def _check(self, part: Part) -> None:
        if part not in self.parts:
            found = ", ".join(self.parts) or "none"
            raise SettingsError(f"part: no {part} attention was recorded, found {found}")


class SearchRecorder(Observe):
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
        self._growing = Growing()
        self._seen: dict[tuple[Part, int], Tensor] = {}
        self._notes: dict[int, _Notes] = {}

    def __call__(self, site: Site, weights: Tensor, /) -> Tensor:
        if site.part in self._parts and site.member == 0:
            self._seen[site.part, site.layer] = weights.detach()
        return weights

    def begun(self, numbers: Sequence[int], lengths: Sequence[int], /) -> None:
        self._growing.begun(numbers, lengths)
        pairs = zip(numbers, lengths, strict=True)
        self._notes = {number: _Notes(length) for number, length in pairs}
        weights = self._collect("encoder")  # (L, B, H, S, S)
        if weights is not None:
            for place, notes in enumerate(self._notes.values()):
                notes.encoder = weights[:, place, :, : notes.length, : notes.length].clone()
        self._seen.clear()  # also what a search that failed has left

    def stepped(self, step: Step, /) -> Collection[int]:
        for part in STEPWISE:
            weights = self._collect(part)  # (L, B, H, K, S)
            if weights is None:
                continue
            for place, number in enumerate(step.numbers):
                self._note(number, part, weights[:, place])
        self._seen.clear()
        return self._growing.stepped(step)

    def answered(self, number: int, answers: Sequence[Hypothesis], /) -> None:
        self._growing.answered(number, answers)
        notes = self._notes.pop(number)
        tree = self._growing.trees.pop(number)
        self.recordings[number] = SearchRecording(tree, notes.encoder, notes.looks)

    def _collect(self, part: Part) -> Tensor | None:
        """What all layers of a part saw (L, B, H, K, S) since the last step; None: nothing."""
        layers = sorted(layer for there, layer in self._seen if there == part)
        if not layers:
            return None
        return torch.stack([self._seen[part, layer] for layer in layers]).cpu()

    def _note(self, number: int, part: Part, weights: Tensor) -> None:
        """Keeps the looks (L, H, K, S) of a sentence, each for the node that stands in its cell."""
        notes, cells = self._notes[number], self._growing.cells(number, weights.shape[2])
        first: dict[int, int] = {}  # of samples that say the same
        for cell, node in enumerate(cells):
            if node is not None:
                first.setdefault(node, cell)
        width = notes.length if part == "cross" else weights.shape[-1]
        own = weights[:, :, list(first.values()), :width]  # a copy without padding and empty cells
        notes.looks.setdefault(part, {}).update(zip(first, own.unbind(2), strict=True))


@dataclass
class _Notes:
    """What was recorded so far of a sentence whose source has `length` positions."""

    length: int
    encoder: Tensor | None = None
    looks: dict[Part, dict[int, Tensor]] = field(default_factory=dict)
