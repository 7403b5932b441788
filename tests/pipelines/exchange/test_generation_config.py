"""`generation_config.json` says the search of the run, not one of its own."""

import json

from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings, SamplingSettings
from regard.pipelines.exchange.generation_config import generation_config
from regard.text.vocabulary_map import VocabularyMap

VOCABULARY = VocabularyMap(special=(5, 1, None, 0), rows=9, start=5)


def config(**settings):
    return json.loads(generation_config(DecodingSettings(**settings), VOCABULARY))


def test_a_beam_is_as_wide_as_the_recipe_says():
    rules = RuleSettings(max_length=40, no_repeat_ngram=3, min_length=2)
    said = config(beam=BeamSettings(size=3, length_penalty=1.1), rules=rules)
    assert (said["num_beams"], said["length_penalty"], said["early_stopping"]) == (3, 1.1, True)
    assert (said["max_length"], said["no_repeat_ngram_size"]) == (41, 3)
    assert said["min_new_tokens"] == 2
    assert said["suppress_tokens"] == [5, 1]
    assert (said["decoder_start_token_id"], said["eos_token_id"]) == (5, 0)


def test_greedy_search_and_sampling():
    greedy = config(beam=BeamSettings(size=1), rules=RuleSettings(allow_unknown=True))
    assert greedy["num_beams"] == 1
    assert "length_penalty" not in greedy
    assert greedy["suppress_tokens"] == [5]
    drawn = config(sampling=SamplingSettings(temperature=0.7, top_k=4))
    assert (drawn["do_sample"], drawn["temperature"], drawn["top_k"]) == (True, 0.7, 4)
