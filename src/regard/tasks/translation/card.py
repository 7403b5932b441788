"""The model card of a translator: scores, data, model and training of a run."""

import platform
from collections.abc import Iterator, Sequence

import torch

from regard import __version__
from regard.atomic_io import write_atomic
from regard.corpora.corpus import SplitName
from regard.corpora.pair_texts import PreparedData
from regard.evaluation.scores import Score
from regard.recipes.open_run import Run
from regard.recipes.run_folder import RunFolder, count_parameters
from regard.recipes.task_run import describe_weights
from regard.recipes.transfer.start_run import RunStart
from regard.training.checkpoints import Progress, last_progress
from regard.training.metric_log import read_metrics


def write_card(
    run: Run, data: PreparedData, progress: Progress, scores: Sequence[Score], *, split: SplitName
) -> None:
    """Write the run's `card.md`."""
    write_atomic(run.folder.card, "\n".join(_card(run, data, progress, scores, split)).encode())


def _card(
    run: Run, data: PreparedData, progress: Progress, scores: Sequence[Score], split: SplitName
) -> Iterator[str]:
    recipe, (source, target) = run.recipe, data.languages
    training = recipe.training
    parameters = count_parameters(run.model)
    yield f"# {recipe.name}: {source} → {target}\n"
    if recipe.about:
        yield f"{recipe.about}\n"
    yield f"| score on {data.pairs[split]:,} {split} sentences | value | signature |"
    yield "|---|---:|---|"
    for score in scores:
        signature = score.signature.replace("|", "\\|")  # it would end the cell, even in code
        yield f"| {score.name} | {score.value:.2f} | `{signature}` |"
    yield "\n## Data\n"
    yield f"{data.origin or 'Files of the trainer.'}\n"
    yield f"SHA-256 of the cleaned texts: `{data.digest}`.\n"
    counts = ", ".join(f"{count:,} {name}" for name, count in data.pairs.items())
    yield f"Pairs: {counts}."
    if data.report.dropped:
        yield f"Dropped from training, of {data.report.total:,}:\n"
        yield "| why | pairs | share |\n|---|---:|---:|"
        for row in data.report.rows():
            yield f"| {row.reason} | {row.num_pairs:,} | {row.share:.2%} |"
    yield "\n## Model\n"
    yield f"{recipe.model.family}, {parameters:,} parameters; `recipe.yaml` has every setting.\n"
    yield "## Training\n"
    if recipe.start is not None:
        yield from RunStart(recipe, run.folder).card_lines()
    yield f"- steps: {progress.step:,} in {progress.seconds:,.0f} s; seed: {training.seed}"
    weights, by = describe_weights(run.folder, progress), training.validation.by
    yield f"- weights: {weights}, best by {by} on the validation pairs"
    if recipe.refinement is not None:
        yield from _refinement(run.folder.refined)
    yield f"- regard {__version__}, torch {torch.__version__}, {platform.machine()}, {_device(run)}"
    yield "\n## Use\n"
    yield f"```\n{run.spec.use_command('DIR')}\n```\n"


def _refinement(folder: RunFolder) -> Iterator[str]:
    """Lines about refinement."""
    progress = last_progress(folder.path)
    if progress is None:
        return
    yield f"- refinement by expected GLEU: {progress.step:,} steps in {progress.seconds:,.0f} s"
    step = progress.best[0][1]
    if step == 0:
        yield "- weights after it: the same, as no others had a higher GLEU on the validation pairs"
        return
    records = read_metrics(folder.path / "metrics.jsonl")
    valid = {record["step"]: record for record in records if record["kind"] == "valid"}
    before, after = valid[0], valid[step]
    gains = [f"{name.upper()} {before[name]:.2f} → {after[name]:.2f}" for name in ("gleu", "bleu")]
    yield f"- weights after it: those of its step {step:,}; validation {', '.join(gains)}"


def _device(run: Run) -> str:
    device = next(run.model.parameters()).device
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"CPU, {threads} thread{'s' if threads > 1 else ''}"
