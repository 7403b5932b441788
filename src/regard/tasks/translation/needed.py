"""Recipes of translation or chat, where a command needs one."""

from regard.errors import SettingsError
from regard.tasks.contracts import TaskRecipe
from regard.tasks.registry import TASKS, tasks_of_pairs
from regard.tasks.translation.recipe import TranslationRecipe


def require_translation(recipe: TaskRecipe, where: str) -> TranslationRecipe:
    """The recipe, if its task is translation; errors name its file `where`."""
    translation, *_ = tasks_of_pairs()
    if recipe.task != translation:
        raise _needs_error(recipe, where, translation)
    return require_text_task(recipe, where)


def require_text_task(recipe: TaskRecipe, where: str) -> TranslationRecipe:
    """The recipe, if its task is translation or chat."""
    if not isinstance(recipe, TranslationRecipe):
        raise _needs_error(recipe, where, " or ".join(tasks_of_pairs()))
    return recipe


def _needs_error(recipe: TaskRecipe, where: str, needed: str) -> SettingsError:
    """The error about a recipe of another task, with the command for its runs."""
    return SettingsError(
        f"{where}: its task is {recipe.task}, and this needs {needed}; what uses its runs is: "
        f"regard {TASKS[recipe.task].verb}"
    )
