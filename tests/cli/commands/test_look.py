import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

from forecasts import train_recipe
from languages import language_recipe
from regard.cli.main import command_app
from regard.decoding.settings import search_settings
from regard.engines.native.attention_capture import PlotKind
from regard.errors import RegardError, RunError, SettingsError
from regard.inspection.interventions import Flattened, ForcedWords, Silenced
from regard.recipes.paths import PACKAGED_RUN
from regard.tasks.translation.pipeline import Translator

app = command_app("look")

SENTENCE = "Jane visite l'Afrique en septembre."
HELD = re.compile(r'<script type="application/json"[^>]*>(.*?)</script>', re.DOTALL)
"""The document that a page holds."""


@pytest.fixture
def run(tiny_run):
    def invoke(*args, sentence=SENTENCE, model=tiny_run):
        args = (str(model), sentence, *map(str, args), "--device", "cpu")
        return CliRunner().invoke(app, args, catch_exceptions=False, env={"COLUMNS": "160"})

    return invoke


def test_the_translation_and_its_map(run, translator):
    shown = run()
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[0] == translator(SENTENCE).text
    for word in SENTENCE.split():
        assert word in shown.stdout
    assert "</s>" not in shown.stdout


def test_without_a_model_the_one_of_the_package_is_looked_into(run):
    shown = CliRunner().invoke(app, ["Elle ne la visite pas.", "--layer", "1"])
    assert shown.exit_code == 0
    assert shown.stdout.startswith("She does not visit it.\n")
    assert "layer 1" in shown.stdout
    assert shown.stderr.startswith("no MODEL is given")
    assert str(PACKAGED_RUN) in shown.stderr
    assert "no MODEL" not in run().stderr


def test_a_text_without_a_model_may_be_longer_than_a_file_name_or_blank():
    long = " ".join(40 * ["Elle ne la visite pas."])
    shown = CliRunner().invoke(app, [long, "--json"], catch_exceptions=False)
    assert shown.exit_code == 0
    for blank in ("", "  "):
        with pytest.raises(RegardError, match="the sentence is blank"):
            CliRunner().invoke(app, [blank], catch_exceptions=False)


def test_the_map_of_the_readme_is_what_the_command_draws():
    drawn = CliRunner().invoke(app, ["Elle ne la visite pas."]).stdout
    readme = (Path(__file__).parents[3] / "README.md").read_text("utf-8")
    assert f"```\n{drawn.strip()}\n```" in readme


@pytest.mark.parametrize(
    "args", [["/no/run"], ["nowhere", SENTENCE], ["no run", SENTENCE], ["no run", "--heads"]]
)
def test_a_model_that_is_missing_is_not_taken_for_a_sentence(args):
    with pytest.raises(RunError, match=f"^{args[0]}: no such folder$"):
        CliRunner().invoke(app, args, catch_exceptions=False)


def test_one_word_alone_is_said_to_be_taken_for_a_model_and_a_space_makes_it_a_text():
    hint = r"^Jane: no such folder; one word .* as in regard look 'Jane '$"
    with pytest.raises(RunError, match=hint):
        CliRunner().invoke(app, ["Jane"], catch_exceptions=False)
    for text in ("Jane ", "東京の天気はよい。"):
        shown = CliRunner().invoke(app, [text], catch_exceptions=False)
        assert text.strip("。 ") in shown.stdout


def test_nothing_is_exported(run, tiny_run, tmp_path):
    copied = shutil.copytree(tiny_run, tmp_path / "run")
    shutil.rmtree(copied / "ctranslate2", ignore_errors=True)
    assert run(model=copied).exit_code == 0
    assert not (copied / "ctranslate2").exists()


def test_pieces(run):
    assert "</s>" in run("--pieces").stdout


def test_every_head(run):
    shown = run("--all").stdout
    assert shown.count("layer ") == 2 * 4
    assert "layer 1, head 3" in shown
    assert run("--all", "--part", "encoder").stdout.count("layer ") == 3 * 4
    titles = [line for line in shown.splitlines() if "layer " in line]
    assert titles[0] == "cross attention, layer 0, head 0"
    assert shown.count("\n\ncross attention, layer ") == len(titles) - 1


