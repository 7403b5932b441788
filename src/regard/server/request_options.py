"""What may be asked for, and what it means for the search."""

from collections.abc import Sequence
from functools import partial

from regard.decoding.search_options import search_settings
from regard.decoding.settings import DecodingSettings
from regard.server.errors import RequestError
from regard.server.language_detection import LanguageGuess
from regard.server.models import ServedModel
from regard.server.schemas import DetectedLanguage
from regard.server.segmented_texts import SegmentedTexts, segment_texts
from regard.server.service import maybe_to_thread
from regard.server.settings import ServerSettings


def decoding_settings(
    served: ServedModel, settings: ServerSettings, *, alternatives: int, beam: int | None = None
) -> DecodingSettings:
    """How to search: as the recipe says, but always by a beam, so that alike gives alike."""
    if alternatives > settings.max_alternatives:
        raise RequestError(
            400, f"Invalid request: alternatives must be at most {settings.max_alternatives}"
        )
    if beam is not None and beam > settings.max_beam:
        raise RequestError(400, f"Invalid request: beam must be at most {settings.max_beam}")
    recipe = served.translator.settings
    beam_size = max(beam or recipe.beam.size, alternatives + 1)
    return search_settings(recipe, beam=beam_size, n_best=alternatives + 1)


def check_texts(texts: Sequence[str], settings: ServerSettings) -> None:
    """A refusal of too many texts, or of texts that are too long together."""
    if len(texts) > settings.max_texts:
        raise RequestError(
            400, f"Invalid request: {len(texts)} texts exceed the limit of {settings.max_texts}"
        )
    length = sum(map(len, texts))
    if length > settings.max_characters:
        raise RequestError(
            400,
            f"Invalid request: request ({length}) exceeds text limit ({settings.max_characters})",
        )


async def segment_texts_async(
    served: ServedModel, texts: Sequence[str], settings: ServerSettings
) -> SegmentedTexts:
    """The sentences of texts, or their lines where the model takes those whole."""
    segment = partial(served.translator.segment, split=settings.sentences)
    segment_all = partial(segment_texts, texts, segment)
    return await maybe_to_thread(sum(map(len, texts)), segment_all)


def detected_language(guess: LanguageGuess | None) -> DetectedLanguage | None:
    """What a client is told of a guess."""
    if guess is None:
        return None
    # three digits that count, so that what is not 0 is not told as 0
    return DetectedLanguage(confidence=float(f"{guess.confidence:.3g}"), language=guess.language)
