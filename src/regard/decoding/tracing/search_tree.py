"""The tree of all hypotheses that a search considered."""

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Literal, NamedTuple

from regard.decoding.tracing.observer import SearchObserver, SearchStep
from regard.kernels.beam_update import Candidates
from regard.text.special_tokens import BOS, EOS
from regard.types import Hypothesis

NodeState = Literal["kept", "dropped", "ended"]
ROOT = 0


class Node(NamedTuple):
    """A hypothesis: its parent extended by one token."""

    parent: int | None  # None: this is the root, which holds BOS alone
    token: int
    log_probability: float  # of the whole hypothesis up to this token
    state: NodeState  # kept: it continued; ended: it is finished, by EOS; dropped: it was pruned


class SearchTree(NamedTuple):
    """Every hypothesis of one sentence that a search considered, and its results."""

    nodes: tuple[Node, ...]  # parents before children, in each step the most likely first
    answers: tuple[int, ...]  # the nodes in which the n best answers end, the best first

    def path(self, node: int) -> tuple[int, ...]:
        """The nodes from the root's child to `node`: one for each token of the hypothesis."""
        steps = []
        while (parent := self.nodes[node].parent) is not None:
            steps.append(node)
            node = parent
        return tuple(reversed(steps))

    def tokens(self, node: int) -> tuple[int, ...]:
        """The tokens of the hypothesis, without BOS; those of an ended one include EOS."""
        return tuple(self.nodes[step].token for step in self.path(node))


class SearchTreeObserver(SearchObserver):
    """Records the tree of each sentence, by its number; equal hypotheses are one node."""

    def __init__(self) -> None:
        self.trees: dict[int, SearchTree] = {}  # the trees of the sentences that are done
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
        """The node of each of the `width` current hypotheses of a sentence; None: an empty slot."""
        return self._growing_trees[number].cells or [ROOT] * width


class _Candidate(NamedTuple):
    """A possible continuation."""

    cell: int  # index of the hypothesis that it extends
    token: int
    log_probability: float


class _GrowingTree:
    """The tree of a sentence that is being searched."""

    def __init__(self) -> None:
        self.cells: list[int | None] = []  # the node of each hypothesis; empty: all are the root
        self._nodes = [Node(None, BOS, 0.0, "kept")]
        self._children: dict[tuple[int, int], int] = {}

    def add_step(
        self,
        candidates: Sequence[_Candidate | None],
        ending: Sequence[_Candidate | None],
        continuing: Sequence[_Candidate | None],
    ) -> None:
        """Add the candidates of a step."""
        node_states: dict[_Candidate | None, NodeState] = dict.fromkeys(ending, "ended")
        node_states |= dict.fromkeys(continuing, "kept")
        for candidate in filter(None, candidates):
            key = self._key(candidate)
            if key not in self._children:
                self._children[key] = len(self._nodes)
                state = node_states.get(candidate, "dropped")
                self._nodes.append(Node(*key, candidate.log_probability, state))
        self.cells = [
            None if candidate is None else self._children[self._key(candidate)]
            for candidate in continuing
        ]

    def tree(self, answers: Iterable[Hypothesis]) -> SearchTree:
        """The tree, with the nodes in which `answers` end."""
        ends = []
        for answer in answers:
            node = ROOT
            for token in (*answer.tokens, EOS) if answer.finished else answer.tokens:
                node = self._children[node, token]
            ends.append(node)
        return SearchTree(tuple(self._nodes), tuple(ends))

    def _key(self, candidate: _Candidate) -> tuple[int, int]:
        parent = self.cells[candidate.cell] if self.cells else ROOT
        assert parent is not None  # an empty slot has no continuations
        return parent, candidate.token


def _rows(candidates: Candidates) -> list[list[_Candidate | None]]:
    """The candidates of each sentence; None where there is none."""
    log_probs, tokens = candidates.log_probs.tolist(), candidates.tokens.tolist()
    parents = candidates.parents
    cells = [range(len(row)) for row in tokens] if parents is None else parents.tolist()
    return [
        [
            _Candidate(cell, token, log_prob) if log_prob > -math.inf else None
            for cell, token, log_prob in zip(*row, strict=True)
        ]
        for row in zip(cells, tokens, log_probs, strict=True)
    ]
