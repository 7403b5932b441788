"""A saved model as a function of text."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, ClassVar, Literal, Self, get_args

from regard.decoding.settings import (
    DecodingSettings,
    native_only_reason,
    portable_settings,
    search_settings,
)
from regard.engines.ctranslate2.availability import (
    why_ctranslate2_unavailable,
    why_not_ctranslate2,
)
from regard.engines.ctranslate2.export_artifact import (
    ExportArtifact,
    ExportPrecision,
    damaged_export_error,
    find_export,
    is_export,
    open_export,
)
from regard.engines.engine_tuning import EngineConfig, EngineName, load_tuned_engine
from regard.engines.translation_request import TranslationRequest
from regard.errors import RunError, SearchError, SettingsError
from regard.iterate import Track, untracked
from regard.manifest import warn_without_manifest
from regard.recipes.paths import EXCHANGE_REPORT, is_packaged, weights_file, wrong_task_error
from regard.settings import quoted
from regard.tasks.families.answer import Answer, build_answer
from regard.tasks.names import TRANSLATION
from regard.tasks.translation.auto_settings import infer_input_settings
from regard.text.preprocess import PreparedText, require_texts, sanitize, tokenize_for_ensemble
from regard.text.segmentation import InputSettings, Segments, holds_codes, segment, split_lines
from regard.text.tokenizer import Tokenizer

if TYPE_CHECKING:  # imported in functions: torch is slow to import, ctranslate2 is optional
    from regard.decoding.tracing.observer import SearchObserver
    from regard.engines.ctranslate2.ct2_engine import CTranslate2Engine
    from regard.engines.native.native_engine import NativeEngine
    from regard.inspection.interventions import Intervention, InterventionRequest
    from regard.inspection.recording.attention_map import Part
    from regard.models.contracts import AnyGenerator
    from regard.recipes.open_run import Run
    from regard.tasks.translation.look import TranslationLook

EngineChoice = Literal["auto", "native", "ctranslate2", "onnx"]
CHUNK = 2048  # lines of a file translated together: many, to batch by length; few, to print early


class Translator:
    """A model as a function of text, or an ensemble of models with one target vocabulary."""

    task: ClassVar[str] = TRANSLATION  # of the runs that it takes
    look_part: ClassVar["Part"] = "cross"
    look_options: ClassVar[str] = "part layer head every pieces force kind number split tree n_best"
    look_options += " beam track heads distances positions source reference limit tolerance"
    look_options += " tokenize length"

    def __init__(
        self,
        runs: "Sequence[Run]" = (),
        *,
        engine: "TranslatorEngine | None" = None,
        folder: Path | None = None,
        settings: DecodingSettings | None = None,
        remarks: Sequence[str] = (),
    ) -> None:
        """A translator of `runs`; or, by an `engine` with an export, of that of the run in
        `folder`. By default, `settings` of its search are those of the run.
        """
        check_tasks(runs, self.task)
        self.engine = engine or TranslatorEngine(runs)
        self._observers: tuple[SearchObserver, ...] = ()
        self._process_id = os.getpid()
        self.sources: tuple[Tokenizer, ...]  # the source vocabulary of each model
        self.folders: tuple[Path, ...]  # the folders of the runs
        self.input: InputSettings  # which parts of a line are translated, and how it is split
        self.remarks = tuple(remarks)  # notes about loading, for the user
        export = self.engine.export
        if export is not None:
            self.sources, self.folders = (export.source,), (folder or export.folder,)
            self.target, self.limit = export.target, export.card.longest
            self.settings = settings or export.card.decoding
            self.input = export.card.input or infer_input_settings(self.folders[0])
            return
        targets = {run.tokenizers.target.fingerprint(): run.folder.path for run in runs}
        if len(targets) > 1:
            raise SearchError(
                "the models of an ensemble must share one target vocabulary; these do not: "
                + ", ".join(map(str, targets.values()))
            )
        self.sources = tuple(run.tokenizers.source for run in runs)
        self.target = runs[0].tokenizers.target
        self.folders = tuple(run.folder.path for run in runs)
        self.settings = settings or runs[0].recipe.decoding
        self.limit = min(run.longest for run in runs)
        self.input = runs[0].task.input_settings()

    def __repr__(self) -> str:
        name = "native" if self.engine.export is None else "ctranslate2"
        return f"<{type(self).__name__} {', '.join(map(str, self.folders))}, engine {name}>"

    @property
    def runs(self) -> "tuple[Run, ...]":
        """The models."""
        self._check_not_forked()
        return self.engine.native().runs

    @property
    def model(self) -> "AnyGenerator":
        """The first model."""
        model: AnyGenerator = self.runs[0].model
        return model

    @property
    def has_runs(self) -> bool:
        """Whether the models themselves are available, and not only an export."""
        return self.engine.has_runs

    def observed(self, observe: "SearchObserver") -> Self:
        """A copy whose searches call `observe`; `part_index` gives the line and part of an id."""
        observed = copy(self)
        observed._observers = (*self._observers, observe)
        return observed

    def __call__(  # noqa: PLR0913  # keyword arguments for one translation
        self,
        text: str,
        *,
        beam: int | None = None,
        n_best: int | None = None,
        prefix: str = "",
        forbidden: Sequence[str] = (),
        look: bool = False,
        settings: DecodingSettings | None = None,
        changes: "Sequence[InterventionRequest]" = (),
        unknown: Mapping[str, str] | None = None,
        split: bool | None = None,
    ) -> Answer:
        """The translation of one line; with `look` or `changes` its attention is recorded.

        `n_best` is the number of candidates; everything else is as in `translate`.
        """
        search = search_settings(settings or self.settings, beam=beam, n_best=n_best)
        if look or changes:
            return self.look(
                text, search, changes=changes, prefix=prefix, forbidden=forbidden, unknown=unknown,
                split=split,
            )  # fmt: skip
        request = self._request(search, prefix=prefix, forbidden=forbidden, unknown=unknown)
        return self.answer([text], request, split=split)[0]

    def look(  # noqa: PLR0913  # keyword arguments, as in `__call__`
        self,
        text: str | Sequence[str],
        settings: DecodingSettings | None = None,
        *,
        changes: "Sequence[InterventionRequest]" = (),
        tree: bool = False,
        number: int | None = None,
        beam: int | None = None,
        n_best: int | None = None,
        prefix: str = "",
        forbidden: Sequence[str] = (),
        unknown: Mapping[str, str] | None = None,
        split: bool | None = None,
        track: Track = untracked,
    ) -> "TranslationLook":
        """The translation of one line with its attention, under the interventions `changes`.

        The answer's `before` is the translation without them. With `tree` all hypotheses of the
        search are recorded; of a line in several parts, those of the first. `number`, from 0,
        selects one sentence of the line. The texts of a list are joined by spaces. `track` shows
        progress while a page is made.
        """
        from regard.tasks.translation.look import look_at, select_text

        chosen = select_text(self, text, number, split=split)
        search = search_settings(settings or self.settings, beam=beam)
        request = self._request(search, n_best, prefix, forbidden, unknown)
        return look_at(self, chosen, request, changes, tree=tree, track=track)

    def translate(  # noqa: PLR0913  # keyword arguments, as in `__call__`
        self,
        texts: Sequence[str],
        settings: DecodingSettings | None = None,
        *,
        n_best: int | None = None,
        prefix: str = "",
        forbidden: Sequence[str] = (),
        look: bool = False,
        changes: "Sequence[Intervention]" = (),
        first: int = 0,
        unknown: Mapping[str, str] | None = None,
        split: bool | None = None,
    ) -> list[Answer]:
        """The translation of each text, in order: N in, N out.

        With `split` True, sentences are translated one by one, and text that is not a sentence (a
        number, a URL) is copied. With False, a text is one sentence, and its line breaks and tabs
        become spaces. The default is the run's (see `input`); an imported model is given texts as
        they are, unless `split` is True. A sentence with URLs, e-mail
        addresses or placeholders has one candidate, which keeps them, unless the request has a
        prefix, samples, records or changes attention, or is observed.

        Translations begin with `prefix` and contain none of the `forbidden` words. `changes` are
        interventions in the attention. `first` is the number of the first text, which seeds its
        samples: texts given in several calls are then sampled as in one.

        With a dictionary `unknown` the model may generate the unknown token, which is replaced by
        the entry for the source word that it attends to, or else by a copy of that word. If the
        settings alone allow unknown tokens, they are `⁇`.
        """
        request = self._request(settings, n_best, prefix, forbidden, unknown)
        request = replace(request, look=look, changes=changes, first=first)
        return self.answer(texts, request, split=split)

    def search_settings(
        self, *, beam: int | None = None, n_best: int | None = None
    ) -> DecodingSettings:
        """The run's search settings, with the given beam and number of candidates."""
        return search_settings(self.settings, beam=beam, n_best=n_best)

    def _request(
        self,
        settings: DecodingSettings | None = None,
        n_best: int | None = None,
        prefix: str = "",
        forbidden: Sequence[str] = (),
        unknown: Mapping[str, str] | None = None,
    ) -> TranslationRequest:
        """The request for some arguments of `translate`; defaults are the run's settings."""
        allow_unknown = unknown is not None
        search = search_settings(settings or self.settings, n_best=n_best, unknown=allow_unknown)
        observers = self._observers
        return TranslationRequest(search, prefix, forbidden, unknown=unknown, observers=observers)

    def answer(
        self, texts: Sequence[str], request: TranslationRequest, *, split: bool | None = None
    ) -> list[Answer]:
        """The translation of each text; `translate` explains the options of a request."""
        self._check_not_forked()
        require_texts("forbidden", request.forbidden)
        return self._translate(self.tokenize(texts, split=split), request)

    def tokenize(self, texts: Sequence[str], *, split: bool | None = None) -> list[PreparedText]:
        """Each text segmented as in `translate` and tokenized; thread-safe, needs no model."""
        require_texts("texts", texts)
        texts, settings = [sanitize(text) for text in texts], self._segmentation(split)
        lines = tokenize_for_ensemble(texts, self.sources, self.limit, settings)
        return [
            PreparedText(
                text,
                versions,
                settings is not None and self.holds_codes(*versions[0].segments.lines),
            )
            for text, *versions in zip(texts, *lines, strict=True)
        ]

    def source_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each whole text, as the first model reads it."""
        texts = texts if self.input.verbatim else [text.strip() for text in texts]
        return self.sources[0].encode(texts)

    def translate_tokenized(
        self, prepared: Sequence[PreparedText], settings: DecodingSettings | None = None
    ) -> list[Answer]:
        """The translation of each text that `tokenize` has prepared, in order: N in, N out."""
        self._check_not_forked()
        return self._translate(prepared, self._request(settings))

    def holds_codes(self, *sentences: str) -> bool:
        """Whether a sentence has URLs, e-mail addresses or placeholders to be kept unchanged."""
        return "codes" in self.input.pass_through and any(map(holds_codes, sentences))

    def _translate(
        self, prepared: Sequence[PreparedText], request: TranslationRequest
    ) -> list[Answer]:
        """The answer to each text; sentences with protected text are translated around it."""
        options = request.prefix, request.look, request.changes, request.observers
        is_plain = not any(options) and request.settings.sampling is None
        is_protected = [is_plain and one.protected for one in prepared]
        plain = [one for one, flag in zip(prepared, is_protected, strict=True) if not flag]
        engine = self.engine.for_request(request)
        lines = [[one.lines[model] for one in plain] for model in range(len(self.sources))]
        answers = (
            build_answer(one.text, one.lines[0], result.parts, self.target, result.looks)
            for one, result in zip(plain, engine.translate_lines(lines, request), strict=True)
        )
        if not any(is_protected):
            return list(answers)
        from regard.tasks.translation.markup.markup_translator import translate_with_protected

        others = [one for one, flag in zip(prepared, is_protected, strict=True) if flag]
        with_protected = iter(translate_with_protected(self, others, request))
        return [next(with_protected if flag else answers) for flag in is_protected]

    def segment(self, text: str, *, split: bool | None = None) -> Segments:
        """The sentences of a text, or its lines if `split` is False, and copied text between."""
        settings = self._segmentation(split)
        if split is False or settings is None:
            return split_lines(text)
        return segment(text, settings)

    def _check_not_forked(self) -> None:
        """Raise an error in a fork of the process that loaded the translator."""
        if os.getpid() != self._process_id:
            raise RunError(
                f"{self!r} was loaded by process {self._process_id}; this process, {os.getpid()}, "
                "was forked from it and lacks the threads that translate, so it would hang. Start "
                "processes with multiprocessing.get_context('spawn') and load it in each"
            )

    def _segmentation(self, split: bool | None) -> InputSettings | None:
        """How texts are segmented; None: not at all."""
        if split and self.input.verbatim:
            return InputSettings()
        if split is None or self.input.verbatim:
            return self.input
        return self.input.model_copy(update={"split_sentences": True}) if split else None

    def engine_for(self, settings: DecodingSettings | None = None) -> EngineName:
        """The engine that translates plain lines with these settings, or by default the run's."""
        return "native" if self.engine.why_native(self._request(settings)) else "ctranslate2"

    @property
    def export_precision(self) -> str | None:
        """The precision of the export that CTranslate2 translates with; None: there is none."""
        return None if self.engine.export is None else self.engine.export.card.precision

    @property
    def on_gpu(self) -> bool:
        """Whether it translates on a GPU, where observing a search forces synchronisation."""
        return self.engine.on_gpu

    @property
    def budget(self) -> int:
        """Positions that the native engine searches at a time."""
        return self.engine.native().budget


