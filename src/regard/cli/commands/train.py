"""`regard train`: a model trained from a recipe or from files."""

import sys
from pathlib import Path
from signal import SIGTERM
from typing import Any, Literal

import torch
from rich.console import Console
from typer import Argument

from regard.cli.display.console import err, note, print_json
from regard.cli.display.tables import print_evaluation
from regard.cli.display.training_progress import TerminalReporter
from regard.cli.options import corpus_options, shared_options
from regard.cli.options.shared_options import flag, option
from regard.errors import SettingsError
from regard.interruption import InterruptedBySignal
from regard.json_files import dump_json
from regard.recipes import train_run
from regard.recipes.finish_run import finish_run
from regard.recipes.paths import RUNS
from regard.recipes.recipe_files import load_recipe
from regard.recipes.run_folder import RunFolder, pick_device
from regard.recipes.transfer.start_run import resolve_start
from regard.settings import quoted
from regard.tasks.contracts import TaskRecipe
from regard.tasks.registry import DEFAULT_TASK, TASKS
from regard.training.checkpoints import Progress, last_progress
from regard.training.distributed.launch import Launch, end_with_parent
from regard.training.distributed.process_group import joined_ranks
from regard.training.distributed.processes import start_processes
from regard.training.distributed.ranks import Ranks
from regard.training.signals import StopRequests


def command(
    recipe: str | None = Argument(
        None,
        metavar="RECIPE",
        help="A built-in recipe (`regard recipes`) or a YAML file. With your own files, it says "
        "how to train on them; the default is then the recipe `own`, or with --from that of RUN.",
    ),
    data: corpus_options.Data = None,
    source: corpus_options.Source = None,
    target: corpus_options.Target = None,
    valid: corpus_options.Valid = None,
    test: corpus_options.Test = None,
    languages: corpus_options.Languages = None,
    skip_bad: corpus_options.SkipBad = False,
    out_folder: shared_options.Out = None,
    settings: shared_options.Settings = None,
    start: Path | None = option(
        "Start from the weights of another run, wherever names, shapes and vocabularies agree.",
        "--from",
        metavar="RUN",
    ),
    vocabulary: Literal["run", "own", "extended"] | None = option(
        "With --from: use the vocabulary of RUN; or learn one from the data, whose pieces start "
        "from the vectors of RUN if it has them; or extend the vocabulary of RUN by pieces from "
        "the data. By default as the recipe says."
    ),
    mix: corpus_options.Mix = None,
    adapter: str | None = option(
        "Train only low-rank updates (LoRA), with --from: a small file that is kept in RUN under "
        "this NAME, for `regard translate RUN --adapter NAME` and all other commands.",
        metavar="NAME",
    ),
    resume: bool = flag("--resume", "Continue a run that was stopped or killed."),
    device: shared_options.Device = "auto",
    devices: int | None = option(
        "Train on N GPUs, or in N processes on a CPU: each has its own batch in a step. On several "
        "machines start with torchrun, without this option.",
        metavar="N",
        min=1,
    ),
    max_restarts: int | None = option(
        "With --devices: how often to continue from the last checkpoint after a crash.",
        metavar="N",
        min=0,
    ),
    json: shared_options.Json = False,
) -> None:
    """The run's folder then holds the model, its tokenizer, the cleaned data, the metrics and a
    card with the scores on the held-out test pairs. Ctrl-C saves and stops; --resume continues
    exactly from there, also after a crash.

    Examples:

        regard train travel
        regard train --source train.en --target train.de --languages en-de --out runs/mine
        regard train --data news.tsv --data ours.tsv=3 --languages en-de
        regard train --data memory.tmx --languages en-fr --set training.steps=20000
        regard train text --data novel.txt --out runs/novel
        regard train flickr8k --data album/captions.tsv --skip-bad --out runs/album
        regard train text --data novel.txt --from runs/wikitext2-gpt --out runs/tuned
        regard train --data law.tsv --from runs/mine --mix runs/mine=0.3 --out runs/law
        regard train --data law.tsv --from runs/mine --adapter legal --out runs/legal
        regard train --data law.tsv --from runs/opus --vocabulary extended --out runs/law
        regard train --resume --out runs/mine
        regard train --resume --out runs/mine --set refinement.steps=300
        regard train multi30k --devices 8 --max-restarts 3
    """
    corpus = corpus_options.corpus_from_options(
        data, source, target, valid, test, languages, skip_bad
    )
    launch = Launch.of_environment()
    launch.check_options(devices, max_restarts)
    if resume:
        _refuse_to_change_what_is_resumed(corpus, mix, start, vocabulary or adapter)
        folder = _resumed_folder(recipe, out_folder)
        recipe_to_train = folder.load_recipe(settings or [])
    else:
        corpus_options.require_pairs("--mix", recipe if mix else None)
        changes = [*(settings or []), *_start_settings(start, vocabulary, adapter, mix)]
        recipe_to_train = resolve_start(_load_new(recipe, corpus, start, changes), changes)
        folder = RunFolder(out_folder or RUNS / recipe_to_train.name)
        if launch.restarts and folder.exists():
            recipe_to_train = folder.load_recipe(settings or [])
        elif launch.leads:
            folder.require_new()
    if not launch.ranks and devices is not None and (devices > 1 or max_restarts):
        sys.exit(start_processes(devices, device, max_restarts or 0, note))
    with launch.errors_to_launcher():
        _train_and_measure(recipe_to_train, folder, launch, device, as_json=json)


