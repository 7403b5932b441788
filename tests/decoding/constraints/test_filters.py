from dataclasses import replace

import pytest
import torch

from regard.decoding.constraints.filters import (
    forbid_phrases,
    forbid_tokens,
    min_length,
    no_repeated_ngrams,
)
from regard.decoding.search.hypotheses import Hypotheses
from regard.text.special_tokens import BOS, EOS

B, K, V = 2, 3, 9
CPU = torch.device("cpu")


def grid_of(*sentences):
    """A grid whose cells have said what `sentences` (B, K, t) say."""
    tokens = torch.tensor([[[BOS, *generated] for generated in row] for row in sentences])
    return replace(Hypotheses.start(*tokens.shape[:2], CPU), tokens=tokens)


def forbidden(narrow, hypotheses):
    """The set of tokens that `narrow` forbids in each cell."""
    log_probs = narrow(torch.zeros(*hypotheses.tokens.shape[:2], V), hypotheses)
    assert log_probs.max() == 0
    return [
        [{token for token in range(V) if cell[token] == float("-inf")} for cell in row]
        for row in log_probs.tolist()
    ]


def test_forbid_tokens():
    got = forbidden(forbid_tokens([0, 2], CPU), grid_of([[4], [5], [6]], [[4], [4], [4]]))
    assert got == [[{0, 2}] * K] * B


def test_min_length_forbids_eos_until_it_is_reached():
    narrow = min_length(2)
    assert forbidden(narrow, grid_of([[]])) == [[{EOS}]]
    assert forbidden(narrow, grid_of([[4]])) == [[{EOS}]]
    assert forbidden(narrow, grid_of([[4, 5]])) == [[set()]]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("t", [0, 1, 2, 3, 8])
def test_no_repeated_ngrams_is_what_a_loop_finds(n, t):
    torch.manual_seed(10 * n + t)
    hypotheses = grid_of(*torch.randint(4, 6, (B, K, t)).tolist())

    def repeats(generated, token):
        grams = [tuple(generated[i : i + n]) for i in range(len(generated) - n + 1)]
        return tuple([*generated, token][-n:]) in grams

    want = [
        [{token for token in range(V) if repeats(generated[1:], token)} for generated in row]
        for row in hypotheses.tokens.tolist()
    ]
    got = forbidden(no_repeated_ngrams(n), hypotheses)
    assert [[cell - {0} for cell in row] for row in got] == want


def test_forbid_phrases_of_all_lengths():
    narrow = forbid_phrases([[8], [4, 5], [6, 5], [4, 4, 7]], CPU)
    got = forbidden(narrow, grid_of([[4, 4], [5, 6], [7, 8]], [[4, 5], [8, 4], [6, 4]]))
    assert [[cell - {0} for cell in row] for row in got] == [
        [{8, 5, 7}, {8, 5}, {8}],
        [{8}, {8, 5}, {8, 5}],
    ]


def test_a_phrase_cannot_have_begun_before_the_first_word():
    narrow = forbid_phrases([[4, 5, 6], [8]], CPU)
    assert forbidden(narrow, grid_of([[]])) == [[{8}]]
    assert forbidden(narrow, grid_of([[5]])) == [[{8}]]
