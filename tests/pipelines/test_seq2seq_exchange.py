"""Translators that go to transformers and back."""

import json
import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
import torch
import transformers
from typer.testing import CliRunner

from regard.cli.main import command_app
from regard.decoding.settings import DecodingSettings
from regard.errors import RunError
from regard.pipelines.exchange.export_run import export_folder
from regard.pipelines.exchange.import_run import import_folder, usage_notes
from regard.recipes.run_folder import RunFolder
from regard.tasks.translation.pipeline import load
from regard.training.checkpoints import load_weights
from seq2seq_folders import LANGUAGES, make_bart, make_m2m100, make_marian
from servers import client

LINES = ["the cat sat on the mat .", "Jane visite l'Afrique en septembre .", "a dog"]


def test_a_run_of_ours_is_a_marian_model_that_writes_the_same_text(tiny_run, tmp_path):
    out = tmp_path / "hf"
    report = export_folder(tiny_run, out).report
    assert report.gate.refused is None
    translator = load(tiny_run, device="cpu", engine="native")
    greedy = translator.search_settings(beam=1, n_best=1)
    rules = greedy.rules.model_copy(update={"max_length": 20})
    settings = greedy.model_copy(update={"rules": rules})
    mine = [one.text for one in translator.translate(LINES, settings, split=False)]
    with pytest.warns(UserWarning, match="sacremoses"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(out)
    for line, text in zip(LINES, mine, strict=True):
        ids = tokenizer(line, return_tensors="pt")
        assert ids["input_ids"][0, :-1].tolist() == translator.source_ids([line])[0]
        found = model.generate(
            **ids,
            num_beams=1,
            forced_eos_token_id=None,
            max_new_tokens=20,
        )
        assert tokenizer.decode(found[0], skip_special_tokens=True).strip() == text.strip()
    search, said = translator.settings, json.loads((out / "generation_config.json").read_text())
    assert said["num_beams"] == search.beam.size
    assert said["length_penalty"] == search.beam.length_penalty
    back = import_folder(out, tmp_path / "back")
    assert RunFolder(back.folder).load_recipe().decoding.beam.size == search.beam.size
    weights = load_weights(back.folder / "model.safetensors")
    assert back.report.gate.refused is None
    again = export_folder(back.folder, tmp_path / "again")
    sames = [one / "model.safetensors" for one in (out, again.folder)]
    assert sames[0].read_bytes() == sames[1].read_bytes()
    assert all(torch.isfinite(one).all() for one in weights.values())


ODD_TEXTS = [
    "  two  spaces,\tand\u00a0others ",
    "One ends. Two begins! And three?",
    "con\x07trol \x01 end",
    "- item https://a.b/c {name}",
    "9 8 7",
    "a\nb",
    "😀 cat",
]


def test_an_import_answers_as_its_source_in_every_way(tmp_path: Path):
    source, out, lines = tmp_path / "source", tmp_path / "run", tmp_path / "lines.txt"
    source.mkdir()
    make_marian(source)
    config = json.loads((source / "generation_config.json").read_text())
    asked = {"renormalize_logits": True, "max_length": 12, "suppress_tokens": [pad_id(source)]}
    (source / "generation_config.json").write_text(json.dumps(config | asked))
    with pytest.warns(UserWarning, match="sacremoses"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(source)
    given = [tokenizer(text, return_tensors="pt") for text in ODD_TEXTS]
    there = [tokenizer.decode(model.generate(**one)[0], skip_special_tokens=True) for one in given]
    report = import_folder(source, out).report
    fast, native = load(out, device="cpu"), load(out, device="cpu", engine="native")
    assert (fast.engine_for(), fast.export_precision) == ("ctranslate2", "float32")
    numbers = fast.sources[0].vocabulary_map
    assert numbers is not None
    for text, ids in zip(ODD_TEXTS, given, strict=True):
        for split in (None, False):
            [line] = fast.tokenize([text], split=split)[0].lines
            assert numbers.to_theirs(line.parts[0]) == ids["input_ids"][0, :-1].tolist(), text
    assert [one.text for one in fast.translate(ODD_TEXTS)] == there
    assert [one.text for one in native.translate(ODD_TEXTS, look=True, split=False)] == there
    lines.write_text("".join(f"{text}\n" for text in ODD_TEXTS if "\n" not in text))
    shown = CliRunner().invoke(command_app("translate"), [str(out), str(lines)])
    assert shown.stdout.splitlines() == [
        one for one, text in zip(there, ODD_TEXTS, strict=True) if "\n" not in text
    ]
    with client(f"fr-en={out}") as asking:
        request = {"q": ODD_TEXTS, "source": "fr", "target": "en"}
        assert asking.post("/translate", json=request).json()["translatedText"] == there
    assert fast(" \n").text == " \n"
    assert len(fast.segment("One ends. Two begins!", split=True).lines) == 2
    [usage] = report.usage
    assert all(option in usage for option in ("--sentences", "--precision int8", "blank"))


def test_an_import_says_what_its_search_costs_and_how_to_be_faster(tmp_path: Path):
    (tmp_path / "m").mkdir()
    make_marian(tmp_path / "m")
    config = json.loads((tmp_path / "m" / "generation_config.json").read_text())
    asked = {"num_beams": 2, "renormalize_logits": True, "max_length": 12}
    (tmp_path / "m" / "generation_config.json").write_text(json.dumps(config | asked))
    run = import_folder(tmp_path / "m", tmp_path / "run")
    cost = run.report.usage[-1]
    assert "(stop is heuristic)" in cost
    assert "--engine ctranslate2" in cost
    assert cost in (run.folder / "card.md").read_text()
    assert load(run.folder, device="cpu").engine_for() == "native"
    fast = load(run.folder, device="cpu", engine="ctranslate2")
    assert (fast.engine_for(), fast.export_precision) == ("ctranslate2", "float32")
    recipe = RunFolder(run.folder).load_recipe()
    plain = DecodingSettings(rules=recipe.decoding.rules.model_copy(update={"at_limit": "behind"}))
    assert len(usage_notes(recipe.model_copy(update={"decoding": plain}))) == 1


def pad_id(folder: Path) -> int:
    return json.loads((folder / "config.json").read_text())["pad_token_id"]


@pytest.mark.parametrize("make", [make_marian, make_m2m100])
def test_import_export_import_gives_the_same_bytes(tmp_path: Path, make):
    source = tmp_path / "source"
    source.mkdir()
    make(source)
    first = import_folder(source, tmp_path / "first").folder
    exported = export_folder(first, tmp_path / "out").folder
    second = import_folder(exported, tmp_path / "second").folder
    for name in ("model.safetensors", "source.json", "source.model", "target.model"):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    config = json.loads((exported / "config.json").read_text())
    assert config["model_type"] in ("marian", "m2m_100")


@pytest.mark.parametrize("make", [make_marian, make_bart])
def test_sentences_are_as_long_as_the_model_has_positions(tmp_path: Path, make):
    """With fixed and with learned positions; 64 there, one of them for EOS."""
    (tmp_path / "m").mkdir()
    make(tmp_path / "m")
    run = import_folder(tmp_path / "m", tmp_path / "run").folder
    translator = load(run, device="cpu", engine="native")
    note = translator(" ".join(["the cat"] * 60), beam=1).notes[0]
    assert "tokens are more than the model was trained for (63); translated in" in note


def test_many_languages_need_a_choice_that_the_model_has(tmp_path: Path):
    (tmp_path / "m").mkdir()
    make_m2m100(tmp_path / "m")
    with pytest.raises(RunError, match="no language xx"):
        import_folder(tmp_path / "m", tmp_path / "run", languages={"target": "xx"})
    run = import_folder(tmp_path / "m", tmp_path / "run", languages={"target": "fr"}).folder
    target = load(run, device="cpu", engine="native").target
    assert target.encode([""]) == [list(target.opening)]
    assert target.vocabulary_map is not None
    french = len(json.loads((tmp_path / "m" / "vocab.json").read_text())) + LANGUAGES.index("fr")
    assert target.vocabulary_map.to_theirs(target.opening) == [french]
