"""`regard bulk`: files of any size translated on Ray."""

import os
import time
from collections.abc import Generator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from rich.markup import escape
from typer import Argument, Context

from regard.cli.display.console import err, note, out
from regard.cli.display.progress_bar import LiveProgress, progress_bar
from regard.cli.options import shared_options
from regard.cli.options.shared_options import check_options, flag, option
from regard.cluster.bulk import PendingInput, RayOptions, run_bulk
from regard.cluster.bulk_folder import BulkPlan, BulkSummary
from regard.cluster.bulk_inputs import InputFile, scan_input
from regard.cluster.bulk_job import BulkJob, ModelOptions, TranslatedBlock
from regard.decoding.settings import search_settings
from regard.errors import SettingsError
from regard.inspection.plots.plain_table import plain_table
from regard.interruption import exit_on_signals, interrupt_on_sigterm
from regard.tasks.families.options import OptionRule

REPORT_SECONDS = 60.0  # between two notes about progress, if no bar is shown
OPTION_RULES = (
    OptionRule("dashboard", excludes="address", hint="it was decided when the cluster was started"),
)


def command(
    context: Context,
    model: shared_options.Model,
    files: list[str] = Argument(
        metavar="INPUT...",
        help="Text files, also .gz or .xz; TSV with --column; .parquet; or URIs such as "
        "s3://bucket/news.fr.gz.",
    ),
    folder: Path = option(
        "The folder for translations: a file for each input.",
        "--out",
        "-o",
        default=...,
        metavar="DIR",
    ),
    column: str | None = option(
        "The column of TSV or Parquet to translate: a number from 0, or a name; with a name, the "
        "first line of TSV is a header, which is not translated.",
        metavar="NAME",
    ),
    actors: int | None = option(
        "Copies of the model that translate; by default as many as there is room for.", min=1
    ),
    cores: int = option("Cores of each copy.", default=1, min=1),
    address: str | None = option(
        "Of a Ray cluster, such as auto or ray-head:6379, whose machines all see MODEL under the "
        "same path; by default one is started on this machine.",
        metavar="HOST:PORT",
    ),
    dashboard: bool = flag("--dashboard", "Also start Ray's dashboard, for this machine only."),
    split: shared_options.Split = None,
    beam: shared_options.Beam = None,
    length_penalty: float | None = option("More favours longer translations.", min=0, max=5),
    forbid: list[str] | None = option(
        "A word that no translation may contain; may be repeated.", metavar="WORD"
    ),
    ensemble: shared_options.Ensemble = None,
    weights: shared_options.Weights = "model",
    adapter: shared_options.Adapter = None,
    device: shared_options.Device = "auto",
    engine: shared_options.Engine = "auto",
    precision: shared_options.InPrecision = "auto",
) -> None:
    """Every line of an input gives one line of its output, in order, exactly once, and the same as
    `regard translate` gives. Finished blocks of lines are kept: the same command continues
    after it was stopped or killed, or after the disk was full. Lines with problems are listed in
    NAME.notes.tsv.

    Examples:

        regard bulk runs/travel news.fr.gz --out news.en
        regard bulk runs/travel part-*.parquet --column text --out english --actors 8
        regard bulk runs/travel s3://corpora/news.fr --out news.en --address auto
    """
    check_options(context, OPTION_RULES)
    if find_spec("ray") is None:
        raise SettingsError(
            "regard bulk needs ray, which is not installed: pip install 'regard[cluster]'"
        )
    with interrupt_on_sigterm():  # otherwise Ray handles it from its start
        names, forbidden = (model, *(ensemble or ())), tuple(forbid or ())
        options = ModelOptions(names, weights, adapter, device, engine, precision)
        on_gpu = device.startswith("cuda")
        # the machine of this process may have no GPU, while those of the cluster do
        here = options._replace(device="cpu", engine="native") if on_gpu else options
        translator = here.load(tell=note)
        for remark in translator.remarks:
            note(remark)
        settings = search_settings(translator.settings, beam=beam, length_penalty=length_penalty)
        if translator.on_gpu:
            on_gpu, options = True, options._replace(device="cuda")
        inputs = _scan([InputFile(path=file, column=_column(column)) for file in files])
        identity = here.identity(translator, settings)
        del translator  # actors have their own
        plan = BulkPlan(
            model=identity, decoding=settings, split=split, forbidden=forbidden, inputs=inputs
        )
        job = BulkJob(options.absolute(), identity, settings, split, forbidden, cores)
        _translate(plan, job, RayOptions(address, actors, cores, on_gpu, dashboard), folder)