class TranslatorEngine:
    """What searches for a translator and its copies: CTranslate2 with an `export`, if there is one
    and as far as it can; otherwise the native engine of the `runs`, or of those of `open_runs`,
    which the first request that needs it, in any thread, then loads.
    """

    def __init__(
        self,
        runs: "Sequence[Run]" = (),
        *,
        export: "CTranslate2Engine | None" = None,
        open_runs: "Callable[[], Sequence[Run]] | None" = None,
        config: EngineConfig | None = None,
        only_export: bool = False,
    ) -> None:
        """With `only_export`, what CTranslate2 cannot do is an error."""
        if not runs and export is None:
            raise ValueError("a translator needs at least one run")
        self.export, self._only_export = export, only_export
        self._open_runs, self._config, self._lock = open_runs, config, Lock()
        self._native = _native_engine_class()(runs, config) if runs else None

    @property
    def has_runs(self) -> bool:
        """Whether the models themselves are available, and not only an export."""
        return self._native is not None or self._open_runs is not None

    @property
    def on_gpu(self) -> bool:
        """Whether the native engine is loaded, on a GPU."""
        return self._native is not None and not self._native.on_cpu

    def why_native(self, request: TranslationRequest) -> str | None:
        """Why CTranslate2 cannot answer a request; None if it can."""
        return "no export" if self.export is None else self.export.unsupported_reason(request)

    def for_request(self, request: TranslationRequest) -> "NativeEngine | CTranslate2Engine":
        """The engine that answers a request."""
        reason = self.why_native(request)
        if reason is None and self.export is not None:
            return self.export
        if self._only_export:
            raise SettingsError(
                f"the engine ctranslate2 cannot do this: {reason}; use the engine native or auto"
            )
        return self.native()

    def native(self) -> "NativeEngine":
        """The native engine, loaded when it is first needed."""
        with self._lock:
            if self._native is None:
                if self._open_runs is None:
                    assert self.export is not None
                    raise SettingsError(
                        f"{self.export.folder}: an export supports only plain translation; use the "
                        f"run that it was made from ({self.export.card.run})"
                    )
                self._native = _native_engine_class()(self._open_runs(), self._config)
            return self._native


