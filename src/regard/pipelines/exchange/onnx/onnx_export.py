"""A run of any task -> ONNX graphs that give the same outputs in onnxruntime."""

import logging
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from regard.atomic_io import check_no_linked_folders, temporary_folder, write_atomic
from regard.decoding.batch_search import search
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings
from regard.errors import RunError, SettingsError
from regard.exchange.onnx_graphs import OPSET, write_graphs
from regard.exchange.transformers_js import SUFFIXES
from regard.json_files import dump_json, read_json
from regard.manifest import check_folder, sha256_of_file
from regard.models.contracts import AnyGenerator
from regard.pipelines.exchange.exchange_report import (
    REPORT,
    ExchangeReport,
    ExportedFolder,
    publish,
    require_free,
)
from regard.pipelines.exchange.gate import FLOAT32_TOLERANCE, GateReport
from regard.pipelines.exchange.onnx.browser_files import why_not_in_browsers, write_browser_files
from regard.pipelines.exchange.onnx.onnx_samples import ExportableRun, load_exportable
from regard.recipes.open_run import Run, open_run
from regard.recipes.paths import check_not_packaged
from regard.recipes.run_folder import RunFolder, find_weights
from regard.settings import abbreviate
from regard.text.build import save_tokenizers
from regard.text.special_tokens import BOS, EOS, PAD, UNK

OnnxPrecision = Literal["float32", "int8"]
PACKAGES = ("onnx", "onnxruntime")
INFO = "onnx.json"
GRAPHS_FOLDER = "onnx"  # in a run's folder, for the engine onnx
SAMPLE_SIZES = ((4, 9), (1, 1), (3, 17))  # rows and length; graphs are traced with others
STEPS, WIDTHS = 8, (1, 3, 2)  # steps to compare, and hypotheses at each; the last width stays
MAX_DIVERGENCE = 0.02  # what int8 may cost, in nats a token
BEAM_SIZES = (1, 4)
PROGRAM = "regard export --to onnx"


