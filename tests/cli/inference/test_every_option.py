"""Every option of every command that uses a run has an effect, the same by every way to use it."""

import json
import re
from typing import NamedTuple

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from regard.cli.main import command_app
from regard.errors import RegardError
from regard.evaluation.pharaoh import format_links
from regard.tasks.forecast.pipeline import format_rows
from regard.tasks.registry import VERBS

FRENCH = "Elle ne la visite pas en septembre. Paul aime la mer et l'Afrique, 12:30."


class Option(NamedTuple):
    """How an option is given so that it has an effect."""

    args: str
    beside: str = ""  # what is given without it, too
    refused: str = ""  # it has the effect that this error is raised
    fixture: str = ""  # of the run; by default that of the command's task


WEIGHTS = {
    "weights": Option("--weights {weights}"),
    "adapter": Option("--adapter {adapter}"),
    "device": Option("--device nonsense", refused="device 'nonsense'"),
}
SAMPLING = {
    "temperature": Option("--temperature 0.1"),
    "top_k": Option("--top-k 1"),
    "top_p": Option("--top-p 0.01"),
    "seed": Option("--seed 9"),
}
SAMPLED = {name: one._replace(beside="--sample") for name, one in SAMPLING.items()}
SEARCH = {
    "beam": Option("--beam 9", "--beam 3 --n-best 3 --scores"),
    "n_best": Option("--n-best 2"),
    "length_penalty": Option("--length-penalty 5", "--scores"),
    "sample": Option("--sample"),
    **SAMPLED,
    "scores": Option("--scores"),
}
TRANSLATE = {
    **SEARCH,
    **WEIGHTS,
    "split": Option("--whole-lines"),
    "prefix": Option("--prefix Paul"),
    "forbid": Option("--forbid The"),
    "ensemble": Option("--ensemble {other}"),
    "unknown": Option("--unknown {dictionary}", fixture="words_run"),
    "align": Option("--align"),
    "engine": Option("--engine onnx --adapter x", refused="the engine onnx runs one model"),
    "precision": Option("--precision int16", refused="precision int16"),
}


class Command(NamedTuple):
    """A command, the lines of its standard input, and its options."""

    task: str
    given: tuple[str, str]  # the first has notes
    options: dict[str, Option]
    chunk: str  # where the number of lines that are answered together is written
    render: object  # (document of JSON, arguments) -> what is printed without --json
    beside: str = ""  # what is given beside all options
    rounded: object = str  # what is printed, with numbers as JSON has them


def render_translation(found, args):
    for rank, one in enumerate(found["translations"], 1):
        columns = [str(found["line"]), str(rank)] if "--n-best" in args else []
        columns += [f"{one['score']:.4f}"] if "--scores" in args else []
        links = format_links(map(tuple, one.get("alignment", ())))
        yield "\t".join([*columns, one["text"], *([links] if "--align" in args else [])])


def render_caption(found, args):
    for rank, one in enumerate(found["candidates"], 1):
        columns = [str(rank)] if "--n-best" in args else []
        columns += [f"{one['score']:.4f}"] if "--scores" in args else []
        yield "\t".join([found["picture"], *columns, one["text"]])


def render_labels(found, args):
    labels = (f"{label}\t{chance:.4f}" for label, chance in found["labels"].items())
    name = [found["given"]] if found["given"].endswith(".png") else []
    yield "\t".join([*name, *labels])


def render_filling(found, args):
    for place, answers in enumerate(found["masks"], 1):
        number = f"{place}\t" if len(found["masks"]) > 1 else ""
        for one in answers:
            yield f"{number}{one['probability']:.4f}\t{one['token']}\t{one['text']}"
    yield ""


def render_vectors(found, args):
    for word, vector in zip(found["words"], found["vectors"], strict=True):
        yield f"{word}\t{' '.join(f'{x:.3f}' for x in vector)}"
    yield ""


def render_forecast(found, args):
    yield format_rows(np.array(found["forecast"])[:, None])


