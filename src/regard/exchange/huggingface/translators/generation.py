"""The generation settings of a folder -> the search settings of a run."""

from collections.abc import Iterator, Mapping, Sequence

from regard.exchange.huggingface.config import ConfigReader
from regard.exchange.huggingface.folder import CONFIG, TOKENIZER_CONFIG, HfFolder, JsonObject
from regard.settings import abbreviate
from regard.text.special_tokens import EOS
from regard.text.vocabulary_map import VocabularyMap

GENERATION_CONFIG = "generation_config.json"
CLEANS_SPACES = "clean_up_tokenization_spaces"  # of a tokenizer
DEFAULT_MAX_LENGTH = 20  # of `transformers`; in a folder it counts as not set
MAX_ANSWER = 512  # tokens, if a folder does not limit the length of answers
DEFAULT_TOP_K = 50  # of `transformers`, if answers are sampled
MAX_BEAMS, MAX_LENGTH_PENALTY, MAX_TEMPERATURE = 1000, 5.0, 100.0  # what a run can have
NOT_SEARCHED: Mapping[str, float | None] = {
    "repetition_penalty": 1.0,
    "encoder_repetition_penalty": 1.0,
    "encoder_no_repeat_ngram_size": 0,
    "begin_suppress_tokens": None,
    "diversity_penalty": 0.0,
    "num_beam_groups": 1,
    "exponential_decay_length_penalty": None,
    "typical_p": 1.0,
    "min_p": 0.0,
    "top_h": None,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "penalty_alpha": 0.0,
    "dola_layers": None,
    "guidance_scale": 1.0,
    "sequence_bias": None,
    "constraints": None,
    "force_words_ids": None,
    "stop_strings": None,
    "watermarking_config": None,
}
"""Settings of their search that ours does not have -> the value without effect."""


def generation_settings(folder: HfFolder) -> JsonObject:
    """The generation settings of a folder; older folders have them in `config.json`."""
    return {**folder.config, **(folder.read_object(GENERATION_CONFIG) or {})}


def search_groups(folder: HfFolder) -> JsonObject:
    """The search settings of a folder, as settings of a recipe; a `RunError` names a value that a
    run cannot have.
    """
    max_length = _max_length(folder)
    rules = {
        "min_length": min(_min_length(folder), max_length - 1),
        "max_length": max_length,
        "max_length_ratio": 4.0,
        "max_length_offset": 50,
        "no_repeat_ngram": _number(folder, "no_repeat_ngram_size", 0, "it must be 0 or more"),
    }
    if _draws(folder):
        return {"sampling": _sampling(folder), "rules": rules}
    return {"beam": _beam(folder), "rules": rules}


def _beam(folder: HfFolder) -> JsonObject:
    penalties = _reader(folder, "length_penalty")
    penalty = penalties.get("length_penalty", float, 1.0)
    if not 0 <= penalty <= MAX_LENGTH_PENALTY:
        raise penalties.refusal(
            "length_penalty", f"only values from 0 to {MAX_LENGTH_PENALTY:g} can be imported"
        )
    return {"size": _num_beams(folder), "length_penalty": penalty}


def _num_beams(folder: HfFolder) -> int:
    beams = _reader(folder, "num_beams")
    size = beams.get("num_beams", int, 1)
    if not 1 <= size <= MAX_BEAMS:
        raise beams.refusal("num_beams", f"it must be from 1 to {MAX_BEAMS:,}")
    return size


def _draws(folder: HfFolder) -> bool:
    """Whether answers are sampled, which is not possible here with a beam."""
    draws = _reader(folder, "do_sample").get("do_sample", bool, False)
    return draws and _num_beams(folder) == 1


def _sampling(folder: HfFolder) -> JsonObject:
    temperatures, probabilities = _reader(folder, "temperature"), _reader(folder, "top_p")
    temperature = temperatures.get("temperature", float, 1.0)
    if not 0 < temperature <= MAX_TEMPERATURE:
        raise temperatures.refusal(
            "temperature", f"it must be above 0, and at most {MAX_TEMPERATURE:g}"
        )
    top_p = probabilities.get("top_p", float, 1.0)
    if not 0 < top_p <= 1:
        raise probabilities.refusal("top_p", "it must be above 0, and at most 1")
    top_k = _number(folder, "top_k", DEFAULT_TOP_K, "it must be 0 or more")
    return {
        "temperature": temperature,
        "top_k": top_k or None,
        "top_p": None if top_p == 1 else top_p,
    }


