"""How large the models and corpora of recipes are: all that `regard train` does but the training.

    python -m bench sizes RECIPE… [--set KEY=VALUE]

A corpus is read and cleaned and its vocabulary learned; then the model is built. Prints a line for
each recipe: its parameters, its data, and the SHA-256 of the cleaned pairs of a translator.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from regard.recipes.open_run import new_task
from regard.recipes.recipe_files import load_recipe
from regard.recipes.run_folder import RunFolder, count_parameters
from regard.tasks.translation.task import Translation


def describe(name: str, overrides: Sequence[str], folder: Path) -> str:
    """The size of a recipe's model, and what its data are."""
    recipe = load_recipe(name, overrides)
    task = new_task(recipe, RunFolder(folder))
    task.prepare(print, resumed=False)
    digest = f"; data {task.inputs.data.digest}" if isinstance(task, Translation) else ""
    return f"{count_parameters(task.new_model()):,} parameters; {task.summary()}{digest}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("recipes", nargs="+", metavar="RECIPE")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    asked = parser.parse_args()
    for name in asked.recipes:
        with tempfile.TemporaryDirectory() as folder:
            print(f"{name}: {describe(name, asked.overrides, Path(folder))}")


if __name__ == "__main__":
    main()