def load(
    path: str | Path,
    *others: str | Path,
    device: str = "auto",
    weights: str = "model",
    engine: EngineChoice = "auto",
    precision: ExportPrecision = "auto",
    choice: EngineConfig | None = None,
    adapter: str | None = None,
    tell: Callable[[str], None] = lambda message: None,
) -> Translator:
    """The translator in a run's folder, or in that of an export; with `others`, an ensemble.

    With the engine `auto`, CTranslate2 translates plain requests if its translations equal those of
    the native engine, which does everything else. A missing export in `precision` is made and saved
    in the run's folder (see `remarks`). The choices of `auto`, and batch sizes, are those that
    `regard bench` measured for the run on this machine, or those in `choice`. The default precision
    of the native engine, and of imported models, is float32. `onnx` is our search with steps that
    onnxruntime runs, without attention. An `adapter` of the run, by its name or in a file, is
    merged into its weights; the native engine then translates. `tell` is called with a message
    before long work.
    """
    _check_names(engine, precision)
    folder = Path(path)
    if is_export(folder):
        changed = others or adapter or weights != "model"
        if changed or engine in ("native", "onnx") or device not in ("auto", "cpu"):
            raise SettingsError(
                f"{folder}: an export runs alone, with its own weights, in CTranslate2 on a CPU; "
                "for an ensemble, other weights, adapters, a GPU or the native engine use runs"
            )
        return _load_export(folder, precision)
    if engine == "onnx":
        return _load_onnx(
            folder, [*others, *([adapter] if adapter else [])], device, weights, precision
        )
    if choice is None and not others:
        choice = load_tuned_engine(folder)
    reason = why_not_ctranslate2(others, device, weights)
    if is_packaged(folder):
        reason = (
            f"no export is saved in the installed package; regard export {quoted(folder)} --to DIR"
        )
    if adapter is not None:
        choice, reason = None, f"exports have no adapters, and {adapter} was given"
    if choice is not None and reason is None and (engine, precision) == ("auto", "auto"):
        engine, precision = "native" if choice.engine == "native" else "auto", choice.precision
    if engine == "native" or (engine == "auto" and reason is not None):
        open_runs = _native_engine_class().open_runs
        runs = open_runs(
            (path, *others), device=device, weights=weights, precision=precision, adapter=adapter
        )
        return Translator(runs, engine=TranslatorEngine(runs, config=choice))
    if reason is not None:
        raise SettingsError(f"the engine ctranslate2 cannot be used: {reason}")
    return _load_run(folder, weights, precision, choice, tell, ct2_only=engine == "ctranslate2")


