"""Sentences with addresses and placeholders -> their translations, with these as they were.

They are held while the sentence around them is translated, as where markup is kept (`markup`); tags
are text here.
"""

from collections.abc import Sequence
from itertools import islice

from regard.engines.engine import TranslationRequest
from regard.pipelines.answer import Answer, Candidate
from regard.pipelines.markup.markup_translator import MarkupTranslator
from regard.pipelines.translator import Translator
from regard.text.preprocess import PreparedText
from regard.text.segmentation import Segments, holds_codes


def translate_protected(
    translator: Translator, sentences: Sequence[str], request: TranslationRequest
) -> list[Answer]:
    """The answer to each sentence, with its addresses and placeholders: one candidate each."""
    carrier = MarkupTranslator(
        translator,
        request.settings,
        split=False,
        forbidden=request.forbidden,
        unknown=request.unknown,
        tags=False,
    )
    return [
        Answer(sentence, (one.candidate,), one.notes)
        for sentence, one in zip(sentences, carrier.translate_texts(sentences), strict=True)
    ]


def translate_with_protected(
    translator: Translator,
    prepared: Sequence[PreparedText],
    request: TranslationRequest,
) -> list[Answer]:
    """The answer to each text; what its sentences hold of addresses and placeholders is kept."""
    segmented = [one.lines[0].segments for one in prepared]
    sentences = [line for one in segmented for line in one.lines]
    is_protected = [holds_codes(line) for line in sentences]
    protected_answers = iter(
        translate_protected(translator, _select(sentences, is_protected, True), request)
    )
    plain_answers = iter(
        translator.answer(_select(sentences, is_protected, False), request, split=False)
    )
    rest = iter([next(protected_answers if one else plain_answers) for one in is_protected])
    return [
        _join_answers(one.text, segments, list(islice(rest, len(segments.lines))))
        for one, segments in zip(prepared, segmented, strict=True)
    ]


def _select(sentences: Sequence[str], is_protected: Sequence[bool], which: bool) -> list[str]:
    return [line for line, one in zip(sentences, is_protected, strict=True) if one is which]


def _join_answers(text: str, segments: Segments, answers: Sequence[Answer]) -> Answer:
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
