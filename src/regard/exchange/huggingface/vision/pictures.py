"""The common parts of ViT and Swin in `transformers`: labels, picture processors, layers."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from torch import Tensor

from regard.errors import RunError
from regard.exchange.huggingface.config import ConfigReader, their_activation
from regard.exchange.huggingface.family import HfFamily, HfModel
from regard.exchange.huggingface.folder import HfFolder
from regard.exchange.huggingface.labels import label_config
from regard.exchange.tensor_table import (
    TensorChange,
    TensorEntry,
    TensorTable,
    linear_entries,
    stacked_entries,
)
from regard.json_files import dump_json
from regard.models.vision.vit import PictureModelSettings
from regard.settings import abbreviate

PREPROCESSOR = "preprocessor_config.json"
PROCESSORS = ("ViTImageProcessor", "ViTImageProcessorFast", "ViTFeatureExtractor")
"""Their classes that only scale and normalise; others also crop by default."""
_WITHOUT_EFFECT = """
    _valid_processor_keys crop_size data_format default_to_square device disable_grouping
    do_convert_rgb input_data_format pad_size processor_class return_tensors
    """
WITHOUT_EFFECT = frozenset(_WITHOUT_EFFECT.split())
"""Settings of a processor that do not change the pixels of a colour picture."""
MAX_COLOUR = 1000  # a mean or a deviation; pixels are between 0 and 1
MIN_FACTOR, MAX_FACTOR = 1e-4, 1.0  # of bytes
RESAMPLING = ("nearest", "lanczos", "bilinear", "bicubic")  # by Pillow's numbers
PEER_NAMES = (
    (r"\.attention\.(attention|self)\.(query|key|value)\.", r".attention.\2_proj."),
    (r"\.query_proj\.", ".q_proj."),
    (r"\.key_proj\.", ".k_proj."),
    (r"\.value_proj\.", ".v_proj."),
    (r"\.attention\.output\.dense\.", ".attention.o_proj."),
    (r"\.intermediate\.dense\.", ".mlp.fc1."),
    (r"\.output\.dense\.", ".mlp.fc2."),
)
"""Patterns of names in files -> names in memory in `transformers` 5; applied in this order."""


WITHOUT_BATCH = TensorChange(lambda tensor: tensor.flatten(0, 1), lambda tensor: tensor[None])
"""Theirs is (1, S, D), ours (S, D)."""
TASK = "picture-classification"


class PictureClass(NamedTuple):
    """A class of `transformers`: its names, and its own settings and tensors."""

    model_type: str
    architecture: str
    peer_names: tuple[tuple[str, str], ...]  # besides `PEER_NAMES`
    sizes: Callable[[Any], Mapping[str, Any]]  # our settings -> its own in `config.json`
    table: Callable[[Any], TensorTable]  # our settings -> its tensors

    def family(
        self, read: Callable[[HfFolder], HfModel], write: Callable[..., HfModel]
    ) -> HfFamily:
        """Its family, which has the same name here."""
        kinds = (self.model_type,)
        return HfFamily(
            self.model_type, TASK, kinds, read, write, reads_text=False, has_labels=True
        )


def read_shared(folder: HfFolder, kind: PictureClass) -> tuple[ConfigReader, dict[str, Any]]:
    """A reader of `config.json`, and our settings that all classes have."""
    config = folder.config_reader()
    config.require("architectures", ([kind.architecture],))
    config.require("num_channels", (3,), default=3)
    config.ignore("encoder_stride", "attention_probs_dropout_prob")
    size = config.square("image_size")
    return config, {
        "picture_size": size,
        "patch": config.square("patch_size"),
        "activation": config.activation("hidden_act"),
        "norm_epsilon": config.get("layer_norm_eps", float),
        "qkv_bias": config.get("qkv_bias", bool, True),
        "dropout": config.get("hidden_dropout_prob", float, 0.0),
        **read_preprocessor(folder, size),
    }


def describe(
    kind: PictureClass,
    settings: PictureModelSettings,
    labels: tuple[str, ...],
    files: Mapping[str, bytes] | None = None,
) -> HfModel:
    """The model in the terms of `transformers` and in ours."""
    config = {
        "model_type": kind.model_type,
        "architectures": [kind.architecture],
        "image_size": settings.picture_size,
        "num_channels": 3,
        **kind.sizes(settings),
        "hidden_act": their_activation(settings.activation),
        "layer_norm_eps": settings.norm_epsilon,
        "qkv_bias": settings.qkv_bias,
        "hidden_dropout_prob": settings.dropout,
        "attention_probs_dropout_prob": settings.dropout,
        **label_config(labels),
    }
    return HfModel(
        kind.architecture,
        config,
        settings,
        kind.table(settings),
        recipe={"task": TASK, "corpus": {"imported": True}},
        labels=labels,
        files=files or {},
        peer_names=PEER_NAMES + kind.peer_names,
    )


def read_preprocessor(folder: HfFolder, picture_size: int) -> dict[str, Any]:
    """Our settings for scaling and normalising pictures like a folder's processor."""
    raw = folder.read_object(PREPROCESSOR)
    if raw is None:
        raise RunError(
            f"{folder.path}: holds no {PREPROCESSOR}, which says how pictures are scaled for its "
            "model; save it with the model (AutoImageProcessor … .save_pretrained)"
        )
    where = str(folder.path / PREPROCESSOR)
    config = ConfigReader(raw, where)
    for name in ("image_processor_type", "feature_extractor_type"):
        config.require(name, (None, *PROCESSORS))
    config.require("do_pad", (False, None), default=False)
    config.ignore(*WITHOUT_EFFECT, *(name for name, value in raw.items() if value is None))
    config.get("do_resize", bool, True)  # if not, theirs computes pictures of the right size only
    rescales, factor = (
        config.get("do_rescale", bool, True),
        config.get("rescale_factor", float, 1 / 255),
    )
    if not MIN_FACTOR <= factor <= MAX_FACTOR:
        raise config.refusal("rescale_factor", f"it must be from {MIN_FACTOR} to {MAX_FACTOR}")
    levels = round(255 * factor, 6) if rescales else 255.0  # what the brightest pixel becomes
    sizes = (picture_size, {"height": picture_size, "width": picture_size})
    config.require("size", sizes)
    if config.get("do_center_crop", bool, False):
        config.require("crop_size", sizes)
    resample = config.get("resample", int)
    if not 0 <= resample < len(RESAMPLING):
        raise config.refusal("resample", f"supported are 0 to {len(RESAMPLING) - 1}")
    normalizes = config.get("do_normalize", bool, True)
    config.ignore("image_mean", "image_std")
    config.finish()
    mean, deviation = (
        _colour(raw.get(name), name, where) if normalizes else [value] * 3
        for name, value in (("image_mean", 0.0), ("image_std", 1.0))
    )
    return {
        "pixel_mean": [one / levels for one in mean],
        "pixel_deviation": [one / levels for one in deviation],
        "framing": "stretch",
        "resampling": RESAMPLING[resample],
    }


