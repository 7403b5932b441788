"""Make the archives beside this file: what former commits of regard left on disk and answered.

    python tests/past/make_fixtures.py [COMMIT …]

For each commit (all of `COMMITS` by default) the commands of that commit train a tiny run of every
task that it had, once to the end and once until they are killed, export the finished runs in every
format that it had, import folders of `transformers`, and compare systems. What each command
printed is kept in `answers.json` in the archive. `test_past.py` asks today's commands for the same.

Archives are made once: made again, they would hold what today's packages make of former code. For a
new commit, add it to `COMMITS` and name it as the argument.
"""

import json
import os
import runpy
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, NamedTuple, NoReturn

import yaml

COMMITS = ("b75751eb", "7da6536f", "dcf8790a", "aa5eebf4", "7d3a384b")
HERE = Path(__file__).resolve().parent
NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
Audit = Callable[[str, tuple[Any, ...]], None]
COLOURS = ("red", "lime", "blue")


class Recorded(NamedTuple):
    """A command and what it printed."""

    command: list[str]
    stdin: str
    code: int
    stdout: str


# What is learned: a corpus of each kind, so small that its files weigh nothing.


def write_corpora(folder: Path) -> None:
    """Write the files that the recipes name."""
    from PIL import Image

    pairs = [(f"{a} {b} go", f"go {b} and {a}") for a in NUMBERS for b in NUMBERS]
    for side, name in enumerate(("source", "target")):
        (folder / f"pairs.{name}").write_text("".join(f"{pair[side]}\n" for pair in pairs))
    turns = [
        {"turns": [f"Do you like {a} and {b}?"], "answers": [f"Yes, {b}.", f"No, never {a}."]}
        for a in NUMBERS[:6]
        for b in NUMBERS[:5]
    ]
    (folder / "chat.jsonl").write_text("".join(f"{json.dumps(turn)}\n" for turn in turns))
    lines = (f"the cat {n % 7} sat on the mat {n % 3} .\n" for n in range(60))
    (folder / "text.txt").write_text("".join(lines))
    words = {"animal": ("cat", "dog", "cow", "hen"), "number": NUMBERS[:4]}
    with (folder / "labels.tsv").open("w") as table:
        for n in range(120):
            word = words[("animal", "number")[n % 2]][n // 2 % 4]
            label = ("animal", "number")[(n + (n % 7 == 0)) % 2]  # a seventh is mislabelled
            table.write(f"{label}\tw{n % 5} {word} w{n % 3} n{n}\n")
    for colour in COLOURS:
        (folder / "pictures" / colour).mkdir(parents=True)
        for n in range(10):
            picture = Image.new("RGB", (16, 16), "white")
            picture.paste(colour, (n % 4, n % 3, n % 4 + 8, n % 3 + 8))
            picture.save(folder / "pictures" / colour / f"{n}.png")


def training(**settings: Any) -> dict[str, Any]:
    """Settings of training that all recipes share; a run is saved once before its end."""
    shared = {
        "steps": 40,
        "precision": "float32",
        "optimizer": {"learning_rate": 1e-2},
        "schedule": {"warmup": 5},
        "validation": {"every": 20},
        "log_every": 20,
        "save_every": 36,
    }
    return {**shared, **settings}


TRANSFORMER = {
    "family": "transformer", "encoder_layers": 1, "decoder_layers": 2, "width": 16, "heads": 2,
    "feed_forward": 16, "norm": "pre",
}  # fmt: skip
WORDS = {"source": {"kind": "words", "size": 0}}
TRANSLATION = {
    "corpus": {
        "train": {"source": "pairs.source", "target": "pairs.target"},
        "languages": ["en", "de"],
        "split": {"valid": 8, "test": 20},
    },
    "text": {"source": {"kind": "bpe", "size": 300}},
    "model": TRANSFORMER,
    "training": training(
        steps=300,
        save_every=292,
        batch_tokens=256,
        validation={"every": 150, "sentences": 4, "by": "loss"},
    ),
    "decoding": {"beam": {"size": 2}, "rules": {"max_length": 12}},
}
CNN = {"kind": "cnn", "picture_size": 24, "width": 8, "layers": 2}
RUNNING_TEXT = {"train": "text.txt", "test_share": 0.1, "documents": "line"}
LANGUAGE = training(steps=120, save_every=116, batch_size=3, window=16, validation={"every": 60})
RECIPES: dict[str, dict[str, Any]] = {
    "translation": TRANSLATION,
    "chat": TRANSLATION
    | {
        "corpus": {
            "train": {"data": "chat.jsonl"},
            "split": {"valid": 6, "test": 6},
            "dialogue": {"history_tokens": 24, "prior": 0.5},
        },
        "text": {"source": WORDS["source"] | {"symbols": ["<user>", "<assistant>"]}},
        "decoding": {
            "sampling": {"top_p": 0.9},
            "reranking": {"candidates": 3},
            "rules": {"min_length": 1, "max_length": 8},
        },
    },
    "language-model": {
        "corpus": RUNNING_TEXT,
        "text": {"kind": "characters", "size": 0},
        "model": {"family": "gpt", "layers": 1, "width": 8, "heads": 2, "context": 128},
        "training": LANGUAGE,
    },
    "masked-language-model": {
        "corpus": RUNNING_TEXT,
        "text": {"kind": "words", "size": 0},
        "model": {"family": "bert", "layers": 1, "width": 8, "heads": 2, "context": 16},
        "training": LANGUAGE | {"window": 12},
    },
    "bidirectional-language-model": {
        "corpus": RUNNING_TEXT,
        "text": {"kind": "whitespace", "size": 0},
        "model": {
            "family": "elmo", "width": 6, "units": 8, "character_width": 4, "max_characters": 8,
            "filters": [[1, 3], [2, 4]],
        },
        "training": LANGUAGE,
    },
    "text-classification": {
        "corpus": {"train": "labels.tsv", "valid_share": 0.2, "test_share": 0.2},
        "text": {"kind": "words", "size": 0},
        "model": {
            "encoder": {"family": "gpt", "layers": 1, "width": 8, "heads": 2, "context": 16}
        },
        "training": training(batch_size=8),
    },
    "picture-classification": {
        "corpus": {"train": "pictures", "valid_share": 0.2, "test_share": 0.2},
        "model": {
            "family": "vit", "picture_size": 16, "patch": 4, "layers": 1, "width": 8, "heads": 2,
            "framing": "stretch",
        },
        "training": training(batch_size=8),
    },
    "caption": {
        "corpus": {"name": "squares", "generated": {"train": 40, "valid": 6, "test": 6}},
        "text": {"kind": "whitespace", "size": 0},
        "model": {
            "family": "show-attend-tell", "encoder": CNN, "width": 8, "embedding": 8,
            "alignment": 8,
        },
        "training": training(
            batch_captions=8, validation={"every": 20, "by": "loss", "pictures": 4}
        ),
        "decoding": {"beam": {"size": 2}, "rules": {"max_length": 12}},
    },
    "forecast": {
        "corpus": {"name": "fibonacci", "terms": 60, "window": 6, "shortest": 2},
        "model": {"family": "simple-rnn", "attention": "linear", "time_steps": 6},
        "training": training(batch_size=8),
    },
}  # fmt: skip
"""Task -> its recipe, without name and task."""
SYSTEMS = {
    "translation": {
        "rnnsearch": {
            "family": "rnnsearch",
            "width": 8,
            "embedding": 8,
            "alignment": 6,
            "readout": 8,
        },
        "rnn": {"family": "rnn", "width": 8, "embedding": 8},
    },
    "text-classification": {
        name: {"encoder": {"family": name, **sizes}}
        for name, sizes in {
            "gpt": {"layers": 1, "width": 8, "heads": 2, "context": 16},
            "awd-lstm": {"layers": 1, "width": 8, "units": 8},
        }.items()
    },
}
"""Task -> the models that are compared."""

# What is asked of each run.

SENTENCES = "three five go\n\nseven two go\n"
PICTURE = "pictures/red/3.png"
VERBS: dict[str, list[tuple[list[str], str]]] = {
    "translation": [
        (["translate", "RUN", "--engine", "native", "--json"], SENTENCES),
        (["translate", "RUN", "--engine", "native", "--n-best", "2"], SENTENCES),
        (["look", "RUN", "three five go", "--json"], ""),
        (["align", "RUN", "--source", "pairs.source", "--target", "pairs.target"], ""),
    ],
    "chat": [
        (["chat", "RUN", "--json"], "Do you like two and four?\nDo you like one and one?\n"),
        (["look", "RUN", "Do you like two and four?", "--json"], ""),
    ],
    "language-model": [
        (["complete", "RUN", "the cat", "on", "--beam", "2", "--max-tokens", "9", "--json"], ""),
        (["complete", "RUN", "the cat", "--seed", "3", "--max-tokens", "9"], ""),
        (["look", "RUN", "the cat", "--json"], ""),
    ],
    "masked-language-model": [
        (["fill", "RUN", "the [MASK] 3 sat on the mat", "--json"], ""),
        (["look", "RUN", "the [MASK] 3 sat", "--json"], ""),
    ],
    "bidirectional-language-model": [(["embed", "RUN", "the cat 3", "--json"], "")],
    "text-classification": [
        (["classify", "RUN", "--best", "2", "--json"], "w1 cat w2\n\nw3 two w1\n"),
        (["look", "RUN", "w1 cat w2", "--json"], ""),
    ],
    "picture-classification": [
        (["classify", "RUN", "pictures/blue", "--best", "2", "--json"], ""),
        (["look", "RUN", PICTURE, "--json"], ""),
    ],
    "caption": [
        (["caption", "RUN", PICTURE, "pictures/blue/1.png", "--json"], ""),
        (["look", "RUN", PICTURE, "--json"], ""),
    ],
    "forecast": [
        (["forecast", "RUN", "1", "1", "2", "3", "5", "8", "--steps", "3", "--json"], ""),
        (["look", "RUN", "1", "1", "2", "3", "5", "8", "--json"], ""),
    ],
}
"""Task -> commands and their standard input."""
IMPORTED = {
    "gpt2": "language-model",
    "bert": "masked-language-model",
    "bert-classifier": "text-classification",
}
"""Folders of `transformers` -> the task of the run that is made of each."""
ONNX = ("translation", "language-model", "picture-classification")
"""Tasks whose graphs are of three kinds: for transformers.js, with a decoder, and in one graph."""
LABELS = {"id2label": {0: "bad", 1: "good"}, "label2id": {"bad": 0, "good": 1}}


# Commands run in forks of a process that has imported everything: each import takes seconds.


def ask(command: list[str], stdin: str = "", audit: Audit | None = None) -> Recorded:
    """What a command prints, in a process of its own, in which `audit` sees each system call."""
    printed, began = Path(".printed"), time.monotonic()
    printed.mkdir(exist_ok=True)
    (printed / "stdin").write_text(stdin)
    child = os.fork()
    if not child:
        run_here(command, printed, audit)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    print(f"{code} {time.monotonic() - began:5.1f} s  regard {' '.join(command)}", flush=True)
    if code:
        print((printed / "stderr").read_text()[-2000:], flush=True)
    return Recorded(command, stdin, code, (printed / "stdout").read_text())


def run_here(command: list[str], printed: Path, audit: Audit | None) -> NoReturn:
    """Run a command in this process and end it; its streams are files of the folder `printed`."""
    code = 1
    try:
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            flags = os.O_CREAT | os.O_TRUNC | os.O_WRONLY if number else os.O_RDONLY
            os.dup2(os.open(printed / name, flags, 0o644), number)
        if audit:
            sys.addaudithook(audit)
        sys.argv = ["regard", *command]
        runpy.run_module("regard", run_name="__main__")
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def train_until_killed(recipe: str, folder: Path) -> None:
    """Train, and die when the first weights after the first checkpoint are moved to their place."""
    saved = []

    def die_after_a_checkpoint(event: str, details: tuple[Any, ...]) -> None:
        if event == "os.rename" and str(details[1]).endswith(".safetensors"):
            if saved:
                os.kill(os.getpid(), signal.SIGKILL)
            saved.extend(name for name in Path(details[1]).parts if name == "checkpoints")

    killed = ask(
        ["train", recipe, "--device", "cpu", "--out", str(folder)], audit=die_after_a_checkpoint
    )
    if killed.code != -signal.SIGKILL:
        raise SystemExit(f"{folder}: was not killed")


def write_recipe(name: str, task: str, recipe: dict[str, Any]) -> str:
    """Write a recipe's file, which is returned."""
    named = {"name": name, **recipe}
    if task != "translation":  # the first commits had no other, nor the key
        named["task"] = task
    Path("recipes").mkdir(exist_ok=True)
    Path(f"recipes/{name}.yaml").write_text(yaml.safe_dump(named, sort_keys=False))
    return f"recipes/{name}.yaml"


def ask_all(questions: Iterable[tuple[list[str], str]], folder: str) -> Iterator[Recorded]:
    """Ask commands about a folder."""
    for command, stdin in questions:
        yield ask([folder if word == "RUN" else word for word in command], stdin)


def make_run(task: str) -> Iterator[Recorded]:
    """Train a task, to the end and until it is killed."""
    file = write_recipe(task, task, RECIPES[task])
    must(["train", file, "--device", "cpu", "--out", f"runs/{task}"])
    train_until_killed(file, Path("unfinished") / task)
    yield from ask_all([*VERBS[task], (["evaluate", "RUN", "--json"], "")], f"runs/{task}")


def make_exports(task: str) -> Iterator[Recorded]:
    """Export a finished run in every format that the commit has for it."""
    run, copy = f"runs/{task}", f"exports/{task}"
    if task == "translation":
        must(["export", run])
        must(["export", run, "--to", f"{copy}-ctranslate2", "--precision", "float32"])
        for folder in (run, f"{copy}-ctranslate2"):
            yield ask(["translate", folder, "--engine", "ctranslate2"], SENTENCES)
    if not has_tasks():
        return
    must(["export", run, "--to", "run", "--out", f"{copy}-run"])
    yield from ask_all(VERBS[task], f"{copy}-run")
    if task in ONNX:
        must(["export", run, "--to", "onnx", "--out", f"{copy}-onnx"])
    if task == "translation":
        yield ask(["translate", run, "--engine", "onnx", "--json"], SENTENCES)
    if task in ("translation", "picture-classification"):
        must(["export", run, "--to", "hf", "--out", f"{copy}-hf"])


def make_imports(saved: Path) -> Iterator[Recorded]:
    """Import folders that `transformers` saved, and export the runs again."""
    for name, task in IMPORTED.items():
        must(["import", str(saved / name), "--out", f"imports/{name}"])
        must(["export", f"imports/{name}", "--to", "hf", "--out", f"exports/{name}-hf"])
        yield from ask_all(VERBS[task], f"imports/{name}")


def make_comparison(task: str) -> Recorded:
    """Compare systems of a task."""
    files = [
        write_recipe(f"{task}-{name}", task, RECIPES[task] | {"model": model})
        for name, model in SYSTEMS[task].items()
    ]
    folder = f"ladders/{task}"
    must(["compare", *files, "--steps", "20", "--out", folder, "--device", "cpu"])
    return ask(["compare", "--out", folder, "--json"])


def make(saved: Path) -> None:
    """Make everything of the commit that is imported, in the current folder."""
    import regard

    for module in walk_packages(regard.__path__, "regard."):  # once, before the first fork
        if "__main__" not in module.name:
            with suppress(ImportError):
                import_module(module.name)

    write_corpora(Path.cwd())
    tasks = list(RECIPES) if has_tasks() else ["translation"]
    answers = [answer for task in tasks for answer in (*make_run(task), *make_exports(task))]
    if has_tasks():
        answers += make_imports(saved)
    answers += [make_comparison(task) for task in SYSTEMS if task in tasks]
    rows = [answer._asdict() for answer in answers]
    Path("answers.json").write_text(json.dumps(rows, indent=1, ensure_ascii=False))


def has_tasks() -> bool:
    """Whether the commit has tasks beside translation."""
    return find_spec("regard.tasks") is not None


def must(command: list[str]) -> None:
    """Run a command that has to succeed."""
    if ask(command).code:
        raise SystemExit(f"regard {' '.join(command)} failed")


def pack(folder: Path, archive: Path) -> None:
    """Put what was made into an archive, without logs and locks, which nobody reads again."""

    def wanted(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        parts = Path(info.name).parts
        info.uid = info.gid = info.mtime = 0
        info.uname = info.gname = ""
        left_out = {"tensorboard", ".lock", ".printed", "recipes"}.intersection(parts)
        return None if left_out else info

    with tarfile.open(archive, "w:xz", preset=9) as packed:
        for path in sorted(folder.iterdir()):
            packed.add(path, path.name, filter=wanted)
    print(f"{archive.name}: {archive.stat().st_size:,} bytes", flush=True)


def save_hugging_face(folder: Path) -> None:
    """Save tiny models with random weights as `transformers` does."""
    sys.path.insert(0, str(HERE.parent))
    from hf_folders import save_folder

    for name in IMPORTED:
        save_folder(folder / name, name, **({} if name != "bert-classifier" else LABELS))


def make_archive(commit: str) -> None:
    """Make the archive of a commit, in a worktree of it."""
    with tempfile.TemporaryDirectory(prefix="past-") as name:
        tree, work, saved = (Path(name) / part for part in ("tree", "work", "saved"))
        work.mkdir()
        save_hugging_face(saved)
        git = ["git", "-C", str(HERE)]
        subprocess.run([*git, "worktree", "add", "--detach", str(tree), commit], check=True)
        try:
            environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
            worker = [sys.executable, str(HERE / "make_fixtures.py"), "--worker", "../saved"]
            subprocess.run(worker, cwd=work, env=environment, check=True)
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=True)
        pack(work, HERE / f"{commit}.tar.xz")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        make(Path(sys.argv[2]))
    else:
        for wanted_commit in sys.argv[1:] or COMMITS:
            make_archive(wanted_commit)
