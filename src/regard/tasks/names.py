"""Names of tasks that other modules mention, without torch."""

TRANSLATION = "translation"  # the task of a recipe that names none
CHAT = "chat"
TEXT_TASKS = (TRANSLATION, CHAT)  # a text for a text: the tasks of `TranslationRecipe`
