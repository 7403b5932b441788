"""What can be done with lines: the tasks that a model's thread is given."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.decoding.search import DecodingSettings
from regard.serving.server.gathering import Progress
from regard.serving.translator import Answer, Translator


@dataclass(frozen=True)
class Translate:
    """Lines -> answers."""

    settings: DecodingSettings

    def __call__(
        self, translator: Translator, lines: Sequence[str], progress: Progress | None, /
    ) -> list[Answer]:
        return translator.translate(lines, self.settings)
