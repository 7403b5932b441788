"""The models that are served, by language pair; loaded again without a request being dropped."""

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
from regard.server.logs import log, log_error
from regard.server.metrics import ServerMetrics
from regard.server.settings import ServerSettings


class LanguageDirection(NamedTuple):
    """What a model translates from and to: BCP 47 codes such as fr or pt-BR."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


class LoadOptions(NamedTuple):
    """How models are loaded: see `regard.pipelines.translator.load`.

    In float32 nothing is lost. What is streamed or looked into is the native engine's: people who
    see both should see the same.
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
    folder.load_recipe()  # an error of its own where there is no run
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
    """A model, its queue, and what its weights looked like when they were read."""

    languages: LanguageDirection
    path: Path
    load_options: LoadOptions
    batcher: Batcher
    weights_stat: tuple[int, ...]

    @property
    def translator(self) -> Translator:
        return self.batcher.translator

    async def reload(self, metrics: ServerMetrics) -> None:
        """Read the folder again; requests go on meanwhile, with the old model if it fails."""
        self.weights_stat = _stat_weights(self.path)
        try:
            tell = partial(_log_load_message, self.languages)
            reloaded = await asyncio.to_thread(self.load_options.open, self.path, tell)
        except Exception as error:  # half-written or damaged: what is served must stay served
            # no request has a part in this: the message holds no text of anybody's
            log_error("reload failed", error, model=str(self.languages), reason=str(error))
            metrics.reloads.labels(str(self.languages), "failed").inc()
            return
        self.batcher.translator = reloaded
        metrics.reloads.labels(str(self.languages), "done").inc()
        log("reloaded", model=str(self.languages), path=str(self.path))

    def weights_changed(self) -> bool:
        """Whether the weights are others than those that were read."""
        return _stat_weights(self.path) != self.weights_stat


class Models:
    """All that are served, in the order given."""

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
        """Read all models; an error if two are for one pair of languages."""
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
            batcher = Batcher(str(languages), translator, settings, metrics)
            served[languages] = ServedModel(languages, path, load_options, batcher, weights_stat)
        return cls(list(served.values()), metrics)

    def sources(self, target: str | None = None) -> list[str]:
        """The languages that can be translated from, into `target` or into any."""
        return list(
            dict.fromkeys(
                one.languages.source
                for one in self.served
                if target is None or one.languages.target == target
            )
        )

    def targets(self, source: str | None = None) -> list[str]:
        """The languages that can be translated to, from `source` or from any."""
        return list(
            dict.fromkeys(
                one.languages.target
                for one in self.served
                if source is None or one.languages.source == source
            )
        )

    def find(self, source: str, target: str) -> ServedModel:
        """The model for a pair of languages; a refusal that names what there is."""
        found = self._by_pair.get(LanguageDirection(source, target))
        if found is None:
            there = ", ".join(str(one.languages) for one in self.served)
            raise RequestError(400, f"{source}-{target} is not supported; this server has {there}")
        return found

    def texts(self, most: int) -> dict[str, list[str]]:
        """Some of what the models learned from, by language; none of a run whose data are gone."""
        found: dict[str, list[str]] = {}
        for one in self.served:
            try:
                pairs = list(islice(load_data(RunFolder(one.path)).read("train"), most))
            except (RegardError, OSError):
                continue
            for side, language in enumerate(one.languages):
                found.setdefault(language, []).extend(pair[side] for pair in pairs)
        return found

    async def reload(self) -> None:
        """Read all models again, one after the other."""
        for one in self.served:
            await one.reload(self._metrics)

    async def watch(self, seconds: float) -> None:
        """Read a model again when its weights change, for ever."""
        while True:
            await asyncio.sleep(seconds)
            for one in self.served:
                if one.weights_changed():
                    await one.reload(self._metrics)


def _log_load_message(languages: LanguageDirection, message: str) -> None:
    """Write what takes long, before it begins."""
    log("loading", model=str(languages), remark=message)


def _stat_weights(path: Path) -> tuple[int, ...]:
    """What tells new weights from old ones without reading them; nothing while there are none."""
    try:
        found = os.stat(RunFolder(path).weights("model"))
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns
