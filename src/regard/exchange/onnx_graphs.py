"""Models as ONNX graphs: one graph, or an encoder and a decoder step for models that generate.

Masks are integers, 0 or 1, as other toolkits give them. The first axis of every tensor is the
batch.
"""

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.onnx import symbolic_opset13
from torch.onnx.errors import SymbolicValueError
from torch.onnx.symbolic_helper import _parse_arg
from torch.onnx.utils import register_custom_op_symbolic

from regard.models.contracts import AnyGenerator, AnyModel, ExportableState
from regard.text.special_tokens import BOS
from regard.types import Memory

OPSET = 18
FLOAT32_EPSILON = torch.finfo(torch.float32).eps  # the default of an RMS norm
ENCODER_FILE, DECODER_FILE, MODEL_FILE = (
    "encoder_model.onnx",
    "decoder_model.onnx",
    "model.onnx",
)
TOKENS, LOGITS, ANSWERS = "input_ids", "logits", "answers"
PAST, PRESENT = "past.", "present."  # prefixes of a state's tensors, as inputs and outputs
BROWSER_FOLDER = "onnx"  # where transformers.js looks for graphs
MERGED_FILE = "decoder_model_merged.onnx"
HIDDEN, ENCODER_STATES = "last_hidden_state", "encoder_hidden_states"
ENCODER_MASK, USE_CACHE, PAST_KEY_VALUES = (
    "encoder_attention_mask",
    "use_cache_branch",
    "past_key_values.",
)
"""Names of transformers.js."""
SOURCE_MASK = "source_mask"  # part of a Transformer's state, with keys and values
INPUT_NAMES = {"ids": "input_ids", "mask": "attention_mask", "segments": "token_type_ids"}
"""Fields of our inputs -> their usual names; other fields keep theirs."""


MakeInputs = Callable[[int, int], Any]
"""(rows, length) -> random inputs of a model; length is ignored if they have none."""
TRACED_SIZES, OTHER_SIZES = (2, 5), (3, 7)


class Graph(NamedTuple):
    """A function of named tensors, ready to be traced."""

    file: str
    compute: Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]
    inputs: dict[str, Tensor]  # examples to trace with
    others: dict[str, Tensor]  # examples of other sizes: axes that differ are dynamic


def named_inputs(inputs: Any) -> dict[str, Tensor]:
    """The tensors of a model's inputs, by their names in a graph."""
    values = ((field.name, getattr(inputs, field.name)) for field in fields(inputs))
    return {
        INPUT_NAMES.get(name, name): to_number(value) for name, value in values if value is not None
    }


def to_number(x: Tensor) -> Tensor:
    """A mask as integers; other tensors unchanged."""
    return x.long() if x.dtype == torch.bool else x


