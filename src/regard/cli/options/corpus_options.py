"""Corpus files on the command line -> the `corpus` group of a recipe."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from regard.corpora.languages import explain_codes
from regard.corpora.pairs.build import MAX_WEIGHT
from regard.errors import SettingsError
from regard.recipes.recipe_files import find_recipe, load_recipe, make_recipe, read_raw
from regard.tasks.contracts import TaskRecipe
from regard.tasks.registry import DEFAULT_TASK, find_task

OWN_RECIPE = "own"  # the default recipe for corpus files

Data = Annotated[
    list[str] | None,
    Option(
        metavar="FILE[=WEIGHT]",
        help="Pairs to train on: .tsv, .csv or .tmx, also .gz; may be repeated. Each pair of a "
        "file is used WEIGHT times: 2 uses all twice, 0.5 half of them. For other tasks: "
        "text files for a language model, dialogues (.jsonl), a table for forecasts, captions "
        "next to their pictures, a table of labels and texts, or a folder with a subfolder of "
        "pictures for each class.",
    ),
]
Source = Annotated[
    list[str] | None,
    Option(
        metavar="FILE[=WEIGHT]",
        help="Source sentences, one on each line; may be repeated, together with --target.",
    ),
]
Target = Annotated[
    list[str] | None, Option(metavar="FILE", help="Their translations, line by line.")
]
Valid = Annotated[
    str | None,
    Option(
        metavar="FILE[,FILE]",
        help="Held-out data to validate with: one file, or source,target. By default cut "
        "from the training data.",
    ),
]
Test = Annotated[
    str | None, Option(metavar="FILE[,FILE]", help="Held-out data for the final scores, likewise.")
]
Languages = Annotated[str | None, Option(metavar="SRC-TGT", help="The languages, such as en-de.")]
Mix = Annotated[
    list[str] | None,
    Option(
        metavar="FILE|RUN=SHARE",
        help="Additional pairs that make up a SHARE of the training set, such as 0.3: a file as "
        "for --data, two files as source,target, or a run for its training pairs, so that a model "
        "that starts from that run (--from) forgets less; may be repeated.",
    ),
]
SkipBad = Annotated[
    bool,
    Option(
        "--skip-bad",
        help="Skip and count what cannot be read in files of your own: lines that are not UTF-8, "
        "rows with too few columns, units of TMX that are not XML, files that are not pictures.",
    ),
]


def corpus_from_options(
    data: Sequence[str] | None = None,
    source: Sequence[str] | None = None,
    target: Sequence[str] | None = None,
    valid: str | None = None,
    test: str | None = None,
    languages: str | None = None,
    skip_bad: bool = False,
) -> dict[str, Any] | None:
    """The `corpus` group of a recipe for the files of the options; None if none are given."""
    sources, targets = source or [], target or []
    if len(sources) != len(targets):
        raise SettingsError(
            f"--source is given {_times(len(sources))} and --target {_times(len(targets))}: give "
            "as many of one as of the other"
        )
    reading = {"skip_bad": True} if skip_bad else {}
    training = [_parse_weight("data", one) | reading for one in data or []]
    for one, other in zip(sources, targets, strict=True):
        training.append(_parse_weight("source", one) | {"target": other} | reading)
    if not training:
        if valid or test or languages or skip_bad:
            raise SettingsError(
                "--valid, --test, --languages and --skip-bad need --data or --source"
            )
        return None
    alone = len(training) == 1 and "weight" not in training[0]
    corpus: dict[str, Any] = {"train": training[0] if alone else training}
    for name, given in (("valid", valid), ("test", test)):
        if given is not None:
            corpus[name] = _parse_files(given) | reading
    if languages is not None:
        pair = languages.split("-")
        if len(pair) != 2:
            raise SettingsError(f"--languages {languages}: expected two codes, such as en-de")
        if wrong := explain_codes((pair[0], pair[1])):
            raise SettingsError(f"--languages {languages}: {wrong}")
        corpus["languages"] = pair
    return corpus


def mix_from_options(given: Sequence[str]) -> list[dict[str, Any]]:
    """`corpus.mix` of a recipe for FILE=SHARE or RUN=SHARE."""
    return [_parse_mix(one) for one in given]


def _parse_mix(given: str) -> dict[str, Any]:
    name, _, number = given.rpartition("=")
    try:
        share = float(number)
    except ValueError:
        share = 0.0
    if not name or not 0 < share < 1:
        raise SettingsError(
            f"--mix {given}: expected a share between 0 and 1 after the =, such as "
            f"{name or given}=0.3"
        )
    if Path(name).is_dir():
        files = [Path(name) / "data" / f"train.{side}.txt" for side in ("source", "target")]
        if not all(file.is_file() for file in files):
            raise SettingsError(
                f"--mix {given}: {name} is a folder without data/train.source.txt and "
                "data/train.target.txt, the training pairs of a translator's run; name a file"
            )
        return {"source": str(files[0]), "target": str(files[1]), "share": share}
    return {**_parse_files(name), "share": share}


def _parse_files(given: str) -> dict[str, str]:
    """The file of pairs, which may have a comma in its name, or the two of `source,target`."""
    source, comma, target = given.partition(",")
    two = comma and not Path(given).exists()
    return {"source": source, "target": target} if two else {"data": given}


def _times(number: int) -> str:
    return {0: "not at all", 1: "once", 2: "twice"}.get(number, f"{number} times")


def _parse_weight(option: str, given: str) -> dict[str, Any]:
    """The name and weight of FILE=WEIGHT, unless there is a file with the whole name."""
    name, equals, number = given.rpartition("=")
    if not equals or Path(given).exists():
        return {option: given}
    try:
        weight = float(number)
    except ValueError:
        if not Path(name).exists():
            return {option: given}  # reading it reports that there is no such file
        weight = 0.0
    if not 0 < weight <= MAX_WEIGHT:
        raise SettingsError(
            f"--{option} {given}: expected a weight above 0 and up to {MAX_WEIGHT:g} after the "
            f"=, such as {name}=2, got {number!r}"
        )
    return {option: name, "weight": weight}


def require_pairs(option: str, recipe: str | None) -> None:
    """Raise an error if a recipe is named whose task does not learn from pairs."""
    if recipe is None:
        return
    file = find_recipe(recipe)
    task = read_raw(file, where=file.name).get("task", DEFAULT_TASK)
    if not find_task(task, file.name).pairs:
        raise SettingsError(f"{file.name}: its task is {task}; {option} is only for pairs: drop it")


def recipe_with_corpus(
    name: str,
    corpus: Mapping[str, Any] | None,
    overrides: list[str],
    groups: Mapping[str, Any] | None = None,
) -> TaskRecipe:
    """The recipe called `name`, with another `corpus` if given: a named one, or files that are read
    as the recipe says. With files, `groups` of settings replace those of the recipe.
    """
    if corpus is None:
        _require_data(name, overrides)
        return load_recipe(name, overrides)
    file = find_recipe(name)
    raw = read_raw(file, where=file.name)
    if "train" in corpus:
        kind, own = find_task(raw.get("task", DEFAULT_TASK), file.name).recipe(), raw.get("corpus")
        try:
            corpus = kind.corpus_of_files(own if isinstance(own, dict) else {}, corpus)
        except SettingsError as error:
            raise SettingsError(f"{file.name}: {error}") from None
    raw = {**raw, **(groups or {}), "corpus": dict(corpus)}
    return make_recipe(raw, overrides, where=file.name)


def recipe_of_run(given: TaskRecipe, corpus: Mapping[str, Any], overrides: list[str]) -> TaskRecipe:
    """The recipe of a trained run with files, read as it says, instead of its corpus."""
    raw = given.model_dump(mode="json", exclude={"start", "about"})
    own = {name: value for name, value in raw["corpus"].items() if value is not None}
    files = given.corpus_of_files(own, corpus)
    where = f"the recipe of {given.name}"
    return make_recipe({**raw, "name": OWN_RECIPE, "corpus": files}, overrides, where=where)


def _require_data(name: str, overrides: Sequence[str]) -> None:
    """Raise an error if a recipe of the shelf needs files that are neither given nor present."""
    if name.endswith((".yaml", ".yml")) or any(one.startswith("corpus.") for one in overrides):
        return
    file = find_recipe(name)
    corpus = read_raw(file, where=file.name).get("corpus", {})
    train = corpus.get("train")
    files = list(train.values()) if isinstance(train, dict) else [train]
    if train is None or all(Path(one).exists() for one in files):
        return
    pair = ", or --source FILE and --target FILE" if isinstance(train, dict) else ""
    raise SettingsError(
        f"{name}: a recipe for your own data, which are missing: give --data FILE{pair}"
    )