def check_tasks(runs: "Sequence[Run]", task: str) -> None:
    """Raise an error if a run has another task."""
    for run in runs:
        if run.recipe.task != task:
            raise wrong_task_error(run.folder.path, run.recipe.task, f"not {task}")


def _native_engine_class() -> "type[NativeEngine]":
    from regard.engines.native.native_engine import NativeEngine

    return NativeEngine


def _check_names(engine: str, precision: str) -> None:
    """Raise an error unless both are known."""
    for given, known in ((engine, get_args(EngineChoice)), (precision, get_args(ExportPrecision))):
        if given not in known:
            raise SettingsError(f"{given!r}: must be one of {', '.join(known)}")


def _load_onnx(
    folder: Path, others: Sequence[str | Path], device: str, weights: str, precision: str
) -> Translator:
    """The translator of a run by our search, with steps that onnxruntime runs; an error if there
    are `others`: further runs, or an adapter.
    """
    if others or device not in ("auto", "cpu"):
        raise SettingsError(
            "the engine onnx runs one model on a CPU; for an ensemble, an adapter or a GPU use "
            "native"
        )
    module = import_module("regard.pipelines.exchange.onnx.onnx_export")  # torch; it loads runs
    return Translator([module.open_onnx_run(folder, weights=weights, precision=precision)])


