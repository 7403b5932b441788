from functools import partial

import pytest
import torch
from pydantic import ValidationError

from decoding.no_waits import NoWaits
from decoding.tables import Countdown, HistoryTable, Markov, markov
from regard.batching.collate import pad_source
from regard.decoding import batch_search
from regard.decoding.batch_search import SearchMember, run_search, search, search_many
from regard.decoding.constraints import rules
from regard.decoding.constraints.rules import Constraints, Rules
from regard.decoding.search import step
from regard.decoding.search.beam import BeamSelector
from regard.decoding.search.hypotheses import Penalties
from regard.decoding.search.step import SearchConfig, SearchState
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings, SamplingSettings
from regard.errors import SearchError
from regard.models.build import build_model
from regard.models.translation.rnnsearch import RnnSearchSettings
from regard.models.translation.transformer import Transformer
from regard.models.translation.transformer_settings import TransformerSettings
from regard.text.special_tokens import BOS, EOS
from regard.types import Site

VOCABULARY, WIDE = 17, 10_000
SOURCES = [[5, 6, 7], [], [8] * 9, [9, 10], [11, 12, 13, 14, 15], [16]]
RULES = RuleSettings(max_length=7)
BEAM = DecodingSettings(n_best=2, beam=BeamSettings(size=3), rules=RULES)
SAMPLES = DecodingSettings(n_best=2, sampling=SamplingSettings(seed=4), rules=RULES)


def transformer(seed=1, **changed):
    torch.manual_seed(seed)
    settings = TransformerSettings(
        encoder_layers=1, decoder_layers=2, width=16, heads=2, feed_forward=20, **changed
    )
    return build_model(settings, VOCABULARY, VOCABULARY, joint=True).eval().double()


@pytest.fixture(scope="module")
def model():
    return transformer()


def found(answers):
    return [[(h.tokens, round(h.score, 9)) for h in hypotheses] for hypotheses in answers]


class Spy:
    """A hook that records its sites, and the sizes (B, S) of each encoding."""

    def __init__(self):
        self.sites, self.rows = set(), []

    def __call__(self, site, weights):
        self.sites.add(Site(site.part, site.layer))
        if site.part == "encoder":
            self.rows.append(tuple(weights.shape[::3]))  # (B, S)
        return weights


@pytest.mark.parametrize("settings", [BEAM, SAMPLES])
@pytest.mark.parametrize("budget", [1, 20, 60])
def test_batches_change_no_answer_and_no_order(model, settings, budget):
    whole = search_many([SearchMember(model, SOURCES)], settings, budget=WIDE)
    cut = search_many([SearchMember(model, SOURCES)], settings, budget=budget)
    assert len(whole) == len(SOURCES)
    assert found(cut) == found(whole)
    assert {len(hypotheses) for hypotheses in whole} == {2}


def test_each_answer_is_that_of_its_own_sentence(model):
    together = search_many([SearchMember(model, SOURCES)], BEAM, budget=WIDE)
    alone = [
        search_many([SearchMember(model, [source])], BEAM, budget=WIDE)[0] for source in SOURCES
    ]
    assert found(together) == found(alone)
    assert len({hypotheses[0].score for hypotheses in together}) == len(SOURCES)


def test_a_batch_keeps_to_its_budget(model):
    spy = Spy()
    search_many([SearchMember(model, SOURCES)], BEAM, budget=30, hook=spy)
    assert len(spy.rows) > 1
    assert sum(rows for rows, _ in spy.rows) == len(SOURCES)
    assert all(rows * length * 3 <= 30 for rows, length in spy.rows)


def limit_memory(monkeypatch, most):
    """Let memory hold searches of `most` sentences; returns the sizes of all that are tried."""
    tried = []

    def search_batch(models, job, **looking):
        tried.append(len(job.numbers))
        if len(job.numbers) > most:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return plain(models, job, **looking)

    plain = batch_search.search_batch
    monkeypatch.setattr(batch_search, "search_batch", search_batch)
    return tried


