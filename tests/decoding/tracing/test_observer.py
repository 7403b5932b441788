import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from decoding.tables import Countdown, HistoryTable, Markov, markov
from regard.decoding.batch_search import search
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings, SamplingSettings
from regard.decoding.tracing.observer import ObserverGroup, SearchObserver, best_so_far
from regard.text.special_tokens import BOS, EOS

RULES = RuleSettings(max_length=6, max_length_offset=6)
METHODS = {
    "greedy": DecodingSettings(beam=BeamSettings(size=1), rules=RULES),
    "beam": DecodingSettings(n_best=3, beam=BeamSettings(size=4), rules=RULES),
    "covering beam": DecodingSettings(beam=BeamSettings(size=3, coverage_penalty=0.2), rules=RULES),
    "sampling": DecodingSettings(n_best=3, sampling=SamplingSettings(seed=1), rules=RULES),
}
every_method = pytest.mark.parametrize("method", METHODS)
LENGTHS = torch.tensor([3, 4, 1, 5])


class RecordingObserver(SearchObserver):
    """Records all calls, and abandons the given sentences."""

    def __init__(self, abandon=()):
        self.batches, self.steps, self.answers = [], [], {}
        self._abandon = abandon

    def on_start(self, numbers, lengths, /):
        self.batches.append((list(numbers), list(lengths)))

    def on_step(self, step, /):
        self.steps.append(step)
        return self._abandon

    def on_result(self, number, answers, /):
        assert number not in self.answers
        self.answers[number] = answers


@every_method
def test_observing_changes_no_answer_and_reports_them_all(method):
    decoder, numbers = HistoryTable(4, 3, 4), [9, 7, 30, 8]
    recorded = RecordingObserver()

    def found(observe):
        settings = METHODS[method]
        state = decoder.start()
        return search(decoder, state, LENGTHS, settings, numbers=numbers, observe=observe)

    answers = found(recorded)
    assert answers == found(None)
    assert answers == found(ObserverGroup())
    assert recorded.batches == [(numbers, [3, 4, 1, 5])]
    assert [recorded.answers[number] for number in numbers] == answers


def test_done_sentences_are_in_no_further_step():
    decoder, recorded = Countdown(), RecordingObserver()
    settings = DecodingSettings(beam=BeamSettings(size=1))
    search(decoder, decoder.start([2, 0, 3, 0]), LENGTHS, settings, observe=recorded)
    assert [step.numbers for step in recorded.steps] == [[0, 1, 2, 3], [0, 2], [0, 2], [2]]
    assert [step.hypotheses.length for step in recorded.steps] == [1, 2, 3, 4]
    assert list(recorded.answers) == [1, 3, 0, 2]  # in the order in which they are done


@every_method
def test_a_step_is_complete(method):
    """Candidates end, continue or are dropped; those that continue are the new hypotheses."""
    decoder, recorded = HistoryTable(4, 3, 4), RecordingObserver()
    search(decoder, decoder.start(), LENGTHS, METHODS[method], observe=recorded)
    for step in recorded.steps:
        assert torch.equal(step.hypotheses.log_probs, step.continuing.log_probs)
        assert torch.equal(step.hypotheses.tokens[..., -1], step.continuing.tokens)
        assert (step.ending.tokens[step.ending.log_probs > float("-inf")] == EOS).all()
        assert (step.continuing.tokens[step.continuing.log_probs > float("-inf")] != EOS).all()
        assert step.scores.shape == step.hypotheses.log_probs.shape
        assert len(step.candidates.tokens) == len(step.numbers) == len(step.finished.scores)
        assert step.candidates.tokens.shape[1] >= step.continuing.tokens.shape[1]


@every_method
def test_a_sentence_can_be_abandoned(method):
    decoder, settings = HistoryTable(4, 3, 4), METHODS[method]
    settings = settings.model_copy(update={"rules": RuleSettings(max_length=9, min_length=5)})
    whole = search(decoder, decoder.start(), LENGTHS, settings)
    recorded = RecordingObserver(abandon={11})
    numbers = [10, 11, 12, 13]
    if settings.sampling is not None:
        whole = search(decoder, decoder.start(), LENGTHS, settings, numbers=numbers)
    found = search(decoder, decoder.start(), LENGTHS, settings, numbers=numbers, observe=recorded)
    first, *others = [11 in step.numbers for step in recorded.steps]
    assert first
    assert not any(others)
    assert {(len(h.tokens), h.finished) for h in found[1]} == {(1, False)}
    assert [found[row] for row in (0, 2, 3)] == [whole[row] for row in (0, 2, 3)]
    assert recorded.answers[11] == found[1]


def test_observers_of_a_group_see_the_same_and_each_may_abandon_sentences():
    decoder, settings = Countdown(), METHODS["greedy"]
    observers = RecordingObserver(abandon=[1]), RecordingObserver(abandon=[2, 3])
    found = search(
        decoder, decoder.start([5, 5, 5, 5]), LENGTHS, settings, observe=ObserverGroup(*observers)
    )
    assert [len(h.tokens) for (h,) in found] == [5, 1, 1, 1]
    one, other = observers
    assert one.batches == other.batches
    assert one.answers == other.answers
    assert len(one.steps) == len(other.steps) == 6


class Following(SearchObserver):
    """Keeps the best hypothesis of each sentence after each step."""

    def __init__(self):
        self.told = {}

    def on_step(self, step, /):
        for number, tokens in zip(step.numbers, best_so_far(step), strict=True):
            self.told.setdefault(number, []).append(tokens)
        return ()


def follow(state, **beam):
    """What a beam of two holds best for one sentence, step by step."""
    settings = DecodingSettings(beam=BeamSettings(size=2, length_penalty=0.0, stop="safe", **beam))
    following = Following()
    search(Markov(), state, LENGTHS[:1], settings, observe=following)
    return following.told[0]


def test_the_best_so_far_ends_in_the_best_answer():
    decoder, following = HistoryTable(4, 3, 4), Following()
    beam = BeamSettings(size=4, normalise="gnmt", stop="safe")  # under which all end in time
    settings = METHODS["beam"].model_copy(update={"beam": beam})
    found = search(decoder, decoder.start(), LENGTHS, settings, observe=following)
    for number, answers in enumerate(found):
        told = following.told[number]
        assert told[-1] == answers[0].tokens
        assert len(told) > 1
        assert all(EOS not in tokens and BOS not in tokens for tokens in told)


def test_the_best_so_far_may_take_back_what_it_said():
    """4 seems best until what may follow it turns out unlikely."""
    table = {BOS: {4: 0.6, 5: 0.4}, 4: {4: 0.3, 5: 0.3, 6: 0.3}, 5: {6: 0.9}, 6: {EOS: 0.9}}
    assert follow(markov(table)) == [(4,), (5, 6), (5, 6)]


def test_an_early_end_is_not_the_best_while_something_likelier_grows():
    table = {BOS: {EOS: 0.1, 4: 0.9}, 4: {EOS: 0.3, 5: 0.6}, 5: {EOS: 0.9}}
    assert follow(markov(table)) == [(4,), (4, 5), (4, 5)]


class Operators(TorchDispatchMode):
    """Counts the operators that are run."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **(kwargs or {}))


@every_method
def test_without_an_observer_nothing_is_computed_for_one(method):
    decoder, recorded = HistoryTable(4, 3, 4), RecordingObserver()
    counts = []
    for observe in (None, recorded):
        with Operators() as operators:
            search(decoder, decoder.start(), LENGTHS, METHODS[method], observe=observe)
        counts.append(operators.count)
    assert counts[1] - counts[0] >= len(recorded.steps)  # the scores of each step
