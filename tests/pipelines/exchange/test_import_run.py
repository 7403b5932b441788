"""Every imported model computes what `transformers` does, goes back, and returns the same; lies and
hostile folders are refused.
"""

import json
import os
import shlex
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch

from flips import flip
from hf_folders import CONFIGURATIONS, save_folder
from regard.batching.collate import pad
from regard.decoding.batch_search import search
from regard.decoding.constraints.rules import Constraints
from regard.decoding.settings import BeamSettings
from regard.errors import DamagedError, RunError, RunWarning, SettingsError
from regard.exchange.huggingface.families import FAMILIES
from regard.exchange.huggingface.folder import HfFolder
from regard.exchange.huggingface.labels import read_labels
from regard.exchange.tensor_table import SAME, TRANSPOSED, StackedPart, TensorChange, TensorEntry
from regard.pipelines.exchange import gate
from regard.pipelines.exchange.export_run import export_folder
from regard.pipelines.exchange.gate import load_peer
from regard.pipelines.exchange.import_run import import_folder
from regard.pipelines.exchange.task_parity import greedy_settings
from regard.pipelines.load import load
from regard.recipes.open_run import open_run
from regard.recipes.verification import verify
from regard.training.checkpoints import load_weights

transformers = pytest.importorskip("transformers")

