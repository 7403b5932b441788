import pytest

from regard.decoding.settings import (
    BeamSettings,
    DecodingSettings,
    RuleSettings,
    SamplingSettings,
    native_only_reason,
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
