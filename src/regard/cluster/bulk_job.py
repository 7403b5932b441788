"""The work of an actor in a bulk translation: load the model once, then translate blocks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname
from typing import NamedTuple

from pydantic import NonNegativeInt

from regard.cluster.bulk_inputs import SourceBlock
from regard.decoding.settings import DecodingSettings
from regard.engines.ctranslate2.export_artifact import MODEL_FILE, ExportPrecision, is_export
from regard.engines.engine_tuning import CT2_BUDGET, EngineConfig, load_tuned_engine
from regard.errors import RunError
from regard.manifest import sha256_of_file
from regard.recipes.paths import NAMED_WEIGHTS, find_adapter, weights_file
from regard.settings import Settings
from regard.tasks.translation.pipeline import EngineChoice, Translator, load


class TranslatedBlock(Settings):
    """The translations of a block, and notes about its lines."""

    input: NonNegativeInt
    number: NonNegativeInt
    texts: tuple[str, ...]
    notes: tuple[tuple[NonNegativeInt, str], ...] = ()
    """The index of a line in the block, and a note; a line may have several notes."""
    blank: NonNegativeInt = 0
    """Lines of the input with nothing to translate."""


class ModelIdentity(Settings):
    """Everything about a model that decides its answers."""

    weights: dict[str, str]
    """The SHA-256 of each file of weights, by its path."""
    vocabularies: tuple[str, ...]
    """Fingerprints of the tokenizers."""
    engine: str
    precision: str


class ModelOptions(NamedTuple):
    """Which model is loaded, and how: see `regard.tasks.translation.pipeline.load`."""

    models: Sequence[str]
    weights: str = "model"
    adapter: str | None = None
    device: str = "auto"
    engine: EngineChoice = "auto"
    precision: ExportPrecision = "auto"

    def absolute(self) -> "ModelOptions":
        """The same with absolute paths, because actors work in the folder where Ray was started."""
        is_file = self.weights not in ("model", *NAMED_WEIGHTS)
        adapter = self.adapter and find_adapter(Path(self.models[0]), self.adapter)
        return self._replace(
            models=[str(Path(model).absolute()) for model in self.models],
            weights=str(Path(self.weights).absolute()) if is_file else self.weights,
            adapter=str(adapter.absolute()) if adapter else None,
        )

    def load(
        self, *, cores: int | None = None, tell: Callable[[str], None] = lambda message: None
    ) -> Translator:
        """The translator, with as many workers as `cores` if they are given."""
        options = {name: value for name, value in self._asdict().items() if name != "models"}
        return load(*self.models, **options, choice=self._engine_config(cores), tell=tell)

    def identity(self, translator: Translator, settings: DecodingSettings) -> ModelIdentity:
        """The identity of the model of a translator that these options loaded."""
        folders = [Path(model) for model in self.models]
        files = [
            folder / MODEL_FILE if is_export(folder) else weights_file(folder, self.weights)
            for folder in folders
        ]
        files += [find_adapter(folders[0], self.adapter)] if self.adapter else []
        engine = translator.engine_for(settings)
        exported = translator.export_precision if engine == "ctranslate2" else None
        tokenizers = (*translator.sources, translator.target)
        return ModelIdentity(
            weights={str(file): sha256_of_file(file) for file in files},
            vocabularies=tuple(one.fingerprint() for one in tokenizers),
            engine=engine,
            precision=exported or self.precision,
        )

    def _engine_config(self, cores: int | None) -> EngineConfig | None:
        """The settings that `load` would take, with as many workers as there are cores."""
        if cores is None:
            return None
        single = Path(self.models[0]) if len(self.models) == 1 else None
        tuned = None if single is None else load_tuned_engine(single)
        plain = EngineConfig(
            engine="ctranslate2", precision=self.precision, workers=cores, budget=CT2_BUDGET
        )
        return (tuned or plain).model_copy(update={"workers": cores})


@dataclass(frozen=True)
class BulkJob:
    """A model and how it translates: all that an actor needs."""

    model: ModelOptions
    identity: ModelIdentity
    """The identity of the model that the command has loaded."""
    settings: DecodingSettings
    split: bool | None = None
    forbidden: tuple[str, ...] = ()
    cores: int = 1


class BlockTranslator:
    """Translates blocks by the model of a job."""

    def __init__(self, job: BulkJob) -> None:
        """Raise an error if the model is not the one that the command has loaded."""
        self._job, self._translator = job, job.model.load(cores=job.cores)
        found, wanted = job.model.identity(self._translator, job.settings), job.identity
        same_weights = list(found.weights.values()) == list(wanted.weights.values())
        if not same_weights or found.vocabularies != wanted.vocabularies:
            what = "vocabularies" if same_weights else "weights"
            raise RunError(
                f"{', '.join(job.model.models)}: on the machine {gethostname()} the {what} are not "
                "those that the command has loaded: they have changed since, or this is a "
                "different copy; restore them, or start again with another --out"
            )

    def __call__(self, block: SourceBlock) -> TranslatedBlock:
        """The translation of each line, exactly as `regard translate` gives it."""
        job = self._job
        answers = self._translator.translate(
            block.texts, job.settings, forbidden=job.forbidden, split=job.split
        )
        notes = list(block.notes)
        notes += [(place, note) for place, one in enumerate(answers) for note in one.notes]
        return TranslatedBlock(
            input=block.input,
            number=block.number,
            texts=tuple(answer.text for answer in answers),
            notes=tuple(sorted(notes)),
            blank=sum(not text.strip() for text in block.texts),
        )
