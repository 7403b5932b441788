"""`regard doctor`: diagnosis of a corpus before training."""

import difflib
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.markup import escape
from rich.table import Table
from typer import Argument, Context, Exit

from regard.cli.display.console import err, out, print_json
from regard.cli.display.device_table import print_device_plan
from regard.cli.display.tables import cleaning_table, plain_table, titled_rows
from regard.cli.options import corpus_options, shared_options
from regard.cli.options.shared_options import check_options, option
from regard.corpora.cleaning.adaptive_rules import RATIO_SAMPLE
from regard.corpora.corpus import Corpus, Pair
from regard.corpora.diagnostics.corpus_report import CorpusReport, analyze_corpus
from regard.corpora.diagnostics.findings import Finding, Level, interpret_report
from regard.corpora.pairs.build import CORPORA, build_corpus
from regard.corpora.readers.pair_files import FORMATS
from regard.errors import CorpusError, RegardError, SettingsError
from regard.recipes.memory import format_bytes, format_seconds
from regard.recipes.paths import RUNS
from regard.recipes.recipe_files import load_recipe, shelf_recipes
from regard.recipes.run_folder import pick_device
from regard.recipes.transfer.start_run import resolve_start
from regard.settings import SettingChoice, format_times
from regard.tasks.families.options import OptionRule
from regard.tasks.translation.auto_settings import format_choices
from regard.tasks.translation.needed import require_translation
from regard.tasks.translation.prepared_data import LEAKS_SETTING, choose_cleaning
from regard.tasks.translation.recipe import TranslationRecipe
from regard.tasks.translation.trial.device_plan import DEFAULT_BANDWIDTH, plan_devices
from regard.tasks.translation.trial.dry_run import (
    SAMPLE_PAIRS,
    CorpusSizes,
    DryRun,
    dry_run_training,
)
from regard.tasks.translation.trial.findings import busy_clause, diagnose_dry_run

MAX_DEVICES = 1 << 16  # to plan for
OPTION_RULES = (OptionRule("bandwidth", needs="devices"),)
LEVEL_MARKS: Mapping[Level, str] = {
    "ok": "[green]✓[/green]",
    "note": "[blue]·[/blue]",
    "warning": "[bold yellow]![/bold yellow]",
    "problem": "[bold red]✗[/bold red]",
}


def command(
    context: Context,
    corpus: str | None = Argument(
        None,
        metavar="[CORPUS]",
        help="A corpus with a name (`regard corpora`), a recipe (`regard recipes` or a YAML "
        "file), or a file of pairs (.tsv, .csv, .tmx).",
    ),
    data: corpus_options.Data = None,
    source: corpus_options.Source = None,
    target: corpus_options.Target = None,
    valid: corpus_options.Valid = None,
    test: corpus_options.Test = None,
    languages: corpus_options.Languages = None,
    skip_bad: corpus_options.SkipBad = False,
    recipe: str | None = option(
        "The recipe to try; by default CORPUS if it is one, or `own`.", metavar="RECIPE"
    ),
    trial: bool = option("Try some steps of training.", "--trial/--no-trial", default=True),
    devices: int | None = option(
        "Also estimate the time of a step on up to N devices like this one.",
        metavar="N",
        min=2,
        max=MAX_DEVICES,
    ),
    bandwidth: float = option(
        "With --devices: GB/s between each device and the others, in one direction.",
        metavar="GB/S",
        min=0.001,
        default=DEFAULT_BANDWIDTH,
    ),
    settings: shared_options.Settings = None,
    device: shared_options.Device = "auto",
    json: shared_options.Json = False,
) -> None:
    """Reads the whole corpus, then trains for some seconds on a sample. Reports sizes and lengths,
    what cleaning would drop, misaligned lines, sentences that leak from test into train, words that
    train lacks, signs of damage; and the memory, time and disk that training needs on this machine.
    Changes nothing. The exit code is 1 if there is a problem.

    Examples:

        regard doctor multi30k
        regard doctor --source train.en --target train.de --test test.en,test.de --languages en-de
        regard doctor memory.tmx --languages en-fr --no-trial
        regard doctor multi30k --devices 64 --bandwidth 50
    """
    check_options(context, OPTION_RULES)
    if devices is not None and not trial:
        raise SettingsError("--devices needs the steps of a trial: drop --no-trial")
    suffix = Path((corpus or "").removesuffix(".gz")).suffix[1:].lower()
    if corpus is not None and suffix in FORMATS and data is None:
        data, corpus = [corpus], None
    own = corpus_options.corpus_from_options(data, source, target, valid, test, languages, skip_bad)
    recipe_to_try = _recipe_to_examine(corpus, own, recipe, settings or [])
    torch_device, whole = pick_device(device), build_corpus(recipe_to_try.corpus)
    examined = _examine(recipe_to_try, whole, torch_device, try_steps=trial)
    tried = examined.trial  # where no steps could be tried, the findings say why
    plan = plan_devices(tried, devices, bandwidth) if devices and tried else None
    if json:
        keys = "place", "value", "reason"
        print_json(
            {
                **examined.report.to_json(),
                "trial": examined.trial.to_json() if examined.trial else None,
                **({"devices": plan.to_json()} if plan else {}),
                "choices": [dict(zip(keys, choice, strict=True)) for choice in examined.choices],
                "findings": [finding._asdict() for finding in examined.findings],
            }
        )
    else:
        _print(whole, examined)
        if plan is not None:
            _section("On several devices")
            print_device_plan(plan)
    if any(finding.level == "problem" for finding in examined.findings):
        raise Exit(1)


