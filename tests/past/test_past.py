"""What former commits left on disk (`make_fixtures.py`) answers as it did then, goes on with its
training and verifies. Only the command line and `regard.load` are used.
"""

import base64
import json
import math
import shutil
import sys
import tarfile
from functools import cache
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file
from torch.testing import assert_close
from typer.testing import CliRunner

import regard
from regard.cli.main import app

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*has no manifest.json"),
    pytest.mark.filterwarnings("ignore:.*not compared. these are answers to other texts"),
]
HERE = Path(__file__).resolve().parent
COMMITS = ("b75751eb", "7da6536f", "dcf8790a", "aa5eebf4", "7d3a384b")
KINDS = ("runs", "unfinished", "exports", "imports", "ladders")
WORDING = {"notes", "version"}
"""Keys of JSON that are not compared: sentences, and the version of the format."""
NO_P_VALUE = ".0.standings.0.significance.p_value: "  # fewer than 20 examples have none
FIRST_TOKEN = (".0.loss: ", ".0.perplexity: ", ".0.bits_per_character: ")  # is not predicted
MENDED = {
    ("b75751eb", "ladders/translation"): NO_P_VALUE,
    ("7da6536f", "ladders/translation"): NO_P_VALUE,
    ("dcf8790a", "ladders/translation"): NO_P_VALUE,
    ("dcf8790a", "runs/language-model"): FIRST_TOKEN,
    ("aa5eebf4", "runs/language-model"): FIRST_TOKEN,
    ("dcf8790a", "imports/bert"): ".0.masks.0.3.text: ",  # had a space of [MASK] filled in wrongly
}
"""Commit and folder -> what of its answers was wrong, and is another since."""
IMPORTED = {"gpt2": "language-model", "bert": "masked-language-model"}
IMPORTED["bert-classifier"] = "text-classification"
OTHER_OUTPUTS = {("dcf8790a", "translation"), ("aa5eebf4", "translation")}
"""Exports with outputs of texts that are no longer compared: they need `transformers`."""
CALLS = {
    "translation": lambda model: {"translations": [{"text": model("three five go").text}]},
    "chat": lambda model: {"answer": model.conversation().say("Do you like two and four?").text},
    "language-model": lambda model: model("the cat", beam=2, max_tokens=9).to_json(),
    "masked-language-model": lambda model: model("the [MASK] 3 sat on the mat").to_json(),
    "bidirectional-language-model": lambda model: model(["the cat 3"])[0].to_json(),
    "text-classification": lambda model: model("w1 cat w2").to_json(2),
    "picture-classification": lambda model: model("pictures/blue/0.png").to_json(2),
    "caption": lambda model: model("pictures/red/3.png").to_json(),
    "forecast": lambda model: model([1, 1, 2, 3, 5, 8], steps=3).to_json(),
}
"""Task -> a call in Python, which asks what the first line of the first command of its run asks."""


