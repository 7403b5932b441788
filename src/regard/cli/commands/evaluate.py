"""`regard evaluate`: scores of a run, alone or against another."""

from pathlib import Path

from rich.markup import escape
from typer import Context

from regard.atomic_io import write_atomic
from regard.cli.display import tables
from regard.cli.display.console import note, out, print_json
from regard.cli.display.figures import save_figures
from regard.cli.options import shared_options
from regard.cli.options.shared_options import flag, option, refuse_options
from regard.evaluation.scores import Comparison, is_significant
from regard.inspection.plots.confusion import plot_confusion
from regard.json_files import dump_json
from regard.recipes.evaluator import EvaluationOptions
from regard.recipes.paths import run_spec
from regard.tasks.contracts import Evaluation

TASK_OPTIONS = (
    "source reference data ensemble beam unknown tokenize lowercase by_length output engine "
    "precision"
)
"""The options that not all tasks have; `Evaluator.uses` says which ones have an effect."""


def command(
    context: Context,
    model: shared_options.Model,
    source: shared_options.HeldOutSource = None,
    reference: shared_options.HeldOutReference = None,
    data: list[str] | None = option(
        "For a run of another task, data to use instead of its own test data: a text, a table of "
        "labels and texts, or a folder with a subfolder of pictures for each class; repeatable.",
        metavar="FILE",
    ),
    against: str | None = option("Another model to test the difference from.", metavar="MODEL"),
    ensemble: shared_options.Ensemble = None,
    beam: shared_options.Beam = None,
    unknown: shared_options.Unknown = None,
    tokenize: shared_options.Tokenize = "auto",
    lowercase: bool = flag("--lowercase", "Ignore case."),
    by_length: bool = flag("--by-length", "Also score by the length of the source."),
    output: Path | None = option(
        "Also write the translations or answers to FILE; for a classifier, its confusion matrix: "
        "a picture (.png, .svg, .pdf), or .json.",
        metavar="FILE",
    ),
    weights: shared_options.Weights = "model",
    adapter: shared_options.Adapter = None,
    device: shared_options.Device = "auto",
    engine: shared_options.Engine = "auto",
    precision: shared_options.InPrecision = "float32",
    json: shared_options.Json = False,
) -> None:
    """Every score comes with sacreBLEU's signature and a 95% interval from 1,000 bootstrap
    resamples; --against adds a paired bootstrap test on the same sentences (Koehn 2004), captions,
    windows, texts or tokens. Models that vote with --ensemble are scored together, but perplexity
    is measured for one model only. Scores are those of the model in float32, unless --precision
    names another.

    For a chatbot: the perplexity of people's answers, and how varied its own answers are, compared
    to people's answers and to the commonest one. A history is a line with its turns separated by
    tabs; with several answers, it is repeated on neighbouring lines.

    For a classifier: accuracy and macro F1, and how well its probabilities are calibrated, without
    and with the temperature that was fitted on the validation data; with --ensemble, the same for
    the mean of the calibrated probabilities.

    Examples:

        regard evaluate runs/travel
        regard evaluate runs/mine --source test.en --reference test.de --against runs/other
        regard evaluate runs/trec6 --output confusions.png
        regard evaluate runs/sst2-gpt --ensemble runs/sst2-roberta --against runs/sst2
        regard evaluate runs/gpt2 --data letters.txt
    """
    spec = run_spec(Path(model))
    evaluator, given = spec.evaluator(), context.params
    used = evaluator.uses.split()
    without_effect = " ".join(name for name in TASK_OPTIONS.split() if name not in used)
    refuse_options(context, without_effect, f"a run of the task {spec.name}")
    options = {name: given[name] for name in EvaluationOptions._fields}
    options |= {"ensemble": ensemble or (), "data": data or ()}
    evaluation: Evaluation = evaluator(EvaluationOptions(**options), note).evaluate()
    if json:
        print_json(evaluation.to_json())
    else:
        name = _column_name(model, *(ensemble or ()), weights=adapter or weights)
        tables.print_evaluation(evaluation, name)
        _print_comparisons(evaluation.comparisons, name, against or "")
    if output is not None:  # after the scores are shown, so that a full disk does not lose them
        _write(evaluation, output)


def _column_name(*models: str, weights: str) -> str:
    """The heading of the scores; the columns of `--against` need different names."""
    name = " + ".join(models)
    return name if weights == "model" else f"{name} ({Path(weights).stem})"


def _write(evaluation: Evaluation, file: Path) -> None:
    """Write the answers; of a classifier its confusion matrix, in the format of the file's name."""
    confusion = evaluation.confusion
    if confusion is None:
        write_atomic(file, "".join(f"{text}\n" for text in evaluation.texts).encode())
    elif file.suffix == ".json":
        write_atomic(file, dump_json(confusion.to_json(), indent=1).encode())
        note(f"wrote {file}")
    else:
        save_figures([file], lambda: plot_confusion(confusion))


def _print_comparisons(comparisons: tuple[Comparison, ...], model: str, against: str) -> None:
    if not comparisons:
        return
    columns = ("score", escape(model), escape(against), "difference", "95% interval", "p")
    rows = [
        (
            one.name,
            *(f"{value:{_digits(one)}}" for value in (one.second, one.first)),
            f"{one.delta:+{_digits(one)}}",
            *_describe_test(one),
        )
        for one in comparisons
    ]
    out.print(tables.plain_table(*columns, title="paired bootstrap", right=columns[1:4], rows=rows))
    out.print(tables.significance_note([one.p_value for one in comparisons]))


def _describe_test(one: Comparison) -> tuple[str, str]:
    """The interval of a difference, and its p-value with its mark."""
    if one.interval is None or one.p_value is None:
        return "–", "–"
    low, high = (f"{value:+{_digits(one)}}" for value in one.interval)
    return f"{low} … {high}", f"{one.p_value:.4f}{' *' if is_significant(one.p_value) else ''}"


def _digits(one: Comparison) -> str:
    """The format of the numbers of a comparison: two decimals, unless they are small."""
    return ".2f" if max(abs(one.first), abs(one.second)) >= 1 else ".3g"