def test_pictures(run, tmp_path):
    png, svg = tmp_path / "a.png", tmp_path / "a.svg"
    shown = run("--png", png, "--svg", svg)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in svg.read_text()
    assert shown.stderr.splitlines() == [f"drew {png}", f"drew {svg}"]
    grid = tmp_path / "heads.png"
    run("--all", "--png", grid)
    assert grid.stat().st_size > png.stat().st_size


def test_without_a_head(run, translator):
    lines = run("--without", "0.1", "--without", "1").stdout.splitlines()
    assert lines[0] == translator(SENTENCE).text
    assert lines[1].startswith("without 0.1, 1: ")
    assert run("--without", "0", "--part", "encoder").stdout != run("--part", "encoder").stdout


@pytest.mark.parametrize(
    ("args", "change", "named"),
    [
        (("--without", "encoder.0.1"), Silenced("encoder", 0, 1), "without encoder.0.1"),
        (("--flatten", "1"), Flattened("cross", 1), "flat 1"),
        (("--flatten", "1.2", "--part", "decoder"), Flattened("decoder", 1, 2), "flat 1.2"),
        (("--force", "0=septembre"), ForcedWords(0, 4), "forced 0=septembre"),
        (("--force", "0=4"), ForcedWords(0, 4), "forced 0=4"),
    ],
)
def test_the_changed_translation_stands_below_with_its_marks(run, translator, args, change, named):
    changed = translator(SENTENCE, changes=[change])
    shown = run(*args).stdout.splitlines()
    assert shown[0] == changed.before.text
    name, _, marked = shown[1].partition(": ")
    assert name == named
    without_marks = re.sub(r"\[-.*?-\] ?", "", marked).replace("{+", "").replace("+}", "")
    assert without_marks.removesuffix(" (the same words)").strip() == changed.text
    assert ("(the same words)" in marked) == (changed.text == changed.before.text)


def test_a_change_that_changes_no_word_says_so(run, monkeypatch, translator):
    monkeypatch.setattr(Silenced, "__call__", lambda self, site, weights: weights)
    assert run("--without", "0").stdout.splitlines()[1].endswith("(the same words)")


def test_the_n_best(run, translator):
    shown = run("--n-best", "2").stdout
    best = translator.look(SENTENCE, search_settings(translator.settings, n_best=2)).candidates
    for one in best:
        assert f"{one.score:.3f}  {one.text}" in shown


def test_the_tree(run):
    assert "dropped at once" not in run().stdout
    shown = run("--tree").stdout
    assert "<s>  and " in shown
    assert shown.count("  1.\n") == 1


def test_kinds_of_pictures_differ(run, tmp_path):
    files = [tmp_path / f"{kind}.svg" for kind in get_args(PlotKind)]
    for kind, file in zip(get_args(PlotKind), files, strict=True):
        assert run("--as", kind, "--svg", file).exit_code == 0
        assert "<svg" in file.read_text()
    assert len({file.read_bytes() for file in files}) == len(files)


def test_json_is_the_look_document(run, translator):
    document = json.loads(run("--json", "--force", "0=septembre").stdout)
    assert document["version"] == 2
    assert document["model"] == "tiny"
    assert document["changes"] == [
        {"kind": "force", "target": 0, "source": 4, "layer": None, "head": None}
    ]
    assert document["before"]["text"] == translator(SENTENCE).text
    assert document["tree"]["nodes"]
    assert document["without"] == []


def test_a_page_to_mail(run, tmp_path):
    page = tmp_path / "look.html"
    shown = run("--html", page)
    assert f"wrote {page}" in shown.stderr
    written = page.read_text()
    assert written.startswith("<!doctype html>")
    [held] = HELD.findall(written)
    silenced = json.loads(held)["without"]
    assert len(silenced) == (3 + 2 + 2) * (4 + 1)
    assert {"part", "layer", "head", "text"} == set(silenced[0])


def test_a_page_of_a_changed_translation_says_nothing_of_the_unchanged_heads(run, tmp_path):
    page = tmp_path / "look.html"
    run("--html", page, "--without", "0")
    [held] = HELD.findall(page.read_text())
    document = json.loads(held)
    assert document["without"] == []
    assert document["changes"] == [{"kind": "silence", "part": "cross", "layer": 0, "head": None}]


