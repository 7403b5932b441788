"""Whether damage to the files of runs and exports of every kind is found, and never changes an
answer.

A run of each task is trained for seconds, and exported in every format that can hold it. Then
single bits are flipped (`--flips`), or whole files replaced by what is no such file: a pipe, a
device, zeros (`--replaced`). After each damage `regard verify` must name the file, and every
command that reads the folder must answer as before, or end in one line.
"""

import argparse
import faulthandler
import json
import os
import random
import shutil
import signal
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from PIL import Image
from typer.testing import CliRunner

from regard.cli.main import app
from regard.errors import RegardError, RunError, RunWarning
from regard.manifest import MANIFEST
from regard.recipes.paths import EXPORT_INFO, RECIPE_FILE, run_spec
from regard.recipes.verification import verify

LOCK = ".lock"
LOGS = ("metrics.jsonl", "tensorboard")  # they grow, and have no digests
WRONG = "WRONG"
MAX_TRIES = 20  # of models until one is imported
SECONDS = 180  # in which a command must end
TRAINING: dict[str, Any] = {
    "steps": 6,
    "precision": "float32",
    "optimizer": {"learning_rate": 5e-3},
    "schedule": {"shape": "constant", "warmup": 0},
    "validation": {"every": 3},
    "save_every": 3,
    "log_every": 3,
}
SIZES = {"layers": 1, "width": 16, "heads": 2, "context": 16}
TRANSFORMER: dict[str, Any] = {
    "family": "transformer",
    "encoder_layers": 1,
    "decoder_layers": 1,
    "width": 16,
    "heads": 2,
    "feed_forward": 16,
}
TRAVEL = {"name": "travel", "generated": {"train": 60, "valid": 8, "test": 6}}
SHAPES = {"name": "squares", "generated": {"train": 20, "valid": 4, "test": 4}}
CNN = {"kind": "cnn", "picture_size": 24, "width": 16, "layers": 2}
RECIPES: Mapping[str, Mapping[str, Any]] = {
    "translator": {
        "corpus": TRAVEL,
        "text": {"source": {"kind": "bpe", "size": 400}},
        "model": TRANSFORMER,
        "training": {**TRAINING, "batch_tokens": 512, "average": 2},
        "decoding": {"beam": {"size": 2}, "rules": {"max_length": 12}},
    },
    "chatbot": {
        "task": "chat",
        "corpus": {"train": {"data": "dialogues.jsonl"}, "split": {"valid": 4, "test": 4}},
        "text": {"source": {"kind": "words", "size": 0, "symbols": ["<user>", "<assistant>"]}},
        "model": TRANSFORMER,
        "training": {**TRAINING, "batch_tokens": 512},
        "decoding": {"rules": {"max_length": 8}},
    },
    "language model": {
        "task": "language-model",
        "corpus": {"train": "text.txt", "test_share": 0.1, "documents": "line"},
        "text": {"kind": "characters", "size": 0},
        "model": {"family": "gpt", **SIZES},
        "training": {**TRAINING, "batch_size": 3, "window": 8},
    },
    "masked language model": {
        "task": "masked-language-model",
        "corpus": {"train": "text.txt", "test_share": 0.1, "documents": "line"},
        "text": {"kind": "words", "size": 0},
        "model": {"family": "bert", **SIZES},
        "training": {**TRAINING, "batch_size": 3, "window": 12},
    },
    "ELMo": {
        "task": "bidirectional-language-model",
        "corpus": {"train": "text.txt", "test_share": 0.1, "documents": "line"},
        "text": {"kind": "whitespace", "size": 0},
        "model": {
            "family": "elmo",
            "width": 6,
            "units": 8,
            "character_width": 4,
            "filters": [[1, 3], [2, 4]],
        },
        "training": {**TRAINING, "batch_size": 3, "window": 8},
    },
    "classifier of texts": {
        "task": "text-classification",
        "corpus": {"train": "labels.tsv", "test_share": 0.2},
        "text": {"kind": "words", "size": 0},
        "model": {"encoder": {"family": "gpt", **SIZES}, "ngrams": 2},
        "training": {**TRAINING, "batch_size": 8},
    },
    "classifier of pictures": {
        "task": "picture-classification",
        "corpus": {"train": "pictures", "test_share": 0.3},
        "model": {
            "family": "vit",
            "picture_size": 16,
            "patch": 4,
            "layers": 1,
            "width": 16,
            "heads": 2,
            "framing": "stretch",
        },
        "training": {**TRAINING, "batch_size": 8},
    },
    "captioner": {
        "task": "caption",
        "corpus": SHAPES,
        "text": {"kind": "whitespace", "size": 0},
        "model": {"family": "show-attend-tell", "encoder": CNN, "width": 16, "embedding": 16},
        "training": {**TRAINING, "batch_captions": 8},
        "decoding": {"rules": {"max_length": 6}},
    },
    "forecaster": {
        "task": "forecast",
        "corpus": {"name": "fibonacci", "terms": 60, "window": 6, "shortest": 2},
        "model": {"family": "simple-rnn", "attention": "linear", "time_steps": 6},
        "training": {**TRAINING, "batch_size": 8},
    },
}
EXPORTS: Mapping[str, tuple[str, ...]] = {
    "translator": ("ctranslate2", "onnx", "hf", "run"),
    "language model": ("run",),
    "masked language model": ("run",),
    "imported gpt2": ("hf", "run"),
    "imported bert": ("hf", "run"),
    "classifier of texts": ("run",),
    "classifier of pictures": ("hf", "run"),
    "captioner": ("run",),
    "forecaster": ("onnx",),
}
"""By the run, the formats that are tried."""
IMPORTED = "imported "
"""Begins the names of runs that are imported: random models of a family of `transformers`."""


