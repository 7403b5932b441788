"""An option gives the same translations by every way: lines, documents, in bulk, and in Python."""

import re
from typing import NamedTuple

import pytest
import typer
from typer.testing import CliRunner

import regard
from regard.cli.inference import bulk, translate
from regard.cli.main import command_app
from regard.cluster.bulk_inputs import SourceBlock
from regard.cluster.bulk_job import BlockTranslator
from regard.decoding.settings import search_settings
from regard.errors import SettingsError
from task_runs import FRENCH_WORDS

LINES = [
    "Jane danse.",
    "Elle ne la visite pas en septembre. Paul aime la mer et l'Afrique, 12:30.",
]
FORMATS = {
    "markup": (("--markup",), "{}\n"),
    "html": (("--format", "html"), "<p>{}</p>\n"),
    "srt": (("--format", "srt"), "1\n00:00:01,000 --> 00:00:02,000\n{}\n\n"),
    "text": (("--format", "text"), "{}\n"),
}


class Option(NamedTuple):
    """How an option is given on the command line, to `search_settings`, `translate` and `load`."""

    args: str
    search: dict
    request: dict
    load: dict


def option(args, search=None, request=None, load=None):
    return Option(args, search or {}, request or {}, load or {})


SAMPLING = {"temperature": 0.5, "seed": 9}
NAMES = dict.fromkeys(FRENCH_WORDS, "Zanzibar")
OPTIONS = {
    "nothing": option(""),
    "beam": option("--beam 1", {"beam": 1}),
    "length_penalty": option("--length-penalty 5", {"length_penalty": 5.0}),
    "split": option("--whole-lines", request={"split": False}),
    "prefix": option("--prefix Paul", request={"prefix": "Paul"}),
    "forbid": option("--forbid The", request={"forbidden": ["The"]}),
    "unknown": option("--unknown {dictionary}", {"unknown": True}, {"unknown": NAMES}),
    "sample": option("--sample --temperature 0.5 --seed 9", {"sampling": SAMPLING}),
    "weights": option("--weights {weights}", load={"weights": "{weights}"}),
    "adapter": option("--adapter {adapter}", load={"adapter": "{adapter}"}),
    "ensemble": option("--ensemble {other}", load={"other": "{other}"}),
}


def call(command, *args, given=None):
    args = [*map(str, args)]
    shown = CliRunner().invoke(command_app(command), args, input=given, catch_exceptions=False)
    assert shown.exit_code == 0, shown.stderr
    return shown.stdout


def by_format(name, run, args, lines=LINES):
    """The translations of a document, which are separated as the sources were."""
    options, template = FORMATS[name]
    given = "".join(map(template.format, lines))
    shown = call("translate", run, *args, *options, given=given)
    pattern = re.escape(template).replace(r"\{\}", "(.+?)")
    return [" ".join(one.split("\n")) for one in re.findall(pattern, shown, re.DOTALL)]


def by_bulk(run, args, folder, monkeypatch):
    """The translations of an actor of `regard bulk`."""
    jobs, file = [], folder / "lines.txt"
    file.write_text("".join(f"{line}\n" for line in LINES))
    monkeypatch.setattr(bulk, "_translate", lambda plan, job, options, folder: jobs.append(job))
    call("bulk", run, file, "--out", folder / "out", *args)
    [job] = jobs
    return list(BlockTranslator(job)(SourceBlock(input=0, number=0, texts=LINES)).texts)


def in_python(run, given, names):
    """The translations by the functions of a translator."""
    loading = {name: value.format(**names) for name, value in given.load.items()}
    others = [loading.pop("other")] if "other" in loading else []
    translator = regard.load(run, *others, device="cpu", engine="native", **loading)
    search = search_settings(translator.settings, **given.search)
    yield "translate", [one.text for one in translator.translate(LINES, search, **given.request)]
    if "sampling" in given.search:
        return  # a text alone is always the first
    yield "call", [translator(line, settings=search, **given.request).text for line in LINES]
    yield "look", [translator.look(line, search, **given.request).text for line in LINES]


def expected(run, *args):
    shown = call("translate", run, *args, given="".join(f"{line}\n" for line in LINES))
    return shown.removesuffix("\n").split("\n")


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_gives_the_same_by_every_way(name, task_runs, words_run, tmp_path, monkeypatch):
    run = words_run if name == "unknown" else task_runs.run("translation")
    given, names = OPTIONS[name], task_runs.names("translation")
    native = ("--engine", "native", "--device", "cpu")
    args = [*given.args.format(**names).split(), *native]
    wanted = expected(run, *args)
    assert len(wanted) == len(LINES)
    if name != "nothing":
        assert wanted[1] != expected(run, *native)[1]
    monkeypatch.setattr(translate, "CHUNK", 1)
    assert expected(run, *args) == wanted
    for way in FORMATS:
        try:
            found = by_format(way, run, args)
        except SettingsError as error:  # it is refused
            assert f"--{name}" in str(error)
            continue
        if name == "sample":  # the sentences of a text are numbered otherwise
            assert found != expected(run, *native)
            assert found[0] != LINES[0]
        else:
            assert found == wanted, way
    bulk_options = typer.main.get_command(command_app("bulk")).params
    if name in {"nothing", *(one.name for one in bulk_options)}:
        assert by_bulk(run, args, tmp_path, monkeypatch) == wanted
    for way, found in in_python(run, given, names):
        assert found == wanted, way


def test_samples_of_one_text_differ_by_every_way(task_runs, monkeypatch):
    run, options = task_runs.run("translation"), ("--engine", "native", "--sample")
    for way in FORMATS:
        found = by_format(way, run, options, 3 * LINES[:1])
        assert len({*found}) == 3
        with monkeypatch.context() as patch:
            patch.setattr(translate, "CHUNK", 1)
            assert by_format(way, run, options, 3 * LINES[:1]) == found