def require_onnx() -> None:
    """Raise an error unless the packages are installed."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise SettingsError(
            f"{PROGRAM} needs {' and '.join(missing)}, which is not installed: "
            "pip install 'regard[onnx]'"
        )


def export_onnx(
    path: Path, out: Path, *, weights: str = "model", precision: OnnxPrecision = "float32"
) -> ExportedFolder:
    """Export a run into the folder `out`.

    If the gate refuses it, `out` has only the report, and a `RunError` is raised.
    """
    require_onnx()
    run, file = load_exportable(path, weights), find_weights(RunFolder(path), weights)
    if precision == "int8" and not run.has_logits:
        raise SettingsError(
            f"{path}: int8 needs a model with logits, from which its loss is measured, and models "
            f"for {run.task} have none; give --precision float32"
        )
    require_free(out)
    browser = why_not_in_browsers(run)
    with temporary_folder(out.parent) as place, seeded():
        try:
            files = write_graphs(run.model, run.make_inputs, place, browser=browser is None)
        except (RuntimeError, TypeError, ValueError, IndexError) as error:  # of torch's exporter
            raise RunError(
                f"{path}: a model of the family {run.family} cannot be written as a graph: "
                f"{abbreviate(str(error))}"
            ) from None
        gate = compare_graphs(run, place)
        if precision == "int8" and gate.refused is None:
            quantize(files, SUFFIXES["int8"] if browser is None else "")
            gate = compare_graphs(run, place, quantized=True)
        report = ExchangeReport(
            direction="export",
            format=f"onnx, opset {OPSET}, {run.family}, {precision}",
            source=str(path),
            files={file.name: sha256_of_file(file)},
            gate=gate,
        )
        if gate.refused is None:
            write_info(run, place, precision, browser)
        publish(place, out, report, "onnxruntime")
    runnable = "transformers.js runs it, in a browser too"
    remark = runnable if browser is None else f"not for transformers.js: {browser}"
    return ExportedFolder(out, report, remark if run.task == "translation" else None)


def write_info(
    run: ExportableRun, folder: Path, precision: OnnxPrecision, browser: str | None
) -> None:
    """Write the facts that programs need to run the graphs, and the tokenizers.

    `browser`: why transformers.js cannot run them; None: it can.
    """
    info = {
        "task": run.task,
        "family": run.family,
        "precision": precision,
        "max_length": run.model.max_length,
        "special_tokens": {"pad": PAD, "unk": UNK, "bos": BOS, "eos": EOS},
        **run.facts,
    }
    if run.task == "translation":
        info |= {"transformers.js": browser is None, "why_not": browser}
    write_atomic(folder / INFO, f"{dump_json(info, indent=2)}\n".encode())
    if browser is None:
        write_browser_files(run, folder, precision)
    elif run.tokenizers is not None:
        save_tokenizers(run.tokenizers, folder)


def quantize(files: list[Path], suffix: str = "") -> None:
    """Replace graphs by versions with matrices in int8 and `suffix` in their names.

    This is dynamic quantization: the inputs of matrix products are quantized as they are computed.
    """
    quantization: Any = import_module("onnxruntime.quantization")
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)  # advice to infer shapes first, which would change nothing
    try:
        for file in files:
            whole = file.with_suffix(".float32")
            file.rename(whole)
            _separate_weights(whole)
            quantization.quantize_dynamic(
                str(whole),
                str(file.with_stem(f"{file.stem}{suffix}")),
                weight_type=quantization.QuantType.QInt8,
            )
            whole.unlink()
    finally:
        logging.disable(disabled)


def _separate_weights(file: Path) -> None:
    """Give every `Gemm` its own weight: onnxruntime transposes it in place, even if it is tied to
    embeddings.
    """
    onnx: Any = import_module("onnx")
    model = onnx.load(str(file))
    weights = {one.name: one for one in model.graph.initializer}
    uses = Counter(name for node in model.graph.node for name in node.input)
    for node in model.graph.node:
        if node.op_type == "Gemm" and node.input[1] in weights and uses[node.input[1]] > 1:
            own = model.graph.initializer.add()
            own.CopyFrom(weights[node.input[1]])
            own.name = node.input[1] = f"{node.name}.weight"
    onnx.save(model, str(file))


def open_onnx_run(path: Path, *, weights: str = "model", precision: str = "auto") -> Run:
    """A translator's run whose steps onnxruntime runs; its graphs are saved in its folder."""
    require_onnx()
    chosen = onnx_precision(precision)
    run = open_run(path, device=torch.device("cpu"), weights=weights)
    check_not_packaged(path, "no graphs are")
    folder = path / GRAPHS_FOLDER / f"{Path(weights).stem}-{chosen}"
    check_no_linked_folders(path)
    onnx_model: Any = import_module("regard.engines.onnx.onnx_model")
    digest, decoder = sha256_of_file(find_weights(run.folder, weights)), None
    with suppress(OSError, ValueError, RunError):  # there are none, or they are damaged
        check_folder(folder)
        if digest in read_json(folder / REPORT, ExchangeReport).files.values():
            decoder = onnx_model.open_decoder(folder)
    if decoder is None:
        shutil.rmtree(folder, ignore_errors=True)
        export_onnx(path, folder, weights=weights, precision=chosen)
        decoder = onnx_model.open_decoder(folder)
    return run._replace(model=onnx_model.OnnxGenerator(run.model, decoder).eval(), loaded_from=None)


def onnx_precision(precision: str) -> OnnxPrecision:
    """A precision of graphs; `auto` is float32."""
    known = get_args(OnnxPrecision)
    if precision not in ("auto", *known):
        raise SettingsError(f"--precision {precision}: for onnx there are {', '.join(known)}")
    return "int8" if precision == "int8" else "float32"


def compare_graphs(run: ExportableRun, folder: Path, *, quantized: bool = False) -> GateReport:
    """`check_graphs`, which also refuses graphs that onnxruntime cannot run."""
    try:
        return check_graphs(run, folder, quantized=quantized)
    except Exception as error:  # onnxruntime's errors have no common type
        reason = f"they cannot be run: {abbreviate(str(error))}"
        return GateReport(reference="onnxruntime", refused=reason)


