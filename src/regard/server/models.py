"""The served models by language pair, and how they are reloaded while requests go on."""

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Self

from babel import Locale, UnknownLocaleError

from regard.corpora.corpus import UNDETERMINED
from regard.engines.ctranslate2.export_artifact import Precision
from regard.errors import DamagedError, RegardError, SettingsError
from regard.pipelines.translator import EngineChoice, Translator, load
from regard.recipes.prepared_data import load_data
from regard.recipes.run_folder import RunFolder
from regard.server.batcher import Batcher
from regard.server.errors import RequestError
from regard.server.settings import ServerSettings
from regard.server.telemetry import ServerMetrics, log, log_error


class LanguageDirection(NamedTuple):
    """What a model translates from and to: BCP 47 codes such as fr or pt-BR."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


class LoadOptions(NamedTuple):
    """How models are loaded: see `regard.pipelines.translator.load`.

    Streaming and attention use the native engine, so another precision than float32 may give two
    translations of one text.
    """

    device: str = "auto"
    engine: EngineChoice = "auto"
    precision: Precision = "float32"

    def open(self, path: Path, tell: Callable[[str], None]) -> Translator:
        """The translator of a run."""
        return load(path, **self._asdict(), tell=tell)


class ModelSpec(NamedTuple):
    """A model to serve, and its languages."""

    languages: LanguageDirection
    path: Path


def parse_model_spec(argument: str) -> ModelSpec:
    """`fr-en=runs/travel`, or `runs/travel` with the languages that its corpus names."""
    named, equals, rest = argument.partition("=")
    if equals and not Path(argument).exists():
        codes = named.split("-")
        if len(codes) != 2 or not all(codes):
            raise SettingsError(
                f"{argument}: expected SOURCE-TARGET=FOLDER, such as fr-en=runs/travel, or the "
                f"folder alone; {named!r} is no pair of languages"
            )
        return ModelSpec(LanguageDirection(*codes), Path(rest))
    folder = RunFolder(Path(argument))
    folder.load_recipe()  # raises an error of its own where there is no run
    try:
        languages = LanguageDirection(*load_data(folder).languages)
    except DamagedError:
        raise
    except RegardError:
        languages = LanguageDirection(UNDETERMINED, UNDETERMINED)
    if UNDETERMINED in languages:
        raise SettingsError(
            f"{argument}: its corpus does not say which languages it has; "
            f"say it: regard serve fr-en={argument}"
        )
    return ModelSpec(languages, folder.path)


def language_name(code: str) -> str:
    """The English name of a language, or its code where it has none."""
    try:
        return Locale.parse(code.replace("-", "_")).get_display_name("en") or code
    except (UnknownLocaleError, ValueError):
        return code


@dataclass(eq=False)
class ServedModel:
    """A model and its queue."""

    languages: LanguageDirection
    path: Path
    load_options: LoadOptions
    batcher: Batcher
    translator: Translator
    """Replaced when the model is reloaded; a request keeps the one it began with."""
    weights_stat: tuple[int, ...]
    """Of the weights when they were loaded."""

    async def reload(self, metrics: ServerMetrics) -> None:
        """Load the folder again; the old model serves meanwhile, and stays if this fails."""
        self.weights_stat = _stat_weights(self.path)
        try:
            log_progress = partial(_log_load_message, self.languages)
            self.translator = await asyncio.to_thread(
                self.load_options.open, self.path, log_progress
            )
        except Exception as error:  # half-written or damaged
            # unlike other errors this one quotes no client's text, so its message is logged
            log_error("reload failed", error, model=str(self.languages), reason=str(error))
            metrics.reloads.labels(str(self.languages), "failed").inc()
            return
        metrics.reloads.labels(str(self.languages), "done").inc()
        log("reloaded", model=str(self.languages), path=str(self.path))

    def weights_changed(self) -> bool:
        """Whether the file of weights is another than the one that was loaded."""
        return _stat_weights(self.path) != self.weights_stat


class Models:
    """All served models, in the order given."""

    def __init__(self, served: Sequence[ServedModel], metrics: ServerMetrics) -> None:
        self.served = tuple(served)
        self._metrics = metrics
        self._by_pair = {one.languages: one for one in served}

    @classmethod
    def load(
        cls,
        specs: Sequence[ModelSpec],
        settings: ServerSettings,
        metrics: ServerMetrics,
        load_options: LoadOptions,
    ) -> Self:
        """Load all models; an error if two are for one language pair."""
        served: dict[LanguageDirection, ServedModel] = {}
        for languages, path in specs:
            if languages in served:
                raise SettingsError(
                    f"{path}: {served[languages].path} translates {languages} already; "
                    "serve one of them, or name other languages: fr-en=FOLDER"
                )
            weights_stat = _stat_weights(path)
            translator = load_options.open(path, partial(_log_load_message, languages))
            for remark in translator.remarks:
                log("loaded", model=str(languages), remark=remark)
            batcher = Batcher(str(languages), settings, metrics)
            served[languages] = ServedModel(
                languages, path, load_options, batcher, translator, weights_stat
            )
        return cls(list(served.values()), metrics)

    def sources(self, target: str | None = None) -> list[str]:
        """The languages that can be translated into `target`, or into any."""
        return list(dict.fromkeys(s for s, t in self._by_pair if target in (None, t)))

    def targets(self, source: str | None = None) -> list[str]:
        """The languages that `source`, or any, can be translated into."""
        return list(dict.fromkeys(t for s, t in self._by_pair if source in (None, s)))

    def find(self, source: str, target: str) -> ServedModel:
        """The model for a language pair; an error that names the pairs there are."""
        served = self._by_pair.get(LanguageDirection(source, target))
        if served is None:
            pairs = ", ".join(map(str, self._by_pair))
            raise RequestError(400, f"{source}-{target} is not supported; this server has {pairs}")
        return served

    def training_texts(self, max_pairs: int) -> dict[str, list[str]]:
        """Training sentences of each language; none of runs whose data are gone."""
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
        """Load all models again, one after the other, or those whose weights have changed."""
        for served in self.served:
            if not only_changed or served.weights_changed():
                await served.reload(self._metrics)

    async def watch(self, seconds: float) -> None:
        """Reload models whose weights have changed, every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(seconds)
            await self.reload(only_changed=True)


def _log_load_message(languages: LanguageDirection, message: str) -> None:
    log("loading", model=str(languages), remark=message)


def _stat_weights(path: Path) -> tuple[int, ...]:
    """Inode, size and time of the weights, which change with them; empty if there are none."""
    try:
        stat = os.stat(RunFolder(path).weights("model"))
    except OSError:
        return ()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