CASES = [(family, name) for family, some in CONFIGURATIONS.items() for name in some]
SAME_BYTES = ("model.safetensors", "tokenizer.json", "tokenizer.model", "recipe.yaml")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A function: the folder of a model as published, by its family."""
    made = {}

    def folder(family):
        if family not in made:
            made[family] = save_folder(tmp_path_factory.mktemp("hf") / family, family)
        return made[family]

    return folder


@pytest.mark.parametrize(("family", "name"), CASES)
def test_an_import_computes_the_same_and_its_table_goes_back(family, name, tmp_path):
    path = save_folder(tmp_path / "folder", family, **CONFIGURATIONS[family][name])
    found = import_folder(path, tmp_path / "run").report.gate
    assert found.refused is None
    assert found.float64 < 1e-9
    assert found.float32 < 1e-4
    assert found.same_answers == found.answers
    assert found.answers >= 3 or name == "encoder alone"
    folder = HfFolder(path)
    tensors, described = folder.tensors(), FAMILIES[family].read(folder)
    labels = [described.labels] if described.labels else []
    written = FAMILIES[family].write(described.settings, described.tokenizers, *labels)
    assert described.config == written.config
    back = written.table.to_theirs(load_weights(tmp_path / "run" / "model.safetensors"))
    assert all(torch.equal(tensor, tensors[name]) for name, tensor in back.items())
    assert all(written.table.is_optional(name) for name in tensors.keys() - back.keys())


@pytest.mark.parametrize("family", sorted(CONFIGURATIONS))
def test_import_export_import_gives_the_same_bytes(family, folders, tmp_path):
    import_folder(folders(family), tmp_path / "1" / "run")
    export_folder(tmp_path / "1" / "run", tmp_path / "out")
    import_folder(tmp_path / "out", tmp_path / "2" / "run")
    for file in SAME_BYTES:
        assert (tmp_path / "1/run" / file).read_bytes() == (tmp_path / "2/run" / file).read_bytes()


@pytest.mark.parametrize(
    ("family", "setting", "message"),
    [
        ("gpt2", {"n_positions": 99}, r"wpe\.weight has the shape \(\d+, \d+\), .* \(99, \d+\)"),
        ("gpt2", {"n_inner": 13}, r"h\.0\.mlp\.c_fc\.bias has the shape .* needs \(13,\)"),
        ("gpt2", {"vocab_size": 9999}, r"wte\.weight has the shape .* needs \(9999, \d+\)"),
    ],
)
def test_a_shape_that_config_json_does_not_ask_for_is_named(
    family, setting, message, folders, tmp_path
):
    path = shutil.copytree(folders(family), tmp_path / "folder")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | setting))
    with pytest.raises(RunError, match=rf"{path}: its tensor transformer\.{message}"):
        import_folder(path, tmp_path / "run")


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_beam_search_writes_the_same_tokens(family, folders, tmp_path):
    folder = HfFolder(folders(family))
    described = FAMILIES[family].read(folder)
    peer = load_peer(folder, described, folder.tensors()).double()
    FAMILIES[family].to_float64(peer)
    import_folder(folder.path, tmp_path / "run")
    completer = load(tmp_path / "run", device="cpu")
    model, vocabulary = completer.model.double(), completer.tokenizer.vocabulary_map
    for size in (1, 2, 4):
        beam = BeamSettings(size=size, length_penalty=1.0, stop="safe")
        prompts = completer.tokenizer.encode(["The cat sat", "Paris is", "w"])
        found = search(
            model,
            model.start(model.encode(pad([row[:-1] for row in prompts], least=0))),
            torch.tensor([len(row) for row in prompts]),
            greedy_settings(12).model_copy(update={"beam": beam}),
            constraints=Constraints(first=[row[-1] for row in prompts]),
        )
        for prompt, [best, *_] in zip(prompts, found, strict=True):
            ids = torch.tensor([vocabulary.to_theirs(prompt)])
            theirs = peer.generate(
                ids,
                num_beams=size,
                do_sample=False,
                max_new_tokens=12,
                length_penalty=1.0,
                early_stopping="never" if size > 1 else False,
                pad_token_id=vocabulary.special[3],
                suppress_tokens=[1] if family == "llama" else None,  # BOS
            )[0, len(prompt) :].tolist()
            eos = vocabulary.special[3]
            ended = theirs[: theirs.index(eos)] if eos in theirs else theirs
            assert vocabulary.to_ours(ended) == list(best.tokens)


def _with_entry(model, ours, **changes):
    """A model whose table says something else about one of our tensors."""
    entries = [
        entry._replace(**changes) if entry.ours == ours else entry for entry in model.table.entries
    ]
    return replace(model, table=model.table._replace(entries=entries))


def swapped_matrices(model):
    [entry] = [one for one in model.table.entries if one.ours == "layers.0.own.project.weight"]
    first, second, third = entry.parts
    return _with_entry(model, entry.ours, parts=(second, first, third))


def wrong_activation(model):
    return replace(model, settings=model.settings.model_copy(update={"activation": "relu"}))


def wrong_offset(model):
    first = model.settings.first_position
    changed = {"first_position": 0, "context": model.settings.context + first}
    return replace(model, settings=model.settings.model_copy(update=changed))


def missing_bias(model):
    zeros = TensorChange(torch.zeros_like, torch.zeros_like)
    [entry] = [one for one in model.table.entries if one.ours == "output_bias"]
    return _with_entry(model, "output_bias", parts=(entry.parts[0]._replace(change=zeros),))


def transposed_matrix(model):
    part = StackedPart("transformer.h.0.attn.c_proj.weight", 0, SAME)
    return _with_entry(model, "layers.0.own.out.weight", parts=(part,))


def shifted_vocabulary(model):
    def shift(tensor):
        return tensor.roll(1, 0)

    [entry] = [one for one in model.table.entries if one.ours == "embedding.weight"]
    [part] = entry.parts
    rows = part.change
    shifted = TensorChange(lambda tensor: shift(rows.to_ours(tensor)), rows.to_theirs)
    return _with_entry(model, "embedding.weight", parts=(part._replace(change=shifted),))


def interleaved_heads(model):
    [entry] = [one for one in model.table.entries if one.ours == "layers.0.own.project.weight"]
    parts = tuple(part._replace(change=SAME) for part in entry.parts)
    return _with_entry(model, entry.ours, parts=parts)


LIES = [
    ("bert", swapped_matrices),
    ("gpt2", wrong_activation),
    ("roberta", wrong_offset),
    ("bert", missing_bias),
    ("gpt2", transposed_matrix),
    ("gpt2", shifted_vocabulary),
    ("llama", interleaved_heads),
]


@pytest.mark.parametrize(("family", "lie"), LIES, ids=[lie.__name__ for _, lie in LIES])
def test_a_lie_is_refused_and_leaves_the_report_alone(family, lie, folders, tmp_path, monkeypatch):
    honest = FAMILIES[family]
    told = replace(honest, read=lambda folder: lie(honest.read(folder)))
    monkeypatch.setitem(FAMILIES, family, told)
    with pytest.raises(RunError, match=r"give other outputs: (in float64|the sample)"):
        import_folder(folders(family), tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["exchange.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_folder_with_the_report_of_a_refusal_is_free(folders, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "exchange.json").write_text("{}")
    assert import_folder(folders("gpt2"), tmp_path / "run").report.gate.refused is None


def test_stored_answers_stand_in_for_transformers(folders, tmp_path, monkeypatch):
    import_folder(folders("gpt2"), tmp_path / "run")
    export_folder(tmp_path / "run", tmp_path / "out")
    monkeypatch.setattr(gate, "find_spec", lambda name: None)
    found = import_folder(tmp_path / "out", tmp_path / "again").report.gate
    assert found.float64 is None
    assert found.float32 < 1e-4
    with pytest.raises(RunError, match=r"pip install 'regard\[exchange\]'"):
        import_folder(folders("gpt2"), tmp_path / "other")
    honest = FAMILIES["gpt2"]
    told = replace(honest, read=lambda folder: wrong_activation(honest.read(folder)))
    monkeypatch.setitem(FAMILIES, "gpt2", told)
    with pytest.raises(RunError, match="in float32 its logits differ"):
        import_folder(tmp_path / "out", tmp_path / "lie")


@pytest.fixture(scope="module")
def exported(folders, tmp_path_factory):
    """The export of a language model for `transformers`."""
    path = tmp_path_factory.mktemp("exported")
    import_folder(folders("gpt2"), path / "run")
    return export_folder(path / "run", path / "out").folder


def flip_exponent(folder):
    file = folder / "model.safetensors"
    flip(file, file.stat().st_size - 1, 5)


def reverse_rows(folder):
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    name = "transformer.h.1.mlp.c_fc.weight"
    tensors[name] = tensors[name].flip(0)
    safetensors.torch.save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def swap_tokens(folder):
    raw = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = raw["model"]["vocab"]
    vocabulary["c"], vocabulary["s"] = vocabulary["s"], vocabulary["c"]
    (folder / "tokenizer.json").write_text(json.dumps(raw))


def forget_search(folder):
    (folder / "regard-answers.safetensors").unlink()


@pytest.mark.parametrize("damage", [flip_exponent, reverse_rows, swap_tokens, forget_search])
def test_a_damaged_export_is_refused_and_verify_names_the_file(damage, exported, tmp_path):
    path = shutil.copytree(exported, tmp_path / "folder")
    assert verify(path).findings == ()
    damage(path)
    [found] = verify(path).findings
    assert found.state in ("damaged", "missing")
    assert found.remedy.startswith("restore it from a copy")
    with pytest.raises(DamagedError, match=f"{found.file}: (not what was written|missing)"):
        import_folder(path, tmp_path / "run")


@pytest.mark.parametrize("damage", [flip_exponent, reverse_rows])
def test_an_export_from_before_digests_is_compared_with_its_answers(damage, exported, tmp_path):
    path = shutil.copytree(exported, tmp_path / "folder")
    (path / "manifest.json").unlink()
    with pytest.warns(RunWarning, match=r"has no manifest\.json"):
        import_folder(path, tmp_path / "run")
    damage(path)
    with (
        pytest.warns(RunWarning, match=r"has no manifest\.json"),
        pytest.raises(RunError, match=r"compared with regard-answers\.safetensors, in float32"),
    ):
        import_folder(path, tmp_path / "other")


def test_imported_runs_are_used_like_others(folders, tmp_path):
    for family in ("bert", "roberta", "gpt2"):
        import_folder(folders(family), tmp_path / family)
    for family in ("bert", "roberta"):
        filler = load(tmp_path / family, device="cpu")
        [filling] = filler.fill(["The cat [MASK] on the mat. ||| Paris"])
        assert len(filling.masks[0].tokens) == 5
        look = filler.look("Paris is the [MASK] of France.")
        layers, heads = look.required_attention().parts["encoder"].weights.shape[:2]
        assert (layers, heads) == (2, 2)
    completer = load(tmp_path / "gpt2", device="cpu")
    assert completer("The cat", max_tokens=5).continuations[0].num_tokens <= 5
    assert completer.look("Paris is").required_attention().parts["decoder"].weights.shape[0] == 2


def test_an_encoder_alone_shows_its_attention_and_fills_nothing(tmp_path):
    folder = save_folder(tmp_path / "folder", "bert", architecture="BertModel")
    filler = load(import_folder(folder, tmp_path / "run").folder, device="cpu")
    look = filler.look("Paris is the [MASK] of France.")
    assert look.required_attention().parts["encoder"].weights.shape[:2] == (2, 2)
    assert not look.masks
    with pytest.raises(SettingsError, match="this encoder has no output layer"):
        filler("Paris is the [MASK] of France.")
    export_folder(tmp_path / "run", tmp_path / "out")
    theirs = transformers.AutoModel.from_pretrained(tmp_path / "out")
    assert type(theirs).__name__ == "BertModel"


def test_an_encoder_alone_may_have_the_names_of_a_larger_model(tmp_path):
    folder = save_folder(tmp_path / "folder", "bert", architecture="BertModel")
    file = folder / "model.safetensors"
    named = {f"bert.{name}": one for name, one in safetensors.torch.load_file(file).items()}
    safetensors.torch.save_file(named, file)
    assert import_folder(folder, tmp_path / "run").report.gate.refused is None


@pytest.mark.parametrize(
    ("family", "takes"),
    [("bert", {}), *(("roberta", {"lstrip": left, "rstrip": not left}) for left in (True, False))],
)
def test_a_text_with_masked_places_has_the_ids_that_transformers_gives_it(
    family, takes, folders, tmp_path
):
    """Also where the mask token takes the spaces around it, or leaves them."""
    folder = shutil.copytree(folders(family), tmp_path / "folder")
    raw = json.loads((folder / "tokenizer.json").read_text())
    raw["added_tokens"][-1] |= takes
    (folder / "tokenizer.json").write_text(json.dumps(raw))
    filler = load(import_folder(folder, tmp_path / "run").folder, device="cpu")
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    name = theirs.mask_token
    assert filler.mask[1:] == (name, (theirs.cls_token, theirs.sep_token))
    odd = "Paris\t[MASK]  [MASK]  b[MASK]\t漢字"
    for texts in (["Paris is the [MASK] of France.", "The [MASK], 漢字 sat."], [odd], ["[MASK]"]):
        read = filler._read(texts)
        wanted = theirs(*(text.replace("[MASK]", name) for text in texts))["input_ids"]
        assert filler.tokenizer.vocabulary_map.to_theirs(read.ids) == wanted
        begin, *_, end = read.axis.pieces
        assert (begin, end) == (theirs.cls_token, theirs.sep_token)
    first = filler._read([odd]).places[0]
    assert first.before == ("Paris\t" if takes.get("lstrip") is False else "Paris")
    assert first.after == "  [MASK]  b[MASK]\t漢字"


def test_a_text_has_the_loss_that_transformers_gives_it(folders, tmp_path):
    """With the token that a LLaMA's tokenizer puts before each text, in each window."""
    text, rows = "The cat sat on the mat. Paris", tmp_path / "text.txt"
    rows.write_text(text)
    for family, added in (("gpt2", 0), ("llama", 1)):
        run = open_run(
            import_folder(folders(family), tmp_path / family).folder,
            tasks=["language-model"],
            device=torch.device("cpu"),
        )
        run.task.read_test([str(rows)], tmp_path / family)
        found = run.task.evaluate(run.model, "test")
        peer = transformers.AutoModelForCausalLM.from_pretrained(folders(family))
        ids = transformers.AutoTokenizer.from_pretrained(folders(family))(text)["input_ids"]
        assert len(ids) - added == run.task.stream("test").counts.tokens
        ids = torch.tensor([ids])
        with torch.no_grad():
            wanted = float(peer(input_ids=ids, labels=ids).loss)
        assert found.numbers["loss"] == pytest.approx(wanted, rel=1e-5)
        assert ("begins with <s>" in found.notes[1]) == bool(added)
        assert f"{ids.shape[1] - 1:,} tokens" in found.notes[0]


