"""How time and memory grow: with sentence length, batch, beam, vocabulary and corpus.

Fresh models of ours: what a step takes does not depend on what they have learned. In seconds of the
processor on one thread, which what else runs on the machine changes little; beside each curve
stands the k of the power law size^k that fits its upper half. 1 is linear.
"""

import multiprocessing
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from string import ascii_lowercase
from typing import NamedTuple

import torch

from bench.contenders import MEBI
from bench.machine_state import measure_machine_state
from bench.peers.regard_training import SilentReporter
from bench.report import BenchRow, Table, begin, console, options, save, show_progress
from bench.scaling_plot import draw_curves
from bench.statistics import upper_exponent
from regard.batching.collate import collate
from regard.cli.display.tables import plain_table
from regard.decoding.batch_search import SearchMember, search_many
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings
from regard.errors import RunError
from regard.models.build import build_model
from regard.models.contracts import AnyGenerator
from regard.models.translation.transformer_settings import TransformerSettings
from regard.recipes.memory import peak_memory, reset_peak_memory
from regard.recipes.recipe_files import load_recipe
from regard.tasks.translation.needed import require_text_task
from regard.tasks.translation.training_inputs import prepare
from regard.training.loss import batch_loss

VOCABULARY, LENGTH, SENTENCES, BEAM = 8000, 24, 8, 5
"""What is not varied."""
CPU = torch.device("cpu")
FORK = multiprocessing.get_context("fork")
"""A process begun so has torch already, and none of the memory that is measured."""


class Cost(NamedTuple):
    """What some work took."""

    seconds: float
    megabytes: float
    """Held at the most, above what was held before."""


class ScalingAxis(NamedTuple):
    """One thing that is varied."""

    title: str
    unit: str
    sizes: tuple[int, ...]
    work: Callable[[int], Callable[[], object]]
    """A size -> the work to be measured, made ready."""


def build_fresh_model(vocabulary: int = VOCABULARY) -> AnyGenerator:
    torch.manual_seed(0)
    settings = TransformerSettings(preset="small", norm="pre")
    return build_model(settings, vocabulary, vocabulary, joint=True)


def made_up(count: int, length: int, vocabulary: int = VOCABULARY) -> list[list[int]]:
    """Made-up sentences."""
    rng = random.Random(0)
    return [rng.choices(range(4, vocabulary), k=length) for _ in range(count)]


def learn(count: int, length: int, vocabulary: int = VOCABULARY) -> Callable[[], object]:
    """Forward and backward through one batch."""
    model = build_fresh_model(vocabulary).train()
    sentences = made_up(count, length, vocabulary)
    batch = collate(sentences, sentences)

    def step() -> None:
        torch.autograd.backward(batch_loss(model, batch, 0.1).loss)
        model.zero_grad(set_to_none=True)

    return step


def translate(
    count: int, beam: int, answer: int = LENGTH, source: int = LENGTH
) -> Callable[[], object]:
    """Search for answers of one length."""
    model = build_fresh_model().eval()
    settings = DecodingSettings(
        beam=BeamSettings(size=beam, stop="limit"),
        rules=RuleSettings(
            min_length=answer - 1, max_length=answer, max_length_ratio=0.0, max_length_offset=answer
        ),
    )
    member = SearchMember(model, made_up(count, source))
    return lambda: search_many([member], settings, budget=1 << 30)


def read_corpus(pairs: int) -> Callable[[], object]:
    """Read, clean, split, learn a vocabulary and cut into pieces, as `regard train` begins."""
    rng = random.Random(0)
    words = ["".join(rng.choices(ascii_lowercase, k=rng.randint(2, 9))) for _ in range(5000)]
    often = [1 / (rank + 1) for rank in range(len(words))]

    def sentence() -> str:
        return " ".join(rng.choices(words, often, k=rng.randint(6, 18)))

    def work() -> None:
        with tempfile.TemporaryDirectory() as folder:
            sides = {side: Path(folder) / f"{side}.txt" for side in ("source", "target")}
            for path in sides.values():
                path.write_text("\n".join(sentence() for _ in range(pairs)), encoding="utf-8")
            files = f"{{source: {sides['source']}, target: {sides['target']}}}"
            same = ("corpus.split.test=50", "text.source.size=8000")
            recipe = require_text_task(load_recipe("own", [f"corpus.train={files}", *same]), "own")
            prepare(recipe, Path(folder) / "run", SilentReporter().noted)

    return work


