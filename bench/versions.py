"""Whether regard works with the lowest and the newest versions that pyproject.toml allows.

    python -m bench versions [--only lowest|newest] [--torch REQUIREMENT] [--folder FOLDER]

Makes a virtual environment for each, installs this checkout with the extra serve, and runs `look`,
`translate`, a short `train` and `serve` in it, of which each must answer rightly. "lowest" is the
least version of each dependency (what these depend on is as new as they allow); "newest" is what
pip finds. torch is the build that --torch names in both, as other versions bring gigabytes of CUDA
on Linux: where a CPU build of another is at hand, name it. Needs a network, and minutes for each.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TORCH = "torch==2.13.0"  # which constraints.txt names
SENTENCE, ANSWER = "Elle ne la visite pas.", "She does not visit it."
TRAINING = {
    "training.steps": 5,
    "training.schedule.warmup": 1,
    "training.validation.sentences": 8,
    "model.width": 16,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "model.heads": 2,
    "model.feed_forward": 32,
    "corpus.generated.train": 500,
}
NO_MODEL = "no MODEL is given"
LIMIT = 1800  # seconds of a command


def lower_bounds(project: Mapping[str, Any], extras: Sequence[str] = ("serve",)) -> list[str]:
    """The constraints that hold each dependency, but torch, at its least version."""
    wanted = [*project["dependencies"]]
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    bounds = (re.match(r"([\w.-]+)(?:\[.*\])?>=([\w.]+)", one) for one in wanted)
    return [f"{found[1]}=={found[2]}" for found in bounds if found and found[1] != "torch"]


def install(folder: Path, constraints: Sequence[str], torch: str) -> Path:
    """A new environment with regard and these constraints; the path of its commands."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    held = folder / "constraints.txt"
    held.write_text("\n".join((*constraints, torch)), encoding="utf-8")
    pip: list[str | Path] = [
        folder / "bin" / "pip",
        "install",
        "--quiet",
        "--no-compile",
        "--prefer-binary",
    ]
    subprocess.run([*pip, torch], check=True)  # first: else the newest, with CUDA, is looked at
    subprocess.run([*pip, "-c", held, f"{ROOT}[serve]"], check=True)
    return folder / "bin"


def run(commands: Path, *words: str | Path, text: str = "") -> subprocess.CompletedProcess[str]:
    """A command of `regard`, at its end; RuntimeError with what it said if it failed."""
    done = subprocess.run(
        [commands / "regard", *words],
        input=text, capture_output=True, text=True, timeout=LIMIT, env=_environment(),
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done


def _environment() -> dict[str, str]:
    return {name: held for name, held in os.environ.items() if name != "PYTHONPATH"}


def check_look(commands: Path, folder: Path) -> bool:
    """Without MODEL and with it, which only the first time is said to be missing."""
    model = run(commands, "look", SENTENCE)
    given = run(commands, "look", folder / "run", SENTENCE)
    changed = run(commands, "look", SENTENCE, "--without", "0.1", "--png", folder / "map.png")
    return (
        model.stdout.startswith(ANSWER)
        and NO_MODEL in model.stderr
        and NO_MODEL not in given.stderr
        and changed.returncode == 0
    )


def check_translate(commands: Path, folder: Path) -> bool:
    """By the native engine, and by the export of the run that was trained, line by line."""
    answer = run(commands, "translate", "--engine", "native", text=SENTENCE).stdout
    command = "translate", folder / "run", "--engine", "ctranslate2"
    lines = run(commands, *command, text="Elle part.\n\nIl dort.\n").stdout
    return answer == f"{ANSWER}\n" and lines.count("\n") == 3


def check_train(commands: Path, folder: Path) -> bool:
    """Some steps, to the card."""
    shutil.rmtree(folder / "run", ignore_errors=True)
    settings = [word for key, value in TRAINING.items() for word in ("--set", f"{key}={value}")]
    run(commands, "train", "travel", "--out", folder / "run", "--device", "cpu", *settings)
    return (folder / "run" / "model.safetensors").is_file()


def check_serve(commands: Path, folder: Path) -> bool:
    """A form's answer, and the page."""
    command: list[str | Path] = [commands / "regard", "serve", "--port", "0", "--device", "cpu"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=_environment()) as server:
        assert server.stderr is not None
        said = []
        for line in server.stderr:
            said.append(line)
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                break
        else:
            raise RuntimeError(f"ended: {''.join(said)[-2000:]}")
        form = urllib.parse.urlencode({"q": SENTENCE, "source": "fr", "target": "en"}).encode()
        with urllib.request.urlopen(f"{found[0]}/translate", form, timeout=60) as answer:
            translated = ANSWER in answer.read().decode()
        with urllib.request.urlopen(found[0], timeout=60) as page:
            shown = "<html" in page.read().decode()
        server.terminate()
        server.stderr.read()
    return translated and shown and server.returncode == 0


CHECKS = {
    "train": check_train, "look": check_look, "translate": check_translate, "serve": check_serve,
}  # fmt: skip
"""In this order: `look` and `translate` use what was trained."""


def check(which: str, constraints: Sequence[str], torch: str, folder: Path) -> bool:
    """Install and run everything with one set of versions."""
    try:
        commands = install(folder, constraints, torch)
    except subprocess.CalledProcessError:
        print(f"{which}: pip cannot install these versions together: {' '.join(constraints)}")
        return False
    listed: list[str | Path] = [commands / "pip", "list", "--format", "freeze"]
    names = re.compile("|".join([one.partition("==")[0] for one in constraints] or ["."]), re.I)
    versions = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split()
    print(f"{which}: {' '.join(one for one in versions if names.match(one))}")
    held = True
    for name, runs in CHECKS.items():
        try:
            said = "holds" if runs(commands, folder) else "ANSWERS WRONGLY"
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            said = f"FAILS: {error}"
        held &= said == "holds"
        print(f"{which}: {name}: {said}", flush=True)
    return held


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", choices=("lowest", "newest"), help="one of both")
    parser.add_argument("--torch", default=TORCH, metavar="REQUIREMENT", help="the CPU build")
    parser.add_argument("--folder", type=Path, help="keep the environments here")
    asked = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    sets: dict[str, list[str]] = {"lowest": lower_bounds(project), "newest": []}
    with tempfile.TemporaryDirectory() as folder:
        kept = asked.folder or Path(folder)
        chosen = [asked.only] if asked.only else [*sets]
        held = [check(which, sets[which], asked.torch, kept / which) for which in chosen]
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(main())
