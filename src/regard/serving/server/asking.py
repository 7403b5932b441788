"""What may be asked for, and what it means for the search."""

from collections.abc import Sequence
from functools import partial

from regard.decoding.settings import DecodingSettings
from regard.serving.searching import search_settings
from regard.serving.server.detection import Guess
from regard.serving.server.layout import Layout, lay_out
from regard.serving.server.models import Served
from regard.serving.server.refusals import RequestError
from regard.serving.server.schemas import Detected
from regard.serving.server.service import aside
from regard.serving.server.settings import ServerSettings


def wanted(
    served: Served, settings: ServerSettings, *, alternatives: int, beam: int | None = None
) -> DecodingSettings:
    """How to search: as the recipe says, but always by a beam, so that alike gives alike."""
    if alternatives > settings.max_alternatives:
        raise RequestError(
            400, f"Invalid request: alternatives must be at most {settings.max_alternatives}"
        )
    if beam is not None and beam > settings.max_beam:
        raise RequestError(400, f"Invalid request: beam must be at most {settings.max_beam}")
    recipe = served.translator.settings
    width = max(beam or recipe.beam.size, alternatives + 1)
    return search_settings(recipe, beam=width, n_best=alternatives + 1)


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


async def lay_out_aside(served: Served, texts: Sequence[str], settings: ServerSettings) -> Layout:
    """The sentences of texts, or their lines where the model takes those whole."""
    segment = partial(served.translator.segment, split=settings.sentences)
    work = partial(lay_out, texts, segment)
    return await aside(sum(map(len, texts)), work)


def detected(guess: Guess | None) -> Detected | None:
    """What a client is told of a guess."""
    if guess is None:
        return None
    # three digits that count, so that what is not 0 is not told as 0
    return Detected(confidence=float(f"{guess.confidence:.3g}"), language=guess.language)
