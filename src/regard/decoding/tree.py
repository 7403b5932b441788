"""The tree of all hypotheses that a search weighed, as it grows."""

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Literal, NamedTuple

from regard.decoding.grid import Candidates
from regard.decoding.observe import Observe, Step
from regard.nouns import Hypothesis
from regard.text.special import BOS, EOS

Fate = Literal["kept", "dropped", "ended"]
ROOT = 0


class Node(NamedTuple):
    """A hypothesis: what its parent says, and one token more."""

    parent: int | None
    """None: this is the root, which has said BOS alone."""
    token: int
    log_probability: float
    """Of the whole hypothesis up to this token; its parent's taken away, that of the token."""
    state: Fate
    """kept: it went on to the next step. ended: by EOS, as an answer that counts. dropped: it was
    weighed and found too unlikely for either."""


class SearchTree(NamedTuple):
    """Every hypothesis of one sentence that a search weighed, and which of them it answered."""

    nodes: tuple[Node, ...]
    """The root first, parents before their children, and of each step the likeliest first."""
    answers: tuple[int, ...]
    """The nodes in which the n best answers end, the best first."""

    def path(self, node: int) -> tuple[int, ...]:
        """The nodes from the root's child to `node`: one for each token of the hypothesis."""
        steps = []
        while (parent := self.nodes[node].parent) is not None:
            steps.append(node)
            node = parent
        return tuple(reversed(steps))

    def tokens(self, node: int) -> tuple[int, ...]:
        """What the hypothesis says, without BOS; an ended one says EOS last."""
        return tuple(self.nodes[step].token for step in self.path(node))


class Growing(Observe):
    """An observer that keeps the tree of each sentence, by its number.

    Hypotheses with the same tokens are one node: samples that begin alike share their beginning.
    """

    def __init__(self) -> None:
        self.trees: dict[int, SearchTree] = {}
        """Of the sentences that were answered."""
        self._saplings: dict[int, _Sapling] = {}

    def begun(self, numbers: Sequence[int], lengths: Sequence[int], /) -> None:
        self._saplings = {number: _Sapling() for number in numbers}

    def stepped(self, step: Step, /) -> Collection[int]:
        sides = zip(*map(_rows, (step.ways, step.ending, step.going_on)), strict=True)
        for number, (ways, ending, going_on) in zip(step.numbers, sides, strict=True):
            self._saplings[number].grow(ways, ending, going_on)
        return ()

    def answered(self, number: int, answers: Sequence[Hypothesis], /) -> None:
        self.trees[number] = self._saplings.pop(number).tree(answers)

    def cells(self, number: int, width: int) -> list[int | None]:
        """The nodes that stand in the `width` cells of a sentence's grid now; None: it is empty."""
        return self._saplings[number].cells or [ROOT] * width


class _Way(NamedTuple):
    """A way to go on that is possible."""

    cell: int
    """The one it continues, of the grid before."""
    token: int
    log_probability: float


class _Sapling:
    """The tree of one sentence that is still being searched."""

    def __init__(self) -> None:
        self.cells: list[int | None] = []
        """The node in each cell of the grid; empty before the first step, when all are the root."""
        self._nodes = [Node(None, BOS, 0.0, "kept")]
        self._children: dict[tuple[int, int], int] = {}

    def grow(
        self,
        ways: Sequence[_Way | None],
        ending: Sequence[_Way | None],
        going_on: Sequence[_Way | None],
    ) -> None:
        """One step on."""
        fates: dict[_Way | None, Fate] = dict.fromkeys(ending, "ended")
        fates |= dict.fromkeys(going_on, "kept")
        for way in filter(None, ways):
            key = self._key(way)
            if key not in self._children:
                self._children[key] = len(self._nodes)
                fate = fates.get(way, "dropped")
                self._nodes.append(Node(key[0], way.token, way.log_probability, fate))
        self.cells = [None if way is None else self._children[self._key(way)] for way in going_on]

    def tree(self, answers: Iterable[Hypothesis]) -> SearchTree:
        """What has grown, with the nodes in which `answers` end."""
        ends = []
        for answer in answers:
            node = ROOT
            for token in (*answer.tokens, EOS) if answer.finished else answer.tokens:
                node = self._children[node, token]
            ends.append(node)
        return SearchTree(tuple(self._nodes), tuple(ends))

    def _key(self, way: _Way) -> tuple[int, int]:
        parent = self.cells[way.cell] if self.cells else ROOT
        assert parent is not None  # what continues an empty cell is not possible
        return parent, way.token


def _rows(ways: Candidates) -> list[list[_Way | None]]:
    """The ways of each sentence; None where there is none."""
    log_probs, tokens = ways.log_probs.tolist(), ways.tokens.tolist()
    cells = [range(len(row)) for row in tokens] if ways.parents is None else ways.parents.tolist()
    return [
        [
            _Way(cell, token, log_prob) if log_prob > -math.inf else None
            for cell, token, log_prob in zip(*row, strict=True)
        ]
        for row in zip(cells, tokens, log_probs, strict=True)
    ]
