"""One text translated with its attention recorded, and changed where asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from regard.decoding.tracing.search_tree import SearchTreeObserver
from regard.engines.translation_request import TranslationRequest
from regard.errors import SettingsError
from regard.inspection.interventions import InterventionRequest, resolve_requests
from regard.pipelines.answer import Answer
from regard.text.preprocess import part_id

if TYPE_CHECKING:  # it imports this module, in a function
    from regard.pipelines.translator import Translator


def look_at(
    translator: Translator,
    text: str,
    request: TranslationRequest,
    changes: Sequence[InterventionRequest],
    split: bool | None,
    *,
    tree: bool = False,
) -> Answer:
    """The answer to `text` with its attention under `changes`, with `tree` also with its search."""
    if changes:
        plain = look_at(translator, text, request, (), split)
        if plain.attention is None:
            raise SettingsError(
                f"{text!r}: there is no sentence in it whose attention could change"
            )
        cross = plain.attention.parts.get("cross")
        resolved, interventions = resolve_requests(changes, cross)
        request = replace(request, changes=interventions)
        changed = look_at(translator, text, request, (), split, tree=tree)
        return replace(changed, changes=tuple(resolved), before=plain)
    observer = SearchTreeObserver()
    observers = (*request.observers, observer) if tree else request.observers
    request = replace(request, look=True, observers=observers)
    [answer] = translator.answer([text], request, split=split)
    if not tree or answer.attention is None:
        return answer
    first = answer.attention.with_search_tree(observer.trees[part_id(0, 0)], translator.target)
    best, *others = answer.ranked_attentions
    best = tuple(first if one is answer.attention else one for one in best)
    return replace(answer, attention=first, ranked_attentions=(best, *others))
