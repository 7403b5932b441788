"""A folder with CTranslate2's `model.bin` -> a model to import."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.atomic_io import read_limited
from regard.batching.collate import collate_targets, pad_source
from regard.decoding.batch_search import SearchMember, one_thread, search_many
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings
from regard.engines.ctranslate2.availability import why_ctranslate2_unavailable
from regard.engines.ctranslate2.export_artifact import ExportCard, read_export
from regard.errors import RegardError, RunError, TextError
from regard.exchange.ctranslate2_file import MODEL_FILE
from regard.exchange.ctranslate2_folder import (
    Ct2Config,
    Ct2Model,
    read_ct2_folder,
    restore_settings,
)
from regard.exchange.tensor_table import vocabulary_rows
from regard.manifest import sha256_of_file
from regard.models.contracts import AnyGenerator
from regard.pipelines.exchange.foreign_model import ForeignModel
from regard.pipelines.exchange.gate import (
    FLOAT32_TOLERANCE,
    GateReport,
    largest_difference,
    refusal,
)
from regard.recipes.open_run import Run, open_run
from regard.recipes.paths import EXPORT_INFO
from regard.settings import abbreviate
from regard.text.build import VOCAB_TOKENIZERS, Tokenizers, load_tokenizers
from regard.text.mapped_sentencepiece import MappedSentencePieceTokenizer, PieceTable
from regard.text.segmentation import VERBATIM
from regard.text.settings import TokenizerSettings
from regard.text.special_tokens import BOS, EOS, PAD, SPECIAL_PIECES, UNK, token_labels
from regard.text.tokenizer import Tokenizer
from regard.text.vocabulary_map import VocabularyMap

PIECE_FILES = ("sentencepiece.bpe.model", "sentencepiece.model", "spm.model")  # of both sides
PADDING = ("<blank>", "<pad>", "[PAD]")  # toolkits' spellings; CTranslate2 itself has no padding
SOURCE_LENGTHS = (1, 2, 5, 13, 40)  # tokens of a sample's sources
TARGET_TOKENS = 2048  # tokens of the vocabulary that a sample's targets hold, at most
TARGET_LENGTH = 32
NUM_DECODED = 8
BEAM = 4
MAX_TOKENS = 24  # of the answers that are compared
SEARCH_BUDGET = 2048  # positions that are searched at a time
NO_SEARCH = (
    "CTranslate2's folders name neither search settings nor the dropout of training: the run has "
    "the defaults of `decoding`, and no dropout",
)


class _Side(NamedTuple):
    """The vocabulary of one side."""

    tokens: list[str]  # in the order of CTranslate2's rows
    ids: VocabularyMap

    def names(self, row: Sequence[int]) -> list[str]:
        """CTranslate2's tokens for our ids."""
        return [self.tokens[i] for i in self.ids.to_theirs(row)]


def read_ctranslate2(folder: Path) -> ForeignModel:
    model = read_ct2_folder(folder)
    if reason := why_ctranslate2_unavailable():
        raise RunError(f"{folder}: importing needs CTranslate2, to compare outputs: {reason}")
    ours = (folder / EXPORT_INFO).is_file() and _has_labels(model)
    source, target = _own_sides(model) if ours else _sides(folder, model)
    tokenizers = _own_tokenizers(folder, model) if ours else _tokenizers(folder, source, target)
    settings = model.settings.model_copy(
        update={"absent": target.ids.absent, "decoder_start": target.ids.our_start}
    )
    weights = _our_rows(model.weights, source.ids, target.ids)
    card = export.card if ours and (export := read_export(folder)) is not None else None
    if card is not None and card.model is not None:
        settings, weights = restore_settings(card.model, settings, weights)

    def check(place: Path) -> GateReport:
        run = open_run(place, device=torch.device("cpu"))
        try:
            return _check(folder, run, (source, target), model.positions)
        except (IndexError, RuntimeError, ValueError) as error:  # too few positions or tokens
            refused = f"the sample cannot be computed: {abbreviate(str(error))}"
            return GateReport(reference="CTranslate2", refused=refused)

    return ForeignModel(
        format="CTranslate2",
        about="a model of CTranslate2",
        settings=settings,
        weights=weights,
        digests={MODEL_FILE: sha256_of_file(folder / MODEL_FILE)},
        check=check,
        tokenizers=tokenizers,
        recipe={
            "corpus": {"imported": True},
            "text": _text_settings(tokenizers),
            **_search_groups(card),
        },
        notes=NO_SEARCH if card is None else (),
    )


def _has_labels(model: Ct2Model) -> bool:
    """Whether the vocabularies consist of ids, as in our own exports."""
    sides, start = (model.source_tokens, model.target_tokens), model.config.decoder_start_token
    return start in SPECIAL_PIECES and all(tokens == token_labels(len(tokens)) for tokens in sides)


