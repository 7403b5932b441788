"""A model of CTranslate2 becomes a run that says the same; a conversion that lies is refused."""

import json
import os
import shutil
from functools import partial
from pathlib import Path

import pytest
import sentencepiece
import torch

import regard
from regard.decoding.settings import search_settings
from regard.engines.ctranslate2.exporter import export_to
from regard.errors import DamagedError, RunError
from regard.exchange import ctranslate2_folder
from regard.exchange.ctranslate2_names import weight_places
from regard.exchange.ctranslate2_spec import write_model
from regard.exchange.tensor_table import vocabulary_rows
from regard.models.build import build_model
from regard.models.translation.transformer_settings import TransformerSettings
from regard.pipelines.exchange import from_ctranslate2
from regard.pipelines.exchange.exchange_report import REPORT
from regard.pipelines.exchange.import_run import import_folder
from regard.recipes.open_run import open_run
from seq2seq_folders import make_bart, make_marian
from tests.exchange.test_ctranslate2_spec import transformer

ctranslate2 = pytest.importorskip("ctranslate2")

DATA = Path(os.environ.get("REGARD_DATA", "/nowhere")) / "models" / "ct2-aren-transliteration"
PIECES = DATA.parent / "tokenizers" / "hf-fixtures" / "test_sentencepiece.model"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="needs models/ in $REGARD_DATA")
WORD = "آتزمون"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small model as in OpenNMT, with words for tokens."""
    place = tmp_path_factory.mktemp("ct2")
    settings = {"sinusoids": "tensor2tensor", "first_position": 1, "source_eos": False}
    model, settings = transformer(norm="pre", output_bias=True, **settings)
    write_model(model, settings, place, precision="float32", positions=300)
    return place


def refused(folder, out, reason):
    with pytest.raises(RunError, match=reason):
        import_folder(folder, out)
    assert [path.name for path in out.iterdir()] == [REPORT]


def test_a_folder_becomes_a_run_that_says_the_same(folder, tmp_path):
    run = import_folder(folder, tmp_path / "run")
    gate = run.report.gate
    assert gate.refused is None
    assert gate.float32 < 1e-5
    assert gate.same_answers == gate.answers >= 8
    source, target = open_run(run.folder, device=torch.device("cpu")).tokenizers
    assert source.pieces(*source.encode(["9 22 x"])) == ["▁9", "▁22", "<unk>"]
    assert target.decode([5, 7]) == "5 7"


def test_a_model_of_a_single_position_is_refused(tmp_path):
    settings = {"sinusoids": "tensor2tensor", "first_position": 1, "source_eos": False}
    model, settings = transformer(norm="pre", **settings)
    (tmp_path / "ct2").mkdir()
    write_model(model, settings, tmp_path / "ct2", precision="float32", positions=1)
    refused(tmp_path / "ct2", tmp_path / "run", "the sample cannot be computed")


def test_our_own_exports_come_back_with_their_tokenizers(tiny_run, tmp_path):
    run = open_run(tiny_run, device=torch.device("cpu"))
    export_to(run, "model", "float32", tmp_path / "export")
    import_folder(tmp_path / "export", tmp_path / "back")
    back = open_run(tmp_path / "back", device=torch.device("cpu"))
    assert back.tokenizers.source.fingerprint() == run.tokenizers.source.fingerprint()
    for name, weight in run.model.state_dict().items():
        assert back.model.state_dict()[name].equal(weight), name
    with (tmp_path / "export" / "model.bin").open("r+b") as file:
        file.seek(-200, os.SEEK_END)
        file.write(b"changed")
    with pytest.raises(DamagedError, match=r"model\.bin: not what was written there"):
        import_folder(tmp_path / "export", tmp_path / "damaged")


@pytest.mark.parametrize("make", [make_marian, partial(make_bart, pre_norm=True)])
def test_an_export_of_an_imported_model_comes_back_with_its_settings(make, tmp_path):
    (tmp_path / "theirs").mkdir()
    make(tmp_path / "theirs")
    search = {"num_beams": 3, "length_penalty": 1.5, "max_length": 30}
    (tmp_path / "theirs" / "generation_config.json").write_text(json.dumps(search))
    import_folder(tmp_path / "theirs", tmp_path / "run")
    run = open_run(tmp_path / "run", device=torch.device("cpu"))
    export_to(run, "model", "float32", tmp_path / "export")
    found = import_folder(tmp_path / "export", tmp_path / "back")
    back = open_run(found.folder, device=torch.device("cpu"))
    assert found.report.notes == ()
    assert back.recipe.decoding == run.recipe.decoding
    assert back.recipe.text == run.recipe.text
    unused = {"first_position": 0, "max_positions": run.recipe.model.max_positions}  # of a table
    expected = run.recipe.model.model_copy(update=unused)
    assert back.recipe.model == expected
    for name, weight in run.model.state_dict().items():
        first = run.recipe.model.first_position if name.endswith("positions.table.weight") else 0
        assert back.model.state_dict()[name].equal(weight[first:]), name


def test_what_a_folder_does_not_say_is_noted(folder, tmp_path):
    (note,) = import_folder(folder, tmp_path / "run").report.notes
    assert "name neither search settings nor" in note


@pytest.mark.parametrize("start", ["</s>", "<pad>", "5"])
def test_a_decoder_may_begin_with_any_token(start, folder, tmp_path):
    """As NLLB and Marian do: another role, or padding, which our search never writes."""
    theirs = shutil.copytree(folder, tmp_path / "theirs")
    config = json.loads((theirs / "config.json").read_text())
    (theirs / "config.json").write_text(json.dumps(config | {"decoder_start_token": start}))
    gate = import_folder(theirs, tmp_path / "run").report.gate
    assert gate.float32 < 1e-5
    assert gate.same_answers == gate.answers >= 8


def test_a_vocabulary_may_lack_padding(folder, tmp_path):
    theirs = shutil.copytree(folder, tmp_path / "theirs")
    for path in theirs.glob("*_vocabulary.json"):
        path.write_text(path.read_text().replace("<pad>", "word"))
    run = import_folder(theirs, tmp_path / "run")
    assert run.report.gate.same_answers == run.report.gate.answers
    assert open_run(run.folder, device=torch.device("cpu")).recipe.model.absent == (0,)


@pytest.mark.skipif(not PIECES.is_file(), reason="needs models/ in $REGARD_DATA")
def test_a_sentencepiece_model_beside_it_cuts_the_texts(tmp_path):
    processor = sentencepiece.SentencePieceProcessor(model_file=str(PIECES))
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    tokens = ["<s>", "</s>", *[one for one in pieces if one not in ("<s>", "</s>")][::-1]]
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    settings = TransformerSettings(preset="tiny", width=16, heads=2, embeddings="shared")
    model = build_model(settings, len(tokens), len(tokens), joint=True)
    write_model(model, settings, theirs, precision="float32", positions=30)
    for path in theirs.glob("*_vocabulary.json"):
        path.write_text(json.dumps(tokens))
    shutil.copy(PIECES, theirs / "sentencepiece.model")
    tokenizer = open_run(
        import_folder(theirs, tmp_path / "run").folder, device=torch.device("cpu")
    ).tokenizers.source
    text = "This is a test of pieces, isn't it?"
    ids = tokenizer.vocabulary_map.to_theirs(tokenizer.encode([text])[0])
    assert [tokens[i] for i in ids] == processor.encode(text, out_type=str)
    assert tokenizer.decode(tokenizer.encode([text])[0]) == processor.decode(processor.encode(text))


def swapped(settings):
    """Matrices of two layers in each other's place: their shapes are alike."""
    places = weight_places(settings)
    names = [f"encoder/layer_{n}/self_attention/linear_1/weight" for n in (0, 1)]
    turned = dict(zip(names, reversed(names), strict=True))
    return [place._replace(theirs=turned.get(place.theirs, place.theirs)) for place in places]


