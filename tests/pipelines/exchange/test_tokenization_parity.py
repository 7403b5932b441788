"""An imported run cuts texts as `transformers` does, whose classes change what a file says."""

import json
import shutil
from pathlib import Path

import pytest

from hf_folders import save_folder
from regard.errors import RegardError, RunError
from regard.exchange.huggingface import tokenizer_files
from regard.exchange.huggingface.folder import HfFolder
from regard.exchange.huggingface.translators.language_tokens import read_language_tokenizers
from regard.exchange.huggingface.translators.own_vocabulary import language_files
from regard.pipelines.exchange.export_run import export_folder
from regard.pipelines.exchange.import_run import import_folder
from regard.pipelines.load import load
from regard.text.build import extend_tokenizers, load_tokenizers
from seq2seq_folders import make_m2m100

transformers = pytest.importorskip("transformers")

TEXTS = ("The Cat sat", "  two  spaces ", "élève 漢字", "a <s> b")
DECODER = {"prefix": "##", "cleanup": True}  # WordPiece's
NO_SUCH_TOKEN = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {},
}
CHANGED = [
    ("bert", {"tokenizer_class": "BertTokenizer", "do_lower_case": False}),
    ("bert", {"tokenizer_class": "BertTokenizer", "tokenize_chinese_chars": False}),
    ("roberta", {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": True}),
    ("gpt2", {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True}),
    ("llama", {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": False}),
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = tmp_path_factory.mktemp("hf")
    return {family: save_folder(made / family, family) for family, _ in CHANGED}


def with_settings(folder: Path, settings: dict, path: Path) -> Path:
    file = shutil.copytree(folder, path) / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))
    return path


@pytest.mark.parametrize(("family", "settings"), CHANGED)
def test_texts_are_cut_by_the_class_of_transformers(family, settings, folders, tmp_path):
    plain = import_folder(folders[family], tmp_path / "plain")
    assert not any("tokenize" in note for note in plain.report.notes)
    path = with_settings(folders[family], settings, tmp_path / "folder")
    found = import_folder(path, tmp_path / "run")
    assert "differs from the files of its tokenizer" in found.report.notes[-1]
    peer = transformers.AutoTokenizer.from_pretrained(path)
    tokenizers = [load(one.folder, device="cpu").tokenizer for one in (found, plain)]
    ours, before = (
        [one.vocabulary_map.to_theirs(ids) for ids in one.encode(TEXTS)] for one in tokenizers
    )
    assert ours == [peer(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
    assert ours != before


def test_a_tokenizer_that_cuts_as_none_here_does_is_refused(folders, tmp_path):
    path = with_settings(folders["bert"], {"split_special_tokens": True}, tmp_path / "folder")
    with pytest.raises(
        RunError, match=r"'a \[UNK\] b\[UNK\]c' becomes \['a', .* there, and .* here"
    ):
        import_folder(path, tmp_path / "run")
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["exchange.json"]


@pytest.mark.parametrize(
    ("file", "settings", "message"),
    [
        ("tokenizer_config.json", {"model_max_length": []}, "transformers .* cannot load it: "),
        ("tokenizer.json", {"decoder": {**DECODER, "type": {}}}, "its decoder is"),
        ("tokenizer.json", {"post_processor": NO_SUCH_TOKEN}, "no entry found for key"),
    ],
)
def test_a_tokenizer_of_nonsense_is_refused_in_one_line(file, settings, message, folders, tmp_path):
    path = shutil.copytree(folders["bert"], tmp_path / "folder") / file
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    with pytest.raises(RegardError, match=message):
        import_folder(path.parent, tmp_path / "run")


def test_texts_without_the_special_tokens_of_a_model_are_refused(folders, tmp_path):
    path = shutil.copytree(folders["bert"], tmp_path / "folder")
    raw = json.loads((path / "tokenizer.json").read_text())
    (path / "tokenizer.json").write_text(json.dumps(raw | {"post_processor": None}))
    with pytest.raises(RunError, match=r"'a' becomes \['a'\] there, and \['\[CLS\]', 'a', "):
        import_folder(path, tmp_path / "run")


def test_the_beginning_of_a_text_is_a_special_token_of_m2m100_without_being_named(tmp_path):
    (tmp_path / "folder").mkdir()
    make_m2m100(tmp_path / "folder")
    run = import_folder(tmp_path / "folder", tmp_path / "run").folder
    source = load_tokenizers(run).source
    peer = transformers.AutoTokenizer.from_pretrained(tmp_path / "folder")
    assert (
        source.vocabulary_map.to_theirs(source.encode(["a <s> b"])[0])
        == (peer("a <s> b")["input_ids"][:-1])
    )


def test_a_language_model_that_ends_texts_with_several_tokens_says_so(folders, tmp_path):
    path = shutil.copytree(folders["gpt2"], tmp_path / "folder")
    (path / "generation_config.json").write_text('{"eos_token_id": [0, 7]}')
    found = import_folder(path, tmp_path / "run")
    assert found.report.notes[0].startswith("eos_token_id is also 7 in its generation settings")


def test_an_export_whose_texts_transformers_would_cut_otherwise_is_refused(
    folders, tmp_path, monkeypatch
):
    run = import_folder(folders["bert"], tmp_path / "run").folder
    written = tokenizer_files.dump_json
    monkeypatch.setattr(
        tokenizer_files, "dump_json", lambda one, **more: written(one | {"unk_token": "a"}, **more)
    )
    with pytest.raises(RunError, match=r"not exported, as .* becomes .* there, and .* here"):
        export_folder(run, tmp_path / "out")
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["exchange.json"]


def test_languages_before_added_pieces_have_no_place_in_m2m100s_tokenizer(tmp_path):
    make_m2m100(tmp_path)
    grown = extend_tokenizers(
        read_language_tokenizers(HfFolder(tmp_path)), *[lambda: ["the dog the dog"] * 9] * 2, 20
    )
    with pytest.raises(RunError, match="its vocabulary has pieces after its languages"):
        language_files(grown)