COMMANDS = {
    "translate": Command(
        "translation",
        ("Il part\0.", FRENCH),
        TRANSLATE,
        "tasks.translation.options.CHUNK",
        render_translation,
    ),
    "chat": Command(
        "chat",
        ("rain " * 30, "Do you like rain in Oslo?"),
        SAMPLING | WEIGHTS | {"beam": Option("--beam 2"), "candidates": Option("--candidates 1")},
        "",
        lambda found, args: [found["answer"]],
    ),
    "complete": Command(
        "language-model",
        ("the cat sat ÿ", "t"),
        {
            **SAMPLING,
            **WEIGHTS,
            "max_tokens": Option("--max-tokens 3"),
            "n_best": Option("--n-best 2"),
            "beam": Option("--beam 2"),
        },
        "tasks.language.options.PROMPTS_AT_ONCE",
        lambda found, args: [found["prompt"] + one["text"] for one in found["continuations"]],
    ),
    "fill": Command(
        "masked-language-model",
        ("the dogs sat", "the [MASK] sat on [MASK] ."),
        WEIGHTS | {"top": Option("--top 2")},
        "",
        render_filling,
    ),
    "classify": Command(
        "text-classification",
        ("", "w1 cat w2"),
        WEIGHTS | {"best": Option("--best 2"), "ensemble": Option("--ensemble {other}")},
        "tasks.text_classes.pipeline.TEXTS_AT_ONCE",
        render_labels,
    ),
    "classify pictures": Command(
        "picture-classification",
        ("{wide}", "{picture}"),
        WEIGHTS | {"best": Option("--best 2"), "ensemble": Option("--ensemble {other}")},
        "tasks.picture_classes.pipeline.PICTURES_AT_ONCE",
        render_labels,
    ),
    "caption": Command(
        "caption",
        ("{wide}", "{picture}"),
        SEARCH | {name: one._replace(beside="--scores") for name, one in WEIGHTS.items()},
        "tasks.captions.pipeline.PICTURES_AT_ONCE",
        render_caption,
    ),
    "forecast": Command(
        "forecast", ("5", "1 2 3 5"), WEIGHTS | {"steps": Option("--steps 3")}, "", render_forecast
    ),
    "embed": Command(
        "bidirectional-language-model",
        ("the cat", "on the mat"),
        WEIGHTS | {"layer": Option("--layer 0")},
        "tasks.embedding.pipeline.BATCH_TEXTS",
        render_vectors,
        rounded=lambda line: re.sub(r"-?\d+\.\d+(e-\d+)?", lambda x: f"{float(x[0]):.3f}", line),
    ),
}
WAYS = {"json", "file", "kind", "markup", "stream"}
"""Options that choose a way to use a run: each is tried with all others."""


class Use:
    """A command, its run, and everything that its options name."""

    def __init__(self, name, request, task_runs):
        self.name, self.command = name.partition(" ")[0], COMMANDS[name]
        self.names, self._request = task_runs.names(self.command.task), request
        self._runs = {"": task_runs.run(self.command.task)}
        self.given = [one.format(**self.names) for one in self.command.given]

    def run(self, option):
        """The run that an option is tried on."""
        return self._runs.get(option.fixture) or self._request.getfixturevalue(option.fixture)

    def args(self, *texts):
        words = (word for text in (self.command.beside, *texts) for word in text.split())
        return [word.format(**self.names) for word in words]

    def __call__(self, option, *args, given=None):
        """The lines that are printed, and what is noted."""
        given = self.given if given is None else given
        args = [str(self.run(option)), *args]
        lines = "".join(f"{line}\n" for line in given)
        shown = CliRunner().invoke(
            command_app(self.name), args, input=lines, catch_exceptions=False
        )
        assert shown.exit_code == 0, shown.stderr
        return shown.stdout.splitlines(), " ".join(shown.stderr.split())


@pytest.fixture(params=COMMANDS)
def use(request, task_runs):
    return Use(request.param, request, task_runs)


def second_half(lines):
    return lines[len(lines) // 2 :]


def test_every_option_of_every_command_is_here():
    assert {name.partition(" ")[0] for name in COMMANDS} == VERBS.keys()
    for name, command in COMMANDS.items():
        params = typer.main.get_command(command_app(name.partition(" ")[0])).params
        options = {one.name for one in params if one.param_type_name == "option"}
        assert options - WAYS == command.options.keys(), name


def test_every_option_has_an_effect_and_json_says_the_same_in_chunks(use, monkeypatch):
    chunk, plain = use.command.chunk, {}
    for name, option in use.command.options.items():
        args = use.args(option.beside, option.args)
        if option.refused:
            with pytest.raises(RegardError, match=option.refused):
                use(option, *args)
            continue
        base = option.beside, option.fixture
        if base not in plain:
            plain[base], _ = use(option, *use.args(option.beside))
        lines, noted = use(option, *args)
        assert second_half(lines) != second_half(plain[base]), f"{name} has no effect"
        with monkeypatch.context() as patch:
            if chunk:
                patch.setattr(f"regard.{chunk}", 1)
            documents, _ = use(option, *args, "--json")
        documents = [json.loads(line) for line in documents]
        said = [line for one in documents for line in use.command.render(one, args)]
        assert said == list(map(use.command.rounded, lines)), f"{name} in JSON, and in chunks"
        notes = [note for one in documents for note in one.get("notes", ())]
        assert all(" ".join(note.split()) in noted for note in notes), name
        assert notes or use.name == "embed", name
