"""`regard corpora`: the corpora that can be used by name."""

from collections.abc import Callable, Collection, Iterator
from difflib import get_close_matches
from itertools import chain, islice, repeat
from pathlib import Path
from typing import cast, get_args

from rich.markup import escape
from typer import Argument, Context, Typer

from regard.cli.display.console import note, out, print_json
from regard.cli.display.tables import plain_table
from regard.cli.options import shared_options
from regard.cli.options.shared_options import flag, option
from regard.corpora.corpus import Corpus, ReadReport, SplitName
from regard.corpora.download import cache_folder, data_folder
from regard.corpora.labelled_texts import (
    LABELLED_TEXTS,
    LabelledTextName,
    LabelledTextSettings,
    read_labelled_texts,
)
from regard.corpora.pairs.build import CORPORA, build_corpus
from regard.corpora.pairs.dialogues import SPEAKERS
from regard.corpora.running_text import (
    TEXTS,
    RunningTextSettings,
    TextName,
    TextPart,
    read_splits,
)
from regard.errors import SettingsError
from regard.evaluation.pharaoh import format_pharaoh
from regard.recipes.recipe_files import make_recipe
from regard.tasks.captions.data import (
    CAPTION_CORPORA,
    CaptionCorpusSettings,
    build_caption_corpus,
)
from regard.tasks.captions.flickr8k import ARCHIVES
from regard.tasks.forecast.series import (
    GENERATED_SERIES,
    SeriesSettings,
    build_series,
    split_targets,
)
from regard.tasks.names import CHAT
from regard.tasks.picture_classes.archives import PICTURE_ARCHIVES
from regard.tasks.picture_classes.data import (
    LabelledPictureSettings,
    read_labelled_pictures,
)

CHAT_SETTINGS = {"task": CHAT, "text": {"source": {"symbols": SPEAKERS}}}

MADE_HERE = "generated when needed"

app = Typer(invoke_without_command=True, add_completion=False)


@app.callback()
def command(context: Context, json: shared_options.Json = False) -> None:
    """Use a name in a recipe (corpus.name) or with regard doctor. Corpora that are not generated
    are searched for in the folder that $REGARD_DATA names.
    """
    if context.invoked_subcommand is not None:
        return
    found = [(name, entry.about, _find_corpus(name)) for name, entry in CORPORA.items()]
    found += [(str(name), known.about, _find_text(name)) for name, known in TEXTS.items()]
    found += [(name, about, MADE_HERE) for name, about in GENERATED_SERIES.items()]
    found += [(name, about, _find_pictures(name)) for name, about in CAPTION_CORPORA.items()]
    found += [
        (str(name), known.about, _find_labelled_texts(name))
        for name, known in LABELLED_TEXTS.items()
    ]
    found += [
        (name, known.about, _find_labelled_pictures(name))
        for name, known in PICTURE_ARCHIVES.items()
    ]
    if json:
        print_json([dict(zip(("name", "about", "here"), row, strict=True)) for row in found])
        return
    rows = [
        (f"[bold]{name}[/bold]", escape(about), escape(folder or "not yet"))
        for name, about, folder in found
    ]
    out.print(plain_table("corpus", "about", "here", rows=rows))


def _find_corpus(name: str) -> str | None:
    """The path of the corpus; None: it is not on this machine."""
    if CORPORA[name].group == "generated":
        return MADE_HERE
    own = CORPORA[name].folder or name
    folders = (folder / own for folder in (data_folder(), cache_folder()) if folder)
    return next((str(folder) for folder in folders if folder.is_dir()), None)


def _find_text(name: TextName) -> str | None:
    """The path of a corpus of running text, an archive or a file."""
    known, own = TEXTS[name].files["train"], data_folder()
    places = [own / path for path in (known.archive, known.path) if own and path]
    places.append((cache_folder() / known.path).parent)
    return next((str(place) for place in places if place.exists()), None)


def _find_pictures(name: str) -> str | None:
    """The path of a corpus of captioned pictures."""
    if name == "squares":
        return MADE_HERE
    found = _find_here(ARCHIVES[0].path)
    return str(found.parent) if found else None


def _find_labelled_texts(name: LabelledTextName) -> str | None:
    """The path of a corpus of labelled texts."""
    found = _find_here(LABELLED_TEXTS[name].files["train"].path)
    return str(found.parent) if found else None


def _find_labelled_pictures(name: str) -> str | None:
    """The path of a corpus of labelled pictures, an archive or a file."""
    known = PICTURE_ARCHIVES[name].first
    found = _find_here(known.archive, known.path)
    return str(found) if found else None


