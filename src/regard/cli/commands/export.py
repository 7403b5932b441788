"""`regard export`: a model in the formats of other toolkits, or a compact copy of its run."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args

from regard.cli.display.console import note, print_json
from regard.cli.display.console import out as console
from regard.cli.options import shared_options
from regard.cli.options.shared_options import option
from regard.engines.ctranslate2.availability import why_ctranslate2_unavailable
from regard.engines.ctranslate2.export_artifact import ExportArtifact, ExportPrecision
from regard.engines.native.native_engine import NativeEngine
from regard.errors import RunError, SettingsError
from regard.pipelines.exchange.compact_run import compact_precision, export_compact
from regard.pipelines.exchange.exchange_report import ExportedFolder
from regard.pipelines.exchange.onnx.onnx_export import export_onnx, onnx_precision

Precision = Literal[ExportPrecision, "float16"]


def command(
    model: shared_options.Model,
    to: str | None = option(
        "The format: ctranslate2; hf, a folder for transformers; onnx, graphs for onnxruntime, of "
        "many translators also for transformers.js in a browser; run, a compact copy of the run to "
        "distribute. Or the folder for a CTranslate2 export.",
        "--to",
        metavar="FORMAT|DIR",
    ),
    out: Path | None = option(
        "A new folder; without it, an export for CTranslate2 is kept in the run's folder.",
        "--out",
        metavar="DIR",
    ),
    precision: Precision = option(
        "Of the weights; auto: int8 if it is close enough, otherwise float32. hf: float32; onnx: "
        "float32 (auto) or int8; run: float16 (auto), bfloat16 or float32.",
        default="auto",
    ),
    weights: shared_options.Weights = "model",
    json: shared_options.Json = False,
) -> None:
    """The export must translate a sample of sentences as the native engine does, or it is refused:
    up to rounding in float32, approximately in a lower precision. `regard translate` makes an
    export for CTranslate2 when it first needs one; an export that was written --to a folder works
    without the run: `regard translate DIR`. A compact copy (--to run) is not compared: score it
    with `regard evaluate DIR`.

    Examples:

        regard export runs/travel
        regard export runs/travel --to travel-fast --precision float32
        regard export runs/gpt2 --to hf --out gpt2-mine
        regard export runs/travel --to onnx --out travel-onnx --precision int8
        regard export runs/travel --to run --out travel-small
    """
    if to in FOLDER_FORMATS:
        if out is None:
            raise SettingsError(
                f"--to {to} writes a folder: name one that is new or empty with --out"
            )
        FOLDER_FORMATS[to](Path(model), out, weights, precision, json=json)
        return
    to = None if to == "ctranslate2" else to
    if to is not None and out is not None:
        raise SettingsError(f"--to {to} and --out {out} both name a folder; give one")
    _export_ctranslate2(model, out if to is None else Path(to), weights, precision, json=json)


def _export_ctranslate2(
    model: str, place: Path | None, weights: str, precision: Precision, *, json: bool
) -> None:
    """Write a folder for CTranslate2, or keep one in the run's folder."""
    if precision == "float16":
        raise SettingsError(
            f"--precision {precision}: CTranslate2 has {', '.join(get_args(ExportPrecision))}"
        )
    if (reason := why_ctranslate2_unavailable()) is not None:
        raise SettingsError(
            f"this export needs CTranslate2. {reason}. Or name another format: --to hf, --to onnx"
        )
    exporter: Any = import_module("regard.engines.ctranslate2.exporter")
    [run] = NativeEngine.open_runs((model,), device="cpu", weights=weights)
    if place is None:
        export: ExportArtifact = exporter.export_into_run(run, weights, precision)
    else:
        export = exporter.export_to(run, weights, precision, place)
    gate = export.card.gate
    if json:
        print_json({"folder": str(export.folder), **export.card.model_dump(mode="json")})
    elif gate.refused is None:
        console.print(f"{export.folder}  [dim]{export.card.engine}, {export.card.precision}[/]")
        console.print(
            f"  float32: {gate.identical} of {gate.sentences} translated as by the native engine, "
            f"scores within {gate.score_difference:.1e}"
        )
        less = "less" if gate.loss >= 0 else "more"
        console.print(
            f"  {export.card.precision}: {gate.same} of {gate.sentences} the same, {less} likely "
            f"by {abs(gate.loss):.4f} nats a token on average"
        )
        if gate.instead is not None:
            console.print(f"  {gate.instead}")
    for one in gate.differences:
        note(f"source    {one.source}\nnative    {one.native}\nexported  {one.exported}")
    if gate.refused is not None:
        raise RunError(f"{model}: the export is refused: {gate.refused}")


def _export_hf(model: Path, out: Path, weights: str, precision: Precision, *, json: bool) -> None:
    """Write a folder for `transformers`."""
    if precision not in ("auto", "float32"):
        raise SettingsError(f"--precision {precision}: a folder for transformers has float32")
    exporter: Any = import_module("regard.pipelines.exchange.export_run")  # needs tokenizers
    _show(exporter.export_folder(model, out, weights=weights), json=json)


def _export_onnx(model: Path, out: Path, weights: str, precision: Precision, *, json: bool) -> None:
    """Write graphs for onnxruntime."""
    chosen = onnx_precision(precision)
    _show(export_onnx(model, out, weights=weights, precision=chosen), json=json)


def _export_compact(
    model: Path, out: Path, weights: str, precision: Precision, *, json: bool
) -> None:
    """Write a compact copy of a run."""
    chosen = compact_precision(precision)
    size = export_compact(model, out, weights=weights, precision=chosen)
    if json:
        print_json({"folder": str(out), "precision": chosen, "bytes": size})
    else:
        console.print(f"{out}  [dim]a run of {size / 1e6:,.1f} MB, weights in {chosen}[/]")


def _show(found: ExportedFolder, *, json: bool) -> None:
    if json:
        print_json({"folder": str(found.folder), **found.report.model_dump(mode="json")})
        return
    console.print(f"{found.folder}  [dim]{found.report.format}[/]")
    console.print(f"  {found.report.gate.summary()}")
    if found.remark is not None:
        console.print(f"  {found.remark}")


FOLDER_FORMATS: dict[str | None, Callable[..., None]] = {
    "hf": _export_hf,
    "onnx": _export_onnx,
    "run": _export_compact,
}
"""Formats that need a new folder, and the functions that write it."""
