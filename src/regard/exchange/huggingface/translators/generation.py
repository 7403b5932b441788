"""How a folder's model generates text -> the search of a run."""

from regard.exchange.huggingface.config import ConfigReader
from regard.exchange.huggingface.folder import CONFIG, HfFolder, JsonObject

GENERATION_CONFIG = "generation_config.json"
DEFAULT_MAX_LENGTH = 20  # of `transformers`: not what a folder asks for
MAX_ANSWER = 512  # tokens, where a folder does not say how long an answer may be
MAX_BEAMS, MAX_LENGTH_PENALTY = 1000, 5.0  # what a run can have


def generation_settings(folder: HfFolder) -> JsonObject:
    """How the folder's model generates text: older folders say so in `config.json`."""
    return {**folder.config, **(folder.read_object(GENERATION_CONFIG) or {})}


def search_groups(folder: HfFolder) -> JsonObject:
    """The search that a folder asks for, as the settings of a recipe; a `RunError` names a value
    that a run cannot have.
    """
    beams = _reader(folder, "num_beams")
    size = beams.get("num_beams", int, 1)
    if not 1 <= size <= MAX_BEAMS:
        raise beams.refusal("num_beams", f"it must be from 1 to {MAX_BEAMS:,}")
    penalties = _reader(folder, "length_penalty")
    penalty = penalties.get("length_penalty", float, 1.0)
    if not 0 <= penalty <= MAX_LENGTH_PENALTY:
        raise penalties.refusal(
            "length_penalty", f"only those from 0 to {MAX_LENGTH_PENALTY:g} can be imported"
        )
    repeats = _reader(folder, "no_repeat_ngram_size")
    ngram = repeats.get("no_repeat_ngram_size", int, 0)
    if ngram < 0:
        raise repeats.refusal("no_repeat_ngram_size", "it must be 0 or more")
    return {
        "beam": {"size": size, "length_penalty": penalty},
        "rules": {
            "max_length": _max_length(folder),
            "max_length_ratio": 4.0,
            "max_length_offset": 50,
            "no_repeat_ngram": ngram,
        },
    }


def _max_length(folder: HfFolder) -> int:
    """The most tokens of an answer: theirs counts the token that decoding starts from."""
    lengths = _reader(folder, "max_length")
    longest = lengths.get("max_length", int, DEFAULT_MAX_LENGTH)
    if longest < 2:
        raise lengths.refusal("max_length", "it must be 2 or more, as it counts the first token")
    return MAX_ANSWER if longest == DEFAULT_MAX_LENGTH else longest - 1


def _reader(folder: HfFolder, name: str) -> ConfigReader:
    """A reader of the file that has a setting."""
    generation = folder.read_object(GENERATION_CONFIG) or {}
    if name in generation:
        return ConfigReader(generation, str(folder.path / GENERATION_CONFIG))
    return ConfigReader(folder.config, str(folder.path / CONFIG))
