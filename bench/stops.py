"""What the rules by which a beam stops give and cost: quality, worse ends than greedy's, speed.

    python -m bench stops --model RUN [RUN ...] [--beam N] [--sentences N] [--rounds N]

The test sentences of each run are translated by the native engine with `beam.stop` size, heuristic
and safe, and by CTranslate2 in float32, whose rule is `size`, with more and more `beam.patience`.
`below greedy` counts sentences whose answer the model scores lower than greedy search's.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.exports import TestSet, test_set
from bench.machine_state import measure_machine_state
from bench.report import BenchRow, Table, begin, console, options, save, show, show_progress
from regard.decoding.settings import DecodingSettings, Stop
from regard.evaluation.scores import ScoreSettings, score
from regard.tasks.families.answer import Answer
from regard.tasks.translation.pipeline import Translator, load

STOPS: tuple[Stop, ...] = ("size", "heuristic", "safe")
PATIENCE = (1.0, 1.5, 2.0, 3.0)
SCORES = ScoreSettings(metrics=("bleu", "chrf"), resamples=0)
MARGIN = 1e-4  # by which a score is lower, and not only rounded otherwise


@dataclass(frozen=True)
class Way:
    """One way to search."""

    name: str
    translator: Translator
    settings: DecodingSettings

    def answers(self, sources: Sequence[str]) -> list[Answer]:
        return self.translator.translate(sources, self.settings, split=False)


def ways(run: Path, beam: int) -> list[Way]:
    """Greedy search, and a beam by every rule of both engines."""
    native = load(run, device="cpu", engine="native")

    fast = load(run, device="cpu", engine="ctranslate2", precision="float32")

    def settings(size: int, **beam: object) -> DecodingSettings:
        wide = native.search_settings(beam=size, n_best=1)
        return wide.model_copy(update={"beam": wide.beam.model_copy(update=beam)})

    found = [Way("native, greedy", native, settings(1))]
    found += [Way(f"native, {stop}", native, settings(beam, stop=stop)) for stop in STOPS]
    for patience in PATIENCE:
        patient = settings(beam, stop="size", patience=patience)
        found.append(Way(f"CTranslate2, size, patience {patience:g}", fast, patient))
    return found


def measure(
    run: Path, pairs: TestSet, beam: int, rounds: int, progress: Callable[[str], None]
) -> Table:
    """Sentences a second of each way, by rounds, with the quality of its answers."""
    every = ways(run, beam)
    seconds: dict[str, list[float]] = {one.name: [] for one in every}
    answers: dict[str, list[Answer]] = {}
    for one in every:
        one.answers(pairs.sources[:32])  # libraries start, memory is taken
    for number in range(rounds):
        for one in every:
            progress(f"{run.name}, round {number + 1}: {one.name}")
            began = time.perf_counter()
            answers[one.name] = one.answers(pairs.sources)
            seconds[one.name].append(time.perf_counter() - began)
    greedy, size = answers[every[0].name], answers[every[1].name]
    rows = []
    for one in every:
        found = answers[one.name]
        bleu, chrf = score([each.text for each in found], pairs.references, SCORES)
        below = sum(a.score < b.score - MARGIN for a, b in zip(found, greedy, strict=True))
        other = sum(a.text != b.text for a, b in zip(found, size, strict=True))
        notes = {
            "BLEU": f"{bleu.value:.2f}",
            "chrF": f"{chrf.value:.2f}",
            "mean score": f"{sum(each.score for each in found) / len(found):.4f}",
            "below greedy": f"{below}",
            "not as size": f"{other}",
        }
        rates = tuple(len(pairs.sources) / one for one in seconds[one.name])
        rows.append(BenchRow(one.name, True, rates, notes))
    title = f"{run.name}: {len(pairs.sources):,} sentences, beam {beam}"
    return Table(title, "sentences/s", tuple(rows))


def main() -> None:
    parser = options(__doc__, peers=False, clock=False)
    parser.add_argument("--model", type=Path, nargs="+", required=True, help="folders of runs")
    parser.add_argument("--sentences", type=int, default=None, help="of each test set (1000)")
    parser.add_argument("--beam", type=int, default=5, help="(%(default)s)")
    asked = parser.parse_args()
    machine_state = measure_machine_state()
    begin(machine_state, {})
    tables = []
    for run in asked.model:
        pairs = test_set(run, asked.sentences or (60 if asked.quick else 1000))
        tables.append(measure(run, pairs, asked.beam, asked.rounds, show_progress))
        show(tables[-1])
    console.print(f"BLEU: {score(['a'], ['a'], SCORES)[0].signature}")
    setting = {"models": [str(run) for run in asked.model], "beam": asked.beam}
    save(asked, machine_state, tables, left={}, setting=setting)