def test_notes_are_told(run):
    assert "control characters" in run(sentence="Jane\x07danse").stderr


def test_notes_are_in_the_page(run, tmp_path):
    page = tmp_path / "a.html"
    run("--html", page, sentence="Jane\x07danse")
    assert "control characters" in json.loads(HELD.search(page.read_text())[1])["notes"][0]


def test_several_sentences_are_told_of(run):
    two = "Jane danse. Paul aime la mer."
    assert "sentence 0 of 2" in run(sentence=two).stderr
    last = run("--sentence", "1", sentence=two)
    assert last.stdout == run(sentence="Paul aime la mer.").stdout
    assert "sentence" not in run("--whole-lines", sentence=two).stderr
    assert run().stderr == ""
    with pytest.raises(SettingsError, match="--sentence 2: there are 2, counted from 0"):
        run("--sentence", "2", sentence=two)
    with pytest.raises(SettingsError, match="'2026': there is no sentence in it, so it is"):
        run(sentence="2026")


def test_a_model_that_does_not_attend_has_a_search(run, tmp_path, monkeypatch, translator):
    answer = translator.look(SENTENCE, tree=True)
    blind = replace(answer, attention=replace(answer.attention, parts={}))
    unseen = replace(blind, attention=replace(blind.attention, tree=None))
    monkeypatch.setattr(Translator, "look", lambda *_, **__: unseen)
    with pytest.raises(SettingsError, match="no cross attention to look at; it has: none"):
        run()
    monkeypatch.setattr(Translator, "look", lambda *_, **__: blind)
    shown = run("--tree")
    assert shown.stdout.count("</s>") > 1
    assert "this model does not attend: there is no map to show" in shown.stdout
    assert run("--as", "tree", "--png", tmp_path / "a.png").exit_code == 0
    assert run("--html", tmp_path / "a.html").exit_code == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ("--all", "--layer", "0"),
            "--all cannot be used with --layer: drop one of them; --all shows every",
        ),
        (("--without", "a"), "--without a: expected LAYER.HEAD or LAYER, such as 3.5"),
        (("--without", "encoder"), "--without encoder: expected LAYER.HEAD or LAYER"),
        (
            ("--without", "middle.1"),
            r"--without middle\.1: .* before it \(encoder, decoder, cross\)",
        ),
        (("--flatten", "1."), r"--flatten 1\.: expected LAYER\.HEAD"),
        (("--flatten", "7"), "layer: cross attention of .* has 2, counted from 0; got 7"),
        (
            ("--force", "Africa"),
            "--force Africa: expected TARGET=SOURCE, each a word or its number",
        ),
        (("--force", "=2"), "--force =2: expected TARGET=SOURCE"),
        (
            ("--force", "0=99"),
            "word 99 of the sentence: it has 5, counted from 0: 0 Jane, 1 visite",
        ),
        (("--force", "99=0"), "word 99 of the translation: it has "),
        (("--force", "0=mer"), "word 'mer': the sentence has no such word; it has 0 Jane"),
        (("--as", "arcs"), "--as arcs needs a file to draw: give --png or --svg"),
        (("--html", "a.txt"), r"--html a\.txt: the file's name should end in \.html"),
        (("--without", "1.2.3"), r"--without 1\.2\.3: expected LAYER\.HEAD"),
        (("--without", "-1"), "--without -1: expected LAYER.HEAD"),
        (("--without", "7"), "layer: cross attention of .* has 2, counted from 0; .* 7"),
        (("--without", "0.9"), "head: cross attention of .* has 4, counted from 0; got 9"),
        (("--layer", "5"), "layer: cross attention has 2, counted from 0; got 5"),
        (("--head", "5"), "head: cross attention has 4, counted from 0; got 5"),
        (("--n-best", "3", "--beam", "2"), "--n-best 3 asks for more answers than --beam 2"),
        (("--png", "a.svg"), r"--png a\.svg: the file's name should end in \.png"),
        (("--svg", "a.png"), r"--svg a\.png: the file's name should end in \.svg"),
    ],
)
def test_mistakes(run, args, message):
    with pytest.raises(SettingsError, match=message):
        run(*args)


