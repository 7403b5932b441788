"""Held-out sentences that training has with other punctuation."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from regard.corpora.cleaning.pair_filters import CHUNK
from regard.corpora.corpus import Corpus, Pair, SplitName
from regard.corpora.dedup import hash_texts
from regard.corpora.splits import HELD_OUT, comparison_key, punctuationless_key
from regard.iterate import chunked

_WORD_CHARACTER = re.compile(r"\w")


class NearLeak(NamedTuple):
    """Sources of a held-out split that train has too, but for case, spacing and punctuation."""

    split: SplitName
    total: int
    sources: int
    """Those alone that train does not have with the same punctuation."""
    example: str


def find_near_leaks(corpus: Corpus) -> tuple[NearLeak, ...]:
    """How many sources of each held-out split train has but for punctuation; it is read once."""
    held_out = {name: _sources(corpus.splits[name]()) for name in HELD_OUT if name in corpus.splits}
    texts = [text for some in held_out.values() for text in some]
    if not texts:
        return ()
    without_marks, same = (
        hash_texts(map(punctuationless_key, texts)),
        hash_texts(map(comparison_key, texts)),
    )
    seen = np.zeros((2, len(texts)), np.bool_)
    for chunk in chunked(corpus.splits["train"](), CHUNK):
        sources = [pair.source for pair in chunk]
        seen[0] |= np.isin(without_marks, hash_texts(map(punctuationless_key, sources)))
        seen[1] |= np.isin(same, hash_texts(map(comparison_key, sources)))
    near, start, found = seen[0] & ~seen[1], 0, []
    for name, some in held_out.items():
        places = np.flatnonzero(near[start : start + len(some)])
        example = some[places[0]] if len(places) else ""
        found.append(NearLeak(name, len(some), len(places), example))
        start += len(some)
    return tuple(found)


def _sources(pairs: Iterable[Pair]) -> Sequence[str]:
    """Those that hold a letter or digit."""
    return [pair.source for pair in pairs if _WORD_CHARACTER.search(pair.source)]
