"""All tasks, by their name in a recipe's `task`."""

from regard.errors import SettingsError
from regard.settings import abbreviate
from regard.tasks.bidirectional_language import BidirectionalModelling
from regard.tasks.captions import CaptionTask
from regard.tasks.contracts import AnyTrainableTask, TaskRecipe
from regard.tasks.forecast import Forecast
from regard.tasks.language_modelling import LanguageModelling
from regard.tasks.masked_language import MaskedLanguageModelling
from regard.tasks.names import CHAT, TRANSLATION
from regard.tasks.picture_classification import PictureClassification
from regard.tasks.text_classification import TextClassification
from regard.tasks.translation.task import Translation

TASKS: dict[str, type[AnyTrainableTask]] = {
    TRANSLATION: Translation,
    CHAT: Translation,
    "forecast": Forecast,
    "language-model": LanguageModelling,
    "bidirectional-language-model": BidirectionalModelling,
    "masked-language-model": MaskedLanguageModelling,
    "caption": CaptionTask,
    "text-classification": TextClassification,
    "picture-classification": PictureClassification,
}


def recipe_class(task: object, where: str) -> type[TaskRecipe]:
    """The class of recipes for a task; error messages name the file `where`."""
    if isinstance(task, str) and task in TASKS:
        return TASKS[task].recipe_class
    known = ", ".join(TASKS)
    raise SettingsError(f"{where}: task: unknown, got {abbreviate(repr(task))}; there are {known}")
