"""Every option of `regard look` has an effect in each form of an answer, for runs of every task."""

import json
import re

import pytest
import torch
import typer
from typer.testing import CliRunner

from regard.cli.commands.look import PIPELINE_OPTIONS
from regard.cli.main import command_app
from regard.errors import SettingsError
from regard.inspection.interventions import Flattened, Silenced
from regard.pipelines.load import load_for_look
from regard.tasks.registry import TASKS

ATTENTIVE = sorted(TASKS.keys() - {"bidirectional-language-model"})
every_task = pytest.mark.parametrize("task", ATTENTIVE)
LOOKED_AT = {
    "translation": "Elle part. Jane visite l'Afrique.",
    "chat": "Do you like rain? " * 9,
    "caption": "{wide}",
    "picture-classification": "{wide}",
    "forecast": "5",
    "language-model": "the cat sat on",
    "masked-language-model": "the dogs [MASK] [MASK]",
    "text-classification": "w1 sheep w2",
}
"""Task -> what is looked into: something odd, which has notes."""
SINGLE_HEADED = ("caption", "forecast")
ANSWERS = {
    "without": "--without 0",
    "flatten": "--flatten 0.0",
    "weights": "--weights {weights}",
    "adapter": "--adapter {adapter}",
    "force": "--force 0=1",
    "number": "--sentence 1",
    "split": "--whole-lines",
    "beam": "--beam 1",
    "n_best": "--n-best 2",
    "max_tokens": "--max-tokens 3",
}
"""Options that change the answer or its attention."""
VIEWS = {
    "part": "--part encoder",
    "layer": "--layer 0",
    "head": "--head 0",
    "every": "--all",
    "pieces": "--pieces",
}
"""Options that choose what is shown."""
DRAWN = {"kind": "--as arcs", "theme": "--theme dark"}
MEASURES = {"heads", "distances", "positions", "source", "reference", "limit"}
MEASURES |= {"tolerance", "tokenize", "length"}
"""Options of measurements of a run: `tests/cli/display/test_run_measurements.py`."""
NO_EFFECT = {"model", "sentence", "json", "png", "svg", "html", "device", "tree", "track"}
"""What is no option, or a form in which an answer is shown."""


@pytest.fixture
def look(task_runs, tmp_path, monkeypatch):
    """What `regard look` shows of a run: the standard output, the files, and notes."""
    monkeypatch.setattr("regard.tasks.translation.look.ablate_each_head", lambda *_, **__: [])

    def invoke(task, args, *forms, given=None):
        names, given = task_runs.names(task), LOOKED_AT[task] if given is None else given
        given = given.format(**names)
        words = given.split() if task == "forecast" else [given] if given else []
        files = [tmp_path / f"look.{form}" for form in forms]
        options = [word for file in files for word in (f"--{file.suffix[1:]}", str(file))]
        args = [str(task_runs.run(task)), *words, *args.format(**names).split(), *options]
        shown = CliRunner().invoke(command_app("look"), args, catch_exceptions=False)
        assert shown.exit_code == 0, shown.stderr
        return (shown.stdout, *(file.read_bytes() for file in files)), shown.stderr

    return invoke


def test_every_option_is_here():
    params = {one.name for one in typer.main.get_command(command_app("look")).params}
    assert params == {*ANSWERS, *VIEWS, *DRAWN, *MEASURES} | NO_EFFECT - {"track"}


@every_task
def test_every_option_has_an_effect_in_every_form(task, look, task_runs):
    options = {*PIPELINE_OPTIONS.split(), *load_for_look(task_runs.run(task)).look_options.split()}
    if task not in ("translation", "chat"):
        assert not options & MEASURES
    (plain,), noted = look(task, "--json")
    for name in options & ANSWERS.keys():
        (changed,), _ = look(task, f"{ANSWERS[name]} --json")
        assert changed != plain, name
        before = json.loads(changed).get("before")
        assert bool(before) == (name in ("without", "flatten", "force")), name
    pages = {look(task, args, "html")[0][1] for args in ("", ANSWERS["without"])}
    assert len(pages) == 2
    document = json.loads(plain)
    assert document["notes"]
    assert all(note in noted for note in document["notes"])
    forms = ("png",) if task in ("translation", "language-model", "picture-classification") else ()
    plain, noted = look(task, "", *forms)
    assert all(note in noted for note in document["notes"])
    assert look(task, ANSWERS["without"])[0][0] != plain[0]
    views = VIEWS | (DRAWN if forms else {})
    for name in options & views.keys() - ({"layer", "head"} if task in SINGLE_HEADED else set()):
        shown, _ = look(task, views[name], *forms)
        same = [one == two for one, two in zip(shown, plain, strict=True)]
        assert same == [name in DRAWN, False][: len(same)], f"{name} in the terminal, drawn"


def weights_of(look, part):
    """The recorded weights of all heads of the first layer: (H, T, S)."""
    if (layers := getattr(look, "layers", None)) is not None:
        return layers[0].weights
    if (maps := getattr(look.attention, "parts", None)) is not None:
        return maps[part].weights[0]
    maps = getattr(look.attention, "maps", None)
    return look.attention.weights[None, None] if maps is None else maps.weights[0]


def opened(task, task_runs):
    """The pipeline of a task, and what it looks into."""
    given = "1 2 3 5" if task == "forecast" else LOOKED_AT[task].format(**task_runs.names(task))
    return load_for_look(task_runs.run(task), device="cpu"), [given]


@every_task
def test_the_attention_that_is_shown_is_the_changed_one(task, task_runs):
    pipeline, given = opened(task, task_runs)
    part = pipeline.look_part
    plain = pipeline.look(given)
    assert plain.before is None
    assert (weights_of(plain, part).std(-1) > 0).any()
    silent = pipeline.look(given, changes=[Silenced(part, 0, 0)])
    assert not weights_of(silent, part)[0].any()
    flat = weights_of(pipeline.look(given, changes=[Flattened(part, 0, 0)]), part)[0]
    visible = flat > 0
    torch.testing.assert_close(flat, visible / visible.sum(-1, keepdim=True), check_dtype=False)
    assert str(silent.before) == str(plain)


@every_task
def test_a_notebook_has_the_figure_and_a_page_what_each_head_does(task, task_runs):
    pipeline, given = opened(task, task_runs)
    look = pipeline.look(given)
    assert look._repr_html_().count("data:image/svg+xml") == 2  # for light and for dark pages
    ablations = look.ablate()
    heads = [count + (count > 1) for layers in look.heads.values() for count in layers.values()]
    assert len(ablations) == (0 if task in SINGLE_HEADED else sum(heads))
    for one in ablations[:: max(len(ablations) // 3, 1)]:
        silent = pipeline.look(given, changes=[Silenced(one["part"], one["layer"], one["head"])])
        document = json.loads(re.search(r'id="look">(.*?)</script>', silent.page(""), re.DOTALL)[1])
        assert document["target"]["text"] == one["text"]
        assert document["without"] == []


@pytest.mark.parametrize("task", sorted({*ATTENTIVE} - {"translation", "chat"}))
def test_a_head_that_is_not_there_is_refused(task, task_runs):
    pipeline, given = opened(task, task_runs)
    part, other = pipeline.look_part, "encoder" if pipeline.look_part != "encoder" else "cross"
    for change in (Silenced(part, 99), Flattened(part, 0, 99), Silenced(other, 0)):
        with pytest.raises(SettingsError, match=f"{change.place}: there is no such head; this mod"):
            pipeline.look(given, changes=[change])
