"""Marian, M2M100, BART and mBART with random weights compute here what they do in transformers."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import transformers

from hostile_lines import hostile_lines
from regard.decoding.settings import MAX_BEAM, BeamSettings, DecodingSettings, SamplingSettings
from regard.errors import RunError
from regard.exchange.huggingface.families import find_family
from regard.exchange.huggingface.family import HfModel
from regard.exchange.huggingface.folder import HfFolder
from regard.exchange.huggingface.translators.generation import search_groups
from regard.exchange.huggingface.translators.language_tokens import read_language_tokenizers
from regard.models.build import build_model
from regard.models.contracts import AnyGenerator
from regard.pipelines.exchange.gate import compare, load_generation_config, load_peer
from regard.pipelines.exchange.translation_parity import (
    TranslationParity,
    generate,
    parity_settings,
    translate_rows,
)
from regard.text.build import (
    Tokenizers,
    extend_tokenizers,
    load_tokenizers,
    save_tokenizers,
)
from regard.text.vocabulary_map import VocabularyMap
from seq2seq_folders import (
    LANGUAGE_TOKENIZERS,
    make_bart,
    make_m2m100,
    make_marian,
)

MARIAN: dict[str, dict[str, Any]] = {
    "swish, scaled, as published": {
        "activation_function": "swish",
        "scale_embedding": True,
        "classif_dropout": 0.0,
        "_num_labels": 3,
    },
    "two vocabularies": {"separate": True, "activation_function": "relu"},
    "two vocabularies, untied": {"separate": True, "tie_word_embeddings": False},
    "untied": {"tie_word_embeddings": False, "encoder_ffn_dim": 9, "decoder_attention_heads": 4},
    "odd width": {"d_model": 15, "encoder_attention_heads": 3, "decoder_attention_heads": 3},
    "deep decoder": {"decoder_layers": 3, "encoder_layers": 1, "activation_function": "gelu_new"},
}
M2M100: dict[str, dict[str, Any]] = {
    "defaults": {},
    "unscaled": {"scale_embedding": False, "activation_function": "silu"},
    "untied": {"tie_word_embeddings": False, "activation_function": "gelu"},
    "odd width": {"d_model": 15, "encoder_attention_heads": 5, "decoder_attention_heads": 5},
    "no unused rows": {"unused_rows": 0, "decoder_layers": 2},
    "unlike sides": {"encoder_attention_heads": 1, "decoder_ffn_dim": 9},
}
BART: dict[str, dict[str, Any]] = {
    "defaults": {},
    "relu, scaled": {"activation_function": "relu", "scale_embedding": True},
    "untied": {"tie_word_embeddings": False},
    "mbart": {"pre_norm": True, "scale_embedding": True},
    "mbart, gelu_new": {"pre_norm": True, "activation_function": "gelu_new"},
    "mbart, untied": {"pre_norm": True, "tie_word_embeddings": False, "d_model": 20},
}
CASES = [
    pytest.param(make, switches, id=f"{make.__name__.removeprefix('make_')}: {name}")
    for make, cases in ((make_marian, MARIAN), (make_m2m100, M2M100), (make_bart, BART))
    for name, switches in cases.items()
]


class Imported(NamedTuple):
    folder: HfFolder
    described: HfModel
    model: AnyGenerator
    peer: Any


def read(path: Path) -> Imported:
    folder = HfFolder(path)
    described = find_family(folder).read(folder)
    tensors = folder.tensors()
    tokenizers = described.tokenizers
    assert tokenizers is not None
    sizes = tokenizers.source.size, tokenizers.target.size
    model = build_model(described.settings, *sizes, joint=tokenizers.joint).eval()  # type: ignore[arg-type]
    model.load_state_dict(described.table.to_ours(tensors))
    return Imported(folder, described, model, load_peer(folder, described, tensors))


@pytest.mark.parametrize(("make", "switches"), CASES)
def test_logits_searches_and_tensors_are_the_same(
    tmp_path: Path, make: Callable[..., None], switches: dict[str, Any]
) -> None:
    make(tmp_path, **switches)
    folder, described, model, peer = read(tmp_path)
    tokenizers = described.tokenizers
    assert tokenizers is not None
    search = DecodingSettings.model_validate(described.recipe["decoding"])
    report = compare(find_family(folder), peer, model, tokenizers, "transformers", search)
    assert report.refused is None
    assert report.same_answers == report.answers == 6
    model.double(), peer.double()
    sample = TranslationParity().sample(tokenizers, model)
    target_map = tokenizers.target.vocabulary_map
    assert target_map is not None
    found = translate_rows(model, sample.sources[1:4], sample.opening, parity_settings(3))
    for row, (best, *_) in zip(sample.sources[1:4], found, strict=True):
        theirs = generate(
            peer, row, sample.source_map, target_map, sample.opening, parity_settings(3)
        )
        assert list(best.tokens) == theirs.tokens
        assert best.score == pytest.approx(theirs.score, abs=1e-6)

    ours = described.table.to_ours(folder.tensors())
    again = described.table.to_ours(described.table.to_theirs(ours))
    assert all(torch.equal(ours[name], again[name]) for name in ours)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pad_token_id": 1}, r"pad_token_id is 1, eos_token_id 0, and <unk> has the id 1"),
        ({"vocab_size": 4}, r"vocab_size is 4: must be a number of tokens from 5"),
    ],
)
def test_ids_that_cannot_be_those_of_special_tokens_are_refused(
    tmp_path: Path, change: dict[str, int], message: str
) -> None:
    make_marian(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | change))
    folder = HfFolder(tmp_path)
    with pytest.raises(RunError, match=message):
        find_family(folder).read(folder)


TAGGED = [">>de<< the cat", ">>xx<< unknown tag", "a >>de<< inside", "▁the ▁▁cat"]
LINES = [*TAGGED, *hostile_lines(1996)]
EOS = 3


def check_same_ids(tokenizers: Tokenizers, peer: Any, sides: Sequence[str] = ("text",)) -> None:
    """The ids of all lines, with EOS after each, are the same on both sides."""
    for side, key in zip(tokenizers, sides, strict=False):
        mapped = side.vocabulary_map
        assert mapped is not None
        wanted = peer(**{key: LINES}, verbose=False)["input_ids"]
        for text, ids, theirs in zip(LINES, side.encode(LINES), wanted, strict=True):
            assert mapped.to_theirs([*ids, EOS]) == theirs, repr(text)


@pytest.mark.parametrize("separate", [False, True])
def test_marian_tokenizers_give_the_same_ids(tmp_path: Path, separate: bool) -> None:
    make_marian(tmp_path, separate=separate)
    folder = HfFolder(tmp_path)
    tokenizers = find_family(folder).read(folder).tokenizers
    assert tokenizers is not None
    save_tokenizers(tokenizers, tmp_path)
    tokenizers = load_tokenizers(tmp_path)
    with pytest.warns(UserWarning, match="sacremoses"):
        peer = transformers.MarianTokenizer.from_pretrained(tmp_path)
    check_same_ids(tokenizers, peer, ("text", "text_target"))
    for text in LINES[:40]:
        assert len(tokenizers.source.surfaces(text)) == len(tokenizers.source.encode([text])[0])
    texts = ["plaintiff"] * 9, ["Kläger"] * 9
    grown = extend_tokenizers(tokenizers, *(partial(list, some) for some in texts), 20)
    assert grown.joint == tokenizers.joint
    for old, new, [text, *_] in zip(tokenizers, grown, texts, strict=True):
        assert new.row_names()[: old.size] == old.row_names()
        assert new.size > old.size
        assert new.decode(new.encode([text])[0]) == text
        assert len(new.encode([text])[0]) == 1


@pytest.mark.parametrize("kind", ["m2m100", "nllb", "mbart50", "bart"])
def test_tokenizers_with_languages_give_the_same_ids(tmp_path: Path, kind: str) -> None:
    """Those of NLLB, mBART-50 and BART from `tokenizer.json` alone."""
    peer = LANGUAGE_TOKENIZERS[kind](tmp_path)
    assert (tmp_path / "tokenizer.json").exists() == (kind != "m2m100")
    check_same_ids(read_language_tokenizers(HfFolder(tmp_path)), peer)


@pytest.mark.parametrize("kind", ["m2m100", "nllb", "mbart50", "bart"])
def test_decoded_text_has_no_special_tokens(tmp_path: Path, kind: str) -> None:
    """It is what transformers decodes, and a language has a name, but no text."""
    peer = LANGUAGE_TOKENIZERS[kind](tmp_path)
    tokenizers = read_language_tokenizers(HfFolder(tmp_path))
    target = tokenizers.target
    assert target.vocabulary_map is not None
    if kind != "bart":
        [language] = target.opening
        assert target.decode(target.opening) == ""
        code = peer.convert_ids_to_tokens(target.vocabulary_map.to_theirs(target.opening))
        assert target.pieces([language]) == [target.row_names()[language]] == code
        assert target.words()[language] == code[0]
    for text in ("the cat sat on the mat", "Jane visite l'Afrique"):
        ids = tokenizers.source.encode([text])[0]
        inside = [*ids[:3], *target.opening, *ids[3:]]  # as a model may write it again
        theirs = target.vocabulary_map.to_theirs([*inside, EOS])
        assert target.decode(inside) == peer.decode(theirs, skip_special_tokens=True)


def test_languages_are_numbered_by_the_list_that_the_settings_refer_to(tmp_path: Path) -> None:
    """Not by the special tokens that they name, as transformers 5 may name none."""
    peer = LANGUAGE_TOKENIZERS["m2m100"](tmp_path)
    path = tmp_path / "tokenizer_config.json"
    config = json.loads(path.read_text()) | {"src_lang": "fr", "tgt_lang": "en"}
    for named in ([], ["__zu__", "__fr__"]):
        path.write_text(json.dumps(config | {"extra_special_tokens": named}))
        openings = [one.vocabulary_map.to_theirs(one.opening) for one in read_sides(tmp_path)]
        assert openings == [[peer.get_lang_id("fr")], [peer.get_lang_id("en")]]
    path.write_text(json.dumps(config | {"language_codes": "xx"}))
    with pytest.raises(RunError, match="language_codes is 'xx'; known are m2m100 and wmt21"):
        read_sides(tmp_path)


def read_sides(folder: Path) -> Any:
    return read_language_tokenizers(HfFolder(folder))


def test_mbart_without_a_tokenizer_json_is_told_how_to_get_one(tmp_path: Path) -> None:
    LANGUAGE_TOKENIZERS["mbart50"](tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "sentencepiece.bpe.model").write_bytes(b"")
    with pytest.raises(RunError, match=r"read from tokenizer\.json, which this writes: python"):
        read_sides(tmp_path)


def test_marian_files_that_cannot_be_its_tokenizer_are_refused(tmp_path: Path) -> None:
    make_marian(tmp_path)
    (tmp_path / "source.spm").write_bytes(b"")
    with pytest.raises(RunError, match=r"source\.spm: not a SentencePiece model: it is empty"):
        read(tmp_path)
    (tmp_path / "vocab.json").write_text('{"a": 0}')
    with pytest.raises(RunError, match=r"vocab\.json: has no <unk>"):
        read(tmp_path)
    (tmp_path / "vocab.json").write_text('{"a": 0, "<unk>": 1}')
    with pytest.raises(RunError, match=r"vocab\.json: has no </s>"):
        read(tmp_path)


def test_the_first_mbart_is_refused_by_name(tmp_path: Path) -> None:
    LANGUAGE_TOKENIZERS["first mbart"](tmp_path)
    with pytest.raises(RunError, match="sources end with </s> and their language"):
        read_language_tokenizers(HfFolder(tmp_path))


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("m2m100", {"vocab_size": 20}),
        ("nllb", {"vocab_size": 20}),
        ("bart", {"forced_bos_token_id": 10_000}),
        ("bart", {"forced_bos_token_id": -1}),
    ],
)
def test_a_first_token_beyond_the_vocabulary_is_refused(
    tmp_path: Path, kind: str, change: dict[str, int]
) -> None:
    LANGUAGE_TOKENIZERS[kind](tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(RunError, match="its texts begin with the id"):
        read_language_tokenizers(HfFolder(tmp_path))


def write_generation(folder: Path, **values: Any) -> None:
    (folder / "generation_config.json").write_text(json.dumps(values))


def read_search(folder: Path, positions: int = 64) -> DecodingSettings:
    """With the special ids of BART."""
    vocabulary = VocabularyMap(special=(1, 3, None, 2), rows=90, start=2)
    return DecodingSettings.model_validate(search_groups(HfFolder(folder), vocabulary, positions))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_beams", 0),
        ("num_beams", "x"),
        ("num_beams", MAX_BEAM + 1),
        ("length_penalty", -1.0),
        ("length_penalty", 1e9),
        ("length_penalty", True),
        ("max_length", 0),
        ("max_length", -5),
        ("no_repeat_ngram_size", -1),
        ("min_length", -1),
        ("min_new_tokens", 1.5),
        ("max_new_tokens", 0),
        ("early_stopping", "x"),
        ("early_stopping", 1),
        ("forced_eos_token_id", 5),
        ("no_repeat_ngram_size", 1),
    ],
)
def test_a_search_that_cannot_be_honoured_is_refused_by_name(
    tmp_path: Path, name: str, value: object
) -> None:
    (tmp_path / "config.json").write_text("{}")
    write_generation(tmp_path, **{name: value})
    with pytest.raises(RunError, match=rf"generation_config\.json: {name} is {value!r}: "):
        read_search(tmp_path)
    (tmp_path / "generation_config.json").unlink()  # as older folders have it
    (tmp_path / "config.json").write_text(json.dumps({name: value}))
    with pytest.raises(RunError, match=rf"/config\.json: {name} is {value!r}: "):
        read_search(tmp_path)


def test_a_search_is_that_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"num_beams": 9, "length_penalty": 2}')
    write_generation(tmp_path, num_beams=MAX_BEAM, max_length=8, no_repeat_ngram_size=None)
    found = read_search(tmp_path)  # its config.json is then not read
    assert found.beam == BeamSettings(size=MAX_BEAM, length_penalty=1.0, stop="heuristic")
    assert (found.rules.max_length, found.rules.no_repeat_ngram) == (7, 0)
    assert found.rules.limit(1) == 7
    assert (found.rules.excluded, found.rules.at_limit) == ("lost", "ranked")
    write_generation(tmp_path, renormalize_logits=True, suppress_tokens=[3], forced_eos_token_id=2)
    rules = read_search(tmp_path).rules
    assert (rules.excluded, rules.at_limit, rules.allow_unknown) == ("spread", "eos", False)
    assert (rules.max_length, rules.limit(1), read_search(tmp_path, 9).rules.max_length) == (
        20,
        19,
        8,
    )
    (tmp_path / "generation_config.json").unlink()
    assert (read_search(tmp_path).beam.size, read_search(tmp_path).beam.length_penalty) == (9, 2.0)


def test_lengths_and_sampling_are_those_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    write_generation(tmp_path, min_length=6, max_new_tokens=9, num_beams=2, do_sample=True)
    rules = read_search(tmp_path).rules
    assert (rules.min_length, rules.max_length) == (5, 9)
    write_generation(tmp_path, min_length=9, min_new_tokens=2, do_sample=True, top_p=0.5)
    found = read_search(tmp_path)
    assert found.rules.min_length == 2
    assert found.sampling == SamplingSettings(temperature=1.0, top_k=50, top_p=0.5)
    write_generation(tmp_path, do_sample=True, temperature=0.0)
    with pytest.raises(RunError, match=r"generation_config\.json: temperature is 0\.0: it must be"):
        read_search(tmp_path)


PUBLISHED: dict[str, tuple[dict[str, Any], tuple[int, int, int], tuple[Any, ...]]] = {
    "Helsinki-NLP/opus-mt-en-de": (
        {"num_beams": 4, "max_length": 512, "renormalize_logits": True, "forced_eos_token_id": 0}
        | {"bad_words_ids": [[58100]]},
        (58100, 1, 0),
        (4, 1.0, "heuristic", 0, 511, 0, "spread", "eos"),
    ),
    "facebook/nllb-200-distilled-600M": (
        {"max_length": 200},
        (1, 3, 2),
        (1, 1.0, "heuristic", 0, 199, 0, "lost", "ranked"),
    ),
    "facebook/m2m100_418M": (
        {"num_beams": 5, "max_length": 200, "early_stopping": True},
        (1, 3, 2),
        (5, 1.0, "size", 0, 199, 0, "lost", "ranked"),
    ),
    "facebook/mbart-large-50-many-to-many-mmt": (
        {"num_beams": 5, "max_length": 200, "early_stopping": True, "forced_eos_token_id": 2},
        (1, 3, 2),
        (5, 1.0, "size", 0, 199, 0, "lost", "eos"),
    ),
    "facebook/bart-large-cnn": (
        {"num_beams": 4, "max_length": 142, "min_length": 56, "length_penalty": 2.0}
        | {"early_stopping": True, "no_repeat_ngram_size": 3, "forced_eos_token_id": 2}
        | {"forced_bos_token_id": 0},
        (1, 3, 2),
        (4, 2.0, "size", 55, 141, 3, "lost", "eos"),
    ),
}
"""Generation settings as they are published, the ids of PAD, UNK and EOS -> the search of a run."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_searches_of_published_models(tmp_path: Path, name: str) -> None:
    values, (pad, unk, eos), expected = PUBLISHED[name]
    start = pad if pad > eos else eos
    ids = {"pad_token_id": pad, "eos_token_id": eos, "decoder_start_token_id": start}
    (tmp_path / "config.json").write_text("{}")
    write_generation(tmp_path, **values, **ids)
    vocabulary = VocabularyMap(special=(pad, unk, None, eos), rows=pad + 90, start=start)
    found = DecodingSettings.model_validate(search_groups(HfFolder(tmp_path), vocabulary, 1024))
    beam, rules = found.beam, found.rules
    lengths = rules.min_length, rules.max_length, rules.no_repeat_ngram
    ends = rules.excluded, rules.at_limit
    assert (beam.size, beam.length_penalty, beam.stop, *lengths, *ends) == expected


