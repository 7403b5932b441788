"""Corpus files on the command line -> the `corpus` group of a recipe."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from regard.corpora.build import MAX_WEIGHT
from regard.corpora.languages import explain_codes
from regard.errors import SettingsError
from regard.recipes.recipe import Recipe
from regard.recipes.recipe_files import find_recipe, load_recipe, make_recipe, read_raw

OWN_RECIPE = "own"
"""The default recipe for corpus files."""

Data = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE[=WEIGHT]",
        help="Pairs to learn from: .tsv, .csv or .tmx, also .gz; may be repeated. Each pair of a "
        "file counts WEIGHT times: 2 twice, 0.5 takes half of them.",
    ),
]
Source = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE[=WEIGHT]",
        help="Source sentences, one on each line; may be repeated, with as many --target.",
    ),
]
Target = Annotated[
    list[str] | None, typer.Option(metavar="FILE", help="Their translations, line by line.")
]
Valid = Annotated[
    str | None,
    typer.Option(
        metavar="FILE[,FILE]",
        help="Held-out pairs to validate with: one file of pairs, or source,target. "
        "Otherwise some are cut from the training pairs.",
    ),
]
Test = Annotated[
    str | None,
    typer.Option(metavar="FILE[,FILE]", help="Held-out pairs for the final scores, likewise."),
]
Languages = Annotated[
    str | None, typer.Option(metavar="SRC-TGT", help="The languages, such as en-de.")
]
SkipBad = Annotated[
    bool,
    typer.Option(
        "--skip-bad",
        help="Skip and count what cannot be read in files of your own: lines that are not UTF-8, "
        "rows with too few columns, units of TMX that are not XML.",
    ),
]


class CorpusFiles(NamedTuple):
    """The options for training files, as given."""

    data: Sequence[str] | None = None
    source: Sequence[str] | None = None
    target: Sequence[str] | None = None
    skip_bad: bool = False


def corpus_from_options(
    files: CorpusFiles, valid: str | None, test: str | None, languages: str | None
) -> dict[str, Any] | None:
    """The `corpus` group of a recipe for the files; None if none are given."""
    training = _training_files(files)
    if not training:
        if valid or test or languages or files.skip_bad:
            raise SettingsError(
                "--valid, --test, --languages and --skip-bad go with --data or --source"
            )
        return None
    alone = len(training) == 1 and "weight" not in training[0]
    corpus: dict[str, Any] = {"train": training[0] if alone else training}
    for name, value in (("valid", valid), ("test", test)):
        if value is not None:
            corpus[name] = _parse_held_out(value) | _skip_bad_setting(files)
    if languages is not None:
        pair = languages.split("-")
        if len(pair) != 2:
            raise SettingsError(f"--languages {languages}: expected two codes, such as en-de")
        if wrong := explain_codes((pair[0], pair[1])):
            raise SettingsError(f"--languages {languages}: {wrong}")
        corpus["languages"] = pair
    return corpus


def _training_files(files: CorpusFiles) -> list[dict[str, Any]]:
    """The training corpora, those of one file first."""
    sources, targets = files.source or [], files.target or []
    if len(sources) != len(targets):
        raise SettingsError(
            f"--source is given {_times(len(sources))} and --target {_times(len(targets))}: they "
            "go together, the first with the first"
        )
    training: list[dict[str, Any]] = []
    for option, given in (("--data", files.data or []), ("--source", sources)):
        for place, one in enumerate(given):
            name, weight = _parse_weight(option, one)
            corpus: dict[str, Any] = {option[2:]: name}
            if option == "--source":
                corpus["target"] = targets[place]
            training.append(corpus | weight | _skip_bad_setting(files))
    return training


def _skip_bad_setting(files: CorpusFiles) -> dict[str, bool]:
    return {"skip_bad": True} if files.skip_bad else {}


def _times(number: int) -> str:
    return {0: "not at all", 1: "once", 2: "twice"}.get(number, f"{number} times")


def _parse_weight(option: str, given: str) -> tuple[str, dict[str, float]]:
    """The name and weight of FILE=WEIGHT, unless there is a file with the whole name."""
    name, equals, number = given.rpartition("=")
    if not equals or Path(given).exists():
        return given, {}
    try:
        weight = float(number)
    except ValueError:
        if not Path(name).exists():
            return given, {}  # reading it reports that there is no such file
        weight = 0.0
    if not 0 < weight <= MAX_WEIGHT:
        raise SettingsError(
            f"{option} {given}: expected a weight above 0 and up to {MAX_WEIGHT:g} behind the "
            f"=, such as {name}=2, got {number!r}"
        )
    return name, {"weight": weight}


def _parse_held_out(given: str) -> dict[str, Any]:
    """The files of `FILE[,FILE]`."""
    parts = given.split(",")
    if len(parts) == 1:
        return {"data": given}
    return dict(zip(("source", "target"), parts, strict=False))


def recipe_with_corpus(name: str, corpus: Mapping[str, Any] | None, overrides: list[str]) -> Recipe:
    """The recipe called `name`, with another `corpus` if given.

    With corpus files, the recipe's own cleaning and splitting are kept.
    """
    if corpus is None:
        return load_recipe(name, overrides)
    file = find_recipe(name)
    raw = read_raw(file, where=file.name)
    kept = ("cleaning", "split") if "train" in corpus else ()
    given = raw.get("corpus")
    own = {key: given[key] for key in kept if key in given} if isinstance(given, dict) else {}
    return make_recipe({**raw, "corpus": {**own, **corpus}}, overrides, where=file.name)