def _open_ct2_engine(
    export: ExportArtifact | None, engine_config: EngineConfig | None = None
) -> "CTranslate2Engine | None":
    """The engine of an export; None if there is no export, or it cannot be used."""
    from regard.engines.ctranslate2.ct2_engine import open_ct2_engine

    return None if export is None else open_ct2_engine(export, engine_config)


def _load_export(folder: Path, precision: ExportPrecision) -> Translator:
    """The translator of an export without its run."""
    missing = why_ctranslate2_unavailable()
    if missing is not None:
        raise SettingsError(f"{folder}: an export, which needs CTranslate2. {missing}")
    export = open_export(folder)
    if precision not in ("auto", export.card.precision):
        raise SettingsError(
            f"{folder}: this export is in {export.card.precision}, not in {precision}; make "
            f"another: regard export RUN --to DIR --precision {precision}"
        )
    engine = _open_ct2_engine(export)
    if engine is None:
        raise damaged_export_error(folder)
    return Translator(engine=TranslatorEngine(export=engine))


def _own_precision(folder: Path, precision: ExportPrecision) -> ExportPrecision:
    """`precision`; instead of `auto`, for an imported run, the float32 that it was checked in."""
    imported = precision == "auto" and (folder / EXCHANGE_REPORT).is_file()
    return "float32" if imported else precision


