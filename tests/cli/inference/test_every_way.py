"""An option gives the same translations by every way: lines, documents, in bulk, and in Python."""

import re
from functools import partial
from typing import NamedTuple

import pytest
import typer
from typer.testing import CliRunner

import regard
from regard.cli.commands import bulk
from regard.cli.main import command_app
from regard.cluster.bulk_inputs import SourceBlock
from regard.cluster.bulk_job import BlockTranslator
from regard.decoding.settings import search_settings
from regard.errors import SettingsError
from regard.inspection.interventions import Silenced
from regard.tasks.translation import look
from regard.tasks.translation import options as translate
from regard.tasks.translation import task as translation
from regard.text.segmentation import InputSettings
from task_runs import FRENCH_WORDS

LINES = [
    "Jane danse.",
    "Elle ne la visite pas en septembre. Paul aime la mer et l'Afrique, 12:30.",
    "Elle part de www.example.org demain.",
]
FORMATS = {
    "markup": (("--markup",), "{}\n"),
    "html": (("--format", "html"), "<p>{}</p>\n"),
    "srt": (("--format", "srt"), "1\n00:00:01,000 --> 00:00:02,000\n{}\n\n"),
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


def by_format(way, run, args, lines):
    """The translations of a document, which are separated as the sources were."""
    options, template = FORMATS[way]
    given = "".join(map(template.format, lines))
    shown = call("translate", run, *args, *options, given=given)
    pattern = re.escape(template).replace(r"\{\}", "(.+?)")
    return [" ".join(one.split("\n")) for one in re.findall(pattern, shown, re.DOTALL)]


def by_lines(run, args, lines):
    """The translations of lines."""
    shown = call("translate", run, *args, given="".join(f"{line}\n" for line in lines))
    return shown.removesuffix("\n").split("\n")


def by_bulk(run, args, lines, monkeypatch):
    """The translations of an actor of `regard bulk`."""
    jobs = []
    monkeypatch.setattr(bulk, "_scan", lambda files: ())
    monkeypatch.setattr(bulk, "BulkPlan", lambda **options: None)
    monkeypatch.setattr(bulk, "_translate", lambda plan, job, options, folder: jobs.append(job))
    call("bulk", run, "lines.txt", "--out", "out", *args)
    return list(BlockTranslator(jobs[0])(SourceBlock(input=0, number=0, texts=lines)).texts)


def in_python(run, given, names, lines):
    """The translations by each function of a translator."""
    loading = {name: value.format(**names) for name, value in given.load.items()}
    others = [loading.pop("other")] if "other" in loading else []
    loaded = regard.load(run, *others, device="cpu", engine="native", **loading)
    search, request = search_settings(loaded.settings, **given.search), given.request
    yield "translate", [one.text for one in loaded.translate(lines, search, **request)]
    if "sampling" in given.search:
        return  # a text alone is always the first
    yield "call", [loaded(line, settings=search, **request).text for line in lines]
    line, changes = lines[1], [Silenced("cross", 0)]  # a look keeps no addresses
    [without] = loaded.translate([line], search, changes=changes, **request)
    for look_at in (loaded.look, partial(loaded, look=True)):
        plain = look_at(line, settings=search, **request)
        changed = look_at(line, settings=search, changes=changes, **request)
        assert (
            plain.text == changed.before.text == loaded.translate([line], search, **request)[0].text
        )
        assert [one["text"] for one in plain.ablate()] == [without.text] == [changed.text]


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_gives_the_same_by_every_way(name, task_runs, words_run, monkeypatch):
    monkeypatch.setattr(translation, "run_input_settings", lambda *_: InputSettings())
    monkeypatch.setattr(look, "list_answer_ablations", lambda answer: [Silenced("cross", 0)])
    run = words_run if name == "unknown" else task_runs.run("translation")
    given, names = OPTIONS[name], task_runs.names("translation")
    native = ("--engine", "native", "--device", "cpu")
    args = [*given.args.format(**names).split(), *native]
    lines = LINES[:2] if name in ("split", "prefix", "sample") else LINES  # which keep no address
    wanted, plain = by_lines(run, args, lines), by_lines(run, native, lines)
    assert len(wanted) == len(lines)
    assert all(one != two for one, two in zip(wanted[1:], plain[1:], strict=True)) or not given.args
    monkeypatch.setattr(translate, "CHUNK", 1)
    assert by_lines(run, args, lines) == wanted
    for way in FORMATS:
        if name == "prefix":
            with pytest.raises(SettingsError, match="--prefix"):
                by_format(way, run, args, lines)
            continue
        found = by_format(way, run, args, lines)
        if name == "sample":  # the sentences of a text are numbered otherwise
            assert found[1] != plain[1]
        else:
            assert found == wanted, way
    bulk_options = typer.main.get_command(command_app("bulk")).params
    if name in {"nothing", *(one.name for one in bulk_options)}:
        assert by_bulk(run, args, lines, monkeypatch) == wanted
    for way, found in in_python(run, given, names, lines):
        assert found == wanted, way


def test_samples_of_one_text_differ_by_every_way(task_runs, monkeypatch):
    run, options = task_runs.run("translation"), ("--engine", "native", "--sample")
    for way in FORMATS:
        found = by_format(way, run, options, 3 * LINES[:1])
        assert len({*found}) == 3
        with monkeypatch.context() as patch:
            patch.setattr(translate, "CHUNK", 1)
            assert by_format(way, run, options, 3 * LINES[:1]) == found
