"""`regard doctor`."""

import difflib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.markup import escape
from rich.table import Table

from regard.cli import options, own_files
from regard.cli.console import err, out, print_json
from regard.cli.tables import cleaning_table, plain_table
from regard.corpora.build import CORPORA, build_corpus
from regard.corpora.cleaning_choices import FIRST
from regard.corpora.examine import Examination, examine
from regard.corpora.findings import Finding, Level, judge
from regard.corpora.pairs import Corpus, Pair
from regard.corpora.readers import FORMATS
from regard.corpora.suspect_findings import judge_suspects
from regard.errors import CorpusError, RegardError, SettingsError
from regard.recipes.auto import SettingChoice, choice_lines
from regard.recipes.load import load_recipe, shelf_recipes
from regard.recipes.memory import format_bytes, format_seconds
from regard.recipes.prepare import LEAKS, choose_cleaning
from regard.recipes.run_folder import pick_device
from regard.recipes.schema import Recipe
from regard.recipes.trial import SAMPLE, CorpusSizes, Trial, try_training
from regard.recipes.trial_findings import judge_trial

app = typer.Typer()

MARKS: Mapping[Level, str] = {
    "ok": "[green]✓[/green]",
    "note": "[blue]·[/blue]",
    "warning": "[bold yellow]![/bold yellow]",
    "problem": "[bold red]✗[/bold red]",
}


@app.command()
def command(
    corpus: Annotated[
        str | None,
        typer.Argument(
            metavar="[CORPUS]",
            help="A corpus with a name (`regard corpora`), a recipe (`regard recipes` or a YAML "
            "file), or a file of pairs (.tsv, .csv, .tmx).",
        ),
    ] = None,
    data: own_files.Data = None,
    source: own_files.Source = None,
    target: own_files.Target = None,
    valid: own_files.Valid = None,
    test: own_files.Test = None,
    languages: own_files.Languages = None,
    skip_bad: own_files.SkipBad = False,
    recipe: Annotated[
        str | None,
        typer.Option(
            metavar="RECIPE", help="What to try training with; otherwise CORPUS, or `own`."
        ),
    ] = None,
    trial: Annotated[
        bool, typer.Option("--trial/--no-trial", help="Whether to try some steps of training.")
    ] = True,
    settings: options.Settings = None,
    device: options.Device = "auto",
    json: options.Json = False,
) -> None:
    """Examine a corpus before training: what is wrong with it, what it will take.

    Reads all of it, then trains for some seconds on a sample, and tells sizes and lengths, what
    cleaning would drop, sides that are out of step, sentences that leak from test into train, words
    that train lacks, signs of damage; and the memory, time and disk that training takes here.
    Changes nothing. Ends with exit code 1 if there is a problem.

    Examples:

        regard doctor multi30k
        regard doctor --source train.en --target train.de --test test.en,test.de --languages en-de
        regard doctor memory.tmx --languages en-fr --no-trial
    """
    if corpus is not None and _is_table(corpus) and data is None:
        data, corpus = [corpus], None
    given = own_files.OwnFiles(data, source, target, skip_bad)
    own = own_files.own_corpus(given, valid, test, languages)
    wanted = _wanted(corpus, own, recipe, settings or [])
    where = pick_device(device)
    whole = build_corpus(wanted.corpus)
    with err.status("reading") as status:
        chosen = choose_cleaning(wanted, _first_pairs(build_corpus(wanted.corpus)))
        wanted = wanted.settled(chosen)
        found = examine(
            whole,
            wanted.corpus.cleaning,
            wanted.corpus.split,
            choose_leaks=LEAKS in wanted.auto,
            sample=SAMPLE if trial else 0,
            tell=lambda doing, pairs: status.update(
                f"{doing}: {pairs:,} pairs" if pairs else doing
            ),
        )
        chosen += [SettingChoice(LEAKS, *found.overlap.by)] if LEAKS in wanted.auto else []
        wanted = wanted.settled(chosen)
        findings, tried = judge(found) + judge_suspects(found), None
        if _can_train(found):
            tried, more = _try(wanted, found, where, status.update)
            findings += more
        if tried is not None:
            wanted, chosen = tried.recipe, [*chosen, *tried.choices]
    if json:
        print_json(_as_json(found, tried, findings, chosen))
    else:
        _print(whole, found, wanted, tried, findings, chosen)
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(1)


