"""The search settings of a run -> `generation_config.json`."""

from collections.abc import Sequence
from typing import Any

from regard.decoding.settings import DecodingSettings
from regard.json_files import dump_json
from regard.text.vocabulary_map import VocabularyMap

GENERATION_CONFIG = "generation_config.json"
EARLY_STOPPING = {"size": True, "heuristic": False, "safe": "never", "limit": "never"}
"""By `beam.stop`."""


def generate_settings(search: DecodingSettings) -> DecodingSettings:
    """The nearest settings that `generate` has: without GNMT's scores, coverage and reranking."""
    beam, rules = search.beam, search.rules
    stop = "safe" if beam.stop == "limit" else beam.stop
    at_limit = "ranked" if rules.at_limit == "behind" else rules.at_limit
    changed = {"normalise": "power", "coverage_penalty": 0.0, "stop": stop, "patience": 1.0}
    return search.model_copy(
        update={
            "beam": beam.model_copy(update=changed),
            "rules": rules.model_copy(update={"at_limit": at_limit}),
            "reranking": None,
        }
    )


def generate_options(
    search: DecodingSettings, vocabulary: VocabularyMap, opening: Sequence[int] = ()
) -> dict[str, Any]:
    """The options of `generate` for the nearest search, in their ids; answers begin with `opening`,
    in our ids.
    """
    pad, unk, bos, eos = vocabulary.special
    beam, rules, drawn = generate_settings(search).beam, search.rules, search.sampling
    never = (pad, None if rules.allow_unknown else unk, bos)
    first = vocabulary.to_theirs(opening)
    options: dict[str, Any] = {
        "num_beams": 1 if drawn else beam.size,
        "do_sample": drawn is not None,
        "max_length": rules.max_length + 1,  # theirs counts the start token
        "suppress_tokens": [i for i in never if i is not None],
        "renormalize_logits": rules.excluded == "spread",
        "decoder_start_token_id": vocabulary.start,
        "forced_bos_token_id": first[0] if first else None,
        "forced_eos_token_id": eos if rules.at_limit == "eos" else None,
        "pad_token_id": pad,
        "eos_token_id": eos,
    }
    if drawn is not None:
        options |= {"temperature": drawn.temperature, "top_k": drawn.top_k or 0}
        options["top_p"] = drawn.top_p or 1.0
    elif beam.size > 1:
        options["length_penalty"] = beam.length_penalty
        options["early_stopping"] = EARLY_STOPPING[beam.stop]
    if rules.no_repeat_ngram:
        options["no_repeat_ngram_size"] = rules.no_repeat_ngram
    if rules.min_length:
        options["min_new_tokens"] = rules.min_length
    return options


def generation_config(
    search: DecodingSettings, vocabulary: VocabularyMap, opening: Sequence[int] = ()
) -> bytes:
    """The file with `generate_options`."""
    options = generate_options(search, vocabulary, opening)
    return f"{dump_json(options, indent=2)}\n".encode()