def axes(*, quick: bool) -> list[ScalingAxis]:
    """All that is varied; the sizes double."""

    def doubling(first: int, count: int) -> tuple[int, ...]:
        return tuple(first << number for number in range(count - 2 * quick))

    return [
        ScalingAxis("training: sentence length", "tokens", doubling(32, 6), lambda n: learn(4, n)),
        ScalingAxis("training: batch", "sentences", doubling(4, 6), lambda n: learn(n, LENGTH)),
        ScalingAxis(
            "training: vocabulary",
            "pieces",
            doubling(2000, 6),
            lambda n: learn(SENTENCES, LENGTH, n),
        ),
        ScalingAxis(
            "translating: source length",
            "tokens",
            doubling(16, 6),
            lambda n: translate(4, BEAM, LENGTH, n),
        ),
        ScalingAxis(
            "translating: answer length", "tokens", doubling(16, 5), lambda n: translate(4, 1, n)
        ),
        ScalingAxis(
            "translating: batch", "sentences", doubling(2, 6), lambda n: translate(n, BEAM)
        ),
        ScalingAxis(
            "translating: beam", "hypotheses", doubling(1, 6), lambda n: translate(SENTENCES, n)
        ),
        ScalingAxis("reading a corpus", "pairs", doubling(4000, 5), read_corpus),
    ]


def measure(axis: ScalingAxis, size: int, rounds: int) -> list[Cost]:
    """What the work of a size costs, several times, in a process that has held nothing before.

    Its memory is that of the first time, above what the model and the sentences take; the seconds
    of the first time are not counted.
    """
    there, here = FORK.Pipe(duplex=False)
    process = FORK.Process(target=_measure, args=(axis, size, rounds, here))
    process.start()
    here.close()
    try:
        costs: list[Cost] = there.recv()
    except EOFError:
        raise RunError(
            f"{axis.title}, {size:,} {axis.unit}: the process that did it died"
        ) from None
    finally:
        process.join()
    return costs


def _measure(axis: ScalingAxis, size: int, rounds: int, answer: Connection) -> None:
    work = axis.work(size)
    reset_peak_memory(CPU)
    held = peak_memory(CPU)
    work()
    most = (peak_memory(CPU) - held) / MEBI
    costs = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        costs.append(Cost(time.process_time() - began, most))
    answer.send(costs)


def make_table(axis: ScalingAxis, curve: Sequence[Sequence[Cost]]) -> Table:
    """A row for each size, with the most memory that it took."""
    rows = []
    for size, costs in zip(axis.sizes, curve, strict=True):
        most = max(cost.megabytes for cost in costs)
        notes = {"size": str(size), "MB": f"{most:.1f}"}
        seconds = tuple(cost.seconds for cost in costs)
        rows.append(BenchRow(f"{size:,} {axis.unit}", True, seconds, notes))
    return Table(axis.title, "s", tuple(rows), "less")


def main() -> None:
    parser = options(__doc__, peers=False, clock=False)
    asked = parser.parse_args()
    machine_state = measure_machine_state()
    begin(machine_state, {})
    torch.set_num_threads(1)
    tables = []
    shown = plain_table("", "sizes", "seconds", "grows as", "MB", right=("grows as",))
    for axis in axes(quick=asked.quick):
        curve = []
        for size in axis.sizes:
            show_progress(f"{axis.title}: {size:,} {axis.unit}")
            curve.append(measure(axis, size, asked.rounds))
        tables.append(make_table(axis, curve))
        least = [min(cost.seconds for cost in costs) for costs in curve]
        most = [max(cost.megabytes for cost in costs) for costs in curve]
        shown.add_row(
            axis.title,
            f"{axis.sizes[0]:,} … {axis.sizes[-1]:,} {axis.unit}",
            f"{least[0]:.3g} … {least[-1]:.3g}",
            f"size^{upper_exponent(axis.sizes, least):.2f}",
            f"{most[0]:.0f} … {most[-1]:.0f}",
        )
    console.print(shown)
    save(asked, machine_state, tables, left={}, setting={"threads": 1}, draw=draw_curves)
