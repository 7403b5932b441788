"""Small tokenizers for tests, and their training text."""

from functools import cache

from regard.text.build import train_tokenizer
from regard.text.ragged import flatten
from regard.text.settings import TokenizerSettings

KINDS = ("bpe", "characters", "unigram", "whitespace", "words")
SUBWORDS = ("bpe", "unigram")

TEXTS = (
    "Jane visits Africa in September.",
    "Jane visite l'Afrique en septembre !",
    "She doesn't  visit  Europe, does she?",
    "Elle a visité l'Europe\u00a0: «\u202fjamais\u202f» l'été.",
    "non\u00a0!\u00a0non\u00a0!\u00a0non\u00a0! oui\n! oui\n!",
    "हिन्दी में कुछ शब्द 東京 タワー",
    "1 2 3 12 23 123",
) * 3


@cache
def learned(kind, **changes):
    """A tokenizer of this kind, taught by `TEXTS`."""
    size = 400 if kind in SUBWORDS else 0
    return train_tokenizer(TEXTS, TokenizerSettings(**{"kind": kind, "size": size} | changes))


def sampled(tokenizer, texts, seed):
    """The ids of texts, cut at random."""
    found = tokenizer.sample_segmentation(flatten(tokenizer.encode(texts)), seed)
    return [row.tolist() for row in found.rows()]