def _min_length(folder: HfFolder) -> int:
    """The fewest tokens of an answer before EOS: the larger of their two limits, of which
    `min_length` also counts the token that decoding starts from.
    """
    least = _number(folder, "min_length", 0, "it must be 0 or more")
    return max(least - 1, _number(folder, "min_new_tokens", 0, "it must be 0 or more"))


def _max_length(folder: HfFolder) -> int:
    """The most tokens of an answer: their `max_new_tokens`, or else `max_length`, which also counts
    the token that decoding starts from.
    """
    if generation_settings(folder).get("max_new_tokens") is not None:
        return _number(folder, "max_new_tokens", 1, "it must be 1 or more", least=1)
    lengths = _reader(folder, "max_length")
    longest = lengths.get("max_length", int, DEFAULT_MAX_LENGTH)
    if longest < 2:
        raise lengths.refusal("max_length", "it must be 2 or more, as it counts the first token")
    return MAX_ANSWER if longest == DEFAULT_MAX_LENGTH else longest - 1


def _number(folder: HfFolder, name: str, default: int, why: str, *, least: int = 0) -> int:
    reader = _reader(folder, name)
    value = reader.get(name, int, default)
    if value < least:
        raise reader.refusal(name, why)
    return value


def check_first_token(folder: HfFolder) -> None:
    """Raise a `RunError` if answers begin with a different token than `config.json` says."""
    name = "decoder_start_token_id"
    reader, wanted = _reader(folder, name), folder.config.get(name)
    if reader.get(name, int, wanted) != wanted:
        raise reader.refusal(name, f"config.json says {wanted}; make them equal")


def search_notes(folder: HfFolder, vocabulary: VocabularyMap, opening: Sequence[int]) -> list[str]:
    """A sentence for each search setting of a folder that is not supported here; `opening` has our
    ids of the tokens that answers begin with.
    """
    settings = generation_settings(folder)
    asked = {
        name: settings[name]
        for name, neutral in NOT_SEARCHED.items()
        if settings.get(name) and settings[name] != neutral
    }
    never = {i for i in vocabulary.special if i is not None}
    for name in ("suppress_tokens", "bad_words_ids"):
        if not {*_single_ids(settings.get(name))} <= never:
            asked[name] = settings[name]
    if settings.get("do_sample") is True and not _draws(folder):
        asked["do_sample"] = True
    first, forced = vocabulary.to_theirs(opening), settings.get("forced_bos_token_id")
    if forced is not None and [forced] != first and not folder.languages:
        asked["forced_bos_token_id"] = forced
    notes = [
        f"{name} is {abbreviate(repr(value))} in its generation settings, which is not "
        "supported here: answers may differ"
        for name, value in asked.items()
    ]
    return [*notes, *end_notes(folder, vocabulary)]


def spacing_notes(folder: HfFolder) -> list[str]:
    """Whether `transformers` takes spaces out of what a SentencePiece model spells."""
    if not (folder.read_object(TOKENIZER_CONFIG) or {}).get(CLEANS_SPACES):
        return []
    return [
        f"{CLEANS_SPACES} is true in {TOKENIZER_CONFIG}: transformers removes spaces before marks "
        "such as the full stop; here a translation is what its tokens spell"
    ]


def end_notes(folder: HfFolder, vocabulary: VocabularyMap) -> list[str]:
    """Notes on tokens that end an answer there but not here."""
    ends, eos = generation_settings(folder).get("eos_token_id"), vocabulary.special[EOS]
    others = [one for one in (ends if isinstance(ends, list) else [ends]) if one not in (None, eos)]
    if not others:
        return []
    shown = abbreviate(", ".join(map(str, others)))
    return [
        f"eos_token_id is also {shown} in its generation settings; here only {eos} ends answers"
    ]


def _single_ids(value: object) -> Iterator[object]:
    """The ids of a list of tokens, or of sequences of one token; None for a longer sequence."""
    for one in value if isinstance(value, list) else ():
        if isinstance(one, list):
            yield one[0] if len(one) == 1 else None
        else:
            yield one


def _reader(folder: HfFolder, name: str) -> ConfigReader:
    """A reader of the file that has a setting."""
    generation = folder.read_object(GENERATION_CONFIG) or {}
    if name in generation:
        return ConfigReader(generation, str(folder.path / GENERATION_CONFIG))
    return ConfigReader(folder.config, str(folder.path / CONFIG))