def shifted(vocabulary):
    rows = vocabulary_rows(vocabulary)
    return rows._replace(to_ours=lambda tensor: rows.to_ours(tensor.roll(1, 0)))


def unmoved(table):
    return {"sinusoids": "tensor2tensor", "first_position": 0}


LIES = {
    "a swapped pair of matrices": ("weight_places", swapped),
    "a wrong activation": ("ACTIVATIONS", {0: "gelu"}),
    "the first position 0 for 1": ("_find_sinusoids", unmoved),
    "a shifted vocabulary": ("vocabulary_rows", shifted),
}


@pytest.mark.parametrize("lie", LIES)
def test_planted_lies_are_refused(lie, folder, tmp_path, monkeypatch):
    name, value = LIES[lie]
    where = from_ctranslate2 if name == "vocabulary_rows" else ctranslate2_folder
    monkeypatch.setattr(where, name, value)
    refused(folder, tmp_path / "run", "not imported, as it would give other outputs")


def test_a_lost_output_bias_is_refused(folder, tmp_path, monkeypatch):
    rows = from_ctranslate2._our_rows

    def lost(weights, *maps):
        found = rows(weights, *maps)
        return found | {"embeddings.output_bias": torch.zeros_like(found["embeddings.output_bias"])}

    monkeypatch.setattr(from_ctranslate2, "_our_rows", lost)
    refused(folder, tmp_path / "run", "would give other outputs")


def test_a_transposed_matrix_is_refused(folder, tmp_path, monkeypatch):
    rows, name = from_ctranslate2._our_rows, "encoder.0.own.out.weight"

    def turned(weights, *maps):
        found = rows(weights, *maps)
        return found | {name: found[name].t().contiguous()}

    monkeypatch.setattr(from_ctranslate2, "_our_rows", turned)
    refused(folder, tmp_path / "run", "would give other outputs")


def test_a_truncated_file_is_refused_and_leaves_nothing(folder, tmp_path):
    for path in folder.iterdir():
        content = path.read_bytes()
        (tmp_path / path.name).write_bytes(content[:-9] if path.name == "model.bin" else content)
    with pytest.raises(RunError, match=r"model\.bin: not a CTranslate2 model, or damaged: it ends"):
        import_folder(tmp_path, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@needs_data
def test_published_weights_give_the_n_best_of_ctranslate2(tmp_path):
    run = import_folder(DATA, tmp_path / "run")
    assert run.report.gate.float32 < 1e-4
    translator = regard.load(run.folder, engine="native", device="cpu")
    search = search_settings(translator.settings, beam=4, n_best=4, length_penalty=1.0)
    found = translator(WORD, settings=search).candidates
    engine = ctranslate2.Translator(str(DATA), compute_type="float32", intra_threads=1)
    options = {"beam_size": 4, "num_hypotheses": 4, "return_scores": True}
    [theirs] = engine.translate_batch([list(WORD)], **options)
    assert [one.text for one in found] == ["".join(one) for one in theirs.hypotheses]
    assert [one.text for one in found][:3] == ["atzmon", "atzumon", "atzmun"]
    scores = torch.tensor([one.score for one in found])
    torch.testing.assert_close(scores, torch.tensor(theirs.scores), atol=1e-4, rtol=0)
    assert scores[0] == pytest.approx(-0.1517, abs=1e-4)