def _train_and_measure(
    recipe: TaskRecipe, folder: RunFolder, launch: Launch, device: str, *, as_json: bool
) -> None:
    """Train in this process, which may be one of several; the first one shows the scores."""
    where = pick_device(launch.own_device(device))
    if launch.ranks:
        end_with_parent(launch)
    again = launch.resume_command(folder.path)
    with StopRequests(quiet=not launch.leads) as stop:
        try:
            with joined_ranks(where) as ranks:
                progress = _train(recipe, folder, where, stop, ranks)
                stopped = ranks.any(stop.received is not None)
        except InterruptedBySignal as signal:
            if launch.leads:
                note(f"stopped at once; finished work is kept. Continue with: {again}")
            sys.exit(128 + signal.number)
    refined = last_progress(folder.refined.path)
    if stopped and launch.leads:
        where_it_is = f"{refined.step} of the refinement" if refined else f"{progress.step}"
        note(f"stopped at step {where_it_is}; all is saved. Continue with: {again}")
    if stopped:
        sys.exit(128 + (stop.received or SIGTERM))
    if launch.leads:
        _finish(recipe, folder, where, progress, as_json=as_json)


def _train(
    recipe: TaskRecipe,
    folder: RunFolder,
    device: torch.device,
    stop: StopRequests,
    ranks: Ranks,
) -> Progress:
    """Train the recipe's model, of any task."""
    console = err if ranks.leads else Console(quiet=True)
    with TerminalReporter(recipe.training.steps, console=console) as reporter:
        return train_run.train(
            recipe, folder, device=device, reporter=reporter, stop_requested=stop, ranks=ranks
        )


def _finish(
    recipe: TaskRecipe,
    folder: RunFolder,
    device: torch.device,
    progress: Progress,
    *,
    as_json: bool,
) -> None:
    """Measure the trained model and show its scores."""
    evaluation = finish_run(folder, progress, device)
    if as_json:
        steps = {"step": progress.step}
        if (stage := recipe.second_stage_group) is not None:
            second = last_progress(folder.refined.path)
            steps[f"{stage}_step"] = second.step if second else 0
        print_json({"run": str(folder.path), **steps, "scores": evaluation.to_json()})
        return
    print_evaluation(evaluation, str(folder.path))
    note(f"the model is in {folder.path}; its card: {folder.card}")
    spec = TASKS[recipe.task]
    run = quoted(folder.path)
    if spec.pairs:
        note(f'try: {spec.use_command(run)}   or   regard look {run} "…"')


def _refuse_to_change_what_is_resumed(
    corpus: dict[str, Any] | None,
    mix: list[str] | None,
    start: Path | None,
    how: str | None,
) -> None:
    kept = {
        "data: drop the files": corpus,
        "data: drop --mix": mix,
        "weights: drop --from": start,
        "vocabulary and weights: drop --vocabulary and --adapter": how,
    }
    for what, given in kept.items():
        if given:
            raise SettingsError(f"--resume continues with the run's own {what}")


def _start_settings(
    start: Path | None, vocabulary: str | None, adapter: str | None, mix: list[str] | None
) -> list[str]:
    """The start run and the mixed-in pairs, as settings of a recipe."""
    given = {
        "start.run": None if start is None else str(start),
        "start.vocabulary": vocabulary,
        "start.adapter": adapter,
        "corpus.mix": corpus_options.mix_from_options(mix) if mix else None,
    }
    return [f"{name}={dump_json(value)}" for name, value in given.items() if value is not None]


def _load_new(
    name: str | None, corpus: dict[str, Any] | None, start: Path | None, overrides: list[str]
) -> TaskRecipe:
    """The recipe of a new run. Without a name: the recipe `own` with the search settings of the
    start run, or the start run's recipe if its task is not translation.
    """
    if name is None and corpus is None:
        raise SettingsError(
            "nothing to train on: give a recipe (`regard recipes` lists them), --data FILE, or "
            "--source FILE and --target FILE"
        )
    kept: dict[str, Any] = {}
    if name is None and start is not None and corpus is not None:
        given = RunFolder(start).load_recipe()
        if not TASKS[given.task].pairs:
            return corpus_options.recipe_of_run(given, corpus, overrides)
        if given.task == DEFAULT_TASK:
            kept["decoding"] = given.model_dump(mode="json")["decoding"]
    recipe = name or corpus_options.OWN_RECIPE
    return corpus_options.recipe_with_corpus(recipe, corpus, overrides, kept)


def _resumed_folder(name: str | None, out_folder: Path | None) -> RunFolder:
    """The folder that was given, or the default one of the recipe."""
    if out_folder is not None:
        folder = RunFolder(out_folder)
        if name is not None:
            _check_own_recipe(name, folder)
        return folder
    if name is None:
        raise SettingsError("--resume needs the run's folder: --out DIR, or the recipe's name")
    is_file = name.endswith((".yaml", ".yml"))
    return RunFolder(RUNS / (load_recipe(name).name if is_file else name))


def _check_own_recipe(name: str, folder: RunFolder) -> None:
    """Raise an error if the recipe called `name` is not the run's own."""
    own = folder.load_recipe().name
    if load_recipe(name).name != own:
        raise SettingsError(f"--resume continues with the run's own recipe, {own}: drop {name}")