def _load_run(
    folder: Path,
    weights: str,
    precision: ExportPrecision,
    engine_config: EngineConfig | None,
    tell: Callable[[str], None],
    *,
    ct2_only: bool,
) -> Translator:
    """The translator of a run by its export, which is made if missing.

    If the export is refused or cannot be made, the native engine translates; with `ct2_only` that
    is an error.
    """

    def open_runs(precision: str = "auto") -> "Sequence[Run]":
        open_all = _native_engine_class().open_runs
        return open_all((folder,), device="cpu", weights=weights, precision=precision)

    precision = _own_precision(folder, precision)
    runs: Sequence[Run] = ()
    remarks, file = [], weights_file(folder, weights)
    export = find_export(folder, file, weights, precision) if file.is_file() else None
    if export is not None:
        warn_without_manifest(folder)
    engine = _open_ct2_engine(export, engine_config)
    if engine is None and (export is None or export.card.gate.refused is None):
        if export is not None:
            shutil.rmtree(export.folder, ignore_errors=True)  # it cannot be read
        from regard.engines.ctranslate2.exporter import try_export

        runs = open_runs()
        check_tasks(runs, TRANSLATION)
        export, remark = try_export(runs[0], weights, precision, required=ct2_only, tell=tell)
        remarks += [remark] if remark else []
        engine = _open_ct2_engine(export, engine_config)
    if engine is not None:
        settings = engine.card.decoding
        if ct2_only and (reason := native_only_reason(settings)) is not None:
            remarks.append(
                f"the run's search settings need the native engine ({reason}); "
                "using the nearest that CTranslate2 supports"
            )
            settings = portable_settings(settings)
        chosen = TranslatorEngine(
            runs, export=engine, open_runs=open_runs, config=engine_config, only_export=ct2_only
        )
        return Translator(engine=chosen, folder=folder, settings=settings, remarks=remarks)
    refused = export.card.gate.refused if export is not None else None
    if ct2_only:
        reason = refused or "its export cannot be read"
        raise RunError(f"{folder}: the engine ctranslate2 cannot be used: {reason}")
    if refused is not None:  # in that precision the native engine would lose as much
        remarks = [f"{folder}: the native engine translates, in float32: {refused}"]
        precision = "float32"
    if not runs or precision not in ("auto", "float32"):
        runs = open_runs(precision)
    return Translator(runs, engine=TranslatorEngine(runs, config=engine_config), remarks=remarks)
