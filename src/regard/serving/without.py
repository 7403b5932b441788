"""A sentence -> its translations with each head silenced, for a viewer that has no model to ask."""

from collections.abc import Iterator

from regard.decoding.search import DecodingSettings
from regard.inspection.changes import Silenced
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
        [changed] = translator.translate([answer.source], settings, changes=[change])
        yield {
            "part": change.part,
            "layer": change.layer,
            "head": change.head,
            "text": changed.text,
        }


def num_silenced(answer: Answer) -> int:
    """How many translations `silence_each` makes of an answer."""
    return sum(1 for _ in _changes(answer))


def _changes(answer: Answer) -> Iterator[Silenced]:
    """One for each head; a layer of one head is not named twice."""
    for part, attention in answer.attention.parts.items() if answer.attention else ():
        num_layers, num_heads = attention.layers.shape[:2]
        for layer in range(num_layers):
            if num_heads > 1:
                yield Silenced(part, layer)
            for head in range(num_heads):
                yield Silenced(part, layer, head)