class Outcome(NamedTuple):
    """What a command said."""

    code: int
    said: str
    errors: list[str]  # lines of errors and notes
    failed: str | None  # an error without a message for users: its traceback would be printed

    def judge(self, before: "Outcome", file: str, *, listed: bool) -> str:
        """What came of it, where it was said `before` the damage to a file, which a manifest has
        `listed`; WRONG if it should not have.
        """
        if self.failed is not None:
            return f"{WRONG}: {self.failed}"
        new = [line for line in self.errors if line not in before.errors]
        if self.code:
            return "refused" if self.code == 1 else f"{WRONG}: code {self.code}, {new[:3]}"
        if self.said == before.said:
            return "the same answer"
        told = not listed or any(Path(file).name in line for line in new)
        return "another answer, told" if told else f"{WRONG}: another answer, without a word"


class NotEndedError(BaseException):
    """A command took too long."""


class Damage(NamedTuple):
    """A change of a file."""

    folder: Path  # of the undamaged run or export
    file: str
    what: str
    change: Callable[[Path], object]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=300, help="bits that are flipped")
    parser.add_argument(
        "--replaced", action="store_true", help="replace every file, of folders without manifests"
    )
    parser.add_argument("--seed", type=int, default=0)
    kinds = list({**RECIPES, **EXPORTS})
    parser.add_argument("--only", action="append", choices=kinds, help="default: all")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        folders = list(make_folders(root, given.only or kinds))
        draw = random.Random(given.seed)
        damages = replacements(folders) if given.replaced else flips(folders, given.flips, draw)
        counts = Counter[tuple[str, str]]()
        for damage in damages:
            for command, outcome in try_damage(root, damage, listed=not given.replaced):
                if outcome.startswith(WRONG):
                    where = f"{damage.folder.name}/{damage.file}: {damage.what}"
                    print(f"{where}: {command}: {outcome}", flush=True)
                counts[damage.folder.name, outcome.partition(":")[0]] += 1
    for (folder, outcome), count in sorted(counts.items()):
        print(f"{folder:<32} {outcome:<24} {count:>6}")
    return int(any(outcome == WRONG for _, outcome in counts))


def flips(folders: Sequence[Path], count: int, draw: random.Random) -> Iterator[Damage]:
    """Single bits of files that are drawn, as many in each folder."""
    for number in range(count):
        folder = folders[number % len(folders)]
        file = draw.choice(files_of(folder))
        place, bit = draw.randrange((folder / file).stat().st_size), draw.randrange(8)
        yield Damage(folder, file, f"bit {bit} of byte {place:,}", partial(flip, place, bit))


