"""Tiny recipes of every language model."""

from regard.recipes.recipe_files import make_recipe

TEXT = "".join(f"the cat {n % 7} sat on the mat {n % 3} .\n" for n in range(60))
TRAINING = {
    "steps": 12,
    "batch_size": 3,
    "window": 8,
    "precision": "float32",
    "schedule": {"shape": "constant", "warmup": 0},
    "validation": {"every": 4},
    "save_every": 5,
    "log_every": 4,
}
SGD = {"kind": "sgd", "learning_rate": 5.0, "clip_norm": 0.25}
RECIPES = {
    "gpt": {
        "task": "language-model",
        "text": {"kind": "characters", "size": 0},
        "model": {"family": "gpt", "layers": 1, "width": 8, "heads": 2, "context": 8},
        "training": TRAINING,
    },
    "awd-lstm": {
        "task": "language-model",
        "text": {"kind": "whitespace", "size": 0},
        "model": {"family": "awd-lstm", "layers": 2, "width": 6, "units": 8},
        "training": TRAINING
        | {"optimizer": SGD, "vary_window": True, "nonmonotone_average": 1, "batch_size": 2},
    },
    "bert": {
        "task": "masked-language-model",
        "text": {"kind": "words", "size": 0},
        "model": {"family": "bert", "layers": 1, "width": 8, "heads": 2, "context": 16},
        "training": TRAINING | {"window": 12, "fixed_masks": 2},
    },
    "roberta": {
        "task": "masked-language-model",
        "text": {"kind": "characters", "size": 0},
        "model": {"family": "roberta", "layers": 1, "width": 8, "heads": 2, "context": 16},
        "training": TRAINING | {"window": None, "whole_words": True},
    },
    "elmo": {
        "task": "bidirectional-language-model",
        "text": {"kind": "whitespace", "size": 0},
        "model": {
            "family": "elmo",
            "width": 6,
            "units": 8,
            "character_width": 4,
            "filters": [[1, 3], [2, 4]],
            "max_characters": 8,
        },
        "training": TRAINING,
    },
}


def language_recipe(name, tmp_path, **changed):
    """A recipe of a family, on a text in `tmp_path`."""
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    corpus = {"train": str(text), "test_share": 0.1, "documents": "line"}
    raw = {"name": name, "corpus": corpus, **RECIPES[name], **changed}
    return make_recipe(raw, [], where="test")
