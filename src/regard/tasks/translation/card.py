"""What the card of a translator or a chatbot says of its data and its training."""

from collections.abc import Iterator

from regard.corpora.pair_texts import PreparedData
from regard.recipes.run_folder import RunFolder
from regard.tasks.contracts import CardParts
from regard.tasks.translation.recipe import TranslationRecipe
from regard.training.checkpoints import last_progress
from regard.training.metric_log import read_metrics


def card_parts(recipe: TranslationRecipe, folder: RunFolder, data: PreparedData) -> CardParts:
    """The parts of the card of a run on these data."""
    source, target = data.languages
    return CardParts(
        f"{source} → {target}",
        tuple(_data_lines(data)),
        f"best by {recipe.training.validation.by} on the validation pairs",
        () if recipe.refinement is None else tuple(_refinement(folder.refined)),
        usage=True,
    )


def _data_lines(data: PreparedData) -> Iterator[str]:
    yield f"{data.origin or 'Files of the trainer.'}\n"
    yield f"SHA-256 of the cleaned texts: `{data.digest}`.\n"
    counts = ", ".join(f"{count:,} {name}" for name, count in data.pairs.items())
    yield f"Pairs: {counts}."
    if data.report.dropped:
        yield f"Dropped from training, of {data.report.total:,}:\n"
        yield "| why | pairs | share |\n|---|---:|---:|"
        for row in data.report.rows():
            yield f"| {row.reason} | {row.num_pairs:,} | {row.share:.2%} |"


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
