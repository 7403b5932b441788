import pytest

from regard.decoding.settings import (
    MIN_COUNTED_LENGTH,
    BeamSettings,
    DecodingSettings,
    RuleSettings,
    SamplingSettings,
    native_only_reason,
    plan_batches,
    portable_settings,
    search_settings,
)
from regard.errors import SettingsError

RECIPE = DecodingSettings(beam=BeamSettings(size=4, length_penalty=0.8))
SAMPLED = DecodingSettings(sampling=SamplingSettings(top_k=5))


def test_without_options_the_recipe_decides():
    assert search_settings(RECIPE) == RECIPE
    assert search_settings(SAMPLED) == SAMPLED


def test_options_change_what_they_name_alone():
    found = search_settings(RECIPE, beam=7)
    assert (found.beam.size, found.beam.length_penalty) == (7, 0.8)
    found = search_settings(RECIPE, length_penalty=0.0)
    assert (found.beam.size, found.beam.length_penalty) == (4, 0.0)
    plain = DecodingSettings(capture=False)
    assert not search_settings(plain, beam=7).capture
    assert not portable_settings(plain).capture


def test_a_beam_holds_at_least_the_n_best():
    assert search_settings(RECIPE, n_best=9).beam.size == 9
    assert search_settings(RECIPE, n_best=2).beam.size == 4
    several = DecodingSettings(n_best=4, beam=BeamSettings(size=4))
    assert search_settings(several).n_best == search_settings(several, beam=9).n_best == 4
    assert search_settings(several, beam=2).n_best == 2
    with pytest.raises(SettingsError, match="n_best: must be at least 1"):
        search_settings(RECIPE, n_best=0)


def test_sampling_takes_the_place_of_the_beam():
    found = search_settings(RECIPE, n_best=3, sampling={"top_p": 0.5})
    assert found.sampling == SamplingSettings(top_p=0.5)
    assert found.n_best == 3


def test_a_beam_takes_the_place_of_the_recipes_sampling():
    found = search_settings(SAMPLED, beam=3)
    assert found.sampling is None
    assert found.beam.size == 3


@pytest.mark.parametrize("recipe", [RECIPE, SAMPLED])
def test_unknown_words_may_be_allowed(recipe):
    assert not search_settings(recipe).rules.allow_unknown
    found = search_settings(recipe, unknown=True)
    assert found.rules.allow_unknown
    assert search_settings(found).rules.allow_unknown
    assert (found.beam, found.sampling) == (recipe.beam, recipe.sampling)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampling": {}, "beam": 2}, "--sample excludes --beam and --length-penalty: drop one"),
        ({"sampling": {}, "length_penalty": 1.0}, "--sample excludes"),
        ({"beam": 2, "n_best": 3}, "n_best 3 asks for more answers than a beam of size 2 keeps"),
        ({"sampling": {"top_p": 0.0}}, r"sampling\.top_p: must be more than 0"),
    ],
)
def test_options_that_cannot_be(options, message):
    with pytest.raises(SettingsError, match=message):
        search_settings(RECIPE, **options)


def test_what_every_engine_can_do_is_said_so():
    old = DecodingSettings(
        n_best=2,
        beam=BeamSettings(size=3, normalise="gnmt", stop="safe", coverage_penalty=0.2),
        rules=RuleSettings(excluded="lost", no_repeat_ngram=3, max_length=77),
    )
    assert native_only_reason(old) == "coverage counts"
    near = portable_settings(old)
    assert native_only_reason(near) is None
    assert (near.n_best, near.beam.size, near.rules.max_length) == (2, 3, 77)
    assert near.rules.no_repeat_ngram == 3
    assert native_only_reason(SAMPLED) == "answers are to be sampled"
    assert native_only_reason(portable_settings(SAMPLED)) is None
    assert native_only_reason(RECIPE) is None
    assert portable_settings(RECIPE) == RECIPE


def test_each_sentence_once_within_the_budget_and_sorted():
    lengths = [3, 9, 1, 4, 4, 30, 2, 9]
    batches = plan_batches(lengths, budget=24, width=2)
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    flat = [lengths[place] for batch in batches for place in batch]
    assert flat == sorted(lengths, reverse=True)
    for batch in batches:
        longest = max(lengths[place] for place in batch)
        assert len(batch) == 1 or len(batch) * longest * 2 <= 24
    assert batches == [[5], [1], [7], [3, 4, 0], [6, 2]]


def test_sentences_of_one_length_keep_their_order():
    assert plan_batches([5, 5, 5, 5, 5], budget=10) == [[0, 1], [2, 3], [4]]


def test_nothing_to_do():
    assert plan_batches([], budget=10) == []


def test_short_sentences_count_for_some_tokens():
    assert plan_batches([0, 1, 2], budget=2 * MIN_COUNTED_LENGTH) == [[2, 1], [0]]


@pytest.mark.parametrize(("budget", "width"), [(0, 1), (5, 0)])
def test_budget_and_width_must_be_positive(budget, width):
    with pytest.raises(ValueError, match=f"got budget={budget} and width={width}"):
        plan_batches([1], budget, width)
