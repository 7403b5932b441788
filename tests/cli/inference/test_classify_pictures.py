import json

import pytest
from typer.testing import CliRunner

from picture_runs import save_shape
from regard.cli.main import command_app

classify, look, evaluate = (command_app(name) for name in ("classify", "look", "evaluate"))


def run(app, *args, **options):
    return CliRunner().invoke(app, [str(arg) for arg in args], **options)


@pytest.fixture
def photos(tmp_path):
    save_shape(tmp_path / "a.png", "red", 50)
    save_shape(tmp_path / "more" / "b.png", "green", 51)
    return tmp_path


def test_one_picture_gives_its_label_alone(vit_run, photos):
    found = run(classify, vit_run, photos / "a.png", "--device", "cpu")
    assert found.exit_code == 0
    assert found.stdout.startswith("red\t")


def test_folders_and_lists_are_named_and_bad_ones_told(vit_run, photos):
    (photos / "bad.png").write_text("no picture")
    found = run(classify, vit_run, photos)
    assert found.exit_code == 1
    rows = [line.split("\t")[:2] for line in found.stdout.splitlines()]
    assert rows == [
        [str(photos / "a.png"), "red"],
        [str(photos / "bad.png"), ""],
        [str(photos / "more" / "b.png"), "green"],
    ]
    assert "bad.png: not a picture" in " ".join(found.stderr.split())
    listed = f"{photos / 'more' / 'b.png'}\n"
    again = run(classify, vit_run, "--best", "2", "--json", input=listed)
    labels = json.loads(again.stdout)["labels"]
    assert len(labels) == 2
    assert next(iter(labels)) == "green"


def test_a_blank_line_is_a_name_without_a_picture_and_a_tab_breaks_no_columns(vit_run, photos):
    tabbed = photos / "a\tb.png"
    (photos / "a.png").rename(tabbed)
    found = run(classify, vit_run, input=f"{photos / 'more' / 'b.png'}\n\n{tabbed}\n")
    assert found.exit_code == 1
    rows = [line.split("\t") for line in found.stdout.splitlines()]
    assert [row[1] for row in rows] == ["green", "", "red"]  # three lines in, three out
    assert rows[2][0].endswith(r"a\tb.png")
    assert "a blank name" in found.stderr
    found = run(classify, vit_run, "")
    assert (found.exit_code, found.stdout) == (1, "\n")


def test_a_look_writes_figures_and_a_page(vit_run, photos):
    figure, page = photos / "look.png", photos / "look.html"
    shown = run(look, vit_run, photos / "a.png", "--layer", "1", "--png", figure, "--html", page)
    assert shown.exit_code == 0
    assert "class token" in shown.stdout
    assert "rollout" in shown.stdout
    assert figure.stat().st_size > 1000
    assert "data:image/jpeg" in page.read_text()
    without = run(look, vit_run, photos / "a.png", "--without", "0", "--without", "1")
    assert without.exit_code == 0
    assert "before" in without.stdout


def test_it_is_evaluated(vit_run, photos):
    found = run(evaluate, vit_run, "--json")
    assert found.exit_code == 0
    assert json.loads(found.stdout)["accuracy"] == 100
