"""Folders of pictures, and a classifier of them so small that it trains in seconds."""

from PIL import Image

from forecasts import train_recipe
from regard.recipes.recipe_files import make_recipe
from regard.tasks.captions.squares import draw

RAW = {
    "task": "picture-classification",
    "name": "tiny",
    "about": "Some shapes.",
    "model": {
        "family": "vit",
        "picture_size": 16,
        "patch": 4,
        "layers": 2,
        "width": 16,
        "heads": 2,
        "drop_path": 0.1,
    },
    "training": {
        "steps": 20,
        "batch_size": 8,
        "optimizer": {"learning_rate": 1e-2},
        "schedule": {"warmup": 5},
        "validation": {"every": 10},
        "augmentation": {
            "crop_padding": 2, "flip": True, "operations": 1, "erasing": 0.25, "mixup": 0.8,
            "cutmix": 1.0, "mix_share": 0.5,
        },
        "label_smoothing": 0.1,
        "moving_average": 0.9,
        "log_every": 10,
        "save_every": 5,
    },
}  # fmt: skip
SWIN = "model={family: swin, picture_size: 16, patch: 2, width: 8, stages: [2, 1], heads: [2, 2]}"
COLOURS = ("red", "blue", "green")


def save_shape(path, colour, seed=0):
    """A picture of two shapes of a colour, 48 × 48, in a file, which it gives back."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(draw((colour, "square"), (colour, "ring"), seed)).save(path)
    return path


def picture_folders(folder, count=10, colours=COLOURS):
    """A folder of classes, with `count` pictures each, which it gives back."""
    for colour in colours:
        for seed in range(count):
            save_shape(folder / colour / f"{seed}.png", colour, seed)
    return folder


def picture_recipe(folder, *overrides):
    raw = {**RAW, "corpus": {"train": str(folder), "valid_share": 0.2, "test_share": 0.2}}
    return make_recipe(raw, overrides, where="tiny")


def train_picture_classifier(path, folder, *overrides, reporter=None):
    """Train and finish a run in `path` on the classes of a `folder`, and give it back."""
    return train_recipe(picture_recipe(folder, *overrides), path, reporter=reporter)