OPUS = {"num_beams": 4, "max_length": 30, "renormalize_logits": True, "forced_eos_token_id": 0}
SEARCHES: dict[str, tuple[Callable[..., None], dict[str, Any]]] = {
    "opus-mt": (make_marian, OPUS),
    "opus-mt, short": (make_marian, {**OPUS, "max_length": 7}),
    "a limit without EOS": (make_marian, {"num_beams": 4, "max_length": 7, "early_stopping": True}),
    "never": (make_marian, {"num_beams": 3, "max_length": 20, "early_stopping": "never"}),
    "bart-large-cnn": (
        partial(make_bart, max_position_embeddings=64),
        {"num_beams": 4, "max_length": 24, "min_length": 12, "length_penalty": 2.0}
        | {"early_stopping": True, "no_repeat_ngram_size": 3, "forced_eos_token_id": 2},
    ),
    "mbart-50": (
        partial(make_bart, pre_norm=True),
        {"num_beams": 5, "max_length": 20, "early_stopping": True, "forced_eos_token_id": 2},
    ),
    "m2m100": (make_m2m100, {"num_beams": 5, "max_length": 20, "early_stopping": True}),
    "nllb": (make_m2m100, {"max_length": 20}),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_beams_are_those_of_transformers(tmp_path: Path, name: str) -> None:
    """All of a beam, with its scores, for settings as published models have them."""
    make, given = SEARCHES[name]
    make(tmp_path)
    raw = json.loads((tmp_path / "config.json").read_text())
    ids = {name: raw[f"{name}_token_id"] for name in ("pad", "eos", "decoder_start")}
    opening = [12] if make is not make_marian else []
    write_generation(
        tmp_path,
        **{f"{name}_token_id": i for name, i in ids.items()},
        **given,
        suppress_tokens=[ids["pad"]],
        forced_bos_token_id=opening[0] if opening else None,
    )
    folder, described, model, peer = read(tmp_path)
    assert described.tokenizers is not None
    target_map = described.tokenizers.target.vocabulary_map
    assert target_map is not None
    read_settings = DecodingSettings.model_validate(described.recipe["decoding"])
    size = read_settings.beam.size
    settings = read_settings.model_copy(update={"n_best": size})
    if make is not make_m2m100:  # so that answers have various lengths
        with torch.no_grad():
            model.embeddings.output_bias[EOS] = peer.final_logits_bias[0, ids["eos"]] = 2.5
    peer.generation_config = load_generation_config(folder)
    model.double(), peer.double()
    sources = TranslationParity().sample(described.tokenizers, model).sources
    found = translate_rows(model, sources, tuple(target_map.to_ours(opening)), settings)
    for row, hypotheses in zip(sources, found, strict=True):
        theirs = peer.generate(
            torch.tensor([target_map.to_theirs([*row, EOS])]),
            num_return_sequences=size,
            return_dict_in_generate=True,
            output_scores=size > 1,
        )
        for tokens, best in zip(theirs.sequences[:, 1:].tolist(), hypotheses, strict=True):
            ended = tokens[: tokens.index(ids["eos"])] if ids["eos"] in tokens else tokens
            assert target_map.to_ours(ended) == list(best.tokens)
        if size > 1:
            scores = [one.score for one in hypotheses]
            assert scores == pytest.approx(theirs.sequences_scores.tolist(), abs=1e-5)


def test_what_no_search_has_is_noted_and_another_first_token_is_refused(tmp_path: Path) -> None:
    make_marian(tmp_path)
    pad = json.loads((tmp_path / "config.json").read_text())["pad_token_id"]
    without_effect = {"repetition_penalty": 1.0, "bad_words_ids": [[pad], [0]], "max_length": 9}
    start = {"eos_token_id": 0, "decoder_start_token_id": pad}
    write_generation(tmp_path, **without_effect, **start, suppress_tokens=[1])
    assert read(tmp_path).described.notes == ()
    asked = {"repetition_penalty": 1.3, "bad_words_ids": [[5, 6]], "forced_bos_token_id": 7}
    asked |= {"suppress_tokens": [pad, 0], "do_sample": True}
    write_generation(tmp_path, **start, **asked, num_beams=2, max_length=9)
    notes = read(tmp_path).described.notes
    assert {note.partition(" is ")[0] for note in notes} == {*asked}
    write_generation(tmp_path, **start | {"eos_token_id": [0, 5]})
    assert [note[:26] for note in read(tmp_path).described.notes] == [
        "its generation settings do",
        "answers never contain <pad",
        "eos_token_id is also 5 in ",
    ]
    tokenizer = json.loads((tmp_path / "tokenizer_config.json").read_text())
    tokenizer["clean_up_tokenization_spaces"] = True
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    assert "removes spaces before marks" in read(tmp_path).described.notes[-1]
    for name in ("decoder_start_token_id", "bos_token_id"):
        write_generation(tmp_path, **{name: 4})
        with pytest.raises(RunError, match=f"{name} is 4: answers begin with it; .* {pad}"):
            read(tmp_path)


def test_what_a_class_does_not_read_is_refused_by_name(tmp_path: Path) -> None:
    make_marian(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    for name, value in (
        ("normalize_before", True),
        ("activation_function", "prelu"),
        ("decoder_start_token_id", 10_000),
        ("some_switch", 1),
    ):
        path.write_text(json.dumps({**config, name: value}))
        with pytest.raises(RunError, match=name):
            read(tmp_path)


@pytest.mark.parametrize("make", [make_marian, make_m2m100])
def test_an_answer_has_no_space_at_its_ends(make: Any, tmp_path: Path) -> None:
    make(tmp_path)
    folder = HfFolder(tmp_path)
    tokenizers = find_family(folder).read(folder).tokenizers
    assert tokenizers is not None
    target = tokenizers.target
    word, space = target.encode(["the"])[0][len(target.opening) :], target.encode(["a  a"])[0]
    ends = [i for i in space if target.pieces([i]) == ["▁"]][:1]
    assert target.decode([*ends, *word, *ends]) == "the"


def test_an_m2m100_whose_answers_begin_with_padding_is_refused_by_name(tmp_path: Path) -> None:
    make_m2m100(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "decoder_start_token_id": config["pad_token_id"]}))
    with pytest.raises(RunError, match=r"decoder_start_token_id is .* has no position"):
        read(tmp_path)


