"""`regard recipes`: the recipes on the shelf, and the schema of their settings."""

import json

from rich.markup import escape
from typer import Argument, Context, Typer

from regard.cli.display.console import out
from regard.cli.display.tables import plain_table
from regard.cli.options import shared_options
from regard.cli.options.shared_options import flag
from regard.recipes import recipe_files
from regard.tasks.names import TRANSLATION

app = Typer(invoke_without_command=True, add_completion=False)


@app.callback()
def command(context: Context) -> None:
    if context.invoked_subcommand is None:
        table = plain_table("recipe", "model", "about")
        for name in recipe_files.shelf_recipes():
            recipe = recipe_files.load_recipe(name)
            table.add_row(f"[bold]{name}[/bold]", recipe.model.family, escape(recipe.about))
        out.print(table)


@app.command()
def show(
    recipe: str = Argument(help="A recipe of the shelf, or a YAML file."),
    settings: shared_options.Settings = None,
    resolved: bool = flag("--resolved", "Write out every default."),
) -> None:
    """Print a recipe, to save and change it: regard recipes show travel > mine.yaml"""
    loaded = recipe_files.load_recipe(recipe, settings or [])
    if resolved or settings:
        print(recipe_files.dump_recipe(loaded), end="")
    else:
        print(recipe_files.find_recipe(recipe).read_text(encoding="utf-8"), end="")


@app.command()
def schema(task: str = Argument(TRANSLATION, help="The task of the recipe.")) -> None:
    """Print the JSON schema of a recipe: every setting with its type, default and meaning."""
    print(json.dumps(recipe_files.recipe_schema(task), indent=2, ensure_ascii=False))


@app.command()
def settings() -> None:
    """Print a page of Markdown that explains every setting: docs/settings.md."""
    print(recipe_files.explain_settings())
