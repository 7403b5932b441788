"""The generation settings of a folder -> the search settings of a run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from regard.exchange.huggingface.config import ConfigReader
from regard.exchange.huggingface.folder import CONFIG, TOKENIZER_CONFIG, HfFolder, JsonObject
from regard.json_files import parse_json
from regard.settings import abbreviate
from regard.text.special_tokens import BOS, EOS, PAD, SPECIAL_PIECES, UNK
from regard.text.tokenizer import Tokenizer
from regard.text.vocabulary_map import VocabularyMap

GENERATION_CONFIG = "generation_config.json"
CLEANS_SPACES = "clean_up_tokenization_spaces"  # of a tokenizer
DEFAULT_NEW_TOKENS = 20  # of `transformers`, if a folder does not limit the length of answers
DEFAULT_TOP_K = 50  # of `transformers`, if answers are sampled
MAX_BEAMS, MAX_LENGTH_PENALTY, MAX_TEMPERATURE = 1000, 5.0, 100.0  # what a run can have
STOPS: Mapping[object, str] = {False: "heuristic", True: "size", "never": "safe"}
"""Their `early_stopping` -> our name for the same rule."""
NOT_SEARCHED: Mapping[str, float | None] = {
    "repetition_penalty": 1.0,
    "encoder_repetition_penalty": 1.0,
    "encoder_no_repeat_ngram_size": 0,
    "begin_suppress_tokens": None,
    "diversity_penalty": 0.0,
    "num_beam_groups": 1,
    "exponential_decay_length_penalty": None,
    "penalty_alpha": 0.0,
    "dola_layers": None,
    "guidance_scale": 1.0,
    "sequence_bias": None,
    "constraints": None,
    "force_words_ids": None,
    "stop_strings": None,
    "max_time": None,
    "watermarking_config": None,
}
"""Settings of their search that ours does not have -> the value without effect."""
NOT_SAMPLED: Mapping[str, float | None] = {
    "typical_p": 1.0,
    "min_p": 0.0,
    "top_h": None,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
}
"""Those that matter only if answers are sampled."""
OF_PROMPTS = ("no_repeat_ngram_size", "min_length")
"""Settings that count the tokens of a prompt there, which ours do not."""


def generation_settings(folder: HfFolder) -> Mapping[str, Any]:
    """The generation settings of a folder; older folders have them in `config.json`."""
    return _reader(folder).raw


def search_groups(folder: HfFolder, vocabulary: VocabularyMap, positions: int) -> JsonObject:
    """The search settings of a folder, as settings of a recipe; a `RunError` names a value that a
    run cannot have. `positions`: the most tokens that its model is given.
    """
    reader, ngram = _reader(folder), "no_repeat_ngram_size"
    max_length = _max_length(reader) or min(DEFAULT_NEW_TOKENS, positions - 1)
    rules = {
        **_rules(reader, vocabulary),
        "min_length": min(_min_length(reader), max_length - 1),
        "max_length": max_length,
        "max_length_ratio": 0.0,
        "max_length_offset": max_length,
        "no_repeat_ngram": _number(reader, ngram),
    }
    if rules["at_limit"] == "eos" and max_length < 2:
        raise reader.refusal("forced_eos_token_id", "only behind another token can it be")
    if rules["no_repeat_ngram"] == 1 and vocabulary.our_start == EOS:
        raise reader.refusal(ngram, "answers begin with EOS, which they could not repeat to end")
    return {**_method(reader), "rules": rules}


def continuation_groups(folder: HfFolder, vocabulary: VocabularyMap) -> JsonObject:
    """The search settings of a folder with a language model, as settings of a recipe; how long a
    text becomes is said when it is continued.
    """
    reader = _reader(folder)
    least = _number(reader, "min_new_tokens")
    longest = least + DEFAULT_NEW_TOKENS
    lengths = {"min_length": least, "max_length": longest} if least else {}
    return {**_method(reader), "rules": {**_rules(reader, vocabulary), **lengths}}


def _method(reader: ConfigReader) -> JsonObject:
    """How answers are found: drawn, or by a beam."""
    return {"sampling": _sampling(reader)} if _draws(reader) else {"beam": _beam(reader)}


def _rules(reader: ConfigReader, vocabulary: VocabularyMap) -> JsonObject:
    """The rules of answers but for their length."""
    forced = reader.raw.get("forced_eos_token_id")
    if forced not in (None, eos := vocabulary.special[EOS], [eos]):
        raise reader.refusal("forced_eos_token_id", f"only {eos} can be")
    return {
        "allow_unknown": UNK not in _suppressed(reader.raw, vocabulary),
        "excluded": "spread" if reader.get("renormalize_logits", bool, False) else "lost",
        "at_limit": "ranked" if forced is None else "eos",
    }


def _beam(reader: ConfigReader) -> JsonObject:
    penalty = reader.get("length_penalty", float, 1.0)
    if not 0 <= penalty <= MAX_LENGTH_PENALTY:
        raise reader.refusal(
            "length_penalty", f"only values from 0 to {MAX_LENGTH_PENALTY:g} can be imported"
        )
    early = reader.raw.get("early_stopping") or False
    if not isinstance(early, str | bool) or early not in STOPS:
        raise reader.refusal("early_stopping", "must be true, false or 'never'")
    return {"size": _num_beams(reader), "length_penalty": penalty, "stop": STOPS[early]}


def _num_beams(reader: ConfigReader) -> int:
    size = reader.get("num_beams", int, 1)
    if not 1 <= size <= MAX_BEAMS:
        raise reader.refusal("num_beams", f"it must be from 1 to {MAX_BEAMS:,}")
    return size


def _draws(reader: ConfigReader) -> bool:
    """Whether answers are sampled, which is not possible here with a beam."""
    return reader.get("do_sample", bool, False) and _num_beams(reader) == 1


def _sampling(reader: ConfigReader) -> JsonObject:
    temperature, top_p = (reader.get(name, float, 1.0) for name in ("temperature", "top_p"))
    if not 0 < temperature <= MAX_TEMPERATURE:
        raise reader.refusal("temperature", f"it must be above 0, and at most {MAX_TEMPERATURE:g}")
    if not 0 < top_p <= 1:
        raise reader.refusal("top_p", "it must be above 0, and at most 1")
    return {
        "temperature": temperature,
        "top_k": _number(reader, "top_k", DEFAULT_TOP_K) or None,
        "top_p": None if top_p == 1 else top_p,
    }


def _min_length(reader: ConfigReader) -> int:
    """The fewest tokens of an answer before EOS: their `min_new_tokens`, or else `min_length`,
    which also counts the token that decoding starts from.
    """
    if reader.raw.get("min_new_tokens") is not None:
        return _number(reader, "min_new_tokens")
    return max(0, _number(reader, "min_length") - 1)


def _max_length(reader: ConfigReader) -> int | None:
    """The most tokens of an answer: their `max_new_tokens`, or else `max_length`, which also counts
    the token that decoding starts from; None: neither is set.
    """
    if reader.raw.get("max_new_tokens") is not None:
        return _number(reader, "max_new_tokens", least=1)
    if reader.raw.get("max_length") is None:
        return None
    longest = reader.get("max_length", int)
    if longest < 2:
        raise reader.refusal("max_length", "it must be 2 or more, as it counts the first token")
    return longest - 1


def _number(reader: ConfigReader, name: str, default: int = 0, *, least: int = 0) -> int:
    value = reader.get(name, int, default)
    if value < least:
        raise reader.refusal(name, f"it must be {least} or more")
    return value


def check_first_token(folder: HfFolder) -> None:
    """Raise a `RunError` if answers begin with a different token than `config.json` says."""
    reader, name = _reader(folder), "decoder_start_token_id"
    wanted = folder.config.get(name)
    name = name if reader.raw.get(name) is not None else "bos_token_id"  # then they begin with it
    if reader.get(name, int, wanted) != wanted:
        raise reader.refusal(
            name,
            f"answers begin with it; config.json says decoder_start_token_id {wanted}; "
            "make them equal",
        )


def search_notes(folder: HfFolder, vocabulary: VocabularyMap, opening: Sequence[int]) -> list[str]:
    """A sentence for each search setting of a folder that is not supported here; `opening` has our
    ids of the tokens that answers begin with.
    """
    reader = _reader(folder)
    asked = _unsupported(reader, vocabulary)
    settings = reader.raw
    first, forced = vocabulary.to_theirs(opening), settings.get("forced_bos_token_id")
    if forced is not None and [forced] != first and not folder.languages:
        asked["forced_bos_token_id"] = forced
    notes = _left_out(asked)
    if _max_length(reader) is None:
        notes.append(
            "its generation settings do not limit answers, so transformers cuts them after "
            f"{DEFAULT_NEW_TOKENS} tokens, and so does the run: set decoding.rules.max_length and "
            "max_length_offset in its recipe.yaml"
        )
    if opening and forced is None:
        notes.append(
            "answers begin with their language, as with the option forced_bos_token_id of "
            "transformers, which its generation settings do not have"
        )
    return [*notes, *_never_notes(settings, vocabulary), *end_notes(folder, vocabulary)]


def continuation_notes(folder: HfFolder, vocabulary: VocabularyMap) -> list[str]:
    """A sentence for each search setting of a language model's folder that is not supported."""
    reader = _reader(folder)
    asked, settings = _unsupported(reader, vocabulary), reader.raw
    for name in (*OF_PROMPTS, "forced_bos_token_id"):
        if settings.get(name) and not (name == "min_length" and settings.get("min_new_tokens")):
            asked[name] = settings[name]
    never = _never_notes(settings, vocabulary)
    return [*_left_out(asked), *never, *end_notes(folder, vocabulary)]