@pytest.mark.parametrize(("budget", "tried"), [(WIDE, [6, 3, 1, 2, 1, 2]), (60, None)])
@pytest.mark.parametrize("settings", [BEAM, SAMPLES])
def test_what_memory_does_not_hold_is_searched_in_halves(
    model, settings, budget, tried, monkeypatch
):
    prefixes = [[], [5], [6, 7], [], [8, 9, 10], [11]]
    asked = partial(
        search_many, [SearchMember(model, SOURCES)], settings, constraints=Constraints(prefixes)
    )
    whole = asked(budget=WIDE)
    sizes = limit_memory(monkeypatch, 2)
    assert found(asked(budget=budget)) == found(whole)
    assert sizes == (tried or sizes)


def test_what_memory_holds_in_no_way_is_an_error(model, monkeypatch):
    limit_memory(monkeypatch, 0)
    said = "a search of 1 sentences does not fit into the device's memory: CUDA out of memory."
    with pytest.raises(SearchError, match=f"{said}; try a smaller beam, shorter lines"):
        search_many([SearchMember(model, SOURCES)], BEAM, budget=WIDE)
    with pytest.raises(SearchError, match="a search of 6 sentences does not fit"):
        search_many([SearchMember(model, SOURCES)], BEAM, budget=WIDE, hook=Spy())


def test_nothing_is_found_for_nothing(model):
    assert search_many([SearchMember(model, [])], BEAM, budget=WIDE) == []


def test_a_prefix_for_each_sentence(model):
    prefixes = [[], [5], [6, 7], [], [8, 9, 10], [11]]
    answers = search_many(
        [SearchMember(model, SOURCES)], BEAM, budget=20, constraints=Constraints(prefixes)
    )
    for prefix, hypotheses in zip(prefixes, answers, strict=True):
        assert all(list(h.tokens[: len(prefix)]) == prefix for h in hypotheses)
    free = search_many([SearchMember(model, SOURCES)], BEAM, budget=20)
    assert found(answers)[3] == found(free)[3]


def test_forbidden_phrases_are_not_said(model):
    free = search_many([SearchMember(model, SOURCES)], BEAM, budget=20)
    said = {token for hypotheses in free for h in hypotheses for token in h.tokens}
    word = sorted(said)[0]
    barred = search_many(
        [SearchMember(model, SOURCES)], BEAM, budget=20, constraints=Constraints(forbidden=[[word]])
    )
    assert all(word not in h.tokens for hypotheses in barred for h in hypotheses)


def test_samples_are_drawn_by_number(model):
    whole = search_many([SearchMember(model, SOURCES)], SAMPLES, budget=WIDE)
    rest = search_many([SearchMember(model, SOURCES[3:])], SAMPLES, budget=20, numbers=[3, 4, 5])
    assert found(rest) == found(whole)[3:]
    others = search_many([SearchMember(model, SOURCES)], SAMPLES, budget=WIDE, numbers=range(7, 13))
    assert found(others) != found(whole)


def test_a_watch_sees_encoder_and_decoder(model):
    spy = Spy()
    watched = search_many([SearchMember(model, SOURCES)], BEAM, budget=WIDE, hook=spy)
    places = {("encoder", 0), ("decoder", 0), ("decoder", 1), ("cross", 0), ("cross", 1)}
    assert {(site.part, site.layer) for site in spy.sites} == places
    assert found(watched) == found(search_many([SearchMember(model, SOURCES)], BEAM, budget=WIDE))


@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_a_watch_may_change_any_of_them(model, part):
    def blind(site, weights):
        return torch.zeros_like(weights) if site.part == part else weights

    plain = search_many([SearchMember(model, SOURCES)], BEAM, budget=WIDE)
    changed = search_many([SearchMember(model, SOURCES)], BEAM, budget=WIDE, hook=blind)
    assert plain[0][0].score != changed[0][0].score


def test_learned_positions_bound_the_answer():
    short = transformer(positions="learned", max_positions=10)
    settings = DecodingSettings(
        beam=BeamSettings(size=1), rules=RuleSettings(max_length=50, min_length=30)
    )
    [[answer], *_] = search_many([SearchMember(short, SOURCES)], settings, budget=WIDE)
    assert len(answer.tokens) == 9  # BOS and the answer are all that the decoder takes
    assert not answer.finished


