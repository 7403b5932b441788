"""`regard demo`: a small translator, trained, read and looked into."""

import shlex
import shutil
import sys
from itertools import islice
from pathlib import Path

from rich.markup import escape

from regard.alignment import run_alignment
from regard.alignment.extraction import AlignmentSettings
from regard.cli.display.console import note, out
from regard.cli.display.figures import missing_fonts_noted
from regard.cli.display.tables import plain_table, scores_table
from regard.cli.display.training_progress import TerminalReporter
from regard.cli.options import shared_options
from regard.cli.options.shared_options import option
from regard.evaluation.alignment_error import score_alignments
from regard.inspection.plots.figure import save_figure
from regard.pipelines.run_evaluation import finish_run
from regard.pipelines.translator import Translator, load
from regard.recipes.recipe_files import load_recipe
from regard.recipes.run_folder import RunFolder, load_data, pick_device
from regard.recipes.train_run import train
from regard.tasks.translation.prepared_data import PreparedData
from regard.training.signals import StopRequests

RECIPE = "travel"
SENTENCE = "Jane ne va pas la visiter en septembre."
NUM_SHOWN = 8  # held-out sentences whose translations are printed


def command(
    out_folder: shared_options.Out = Path("runs/demo"),
    device: shared_options.Device = "auto",
    settings: shared_options.Settings = None,
    sentence: str = option("The French sentence to look into.", default=SENTENCE, metavar="TEXT"),
) -> None:
    """Learns to translate French sentences about travel, which a grammar of our own makes, into
    English; takes a few minutes on two cores and needs no network. Run again, it goes on where it
    stopped.
    """
    folder = RunFolder(out_folder or Path("runs/demo"))
    recipe = load_recipe(RECIPE, settings or [])
    out.rule(f"[bold]1. Train[/bold]  {escape(recipe.about)}", align="left")
    where = pick_device(device)
    with StopRequests() as stop, TerminalReporter(recipe.training.steps) as reporter:
        progress = train(recipe, folder, device=where, reporter=reporter, stop_requested=stop)
    if stop.received is not None:
        note(f"stopped at step {progress.step}; all is saved: run the same again to go on")
        sys.exit(128 + stop.received)
    scores = finish_run(folder, progress, where)
    translator, data = load(folder.path, device=device, engine="native"), load_data(folder)

    out.rule("[bold]2. Translate[/bold]  sentences it never saw", align="left")
    _print_translations(translator, data)
    out.print(scores_table(scores.scores, title=scores.title))

    out.rule("[bold]3. Look[/bold]  what each word attended to", align="left")
    run = translator.runs[0]
    best = run_alignment.best_alignment(run)
    links = run_alignment.align_pairs(run, data.read("test"), best)
    measured = score_alignments(links, run_alignment.read_gold(data, "test"))
    _look(translator, sentence, best, folder)
    out.print(
        f"The links between words that are read off it err in "
        f"[bold]{measured.error_rate:.1%}[/bold] of cases (alignment error rate against the "
        f"grammar's own alignments, {data.pairs['test']:,} sentences)."
    )
    out.rule("[bold]4. Go on[/bold]", align="left")
    _print_next(folder)


def _print_translations(translator: Translator, data: PreparedData) -> None:
    pairs = list(islice(data.read("test"), NUM_SHOWN))
    answers = translator.translate([pair.source for pair in pairs], split=False)
    table = plain_table("", "French", "English")
    for pair, answer in zip(pairs, answers, strict=True):
        right = answer.text == pair.target
        mark = "[green]✓[/green]" if right else "[red]✗[/red]"
        expected = "" if right else f"\n[dim]{escape(pair.target)}[/dim]"
        table.add_row(mark, escape(pair.source), escape(answer.text) + expected)
    out.print(table)


def _look(
    translator: Translator, sentence: str, best: AlignmentSettings, folder: RunFolder
) -> None:
    answer = translator(sentence, look=True)
    out.print(f"{escape(answer.source)}  →  [bold]{escape(answer.text)}[/bold]")
    if answer.attention is None:
        return
    out.print(answer.attention.show(layer=best.layer, head=best.head))
    with missing_fonts_noted():
        one = answer.attention.plot(layer=best.layer, head=best.head)
        every = answer.attention.plot(kind="grid")
    save_figure(one, folder.path / "attention.png")
    save_figure(every, folder.path / "heads.png")
    out.print(
        f"[dim]{best}, chosen on {run_alignment.NUM_SELECTION_PAIRS} validation pairs; drawn in "
        f"{folder.path}/attention.png, every head in {folder.path}/heads.png[/dim]"
    )


def _print_next(folder: RunFolder) -> None:
    path, (activate, regard) = shlex.quote(str(folder.path)), _invocation()
    lines = [
        (f'echo "Paul aime la plage." | {regard} translate {path}', "translate with it"),
        (f'{regard} look {path} "Elle ne la visite pas." --all', "every layer and head"),
        (f"{regard} serve {path}", "translate and look in a browser"),
        (f"{regard} train --source FILE --target FILE", "train on your own files"),
        (f"{regard} recipes", "what else is on the shelf"),
    ]
    if activate:
        lines.insert(0, (activate, "have regard on the PATH of this shell"))
    rows = [(f"[bold]{escape(typed)}[/bold]", purpose) for typed, purpose in lines]
    out.print(plain_table("type", "to", rows=rows))


def _invocation() -> tuple[str, str]:
    """The command that puts `regard` on the PATH, if it is not, and the command to call it."""
    folder, installed = Path(sys.executable).parent, shutil.which("regard")
    if installed is not None and Path(installed).parent == folder:
        return "", "regard"
    if (folder / "activate").is_file():
        near = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
        return f". {shlex.quote(str(near / 'activate'))}", "regard"
    return "", f"{shlex.quote(sys.executable)} -m regard"
