"""`regard corpora`: the corpora that can be used by name."""

from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice, repeat
from typing import cast, get_args

from rich.markup import escape
from typer import Argument, Context, Typer

from regard.cli.display.console import note, out, print_json
from regard.cli.display.tables import plain_table
from regard.cli.options import shared_options
from regard.cli.options.shared_options import flag, option
from regard.corpora.corpus import Corpus, SplitName
from regard.corpora.pairs.build import CORPORA, CorpusSettings, build_corpus
from regard.corpora.pairs.dialogues import SPEAKERS
from regard.corpora.source import SourceSettings
from regard.errors import SettingsError
from regard.evaluation.pharaoh import format_pharaoh
from regard.recipes.recipe_files import make_recipe
from regard.tasks.names import CHAT
from regard.tasks.registry import TASKS

CHAT_SETTINGS = {"task": CHAT, "text": {"source": {"symbols": SPEAKERS}}}

MADE_HERE = "generated when needed"

app = Typer(invoke_without_command=True, add_completion=False)


def known_corpora() -> dict[str, type[SourceSettings]]:
    """The names of all known corpora, and the settings of each."""
    kinds = sorted({spec.corpus() for spec in TASKS.values()}, key=lambda kind: kind.rank)
    return {name: kind for kind in kinds for name in kind.known()}


@app.callback()
def command(context: Context, json: shared_options.Json = False) -> None:
    """Use a name in a recipe (corpus.name) or with regard doctor. Corpora that are not generated
    are searched for in the folder that $REGARD_DATA names.
    """
    if context.invoked_subcommand is not None:
        return
    found = []
    for name, kind in known_corpora().items():
        known = kind.known()[name]
        place = MADE_HERE if known.find is None else known.find()
        found.append((name, known.about, None if place is None else str(place)))
    if json:
        print_json([dict(zip(("name", "about", "here"), row, strict=True)) for row in found])
        return
    rows = [
        (f"[bold]{name}[/bold]", escape(about), escape(folder or "not yet"))
        for name, about, folder in found
    ]
    out.print(plain_table("corpus", "about", "here", rows=rows))


@app.command()
def show(
    name: str = Argument(metavar="NAME", help="A corpus of the list."),
    split: str = option("train, valid or test.", default="test", metavar="SPLIT"),
    lines: int = option(
        "Pairs to print; 0 for all.", "--lines", "-n", default=5, min=0, metavar="N"
    ),
    gold: bool = flag("--gold", "Add a column with the word alignment, such as 0-0 1-2."),
    settings: shared_options.Settings = None,
    json: shared_options.Json = False,
) -> None:
    """Print a part of a corpus.

    Prints pairs, source and target separated by a tab; or lines of a text; or windows of a series;
    or the names of pictures and their captions; or labels and texts.

    Examples:

        regard corpora show tatoeba --split train -n 0 --set corpus.tatoeba.pair=eng-fra > fra.tsv
        regard corpora show ptb -n 3
    """
    if split not in get_args(SplitName):
        raise SettingsError(f"--split {split}: there are {', '.join(get_args(SplitName))}")
    corpora, part = known_corpora(), cast(SplitName, split)
    if name not in corpora:
        near = get_close_matches(name, corpora, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "`regard corpora` lists them"
        raise SettingsError(f"{name}: no corpus of that name; {hint}")
    if (kind := corpora[name]) is not CorpusSettings:
        if gold or settings:
            raise SettingsError(f"{name} {kind.what}: leave out --gold and --set")
        sample = kind.model_validate({"name": name}).sample(part)
        for shown in islice(sample.rows, lines or None):
            print_json(shown) if json else print("\t".join(shown.values()))
        note(sample.origin)
        return
    others = CHAT_SETTINGS if CORPORA[name].group == "dialogue" else {}
    raw = {"name": name, "corpus": {"name": name}, **others}
    recipe = make_recipe(raw, settings or [], where="corpora")
    corpus = build_corpus(recipe.corpus)
    for row in islice(_rows(corpus, part, gold=gold), lines or None):
        if json:
            print_json(dict(zip(("source", "target", "gold"), row, strict=False)))
        else:
            print("\t".join(row))
    note(f"{corpus.name}, {' → '.join(corpus.languages)}. {corpus.origin}")


def _rows(corpus: Corpus, split: SplitName, *, gold: bool) -> Iterator[list[str]]:
    if split not in corpus.splits:
        raise SettingsError(
            f"{corpus.name} has no split {split}; it has {', '.join(corpus.splits)}"
        )
    if gold and split not in corpus.gold:
        raise SettingsError(f"{corpus.name} has no gold alignments: leave out --gold")
    golds = corpus.gold[split]() if gold else repeat(None)
    for pair, links in zip(corpus.splits[split](), golds, strict=False):
        yield [*pair, *([format_pharaoh(links)] if links is not None else [])]