class _Examination(NamedTuple):
    """The findings about a corpus, and about training on it."""

    report: CorpusReport
    trial: DryRun | None  # None: no steps were tried, or training fails
    findings: list[Finding]
    choices: list[SettingChoice]  # values for settings that were `auto`


def _examine(
    recipe: TranslationRecipe, corpus: Corpus, device: torch.device, *, try_steps: bool
) -> _Examination:
    """Read a corpus, and try some steps of training on a sample of it."""
    with err.status("reading") as status:
        choices = choose_cleaning(recipe, _first_pairs(build_corpus(recipe.corpus)))
        recipe = recipe.with_choices(choices)
        found = analyze_corpus(
            corpus,
            recipe.corpus.cleaning,
            recipe.corpus.split,
            choose_leaks=LEAKS_SETTING in recipe.auto,
            sample=SAMPLE_PAIRS if try_steps else 0,
            notify=lambda doing, pairs: status.update(
                f"{doing}: {pairs:,} pairs" if pairs else doing
            ),
        )
        if LEAKS_SETTING in recipe.auto:
            choices.append(SettingChoice(LEAKS_SETTING, *found.overlap.by))
        recipe, findings = recipe.with_choices(choices), interpret_report(found)
        unreadable = any(report.read_error for report in found.splits.values())
        if not found.sample or unreadable or found.split_error:
            return _Examination(found, None, findings, choices)
        sizes, notify = _sizes(found), status.update
        try:
            result = dry_run_training(
                recipe, found.sample, sizes, device=device, run=RUNS, notify=notify
            )
        except RegardError as error:
            failure = Finding("problem", f"Training fails at once: {error}.")
            return _Examination(found, None, [*findings, failure], choices)
    findings += diagnose_dry_run(result, result.recipe)
    return _Examination(found, result, findings, [*choices, *result.choices])


