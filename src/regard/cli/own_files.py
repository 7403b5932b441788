"""Files of one's own, given on the command line -> the `corpus` group of a recipe."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from regard.errors import SettingsError
from regard.recipes.load import find_recipe, load_recipe, make_recipe, read_raw
from regard.recipes.schema import Recipe

OWN = "own"
"""The recipe on the shelf for a corpus of one's own."""

Data = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Pairs to learn from: .tsv, .csv or .tmx, also .gz."),
]
Source = Annotated[
    str | None, typer.Option(metavar="FILE", help="Source sentences, one on each line.")
]
Target = Annotated[
    str | None, typer.Option(metavar="FILE", help="Their translations, line by line.")
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


def own_corpus(
    files: Mapping[str, str | None], valid: str | None, test: str | None, languages: str | None
) -> dict[str, Any] | None:
    """The `corpus` group of a recipe for files given on the command line; None where none are.

    `files` are those to train on, by what they are: data, source, target.
    """
    given = {name: file for name, file in files.items() if file is not None}
    if not given:
        if valid or test or languages:
            raise SettingsError("--valid, --test and --languages go with --data or --source")
        return None
    corpus: dict[str, Any] = {"train": given}
    for name, value in (("valid", valid), ("test", test)):
        if value is not None:
            parts = value.split(",")
            corpus[name] = dict(zip(("source", "target"), parts, strict=False))
            if len(parts) == 1:
                corpus[name] = {"data": value}
    if languages is not None:
        pair = languages.split("-")
        if len(pair) != 2:
            raise SettingsError(f"--languages {languages}: expected two codes, such as en-de")
        corpus["languages"] = pair
    return corpus


def recipe_with(name: str, corpus: Mapping[str, Any] | None, overrides: list[str]) -> Recipe:
    """The recipe called `name`, on another `corpus` where one is given.

    How the recipe cleans and splits is kept for files of one's own.
    """
    if corpus is None:
        return load_recipe(name, overrides)
    file = find_recipe(name)
    raw = read_raw(file, where=file.name)
    kept = ("cleaning", "split") if "train" in corpus else ()
    given = raw.get("corpus")
    own = {key: given[key] for key in kept if key in given} if isinstance(given, dict) else {}
    return make_recipe({**raw, "corpus": {**own, **corpus}}, overrides, where=file.name)
