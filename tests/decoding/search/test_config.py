import pytest
import torch
from pydantic import ValidationError

from decoding.tables import Countdown, HistoryTable, Markov, markov
from regard.decoding.constraints.rules import Constraints
from regard.decoding.search.config import search
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings, SamplingSettings
from regard.errors import SearchError
from regard.text.special_tokens import BOS, EOS

S = 5
LENGTHS = torch.tensor([3, 4])
METHODS = {
    "greedy": DecodingSettings(beam=BeamSettings(size=1)),
    "beam": DecodingSettings(n_best=3, beam=BeamSettings(size=4)),
    "sampling": DecodingSettings(n_best=3, sampling=SamplingSettings(seed=1)),
}


def limited(method, **rules):
    return METHODS[method].model_copy(update={"rules": RuleSettings(**rules)})


@pytest.fixture(params=sorted(METHODS))
def method(request):
    return request.param


def test_no_sentences_no_answers(method):
    decoder = Countdown()
    nothing = torch.zeros(0, dtype=torch.long)
    assert search(decoder, decoder.start([]), nothing, METHODS[method]) == []
    assert decoder.batches == []


def test_one_list_for_each_sentence_in_order(method):
    decoder = Countdown()
    counts = [7, 0, 3, 3, 12, 1]
    found = search(decoder, decoder.start(counts), torch.full((6,), 4), METHODS[method])
    assert [{h.tokens for h in answers} for answers in found] == [{(4,) * n} for n in counts]
    assert all(h.finished for answers in found for h in answers)


def test_room_for_one_token(method):
    decoder = Countdown()
    found = search(decoder, decoder.start([0, 5]), LENGTHS, limited(method, max_length=1))
    assert {(h.tokens, h.finished) for h in found[0]} == {((), True)}
    assert {(h.tokens, h.finished) for h in found[1]} == {((4,), False)}
    assert decoder.batches == [2]


def test_answers_begin_with_their_prefixes(method):
    decoder = HistoryTable(2, 3, 4)
    settings = limited(method, max_length=6, min_length=3)
    found = search(
        decoder, decoder.start(), LENGTHS, settings, constraints=Constraints(prefixes=[[], [6, 4]])
    )
    assert all(h.tokens[:2] == (6, 4) for h in found[1])
    assert all(len(h.tokens) >= 3 for answers in found for h in answers)


def test_prefix_is_cut_at_the_limit(method):
    decoder = HistoryTable(2, 3, 3)
    settings = limited(method, max_length=3)
    found = search(
        decoder,
        decoder.start(),
        LENGTHS,
        settings,
        constraints=Constraints(prefixes=[[6, 4, 5, 5], []]),
    )
    assert {(h.tokens, h.finished) for h in found[0]} == {((6, 4, 5), False)}


def test_forbidden_phrases_are_not_said(method):
    decoder = HistoryTable(2, 3, 4)
    settings = limited(method, max_length=6, min_length=4)
    found = search(
        decoder,
        decoder.start(),
        LENGTHS,
        settings,
        constraints=Constraints(forbidden=[[4], [5, 5]]),
    )
    for answers in found:
        for h in answers:
            assert set(h.tokens) <= {5, 6}
            assert (5, 5) not in zip(h.tokens, h.tokens[1:], strict=False)


def test_log_probability_is_that_of_the_model(method):
    decoder = HistoryTable(2, 3, 4)
    settings = limited(method, max_length=4, min_length=1, excluded="lost")
    for sentence, answers in enumerate(search(decoder, decoder.start(), LENGTHS, settings)):
        log_probs = decoder.table[sentence].log_softmax(-1)
        for h in answers:
            said = (*h.tokens, EOS) if h.finished else h.tokens
            rows = [decoder.row(h.tokens[:place]) for place in range(len(said))]
            want = sum(log_probs[row, token].item() for row, token in zip(rows, said, strict=True))
            assert h.log_probability == pytest.approx(want, abs=1e-9)
        assert [h.score for h in answers] == sorted((h.score for h in answers), reverse=True)


def test_answers_are_fewer_only_where_there_are_no_more():
    decoder = HistoryTable(1, 1, 2)
    settings = DecodingSettings(
        n_best=8, beam=BeamSettings(size=8), rules=RuleSettings(max_length=2)
    )
    (found,) = search(decoder, decoder.start(), LENGTHS[:1], settings)
    assert {(h.tokens, h.finished) for h in found} == {
        ((), True),
        ((4,), True),
        ((4, 4), False),
    }
    assert [h.finished for h in found] == [True, True, False]


def test_not_a_number_is_reported(method):
    state = markov({BOS: {4: float("nan")}})
    with pytest.raises(SearchError, match="not a number"):
        search(Markov(), state, LENGTHS[:1], METHODS[method])


def test_coverage_penalty_without_attention_is_an_error():
    settings = DecodingSettings(beam=BeamSettings(coverage_penalty=0.2))
    decoder = Countdown()
    with pytest.raises(SearchError, match="needs attention to the source"):
        search(decoder, decoder.start([1]), LENGTHS[:1], settings)


def test_no_graph_is_built(method):
    state = markov({BOS: {4: 0.5, EOS: 0.5}, 4: {EOS: 1.0}})
    state.tables.requires_grad_()
    modes = []

    class Noting(Markov):
        def step(self, tokens, state, *, hook=None):
            modes.append(torch.is_inference_mode_enabled())
            return super().step(tokens, state, hook=hook)

    assert search(Noting(), state, LENGTHS[:1], METHODS[method])[0]
    assert set(modes) == {True}


def test_more_answers_than_the_beam_holds():
    with pytest.raises(
        ValidationError, match="n_best 6 asks for more answers than a beam of size 5"
    ):
        DecodingSettings(n_best=6)
    assert DecodingSettings(n_best=6, sampling=SamplingSettings()).n_best == 6


def test_beam_and_sampling_exclude_each_other():
    with pytest.raises(ValidationError, match="beam and sampling exclude each other"):
        DecodingSettings(beam=BeamSettings(size=3), sampling=SamplingSettings())


@pytest.mark.parametrize("settings", METHODS.values(), ids=METHODS)
def test_settings_survive_being_written_and_read(settings):
    assert DecodingSettings.model_validate(settings.model_dump(mode="json")) == settings


def test_numbers_must_be_as_many_as_sentences():
    decoder = Countdown()
    with pytest.raises(ValueError, match=r"a number for each of 2 sentences, got \[4\]"):
        search(decoder, decoder.start([1, 2]), LENGTHS, METHODS["sampling"], numbers=[4])
