"""Decoders written as tables, and searches written as loops, to compare the real ones with."""

import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from regard.models.contracts import gather_parents
from regard.text.special_tokens import BOS, EOS
from regard.types import Hypothesis, Site

FIRST_WORD = 4


@dataclass(frozen=True)
class TableState:
    """The history of each hypothesis, as a number in base V."""

    sentences: Tensor  # (B,)
    codes: Tensor  # (B, K)

    def select_sentences(self, sentences: Tensor) -> Self:
        return type(self)(self.sentences[sentences], self.codes[sentences])

    def reorder(self, parents: Tensor) -> Self:
        return type(self)(self.sentences, gather_parents(self.codes, parents))


class HistoryTable:
    """A decoder with logits and attention for each sentence and each history of < `depth` words.

    Longer histories share them with others.
    """

    def __init__(self, sentences, words, depth, *, source=5, heads=2, layers=3, seed=0, sharp=1.0):
        noise = torch.Generator().manual_seed(seed)
        self.vocabulary, self.layers = FIRST_WORD + words, layers
        rows = self.vocabulary ** (depth - 1)
        self.table = sharp * torch.randn(
            sentences, rows, self.vocabulary, dtype=torch.float64, generator=noise
        )
        looks = torch.randn(
            layers, sentences, rows, heads, source, dtype=torch.float64, generator=noise
        )
        self.attention = (4 * looks).softmax(-1)
        self.batches: list[int] = []

    def start(self, sentences: list[int] | None = None) -> TableState:
        chosen = torch.arange(len(self.table)) if sentences is None else torch.tensor(sentences)
        return TableState(chosen, torch.zeros(len(chosen), 1, dtype=torch.long))

    def step(self, tokens, state, *, hook=None):
        assert tokens.shape == state.codes.shape
        self.batches.append(len(tokens))
        codes = state.codes * self.vocabulary + tokens
        codes = codes.masked_fill(tokens == BOS, 0) % self.table.shape[1]  # (B, K)
        if hook is not None:
            for layer in range(self.layers):
                weights = self.attention[layer, state.sentences[:, None], codes]  # (B, K, H, S)
                hook(Site("cross", layer), weights.transpose(1, 2))
                hook(Site("decoder", layer), torch.full_like(weights.transpose(1, 2), 9.0))
        return self.table[state.sentences[:, None], codes], TableState(state.sentences, codes)

    def to_static(self, state, steps, step_counter):
        return state  # unchanged: a step changes none of its shapes

    def row(self, said: tuple[int, ...]) -> int:
        code = 0
        for token in said:
            code = code * self.vocabulary + token
        return code

    def every(self, sentence, limit, allowed, excluded="spread"):
        """Each hypothesis and its coverage: a generator of (tokens, log_prob, coverage, ended).

        `allowed(said)` gives the tokens that may follow.
        """
        looks = self.attention.mean((0, 3))[sentence]  # (rows, S)
        log_probs = self.table[sentence].log_softmax(-1)  # (rows, V)

        def grow(said, total, coverage):
            if len(said) == limit:
                yield said, total, coverage, False
                return
            row = self.row(said)
            coverage = coverage + looks[row]
            choices = list(allowed(said))
            rest = log_probs[row, choices].logsumexp(0).item() if excluded == "spread" else 0.0
            for token in choices:
                sum_now = total + log_probs[row, token].item() - rest
                if token == EOS:
                    yield said, sum_now, coverage, True
                else:
                    yield from grow((*said, token), sum_now, coverage)

        yield from grow((), 0.0, torch.zeros(looks.shape[-1], dtype=torch.float64))

    def anything(self, said):
        return range(EOS, self.vocabulary)


POWER, GNMT = ("power", "spread"), ("gnmt", "lost")
"""How scores are computed: as all engines support it, and as in the paper."""


def exhaustive(
    decoder, sentence, limit, n_best, *, allowed=None, alpha=0.0, beta=0.0, length=5, scored=POWER
):
    """The n best of all hypotheses by the formula, finished ones first, as a search answers."""
    found, (normalise, excluded) = [], scored
    every = decoder.every(sentence, limit, allowed or decoder.anything, excluded)
    for said, total, coverage, ended in every:
        size = len(said) + ended
        penalty = (size if normalise == "power" else (5 + size) / 6) ** alpha
        logs = (math.log(min(max(c, 1e-6), 1.0)) for c in coverage[:length].tolist())
        found.append(Hypothesis(said, total / penalty + beta * sum(logs), total, ended))
    return sorted(found, key=lambda h: (not h.finished, -h.score))[:n_best]


def space(words, limit):
    """The number of all hypotheses, finished and unfinished."""
    return sum(words**length for length in range(limit + 1))


def assert_same(got: list[Hypothesis], want: list[Hypothesis]) -> None:
    assert [(h.tokens, h.finished) for h in got] == [(h.tokens, h.finished) for h in want]
    for mine, theirs in zip(got, want, strict=True):
        assert math.isclose(mine.score, theirs.score, rel_tol=1e-9)
        assert math.isclose(mine.log_probability, theirs.log_probability, rel_tol=1e-9)


@dataclass(frozen=True)
class CountdownState:
    count: Tensor  # (B, K)

    def select_sentences(self, sentences: Tensor) -> Self:
        return type(self)(self.count[sentences])

    def reorder(self, parents: Tensor) -> Self:
        return type(self)(gather_parents(self.count, parents))


class Countdown:
    """A decoder that says `word` as often as the count of its sentence, then EOS."""

    def __init__(self, vocabulary=6, word=4):
        self.vocabulary, self.word = vocabulary, word
        self.batches: list[int] = []

    def start(self, counts):
        return CountdownState(torch.tensor(counts)[:, None])

    def step(self, tokens, state, *, hook=None):
        assert tokens.shape == state.count.shape
        self.batches.append(len(tokens))
        says = torch.where(state.count > 0, self.word, EOS)
        logits = torch.full((*tokens.shape, self.vocabulary), float("-inf"))
        return logits.scatter(-1, says[..., None], 0.0), CountdownState(state.count - 1)


@dataclass(frozen=True)
class MarkovState:
    tables: Tensor  # (B, V, V)

    def select_sentences(self, sentences: Tensor) -> Self:
        return type(self)(self.tables[sentences])

    def reorder(self, parents: Tensor) -> Self:
        return self


class Markov:
    """The logits depend on the last token alone; the table of each sentence is its state."""

    def step(self, tokens, state, *, hook=None):
        return gather_parents(state.tables, tokens), state


def markov(*probabilities: dict[int, dict[int, float]], vocabulary=7, dtype=torch.float64):
    """A state for `Markov`: for each sentence, last token -> next token -> probability."""
    tables = torch.full((len(probabilities), vocabulary, vocabulary), 1e-30, dtype=dtype)
    for sentence, table in enumerate(probabilities):
        for last, following in table.items():
            for token, probability in following.items():
                tables[sentence, last, token] = probability
    return MarkovState(tables.log())