def test_a_classifier_says_of_texts_and_pairs_what_transformers_does(tmp_path):
    for family in ("bert-classifier", "roberta-classifier"):
        folder = save_folder(tmp_path / "folder" / family, family, type_vocab_size=2)
        run = import_folder(folder, tmp_path / family).folder
        kind = transformers.AutoModelForSequenceClassification
        theirs = kind.from_pretrained(folder).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        for texts in (["  Paris is  the <pad> capital. "], ["hello world", "élève 漢字"]):
            ids = tokenizer(*texts, return_tensors="pt")  # RoBERTa's gives no segments
            wanted = theirs(**ids).logits[0].detach().softmax(-1)
            found = load(run, device="cpu")(" ||| ".join(texts))
            assert found.label == theirs.config.id2label[int(wanted.argmax())]
            assert found.probability == pytest.approx(float(wanted.max()), abs=1e-5)
        assert load(run, device="cpu").remarks == ()  # nothing was to be fitted
        assert load(run, device="cpu").look("The cat sat").required_attention().parts["encoder"]


def test_a_classifier_that_was_trained_on_from_an_encoder_loses_its_other_heads(folders, tmp_path):
    given = import_folder(folders("bert-classifier"), tmp_path / "run").folder
    weights = load_weights(given / "model.safetensors")
    table = FAMILIES["bert-classifier"].read(HfFolder(folders("bert-classifier"))).table
    more = {"encoder.transform.weight": torch.ones(2), "encoder.output_bias": torch.ones(2)}
    assert table.to_theirs(weights | more).keys() == table.to_theirs(weights).keys()
    with pytest.raises(RunError, match=r"the other format does not have: encoder\.other"):
        table.to_theirs(weights | {"encoder.other": torch.ones(2)})