# as `save_pretrained` keeps them of folders that older versions wrote, such as those of OPUS-MT
FORMER_SETTINGS = {
    "_num_labels": 3,
    "classif_dropout": 0.0,
    "extra_pos_embeddings": 53685,
    "force_bos_token_to_be_generated": False,
    "is_decoder": True,
}


def test_former_settings_that_no_class_reads_are_passed_over(tmp_path: Path) -> None:
    make_marian(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text()) | FORMER_SETTINGS
    settings = find_family(HfFolder(tmp_path)).read(HfFolder(tmp_path)).settings
    path.write_text(json.dumps(config))
    assert find_family(HfFolder(tmp_path)).read(HfFolder(tmp_path)).settings == settings
    path.write_text(json.dumps(config | {"force_bos_token_to_be_generated": True}))
    with pytest.raises(RunError, match="force_bos_token_to_be_generated is True"):
        find_family(HfFolder(tmp_path)).read(HfFolder(tmp_path))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("model.encoder.layers.0.fc1.weight", lambda x: x.flip(0)),
        ("model.shared.weight", lambda x: x.roll(1, 0)),
        ("final_logits_bias", torch.zeros_like),
    ],
)
def test_a_lie_is_found(
    tmp_path: Path, name: str, change: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    make_marian(tmp_path)
    folder, described, model, peer = read(tmp_path)
    tensors = folder.tensors()
    model.load_state_dict(described.table.to_ours({**tensors, name: change(tensors[name])}))
    assert described.tokenizers is not None
    report = compare(find_family(folder), peer, model, described.tokenizers, "transformers")
    assert report.refused is not None
