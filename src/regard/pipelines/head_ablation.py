"""A sentence -> its translations with each head silenced, for a viewer that has no model to ask."""

from collections.abc import Iterator

from regard.decoding.settings import DecodingSettings
from regard.inspection.interventions import Silenced, list_head_ablations
from regard.pipelines.answer import Answer
from regard.pipelines.translator import Translator
from regard.pipelines.viewer_document import HeadAblation


def ablate_each_head(
    translator: Translator, answer: Answer, settings: DecodingSettings | None = None
) -> Iterator[HeadAblation]:
    """The translations of `answer.source` without each head, and without all heads of each layer.

    They come one by one, so that whoever waits can be told how far it is; `num_silenced` says how
    many. None come of an answer that was not looked at.
    """
    for change in _list_ablations(answer):
        [ablated] = translator.translate([answer.source], settings, changes=[change], split=False)
        yield {
            "part": change.part,
            "layer": change.layer,
            "head": change.head,
            "text": ablated.text,
        }


def num_ablations(answer: Answer) -> int:
    """How many translations `silence_each` makes of an answer."""
    return len(_list_ablations(answer))


def _list_ablations(answer: Answer) -> list[Silenced]:
    maps_by_part = answer.attention.parts if answer.attention else {}
    shapes = {part: attention.layers.shape[:2] for part, attention in maps_by_part.items()}
    return list_head_ablations(
        {part: dict.fromkeys(range(layers), heads) for part, (layers, heads) in shapes.items()}
    )
