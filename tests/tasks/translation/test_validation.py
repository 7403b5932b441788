import math
from types import SimpleNamespace

import pytest
import torch

from regard.corpora.corpus import Pair
from regard.decoding.settings import RuleSettings
from regard.tasks.translation.task import new_model
from regard.tasks.translation.training_inputs import prepare
from regard.tasks.translation.validation import (
    build_validation,
    greedy_search,
    with_bleu_tokenizer,
)
from tiny import tiny_recipe


def test_validation_obeys_the_limits_on_answers():
    rules = RuleSettings(max_length=7, max_length_ratio=9.0, max_length_offset=3, min_length=2)
    search = greedy_search(rules)
    assert (search.rules.limit(1), search.rules.limit(0), search.beam.size) == (7, 3, 1)
    assert search.rules.min_length == 0


def test_validation_scores_what_it_is_told_to(tmp_path):
    wanted = tiny_recipe("training.validation.sentences=3")
    prepared = prepare(wanted, tmp_path, print)
    torch.manual_seed(1)
    model = new_model(wanted, prepared.tokenizers).eval()
    validate = build_validation(wanted, prepared)
    numbers = validate(model)
    assert numbers.keys() == {"loss", "perplexity", "bleu", "chrf", "gleu", "exact"}
    assert numbers == validate(model)
    size = prepared.tokenizers.target.size
    assert 0.5 * math.log(size) < numbers["loss"] < 2 * math.log(size)  # it knows nothing yet


@pytest.mark.parametrize(
    ("wanted", "saved", "found"),
    [
        ("auto", None, "char"),
        ("auto", "auto", "char"),
        ("auto", "zh", "zh"),
        ("intl", None, "intl"),
    ],
)
def test_the_tokenizer_is_chosen_once_by_the_target_language(wanted, saved, found):
    thai = SimpleNamespace(languages=("en", "th"), read=lambda split: [Pair("a", "ก")])
    recipe, notes = tiny_recipe(f"evaluation.tokenize={wanted}"), []
    if saved is not None:
        recipe = recipe.resumed_from(tiny_recipe(f"evaluation.tokenize={saved}"))
    recipe = with_bleu_tokenizer(recipe, thai, notes.append)
    assert recipe.evaluation.tokenize == found
    said = "BLEU, GLEU and TER are counted with tok:char, chosen by the target language th"
    assert notes == [said] * (found == "char")