def _own_sides(model: Ct2Model) -> tuple[_Side, _Side]:
    """The vocabularies of one of our exports: rows are in the order of our ids."""
    start = SPECIAL_PIECES.index(model.config.decoder_start_token or SPECIAL_PIECES[BOS])
    source, target = (
        _Side(tokens, VocabularyMap(special=(PAD, UNK, BOS, EOS), rows=len(tokens), start=start))
        for tokens in (model.source_tokens, model.target_tokens)
    )
    return source, target


def _search_groups(card: ExportCard | None) -> dict[str, Any]:
    """The groups of a recipe that say how the run of an export translates."""
    if card is None:
        return {"input": VERBATIM.model_dump(mode="json")}
    groups = {"decoding": card.decoding, "input": card.input}
    return {name: one.model_dump(mode="json") for name, one in groups.items() if one is not None}


def _sides(folder: Path, model: Ct2Model) -> tuple[_Side, _Side]:
    """The vocabularies of source and target; the same object if they are equal."""
    target = _Side(model.target_tokens, _vocabulary_map(folder, model.target_tokens, model.config))
    if target.ids.special[BOS] is None and target.ids.start is None:
        name = model.config.decoder_start_token
        raise RunError(f"{folder}: its target vocabulary has no {name!r}, which begins a text")
    if model.source_tokens == model.target_tokens:
        return target, target
    if model.settings.embeddings == "shared":
        raise RunError(f"{folder}: one matrix embeds both vocabularies, but these differ")
    return _Side(
        model.source_tokens, _vocabulary_map(folder, model.source_tokens, model.config)
    ), target


def _vocabulary_map(folder: Path, tokens: list[str], config: Ct2Config) -> VocabularyMap:
    ids = {token: number for number, token in enumerate(tokens)}
    start, eos = ids.get(config.decoder_start_token or ""), ids.get(config.eos_token)
    if eos is None:
        raise RunError(f"{folder}: a vocabulary has no {config.eos_token!r}, which ends a text")
    unknown, padding = ids[config.unk_token], (ids[name] for name in PADDING if name in ids)
    pad = next((i for i in padding if i not in (start, eos, unknown)), None)
    if start in (eos, unknown):  # our BOS is a copy of that token
        return VocabularyMap(special=(pad, unknown, None, eos), rows=len(tokens), start=start)
    return VocabularyMap(special=(pad, unknown, start, eos), rows=len(tokens))


def _our_rows(
    weights: dict[str, Tensor], source: VocabularyMap, target: VocabularyMap
) -> dict[str, Tensor]:
    """The weights, with rows of tokens in our order."""
    changes = {
        "embeddings.source": vocabulary_rows(source),
        "embeddings.target": vocabulary_rows(target),
        "embeddings.output": vocabulary_rows(target),
        "embeddings.output_bias": vocabulary_rows(target),
    }
    return {
        name: changes[name].to_ours(tensor) if name in changes else tensor
        for name, tensor in weights.items()
    }


def _own_tokenizers(folder: Path, model: Ct2Model) -> Tokenizers:
    """The tokenizers of one of our exports."""
    try:
        found = load_tokenizers(folder)
    except RegardError as error:
        raise RunError(f"{folder}: an export whose tokenizers cannot be read: {error}") from None
    sizes = len(model.source_tokens), len(model.target_tokens)
    if (found.source.size, found.target.size) != sizes:
        raise RunError(f"{folder}: its tokenizers have other sizes than its vocabularies")
    return found


def _tokenizers(folder: Path, source: _Side, target: _Side) -> Tokenizers:
    """The tokenizers of SentencePiece models in a folder.

    Without these, CTranslate2's own tokens: characters if all are single characters, or else words
    between spaces.
    """
    models = [_find_pieces(folder, side) for side in ("source", "target")]
    if source is target and models[0] == models[1]:
        both = _tokenizer(source, models[0])
        return Tokenizers(both, both)
    return Tokenizers(_tokenizer(source, models[0]), _tokenizer(target, models[1]))


def _find_pieces(folder: Path, side: str) -> Path | None:
    """The SentencePiece model of a side: CTranslate2's converters can copy it into the folder."""
    names = (f"{side}.spm", *PIECE_FILES)
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _tokenizer(side: _Side, pieces: Path | None) -> Tokenizer:
    if pieces is not None:
        settings = TokenizerSettings(kind="sentencepiece", size=side.ids.size, form="none")
        table = PieceTable({token: number for number, token in enumerate(side.tokens)})
        try:
            model = read_limited(pieces, "json")
            return MappedSentencePieceTokenizer(model, table, settings, side.ids)
        except (OSError, TextError) as error:
            raise RunError(f"{pieces}: cannot be read: {error}") from None
    own = side.names(range(len(SPECIAL_PIECES), side.ids.size))
    single = all(len(token) == 1 for token in own)
    kind, space = ("characters", "") if single else ("whitespace", " ")
    settings = TokenizerSettings.model_validate({"kind": kind, "size": 0, "form": "none"})
    return VOCAB_TOKENIZERS[kind]([f"{space}{token}" for token in own], settings)


