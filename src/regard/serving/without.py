"""A sentence -> its translations with each head silenced, for a viewer that has no model to ask."""

from collections.abc import Iterator

from regard.decoding.settings import DecodingSettings
from regard.inspection.changes import Silenced, list_silenced
from regard.inspection.document import Without
from regard.serving.answer import Answer
from regard.serving.translator import Translator


def silence_each(
    translator: Translator, answer: Answer, settings: DecodingSettings | None = None
) -> Iterator[Without]:
    """The translations of `answer.source` without each head, and without all heads of each layer.

    They come one by one, so that whoever waits can be told how far it is; `num_silenced` says how
    many. None come of an answer that was not looked at.
    """
    for change in _changes(answer):
        [changed] = translator.translate([answer.source], settings, changes=[change], split=False)
        yield {
            "part": change.part,
            "layer": change.layer,
            "head": change.head,
            "text": changed.text,
        }


def num_silenced(answer: Answer) -> int:
    """How many translations `silence_each` makes of an answer."""
    return len(_changes(answer))


def _changes(answer: Answer) -> list[Silenced]:
    looked = answer.attention.parts if answer.attention else {}
    shapes = {part: attention.layers.shape[:2] for part, attention in looked.items()}
    return list_silenced(
        {part: dict.fromkeys(range(layers), heads) for part, (layers, heads) in shapes.items()}
    )