def test_a_classifier_that_counts_ngrams_has_no_folder_there(folders):
    family = FAMILIES["bert-classifier"]
    model = family.read(HfFolder(folders("bert-classifier")))
    counting = model.settings.model_copy(update={"ngrams": 2})
    with pytest.raises(RunError, match=r"ngrams: 2: transformers does not count n-grams"):
        family.write(counting, model.tokenizers, model.labels)


def test_a_regression_is_no_classifier(folders, tmp_path):
    folder = _copy(folders("bert-classifier"), tmp_path / "folder")
    _edit_config(folder, problem_type="regression")
    with pytest.raises(RunError, match="problem_type is 'regression'"):
        import_folder(folder, tmp_path / "run")


def _edit_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def _copy(folder, to):
    to.mkdir()
    for file in folder.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    return to


REFUSED_SWITCHES = [
    ({"n_layer": 10**9}, "layers: must be at most 1000"),
    ({"n_embd": 10**9}, "width: must be at most"),
    ({"vocab_size": 10**12}, "vocab_size is 1,000,000,000,000"),
    ({"auto_map": {"AutoModel": "code.Model"}}, "auto_map.*never executed"),
    ({"quantization_config": {"bits": 4}}, "quantization_config"),
    ({"activation_function": "prelu"}, "activation_function is 'prelu'"),
    ({"new_switch": 1}, "new_switch is 1: not supported here"),
    ({"a\nb": 1}, "a b is 1: not supported here"),
    ({"model_type": "mamba"}, "model_type mamba cannot be imported"),
    ({"n_head": "2"}, "n_head is '2': must be of type int"),
    ({"architectures": ["GPT2ForQuestionAnswering"]}, "architectures is"),
    ({"pruned_heads": {"0": [1]}}, r"pruned_heads is .*: not supported here"),
    ({"is_encoder_decoder": True}, "is_encoder_decoder is True"),
    ({"layer_norm_epsilon": 10**400}, "layer_norm_epsilon is 1000.*: too large a number"),
    ({"vocab_size": 4}, "vocab_size is 4, and must be from 5 to"),
    ({"pad_token_id": 10**30}, "the sample cannot be computed"),
]