def test_members_of_unlike_families_vote(model):
    torch.manual_seed(2)
    plain = RnnSearchSettings(width=8, embedding=6, alignment=5, readout=4)
    other = build_model(plain, VOCABULARY + 3, VOCABULARY, joint=False).eval().double()
    shifted = [[token + 3 for token in source] + [4] for source in SOURCES]  # its own vocabulary
    members = [SearchMember(model, SOURCES), SearchMember(other, shifted)]
    together = search_many(members, BEAM, budget=20)
    assert found(together) == found(search_many(members, BEAM, budget=WIDE))
    alone = [search_many([member], BEAM, budget=20) for member in members]
    assert found(together) != found(alone[0])
    assert found(together) != found(alone[1])


def test_a_watch_can_tell_the_members_apart(model):
    members = [SearchMember(model, SOURCES), SearchMember(transformer(2), SOURCES)]
    seen = []

    def hook(site, weights, /):
        seen.append((site.member, site.part, site.layer))
        return weights

    search_many(members, BEAM, budget=WIDE, hook=hook)
    steps = [(part, layer) for layer in (0, 1) for part in ("decoder", "cross")]
    first = [(member, "encoder", 0) for member in (0, 1)]
    first += [(member, *place) for member in (0, 1) for place in steps]
    assert seen[: len(first)] == first


def test_coverage_cannot_be_counted_in_unlike_tokens(model):
    covering = BEAM.model_copy(update={"beam": BeamSettings(size=3, coverage_penalty=0.2)})
    alike = [SearchMember(model, SOURCES), SearchMember(transformer(2), SOURCES)]
    assert len(search_many(alike, covering, budget=WIDE)) == len(SOURCES)
    unlike = [alike[0], SearchMember(transformer(2), [[4, *source] for source in SOURCES])]
    assert len(search_many(unlike, BEAM, budget=WIDE)) == len(SOURCES)
    with pytest.raises(SearchError, match="models tokenize it differently: set coverage_penalty"):
        search_many(unlike, covering, budget=WIDE)


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


def test_no_method_says_forbidden_phrases(method):
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


B, WORDS = 4, 3


def config(lengths, *, size=2, beta=0.0, limit=20, stop="safe"):
    lengths = torch.tensor(lengths)
    rules = Rules(RuleSettings(max_length=limit, max_length_offset=limit), lengths)
    penalties = Penalties(BeamSettings(coverage_penalty=beta), lengths, rules.limits)
    return SearchConfig(BeamSelector(size), rules, penalties, 1, stop)


def test_finished_sentences_leave_the_batch_and_answers_stay_in_order():
    decoder = Countdown()
    found = run_search(decoder, decoder.start([5, 0, 9, 2]), config([3] * B))
    assert [h.tokens for (h,) in found] == [(4,) * n for n in (5, 0, 9, 2)]
    assert decoder.batches == [4, 3, 3, 2, 2, 2, 1, 1, 1, 1]


@pytest.mark.parametrize("stop", ["safe", "size"])
@pytest.mark.parametrize("threshold", [0.0, 0.5, 1.0])
def test_finished_sentences_that_stay_get_no_more_results(threshold, stop, monkeypatch):
    monkeypatch.setattr(batch_search, "COMPACT_BELOW", threshold)
    decoder = HistoryTable(9, WORDS, 4, sharp=2.0)
    how = config([S] * 9, size=3, limit=6, stop=stop)
    found = run_search(decoder, decoder.start(), how)
    alone = [
        run_search(decoder, decoder.start([row]), config([S], size=3, limit=6, stop=stop))[0]
        for row in range(9)
    ]
    assert found == alone