def _unsupported(reader: ConfigReader, vocabulary: VocabularyMap) -> dict[str, Any]:
    """The settings of a search that none here has, whatever the model."""
    settings, ids = reader.raw, vocabulary.special
    neutral = {**NOT_SEARCHED, **(NOT_SAMPLED if _draws(reader) else {})}
    asked = {
        name: settings[name]
        for name, value in neutral.items()
        if settings.get(name) and settings[name] != value
    }
    never = {i for i in (ids[PAD], ids[UNK], ids[BOS]) if i is not None}
    if not {*_single_ids(settings.get("suppress_tokens"))} <= never:
        asked["suppress_tokens"] = settings["suppress_tokens"]
    if not {*_single_ids(settings.get("bad_words_ids"))} <= {*never, ids[EOS]}:
        asked["bad_words_ids"] = settings["bad_words_ids"]
    if settings.get("do_sample") is True and not _draws(reader):
        asked["do_sample"] = True
    return asked


def _left_out(asked: Mapping[str, Any]) -> list[str]:
    return [
        f"{name} is {abbreviate(repr(value))} in its generation settings, which is not "
        "supported here: answers may differ"
        for name, value in asked.items()
    ]


def _never_notes(settings: Mapping[str, Any], vocabulary: VocabularyMap) -> list[str]:
    """A note on special tokens that only their answers may contain."""
    may_write = sorted({PAD, BOS} - _suppressed(settings, vocabulary))
    named = " and ".join(SPECIAL_PIECES[i] for i in may_write)
    note = f"answers never contain {named}, which transformers does not exclude"
    return [note] if may_write else []


def _suppressed(settings: Mapping[str, Any], vocabulary: VocabularyMap) -> set[int]:
    """Our ids of the special tokens that their answers never contain."""
    lists = (settings.get("suppress_tokens"), settings.get("bad_words_ids"))
    ids = {i for some in lists for i in _single_ids(some)}
    return {ours for ours, there in enumerate(vocabulary.special) if there is None or there in ids}


def spacing_notes(folder: HfFolder, tokenizer: Tokenizer) -> list[str]:
    """Whether `transformers` takes spaces out of what is spelled, as it does unless by a BPE."""
    is_json = tokenizer.settings.kind == "huggingface"
    is_bpe = is_json and parse_json(tokenizer.content)["model"]["type"] == "BPE"
    if is_bpe or not (folder.read_object(TOKENIZER_CONFIG) or {}).get(CLEANS_SPACES):
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


def _reader(folder: HfFolder) -> ConfigReader:
    """A reader of the file that has the generation settings."""
    generation = folder.read_object(GENERATION_CONFIG)
    if generation is None:
        return ConfigReader(folder.config, str(folder.path / CONFIG))
    return ConfigReader(generation, str(folder.path / GENERATION_CONFIG))
