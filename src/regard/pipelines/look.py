"""One text translated with its attention recorded, and changed where asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from regard.decoding.tracing.search_tree import SearchTreeObserver
from regard.engines.engine import TranslationRequest
from regard.errors import SettingsError
from regard.inspection.interventions import InterventionRequest, resolve_requests
from regard.pipelines.answer import Answer
from regard.text.preprocess import part_id

if TYPE_CHECKING:  # it imports this module, in a function
    from regard.pipelines.translator import Translator


def look(
    translator: Translator,
    text: str,
    request: TranslationRequest,
    changes: Sequence[InterventionRequest],
    split: bool | None,
    *,
    tree: bool,
) -> Answer:
    """The answer to `text` with its attention, and with what `changes` do to it."""
    if not changes:
        return _look(translator, text, request, split, tree=tree)
    plain = _look(translator, text, request, split)
    if plain.attention is None:
        raise SettingsError(f"{text!r}: there is no sentence in it whose attention could change")
    cross = plain.attention.parts.get("cross")
    resolved = resolve_requests(changes, cross)
    request = replace(request, changes=resolved.interventions)
    changed = _look(translator, text, request, split, tree=tree)
    return replace(changed, changes=resolved.requests, before=plain)


def _look(
    translator: Translator,
    text: str,
    request: TranslationRequest,
    split: bool | None,
    *,
    tree: bool = False,
) -> Answer:
    """One answer with its attention, and with the search it came from where asked for."""
    growing = SearchTreeObserver()
    observers = (*request.observers, growing) if tree else request.observers
    [answer] = translator.answer(
        [text], replace(request, look=True, observers=observers), split=split
    )
    if not tree or answer.attention is None:
        return answer
    grown = growing.trees[part_id(0, 0)]
    first = answer.attention.with_search_tree(grown, translator.target)
    kept = [first if one is answer.attention else one for one in answer.attentions]
    return replace(answer, attention=first, attentions=tuple(kept))
