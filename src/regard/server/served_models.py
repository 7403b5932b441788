"""The served models by language pair, and their reloading while requests are served."""

import asyncio
import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from babel import Locale, UnknownLocaleError

from regard.corpora.corpus import UNDETERMINED
from regard.engines.ctranslate2.export_artifact import ExportPrecision
from regard.errors import DamagedError, RegardError, SettingsError
from regard.recipes.run_folder import RunFolder, load_data
from regard.server.batcher import Batcher
from regard.server.errors import RequestError
from regard.server.settings import ServerSettings
from regard.server.telemetry import ServerMetrics, log, log_error
from regard.settings import abbreviate, quoted
from regard.tasks.translation.needed import require_text_task
from regard.tasks.translation.pipeline import EngineChoice, Translator, load

NUM_EXAMPLES = 2  # sentences of a model that a page offers
EXAMPLE_LENGTH = 60  # the most characters of an example


class LanguageDirection(NamedTuple):
    """The languages that a model translates from and to: BCP 47 codes such as fr or pt-BR."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


class LoadOptions(NamedTuple):
    """How models are loaded: see `regard.tasks.translation.pipeline.load`.

    Streaming and attention use the native engine, so at a precision other than float32 a text may
    get two different translations.
    """

    device: str = "auto"
    engine: EngineChoice = "auto"
    precision: ExportPrecision = "float32"
    adapter: str | None = None


class ModelSpec(NamedTuple):
    """A model to serve, and its languages."""

    languages: LanguageDirection
    path: Path


def parse_model_spec(argument: str) -> ModelSpec:
    """Parses `fr-en=runs/travel`, or `runs/travel` with the languages that its corpus names."""
    named, equals, rest = argument.partition("=")
    if equals and not Path(argument).exists():
        codes = named.split("-")
        if len(codes) != 2 or not all(codes):
            raise SettingsError(
                f"{argument}: expected SOURCE-TARGET=FOLDER, such as fr-en=runs/travel, or the "
                f"folder alone; {named!r} is not a pair of languages"
            )
        return ModelSpec(LanguageDirection(*codes), Path(rest))
    folder = RunFolder(Path(argument))
    require_text_task(folder.load_recipe(), str(folder.path))
    try:
        languages = LanguageDirection(*load_data(folder).languages)
        if UNDETERMINED not in languages:
            return ModelSpec(languages, folder.path)
    except DamagedError:
        raise
    except RegardError:
        pass
    raise SettingsError(
        f"{argument}: its corpus does not name its languages; "
        f"name them: regard serve fr-en={quoted(argument)}"
    )


def language_name(code: str) -> str:
    """The English name of a language, or its code if it has none."""
    try:
        return Locale.parse(code.replace("-", "_")).get_display_name("en") or code
    except (UnknownLocaleError, ValueError):
        return code


def read_examples(spec: ModelSpec) -> tuple[str, ...]:
    """The first short held-out sentences of a run on a public corpus, in the language served.

    Users' own corpora may be confidential and are not shown: everyone who opens the page could read
    them.
    """
    folder = RunFolder(spec.path)
    try:
        corpus, data = folder.load_recipe().corpus, load_data(folder)
        known = data.languages in (spec.languages, (UNDETERMINED, UNDETERMINED))
        if corpus.name is None or not known:
            return ()
        sources = (pair.source for pair in data.read(data.held_out()))
        short = (source for source in sources if len(source) <= EXAMPLE_LENGTH)
        return tuple(islice(short, NUM_EXAMPLES))
    except (RegardError, OSError):
        return ()


class ServedModel:
    """A model and its queue."""

    def __init__(
        self,
        spec: ModelSpec,
        settings: ServerSettings,
        metrics: ServerMetrics,
        load_options: LoadOptions,
    ) -> None:
        self.languages, self.path = spec
        self._name, self._metrics, self._load_options = str(spec.languages), metrics, load_options
        self.translator = self._load()
        """Replaced when the model is reloaded; requests that have begun keep the old one."""
        for remark in self.translator.remarks:
            log("loaded", model=self._name, remark=remark)
        self.batcher = Batcher(self._name, settings, metrics)

    def _load(self) -> Translator:
        """The translator of the folder; slow steps are logged before they begin."""
        self._weights_stat = self._stat_weights()
        self.examples = read_examples(ModelSpec(self.languages, self.path))
        return load(
            self.path,
            **self._load_options._asdict(),
            tell=lambda message: log("loading", model=self._name, remark=message),
        )

    async def reload(self) -> None:
        """Load the folder again; the old model is served meanwhile, and kept if this fails."""
        outcome = "done"
        try:
            self.translator = await asyncio.to_thread(self._load)
            log("reloaded", model=self._name, path=str(self.path))
        except Exception as error:  # half-written or damaged
            # unlike other errors, this one cannot quote a client's text: its message is logged
            log_error("reload failed", error, model=self._name, reason=str(error))
            outcome = "failed"
        self._metrics.reloads.labels(self._name, outcome).inc()

    def weights_changed(self) -> bool:
        """Whether the file of weights has changed since it was loaded."""
        return self._stat_weights() != self._weights_stat

    def _stat_weights(self) -> tuple[int, ...]:
        """Inode, size and time of the weights, which change with them; empty if there are none."""
        try:
            stat = os.stat(RunFolder(self.path).weights("model"))
        except OSError:
            return ()
        return stat.st_ino, stat.st_size, stat.st_mtime_ns


class Models:
    """All served models, in the order given; an error if two have the same language pair."""

    def __init__(
        self,
        specs: Sequence[ModelSpec],
        settings: ServerSettings,
        metrics: ServerMetrics,
        load_options: LoadOptions,
    ) -> None:
        self._by_pair: dict[LanguageDirection, ServedModel] = {}
        for spec in specs:
            if other := self._by_pair.get(spec.languages):
                raise SettingsError(
                    f"{spec.path}: {other.path} translates {spec.languages} already; "
                    "serve one of them, or name other languages: fr-en=FOLDER"
                )
            self._by_pair[spec.languages] = ServedModel(spec, settings, metrics, load_options)
        self.served = tuple(self._by_pair.values())

    def sources(self, target: str | None = None) -> list[str]:
        """The languages that can be translated into `target`, or into any."""
        return list(dict.fromkeys(s for s, t in self._by_pair if target in (None, t)))

    def targets(self, source: str | None = None) -> list[str]:
        """The languages that `source`, or any, can be translated into."""
        return list(dict.fromkeys(t for s, t in self._by_pair if source in (None, s)))

    def find(self, source: str, target: str) -> ServedModel:
        """The model for a language pair; if there is none, an error that lists the pairs."""
        served = self._by_pair.get(LanguageDirection(source, target))
        if served is None:
            pairs = ", ".join(map(str, self._by_pair))
            asked = abbreviate(f"{source}-{target}")
            raise RequestError(400, f"{asked} is not supported; this server has {pairs}")
        return served

    def training_texts(self, max_pairs: int) -> dict[str, list[str]]:
        """Training sentences of each language; runs whose data were deleted have none."""
        texts: dict[str, list[str]] = {}
        for served in self.served:
            try:
                pairs = list(islice(load_data(RunFolder(served.path)).read("train"), max_pairs))
            except (RegardError, OSError):
                continue
            for side, language in enumerate(served.languages):
                texts.setdefault(language, []).extend(pair[side] for pair in pairs)
        return texts

    async def reload(self, *, only_changed: bool = False) -> None:
        """Reload all models one after the other, or only those whose weights have changed."""
        for served in self.served:
            if not only_changed or served.weights_changed():
                await served.reload()

    async def watch(self, seconds: float) -> None:
        """Reload models whose weights have changed, every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(seconds)
            await self.reload(only_changed=True)
