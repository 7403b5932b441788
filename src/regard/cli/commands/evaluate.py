"""`regard evaluate`: scores of a model's translations, alone or against another model."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.markup import escape
from typer import Context

from regard.alignment.dictionary import read_unknown_option
from regard.atomic_io import write_atomic
from regard.cli.display import tables
from regard.cli.display.console import note, out, print_json
from regard.cli.display.figures import save_figures
from regard.cli.options import eval_options, shared_options
from regard.cli.options.eval_options import read_eval_data
from regard.cli.options.shared_options import flag, option, refuse_options
from regard.corpora.corpus import Pair
from regard.decoding.constraints.length_limits import TruncationReport
from regard.decoding.settings import search_settings
from regard.errors import SettingsError
from regard.evaluation.classification import Confusion
from regard.evaluation.metrics import REPORTED_METRICS
from regard.evaluation.perplexity import Perplexity
from regard.evaluation.scores import (
    Comparison,
    LengthGroup,
    Score,
    ScoreSettings,
    compare,
    is_significant,
    score,
    score_by_length,
)
from regard.inspection.plots.confusion import plot_confusion
from regard.inspection.plots.figure import FORMATS
from regard.json_files import dump_json
from regard.pipelines.run_evaluation import (
    count_truncated_answers,
    score_chat,
    translator_perplexity,
)
from regard.recipes.open_run import Run, open_run
from regard.recipes.paths import require_different, run_spec
from regard.recipes.run_folder import RunFolder, load_data, pick_device
from regard.tasks.contracts import Evaluation, SplitName
from regard.tasks.families.answer import Answer
from regard.tasks.families.classification import EnsembleMember
from regard.tasks.names import CHAT, TRANSLATION
from regard.tasks.registry import TASKS
from regard.tasks.translation.chat.evaluation import ChatScores, compare_answers
from regard.tasks.translation.chat.pipeline import load as load_chatbot
from regard.tasks.translation.pipeline import Translator, load

TRANSLATOR_OPTIONS = "unknown lowercase by_length engine precision"
TASK_OPTIONS = "data"  # not for a translator or a chatbot
TEXT_OPTIONS = "source reference beam tokenize"  # also for a chatbot


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
    tokenize: eval_options.Tokenize = "auto",
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
    if (task := run_spec(Path(model)).name) != TRANSLATION:
        _evaluate_task(context, task)
        return
    sources, references = read_eval_data(model, source, reference)
    refuse_options(context, TASK_OPTIONS, "a translator, which has --source and --reference")
    settings = ScoreSettings(
        metrics=REPORTED_METRICS,
        tokenize=eval_options.run_tokenizer(model, tokenize, references),
        lowercase=lowercase,
    )
    dictionary = read_unknown_option(unknown) if unknown is not None else None

    def open_translator(
        *models: str, weights: str = "model", adapter: str | None = None
    ) -> Translator:
        return load(
            *models,
            weights=weights,
            adapter=adapter,
            device=device,
            engine=engine,
            precision=precision,
            tell=note,
        )

    def translate(translator: Translator) -> list[Answer]:
        search = search_settings(translator.settings, beam=beam, unknown=unknown is not None)
        return translator.translate(sources, search, unknown=dictionary, split=False)

    translator = open_translator(model, *(ensemble or ()), weights=weights, adapter=adapter)
    for remark in translator.remarks:
        note(remark)
    answers = translate(translator)
    texts = [one.text for one in answers]
    cut = count_truncated_answers(translator, answers, references)
    scores = score(texts, references, settings)
    perplexity = None if ensemble else translator_perplexity(translator, sources, references)
    plain = settings.model_copy(update={"resamples": 0})
    groups = score_by_length(sources, texts, references, plain) if by_length else []
    comparisons: list[Comparison] = []
    if against is not None:
        others = [answer.text for answer in translate(open_translator(against))]
        comparisons = compare(others, texts, references, settings)
    name = _column_name(context)
    if json:
        print_json(_to_json(cut, scores, perplexity, groups, comparisons))
    else:
        _print_scores(model, name, cut, scores, perplexity)
        _print_groups(groups)
        _print_comparisons(comparisons, name, against or "")
    _write_lines(output, texts)


def _print_scores(
    model: str,
    name: str,
    cut: TruncationReport,
    scores: list[Score],
    perplexity: Perplexity | None,
) -> None:
    """Print the scores of a translator, and how many answers reach its limits."""
    out.print(tables.scores_table(scores, title=f"{escape(name)} on {cut.pairs:,} sentences"))
    if perplexity is not None:
        counted = f"[dim]per token, {perplexity.num_tokens:,} tokens[/]"
        out.print(f"perplexity  {perplexity.value:.3f}  {counted}")
    if truncation_note := str(cut):
        where = f"; they are set in {model}/recipe.yaml" if cut.references else ""
        note(f"{truncation_note}{where}")


def _write_lines(file: Path | None, texts: Sequence[str]) -> None:
    """Write answers after their scores are shown, so that a full disk does not lose the scores."""
    if file is not None:
        write_atomic(file, "".join(f"{text}\n" for text in texts).encode())


def _column_name(context: Context) -> str:
    """The heading of the scores; the columns of `--against` need different names."""
    given = context.params
    name = " + ".join((given["model"], *(given["ensemble"] or ())))
    weights = given["adapter"] or given["weights"]
    return name if weights == "model" else f"{name} ({Path(weights).stem})"


def _print_json(found: ChatScores | Evaluation, comparisons: list[Comparison]) -> None:
    compared = {"against": [vars(one) for one in comparisons]} if comparisons else {}
    print_json({**found.to_json(), **compared})


def _evaluate_chat(context: Context) -> None:
    """Evaluate a chatbot on histories with one answer or more."""
    given = context.params
    loading = {name: given[name] for name in ("device", "weights", "adapter")}
    chatbot = load_chatbot(given["model"], **loading)
    texts = read_eval_data(given["model"], given["source"], given["reference"])
    found = score_chat(
        chatbot,
        [Pair(*sides) for sides in zip(*texts, strict=True)],
        load_data(RunFolder(Path(given["model"]))),
        settings=search_settings(chatbot.settings, beam=given["beam"]),
        tokenize=given["tokenize"],
    )
    comparisons = list[Comparison]()
    if (against := given["against"]) is not None:
        other = load_chatbot(against, device=given["device"])
        answers = other.translate(
            [one.source for one in found.found], search_settings(other.settings, beam=given["beam"])
        )
        comparisons = compare_answers(answers, found, tokenize=given["tokenize"])
    if given["json"]:
        _print_json(found, comparisons)
    else:
        name = _column_name(context)
        _show_chat(found, name)
        _print_comparisons(comparisons, name, against or "")
    _write_lines(given["output"], [answer.text for answer in found.found])


def _show_chat(found: ChatScores, name: str) -> None:
    """Print the scores of a chatbot."""
    columns = ("distinct-1", "distinct-2", "BLEU", "words")
    rows = [
        (
            escape(row.answers),
            f"{row.distinct_1:.3f}",
            f"{row.distinct_2:.3f}",
            "–" if row.bleu is None else f"{row.bleu:.2f}",
            f"{row.words:.1f}",
        )
        for row in found.rows
    ]
    title = f"{escape(name)} on {len(found.found):,} histories"
    out.print(tables.plain_table("answers", *columns, title=title, right=columns, rows=rows))
    counted = f"[dim]per token of people's answers, {found.perplexity.num_tokens:,} tokens[/]"
    out.print(f"perplexity  {found.perplexity.value:.3f}  {counted}")
    note(f"BLEU: {found.bleu_signature}; distinct: {found.distinct_signature}")


def _evaluate_task(context: Context, task: str) -> None:
    """Evaluate a run of another task on its own held-out data."""
    refuse_options(context, TRANSLATOR_OPTIONS, f"a run of the task {task}")
    if task == CHAT:
        refuse_options(context, TASK_OPTIONS, "a chatbot, which has --source and --reference")
        refuse_options(context, "ensemble", "a chatbot")
        _evaluate_chat(context)
        return
    refuse_options(context, TEXT_OPTIONS, f"a run of the task {task}")
    given = context.params
    if not TASKS[task].ensembles:
        refuse_options(context, "ensemble output", f"a run of the task {task}")
    if given["output"] is not None and given["output"].suffix not in (".json", *FORMATS):
        raise SettingsError(
            f"--output {given['output']}: its name should end in {', '.join(FORMATS)} or .json"
        )
    device = pick_device(given["device"])
    weights, adapter, ensemble = given["weights"], given["adapter"], given["ensemble"] or ()
    require_different((given["model"], *ensemble), adapter)
    run = open_run(given["model"], tasks=[task], device=device, weights=weights, adapter=adapter)
    members = [open_run(one, tasks=[task], device=device, weights=weights) for one in ensemble]
    if members:
        run.task.vote_with([EnsembleMember(one.task, one.model) for one in members])
    against = given["against"]
    other = None if against is None else open_run(against, tasks=[task], device=device)
    with TemporaryDirectory(prefix="regard-evaluate-", ignore_cleanup_errors=True) as place:
        runs = [run, *members, *([] if other is None else [other])]
        split = _held_out(runs, given["data"] or (), Path(place))
        found, comparisons = run.task.evaluate(run.model, split), list[Comparison]()
        if other is not None:
            comparisons = run.task.compare(run.model, other.task, other.model, split)
    if given["data"]:
        found = found._replace(split=", ".join(given["data"]))
    if given["json"]:
        _print_json(found, comparisons)
    else:
        name = _column_name(context)
        tables.print_evaluation(found, name)
        _print_comparisons(comparisons, name, against or "")
    if given["output"] is not None and found.confusion is not None:
        _save_confusion(found.confusion, given["output"])


def _held_out(runs: Sequence[Run], files: Sequence[str], place: Path) -> SplitName:
    """The split to measure runs on: the first run's, or `test`, if it is read from `files`."""
    if not files:
        for run in runs:
            if run.recipe.is_imported:
                raise SettingsError(
                    f"{run.folder.path}: was imported and has no data; name some to "
                    "measure it on, with --data FILE"
                )
        split: SplitName = runs[0].task.held_out()
        return split
    for number, one in enumerate(runs):
        one.task.read_test(files, place / str(number))
    return "test"