def _is_table(name: str) -> bool:
    """Whether it is the name of a file of pairs."""
    return Path(name.removesuffix(".gz")).suffix[1:].lower() in FORMATS


def _wanted(
    corpus: str | None, own: dict[str, Any] | None, recipe: str | None, overrides: list[str]
) -> Recipe:
    """The recipe to try, on the corpus to examine."""
    if (corpus is None) == (own is None):
        raise SettingsError(
            "give one corpus to examine: its name (`regard corpora` lists them), a recipe, --data "
            "FILE, or --source FILE and --target FILE"
        )
    if own is not None:
        _refuse_stdin(own)
        return own_files.recipe_with(recipe or own_files.OWN, own, overrides)
    assert corpus is not None
    shelf = shelf_recipes()
    if corpus in shelf or corpus.endswith((".yaml", ".yml")):
        if recipe is None:
            return load_recipe(corpus, overrides)
        given = load_recipe(corpus).corpus.model_dump(exclude_unset=True)
        return own_files.recipe_with(recipe, given, overrides)
    if corpus in CORPORA:
        return own_files.recipe_with(recipe or own_files.OWN, {"name": corpus}, overrides)
    near = difflib.get_close_matches(corpus, [*CORPORA, *shelf], n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"corpora: {', '.join(CORPORA)}"
    raise SettingsError(f"{corpus}: no corpus and no recipe of that name; {hint}")


def _refuse_stdin(own: Mapping[str, Any]) -> None:
    for split in ("train", "valid", "test"):
        given = own.get(split, {})
        files = given if isinstance(given, list) else [given]
        if any("-" in one.values() for one in files):
            raise SettingsError(
                f"{split}: the standard input can be read only once, and an examination reads a "
                "corpus several times: save it to a file first"
            )


def _can_train(found: Examination) -> bool:
    """Whether there is a sample, and training would get as far as its first step."""
    broken = any(report.broken for report in found.splits.values())
    return bool(found.sample) and not broken and not found.unfit


def _try(
    recipe: Recipe, found: Examination, device: torch.device, tell: Callable[[str], None]
) -> tuple[Trial | None, list[Finding]]:
    """A trial of training, and what it means; what stops it is a finding too."""
    try:
        tried = try_training(
            recipe, found.sample, _sizes(found), device=device, place=Path("runs"), tell=tell
        )
    except RegardError as error:
        return None, [Finding("problem", f"Training fails at once: {error}.")]
    return tried, judge_trial(tried, tried.recipe)


def _sizes(found: Examination) -> CorpusSizes:
    """How many pairs training would get."""
    held_out = {**{name: report.pairs for name, report in found.splits.items()}, **found.cut}
    train = found.splits["train"].cleaning.kept - sum(found.cut.values())
    return CorpusSizes(max(1, train - found.overlap.leaking_pairs), held_out.get("valid", 0))


def _first_pairs(corpus: Corpus) -> list[Pair]:
    """Pairs at the beginning of a corpus, up to where it cannot be read on."""
    first: list[Pair] = []
    with suppress(CorpusError):
        for pair in islice(corpus.splits["train"](), FIRST):
            first.append(pair)
    return first


def _as_json(
    found: Examination,
    tried: Trial | None,
    findings: list[Finding],
    chosen: Sequence[SettingChoice],
) -> dict[str, Any]:
    return {
        **found.to_json(),
        "trial": tried.to_json() if tried else None,
        "choices": [choice._asdict() for choice in chosen],
        "findings": [finding._asdict() for finding in findings],
    }


def _print(
    corpus: Corpus,
    found: Examination,
    recipe: Recipe,
    tried: Trial | None,
    findings: list[Finding],
    chosen: Sequence[SettingChoice],
) -> None:
    source, target = found.languages
    out.print(f"[bold]{escape(found.name)}[/bold]  {escape(source)} → {escape(target)}")
    if corpus.origin:
        _say(f"[dim]{escape(corpus.origin)}[/dim]")
    _print_sizes(found)
    _print_cleaning(found)
    _print_splits(found)
    if tried is not None:
        _section("Training here")
        out.print(_trial_table(tried, recipe))
        for line in choice_lines(chosen):
            _say(f"[dim]{escape(line)}[/dim]")
    _section("Findings")
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    for finding in findings:
        table.add_row(MARKS[finding.level], escape(finding.text))
    out.print(table)
    counts = Counter(finding.level for finding in findings)
    told = ", ".join(
        f"{counts[level]} {level}{'s' if counts[level] > 1 else ''}"
        for level in ("problem", "warning", "note")
        if counts[level]
    )
    out.print(f"\n[bold]{told or 'All is well'}.[/bold]")


def _section(name: str) -> None:
    out.print()
    out.rule(f"[bold]{name}[/bold]", align="left", style="dim")


def _say(text: str) -> None:
    """A sentence, its lines broken between words."""
    out.print(text, soft_wrap=False)


def _print_sizes(found: Examination) -> None:
    _section("Sizes")
    numbers = ("pairs", "words", "mean", "median", "95%", "longest")
    table = plain_table("split", "side", *numbers, "characters", right=(*numbers, "characters"))
    for split, report in found.splits.items():
        for side, one in (("source", report.source), ("target", report.target)):
            words = one.words
            table.add_row(
                split if side == "source" else "",
                side,
                f"{report.pairs:,}" if side == "source" else "",
                f"{words.total:,}",
                f"{words.mean:.1f}",
                *(f"{number:,}" for number in (words.median, words.most, words.longest)),
                f"{one.characters.total:,}",
            )
    for split, pairs in found.cut.items():
        table.add_row(split, "[dim]cut from train[/dim]", f"{pairs:,}")
    out.print(table)
    out.print("[dim]mean, median, 95% and longest: words in a line[/dim]")


def _print_cleaning(found: Examination) -> None:
    train = found.splits.get("train")
    if train is None:
        return
    _section("Cleaning and repeats in train")
    if train.cleaning.dropped:
        out.print(cleaning_table(train.cleaning))
    kept, repeats = train.cleaning.kept, train.repeats
    out.print(f"{kept:,} of {train.pairs:,} pairs are kept")
    _say(
        f"[dim]in any case and spacing: {repeats.pairs:,} pairs come again, {repeats.sources:,} "
        f"sources have several targets, {repeats.targets:,} targets several sources[/dim]"
    )


def _print_splits(found: Examination) -> None:
    if not found.overlap.leaks:
        return
    _section("Splits compared")
    table = plain_table(
        "of", "in", "sources", "targets", "whole pairs", right=("sources", "targets", "whole pairs")
    )
    for leak in found.overlap.leaks:
        counts = (leak.sources, leak.targets, leak.pairs)
        table.add_row(leak.split, leak.within, *(f"{number:,}" for number in counts))
    out.print(table)
    new = [one for one in found.overlap.coverage if one.new_words]
    if new:
        out.print()
        table = plain_table("new in", "", "words", "share", "such as", right=("words", "share"))
        for one in new:
            examples = ", ".join(one.word_examples[:5])
            share = f"{one.new_words / one.words:.1%}"
            table.add_row(one.split, one.side, f"{one.new_words:,}", share, escape(examples))
        out.print(table)


def _trial_table(tried: Trial, recipe: Recipe) -> Table:
    settings, times = recipe.training, tried.times
    source, target = tried.vocabulary
    sizes = f"{source:,}" if source == target else f"{source:,} and {target:,}"
    rows = {
        "model": f"{recipe.model.family}, {tried.parameters:,} parameters ({recipe.name})",
        "vocabulary": f"{sizes} tokens; {tried.tokens_per_word.source:.2f} and "
        f"{tried.tokens_per_word.target:.2f} in a word",
        "speed": f"{tried.tokens_per_second:,.0f} target tokens a second on {tried.device}; "
        f"{tried.step_seconds:.3g} s a step of {tried.batch_tokens * settings.accumulate:,}",
        "time": f"{format_seconds(times.total)}: preparing {format_seconds(times.preparing)}, "
        f"{settings.steps:,} steps {format_seconds(times.training)}, validating "
        f"{format_seconds(times.validating)}",
        "passes": f"each pair is seen {tried.epochs:.1f} times",
        "memory": f"{format_bytes(tried.memory)} of {format_bytes(tried.memory_available)}",
        "disk": f"{format_bytes(tried.disk)} of {format_bytes(tried.disk_free)} free; "
        f"a checkpoint {format_bytes(tried.checkpoint)}",
    }
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for name, value in rows.items():
        table.add_row(f"[dim]{name}[/dim]", escape(value))
    table.caption = f"[dim]from a trial on {tried.pairs:,} pairs[/dim]"
    table.caption_justify = "left"
    return table