@pytest.fixture(scope="session")
def unpack(tmp_path_factory):
    """Commit -> the folder with what it made."""

    @cache
    def unpacked(commit):
        folder = tmp_path_factory.mktemp(commit)
        with tarfile.open(HERE / f"{commit}.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        return folder

    return unpacked


@pytest.fixture(params=COMMITS)
def commit(request, unpack, monkeypatch):
    """A commit; the current folder is the one with what it made."""
    monkeypatch.chdir(unpack(request.param))
    return request.param


def ask(*command, stdin=""):
    return CliRunner().invoke(app, [*map(str, command)], input=stdin, catch_exceptions=False)


def printed():
    """The commands of the commit, what they read, and what they printed: JSON as values."""
    for asked in json.loads(Path("answers.json").read_text()):
        yield asked["command"], asked["stdin"], parsed(asked["command"], asked["stdout"])


def folder_of(command):
    return next(word for word in command if word.split("/")[0] in KINDS)


def first_answers():
    """Folder -> the first line of what the first command printed of it."""
    return {folder_of(command): before[0] for command, _, before in reversed([*printed()])}


def parsed(command, stdout):
    lines = stdout.splitlines()
    return [json.loads(line) for line in lines] if "--json" in command else lines


def decoded(part):
    """The maps of all heads (H, T, S) of a part of a look; the first looks had no peaks."""
    maps = []
    for layer in part.get("layers", [part]):
        levels = np.frombuffer(base64.b64decode(layer["weights"]), np.uint8).reshape(layer["shape"])
        peaks = np.frombuffer(base64.b64decode(layer.get("peaks", "")), "<f4")
        scale = peaks.reshape(*levels.shape[:-1], 1) if peaks.size else 1
        maps.extend((levels / 255 * scale).reshape(-1, *levels.shape[-2:]))
    return np.array(maps)


def differences(before, now, where=""):
    """Where an answer of today differs from a former one by more than rounding; it may say more."""
    match before, now:
        case {"weights": str()} | {"layers": list()}, dict():
            if not np.allclose(decoded(before), decoded(now), rtol=0, atol=1 / 255):
                yield f"{where}: other weights"
        case dict(), dict():
            for key in before.keys() - WORDING:
                yield from differences(before[key], now.get(key), f"{where}.{key}")
        case list(), list():
            for number, pair in enumerate(zip_longest(before, now)):
                yield from differences(*pair, f"{where}.{number}")
        case float(), float() | int():
            if not math.isclose(before, now, rel_tol=1e-5, abs_tol=1e-5):
                yield f"{where}: {before} is now {now}"
        case _ if before != now:
            yield f"{where}: {before!r} is now {now!r}"


def changes(commit, folder, before, now):
    """The differences that are not mended mistakes."""
    mended = MENDED.get((commit, folder), "unknown")
    return [one for one in differences(before, now) if not one.startswith(mended)]


def test_every_command_answers_as_it_did(commit):
    changed = {}
    for command, stdin, before in printed():
        shown = ask(*command, stdin=stdin)
        assert shown.exit_code == 0, shown.output
        if found := changes(commit, folder_of(command), before, parsed(command, shown.stdout)):
            changed[" ".join(command)] = found
    assert changed == {}


def test_every_run_answers_in_python(commit):
    first = first_answers()
    runs = sorted(Path("runs").iterdir())
    assert len(runs) in (1, len(CALLS))
    for run in runs:
        assert list(differences(CALLS[run.name](regard.load(run)), first[str(run)])) == []


def test_a_killed_training_goes_on_and_ends_as_if_it_had_not_been(commit, tmp_path):
    for killed in sorted(Path("unfinished").iterdir()):
        run = shutil.copytree(killed, tmp_path / killed.name)
        shown = ask("train", "--resume", "--out", run, "--device", "cpu")
        assert shown.exit_code == 0, shown.output
        weights = (
            load_file(path / "model.safetensors") for path in (run, Path("runs", killed.name))
        )
        assert_close(*weights, rtol=1e-3, atol=1e-4)


def test_every_folder_verifies(commit, tmp_path):
    folders = [path for kind in KINDS for path in sorted(Path(kind).glob("*"))]
    assert len(folders) > 3
    for number, folder in enumerate(folders):
        copied = shutil.copytree(folder, tmp_path / str(number))
        if not (copied / "manifest.json").exists():  # older than manifests
            assert ask("verify", copied, "--accept").exit_code == 0
        shown = ask("verify", copied)
        assert shown.exit_code == 0, shown.output


def test_every_export_for_transformers_is_imported(commit, tmp_path, monkeypatch):
    """By the outputs that are kept in it, which takes no import of `transformers`."""
    monkeypatch.setitem(sys.modules, "transformers", None)
    first = first_answers()
    for export in sorted(Path("exports").glob("*-hf")):
        name = export.name.removesuffix("-hf")
        if (commit, name) in OTHER_OUTPUTS:
            with pytest.raises(regard.RegardError, match="only if its outputs equal"):
                ask("import", export, "--out", tmp_path / name)
            continue
        assert ask("import", export, "--out", tmp_path / name).exit_code == 0
        folder = f"imports/{name}" if name in IMPORTED else f"runs/{name}"
        answer = CALLS[IMPORTED.get(name, name)](regard.load(tmp_path / name))
        assert changes(commit, folder, [answer], [first[folder]]) == []
