"""The search settings of a run -> `generation_config.json`."""

from collections.abc import Sequence
from typing import Any

from regard.decoding.settings import DecodingSettings, portable_settings
from regard.json_files import dump_json
from regard.text.vocabulary_map import VocabularyMap

GENERATION_CONFIG = "generation_config.json"


def generation_config(
    search: DecodingSettings, vocabulary: VocabularyMap, opening: Sequence[int] = ()
) -> bytes:
    """The file for a search, in their ids; answers begin with `opening`, in our ids.

    Settings that `generate` lacks (GNMT's scores, coverage) are replaced by the nearest ones.
    """
    pad, unk, bos, eos = vocabulary.special
    beam, rules, drawn = portable_settings(search).beam, search.rules, search.sampling
    never = (pad, None if rules.allow_unknown else unk, bos)
    first = vocabulary.to_theirs(opening)
    config: dict[str, Any] = {
        "num_beams": 1 if drawn else beam.size,
        "do_sample": drawn is not None,
        "max_length": rules.max_length + 1,  # theirs counts the start token
        "suppress_tokens": [i for i in never if i is not None],
        "renormalize_logits": True,
        "decoder_start_token_id": vocabulary.start,
        "forced_bos_token_id": first[0] if first else None,
        "pad_token_id": pad,
        "eos_token_id": eos,
    }
    if drawn is not None:
        config |= {"temperature": drawn.temperature, "top_k": drawn.top_k or 0}
        config["top_p"] = drawn.top_p or 1.0
    elif beam.size > 1:
        config |= {"length_penalty": beam.length_penalty, "early_stopping": True}
    if rules.no_repeat_ngram:
        config["no_repeat_ngram_size"] = rules.no_repeat_ngram
    if rules.min_length:
        config["min_new_tokens"] = rules.min_length
    return f"{dump_json(config, indent=2)}\n".encode()
