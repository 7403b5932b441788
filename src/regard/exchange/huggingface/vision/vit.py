"""ViT (Dosovitskiy et al. 2021)."""

from regard.errors import RunError
from regard.exchange.huggingface.config import build_settings
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
from regard.models.vision.vit import VitSettings


def _read(folder: HfFolder) -> HfModel:
    config, shared = read_shared(folder, KIND)
    config.ignore("pooler_act", "pooler_output_size")
    settings = build_settings(
        VitSettings,
        {
            **shared,
            "layers": config.get("num_hidden_layers", int),
            "width": config.get("hidden_size", int),
            "heads": config.get("num_attention_heads", int),
            "feed_forward": config.get("intermediate_size", int),
        },
        config.where,
    )
    require_classes(config, labels := read_labels(folder))
    config.finish()
    return describe(KIND, settings, labels)


def _write(settings: VitSettings, labels: tuple[str, ...]) -> HfModel:
    if settings.positions != "learned" or settings.pooling != "class":
        raise RunError(
            f"model.positions {settings.positions} and pooling {settings.pooling}: their ViT "
            "has learned positions and a class token"
        )
    return describe(KIND, settings, labels, write_preprocessor(settings))


def _sizes(settings: VitSettings) -> dict[str, int]:
    return {
        "patch_size": settings.patch,
        "num_hidden_layers": settings.layers,
        "hidden_size": settings.width,
        "num_attention_heads": settings.heads,
        "intermediate_size": settings.feed_forward or 4 * settings.width,
    }


def _table(settings: VitSettings) -> TensorTable:
    one, embeddings = TensorEntry.single, "vit.embeddings"
    patches = f"{embeddings}.patch_embeddings.projection"
    entries = [
        one("first", f"{embeddings}.cls_token", WITHOUT_BATCH),
        one("positions", f"{embeddings}.position_embeddings", WITHOUT_BATCH),
        one("patches.project.weight", f"{patches}.weight", patch_matrix(settings.patch)),
        one("patches.project.bias", f"{patches}.bias"),
    ]
    for number in range(settings.layers):
        entries += layer_entries(
            f"layers.{number}",
            f"vit.encoder.layer.{number}",
            "attention.attention",
            settings.width,
            qkv_bias=settings.qkv_bias,
        )
    entries += linear_entries("last.norm", "vit.layernorm")
    entries += linear_entries("output", "classifier")
    return TensorTable(entries)


KIND = PictureClass(
    "vit",
    "ViTForImageClassification",
    ((r"^vit\.encoder\.layer\.", "vit.layers."),),
    _sizes,
    _table,
)
VIT = KIND.family(_read, _write)