def write_preprocessor(settings: PictureModelSettings) -> dict[str, bytes]:
    """The file `preprocessor_config.json` for our settings."""
    if settings.framing != "stretch":
        raise RunError(
            f"model.framing: {settings.framing}: the image processors of transformers change "
            "the aspect ratio of pictures, so that the pixels would differ"
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
    fits = (isinstance(x, int | float) and abs(x) <= MAX_COLOUR for x in numbers)
    if len(numbers) != 3 or not all(fits):
        raise RunError(
            f"{where}: {name} is {abbreviate(repr(value))}: three numbers up to {MAX_COLOUR:,} are "
            "needed"
        )
    return [float(x) for x in numbers]


def patch_matrix(patch: int) -> TensorChange:
    """Theirs is a convolution (D, 3, patch, patch), ours a matrix (D, 3 patch²)."""

    def to_theirs(tensor: Tensor) -> Tensor:
        return tensor.view(len(tensor), 3, patch, patch)

    return TensorChange(_flat_rows, to_theirs)


def _flat_rows(tensor: Tensor) -> Tensor:
    return tensor.flatten(1)


def layer_entries(
    ours: str, theirs: str, projections: str, width: int, *, qkv_bias: bool
) -> Iterator[TensorEntry]:
    """A layer's attention, feed-forward and norms; `projections` is where theirs has q, k and v."""
    names = [f"{theirs}.{projections}.{one}" for one in ("query", "key", "value")]
    yield from stacked_entries(f"{ours}.own.project", names, width, bias=qkv_bias)
    yield from linear_entries(f"{ours}.own.out", f"{theirs}.attention.output.dense")
    yield from linear_entries(f"{ours}.around_own.norm", f"{theirs}.layernorm_before")
    yield from linear_entries(f"{ours}.feed.inner", f"{theirs}.intermediate.dense")
    yield from linear_entries(f"{ours}.feed.outer", f"{theirs}.output.dense")
    yield from linear_entries(f"{ours}.around_feed.norm", f"{theirs}.layernorm_after")
