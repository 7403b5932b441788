"""regard: train, measure and look inside attention models, on your own data.

>>> import regard
>>> translator = regard.load()  # the one that comes with the package
>>> translator("Jane visite l'Afrique en septembre.").text  # doctest: +SKIP
'Jane visits Africa in September.'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.errors import RegardError as RegardError
    from regard.inspection.interventions import Flattened as Flattened
    from regard.inspection.interventions import ForcedWords as ForcedWords
    from regard.inspection.interventions import Silenced as Silenced
    from regard.pipelines.load import load as load
    from regard.pipelines.train import train as train
    from regard.tasks.captions.pipeline import Captioner as Captioner
    from regard.tasks.embedding.pipeline import Embedder as Embedder
    from regard.tasks.families.answer import Answer as Answer
    from regard.tasks.forecast.pipeline import Forecaster as Forecaster
    from regard.tasks.language.pipeline import Completer as Completer
    from regard.tasks.masked.pipeline import Filler as Filler
    from regard.tasks.translation.chat.pipeline import Chatbot as Chatbot
    from regard.tasks.translation.pipeline import Translator as Translator

__version__ = "0.1.0"
_HOMES = {
    "Answer": "regard.tasks.families.answer",
    "Captioner": "regard.tasks.captions.pipeline",
    "Chatbot": "regard.tasks.translation.chat.pipeline",
    "Completer": "regard.tasks.language.pipeline",
    "Embedder": "regard.tasks.embedding.pipeline",
    "Filler": "regard.tasks.masked.pipeline",
    "Flattened": "regard.inspection.interventions",
    "ForcedWords": "regard.inspection.interventions",
    "Forecaster": "regard.tasks.forecast.pipeline",
    "RegardError": "regard.errors",
    "Silenced": "regard.inspection.interventions",
    "Translator": "regard.tasks.translation.pipeline",
    "load": "regard.pipelines.load",
    "train": "regard.pipelines.train",
}
__all__ = ["__version__", *_HOMES]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """A public name, imported when it is first used: importing torch takes a second."""
    if name not in _HOMES:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
