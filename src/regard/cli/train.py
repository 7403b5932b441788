"""`regard train`."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli import options, own_files
from regard.cli.console import note, out, print_json
from regard.cli.progress import TerminalReporter
from regard.cli.tables import scores_table
from regard.errors import RunError, SettingsError
from regard.interruption import Stopped
from regard.recipes.assemble import train
from regard.recipes.load import load_recipe
from regard.recipes.run_folder import RunFolder, pick_device
from regard.recipes.schema import Recipe
from regard.serving.scoring import finish_run
from regard.training.checkpoints import last_progress
from regard.training.interrupts import StopRequests

app = typer.Typer()


@app.command()
def command(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE",
            help="A recipe of the shelf (`regard recipes`) or a YAML file. With files of your own "
            "it says how to train on them; without RECIPE that is the recipe `own`.",
        ),
    ] = None,
    data: own_files.Data = None,
    source: own_files.Source = None,
    target: own_files.Target = None,
    valid: own_files.Valid = None,
    test: own_files.Test = None,
    languages: own_files.Languages = None,
    skip_bad: own_files.SkipBad = False,
    out_folder: options.Out = None,
    settings: options.Settings = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was stopped or killed.")
    ] = False,
    device: options.Device = "auto",
    json: options.Json = False,
) -> None:
    """Train a model from a recipe, or from your own files.

    The run's folder then holds the model, its tokenizer, the cleaned data, the metrics and a card
    with the scores on the held-out test pairs. Ctrl-C saves and stops; --resume goes on exactly
    where it stopped, also after a crash.

    Examples:

        regard train travel
        regard train --source train.en --target train.de --languages en-de --out runs/mine
        regard train --data news.tsv --data ours.tsv=3 --languages en-de
        regard train --data memory.tmx --languages en-fr --set training.steps=20000
        regard train --resume --out runs/mine
        regard train --resume --out runs/mine --set refinement.steps=300
    """
    given = own_files.OwnFiles(data, source, target, skip_bad)
    corpus = own_files.own_corpus(given, valid, test, languages)
    if resume:
        if corpus is not None:
            raise SettingsError("--resume goes on with the run's own data: drop the files")
        folder = _resumed_folder(recipe, out_folder)
        wanted = folder.load_recipe(settings or [])
    else:
        wanted = _new(recipe, corpus, settings or [])
        folder = RunFolder(out_folder or Path("runs") / wanted.name)
        if folder.exists():
            raise RunError(
                f"{folder.path}: holds a run already; go on with it by --resume, "
                "or train elsewhere with --out"
            )
    where = pick_device(device)
    with StopRequests() as stop:
        try:
            with TerminalReporter(wanted.training.steps) as reporter:
                progress = train(wanted, folder, device=where, reporter=reporter, stop_asked=stop)
        except Stopped as signal:
            again = f"regard train --resume --out {folder.path}"
            note(f"stopped at once; what was finished is kept. Go on with: {again}")
            sys.exit(128 + signal.number)
        refined = last_progress(folder.refined.path) if wanted.refinement else None
        if stop.received is not None:
            where_it_is = f"{refined.step} of the refinement" if refined else f"{progress.step}"
            note(
                f"stopped at step {where_it_is}; all is saved. Go on with: "
                f"regard train --resume --out {folder.path}"
            )
            sys.exit(128 + stop.received)
    scores = finish_run(folder, progress, where)
    if json:
        steps = {"step": progress.step, "refinement_step": refined.step if refined else 0}
        print_json({"run": str(folder.path), **steps, "scores": scores.to_json()})
        return
    out.print(scores_table(scores.scores, title=scores.title))
    if told := str(scores.cut):
        note(told)
    note(f"the model is in {folder.path}; its card: {folder.card}")
    note(f'try: regard translate {folder.path} < FILE   or   regard look {folder.path} "…"')


def _new(name: str | None, corpus: dict[str, Any] | None, overrides: list[str]) -> Recipe:
    if name is None and corpus is None:
        raise SettingsError(
            "nothing to train on: give a recipe (`regard recipes` lists them), --data FILE, or "
            "--source FILE and --target FILE"
        )
    return own_files.recipe_with(name or own_files.OWN, corpus, overrides)


def _resumed_folder(name: str | None, out_folder: Path | None) -> RunFolder:
    """The folder that was given, or that a recipe's run goes to."""
    if out_folder is not None:
        return RunFolder(out_folder)
    if name is None:
        raise SettingsError("--resume needs the run's folder: --out DIR, or the recipe's name")
    is_file = name.endswith((".yaml", ".yml"))
    return RunFolder(Path("runs") / (load_recipe(name).name if is_file else name))
