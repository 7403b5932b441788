"""Routes of our own: the attention weights of a translation, and word alignments."""

from functools import partial

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse

from regard.corpora.corpus import Pair
from regard.evaluation.pharaoh import format_links
from regard.server.batch_functions import AlignPairs, RecordAttention
from regard.server.errors import RequestError, invalid_request
from regard.server.openapi import describe_body
from regard.server.request_parsing import JSON, read_body
from regard.server.schemas import (
    AlignRequest,
    AlignResponse,
    AttentionRequest,
    SentenceAttention,
    WordAlignment,
)
from regard.server.service import ServiceDep, token_costs
from regard.text.word_units import split_units

router = APIRouter(tags=["inside"])


@router.post(
    "/attention", response_model=SentenceAttention, **describe_body(AttentionRequest, JSON)
)
async def attention(request: Request, service: ServiceDep) -> Response:
    """Translate a sentence of a text and return the attention of every layer and head.

    `parts` are maps of weights by layer: bytes in base64 by head, row and column, where 255 is the
    largest weight of the row, given in `peaks`; and queries and keys if the layer has them. With
    `changes`, heads are silenced or flattened and words forced to attend elsewhere; `before` is
    then the translation without these changes. `sentence` is the number of the sentence, from 0, of
    `sentences`.
    """
    payload = await read_body(request, service, AttentionRequest)
    service.check_texts([payload.q])
    [(served, _)] = await service.find_models(payload.source, payload.target, [payload.q])
    if served is None:
        message = f"the text is already in {payload.target}, so nothing is translated"
        raise RequestError(400, f"{message}; name its source")
    translator = served.translator
    settings = service.decoding_settings(translator, payload.alternatives, payload.beam)
    function = RecordAttention(translator, settings, tuple(payload.changes), payload.tree)
    async with service.time_limit(request):
        segment = partial(service.segment, translator, [payload.q])
        segmented = await service.prepare(request, served, len(payload.q), segment)
        lines = segmented.lines or [""]  # a text without sentences: an empty document
        chosen = lines[payload.sentence : payload.sentence + 1]
        if not chosen:
            message = f"sentence {payload.sentence} is not in the text, which has {len(lines)}"
            raise invalid_request(f"{message}, counted from 0")
        tokenize = partial(translator.tokenize, chosen, split=False)
        costs = token_costs(await service.compute(sum(map(len, chosen)), tokenize))
        [document] = await service.run(request, served, function, chosen, costs)
    if not segmented.lines:  # the text is returned unchanged
        document["source"]["text"] = document["target"]["text"] = payload.q
    return JSONResponse({**document, "sentence": payload.sentence, "sentences": len(lines)})


@router.post("/align", **describe_body(AlignRequest))
async def align(request: Request, service: ServiceDep) -> AlignResponse:
    """Align texts and their translations word by word, from the model's attention."""
    payload = await read_body(request, service, AlignRequest)
    sources, targets = (
        [texts] if isinstance(texts, str) else texts for texts in (payload.q, payload.translation)
    )
    if len(sources) != len(targets):
        raise invalid_request(f"{len(sources)} texts and {len(targets)} translations: send as many")
    service.check_texts(sources)
    service.check_texts(targets)
    served = service.models.find(payload.source, payload.target)
    translator = served.translator
    pairs = [Pair(*pair) for pair in zip(sources, targets, strict=True)]
    async with service.time_limit(request):
        tokenize = partial(translator.tokenize, sources, split=False)
        length = sum(map(len, sources))
        costs = token_costs(await service.prepare(request, served, length, tokenize))
        aligned = await service.run(request, served, AlignPairs(translator), pairs, costs)
    alignments = [
        WordAlignment(
            links=sorted(links),
            pharaoh=format_links(links),
            source_words=split_units(pair.source),
            target_words=split_units(pair.target),
        )
        for pair, links in zip(pairs, aligned, strict=True)
    ]
    return AlignResponse(alignments=alignments)
