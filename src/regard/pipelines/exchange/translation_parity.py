"""The outputs of translators, ours and those of `transformers`, for the same sentences."""

from collections.abc import Mapping
from random import Random
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.batching.collate import pad, pad_source
from regard.decoding.batch_search import search
from regard.decoding.constraints.rules import Constraints
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings
from regard.models.contracts import AnyGenerator
from regard.pipelines.exchange.generation_config import generate_options, generate_settings
from regard.text.build import Tokenizers
from regard.text.special_tokens import BOS, EOS, PAD, SPECIAL_PIECES
from regard.text.vocabulary_map import VocabularyMap
from regard.types import Hypothesis, Padded

LENGTHS = (1, 2, 5, 13, 29, 57)  # tokens of sources and, in reverse order, of targets
NUM_DECODED = 3  # sentences that are translated
NEW_TOKENS = 16  # of each
WIDTH = 4  # of a beam, where the run's own search is greedy
OWN_OPTIONS = (
    "early_stopping",
    "forced_eos_token_id",
    "length_penalty",
    "no_repeat_ngram_size",
    "renormalize_logits",
)
"""Options of `generate` that are read from the folder, for a search by the run's own settings."""


class SentencePairs(NamedTuple):
    """Pairs of random sentences, in our ids."""

    sources: list[list[int]]
    rows: list[list[int]]  # targets, which begin with BOS
    source_map: VocabularyMap
    opening: tuple[int, ...]  # ids that answers begin with
    search: DecodingSettings | None = None  # a beam by which they are translated too

    def source(self) -> Padded:
        return pad_source(self.sources)

    def target(self) -> Padded:
        return pad(self.rows)

    def decoded(self) -> list[list[int]]:
        """The sources that are translated."""
        return self.sources[:NUM_DECODED]


class TranslationParity:
    """Logits of all next tokens of given targets; translations by greedy search and by a beam."""

    def scores_tokens(self, model: AnyGenerator) -> bool:
        return True

    def sample(self, tokenizers: Tokenizers, model: AnyGenerator) -> SentencePairs:
        source, target = tokenizers
        assert source.vocabulary_map is not None
        rng, first, limit = Random(0), len(SPECIAL_PIECES), (model.max_length or 1 << 20) - 4
        lengths = sorted({min(length, limit) for length in LENGTHS})
        sources, targets = (
            [[*side.opening, *(rng.randrange(first, side.size) for _ in range(n))] for n in order]
            for side, order in ((source, lengths), (target, lengths[::-1]))
        )
        rows = [[BOS, *target] for target in targets]
        return SentencePairs(sources, rows, source.vocabulary_map, target.opening)

    def our_logits(self, model: AnyGenerator, sample: SentencePairs) -> Tensor:
        target = sample.target()
        return model(sample.source(), target)[target.mask]  # type: ignore[no-any-return]

    def peer_logits(self, peer: Any, sample: SentencePairs, vocabulary: VocabularyMap) -> Tensor:
        source, target = sample.source(), sample.target()
        logits: Tensor = peer(
            input_ids=_their_ids(source, sample.source_map),
            attention_mask=source.mask.long(),
            decoder_input_ids=_their_ids(target, vocabulary),
        ).logits
        return logits[target.mask]

    def other_logits(self, model: Any, peer: Any, sample: Any, vocabulary: Any) -> None:
        return None

    def our_answers(self, model: AnyGenerator, sample: SentencePairs) -> list[list[int]]:
        return [
            list(best.tokens)
            for search in (parity_settings(1), sample.search)
            if search is not None
            for best, *_ in translate_rows(model, sample.decoded(), sample.opening, search)
        ]

    def peer_answers(
        self, peer: Any, sample: SentencePairs, vocabulary: VocabularyMap
    ) -> list[list[int]]:
        own = peer.generation_config.to_dict()
        options = {name: own[name] for name in OWN_OPTIONS}
        searches = [(parity_settings(1), {}), (sample.search, options)]
        return [
            generate(
                peer, row, sample.source_map, vocabulary, sample.opening, search, options
            ).tokens
            for search, options in searches
            if search is not None
            for row in sample.decoded()
        ]


def parity_search(search: DecodingSettings) -> DecodingSettings | None:
    """A beam by the settings of a run, for short answers; None for a run that samples."""
    if search.sampling is not None:
        return None
    settings = generate_settings(search)
    size = settings.beam.size if settings.beam.size > 1 else WIDTH
    limits = {
        "max_length": NEW_TOKENS,
        "max_length_ratio": 0.0,
        "max_length_offset": NEW_TOKENS,
        "min_length": min(settings.rules.min_length, NEW_TOKENS // 2),
    }
    return DecodingSettings(
        beam=settings.beam.model_copy(update={"size": size}),
        rules=settings.rules.model_copy(update=limits),
    )


def translate_rows(
    model: AnyGenerator,
    sources: list[list[int]],
    opening: tuple[int, ...],
    settings: DecodingSettings,
) -> list[list[Hypothesis]]:
    """The n best translations of some sources; translations begin with `opening`."""
    source = pad_source(sources)
    return search(
        model,
        model.start(model.encode(source)),
        source.mask.sum(1),
        settings,
        constraints=Constraints([list(opening)] * len(sources), opening=len(opening)),
    )


def parity_settings(beam: int, n_best: int = 1, max_tokens: int = NEW_TOKENS) -> DecodingSettings:
    """A search over all tokens but PAD and BOS that `generate` supports too."""
    rules = RuleSettings(
        max_length=max_tokens,
        max_length_ratio=0.0,
        max_length_offset=max_tokens,
        allow_unknown=True,
    )
    return DecodingSettings(
        n_best=n_best, beam=BeamSettings(size=beam, length_penalty=1.0), rules=rules
    )


class PeerAnswer(NamedTuple):
    """The answer of a model of theirs."""

    tokens: list[int]  # in our ids
    score: float | None  # of a beam


def generate(
    peer: Any,
    source: list[int],
    source_map: VocabularyMap,
    vocabulary: VocabularyMap,
    opening: tuple[int, ...],
    search: DecodingSettings,
    own: Mapping[str, Any] | None = None,
) -> PeerAnswer:
    """The best translation of one source, in our ids, by a search; `own` options replace its."""
    eos, beam = vocabulary.special[EOS], search.beam.size
    options = {
        **generate_options(search, vocabulary, opening),
        **(own or {}),
        "return_dict_in_generate": True,
        "output_scores": beam > 1,
    }
    # not as arguments of `generate`, where None would mean the value of the model's own config
    peer.generation_config = type(peer.generation_config)(**options)
    ids = torch.tensor([source_map.to_theirs([*source, EOS])])
    found = peer.generate(input_ids=ids, attention_mask=torch.ones_like(ids))
    tokens = found.sequences[0, 1:].tolist()
    ended = tokens[: tokens.index(eos)] if eos in tokens else tokens
    score = float(found.sequences_scores[0]) if beam > 1 else None
    return PeerAnswer(vocabulary.to_ours(ended), score)


def _their_ids(given: Padded, vocabulary: VocabularyMap) -> Tensor:
    """Their ids of a batch (B, T); BOS is the token that their decoder begins with."""
    pad_id, start = vocabulary.special[PAD], vocabulary.start
    assert pad_id is not None  # their translators all have it
    assert start is not None
    own = {BOS: start}
    theirs = [
        own.get(i, pad_id if there is None else there) for i, there in enumerate(vocabulary.theirs)
    ]
    return torch.tensor(theirs)[given.ids].masked_fill(~given.mask, pad_id)
