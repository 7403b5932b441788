"""What a model attends to, and which words belong together: routes of our own."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from regard.corpora.corpus import Pair
from regard.evaluation.pharaoh import format_links
from regard.pipelines.viewer_document import ViewerDocument
from regard.server.batch_functions import AlignPairs, RecordAttention
from regard.server.errors import RequestError
from regard.server.middleware.compression import compressed_json
from regard.server.request_options import check_texts, decoding_settings, segment_texts_async
from regard.server.request_parsing import JSON, body
from regard.server.routes.openapi_responses import BODY_ERRORS, errors, request_body
from regard.server.schemas import (
    AlignRequest,
    AlignResponse,
    AttentionRequest,
    SentenceAttention,
    WordAlignment,
)
from regard.server.service import ServiceDep, count_tokens
from regard.text.word_units import split_units
from regard.types import Link

router = APIRouter(tags=["inside"])


@router.post(
    "/attention",
    response_model=SentenceAttention,
    responses=errors(*BODY_ERRORS),
    openapi_extra=request_body(AttentionRequest, JSON),
)
async def attention(
    payload: Annotated[AttentionRequest, Depends(body(AttentionRequest))],
    request: Request,
    service: ServiceDep,
) -> Response:
    """Translate a sentence of a text and show what was attended to, of every layer and head.

    `parts` are maps of weights, bytes in base64 by layer, head, row and column, 255 being 1. With
    `changes`, heads are silenced or flattened and words forced to look elsewhere; `before` is then
    the translation without that. `sentence` says which one it is, of how many `sentences`.
    """
    check_texts([payload.q], service.settings)
    served = await service.find_model(payload.source, payload.target, payload.q)
    settings = decoding_settings(
        served, service.settings, alternatives=payload.alternatives, beam=payload.beam
    )
    function = RecordAttention(settings, tuple(payload.changes), payload.tree)
    async with service.time_limit():
        segmented = await segment_texts_async(served, [payload.q], service.settings)
        lines = segmented.lines or [""]  # nothing to translate is a sentence without words
        chosen = lines[payload.sentence : payload.sentence + 1]
        if not chosen:
            raise RequestError(
                400,
                f"Invalid request: sentence {payload.sentence} is not in the text, which has "
                f"{len(lines)}, counted from 0",
            )
        costs = await count_tokens(served, chosen)
        found: list[ViewerDocument] = await service.run(request, served, function, chosen, costs)
    if not segmented.lines:  # it comes back as it is
        found[0]["source"]["text"] = found[0]["target"]["text"] = payload.q
    look: SentenceAttention = {**found[0], "sentence": payload.sentence, "sentences": len(lines)}
    return await compressed_json(request, look)


@router.post(
    "/align",
    response_model=AlignResponse,
    responses=errors(*BODY_ERRORS),
    openapi_extra=request_body(AlignRequest),
)
async def align(
    payload: Annotated[AlignRequest, Depends(body(AlignRequest))],
    request: Request,
    service: ServiceDep,
) -> AlignResponse:
    """Align texts and their translations word by word, by what the model attends to."""
    sources, targets = (
        [texts] if isinstance(texts, str) else texts for texts in (payload.q, payload.translation)
    )
    if len(sources) != len(targets):
        raise RequestError(
            400,
            f"Invalid request: {len(sources)} texts and {len(targets)} translations: send as many",
        )
    check_texts(sources, service.settings)
    check_texts(targets, service.settings)
    served = service.models.find(payload.source, payload.target)
    pairs = [Pair(*pair) for pair in zip(sources, targets, strict=True)]
    async with service.time_limit():
        costs = await count_tokens(served, sources)
        found = await service.run(request, served, AlignPairs(), pairs, costs)
    return AlignResponse(
        alignments=[_word_alignment(*one) for one in zip(pairs, found, strict=True)]
    )


def _word_alignment(pair: Pair, links: frozenset[Link]) -> WordAlignment:
    return WordAlignment(
        links=sorted(links),
        pharaoh=format_links(links),
        source_words=split_units(pair.source),
        target_words=split_units(pair.target),
    )
