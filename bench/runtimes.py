"""One model in every runtime that `regard export` writes for: are the texts the same, and how fast.

Each gets its own export and the same search: the run's beam, scores divided by length^penalty, a
sentence that is done with as many ended hypotheses as the beam is wide, the same longest answers.
"""

import argparse
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch

from bench.engines import BLEU
from bench.exports import test_set
from bench.peers.regard import export as copy_run
from bench.report import console
from regard.decoding.settings import DecodingSettings
from regard.engines.ctranslate2.export_artifact import ExportPrecision
from regard.engines.engine_tuning import CPU_BUDGET, EngineConfig
from regard.errors import RegardError
from regard.evaluation.scores import score
from regard.pipelines.exchange.export_run import export_folder
from regard.tasks.translation.pipeline import EngineChoice, load

BATCH = 64  # sentences of like length that `generate` is given
SHOWN = 5  # differences that are printed

Translate = Callable[[Sequence[str]], list[str]]


class Outcome(NamedTuple):
    """What a runtime wrote."""

    texts: list[str]
    seconds: float
    processor: float
    """Seconds of all its threads: what the wall would show of one, were nothing else to do."""


def open_ours(run: Path, settings: DecodingSettings, engine: str, precision: str) -> Translate:
    """One of our engines, with whatever runtime it has."""
    chosen: EngineChoice = engine  # type: ignore[assignment]
    weights: ExportPrecision = precision  # type: ignore[assignment]
    choice = None
    if engine == "native":  # in this process alone, so that its time is known
        choice = EngineConfig(engine="native", precision="float32", workers=1, budget=CPU_BUDGET)
    translator = load(run, device="cpu", engine=chosen, precision=weights, choice=choice)
    return lambda texts: [one.text for one in translator.translate(texts, settings, split=False)]


def open_transformers(run: Path, settings: DecodingSettings) -> Translate:
    """`generate` of the exported folder, with its own tokenizer."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    folder = export_folder(run, run.parent / "hf").folder
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of sacremoses, which Marian's tokenizer does without
        tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    model: Any = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()

    @torch.inference_mode()
    def translate(texts: Sequence[str]) -> list[str]:
        by_length = defaultdict[int, list[int]](list)
        for place, text in enumerate(texts):
            by_length[len(tokenizer(text)["input_ids"])].append(place)
        found: dict[int, str] = {}
        for length, places in by_length.items():
            for first in range(0, len(places), BATCH):
                some = places[first : first + BATCH]
                batch = tokenizer([texts[place] for place in some], return_tensors="pt")
                ids = model.generate(
                    **batch,
                    num_beams=settings.beam.size,
                    length_penalty=settings.beam.length_penalty,
                    early_stopping=settings.beam.size > 1,
                    max_length=settings.rules.limit(length) + 1,  # the start counts there
                    forced_eos_token_id=None,
                )
                spelled = tokenizer.batch_decode(ids, skip_special_tokens=True)
                found |= zip(some, spelled, strict=True)
        return [found[place] for place in range(len(texts))]

    return translate


def runtimes(run: Path, settings: DecodingSettings) -> dict[str, Callable[[], Translate]]:
    """Every runtime by its name; ours comes first."""

    def ours(engine: str, precision: str) -> Callable[[], Translate]:
        return lambda: open_ours(run, settings, engine, precision)

    return {
        "regard native float32": ours("native", "float32"),
        "transformers float32": lambda: open_transformers(run, settings),
        "onnxruntime float32": ours("onnx", "float32"),
        "onnxruntime int8": ours("onnx", "int8"),
        "CTranslate2 float32": ours("ctranslate2", "float32"),
        "CTranslate2 int8": ours("ctranslate2", "int8"),
    }


def measure(
    opened: Mapping[str, Callable[[], Translate]], texts: Sequence[str]
) -> tuple[dict[str, Outcome], dict[str, str]]:
    """What each writes, and why some cannot."""
    outcomes: dict[str, Outcome] = {}
    failed: dict[str, str] = {}
    for name, open_one in opened.items():
        try:
            translate = open_one()
            translate(texts[:4])  # what is done once is done before the clock starts
        except (RegardError, ImportError) as error:
            failed[name] = str(error)
            continue
        started, busy = time.perf_counter(), time.process_time()
        found = translate(texts)
        outcomes[name] = Outcome(found, time.perf_counter() - started, time.process_time() - busy)
    return outcomes, failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="a run's folder")
    parser.add_argument("--sentences", type=int, default=500, help="of the test set (%(default)s)")
    parser.add_argument("--beam", type=int, default=None, help="(that of the run)")
    parser.add_argument("--threads", type=int, default=None, help="of torch (all cores)")
    asked = parser.parse_args()
    if asked.threads:
        torch.set_num_threads(asked.threads)
    pairs = test_set(asked.model, asked.sentences)
    with TemporaryDirectory() as place:
        run = Path(place, "run")
        run.mkdir()
        copy_run(asked.model, run)
        translator = load(run, device="cpu", engine="native")
        settings = translator.search_settings(beam=asked.beam)
        outcomes, failed = measure(runtimes(run, settings), pairs.sources)
    mine = next(iter(outcomes.values())).texts
    console.print(f"{len(mine)} sentences, beam {settings.beam.size}")
    for name, found in outcomes.items():
        same = sum(one == other for one, other in zip(mine, found.texts, strict=True))
        [bleu] = score(found.texts, pairs.references, BLEU)
        console.print(
            f"{name:<22} {same:>4} the same  BLEU {bleu.value:5.2f}  {found.seconds:6.1f} s, "
            f"{found.processor:5.1f} s of processors"
        )
    for name, why in failed.items():
        console.print(f"{name:<22} cannot: {why}")
    for name, found in outcomes.items():
        if name.endswith("float32"):
            show_differences(name, pairs.sources, mine, found.texts)


def show_differences(
    name: str, sources: Sequence[str], mine: Sequence[str], theirs: Sequence[str]
) -> None:
    """Print some texts that are not the same."""
    unlike = [one for one in zip(sources, mine, theirs, strict=True) if one[1] != one[2]]
    for source, ours, other in unlike[:SHOWN]:
        console.print(f"  {source}\n    ours {ours}\n    {name} {other}")