def _text_settings(tokenizers: Tokenizers) -> dict[str, Any]:
    joint = tokenizers.source is tokenizers.target
    sides = {"source": tokenizers.source} if joint else tokenizers._asdict()
    return {
        "joint": joint,
        **{name: one.settings.model_dump(mode="json") for name, one in sides.items()},
    }


# -- the gate ---------------------------------------------------------------------------------


def _check(folder: Path, run: Run, sides: tuple[_Side, _Side], positions: int | None) -> GateReport:
    """Compare log-probabilities of random texts, whose targets cover a small vocabulary, and then
    the answers of greedy and beam search.
    """
    from regard.engines.ctranslate2.reference import Ct2Reference  # ctranslate2

    reference, model, (source, target) = Ct2Reference(folder), run.model, sides
    sources, targets = _sample(source.ids, target.ids, positions)
    names = [source.names(row) for row in sources], [target.names(row) for row in targets]
    theirs = torch.tensor([x for row in reference.log_probabilities(*names) for x in row])
    with one_thread():
        difference = largest_difference(_log_probabilities(model, sources, targets), theirs)
    answers: list[bool] = []
    limit = min(MAX_TOKENS, positions or MAX_TOKENS)
    for beam in (1, BEAM):
        answers += _compare_answers(
            model, reference, sources[:NUM_DECODED], sides, beam=beam, limit=limit
        )
    return GateReport(
        reference=f"{reference.name}, in float32",
        rows=len(sources),
        positions=len(theirs),
        float32=difference,
        answers=len(answers),
        same_answers=sum(answers),
        refused=refusal(
            {"float32": difference}, float(theirs.abs().max()), sum(answers), len(answers)
        ),
    )


def _sample(
    source: VocabularyMap, target: VocabularyMap, longest: int | None
) -> tuple[list[list[int]], list[list[int]]]:
    """Rows of our ids: sources of various lengths, and targets that together have each token once,
    or `TARGET_TOKENS` of them.
    """
    rng, first = Random(0), len(SPECIAL_PIECES)
    tokens = rng.sample(range(first, target.size), min(TARGET_TOKENS, target.size - first))
    length = min(TARGET_LENGTH, (longest or TARGET_LENGTH + 1) - 1)
    targets = [tokens[i : i + length] for i in range(0, len(tokens), length)]
    targets += [rng.choices(tokens, k=min(5, length)) for _ in range(NUM_DECODED - len(targets))]
    limit = (longest or 1 << 30) - 1
    lengths = [min(limit, SOURCE_LENGTHS[n % len(SOURCE_LENGTHS)]) for n in range(len(targets))]
    return [rng.choices(range(first, source.size), k=length) for length in lengths], targets


@torch.inference_mode()
def _log_probabilities(
    model: AnyGenerator, sources: list[list[int]], targets: list[list[int]]
) -> Tensor:
    """Log-probabilities of all tokens of the targets, and of EOS after each: (N,)."""
    decoder = collate_targets(targets)
    memory = model.encode(pad_source(sources))
    logits = model.logits(model.decode(decoder.given, memory).features)  # (B, T, V)
    rows = logits.log_softmax(-1).flatten(0, 1)[decoder.positions]  # (N, V)
    return rows.gather(1, decoder.labels[:, None])[:, 0]


def _compare_answers(
    model: AnyGenerator,
    reference: Any,
    sources: list[list[int]],
    sides: tuple[_Side, _Side],
    *,
    beam: int,
    limit: int,
) -> list[bool]:
    """Whether both sides find the same n best, or n best of equal scores, for each source.

    Sources for which a beam did not end are left out.
    """
    source, target = sides
    rules = RuleSettings(
        max_length=limit, max_length_offset=limit, allow_unknown=True, excluded="spread"
    )
    beams = BeamSettings(size=beam, length_penalty=1.0)
    settings = DecodingSettings(beam=beams, rules=rules, n_best=beam)
    with one_thread():
        found = search_many([SearchMember(model, sources)], settings, budget=SEARCH_BUDGET)
    never = [target.tokens[i] for i in (target.ids.special[k] for k in (PAD, BOS)) if i is not None]
    peers = reference.search(
        [source.names(row) for row in sources],
        beam=beam,
        n_best=beam,
        limit=limit,
        never=never,
    )
    eos = target.names([EOS])
    same = []
    for ours, theirs in zip(found, peers, strict=True):
        ended = all(one.finished for one in ours) and all(
            list(one.tokens[-1:]) == eos for one in theirs
        )
        if beam > 1 and not ended:  # engines rank truncated hypotheses differently
            continue
        tokens = (
            [[*target.names(one.tokens), *(eos if one.finished else ())] for one in ours],
            [list(one.tokens) for one in theirs],
        )
        gaps = [abs(one.score - two.score) for one, two in zip(ours, theirs, strict=False)]
        alike = len(ours) == len(theirs) and max(gaps) <= FLOAT32_TOLERANCE
        same.append(tokens[0] == tokens[1] or alike)
    return same
