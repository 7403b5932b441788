import io
import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from regard.cli.display import run_measurements
from regard.cli.main import command_app
from regard.errors import SettingsError

app = command_app("look")


def look(model, *args):
    args = (str(model), *map(str, args), "--device", "cpu")
    return CliRunner().invoke(app, args, catch_exceptions=False, env={"COLUMNS": "160"})


@pytest.fixture
def run(tiny_run):
    def invoke(*args, model=tiny_run):
        return look(model, "--heads", *args, "--beam", "1")

    return invoke


@pytest.fixture
def files(tmp_path, tiny_run, translator):
    """Two sentences that the model gets right, each with enough words for a BLEU of its own."""
    source, reference = tmp_path / "in.fr", tmp_path / "in.en"
    texts = (tiny_run / "data" / "test.source.txt").read_text().splitlines()
    answers = [translator(text, beam=1) for text in texts]
    long = [answer for answer in answers if len(answer.text.split()) >= 5][:2]
    source.write_text("".join(f"{answer.source}\n" for answer in long))
    reference.write_text("".join(f"{answer.text}\n" for answer in long))
    return "--source", source, "--reference", reference


def test_the_table_of_head_costs(run, files):
    shown = run(*files, "--part", "cross")
    lines = shown.stdout.splitlines()
    assert "on 2 sentences: BLEU 100.00 (100.00 … 100.00)  nrefs:1|bs:1000|" in lines[0]
    assert lines[2].count("head ") == 4
    assert lines[2].endswith("whole layer")
    assert lines[3].startswith("cross 0")
    assert len(lines[4].split()) == 2 + 5
    assert lines[5].startswith("no p-value: a paired bootstrap of fewer than 20 examples says")
    assert "costliest: cross " in lines[6]
    assert " of 8 heads" in lines[7]


def test_a_pipe_is_told_how_far_it_is_before_the_table(monkeypatch):
    pipe, clock = io.StringIO(), iter([0.0, 0.0, 3.0, 6.0, 31.0, 40.0])
    monkeypatch.setattr(run_measurements.time, "monotonic", lambda: next(clock))
    with run_measurements.AblationProgress(500, console=Console(file=pipe)) as progress:
        for done in (0, 1, 2, 9, 10):
            progress.report(done, 10)
    assert pipe.getvalue().splitlines() == [
        "translating 500 sentences 10 times; --limit N takes fewer",
        "1 of 10 translations, about 27 seconds left",
        "9 of 10 translations, about 3.4 seconds left",
    ]


def test_head_costs_as_json_and_as_a_figure(run, files, tmp_path):
    png = tmp_path / "heads.png"
    shown = run(*files, "--part", "cross", "--json", "--png", png, "--theme", "dark")
    found = json.loads(shown.stdout)
    assert found["sentences"] == 2
    assert len(found["removals"]) == 10
    assert found["removals"][-1]["head"] is None
    assert png.read_bytes().startswith(b"\x89PNG")
    assert f"drew {png}" in shown.stderr


def test_heads_of_all_parts_are_measured_on_the_test_split(run, other_run):
    shown = run("--limit", "3", model=other_run)
    assert "test split of the run" in shown.stderr
    assert "on 3 sentences" in shown.stdout
    assert "whole layer" not in shown.stdout
    assert " of 1 head" in shown.stdout


def test_heads_within_the_tolerance_are_free(run, files):
    assert "8 of 8 heads" in run(*files, "--part", "cross", "--tolerance", "101").stdout


def test_options_that_heads_cannot_use(run, files, other_run):
    with pytest.raises(SettingsError, match="--source and --reference must be given together"):
        run("--source", "a")
    with pytest.raises(SettingsError, match=r"--svg a\.png: the file's name should end in \.svg"):
        run(*files, "--svg", "a.png")
    with pytest.raises(SettingsError, match="no encoder attention whose heads could be removed"):
        run(*files, "--part", "encoder", model=other_run)
    assert run("--part", "middle").exit_code == 2


@pytest.fixture
def sentences(tmp_path):
    path = tmp_path / "in.fr"
    path.write_text("Jane visite l'Afrique en septembre.\n\nElle danse.\n")
    return path


