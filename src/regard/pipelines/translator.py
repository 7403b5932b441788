"""A saved model as a function of text."""

import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, get_args

from regard.decoding.search_options import native_only_reason, portable_settings, search_settings
from regard.decoding.settings import DecodingSettings
from regard.engines.ctranslate2 import availability
from regard.engines.ctranslate2.export_artifact import (
    Precision,
    damaged_export_error,
    delete_export,
    find_export,
    is_export,
    open_export,
)
from regard.engines.engine import Engine, TranslationRequest
from regard.engines.tuned_engine import EngineConfig, load_tuned_engine
from regard.errors import RunError, SearchError, SettingsError, require_texts
from regard.manifest import warn_without_manifest
from regard.pipelines.answer import Answer, build_answer
from regard.recipes.input_settings import infer_input_settings, run_input_settings
from regard.recipes.paths import NAMED_WEIGHTS, weights_file
from regard.text.preprocess import PreparedText, TokenizedLine, sanitize, tokenize_for_ensemble
from regard.text.segmentation import InputSettings, Segments, holds_codes, segment, split_lines

if TYPE_CHECKING:  # all of it stands on torch, or on what may not be there
    from regard.decoding.tracing.observer import SearchObserver
    from regard.engines.ctranslate2.ct2_engine import CTranslate2Engine
    from regard.engines.native.native_engine import NativeEngine
    from regard.inspection.interventions import Intervention, InterventionRequest
    from regard.recipes.run_folder import Run

EngineName = Literal["native", "ctranslate2"]
EngineChoice = Literal["auto", "native", "ctranslate2"]