def _translate(plan: BulkPlan, job: BulkJob, options: RayOptions, folder: Path) -> None:
    """Translate the unfinished part of a plan, and show the progress."""

    def translate(pending: Sequence[PendingInput]) -> Generator[TranslatedBlock, None, None]:
        for name, value in options.environment().items():
            os.environ.setdefault(name, value)
        with exit_on_signals():
            on_ray = import_module("regard.cluster.ray_bulk")  # it takes seconds to import
        yield from on_ray.translate_on_ray(pending, job, options)

    with progress_bar(rate=True) as bar:
        shown = _Progress(bar)
        summary = run_bulk(plan, folder, translate, shown)
    _show(summary, folder, shown)


def _column(column: str | None) -> int | str | None:
    return int(column) if column is not None and column.isdecimal() else column


def _scan(files: list[InputFile]) -> tuple[InputFile, ...]:
    """The files with numbers and digests of their lines."""
    with progress_bar() as progress:
        task = progress.add_task("reading inputs", total=len(files))
        scanned = []
        for file in files:
            scanned.append(scan_input(file))
            progress.advance(task)
        return tuple(scanned)


class _Progress:
    """A bar with rate and time left; if stderr is not a terminal, a note now and then."""

    def __init__(self, bar: LiveProgress) -> None:
        self._bar, self._last_note = bar, time.monotonic()
        self._began = self._last_note
        self._done = self._total = self.translated = 0
        self._first: tuple[float, int] | None = None  # when the first lines came, and how many

    def start(self, finished: int, total: int) -> None:
        self._task = self._bar.add_task("translating", total=total, completed=finished)
        self._done, self._total = finished, total
        if 0 < finished < total:
            note(f"{finished:,} of {total:,} lines are finished; continuing with the others")

    def advance(self, lines: int) -> None:
        self._bar.advance(self._task, lines)
        now, self._done = time.monotonic(), self._done + lines
        self.translated += lines
        self._first = self._first or (now, lines)
        if err.is_terminal or now < self._last_note + REPORT_SECONDS or now == self._first[0]:
            return
        self._last_note = now
        rate = (self.translated - self._first[1]) / (now - self._first[0])
        left = f", {(self._total - self._done) / rate / 60:,.0f} min left" if rate else ""
        note(f"{self._done:,} of {self._total:,} lines, {rate:,.0f}/s{left}")

    @property
    def seconds(self) -> float:
        """Seconds since the start, including the loading of models."""
        return time.monotonic() - self._began


def _show(summary: BulkSummary, folder: Path, progress: _Progress) -> None:
    """Print the counts of each input and of all."""
    counts = ("lines", "blank", "noted", "blocks")
    rows = [
        (escape(str(folder / one.output)), *(f"{getattr(one, name):,}" for name in counts))
        for one in summary.inputs
    ]
    if len(rows) > 1:
        rows.append(("all", *(f"{getattr(summary, name):,}" for name in counts)))
    out.print(plain_table("translations", *counts, right=counts, rows=rows))
    if progress.translated:
        rate = progress.translated / progress.seconds
        note(f"{progress.translated:,} lines in {progress.seconds:,.0f} s, {rate:,.0f} a second")