@pytest.mark.parametrize(("switch", "message"), REFUSED_SWITCHES)
def test_switches_are_refused_by_name(switch, message, folders, tmp_path):
    folder = _copy(folders("gpt2"), tmp_path / "folder")
    _edit_config(folder, **switch)
    with pytest.raises(RunError, match=message):
        import_folder(folder, tmp_path / "run")
    assert {path.name for path in tmp_path.rglob("run/*")} <= {"exchange.json"}


def test_labels_without_names_are_as_many_as_there_are_said_to_be(folders, tmp_path):
    folder = _copy(folders("bert-classifier"), tmp_path / "folder")
    _edit_config(folder, id2label=None, num_labels=5)
    assert read_labels(HfFolder(folder)) == tuple(f"LABEL_{number}" for number in range(5))


def test_every_label_has_a_name_of_its_own(folders, tmp_path):
    folder = _copy(folders("bert-classifier"), tmp_path / "folder")
    _edit_config(folder, id2label={"0": "a", "1": "a", "2": "b"})
    assert read_labels(HfFolder(folder)) == ("a (0)", "a (1)", "b")
    _edit_config(folder, id2label={"0": "a", "1": "a", "2": "a (1)"})
    assert read_labels(HfFolder(folder)) == ("a (0)", "a (1)", "a (1) (2)")


