"""Sentences with addresses and placeholders -> their translations, with these as they were.

They are held while the sentence around them is translated, as where markup is kept (`markup`); tags
are text here.
"""

from collections.abc import Sequence
from itertools import islice

from regard.serving.answer import Answer, Candidate
from regard.serving.engine import Wanted
from regard.serving.markup import Carrier
from regard.serving.translator import Translator
from regard.text.segments import InputSettings, Segments, holds_codes, segment


def carry_codes(translator: Translator, sentences: Sequence[str], wanted: Wanted) -> list[Answer]:
    """The answer to each sentence, with its addresses and placeholders: one candidate each."""
    carrier = Carrier(
        translator,
        wanted.settings,
        split=False,
        forbidden=wanted.forbidden,
        unknown=wanted.unknown,
        tags=False,
    )
    return [
        Answer(sentence, (one.candidate,), one.notes)
        for sentence, one in zip(sentences, carrier.carry(sentences), strict=True)
    ]


def answer_held(
    translator: Translator, texts: Sequence[str], wanted: Wanted, settings: InputSettings
) -> list[Answer]:
    """The answer to each text; what its sentences hold of addresses and placeholders is kept."""
    taken_apart = [segment(text, settings) for text in texts]
    sentences = [line for one in taken_apart for line in one.lines]
    held = [holds_codes(line) for line in sentences]
    carried = iter(carry_codes(translator, _chosen(sentences, held, True), wanted))
    plain = iter(translator.answer(_chosen(sentences, held, False), wanted, split=False))
    rest = iter([next(carried if one else plain) for one in held])
    return [
        _join(text, one, list(islice(rest, len(one.lines))))
        for text, one in zip(texts, taken_apart, strict=True)
    ]


def _chosen(sentences: Sequence[str], held: Sequence[bool], which: bool) -> list[str]:
    return [line for line, one in zip(sentences, held, strict=True) if one is which]


def _join(text: str, segments: Segments, answers: Sequence[Answer]) -> Answer:
    """The answer to a text, made of those to its sentences; one with fewer gives its last."""
    candidates = []
    for rank in range(max(len(one.candidates) for one in answers)):
        chosen = [one.candidates[min(rank, len(one.candidates) - 1)] for one in answers]
        candidates.append(
            Candidate(
                segments.join([one.text for one in chosen]),
                sum(one.score for one in chosen),
                sum(one.log_probability for one in chosen),
            )
        )
    notes = dict.fromkeys(note for one in answers for note in one.notes)
    return Answer(text, tuple(candidates), tuple(notes))