class Translator:
    """One model, or several with one target vocabulary that vote, as a function of text."""

    def __init__(
        self,
        runs: "Sequence[Run]",
        *,
        remarks: Sequence[str] = (),
        choice: EngineConfig | None = None,
    ) -> None:
        if not runs:
            raise ValueError("a translator needs at least one run")
        targets = {run.tokenizers.target.fingerprint(): run.folder.path for run in runs}
        if len(targets) > 1:
            raise SearchError(
                "models that translate together must share one target vocabulary; these do not: "
                + ", ".join(map(str, targets.values()))
            )
        self.sources = tuple(run.tokenizers.source for run in runs)
        """The source vocabulary of each model."""
        self.folders = tuple(run.folder.path for run in runs)
        """Where they came from."""
        self.target = runs[0].tokenizers.target
        self.settings = runs[0].recipe.decoding
        self.input = run_input_settings(runs[0].recipe, self.folders[0])
        """Which parts of a line are translated, and whether together."""
        self.limit = min(run.longest for run in runs)
        self.remarks = tuple(remarks)
        """What a person should know of how it was loaded."""
        self._run_loader: Callable[[], Sequence[Run]] | None = None
        self._engine_settings = choice
        self._native_engine: NativeEngine | None = availability.native().NativeEngine(runs, choice)
        self._ct2_engine: CTranslate2Engine | None = None
        self._ct2_only = False
        self._observers: tuple[SearchObserver, ...] = ()
        self._process_id = os.getpid()

    @classmethod
    def of_export(
        cls,
        fast: "CTranslate2Engine",
        folder: Path,
        open_runs: "Callable[[], Sequence[Run]] | None",
        *,
        only: bool = False,
        choice: EngineConfig | None = None,
    ) -> Self:
        """The translator of an export of `folder`, asked wherever it can do what is wanted.

        All else is done by what `open_runs` opens, unless the export is to be the `only` engine.
        """
        new = cls.__new__(cls)
        new.sources, new.target, new.folders = (fast.source,), fast.target, (folder,)
        new.settings, new.limit = fast.card.decoding, fast.card.longest
        new.input = fast.card.input or infer_input_settings(folder)
        new.remarks, new._observers = (), ()
        new._ct2_engine, new._ct2_only = fast, only
        new._run_loader, new._native_engine, new._engine_settings = open_runs, None, choice
        new._process_id = os.getpid()
        return new

    def __repr__(self) -> str:
        engine = "native" if self._ct2_engine is None else "ctranslate2"
        return f"<Translator {', '.join(map(str, self.folders))}, engine {engine}>"

    @property
    def runs(self) -> "tuple[Run, ...]":
        """The models themselves."""
        self._check_not_forked()
        return self._load_native().runs

    @property
    def has_runs(self) -> bool:
        """Whether there are models besides an export, which can do no more than translate."""
        return self._native_engine is not None or self._run_loader is not None

    def observed(self, observe: "SearchObserver") -> Self:
        """The same translator, whose searches tell `observe` what they do.

        It knows the parts of lines by the numbers that `part_number` gives.
        """
        other = copy(self)
        other._observers = (*self._observers, observe)
        return other

    def __call__(  # noqa: PLR0913  # each by its name: what can be said of one translation
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
        """The translation of one line; `look` keeps what was attended to, as `changes` do.

        `n_best` asks for several candidates. All else is as in `translate`.
        """
        search = search_settings(
            settings or self.settings, beam=beam, n_best=n_best, unknown=unknown is not None
        )
        request = TranslationRequest(
            search, prefix, forbidden, unknown=unknown, observers=self._observers
        )
        if look or changes:
            return self._look(text, request, changes, split)
        return self.answer([text], request, split=split)[0]

    def look(  # noqa: PLR0913  # each by its name, as in `__call__`
        self,
        text: str,
        settings: DecodingSettings | None = None,
        *,
        changes: "Sequence[InterventionRequest]" = (),
        tree: bool = False,
        n_best: int | None = None,
        prefix: str = "",
        forbidden: Sequence[str] = (),
        unknown: Mapping[str, str] | None = None,
        split: bool | None = None,
    ) -> Answer:
        """The translation of one line with what was attended to.

        With `changes` it is what becomes of the translation when a head is silenced, a distribution
        flattened or a word forced to look elsewhere, and `before` holds the one without them. With
        `tree` all hypotheses of the search are kept; of a line in several parts, the first's.
        """
        search = search_settings(
            settings or self.settings, n_best=n_best, unknown=unknown is not None
        )
        request = TranslationRequest(
            search, prefix, forbidden, unknown=unknown, observers=self._observers
        )
        return self._look(text, request, changes, split, tree=tree)

    def translate(  # noqa: PLR0913  # each by its name, as in `__call__`
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

        The sentences of a text are translated one by one, and what is no sentence, such as a number
        or a URL, comes back as it is, where the run has learned so (`input`). With `split` True
        sentences are split whatever it has learned; with False a text goes in whole, and line
        breaks and tabs in it become spaces. A sentence with URLs, e-mail addresses or placeholders
        has them in its one candidate as they were, unless it is sampled, begun or looked into.

        Answers begin with `prefix` and hold none of the `forbidden` words. `changes` are made to
        the attention. `first` is the number of the first text, by which samples are drawn: texts
        that are given in several calls are then sampled as in one.

        With `unknown`, a dictionary, a model may say that a word is unknown to it. In its place
        stands the entry of the source word that it attends to, or where there is none a copy of
        that word: an empty dictionary copies all. `⁇` shows where unknown words are allowed by the
        settings alone.
        """
        search = search_settings(
            settings or self.settings, n_best=n_best, unknown=unknown is not None
        )
        request = TranslationRequest(
            search, prefix, forbidden, look, changes, first, unknown, self._observers
        )
        return self.answer(texts, request, split=split)

    def answer(
        self, texts: Sequence[str], request: TranslationRequest, *, split: bool | None = None
    ) -> list[Answer]:
        """The translation of each text; `translate` says what a request may ask for."""
        self._check_not_forked()
        require_texts("forbidden", request.forbidden)
        return self._translate(self.tokenize(texts, split=split), request)

    def tokenize(self, texts: Sequence[str], *, split: bool | None = None) -> list[PreparedText]:
        """Each text segmented as in `translate` and tokenized: the input of `translate_tokenized`.

        This needs no model and may be called from any thread.
        """
        require_texts("texts", texts)
        texts, settings = [sanitize(text) for text in texts], self._segmentation(split)
        lines = tokenize_for_ensemble(texts, self.sources, self.limit, settings)
        return [
            PreparedText(text, versions, settings is not None and self._has_protected(versions[0]))
            for text, *versions in zip(texts, *lines, strict=True)
        ]

    def translate_tokenized(
        self, prepared: Sequence[PreparedText], settings: DecodingSettings | None = None
    ) -> list[Answer]:
        """The translation of each text that `tokenize` has prepared, in order: N in, N out."""
        self._check_not_forked()
        request = TranslationRequest(settings or self.settings, observers=self._observers)
        return self._translate(prepared, request)

    def holds_codes(self, sentence: str) -> bool:
        """Whether a sentence has addresses or placeholders that come back as they are."""
        return "codes" in self.input.pass_through and holds_codes(sentence)

    def _has_protected(self, line: TokenizedLine) -> bool:
        """Whether a sentence of the line has addresses or placeholders."""
        return any(map(self.holds_codes, line.segments.lines))

    def _translate(
        self, prepared: Sequence[PreparedText], request: TranslationRequest
    ) -> list[Answer]:
        """The answer to each text; sentences with protected text are translated around it."""
        is_protected = [request.is_plain and one.protected for one in prepared]
        plain = [one for one, apart in zip(prepared, is_protected, strict=True) if not apart]
        engine = self._select_engine(request)
        lines = [[one.lines[model] for one in plain] for model in range(len(self.sources))]
        answers = (
            build_answer(one.text, one.lines[0], result.parts, self.target, result.looks)
            for one, result in zip(plain, engine.translate_lines(lines, request), strict=True)
        )
        if not any(is_protected):
            return list(answers)
        with_protected = iter(
            availability.held_codes().translate_with_protected(
                self,
                [one for one, apart in zip(prepared, is_protected, strict=True) if apart],
                request,
            )
        )
        return [next(with_protected if apart else answers) for apart in is_protected]

    def segment(self, text: str, *, split: bool | None = None) -> Segments:
        """What of a text is translated, part by part, and what stays as it is: see `translate`.

        With `split` False the parts are its lines.
        """
        settings = self._segmentation(split)
        return split_lines(text) if settings is None else segment(text, settings)

    def _look(
        self,
        text: str,
        request: TranslationRequest,
        changes: "Sequence[InterventionRequest]",
        split: bool | None,
        *,
        tree: bool = False,
    ) -> Answer:
        found: Answer = availability.look().look(self, text, request, changes, split, tree=tree)
        return found

    def _check_not_forked(self) -> None:
        """An error in a process that was forked from the one which loaded the translator."""
        if os.getpid() != self._process_id:
            raise RunError(
                f"{self!r} was loaded by process {self._process_id}, and this is another, "
                f"{os.getpid()}, forked from it without the threads that translate: it would hang. "
                "Start processes with multiprocessing.get_context('spawn') and load it in each"
            )

    def _segmentation(self, split: bool | None) -> InputSettings | None:
        """How texts are taken apart; None: not at all."""
        if split is None:
            return self.input
        return self.input.model_copy(update={"split_sentences": True}) if split else None

    def engine_for(self, settings: DecodingSettings | None = None) -> EngineName:
        """Which engine translates plain lines with these settings, or with the run's own."""
        request = TranslationRequest(settings or self.settings, observers=self._observers)
        fast = self._ct2_engine is not None and self._ct2_engine.unsupported_reason(request) is None
        return "ctranslate2" if fast else "native"

    @property
    def on_gpu(self) -> bool:
        """Whether it translates on a GPU.

        Whoever looks at each step of a search there makes the device wait for its host.
        """
        return self._native_engine is not None and not self._native_engine.on_cpu

    def _select_engine(self, request: TranslationRequest) -> Engine:
        """The engine to do what is wanted: the fast one wherever it can."""
        if self._ct2_engine is None:
            return self._load_native()
        reason = self._ct2_engine.unsupported_reason(request)
        if reason is None:
            return self._ct2_engine
        if self._ct2_only:
            raise SettingsError(
                f"the engine ctranslate2 is asked for, and cannot do this: {reason}; use the "
                "native one, or leave the choice to auto"
            )
        return self._load_native()

    def _load_native(self) -> "NativeEngine":
        """The native engine, loaded when it is first needed."""
        if self._native_engine is None:
            if self._run_loader is None:
                assert self._ct2_engine is not None
                raise SettingsError(
                    f"{self._ct2_engine.folder}: an export can translate plainly and nothing "
                    "else; for "
                    f"this, use the run that it was made of ({self._ct2_engine.card.run})"
                )
            self._native_engine = availability.native().NativeEngine(
                self._run_loader(), self._engine_settings
            )
        return self._native_engine


def ignore_message(message: str) -> None:
    """Nothing: nobody waits."""


def load(
    path: str | Path,
    *others: str | Path,
    device: str = "auto",
    weights: str = "model",
    engine: EngineChoice = "auto",
    precision: Precision = "auto",
    choice: EngineConfig | None = None,
    tell: Callable[[str], None] = ignore_message,
) -> Translator:
    """The translator in a run's folder, or in that of an export; with `others`, an ensemble.

    With the engine `auto`, plain translations are CTranslate2's wherever these are what the native
    engine would say, and all else is that one's. It takes an export of the model in a `precision`,
    which is made when there is none and kept in the run's folder; `remarks` tell of it. What `auto`
    means, and how large batches are, is what `regard bench` has measured for the run on this
    machine, if it has, or what a `choice` says. The native engine's precision is float32 unless
    another is asked for. Whoever waits can be told, by `tell`, what takes long before it begins.
    """
    for asked, known in ((engine, get_args(EngineChoice)), (precision, get_args(Precision))):
        if asked not in known:
            raise SettingsError(f"{asked!r}: must be one of {', '.join(known)}")
    folder = Path(path)
    if is_export(folder):
        if others or weights != "model" or engine == "native" or device not in ("auto", "cpu"):
            raise SettingsError(
                f"{folder}: an export translates by itself, with its own weights, in CTranslate2 "
                "on a CPU; for an ensemble, other weights, the native engine or a GPU use runs"
            )
        return _load_export(folder, precision)
    if choice is None and not others:
        choice = load_tuned_engine(folder)
    reason = _why_not_ctranslate2(others, device, weights)
    if choice is not None and reason is None and (engine, precision) == ("auto", "auto"):
        engine, precision = "native" if choice.engine == "native" else "auto", choice.precision
    if engine == "native" or (engine == "auto" and reason is not None):
        paths, open_runs = (path, *others), availability.native().open_runs
        runs = open_runs(paths, device=device, weights=weights, precision=precision)
        return Translator(runs, choice=choice)
    if reason is not None:
        raise SettingsError(f"the engine ctranslate2 cannot be used: {reason}")
    only = engine == "ctranslate2"
    return _load_ct2(folder, weights, precision, choice, tell, only=only)


def _load_export(folder: Path, precision: Precision) -> Translator:
    """The translator of an export that has no run beside it."""
    missing = availability.why_ctranslate2_unavailable()
    if missing is not None:
        raise SettingsError(f"{folder}: an export, which needs CTranslate2. {missing}")
    export = open_export(folder)
    if precision not in ("auto", export.card.precision):
        raise SettingsError(
            f"{folder}: this export is in {export.card.precision}, and {precision} is asked for; "
            f"make another: regard export RUN --to DIR --precision {precision}"
        )
    fast = availability.fast().open_ct2_engine(export)
    if fast is None:
        raise damaged_export_error(folder)
    return Translator.of_export(fast, folder, None)


def _why_not_ctranslate2(others: Sequence[str | Path], device: str, weights: str) -> str | None:
    """Why no export of the run is for what is asked; None: it may be."""
    if others:
        return "it is one model's, and several are to vote"
    if device not in ("auto", "cpu"):
        return f"it is for processors, and the device is {device}"
    if weights != "model" and weights not in NAMED_WEIGHTS:
        return f"exports are kept of a run's own weights, and these are in a file, {weights}"
    missing = availability.why_ctranslate2_unavailable()
    if missing is None and device == "auto" and availability.fast().has_gpu():
        return "there is a GPU, where the native engine is at home; give device cpu"
    return missing


def _load_ct2(
    folder: Path,
    weights: str,
    precision: Precision,
    choice: EngineConfig | None,
    tell: Callable[[str], None],
    *,
    only: bool,
) -> Translator:
    """The translator of the run's export, which is made now if there is none.

    Where it cannot be made, or is refused, it is the native engine's, unless the export is to be
    the `only` one: then it is an error.
    """
    file, remarks = weights_file(folder, weights), []
    found = find_export(folder, file, weights, precision) if file.is_file() else None
    if found is not None:
        warn_without_manifest(folder)
    fast: CTranslate2Engine | None = (
        availability.fast().open_ct2_engine(found, choice) if found else None
    )
    runs: Sequence[Run] | None = None
    if fast is None and (found is None or found.card.gate.refused is None):
        if found is not None:
            delete_export(found)  # it cannot be read
        runs = _open_runs(folder, weights)
        export_run = availability.exporting().try_export
        found, remark = export_run(runs[0], weights, precision, required=only, tell=tell)
        remarks += [remark] if remark else []
        fast = availability.fast().open_ct2_engine(found, choice) if found else None
    if fast is None:
        refused = found.card.gate.refused if found is not None else None
        if only:
            reason = refused or "its export cannot be read"
            raise RunError(f"{folder}: the engine ctranslate2 cannot be used: {reason}")
        if refused is not None:  # another engine would lose as much in that precision
            remarks = [f"{folder}: the native engine translates, in float32: {refused}"]
            precision = "float32"
        if runs is None or precision not in ("auto", "float32"):
            load_runs = availability.native().open_runs
            runs = load_runs((folder,), device="cpu", weights=weights, precision=precision)
        return Translator(runs, remarks=remarks, choice=choice)
    open_runs = partial(_open_runs, folder, weights)
    new = Translator.of_export(fast, folder, open_runs, only=only, choice=choice)
    if runs is not None:
        new._native_engine = availability.native().NativeEngine(runs, choice)
    if only and native_only_reason(new.settings) is not None:
        remarks.append(
            "the run's own search is the native engine's alone "
            f"({native_only_reason(new.settings)}); "
            "this is the nearest that CTranslate2 has"
        )
        new.settings = portable_settings(new.settings)
    new.remarks = tuple(remarks)
    return new


def _open_runs(folder: Path, weights: str) -> "Sequence[Run]":
    runs: Sequence[Run] = availability.native().open_runs((folder,), device="cpu", weights=weights)
    return runs