def test_a_bert_that_tells_two_texts_of_one_segment_apart_is_refused_by_name(tmp_path):
    changed = {"architecture": "BertForPreTraining", "type_vocab_size": 1}
    folder = save_folder(tmp_path / "folder", "bert", **changed)
    with pytest.raises(RunError, match="type_vocab_size is 1"):
        import_folder(folder, tmp_path / "run")


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_an_imported_language_model_searches_as_its_folder_says(family, folders, tmp_path):
    folder = _copy(folders(family), tmp_path / "folder")
    search = {
        "num_beams": 3,
        "length_penalty": 0.0,
        "min_new_tokens": 3,
        "forced_eos_token_id": json.loads((folder / "config.json").read_text())["eos_token_id"],
    }
    (folder / "generation_config.json").write_text(json.dumps(search | {"min_length": 9}))
    found = import_folder(folder, tmp_path / "run")
    assert not any(note.startswith("min_length") for note in found.report.notes)
    completer = load(found.folder, device="cpu")
    peer = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    special = [one for one in completer.tokenizer.vocabulary_map.special[::2] if one is not None]
    for prompt in ("the cat", " a dog  and"):
        given = tokenizer(prompt, return_tensors="pt", return_token_type_ids=False)
        theirs = peer.generate(**given, max_new_tokens=8, suppress_tokens=special or None)[0]
        spelled, begun = tokenizer.batch_decode([theirs, given["input_ids"][0]], True)
        answer = completer(prompt, max_tokens=8)
        assert answer.continuations[0].text == spelled[len(begun) :]
        assert not answer.notes


def test_what_counts_prompts_and_what_ends_texts_is_told_of_a_language_model(folders, tmp_path):
    folder = _copy(folders("llama"), tmp_path / "folder")
    (folder / "generation_config.json").write_text('{"no_repeat_ngram_size": 2, "min_length": 9}')
    content = json.loads((folder / "tokenizer.json").read_text())
    end = {"id": "</s>", "ids": [2], "tokens": ["</s>"]}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    behind = {"SpecialToken": {"id": "</s>", "type_id": 0}}
    frame = {"single": [text, behind], "pair": [text, behind], "special_tokens": {"</s>": end}}
    content["post_processor"] = {"type": "TemplateProcessing", **frame}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    notes = import_folder(folder, tmp_path / "run").report.notes
    for told in ("no_repeat_ngram_size is 2", "min_length is 9", "</s> behind a text"):
        assert any(told in note for note in notes), notes


def test_a_roberta_whose_padding_is_another_special_token_is_refused(folders, tmp_path):
    folder = _copy(folders("roberta"), tmp_path / "folder")
    _edit_config(folder, pad_token_id=2)
    with pytest.raises(RunError, match=r"pad_token_id is 2, which .* another special token"):
        import_folder(folder, tmp_path / "run")


PUBLISHED_SETTINGS = {
    "gpt2": {"n_special": 0, "predict_special_tokens": True, "pruned_heads": {}, "prefix": None},
    "llama": {"is_llama_config": True, "rope_interleaved": False, "transformers.js_config": {}},
    "bert-classifier": {"_num_labels": 3, "is_encoder_decoder": False, "use_bfloat16": False},
}