def _find_here(*paths: str | None) -> Path | None:
    """The first of some paths that exists in the data folder or in the cache."""
    folders = [folder for folder in (data_folder(), cache_folder()) if folder]
    places = (folder / path for folder in folders for path in paths if path)
    return next((place for place in places if place.exists()), None)


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
    for names, what, show_rows in OTHER_KINDS:
        if name in names:
            if gold or settings:
                raise SettingsError(f"{name} {what}: leave out --gold and --set")
            show_rows(name, cast(SplitName, split), lines, as_json=json)
            return
    if name not in CORPORA:
        known = [*CORPORA, *(one for names, _, _ in OTHER_KINDS for one in names)]
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "`regard corpora` lists them"
        raise SettingsError(f"{name}: no corpus of that name; {hint}")
    others = CHAT_SETTINGS if CORPORA[name].group == "dialogue" else {}
    raw = {"name": name, "corpus": {"name": name}, **others}
    recipe = make_recipe(raw, settings or [], where="corpora")
    corpus = build_corpus(recipe.corpus)
    for row in islice(_rows(corpus, cast(SplitName, split), gold=gold), lines or None):
        if json:
            print_json(dict(zip(("source", "target", "gold"), row, strict=False)))
        else:
            print("\t".join(row))
    note(f"{corpus.name}, {' → '.join(corpus.languages)}. {corpus.origin}")


def _show_text(name: str, split: SplitName, lines: int, *, as_json: bool) -> None:
    """Print lines of a running text."""
    splits = read_splits(RunningTextSettings.model_validate({"name": name}))
    if split not in splits:
        raise SettingsError(f"{name} has no split {split}; it has {', '.join(splits)}")
    parts = ("\n" if part == TextPart("", True) else part.text for part in splits[split]())
    shown = chain.from_iterable(part.splitlines() for part in parts)
    for line in islice(shown, lines or None):
        print_json({"line": line}) if as_json else print(line)
    note(f"{name}. {TEXTS[cast(TextName, name)].origin}")


def _show_series(name: str, split: SplitName, lines: int, *, as_json: bool) -> None:
    """Print windows of a series, and the numbers that follow them."""
    settings = SeriesSettings.model_validate({"name": name})
    series = build_series(settings)
    numbers = series.values[:, 0].tolist()
    for target in split_targets(settings, series)[split][: lines or None].tolist():
        window = [f"{number:g}" for number in numbers[target - settings.window : target]]
        row = {"window": " ".join(window), "next": f"{numbers[target]:g}"}
        print_json(row) if as_json else print("\t".join(row.values()))
    note(f"{name}: {GENERATED_SERIES[name]}")


def _show_captions(name: str, split: SplitName, lines: int, *, as_json: bool) -> None:
    """Print the names of pictures, and a caption of each on every line."""
    corpus = build_caption_corpus(CaptionCorpusSettings.model_validate({"name": name}))
    rows = (
        {"picture": picture.name, "caption": caption}
        for picture in corpus.splits[split]
        for caption in picture.captions
    )
    for row in islice(rows, lines or None):
        print_json(row) if as_json else print("\t".join(row.values()))
    note(f"{corpus.name}, {corpus.language}. {corpus.origin}")


def _show_labelled_texts(name: str, split: SplitName, lines: int, *, as_json: bool) -> None:
    """Print labels and texts."""
    settings = LabelledTextSettings.model_validate({"name": name})
    for one in read_labelled_texts(settings, ReadReport())[split][: lines or None]:
        row = {"label": one.label, "text": " ".join(one.texts)}
        print_json(row) if as_json else print("\t".join(row.values()))
    note(f"{name}. {LABELLED_TEXTS[cast(LabelledTextName, name)].origin}")


def _show_labelled_pictures(name: str, split: SplitName, lines: int, *, as_json: bool) -> None:
    """Print the numbers and labels of pictures."""
    settings = LabelledPictureSettings.model_validate({"name": name})
    for one in read_labelled_pictures(settings, ReadReport())[split][: lines or None]:
        row = {"picture": one.name, "label": one.label}
        print_json(row) if as_json else print("\t".join(row.values()))
    note(f"{name}. {PICTURE_ARCHIVES[name].origin}")


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


OTHER_KINDS: tuple[tuple[Collection[str], str, Callable[..., None]], ...] = (
    (TEXTS, "is a running text", _show_text),
    (GENERATED_SERIES, "is a series of numbers", _show_series),
    (CAPTION_CORPORA, "has captioned pictures", _show_captions),
    (LABELLED_TEXTS, "has labelled texts", _show_labelled_texts),
    (PICTURE_ARCHIVES, "has labelled pictures", _show_labelled_pictures),
)
"""Corpora that are not pairs: their names, what they are, and the function that prints them."""
