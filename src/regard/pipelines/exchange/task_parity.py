"""The outputs of models of each task, ours and those of `transformers`, for the same sample."""

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from regard.batching.collate import pad
from regard.decoding.batch_search import search
from regard.decoding.constraints.rules import Constraints
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings
from regard.models.contracts import AnyGenerator, MaskedLanguageModel
from regard.pipelines.exchange.picture_parity import likeliest
from regard.text.build import Tokenizers
from regard.text.special_tokens import BOS, EOS, PAD, SPECIAL_PIECES
from regard.text.vocabulary_map import VocabularyMap
from regard.types import Padded

LENGTHS = (1, 2, 5, 13, 40, 128)  # tokens of the rows of a sample, up to the model's limit
NUM_DECODED = 3  # rows that are continued
NEW_TOKENS = 16  # of each


class ParitySampleRows(NamedTuple):
    """Rows of our ids, and which of two texts each token belongs to."""

    rows: list[list[int]]
    segments: list[list[int]]

    def padded(self) -> Padded:
        ids, segments = pad(self.rows), pad(self.segments)
        return Padded(ids.ids, ids.mask, None, segments.ids)


def draw_rows(
    vocabulary: VocabularyMap, limit: int | None, lines: Sequence[Sequence[int]] = ()
) -> ParitySampleRows:
    """Rows of random ids of a vocabulary, of various lengths up to `limit`, and `lines` of ids."""
    rng, first = Random(0), len(SPECIAL_PIECES)
    lengths = sorted({min(length, limit or length) for length in LENGTHS})
    rows = [[rng.randrange(first, vocabulary.size) for _ in range(length)] for length in lengths]
    rows += [list(line[:limit]) for line in lines if line]
    segments = [[int(n >= len(row) // 2) for n in range(len(row))] for row in rows]
    return ParitySampleRows(rows, segments)


def draw_framed_rows(tokenizers: Tokenizers, limit: int | None) -> ParitySampleRows:
    """Random rows of a model that reads texts between BOS and EOS."""
    assert tokenizers.source.vocabulary_map is not None
    drawn = draw_rows(tokenizers.source.vocabulary_map, limit)
    rows = [[BOS, *row[1:-1], EOS] if len(row) > 2 else row for row in drawn.rows]
    return drawn._replace(rows=rows)


class TaskParity(Protocol):
    """How models of a task are compared; logits are (N, V) of all real positions of a sample.

    `vocabulary` and `tokenizers` are those of a model that reads text.
    """

    def scores_tokens(self, model: Any) -> bool:
        """Whether the columns of its logits are tokens."""
        ...

    def sample(self, tokenizers: Any, model: Any) -> Any: ...
    def our_logits(self, model: Any, sample: Any) -> Tensor: ...
    def peer_logits(self, peer: Any, sample: Any, vocabulary: Any) -> Tensor: ...
    def other_logits(
        self, model: Any, peer: Any, sample: Any, vocabulary: Any
    ) -> tuple[Tensor, Tensor] | None:
        """Our logits and theirs of something other than tokens; None if there are none."""
        ...

    def our_answers(self, model: Any, sample: Any) -> list[list[int]]:
        """The answers of our model, in our ids."""
        ...

    def peer_answers(self, peer: Any, sample: Any, vocabulary: Any) -> list[list[int]]:
        """The answers of theirs, in our ids."""
        ...


class LanguageModelParity:
    """Logits of all next tokens; greedy continuations."""

    def scores_tokens(self, model: AnyGenerator) -> bool:
        return True

    def sample(self, tokenizers: Tokenizers, model: AnyGenerator) -> ParitySampleRows:
        assert tokenizers.source.vocabulary_map is not None
        return draw_rows(tokenizers.source.vocabulary_map, model.max_length)

    def our_logits(self, model: AnyGenerator, sample: ParitySampleRows) -> Tensor:
        given = sample.padded()
        memory = model.encode(pad([[]] * len(sample.rows), least=0))
        return model.logits(model.decode(given, memory).features)[given.mask]

    def peer_logits(self, peer: Any, sample: ParitySampleRows, vocabulary: VocabularyMap) -> Tensor:
        given = sample.padded()
        ids = their_ids(given, vocabulary)
        logits: Tensor = peer(input_ids=ids, attention_mask=given.mask.long()).logits
        return logits[given.mask]

    def other_logits(self, model: Any, peer: Any, sample: Any, vocabulary: Any) -> None:
        return None

    def our_answers(self, model: AnyGenerator, sample: ParitySampleRows) -> list[list[int]]:
        prompts = self._prompts(model.max_length, sample)
        inputs = pad([row[:-1] for row in prompts], least=0)
        found = search(
            model,
            model.start(model.encode(inputs)),
            torch.tensor([len(row) for row in prompts]),
            greedy_settings(NEW_TOKENS),
            constraints=Constraints(first=[row[-1] for row in prompts]),
        )
        return [list(best.tokens) for best, *_ in found]

    def peer_answers(
        self, peer: Any, sample: ParitySampleRows, vocabulary: VocabularyMap
    ) -> list[list[int]]:
        answers, eos = [], vocabulary.special[EOS]
        limit = getattr(peer.config, "n_positions", None)  # rotary positions have none
        for row in self._prompts(limit, sample):
            ids = torch.tensor([vocabulary.to_theirs(row)])
            tokens = peer.generate(ids, **greedy_options(vocabulary, NEW_TOKENS))[0, len(row) :]
            ended = tokens.tolist()
            ended = ended[: ended.index(eos)] if eos in ended else ended
            answers.append(vocabulary.to_ours(ended))
        return answers

    def _prompts(self, limit: int | None, sample: ParitySampleRows) -> list[list[int]]:
        """Rows that leave room for a continuation."""
        room = [row for row in sample.rows if limit is None or len(row) + NEW_TOKENS <= limit]
        return room[:NUM_DECODED]


class MaskedLanguageParity:
    """Logits at all positions and of next-sentence prediction; the likeliest token at each mask.
    An encoder without an output layer has its states (N, D) compared instead, and no answers.
    """

    def scores_tokens(self, model: MaskedLanguageModel) -> bool:
        return model.fills

    def sample(self, tokenizers: Tokenizers, model: MaskedLanguageModel) -> ParitySampleRows:
        drawn = draw_framed_rows(tokenizers, model.max_length)
        for row in drawn.rows:
            row[len(row) // 2] = model.mask_id
        return drawn

    def our_logits(self, model: MaskedLanguageModel, sample: ParitySampleRows) -> Tensor:
        inputs = sample.padded()
        logits: Tensor = model(inputs) if model.fills else model.token_states(inputs)
        return logits[inputs.mask]

    def peer_logits(self, peer: Any, sample: ParitySampleRows, vocabulary: VocabularyMap) -> Tensor:
        found = run_encoder(peer, sample, vocabulary)
        names = ("prediction_logits", "logits", "last_hidden_state")  # of three classes
        logits: Tensor = next(found[name] for name in names if name in found)
        return logits[sample.padded().mask]

    def other_logits(
        self,
        model: MaskedLanguageModel,
        peer: Any,
        sample: ParitySampleRows,
        vocabulary: VocabularyMap,
    ) -> tuple[Tensor, Tensor] | None:
        ours = model.next_sentence_logits(model.token_states(sample.padded()))
        if ours is None:
            return None
        return ours, run_encoder(peer, sample, vocabulary).seq_relationship_logits

    def our_answers(self, model: MaskedLanguageModel, sample: ParitySampleRows) -> list[list[int]]:
        return self._likeliest(self.our_logits(model, sample), sample) if model.fills else []

    def peer_answers(
        self, peer: Any, sample: ParitySampleRows, vocabulary: VocabularyMap
    ) -> list[list[int]]:
        if peer.get_output_embeddings() is None:
            return []
        found = self._likeliest(self.peer_logits(peer, sample, vocabulary), sample)
        return [vocabulary.to_ours(row) for row in found]

    def _likeliest(self, logits: Tensor, sample: ParitySampleRows) -> list[list[int]]:
        lengths = [len(row) for row in sample.rows]
        return [[int(rows[len(rows) // 2].argmax())] for rows in torch.split(logits, lengths)]


class TextClassificationParity:
    """Logits of labels of random texts and pairs; the likeliest one."""

    def scores_tokens(self, model: Any) -> bool:
        return False

    def sample(self, tokenizers: Tokenizers, model: Any) -> ParitySampleRows:
        return draw_framed_rows(tokenizers, model.max_length)

    def our_logits(self, model: Any, sample: ParitySampleRows) -> Tensor:
        logits: Tensor = model(sample.padded())
        return logits

    def peer_logits(self, peer: Any, sample: ParitySampleRows, vocabulary: VocabularyMap) -> Tensor:
        logits: Tensor = run_encoder(peer, sample, vocabulary).logits
        return logits

    def other_logits(self, model: Any, peer: Any, sample: Any, vocabulary: Any) -> None:
        return None

    def our_answers(self, model: Any, sample: ParitySampleRows) -> list[list[int]]:
        return likeliest(self.our_logits(model, sample))

    def peer_answers(
        self, peer: Any, sample: ParitySampleRows, vocabulary: VocabularyMap
    ) -> list[list[int]]:
        return likeliest(self.peer_logits(peer, sample, vocabulary))


def run_encoder(peer: Any, sample: ParitySampleRows, vocabulary: VocabularyMap) -> Any:
    """The output of their bidirectional encoder for a sample."""
    given = sample.padded()
    assert given.segments is not None
    types = given.segments.clamp_max(peer.config.type_vocab_size - 1)
    ids, mask = their_ids(given, vocabulary), given.mask.long()
    return peer(input_ids=ids, attention_mask=mask, token_type_ids=types)


def their_ids(given: Padded, vocabulary: VocabularyMap) -> Tensor:
    """Their ids of a batch (B, T); padding is their PAD, or the id 0 if they have none."""
    pad_id = vocabulary.special[PAD] or 0
    theirs = torch.tensor([pad_id if i is None else i for i in vocabulary.theirs])
    return theirs[given.ids].masked_fill(~given.mask, pad_id)


def greedy_settings(max_tokens: int) -> DecodingSettings:
    """Greedy search over all tokens but PAD and BOS."""
    rules = RuleSettings(
        max_length=max_tokens,
        max_length_ratio=0.0,
        max_length_offset=max_tokens,
        excluded="lost",
        allow_unknown=True,
    )
    return DecodingSettings(beam=BeamSettings(size=1, length_penalty=0.0), rules=rules)


def greedy_options(vocabulary: VocabularyMap, max_tokens: int) -> dict[str, Any]:
    """The options of `generate` for the same search."""
    never = [i for i in (vocabulary.special[PAD], vocabulary.special[BOS]) if i is not None]
    eos = vocabulary.special[EOS]
    return {
        "do_sample": False,
        "num_beams": 1,
        "max_new_tokens": max_tokens,
        "suppress_tokens": never or None,
        "eos_token_id": eos,
        "pad_token_id": vocabulary.special[PAD] or eos or 0,
    }
