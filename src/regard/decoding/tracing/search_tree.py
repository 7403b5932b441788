"""The tree of all hypotheses that a search weighed, as it grows."""

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Literal, NamedTuple

from regard.decoding.search.hypotheses import Candidates
from regard.decoding.tracing.observer import SearchObserver, SearchStep
from regard.text.special_tokens import BOS, EOS
from regard.types import Hypothesis

NodeState = Literal["kept", "dropped", "ended"]
ROOT = 0


class Node(NamedTuple):
    """A hypothesis: what its parent says, and one token more."""

    parent: int | None
    """None: this is the root, which has said BOS alone."""
    token: int
    log_probability: float
    """Of the whole hypothesis up to this token; its parent's taken away, that of the token."""
    state: NodeState
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


class SearchTreeObserver(SearchObserver):
    """An observer that keeps the tree of each sentence, by its number.

    Hypotheses with the same tokens are one node: samples that begin alike share their beginning.
    """

    def __init__(self) -> None:
        self.trees: dict[int, SearchTree] = {}
        """Of the sentences that were answered."""
        self._growing_trees: dict[int, _GrowingTree] = {}

    def on_start(self, numbers: Sequence[int], lengths: Sequence[int], /) -> None:
        self._growing_trees = {number: _GrowingTree() for number in numbers}

    def on_step(self, step: SearchStep, /) -> Collection[int]:
        sides = zip(*map(_rows, (step.candidates, step.ending, step.continuing)), strict=True)
        for number, (candidates, ending, continuing) in zip(step.numbers, sides, strict=True):
            self._growing_trees[number].add_step(candidates, ending, continuing)
        return ()

    def on_result(self, number: int, answers: Sequence[Hypothesis], /) -> None:
        self.trees[number] = self._growing_trees.pop(number).tree(answers)

    def cells(self, number: int, width: int) -> list[int | None]:
        """The nodes that stand in the `width` cells of a sentence's grid now; None: it is empty."""
        return self._growing_trees[number].cells or [ROOT] * width


class _Candidate(NamedTuple):
    """A way to go on that is possible."""

    cell: int
    """The one it continues, of the grid before."""
    token: int
    log_probability: float


class _GrowingTree:
    """The tree of one sentence that is still being searched."""

    def __init__(self) -> None:
        self.cells: list[int | None] = []
        """The node in each cell of the grid; empty before the first step, when all are the root."""
        self._nodes = [Node(None, BOS, 0.0, "kept")]
        self._children: dict[tuple[int, int], int] = {}

    def add_step(
        self,
        candidates: Sequence[_Candidate | None],
        ending: Sequence[_Candidate | None],
        continuing: Sequence[_Candidate | None],
    ) -> None:
        """One step on."""
        node_states: dict[_Candidate | None, NodeState] = dict.fromkeys(ending, "ended")
        node_states |= dict.fromkeys(continuing, "kept")
        for candidate in filter(None, candidates):
            key = self._key(candidate)
            if key not in self._children:
                self._children[key] = len(self._nodes)
                node_state = node_states.get(candidate, "dropped")
                self._nodes.append(
                    Node(key[0], candidate.token, candidate.log_probability, node_state)
                )
        self.cells = [
            None if candidate is None else self._children[self._key(candidate)]
            for candidate in continuing
        ]

    def tree(self, answers: Iterable[Hypothesis]) -> SearchTree:
        """What has grown, with the nodes in which `answers` end."""
        ends = []
        for answer in answers:
            node = ROOT
            for token in (*answer.tokens, EOS) if answer.finished else answer.tokens:
                node = self._children[node, token]
            ends.append(node)
        return SearchTree(tuple(self._nodes), tuple(ends))

    def _key(self, candidate: _Candidate) -> tuple[int, int]:
        parent = self.cells[candidate.cell] if self.cells else ROOT
        assert parent is not None  # what continues an empty cell is not possible
        return parent, candidate.token


def _rows(candidates: Candidates) -> list[list[_Candidate | None]]:
    """The ways of each sentence; None where there is none."""
    log_probs, tokens = candidates.log_probs.tolist(), candidates.tokens.tolist()
    cells = (
        [range(len(row)) for row in tokens]
        if candidates.parents is None
        else candidates.parents.tolist()
    )
    return [
        [
            _Candidate(cell, token, log_prob) if log_prob > -math.inf else None
            for cell, token, log_prob in zip(*row, strict=True)
        ]
        for row in zip(cells, tokens, log_probs, strict=True)
    ]