@torch.inference_mode()
def check_graphs(run: ExportableRun, folder: Path, *, quantized: bool = False) -> GateReport:
    """Compare the graphs in a folder with a run's model, on random inputs of various sizes."""
    runtime: Any = import_module("onnxruntime")
    onnx_model: Any = import_module("regard.engines.onnx.onnx_model")
    reference = f"onnxruntime {runtime.__version__}"
    generator, pairs = run.model.as_generator(), list[tuple[Tensor, Tensor]]()
    answers: list[tuple[Any, Any]] = []
    for sizes in SAMPLE_SIZES:
        inputs = run.make_inputs(*sizes)
        if generator is None:
            ours, theirs = run.model.answers(inputs), onnx_model.onnx_answers(folder, inputs)
            assert ours is not None  # only generators have none
            mask = getattr(inputs, "mask", None)
            real = ... if mask is None or ours.dim() < 3 else mask
            pairs.append((ours[real].flatten(0, -2), theirs[real].flatten(0, -2)))
        else:
            decoder = onnx_model.open_decoder(folder)
            pairs += _compare_steps(generator, decoder, inputs)
            if not quantized:
                answers += _compare_searches(generator, decoder, inputs)
    ours, theirs = (torch.cat(part) for part in zip(*pairs, strict=True))
    same = sum(one == other for one, other in answers)
    report = GateReport(
        reference=reference,
        rows=sum(rows for rows, _ in SAMPLE_SIZES),
        positions=len(ours),
        answers=len(answers),
        same_answers=same,
    )
    if quantized:
        return report.model_copy(update=_int8_findings(ours, theirs))
    found, allowed = _largest(ours - theirs), FLOAT32_TOLERANCE * max(1.0, _largest(ours))
    refused = None
    if not found <= allowed:
        refused = f"outputs differ by {found:.3g}; at most {allowed:.1g} is allowed"
    elif same < len(answers):
        refused = f"{len(answers) - same} of {len(answers)} searches have other results"
    return report.model_copy(update={"float32": found, "refused": refused})


def _compare_steps(
    model: AnyGenerator, decoder: Any, inputs: Any
) -> Iterator[tuple[Tensor, Tensor]]:
    """Logits (N, V) of both after each of `STEPS`, with hypotheses reordered in between."""
    ours, theirs = model.start(model.encode(inputs)), decoder.start(inputs)
    rows, width = len(inputs.tensors()[0]), 1
    vocabulary = model.step(torch.full((rows, 1), BOS), ours)[0].shape[-1]
    for number in range(STEPS):
        wider = WIDTHS[min(number, len(WIDTHS) - 1)]
        parents, width = torch.randint(width, (rows, wider)), wider
        tokens = torch.randint(vocabulary, (rows, width)) if number else torch.full((rows, 1), BOS)
        one, ours = model.step(tokens, ours.reorder(parents))
        other, theirs = decoder.step(tokens, theirs.reorder(parents))
        yield one.flatten(0, 1), other.flatten(0, 1)


def _compare_searches(
    model: AnyGenerator, decoder: Any, inputs: Any
) -> Iterator[tuple[list[Any], list[Any]]]:
    """The tokens that both find for each row, by greedy and beam search."""
    lengths = torch.full((len(inputs.tensors()[0]),), 2 * STEPS)
    rules = RuleSettings(max_length=2 * STEPS)
    for size in BEAM_SIZES:
        settings = DecodingSettings(beam=BeamSettings(size=size), rules=rules)
        both = (
            search(one, state, lengths, settings)
            for one, state in (
                (model, model.start(model.encode(inputs))),
                (decoder, decoder.start(inputs)),
            )
        )
        for one, other in zip(*both, strict=True):
            yield [best.tokens for best in one], [best.tokens for best in other]


def _int8_findings(ours: Tensor, theirs: Tensor) -> dict[str, Any]:
    """The KL divergence of logits (N, V) in int8, or why it is refused."""
    before, after = ours.log_softmax(-1), theirs.log_softmax(-1)
    impossible = before == float("-inf")
    parts = (before.exp() * (before - after)).masked_fill(impossible, 0.0)
    loss = float(parts.sum(-1).mean())
    if loss <= MAX_DIVERGENCE:
        return {"int8": loss}
    return {
        "refused": f"in int8 its answers are less likely by {loss:.3f} nats each; at most "
        f"{MAX_DIVERGENCE} is allowed; give --precision float32"
    }


def _largest(x: Tensor) -> float:
    """The largest magnitude; infinite if one is NaN."""
    return float(x.nan_to_num(nan=float("inf")).abs().max())


@contextmanager
def seeded() -> Iterator[None]:
    """Seeds torch within the context, and restores its random state afterwards."""
    state = torch.get_rng_state()
    torch.manual_seed(0)
    try:
        yield
    finally:
        torch.set_rng_state(state)