def model_graphs(model: AnyModel, make_inputs: MakeInputs) -> list[Graph]:
    """The graphs of a model."""
    generator = model.as_generator()
    if generator is not None:
        return generator_graphs(generator, make_inputs)
    inputs, others = (make_inputs(*sizes) for sizes in (TRACED_SIZES, OTHER_SIZES))

    def answer(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        answers = model.answers(_with_tensors(inputs, tensors))
        assert answers is not None  # only generators have none
        return {ANSWERS: answers}

    return [Graph(MODEL_FILE, answer, named_inputs(inputs), named_inputs(others))]


def generator_graphs(model: AnyGenerator, make_inputs: MakeInputs) -> list[Graph]:
    """Inputs -> the state before the first token; the last token and a state -> logits and the
    next state.
    """
    inputs, others = (make_inputs(*sizes) for sizes in (TRACED_SIZES, OTHER_SIZES))

    def encode(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        state = model.start(model.encode(_with_tensors(inputs, tensors)))
        return _named_state(state, PRESENT)

    with torch.no_grad():
        like = model.start(model.encode(inputs))
    masks = {name for name, x in like.named_tensors().items() if x.dtype == torch.bool}

    def step(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        given = {name.removeprefix(PAST): x for name, x in tensors.items()}
        past = {name: x != 0 if name in masks else x for name, x in given.items()}
        logits, after = model.step(given[TOKENS], like.with_tensors(past))
        return {LOGITS: logits, **_named_state(after, PRESENT)}

    return [
        Graph(ENCODER_FILE, encode, named_inputs(inputs), named_inputs(others)),
        Graph(DECODER_FILE, step, _step_inputs(model, inputs, 1), _step_inputs(model, others, 2)),
    ]


def browser_graphs(model: AnyGenerator, make_inputs: MakeInputs) -> list[Graph]:
    """The graphs of a Transformer with the names of transformers.js.

    Its decoder takes the encoder's output, and the keys and values of earlier steps. In the first
    step there are none: `use_cache_branch` is false, and those of the source are computed.
    """
    inputs, others = (make_inputs(*sizes) for sizes in (TRACED_SIZES, OTHER_SIZES))
    with torch.no_grad():
        like = model.start(model.encode(inputs))
    sources = [name for name in like.named_tensors() if ".encoder." in name]
    targets = [name for name in like.named_tensors() if ".decoder." in name]

    def encode(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {HIDDEN: model.encode(_with_tensors(inputs, tensors)).states}

    def step(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        states, mask = tensors[ENCODER_STATES], tensors[ENCODER_MASK] != 0  # (B, S, D), (B, S)
        cached = tensors[USE_CACHE].long().sum()  # ()
        fresh = states.shape[1] * (1 - cached)
        least = fresh.clamp_min(1)  # so that no node projects an empty tensor
        computed = model.start(Memory(states[:, :least], mask[:, :least])).named_tensors()
        past = {name: _past_slots(tensors, name, cached) for name in (*sources, *targets)}
        for name in sources:
            past[name] = torch.cat([past[name], computed[name][:, :, :fresh]], dim=2)
        logits, after = model.step(tensors[TOKENS], like.with_tensors({**past, SOURCE_MASK: mask}))
        present = after.named_tensors()
        return {LOGITS: logits, **{f"{PRESENT}{name}": present[name] for name in past}}

    return [
        Graph(ENCODER_FILE, encode, named_inputs(inputs), named_inputs(others)),
        Graph(
            MERGED_FILE, step, _merged_inputs(model, inputs, 1), _merged_inputs(model, others, 2)
        ),
    ]


def _past_slots(tensors: Mapping[str, Tensor], name: str, cached: Tensor) -> Tensor:
    """Keys or values (B, H, P, K) of earlier steps; P is 0 if `cached` is 0."""
    kept = tensors[f"{PAST_KEY_VALUES}{name}"]
    return kept[:, :, : kept.shape[2] * cached]


@torch.no_grad()
def _merged_inputs(model: AnyGenerator, inputs: Any, steps: int) -> dict[str, Tensor]:
    """Inputs of the decoder of `browser_graphs` after some `steps`."""
    memory = model.encode(inputs)
    given = _step_inputs(model, inputs, steps)
    mask = given.pop(f"{PAST}{SOURCE_MASK}")
    tokens = given.pop(TOKENS)
    past = {f"{PAST_KEY_VALUES}{name.removeprefix(PAST)}": x for name, x in given.items()}
    return {
        ENCODER_MASK: mask,
        TOKENS: tokens,
        ENCODER_STATES: memory.states,
        **past,
        USE_CACHE: torch.ones(1, dtype=torch.bool),
    }


@torch.no_grad()
def _step_inputs(model: AnyGenerator, inputs: Any, steps: int) -> dict[str, Tensor]:
    """Tokens and the state after some `steps`, as inputs of a graph."""
    state = model.start(model.encode(inputs))
    rows = next(iter(state.named_tensors().values())).shape[0]
    tokens = torch.full((rows, 1), BOS)
    for _ in range(steps):
        _, state = model.step(tokens, state)
    return {TOKENS: tokens, **_named_state(state, PAST)}


def _named_state(state: ExportableState, prefix: str) -> dict[str, Tensor]:
    return {f"{prefix}{name}": to_number(x) for name, x in state.named_tensors().items()}


def _with_tensors(inputs: Any, tensors: Mapping[str, Tensor]) -> Any:
    """A copy of `inputs` with the tensors of a graph."""
    values = {}
    for field in fields(inputs):
        old = getattr(inputs, field.name)
        if old is not None:
            new = tensors[INPUT_NAMES.get(field.name, field.name)]
            values[field.name] = new != 0 if old.dtype == torch.bool else new
    return replace(inputs, **values)


def write_graphs(
    model: AnyModel, make_inputs: MakeInputs, folder: Path, *, browser: bool = False
) -> list[Path]:
    """Write the graphs of a model in float32 and return their paths.

    `browser`: with the names and in the subfolder of transformers.js, for Transformers that
    translate.
    """
    model = copy.deepcopy(model).cpu().float().eval().requires_grad_(False)
    if not browser:
        return [write_graph(model, graph, folder) for graph in model_graphs(model, make_inputs)]
    generator, place = model.as_generator(), folder / BROWSER_FOLDER
    assert generator is not None  # a translator
    place.mkdir()
    return [write_graph(model, graph, place) for graph in browser_graphs(generator, make_inputs)]


def write_graph(model: nn.Module, graph: Graph, folder: Path) -> Path:
    """Trace a graph and write it."""
    path, names = folder / graph.file, list(graph.inputs)
    with torch.no_grad():
        outputs, others = graph.compute(graph.inputs), graph.compute(graph.others)
    axes = _free_axes(graph.inputs, graph.others) | _free_axes(outputs, others)
    # With gradients on, caches are concatenated, not written to in place: see `KVCache.append`.
    with _tracing(), torch.enable_grad():
        torch.onnx.export(
            _Traced(model, graph.compute, names),
            tuple(graph.inputs.values()),
            str(path),
            input_names=names,
            output_names=list(outputs),
            dynamic_axes=axes,
            opset_version=OPSET,
            dynamo=False,  # this exporter handles loops over a length, and takes a second
        )
    return path


class _Traced(nn.Module):
    """A function of named tensors as a module with positional arguments."""

    def __init__(
        self,
        model: nn.Module,
        compute: Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]],
        names: Sequence[str],
    ) -> None:
        super().__init__()
        self.model, self.compute, self.names = model, compute, names

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.compute(dict(zip(self.names, tensors, strict=True))).values())


def _free_axes(
    some: Mapping[str, Tensor], others: Mapping[str, Tensor]
) -> dict[str, dict[int, str]]:
    """For each tensor, the axes that differ between the examples, with a name for each."""
    return {
        name: {
            axis: "batch_size" if axis == 0 else f"{name}.{axis}"
            for axis, (one, other) in enumerate(zip(x.shape, others[name].shape, strict=True))
            if one != other
        }
        for name, x in some.items()
    }


@contextmanager
def _tracing() -> Iterator[None]:
    """Registers our operators and silences the tracer, which warns of all Python values.

    What a graph computes is compared with its model afterwards.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, nodes in (("rms_norm", _rms_norm), ("unflatten", _unflatten)):
            register_custom_op_symbolic(f"aten::{name}", nodes, OPSET)
        yield


def _rms_norm(graph: Any, x: Any, shape: Any, weight: Any, epsilon: Any) -> Any:
    """The nodes of an RMS norm over the last axis, which this opset lacks."""
    given = epsilon.node()
    constant = given.kind().endswith("Constant") and given.hasAttribute("value")
    value = given.t("value") if constant else torch.tensor(FLOAT32_EPSILON)
    squares = graph.op("Mul", x, x)
    axes = graph.op("Constant", value_t=torch.tensor([-1]))
    mean = graph.op("ReduceMean", squares, axes, keepdims_i=1)
    added = graph.op("Add", mean, graph.op("Constant", value_t=value.float()))
    normed = graph.op("Div", x, graph.op("Sqrt", added))
    return graph.op("Mul", normed, weight)


def _unflatten(graph: Any, x: Any, axis: Any, sizes: Any) -> Any:
    """The node of `torch.unflatten`: the exporter's own fixes the length of dynamic axes before
    the one that is split.
    """
    try:
        number, known = _parse_arg(axis, "i"), _parse_arg(sizes, "is")
    except SymbolicValueError:  # sizes are computed in the graph
        return symbolic_opset13.unflatten(graph, x, axis, sizes)
    before = [-1 if size is None else size for size in x.type().varyingSizes()]
    number %= len(before)
    shape = [*[0] * number, *known, *before[number + 1 :]]  # 0: as in x
    if shape.count(-1) != 1:
        return symbolic_opset13.unflatten(graph, x, axis, sizes)
    return graph.op("Reshape", x, graph.op("Constant", value_t=torch.tensor(shape)))
