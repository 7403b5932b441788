"""What a model attends to, and which words belong together: routes of our own."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from regard.corpora.pairs import Pair
from regard.evaluation.pharaoh import format_links
from regard.inspection.document import LookDocument
from regard.nouns import Link
from regard.serving.server.asking import check_texts, lay_out_aside, wanted
from regard.serving.server.bodies import JSON, body
from regard.serving.server.compression import answer_compressed
from regard.serving.server.refusals import RequestError
from regard.serving.server.routes.described import READING, errors, taking
from regard.serving.server.schemas import (
    Alignment,
    Alignments,
    AlignRequest,
    AttentionRequest,
    SentenceLook,
)
from regard.serving.server.service import Here, count_tokens
from regard.serving.server.tasks import Align, LookInto
from regard.text.word_units import split_units

router = APIRouter(tags=["inside"])


@router.post(
    "/attention",
    response_model=SentenceLook,
    responses=errors(*READING),
    openapi_extra=taking(AttentionRequest, JSON),
)
async def attention(
    asked: Annotated[AttentionRequest, Depends(body(AttentionRequest))],
    request: Request,
    service: Here,
) -> Response:
    """Translate a sentence of a text and show what was attended to, of every layer and head.

    `parts` are maps of weights, bytes in base64 by layer, head, row and column, 255 being 1. With
    `changes`, heads are silenced or flattened and words forced to look elsewhere; `before` is then
    the translation without that. `sentence` says which one it is, of how many `sentences`.
    """
    check_texts([asked.q], service.settings)
    served = await service.find_model(asked.source, asked.target, asked.q)
    settings = wanted(served, service.settings, alternatives=asked.alternatives, beam=asked.beam)
    task = LookInto(settings, tuple(asked.changes), asked.tree)
    async with service.in_time():
        layout = await lay_out_aside(served, [asked.q], service.settings)
        lines = layout.lines or [""]  # nothing to translate is a sentence without words
        chosen = lines[asked.sentence : asked.sentence + 1]
        if not chosen:
            raise RequestError(
                400,
                f"Invalid request: sentence {asked.sentence} is not in the text, which has "
                f"{len(lines)}, counted from 0",
            )
        costs = await count_tokens(served, chosen)
        found: list[LookDocument] = await service.run(request, served, task, chosen, costs)
    if not layout.lines:  # it comes back as it is
        found[0]["source"]["text"] = found[0]["target"]["text"] = asked.q
    look: SentenceLook = {**found[0], "sentence": asked.sentence, "sentences": len(lines)}
    return await answer_compressed(request, look)


@router.post(
    "/align",
    response_model=Alignments,
    responses=errors(*READING),
    openapi_extra=taking(AlignRequest),
)
async def align(
    asked: Annotated[AlignRequest, Depends(body(AlignRequest))], request: Request, service: Here
) -> Alignments:
    """Align texts and their translations word by word, by what the model attends to."""
    sources, targets = (
        [texts] if isinstance(texts, str) else texts for texts in (asked.q, asked.translation)
    )
    if len(sources) != len(targets):
        raise RequestError(
            400,
            f"Invalid request: {len(sources)} texts and {len(targets)} translations: send as many",
        )
    check_texts(sources, service.settings)
    check_texts(targets, service.settings)
    served = service.models.find(asked.source, asked.target)
    pairs = [Pair(*pair) for pair in zip(sources, targets, strict=True)]
    async with service.in_time():
        costs = await count_tokens(served, sources)
        found = await service.run(request, served, Align(), pairs, costs)
    return Alignments(alignments=[_show(*one) for one in zip(pairs, found, strict=True)])


def _show(pair: Pair, links: frozenset[Link]) -> Alignment:
    return Alignment(
        links=sorted(links),
        pharaoh=format_links(links),
        source_words=split_units(pair.source),
        target_words=split_units(pair.target),
    )
