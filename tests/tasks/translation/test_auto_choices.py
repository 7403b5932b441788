import numpy as np
import pytest

from regard.corpora.corpus import Pair
from regard.decoding.settings import RuleSettings
from regard.recipes.recipe_files import load_recipe
from regard.tasks.translation.auto_choices import (
    Hardware,
    TextFacts,
    TokenFacts,
    collect_text_facts,
    resolve_text,
    resolve_tokens,
)
from regard.tasks.translation.auto_settings import format_choices

CORES, GPU = Hardware(gpu=False, cores=2), Hardware(gpu=True, cores=8)
USUAL = RuleSettings()


def facts(pairs, *, source=12, target=12, words=30_000, machine=CORES):
    text = TextFacts(pairs, (source * pairs, target * pairs), words)
    lengths = [np.full(1000, length, np.int32) for length in (source, target)]
    return TokenFacts(text, *lengths, machine)


def resolved(given, *overrides):
    recipe = load_recipe("own", overrides)
    return resolve_tokens(resolve_text(recipe, given.text)[0], given)[0]


def epochs(recipe, given):
    return recipe.training.steps * recipe.training.batch_tokens / given.positions


@pytest.mark.parametrize("pairs", [1000, 5000, 16_000, 30_000, 100_000, 1_000_000, 5_000_000])
@pytest.mark.parametrize("machine", [CORES, GPU])
def test_everything_is_chosen_and_fits_together(pairs, machine):
    given = facts(pairs, machine=machine)
    recipe = resolved(given)
    training = recipe.training
    assert not {place for place in recipe.auto if not place.startswith("corpus.")}
    assert training.schedule.warmup <= training.steps / 10
    assert training.steps / training.validation.every >= 10
    assert epochs(recipe, given) < 150
    assert training.steps <= 50_000


def test_the_larger_the_corpus_the_larger_the_model_and_the_less_dropout():
    chosen = [resolved(facts(pairs)) for pairs in (2000, 30_000, 800_000)]
    assert [recipe.model.width for recipe in chosen] == [128, 256, 256]
    assert [recipe.model.dropout for recipe in chosen] == [0.3, 0.3, 0.1]
    sizes = [recipe.text.source.size for recipe in chosen]
    assert sizes == sorted(set(sizes))
    assert resolved(facts(800_000, machine=GPU)).model.width == 512


@pytest.mark.parametrize(
    ("given", "overrides", "language"),
    [("deu_Latn", (), "de"), ("und", (), None), ("de", ("input.language=null",), None)],
)
def test_lines_are_split_by_the_rules_of_the_sources_if_their_language_is_known(
    given, overrides, language
):
    facts = collect_text_facts([Pair("Ein Satz.", "One sentence.")] * 9, given)
    recipe, choices = resolve_text(load_recipe("own", overrides), facts)
    assert recipe.input.language == language
    assert any("language de: whose rules" in line for line in format_choices(choices)) == (
        language is not None
    )


def test_what_is_given_decides_what_is_chosen_after_it():
    recipe = resolved(facts(30_000), "training.steps=300", "model.width=64", "model.dropout=0")
    assert (recipe.training.steps, recipe.model.width, recipe.model.dropout) == (300, 64, 0)
    assert recipe.training.schedule.warmup <= 30
    assert recipe.training.validation.every == 20
    assert resolved(facts(30_000), "training.steps=5").training.validation.every == 20


@pytest.mark.parametrize(
    ("overrides", "patience", "lines"),
    [
        (("training.steps=20",), None, ["training.validation.patience null: all 20 steps are"]),
        (
            ("training.steps=20", "training.validation.patience=3"),
            3,
            ["every 20: stop after 60 st"],
        ),
        (("training.validation.patience=null",), None, ["every 1,000: 20 validations"]),
        ((), 8, ["every 1,000, patience 8: stop after 8,000 steps", "or fewer if it stops"]),
    ],
)
def test_steps_that_are_set_are_ended_by_no_patience_that_is_chosen(overrides, patience, lines):
    given, recipe = facts(300_000), load_recipe("own", overrides)
    chosen, choices = resolve_tokens(resolve_text(recipe, given.text)[0], given)
    assert chosen.training.validation.patience == patience
    shown = "\n".join(format_choices(choices))
    assert all(line in shown for line in lines)
    assert ("or fewer if it stops learning" in shown) == (patience is not None)


def test_a_closed_language_is_searched_greedily():
    closed = resolved(facts(16_000, source=8, target=32, words=24))
    assert (closed.decoding.beam.size, closed.training.label_smoothing) == (1, 0)
    assert resolved(facts(16_000)).decoding.beam.size == 5
    assert resolved(facts(16_000, words=24), "decoding.beam.size=4").decoding.beam.size == 4


def test_usual_limits_stay():
    rules = resolved(facts(30_000)).decoding.rules
    assert rules == USUAL


def test_limits_leave_room_for_long_targets():
    rules = resolved(facts(30_000, source=7, target=200)).decoding.rules
    assert rules.limit(8) >= 240


def test_limits_that_are_given_are_kept_and_the_others_make_up_for_them():
    given = facts(30_000, source=7, target=60)
    rules = resolved(given, "decoding.rules.max_length_ratio=1").decoding.rules
    assert rules.max_length_ratio == 1
    assert rules.limit(7) >= 72


def test_facts_of_texts():
    pairs = [Pair("go left", "L"), Pair("go right twice", "R R")] * 60
    found = collect_text_facts(pairs)
    assert (found.pairs, found.words, found.distinct_words) == (120, (300, 180), 6)
    assert found.closed
    assert found.scaled_by(2.0).words == (600, 360)
    assert not collect_text_facts([Pair(f"a{n}", f"b{n}") for n in range(100)]).closed
