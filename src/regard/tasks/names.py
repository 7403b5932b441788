"""Names of tasks that other modules mention, without torch."""

TRANSLATION = "translation"  # the task of a recipe that names none
CHAT = "chat"
CLASSIFICATION_TASKS = ("text-classification", "picture-classification")
TEXT_TASKS = (TRANSLATION, CHAT)  # a text for a text: the tasks of `TranslationRecipe`