def test_the_table_and_figure_of_distances(tiny_run, sentences, tmp_path):
    png = tmp_path / "far.png"
    shown = look(
        tiny_run,
        "--distances",
        "--beam",
        "1",
        "--source",
        sentences,
        "--part",
        "encoder",
        "--png",
        png,
    )
    title, header, *rows = shown.stdout.splitlines()
    assert title.startswith("encoder attention")
    assert header.split() == ["layer.head", "away", "at", "once", "-2", "-1", "0", "+1", "+2"]
    assert [row.split()[0] for row in rows[:2]] == ["0.0", "0.1"]
    assert len(rows) == 3 * 4
    assert png.read_bytes().startswith(b"\x89PNG")


def test_distances_as_json_on_the_test_split(tiny_run):
    shown = look(tiny_run, "--distances", "--beam", "1", "--limit", "3", "--json")
    found = json.loads(shown.stdout)
    assert found["part"] == "cross"
    assert len(found["mean"]) == len(found["spread"]) == 2
    assert len(found["shares"][0][0]) == 21
    assert sum(found["shares"][0][0]) == pytest.approx(1, abs=1e-4)
    assert "test split of the run" in shown.stderr


def test_distances_in_tokens_differ_from_those_in_words(tiny_run, sentences):
    by = [
        look(tiny_run, "--distances", "--beam", "1", "--source", sentences, *more).stdout
        for more in ((), ("--pieces",))
    ]
    assert by[0] != by[1]


def test_distances_need_a_sentence_that_is_not_blank(tiny_run, tmp_path):
    path = tmp_path / "blank.fr"
    path.write_text("\n \n")
    with pytest.raises(SettingsError, match="all sentences are blank: there is nothing to look at"):
        look(tiny_run, "--distances", "--beam", "1", "--source", path)


def test_the_table_and_figure_of_position_encodings(tiny_run, tmp_path):
    svg = tmp_path / "positions.svg"
    shown = look(tiny_run, "--positions", "--svg", svg, "--length", "20", "--theme", "dark")
    title, header, row = shown.stdout.splitlines()[:3]
    assert title.strip() == "mean cosine of two positions by distance"
    assert header.split() == ["kind", "where", "vectors", "1", "2", "4", "8", "16", "32"]
    kind, *where, size, _, _, _, _, last = row.split()
    assert (kind, size) == ("sinusoid", "20×32")
    assert where == ["source_positions,", "target_positions"]
    assert float(last) < 1  # 16 apart; none of 20 are 32 apart
    assert "<svg" in svg.read_text()
    assert f"drew {svg}" in shown.stderr


def test_position_encodings_as_json(tiny_run):
    [found] = json.loads(look(tiny_run, "--positions", "--json", "--length", "5").stdout)
    assert found["kind"] == "sinusoid"
    assert found["places"] == [0, 1, 2, 3, 4]
    assert len(found["vectors"]) == len(found["cosine_by_distance"]) == 5
    assert found["cosine_by_distance"][0] == pytest.approx(1)


def test_recurrent_models_have_no_position_encodings(other_run):
    with pytest.raises(SettingsError, match="this model has no positional encodings"):
        look(other_run, "--positions")


def test_a_figure_file_must_be_named_for_its_format(tiny_run, tmp_path):
    with pytest.raises(SettingsError, match=r"should end in \.png"):
        look(tiny_run, "--positions", "--png", tmp_path / "positions.jpg")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give a SENTENCE, or one of --heads, --distances, --positions"),
        (("--heads", "--positions"), "--positions cannot be used with --heads"),
        (("Elle danse.", "--heads"), "SENTENCE cannot be used with --heads"),
        (("--positions", "--beam", "2"), "--beam cannot be used with --positions"),
        (("--distances", "--tree"), "--tree can only be used with SENTENCE"),
        (("--distances", "--part", "all"), "--part all can only be used with --heads"),
        (("Elle danse.", "--length", "9"), "--length can only be used with --positions"),
        (("Elle danse.", "--limit", "9"), "--limit can only be used with --heads or --distances"),
    ],
)
def test_options_of_another_kind_are_rejected(tiny_run, options, message):
    with pytest.raises(SettingsError, match=message):
        look(tiny_run, *options)