def _save_confusion(confusion: Confusion, file: Path) -> None:
    """Write the confusion matrix in the format of the file's name."""
    if file.suffix == ".json":
        write_atomic(file, dump_json(confusion.to_json(), indent=1).encode())
        note(f"wrote {file}")
    else:
        save_figures([file], lambda: plot_confusion(confusion))


def _print_groups(groups: list[LengthGroup]) -> None:
    if not groups:
        return
    numbers = ("sentences", *(one.name for one in groups[0].scores))
    rows = [
        [f"{one.shortest}–{one.longest}", f"{one.count:,}", *(f"{s.value:.2f}" for s in one.scores)]
        for one in groups
    ]
    title = "by length of the source"
    out.print(tables.plain_table("words", *numbers, title=title, right=numbers, rows=rows))


def _print_comparisons(comparisons: list[Comparison], model: str, against: str) -> None:
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


def _to_json(
    cut: TruncationReport,
    scores: list[Score],
    perplexity: Perplexity | None,
    groups: list[LengthGroup],
    comparisons: list[Comparison],
) -> dict[str, Any]:
    return {
        "sentences": cut.pairs,
        "references_beyond_limit": cut.references,
        "answers_cut": cut.answers,
        "scores": [one._asdict() for one in scores],
        "perplexity": perplexity._asdict() if perplexity else None,
        "by_length": [
            {
                "shortest": group.shortest,
                "longest": group.longest,
                "sentences": group.count,
                **{one.name: one.value for one in group.scores},
            }
            for group in groups
        ],
        "against": [vars(one) for one in comparisons],
    }
