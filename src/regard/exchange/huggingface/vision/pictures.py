"""What ViT and Swin have in common in `transformers`: labels, how pictures are read, layers."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from regard.errors import RunError
from regard.exchange.huggingface.config import ConfigReader
from regard.exchange.huggingface.folder import HfFolder
from regard.exchange.tensor_table import StackedPart, TensorChange, TensorEntry
from regard.json_files import dump_json
from regard.models.vision.vit import PictureModelSettings
from regard.settings import abbreviate

PREPROCESSOR = "preprocessor_config.json"
RESAMPLING = ("nearest", "lanczos", "bilinear", "bicubic")  # by Pillow's numbers
MAX_LABELS = 100_000
PEER_NAMES = (
    (r"\.attention\.(attention|self)\.(query|key|value)\.", r".attention.\2_proj."),
    (r"\.query_proj\.", ".q_proj."),
    (r"\.key_proj\.", ".k_proj."),
    (r"\.value_proj\.", ".v_proj."),
    (r"\.attention\.output\.dense\.", ".attention.o_proj."),
    (r"\.intermediate\.dense\.", ".mlp.fc1."),
    (r"\.output\.dense\.", ".mlp.fc2."),
)
"""Names in files -> those that `transformers` 5 has in memory, by patterns, in this order."""


def picture_groups() -> dict[str, Any]:
    """The groups of a recipe beside `model`."""
    return {"task": "picture-classification", "corpus": {"imported": True}}


def read_labels(folder: HfFolder) -> tuple[str, ...]:
    """The label of each class; those that are there twice get their number."""
    names = folder.config.get("id2label", {"0": "LABEL_0", "1": "LABEL_1"})  # as of no labels
    expected = [str(number) for number in range(len(names))] if isinstance(names, dict) else []
    if not 0 < len(expected) <= MAX_LABELS or names.keys() != {*expected}:
        raise RunError(f"{folder.path / 'config.json'}: id2label does not number labels from 0 on")
    found = [str(names[number]) for number in expected]
    counts = Counter(found)
    return tuple(
        name if counts[name] == 1 else f"{name} ({number})" for number, name in enumerate(found)
    )


def label_config(labels: tuple[str, ...]) -> dict[str, Any]:
    """The settings of `config.json` that name the classes."""
    numbered = {str(number): label for number, label in enumerate(labels)}
    return {"id2label": numbered, "label2id": {label: int(n) for n, label in numbered.items()}}


def read_preprocessor(folder: HfFolder, picture_size: int) -> dict[str, Any]:
    """Our settings of how pictures are scaled and normalised, which must be those of a folder."""
    raw = folder.read_object(PREPROCESSOR)
    if raw is None:
        raise RunError(
            f"{folder.path}: holds no {PREPROCESSOR}, which says how pictures are scaled for its "
            "model; save it beside the model (AutoImageProcessor … .save_pretrained)"
        )
    where = str(folder.path / PREPROCESSOR)
    config = ConfigReader(raw, where)
    config.require("do_resize", (True,), default=True)
    config.require("do_rescale", (True,), default=True)
    config.require("do_center_crop", (False, None), default=False)
    if abs(config.get("rescale_factor", float, 1 / 255) * 255 - 1) > 1e-6:
        raise config.refusal("rescale_factor", "only 1/255 can be imported")
    sizes = (picture_size, {"height": picture_size, "width": picture_size})
    config.require("size", sizes)
    resample = config.get("resample", int)
    if not 0 <= resample < len(RESAMPLING):
        raise config.refusal("resample", f"known are 0 to {len(RESAMPLING) - 1}")
    normalizes = config.get("do_normalize", bool, True)
    mean, deviation = (
        _colour(raw.get(name), name, where) if normalizes else [value] * 3
        for name, value in (("image_mean", 0.0), ("image_std", 1.0))
    )
    return {
        "pixel_mean": mean,
        "pixel_deviation": deviation,
        "framing": "stretch",
        "resampling": RESAMPLING[resample],
    }


def write_preprocessor(settings: PictureModelSettings) -> dict[str, bytes]:
    """The file `preprocessor_config.json` for our settings."""
    if settings.framing != "stretch":
        raise RunError(
            f"model.framing: {settings.framing}: the image processors of transformers squeeze "
            "pictures, so that they would read other pixels"
        )
    size = settings.picture_size
    content = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": size, "width": size},
        "resample": RESAMPLING.index(settings.resampling),
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(settings.pixel_mean),
        "image_std": list(settings.pixel_deviation),
    }
    return {PREPROCESSOR: f"{dump_json(content, indent=2)}\n".encode()}


def _colour(value: object, name: str, where: str) -> list[float]:
    numbers = value if isinstance(value, list) else []
    if len(numbers) != 3 or not all(isinstance(x, int | float) for x in numbers):
        raise RunError(f"{where}: {name} is {abbreviate(repr(value))}: three numbers are needed")
    return [float(x) for x in numbers]


def patch_matrix(patch: int) -> TensorChange:
    """A convolution (D, 3, size, size), and ours: a matrix (D, 3 size²)."""

    def to_theirs(tensor: Tensor) -> Tensor:
        return tensor.view(len(tensor), 3, patch, patch)

    return TensorChange(_flat_rows, to_theirs)


def _flat_rows(tensor: Tensor) -> Tensor:
    return tensor.flatten(1)


def linear_entries(ours: str, theirs: str, *, bias: bool = True) -> Iterator[TensorEntry]:
    """Weight and bias of a linear layer or a norm."""
    for part in ("weight", "bias") if bias else ("weight",):
        yield TensorEntry.single(f"{ours}.{part}", f"{theirs}.{part}")


def layer_entries(
    ours: str, theirs: str, projections: str, width: int, *, qkv_bias: bool
) -> Iterator[TensorEntry]:
    """A layer's attention, feed-forward and norms; `projections` is the name before theirs."""
    for part in ("weight", "bias") if qkv_bias else ("weight",):
        names = (f"{theirs}.{projections}.{one}.{part}" for one in ("query", "key", "value"))
        parts = tuple(StackedPart(name, width) for name in names)
        yield TensorEntry(f"{ours}.own.project.{part}", parts)
    yield from linear_entries(f"{ours}.own.out", f"{theirs}.attention.output.dense")
    yield from linear_entries(f"{ours}.around_own.norm", f"{theirs}.layernorm_before")
    yield from linear_entries(f"{ours}.feed.inner", f"{theirs}.intermediate.dense")
    yield from linear_entries(f"{ours}.feed.outer", f"{theirs}.output.dense")
    yield from linear_entries(f"{ours}.around_feed.norm", f"{theirs}.layernorm_after")
