"""Swin (Liu et al. 2021), which has a table of relative biases in each layer."""

from typing import Any

from regard.errors import RunError
from regard.exchange.huggingface.config import ConfigReader, build_settings
from regard.exchange.huggingface.family import HfModel
from regard.exchange.huggingface.folder import HfFolder
from regard.exchange.huggingface.labels import read_labels, require_classes
from regard.exchange.huggingface.vision.pictures import (
    WITHOUT_BATCH,
    PictureClass,
    describe,
    layer_entries,
    patch_matrix,
    read_shared,
    write_preprocessor,
)
from regard.exchange.tensor_table import TensorEntry, TensorTable, linear_entries
from regard.models.vision.swin import SwinSettings

BIAS_TABLE = "relative_position_bias_table"
BIAS_NAMES = ((rf"\.self\.{BIAS_TABLE}$", f".relative_position_bias.{BIAS_TABLE}"),)
UNUSED = (r".*\.relative_position_index",)  # a constant in older files: the row of each distance


def _read(folder: HfFolder) -> HfModel:
    config, shared = read_shared(folder, KIND)
    config.ignore("hidden_size", "num_layers", "path_norm")
    config.ignore("out_features", "out_indices", "stage_names")
    settings = build_settings(
        SwinSettings,
        {
            **shared,
            "window": config.get("window_size", int),
            "width": config.get("embed_dim", int),
            "stages": config.numbers("depths"),
            "heads": config.numbers("num_heads"),
            "absolute": config.get("use_absolute_embeddings", bool, False),
            "expansion": config.get("mlp_ratio", float),
            "drop_path": config.get("drop_path_rate", float, 0.0),
        },
        config.where,
    )
    require_classes(config, labels := read_labels(folder))
    config.finish()
    _check(settings, config)
    return describe(KIND, settings, labels)


def _check(settings: SwinSettings, config: ConfigReader) -> None:
    """Refuse settings that their library computes differently, or not at all."""
    coarsest = _last_side(settings)
    if coarsest < settings.window:
        raise config.refusal("window_size", f"the last stage has only {coarsest} patches a side")
    for number in range(len(settings.stages)):
        width = settings.width << number
        if int(settings.expansion * width) != round(settings.expansion * width):
            raise config.refusal("mlp_ratio", f"times {width} it is not a whole number")


def _last_side(settings: SwinSettings) -> int:
    """Patches along a side in the last stage."""
    return settings.picture_size // (settings.patch << (len(settings.stages) - 1))


def _write(settings: SwinSettings, labels: tuple[str, ...]) -> HfModel:
    coarsest = _last_side(settings)
    if coarsest < settings.window:
        raise RunError(
            f"model.window {settings.window}: the last stage has {coarsest} patches a side, and "
            "transformers has tables of biases for whole windows"
        )
    return describe(KIND, settings, labels, write_preprocessor(settings))


def _sizes(settings: SwinSettings) -> dict[str, Any]:
    return {
        "patch_size": settings.patch,
        "window_size": settings.window,
        "embed_dim": settings.width,
        "depths": list(settings.stages),
        "num_heads": list(settings.heads),
        "mlp_ratio": settings.expansion,
        "use_absolute_embeddings": settings.absolute,
        "drop_path_rate": settings.drop_path,
    }


def _table(settings: SwinSettings) -> TensorTable:
    patches, encoder = "swin.embeddings.patch_embeddings.projection", "swin.encoder.layers"
    entries = [
        TensorEntry.single(
            "patches.project.weight", f"{patches}.weight", patch_matrix(settings.patch)
        ),
        TensorEntry.single("patches.project.bias", f"{patches}.bias"),
        *linear_entries("norm", "swin.embeddings.norm"),
    ]
    if settings.absolute:
        name = "swin.embeddings.position_embeddings"
        entries.append(TensorEntry.single("positions", name, WITHOUT_BATCH))
    for stage, layers in enumerate(settings.stages):
        for number in range(layers):
            ours, theirs = f"stages.{stage}.{number}", f"{encoder}.{stage}.blocks.{number}"
            width, bias = settings.width << stage, settings.qkv_bias
            entries += layer_entries(ours, theirs, "attention.self", width, qkv_bias=bias)
            table = f"{theirs}.attention.self.{BIAS_TABLE}"
            entries.append(TensorEntry.single(f"{ours}.relative.table", table))
        if stage + 1 < len(settings.stages):
            merger = f"{encoder}.{stage}.downsample"
            entries += linear_entries(f"mergers.{stage}.norm", f"{merger}.norm")
            reduction = f"{merger}.reduction"
            entries += linear_entries(f"mergers.{stage}.reduce", reduction, bias=False)
    entries += linear_entries("last.norm", "swin.layernorm")
    entries += linear_entries("output", "classifier")
    return TensorTable(entries, unused=UNUSED)


KIND = PictureClass("swin", "SwinForImageClassification", BIAS_NAMES, _sizes, _table)
SWIN = KIND.family(_read, _write)