@pytest.mark.parametrize("threshold", [0.0, 1.0])
def test_truncated_sentences_that_stay_in_the_batch_keep_their_results(threshold, monkeypatch):
    monkeypatch.setattr(batch_search, "COMPACT_BELOW", threshold)
    monkeypatch.setattr(step, "is_on_cpu", lambda x: False)
    state = markov(*[{BOS: {4: 0.7, EOS: 0.3}, 4: {4: 0.8, EOS: 0.2}}] * 2)
    lengths = torch.tensor([1, 4])
    rules = Rules(RuleSettings(max_length_ratio=1.0, max_length_offset=0), lengths)
    penalties = Penalties(BeamSettings(length_penalty=1.0), lengths, rules.limits)
    found = run_search(Markov(), state, SearchConfig(BeamSelector(2), rules, penalties, 2, "limit"))
    assert [(one.tokens, one.finished) for one in found[0]] == [((), True), ((4,), False)]


def test_with_a_hook_finished_sentences_leave_at_every_step():
    decoder = Countdown()
    hook = lambda site, weights: weights  # noqa: E731
    many = [0, 1, 2, 3, 4, 5, 6, 7, 8]
    run_search(decoder, decoder.start(many), config([3] * 9), hook=hook)
    assert decoder.batches == [9, 8, 7, 6, 5, 4, 3, 2, 1]
    decoder.batches.clear()
    run_search(decoder, decoder.start(many), config([3] * 9))
    assert decoder.batches == [9, 9, 7, 6, 5, 4, 3, 2, 1]


def test_a_sentence_at_its_limit_leaves_too():
    decoder = Countdown()
    limits = RuleSettings(max_length_ratio=1.0, max_length_offset=0)
    lengths = torch.tensor([3, 6, 4, 1])
    rules = Rules(limits, lengths)
    how = SearchConfig(
        BeamSelector(2), rules, Penalties(BeamSettings(), lengths, rules.limits), 1, "safe"
    )
    found = run_search(decoder, decoder.start([9, 2, 9, 0]), how)
    assert [(len(h.tokens), h.finished) for (h,) in found] == [
        (3, False),
        (2, True),
        (4, False),
        (0, True),
    ]
    assert decoder.batches == [4, 3, 3, 1]


def test_a_hook_is_called_at_every_step_with_and_without_coverage():
    decoder = HistoryTable(1, WORDS, 3, source=S, layers=2)
    seen = []

    def hook(site, weights):
        seen.append((site.part, tuple(weights.shape)))
        return weights

    for beta in (0.0, 0.5):
        seen.clear()
        run_search(
            decoder, decoder.start(), config([S], beta=beta, limit=3, stop="limit"), hook=hook
        )
        assert seen[:4] == [("cross", (1, 2, 1, S)), ("decoder", (1, 2, 1, S))] * 2
        assert seen[4] == ("cross", (1, 2, 2, S))


def test_too_few_candidates_leave_empty_slots():
    decoder = Countdown()
    found = run_search(decoder, decoder.start([3]), config([3], size=5))
    assert [(h.tokens, h.log_probability) for h in found[0]] == [((4, 4, 4), 0.0)]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("excluded", ["spread", "lost"])
@pytest.mark.parametrize("more", [{}, {"min_length": 2, "no_repeat_ngram": 2}])
def test_only_reading_the_done_sentences_waits_for_the_device(size, excluded, more, monkeypatch):
    for module in (step, rules):
        monkeypatch.setattr(module, "is_on_cpu", lambda x: False)
    mode = NoWaits()
    mode.allow(monkeypatch, SearchState, "done_list")
    mode.allow(monkeypatch, batch_search._Results, "convert")
    torch.manual_seed(0)
    sizes = {"encoder_layers": 1, "decoder_layers": 2, "width": 16, "heads": 2, "feed_forward": 16}
    model = Transformer(TransformerSettings(**sizes), 40, 40).eval()
    lengths = torch.tensor([5, 3, 2])
    settings = RuleSettings(max_length_ratio=2, max_length_offset=2, excluded=excluded, **more)
    obeyed = Rules(settings, lengths)
    penalties = Penalties(BeamSettings(), lengths, obeyed.limits)
    config = SearchConfig(BeamSelector(size), obeyed, penalties, 1, "size")
    with torch.inference_mode():
        state = model.start(model.encode(pad_source([[5, 6, 7, 8], [9, 10], [11]])))
        plain = run_search(model, state, config)
        with mode:
            assert run_search(model, state, config) == plain
    assert mode.seen > 100