def flip(place: int, bit: int, path: Path) -> None:
    """Turn one bit of a file over."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(content)


def replacements(folders: Sequence[Path]) -> Iterator[Damage]:
    """Every file of all folders, replaced in every way."""
    for folder in folders:
        for file in (one for one in files_of(folder) if Path(one).name != MANIFEST):
            for what, put in REPLACEMENTS.items():
                yield Damage(folder, file, what, partial(replace, put))


def replace(put: Callable[[Path, bytes], object], path: Path) -> None:
    """Put something else in the place of a file."""
    content = path.read_bytes()
    path.unlink()
    put(path, content)


REPLACEMENTS: Mapping[str, Callable[[Path, bytes], object]] = {
    "a pipe": lambda path, content: os.mkfifo(path),
    "a device": lambda path, content: path.symlink_to("/dev/zero"),
    "a folder": lambda path, content: path.mkdir(),
    "empty": lambda path, content: path.touch(),
    "zeros": lambda path, content: path.write_bytes(bytes(len(content))),
    "truncated": lambda path, content: path.write_bytes(content[: len(content) // 2]),
    "random": lambda path, content: path.write_bytes(random.Random(0).randbytes(len(content))),
}


def files_of(folder: Path) -> list[str]:
    """The files of a folder that answers come from."""
    names = (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())
    return [name.as_posix() for name in names if name.parts[0] not in LOGS and name.name != LOCK]


_BEFORE: dict[tuple[str, ...], Outcome] = {}


def try_damage(root: Path, damage: Damage, *, listed: bool) -> Iterator[tuple[str, str]]:
    """What `verify` says of a damaged copy of a folder, and what came of each command that reads
    it.

    `listed`: the copy has its manifests.
    """
    place = root / "copies" / damage.folder.name

    def copy() -> None:
        shutil.rmtree(root / "copies", ignore_errors=True)
        shutil.copytree(damage.folder, place)
        for manifest in [] if listed else place.rglob(MANIFEST):
            manifest.unlink()

    copy()
    commands = [*uses(place, root), *([] if listed else resumes(place))]
    damage.change(place / damage.file)
    if listed:
        names = [one.file for one in verify(place).findings if one.state == "damaged"]
        yield "verify", "found" if names == [damage.file] else f"{WRONG}: verify names {names}"
    for argv in commands:
        if argv not in _BEFORE:
            copy()
            _BEFORE[argv] = run_command(*argv)
        copy()
        damage.change(place / damage.file)
        yield " ".join(argv), run_command(*argv).judge(_BEFORE[argv], damage.file, listed=listed)


def run_command(*argv: str) -> Outcome:
    """Run a command in this process."""

    def stop(*of: Any) -> None:
        raise NotEndedError

    faulthandler.dump_traceback_later(2 * SECONDS, exit=True)  # a library waits, and hears nothing
    signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RunWarning)
            found = CliRunner(env={"COLUMNS": "200"}).invoke(app, argv)
    except NotEndedError:
        return Outcome(1, "", [], f"not ended after {SECONDS} s")
    finally:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()
    error, failed = found.exception, None
    errors = [*found.stderr.splitlines(), *(str(one.message) for one in caught)]
    if isinstance(error, (RegardError, OSError)):
        errors += (lines := str(error).splitlines())
        failed = None if len(lines) == 1 else f"an error of {len(lines)} lines"
    elif error is not None and not isinstance(error, SystemExit):
        failed = f"{type(error).__name__}: {str(error)[:120]}"
    return Outcome(found.exit_code, found.stdout, errors, failed)


def make_folders(root: Path, names: Sequence[str]) -> Iterator[Path]:
    """A run of each name, and its exports."""
    write_data(root)
    for name in names:
        run = root / name.replace(" ", "-")
        if name.startswith(IMPORTED):
            make_import(name.removeprefix(IMPORTED), root / "foreign", run)
        else:
            make_run(name, root, run)
        for argv in uses(run, root):
            _require(*argv)  # the folder then has the exports that engines use
        yield run
        for form in EXPORTS.get(name, ()):
            out = root / f"{run.name}-{form}"
            to = [str(out)] if form == "ctranslate2" else [form, "--out", str(out)]
            _require("export", str(run), "--to", *to)
            yield out


def make_run(name: str, root: Path, run: Path) -> None:
    """Train a run on the data of a folder."""
    recipe = {"name": "tiny", "about": "Damaged.", **RECIPES[name]}
    corpus = {key: _placed(value, root) for key, value in recipe["corpus"].items()}
    (root / "recipe.yaml").write_text(yaml.safe_dump({**recipe, "corpus": corpus}))
    _require("train", str(root / "recipe.yaml"), "--out", str(run))


def make_import(family: str, folder: Path, run: Path) -> None:
    """Import the first random model of a family whose settings are not refused."""
    models = import_module("bench.fuzz_folders")  # transformers, which few kinds need
    for number in range(MAX_TRIES):
        models.save_model(family, 0, number, folder)
        if not run_command("import", str(folder), "--out", str(run)).code:
            return
    raise RunError(f"{family}: {MAX_TRIES} models were refused")


def _require(*argv: str) -> None:
    found = run_command(*argv)
    if found.code:
        raise RunError(f"regard {' '.join(argv)}: {found.failed or found.errors[-1]}")


def _placed(value: Any, root: Path) -> Any:
    """A setting of a corpus, with the names of its files made absolute."""
    if isinstance(value, dict):
        return {key: _placed(one, root) for key, one in value.items()}
    return str(root / value) if isinstance(value, str) and (root / value).exists() else value


def write_data(root: Path) -> None:
    """Write the data that runs are trained on and asked about."""
    (root / "text.txt").write_text(
        "".join(f"the cat {n % 7} sat on {n % 3} .\n" for n in range(60))
    )
    labels = ("animal\ta cat", "number\tone two", "animal\tthe cow", "number\tsix ten")
    (root / "labels.tsv").write_text("".join(f"{labels[n % 4]} {n}\n" for n in range(40)))
    (root / "source.txt").write_text("Jane visite Paris .\nElle aime la France .\n")
    turns = [json.dumps({"turns": [f"Do you like tea {n}?", "Yes, I do."]}) for n in range(30)]
    (root / "dialogues.jsonl").write_text("\n".join(turns))
    for number in range(24):
        colour = ("red", "blue")[number % 2]
        path = root / "pictures" / colour / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20 + number, 20), colour).save(path)


def uses(folder: Path, root: Path) -> list[tuple[str, ...]]:
    """The commands that answer from a run or an export."""
    place, source = str(folder), str(root / "source.txt")
    if not (folder / RECIPE_FILE).is_file():
        if (folder / EXPORT_INFO).is_file():
            return [("translate", place, source), ("import", place, "--out", f"{place}-imported")]
        if (folder / "onnx.json").is_file():
            return []  # other programs read it
        return [("import", place, "--out", f"{place}-imported")]
    picture = str(root / "pictures" / "red" / "0.png")
    asked: dict[str, list[tuple[str, ...]]] = {
        "translation": [
            ("translate", place, source),
            *(("translate", place, source, "--engine", one) for one in ("native", "onnx")),
            ("align", place, "--plain"),
        ],
        "chat": [],
        "language-model": [("complete", place, "the cat", "--seed", "1")],
        "masked-language-model": [("fill", place, "the [MASK] sat")],
        "bidirectional-language-model": [("embed", place, "the cat")],
        "text-classification": [("classify", place, "the cow 3")],
        "picture-classification": [("classify", place, picture)],
        "caption": [("caption", place, picture)],
        "forecast": [("forecast", place, "1", "1", "2", "3")],
    }
    measured = [] if folder.name.startswith(IMPORTED.strip()) else [("evaluate", place)]
    return [*asked[run_spec(folder).name], *measured]


def resumes(folder: Path) -> list[tuple[str, ...]]:
    """Commands that go on with a run."""
    if not (folder / "checkpoints").is_dir():
        return []
    return [("train", "--resume", "--out", str(folder), "--set", "training.steps=7")]
