"""A captioner so small that it trains in seconds, to try the rest of the package on."""

from PIL import Image

from forecasts import train_recipe
from regard.recipes.recipe_files import make_recipe
from regard.tasks.captions.squares import draw

RAW = {
    "task": "caption",
    "name": "tiny",
    "about": "Some shapes.",
    "corpus": {"name": "squares", "generated": {"train": 60, "valid": 12, "test": 10}},
    "text": {"kind": "whitespace", "size": 0},
    "model": {
        "family": "show-attend-tell",
        "encoder": {"kind": "cnn", "picture_size": 24, "width": 16, "layers": 2},
        "width": 16,
        "embedding": 16,
        "alignment": 8,
        "dropout": 0.1,
    },
    "training": {
        "steps": 30,
        "batch_captions": 8,
        "optimizer": {"learning_rate": 1e-2},
        "schedule": {"warmup": 5},
        "validation": {"every": 10, "by": "loss", "pictures": 4},
        "log_every": 10,
        "save_every": 5,
    },
    "decoding": {"beam": {"size": 2}, "rules": {"max_length": 12}},
}
TRANSFORMER = (
    "model={family: caption-transformer, encoder: {kind: cnn, picture_size: 24, width: 16, "
    "layers: 2}, transformer: {encoder_layers: 1, decoder_layers: 2, width: 16, heads: 2, "
    "feed_forward: 16, embeddings: target}}"
)


def caption_recipe(*overrides):
    return make_recipe(RAW, overrides, where="tiny")


def train_captioner(path, *overrides, reporter=None):
    """Train and finish a run in `path`, which it gives back."""
    return train_recipe(caption_recipe(*overrides), path, reporter=reporter)


def save_picture(path, seed=3):
    """A red square beside a blue ring in a file, which it gives back."""
    Image.fromarray(draw(("red", "square"), ("blue", "ring"), seed)).save(path)
    return path