@pytest.mark.parametrize("family", sorted(PUBLISHED_SETTINGS))
def test_settings_of_published_models_that_change_nothing_are_no_obstacle(
    family, folders, tmp_path
):
    folder = _copy(folders(family), tmp_path / "folder")
    _edit_config(folder, **PUBLISHED_SETTINGS[family])
    found = FAMILIES[family].read(HfFolder(folder))
    assert found.config == FAMILIES[family].read(HfFolder(folders(family))).config


def test_the_base_of_rotary_positions_is_that_of_the_first_files_where_none_is_named(
    folders, tmp_path
):
    folder = _copy(folders("llama"), tmp_path / "folder")
    _edit_config(folder, rope_parameters=None)
    assert FAMILIES["llama"].read(HfFolder(folder)).settings.rotary_base == 10_000
    assert import_folder(folder, tmp_path / "run").report.gate.refused is None


def test_configs_of_older_files_and_of_converters_are_read(folders, tmp_path):
    folder = _copy(folders("llama"), tmp_path / "folder")
    settings = FAMILIES["llama"].read(HfFolder(folder)).settings
    raw = json.loads((folder / "config.json").read_text())
    older = {name: value for name, value in raw.items() if not name.startswith("rope_")}
    converted = {"is_llama_config": True, "rope_interleaved": False}  # as of SmolLM2
    (folder / "config.json").write_text(json.dumps(older | converted))
    assert FAMILIES["llama"].read(HfFolder(folder)).settings == settings
    _edit_config(folder, rope_interleaved=True)
    with pytest.raises(RunError, match="rope_interleaved is True"):
        FAMILIES["llama"].read(HfFolder(folder))


def test_a_tokenizer_of_code_is_refused(folders, tmp_path):
    folder = _copy(folders("gpt2"), tmp_path / "folder")
    path = folder / "tokenizer_config.json"
    code = {"auto_map": {"AutoTokenizer": ["code.Tokenizer", None]}}
    path.write_text(json.dumps(json.loads(path.read_text()) | code))
    with pytest.raises(RunError, match=r"tokenizer_config\.json: auto_map: .* never executed"):
        import_folder(folder, tmp_path / "run")


def _truncated(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def _long_header(folder):
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 10 << 30) + b"{}")


