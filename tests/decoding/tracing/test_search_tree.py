import math

import pytest
import torch

from decoding.tables import Countdown, HistoryTable, Markov, markov
from regard.decoding.batch_search import search
from regard.decoding.constraints.rules import Constraints
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings, SamplingSettings
from regard.decoding.tracing.observer import ObserverGroup, SearchObserver
from regard.decoding.tracing.search_tree import ROOT, Node, SearchTree, SearchTreeObserver
from regard.errors import SearchError
from regard.text.special_tokens import BOS, EOS

WORDS, LIMIT = 3, 4
RULES = RuleSettings(max_length=LIMIT, max_length_offset=LIMIT, excluded="lost")
METHODS = {
    "greedy": DecodingSettings(beam=BeamSettings(size=1), rules=RULES),
    "beam": DecodingSettings(n_best=4, beam=BeamSettings(size=4), rules=RULES),
    "quick beam": DecodingSettings(n_best=2, beam=BeamSettings(size=3, stop="size"), rules=RULES),
    "sampling": DecodingSettings(n_best=6, sampling=SamplingSettings(seed=1), rules=RULES),
}
every_method = pytest.mark.parametrize("method", METHODS)
LENGTHS = torch.tensor([3, 4, 1])


def search_trees(decoder, state, settings, *, lengths=LENGTHS, **asked):
    observer = SearchTreeObserver()
    found = search(decoder, state, lengths, settings, observe=observer, **asked)
    return found, observer.trees


def test_a_tree_by_hand():
    """A beam of two, with four candidates a step."""
    state = markov({BOS: {4: 0.5, 5: 0.3, 6: 0.2}, 4: {EOS: 0.9, 4: 0.1}, 5: {5: 0.6, EOS: 0.4}})
    settings = DecodingSettings(
        n_best=2, beam=BeamSettings(size=2, length_penalty=0.0), rules=RuleSettings(max_length=2)
    )
    _, trees = search_trees(Markov(), state, settings, lengths=LENGTHS[:1], numbers=[17])
    nodes, answers = trees[17]
    said = [(node.parent, node.token, node.state) for node in nodes]
    assert said[:4] == [
        (None, BOS, "kept"),
        (ROOT, 4, "kept"),
        (ROOT, 5, "kept"),
        (ROOT, 6, "dropped"),
    ]
    assert said[5:9] == [(1, EOS, "ended"), (2, 5, "kept"), (2, EOS, "dropped"), (1, 4, "kept")]
    chances = [math.exp(node.log_probability) for node in nodes]
    assert chances[:4] == pytest.approx([1, 0.5, 0.3, 0.2])
    assert chances[5:9] == pytest.approx([0.45, 0.18, 0.12, 0.05])
    assert answers == (5, 6)
    assert trees[17].path(6) == (2, 6)
    assert trees[17].tokens(5) == (4, EOS)
    assert trees[17].tokens(ROOT) == ()


@every_method
def test_answers_lie_in_the_tree(method):
    decoder = HistoryTable(3, WORDS, LIMIT)
    numbers = [5, 1, 9]
    found, trees = search_trees(decoder, decoder.start(), METHODS[method], numbers=numbers)
    assert set(trees) == set(numbers)
    for number, answers in zip(numbers, found, strict=True):
        tree = trees[number]
        assert len(tree.answers) == len(answers)
        for node, answer in zip(tree.answers, answers, strict=True):
            end = (EOS,) if answer.finished else ()
            assert tree.tokens(node) == (*answer.tokens, *end)
            assert tree.nodes[node].log_probability == pytest.approx(answer.log_probability)
            assert tree.nodes[node].state == ("ended" if answer.finished else "kept")


@every_method
def test_each_node_has_the_probability_of_its_tokens(method):
    decoder = HistoryTable(3, WORDS, LIMIT)
    _, trees = search_trees(decoder, decoder.start(), METHODS[method])
    log_probs = decoder.table.log_softmax(-1)
    for sentence, tree in trees.items():
        assert tree.nodes[ROOT] == Node(None, BOS, 0.0, "kept")
        for number, node in enumerate(tree.nodes[1:], 1):
            assert node.parent < number
            assert tree.nodes[node.parent].state == "kept"
            row = decoder.row(tree.tokens(node.parent))
            own = node.log_probability - tree.nodes[node.parent].log_probability
            assert own == pytest.approx(log_probs[sentence, row, node.token].item())


def test_a_beam_keeps_its_size_and_weighs_twice_as_many():
    decoder = HistoryTable(1, WORDS, LIMIT)
    _, trees = search_trees(decoder, decoder.start(), METHODS["beam"], lengths=LENGTHS[:1])
    depths = {}
    for number, node in enumerate(trees[0].nodes):
        depths.setdefault(len(trees[0].path(number)), []).append(node)
    assert [len(depths[depth]) for depth in range(3)] == [1, WORDS + 1, 8]
    for nodes in list(depths.values())[2:]:
        assert sum(node.state == "kept" for node in nodes) == 4
        chances = [node.log_probability for node in nodes]
        assert chances == sorted(chances, reverse=True)
    assert {node.state for node in trees[0].nodes} == {"kept", "dropped", "ended"}


def test_samples_that_say_the_same_are_one():
    decoder = Countdown()
    found, trees = search_trees(decoder, decoder.start([2, 0, 1]), METHODS["sampling"])
    assert len(found[0]) == 6
    assert trees[0] == SearchTree(
        (
            Node(None, BOS, 0.0, "kept"),
            Node(0, 4, 0.0, "kept"),
            Node(1, 4, 0.0, "kept"),
            Node(2, EOS, 0.0, "ended"),
        ),
        (3,) * 6,
    )
    assert [len(tree.nodes) for tree in trees.values()] == [2, 3, 4]  # as they are answered


def test_a_prefix_is_a_trunk():
    decoder = HistoryTable(1, WORDS, LIMIT)
    constraints = Constraints(prefixes=[[6, 4]])
    _, trees = search_trees(
        decoder, decoder.start(), METHODS["beam"], lengths=LENGTHS[:1], constraints=constraints
    )
    assert [(node.parent, node.token, node.state) for node in trees[0].nodes[1:3]] == [
        (0, 6, "kept"),
        (1, 4, "kept"),
    ]
    assert all(node.parent >= 2 for node in trees[0].nodes[3:])


class Impatient(SearchObserver):
    def on_step(self, step, /):
        return step.numbers


def test_a_sentence_that_is_given_up_has_the_tree_so_far():
    decoder, growing = HistoryTable(3, WORDS, LIMIT), SearchTreeObserver()
    both = ObserverGroup(growing, Impatient())
    settings = METHODS["beam"].model_copy(update={"rules": RuleSettings(min_length=2)})
    search(decoder, decoder.start(), LENGTHS, settings, observe=both)
    for tree in growing.trees.values():
        assert len(tree.nodes) == 1 + WORDS
        assert [tree.nodes[node].state for node in tree.answers] == ["kept"] * 3


def test_a_search_that_fails_says_why_and_the_next_begins_anew():
    broken, growing = markov({}), SearchTreeObserver()
    with pytest.raises(SearchError, match="NaN"):
        search(
            Markov(),
            type(broken)(broken.tables * float("nan")),
            LENGTHS[:1],
            METHODS["beam"],
            observe=growing,
        )
    assert growing.trees == {}
    decoder = Countdown()
    search(decoder, decoder.start([1]), LENGTHS[:1], METHODS["greedy"], observe=growing)
    assert growing.trees[0].tokens(growing.trees[0].answers[0]) == (4, EOS)