def _recipe_to_examine(
    corpus: str | None, own: dict[str, Any] | None, recipe: str | None, overrides: list[str]
) -> TranslationRecipe:
    """The recipe to try, on the corpus to examine."""
    if (corpus is None) == (own is None):
        raise SettingsError(
            "give one corpus to examine: its name (`regard corpora` lists them), a recipe, --data "
            "FILE, or --source FILE and --target FILE"
        )
    shelf = shelf_recipes()
    if own is not None:
        _refuse_stdin(own)
    elif corpus in shelf or str(corpus).endswith((".yaml", ".yml")):
        if recipe is None:
            chosen = require_translation(load_recipe(str(corpus), overrides), str(corpus))
            return resolve_start(chosen, overrides)
        own = require_translation(load_recipe(str(corpus)), str(corpus)).corpus.model_dump(
            exclude_unset=True
        )
    elif corpus in CORPORA:
        own = {"name": corpus}
    else:
        close = difflib.get_close_matches(str(corpus), [*CORPORA, *shelf], n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"corpora: {', '.join(CORPORA)}"
        raise SettingsError(f"{corpus}: no corpus or recipe has this name; {hint}")
    name = recipe or corpus_options.OWN_RECIPE
    found = corpus_options.recipe_with_corpus(name, own, overrides)
    return resolve_start(require_translation(found, name), overrides)


def _refuse_stdin(own: Mapping[str, Any]) -> None:
    for split in ("train", "valid", "test"):
        given = own.get(split, {})
        files = given if isinstance(given, list) else [given]
        if any("-" in one.values() for one in files):
            raise SettingsError(
                f"{split}: the standard input can be read only once, and an examination reads a "
                "corpus several times: save it to a file first"
            )


def _sizes(found: CorpusReport) -> CorpusSizes:
    """The numbers of pairs that training would get."""
    held_out = {**{name: report.pairs for name, report in found.splits.items()}, **found.cut}
    train = found.splits["train"].cleaning.kept - sum(found.cut.values())
    return CorpusSizes(max(1, train - found.overlap.leaking_pairs), held_out.get("valid", 0))


def _first_pairs(corpus: Corpus) -> list[Pair]:
    """The first pairs of a corpus, up to where it cannot be read."""
    first: list[Pair] = []
    with suppress(CorpusError):
        for pair in islice(corpus.splits["train"](), RATIO_SAMPLE):
            first.append(pair)
    return first


def _print(corpus: Corpus, examined: _Examination) -> None:
    found, trial_result, findings, choices = examined
    source, target = found.languages
    out.print(f"[bold]{escape(found.name)}[/bold]  {escape(source)} → {escape(target)}")
    if corpus.origin:
        out.print(f"[dim]{escape(corpus.origin)}[/dim]", soft_wrap=False)
    _print_sizes(found)
    _print_cleaning(found)
    _print_splits(found)
    if trial_result is not None:
        _section("Training here")
        out.print(_trial_table(trial_result, trial_result.recipe))
        for line in format_choices(choices):
            out.print(f"[dim]{escape(line)}[/dim]", soft_wrap=False)
    _section("Findings")
    rows = [(LEVEL_MARKS[finding.level], escape(finding.text)) for finding in findings]
    out.print(titled_rows(rows, gap=1))
    counts = Counter(finding.level for finding in findings)
    summary = ", ".join(
        f"{counts[level]} {level}{'s' if counts[level] > 1 else ''}"
        for level in ("problem", "warning", "note")
        if counts[level]
    )
    out.print(f"\n[bold]{summary or 'All is well'}.[/bold]")


def _section(name: str) -> None:
    out.print()
    out.rule(f"[bold]{name}[/bold]", align="left", style="dim")


def _print_sizes(found: CorpusReport) -> None:
    _section("Sizes")
    numbers = ("pairs", "words", "mean", "median", "95%", "longest")
    table = plain_table("split", "side", *numbers, "characters", right=(*numbers, "characters"))
    for split, report in found.splits.items():
        for names, one in (
            ((split, "source", f"{report.pairs:,}"), report.source),
            (("", "target", ""), report.target),
        ):
            total, mean, *quantiles = one.words
            counts = (f"{number:,}" for number in (*quantiles, one.characters.total))
            table.add_row(*names, f"{total:,}", f"{mean:.1f}", *counts)
    for split, pairs in found.cut.items():
        table.add_row(split, "[dim]cut from train[/dim]", f"{pairs:,}")
    out.print(table)
    out.print("[dim]mean, median, 95% and longest: words in a line[/dim]")


def _print_cleaning(found: CorpusReport) -> None:
    train = found.splits.get("train")
    if train is None:
        return
    _section("Cleaning and repeats in train")
    if train.cleaning.dropped:
        out.print(cleaning_table(train.cleaning))
    kept, repeats = train.cleaning.kept, train.repeats
    out.print(f"{kept:,} of {train.pairs:,} pairs are kept")
    out.print(
        f"[dim]ignoring case and spacing: {repeats.pairs:,} pairs are repeated, "
        f"{repeats.sources:,} sources have several targets, {repeats.targets:,} targets several "
        "sources[/dim]",
        soft_wrap=False,
    )


def _print_splits(found: CorpusReport) -> None:
    if not found.overlap.leaks:
        return
    _section("Splits compared")
    numbers = ("sources", "targets", "whole pairs")
    rows = [
        [one.split, one.within, *(f"{n:,}" for n in (one.sources, one.targets, one.pairs))]
        for one in found.overlap.leaks
    ]
    out.print(plain_table("of", "in", *numbers, right=numbers, rows=rows))
    rows = []
    for one in found.overlap.coverage:
        if one.new_words:
            share, examples = one.new_words / one.words, escape(", ".join(one.word_examples[:5]))
            rows.append([one.split, one.side, f"{one.new_words:,}", f"{share:.1%}", examples])
    if rows:
        out.print()
        columns = ("new in", "", "words", "share", "such as")
        out.print(plain_table(*columns, right=("words", "share"), rows=rows))


def _trial_table(trial_result: DryRun, recipe: TranslationRecipe) -> Table:
    settings, times, steps = recipe.training, trial_result.times, trial_result.steps
    source, target = trial_result.text.vocabulary
    sizes = f"{source:,}" if source == target else f"{source:,} and {target:,}"
    rows = {
        "model": f"{recipe.model.family}, {steps.parameters:,} parameters ({recipe.name})",
        "vocabulary": f"{sizes} tokens; {trial_result.text.tokens_per_word.source:.2f} and "
        f"{trial_result.text.tokens_per_word.target:.2f} in a word",
        "speed": f"{steps.tokens_per_second:,.0f} target tokens a second on "
        f"{trial_result.device}; {steps.step_seconds:.3g} s a step of "
        f"{steps.batch_tokens * settings.accumulate:,}",
        "time": f"{format_seconds(times.total)}: preparing {format_seconds(times.preparing)}, "
        f"{settings.steps:,} steps {format_seconds(times.training)}, validating "
        f"{format_seconds(times.validating)}{busy_clause(trial_result)}",
        "passes": f"each pair is seen {format_times(trial_result.epochs)} times",
        "memory": f"{format_bytes(steps.memory)} of {format_bytes(trial_result.memory_available)}",
        "disk": f"{format_bytes(trial_result.disk)} of {format_bytes(trial_result.disk_free)} "
        f"free; a checkpoint {format_bytes(steps.checkpoint)}",
    }
    table = titled_rows([(f"[dim]{name}[/dim]", escape(value)) for name, value in rows.items()])
    table.caption = f"[dim]from a trial on {trial_result.pairs:,} pairs[/dim]"
    table.caption_justify = "left"
    return table