@pytest.mark.parametrize("form", [(), ("--json", "--svg", "a.svg")])
def test_a_layer_that_is_not_there_is_refused_before_anything_is_shown(tiny_run, form):
    args = (str(tiny_run), SENTENCE, "--device", "cpu", "--layer", "7", *form)
    shown = CliRunner().invoke(app, args)
    assert isinstance(shown.exception, SettingsError)
    assert shown.stdout == ""


def test_a_blank_sentence(run):
    with pytest.raises(SettingsError, match="the sentence is blank: there is nothing to look at"):
        run(sentence="  ")


def test_a_blank_sentence_with_changes(run):
    with pytest.raises(SettingsError, match="' ': there is no sentence in it"):
        run("--force", "0=0", sentence=" ")


def test_a_word_that_occurs_twice_needs_its_number(run):
    with pytest.raises(SettingsError, match=r"'mer': the sentence has it 2 times; .* one of 1, 3"):
        run("--force", "0=mer", sentence="La mer, la mer.")


def test_a_sentence_in_several_parts_cannot_be_forced(run):
    with pytest.raises(SettingsError, match=r"the line is translated in .* parts"):
        run("--force", "0=0", "--whole-lines", sentence="Paul aime la mer. " * 10)


def test_a_part_that_the_model_has_not(run, other_run):
    assert run(model=other_run).exit_code == 0
    with pytest.raises(SettingsError, match="no encoder attention to look at; it has: cross"):
        run("--part", "encoder", model=other_run)


def test_an_unknown_part_is_refused(run):
    assert run("--part", "middle").exit_code == 2


def test_no_model(run, tmp_path):
    with pytest.raises(RunError, match="no such folder"):
        run(model=tmp_path / "none")


@pytest.fixture(scope="module")
def language_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("language")
    model = {"family": "gpt", "layers": 2, "width": 8, "heads": 2, "context": 32}
    return train_recipe(language_recipe("gpt", folder, model=model), folder / "run")


def test_a_language_model_looks_at_its_text(run, language_run, tmp_path):
    text = "the cat sat"
    shown = run("--max-tokens", "3", sentence=text, model=language_run).stdout
    assert shown.startswith(text)
    assert "decoder attention, mean of 2 layers and 2 heads" in shown
    every = run("--all", sentence=text, model=language_run).stdout
    assert every.count("layer ") == 4
    assert every.count("\n\ndecoder attention, layer ") == 3
    assert "╭ ▁" in run("--pieces", sentence=text, model=language_run).stdout
    changed = run("--without", "0.1", "--flatten", "1", sentence=text, model=language_run)
    assert "without 0.1; flat 1: the cat sat" in changed.stdout
    assert "before" in changed.stdout
    files = "--png", tmp_path / "a.png", "--as", "arcs", "--html", tmp_path / "a.html"
    assert run(*files, sentence=text, model=language_run).exit_code == 0
    assert json.loads(HELD.search((tmp_path / "a.html").read_text())[1])["kind"] == "text"
    document = json.loads(run("--json", sentence=text, model=language_run).stdout)
    shapes = [one["shape"] for one in document["attention"]["layers"]]
    assert shapes == [[2, 12, 12]] * 2  # behind the end of a document


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--layer", "5"), "layer: decoder attention has 2, counted from 0; got 5"),
        (("--without", "0.4"), "no such head; this model has only decoder attention, layers 0 to"),
        (("--part", "cross"), "--part has no effect here: the task of .* is language-model"),
        (("--force", "0=1"), "--force has no effect here"),
        (("--all", "--layer", "0"), "--all cannot be used with --layer"),
        (("--as", "arcs"), "--as arcs needs a file to draw"),
        (("--as", "tree", "--png", "a.png"), "the hypotheses of a language model's search are"),
    ],
)
def test_mistakes_in_a_look_into_a_language_model(run, language_run, args, message):
    with pytest.raises(SettingsError, match=message):
        run(*args, sentence="the cat", model=language_run)


def test_a_translation_has_no_tokens_to_go_on_with(run):
    with pytest.raises(
        SettingsError, match=r"--max-tokens has no effect here: .* translation; drop"
    ):
        run("--max-tokens", "3")