def _shards(name):
    def change(folder):
        (folder / "model.safetensors").rename(folder.parent / "outside.safetensors")
        index = {"weight_map": {"transformer.wte.weight": name}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    return change


def _pickle(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _pipe(folder):
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")


def _deep_config(folder):
    (folder / "config.json").write_text("[" * 10**5)


def _one_less(folder):
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    del tensors["transformer.ln_f.bias"]
    safetensors.torch.save_file(tensors, path)


def _one_more(folder):
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    safetensors.torch.save_file({**tensors, "extra.weight": torch.ones(2)}, path)


def _another_output(folder):
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    other = torch.ones_like(tensors["transformer.wte.weight"])
    safetensors.torch.save_file({**tensors, "lm_head.weight": other}, path)


def _empty(folder):
    (folder / "model.safetensors").write_bytes(b"")


def _not_finite(folder):
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    tensors["transformer.ln_f.bias"].fill_(torch.nan)
    safetensors.torch.save_file(tensors, path)


HOSTILE = [
    (_empty, "not a safetensors file, or truncated: it has 0 bytes"),
    (
        _not_finite,
        "not finite numbers.*: its files are damaged, or were saved in this state",
    ),
    (_truncated, "damaged, truncated"),
    (_long_header, "header would be 10,737,418,240 bytes"),
    (_shards("../outside.safetensors"), "not the name of a safetensors file of this folder"),
    (_shards("a\nb.safetensors"), "not the name of a safetensors file of this folder"),
    (_shards("/etc/passwd"), "not the name of a safetensors file of this folder"),
    (_shards("missing.safetensors"), "cannot be read"),
    (_pickle, r"may execute code .* convert it: python -c 'from transformers import GPT2LMHead"),
    (_pipe, "not a plain file"),
    (_deep_config, "config.json: cannot be read"),
    (_one_less, "lacks transformer.ln_f.bias"),
    (_one_more, "has transformer.extra.weight, which are not supported"),
    (_another_output, "lm_head.weight is transformer.wte.weight, but they differ"),
]


@pytest.mark.parametrize(("change", "message"), HOSTILE)
def test_hostile_and_damaged_folders_are_refused(change, message, folders, tmp_path):
    folder = _copy(folders("gpt2"), tmp_path / "folder")
    change(folder)
    with pytest.raises(RunError, match=message):
        import_folder(folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_folder_in_shards_is_the_same_model(folders, tmp_path):
    folder = _copy(folders("gpt2"), tmp_path / "folder")
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names, weight_map = sorted(tensors), {}
    for number, some in enumerate((names[::2], names[1::2])):
        file = f"model-0000{number + 1}-of-00002.safetensors"
        safetensors.torch.save_file({name: tensors[name] for name in some}, folder / file)
        weight_map |= dict.fromkeys(some, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    import_folder(folder, tmp_path / "1" / "run")
    import_folder(folders("gpt2"), tmp_path / "2" / "run")
    paths = (tmp_path / number / "run/model.safetensors" for number in "12")
    assert len({path.read_bytes() for path in paths}) == 1


def test_a_run_that_has_files_is_not_replaced(folders, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("kept")
    with pytest.raises(RunError, match="not empty; name a folder that is new or empty"):
        import_folder(folders("gpt2"), tmp_path / "run")
    assert (tmp_path / "run" / "mine.txt").read_text() == "kept"


def test_files_and_links_in_the_place_of_folders_are_called_so(folders, tmp_path):
    with pytest.raises(
        RunError, match=r"config\.json: a file; import the folder .*: regard import "
    ):
        import_folder(folders("gpt2") / "config.json", tmp_path / "run")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(RunError, match="link: a link; name a folder that is new or empty"):
        import_folder(folders("gpt2"), tmp_path / "link")


def test_the_steps_that_refusals_name_lead_to_a_run(folders, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folders("gpt2"), "it's old")
    safe, pickled = (Path("it's old") / name for name in ("model.safetensors", "pytorch_model.bin"))
    torch.save(safetensors.torch.load_file(safe), pickled)
    safe.unlink()
    with pytest.raises(RunError, match="if you trust it, convert it: ") as caught:
        import_folder(Path("it's old"), Path("run"))
    words = shlex.split(str(caught.value).partition("convert it: ")[2])
    python, _, code, _, *command, new, _, out = words
    assert (python, command) == ("python", ["regard", "import"])
    exec(code, {})
    assert import_folder(Path(new), Path(out)).report.gate.refused is None
    for name in ("it's old/tiny.gguf", "other/tiny.gguf"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
        for given in (Path(name), Path(name).parent):
            with pytest.raises(RunError, match="pip install gguf accelerate && ") as caught:
                import_folder(given, Path("run"))
            python, _, code, *rest = shlex.split(str(caught.value).partition(" && ")[2])
            assert 'gguf_file="tiny.gguf"' in code
            compile(code, name, "exec")
            assert rest == ["&&", "regard", "import", "tiny-safetensors", "--out", "runs/tiny"]
    pickled.with_name("tiny.gguf").unlink()
    pickled.rename(pickled.with_name("tf_model.h5"))
    with pytest.raises(RunError, match=r"get a copy of the model with model\.safetensors$"):
        import_folder(Path("it's old"), Path("run"))
    with pytest.raises(RunError, match=r"no such folder; .* hf download gpt2 --local-dir gpt2 && "):
        import_folder(Path("gpt2"), Path("run"))


@pytest.mark.parametrize("label", ["", " ", "a\tb", "a\nb", "\u2028"])
def test_a_label_that_cannot_be_printed_is_refused(label, folders, tmp_path):
    folder = _copy(folders("bert-classifier"), tmp_path / "folder")
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = {"0": "good", "1": label}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(RunError, match=r"id2label names the class 1 '.*'; a label must not be"):
        import_folder(folder, tmp_path / "run")


def test_the_table_of_a_matrix_is_read_in_both_directions():
    entry = TensorEntry.single("a", "b", TRANSPOSED)
    matrix = torch.arange(6.0).view(2, 3)
    assert torch.equal(entry.to_theirs(entry.to_ours({"b": matrix}))["b"], matrix)
