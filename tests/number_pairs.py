"""A hundred pairs of numbers, their files, and recipes for them."""

from regard.corpora.corpus import Pair
from regard.recipes.recipe_files import make_recipe

NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
PAIRS = [Pair(f"{a} {b} go", f"go {b} and {a}") for a in NUMBERS for b in NUMBERS]


def write_files(folder, pairs, name="train"):
    for place, side in enumerate(("source", "target")):
        lines = "".join(f"{pair[place]}\n" for pair in pairs)
        (folder / f"{name}.{side}").write_text(lines, encoding="utf-8")
    return {"source": str(folder / f"{name}.source"), "target": str(folder / f"{name}.target")}


def recipe(corpus, *overrides):
    raw = {"name": "tiny", "corpus": corpus, "text": {"source": {"kind": "words"}}}
    return make_recipe(raw, overrides, where="tiny")
